"""Bookmarks of the read models, and leases of the workers."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.seams import Bookmark, OvertakenError, Projection
from beamwright.kernel.store import Mark

from .database import Database, Use
from .driver import Connection
from .list_tables import ListProjection, ListTable


class PostgresBookmarks:
    """The rows of `projections`."""

    def __init__(self, database: Database, aggregates: Sequence[Aggregate[Any, Any]]) -> None:
        self._database = database
        self._aggregates = {aggregate.snake: aggregate for aggregate in aggregates}

    async def all(self) -> Sequence[Bookmark]:
        rows = await self._database.fetch(
            "SELECT name, version, serving, transaction_id, position, updated_at, failures, last_error, retry_at "
            "FROM projections ORDER BY name, version"
        )
        return [
            Bookmark(
                name=row["name"],
                version=row["version"],
                serving=row["serving"],
                mark=Mark(row["transaction_id"], row["position"]),
                updated_at=row["updated_at"],
                failures=row["failures"],
                last_error=row["last_error"],
                retry_at=row["retry_at"],
            )
            for row in rows
        ]

    async def projections(self) -> Sequence[Projection]:
        """Every projection of today's shape, one for each generation that is serving or being built."""
        known = [(bookmark.name, bookmark.version) for bookmark in await self.all()]
        found: list[Projection] = []
        for name, aggregate in self._aggregates.items():
            shape = ListTable(aggregate).shape
            generations = [
                int(v.partition("_")[2]) for n, v in known if n == name and v.startswith(f"{shape}_")
            ]
            found += [ListProjection(aggregate, self._database, each) for each in generations or [1]]
        return found

    async def register(self, projection: Projection) -> None:
        await self._database.execute(
            "INSERT INTO projections (name, version) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            projection.name,
            projection.version,
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        async with self._database.connection(Use.DERIVED) as connection, connection.transaction():
            yield connection

    async def advance(
        self, transaction: Connection, keys: Sequence[tuple[str, str]], before: Mark, mark: Mark
    ) -> None:
        """The fence: a process that slept through the end of its lease finds the bookmark moved, and no row counts."""
        moved = await transaction.fetch(
            "UPDATE projections p SET transaction_id = $3, position = $4, updated_at = clock_timestamp(), "
            "failures = 0, last_error = NULL, retry_at = NULL "
            "FROM unnest($1::text[], $2::text[]) AS k (name, version) "
            "WHERE p.name = k.name AND p.version = k.version AND (p.transaction_id, p.position) = ($5, $6) "
            "RETURNING 1",
            [key[0] for key in keys],
            [key[1] for key in keys],
            *mark,
            *before,
        )
        if len(moved) < len(keys):
            raise OvertakenError

    async def park(
        self, key: tuple[str, str], at: Mark, error: str, failures: int, retry_at: datetime
    ) -> None:
        await self._database.execute(
            "UPDATE projections SET last_error = $5, failures = $6, retry_at = $7 "
            "WHERE name = $1 AND version = $2 AND (transaction_id, position) = ($3, $4)",
            *key,
            *at,
            error,
            failures,
            retry_at,
        )

    async def serve(self, key: tuple[str, str]) -> None:
        """Swap: readers find the new generation, and what it replaces is gone, in one transaction."""
        name, version = key
        async with self.transaction() as connection:
            rows = await connection.fetch(
                "DELETE FROM projections WHERE name = $1 AND version <> $2 AND transaction_id <= "
                "(SELECT transaction_id FROM projections WHERE name = $1 AND version = $2) RETURNING version",
                name,
                version,
            )
            await connection.execute(
                "UPDATE projections SET serving = true WHERE name = $1 AND version = $2", name, version
            )
            for row in rows:
                await connection.execute(f"DROP TABLE IF EXISTS lists.{name}_{row['version']}")

    async def rebuild(self, name: str) -> str:
        """Start a new generation of a list, from the beginning of the log."""
        shape = ListTable(self._aggregates[name]).shape
        row = await self._database.fetchrow(
            "INSERT INTO projections (name, version) SELECT $1, $2 || '_' || "
            "coalesce(max(split_part(version, '_', 2)::integer), 0) + 1 FROM projections "
            "WHERE name = $1 AND split_part(version, '_', 1) = $2 RETURNING version",
            name,
            shape,
        )
        assert row is not None
        return row["version"]


class PostgresLeases:
    """Expiring rows: whoever holds one is the only worker of that name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, name: str, holder: UUID, seconds: float) -> bool:
        """Ours already, free, or held longer than anybody may: then the database's clock was set back."""
        row = await self._database.fetchrow(
            "INSERT INTO leases AS l (name, holder, expires_at) "
            "VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3)) "
            "ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at "
            "WHERE l.holder = excluded.holder OR l.expires_at < clock_timestamp() "
            "OR l.expires_at > clock_timestamp() + make_interval(secs => $3 + 1) RETURNING holder",
            name,
            holder,
            seconds,
        )
        return row is not None

    async def release(self, name: str, holder: UUID) -> None:
        await self._database.execute(
            "UPDATE leases SET expires_at = clock_timestamp() WHERE name = $1 AND holder = $2", name, holder
        )

    async def release_all(self, holder: UUID) -> None:
        await self._database.execute(
            "UPDATE leases SET expires_at = clock_timestamp() WHERE holder = $1", holder
        )

    async def idle(self) -> Mapping[str, float]:
        rows = await self._database.fetch(
            "SELECT name, greatest(extract(epoch FROM clock_timestamp() - expires_at), 0)::float8 FROM leases "
            "ORDER BY name"
        )
        return {row[0]: row[1] for row in rows}
