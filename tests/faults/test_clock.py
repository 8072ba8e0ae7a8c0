"""The service's clock is set forwards and back by hours: the record stays whole, and nothing waits for the lost time."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx

from beamwright.app import App
from beamwright.contexts.trust.zone import DefineZone
from beamwright.kernel import wellknown
from beamwright.kernel.identifiers import PersistentIdentifierScheme
from beamwright.kernel.observing import Contact, fresh
from beamwright.kernel.outbox import IdentifierRequest, OutboxPurpose
from beamwright.kernel.store import BEGINNING
from beamwright.maintenance import verify_database
from beamwright.runtime.schedules import expire_presences
from beamwright.settings import Settings
from tests.faults.form import record, seeded, sized
from tests.live import Clock, Cluster, LiveServer, serving
from tests.runtime.clearance_bench import ADMINISTRATOR, Bench, Home, on_bench

STEPS = sized(short=6, long=60)
WRITERS = 4
MOST_LISTED = 200
HOURS = timedelta(hours=3)


@asynccontextmanager
async def opened(cluster: Cluster, dsn: str) -> AsyncGenerator[tuple[App, Clock]]:
    clock = Clock()
    app = await App.open(Settings(data=cluster.data), dsn, clock)
    try:
        yield app, clock
    finally:
        await app.close()


class Load:
    """Writers that describe their zones again and again, each call with a token of the moment."""

    def __init__(self, server: LiveServer, client: httpx.AsyncClient) -> None:
        self.server = server
        self.client = client
        self.versions: dict[str, int] = {}
        self.refused = 0
        self._over = asyncio.Event()
        self._tasks = [asyncio.create_task(self._write()) for _ in range(WRITERS)]

    async def _write(self) -> None:
        zone = (await self._post("/zones", {"name": uuid4().hex}))["zone_id"]
        while not self._over.is_set():
            told = await self._post(f"/zones/{zone}/update", {"description": uuid4().hex})
            self.versions[zone] = told["version"]

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        while True:
            headers = {"authorization": f"Bearer {self.server.token()}"}
            answer = await self.client.post(path, json=body, headers=headers)
            if answer.is_success:
                return answer.json()
            # The clock may be set between the minting of a token and its arrival, and only then.
            assert answer.status_code == 401, answer.text
            self.refused += 1

    async def end(self) -> None:
        self._over.set()
        await asyncio.gather(*self._tasks)


def test_a_clock_that_is_set_under_load_leaves_no_trace_but_its_times(cluster: Cluster) -> None:
    seed, dice = seeded()

    async def check(server: LiveServer) -> None:
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
            load = Load(server, client)
            for _ in range(STEPS):
                await asyncio.sleep(dice.uniform(0.1, 0.4))
                server.clock.ahead = timedelta(seconds=dice.uniform(-6, 6) * 3600)
            await load.end()
            server.clock.ahead = timedelta()
            events, backwards = server.run(whole_log)
            assert backwards, f"seed {seed}: no clock was set"
            travelled = await time_travel(server, client, load, dice)
            listed = server.run(lambda app: versions(app, load.versions))
            assert listed == load.versions
        report = await verify_database(server.dsn, lambda *_: None)
        assert not report.findings, report
        record(
            "clock",
            seed=seed,
            steps=STEPS,
            events=events,
            times_that_run_backwards=backwards,
            reads_of_the_past=travelled,
            tokens_refused_as_the_clock_says=load.refused,
        )

    with serving(cluster) as server:
        asyncio.run(check(server))


async def whole_log(app: App) -> tuple[int, int]:
    """Ids are unique, versions have no gap and follow the positions; how many events, and how many go back in time."""
    rows = await app.database.fetch(
        "SELECT event_id, stream_id, version, occurred_at, recorded_at FROM events ORDER BY position"
    )
    assert len({row[0] for row in rows}) == len(rows)
    last: dict[UUID, tuple[int, datetime]] = {}
    backwards = 0
    for _, stream_id, version, occurred_at, _ in rows:
        before, then = last.get(stream_id, (0, occurred_at))
        assert version == before + 1
        backwards += occurred_at < then
        last[stream_id] = (version, occurred_at)
    return len(rows), backwards


async def time_travel(server: LiveServer, client: httpx.AsyncClient, load: Load, dice: random.Random) -> int:
    """As of any time, a zone is what its first events made it, however many, with no hole among them."""
    headers = {"authorization": f"Bearer {server.token()}"}
    asked = 0
    for zone in load.versions:
        history = (
            await client.get(f"/zones/{zone}/events", params={"limit": MOST_LISTED}, headers=headers)
        ).json()
        times = [datetime.fromisoformat(item["occurred_at"]) for item in history["items"]]
        for at in dice.sample(times, min(20, len(times))):
            query = {"as_of": at.isoformat()}
            then = await client.get(f"/zones/{zone}", params=query, headers=headers)
            first_later = next((number for number, each in enumerate(times) if each > at), len(times))
            if first_later == 0:
                assert then.status_code == 404
            elif first_later < len(times) or len(times) < MOST_LISTED:
                assert (then.status_code, then.json()["version"]) == (200, first_later), then.text
            asked += 1
    return asked


async def versions(app: App, wanted: dict[str, int]) -> dict[str, int]:
    await app.readers.caught_up("zone", await app.store.horizon())
    [serving] = await app.database.fetch("SELECT version FROM projections WHERE name = 'zone' AND serving")
    rows = await app.database.fetch(f"SELECT id, version FROM lists.zone_{serving[0]}")
    return {str(row[0]): row[1] for row in rows if str(row[0]) in wanted}


def test_tokens_are_valid_as_the_clock_says(cluster: Cluster) -> None:
    with serving(cluster) as server:

        def told(token: str) -> int:
            headers = {"authorization": f"Bearer {token}"}
            return httpx.get(f"{server.url}/actors/current", headers=headers, timeout=30).status_code

        today = server.token()
        assert told(today) == 200
        server.clock.ahead = HOURS
        assert told(today) == 401, "it has expired"
        later = server.token()
        assert told(later) == 200
        server.clock.ahead = timedelta()
        assert told(later) == 401, "it was issued in the future, though it was believed a moment ago"
        assert told(today) == 200
        server.clock.ahead = -HOURS
        assert told(today) == 401
        assert told(server.token()) == 200


def test_a_lease_of_somebody_who_died_before_the_clock_was_set_back_is_taken_at_once(
    cluster: Cluster, dsn: str
) -> None:
    async def check() -> None:
        async with opened(cluster, dsn) as (app, _):
            gone, ours, other = uuid4(), uuid4(), uuid4()
            assert await app.leases.take("chore", gone, 5)
            await app.database.execute("UPDATE leases SET expires_at = expires_at + interval '3 hours'")
            assert await app.leases.take("chore", ours, 5)
            assert not await app.leases.take("chore", other, 5), "and only once"

    asyncio.run(check())


def test_a_list_that_was_parked_before_the_clock_was_set_back_is_fed(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        async with opened(cluster, dsn) as (app, clock):
            await app.projector.prepare()
            made = (await app.service.call(DefineZone(name=uuid4().hex), ADMINISTRATOR)).body.zone_id
            retry_at = clock() + HOURS
            await app.database.execute("UPDATE projections SET failures = 1, retry_at = $1", retry_at)
            await app.projector.prepare()
            while await app.projector.catch_up():
                pass
            assert await versions(app, {str(made): 1}) == {str(made): 1}

    asyncio.run(check())


def test_what_was_claimed_before_the_clock_was_set_back_is_claimed_again(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        async with opened(cluster, dsn) as (app, clock):
            later = clock() + HOURS
            request = IdentifierRequest(
                request_event_id=uuid4(),
                aggregate="Asset",
                id=uuid4(),
                scheme=PersistentIdentifierScheme.DOI,
                suffix="x",
                purpose=OutboxPurpose.MINT,
                next_attempt_at=later,
                requested_at=later,
            )
            await app.outbox.enqueue([request], BEGINNING)
            assert await app.outbox.claim(later, later + timedelta(minutes=5)) is not None
            claimed = await app.outbox.claim(clock(), clock() + timedelta(minutes=5))
            assert claimed is not None and claimed.attempts == 2
            assert await app.outbox.claim(clock(), clock() + timedelta(minutes=5)) is None

    asyncio.run(check())


def test_a_clearance_is_expired_once_however_often_its_time_comes(cluster: Cluster, dsn: str) -> None:
    async def check(bench: Bench) -> None:
        due = await bench.due(3)
        ahead = bench.clock.ahead
        ended = 0
        for step in (ahead, timedelta(), -HOURS, ahead, 2 * ahead):
            bench.clock.ahead = step
            await bench.listed()
            ended += await bench.expirer().expire_due()
        assert ended == 3
        assert [len(await bench.decided(id)) for id in due] == [1, 1, 1]

    asyncio.run(on_bench(Home(cluster.data, dsn), check))


def test_a_presence_is_closed_once_however_often_its_time_comes(cluster: Cluster) -> None:
    body = {
        "code": "clock-1",
        "title": "Left the light on",
        "type": "User",
        "facility_code": "home",
        "surface_id": str(wellknown.HTTP_SURFACE),
        "members": {str(wellknown.ADMINISTRATOR): "Lead"},
        "planned_start_at": "2026-01-01T00:00:00Z",
        "planned_end_at": "2026-01-02T00:00:00Z",
    }
    with serving(cluster) as server, server.client() as admin:
        path = admin.post("/visits", json=body).headers["location"]
        assert admin.post(f"{path}/record-arrival").status_code == 200
        assert admin.post(f"{path}/presence/open", json={"mode": "Remote"}).status_code == 200
        for days in (2, 0, -2, 2, 4):
            server.clock.ahead = timedelta(days=days)
            server.run(lambda app: expire_presences(app.service))
        server.clock.ahead = timedelta()
        names = Counter(item["command_name"] for item in admin.get(f"{path}/events").json()["items"])
        assert names["expire_visit_presence"] == 1


def test_a_permit_that_was_confirmed_in_the_future_is_not_fresh() -> None:
    """Nobody knows how long ago that was, so nothing starts on it before its source is heard again."""
    now, limit = datetime.now(UTC), timedelta(minutes=1)
    heard = Contact(connected=True, last_contact_at=now)
    assert fresh(heard, now + limit, limit) and fresh(heard, now - limit, limit)
    assert not fresh(heard, now - HOURS, limit) and not fresh(heard, now + HOURS, limit)
