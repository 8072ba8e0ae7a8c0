"""Composition for commands that work on the database itself: read models and verification."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

import asyncpg
import uuid_utils.compat

import beamwright.contexts
from beamwright.adapters.postgres.attached import SchemaError, attached, check_schema, running
from beamwright.adapters.postgres.backlog import PostgresBacklogs
from beamwright.adapters.postgres.bookmarks import PostgresBookmarks, PostgresLeases
from beamwright.adapters.postgres.database import Database, UnsafeDatabaseError
from beamwright.adapters.postgres.embedded import EmbeddedPostgresError
from beamwright.adapters.postgres.migrate import UnfinishedRestoreError
from beamwright.adapters.postgres.store import PostgresEventStore
from beamwright.adapters.postgres.verifying import ListReplacedError, PostgresRecords
from beamwright.kernel.errors import UnavailableError
from beamwright.kernel.registry import Registry, discover
from beamwright.kernel.seams import Bookmark
from beamwright.kernel.store import Mark
from beamwright.runtime.health import Backlog
from beamwright.runtime.projector import LEASE, LEASE_SECONDS, Projector
from beamwright.runtime.readers import Readers
from beamwright.runtime.verification import Report, verify
from beamwright.settings import Settings

POLL = 0.1


class NotPossibleError(RuntimeError):
    """What keeps the database from being used, in a sentence for the operator."""


class RebuildFailedError(RuntimeError):
    """The new generation of a list cannot be built."""


class Built(NamedTuple):
    """How far the new generation of a list has come in the log."""

    name: str
    mark: Mark
    newest: Mark
    serving: bool


type Progress = Callable[[Built], None]


@cache
def registry() -> Registry:
    return discover(beamwright.contexts)


@contextmanager
def in_sentences() -> Generator[None]:
    """Whatever can be wrong with a database is one error with one sentence."""
    try:
        yield
    except (
        EmbeddedPostgresError,
        SchemaError,
        UnfinishedRestoreError,
        UnsafeDatabaseError,
        UnavailableError,
    ) as error:
        raise NotPossibleError(str(error)) from error
    except ListReplacedError as error:
        raise NotPossibleError(f"{error} Verify again.") from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise NotPossibleError(f"The database cannot be used: {error or type(error).__name__}.") from error


@contextmanager
def database(settings: Settings) -> Generator[str]:
    """The DSN of the installation's database, which runs at least as long as the context."""
    with in_sentences(), attached(settings.data, settings.database_url) as dsn:
        yield dsn


def joined(settings: Settings) -> str:
    """The DSN of a database that others keep running."""
    with in_sentences():
        return settings.database_url or running(settings.data)


class ReadModels:
    """The lists of one database, whether or not a service feeds them."""

    def __init__(self, database: Database) -> None:
        self._store = PostgresEventStore(database)
        self._bookmarks = PostgresBookmarks(database, list(registry().aggregates.values()))
        self._leases = PostgresLeases(database)
        self._backlogs = PostgresBacklogs(database)
        self._holder = uuid_utils.compat.uuid7()
        self._projector = Projector(
            self._store,
            self._bookmarks,
            self._leases,
            Readers(_nobody_waits_here),
            lambda: datetime.now(UTC),
            self._holder,
            _nobody_reads_here,
        )

    async def standing(self) -> tuple[Sequence[Bookmark], Backlog]:
        return await self._bookmarks.all(), await self._backlogs.backlog()

    async def rebuild(self, names: Sequence[str], progress: Progress) -> None:
        """Start new generations and return when they serve; the holder of the projector's lease builds them."""
        await self._serve([(name, await self._bookmarks.rebuild(name)) for name in names], progress)

    async def build(self, progress: Progress) -> None:
        """Return when every list serves, also those that nobody has begun yet."""
        await self._projector.prepare()
        wanted = [(each.name, each.version) for each in await self._bookmarks.projections()]
        await self._serve(wanted, progress)

    async def _serve(self, wanted: Sequence[tuple[str, str]], progress: Progress) -> None:
        try:
            while not await self._serving(wanted, progress):
                if await self._leases.take(LEASE, self._holder, LEASE_SECONDS):
                    await self._work(wanted, progress)
                await asyncio.sleep(POLL)
        finally:
            await self._leases.release(LEASE, self._holder)

    async def _work(self, wanted: Sequence[tuple[str, str]], progress: Progress) -> None:
        """Be the projector for as long as the lease is safely ours."""
        await self._projector.prepare()
        until = asyncio.get_running_loop().time() + LEASE_SECONDS / 3
        while asyncio.get_running_loop().time() < until and await self._projector.catch_up():
            await self._serving(wanted, progress)

    async def _serving(self, wanted: Sequence[tuple[str, str]], progress: Progress) -> bool:
        """Whether all serve, or are gone because a later generation serves already."""
        newest = await self._store.horizon()
        known = {(each.name, each.version): each for each in await self._bookmarks.all()}
        for key in wanted:
            bookmark = known.get(key)
            if bookmark is not None and bookmark.last_error is not None:
                raise RebuildFailedError(f"The new list of {key[0]} cannot be built: {bookmark.last_error}")
            done = bookmark is None or bookmark.serving
            progress(Built(key[0], newest if bookmark is None else bookmark.mark, newest, done))
        return all(key not in known or known[key].serving for key in wanted)


async def _nobody_waits_here() -> dict[str, Mark]:
    return {}


async def _nobody_reads_here() -> None:
    """A command answers no reads, so a swap concerns nobody in this process."""


@asynccontextmanager
async def read_models(dsn: str) -> AsyncGenerator[ReadModels]:
    await check_schema(dsn)
    database = await Database.open(dsn, size=2)
    try:
        yield ReadModels(database)
    finally:
        await database.close()


async def verify_database(dsn: str, progress: Callable[[int, int], None]) -> Report:
    """Verify the whole database; `progress` is told how many events of how many are done."""
    await check_schema(dsn)
    async with PostgresRecords.open(dsn) as records:
        return await verify(records, registry(), progress)
