"""Bulk entries of procedures: what is refused of a batch and in which order, and what a row says apart."""

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.operation.activities import (
    ACTIVITIES,
    ActivityEntry,
    ActivityResult,
    AppendProcedureActivities,
    InvalidActivityError,
    InvalidStepKindError,
    ListProcedureActivities,
    ProcedureActivity,
    activity,
    checked_activities,
    target,
)
from beamwright.contexts.operation.entries import ENDS, ProcedureActivitiesClosedError, check_window
from beamwright.contexts.operation.iteration_list import ProcedureIteration, passes
from beamwright.contexts.operation.outcomes import (
    OUTCOMES,
    AppendProcedureOutcomes,
    InvalidProcedureOutcomeError,
    OutcomeEntry,
    OutcomeMeasurement,
    check_begun,
    checked_outcomes,
)
from beamwright.contexts.operation.procedure import Procedure, ProcedureIterationStarted, procedures
from beamwright.contexts.operation.step_list import ProcedureStepState, shown_step
from beamwright.contexts.recipe.steps import (
    PlacedStep,
    RecipeActionStep,
    RecipeComputeStep,
    RecipeSetpointStep,
    RecipeStep,
    StepKind,
    StepListName,
)
from beamwright.kernel.entries import EntryGroup
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.operation import Operation
from beamwright.kernel.value import encode, replace
from tests.contexts.operation.examples import (
    COMPLETED,
    MINUTE,
    PROCEDURE,
    STARTED,
    passed,
    procedure,
    running,
)
from tests.rules import NOW, PRINCIPAL

ENTRY = ActivityEntry(event_id=UUID(int=1), step_kind="Setpoint", payload={"value": 1.5}, sampled_at=NOW)
OUTCOME = OutcomeEntry(
    event_id=UUID(int=1), iteration_index=1, point={"x": 1.0}, succeeded=True, sampled_at=NOW
)
MICROSECOND = timedelta(microseconds=1)


def entry(**changes: Any) -> ActivityEntry:
    return replace(ENTRY, **changes)


def outcome(**changes: Any) -> OutcomeEntry:
    return replace(OUTCOME, **changes)


def nested(levels: int) -> dict[str, Any]:
    inner: Any = 1
    for _ in range(levels):
        inner = {"a": inner}
    return inner


def sized(size: int) -> dict[str, Any]:
    """A payload that has so many bytes as JSON."""
    return {"a": "x" * (size - len(encode({"a": ""})))}


@pytest.mark.parametrize(
    "fine",
    [
        {"step_index": 0},
        {"step_index": 2**31 - 1},
        {"result": "InFlight"},
        {"payload": {}},
        {"payload": nested(16)},
        {"payload": sized(64 * 1024)},
        {"payload": {"reading": [1, "°C", None, True, 1e300, -0.0, 10**40]}},
    ],
)
def test_what_a_driver_tells_is_taken(fine: dict[str, Any]) -> None:
    [taken] = checked_activities([entry(**fine)], None)
    assert {name: getattr(taken, name) for name in fine} == fine


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"step_kind": "Dance"}, InvalidStepKindError),
        ({"step_kind": "setpoint"}, InvalidStepKindError),
        ({"step_index": -1}, InvalidActivityError),
        ({"step_index": 2**31}, InvalidActivityError),
        ({"result": "Done"}, InvalidActivityError),
        ({"payload": nested(17)}, InvalidActivityError),
        ({"payload": nested(100_000)}, InvalidActivityError),
        ({"payload": sized(64 * 1024 + 1)}, InvalidActivityError),
        ({"payload": {"a": [{"b": math.nan}]}}, InvalidActivityError),
        ({"payload": {"a": -math.inf}}, InvalidActivityError),
    ],
)
def test_a_refusal_names_the_entry(wrong: dict[str, Any], refusal: type[InvalidError]) -> None:
    with pytest.raises(refusal) as refused:
        checked_activities([ENTRY, ENTRY, entry(**wrong)], None)
    assert refused.value.context["index"] == 2
    assert refused.value.detail.startswith("Entry 2: ")


def test_kinds_are_looked_at_before_anything_else() -> None:
    for batch in ([entry(step_index=-1), entry(step_kind="x")], [ENTRY] * 1000 + [entry(step_kind="x")]):
        with pytest.raises(InvalidStepKindError):
            checked_activities(batch, None)


@pytest.mark.parametrize("size", [0, 1001])
def test_a_batch_has_1_to_1000_activities(size: int) -> None:
    assert len(checked_activities([ENTRY] * 1000, None)) == 1000
    with pytest.raises(InvalidActivityError) as refused:
        checked_activities([ENTRY] * size, None)
    assert refused.value.context["most"] == 1000


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"address": "ca://m1", "name": "home"}, "ca://m1"),
        ({"address": 5, "name": "home"}, "home"),
        ({"address": "", "name": "home"}, "home"),
        ({"command": ["fit", "--all"]}, "fit"),
        ({"command": "fit --all"}, "fit"),
        ({"command": []}, None),
        ({"command": " "}, None),
        ({"command": [1]}, None),
        ({"command": {"a": 1}}, None),
        ({"name": ["a"]}, None),
        ({"address": "x" * 300}, "x" * 255),
        ({}, None),
    ],
)
def test_the_target_is_what_the_payload_names(payload: dict[str, Any], told: str | None) -> None:
    assert target(payload) == told


def test_an_error_is_told_apart_from_the_payload() -> None:
    payload = {"error_class": "ControlTimeoutError", "message": "m1 " * 2000}
    told = activity(entry(payload=payload, result="Failed"), 3)
    assert (told.error_class, told.message) == ("ControlTimeoutError", ("m1 " * 2000)[:5000])
    assert (told.result, told.iteration_index, told.payload) == (ActivityResult.FAILED, 3, payload)
    other = activity(entry(payload={"error_class": 1, "message": {"a": 1}}), None)
    assert (other.error_class, other.message, other.result) == (None, None, None)


@pytest.mark.parametrize(
    "fine",
    [
        {"point": {f"a{n}": n for n in range(16)}},
        {"point": {"a": True, "b": "x" * 200, "c": 1e300, "d" * 50: -1}},
        {"objective_value": -1.5},
        {"measurements": (OutcomeMeasurement(name="i0", value="x" * 1000, unit="nA"),) * 100},
    ],
)
def test_what_came_of_a_pass_is_taken(fine: dict[str, Any]) -> None:
    assert checked_outcomes([outcome(**fine)]) == [outcome(**fine)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"iteration_index": 0},
        {"iteration_index": 2**31},
        {"point": {}},
        {"point": {f"a{n}": n for n in range(17)}},
        {"point": {"X": 1}},
        {"point": {"x\n": 1}},
        {"point": {"d" * 51: 1}},
        {"point": {"x": math.nan}},
        {"point": {"x": 10**400}},
        {"point": {"x": "x" * 201}},
        {"objective_value": math.inf},
        {"measurements": (OutcomeMeasurement(name="i0", value=1),) * 101},
        {"measurements": (OutcomeMeasurement(name=" ", value=1),)},
        {"measurements": (OutcomeMeasurement(name="x" * 256, value=1),)},
        {"measurements": (OutcomeMeasurement(name="i0", value=1, unit=""),)},
        {"measurements": (OutcomeMeasurement(name="i0", value=math.nan),)},
        {
            "measurements": (
                OutcomeMeasurement(name="i", value="x" * 1001),
                OutcomeMeasurement(name="i", value=1),
            )
        },
    ],
)
def test_a_refused_outcome_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidProcedureOutcomeError) as refused:
        checked_outcomes([OUTCOME, outcome(**wrong)])
    assert refused.value.context["index"] == 1
    assert refused.value.detail.startswith("Entry 1: ")


@pytest.mark.parametrize("size", [0, 501])
def test_a_batch_has_1_to_500_outcomes(size: int) -> None:
    assert len(checked_outcomes([OUTCOME] * 500)) == 500
    with pytest.raises(InvalidProcedureOutcomeError):
        checked_outcomes([OUTCOME] * size)


def test_measurements_are_named_without_space_around() -> None:
    [told] = checked_outcomes(
        [outcome(measurements=(OutcomeMeasurement(name=" i0 ", value=1, unit=" nA "),))]
    )
    assert told.measurements == (OutcomeMeasurement(name="i0", value=1, unit="nA"),)


def test_only_a_pass_that_was_begun_has_an_outcome() -> None:
    twice = running(*passed(1), *passed(2))
    check_begun(twice, [outcome(iteration_index=2)])
    for state in (twice, running()):
        with pytest.raises(InvalidProcedureOutcomeError) as refused:
            check_begun(state, [outcome(iteration_index=3)])
        assert refused.value.context["index"] == 0


ENDED = running(replace(COMPLETED, occurred_at=NOW + MINUTE))


@pytest.mark.parametrize(
    ("state", "after_start", "taken"),
    [
        (running(), -MINUTE, True),
        (running(), -MINUTE - MICROSECOND, False),
        (running(), timedelta(days=3650), True),
        (ENDED, MINUTE, True),
        (ENDED, MINUTE + MICROSECOND, False),
        (procedure(), timedelta(), False),
    ],
)
def test_entries_are_of_the_time_of_their_procedure(
    state: Procedure, after_start: timedelta, taken: bool
) -> None:
    entries = checked_activities([entry(sampled_at=NOW + after_start)], None)
    if taken:
        check_window(state, entries)
        return
    with pytest.raises(ProcedureActivitiesClosedError):
        check_window(state, entries)


def test_every_end_of_a_procedure_ends_its_entries() -> None:
    assert ENDS == ("ProcedureCompleted", "ProcedureAborted", "ProcedureTruncated")


@pytest.mark.parametrize("table", [ACTIVITIES, OUTCOMES], ids=lambda table: table.name)
def test_what_is_read_is_what_was_written_and_how_it_came(table: Any) -> None:
    beyond = set(table.row.__struct_fields__) - set(table.entry.__struct_fields__)
    assert beyond == {"row_number", "procedure_id", "recorded_at", "principal_id", "correlation_id", "late"}


def test_the_operations_have_the_names_of_the_specification() -> None:
    names: dict[Any, Operation] = {each.request: each for each in procedures.operations}
    assert names[AppendProcedureActivities].name == "append_activities"
    assert names[AppendProcedureOutcomes].name == "append_outcomes"
    assert names[ListProcedureActivities].name == "list_procedure_activities"


# Steps

SETPOINT = RecipeSetpointStep(address="ca://m1", value=1, label="move")
FLY = RecipeActionStep(name="fly")
FIT = RecipeComputeStep(command=("fit", "--all"))


def row(result: ActivityResult | None, payload: dict[str, Any] | None = None) -> ProcedureActivity:
    return ProcedureActivity(
        event_id=UUID(int=1),
        sampled_at=NOW,
        iteration_index=None,
        step_index=0,
        step_kind=StepKind.SETPOINT,
        target=None,
        result=result,
        payload=payload or {},
        error_class=None,
        message=None,
        row_number=1,
        procedure_id=PROCEDURE,
        recorded_at=NOW,
        principal_id=PRINCIPAL,
        correlation_id="test",
        late=False,
    )


def placed(step: RecipeStep, name: StepListName = StepListName.STEPS) -> PlacedStep:
    return PlacedStep(list=name, step_index=0, step=step)


def grouped(latest: ProcedureActivity, count: int) -> dict[int, EntryGroup[ProcedureActivity]]:
    last = NOW + MINUTE
    return {0: EntryGroup(key=0, count=count, first_sampled_at=NOW, last_sampled_at=last, latest=latest)}


@pytest.mark.parametrize(
    ("result", "state", "attempts"),
    [
        (None, "Succeeded", 2),
        (ActivityResult.SUCCEEDED, "Succeeded", 2),
        (ActivityResult.FAILED, "Failed", 2),
        (ActivityResult.UNKNOWN, "Unknown", 2),
        (ActivityResult.IN_FLIGHT, "InFlight", 3),
    ],
)
def test_a_step_stands_where_its_latest_row_says(
    result: ActivityResult | None, state: str, attempts: int
) -> None:
    shown = shown_step(placed(SETPOINT), grouped(row(result, {"value": 2, "reading": {"a": 1}}), 2))
    assert (shown.state, shown.attempts, shown.value, shown.reading) == (state, attempts, 2, {"a": 1})
    assert (shown.first_sampled_at, shown.last_sampled_at) == (NOW, NOW + MINUTE)


def test_a_step_without_rows_and_every_closing_step_is_pending() -> None:
    told = grouped(row(None), 1)
    for shown in (
        shown_step(placed(SETPOINT), {}),
        shown_step(placed(SETPOINT, StepListName.CLOSING_STEPS), told),
    ):
        assert (shown.state, shown.attempts, shown.label) == (ProcedureStepState.PENDING, 0, "move")
        assert (shown.value, shown.reading, shown.first_sampled_at) == (None, None, None)


@pytest.mark.parametrize(("step", "told"), [(SETPOINT, "ca://m1"), (FLY, "fly"), (FIT, "fit")])
def test_a_step_has_a_target(step: RecipeStep, told: str) -> None:
    assert shown_step(placed(step), {}).target == told


def test_passes_are_told_by_the_log() -> None:
    begun = ProcedureIterationStarted(procedure_id=PROCEDURE, occurred_at=NOW + MINUTE, iteration_index=2)
    told: Sequence[Any] = [STARTED, *passed(1, converged=False), begun]
    assert passes(told) == [
        ProcedureIteration(iteration_index=1, started_at=NOW, ended_at=NOW, converged=False),
        ProcedureIteration(iteration_index=2, started_at=NOW + MINUTE),
    ]
