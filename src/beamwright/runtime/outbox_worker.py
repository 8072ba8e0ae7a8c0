"""A worker that reads the log into an outbox, and works that off: whatever happens, later and later."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

import structlog

from beamwright.kernel.errors import UnavailableError
from beamwright.kernel.seams import Leases
from beamwright.kernel.store import LogFilter, Mark, Stored

from .service import Service

log = structlog.get_logger("beamwright.outbox")

LEASE_SECONDS = 120.0
INTERVAL = 1.0
BATCH = 500
CLAIMED = timedelta(minutes=5)
SHORTEST_BACK_OFF = timedelta(seconds=30)
LONGEST_BACK_OFF = timedelta(hours=1)
MOST_TOLD = 500


class Attempt(Protocol):
    """A row that was claimed."""

    @property
    def attempts(self) -> int: ...


class Rows[R: Attempt](Protocol):
    """The rows of an outbox, and the bookmark of the reader that fills it."""

    async def bookmark(self) -> Mark: ...
    async def claim(self, now: datetime, until: datetime) -> R | None: ...
    async def postpone(self, request: R, next_attempt_at: datetime, error: str) -> None: ...


class OutboxWorker[R: Attempt](ABC):
    """Works in one process at a time, by a lease."""

    def __init__(
        self, service: Service, rows: Rows[R], leases: Leases, holder: UUID, name: str, wanted: LogFilter
    ) -> None:
        self._service = service
        self._rows = rows
        self._leases = leases
        self._holder = holder
        self._name = name
        self._wanted = wanted

    @abstractmethod
    async def take_up(self, events: Sequence[Stored], reached: Mark) -> None:
        """Add a row for whatever the events ask for, and move the bookmark."""

    @abstractmethod
    async def serve(self, request: R) -> None:
        """Take one row as far as it goes; whatever is raised puts it off."""

    @abstractmethod
    def about(self, request: R) -> dict[str, str]:
        """What the log calls a row."""

    async def run(self) -> None:
        """Work whenever the lease is ours, for ever."""
        while True:
            try:
                worked = False
                if await self._leases.take(self._name, self._holder, LEASE_SECONDS):
                    await self.enqueue()
                    worked = await self.work()
                if not worked:
                    await asyncio.sleep(INTERVAL)
            except UnavailableError as error:
                log.warning("outbox_waits", worker=self._name, reason=error.detail)
                await asyncio.sleep(INTERVAL)

    async def stop(self) -> None:
        await self._leases.release(self._name, self._holder)

    async def enqueue(self) -> None:
        """Put what the log asks for since last time into the outbox."""
        more = True
        while more:
            mark = await self._rows.bookmark()
            found = await self._service.store.search_log(mark, BATCH, self._wanted)
            if found.reached > mark:
                await self.take_up(found.events, found.reached)
            more = found.more

    async def work(self) -> bool:
        """Take one due row as far as it goes; whether there was one."""
        now = self._service.now()
        request = await self._rows.claim(now, now + CLAIMED)
        if request is None:
            return False
        try:
            await self.serve(request)
        except Exception as error:  # noqa: BLE001 - a worker loop puts off whatever fails
            told = line(f"{type(error).__name__}: {error}")
            log.warning("put_off", worker=self._name, **self.about(request), error=told)
            retry_at = self._service.now() + back_off(request.attempts)
            await self._rows.postpone(request, retry_at, told)
        return True


def back_off(attempts: int) -> timedelta:
    """30 s, doubled with every attempt, up to an hour."""
    return min(SHORTEST_BACK_OFF * 2 ** min(attempts - 1, 16), LONGEST_BACK_OFF)


def line(text: str) -> str:
    """One printable line that fits a reason."""
    whole = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return whole if len(whole) <= MOST_TOLD else f"{whole[: MOST_TOLD - 1]}…"
