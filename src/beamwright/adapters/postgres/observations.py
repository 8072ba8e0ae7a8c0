"""Samples of runs: written with COPY, each once, and read by index; a file is exported a piece at a time."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from math import ceil
from typing import Any
from uuid import UUID

import asyncpg

from beamwright.adapters.arrow import FileWriter, read_table
from beamwright.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from beamwright.kernel.entries import Inserted
from beamwright.kernel.observations import (
    Delivery,
    FeedSource,
    Observation,
    ObservationBatch,
    ObservationBucket,
    ObservationFormat,
    ObservationSelection,
    ObservationSeries,
    RunChannel,
)
from beamwright.kernel.store import LostRaceError
from beamwright.kernel.units import Unit

from .database import Database, Use
from .driver import Connection, Row
from .entries import check_open, utc_text
from .lists import Conditions
from .observation_rows import COLUMNS, encoded

TABLE = "entries_run_observations"
INCOMING = "incoming_observations"
UNIT = "unit_system, unit_code, unit_label"
# What one piece of an export holds: a connection is never kept while a client is slow.
ROWS_IN_A_PIECE = 50_000
MICROSECOND = timedelta(microseconds=1)

# Rows of two deliveries that overlap are met in the same order, so that neither waits for the other.
MERGE = f"""INSERT INTO {TABLE} ({", ".join(COLUMNS)}) SELECT {", ".join(COLUMNS)} FROM {INCOMING}
    ORDER BY event_id ON CONFLICT DO NOTHING"""

HEARTBEAT = """INSERT INTO run_feed_heartbeats AS h (run_id, source_id, last_seen_at) VALUES ($1, $2, $3)
    ON CONFLICT (run_id, source_id) DO UPDATE SET last_seen_at = greatest(h.last_seen_at, excluded.last_seen_at)"""

CHANNELS = f"""SELECT c.*, last.value AS last_value, {UNIT} FROM run_channels c CROSS JOIN LATERAL (
    SELECT value, {UNIT} FROM {TABLE} e WHERE e.run_id = c.run_id AND e.channel_name = c.channel_name
    ORDER BY sampled_at DESC LIMIT 1) last WHERE c.run_id = $1 ORDER BY channel_name"""

COUNTS = """SELECT run_id, sum(observation_count)::bigint FROM run_channels
    WHERE run_id = ANY ($1::uuid[]) GROUP BY run_id"""

# The planner cannot know that millions of rows fall into few buckets, and would sort the whole table for them.
BY_INDEX = "SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off"

EXPORTED = f"""event_id, {utc_text("sampled_at")} AS sampled_at, channel_name, value, {UNIT},
    sampling_procedure, simulated::text, late::text, source_id, {utc_text("recorded_at")}"""


class PostgresObservations:
    """The tables of samples, of what is known of each channel, and of the sources that deliver."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_table(self, content: bytes, most: int) -> ObservationBatch:
        return await read_table(content, most)

    async def append(self, batch: ObservationBatch, delivery: Delivery, ends: Collection[str]) -> Inserted:
        try:
            self._database.room.check()
            async with self._database.connection(Use.BULK) as connection, connection.transaction():
                inserted = await _write(connection, batch, delivery) if batch.size else 0
                if delivery.source_id is not None:
                    seen = (delivery.run_id, delivery.source_id, delivery.recorded_at)
                    await connection.execute(HEARTBEAT, *seen)
                await check_open(connection, ("Run", delivery.run_id), ends, late=delivery.late)
        except asyncpg.DeadlockDetectedError as error:
            raise LostRaceError from error
        return Inserted(received=batch.size, inserted=inserted, duplicates=batch.size - inserted)

    async def page(
        self, selection: ObservationSelection, *, descending: bool, limit: int, cursor: str | None
    ) -> tuple[Sequence[Observation], str | None]:
        """The first samples of each channel, merged: a channel's come from its own stretch of the index."""
        query = _selected(selection)
        if cursor is not None:
            _after(query, cursor, descending)
        run_id = query.value(selection.run_id)
        order = "sampled_at DESC, event_id DESC" if descending else "sampled_at, event_id"
        sql = f"""SELECT s.* FROM ({_channels(query, selection)}) c CROSS JOIN LATERAL (
            SELECT {", ".join(COLUMNS)} FROM {TABLE} e WHERE e.run_id = {run_id}
            AND e.channel_name = c.channel_name AND {" AND ".join(query.parts)}
            ORDER BY {order} LIMIT {limit + 1}) s ORDER BY {order} LIMIT {limit + 1}"""
        rows = await self._database.fetch(sql, *query.values)
        more, rows = len(rows) > limit, rows[:limit]
        next_cursor = _cursor(rows[-1], descending) if more else None
        return [_observation(row) for row in rows], next_cursor

    async def series(self, selection: ObservationSelection, points: int) -> Sequence[ObservationSeries]:
        span = await self._span(selection)
        if span is None:
            return []
        width = ceil((span[1] - span[0]) / MICROSECOND / points) * MICROSECOND
        query = _selected(selection)
        bin = f"date_bin({query.value(width)}, sampled_at, {query.value(span[0])})"
        run_id = query.value(selection.run_id)
        sql = f"""SELECT c.channel_name, s.* FROM ({_channels(query, selection)}) c CROSS JOIN LATERAL (
            SELECT {bin} AS sampled_from, count(*) AS count, min(value) AS minimum, max(value) AS maximum,
            avg(value) AS mean FROM {TABLE} e WHERE e.run_id = {run_id} AND e.channel_name = c.channel_name
            AND {" AND ".join(query.parts)} GROUP BY 1) s"""
        async with self._database.connection(Use.BULK) as connection, connection.transaction(readonly=True):
            await connection.execute(BY_INDEX)
            rows = await connection.fetch(sql, *query.values)
        return _series(rows, width)

    async def channels(self, run_id: UUID) -> Sequence[RunChannel]:
        return [
            RunChannel(
                channel_name=row["channel_name"],
                count=row["observation_count"],
                first_sampled_at=row["first_sampled_at"],
                last_sampled_at=row["last_sampled_at"],
                minimum=row["minimum"],
                maximum=row["maximum"],
                last_value=row["last_value"],
                unit=_unit(row),
            )
            for row in await self._database.fetch(CHANNELS, run_id)
        ]

    async def sources(self, run_id: UUID) -> Sequence[FeedSource]:
        rows = await self._database.fetch(
            "SELECT source_id, last_seen_at FROM run_feed_heartbeats WHERE run_id = $1 ORDER BY source_id",
            run_id,
        )
        return [FeedSource(source_id=row[0], last_seen_at=row[1]) for row in rows]

    async def counts(self, run_ids: Collection[UUID]) -> Mapping[UUID, int]:
        rows = await self._database.fetch(COUNTS, list(run_ids)) if run_ids else []
        return {row[0]: row[1] for row in rows}

    async def export(
        self, selection: ObservationSelection, format: ObservationFormat
    ) -> AsyncIterator[bytes]:
        writer = FileWriter(format)
        query = Conditions()
        sql = f"{_channels(query, selection)} ORDER BY channel_name"
        for row in await self._database.fetch(sql, *query.values):
            async for piece in self._pieces(selection, row["channel_name"]):
                yield await writer.write(piece)
        yield await writer.close()

    async def _pieces(self, selection: ObservationSelection, channel_name: str) -> AsyncIterator[bytes]:
        """One channel as CSV, each piece beginning after the last row of the one before."""
        after: tuple[datetime, UUID] | None = None
        while True:
            query = _selected(selection)
            query.add(f"run_id = {query.value(selection.run_id)}")
            query.add(f"channel_name = {query.value(channel_name)}")
            if after is not None:
                query.add(f"(sampled_at, event_id) > ({query.value(after[0])}, {query.value(after[1])})")
            sql = f"""SELECT {EXPORTED} FROM {TABLE} e {query.where()}
                ORDER BY e.sampled_at, e.event_id LIMIT {ROWS_IN_A_PIECE}"""
            piece, count = await self._copied(sql, query)
            if piece:
                yield piece
            if count < ROWS_IN_A_PIECE:
                return
            event_id, sampled_at = piece[:-1].rpartition(b"\n")[2].decode().split(",")[:2]
            after = datetime.fromisoformat(sampled_at), UUID(event_id)

    async def _copied(self, sql: str, query: Conditions) -> tuple[bytes, int]:
        parts: list[bytes] = []

        async def take(part: bytes) -> None:
            parts.append(part)

        async with self._database.connection(Use.BULK) as connection:
            status = await connection.copy_from_query(sql, *query.values, output=take, format="csv")
        return b"".join(parts), int(status.split()[1])

    async def _span(self, selection: ObservationSelection) -> tuple[datetime, datetime] | None:
        """The time to divide: what was asked for, as far as there are samples."""
        query = Conditions()
        sql = _channels(query, selection, "min(first_sampled_at), max(last_sampled_at)")
        row = await self._database.fetchrow(sql, *query.values)
        if row is None or row[0] is None:
            return None
        begin = selection.sampled_from or row[0]
        end = selection.sampled_until or row[1] + MICROSECOND
        return (begin, end) if begin < end else None


async def _write(connection: Connection, batch: ObservationBatch, delivery: Delivery) -> int:
    """How many rows are new. Most often all are, so they are first sent as if they were."""
    try:
        async with connection.transaction():
            await _copy(connection, TABLE, batch, delivery)
    except asyncpg.UniqueViolationError:
        await connection.execute(
            f"CREATE TEMP TABLE IF NOT EXISTS {INCOMING} (LIKE {TABLE}) ON COMMIT DELETE ROWS"
        )
        await _copy(connection, INCOMING, batch, delivery)
        return int((await connection.execute(MERGE)).split()[2])
    return batch.size


async def _copy(connection: Connection, table: str, batch: ObservationBatch, delivery: Delivery) -> None:
    await connection.copy_to_table(table, source=encoded(batch, delivery), columns=COLUMNS, format="binary")


def _selected(selection: ObservationSelection) -> Conditions:
    """Everything but run and channel, which each read puts where its index needs them."""
    query = Conditions()
    query.add("true")
    for column in ("source_id", "sampling_procedure", "simulated", "late"):
        value = getattr(selection, column)
        if value is not None:
            query.add(f"{column} = {query.value(value)}")
    if selection.sampled_from is not None:
        query.add(f"sampled_at >= {query.value(selection.sampled_from)}")
    if selection.sampled_until is not None:
        query.add(f"sampled_at < {query.value(selection.sampled_until)}")
    return query


def _channels(query: Conditions, selection: ObservationSelection, columns: str = "channel_name") -> str:
    sql = f"SELECT {columns} FROM run_channels WHERE run_id = {query.value(selection.run_id)}"
    if not selection.channel_names:
        return sql
    return f"{sql} AND channel_name = ANY ({query.value(sorted(selection.channel_names))}::text[])"


def _cursor(row: Row, descending: bool) -> str:
    return encode_cursor([str(descending), row["sampled_at"].isoformat(), str(row["event_id"])])


def _after(query: Conditions, cursor: str, descending: bool) -> None:
    made_for, sampled_at, event_id = decode_cursor(cursor, 3)
    try:
        place = datetime.fromisoformat(sampled_at), UUID(event_id)
    except ValueError:
        raise InvalidCursorError("Use the next_cursor of a page of this list, unchanged, or none.") from None
    if made_for != str(descending):
        raise InvalidCursorError("The cursor was made for another sort order.")
    sign = "<" if descending else ">"
    query.add(f"(sampled_at, event_id) {sign} ({query.value(place[0])}, {query.value(place[1])})")


def _observation(row: Row) -> Observation:
    return Observation(
        event_id=row["event_id"],
        channel_name=row["channel_name"],
        value=row["value"],
        unit=_unit(row),
        sampling_procedure=row["sampling_procedure"],
        sampled_at=row["sampled_at"],
        simulated=row["simulated"],
        late=row["late"],
        source_id=row["source_id"],
        principal_id=row["principal_id"],
        correlation_id=row["correlation_id"],
        recorded_at=row["recorded_at"],
    )


def _unit(row: Row) -> Unit | None:
    if row["unit_system"] is None:
        return None
    return Unit(system=row["unit_system"], code=row["unit_code"], label=row["unit_label"])


def _series(rows: Sequence[Row], width: timedelta) -> list[ObservationSeries]:
    found: dict[str, list[ObservationBucket]] = {}
    for row in sorted(rows, key=lambda row: (row["channel_name"], row["sampled_from"])):
        fields: dict[str, Any] = {name: row[name] for name in ObservationBucket.__struct_fields__}
        found.setdefault(row["channel_name"], []).append(ObservationBucket(**fields))
    return [
        ObservationSeries(channel_name=name, width=width.total_seconds(), buckets=buckets)
        for name, buckets in found.items()
    ]
