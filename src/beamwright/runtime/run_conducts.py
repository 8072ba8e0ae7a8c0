"""The run conductor: has the jobs run that the log reserves, and records how they end, whatever dies meanwhile."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog

from beamwright.contexts.run.conduct import EndRunConduct, RunConductAlreadyEndedError
from beamwright.contexts.run.run import (
    HELD,
    Run,
    RunAborted,
    RunConduct,
    RunConductStarted,
    RunResumed,
    RunStopped,
    RunTruncated,
    runs,
)
from beamwright.contexts.run.values import ActuationKind
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.compute import (
    NOWHERE,
    ArtifactNotFoundError,
    ComputeJob,
    ComputeJobFailedError,
    ComputePort,
    ComputeResources,
    ComputeStatus,
    ComputeSubmitRejectedError,
    ComputeTimeoutError,
    place_of,
)
from beamwright.kernel.errors import UnavailableError
from beamwright.kernel.event import event_type
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.seams import Leases
from beamwright.kernel.store import LogFilter, Mark, Stored

from .call import Call
from .reactions import Positions, back_off
from .service import Service

log = structlog.get_logger("beamwright.run_conducts")

NAME = "run-conducts"
LEASE_SECONDS = 5.0
INTERVAL = 0.5
BATCH = 500
# What opens a conduct, and what happens to its run that it must know of.
FOLLOWED = (RunConductStarted, RunResumed, RunAborted, RunStopped, RunTruncated)
WANTED = LogFilter(event_types=sorted(event_type(each).name for each in FOLLOWED))
SAYING: Mapping[ComputeStatus, type[Exception]] = {
    ComputeStatus.FAILED: ComputeJobFailedError,
    ComputeStatus.CANCELLED: ComputeJobFailedError,
    ComputeStatus.TIMED_OUT: ComputeTimeoutError,
}


class Open:
    """A conduct that the log opened and whose end is not recorded yet."""

    def __init__(self, cause: Stored, conduct_id: UUID) -> None:
        self.cause = cause
        self.run_id = cause.stream_id
        self.conduct_id = conduct_id
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def before(self) -> Mark:
        """From here on the log must be read again, as long as this is open."""
        return Mark(self.cause.mark.transaction_id, self.cause.mark.position - 1)

    @property
    def over(self) -> bool:
        return self.task is not None and self.task.done()


class RunConductor:
    """Works for one place where jobs run; one process at a time, by a lease.

    It remembers nothing that it could not read again: which conducts are open is in the log, which jobs have begun
    and how they ended is known where they run. So a job is started once, and its end is recorded once.
    """

    def __init__(
        self,
        service: Service,
        compute: ComputePort,
        positions: Positions,
        leases: Leases,
        holder: UUID,
        within: timedelta,
    ) -> None:
        self._service = service
        self._compute = compute
        self._positions = positions
        self._leases = leases
        self._holder = holder
        self._within = within
        self._name = f"{NAME}:{compute.place}"
        self._mark: Mark | None = None
        self._open: dict[UUID, Open] = {}

    async def run(self) -> None:
        """Work whenever the lease is ours, for ever."""
        try:
            while True:
                try:
                    if await self._leases.take(self._name, self._holder, LEASE_SECONDS):
                        await self.follow()
                    else:
                        await self.let_go()
                except UnavailableError as error:
                    log.warning("run_conductor_waits", reason=error.detail)
                await asyncio.sleep(INTERVAL)
        finally:
            await self.let_go()

    async def stop(self) -> None:
        await self._leases.release(self._name, self._holder)
        await self._compute.aclose()

    async def let_go(self) -> None:
        """Forget everything; jobs go on, and whoever works next finds them."""
        tasks = [each.task for each in self._open.values() if each.task is not None]
        self._open.clear()
        self._mark = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def follow(self) -> None:
        """Take up what the log reserved since last time, and pass on what happened to the runs."""
        saved = await self._positions.position(self._name)
        mark = saved if self._mark is None else self._mark
        more = True
        while more:
            events, mark, more = await self._service.store.search_log(mark, BATCH, WANTED)
            for event in events:
                self._note(event)
        self._mark = mark
        self._open = {id: each for id, each in self._open.items() if not each.over}
        needed = min([mark, *(each.before for each in self._open.values())])
        if needed > saved:
            await self._positions.save(self._name, needed)

    def _note(self, stored: Stored) -> None:
        event = runs.current(runs.decoder.decode(stored.tagged))
        if not isinstance(event, RunConductStarted):
            for each in self._open.values():
                if each.run_id == stored.stream_id:
                    each.changed.set()
            return
        if event.conduct_id in self._open or place_of(event.job_key) not in (self._compute.place, NOWHERE):
            return
        opened = self._open[event.conduct_id] = Open(stored, event.conduct_id)
        opened.task = asyncio.create_task(self._carry(opened), name=f"conduct {event.conduct_id}")

    async def _carry(self, opened: Open) -> None:
        """Take one conduct to its end; whatever fails is tried again, later and later."""
        attempts = 0
        while True:
            try:
                if await self._advance(opened):
                    return
                attempts = 0
            except Exception as error:  # noqa: BLE001 - a worker loop puts off whatever fails
                attempts += 1
                told = f"{type(error).__name__}: {error}"[:500]
                log.warning("conduct_put_off", conduct_id=str(opened.conduct_id), error=told)
                with suppress(TimeoutError):
                    async with asyncio.timeout(back_off(attempts).total_seconds()):
                        await opened.changed.wait()

    async def _advance(self, opened: Open) -> bool:
        """Do what is next; whether that was the end."""
        opened.changed.clear()
        run = await self._load(opened.run_id)
        conduct = run.conducts[opened.conduct_id]
        if conduct.ended_at is not None:
            return True
        if place_of(conduct.job_key) == NOWHERE:
            return await self._rejected(opened, ComputeSubmitRejectedError("No program may be run here."))
        if not run.open:
            job_id = await self._compute.withdraw(conduct.job_key)
            return await self._ended(opened, conduct, job_id, await self._compute.await_end(job_id))
        if run.status is HELD and await self._compute.find(conduct.job_key) is None:
            # Nothing new begins on a run that is held.
            await opened.changed.wait()
            return False
        try:
            job_id = await self._compute.submit(self._job(conduct), conduct.job_key)
        except ComputeSubmitRejectedError as refusal:
            return await self._rejected(opened, refusal)
        status = await self._awaited(job_id, opened.changed)
        return status is not None and await self._ended(opened, conduct, job_id, status)

    def _job(self, conduct: RunConduct) -> ComputeJob:
        return ComputeJob(
            command=conduct.command,
            input_uris=conduct.input_uris,
            output_uri=conduct.output_uri,
            parameters=conduct.parameters,
            resources=conduct.resources or ComputeResources(),
            within=self._within.total_seconds(),
        )

    async def _awaited(self, job_id: str, changed: asyncio.Event) -> ComputeStatus | None:
        """How the job ended, or None when something happened to its run first."""
        ending = asyncio.create_task(self._compute.await_end(job_id))
        noted = asyncio.create_task(changed.wait())
        try:
            await asyncio.wait((ending, noted), return_when=asyncio.FIRST_COMPLETED)
            return ending.result() if ending.done() else None
        finally:
            ending.cancel()
            noted.cancel()
            await asyncio.gather(ending, noted, return_exceptions=True)

    async def _rejected(self, opened: Open, refusal: ComputeSubmitRejectedError) -> bool:
        return await self._record(opened, ComputeStatus.FAILED, failure=_told(refusal))

    async def _ended(self, opened: Open, conduct: RunConduct, job_id: str, status: ComputeStatus) -> bool:
        artifact = failure = None
        if status is not ComputeStatus.SUCCEEDED:
            failure = _told(SAYING[status](await self._compute.failure(job_id)))
        elif conduct.output_uri is not None:
            try:
                artifact = await self._compute.fetch_artifact(job_id)
            except ArtifactNotFoundError as missing:
                failure = _told(missing)
        kind = ActuationKind.SIMULATED if self._compute.simulated else ActuationKind.PHYSICAL
        return await self._record(
            opened, status, job_id=job_id, artifact=artifact, failure=failure, actuation_kind=kind
        )

    async def _record(self, opened: Open, status: ComputeStatus, **told: Any) -> bool:
        command = EndRunConduct(run_id=opened.run_id, conduct_id=opened.conduct_id, job_status=status, **told)
        try:
            await self._service.call(command, conductor_call(opened.cause))
        except RunConductAlreadyEndedError:
            log.info("conduct_ended_elsewhere", conduct_id=str(opened.conduct_id))
        return True

    async def _load(self, run_id: UUID) -> Run:
        name = (runs.name, run_id)
        stream = (await self._service.store.read([name]))[name]
        run = runs.fold(runs.stream_decoder.decode(stream.events))
        assert run is not None
        return run


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def conductor_call(cause: Stored) -> Call:
    """The end of a conduct has the correlation of its beginning, so that a submitter follows its own call."""
    return Call(
        caller=Caller(principal_id=wellknown.RUN_CONDUCTOR, kind=ActorKind.SERVICE_ACCOUNT),
        surface_id=wellknown.IN_PROCESS_SURFACE,
        conduit_id=wellknown.SERVICE_CONDUIT,
        correlation_id=cause.correlation_id,
        causation_id=cause.event_id,
    )
