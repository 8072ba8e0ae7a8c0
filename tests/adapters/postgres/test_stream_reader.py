"""Streams that are asked for at once are read at once."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from beamwright.adapters.postgres.stream_reader import MOST_IN_A_QUERY, StreamReader

WHEN = datetime(2026, 11, 15, tzinfo=UTC)


class Statements:
    """A database that has every stream it is asked for but `absent`, and notes each statement."""

    def __init__(self) -> None:
        self.sent: list[set[UUID]] = []
        self.absent: set[UUID] = set()
        self.trouble: Exception | None = None
        self.answering = asyncio.Event()
        self.answering.set()

    async def fetchrow(self, query: str, kind: str, id: UUID, after: int) -> Any:
        rows = await self.fetch(query, [kind], [id], [after])
        return rows[0] if rows else {"version": None}

    async def fetch(self, query: str, *columns: list[Any]) -> list[Any]:
        kinds, ids, after = columns or ([], [], [])
        self.sent.append(set(ids))
        await self.answering.wait()
        if self.trouble is not None:
            raise self.trouble
        envelope = {"version": 1, "events": "[]", "transaction_id": 1, "position": 1}
        times = {"created_at": WHEN, "updated_at": WHEN, "created_by": uuid4()}
        return [
            {"stream_type": kind, "stream_id": id, "after": known} | envelope | times
            for kind, id, known in zip(kinds, ids, after, strict=True)
            if id not in self.absent
        ]


def reading(statements: Statements) -> StreamReader:
    fake: Any = statements
    return StreamReader(fake)


def ask(reader: StreamReader, *ids: UUID) -> Any:
    return reader.read([(("Zone", id), 0) for id in ids])


def test_what_is_asked_for_at_once_goes_in_one_statement() -> None:
    async def run() -> None:
        statements, ids = Statements(), [uuid4() for _ in range(5)]
        statements.absent = {ids[4]}
        reader = reading(statements)
        answers = await asyncio.gather(
            ask(reader, ids[0]), ask(reader, *ids[1:3]), *(ask(reader, id) for id in ids[3:])
        )
        assert statements.sent == [set(ids)]
        assert [sorted(id for _, id in answer) for answer in answers] == [
            [ids[0]],
            sorted(ids[1:3]),
            [ids[3]],
            [],
        ]
        assert await ask(reader) == {} and len(statements.sent) == 1
        assert list(await ask(reader, ids[0])) == [("Zone", ids[0])]

    asyncio.run(run())


def test_what_comes_while_all_are_on_their_way_goes_together() -> None:
    async def run() -> None:
        statements = Statements()
        reader = reading(statements)
        statements.answering.clear()
        asked = []
        for _ in range(3):
            asked.append(asyncio.create_task(ask(reader, uuid4())))
            await asyncio.sleep(0.01)
        late = [asyncio.create_task(ask(reader, uuid4())) for _ in range(MOST_IN_A_QUERY + 1)]
        await asyncio.sleep(0.01)
        assert len(statements.sent) == 3
        statements.answering.set()
        await asyncio.gather(*asked, *late)
        assert sorted(map(len, statements.sent)) == [1, 1, 1, 1, MOST_IN_A_QUERY]

    asyncio.run(run())


def test_trouble_reaches_everybody_and_ends_with_them() -> None:
    async def run() -> None:
        statements = Statements()
        reader = reading(statements)
        statements.trouble = OSError("away")
        answers = await asyncio.gather(*(ask(reader, uuid4()) for _ in range(4)), return_exceptions=True)
        assert [type(answer) for answer in answers] == [OSError] * 4
        statements.trouble = None
        impatient = asyncio.create_task(ask(reader, uuid4()))
        await asyncio.sleep(0)
        impatient.cancel()
        assert len(await ask(reader, uuid4())) == 1
        with pytest.raises(asyncio.CancelledError):
            await impatient

    asyncio.run(run())
