"""Bulk entries of procedures on a real database: each once, in order, and none unmarked after the end."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from beamwright.adapters.postgres import entries as tables
from beamwright.app import App
from beamwright.contexts.operation.activities import (
    ActivityResult,
    AppendProcedureActivities,
    ListProcedureActivities,
)
from beamwright.contexts.operation.entries import ProcedureActivitiesClosedError
from beamwright.contexts.operation.iteration_list import ListProcedureIterations
from beamwright.contexts.operation.outcomes import (
    InvalidProcedureOutcomeError,
    ListProcedureOutcomes,
)
from beamwright.contexts.operation.procedure import ProcedureNotFoundError
from beamwright.contexts.operation.procedure_moves import AbortProcedure, CompleteProcedure, HoldProcedure
from beamwright.contexts.operation.step_list import ListProcedureSteps
from beamwright.contexts.recipe.steps import (
    StepKind,
)
from beamwright.kernel.cursor import encode_cursor
from beamwright.kernel.entries import Inserted
from beamwright.kernel.value import encode, replace
from tests.faults.log_checks import wrong
from tests.live import LiveServer
from tests.running import register_procedure, start_procedure
from tests.runtime.procedure_bench import (
    SECOND,
    START,
    TABLES,
    Bench,
    WithProcedure,
    came,
    done,
    driven,
)
from tests.runtime.test_projector import ADMINISTRATOR


@pytest.fixture
def with_procedure(server: LiveServer) -> WithProcedure:
    return driven(server)


# Once, and in order


def test_what_is_delivered_twice_is_kept_once(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        entries = [done(number) for number in range(1000)]
        assert await bench.act(*entries) == Inserted(received=1000, inserted=1000, duplicates=0)
        assert await bench.act(*entries) == Inserted(received=1000, inserted=0, duplicates=1000)
        found = await bench.rows(limit=1000)
        assert [row.event_id for row in found] == [entry.event_id for entry in entries]
        assert [row.row_number for row in found] == sorted(row.row_number for row in found)

    with_procedure(check)


def test_only_what_is_new_of_a_batch_is_written(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        entries = [done(number) for number in range(10)]
        await bench.act(*entries[:4])
        changed = replace(entries[0], payload={"value": "another"})
        assert await bench.act(changed, *entries[1:], entries[9]) == Inserted(
            received=11, inserted=6, duplicates=5
        )
        assert [row.payload["value"] for row in await bench.rows()] == list(range(10))

    with_procedure(check)


def test_one_id_can_be_of_two_procedures_and_of_both_tables(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        entry = done()
        await bench.act(entry)
        other = Bench(bench.app, await start_procedure(bench.app, START))
        assert (await other.act(entry)).inserted == 1
        await other.begin(1)
        assert (await other.conclude(came(event_id=entry.event_id))).inserted == 1

    with_procedure(check)


@pytest.mark.parametrize("writers", [2, 8])
def test_equal_deliveries_at_once_keep_each_row_once_and_together(
    with_procedure: WithProcedure, writers: int
) -> None:
    async def check(bench: Bench) -> None:
        await bench.begin(1)
        acts, outcomes = [done(n) for n in range(300)], [came(number=n) for n in range(200)]
        answers = await asyncio.gather(
            *(bench.act(*(acts if number % 2 else acts[::-1])) for number in range(writers)),
            *(bench.conclude(*outcomes) for _ in range(writers)),
        )
        assert sum(answer.inserted for answer in answers) == 500
        found = await bench.rows(limit=1000)
        ids = [row.event_id for row in found]
        assert ids in ([each.event_id for each in acts], [each.event_id for each in acts[::-1]])
        assert len(await bench.rows(ListProcedureOutcomes, limit=1000)) == 200

    with_procedure(check)


def test_whoever_follows_the_numbers_misses_no_row(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        followed: list[UUID] = []

        async def follow() -> None:
            last = 0
            while len(followed) < 600:
                cursor = encode_cursor(["False", str(last)])
                for row in await bench.rows(limit=1000, cursor=cursor):
                    followed.append(row.event_id)
                    last = row.row_number

        deliveries = [bench.act(*(done(n) for n in range(30))) for _ in range(20)]
        async with asyncio.timeout(30):
            await asyncio.gather(follow(), *deliveries)
        assert len(set(followed)) == 600

    with_procedure(check)


def test_a_repeated_key_gives_the_first_answer_again(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        call = replace(ADMINISTRATOR, idempotency_key=uuid4().hex)
        request = AppendProcedureActivities(procedure_id=bench.id, entries=(done(),))
        first = await bench.app.service.call(request, call)
        again = await bench.app.service.call(request, call)
        assert (first.body.inserted, again.replayed) == (1, True)
        assert bytes(again.body) == b'{"received":1,"inserted":1,"duplicates":0}'

    with_procedure(check)


def test_a_row_says_what_its_driver_said_and_how_it_came(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        before = datetime.now(UTC)
        payload = {"address": "ca://m1", "error_class": "ControlTimeoutError", "message": "m1: no answer"}
        entry = done(7, step_index=2, result="Failed", payload=payload, step_kind="Check")
        await bench.begin(1)
        await bench.act(entry)
        [row] = await bench.rows()
        assert {name: getattr(row, name) for name in ("event_id", "sampled_at", "payload")} == {
            name: getattr(entry, name) for name in ("event_id", "sampled_at", "payload")
        }
        assert (row.step_kind, row.step_index, row.result) == (StepKind.CHECK, 2, ActivityResult.FAILED)
        assert (row.target, row.error_class, row.message) == tuple(payload.values())
        assert (row.iteration_index, row.late, row.correlation_id) == (1, False, "test")
        assert row.principal_id == ADMINISTRATOR.caller.principal_id and row.procedure_id == bench.id
        assert before <= row.recorded_at <= datetime.now(UTC)
        assert encode(row).count(b'Z"') == 2, "times are told in UTC"

    with_procedure(check)


def test_an_activity_is_of_the_pass_that_went_on_when_it_came(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        await bench.act(done(0))
        await bench.begin(1)
        await bench.act(done(1))
        await bench.finish(1)
        await bench.act(done(2))
        await bench.begin(2)
        await bench.act(done(3))
        assert [row.iteration_index for row in await bench.rows()] == [None, 1, None, 2]

    with_procedure(check)


# The procedure's time


def test_what_was_sampled_before_the_end_is_kept_after_it_as_late(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        await bench.begin(1)
        await bench.act(done(1))
        await bench.conclude(came(number=1))
        await bench.call(AbortProcedure, reason="limit switch")
        await bench.act(done(2))
        await bench.conclude(came(number=2))
        assert [row.late for row in await bench.rows()] == [False, True]
        assert [row.payload["value"] for row in await bench.rows(late=True)] == [2]
        assert [row.late for row in await bench.rows(ListProcedureOutcomes)] == [False, True]

    with_procedure(check)


def test_a_held_procedure_still_takes_rows(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        await bench.call(HoldProcedure, reason="the axis squeaks")
        assert (await bench.act(done(1))).inserted == 1

    with_procedure(check)


def test_nothing_of_another_time_is_taken(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        await bench.begin(1)
        await bench.act(done(-60))
        for attempt in (bench.act(done(1), done(-61)), bench.conclude(came(), came(number=-61))):
            with pytest.raises(ProcedureActivitiesClosedError) as refused:
                await attempt
            assert refused.value.context["index"] == 1
        await bench.call(AbortProcedure, reason="limit switch")
        after = {"sampled_at": datetime.now(UTC) + SECOND}
        for attempt in (bench.act(done(1), done(**after)), bench.conclude(came(), came(**after))):
            with pytest.raises(ProcedureActivitiesClosedError):
                await attempt
        assert len(await bench.rows()) == 1 and not await bench.rows(ListProcedureOutcomes)

    with_procedure(check)


def test_a_procedure_that_has_not_started_takes_nothing(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        early = Bench(bench.app, await register_procedure(bench.app, START))
        for attempt in (early.act(done()), early.conclude(came())):
            with pytest.raises(ProcedureActivitiesClosedError):
                await attempt

    with_procedure(check)


def test_an_outcome_of_a_pass_that_was_not_begun_is_refused(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        await bench.begin(1)
        with pytest.raises(InvalidProcedureOutcomeError) as refused:
            await bench.conclude(came(1), came(2))
        assert refused.value.context["index"] == 1
        assert await bench.rows(ListProcedureOutcomes) == []

    with_procedure(check)


def meanwhile(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> list[int]:
    """The procedure ends after the rows were sent and before they are committed, the first time."""
    written, calls = tables._write, [0]

    async def ending(*arguments: Any) -> int:
        calls[0] += 1
        inserted = await written(*arguments)
        if calls[0] == 1:
            await bench.call(AbortProcedure, reason="limit switch")
        return inserted

    monkeypatch.setattr(tables, "_write", ending)
    return calls


def test_a_procedure_that_ends_during_the_delivery_marks_it_late(
    with_procedure: WithProcedure, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(bench: Bench) -> None:
        calls = meanwhile(monkeypatch, bench)
        assert (await bench.act(done(1))).inserted == 1
        assert calls == [2]
        assert [row.late for row in await bench.rows()] == [True]

    with_procedure(check)


def test_a_procedure_that_ends_during_the_delivery_closes_it_to_later_rows(
    with_procedure: WithProcedure, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(bench: Bench) -> None:
        meanwhile(monkeypatch, bench)
        with pytest.raises(ProcedureActivitiesClosedError):
            await bench.act(done(sampled_at=datetime.now(UTC) + timedelta(hours=1)))
        assert await bench.rows() == []

    with_procedure(check)


async def unmarked(bench: Bench) -> int:
    """How many rows are not late."""
    counts = [
        await bench.app.database.fetch(
            f"SELECT count(*) FROM {table} WHERE procedure_id = $1 AND NOT late", bench.id
        )
        for table in TABLES
    ]
    return sum(rows[0][0] for rows in counts)


def test_deliveries_and_the_end_in_any_order_leave_nothing_unmarked(with_procedure: WithProcedure) -> None:
    """Once the end is acknowledged, no row comes that is not late."""

    async def check(bench: Bench) -> None:
        seen: set[bool] = set()
        for number in range(40):
            own = Bench(bench.app, await start_procedure(bench.app, START))
            await own.begin(1)
            await own.finish(1)
            work: list[Any] = [own.act(*(done(n) for n in range(40))) for _ in range(4)]
            work += [own.conclude(*(came(number=n) for n in range(40))) for _ in range(2)]
            delivering = [asyncio.create_task(each) for each in work]
            # The end comes first, or when so many deliveries are done and the others are under way.
            await asyncio.gather(*delivering[: number % 6])
            await own.call(CompleteProcedure)
            before = await unmarked(own)
            await asyncio.gather(*delivering)
            assert await unmarked(own) == before
            found = await own.rows(limit=1000)
            assert len(found) == 160 and len(await own.rows(ListProcedureOutcomes)) == 80
            seen |= {row.late for row in found}
        assert seen == {True, False}, "the end came before some deliveries and after others"

    with_procedure(check)


def test_a_procedure_that_nobody_knows_takes_and_shows_nothing(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        unknown = Bench(bench.app, uuid4())
        reads = (ListProcedureActivities, ListProcedureOutcomes, ListProcedureIterations, ListProcedureSteps)
        for attempt in (unknown.act(done()), unknown.conclude(came()), *map(unknown.rows, reads)):
            with pytest.raises(ProcedureNotFoundError):
                await attempt

    with_procedure(check)


def test_rows_are_neither_changed_nor_deleted(with_procedure: WithProcedure) -> None:
    async def check(bench: Bench) -> None:
        for table in TABLES:
            for statement in (f"UPDATE {table} SET late = true", f"DELETE FROM {table}", f"TRUNCATE {table}"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await bench.app.database.execute(statement)

    with_procedure(check)


@pytest.mark.parametrize(
    ("found", "table", "changes"),
    [
        ("an entry of another time than its procedure's", TABLES[0], {"procedure_id": str(uuid4())}),
        ("an entry of another time than its procedure's", TABLES[0], {"late": True}),
        ("an entry of another time than its procedure's", TABLES[1], {"sampled_at": "2025-12-31T00:00:00Z"}),
        ("an outcome of a pass that was not begun", TABLES[1], {"iteration_index": 2}),
    ],
)
def test_the_audit_after_a_load_finds_rows_that_must_not_be(
    server: LiveServer, found: str, table: str, changes: dict[str, Any]
) -> None:
    async def check(app: App) -> None:
        bench = Bench(app, await start_procedure(app, START))
        await bench.begin(1)
        await bench.act(done())
        await bench.conclude(came())
        connection = await asyncpg.connect(server.dsn)
        try:
            assert await wrong(connection) == {}
            await connection.execute(
                f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT r.* FROM {table} t, "
                f"json_populate_record(t, $2::json) r WHERE t.procedure_id = $1",
                bench.id,
                json.dumps({"event_id": str(uuid4()), "row_number": 0} | changes),
            )
            assert list(await wrong(connection)) == [found]
            await connection.execute(f"DELETE FROM {table} WHERE row_number = 0")
        finally:
            await connection.close()

    server.run(check)
