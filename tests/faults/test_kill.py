"""The service and its database are killed under load: nothing acknowledged is lost, nothing is written twice."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx
import pytest

from beamwright.adapters.postgres.appender import text_lock
from beamwright.kernel.store import IdempotencyKey, StoredAnswer
from beamwright.maintenance import read_models, verify_database
from tests.faults.form import record, seeded, sized
from tests.faults.kill_load import Ledger, Sent, Writer, repeated, scripts
from tests.faults.log_checks import lists, settled, standing, wrong
from tests.faults.service import Served, ready, served
from tests.faults.vitals import address
from tests.live import LiveServer

KILLS = sized(short=6, long=210)
ACKNOWLEDGED = sized(short=200, long=40_000)
WRITERS = sized(short=8, long=32)
# Seconds until the next kill. A list is fed again only when the lease of whoever was killed has run out.
PAUSES = sized(short=((0.2, 0.8),), long=((0.0, 0.5), (0.0, 0.5), (0.5, 2.0), (3.0, 6.0)))
LONGEST = sized(short=300.0, long=5400.0)
MOST_REPEATED = sized(short=100, long=2_000)
# Kills of the service, of its database, of both, of one backend (upon which PostgreSQL restarts itself); and of the
# service or the database while the service is starting.
MANNERS = ("service", "database", "both", "backend", "starting service", "starting database")
WEIGHTS = (40, 20, 12, 8, 12, 8)


class Killer:
    """Kills at random, and brings up again what does not come up by itself."""

    def __init__(self, service: Served, dice: random.Random) -> None:
        self._service = service
        self._dice = dice
        self._killed = False
        self.kills: Counter[str] = Counter()
        # A service whose database dies while it starts ends, and says why.
        self.given_up = 0

    async def run(self, client: httpx.AsyncClient, ledger: Ledger) -> None:
        """Until there were enough of everything."""
        deadline, manners = time.monotonic() + LONGEST, list(MANNERS)
        while not self._enough(ledger):
            await self._share(ledger)
            await asyncio.sleep(self._dice.uniform(*self._dice.choice(PAUSES)))
            # Each of them at least once, then as it falls.
            manner = manners.pop(0) if manners else self._dice.choices(MANNERS, WEIGHTS)[0]
            await self.kill(manner)
            await self.revived(client)
            assert time.monotonic() < deadline, (self.kills, len(ledger.acknowledged))

    def _enough(self, ledger: Ledger) -> bool:
        kills, acknowledged = sum(self.kills.values()), len(ledger.acknowledged)
        return kills >= KILLS and acknowledged >= ACKNOWLEDGED and ledger.proves_something

    async def _share(self, ledger: Ledger) -> None:
        """On a busy machine a start takes longer than a pause, so every kill has its share of commands before it."""
        share = ACKNOWLEDGED * min(sum(self.kills.values()) / KILLS, 1.0)
        for _ in range(150):
            if len(ledger.acknowledged) >= share:
                return
            await asyncio.sleep(0.1)

    async def kill(self, manner: str) -> None:
        match manner:
            case "service":
                self._kill_service()
            case "database":
                self._kill_database()
            case "both":
                self._kill_database()
                self._kill_service()
            case "backend":
                self._kill_backend()
            case _:
                self._kill_service()
                self._start()
                await asyncio.sleep(self._dice.uniform(0.0, 2.0))
                if manner == "starting service":
                    self._kill_service()
                else:
                    self._kill_database()

    async def revived(self, client: httpx.AsyncClient) -> None:
        """The database comes back by itself, and so does a backend; a service is started again by its supervisor."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self._service.process.poll() is not None:
                self._start()
            with suppress(AssertionError):
                await ready(client, within=2)
                return
        raise AssertionError("the service did not come back")

    def _start(self) -> None:
        self.given_up += not self._killed
        self._killed = False
        self._service.start()

    def _kill_service(self) -> None:
        if self._service.process.poll() is None:
            self._service.kill()
            self.kills["service"] += 1
            self._killed = True

    def _kill_database(self) -> None:
        self._kill_process(self._postmaster(), "database")

    def _kill_backend(self) -> None:
        """A process that works for the service, in the midst of whatever it does."""
        postmaster = self._postmaster()
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children")
        with suppress(FileNotFoundError):
            backends = [pid for pid in map(int, children.read_text().split()) if b"postgres " in _title(pid)]
            self._kill_process(self._dice.choice(backends) if backends else None, "backend")

    def _kill_process(self, pid: int | None, what: str) -> None:
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.kills[what] += 1

    def _postmaster(self) -> int | None:
        """Only if it is one: the number of a dead server may belong to a stranger by now."""
        try:
            pid = self._service.postmaster
        except (FileNotFoundError, IndexError, ValueError):
            return None
        return pid if f"-D {self._service.directory}".encode() in _title(pid).replace(b"\0", b" ") else None


def _title(pid: int) -> bytes:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


async def scenario(service: Served, dice: random.Random, ledger: Ledger) -> Counter[str]:
    """The load, the kills, and then the audit; how much of everything there was."""
    async with AsyncExitStack() as stack:
        token = service.token()
        clients = [await stack.enter_async_context(service.client(token)) for _ in range(4)]
        await ready(clients[0])
        killer = Killer(service, dice)
        await outlive(killer, service, clients[0])
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as writers:
            for script in scripts(WRITERS):
                writer = Writer(ledger, clients, stop, random.Random(dice.random()))
                writers.create_task(repeated(script, writer))
            await killer.run(clients[0], ledger)
            stop.set()
        figures = killer.kills + Counter(given_up=killer.given_up)
        figures["replayed_again"] = await repeat(clients[1], ledger, dice)
        figures += await audit(address(service), ledger)
    return figures


async def outlive(killer: Killer, service: Served, client: httpx.AsyncClient) -> None:
    """A command that is under way in the database when its service is killed, and still is when it is sent again."""
    name = uuid4().hex
    headers, body = {"idempotency-key": f"o-{name}", "x-correlation-id": f"o-{name}"}, {"name": name}
    connection = await asyncpg.connect(address(service))
    lock = text_lock(f"zone-name\x00{name}")
    await connection.execute("SELECT pg_advisory_lock($1)", lock)
    first = asyncio.create_task(client.post("/zones", json=body, headers=headers))
    await waiting(connection, 1)
    await killer.kill("service")
    with pytest.raises(httpx.TransportError):
        await first
    await killer.revived(client)
    second = asyncio.create_task(client.post("/zones", json=body, headers=headers))
    await waiting(connection, 2)
    await connection.execute("SELECT pg_advisory_unlock($1)", lock)
    answer = await second
    assert (answer.status_code, answer.headers.get("idempotency-replayed")) == (201, "true"), answer.text
    ids = await connection.fetch("SELECT stream_id FROM events WHERE correlation_id = $1", f"o-{name}")
    assert [str(row[0]) for row in ids] == [answer.json()["zone_id"]]
    await connection.close()


async def waiting(connection: asyncpg.Connection, number: int) -> None:
    """Until so many backends wait for an advisory lock."""
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    for _ in range(600):
        if await connection.fetchval(query) == number:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{number} calls were to wait")


async def repeat(client: httpx.AsyncClient, ledger: Ledger, dice: random.Random) -> int:
    """Whoever lost an answer, and some who did not, ask once more: they get the one true result, to the byte."""
    everything = [*ledger.acknowledged.values(), *ledger.refused.values()]
    lost = [sent for sent in everything if sent.lost]
    some = dice.sample(lost, min(len(lost), MOST_REPEATED))
    some += dice.sample(everything, min(len(everything), MOST_REPEATED // 4))
    chosen = list({sent.key: sent for sent in some}.values())

    async def again(sent: Sent) -> None:
        headers = {"idempotency-key": sent.key, "x-correlation-id": sent.key}
        answer = await client.post(sent.path, json=sent.body, headers=headers)
        assert (answer.status_code, answer.text) == (sent.status, sent.text), sent
        assert answer.headers["idempotency-replayed"] == "true"

    for begin in range(0, len(chosen), 16):
        await asyncio.gather(*map(again, chosen[begin : begin + 16]))
    return len(chosen)


async def audit(dsn: str, ledger: Ledger) -> Counter[str]:
    connection = await asyncpg.connect(dsn)
    try:
        await settled(connection)
        assert await wrong(connection) == {}
        found = await standing(connection, ledger)
        assert found == (found.acknowledged, [], [], [], [])
        fed = await lists(connection)
        async with read_models(dsn) as models:
            await models.rebuild(list(fed), lambda _: None)
        rebuilt = await lists(connection)
        assert fed == rebuilt, {
            name: (fed[name], rebuilt[name]) for name in fed if fed[name] != rebuilt[name]
        }
        events = await connection.fetchval("SELECT count(*) FROM events")
    finally:
        await connection.close()
    report = await verify_database(dsn, lambda *_: None)
    assert report.clean, report.findings
    rows = sum(count for count, _ in fed.values())
    return Counter(events=events, rows_compared=rows, lists_compared=len(fed))


def test_what_was_acknowledged_is_there_once_after_every_kill() -> None:
    seed, dice = seeded()
    print(f"seed={seed}")
    ledger = Ledger()
    began = time.monotonic()
    with served() as service:
        figures = asyncio.run(scenario(service, dice, ledger))
    record(
        "kill loop",
        seed=seed,
        writers=WRITERS,
        kills_of_the_service=figures["service"],
        kills_of_the_database=figures["database"],
        kills_of_a_database_backend=figures["backend"],
        starts_given_up_for_want_of_a_database=figures["given_up"],
        acknowledged=len(ledger.acknowledged) + sum(each is not None for each in ledger.once.values()),
        answered_after_a_lost_answer=sum(sent.lost for sent in ledger.acknowledged.values()),
        of_them_replayed=sum(sent.lost and sent.replayed for sent in ledger.acknowledged.values()),
        asked_again_in_the_end=figures["replayed_again"],
        refused=len(ledger.refused),
        lost=0,
        doubled=0,
        events=figures["events"],
        samples=len(ledger.samples),
        lists_rebuilt=figures["lists_compared"],
        rows_compared=figures["rows_compared"],
        minutes=round((time.monotonic() - began) / 60, 1),
    )


def test_a_repeated_call_that_is_refused_only_because_of_its_first_gets_the_answer_of_the_first(
    server: LiveServer, admin: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is recorded, by another process or by a killed one, just after the second has looked for it."""
    zone = admin.post("/zones", json={"name": uuid4().hex}).headers["location"]
    headers, store = {"idempotency-key": uuid4().hex}, server.app.store
    first = admin.post(f"{zone}/retire", json={"reason": "over"}, headers=headers)
    answer, looked = store.answer, list[IdempotencyKey]()

    async def too_early(key: IdempotencyKey) -> StoredAnswer | None:
        looked.append(key)
        return None if len(looked) == 1 else await answer(key)

    monkeypatch.setattr(store, "answer", too_early)
    second = admin.post(f"{zone}/retire", json={"reason": "over"}, headers=headers)
    assert (second.status_code, second.text) == (200, first.text)
    assert second.headers["idempotency-replayed"] == "true"
