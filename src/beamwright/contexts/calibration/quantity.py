"""CalibrationQuantity: what can be calibrated, and the schemas that its calibrations obey."""

from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.declared_schema import Schema, checked_schema, types, unit_changes
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, Value, replace

CODE = "^[a-z][a-z0-9_]{0,49}$"
CODE_CLAIM = "calibration-quantity"

type QuantityCode = Annotated[str, Meta(extra_json_schema={"pattern": CODE})]
type MemberName = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 100})]


class CalibrationQuantityStatus(StrEnum):
    DEFINED = "Defined"
    VERSIONED = "Versioned"
    DEPRECATED = "Deprecated"


class CalibrationQuantityNotFoundError(NotFoundError):
    """There is no such calibration quantity."""


class InvalidCalibrationQuantityCodeError(InvalidError):
    """The quantity's code is malformed."""


class InvalidCalibrationQuantityTitleError(InvalidError):
    """The quantity's title is blank or too long."""


class InvalidCalibrationQuantityDescriptionError(InvalidError):
    """The quantity's description is blank or too long."""


class InvalidCalibrationQuantitySchemaError(InvalidError):
    """A schema is not acceptable, is open, or lacks a member that the lookup names."""


class InvalidCalibrationQuantityReasonError(InvalidError):
    """The reason is blank or too long."""


class CalibrationQuantityAlreadyExistsError(ConflictError):
    """The code names another quantity."""


class CalibrationQuantityUnitChangedError(ConflictError):
    """A member of a schema would change its unit; define another quantity instead."""


class CalibrationQuantityCannotVersionError(CannotTransitionError):
    """A deprecated quantity is not versioned any more."""


class CalibrationQuantityCannotDeprecateError(CannotTransitionError):
    """The quantity is deprecated already."""


class QuantityLookup(Value):
    """Which array of a value is a table, and its two columns; without `x` the index in the array is the first."""

    points: MemberName
    x: MemberName | None = None
    y: MemberName


class CalibrationQuantityFact(Event):
    quantity_id: UUID


class CalibrationQuantityDefined(CalibrationQuantityFact):
    code: str
    title: str
    description: str | None
    operating_point_schema: Schema
    value_schema: Schema
    lookup: QuantityLookup | None
    defined_by: UUID


class CalibrationQuantityVersioned(CalibrationQuantityFact):
    operating_point_schema: Schema
    value_schema: Schema
    lookup: QuantityLookup | None
    quantity_version: int
    versioned_by: UUID


class CalibrationQuantityDeprecated(CalibrationQuantityFact):
    reason: str
    deprecated_by: UUID


type CalibrationQuantityEvent = (
    CalibrationQuantityDefined | CalibrationQuantityVersioned | CalibrationQuantityDeprecated
)

IN_USE = frozenset({CalibrationQuantityStatus.DEFINED, CalibrationQuantityStatus.VERSIONED})

LIFECYCLE = StateMachine[CalibrationQuantityStatus](
    {
        CalibrationQuantityVersioned: move(
            IN_USE, CalibrationQuantityStatus.VERSIONED, CalibrationQuantityCannotVersionError
        ),
        CalibrationQuantityDeprecated: move(
            IN_USE, CalibrationQuantityStatus.DEPRECATED, CalibrationQuantityCannotDeprecateError
        ),
    }
)


class QuantityVersion(Value):
    """The schemas of a quantity as they were at one of its versions."""

    quantity_version: int
    operating_point_schema: Schema
    value_schema: Schema
    lookup: QuantityLookup | None
    since: Time


class CalibrationQuantity(Value):
    id: UUID
    code: str
    title: str
    description: str | None
    operating_point_schema: Schema
    value_schema: Schema
    lookup: QuantityLookup | None
    quantity_version: int = 1
    versions: tuple[QuantityVersion, ...]
    status: CalibrationQuantityStatus = CalibrationQuantityStatus.DEFINED
    deprecation_reason: text.Reason | None = None

    def at_version(self, number: int) -> QuantityVersion:
        return self.versions[number - 1]


def evolve(quantity: CalibrationQuantity | None, event: CalibrationQuantityEvent) -> CalibrationQuantity:
    match event:
        case CalibrationQuantityDefined():
            return CalibrationQuantity(
                id=event.quantity_id,
                code=event.code,
                title=event.title,
                description=event.description,
                operating_point_schema=event.operating_point_schema,
                value_schema=event.value_schema,
                lookup=event.lookup,
                versions=(numbered(event, 1),),
            )
        case _ if quantity is None:
            raise ValueError(event)
        case CalibrationQuantityVersioned():
            return replace(
                quantity,
                operating_point_schema=event.operating_point_schema,
                value_schema=event.value_schema,
                lookup=event.lookup,
                quantity_version=event.quantity_version,
                versions=(*quantity.versions, numbered(event, event.quantity_version)),
                status=LIFECYCLE.after(event),
            )
        case CalibrationQuantityDeprecated():
            return replace(quantity, status=LIFECYCLE.after(event), deprecation_reason=event.reason)
        case _:
            assert_never(event)


def numbered(
    event: CalibrationQuantityDefined | CalibrationQuantityVersioned, number: int
) -> QuantityVersion:
    return QuantityVersion(
        quantity_version=number,
        operating_point_schema=event.operating_point_schema,
        value_schema=event.value_schema,
        lookup=event.lookup,
        since=event.occurred_at,
    )


def claims(quantity: CalibrationQuantity) -> list[Claim]:
    """A code names one quantity for ever."""
    return [Claim(kind=CODE_CLAIM, key=quantity.code, taken=CalibrationQuantityAlreadyExistsError)]


calibration_quantities = Aggregate[CalibrationQuantity, CalibrationQuantityEvent](
    "CalibrationQuantity",
    id_field="quantity_id",
    plural="calibration_quantities",
    events=CalibrationQuantityEvent,
    evolve=evolve,
    missing=CalibrationQuantityNotFoundError,
    belongs=lambda quantity: Belonging.nowhere,
    claims=claims,
)
calibration_quantities.reads(
    "/calibration-quantities",
    filters=("code", "status"),
    sorts=("code", "created_at"),
    text=("code", "title"),
)


@calibration_quantities.operation("POST /calibration-quantities", creates=True)
class DefineCalibrationQuantity(Command[None]):
    """Define a quantity that can be calibrated, with the schemas of its operating points and values."""

    code: QuantityCode
    title: text.Name
    description: text.Description | None = None
    operating_point_schema: Schema
    value_schema: Schema
    lookup: QuantityLookup | None = None

    async def gather(self, world: World) -> None: ...

    def decide(self, seen: None, occasion: Occasion) -> CalibrationQuantityDefined:
        code = text.code(self.code, CODE, InvalidCalibrationQuantityCodeError)
        title = text.name(self.title, InvalidCalibrationQuantityTitleError, "title")
        description = text.description(self.description, InvalidCalibrationQuantityDescriptionError)
        check_schemas(self.operating_point_schema, self.value_schema, self.lookup)
        return CalibrationQuantityDefined(
            quantity_id=occasion.new_id,
            occurred_at=occasion.now,
            code=code,
            title=title,
            description=description,
            operating_point_schema=self.operating_point_schema,
            value_schema=self.value_schema,
            lookup=self.lookup,
            defined_by=occasion.principal_id,
        )


@calibration_quantities.operation("POST /calibration-quantities/{quantity_id}/version")
class VersionCalibrationQuantity(Command[CalibrationQuantity]):
    """Replace the schemas of a quantity; revisions keep the version that they were checked against."""

    quantity_id: UUID
    operating_point_schema: Schema
    value_schema: Schema
    lookup: QuantityLookup | None = None

    async def gather(self, world: World) -> CalibrationQuantity:
        return await world.load(calibration_quantities, self.quantity_id)

    def decide(self, quantity: CalibrationQuantity, occasion: Occasion) -> CalibrationQuantityVersioned:
        check_schemas(self.operating_point_schema, self.value_schema, self.lookup)
        LIFECYCLE.check(CalibrationQuantityVersioned, quantity.status, quantity.id)
        check_units_kept(quantity.operating_point_schema, self.operating_point_schema)
        check_units_kept(quantity.value_schema, self.value_schema)
        return CalibrationQuantityVersioned(
            quantity_id=quantity.id,
            occurred_at=occasion.now,
            operating_point_schema=self.operating_point_schema,
            value_schema=self.value_schema,
            lookup=self.lookup,
            quantity_version=quantity.quantity_version + 1,
            versioned_by=occasion.principal_id,
        )


@calibration_quantities.operation("POST /calibration-quantities/{quantity_id}/deprecate")
class DeprecateCalibrationQuantity(Command[CalibrationQuantity]):
    """Deprecate a quantity: its calibrations stay, and no further one is defined."""

    quantity_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> CalibrationQuantity:
        return await world.load(calibration_quantities, self.quantity_id)

    def decide(self, quantity: CalibrationQuantity, occasion: Occasion) -> CalibrationQuantityDeprecated:
        reason = text.reason(self.reason, InvalidCalibrationQuantityReasonError)
        LIFECYCLE.check(CalibrationQuantityDeprecated, quantity.status, quantity.id)
        return CalibrationQuantityDeprecated(
            quantity_id=quantity.id,
            occurred_at=occasion.now,
            reason=reason,
            deprecated_by=occasion.principal_id,
        )


def check_schemas(operating_point: Schema, value: Schema, lookup: QuantityLookup | None) -> None:
    """Both schemas are closed, and the lookup names what the value has."""
    for what, schema in (("operating_point_schema", operating_point), ("value_schema", value)):
        checked_schema(schema, InvalidCalibrationQuantitySchemaError)
        if not schema:
            raise InvalidCalibrationQuantitySchemaError(
                f"{what} must be a closed object; {{}} would let anything in.", path="", keyword="type"
            )
    if lookup is not None:
        check_lookup(value, lookup)


def check_lookup(value: Schema, lookup: QuantityLookup) -> None:
    """The lookup names an array of objects, and numbers of these."""
    properties = value.get("properties", {})
    points = properties.get(lookup.points)
    if points is None or types(points) != frozenset({"array"}):
        raise not_there(f"/properties/{lookup.points}", "an array of the value")
    members = points.get("items", {}).get("properties", {})
    for name in (lookup.x, lookup.y):
        if name is not None and not (name in members and types(members[name]) <= {"number", "integer"}):
            raise not_there(f"/properties/{lookup.points}/items/properties/{name}", "a number of its items")


def not_there(path: str, what: str) -> InvalidCalibrationQuantitySchemaError:
    return InvalidCalibrationQuantitySchemaError(
        f"The lookup names {path}, which is not {what}.", path=path, keyword="properties"
    )


def check_units_kept(before: Schema, after: Schema) -> None:
    """Gate: a member means the same in every version."""
    changes = unit_changes(before, after)
    if changes:
        paths = [change.path for change in changes]
        raise CalibrationQuantityUnitChangedError(
            f"The unit of {', '.join(paths)} would change. Define another quantity for another unit.",
            paths=paths,
        )
