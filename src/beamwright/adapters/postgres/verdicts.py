"""The verdict table: written with COPY, read newest first by conduit."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from beamwright.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from beamwright.kernel.seams import Verdict

from .database import Database, Use
from .lists import Conditions

COLUMNS = Verdict.__struct_fields__
EQUAL = ("principal_id", "command_name", "surface_id", "decision", "reason", "correlation_id")


class PostgresVerdictLog:
    """The rows of `conduit_verdicts`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, verdicts: Sequence[Verdict]) -> None:
        self._database.room.check()
        rows = [[getattr(verdict, column) for column in COLUMNS] for verdict in verdicts]
        async with self._database.connection(Use.DERIVED) as connection:
            await connection.copy_records_to_table("conduit_verdicts", records=rows, columns=COLUMNS)

    async def page(self, request: Any) -> tuple[Sequence[Verdict], str | None]:
        query = Conditions()
        query.add(f"conduit_id = {query.value(request.conduit_id)}")
        for name in EQUAL:
            if (value := getattr(request, name)) is not None:
                query.add(f"{name} = {query.value(value)}")
        if request.policy_id is not None:
            query.add(f"determining_policies @> ARRAY[{query.value(request.policy_id)}]::uuid[]")
        if request.from_ is not None:
            query.add(f"occurred_at >= {query.value(request.from_)}")
        if request.until is not None:
            query.add(f"occurred_at < {query.value(request.until)}")
        descending = request.sort.startswith("-")
        if request.cursor is not None:
            at, id = _place(request.cursor)
            sign = "<" if descending else ">"
            query.add(f"(occurred_at, verdict_id) {sign} ({query.value(at)}, {query.value(id)})")
        direction = "DESC" if descending else "ASC"
        rows = await self._database.fetch(
            f"SELECT {', '.join(COLUMNS)} FROM conduit_verdicts {query.where()} "
            f"ORDER BY occurred_at {direction}, verdict_id {direction} LIMIT {request.limit + 1}",
            *query.values,
        )
        found = [Verdict(**dict(zip(COLUMNS, row, strict=True))) for row in rows[: request.limit]]
        if len(rows) <= request.limit:
            return found, None
        return found, encode_cursor([found[-1].occurred_at.isoformat(), str(found[-1].verdict_id)])

    async def keep_months(self, now: datetime, retention: timedelta) -> None:
        """Make room for the coming month and drop what is older than the retention."""
        await self._database.execute("SELECT keep_verdict_months($1, $2)", now, retention)


def _place(cursor: str) -> tuple[datetime, UUID]:
    at, id = decode_cursor(cursor, 2)
    try:
        return datetime.fromisoformat(at), UUID(id)
    except ValueError:
        raise InvalidCursorError(
            "Use the next_cursor of a page of the same list, unchanged, or none."
        ) from None
