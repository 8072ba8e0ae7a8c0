"""Reactions: what the service does by itself when something happened, as an account of its own."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID, uuid4

import structlog

from beamwright.kernel import wellknown
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.authority import Caller
from beamwright.kernel.errors import UnavailableError
from beamwright.kernel.event import Event, event_type
from beamwright.kernel.operation import Command
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.seams import Leases
from beamwright.kernel.store import LogFilter, Mark, Searched, Stored
from beamwright.kernel.value import Value

from .call import Call
from .service import Service

log = structlog.get_logger("beamwright.reactions")

LEASE = "reactions"
LEASE_SECONDS = 60.0
INTERVAL = 0.5
BATCH = 200
SHORTEST_BACK_OFF = timedelta(seconds=1)
LONGEST_BACK_OFF = timedelta(minutes=5)


class Positions(Protocol):
    """How far each reaction has followed the log."""

    async def position(self, name: str) -> Mark: ...
    async def save(self, name: str, mark: Mark) -> None: ...


class Reacting:
    """What a handler works with: today's states, and commands in the name of the Reactor."""

    def __init__(self, service: Service, cause: Stored) -> None:
        self._service = service
        self._cause = cause

    async def load[S: Value, E: Event](self, aggregate: Aggregate[S, E], id: UUID) -> S | None:
        found = await self._load(aggregate, [id])
        return found[0] if found else None

    async def find[S: Value, E: Event](self, aggregate: Aggregate[S, E], **filters: Any) -> list[S]:
        """Every object that the list's filters match."""
        return await self._load(aggregate, (await self._service.matching(aggregate, filters)).ids)

    async def _load(self, aggregate: Aggregate[Any, Any], ids: Sequence[UUID]) -> list[Any]:
        names = [(aggregate.name, id) for id in ids]
        return [loaded.state for loaded in (await self._service.folding.load(names)).values()]

    async def issue(self, command: Command[Any]) -> None:
        """Call as everyone does; a refusal raises, and nothing is remembered of it."""
        call = Call(
            caller=Caller(principal_id=wellknown.REACTOR, kind=ActorKind.SERVICE_ACCOUNT),
            surface_id=wellknown.IN_PROCESS_SURFACE,
            conduit_id=wellknown.SERVICE_CONDUIT,
            correlation_id=uuid4().hex,
            causation_id=self._cause.event_id,
        )
        await self._service.call(command, call)


class Reaction(Value):
    """What follows from some events. The handler may see an event twice, and raises to be called again later."""

    name: str
    events: frozenset[type[Event]]
    handle: Callable[[Any, Reacting], Awaitable[None]]

    @property
    def wanted(self) -> LogFilter:
        return LogFilter(event_types=sorted(event_type(event).name for event in self.events))


class Delay(Value):
    """How often an event was handled in vain, and when it is tried again."""

    attempts: int
    until: datetime


class Reactions:
    """Follows the log for every reaction; one process at a time, by a lease.

    An event that cannot be handled yet does not hold up those after it: the saved position stays before it, and
    which later ones are done is remembered here.
    """

    def __init__(
        self,
        service: Service,
        positions: Positions,
        leases: Leases,
        holder: UUID,
        reactions: Sequence[Reaction],
    ) -> None:
        self._service = service
        self._positions = positions
        self._leases = leases
        self._holder = holder
        self._reactions = reactions
        self._done: dict[str, set[UUID]] = {reaction.name: set() for reaction in reactions}
        self._delays: dict[tuple[str, UUID], Delay] = {}

    async def run(self) -> None:
        """Work whenever the lease is ours, for ever."""
        while True:
            try:
                worked = False
                if await self._leases.take(LEASE, self._holder, LEASE_SECONDS):
                    worked = any([await self.react(reaction) for reaction in self._reactions])
                if not worked:
                    await asyncio.sleep(INTERVAL)
            except UnavailableError as error:
                log.warning("reactions_wait", reason=error.detail)
                await asyncio.sleep(INTERVAL)

    async def stop(self) -> None:
        await self._leases.release(LEASE, self._holder)

    async def react(self, reaction: Reaction) -> bool:
        """Handle the next events that are due; whether there is more to do at once."""
        store, done = self._service.store, self._done[reaction.name]
        mark = await self._positions.position(reaction.name)
        found = await store.search_log(mark, BATCH, reaction.wanted)
        done &= {event.event_id for event in found.events}
        before = len(done)
        for event in found.events:
            if event.event_id not in done and self._due(reaction, event):
                await self._handle(reaction, event)
        reached = _reached(found, done, mark)
        if reached > mark:
            await self._positions.save(reaction.name, reached)
        return len(done) > before or (found.more and reached > mark)

    def _due(self, reaction: Reaction, event: Stored) -> bool:
        delay = self._delays.get((reaction.name, event.event_id))
        # A wait longer than any that we set means that the clock was set back.
        return delay is None or not timedelta() < delay.until - self._service.now() <= LONGEST_BACK_OFF

    async def _handle(self, reaction: Reaction, stored: Stored) -> None:
        key = (reaction.name, stored.event_id)
        aggregate = self._service.registry.aggregates[stored.stream_type]
        event = aggregate.current(aggregate.decoder.decode(stored.tagged))
        try:
            await reaction.handle(event, Reacting(self._service, stored))
        except UnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - a worker loop puts off whatever fails
            attempts = self._delays[key].attempts + 1 if key in self._delays else 1
            self._delays[key] = Delay(attempts=attempts, until=self._service.now() + back_off(attempts))
            told = f"{type(error).__name__}: {error}"[:500]
            log.warning("reaction_put_off", reaction=reaction.name, event_id=str(stored.event_id), error=told)
        else:
            self._delays.pop(key, None)
            self._done[reaction.name].add(stored.event_id)


def _reached(found: Searched, done: set[UUID], mark: Mark) -> Mark:
    """How far everything is done."""
    for event in found.events:
        if event.event_id not in done:
            return mark
        mark = event.mark
    return found.reached


def back_off(attempts: int) -> timedelta:
    """A second, doubled with every attempt, up to five minutes."""
    return min(SHORTEST_BACK_OFF * 2 ** min(attempts - 1, 16), LONGEST_BACK_OFF)
