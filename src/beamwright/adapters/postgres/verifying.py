"""The whole store as verification reads it: one read-only snapshot, streamed and never loaded."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg

from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.store import Mark, Stored
from beamwright.runtime.verification import ClaimKey, Generation, KeptAnswer, ListedRow, Login, Point

from .database import ROLE
from .driver import Connection, Row, connect
from .list_tables import ListTable
from .store import STORED

PAGE = 1000
SERVER_SETTINGS = {
    "role": ROLE,
    "application_name": "beamwright verify",
    "default_transaction_read_only": "on",
    "beamwright.profiles": "open",
    "jit": "off",
}

SIZES = """SELECT stream_type, sum(events)::bigint FROM (
        SELECT stream_type, count(*) AS events FROM events GROUP BY stream_type
        UNION ALL SELECT DISTINCT stream_type, 0 FROM claims) AS named
    GROUP BY stream_type"""

EVENTS = f"SELECT {STORED} FROM events WHERE stream_type = $1 ORDER BY stream_id, version"

LOG = f"""SELECT {STORED} FROM events WHERE (transaction_id, position) <= ($1::xid8, $2::bigint)
    ORDER BY events.transaction_id, events.position"""

CLAIMS = "SELECT stream_id, kind, key FROM claims WHERE stream_type = $1 ORDER BY stream_id"

ANSWERS = """SELECT format('%s of %s on %s', key, principal_id, surface_id), EXISTS (
        SELECT FROM events e WHERE e.position = i.position AND e.transaction_id = i.transaction_id)
    FROM idempotency i WHERE position IS NOT NULL OR transaction_id IS NOT NULL"""

BOOKMARKS = """SELECT version, transaction_id, position FROM projections
    WHERE name = $1 AND to_regclass(format('lists.%I', name || '_' || version)) IS NOT NULL ORDER BY version"""


# In the order of ListTable.row.
ENVELOPE_COLUMNS = (
    "id",
    "version",
    "state",
    "created_at",
    "updated_at",
    "created_by",
    "facility_code",
    "owner_id",
    "member_id",
    "words_text",
)


class ListReplacedError(Exception):
    """A list was replaced by its next generation while it was being read."""


class PostgresRecords:
    """Reads one snapshot through two connections: one streams the log, the other pages through the lists."""

    def __init__(self, log: Connection, beside: Connection, snapshot: str) -> None:
        self._log = log
        self._beside = beside
        self._snapshot = snapshot

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str) -> AsyncGenerator["PostgresRecords"]:
        log = await connect(dsn, server_settings=SERVER_SETTINGS)
        beside = await connect(dsn, server_settings=SERVER_SETTINGS)
        try:
            async with log.transaction(isolation="repeatable_read", readonly=True):
                yield cls(log, beside, await log.fetchval("SELECT pg_export_snapshot()"))
        finally:
            await beside.close()
            await log.close()

    async def sizes(self) -> Mapping[str, int]:
        return {row[0]: row[1] for row in await self._log.fetch(SIZES)}

    async def events(self, stream_type: str) -> AsyncIterator[Stored]:
        async for row in self._log.cursor(EVENTS, stream_type, prefetch=PAGE):
            transaction_id, position, *rest = row
            yield Stored(Mark(transaction_id, position), *rest)

    async def in_order(self, until: Mark) -> AsyncIterator[Stored]:
        async for row in self._log.cursor(LOG, *until, prefetch=PAGE):
            transaction_id, position, *rest = row
            yield Stored(Mark(transaction_id, position), *rest)

    async def claims(self, stream_type: str) -> AsyncIterator[tuple[UUID, ClaimKey]]:
        async for row in self._log.cursor(CLAIMS, stream_type, prefetch=PAGE):
            yield row[0], (row[1], row[2])

    async def answers(self) -> AsyncIterator[KeptAnswer]:
        async for row in self._log.cursor(ANSWERS, prefetch=PAGE):
            yield KeptAnswer(row[0], row[1])

    async def lists(self, aggregate: Aggregate[Any, Any]) -> Sequence[Generation]:
        """Every generation in today's shape; those of another shape are not ours to recompute."""
        shape = ListTable(aggregate).shape
        found: list[Generation] = []
        for version, transaction_id, position in await self._log.fetch(BOOKMARKS, aggregate.snake):
            if version.startswith(f"{shape}_"):
                table = ListTable(aggregate, int(version.removeprefix(f"{shape}_")))
                found.append(ListGeneration(self, table, Mark(transaction_id, position)))
        return found

    async def profiles(self) -> AsyncIterator[tuple[UUID, None]]:
        query = "SELECT actor_id FROM actor_profile ORDER BY actor_id"
        async for row in self._log.cursor(query, prefetch=PAGE):
            yield row[0], None

    async def identities(self) -> AsyncIterator[tuple[UUID, Login]]:
        query = "SELECT actor_id, identity_id, issuer FROM actor_identity ORDER BY actor_id"
        async for row in self._log.cursor(query, prefetch=PAGE):
            yield row[0], (row[1], row[2])

    async def epoch(self) -> int:
        return await self._log.fetchval("SELECT epoch FROM authority")

    async def page(self, query: str, *arguments: Any) -> list[Row]:
        """A page in a short transaction of the same snapshot: a list that is swapped must not wait for us."""
        async with self._beside.transaction(isolation="repeatable_read", readonly=True):
            await self._beside.execute(f"SET TRANSACTION SNAPSHOT '{self._snapshot}'")
            return await self._beside.fetch(query, *arguments)


class ListGeneration:
    """One list table and what its rows must be."""

    def __init__(self, records: PostgresRecords, table: ListTable, mark: Mark) -> None:
        self._records = records
        self._table = table
        self._scalars = [*ENVELOPE_COLUMNS, *(c.name for c in table.columns if not c.array)]
        self._arrays = [column for column in table.columns if column.array]
        self.name = table.aggregate.snake
        self.mark = mark

    async def rows(self) -> AsyncIterator[ListedRow]:
        names = [*self._scalars, "visit_ids", *(column.name for column in self._arrays)]
        query = f"""SELECT {", ".join(names)} FROM {self._table.table}
            WHERE id > $1 ORDER BY id LIMIT {PAGE}"""
        last = UUID(int=0)
        while page := await self._page(query, last):
            for row in page:
                values = map(_comparable, row)
                yield ListedRow(row[0], dict(zip(names, values, strict=True)))
            last = page[-1][0]

    async def _page(self, query: str, after: UUID) -> list[Row]:
        try:
            return await self._records.page(query, after)
        except asyncpg.UndefinedTableError:
            raise ListReplacedError(f"The list {self.name} was replaced while it was read.") from None

    def expected(self, point: Point) -> ListedRow:
        state = point.state
        row = self._table.row(state, point.version, point.created_at, point.updated_at, point.created_by)
        due: dict[str, Any] = dict(zip(self._scalars, row, strict=False))
        due |= {"visit_ids": self._table.aggregate.belongs(state).visit_ids}
        due |= {column.name: column.of(state) for column in self._arrays if column.of}
        return ListedRow(state.id, {name: _comparable(value) for name, value in due.items()})


def _comparable(value: Any) -> Any:
    """Arrays hold sets, whose order means nothing."""
    if isinstance(value, list | tuple | set | frozenset):
        return sorted(str(each) for each in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - any column
    return value
