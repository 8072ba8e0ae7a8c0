"""What happens to subjects by itself, and how reactions follow the log through refusals."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from beamwright.adapters.memory.store import MemoryEventStore
from beamwright.contexts.equipment.asset import AssetDecommissioned, assets
from beamwright.contexts.run.run import RunCompleted, RunStarted, RunStopped, runs
from beamwright.contexts.subject.subject import (
    SubjectCannotDismountError,
    SubjectCannotMeasureError,
    subjects,
)
from beamwright.contexts.subject.subject_mounting import (
    DismountSubject,
    MeasureSubject,
    SubjectInOpenRunError,
)
from beamwright.kernel import wellknown
from beamwright.kernel.errors import ConcurrencyError, DatabaseUnavailableError
from beamwright.kernel.event import Event, event_type, payload
from beamwright.kernel.registry import Registry
from beamwright.kernel.store import BEGINNING, Append, Envelope, Mark, Matched, NewEvent
from beamwright.kernel.value import replace
from beamwright.runtime.folding import Folding
from beamwright.runtime.reactions import Reactions, back_off
from beamwright.runtime.subject_reactions import SUBJECT_REACTIONS
from tests.contexts.equipment.asset_examples import ACTIVATED, REGISTERED
from tests.contexts.subject import examples
from tests.contexts.subject.examples import MOUNTED, OTHER, RUN, SUBJECT
from tests.rules import NOW, PRINCIPAL

MEASURER, DISMOUNTER = SUBJECT_REACTIONS
ASSET = REGISTERED.asset_id
STARTED = RunStarted(
    run_id=RUN,
    occurred_at=NOW,
    name="Scan",
    plan_id=OTHER,
    plan_stream_version=1,
    plan_content_hash="",
    practice_id=OTHER,
    method_id=OTHER,
    method_stream_version=1,
    capability_id=OTHER,
    facility_code="aps",
    asset_ids=frozenset({ASSET}),
    started_by=PRINCIPAL,
    subject_id=SUBJECT,
)
COMPLETED = RunCompleted(run_id=RUN, occurred_at=NOW, ended_by=PRINCIPAL)
STOPPED = RunStopped(run_id=RUN, occurred_at=NOW, reason="enough", ended_by=PRINCIPAL)
GONE = AssetDecommissioned(asset_id=ASSET, occurred_at=NOW, reason="worn out")


class Bench:
    """A log in memory, and a service that only notes what it is asked."""

    def __init__(self) -> None:
        self.store = MemoryEventStore()
        self.registry = Registry([assets, runs, subjects])
        self.folding = Folding(self.registry, self.store)
        self.saved: dict[str, Mark] = {}
        self.issued: list[Any] = []
        self.troubles: list[Exception] = []
        self.clock = NOW
        self.mounted: list[UUID] = []
        self.reactions = self.started()

    def started(self) -> Reactions:
        """The runner of a process that has just begun."""
        fakes: Any = self
        return Reactions(fakes, fakes, fakes, uuid4(), SUBJECT_REACTIONS)

    def now(self) -> Any:
        return self.clock

    async def matching(self, aggregate: Any, filters: Any) -> Matched:
        assert filters == {"mounted_on_asset_id": ASSET}
        return Matched(self.mounted, BEGINNING, None)

    async def position(self, name: str) -> Mark:
        return self.saved.get(name, BEGINNING)

    async def save(self, name: str, mark: Mark) -> None:
        self.saved[name] = mark

    async def call(self, command: Any, call: Any) -> None:
        assert call.caller.principal_id == wellknown.REACTOR
        assert call.idempotency_key is None
        self.issued.append(command)
        if self.troubles:
            raise self.troubles.pop(0)

    async def happened(self, *events: Event) -> None:
        for event in events:
            aggregate = self.registry.owner[type(event)]
            id = getattr(event, aggregate.id_field)
            version = 1 + sum(stored.stream_id == id for stored in self.store.log)
            kind = event_type(type(event))
            new = NewEvent(
                uuid4(), aggregate.name, id, version, kind.name, 1, payload(event).decode(), event.occurred_at
            )
            await self.store.append(Append(envelope=Envelope(PRINCIPAL, "", uuid4(), ""), events=[new]))


async def reacted(bench: Bench, reaction: Any) -> list[Any]:
    await bench.reactions.react(reaction)
    return bench.issued


@pytest.mark.parametrize("end", [COMPLETED, STOPPED])
def test_a_run_that_ends_in_order_measures_its_subject(end: Event) -> None:
    async def check() -> None:
        bench = Bench()
        await bench.happened(STARTED, end)
        assert await reacted(bench, MEASURER) == [MeasureSubject(subject_id=SUBJECT, run_id=RUN)]
        assert await reacted(bench, MEASURER) == bench.issued[:1], "each event is handled once"

    asyncio.run(check())


def test_a_run_without_a_subject_measures_nothing() -> None:
    async def check() -> None:
        bench = Bench()
        await bench.happened(replace(STARTED, subject_id=None), COMPLETED)
        assert await reacted(bench, MEASURER) == []
        assert bench.saved == {MEASURER.name: await bench.store.horizon()}

    asyncio.run(check())


def test_a_refusal_by_the_rules_counts_as_measured() -> None:
    async def check() -> None:
        bench = Bench()
        bench.troubles = [SubjectCannotMeasureError("it was dismounted")]
        await bench.happened(STARTED, COMPLETED)
        await reacted(bench, MEASURER)
        bench.clock += timedelta(hours=1)
        assert len(await reacted(bench, MEASURER)) == 1

    asyncio.run(check())


def test_a_lost_race_is_run_again_after_a_while() -> None:
    async def check() -> None:
        bench = Bench()
        bench.troubles = [ConcurrencyError("again")]
        await bench.happened(STARTED, COMPLETED)
        await reacted(bench, MEASURER)
        assert MEASURER.name not in bench.saved, "the position is saved after the handler"
        assert len(await reacted(bench, MEASURER)) == 1
        bench.clock += timedelta(seconds=1)
        assert len(await reacted(bench, MEASURER)) == 2
        assert bench.saved[MEASURER.name] == await bench.store.horizon()

    asyncio.run(check())


def test_a_decommissioned_asset_loses_what_is_mounted_on_it() -> None:
    async def check() -> None:
        bench = Bench()
        bench.mounted = [SUBJECT]
        await bench.happened(REGISTERED, ACTIVATED, examples.REGISTERED, MOUNTED, GONE)
        reason = f"Stage ({ASSET}) was decommissioned."
        assert await reacted(bench, DISMOUNTER) == [DismountSubject(subject_id=SUBJECT, reason=reason)]

    asyncio.run(check())


def test_what_an_open_run_holds_is_dismounted_later_and_holds_up_nothing_else() -> None:
    async def check() -> None:
        bench = Bench()
        bench.mounted = [SUBJECT]
        bench.troubles = [SubjectInOpenRunError("still running")]
        await bench.happened(REGISTERED, examples.REGISTERED, MOUNTED, GONE, GONE)
        assert len(await reacted(bench, DISMOUNTER)) == 2
        assert bench.saved.get(DISMOUNTER.name, BEGINNING) < bench.store.log[-2].mark
        bench.clock += timedelta(seconds=1)
        assert len(await reacted(bench, DISMOUNTER)) == 3
        assert bench.saved[DISMOUNTER.name] == await bench.store.horizon()

    asyncio.run(check())


def test_what_was_dismounted_meanwhile_is_done() -> None:
    async def check() -> None:
        bench = Bench()
        bench.mounted = [SUBJECT]
        bench.troubles = [SubjectCannotDismountError("it is off")]
        await bench.happened(REGISTERED, examples.REGISTERED, GONE)
        await reacted(bench, DISMOUNTER)
        assert bench.saved[DISMOUNTER.name] == await bench.store.horizon()

    asyncio.run(check())


def test_another_process_begins_where_the_position_was_saved() -> None:
    async def check() -> None:
        bench = Bench()
        await bench.happened(STARTED, COMPLETED)
        await reacted(bench, MEASURER)
        bench.reactions = bench.started()
        assert len(await reacted(bench, MEASURER)) == 1

    asyncio.run(check())


def test_an_outage_ends_the_pass_and_is_no_attempt() -> None:
    async def check() -> None:
        bench = Bench()
        bench.troubles = [DatabaseUnavailableError("away")]
        await bench.happened(STARTED, COMPLETED)
        with pytest.raises(DatabaseUnavailableError):
            await reacted(bench, MEASURER)
        assert len(await reacted(bench, MEASURER)) == 2

    asyncio.run(check())


def test_attempts_are_spread_up_to_five_minutes() -> None:
    assert [back_off(n).total_seconds() for n in (1, 2, 3, 9, 10, 1000)] == [1, 2, 4, 256, 300, 300]
