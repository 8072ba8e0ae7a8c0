"""Connections: one pool for the service's role, one that may also open the profile store."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import structlog

from beamwright.kernel.errors import DatabaseUnavailableError

from .driver import Connection, Pool, Row, create_pool

log = structlog.get_logger("beamwright.database")

ROLE = "beamwright_service"
UNREACHABLE = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InsufficientResourcesError,
    asyncpg.QueryCanceledError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InternalServerError,
)


class UnsafeDatabaseError(RuntimeError):
    """The database would lose acknowledged commands; the service refuses to start."""


class Database:
    """The two pools, opened together."""

    def __init__(self, pool: Pool, private: Pool) -> None:
        self._pool = pool
        self._private = private

    @classmethod
    async def open(cls, dsn: str, *, size: int = 8) -> "Database":
        pool = await _pool(dsn, size, {})
        private = await _pool(dsn, 2, {"beamwright.profiles": "open"})
        database = cls(pool, private)
        try:
            await database._check_durability()
        except BaseException:
            await database.close()
            raise
        return database

    async def close(self) -> None:
        await self._pool.close()
        await self._private.close()

    @asynccontextmanager
    async def connection(self, *, private: bool = False) -> AsyncGenerator[Connection]:
        """A connection for one piece of work; whatever keeps the database away is one refusal."""
        pool = self._private if private else self._pool
        try:
            async with pool.acquire(timeout=5) as connection:
                yield connection
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


async def _pool(dsn: str, size: int, settings: dict[str, str]) -> Pool:
    return await create_pool(
        dsn,
        min_size=1,
        max_size=size,
        command_timeout=30,
        max_inactive_connection_lifetime=600,
        reset=_leave_as_is,
        server_settings={"role": ROLE, "application_name": "beamwright", "jit": "off"} | settings,
    )
