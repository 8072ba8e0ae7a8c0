"""Activities of a procedure: what its driver did, one row for each thing, kept beside the log and never changed."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.recipe.steps import StepKind
from beamwright.kernel.aggregate import Cursor
from beamwright.kernel.declared_schema import children, nested_deeper
from beamwright.kernel.entries import Entry, EntryTable, Inserted
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.operation import Composite, Issue, Query, World
from beamwright.kernel.value import Time, Value, encode

from .entries import LARGEST_INDEX, EntryLimit, append_entries, check_size, check_window, refuse
from .iterations import IterationIndex
from .procedure import procedures

MOST_ACTIVITIES = 1000
MOST_BYTES = 64 * 1024
MOST_NESTING = 16
# What is said apart from the payload is for looking over many rows; the payload has the whole of it.
LONGEST_NAME = 255
LONGEST_MESSAGE = 5000


class ActivityResult(StrEnum):
    IN_FLIGHT = "InFlight"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


# Text where a class of ours refuses what is not among them.
type GivenStepKind = Annotated[str, Meta(extra_json_schema={"enum": list(StepKind)})]
type GivenResult = Annotated[str, Meta(extra_json_schema={"enum": list(ActivityResult)})]
type GivenStepIndex = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": LARGEST_INDEX})]
type StepIndex = Annotated[int, Meta(ge=0, le=LARGEST_INDEX)]
type ActivityPayload = Annotated[
    dict[str, Any],
    Meta(
        description="What was done and found, as JSON of up to 64 KiB that nests in at most 16 levels.",
        extra_json_schema={"x-may-contain-personal-data": True},
    ),
]
type ActivityMessage = Annotated[str, Meta(extra_json_schema={"x-may-contain-personal-data": True})]


class InvalidStepKindError(InvalidError):
    """There is no such kind of step."""


class InvalidActivityError(InvalidError):
    """The batch is empty or too large, or an activity's index, result or payload is out of bounds."""


class ActivityEntry(Value, forbid_unknown_fields=True):
    """One activity as a driver sends it; its id makes sure that it is kept once."""

    event_id: UUID
    step_kind: GivenStepKind
    step_index: GivenStepIndex | None = None
    result: GivenResult | None = None
    payload: ActivityPayload
    sampled_at: Time


class Activity(Entry):
    """What was done, in which pass, at what, and how it went."""

    iteration_index: int | None
    step_index: int | None
    step_kind: StepKind
    target: str | None
    # Null: not told.
    result: ActivityResult | None
    payload: ActivityPayload
    error_class: str | None
    message: ActivityMessage | None


class ProcedureActivity(Activity):
    """An activity as it is kept."""

    row_number: int
    procedure_id: UUID
    recorded_at: Time
    principal_id: UUID
    correlation_id: str
    late: bool


ACTIVITIES = EntryTable(
    name="entries_procedure_activities",
    stream_type=procedures.name,
    stream_column=procedures.id_field,
    entry=Activity,
    row=ProcedureActivity,
)


@procedures.operation("POST /procedures/{procedure_id}/activities/append", name="append_activities")
class AppendProcedureActivities(Composite[Inserted]):
    """Deliver up to 1000 activities of a procedure, each kept once; those of a procedure that has ended are late."""

    procedure_id: UUID
    entries: Annotated[
        tuple[ActivityEntry, ...], Meta(extra_json_schema={"minItems": 1, "maxItems": MOST_ACTIVITIES})
    ]

    async def conduct(self, world: World, issue: Issue) -> Inserted:
        procedure = await world.load(procedures, self.procedure_id)
        activities = checked_activities(self.entries, procedure.current_iteration_index)
        check_window(procedure, activities)
        return await append_entries(world, procedure, ACTIVITIES, activities)


def checked_activities(entries: Sequence[ActivityEntry], iteration_index: int | None) -> list[Activity]:
    """The activities of the pass that goes on, or a refusal that names the first entry that is wrong."""
    for index, entry in enumerate(entries):
        if entry.step_kind not in StepKind:
            known = ", ".join(StepKind)
            refuse(InvalidStepKindError, f"the kind of a step is one of {known}.", index)
    check_size(entries, MOST_ACTIVITIES, InvalidActivityError)
    for index, entry in enumerate(entries):
        if fault := activity_fault(entry):
            refuse(InvalidActivityError, fault, index)
    return [activity(entry, iteration_index) for entry in entries]


def activity_fault(entry: ActivityEntry) -> str | None:
    """What is wrong with an entry whose kind is known, in words."""
    if entry.step_index is not None and not 0 <= entry.step_index <= LARGEST_INDEX:
        return f"steps are counted from 0 to {LARGEST_INDEX}."
    if entry.result is not None and entry.result not in ActivityResult:
        return f"the result is one of {', '.join(ActivityResult)}, or absent where it is not known."
    if nested_deeper(entry.payload, MOST_NESTING):
        return f"the payload nests deeper than {MOST_NESTING} levels."
    if holds_no_number(entry.payload):
        return "the payload holds a number that is not finite."
    if (size := len(encode(entry.payload))) > MOST_BYTES:
        return f"the payload has {size} bytes, and {MOST_BYTES} are kept: send shape and checksum of a large reading."
    return None


def holds_no_number(value: Any) -> bool:
    """Whether there is, anywhere in a value, what only looks like a number: JSON has no word for it."""
    layer = [value]
    while layer and not any(isinstance(each, float) and not math.isfinite(each) for each in layer):
        layer = [child for each in layer for child in children(each)]
    return bool(layer)


def activity(entry: ActivityEntry, iteration_index: int | None) -> Activity:
    payload = entry.payload
    return Activity(
        event_id=entry.event_id,
        sampled_at=entry.sampled_at,
        iteration_index=iteration_index,
        step_index=entry.step_index,
        step_kind=StepKind(entry.step_kind),
        target=target(payload),
        result=None if entry.result is None else ActivityResult(entry.result),
        payload=payload,
        error_class=_text(payload.get("error_class"), LONGEST_NAME),
        message=_text(payload.get("message"), LONGEST_MESSAGE),
    )


def target(payload: dict[str, Any]) -> str | None:
    """What was acted on: an address, the name of an action, or the program of a command."""
    command = payload.get("command")
    words: Any = command.split() if isinstance(command, str) else command
    program = cast(list[Any], words)[0] if isinstance(words, list) and words else None
    named = (payload.get("address"), payload.get("name"), program)
    return next((text for each in named if (text := _text(each, LONGEST_NAME))), None)


def _text(value: Any, most: int) -> str | None:
    return value[:most] if isinstance(value, str) else None


class ProcedureActivityPage(Value):
    """One page of activities."""

    items: list[ProcedureActivity]
    next_cursor: str | None


@procedures.operation("GET /procedures/{procedure_id}/activities")
class ListProcedureActivities(Query[ProcedureActivityPage]):
    """List the activities of a procedure in the order in which they came, oldest or newest first."""

    procedure_id: UUID
    iteration_index: IterationIndex | None = None
    step_index: StepIndex | None = None
    step_kind: StepKind | None = None
    result: ActivityResult | None = None
    late: bool | None = None
    sort: Literal["row_number", "-row_number"] = "row_number"
    limit: EntryLimit = 200
    cursor: Cursor | None = None

    async def answer(self, world: World) -> ProcedureActivityPage:
        await world.load(procedures, self.procedure_id)
        asked = ("iteration_index", "step_index", "step_kind", "result", "late")
        items, next_cursor = await world.entries.page(
            ACTIVITIES,
            self.procedure_id,
            {column: getattr(self, column) for column in asked},
            by=("row_number",),
            descending=self.sort.startswith("-"),
            limit=self.limit,
            cursor=self.cursor,
        )
        return ProcedureActivityPage(items=list(items), next_cursor=next_cursor)
