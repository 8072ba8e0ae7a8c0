"""What is remembered of long streams is what a whole reading gives."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from beamwright.adapters.memory.store import MemoryEventStore
from beamwright.app import new_id, registry
from beamwright.kernel.store import WHOLE, Append, NewEvent, Stream, StreamName
from beamwright.runtime import folding
from beamwright.runtime.folding import Folding, Loaded
from tests.adapters.test_store_contract import ENVELOPE, NOW

ZONES = [("Zone", UUID(int=n)) for n in range(1, 5)]


class Counting(MemoryEventStore):
    """Remembers how many events were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_events_of: dict[StreamName, int] = {}

    async def read(
        self, names: Sequence[StreamName], after: Mapping[StreamName, int] = WHOLE
    ) -> Mapping[StreamName, Stream]:
        found = await super().read(names, after)
        self.read_events_of |= {
            name: stream.version - after.get(name, 0) for name, stream in found.items()
        } | {name: 0 for name in names if name not in found}
        return found


@pytest.fixture(autouse=True)
def short_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "LONG", 3)
    monkeypatch.setattr(folding, "REMEMBERED", 2)


async def lengthen(store: MemoryEventStore, name: StreamName) -> None:
    version = len([each for each in store.log if (each.stream_type, each.stream_id) == name]) + 1
    kind = "ZoneDefined" if version == 1 else "ZoneUpdated"
    payload = f'{{"occurred_at":"2026-01-01T00:00:00Z","zone_id":"{name[1]}","name":"n{version}","description":null}}'
    event = NewEvent(new_id(), *name, version, kind, 1, payload, NOW + timedelta(days=version * 3 % 5))
    await store.append(Append(ENVELOPE, [event], {name: version - 1}))


def told(loaded: Mapping[StreamName, Loaded]) -> dict[StreamName, Loaded]:
    return {name: each._replace(stream=each.stream._replace(events="")) for name, each in loaded.items()}


steps = some.lists(some.tuples(some.sampled_from(ZONES), some.integers(0, 4)), max_size=40)


@settings(deadline=None)
@given(steps)
def test_after_whatever_was_appended_and_read_it_is_as_read_anew(steps: list[tuple[StreamName, int]]) -> None:
    async def check() -> None:
        store = MemoryEventStore()
        remembering = Folding(registry(), store)
        for name, times in steps:
            for _ in range(times):
                await lengthen(store, name)
            for names in ([name], ZONES):
                anew = await Folding(registry(), store).load(names)
                assert told(await remembering.load(names)) == told(anew)

    asyncio.run(check())


def test_of_a_long_stream_only_the_new_events_are_read() -> None:
    async def check() -> None:
        store = Counting()
        remembering = Folding(registry(), store)
        read: list[int] = []
        for _ in range(5):
            await lengthen(store, ZONES[0])
            await remembering.load(ZONES[:1])
            read.append(store.read_events_of[ZONES[0]])
        await remembering.load(ZONES[:1])
        assert [*read, store.read_events_of[ZONES[0]]] == [1, 2, 3, 1, 1, 0]

    asyncio.run(check())


def test_what_was_not_looked_at_for_longest_is_forgotten() -> None:
    async def check() -> None:
        store = Counting()
        remembering = Folding(registry(), store)
        for name in ZONES[:3]:
            for _ in range(3):
                await lengthen(store, name)
        for name in (ZONES[0], ZONES[1], ZONES[0], ZONES[2]):
            await remembering.load([name])
        await remembering.load(ZONES[:3])
        assert [store.read_events_of[name] for name in ZONES[:3]] == [0, 3, 0]

    asyncio.run(check())
