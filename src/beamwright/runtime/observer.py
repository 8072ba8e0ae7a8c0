"""Watches sources in the control system and reports what they say: one process at a time, one task per source."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

import structlog

from beamwright.kernel import wellknown
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.authority import Caller
from beamwright.kernel.errors import ConcurrencyError, DomainError, UnavailableError
from beamwright.kernel.observing import MonitorRef
from beamwright.kernel.operation import Command
from beamwright.kernel.seams import Leases
from beamwright.kernel.value import Value

from .call import Call
from .listening import Observation, Ports, Reporter, Session, Silence, Timings, told
from .service import Service

log = structlog.get_logger("beamwright.observer")

STARTED = "observer started"
STOPPED = "observer stopped"


class Report(Value):
    """What follows from an observation: a command to issue, and the reason when the source was not heard."""

    command: Command[Any] | None = None
    silence: str | None = None


class Watch(Value):
    """What one context has watched: which objects, through which source, and what an observation means."""

    aggregate: Aggregate[Any, Any]
    # Of the list that finds the objects; `source` says of each view what is watched, or nothing any more.
    filters: Mapping[str, Any]
    source: Callable[[Any], MonitorRef | None]
    report: Callable[[Any, Observation], Report]


class Link:
    """One watched object: one task keeps contact with its source, another has what was heard recorded."""

    def __init__(self, id: UUID, source: MonitorRef, timings: Timings) -> None:
        self.id = id
        self.source = source
        # The object is watched through another source by now, or not at all.
        self.obsolete = False
        self.reporter: Reporter
        self.tasks: list[asyncio.Task[None]] = []
        self._timings = timings

    @property
    def alive(self) -> bool:
        return not self.obsolete and not any(task.done() for task in self.tasks)

    def start(self, reporter: Reporter, connect: Callable[[], Session], count: Callable[..., None]) -> None:
        self.reporter = reporter
        self.tasks = [
            asyncio.create_task(reporter.run()),
            asyncio.create_task(self._keep_contact(connect, count)),
        ]

    async def _keep_contact(self, connect: Callable[[], Session], count: Callable[..., None]) -> None:
        """For ever; what was reported before is not trusted, which is said before anything is heard."""
        self.reporter.offer(Silence(reason=STARTED))
        await self.reporter.settled()
        pause = self._timings.first_reconnect
        while True:
            session = connect()
            try:
                failure = await session.listen()
                self.reporter.offer(Silence(reason=f"contact lost: {type(failure).__name__}"))
                count(self.source, failure)
            finally:
                await session.close()
            if session.heard:
                pause = self._timings.first_reconnect
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311 - no secret
            pause = min(2 * pause, self._timings.longest_reconnect)

    def hush(self) -> None:
        """Stop listening, and let the last word be that nobody listens."""
        self.reporter.close(Silence(reason=STOPPED))
        self.tasks[1].cancel()

    def end(self) -> None:
        self.reporter.close()
        for task in self.tasks:
            task.cancel()


class Observer:
    """The observer of one context."""

    def __init__(
        self,
        service: Service,
        leases: Leases,
        holder: UUID,
        ports: Ports,
        watch: Watch,
        timings: Timings | None = None,
    ) -> None:
        self.name = f"{watch.aggregate.snake}-observer"
        # Observations accepted and refused, and how often contact with a source was lost.
        self.counted = Counter[str]()
        self._service = service
        self._leases = leases
        self._holder = holder
        self._ports = ports
        self._watch = watch
        self._timings = timings or Timings()
        self._ours_until = 0.0
        self._links: dict[UUID, Link] = {}
        self._look = asyncio.Event()
        self._ending: set[asyncio.Task[Any]] = set()

    async def run(self) -> None:
        """Observe whenever the lease is ours, for ever."""
        while True:
            if await self._take(self._timings.renew):
                log.info("observer_started", observer=self.name)
                await self._observe()
            else:
                await asyncio.sleep(self._timings.renew)

    @property
    def _ours(self) -> bool:
        return monotonic() < self._ours_until

    async def _observe(self) -> None:
        watching = asyncio.create_task(self._keep_watching())
        try:
            await self._hold()
            log.warning("observer_lost_its_lease", observer=self.name)
        finally:
            watching.cancel()
            try:
                if self._ours:
                    await self._stop()
            finally:
                self._abandon()

    async def _take(self, patience: float) -> bool | None:
        """Whether the lease is ours now; None when nobody answered.

        It counts from before the question, so that we think it over before anybody else does.
        """
        asked = monotonic()
        taking = self._leases.take(self.name, self._holder, self._timings.lease)
        try:
            taken = await self._within(patience, taking)
        except Exception as error:  # noqa: BLE001 - a lease that cannot be asked for is not held
            log.warning("observer_lease_unanswered", observer=self.name, error=told(error))
            return None
        if taken:
            self._ours_until = asked + self._timings.lease
        return taken

    async def _hold(self) -> None:
        """Renew, until another has the lease or it has run out without an answer."""
        pause = self._timings.renew
        while True:
            await asyncio.sleep(max(0.0, min(pause, self._ours_until - monotonic())))
            left = self._ours_until - monotonic()
            if left <= 0:
                return
            taken = await self._take(min(left, self._timings.renew))
            if taken is False:
                self._ours_until = 0.0
                return
            pause = self._timings.renew if taken else self._timings.renew / 5

    async def _keep_watching(self) -> None:
        """Notice registration, other sources and decommissioning, at the latest at the next poll."""
        while True:
            self._look.clear()
            try:
                await self._look_around()
            except Exception as error:  # noqa: BLE001 - what is watched stays watched until the list is read again
                log.warning("observer_cannot_look", observer=self.name, error=told(error))
            await asyncio.sleep(self._timings.poll / 10)
            try:
                async with asyncio.timeout(self._timings.poll * 9 / 10):
                    await self._look.wait()
            except TimeoutError:
                continue

    async def _look_around(self) -> None:
        listed = await self._listed()
        for id in listed.keys() | self._links.keys():
            source = self._watch.source(listed[id]) if id in listed else None
            link = self._links.get(id)
            if link is None and source is None:
                continue
            if link is not None and link.alive and link.source == source:
                continue
            try:
                await self._look_at(id)
            except Exception as error:  # noqa: BLE001 - the others are looked at all the same
                log.warning("observer_cannot_look", observer=self.name, id=str(id), error=told(error))

    async def _look_at(self, id: UUID) -> None:
        """The list may lag behind; the object itself decides whether and how it is watched."""
        source = self._watch.source(await self._read(id))
        link = self._links.get(id)
        if link is not None and link.alive and link.source == source:
            return
        if link is not None:
            self._end(self._links.pop(id))
        if source is not None:
            self._links[id] = self._linked(id, source)

    def _linked(self, id: UUID, source: MonitorRef) -> Link:
        link = Link(id, source, self._timings)
        reporter = Reporter(partial(self.record, link), self._timings)

        def connect() -> Session:
            port, address = partial(self._ports, source.source_kind), source.source_id
            return Session(port, address, self._timings, self._service.now, reporter.offer)

        link.start(reporter, connect, self._count_lost)
        return link

    async def record(self, link: Link, observation: Observation) -> None:
        """Report by the path that everyone takes; raises what may succeed when it is tried again."""
        if not self._ours:
            return
        try:
            view = await self._read(link.id)
            if self._watch.source(view) != link.source:
                link.obsolete = True
                self._look.set()
                return
            if not self._ours:
                return
            report = self._reported(view, observation)
            if report.command is not None:
                await self._service.call(report.command, monitor_call(view.version))
                self.counted["accepted"] += 1
            if report.silence is not None:
                await self._lost(link, report.silence)
        except (UnavailableError, ConcurrencyError):
            raise
        except DomainError as refusal:
            self.counted["refused"] += 1
            log.error("observation_refused", observer=self.name, id=str(link.id), error=told(refusal))
            await self._lost(link, told(refusal))

    def _reported(self, view: Any, observation: Observation) -> Report:
        try:
            return self._watch.report(view, observation)
        except Exception as error:  # noqa: BLE001 - a reading that cannot be understood is none
            log.error("observation_not_understood", observer=self.name, id=str(view.id), error=told(error))
            return self._watch.report(view, Silence(reason=f"contact lost: {type(error).__name__}"))

    async def _read(self, id: UUID) -> Any:
        aggregate = self._watch.aggregate
        request: Any = self._service.registry.operations[f"get_{aggregate.snake}"].request
        return (await self._service.call(request(**{aggregate.id_field: id}), monitor_call())).body

    async def _listed(self) -> dict[UUID, Any]:
        request: Any = self._service.registry.operations[f"list_{self._watch.aggregate.plural}"].request
        found: dict[UUID, Any] = {}
        cursor: str | None = None
        while True:
            query = request(limit=200, cursor=cursor, **self._watch.filters)
            page = (await self._service.call(query, monitor_call())).body
            found |= {view.id: view for view in page.items}
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def _lost(self, link: Link, reason: str) -> None:
        await self._service.contacts.lost(self._watch.aggregate.name, link.id, link.source, reason)

    def _count_lost(self, source: MonitorRef, failure: BaseException) -> None:
        self.counted["lost"] += 1
        address = f"{source.source_kind} {source.source_id}"
        log.warning("source_lost", observer=self.name, source=address, error=told(failure))

    async def _stop(self) -> None:
        """Say of every source that nobody listens any more, then let another take over; never for long."""
        links = list(self._links.values())
        for link in links:
            link.hush()
        said = [asyncio.create_task(link.reporter.settled()) for link in links]
        if said:
            await asyncio.wait(said, timeout=self._timings.farewell)
        for task in said:
            task.cancel()
        try:
            await self._within(self._timings.farewell / 5, self._leases.release(self.name, self._holder))
        except Exception as error:  # noqa: BLE001 - it runs out by itself
            log.warning("observer_lease_not_released", observer=self.name, error=told(error))
        self._ours_until = 0.0

    def _abandon(self) -> None:
        """At once, whether or not what is under way has ended."""
        while self._links:
            self._end(self._links.popitem()[1])

    def _end(self, link: Link) -> None:
        link.end()
        for task in link.tasks:
            self._keep(task)

    async def _within[T](self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives, or a TimeoutError just then: a driver may be slow to let itself be cancelled."""
        task = asyncio.create_task(work)
        self._keep(task)
        try:
            await asyncio.wait({task}, timeout=seconds)
            if not task.done():
                raise TimeoutError(f"no answer within {seconds:.1f} s")
            return task.result()
        finally:
            task.cancel()

    def _keep(self, task: asyncio.Task[Any]) -> None:
        """Nothing else may refer to a task that is ending."""
        self._ending.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("observer_task_ended", observer=self.name, error=told(error))


def monitor_call(expected_version: int | None = None) -> Call:
    """Of the Monitor account; an object that has moved meanwhile is looked at again."""
    return Call(
        caller=Caller(principal_id=wellknown.MONITOR, kind="service_account"),
        surface_id=wellknown.IN_PROCESS_SURFACE,
        conduit_id=wellknown.SERVICE_CONDUIT,
        correlation_id=uuid4().hex,
        expected_version=expected_version,
    )


def metrics(observers: Sequence[Observer]) -> list[str]:
    """Figures of this process's observers, in the Prometheus text form."""
    lines: list[str] = []
    for name in ("accepted", "refused", "lost"):
        lines.append(f"# TYPE beamwright_observations_{name}_total counter")
        lines += [
            f'beamwright_observations_{name}_total{{observer="{each.name}"}} {each.counted[name]}'
            for each in observers
        ]
    return lines
