"""Nothing starts or resumes on what was withdrawn before it: checked from the log after many interleavings."""

import asyncio
import json
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

from beamwright.app import App, registry
from beamwright.contexts.enclosure.enclosure import PermitStatus
from beamwright.contexts.equipment.asset_moves import FaultAsset, RestoreAsset
from beamwright.contexts.operation.procedure_moves import AbortProcedure, HoldProcedure, StartProcedure
from beamwright.contexts.operation.procedure_resume import ResumeProcedure
from beamwright.contexts.operation.registration import RegisterProcedure
from beamwright.contexts.run.resume import ResumeRun
from beamwright.contexts.run.run_moves import HoldRun, StopRun
from beamwright.contexts.run.start import StartRun
from beamwright.contexts.safety.clearance_lifecycle import ExpireClearance
from beamwright.contexts.supply.supply import (
    MarkSupplyRecovering,
    MarkSupplyUnavailable,
    RestoreSupply,
)
from beamwright.kernel.errors import ConcurrencyError, ConflictError
from beamwright.settings import Settings
from tests.acceptance.stations import Station
from tests.live import Cluster
from tests.runtime.test_projector import ADMINISTRATOR

INTERLEAVINGS = int(os.environ.get("GATE_INTERLEAVINGS", "300"))
STATIONS = 4
WATCHED = ("Enclosure", "Supply", "Clearance", "Asset", "Run", "Procedure")
ADMISSIONS = ("RunStarted", "RunResumed", "ProcedureStarted", "ProcedureResumed")
RELIED_ON = {"enclosures": "Enclosure", "supplies": "Supply", "clearances": "Clearance"}


class Withdrawal(StrEnum):
    PERMIT = "permit"
    SUPPLY = "supply"
    CLEARANCE = "clearance"
    # Of a run alone: procedures serve maintenance.
    FITNESS = "fitness"
    # Of a procedure alone: the run that it is a phase of.
    PARENT = "parent"


class Work(StrEnum):
    RUN = "run"
    PROCEDURE = "procedure"


WITHDRAWN = {
    Work.RUN: [each for each in Withdrawal if each is not Withdrawal.PARENT],
    Work.PROCEDURE: [each for each in Withdrawal if each is not Withdrawal.FITNESS],
}


class Race:
    """One station over and over: something is withdrawn while a run or a phase of one starts or resumes."""

    parent_id: UUID

    def __init__(self, station: Station, other: App, seed: int) -> None:
        self.station = station
        self.other = other
        self.random = random.Random(seed)
        # How long a start takes here, so that withdrawals fall before, into and after it.
        self.usual = 0.1
        self.tally: Counter[str] = Counter()

    async def begin(self) -> "Race":
        """With the run that procedures are phases of."""
        start = StartRun(name="the whole day", plan_id=self.station.plan_id)
        self.parent_id = (await self.station.do(start)).run_id
        return self

    async def round(self) -> None:
        work = self.random.choice(list(Work))
        withdrawal = self.random.choice(WITHDRAWN[work])
        resumes = self.random.random() < 0.5
        id = await self.prepared(work, resumes)
        late = self.random.uniform(-0.2, 1.3) * self.usual
        went, _ = await asyncio.gather(
            self.after(-late, lambda: self.go(work, id, resumes)),
            self.after(late, lambda: self.withdraw(withdrawal)),
        )
        verb = "resumed" if resumes else "started"
        self.tally[f"{work} {withdrawal} {verb if went else 'refused'}"] += 1
        await self.grant(withdrawal)
        await self.clear_up(work, went or (id if resumes else None))

    async def after[T](self, delay: float, work: Callable[[], Awaitable[T]]) -> T:
        if delay > 0:
            await asyncio.sleep(delay)
        return await work()

    async def prepared(self, work: Work, resumes: bool) -> UUID | None:
        """What is to go on: a run or a procedure that is held, or a procedure that was registered."""
        if work is Work.RUN and not resumes:
            return None
        if work is Work.RUN:
            start: Any = StartRun(name=uuid4().hex, plan_id=self.station.plan_id)
            id = (await self.patiently(lambda: self.timed(self.station.app, start))).run_id
            await self.station.do(HoldRun(run_id=id, reason="to be resumed"))
            return id
        register = RegisterProcedure(
            name=uuid4().hex,
            kind="phase",
            parent_run_id=self.parent_id,
            target_asset_ids=frozenset(self.station.asset_ids),
        )
        id = (await self.station.do(register)).procedure_id
        if resumes:
            start = StartProcedure(procedure_id=id)
            await self.patiently(lambda: self.timed(self.station.app, start))
            await self.station.do(HoldProcedure(procedure_id=id, reason="to be resumed"))
        return id

    async def clear_up(self, work: Work, id: UUID | None) -> None:
        if id is None:
            return
        over = "the round is over"
        run, procedure = StopRun(run_id=id, reason=over), AbortProcedure(procedure_id=id, reason=over)
        await self.station.do(run if work is Work.RUN else procedure)

    async def patiently[T](self, work: Callable[[], Awaitable[T]]) -> T:
        """Again, when the others were too busy with what it looks at."""
        while True:
            try:
                return await work()
            except ConcurrencyError:
                self.tally["tried again"] += 1

    async def timed(self, app: App, request: Any) -> Any:
        begun = time.monotonic()
        receipt = (await app.service.call(request, ADMINISTRATOR)).body
        self.usual += 0.2 * (time.monotonic() - begun - self.usual)
        return receipt

    async def go(self, work: Work, id: UUID | None, resumes: bool) -> UUID | None:
        """What goes on now, or none where the gate was closed."""
        app = self.random.choice((self.station.app, self.other))
        request: Any
        if work is Work.PROCEDURE and id is not None:
            request = ResumeProcedure(procedure_id=id) if resumes else StartProcedure(procedure_id=id)
        elif id is not None:
            request = ResumeRun(run_id=id)
        else:
            request = StartRun(name=uuid4().hex, plan_id=self.station.plan_id)
        try:
            receipt = await self.timed(app, request)
        except ConflictError as refusal:
            self.tally[type(refusal).__name__] += 1
            return None
        return receipt.run_id if work is Work.RUN else receipt.procedure_id

    async def withdraw(self, withdrawal: Withdrawal) -> None:
        station, app = self.station, self.random.choice((self.station.app, self.other))
        match withdrawal:
            case Withdrawal.PERMIT:
                hutch = self.random.choice(station.enclosure_ids)
                await station.observe(hutch, PermitStatus.NOT_PERMITTED, app)
                return
            case Withdrawal.SUPPLY:
                request = MarkSupplyUnavailable(supply_id=station.supply_ids[0], reason="beam lost")
            case Withdrawal.CLEARANCE:
                request = ExpireClearance(clearance_id=station.clearance_ids[0], reason="no longer safe")
            case Withdrawal.FITNESS:
                request = FaultAsset(asset_id=station.asset_ids[0], reason="it smokes")
            case Withdrawal.PARENT:
                request = HoldRun(run_id=self.parent_id, reason="beam lost")
        await app.service.call(request, ADMINISTRATOR)

    async def grant(self, withdrawal: Withdrawal) -> None:
        station = self.station
        match withdrawal:
            case Withdrawal.PERMIT:
                for hutch in station.enclosure_ids:
                    await station.observe(hutch, PermitStatus.PERMITTED)
            case Withdrawal.SUPPLY:
                id = station.supply_ids[0]
                await station.do(MarkSupplyRecovering(supply_id=id, reason="coming back"))
                await station.do(RestoreSupply(supply_id=id, reason="back"))
            case Withdrawal.CLEARANCE:
                station.clearance_ids[0] = await station.clearance()
            case Withdrawal.FITNESS:
                await station.do(RestoreAsset(asset_id=station.asset_ids[0], reason="repaired"))
            case Withdrawal.PARENT:
                await self.patiently(lambda: station.do(ResumeRun(run_id=self.parent_id)))


class Log:
    """The log read again from its beginning, and what is wrong with it."""

    def __init__(self) -> None:
        self.states: dict[tuple[str, UUID], Any] = {}
        self.versions: dict[tuple[str, UUID], int] = {}
        self.violations: list[str] = []
        self.admissions = 0

    def read(self, row: Any) -> None:
        name = (row["stream_type"], row["stream_id"])
        aggregate = registry().aggregates[name[0]]
        tagged = {"event_type": row["event_type"], **json.loads(row["payload"])}
        if row["event_type"] in ADMISSIONS:
            self.admissions += 1
            self.check(row["position"], name, tagged)
        event = aggregate.decoder.decode(json.dumps(tagged))
        self.states[name] = aggregate.evolve(self.states.get(name), event)
        self.versions[name] = row["version"]

    def check(self, position: int, name: tuple[str, UUID], admission: dict[str, Any]) -> None:
        """What was relied on stood exactly so, and was good, when the work was admitted."""
        evidence = admission["gate_evidence"]
        for kind, stream_type in RELIED_ON.items():
            if not evidence[kind]:
                self.violations.append(f"{position}: {name} relied on no {kind}")
            for relied in evidence[kind]:
                stream = (stream_type, UUID(relied["id"]))
                if self.versions[stream] != relied["version"]:
                    self.violations.append(f"{position}: {name} relied on a past {stream}")
                if not good(self.states[stream]):
                    self.violations.append(f"{position}: {name} relied on {self.states[stream]}")
        if name[0] == "Procedure":
            run = self.states["Run", self.states[name].parent_run_id]
            if run.status != "Running":
                self.violations.append(f"{position}: {name} goes on in a run that is {run.status}")
            return
        asset_ids = admission.get("asset_ids") or self.states[name].asset_ids
        for asset_id in map(str, asset_ids):
            if self.states["Asset", UUID(asset_id)].condition == "Faulted":
                self.violations.append(f"{position}: {name} goes on a faulted asset")


def good(state: Any) -> bool:
    """Whether work may rely on an enclosure, a supply or a clearance in this state."""
    status = getattr(state, "permit_status", None) or state.status
    return status in ("Permitted", "Available", "Active")


def by_position(row: Any) -> Any:
    return row["position"]


def by_transaction(row: Any) -> Any:
    """The order in which readers follow the log."""
    return row["transaction_id"], row["position"]


async def race(cluster: Cluster, dsn: str, rounds: int) -> Counter[str]:
    """Two processes' worth of service on one database, several stations at once."""
    app = await App.open(Settings(data=cluster.data), dsn)
    other = await App.open(Settings(data=cluster.data), dsn)
    app.start_workers()
    stations = [await Station(app).build(cameras=2, levels=2, enclosures=2) for _ in range(STATIONS)]
    races = [await Race(station, other, seed).begin() for seed, station in enumerate(stations)]

    async def repeat(each: Race) -> None:
        for _ in range(rounds // STATIONS):
            await each.round()

    await asyncio.gather(*map(repeat, races))
    await other.close()
    rows = await app.database.fetch(
        "SELECT position, transaction_id, stream_type, stream_id, version, event_type, payload::text AS payload"
        " FROM events WHERE stream_type = ANY ($1)",
        list(WATCHED),
    )
    await app.close()
    tally = sum((each.tally for each in races), Counter[str]())
    for order in (by_position, by_transaction):
        log = Log()
        for row in sorted(rows, key=order):
            log.read(row)
        tally["admissions"] = log.admissions
        tally["violations"] += len(log.violations)
        assert not log.violations, log.violations[:5]
    return tally


def test_nothing_goes_on_what_was_withdrawn_before(cluster: Cluster, dsn: str) -> None:
    tally = asyncio.run(race(cluster, dsn, INTERLEAVINGS))
    print(json.dumps(dict(sorted(tally.items()))))
    for work, withdrawals in WITHDRAWN.items():
        for withdrawal in withdrawals:
            went = tally[f"{work} {withdrawal} started"] + tally[f"{work} {withdrawal} resumed"]
            # Both sides were met, or nothing was raced.
            assert went and tally[f"{work} {withdrawal} refused"], tally
    assert tally["violations"] == 0
