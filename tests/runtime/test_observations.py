"""Samples on a real database: each once, none after the end of its run, whoever else is writing."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from beamwright.adapters.postgres import observations as table
from beamwright.app import App
from beamwright.contexts.run.observations import (
    AppendObservations,
    InvalidObservationPointsError,
    ListRunChannels,
    ListRunObservations,
    ObservationEntry,
    RunObservationsClosedError,
    SamplingProcedure,
)
from beamwright.contexts.run.run import RunNotFoundError
from beamwright.contexts.run.run_moves import CompleteRun
from beamwright.kernel.cursor import InvalidCursorError
from beamwright.kernel.entries import Inserted
from beamwright.kernel.units import Unit, UnitSystem
from beamwright.kernel.value import replace
from tests.live import LiveServer
from tests.running import start_run
from tests.runtime.test_projector import ADMINISTRATOR

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
CELSIUS = Unit(system=UnitSystem.UDUNITS, code="degC")


def sample(number: int = 0, channel: str = "t1", **fields: Any) -> ObservationEntry:
    given: dict[str, Any] = {
        "event_id": uuid4(),
        "channel_name": channel,
        "value": float(number),
        "sampling_procedure": SamplingProcedure.MONITOR,
        "sampled_at": START + number * SECOND,
    } | fields
    return ObservationEntry(**given)


class Bench:
    """A run that started at START, and whoever delivers samples of it."""

    def __init__(self, app: App, run_id: UUID) -> None:
        self.app = app
        self.run_id = run_id

    async def deliver(self, *entries: ObservationEntry, **fields: Any) -> Inserted:
        request = AppendObservations(run_id=self.run_id, entries=tuple(entries), **fields)
        return await self.call(request)

    async def call(self, request: Any) -> Any:
        return (await self.app.service.call(request, ADMINISTRATOR)).body

    async def read(self, **fields: Any) -> Any:
        return await self.call(ListRunObservations(run_id=self.run_id, **fields))

    async def count(self) -> int:
        rows = await self.app.database.fetch(
            "SELECT count(*) FROM entries_run_observations WHERE run_id = $1", self.run_id
        )
        return rows[0][0]


@pytest.fixture
def with_run(server: LiveServer) -> "WithRun":
    def run(check: Callable[[Bench], Awaitable[None]]) -> None:
        async def checked(app: App) -> None:
            await check(Bench(app, await start_run(app, START)))

        server.run(checked)

    return run


type WithRun = Callable[[Callable[[Bench], Awaitable[None]]], None]


def test_what_is_delivered_twice_is_kept_once(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        entries = [sample(number) for number in range(5000)]
        assert await bench.deliver(*entries) == Inserted(received=5000, inserted=5000, duplicates=0)
        assert await bench.deliver(*entries) == Inserted(received=5000, inserted=0, duplicates=5000)
        assert await bench.count() == 5000

    with_run(check)


def test_only_what_is_new_of_a_batch_is_written(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        entries = [sample(number) for number in range(10)]
        await bench.deliver(*entries[:4])
        twice = [*entries, entries[9]]
        assert await bench.deliver(*twice) == Inserted(received=11, inserted=6, duplicates=5)

    with_run(check)


def test_one_id_can_be_of_two_runs(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        entry = sample()
        await bench.deliver(entry)
        other = Bench(bench.app, await start_run(bench.app, START))
        assert (await other.deliver(entry)).inserted == 1

    with_run(check)


def test_what_was_sampled_before_the_end_is_kept_after_it_as_late(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        await bench.deliver(sample(1))
        await bench.call(CompleteRun(run_id=bench.run_id))
        await bench.deliver(sample(2))
        assert [item.late for item in (await bench.read()).items] == [False, True]
        assert [item.value for item in (await bench.read(late=True)).items] == [2.0]

    with_run(check)


def test_nothing_sampled_after_the_end_or_long_before_the_start_is_taken(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        await bench.deliver(sample(-60))
        with pytest.raises(RunObservationsClosedError) as refused:
            await bench.deliver(sample(1), sample(-61))
        assert refused.value.context["index"] == 1
        await bench.call(CompleteRun(run_id=bench.run_id))
        with pytest.raises(RunObservationsClosedError):
            await bench.deliver(sample(2), sample(3, sampled_at=datetime.now(UTC) + SECOND))
        assert await bench.count() == 1

    with_run(check)


def test_a_run_that_ends_during_the_delivery_marks_it_late(
    with_run: WithRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end commits after the rows were sent and before they are: the delivery is judged again."""

    async def check(bench: Bench) -> None:
        written, end = table._write, CompleteRun(run_id=bench.run_id)
        calls = 0

        async def meanwhile(*arguments: Any) -> int:
            nonlocal calls
            calls += 1
            inserted = await written(*arguments)
            if calls == 1:
                await bench.call(end)
            return inserted

        monkeypatch.setattr(table, "_write", meanwhile)
        assert (await bench.deliver(sample(1))).inserted == 1
        assert calls == 2
        assert [item.late for item in (await bench.read()).items] == [True]

    with_run(check)


def test_a_run_that_ends_during_the_delivery_closes_it_to_later_samples(
    with_run: WithRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(bench: Bench) -> None:
        written, end = table._write, CompleteRun(run_id=bench.run_id)

        async def meanwhile(*arguments: Any) -> int:
            inserted = await written(*arguments)
            await bench.call(end)
            return inserted

        monkeypatch.setattr(table, "_write", meanwhile)
        with pytest.raises(RunObservationsClosedError):
            await bench.deliver(sample(sampled_at=datetime.now(UTC) + timedelta(hours=1)))
        assert await bench.count() == 0

    with_run(check)


def test_deliveries_and_the_end_of_their_run_in_any_order_leave_nothing_unmarked(with_run: WithRun) -> None:
    """A row that is not late was committed before the end."""

    async def check(bench: Bench) -> None:
        for _ in range(15):
            own = Bench(bench.app, await start_run(bench.app, START))
            work: list[Any] = [own.deliver(*(sample(n) for n in range(50))) for _ in range(4)]
            work.insert(2, own.call(CompleteRun(run_id=own.run_id)))
            await asyncio.gather(*work)
            wrong = await bench.app.database.fetch(
                "SELECT FROM entries_run_observations o JOIN events e ON e.stream_id = o.run_id "
                "WHERE o.run_id = $1 AND e.event_type = 'RunCompleted' AND NOT late "
                "AND o.xmin::text::bigint > e.transaction_id::text::bigint",
                own.run_id,
            )
            assert not wrong
            assert sum((await bench.app.service.observations.counts([own.run_id])).values()) == 200

    with_run(check)


@pytest.mark.parametrize("writers", [2, 8])
def test_writers_with_overlapping_batches_keep_each_sample_once(with_run: WithRun, writers: int) -> None:
    async def check(bench: Bench) -> None:
        entries = [sample(number, f"t{number % 7}") for number in range(600)]
        batches: list[Sequence[ObservationEntry]] = [
            entries[number * 20 : number * 20 + 400] for number in range(writers)
        ]
        batches = [batch if number % 2 else batch[::-1] for number, batch in enumerate(batches)]
        answers = await asyncio.gather(*(bench.deliver(*batch) for batch in batches))
        distinct = {entry.event_id for batch in batches for entry in batch}
        assert sum(answer.inserted for answer in answers) == await bench.count() == len(distinct)
        assert sum(channel.count for channel in await channels(bench)) == len(distinct)

    with_run(check)


async def channels(bench: Bench) -> Any:
    return (await bench.call(ListRunChannels(run_id=bench.run_id))).channels


def test_channels_tell_their_extremes_and_their_last_value(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        entries = [sample(n, value=float(v), unit=CELSIUS) for n, v in ((1, 5), (3, -2), (2, 9))]
        await bench.deliver(*entries[:2])
        await bench.deliver(*entries)
        [channel] = await channels(bench)
        assert (channel.count, channel.minimum, channel.maximum, channel.last_value) == (3, -2, 9, -2)
        assert (channel.first_sampled_at, channel.last_sampled_at) == (START + SECOND, START + 3 * SECOND)
        assert channel.unit == CELSIUS

    with_run(check)


def test_a_source_is_heard_with_and_without_samples(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        await bench.deliver(sample(), source_id="ioc-1")
        assert await bench.deliver(source_id="ioc-2") == Inserted(received=0, inserted=0, duplicates=0)
        sources = (await bench.call(ListRunChannels(run_id=bench.run_id))).sources
        assert [source.source_id for source in sources] == ["ioc-1", "ioc-2"]
        assert (await bench.read(source_id="ioc-1")).items[0].source_id == "ioc-1"

    with_run(check)


def test_pages_go_through_every_sample_in_either_order(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        entries = [sample(number // 3, f"t{number % 4}") for number in range(60)]
        await bench.deliver(*entries)
        wanted = sorted((entry.sampled_at, entry.event_id) for entry in entries)
        for sort in ("sampled_at", "-sampled_at"):
            read: list[Any] = []
            cursor: str | None = None
            while not read or cursor is not None:
                page = await bench.read(limit=7, sort=sort, cursor=cursor)
                read += page.items
                cursor = page.next_cursor
            got = [(item.sampled_at, item.event_id) for item in read]
            assert got == (wanted[::-1] if sort.startswith("-") else wanted)

    with_run(check)


def test_a_cursor_of_the_other_order_is_refused(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        await bench.deliver(sample(1), sample(2))
        cursor = (await bench.read(limit=1)).next_cursor
        with pytest.raises(InvalidCursorError):
            await bench.read(limit=1, sort="-sampled_at", cursor=cursor)

    with_run(check)


def test_samples_are_selected_by_what_they_say(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        baseline = sample(1, "t2", sampling_procedure=SamplingProcedure.BASELINE)
        simulated = sample(2, "t3", simulated=True)
        await bench.deliver(sample(0), baseline, simulated)

        async def ids(**fields: Any) -> list[UUID]:
            return [item.event_id for item in (await bench.read(**fields)).items]

        assert await ids(channel_name=frozenset({"t2", "t3"})) == [baseline.event_id, simulated.event_id]
        assert await ids(sampling_procedure=SamplingProcedure.BASELINE) == [baseline.event_id]
        assert await ids(simulated=True) == [simulated.event_id]
        assert await ids(sampled_from=START + SECOND, sampled_until=START + 2 * SECOND) == [baseline.event_id]

    with_run(check)


def test_buckets_hold_every_sample_of_their_time(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        await bench.deliver(*(sample(number, value=float(number % 10)) for number in range(1000)))
        [series] = (await bench.read(max_points=100)).series
        assert [bucket.count for bucket in series.buckets] == [10] * 100
        assert {(b.minimum, b.maximum, b.mean) for b in series.buckets} == {(0, 9, 4.5)}

    with_run(check)


def test_buckets_divide_the_time_that_was_asked_for(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        await bench.deliver(*(sample(number) for number in range(100)), sample(1, "t2"))
        asked = {"sampled_from": START, "sampled_until": START + 20 * SECOND}
        page = await bench.read(max_points=10, channel_name=frozenset({"t1"}), **asked)
        assert [b.sampled_from for b in page.series[0].buckets] == [
            START + n * SECOND for n in range(0, 20, 2)
        ]
        assert [series.channel_name for series in page.series] == ["t1"]

    with_run(check)


def test_too_many_points_are_refused(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        await bench.deliver(*(sample(1, f"t{number}") for number in range(21)))
        with pytest.raises(InvalidObservationPointsError):
            await bench.read(max_points=5000)
        assert len((await bench.read(max_points=1000)).series) == 21

    with_run(check)


def test_a_run_without_samples_has_none(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        assert (await bench.read()).items == []
        assert (await bench.read(max_points=10)).series == []
        assert await channels(bench) == []

    with_run(check)


def test_an_unknown_run_takes_nothing(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        with pytest.raises(RunNotFoundError):
            await Bench(bench.app, uuid4()).deliver(sample())

    with_run(check)


def test_a_repeated_key_gives_the_first_answer_again(with_run: WithRun) -> None:
    async def check(bench: Bench) -> None:
        call = replace(ADMINISTRATOR, idempotency_key=uuid4().hex)
        request = AppendObservations(run_id=bench.run_id, entries=(sample(),))
        first = await bench.app.service.call(request, call)
        again = await bench.app.service.call(request, call)
        assert (first.body.inserted, again.replayed) == (1, True)
        assert bytes(again.body) == b'{"received":1,"inserted":1,"duplicates":0}'

    with_run(check)
