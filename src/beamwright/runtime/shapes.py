"""Requests that do not have the shape their operation declares."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from beamwright.kernel.errors import ShapeError
from beamwright.kernel.operation import Operation
from beamwright.kernel.problem import Fault

JSON_NAMES = {"NoneType": "null", "dict": "object", "list": "array"}


def shape_error(
    operation: Operation, given: Mapping[str, Any], error: Exception, *, strict: bool
) -> ShapeError:
    """Every field is tried on its own, so that one answer names all that is wrong."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(operation.request)}
    faults = [Fault(path=f"$.{name}", message="unknown field") for name in given if name not in fields]
    for name, field in fields.items():
        if name not in given:
            if field.required:
                faults.append(Fault(path=f"$.{name}", message="required field is missing"))
            continue
        try:
            msgspec.convert(given[name], field.type, strict=strict)
        except msgspec.ValidationError as fault:
            message, _, place = str(fault).partition(" - at `$")
            faults.append(Fault(path=f"$.{name}{place.removesuffix('`')}", message=_in_json(message)))
    faults = faults or [Fault(path="$", message=str(error))]
    places = ", ".join(fault.path for fault in faults)
    return ShapeError(f"The request does not fit {operation.name}; see faults at {places}.", faults=faults)


def _in_json(message: str) -> str:
    """Of the field that tells kinds apart, the decoder names what it got as Python does."""
    told, got, rest = message.partition("got `")
    given = rest.removesuffix("`")
    return f"{told}{got}{JSON_NAMES.get(given, given)}`" if got else message


def strange_times(operation: Operation, places: Sequence[str]) -> ShapeError:
    """Times that no clock of ours will ever show, and no database takes."""
    faults = [
        Fault(path=place, message="the time lies beyond the years 1 to 9999 in UTC") for place in places
    ]
    where = ", ".join(places)
    return ShapeError(f"The request does not fit {operation.name}; see faults at {where}.", faults=faults)
