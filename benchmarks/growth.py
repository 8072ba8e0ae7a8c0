"""What happens as the log, a stream and the lists grow: rows are made in SQL, then used through the service."""

import time
from uuid import UUID

import asyncpg
import uvloop

from beamwright.adapters.postgres.database import Database
from beamwright.adapters.postgres.store import PostgresEventStore
from beamwright.adapters.postgres.stream_reader import READ_ONE
from beamwright.app import App, registry
from beamwright.contexts.trust.zone import zones as zone_aggregate
from beamwright.settings import Settings
from benchmarks.installation import Installation
from benchmarks.load import request, send
from benchmarks.table import Figure, difference, milliseconds, rate
from benchmarks.writing import run, transitions, zones

# Zones with their claims, as define_zone writes them.
FILL = """WITH made AS (
        SELECT (overlay(gen_random_uuid()::text placing '7' from 15))::uuid AS id, n FROM generate_series(1, $1) AS n),
    claimed AS (
        INSERT INTO claims SELECT 'zone-name', 'zone ' || replace(id::text, '-', ''), 'Zone', id FROM made)
    INSERT INTO events (event_id, stream_type, stream_id, version, event_type, payload, principal_id, command_name,
        surface_id, correlation_id, occurred_at)
    SELECT gen_random_uuid(), 'Zone', id, 1, 'ZoneDefined',
        json_build_object('occurred_at', to_char(now(), 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'zone_id', id,
            'name', 'zone ' || replace(id::text, '-', ''), 'description', null),
        '01900000-0000-7000-8000-00a000000102', 'define_zone', '01900000-0000-7000-8000-00a000000301', 'fill',
        now() - make_interval(secs => n * 0.001) FROM made"""

LENGTHEN = """INSERT INTO events (event_id, stream_type, stream_id, version, event_type, payload, principal_id,
        command_name, surface_id, correlation_id, occurred_at)
    SELECT gen_random_uuid(), 'Zone', $1, n, 'ZoneUpdated',
        json_build_object('occurred_at', to_char(now(), 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'zone_id', $1::uuid,
            'name', $2::text, 'description', 'change ' || n),
        '01900000-0000-7000-8000-00a000000102', 'update_zone', '01900000-0000-7000-8000-00a000000301', 'fill', now()
    FROM generate_series(2, $3) AS n"""


async def execute(dsn: str, query: str, *arguments: object) -> None:
    connection = await asyncpg.connect(dsn, command_timeout=600)
    await connection.execute(query, *arguments)
    await connection.execute("ANALYZE events")
    await connection.close()


def fill(place: Installation, rows: int) -> None:
    uvloop.run(execute(place.dsn, FILL, rows))


def log_size(place: Installation, sizes: tuple[int, ...]) -> list[Figure]:
    """The same command with ever more events behind it."""
    figures: list[Figure] = []
    first = 0.0
    have = 100
    for size in sizes:
        if size > have:
            fill(place, size - have)
            have = size
        with place.serving():
            ids = zones(place, 50)
            run(place, 1, transitions(place.token, ids, 200), 200)
            p50 = run(place, 1, transitions(place.token, ids, 600), 200).p50
        first = first or p50
        figures.append(
            Figure(
                f"transition p50, {size:,} events in the log",
                milliseconds(p50),
                f"at {sizes[0]:,}: {milliseconds(first)}",
                f"{p50 / first:.2f}",
                "flat",
                p50 / first < 1.5,
            )
        )
    return figures


async def _bare_read(dsn: str, id: UUID, times: int) -> float:
    """Reading the same rows with asyncpg and nothing else: seconds per read."""
    connection = await asyncpg.connect(dsn)
    statement = await connection.prepare(
        "SELECT event_type, payload FROM events WHERE stream_type = 'Zone' AND stream_id = $1 ORDER BY version"
    )
    await statement.fetch(id)
    began = time.perf_counter()
    for _ in range(times):
        await statement.fetch(id)
    took = (time.perf_counter() - began) / times
    await connection.close()
    return took


async def _replay(dsn: str, id: UUID, times: int) -> float:
    database = await Database.open(dsn)
    store = PostgresEventStore(database)

    async def once() -> None:
        stream = (await store.read([("Zone", id)]))["Zone", id]
        assert zone_aggregate.fold(zone_aggregate.stream_decoder.decode(stream.events)) is not None

    await once()
    began = time.perf_counter()
    for _ in range(times):
        await once()
    took = (time.perf_counter() - began) / times
    await database.close()
    return took


def stream_length(place: Installation, lengths: tuple[int, ...]) -> list[Figure]:
    figures: list[Figure] = []
    for length in lengths:
        with place.serving():
            [id] = zones(place, 1)
            with place.client() as client:
                name = client.get(f"/zones/{id}").json()["name"]
            uvloop.run(execute(place.dsn, LENGTHEN, UUID(id), name, length))
            count = 200 if length <= 1000 else 60
            p50 = run(place, 1, transitions(place.token, [id], count), 200).p50
        repeat = max(3, 30_000 // length)
        bare = uvloop.run(_bare_read(place.dsn, UUID(id), repeat))
        replay = uvloop.run(_replay(place.dsn, UUID(id), repeat))
        long = length == lengths[-1]
        figures.append(
            Figure(
                f"command on a stream of {length:,} events, p50",
                milliseconds(p50),
                aim="100 ms" if long else "-",
                met=p50 < 0.1 if long else None,
            )
        )
        figures.append(
            Figure(
                f"replay of {length:,} events",
                rate(length / replay),
                f"bare read {rate(length / bare)}",
                f"{bare / replay:.0%}",
                ">= 60 %, >= 100,000/s" if long else "-",
                bare / replay >= 0.6 and length / replay >= 100_000 if long else None,
            )
        )
    return figures


async def catch_up(place: Installation) -> tuple[float, int]:
    app = await App.open(Settings(data=place.directory), place.dsn)
    await app.projector.prepare()
    events = 0
    began = time.perf_counter()
    while read := await app.projector.catch_up():
        events += read
    took = time.perf_counter() - began
    await app.close()
    return took, events


async def copied(dsn: str, tables: list[str], rows: int) -> float:
    """COPY of so many of their rows into empty tables of the same columns and indexes: rows per second."""
    connection = await asyncpg.connect(dsn, command_timeout=600)
    count, took = 0, 0.0
    for name in tables:
        await connection.execute(f"CREATE TABLE copied (LIKE lists.{name} INCLUDING ALL)")
        columns = [
            row[0]
            for row in await connection.fetch(
                "SELECT attname FROM pg_attribute WHERE attrelid = 'copied'::regclass AND attnum > 0 AND attname <> 'words'"
            )
        ]
        found = await connection.fetch(f"SELECT {', '.join(columns)} FROM lists.{name} LIMIT {rows}")
        records = [tuple(row) for row in found]
        began = time.perf_counter()
        await connection.copy_records_to_table("copied", records=records, columns=columns)
        took += time.perf_counter() - began
        count += len(records)
        await connection.execute("DROP TABLE copied")
    await connection.close()
    return count / took


def projection(place: Installation, rows: int) -> list[Figure]:
    fill(place, rows)
    took, events = uvloop.run(catch_up(place))
    by_copy = uvloop.run(copied(place.dsn, uvloop.run(list_tables(place.dsn)), rows))
    got = events / took
    return [
        Figure(
            f"projection catch-up over {events:,} events, all {len(registry().aggregates)} lists",
            rate(got),
            f"COPY {rate(by_copy)}",
            f"{got / by_copy:.0%}",
            ">= 20,000/s",
            got >= 20_000,
        )
    ]


async def bare_query(dsn: str, query: str, arguments: list[tuple[object, ...]]) -> tuple[float, float, float]:
    connection = await asyncpg.connect(dsn)
    statement = await connection.prepare(query)
    times: list[float] = []
    began = time.perf_counter()
    for each in arguments:
        start = time.perf_counter()
        await statement.fetch(*each)
        times.append(time.perf_counter() - start)
    took = time.perf_counter() - began
    await connection.close()
    times.sort()
    return len(times) / took, times[len(times) // 2], times[int(len(times) * 0.99)]


async def _some_ids(dsn: str, count: int) -> list[UUID]:
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch(
        "SELECT stream_id FROM events TABLESAMPLE SYSTEM (1) WHERE stream_type = 'Zone' LIMIT $1", count
    )
    [name] = [
        row[0]
        for row in await connection.fetch("SELECT tablename FROM pg_tables WHERE tablename LIKE 'zone\\_%'")
    ]
    await connection.execute(f"ANALYZE lists.{name}")
    await connection.close()
    return [row[0] for row in rows]


def reading(place: Installation, rows: int) -> list[Figure]:
    """By id and by page, with as many zones in the list as `rows`."""
    with place.serving():
        ids = uvloop.run(_some_ids(place.dsn, 2000))
        gets = [request("GET", f"/zones/{id}", place.token) for id in ids]
        one = uvloop.run(send(place.port, 1, lambda: iter(gets)))
        many = uvloop.run(send(place.port, 32, lambda: iter(gets * 3)))
        bare = uvloop.run(bare_query(place.dsn, READ_ONE, [("Zone", id) for id in ids]))
        pages = [request("GET", "/zones?limit=50", place.token)] * 400
        listed = uvloop.run(send(place.port, 1, lambda: iter(pages)))
        [name] = uvloop.run(list_tables(place.dsn))
        query = f"SELECT id, version, state, created_at, updated_at, created_by FROM lists.{name} ORDER BY created_at DESC, id DESC LIMIT 51"
        bare_page = uvloop.run(bare_query(place.dsn, query, [()] * 400))
    return [
        Figure(
            f"read by id, {rows:,} rows, 32 clients",
            rate(many.per_second),
            aim=">= 1,500/s",
            met=many.per_second >= 1500,
        ),
        Figure(
            f"read by id p99, {rows:,} rows, 1 client",
            milliseconds(one.p99),
            f"same SQL {milliseconds(bare[2])}",
            difference(one.p99 - bare[2]),
            "+3 ms",
            one.p99 - bare[2] <= 0.003,
        ),
        Figure(
            f"page of 50, {rows:,} rows, 1 client", rate(listed.per_second), f"same SQL {rate(bare_page[0])}"
        ),
        Figure(
            f"page of 50 p99, {rows:,} rows, 1 client",
            milliseconds(listed.p99),
            f"same SQL {milliseconds(bare_page[2])}",
            difference(listed.p99 - bare_page[2]),
            "+3 ms",
            listed.p99 - bare_page[2] <= 0.003,
        ),
    ]


async def list_tables(dsn: str, like: str = "zone\\_%") -> list[str]:
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'lists' AND tablename LIKE $1", like
    )
    await connection.close()
    return [row[0] for row in rows]
