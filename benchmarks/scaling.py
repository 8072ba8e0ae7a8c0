"""Scaling curves: the same work with more clients, longer streams, a longer log and more lists."""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import uvloop

from beamwright.adapters.postgres.bookmarks import PostgresBookmarks, PostgresLeases
from beamwright.adapters.postgres.database import Database
from beamwright.adapters.postgres.store import PostgresEventStore
from beamwright.app import new_id, now, registry
from beamwright.contexts.trust.zone import ZoneEvent, ZoneNotFoundError, evolve
from beamwright.contexts.trust.zone import zones as zone_aggregate
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.event import Belonging
from beamwright.kernel.operation import snake
from beamwright.kernel.store import Mark
from beamwright.kernel.value import Value
from beamwright.runtime.projector import Projector
from beamwright.runtime.readers import Readers
from benchmarks.growth import bare_query, catch_up, copied, execute, fill, list_tables
from benchmarks.installation import Installation, bare_inserts
from benchmarks.load import Sent, request
from benchmarks.plots import Chart, Series, Side
from benchmarks.writing import run, transitions, visible_after, zones

# The embedded server accepts a hundred connections, and a few are kept for others.
MOST_CONNECTIONS = 90
EVENTS_OF_A_ZONE = 10
ZONES_AT_ONCE = 50_000
# On disk, with indexes, claims, list rows and the write-ahead log; generous.
BYTES_OF_AN_EVENT = 1_000

# Zones as define_zone and update_zone write them, each with all its events one after the other.
FILL_LOG = """WITH made AS MATERIALIZED (SELECT uuidv7() AS id, n FROM generate_series(1, $1) AS n),
    claimed AS (
        INSERT INTO claims SELECT 'zone-name', 'zone ' || replace(id::text, '-', ''), 'Zone', id FROM made)
    INSERT INTO events (event_id, stream_type, stream_id, version, event_type, payload, principal_id, command_name,
        surface_id, correlation_id, occurred_at)
    SELECT uuidv7(), 'Zone', id, v, CASE v WHEN 1 THEN 'ZoneDefined' ELSE 'ZoneUpdated' END,
        json_build_object('occurred_at', to_char(now(), 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'zone_id', id,
            'name', 'zone ' || replace(id::text, '-', ''), 'description', CASE WHEN v > 1 THEN 'change ' || v END),
        '01900000-0000-7000-8000-00a000000102', CASE v WHEN 1 THEN 'define_zone' ELSE 'update_zone' END,
        '01900000-0000-7000-8000-00a000000301', 'fill', now() - make_interval(secs => n * 0.001)
    FROM made CROSS JOIN generate_series(1, $2) AS v ORDER BY n, v"""

LENGTHEN = """INSERT INTO events (event_id, stream_type, stream_id, version, event_type, payload, principal_id,
        command_name, surface_id, correlation_id, occurred_at)
    SELECT uuidv7(), 'Zone', stream_id, n, 'ZoneUpdated',
        json_build_object('occurred_at', to_char(now(), 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'zone_id', stream_id,
            'name', payload->>'name', 'description', 'change ' || n),
        '01900000-0000-7000-8000-00a000000102', 'update_zone', '01900000-0000-7000-8000-00a000000301', 'fill', now()
    FROM events CROSS JOIN generate_series(2, $2) AS n
    WHERE stream_type = 'Zone' AND version = 1 AND stream_id = ANY ($1::uuid[])"""

# One event for each stream, in turn for each of the given kinds.
FILL_KINDS = """INSERT INTO events (event_id, stream_type, stream_id, version, event_type, payload, principal_id,
        command_name, surface_id, correlation_id, occurred_at)
    SELECT uuidv7(), ($2::text[])[n % cardinality($2::text[]) + 1], id, 1, 'ZoneDefined',
        json_build_object('occurred_at', to_char(now(), 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'zone_id', id,
            'name', 'zone ' || replace(id::text, '-', ''), 'description', null),
        '01900000-0000-7000-8000-00a000000102', 'define_zone', '01900000-0000-7000-8000-00a000000301', 'fill', now()
    FROM (SELECT uuidv7() AS id, n FROM generate_series(1, $1) AS n) AS made"""

BARE_STREAM = (
    "SELECT event_type, payload FROM events WHERE stream_type = 'Zone' AND stream_id = $1 ORDER BY version"
)

LONG_QUERIES = """SELECT count(*) FROM pg_stat_activity WHERE application_name = 'beamwright' AND state = 'active'
    AND clock_timestamp() - query_start > interval '100 ms'"""


class Sizes(Value):
    """How far each curve goes."""

    clients: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    seconds: float = 2.0
    rounds: int = 3
    lengths: tuple[int, ...] = (1, 10, 100, 1_000, 10_000, 100_000)
    logs: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    calls: int = 1_000
    tail: int = 20_000
    lists: tuple[int, ...] = (1, 5, 10, 20, 30)
    listed: int = 50_000


QUICK = Sizes(
    clients=(1, 4, 16),
    seconds=0.5,
    rounds=1,
    lengths=(1, 10, 100, 1_000),
    logs=(10_000, 30_000),
    calls=100,
    tail=2_000,
    lists=(1, 5),
    listed=4_000,
)


class Lines:
    """Collects what is measured at each x, series by series."""

    def __init__(self) -> None:
        self._series: dict[str, Series] = {}

    def add(self, name: str, x: float, y: float, side: Side = "service") -> None:
        self._series.setdefault(name, Series(name=name, side=side, points=[])).points.append((x, y))

    def chart(self, name: str, title: str, x: str, y: str) -> Chart:
        return Chart(name=name, title=title, x=x, y=y, series=list(self._series.values()))


def clients(place: Installation, sizes: Sizes) -> list[Chart]:
    """Creations per second and the slowest in a hundred, with more and more clients at once."""
    rates, tails = Lines(), Lines()
    with place.serving():
        _creating(place, 8, sizes.seconds)
        for count in sizes.clients:
            sent = _middle([_creating(place, count, sizes.seconds) for _ in range(sizes.rounds)])
            rates.add("service", count, sent.per_second)
            tails.add("service", count, sent.p99 * 1000)
    for count in sizes.clients:
        connections = min(count, MOST_CONNECTIONS)
        rounds = [
            Sent(*uvloop.run(bare_inserts(place.dsn, connections, sizes.seconds)), {})
            for _ in range(sizes.rounds)
        ]
        bare = _middle(rounds)
        rates.add("bare asyncpg INSERT", count, bare.per_second, "bare")
        tails.add("bare asyncpg INSERT", count, bare.p99 * 1000, "bare")
    x = "clients at the same time"
    return [
        rates.chart("clients-rate", "Creations per second by clients", x, "per second"),
        tails.chart("clients-p99", "Latency of a creation by clients, p99", x, "ms"),
    ]


def _creating(place: Installation, clients: int, seconds: float) -> Sent:
    return run(place, clients, _for(seconds, place.token), 201)


def _for(seconds: float, token: str) -> Iterator[bytes]:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        yield request("POST", "/zones", token, b'{"name":"%s"}' % uuid4().hex.encode())


def _middle(rounds: list[Sent]) -> Sent:
    return sorted(rounds, key=lambda sent: sent.per_second)[len(rounds) // 2]


def streams(place: Installation, sizes: Sizes) -> list[Chart]:
    """The first read by id, another one, and a command, on streams of each length."""
    lines = Lines()
    with place.serving():
        run(place, 1, transitions(place.token, zones(place, 50), 300), 200)
        for length in sizes.lengths:
            _at_this_length(place, length, lines)
    title = "Reads and a command by length of the stream, p50"
    return [lines.chart("stream-length", title, "events in the stream", "ms")]


def _at_this_length(place: Installation, length: int, lines: Lines) -> None:
    ids = zones(place, min(200, max(1, 20_000 // length)))
    keys = [UUID(id) for id in ids]
    uvloop.run(execute(place.dsn, LENGTHEN, keys, length))
    place.wait_until_ready()
    repeat = 1 if len(ids) == 200 else max(2, 20 // len(ids))
    reads = [request("GET", f"/zones/{id}", place.token) for id in ids]
    first = run(place, 1, iter(reads), 200)
    again = run(place, 1, iter(reads * repeat), 200)
    command = run(place, 1, transitions(place.token, ids, len(ids) * repeat), 200)
    bare = uvloop.run(bare_query(place.dsn, BARE_STREAM, [(key,) for key in keys * repeat]))
    lines.add("command (update_zone)", length, command.p50 * 1000)
    lines.add("first read by id", length, first.p50 * 1000)
    lines.add("another read", length, again.p50 * 1000)
    lines.add("bare SELECT of the same rows", length, bare[1] * 1000, "bare")


def logs(place: Installation, sizes: Sizes, note: Callable[[str], None]) -> list[Chart]:
    """A command, a page, the lag and the catch-up with ever more events behind them."""
    times, rates = Lines(), Lines()
    with place.serving():
        pass
    for size in sizes.logs:
        more = max(0, size - uvloop.run(_events(place.dsn)))
        if more * BYTES_OF_AN_EVENT > shutil.disk_usage(place.directory).free:
            note(f"{size:,} events do not fit on this disk: the curve of the log ends before.")
            break
        began = time.perf_counter()
        uvloop.run(_fill_log(place.dsn, more // EVENTS_OF_A_ZONE))
        filled = time.perf_counter() - began
        took, events = uvloop.run(catch_up(place))
        uvloop.run(_settle(place.dsn))
        told = f"log of {size:,}: filled in {filled:.0f} s, caught up {events:,} events in {took:.0f} s"
        print(told, flush=True)
        with place.serving():
            uvloop.run(_calm(place.dsn))
            _at_this_size(place, sizes, size, times)
        fill(place, sizes.tail)
        took, _ = uvloop.run(catch_up(place))
        rates.add("projector, all lists", size, sizes.tail / took)
        tables = uvloop.run(list_tables(place.dsn))
        by_copy = uvloop.run(copied(place.dsn, tables, sizes.tail))
        rates.add("COPY of as many rows into an empty list", size, by_copy, "bare")
    x = "events in the log"
    return [
        times.chart("log-latency", "Latency by size of the log, p50", x, "ms"),
        rates.chart(
            "log-catch-up", f"Catch-up of {sizes.tail:,} new events by size of the log", x, "per second"
        ),
    ]


def _at_this_size(place: Installation, sizes: Sizes, size: int, times: Lines) -> None:
    ids = zones(place, sizes.calls // 2)
    run(place, 1, transitions(place.token, ids, sizes.calls // 5), 200)
    command = run(place, 1, transitions(place.token, ids, sizes.calls), 200)
    pages = [request("GET", "/zones?limit=50", place.token)] * (sizes.calls // 3)
    page = run(place, 1, iter(pages), 200)
    with place.client() as client:
        seen = visible_after(client, sizes.calls // 10)
    [table] = uvloop.run(list_tables(place.dsn))
    query = f"SELECT id, version, state, created_at, updated_at, created_by FROM lists.{table} ORDER BY created_at DESC, id DESC LIMIT 51"
    bare_page = uvloop.run(bare_query(place.dsn, query, [()] * (sizes.calls // 3)))
    bare_commit = uvloop.run(bare_inserts(place.dsn, 1, 0.5))
    times.add("transition (update_zone)", size, command.p50 * 1000)
    times.add("page of 50", size, page.p50 * 1000)
    times.add("acknowledged to visible in a list", size, seen[len(seen) // 2] * 1000)
    times.add("bare INSERT", size, bare_commit[1] * 1000, "bare")
    times.add("page of 50, same SQL", size, bare_page[1] * 1000, "bare")


async def _events(dsn: str) -> int:
    connection = await asyncpg.connect(dsn, command_timeout=600)
    count: int = await connection.fetchval("SELECT count(*) FROM events")
    await connection.close()
    return count


async def _fill_log(dsn: str, count: int) -> None:
    connection = await asyncpg.connect(dsn, command_timeout=1200)
    while count > 0:
        some = min(count, ZONES_AT_ONCE)
        await connection.execute(FILL_LOG, some, EVENTS_OF_A_ZONE)
        count -= some
    await connection.close()


async def _settle(dsn: str) -> None:
    """What the database would tidy up behind the measurement, it does before."""
    connection = await asyncpg.connect(dsn, command_timeout=1200)
    for statement in ("VACUUM ANALYZE events", "VACUUM ANALYZE claims", "CHECKPOINT"):
        await connection.execute(statement)
    for table in await list_tables(dsn):
        await connection.execute(f"VACUUM ANALYZE lists.{table}")
    await connection.close()


async def _calm(dsn: str) -> None:
    """Wait until no query of the service takes long: followers of the log pass over what was filled in."""
    connection = await asyncpg.connect(dsn)
    calm = 0
    for _ in range(600):
        busy = await connection.fetchval(LONG_QUERIES)
        calm = 0 if busy else calm + 1
        if calm == 6:
            break
        await asyncio.sleep(0.5)
    else:
        raise TimeoutError("the service did not come to rest")
    await connection.close()


def lists(place: Installation, sizes: Sizes) -> list[Chart]:
    """Catch-up with more and more lists to feed: all events for one of them, and shared out among all."""
    with place.serving():
        pass
    whole = len(registry().aggregates)
    lines = Lines()
    others = [each for each in registry().aggregates.values() if each is not zone_aggregate]
    for count in sorted({min(count, whole) for count in (*sizes.lists, whole)}):
        real = [zone_aggregate, *others[: count - 1]]
        got, _ = uvloop.run(_feed(place.dsn, real, ["Zone"], sizes.listed))
        lines.add("projector, all events for one list", count, got)
        copies = [_copy_of_zone(number) for number in range(count)]
        kinds = [each.name for each in copies]
        got, by_copy = uvloop.run(_feed(place.dsn, copies, kinds, sizes.listed))
        lines.add("projector, events for every list in turn", count, got)
        lines.add("COPY of the same rows into as many lists", count, by_copy, "bare")
    title = f"Catch-up of {sizes.listed:,} events by number of lists"
    return [lines.chart("lists", title, "lists that the projector feeds", "per second")]


def _copy_of_zone(number: int) -> Aggregate[Any, Any]:
    """A list as that of zones, of streams of another kind, so that every list costs the same."""
    copy = Aggregate[Any, Any](
        f"Copy{number:02}",
        events=ZoneEvent,
        evolve=evolve,
        missing=ZoneNotFoundError,
        belongs=lambda zone: Belonging.nowhere,
    )
    copy.listing = zone_aggregate.listing
    return copy


async def _feed(
    dsn: str, aggregates: list[Aggregate[Any, Any]], kinds: list[str], events: int
) -> tuple[float, float]:
    """Events and rows per second: the projector over new events of these kinds, and COPY of what it wrote."""
    database = await Database.open(dsn)
    store = PostgresEventStore(database)
    before = await store.horizon()
    await execute(dsn, FILL_KINDS, events, kinds)
    await _forget_lists(dsn)
    projector = await _projector(database, store, aggregates, before)
    read = 0
    began = time.perf_counter()
    while some := await projector.catch_up():
        read += some
    took = time.perf_counter() - began
    assert read >= events, (read, events)
    await database.close()
    tables = [name for kind in kinds for name in await list_tables(dsn, snake(kind) + "\\_%")]
    return read / took, await copied(dsn, tables, events)


async def _projector(
    database: Database, store: PostgresEventStore, aggregates: list[Aggregate[Any, Any]], start: Mark
) -> Projector:
    """One that feeds these lists from that place in the log on."""

    async def nothing() -> Any:
        return {}

    bookmarks = PostgresBookmarks(database, aggregates)
    leases, readers = PostgresLeases(database), Readers(nothing)
    projector = Projector(store, bookmarks, leases, readers, now, new_id(), nothing)
    await projector.prepare()
    await database.execute("UPDATE projections SET transaction_id = $1, position = $2", *start)
    await projector.prepare()
    return projector


async def _forget_lists(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("DELETE FROM projections")
    for table in await list_tables(dsn, "%"):
        await connection.execute(f"DROP TABLE IF EXISTS lists.{table}")
    await connection.close()
