"""Appends of concurrent commands, combined into one server-side call; each stays whole and answered on its own."""

import asyncio
import zlib
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any

import asyncpg

from beamwright.kernel.event import Claim
from beamwright.kernel.store import (
    AnsweredBeforeError,
    Append,
    ClaimTakenError,
    EpochMovedError,
    LostRaceError,
    Mark,
    StreamName,
)

from .beside import write_beside
from .database import Database, Use
from .driver import Connection, Row

CALL = "SELECT outcomes, details, positions, transaction FROM append_commands($1, $2, $3, $4, $5, $6, $7, $8)"
EPOCH_LOCK = -1
MOST_IN_A_CALL = 64

type Locks = dict[int, bool]  # key -> shared


class Appender:
    """Collects what arrives while a call is on its way, and sends it with the next one."""

    def __init__(self, database: Database, *, calls_at_once: int = 2) -> None:
        self._database = database
        self._waiting: list[tuple[Append, Locks, asyncio.Future[Mark]]] = []
        self._free = calls_at_once
        self._tasks: set[asyncio.Task[None]] = set()

    async def append(self, append: Append) -> Mark:
        self._database.room.check()
        mark = await self._append(append)
        self._database.room.recorded()
        return mark

    async def _append(self, append: Append) -> Mark:
        if append.beside or append.bumps_epoch:
            return await self._append_alone(append)
        future: asyncio.Future[Mark] = asyncio.get_running_loop().create_future()
        self._waiting.append((append, locks(append), future))
        self._send()
        return await future

    async def _append_alone(self, append: Append) -> Mark:
        """Profile data shares the transaction, and a change of authority must not hold up a batch."""
        async with self._database.connection(Use.PROFILES) as connection, connection.transaction():
            mark = result(append, await call(connection, [append], locks(append)), 0)
            await write_beside(connection, append.beside)
        return mark

    def _send(self) -> None:
        if self._free and self._waiting:
            self._free -= 1
            task = asyncio.create_task(self._run(self._take()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take(self) -> list[tuple[Append, Locks, asyncio.Future[Mark]]]:
        """The longest-waiting commands that do not touch one another's streams."""
        taken: list[tuple[Append, Locks, asyncio.Future[Mark]]] = []
        held: Locks = {}
        left: list[tuple[Append, Locks, asyncio.Future[Mark]]] = []
        for entry in self._waiting:
            wanted = entry[1]
            collides = any(key in held and not (shared and held[key]) for key, shared in wanted.items())
            if collides or len(taken) == MOST_IN_A_CALL:
                left.append(entry)
                continue
            held |= wanted
            taken.append(entry)
        self._waiting = left
        return taken

    async def _run(self, entries: Sequence[tuple[Append, Locks, asyncio.Future[Mark]]]) -> None:
        try:
            await self._call(entries)
        except asyncpg.PostgresError:
            # One command's data upset the call: give each its own, so that only that one fails.
            for entry in entries:
                try:
                    await self._call([entry])
                except Exception as error:  # noqa: BLE001 - handed to whoever waits
                    _fail(entry[2], error)
        except BaseException as error:
            for _, _, future in entries:
                _fail(future, error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._free += 1
            self._send()

    async def _call(self, entries: Sequence[tuple[Append, Locks, asyncio.Future[Mark]]]) -> None:
        appends = [append for append, _, _ in entries]
        together: Locks = {}
        for _, wanted, _ in entries:
            together |= wanted
        async with self._database.connection() as connection:
            row = await call(connection, appends, together)
        claims = 0
        for number, (append, _, future) in enumerate(entries):
            if not future.done():
                try:
                    future.set_result(result(append, row, number, claims))
                except Exception as error:  # noqa: BLE001 - handed to whoever waits
                    future.set_exception(error)
            claims += len(append.claimed)


def _fail(future: asyncio.Future[Mark], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def result(append: Append, row: Row, number: int, claims_before: int = 0) -> Mark:
    """What the server answered for one command of the call; it counts the claims of all commands together."""
    match row["outcomes"][number]:
        case "ok":
            return Mark(row["transaction"] or 0, row["positions"][number])
        case "epoch":
            raise EpochMovedError
        case "answered":
            raise AnsweredBeforeError
        case "claim":
            index: int = row["details"][number] - claims_before
            raise ClaimTakenError(append.claimed[index][0])
        case _:
            raise LostRaceError


def locks(append: Append) -> Locks:
    """Exclusive on what is written, shared on what was only read. Order is by key, the same for everyone."""
    written = {(event.stream_type, event.stream_id) for event in append.events}
    wanted: Locks = {stream_lock(name): name not in written for name in append.seen}
    wanted |= {claim_lock(claim): False for claim, _ in append.claimed}
    wanted |= {claim_lock(claim): False for claim in append.released}
    if append.idempotency is not None:
        wanted[text_lock("|".join(map(str, append.idempotency[0])))] = False
    if append.epoch is not None or append.bumps_epoch:
        wanted[EPOCH_LOCK] = not append.bumps_epoch
    return wanted


def stream_lock(name: StreamName) -> int:
    """UUIDv7 ends in 62 random bits: they are the key, told apart by stream type."""
    return _signed(name[1].int & 0xFFFF_FFFF_FFFF_FFFF ^ zlib.crc32(name[0].encode()) << 8)


def claim_lock(claim: Claim) -> int:
    return text_lock(f"{claim.kind}\x00{claim.key}")


def text_lock(text: str) -> int:
    return _signed(int.from_bytes(blake2b(text.encode(), digest_size=8).digest()))


def _signed(key: int) -> int:
    return key - 2**64 if key >= 2**63 else key


async def call(connection: Connection, appends: Sequence[Append], wanted: Locks) -> Row:
    row = await connection.fetchrow(CALL, *_arguments(appends, wanted))
    assert row is not None
    return row


def _arguments(appends: Sequence[Append], wanted: Locks) -> list[list[Any]]:
    """One array of rows for each thing that the call locks, verifies or writes."""
    return [
        [(key, wanted[key]) for key in sorted(wanted)],
        [(append.epoch, *append.envelope) for append in appends],
        _rows(appends, lambda a: [(*stream, version) for stream, version in a.seen.items()]),
        _rows(appends, lambda a: [(type, str(mark[0]), mark[1]) for type, mark in a.searched.items()]),
        _rows(appends, lambda a: [(claim.kind, claim.key, *stream) for claim, stream in a.claimed]),
        _rows(appends, lambda a: [(claim.kind, claim.key) for claim in a.released]),
        _rows(appends, lambda a: a.events),
        _rows(appends, lambda a: [(a.idempotency[0].key, *a.idempotency[1][:3])] if a.idempotency else ()),
    ]


def _rows(
    appends: Sequence[Append], rows: Callable[[Append], Iterable[Sequence[Any]]]
) -> list[tuple[Any, ...]]:
    """Every command's rows, the command's number first."""
    return [(number, *row) for number, append in enumerate(appends, 1) for row in rows(append)]
