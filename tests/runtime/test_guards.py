"""What a decision saw still holds when it is recorded: checked from the log after many interleavings."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from beamwright.app import App
from beamwright.contexts.trust.conduit import Conduit, ConduitStatus, conduits
from beamwright.contexts.trust.doors import DefineConduit
from beamwright.contexts.trust.retirement import RetireZone
from beamwright.contexts.trust.zone import DefineZone, UpdateZone, ZoneStatus, zones
from beamwright.kernel.errors import ConcurrencyError, ConflictError, DomainError, ReadModelBehindError
from beamwright.kernel.store import Mark
from beamwright.kernel.value import replace
from beamwright.settings import Settings
from tests.live import Cluster
from tests.runtime.test_projector import ADMINISTRATOR

ROUNDS = 60


async def state(app: App, aggregate: Any, id: Any) -> Any:
    name = (aggregate.name, id)
    stream = (await app.store.read([name]))[name]
    return aggregate.fold(aggregate.stream_decoder.decode(stream.events))


async def attempt(app: App, request: Any) -> Any:
    try:
        return (await app.service.call(request, ADMINISTRATOR)).body
    except DomainError as refusal:
        assert isinstance(refusal, ConflictError), refusal
        return None


def test_no_conduit_begins_in_a_zone_that_was_retired_at_the_same_time(cluster: Cluster, dsn: str) -> None:
    """Neither writes what the other writes: only the verified search keeps both from succeeding."""

    async def run() -> tuple[int, int]:
        app = await App.open(Settings(data=cluster.data), dsn)
        app.start_workers()
        defined = retired = 0
        for number in range(ROUNDS):
            zone = (await attempt(app, DefineZone(name=uuid4().hex))).zone_id
            define = DefineConduit(name=uuid4().hex, source_zone_id=zone, target_zone_id=zone)
            retire = RetireZone(zone_id=zone, reason="at the same time")
            first, second = (define, retire) if number % 2 else (retire, define)
            answers = await asyncio.gather(attempt(app, first), attempt(app, second))
            made = answers[0] if number % 2 else answers[1]
            gone = (await state(app, zones, zone)).status is ZoneStatus.RETIRED
            conduit: Conduit | None = await state(app, conduits, made.conduit_id) if made else None
            assert not (gone and conduit and conduit.status is ConduitStatus.ACTIVE), "write skew"
            defined, retired = defined + bool(made), retired + gone
        await app.close()
        return defined, retired

    defined, retired = asyncio.run(run())
    assert defined + retired >= ROUNDS


def test_two_hundred_writers_of_one_stream_lose_nothing_they_were_told(cluster: Cluster, dsn: str) -> None:
    async def run() -> None:
        app = await App.open(Settings(data=cluster.data), dsn)
        zone = (await attempt(app, DefineZone(name=uuid4().hex))).zone_id
        texts = [uuid4().hex for _ in range(200)]

        async def write(text: str) -> str | None:
            try:
                await app.service.call(UpdateZone(zone_id=zone, description=text), ADMINISTRATOR)
            except ConcurrencyError:
                return None
            return text

        told = {text for text in await asyncio.gather(*map(write, texts)) if text}
        events = await app.store.read_events(("Zone", zone), 0, 500)
        written = {text for event in events for text in texts if text in event.tagged}
        assert written == told
        assert [event.version for event in events] == list(range(1, len(told) + 2))
        await app.close()

    asyncio.run(run())


def test_an_expected_version_is_never_retried(cluster: Cluster, dsn: str) -> None:
    async def run() -> None:
        app = await App.open(Settings(data=cluster.data), dsn)
        zone = (await attempt(app, DefineZone(name=uuid4().hex))).zone_id
        call = replace(ADMINISTRATOR, expected_version=1)

        async def write() -> bool:
            try:
                await app.service.call(UpdateZone(zone_id=zone, description=uuid4().hex), call)
            except ConcurrencyError:
                return False
            return True

        assert sum(await asyncio.gather(*(write() for _ in range(20)))) == 1
        await app.close()

    asyncio.run(run())


def test_marks_compare_by_transaction_first() -> None:
    assert Mark(2, 1) > Mark(1, 9)
    assert Mark.parse(Mark(300, 7).token()) == Mark(300, 7)
    for bad in ("", "1", "1.2.3", "x.y", "-1.2", f"{2**70:x}.1"):
        with pytest.raises(DomainError):
            Mark.parse(bad)


def test_a_search_waits_for_events_of_what_is_searched_and_for_no_others(cluster: Cluster, dsn: str) -> None:
    """Nobody feeds the lists: what they have not seen matters only where it could change the answer."""

    async def run() -> None:
        app = await App.open(Settings(data=cluster.data), dsn)
        app.start_workers()
        zones_made = [(await attempt(app, DefineZone(name=uuid4().hex))).zone_id for _ in range(2)]
        for aggregate in (zones, conduits):
            await app.readers.caught_up(aggregate.snake, await app.store.horizon())
        await app._workers.stop()
        app.readers._patience = 0.2
        alone, joined = zones_made
        await app.service.call(
            UpdateZone(zone_id=alone, description="the list of zones is behind"), ADMINISTRATOR
        )
        await app.service.call(RetireZone(zone_id=alone, reason="no conduit is new"), ADMINISTRATOR)
        assert await app.lists.unseen(conduits) is None
        for _ in range(2):
            define = DefineConduit(name=uuid4().hex, source_zone_id=joined, target_zone_id=joined)
            made = (await app.service.call(define, ADMINISTRATOR)).body
        assert await app.lists.unseen(conduits) == Mark.parse(made.as_of)
        with pytest.raises(ReadModelBehindError):
            await app.service.call(RetireZone(zone_id=joined, reason="one is"), ADMINISTRATOR)
        app.start_workers()
        app.readers._patience = 30.0
        with pytest.raises(ConflictError):
            await app.service.call(RetireZone(zone_id=joined, reason="one is"), ADMINISTRATOR)
        await app.close()

    asyncio.run(run())
