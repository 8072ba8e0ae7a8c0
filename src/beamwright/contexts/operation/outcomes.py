"""Outcomes of a procedure's passes: the point that was measured, what came of it, and how real it was."""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.recipe.steps import NAME, is_number
from beamwright.contexts.run.values import ActuationKind
from beamwright.kernel import text
from beamwright.kernel.aggregate import Cursor
from beamwright.kernel.entries import Entry, EntryTable, Inserted
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.operation import Composite, Issue, Query, World
from beamwright.kernel.value import Time, Value, replace

from .entries import LARGEST_INDEX, EntryLimit, append_entries, check_size, check_window, refuse
from .procedure import Procedure, procedures

MOST_OUTCOMES = 500
MOST_AXES = 16
MOST_MEASUREMENTS = 100
LONGEST_COORDINATE = 200
LONGEST_MEASURED = 1000
LONGEST_UNIT = 64

type GivenPassIndex = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": LARGEST_INDEX})]
type Scalar = bool | int | float | str
type Point = Annotated[
    dict[str, Scalar],
    Meta(
        description="The coordinate on each of 1 to 16 axes: a number, a boolean or text of up to 200 characters.",
        extra_json_schema={
            "minProperties": 1,
            "maxProperties": MOST_AXES,
            "propertyNames": {"pattern": NAME},
        },
    ),
]
type MeasurementName = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 255})]
type MeasurementUnit = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": LONGEST_UNIT})]


class InvalidProcedureOutcomeError(InvalidError):
    """The batch is empty or too large, or an outcome's pass, point, objective or measurements are out of bounds."""


class OutcomeMeasurement(Value, forbid_unknown_fields=True):
    """One value that was measured at the point, in the unit that the control system names."""

    name: MeasurementName
    value: Scalar
    unit: MeasurementUnit | None = None


type OutcomeMeasurements = Annotated[
    tuple[OutcomeMeasurement, ...], Meta(extra_json_schema={"maxItems": MOST_MEASUREMENTS})
]


class OutcomeEntry(Entry, forbid_unknown_fields=True):
    """What came of a pass, as a driver sends it; its id makes sure that it is kept once."""

    iteration_index: GivenPassIndex
    point: Point
    objective_value: float | None = None
    measurements: OutcomeMeasurements = ()
    succeeded: bool
    actuation_kind: ActuationKind | None = None


class ProcedureOutcome(OutcomeEntry, forbid_unknown_fields=False):
    """What came of a pass, as it is kept."""

    row_number: int
    procedure_id: UUID
    recorded_at: Time
    principal_id: UUID
    correlation_id: str
    late: bool


OUTCOMES = EntryTable(
    name="entries_procedure_outcomes",
    stream_type=procedures.name,
    stream_column=procedures.id_field,
    entry=OutcomeEntry,
    row=ProcedureOutcome,
)


@procedures.operation("POST /procedures/{procedure_id}/outcomes/append", name="append_outcomes")
class AppendProcedureOutcomes(Composite[Inserted]):
    """Deliver up to 500 outcomes of a procedure's passes, each kept once; those of one that has ended are late."""

    procedure_id: UUID
    entries: Annotated[
        tuple[OutcomeEntry, ...], Meta(extra_json_schema={"minItems": 1, "maxItems": MOST_OUTCOMES})
    ]

    async def conduct(self, world: World, issue: Issue) -> Inserted:
        procedure = await world.load(procedures, self.procedure_id)
        outcomes = checked_outcomes(self.entries)
        check_window(procedure, outcomes)
        check_begun(procedure, outcomes)
        return await append_entries(world, procedure, OUTCOMES, outcomes)


def checked_outcomes(entries: Sequence[OutcomeEntry]) -> list[OutcomeEntry]:
    """The outcomes with their names trimmed, or a refusal that names the first entry that is wrong."""
    check_size(entries, MOST_OUTCOMES, InvalidProcedureOutcomeError)
    for index, entry in enumerate(entries):
        if fault := outcome_fault(entry):
            refuse(InvalidProcedureOutcomeError, fault, index)
    return [_named(entry, index) for index, entry in enumerate(entries)]


def outcome_fault(entry: OutcomeEntry) -> str | None:
    """What is wrong with an entry apart from the names in it, in words."""
    if not 1 <= entry.iteration_index <= LARGEST_INDEX:
        return "passes are counted from 1."
    if not 1 <= len(entry.point) <= MOST_AXES:
        return f"a point has 1 to {MOST_AXES} axes."
    if axis := next((axis for axis in entry.point if not re.fullmatch(NAME, axis)), None):
        return f"the name of an axis must match {NAME}, unlike {axis[:50]!r}."
    if axis := _beyond(entry.point.items(), LONGEST_COORDINATE):
        return f"the coordinate on {axis} must be a finite number, a boolean or text of up to {LONGEST_COORDINATE}."
    if entry.objective_value is not None and not is_number(entry.objective_value):
        return "the objective value must be a finite number."
    if len(entry.measurements) > MOST_MEASUREMENTS:
        return f"at most {MOST_MEASUREMENTS} measurements are kept of one outcome."
    if name := _beyond(((each.name, each.value) for each in entry.measurements), LONGEST_MEASURED):
        return f"the value of {name[:255]!r} must be a finite number, a boolean or text of up to {LONGEST_MEASURED}."
    return None


def _beyond(values: Iterable[tuple[str, Any]], longest: int) -> str | None:
    """The first of some values that is neither a finite number, nor a boolean, nor a text that is short enough."""
    for name, value in values:
        short = isinstance(value, str) and len(value) <= longest
        if not (short or isinstance(value, bool) or is_number(value)):
            return name
    return None


def _named(entry: OutcomeEntry, index: int) -> OutcomeEntry:
    try:
        return replace(entry, measurements=tuple(_trimmed(each) for each in entry.measurements))
    except InvalidProcedureOutcomeError as error:
        refuse(InvalidProcedureOutcomeError, error.detail, index)


def _trimmed(measurement: OutcomeMeasurement) -> OutcomeMeasurement:
    refusal, unit = InvalidProcedureOutcomeError, measurement.unit
    return replace(
        measurement,
        name=text.trimmed(measurement.name, 255, refusal, "name of a measurement"),
        unit=None if unit is None else text.trimmed(unit, LONGEST_UNIT, refusal, "unit of a measurement"),
    )


def check_begun(procedure: Procedure, outcomes: Sequence[OutcomeEntry]) -> None:
    """Gate: only what was begun has an outcome."""
    for index, outcome in enumerate(outcomes):
        if outcome.iteration_index > procedure.iteration_count:
            begun = f"{procedure.iteration_count} were" if procedure.iteration_count else "none was"
            why = f"pass {outcome.iteration_index} has not begun, {begun}: start_iteration first."
            refuse(InvalidProcedureOutcomeError, why, index)


class ProcedureOutcomePage(Value):
    """One page of outcomes."""

    items: list[ProcedureOutcome]
    next_cursor: str | None


@procedures.operation("GET /procedures/{procedure_id}/outcomes")
class ListProcedureOutcomes(Query[ProcedureOutcomePage]):
    """List the outcomes of a procedure by pass, and those of one pass in the order in which they came."""

    procedure_id: UUID
    limit: EntryLimit = 200
    cursor: Cursor | None = None

    async def answer(self, world: World) -> ProcedureOutcomePage:
        await world.load(procedures, self.procedure_id)
        items, next_cursor = await world.entries.page(
            OUTCOMES,
            self.procedure_id,
            {},
            by=("iteration_index", "row_number"),
            limit=self.limit,
            cursor=self.cursor,
        )
        return ProcedureOutcomePage(items=list(items), next_cursor=next_cursor)
