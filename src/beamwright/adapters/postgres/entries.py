"""Tables of entries: written and read as JSON whose keys are their columns, so that one code serves them all."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any
from uuid import UUID

import msgspec

from beamwright.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from beamwright.kernel.entries import Entry, EntryDelivery, EntryGroup, EntryTable, Inserted
from beamwright.kernel.store import LostRaceError, StreamName
from beamwright.kernel.value import encode

from .appender import stream_lock, text_lock
from .database import Database, Use
from .driver import Connection
from .lists import Conditions

TIMES = frozenset({"sampled_at", "recorded_at"})

ENDED = """SELECT EXISTS (
    SELECT FROM events WHERE stream_type = $1 AND stream_id = $2 AND event_type = ANY ($3))"""


class PostgresEntryTables:
    """Whatever tables the contexts declare; each has the columns of its declaration."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append[E: Entry, K: Entry](
        self,
        table: EntryTable[E, K],
        entries: Sequence[E],
        delivery: EntryDelivery,
        ends: Collection[str],
    ) -> Inserted:
        self._database.room.check()
        stream = (table.stream_type, delivery.stream_id)
        async with self._database.connection(Use.BULK) as connection, connection.transaction():
            inserted = await _write(connection, table, entries, delivery)
            await check_open(connection, stream, ends, late=delivery.late)
        return Inserted(received=len(entries), inserted=inserted, duplicates=len(entries) - inserted)

    async def page[E: Entry, K: Entry](
        self,
        table: EntryTable[E, K],
        stream_id: UUID,
        where: Mapping[str, Any],
        *,
        by: Sequence[str],
        descending: bool = False,
        limit: int,
        cursor: str | None,
    ) -> tuple[Sequence[K], str | None]:
        query = Conditions()
        query.add(f"{table.stream_column} = {query.value(stream_id)}")
        for column, value in where.items():
            if value is not None:
                query.add(f"{column} = {query.value(value)}")
        if cursor is not None:
            _after(query, cursor, by, descending)
        order = ", ".join(f"{column} {'DESC' if descending else 'ASC'}" for column in by)
        sql = f"""SELECT json_agg(r)::text FROM (SELECT {_columns(table.row)} FROM {table.name} e
            {query.where()} ORDER BY {order} LIMIT {limit + 1}) r"""
        found = await self._database.fetchrow(sql, *query.values)
        rows: list[K] = _decoded(list[table.row], found[0] if found else None)
        more, rows = len(rows) > limit, rows[:limit]
        return rows, _cursor(rows[-1], by, descending) if more else None

    async def groups[E: Entry, K: Entry](
        self,
        table: EntryTable[E, K],
        stream_id: UUID,
        *,
        by: str,
        keys: Collection[int],
        uncounted: tuple[str, str] | None = None,
    ) -> Sequence[EntryGroup[K]]:
        query = Conditions()
        stream = f"{table.stream_column} = {query.value(stream_id)}"
        query.add(stream)
        query.add(f"{by} = ANY ({query.value(list(keys))}::bigint[])")
        counted = f"{uncounted[0]} IS DISTINCT FROM {query.value(uncounted[1])}" if uncounted else "true"
        sql = f"""WITH grouped AS (
                SELECT {by} AS key, count(*) FILTER (WHERE {counted}) AS count, min(sampled_at) AS first,
                    max(sampled_at) AS last, max(row_number) AS latest
                FROM {table.name} {query.where()} GROUP BY {by})
            SELECT json_agg(g ORDER BY key)::text FROM (
                SELECT key, count, {utc_text("first")} AS first_sampled_at, {utc_text("last")} AS last_sampled_at,
                    (SELECT r FROM (SELECT {_columns(table.row)} FROM {table.name} e
                        WHERE {stream} AND e.{by} = grouped.key AND e.row_number = grouped.latest) r) AS latest
                FROM grouped) g"""
        async with self._database.connection(Use.BULK) as connection:
            found: str | None = await connection.fetchval(sql, *query.values)
        return _decoded(list[EntryGroup[table.row]], found)


async def check_open(
    connection: Connection, stream: StreamName, ends: Collection[str], *, late: bool
) -> None:
    """Last of all, so that whoever ends the stream waits for one commit and not for a whole delivery."""
    await connection.execute("SELECT pg_advisory_xact_lock_shared($1)", stream_lock(stream))
    if not late and await connection.fetchval(ENDED, *stream, list(ends)):
        raise LostRaceError


def utc_text(column: str) -> str:
    """A time as RFC 3339 writes it, whatever zone the server is in."""
    return f"""to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""


async def _write(
    connection: Connection, table: EntryTable[Any, Any], entries: Sequence[Entry], delivery: EntryDelivery
) -> int:
    """How many rows are new. One delivery to a stream at a time: a reader that follows the numbers misses none."""
    await connection.execute(
        "SELECT pg_advisory_xact_lock($1)", text_lock(f"{table.name}\x00{delivery.stream_id}")
    )
    own = ", ".join(table.entry.__struct_encode_fields__)
    status = await connection.execute(
        f"""INSERT INTO {table.name} (
                {table.stream_column}, principal_id, correlation_id, recorded_at, late, {own})
            SELECT $2::uuid, $3::uuid, $4::text, $5::timestamptz, $6::boolean, {own}
            FROM json_populate_recordset(NULL::{table.name}, $1::json) WITH ORDINALITY
            ORDER BY ordinality ON CONFLICT DO NOTHING""",
        encode(entries).decode(),
        delivery.stream_id,
        delivery.principal_id,
        delivery.correlation_id,
        delivery.recorded_at,
        delivery.late,
    )
    return int(status.split()[2])


def _columns(row: type[Entry]) -> str:
    names = row.__struct_encode_fields__
    return ", ".join(f"{utc_text(f'e.{name}')} AS {name}" if name in TIMES else f"e.{name}" for name in names)


def _decoded(type: Any, text: str | None) -> Any:
    """Rows that the server put together; of none it makes no text at all."""
    return [] if text is None else _decoder(type).decode(text)


@cache
def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type)


def _cursor(row: Entry, by: Sequence[str], descending: bool) -> str:
    return encode_cursor([str(descending), *(str(getattr(row, column)) for column in by)])


def _after(query: Conditions, cursor: str, by: Sequence[str], descending: bool) -> None:
    made_for, *values = decode_cursor(cursor, 1 + len(by))
    if not all(value.isascii() and value.isdecimal() and len(value) < 19 for value in values):
        raise InvalidCursorError("Use the next_cursor of a page of this list, unchanged, or none.")
    if made_for != str(descending):
        raise InvalidCursorError("The cursor was made for another sort order.")
    place = ", ".join(f"{query.value(int(value))}::bigint" for value in values)
    query.add(f"({', '.join(by)}) {'<' if descending else '>'} ({place})")
