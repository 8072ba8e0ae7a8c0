"""What a facility file may say: its shape, its published JSON Schema, and faults in plain words."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Annotated, Any, Literal, cast

import msgspec
from jsonschema_rs import Draft202012Validator, ValidationError, Validator
from msgspec import UNSET, Meta, UnsetType

from beamwright.contexts.enclosure.enclosure import PermitSource
from beamwright.contexts.equipment.asset import AssetTier
from beamwright.contexts.equipment.asset_values import AlternateIdentifier, AssetOwner, AssetPort
from beamwright.contexts.equipment.partition_rule import PartitionRule
from beamwright.contexts.equipment.values import Affordance, Drawing, Manufacturer, Short
from beamwright.contexts.federation.facility import FacilityCode, FacilityKind
from beamwright.contexts.supply.supply import StatusSource, SupplyKind
from beamwright.kernel.declared_schema import DIALECT, Schema
from beamwright.kernel.text import Name
from beamwright.kernel.value import Value

from .document import Fault, FaultyFileError, Node, Place, fault, near, parse, plain

SCHEMA_ID = "urn:beamwright:facility-file:1"

type Names = list[Name]
type AssetPath = Annotated[
    str,
    Meta(
        description="Names from the root down, joined by `/`; or the last ones, as many as make it unique. A `/`"
        " within a name is written `\\/`.",
        extra_json_schema={"minLength": 1},
    ),
]


class FacilityEntry(Value, forbid_unknown_fields=True):
    """The facility that everything in the file belongs to; it is registered when it does not exist."""

    code: FacilityCode
    display_name: Name | UnsetType = UNSET
    kind: Annotated[
        FacilityKind | UnsetType, Meta(description="`Area` when a parent is given, else `Site`.")
    ] = UNSET
    parent: Annotated[FacilityCode | UnsetType, Meta(description="Code of the Site or Area above it.")] = (
        UNSET
    )


class FamilyEntry(Value, forbid_unknown_fields=True):
    """A device family of the installation's own; the starter families need not be listed."""

    name: Name
    affordances: list[Affordance]
    settings_schema: Schema | UnsetType = UNSET
    roles: Annotated[Names | UnsetType, Meta(description="Names of the roles it presents.")] = UNSET


class ModelEntry(Value, forbid_unknown_fields=True):
    """A vendor's catalogue entry, found again by manufacturer and part number."""

    key: Annotated[Short, Meta(description="What the assets of this file call the model.")]
    name: Name
    manufacturer: Manufacturer
    part_number: Short
    families: Annotated[Names, Meta(min_length=1, description="Names of the families it fulfils.")]


class EnclosureEntry(Value, forbid_unknown_fields=True):
    """An interlocked volume, found again by name."""

    name: Name
    permit_source: PermitSource | UnsetType | None = UNSET


class AssetEntry(Value, forbid_unknown_fields=True):
    """A piece of equipment and what is below it, found again by the path of names.

    Of an asset that exists, a key that is left out is left alone; a list that is given is made so as a whole;
    settings that are given are merged, and null deletes one.
    """

    name: Annotated[Name, Meta(description="One word of the domain for its role; no vendor, no address.")]
    tier: AssetTier
    families: Annotated[Names | UnsetType, Meta(description="Names of families.")] = UNSET
    model: Annotated[Short | UnsetType | None, Meta(description="Key of one of the file's models.")] = UNSET
    settings: Annotated[
        dict[str, Any] | UnsetType, Meta(description="In the units that the families declare.")
    ] = UNSET
    ports: list[AssetPort] | UnsetType = UNSET
    owners: list[AssetOwner] | UnsetType = UNSET
    alternate_identifiers: list[AlternateIdentifier] | UnsetType = UNSET
    drawing: Drawing | UnsetType | None = UNSET
    controller: AssetPath | UnsetType | None = UNSET
    enclosure: Annotated[Name | UnsetType | None, Meta(description="Name of an enclosure.")] = UNSET
    partition_rule: PartitionRule | UnsetType | None = UNSET
    lifecycle: Annotated[
        Literal["Commissioned", "Active"] | UnsetType,
        Meta(description="`Active` for whatever has a family, unless said otherwise."),
    ] = UNSET
    children: "list[AssetEntry]" = []


class SupplyEntry(Value, forbid_unknown_fields=True):
    """A resource that work depends on, found again by kind, name and place."""

    kind: SupplyKind
    name: Name
    within: Annotated[
        AssetPath | UnsetType, Meta(description="The asset that it serves; left out, the whole facility.")
    ] = UNSET
    status_source: StatusSource | UnsetType | None = UNSET


class FacilityFile(Value, forbid_unknown_fields=True):
    """A facility: its enclosures, equipment and supplies, and the families and models that these need."""

    beamwright: Annotated[Literal[1], Meta(description="Version of this format.")]
    facility: FacilityEntry
    families: list[FamilyEntry] = []
    models: list[ModelEntry] = []
    enclosures: list[EnclosureEntry] = []
    assets: list[AssetEntry] = []
    supplies: list[SupplyEntry] = []


def schema() -> dict[str, Any]:
    """The published JSON Schema; every object is closed, so that a mistyped key is found."""
    made = msgspec.json.schema(FacilityFile)
    for definition in cast(dict[str, dict[str, Any]], made["$defs"]).values():
        if "properties" in definition:
            definition["additionalProperties"] = False
    return {"$schema": DIALECT, "$id": SCHEMA_ID, "title": "Beamwright facility file", **made}


def read_file(content: bytes) -> tuple[Node, FacilityFile]:
    """The file as values and with its lines, or everything that is wrong with its shape."""
    root = parse(content)
    data = plain(root)
    if found := list(_faults(root, data)):
        raise FaultyFileError(found)
    try:
        return root, msgspec.convert(data, FacilityFile)
    except msgspec.ValidationError as error:
        # What a type demands beyond its schema, such as the form of an id.
        message, _, at = str(error).partition(" - at `$")
        place = tuple(int(step) if step.isdigit() else step for step in re.findall(r"\w+", at))
        raise FaultyFileError([fault(root, place, f"{message}.")]) from None


@cache
def _validator() -> Validator:
    return Draft202012Validator(schema(), offline=True)


def _faults(root: Node, data: Any) -> Iterator[Fault]:
    for error in _validator().iter_errors(data):
        for told in _meant(error):
            yield from _told(root, told)


def _meant(error: ValidationError) -> Sequence[ValidationError]:
    """The errors of the branch that was meant, where one of several had to fit."""
    if error.kind.name != "anyOf":
        return [error]
    branches: list[list[ValidationError]] = cast(Any, error.kind).context
    # Null is what nobody means, and a union's members differ by their `kind`.
    meant = [branch for branch in branches if not any(_other_kind(each) for each in branch)]
    if len(meant) != 1:
        return [error]
    return [told for each in meant[0] for told in _meant(each)]


def _other_kind(error: ValidationError) -> bool:
    kind: Any = error.kind
    if error.kind.name == "type":
        return kind.types == ["null"]
    return error.kind.name == "enum" and error.instance_path[-1:] == ["kind"]


def _told(root: Node, error: ValidationError) -> Iterator[Fault]:
    place: Place = tuple(error.instance_path)
    kind: Any = error.kind
    match error.kind.name:
        case "additionalProperties":
            for key in kind.unexpected:
                hint = near(key, _declared(error))
                yield fault(root, (*place, key), f"There is no key “{key}” here.{hint}")
        case "required":
            yield fault(root, place, f"“{kind.property}” is missing.")
        case "type":
            yield fault(root, place, f"This must be {_types(kind.types)}, not {_said(error.instance)}.")
        case "enum":
            options = [str(option) for option in kind.options]
            message = f"{_said(error.instance)} is none of {', '.join(options)}."
            yield fault(root, place, message + near(str(error.instance), options))
        case "minLength" | "minItems":
            yield fault(root, place, "This must not be empty.")
        case "maxLength":
            yield fault(root, place, f"This has more than {kind.limit} characters.")
        case "pattern":
            yield fault(root, place, f"{_said(error.instance)} must match {kind.pattern}.")
        case "anyOf":
            yield fault(root, place, f"{_said(error.instance)} has none of the forms that this can have.")
        case _:
            yield fault(root, place, f"{error.message[:200]}.")


def _declared(error: ValidationError) -> list[str]:
    """The keys that are known where an unknown one stands; only definitions are closed."""
    steps = list(error.schema_path)
    name = steps[-2] if len(steps) > 1 else FacilityFile.__name__
    return sorted(schema()["$defs"][name]["properties"])


_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list",
    "object": "a mapping of keys",
    "boolean": "true or false",
    "null": "nothing",
}


def _types(names: Sequence[str]) -> str:
    return " or ".join(_WORDS[name] for name in names)


def _said(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case str():
            return f"“{value[:60]}”"
        case dict():
            return "a mapping of keys"
        case list():
            return "a list"
        case _:
            return msgspec.json.encode(value).decode()[:60]
