"""Reads that are asked for at once, by one call or by many, combined into one query."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from beamwright.kernel.store import Mark, Stream, StreamName

from .database import Database
from .driver import Row

# The tag in front of the payload lets one decoder read a whole stream, whatever its events.
TAGGED = """'{"event_type":"' || event_type
    || CASE WHEN schema_version = 1 THEN '' ELSE '#' || schema_version END || '",' || substr(payload::text, 2)"""


def joined(first: str = "1") -> str:
    """The columns of a stream that is read from a version on."""
    return f"""'[' || string_agg({TAGGED}, ',' ORDER BY version) || ']' AS events,
        max(version) AS version, max(position) AS position, max(transaction_id) AS transaction_id,
        min(occurred_at) FILTER (WHERE version = {first}) AS created_at,
        (array_agg(principal_id) FILTER (WHERE version = {first}))[1] AS created_by,
        max(occurred_at) AS updated_at"""


READ_ONE = f"SELECT {joined('$3 + 1')} FROM events WHERE stream_type = $1 AND stream_id = $2 AND version > $3"

READ_MANY = f"""SELECT n.type AS stream_type, n.id AS stream_id, n.after, e.*
    FROM unnest($1::text[], $2::uuid[], $3::int[]) AS n (type, id, after)
    CROSS JOIN LATERAL
        (SELECT {joined("n.after + 1")} FROM events
        WHERE stream_type = n.type AND stream_id = n.id AND version > n.after) e
    WHERE e.version IS NOT NULL"""

MOST_IN_A_QUERY = 64

# A stream, and the version that is known already.
type Part = tuple[StreamName, int]


class _Waiting(NamedTuple):
    parts: Sequence[Part]
    answer: "asyncio.Future[Mapping[StreamName, Stream]]"


class StreamReader:
    """Collects what is asked for while queries are on their way, and asks for it with the next one."""

    def __init__(self, database: Database, *, queries_at_once: int = 3) -> None:
        self._database = database
        self._waiting: list[_Waiting] = []
        self._free = queries_at_once
        self._starting = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, parts: Sequence[Part]) -> Mapping[StreamName, Stream]:
        if not parts:
            return {}
        answer: asyncio.Future[Mapping[StreamName, Stream]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(parts, answer))
        self._send()
        return await answer

    def _send(self) -> None:
        if self._free and self._waiting and not self._starting:
            self._free -= 1
            self._starting = True
            task = asyncio.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        # It starts when everybody who runs just now has had their turn: what they ask for goes with it.
        taken, self._waiting = self._waiting[:MOST_IN_A_QUERY], self._waiting[MOST_IN_A_QUERY:]
        self._starting = False
        self._send()
        try:
            found = await self._query({part for each in taken for part in each.parts})
            for each in taken:
                if not each.answer.done():
                    each.answer.set_result({part[0]: found[part] for part in each.parts if part in found})
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            for each in taken:
                if not each.answer.done():
                    each.answer.set_exception(error)
        finally:
            self._free += 1
            self._send()

    async def _query(self, parts: set[Part]) -> Mapping[Part, Stream]:
        if len(parts) == 1:
            [part] = parts
            row = await self._database.fetchrow(READ_ONE, *part[0], part[1])
            return {part: stream(row)} if row is not None and row["version"] else {}
        columns = zip(*((*name, after) for name, after in parts), strict=True)
        rows = await self._database.fetch(READ_MANY, *(list(column) for column in columns))
        return {((row["stream_type"], row["stream_id"]), row["after"]): stream(row) for row in rows}


def stream(row: Row) -> Stream:
    mark = Mark(row["transaction_id"], row["position"])
    return Stream(
        row["version"], row["events"], mark, row["created_at"], row["created_by"], row["updated_at"]
    )
