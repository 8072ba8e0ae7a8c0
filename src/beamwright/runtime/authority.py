"""Keeps this process's picture of the authority current: refreshed by local appends at once, by a poll otherwise."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from beamwright.kernel.authority import Authority
from beamwright.kernel.errors import UnavailableError
from beamwright.kernel.event import Event
from beamwright.kernel.registry import Registry
from beamwright.kernel.store import EventStore, Stored

type States = Mapping[str, Mapping[UUID, Any]]


class Snapshots(Protocol):
    """Makes the picture from folded states."""

    def __call__(self, states: States, epoch: int, before: Any) -> Authority: ...


class AuthorityKeeper:
    """Folds the authority's streams; `current` is always one consistent picture."""

    def __init__(self, registry: Registry, store: EventStore, make: Snapshots) -> None:
        self._registry = registry
        self._store = store
        self._make = make
        self._types = sorted(a.name for a in registry.aggregates.values() if a.authority)
        self._states: dict[str, dict[UUID, Any]] = {name: {} for name in self._types}
        self._lock = asyncio.Lock()
        self._listeners: list[Callable[[Sequence[Event]], None]] = []
        self.current: Authority = make(self._states, 0, None)

    def listen(self, listener: Callable[[Sequence[Event]], None]) -> None:
        """Tell `listener` of every event that the authority is folded from."""
        self._listeners.append(listener)

    async def refresh(self) -> Authority:
        """Fold what has been appended since."""
        async with self._lock:
            stored = await self._store.read_authority(self.current.epoch, self._types)
            if stored:
                events = self._fold(stored)
                self.current = self._make(self._states, stored[-1].mark.position, self.current)
                for listener in self._listeners:
                    listener(events)
        return self.current

    def _fold(self, stored: Sequence[Stored]) -> list[Event]:
        """Touched dictionaries are replaced, never changed: an older picture stays as it was."""
        events: list[Event] = []
        touched = {each.stream_type for each in stored}
        states = {name: dict(known) if name in touched else known for name, known in self._states.items()}
        for each in stored:
            aggregate = self._registry.aggregates[each.stream_type]
            event = aggregate.current(aggregate.decoder.decode(each.tagged))
            known = states[each.stream_type]
            known[each.stream_id] = aggregate.evolve(known.get(each.stream_id), event)
            events.append(event)
        self._states = states
        return events

    async def poll(self, seconds: float) -> None:
        """Follow what other processes append, for ever.

        An outage is waited out here and at the same pace: what was revoked meanwhile must count at once after it.
        """
        while True:
            await asyncio.sleep(seconds)
            try:
                if await self._store.authority_epoch() != self.current.epoch:
                    await self.refresh()
            except UnavailableError:
                continue
