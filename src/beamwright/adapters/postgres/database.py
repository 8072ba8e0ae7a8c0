"""Connections: one pool for commands and reads, one that may open the profile store, one for derived data."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import asyncpg
import structlog

from beamwright.kernel.errors import DatabaseUnavailableError

from .driver import Connection, Pool, Row, create_pool
from .room import Room, full

log = structlog.get_logger("beamwright.database")

ROLE = "beamwright_service"
UNREACHABLE = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InsufficientResourcesError,
    asyncpg.QueryCanceledError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InternalServerError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)


class UnsafeDatabaseError(RuntimeError):
    """The database would lose acknowledged commands; the service refuses to start."""


class Use(StrEnum):
    """What a connection is for."""

    SERVICE = "service"
    # May read and write personal data.
    PROFILES = "profiles"
    # Writes what can be derived again from the log, so its commits need not wait for the disk.
    DERIVED = "derived"
    # Writes and reads in bulk, which must not keep commands waiting for a connection.
    BULK = "bulk"


# A process that is stopped or cut off in the middle of a transaction must not keep the others from its locks for
# longer than this. Between two statements a batch of the lists is folded, which takes its time on a busy machine.
ABANDONED = "idle_in_transaction_session_timeout"

SETTINGS = {
    Use.SERVICE: {ABANDONED: "5s"},
    Use.PROFILES: {ABANDONED: "5s", "beamwright.profiles": "open"},
    Use.DERIVED: {ABANDONED: "15s", "synchronous_commit": "off"},
    Use.BULK: {ABANDONED: "60s"},
}


class Database:
    """The pools, opened together."""

    def __init__(self, pools: Mapping[Use, Pool], room: Room) -> None:
        self._pools = pools
        self.room = room

    @classmethod
    async def open(cls, dsn: str, *, size: int = 8, folder: Path | None = None) -> "Database":
        """`folder` is where the database keeps its files, if they are on this machine."""
        sizes = {Use.SERVICE: size, Use.PROFILES: 2, Use.DERIVED: 2, Use.BULK: 4}
        database = cls({use: await _pool(dsn, use, sizes[use]) for use in Use}, Room(folder))
        try:
            await database._check_durability()
        except BaseException:
            await database.close()
            raise
        return database

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.close()

    @asynccontextmanager
    async def connection(self, use: Use = Use.SERVICE) -> AsyncGenerator[Connection]:
        """A connection for one piece of work; whatever keeps the database away is one refusal."""
        try:
            async with self._pools[use].acquire(timeout=10) as connection:
                try:
                    yield connection
                except asyncpg.DiskFullError as error:
                    self.room.refused()
                    log.warning("database_full", error=str(error)[:300])
                    raise full() from error
                except UNREACHABLE:
                    # Whatever state it is in, nobody else may get it.
                    connection.terminate()
                    raise
        except UNREACHABLE as error:
            log.warning("database_away", error=f"{type(error).__name__}: {error}"[:300])
            raise DatabaseUnavailableError(
                "The database does not answer. Nothing was recorded by this call unless it is found by its "
                "idempotency key; try again shortly."
            ) from error

    async def fetch(self, query: str, *arguments: Any) -> list[Row]:
        async with self.connection() as connection:
            return await connection.fetch(query, *arguments)

    async def fetchrow(self, query: str, *arguments: Any) -> Row | None:
        async with self.connection() as connection:
            return await connection.fetchrow(query, *arguments)

    async def execute(self, query: str, *arguments: Any) -> None:
        async with self.connection() as connection:
            await connection.execute(query, *arguments)

    async def _check_durability(self) -> None:
        for setting in ("synchronous_commit", "fsync"):
            row = await self.fetchrow("SELECT current_setting($1)", setting)
            if row is not None and row[0] == "off":
                raise UnsafeDatabaseError(
                    f"{setting} is off: an acknowledged command could be lost. Turn it on at the server."
                )


async def _leave_as_is(connection: Connection) -> None:
    """No statement of ours changes a session, so resetting one would cost a round trip for nothing."""


async def _pool(dsn: str, use: Use, size: int) -> Pool:
    return await create_pool(
        dsn,
        # Most services never carry anything in bulk.
        min_size=0 if use is Use.BULK else 1,
        max_size=size,
        command_timeout=30,
        max_inactive_connection_lifetime=600,
        reset=_leave_as_is,
        server_settings={"role": ROLE, "application_name": "beamwright", "jit": "off"} | SETTINGS[use],
    )
