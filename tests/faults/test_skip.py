"""Readers skip nothing: not behind late commits, rollbacks or inverted numbers, and a stall is never silent."""

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from beamwright.adapters.postgres.appender import call, locks, result
from beamwright.app import new_id, registry
from beamwright.maintenance import verify_database
from tests.faults.form import record, seeded, sized
from tests.faults.log_checks import settled, wrong
from tests.faults.service import Served, ready, served
from tests.faults.slow_appends import Appender, Committed, Tail, appended
from tests.faults.vitals import address
from tests.live import Cluster, LiveServer

APPENDS = sized(short=1_500, long=100_000)
CONNECTIONS = sized(short=24, long=72)
AT_ONCE = sized(short=(1, 12), long=(1, 14))
LONGEST_PAUSE = 3.0
ROLLBACKS = 0.12


async def hunt(service: Served, dice: random.Random) -> tuple[Committed, Tail, int]:
    """Appends until there are enough, beside a service that reads them all the time."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(service.client())
        await ready(client)
        dsn, committed, tail = address(service), Committed(), Tail(client)
        stop, begun = asyncio.Event(), 0

        async def write() -> None:
            nonlocal begun
            connection = await asyncpg.connect(dsn)
            appender = Appender(connection, committed, random.Random(dice.random()))
            while begun < APPENDS:
                appends = dice.randint(*AT_ONCE)
                begun += appends
                await appender.transact(appends, LONGEST_PAUSE, ROLLBACKS)
            await connection.close()

        following = asyncio.create_task(tail.follow(stop))
        await asyncio.gather(*(write() for _ in range(CONNECTIONS)))
        stop.set()
        await following
        await examine(dsn, committed, tail)
        return committed, tail, begun


async def examine(dsn: str, committed: Committed, tail: Tail) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await settled(connection)
        while await tail.to_the_end():
            pass
        stored = {row[0] for row in await connection.fetch("SELECT event_id FROM events")}
        assert committed.event_ids <= stored and not committed.rolled_back & stored
        check_feed(tail, stored)
        await check_lists(connection, committed)
        assert await wrong(connection) == {}
    finally:
        await connection.close()
    report = await verify_database(dsn, lambda *_: None)
    assert report.clean, report.findings


def check_feed(tail: Tail, stored: set[UUID]) -> None:
    """Each event came once, in the log's order, and each stream's in the order of its versions."""
    assert len(tail.event_ids) == len(set(tail.event_ids)), "the feed delivered an event twice"
    assert set(tail.event_ids) == stored, f"the feed skipped {len(stored - set(tail.event_ids))} events"
    assert tail.marks == sorted(tail.marks)
    for subject, versions in tail.versions.items():
        assert versions == list(range(1, len(versions) + 1)), subject


async def check_lists(connection: asyncpg.Connection, committed: Committed) -> None:
    """Every list has a row for every stream of its kind, at the version that was committed last."""
    serving = await connection.fetch("SELECT name, version FROM projections WHERE serving")
    tables = {row["name"]: f"lists.{row['name']}_{row['version']}" for row in serving}
    assert len(tables) == len(registry().aggregates)
    for aggregate in registry().aggregates.values():
        rows = await connection.fetch(f"SELECT id, version FROM {tables[aggregate.snake]}")
        streams = await connection.fetch(
            "SELECT stream_id, max(version) FROM events WHERE stream_type = $1 GROUP BY 1", aggregate.name
        )
        assert {tuple(row) for row in rows} == {tuple(row) for row in streams}, aggregate.name
        written = {
            id: version for (type, id), version in committed.versions.items() if type == aggregate.name
        }
        assert written.items() <= {tuple(row) for row in rows}, aggregate.name


def test_no_list_and_no_reader_of_the_feed_misses_a_late_commit() -> None:
    seed, dice = seeded()
    print(f"seed={seed}")
    began = time.monotonic()
    with served() as service:
        committed, tail, begun = asyncio.run(hunt(service, dice))
    assert committed.rolled_back
    late = sum(later[1] < earlier[1] for earlier, later in zip(tail.marks, tail.marks[1:], strict=False))
    assert late, "nothing was ever out of order, so nothing was proven"
    record(
        "skip hunt",
        seed=seed,
        connections=CONNECTIONS,
        transactions=committed.transactions,
        appends=begun,
        committed=len(committed.event_ids),
        rolled_back=len(committed.rolled_back),
        streams=len(committed.versions),
        delivered_by_the_feed=len(tail.event_ids),
        positions_out_of_order_in_the_feed=late,
        skipped=0,
        minutes=round((time.monotonic() - began) / 60, 1),
    )


class Reader:
    """What clients of a service see of the log."""

    def __init__(self, server: LiveServer, client: httpx.AsyncClient) -> None:
        self.server = server
        self.client = client
        self.after = ""

    async def go_to_the_end(self) -> None:
        while True:
            page = (
                await self.client.get("/events", params={"limit": 200, "after": self.after or "0.0"})
            ).json()
            self.after = page["next"]
            if not page["items"]:
                return

    async def fed(self) -> list[UUID]:
        """What has become readable in the feed since last time."""
        page = (await self.client.get("/events", params={"limit": 200, "after": self.after})).json()
        self.after = page["next"]
        return [UUID(item["streamid"]) for item in page["items"]]

    async def listed(self, *ids: UUID) -> set[UUID]:
        """Which of these the list of zones shows."""
        found = (await self.client.get("/zones", params={"limit": 200, "sort": "-created_at"})).json()[
            "items"
        ]
        return {UUID(item["id"]) for item in found} & set(ids)

    async def eventually_listed(self, *ids: UUID) -> None:
        for _ in range(200):
            if await self.listed(*ids) == set(ids):
                return
            await asyncio.sleep(0.05)
        raise AssertionError("the list did not catch up")


@asynccontextmanager
async def reading(server: LiveServer) -> AsyncIterator[Reader]:
    headers = {"authorization": f"Bearer {server.token()}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=30) as client:
        reader = Reader(server, client)
        await reader.go_to_the_end()
        yield reader


class Slow:
    """A transaction that stays open until it is told otherwise."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self._transaction = connection.transaction()

    @classmethod
    async def begin(cls, dsn: str, **settings: str) -> "Slow":
        slow = cls(await asyncpg.connect(dsn, server_settings=settings))
        await slow._transaction.start()
        # From here on it has its number.
        await slow.connection.execute("SELECT pg_current_xact_id()")
        return slow

    async def append(self) -> tuple[UUID, int]:
        """The zone that was defined, and its position in the log."""
        id = new_id()
        append = appended(("Zone", id), 1)
        mark = result(append, await call(self.connection, [append], locks(append)), 0)
        return id, mark.position

    async def commit(self) -> None:
        await self._transaction.commit()
        await self.connection.close()

    async def rollback(self) -> None:
        await self._transaction.rollback()
        await self.connection.close()


@pytest.mark.parametrize("position_first", [False, True])
def test_whoever_has_the_first_number_and_commits_last_is_read_first(
    server: LiveServer, position_first: bool
) -> None:
    """With the lower position, and with the higher one: by position alone a reader would lose one or the other."""

    async def check() -> None:
        async with reading(server) as reader:
            first, second = await Slow.begin(server.dsn), await Slow.begin(server.dsn)
            if position_first:
                late, low = await first.append()
                early, high = await second.append()
            else:
                early, low = await second.append()
                late, high = await first.append()
            assert low < high
            await second.commit()
            assert await reader.fed() == [] and await reader.listed(late, early) == set()
            await first.commit()
            await reader.eventually_listed(late, early)
            assert await reader.fed() == [late, early]

    asyncio.run(check())


def test_a_rollback_in_between_hides_nothing(server: LiveServer) -> None:
    async def check() -> None:
        async with reading(server) as reader:
            first, second, third = [await Slow.begin(server.dsn) for _ in range(3)]
            gone, _ = await second.append()
            kept = [(await each.append())[0] for each in (third, first)]
            await third.commit()
            await first.commit()
            # The third is behind the second, which is still open.
            await reader.eventually_listed(kept[1])
            assert await reader.fed() == [kept[1]] and await reader.listed(kept[0]) == set()
            await second.rollback()
            await reader.eventually_listed(*kept)
            assert await reader.fed() == [kept[0]] and await reader.listed(gone) == set()

    asyncio.run(check())


@pytest.fixture(params=["another", "the same"])
def where(request: pytest.FixtureRequest, server: LiveServer, cluster: Cluster) -> str:
    """The database in which somebody forgot to end a transaction."""
    return server.dsn if request.param == "the same" else cluster.admin_dsn


def test_an_idle_transaction_anywhere_in_the_cluster_is_named_while_it_holds_readers_back(
    server: LiveServer, where: str
) -> None:
    async def check() -> None:
        async with reading(server) as reader:
            forgotten = await Slow.begin(where, application_name='forgotten "session"')
            await forgotten.connection.execute("CREATE TEMP TABLE notes AS SELECT 'a secret' AS note")
            pid = forgotten.connection.get_server_pid()
            made = await reader.client.post("/zones", json={"name": uuid4().hex})
            zone = UUID(made.json()["zone_id"])
            await shows_the_stall(reader, pid)
            behind = await reader.client.get("/zones", params={"consistent_with": made.json()["as_of"]})
            assert (behind.status_code, behind.json()["code"]) == (503, "ReadModelBehindError")
            assert await reader.fed() == [] and await reader.listed(zone) == set()
            current = await reader.client.get(made.headers["location"])
            assert current.status_code == 200, "single reads and commands go on"
            await forgotten.rollback()
            await reader.eventually_listed(zone)
            assert await reader.fed() == [zone]
            report = (await reader.client.get("/ready")).json()
            assert report["held_back_by"] is None
            assert "beamwright_readers_held_back 0" in (await reader.client.get("/metrics")).text

    asyncio.run(check())


async def shows_the_stall(reader: Reader, pid: int) -> None:
    """In /ready, in /metrics and on the command line: how far lists are behind, and because of whom."""
    report: dict[str, Any] = (await reader.client.get("/ready")).json()
    zones = next(each for each in report["projections"] if each["name"] == "zone")
    assert zones["behind_events"] == 1 and zones["behind_seconds"] > 0
    holder = report["held_back_by"]
    assert (holder["process"], holder["application"]) == (pid, 'forgotten "session"')
    assert (holder["state"], holder["statement"]) == (
        "idle in transaction",
        "CREATE TEMP TABLE notes AS SELECT",
    )
    assert holder["since"] and "secret" not in str(report)
    figures = (await reader.client.get("/metrics")).text.splitlines()
    assert 'beamwright_projection_behind_events{projection="zone"} 1' in figures
    [held] = [line for line in figures if line.startswith("beamwright_readers_held_back{")]
    assert f'process="{pid}"' in held and 'application="forgotten \\"session\\""' in held
    command = [sys.executable, "-m", "beamwright", "status", "--url", reader.server.url]
    shown = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert f'Readers wait for process {pid} (forgotten "session", database' in shown.stdout, shown


def test_an_open_snapshot_that_writes_nothing_holds_nobody_back(server: LiveServer) -> None:
    async def check() -> None:
        async with reading(server) as reader:
            reporting = await asyncpg.connect(server.dsn)
            async with reporting.transaction(isolation="repeatable_read", readonly=True):
                await reporting.fetchval("SELECT count(*) FROM events")
                made = (await reader.client.post("/zones", json={"name": uuid4().hex})).json()
                await reader.eventually_listed(UUID(made["zone_id"]))
                assert await reader.fed() == [UUID(made["zone_id"])]
            await reporting.close()

    asyncio.run(check())
