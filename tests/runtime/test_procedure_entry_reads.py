"""Entries of procedures as they are read: to the digit, in pages, and summed up by step and by pass."""

from typing import Any

import pytest

from beamwright.contexts.operation.activities import (
    ActivityEntry,
    ActivityResult,
    ListProcedureActivities,
)
from beamwright.contexts.operation.iteration_list import ListProcedureIterations
from beamwright.contexts.operation.outcomes import (
    ListProcedureOutcomes,
    OutcomeEntry,
    OutcomeMeasurement,
)
from beamwright.contexts.operation.step_list import ListProcedureSteps
from beamwright.contexts.recipe.steps import (
    StepKind,
)
from beamwright.contexts.run.values import ActuationKind
from beamwright.kernel.cursor import InvalidCursorError, encode_cursor
from beamwright.kernel.value import encode
from tests.live import LiveServer
from tests.running import start_procedure
from tests.runtime.procedure_bench import HOSTILE, SECOND, START, Bench, WithProcedure, came, done, driven


@pytest.fixture
def with_procedure(server: LiveServer) -> WithProcedure:
    return driven(server)


# What comes back


def test_what_a_driver_sends_comes_back_as_it_was(with_procedure: WithProcedure) -> None:
    payload: dict[str, Any] = {
        HOSTILE: HOSTILE,
        "name": HOSTILE,
        "message": HOSTILE,
        "error_class": HOSTILE,
        "numbers": [1, 1.0, 0.1, 1e300, 5e-324, -0.0, 2**53 + 1, 10**30],
        "nothing": None,
        "nested": {"a": [{"b": [[]]}]},
    }

    async def check(bench: Bench) -> None:
        await bench.act(done(payload=payload, result="Unknown"))
        [row] = await bench.rows()
        assert row.payload == payload
        assert encode(row.payload) == encode(payload), "to the digit"
        assert (row.target, row.message, row.error_class) == (HOSTILE, HOSTILE, HOSTILE)

    with_procedure(check)


def test_the_largest_payloads_come_back(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        large = [{"reading": chr(0x4E00 + n) * ((64 * 1024 - 14) // 3)} for n in range(10)]
        assert 64 * 1024 - 3 < len(encode(large[0])) <= 64 * 1024
        await bench.act(*(done(n, payload=payload) for n, payload in enumerate(large)))
        assert [row.payload for row in await bench.rows()] == large

    with_procedure(check)


def test_an_outcome_comes_back_as_it_was(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        sent = came(
            point={"energy": 8.047, "filter": "Al", "open": True, "count": 3},
            objective_value=1e300,
            measurements=(
                OutcomeMeasurement(name="i0", value=0.1, unit="nA"),
                OutcomeMeasurement(name="note", value=HOSTILE),
            ),
            succeeded=False,
            actuation_kind=ActuationKind.SIMULATED,
        )
        await bench.begin(1)
        await bench.conclude(sent)
        [row] = await bench.rows(ListProcedureOutcomes)
        assert {name: getattr(row, name) for name in OutcomeEntry.__struct_fields__} == {
            name: getattr(sent, name) for name in OutcomeEntry.__struct_fields__
        }
        assert type(row.point["count"]) is int and row.point["open"] is True
        assert (row.late, row.procedure_id) == (False, bench.id)

    with_procedure(check)


def test_pages_go_through_every_activity_in_either_order(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        for _ in range(3):
            await bench.act(*(done(number) for number in range(20)))
        wanted = [row.event_id for row in await bench.rows(limit=1000)]
        for sort, order in (("row_number", wanted), ("-row_number", wanted[::-1])):
            read = await bench.pages(ListProcedureActivities, limit=7, sort=sort)
            assert [row.event_id for row in read] == order

    with_procedure(check)


@pytest.mark.parametrize("values", [["True", "1"], ["False", "x"], ["False", "9" * 30], ["False", ""], ["1"]])
def test_a_cursor_that_is_not_of_this_list_is_refused(
    with_procedure: WithProcedure, values: list[str]
) -> None:
    async def check(bench: Bench) -> None:
        for request, given in (
            (ListProcedureActivities, values),
            (ListProcedureOutcomes, [*values, "1"]),
            (ListProcedureIterations, [f"{values[-1]} "]),
        ):
            with pytest.raises(InvalidCursorError):
                await bench.rows(request, cursor=encode_cursor(given))

    with_procedure(check)


def test_activities_are_selected_by_what_they_say(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        check_done = done(0, step_kind="Check", step_index=0, result="Failed")
        await bench.act(check_done, done(1, step_index=1), done(2, step_index=1, result="Succeeded"))
        await bench.begin(1)
        await bench.act(done(3))

        async def values(**fields: Any) -> list[int]:
            return [row.payload["value"] for row in await bench.rows(**fields)]

        assert await values(step_kind=StepKind.CHECK) == [0]
        assert await values(step_index=1) == [1, 2]
        assert await values(step_index=1, result=ActivityResult.SUCCEEDED) == [2]
        assert await values(iteration_index=1) == [3]
        assert await values(late=False, sort="-row_number", limit=2) == [3, 2]

    with_procedure(check)


def test_outcomes_come_by_pass_and_then_as_they_came(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        for index in (1, 2, 3):
            await bench.begin(index)
            await bench.finish(index)
        await bench.conclude(*(came(3 - number % 3, number) for number in range(30)))
        read = await bench.pages(ListProcedureOutcomes, limit=4)
        wanted = sorted(range(30), key=lambda number: (3 - number % 3, number))
        assert [row.point["x"] for row in read] == wanted

    with_procedure(check)


# Steps and passes


def test_steps_stand_where_their_latest_rows_say(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        def at(index: int, number: int, result: str | None, **payload: Any) -> ActivityEntry:
            return done(number, step_index=index, result=result, payload=payload)

        await bench.act(
            at(0, 1, "InFlight", value=1),
            at(0, 2, "Failed", value=1),
            at(0, 3, "InFlight", value=1.5),
            at(0, 4, None, value=1.5, reading={"value": 1.49}),
            at(1, 5, "InFlight"),
            at(1, 6, "Unknown"),
            at(1, 7, "InFlight"),
            at(9, 8, "Succeeded", value="of no step"),
            done(9),
        )
        move, fly, look, shutter = await bench.rows(ListProcedureSteps)
        assert (move.list, move.step_index, move.label, move.kind) == ("steps", 0, "move", StepKind.SETPOINT)
        assert (move.state, move.attempts, move.value, move.reading) == ("Succeeded", 2, 1.5, {"value": 1.49})
        assert (move.first_sampled_at, move.last_sampled_at) == (START + SECOND, START + 4 * SECOND)
        assert (fly.state, fly.attempts, fly.target, fly.value) == ("InFlight", 2, "fly", None)
        assert (look.state, look.attempts, look.target) == ("Pending", 0, "ca://s1")
        assert (shutter.list, shutter.step_index, shutter.state) == ("closing_steps", 0, "Pending")

    with_procedure(check)


def test_a_procedure_without_pinned_steps_has_none(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        own = Bench(bench.app, await start_procedure(bench.app, START))
        await own.act(done(step_index=0))
        assert await own.rows(ListProcedureSteps) == []

    with_procedure(check)


def test_passes_are_shown_with_their_latest_point(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        await bench.begin(1)
        await bench.conclude(came(1, 1, objective_value=5.0), came(1, 2, objective_value=4.0))
        await bench.finish(1, converged=False, reason="too wide")
        await bench.begin(2)
        await bench.finish(2, converged=True)
        await bench.begin(3)
        await bench.conclude(came(3, 7))
        first, second, third = await bench.rows(ListProcedureIterations)
        assert (first.converged, first.reason) == (False, "too wide")
        assert (first.point, first.objective_value) == ({"x": 2}, 4.0)
        assert (second.converged, second.point, second.objective_value) == (True, None, None)
        assert (third.ended_at, third.point, third.objective_value) == (None, {"x": 7}, None)
        assert first.started_at <= first.ended_at <= second.started_at

    with_procedure(check)


def test_passes_come_in_pages(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        for index in range(1, 8):
            await bench.begin(index)
            await bench.finish(index)
        await bench.conclude(*(came(index, index) for index in range(1, 8)))
        read = await bench.pages(ListProcedureIterations, limit=3)
        assert [each.iteration_index for each in read] == list(range(1, 8))
        assert [each.point["x"] for each in read] == list(range(1, 8))

    with_procedure(check)
