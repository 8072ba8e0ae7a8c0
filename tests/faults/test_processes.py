"""Two and four serving processes and separate workers on one database: what holds in one process holds in all."""

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from beamwright.adapters.postgres.appender import EPOCH_LOCK
from beamwright.adapters.postgres.database import Use
from beamwright.app import App
from beamwright.contexts.access.actor import RegisterActor
from beamwright.contexts.trust.zone import DefineZone
from beamwright.kernel.errors import DatabaseUnavailableError
from beamwright.kernel.seams import OvertakenError
from beamwright.kernel.store import Mark, Stored
from beamwright.runtime.projector import LEASE_SECONDS
from beamwright.settings import Settings
from tests.faults.fleet import Fleet, Worker, all_ready, fleet, until
from tests.faults.form import record, seeded, sized
from tests.live import Clock, Cluster, LiveServer
from tests.runtime.clearance_bench import ADMINISTRATOR, Bench

SIZES = sized(short=[2], long=[2, 4])
KEYS = sized(short=12, long=100)
REVOCATIONS = sized(short=2, long=6)
HANDOVERS = sized(short=2, long=5)
OBSERVER_HANDOVERS = sized(short=0, long=1)
OBSERVER_TERM = 20.0
WRITERS = 4
# What is documented, and what a crowded machine may add to it.
READS_FOLLOW = 0.25 + 5.0
QUICK = {"CLEARANCE_EXPIRER_TICK": "PT1S", "ENCLOSURE_HEARTBEAT": "PT1S", "ENCLOSURE_STALE_AFTER": "PT60S"}
EXPIRER_TERM = 2.0
CROWDED = 20.0


@asynccontextmanager
async def reached(processes: Fleet, token: str | None = None) -> AsyncGenerator[list[httpx.AsyncClient]]:
    clients = processes.clients(token)
    async with AsyncExitStack() as open_clients:
        for client in clients:
            await open_clients.enter_async_context(client)
        await all_ready(clients)
        yield clients


async def insist(client: httpx.AsyncClient, path: str, body: dict[str, Any], key: str) -> httpx.Response:
    """Repeated with its key while the first call is under way somewhere."""
    while True:
        answer = await client.post(path, json=body, headers={"idempotency-key": key})
        if answer.status_code != 409 or "retry-after" not in answer.headers:
            return answer
        await asyncio.sleep(0.01)


async def same_key_everywhere(processes: Fleet, clients: Sequence[httpx.AsyncClient], rounds: int) -> int:
    """Calls made; each round is one key, sent to every process twice at once."""
    for _ in range(rounds):
        name = uuid4().hex
        calls = [insist(client, "/zones", {"name": name}, name) for client in [*clients, *clients]]
        answers = await asyncio.gather(*calls)
        assert {each.status_code for each in answers} == {201}, [each.text for each in answers]
        assert len({each.content for each in answers}) == 1
        first = [each for each in answers if "idempotency-replayed" not in each.headers]
        assert len(first) == 1
        [row] = await processes.rows(
            "SELECT count(*) FROM events WHERE event_type = 'ZoneDefined' AND payload::text LIKE $1",
            f"%{name}%",
        )
        assert row[0] == 1
    return rounds * 2 * len(clients)


@pytest.mark.parametrize("servers", SIZES)
def test_what_holds_in_one_process_holds_in_all(cluster: Cluster, servers: int) -> None:
    seed, dice = seeded()
    figures: dict[str, Any] = {}

    async def check(processes: Fleet) -> None:
        async with reached(processes) as clients:
            figures["calls_with_shared_keys"] = await same_key_everywhere(processes, clients, KEYS)
            figures["slowest_read_to_follow_s"] = await revocations(processes, clients, dice)
            await expiries_happen_once(cluster.data, processes.dsn)
            figures["observer_handovers"] = await one_observes(processes, clients[0])
            handed = await handovers(processes, clients, dice)
            figures.update(handed)

    with fleet(cluster.data, cluster.database(), servers=servers, workers=2, environment=QUICK) as processes:
        asyncio.run(check(processes))
        assert [worker.end() for worker in processes.workers if worker.process.returncode is None] == [0]
        verified = processes.verify()
        assert verified.returncode == 0, f"seed {seed}: {verified.stdout}{verified.stderr}"
        for worker in processes.workers:
            levels = Counter(line["level"] for line in worker.lines())
            assert not levels["error"], worker.log.read_text()
    record(f"processes {servers}", seed=seed, serving=servers, workers=2, **figures)


async def revocations(processes: Fleet, clients: Sequence[httpx.AsyncClient], dice: random.Random) -> float:
    """A right is taken away in one process: no other records on it, and none reads on it after the poll."""
    slowest = 0.0
    for number in range(REVOCATIONS):
        actor, policy, grant, token = await empowered(processes, dice.choice(clients))
        async with reached(processes, token) as theirs:
            for client in theirs:
                await until(lambda client=client: answers(client, 200), READS_FOLLOW, "a grant is not seen")
                assert (await client.post("/zones", json={"name": uuid4().hex})).status_code == 201
            if number % 2:
                taken = await clients[0].post(f"/actors/{actor}/deactivate", json={"reason": "Departed"})
            else:
                body = {"grant_id": grant, "reason": "no longer"}
                taken = await clients[0].post(f"/policies/{policy}/grants/revoke", json=body)
            assert taken.status_code == 200, taken.text
            # A command makes its process look; where none is sent, only the poll does.
            for client in theirs[::2]:
                assert (await client.post("/zones", json={"name": uuid4().hex})).status_code == 403
            for client in theirs:
                took = await until(lambda client=client: answers(client, 403), READS_FOLLOW, "a read goes on")
                slowest = max(slowest, took)
                assert (await client.post("/zones", json={"name": uuid4().hex})).status_code == 403
    return round(slowest, 3)


async def empowered(processes: Fleet, admin: httpx.AsyncClient) -> tuple[str, str, str, str]:
    """A person who may define and list zones: actor, policy, grant and token."""
    subject = uuid4().hex
    login = {"issuer": "urn:beamwright:local", "subject": subject}
    made = await admin.post("/actors", json={"name": "Ann", "identities": [login]})
    actor = made.json()["actor_id"]
    grant = {"effect": "Allow", "operations": ["define_zone", "list_zones"], "scope": {"kind": "Everything"}}
    body = {"name": uuid4().hex, "principals": {"actor_ids": [actor]}, "grants": [grant]}
    policy = await admin.post("/policies", json=body)
    assert policy.status_code == 201, policy.text
    whole = (await admin.get(policy.headers["location"])).json()
    server = LiveServer(Settings(data=Path(processes.directory)), processes.dsn)
    return actor, policy.json()["policy_id"], next(iter(whole["grants"])), server.token(subject)


async def answers(client: httpx.AsyncClient, status: int) -> bool:
    return (await client.get("/zones", params={"limit": 1})).status_code == status


async def expiries_happen_once(data: Path, dsn: str) -> None:
    """Two workers tick every second; each clearance is ended by one decision."""
    app = await App.open(Settings(data=data), dsn)
    bench = Bench(app, Clock())
    try:
        asset_id = await bench.asset()
        until_then = datetime.now(UTC) + timedelta(seconds=2)
        due = [await bench.active(asset_id, until_then) for _ in range(5)]

        async def ended() -> bool:
            return all([(await bench.state(id)).status == "Expired" for id in due])

        await until(ended, CROWDED, "nobody ends what is due")
        for id in due:
            assert len(await bench.decided(id)) == 1
    finally:
        await app.close()


class Interlock:
    """A permit source on loopback."""

    def __init__(self) -> None:
        self.value = 1

    async def __aenter__(self) -> "Interlock":
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = str(self.value).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()


async def one_observes(processes: Fleet, client: httpx.AsyncClient) -> int:
    """Two workers, one observer; one that sleeps through the end of its lease says nothing when it wakes."""
    async with Interlock() as interlock:
        source = {"source_kind": "http", "source_id": interlock.url}
        body = {"name": uuid4().hex, "facility_code": "home", "permit_source": source}
        path = (await client.post("/enclosures", json=body)).headers["location"]
        told = ["Permitted"]
        agrees = partial(observed, client, path, told)
        await until(agrees, CROWDED, "nobody observes")
        for _ in range(OBSERVER_HANDOVERS):
            holder = await processes.holding("enclosure-observer")
            holder.pause()
            interlock.value = 1 - interlock.value
            told += ["Unknown", "NotPermitted" if interlock.value == 0 else "Permitted"]
            await until(agrees, OBSERVER_TERM + CROWDED, "nobody else observes")
            holder.resume()
            await asyncio.sleep(2.0)
            assert await agrees(), "the one that slept has spoken"
        return OBSERVER_HANDOVERS


async def observed(client: httpx.AsyncClient, path: str, told: Sequence[str]) -> bool:
    """Whether exactly this is what the log tells of the permit; `told` so far must always be its beginning."""
    items = (await client.get(f"{path}/events", params={"limit": 200})).json()["items"]
    permits = [
        item["payload"]["to_status"] for item in items if item["event_type"] == "EnclosurePermitObserved"
    ]
    assert permits == list(told[: len(permits)]), permits
    return len(permits) == len(told)


class Load:
    """Writers on every process; what was acknowledged must be listed once, at its version."""

    def __init__(self, clients: Sequence[httpx.AsyncClient]) -> None:
        self.clients = clients
        self.versions: dict[str, int] = {}
        self.newest = ""
        self._over = asyncio.Event()
        self._tasks = [asyncio.create_task(self._write(number)) for number in range(WRITERS)]

    async def _write(self, number: int) -> None:
        client = self.clients[number % len(self.clients)]
        while not self._over.is_set():
            made = await client.post("/zones", json={"name": uuid4().hex})
            assert made.status_code == 201, made.text
            zone = made.json()["zone_id"]
            self.versions[zone] = 1
            body = {"description": uuid4().hex}
            changed = await client.post(f"/zones/{zone}/update", json=body)
            assert changed.status_code == 200, changed.text
            self.versions[zone] = changed.json()["version"]

    async def end(self) -> None:
        self._over.set()
        await asyncio.gather(*self._tasks)
        last = await self.clients[0].post("/zones", json={"name": uuid4().hex})
        self.versions[last.json()["zone_id"]] = 1
        self.newest = last.json()["as_of"]

    async def check_listed(self, client: httpx.AsyncClient) -> None:
        listed: list[tuple[str, int]] = []
        query: dict[str, Any] = {"limit": 200, "consistent_with": self.newest}
        while True:
            page = (await client.get("/zones", params=query)).json()
            listed += [(item["id"], item["version"]) for item in page["items"]]
            if page["next_cursor"] is None:
                break
            query["cursor"] = page["next_cursor"]
        assert len({id for id, _ in listed}) == len(listed), "a row is listed twice"
        ours = {id: version for id, version in listed if id in self.versions}
        assert ours == self.versions


async def handovers(
    processes: Fleet, clients: Sequence[httpx.AsyncClient], dice: random.Random
) -> dict[str, Any]:
    """The holder of the projector's lease is stopped or killed under load, and another takes its place."""
    load, slowest, marks = Load(clients), 0.0, Watch(processes)
    for number in range(HANDOVERS):
        holder = await processes.holding("projector")
        await asyncio.sleep(dice.uniform(0.2, 1.0))
        final = number == HANDOVERS - 1
        began = time.monotonic()
        holder.kill() if final else holder.pause()
        await processes.holding("projector", LEASE_SECONDS + CROWDED, other_than=str(holder.holder))
        slowest = max(slowest, time.monotonic() - began)
        if not final:
            await asyncio.sleep(dice.uniform(0.2, 1.0))
            holder.resume()
            await asyncio.sleep(0.5)
        leases = await processes.leases()
        assert leases["projector"][1] and leases["projector"][0] != str(holder.holder)
    survivor = next(worker for worker in processes.workers if worker.process.poll() is None)
    await processes.holding("ClearanceExpirer", EXPIRER_TERM + CROWDED, other_than=str(holder.holder))
    await load.end()
    for client in clients:
        await load.check_listed(client)
    await marks.end()
    known = {line["event"] for line in survivor.lines()}
    parked = await processes.rows("SELECT name, last_error FROM projections WHERE failures > 0")
    assert not parked and "projection_parked" not in known, [dict(row) for row in parked]
    return {
        "handovers": HANDOVERS,
        "slowest_handover_s": round(slowest, 1),
        "rows_checked": len(load.versions),
        "bookmarks_looked_at": marks.looked,
    }


class Watch:
    """Looks at the bookmark of a list all the time: it never goes back."""

    def __init__(self, processes: Fleet) -> None:
        self.looked = 0
        self._processes = processes
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        connection, last = await asyncpg.connect(self._processes.dsn), (0, 0)
        while not self._over.is_set():
            row = await connection.fetchrow(
                "SELECT transaction_id, position FROM projections WHERE name = 'zone' AND serving"
            )
            assert tuple(row) >= last, "a bookmark went back"
            last = tuple(row)
            self.looked += 1
            await asyncio.sleep(0.01)
        await connection.close()

    async def end(self) -> None:
        self._over.set()
        await self._task


def test_a_projector_that_slept_through_its_lease_writes_nothing(cluster: Cluster, dsn: str) -> None:
    """It has read a batch when it falls asleep; when it wakes, the batch and more are in the lists already."""

    async def check() -> None:
        sleepy, other = [await App.open(Settings(data=cluster.data), dsn) for _ in range(2)]
        try:
            made = [await define(other) for _ in range(150)]
            await sleepy.projector.prepare()
            asleep, read_log = asyncio.Event(), sleepy.store.read_log
            awake = asyncio.Event()

            async def drowsy(*arguments: Any) -> Sequence[Stored]:
                events = await read_log(*arguments)
                asleep.set()
                await awake.wait()
                return events

            sleepy.store.read_log = drowsy
            sleeping = asyncio.create_task(sleepy.projector.catch_up())
            await asleep.wait()
            await other.projector.prepare()
            await drained(other)
            made.append(await define(other))
            await drained(other)
            before = await marks(other)
            awake.set()
            with pytest.raises(OvertakenError):
                await sleeping
            assert await marks(other) == before
            sleepy.store.read_log = read_log
            await sleepy.projector.prepare()
            await drained(sleepy)
            assert await listed(other) == Counter(made)
        finally:
            await other.close()
            await sleepy.close()

    asyncio.run(check())


async def define(app: App) -> UUID:
    return (await app.service.call(DefineZone(name=uuid4().hex), ADMINISTRATOR)).body.zone_id


async def drained(app: App) -> None:
    while await app.projector.catch_up():
        pass


async def marks(app: App) -> dict[str, Mark]:
    bookmarks = await app.bookmarks.all()
    assert not [each.last_error for each in bookmarks if each.failures]
    return {each.name: each.mark for each in bookmarks}


async def listed(app: App) -> Counter[UUID]:
    [table] = await app.database.fetch("SELECT version FROM projections WHERE name = 'zone' AND serving")
    rows = await app.database.fetch(
        f"SELECT id FROM lists.zone_{table[0]} WHERE words_text ~ '^[0-9a-f]{{32}}'"
    )
    return Counter(row[0] for row in rows)


def test_a_process_stopped_in_the_middle_of_a_transaction_does_not_hold_up_the_others(
    cluster: Cluster, dsn: str
) -> None:
    """A change of authority takes a lock that every command needs; its process never gets to the commit."""

    async def check() -> None:
        stopped, other = [await App.open(Settings(data=cluster.data), dsn) for _ in range(2)]
        try:
            recorded: list[UUID] = []
            with pytest.raises(DatabaseUnavailableError):
                async with stopped.database.connection(Use.PROFILES) as connection:
                    await connection.execute("BEGIN")
                    await connection.execute("SELECT pg_advisory_xact_lock($1)", EPOCH_LOCK)
                    recorded.append(await define(other))
                    await connection.execute("COMMIT")
            assert recorded, "the other waited in vain"
        finally:
            await other.close()
            await stopped.close()

    asyncio.run(check())


def test_after_an_outage_a_process_follows_the_authority_at_its_pace(cluster: Cluster, dsn: str) -> None:
    """What was revoked meanwhile counts at once, however long the database was away."""

    async def check() -> None:
        settings = Settings(data=cluster.data, authority_poll_seconds=0.05)
        follower, other = [await App.open(settings, dsn) for _ in range(2)]
        authority_epoch, asked = follower.store.authority_epoch, 0

        async def away() -> int:
            nonlocal asked
            asked += 1
            if asked < 10:
                raise DatabaseUnavailableError("away")
            return await authority_epoch()

        follower.store.authority_epoch = away
        try:
            follower.start_following()
            await other.service.call(RegisterActor(name="Ann"), ADMINISTRATOR)
            epoch = await other.store.authority_epoch()

            async def followed() -> bool:
                return follower.authority.current.epoch == epoch

            await until(followed, READS_FOLLOW, "it still waits")
        finally:
            await other.close()
            await follower.close()

    asyncio.run(check())


def test_ready_says_that_no_worker_feeds_the_lists(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        app = await App.open(Settings(data=cluster.data, separate_worker=True), dsn)
        try:
            assert await app.leases.take("projector", app.holder, LEASE_SECONDS)
            report = await app.health.report()
            assert report.ready and [each.working for each in report.workers if each.name == "projector"] == [
                True
            ]
            await app.database.execute(
                "UPDATE leases SET expires_at = clock_timestamp() - interval '1 minute'"
            )
            report = await app.health.report()
            assert not report.ready
            [reason] = report.reasons
            # On a busy machine some of the second minute has passed.
            assert re.fullmatch(
                r"no worker has fed the lists for [67]\d s; start `beamwright worker`", reason
            )
            assert re.search(
                rb'beamwright_worker_idle_seconds\{worker="projector"\} [67]', await app.health.metrics()
            )
        finally:
            await app.close()

    asyncio.run(check())


def test_a_worker_that_is_told_to_stop_lets_go_of_everything_at_once(cluster: Cluster, dsn: str) -> None:
    async def check(processes: Fleet) -> None:
        [worker] = processes.workers
        await processes.holding("upkeep", 60)
        assert worker.end() == 0
        assert {held for _, held in (await processes.leases()).values()} == {False}
        assert worker.lines()[-1]["event"] == "stopped"

    with fleet(cluster.data, dsn, servers=0, workers=1) as processes:
        asyncio.run(check(processes))


def test_a_worker_without_a_database_says_so(tmp_path: Path) -> None:
    worker = Worker(str(tmp_path), {})
    assert worker.process.wait(30) == 2
    assert worker.log.read_text() == f"No service runs on {tmp_path}. Start it, or give DATABASE_URL.\n"
