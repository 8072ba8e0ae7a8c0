"""One contract for every event store: what the runtime relies on, in memory and on PostgreSQL alike."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from beamwright.adapters.memory.store import MemoryEventStore
from beamwright.adapters.postgres.database import Database
from beamwright.adapters.postgres.store import PostgresEventStore
from beamwright.app import new_id
from beamwright.contexts.trust.zone import ZoneNameTakenError
from beamwright.kernel.event import Claim
from beamwright.kernel.store import (
    AnsweredBeforeError,
    Append,
    ClaimTakenError,
    Envelope,
    EpochMovedError,
    EventStore,
    IdempotencyKey,
    LogFilter,
    LostRaceError,
    Mark,
    NewEvent,
    StoredAnswer,
)
from tests.live import Cluster

ENVELOPE = Envelope(UUID(int=1), "do_it", UUID(int=2), "correlation")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def event(id: UUID, version: int, kind: str = "ZoneDefined", type: str = "Zone") -> NewEvent:
    payload = (
        f'{{"occurred_at":"2026-01-01T00:00:00Z","zone_id":"{id}","name":"n{version}","description":null}}'
    )
    return NewEvent(new_id(), type, id, version, kind, 1, payload, NOW)


def write(id: UUID, version: int = 1, **more: Any) -> Append:
    return Append(ENVELOPE, [event(id, version)], {("Zone", id): version - 1}, **more)


def claim(key: str) -> Claim:
    return Claim(kind="zone-name", key=key, taken=ZoneNameTakenError)


@asynccontextmanager
async def memory(cluster: Cluster) -> AsyncIterator[EventStore]:
    yield MemoryEventStore()


@asynccontextmanager
async def postgres(cluster: Cluster) -> AsyncIterator[EventStore]:
    database = await Database.open(await asyncio.to_thread(cluster.database))
    yield PostgresEventStore(database)
    await database.close()


type Check = Callable[[EventStore], Awaitable[None]]


@pytest.fixture(params=[memory, postgres], ids=["memory", "postgres"])
def prove(request: pytest.FixtureRequest, cluster: Cluster) -> Callable[[Check], None]:
    async def run(check: Check) -> None:
        async with request.param(cluster) as store:
            await check(store)

    return lambda check: asyncio.run(run(check))


def test_reads_back_what_was_appended(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        id = new_id()
        await store.append(write(id))
        mark = await store.append(write(id, 2))
        stream = (await store.read([("Zone", id)]))["Zone", id]
        assert (stream.version, stream.mark, stream.created_by) == (2, mark, ENVELOPE.principal_id)
        assert str(stream.events).count('"event_type":"ZoneDefined"') == 2

    prove(check)


def test_reads_several_streams_and_leaves_out_the_missing(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        one, two = new_id(), new_id()
        await store.append(write(one))
        await store.append(write(two))
        found = await store.read([("Zone", one), ("Zone", two), ("Zone", new_id())])
        assert set(found) == {("Zone", one), ("Zone", two)}
        assert await store.read([("Zone", new_id())]) == {} == await store.read([])

    prove(check)


def test_the_end_of_a_stream_is_read_apart(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        long, short = ("Zone", new_id()), ("Zone", new_id())
        for version in (1, 2, 3):
            mark = await store.append(write(long[1], version))
        await store.append(write(short[1]))
        for names in ([long], [long, short]):
            end = (await store.read(names, {long: 2}))[long]
            assert (end.version, end.mark, end.created_by) == (3, mark, ENVELOPE.principal_id)
            assert '"n3"' in str(end.events) and '"n2"' not in str(end.events)
            assert long not in await store.read(names, {long: 3})
        whole, end = await asyncio.gather(store.read([long]), store.read([long], {long: 1}))
        assert [str(each[long].events).count("ZoneDefined") for each in (whole, end)] == [3, 2]

    prove(check)


@pytest.mark.parametrize("version", [1, 3, 7])
def test_refuses_a_version_that_is_not_the_next(prove: Callable[[Check], None], version: int) -> None:
    async def check(store: EventStore) -> None:
        id = new_id()
        await store.append(write(id))
        with pytest.raises(LostRaceError):
            await store.append(write(id, version))
        assert (await store.read([("Zone", id)]))["Zone", id].version == 1

    prove(check)


def test_refuses_when_a_stream_that_was_only_read_has_moved(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        seen, written = new_id(), new_id()
        await store.append(write(seen))
        stale = Append(ENVELOPE, [event(written, 1)], {("Zone", written): 0, ("Zone", seen): 0})
        with pytest.raises(LostRaceError):
            await store.append(stale)
        assert await store.read([("Zone", written)]) == {}

    prove(check)


def test_refuses_when_a_search_is_out_of_date(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        searched = await store.append(write(new_id()))
        fresh = new_id()
        await store.append(write(fresh, searched={"Zone": searched}))
        with pytest.raises(LostRaceError):
            await store.append(write(new_id(), searched={"Zone": searched}))
        await store.append(write(new_id(), searched={"Visit": searched}))

    prove(check)


def test_several_streams_are_written_together_or_not_at_all(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        one, two = new_id(), new_id()
        await store.append(write(two))
        both = Append(ENVELOPE, [event(one, 1), event(two, 1)], {("Zone", one): 0, ("Zone", two): 0})
        with pytest.raises(LostRaceError):
            await store.append(both)
        assert await store.read([("Zone", one)]) == {}
        await store.append(
            Append(ENVELOPE, [event(one, 1), event(two, 2)], {("Zone", one): 0, ("Zone", two): 1})
        )
        assert len(await store.read([("Zone", one), ("Zone", two)])) == 2

    prove(check)


def test_a_claim_is_held_by_one_stream_until_released(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        one, two = new_id(), new_id()
        await store.append(write(one, claimed=[(claim("a"), ("Zone", one))]))
        assert await store.claim_holder("zone-name", "a") == ("Zone", one)
        with pytest.raises(ClaimTakenError):
            await store.append(write(two, claimed=[(claim("a"), ("Zone", two))]))
        await store.append(write(one, 2, released=[claim("a")]))
        await store.append(write(two, claimed=[(claim("a"), ("Zone", two))]))
        assert await store.claim_holder("zone-name", "a") == ("Zone", two)

    prove(check)


def test_of_many_appends_at_once_each_hears_of_its_own_taken_claim(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        owner = new_id()
        taken = [claim(f"taken {number}") for number in range(8)]
        await store.append(write(owner, claimed=[(each, ("Zone", owner)) for each in taken]))

        async def refused(number: int) -> Claim:
            id = new_id()
            wanted = [claim(f"free {number}"), taken[number]]
            with pytest.raises(ClaimTakenError) as refusal:
                await store.append(write(id, claimed=[(each, ("Zone", id)) for each in wanted]))
            return refusal.value.claim

        assert await asyncio.gather(*map(refused, range(8))) == taken

    prove(check)


def test_an_answer_is_stored_with_its_events_or_not_at_all(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        key = IdempotencyKey(ENVELOPE.surface_id, ENVELOPE.principal_id, "k")
        answer = StoredAnswer(b"hash", 201, "{}", None)
        id = new_id()
        with pytest.raises(LostRaceError):
            await store.append(write(id, 5, idempotency=(key, answer)))
        assert await store.answer(key) is None
        mark = await store.append(write(id, idempotency=(key, answer)))
        assert await store.answer(key) == answer._replace(mark=mark)
        with pytest.raises(AnsweredBeforeError):
            await store.append(write(new_id(), idempotency=(key, answer)))
        alone = key._replace(key="refusal")
        await store.append(Append(ENVELOPE, idempotency=(alone, answer)))
        assert await store.answer(alone) == answer

    prove(check)


def test_an_append_is_refused_when_the_authority_moved(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        epoch = await store.authority_epoch()
        actor = new_id()
        about = event(actor, 1, "X", "Actor")._replace(bumps_epoch=True)
        other = new_id()
        seen = {("Actor", actor): 0, ("Zone", other): 0}
        mark = await store.append(Append(ENVELOPE, [about, event(other, 1)], seen))
        assert await store.authority_epoch() == mark.position - 1, (
            "the authority's own event counts, not the last"
        )
        with pytest.raises(EpochMovedError):
            await store.append(write(new_id(), epoch=epoch))
        await store.append(write(new_id(), epoch=mark.position - 1))
        assert [e.stream_id for e in await store.read_authority(epoch, ["Actor"])] == [actor]

    prove(check)


def test_the_log_is_read_in_order_from_any_mark(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        start = await store.horizon()
        ids = [new_id() for _ in range(5)]
        marks = [await store.append(write(id)) for id in ids]
        assert [e.stream_id for e in await store.read_log(start, 100)] == ids
        assert [e.stream_id for e in await store.read_log(marks[1], 2)] == ids[2:4]
        assert await store.read_log(marks[-1], 10) == []
        assert await store.horizon() == marks[-1]

    prove(check)


def test_the_log_is_searched_to_its_end_for_what_is_wanted(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        start = await store.horizon()
        ids = [new_id() for _ in range(6)]
        for id in ids:
            kind = "ZoneRetired" if id in ids[1::2] else "ZoneDefined"
            await store.append(Append(ENVELOPE, [event(id, 1, kind)], {("Zone", id): 0}))
        end = await store.horizon()
        wanted = LogFilter(("Zone",), ("ZoneRetired",))
        events, reached, more = await store.search_log(start, 2, wanted)
        assert ([e.stream_id for e in events], reached, more) == (ids[1:4:2], events[-1].mark, True)
        events, reached, more = await store.search_log(reached, 2, wanted)
        assert ([e.stream_id for e in events], reached, more) == (ids[5:], end, False)
        for nothing in (LogFilter(("Visit",)), LogFilter(event_types=("Nothing",))):
            assert tuple(await store.search_log(start, 2, nothing))[1:] == (end, False)
        assert len((await store.search_log(start, 9, LogFilter())).events) == 6
        assert tuple(await store.search_log(end, 2, wanted))[1:] == (end, False)

    prove(check)


def test_a_stream_can_be_read_as_it_was(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        id = new_id()
        for version in (1, 2, 3):
            await store.append(write(id, version))
        past = await store.read_until(("Zone", id), 2, None)
        assert past is not None and past.version == 2
        assert await store.read_until(("Zone", id), None, datetime(2001, 1, 1, tzinfo=UTC)) is None
        events = await store.read_events(("Zone", id), 1, 1)
        assert [e.version for e in events] == [2]

    prove(check)


def test_of_many_writers_of_one_version_one_wins(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        id = new_id()
        results = await asyncio.gather(*(store.append(write(id)) for _ in range(30)), return_exceptions=True)
        assert sum(isinstance(result, Mark) for result in results) == 1
        assert all(isinstance(result, Mark | LostRaceError) for result in results)

    prove(check)


def test_concurrent_claims_of_one_key_have_one_winner(prove: Callable[[Check], None]) -> None:
    async def check(store: EventStore) -> None:
        key = uuid4().hex
        ids = [new_id() for _ in range(30)]
        results = await asyncio.gather(
            *(store.append(write(id, claimed=[(claim(key), ("Zone", id))])) for id in ids),
            return_exceptions=True,
        )
        winners = [id for id, result in zip(ids, results, strict=True) if isinstance(result, Mark)]
        assert len(winners) == 1
        assert await store.claim_holder("zone-name", key) == ("Zone", winners[0])
        assert set(await store.read([("Zone", id) for id in ids])) == {("Zone", winners[0])}

    prove(check)
