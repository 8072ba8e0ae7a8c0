"""The single reader of the log: hands each batch to every projection, and parks the ones that fail."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from beamwright.kernel.errors import UnavailableError
from beamwright.kernel.seams import Bookmark, Bookmarks, Clock, Leases, OvertakenError, Projection
from beamwright.kernel.store import EventStore, Mark, Stored
from beamwright.kernel.value import replace

from .readers import Readers

BATCH = 2000
GATHERING = 0.004
LEASE = "projector"
LEASE_SECONDS = 5.0
LONGEST_BACK_OFF = timedelta(minutes=5)

log = structlog.get_logger("beamwright.projector")

type Key = tuple[str, str]


class Projector:
    """Feeds the read models; at most one process at a time does, by an expiring lease."""

    def __init__(
        self,
        store: EventStore,
        bookmarks: Bookmarks,
        leases: Leases,
        readers: Readers,
        now: Clock,
        holder: UUID,
        swapped: Callable[[], Awaitable[None]],
        poll: float = 0.02,
    ) -> None:
        self._store = store
        self._bookmarks = bookmarks
        self._leases = leases
        self._readers = readers
        self._now = now
        self._holder = holder
        self._swapped = swapped
        self._poll = poll
        self._projections: dict[Key, Projection] = {}
        self._marks: dict[Key, Bookmark] = {}
        self._building_first = False
        self._ahead: tuple[Mark, asyncio.Future[Sequence[Stored]]] | None = None

    async def run(self) -> None:
        """Work whenever the lease is ours, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                if await self._leases.take(LEASE, self._holder, LEASE_SECONDS):
                    await self.prepare()
                    until = loop.time() + LEASE_SECONDS / 3
                    while loop.time() < until:
                        await self._work()
                else:
                    await asyncio.sleep(LEASE_SECONDS / 3)
            except UnavailableError as error:
                log.warning("projector_waits", reason=error.detail)
                await asyncio.sleep(1.0)
            except OvertakenError:
                log.warning("projector_overtaken", why="another process fed the lists after our lease ended")

    async def stop(self) -> None:
        if self._ahead is not None:
            self._ahead[1].cancel()
        await self._leases.release(LEASE, self._holder)

    async def prepare(self) -> None:
        """Take up projections that appeared, and re-read where each stands."""
        for projection in await self._bookmarks.projections():
            key = (projection.name, projection.version)
            if key not in self._projections:
                await projection.prepare()
                await self._bookmarks.register(projection)
                self._projections[key] = projection
        known = {(mark.name, mark.version): mark for mark in await self._bookmarks.all()}
        self._projections = {key: each for key, each in self._projections.items() if key in known}
        self._marks = {key: known[key] for key in self._projections}

    async def _work(self) -> None:
        self._readers.appended.clear()
        if await self.catch_up() == BATCH:
            return
        try:
            async with asyncio.timeout(self._poll):
                await self._readers.appended.wait()
        except TimeoutError:
            return
        # Let a few more events come together: a pass costs about the same for one as for fifty.
        await asyncio.sleep(GATHERING)

    async def catch_up(self) -> int:
        """Read one batch for those that share the oldest mark; how many events it had."""
        now = self._now()
        ready = [key for key, mark in self._marks.items() if _due(mark, now)]
        for group in self._groups(ready):
            after = self._marks[group[0]].mark
            events = await self._batch(after)
            if events:
                await self._project(group, events)
            swapped = not events and await self._swap(group)
            self._readers.advance({key[0]: mark.mark for key, mark in self._marks.items() if mark.serving})
            if swapped:
                # The other group may name lists that are gone.
                return await self.catch_up()
            if events:
                return len(events)
        return 0

    async def _batch(self, after: Mark) -> Sequence[Stored]:
        """The next events; while a full batch is written, the one after it is read already."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == after:
            events = await ahead[1]
        else:
            if ahead is not None:
                ahead[1].cancel()
            events = await self._store.read_log(after, BATCH)
        if len(events) == BATCH:
            mark = events[-1].mark
            self._ahead = (mark, asyncio.ensure_future(self._store.read_log(mark, BATCH)))
        return events

    def _groups(self, ready: Sequence[Key]) -> list[list[Key]]:
        """The hindmost of the lists that serve and of those being built; they take turns."""
        self._building_first = not self._building_first
        groups: list[list[Key]] = []
        for serving in (not self._building_first, self._building_first):
            some = [key for key in ready if self._marks[key].serving is serving]
            oldest = min((self._marks[key].mark for key in some), default=None)
            groups.append([key for key in some if self._marks[key].mark == oldest])
        return [group for group in groups if group]

    async def _project(self, group: Sequence[Key], events: Sequence[Stored]) -> None:
        """All together in one transaction; when one fails, each by itself, so that the others go on."""
        mark = events[-1].mark
        try:
            await self._apply(group, events, mark)
        except (UnavailableError, OvertakenError):
            raise
        except Exception:  # noqa: BLE001 - a worker loop parks whatever fails
            for key in group:
                try:
                    await self._apply([key], events, mark)
                except (UnavailableError, OvertakenError):
                    raise
                except Exception as error:  # noqa: BLE001 - a worker loop parks whatever fails
                    await self._park(key, error)

    async def _apply(self, keys: Sequence[Key], events: Sequence[Stored], mark: Mark) -> None:
        async with self._bookmarks.transaction() as transaction:
            # First, so that of two processes that believe to hold the lease one writes nothing at all.
            await self._bookmarks.advance(transaction, keys, self._marks[keys[0]].mark, mark)
            for key in keys:
                await self._projections[key].apply(transaction, events)
        for key in keys:
            self._marks[key] = replace(
                self._marks[key], mark=mark, failures=0, last_error=None, retry_at=None
            )

    async def _park(self, key: Key, error: Exception) -> None:
        failures = self._marks[key].failures + 1
        wait = min(timedelta(seconds=2 ** min(failures, 16)), LONGEST_BACK_OFF)
        text = f"{type(error).__name__}: {error}"[:1000]
        log.error("projection_parked", projection=key[0], failures=failures, error=text)
        retry_at = self._now() + wait
        await self._bookmarks.park(key, self._marks[key].mark, text, failures, retry_at)
        self._marks[key] = replace(self._marks[key], failures=failures, last_error=text, retry_at=retry_at)

    async def _swap(self, group: Sequence[Key]) -> bool:
        """A generation that has caught up serves from now on; whether there was one."""
        waiting = [key for key in group if not self._marks[key].serving]
        for key in waiting:
            await self._bookmarks.serve(key)
            log.info("projection_serves", projection=key[0], version=key[1])
        if waiting:
            await self.prepare()
            await self._swapped()
        return bool(waiting)


def _due(mark: Bookmark, now: datetime) -> bool:
    """Whether it may be fed; a wait longer than any that we set means that the clock was set back."""
    return mark.retry_at is None or not timedelta() < mark.retry_at - now <= LONGEST_BACK_OFF
