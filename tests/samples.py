"""Minimal well-shaped values of any declared type, for tests that are generated from the registry."""

import re
from enum import EnumMeta
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import inspect

from beamwright.kernel.operation import Operation

# Something for every pattern that a field asks for.
TEXTS = ("x", "X", "1", "beamwright.capability.x", "10.1234/x", "https://x", "H200", "--x", "0" * 64)


def sample(type: Any) -> Any:
    """Some JSON value of this type."""
    return sample_of(inspect.type_info(type))


def sample_of(info: inspect.Type) -> Any:
    match info:
        case inspect.Metadata(extra_json_schema={"pattern": pattern}):
            return next(text for text in TEXTS if re.search(pattern, text))
        case inspect.Metadata(extra_json_schema={"enum": values}):
            return values[0]
        case inspect.Metadata(
            type=inspect.FrozenSetType(item_type=item) | inspect.VarTupleType(item_type=item),
            extra_json_schema={"minItems": least},
        ):
            return [sample_of(item) for _ in range(least)]
        case inspect.Metadata(
            type=inspect.DictType(value_type=value), extra_json_schema={"minProperties": least}
        ):
            return {f"x{number}": sample_of(value) for number in range(least)}
        case inspect.Metadata(type=inner) | inspect.CustomType(cls=inner):
            return sample_of(inner) if isinstance(inner, inspect.Type) else None
        case inspect.UUIDType():
            return str(uuid4())
        case inspect.StrType():
            return "x" * max(info.min_length or 1, 1)
        case inspect.IntType():
            return info.ge if info.ge is not None else 1
        case inspect.FloatType():
            return info.ge if info.ge is not None else 1.0
        case inspect.BoolType():
            return True
        case inspect.DateTimeType():
            return "2026-01-01T00:00:00Z"
        case inspect.EnumType(cls=cls):
            assert isinstance(cls, EnumMeta)
            return next(iter(cls)).value
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.UnionType(types=types):
            return sample_of(next(t for t in types if not isinstance(t, inspect.NoneType)))
        case inspect.DictType():
            return {}
        case inspect.StructType(fields=fields):
            tag = {info.tag_field: info.tag} if info.tag_field else {}
            return tag | {field.encode_name: sample_of(field.type) for field in fields if field.required}
        case _:
            return []


def minimal(operation: Operation) -> dict[str, Any]:
    """The required fields of a request, as JSON."""
    fields = msgspec.structs.fields(operation.request)
    return {field.encode_name: sample(field.type) for field in fields if field.required}
