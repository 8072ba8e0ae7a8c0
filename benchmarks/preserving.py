"""Backup and restore beside bare COPY of the same rows, and what an epoch costs an append and a reader."""

import asyncio
import logging
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import asyncpg
import structlog

from beamwright.adapters.backup_file import new_backup, opened_backup
from beamwright.adapters.postgres.appender import call, locks
from beamwright.adapters.postgres.backing_up import back_up
from beamwright.adapters.postgres.migrate import HEAD, migrate
from beamwright.adapters.postgres.restoring import claim_vacant, restore
from beamwright.adapters.postgres.store import READ_LOG
from beamwright.app import new_id
from beamwright.kernel import wellknown
from beamwright.kernel.store import Append, Envelope, NewEvent
from beamwright.maintenance import read_models
from benchmarks.growth import fill
from benchmarks.installation import Installation
from benchmarks.table import Figure, rate

TIMES = 50


def bench(place: Installation, events: int) -> list[Figure]:
    """The record itself: the lists are built from it afterwards, and have figures of their own."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with place.serving():
        pass
    fill(place, events)
    with tempfile.TemporaryDirectory(prefix="beamwright-bench-") as folder:
        return asyncio.run(_preserve(place.dsn, events, Path(folder, "whole.backup")))


async def _preserve(dsn: str, events: int, path: Path) -> list[Figure]:
    bare_out, rows = await _copy_out(dsn)
    out = await _timed(_backup(dsn, path))
    bare, target = await _empty(dsn, HEAD), await _empty(dsn, None)
    bare_in = await _timed(_copy_in(bare, rows))
    back = await _timed(_restore(target, path))
    built = await _timed(_build(target))
    size = os.stat(path).st_size
    raw = sum(map(len, rows))
    return [
        _figure(f"backup of {events:,} events", events, out, bare_out, f"{size / raw:.0%} of the size"),
        _figure(f"restore of {events:,} events, without the lists", events, back, bare_in, "checked before"),
        Figure("lists of a restored log", rate(events / built), "-", "-", "-", None),
    ]


def _figure(what: str, events: int, seconds: float, bare: float, note: str) -> Figure:
    beside = f"bare COPY of events {rate(events / bare)}, {note}"
    return Figure(what, rate(events / seconds), beside, f"{bare / seconds:.0%}", "-", None)


async def _timed(work: Awaitable[object]) -> float:
    begun = time.perf_counter()
    await work
    return time.perf_counter() - begun


async def _copy_out(dsn: str) -> tuple[float, list[bytes]]:
    rows: list[bytes] = []

    async def keep(chunk: bytes) -> None:
        rows.append(chunk)

    connection = await asyncpg.connect(dsn)
    seconds = await _timed(connection.copy_from_query("SELECT * FROM events", output=keep))
    await connection.close()
    return seconds, rows


async def _copy_in(dsn: str, rows: list[bytes]) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for chunk in rows:
            yield chunk

    connection = await asyncpg.connect(dsn)
    await connection.copy_to_table("events", source=chunks())
    await connection.close()


async def _backup(dsn: str, path: Path) -> None:
    with new_backup(path) as file:
        manifest = await back_up(dsn, file, "home", lambda what, done, total: None)
        file.finish(manifest, issuer_key=False)


async def _restore(dsn: str, path: Path) -> None:
    with opened_backup(path) as backup:
        backup.check(lambda more: None)
        connection = await claim_vacant(dsn)
        await restore(connection, dsn, [backup], lambda what, done, total: None)
        await connection.close()


async def _build(dsn: str) -> None:
    async with read_models(dsn) as lists:
        await lists.build(lambda built: None)


async def _empty(dsn: str, schema: str | None) -> str:
    """A new database of the same cluster, with or without tables."""
    name = f"bench_{uuid4().hex}"
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    await connection.close()
    made = dsn.replace("/postgres?", f"/{name}?")
    if schema is not None:
        await migrate(made, schema)
    return made


def epochs(place: Installation, rounds: int) -> list[Figure]:
    """The same appends and pages before there were epochs, in the first epoch, and in one that is shifted."""
    return asyncio.run(_epochs(place.dsn, rounds))


async def _epochs(dsn: str, rounds: int) -> list[Figure]:
    connections = [await asyncpg.connect(await _empty(dsn, schema)) for schema in ("0003", HEAD, HEAD)]
    await connections[2].execute("SELECT begin_log_epoch()")
    pages = [READ_LOG.replace("log_horizon()", "pg_snapshot_xmin(pg_current_snapshot())"), READ_LOG, READ_LOG]
    for connection in connections:
        await _append(connection, keep=True)
        await connection.execute("VACUUM ANALYZE events")
    writing: list[list[float]] = [[], [], []]
    reading: list[list[float]] = [[], [], []]
    for round in range(rounds):
        # In turns, each of them first as often as the others: the machine is never the same for long.
        for number in ((round + step) % 3 for step in range(3)):
            connection = connections[number]
            writing[number].append(await _timed(_append(connection, keep=False)) / TIMES)
            reading[number].append(await _timed(_read(connection, pages[number])) / TIMES)
    for connection in connections:
        await connection.close()
    return [*_compared("append", writing), *_compared("page of 50 events", reading)]


def _compared(what: str, seconds: list[list[float]]) -> list[Figure]:
    before, first, shifted = (statistics.median(each) * 1e6 for each in seconds)
    return [
        Figure(
            f"{what}, {name}",
            f"{now:.0f} us",
            f"before epochs {before:.0f} us",
            f"{now / before:.2f}",
            "1",
            None,
        )
        for name, now in (("first epoch", first), ("after a restore", shifted))
    ]


async def _append(connection: asyncpg.Connection, *, keep: bool) -> None:
    """In one transaction, so that no commit's wait for the disk hides the difference; undone, so that no log grows."""
    transaction = connection.transaction()
    await transaction.start()
    for _ in range(TIMES):
        append = _zone()
        await call(connection, [append], locks(append))
    await (transaction.commit() if keep else transaction.rollback())


async def _read(connection: asyncpg.Connection, page: str) -> None:
    for _ in range(TIMES):
        await connection.fetch(page, 0, 0, 50, [], [])


def _zone() -> Append:
    id, now = new_id(), datetime.now(UTC)
    payload = f'{{"occurred_at":"{now.isoformat()}","zone_id":"{id}","name":"{id.hex}","description":null}}'
    event = NewEvent(new_id(), "Zone", id, 1, "ZoneDefined", 1, payload, now)
    envelope = Envelope(wellknown.ADMINISTRATOR, "define_zone", wellknown.HTTP_SURFACE, "bench")
    return Append(envelope, [event], {("Zone", id): 0})
