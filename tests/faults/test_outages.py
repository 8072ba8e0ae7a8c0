"""The database restarts under load and its disk runs full: the service says so, answers 503, and recovers by itself."""

import asyncio
import errno
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx
import pytest

from beamwright.adapters.postgres.embedded import EmbeddedPostgres
from tests.faults.form import record, seeded, sized
from tests.faults.service import Served, ready, served

RESTARTS = sized(short=3, long=15)
STORMS = sized(short=3, long=30)
FILLINGS = sized(short=1, long=3)
WRITERS = 8
DISK = 200 << 20
BACK = 60.0


class Load:
    """Clients that define zones and read them, and what they were told."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.acknowledged: dict[str, str] = {}
        self.answers = Counter[int]()
        self._over = asyncio.Event()
        self._tasks = [asyncio.create_task(self._write()) for _ in range(WRITERS)]
        self._tasks.append(asyncio.create_task(self._read()))

    async def _write(self) -> None:
        while not self._over.is_set():
            name = uuid4().hex
            while name not in self.acknowledged and not self._over.is_set():
                body = {"name": name, "description": "x" * 300}
                answer = await self.client.post("/zones", json=body, headers={"idempotency-key": name})
                self._note(answer)
                if answer.status_code == 201:
                    self.acknowledged[name] = answer.json()["zone_id"]
                else:
                    await asyncio.sleep(0.05)

    async def _read(self) -> None:
        while not self._over.is_set():
            self._note(await self.client.get("/zones", params={"limit": 5}))
            await asyncio.sleep(0.05)

    def _note(self, answer: httpx.Response) -> None:
        """Whatever happens, a refusal is ours, says when to come back, and is never a 500."""
        self.answers[answer.status_code] += 1
        if answer.is_success:
            return
        assert answer.status_code in (409, 503), answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        if answer.status_code == 503:
            assert 1 <= int(answer.headers["retry-after"]) <= 60

    async def recorded_again(self, within: float = BACK) -> float:
        """How long until another command is acknowledged."""
        before, began = len(self.acknowledged), time.monotonic()
        while len(self.acknowledged) == before:
            assert time.monotonic() - began < within, "the service did not come back"
            await asyncio.sleep(0.02)
        return time.monotonic() - began

    async def end(self) -> None:
        self._over.set()
        await asyncio.gather(*self._tasks)

    async def check_nothing_is_lost(self) -> None:
        for name, id in self.acknowledged.items():
            zone = (await self.client.get(f"/zones/{id}")).json()
            assert (zone["name"], zone["version"]) == (name, 1)


async def lists_follow(client: httpx.AsyncClient) -> None:
    """The workers work again: what is recorded now is listed, and everything is well."""
    made = (await client.post("/zones", json={"name": uuid4().hex})).json()
    deadline = time.monotonic() + BACK
    while True:
        page = await client.get("/zones", params={"consistent_with": made["as_of"], "limit": 1})
        if page.status_code == 200:
            break
        assert time.monotonic() < deadline, page.text
    assert page.json()["items"][0]["id"] == made["zone_id"]
    await ready(client)
    report = (await client.get("/ready")).json()
    assert not [each for each in report["projections"] if each["failures"]]


@contextmanager
def on_a_server() -> Iterator[tuple[EmbeddedPostgres, Served]]:
    """A service on a database that is not its own, so that nobody else starts it again."""
    with tempfile.TemporaryDirectory(prefix="beamwright-outage-", ignore_cleanup_errors=True) as directory:
        embedded = EmbeddedPostgres(Path(directory, "cluster"))
        dsn = embedded.start()
        service = Served(str(Path(directory, "data")), {"DATABASE_URL": dsn})
        try:
            yield embedded, service
        finally:
            embedded.start()
            service.stop()
            embedded.stop()


def stop_fast(embedded: EmbeddedPostgres) -> None:
    """As `pg_ctl restart` does: sessions are ended, what is committed is written out."""
    embedded.stop()


def stop_at_once(embedded: EmbeddedPostgres) -> None:
    """As `pg_ctl restart --mode immediate` does, and as a power cut would: it has to recover."""
    pid = int((embedded._cluster / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGQUIT)
    embedded.stop()


async def restarts(embedded: EmbeddedPostgres, load: Load, dice: random.Random) -> float:
    """The slowest that a command was acknowledged again."""
    away: list[float] = []
    for number in range(RESTARTS):
        await asyncio.sleep(dice.uniform(0.2, 1.0))
        await asyncio.to_thread(dice.choice([stop_fast, stop_at_once]), embedded)
        if number == 0:
            report = await load.client.get("/ready")
            assert (report.status_code, report.json()["reasons"]) == (503, ["database away"])
            assert (await load.client.get("/health")).status_code == 200
        await asyncio.sleep(dice.uniform(0.0, 0.5))
        await asyncio.to_thread(embedded.start)
        away.append(await load.recorded_again())
    return round(max(away), 1)


async def storms(embedded: EmbeddedPostgres, load: Load, dice: random.Random) -> int:
    """Some or all sessions are ended at once, again and again; how many were."""
    killer, ended = await asyncpg.connect(embedded.start()), 0
    for _ in range(STORMS):
        await asyncio.sleep(dice.uniform(0.05, 0.4))
        rows = await killer.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'beamwright' AND random() < $1",
            dice.choice([0.3, 1.0]),
        )
        ended += len(rows)
    await killer.close()
    await load.recorded_again()
    return ended


def test_the_database_restarts_under_load_and_its_sessions_are_ended_in_storms() -> None:
    seed, dice = seeded()

    async def check(embedded: EmbeddedPostgres, service: Served) -> None:
        async with service.client(timeout=40) as client:
            await ready(client)
            load = Load(client)
            slowest = await restarts(embedded, load, dice)
            assert load.answers[503], f"seed {seed}: nobody noticed"
            ended = await storms(embedded, load, dice)
            await load.end()
            await load.check_nothing_is_lost()
            await lists_follow(client)
            record(
                "database outages",
                seed=seed,
                restarts=RESTARTS,
                storms=STORMS,
                sessions_ended=ended,
                acknowledged=len(load.acknowledged),
                refused_with_503=load.answers[503],
                lost=0,
                slowest_to_record_again_s=slowest,
            )

    with on_a_server() as (embedded, service):
        asyncio.run(check(embedded, service))


def test_the_embedded_database_is_started_again_when_it_is_killed() -> None:
    async def check(service: Served) -> None:
        async with service.client(timeout=40) as client:
            await ready(client)
            load = Load(client)
            await load.recorded_again()
            for _ in range(sized(short=1, long=5)):
                service.kill_database()
                await asyncio.sleep(0.2)
                await load.recorded_again()
            await load.end()
            await load.check_nothing_is_lost()
            await lists_follow(client)

    with served() as service:
        asyncio.run(check(service))
        service.stop()
        assert service.command("verify").returncode == 0


@contextmanager
def small_disk() -> Iterator[Path]:
    """A real file system of its own that can run full."""
    with tempfile.TemporaryDirectory(prefix="beamwright-disk-", ignore_cleanup_errors=True) as directory:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", directory], capture_output=True, text=True
        )
        if mounted.returncode:
            pytest.skip(f"needs the right to mount a file system: {mounted.stderr.strip()}")
        try:
            yield Path(directory)
        finally:
            subprocess.run(["umount", "--lazy", directory], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Take all but `leave` bytes of what is free; the database may be quicker, then of what it left."""
    filler = disk / f"filler-{uuid4().hex}"
    with filler.open("wb") as file:
        for _ in range(100):
            try:
                os.posix_fallocate(file.fileno(), 0, max(shutil.disk_usage(disk).free - leave, 1))
                break
            except OSError as error:
                assert error.errno == errno.ENOSPC
    return filler


async def refused_as_full(client: httpx.AsyncClient) -> httpx.Response:
    """The first refusal, while zones are defined as fast as one client can."""
    deadline = time.monotonic() + BACK
    while time.monotonic() < deadline:
        answer = await client.post("/zones", json={"name": uuid4().hex, "description": "x" * 400})
        if answer.status_code != 201:
            return answer
    raise AssertionError("the disk never ran full")


async def keeps_a_reserve(client: httpx.AsyncClient, disk: Path) -> None:
    """What is left is too little for a command, and enough for PostgreSQL to stay up."""
    made = await client.post("/zones", json={"name": uuid4().hex})
    filler = fill(disk, 10 << 20)
    for _ in range(20):
        refused = await client.post("/zones", json={"name": uuid4().hex})
        assert (refused.status_code, refused.json()["code"]) == (503, "StorageFullError")
        assert refused.headers["retry-after"] == "30"
        assert (await client.get(made.headers["location"])).status_code == 200
        assert (await client.get("/zones", params={"limit": 5})).status_code == 200
    report = await client.get("/ready")
    assert report.status_code == 503 and "the disk of the data folder is full" in report.text
    filler.unlink()
    assert (await client.post("/zones", json={"name": uuid4().hex})).status_code == 201
    await lists_follow(client)


async def comes_back_with_the_room(service: Served, client: httpx.AsyncClient, disk: Path) -> None:
    """The database dies where not a byte is left, so it cannot recover until there is room."""
    filler = fill(disk, 0)
    service.kill_database()
    await asyncio.sleep(sized(short=3.0, long=10.0))
    away = await client.post("/zones", json={"name": uuid4().hex})
    assert (away.status_code, "retry-after" in away.headers) == (503, True)
    assert (await client.get("/health")).status_code == 200
    filler.unlink()
    await ready(client)
    await lists_follow(client)


def test_a_full_disk_refuses_commands_lets_reads_go_on_and_is_got_over() -> None:
    async def check(service: Served, disk: Path) -> None:
        async with service.client() as client:
            await ready(client)
            for _ in range(FILLINGS):
                await keeps_a_reserve(client, disk)
                await comes_back_with_the_room(service, client, disk)

    with small_disk() as disk:
        service = Served(str(disk))
        try:
            asyncio.run(check(service, disk))
        finally:
            service.stop()
    record("full disk", disk_MB=DISK >> 20, filled=2 * FILLINGS, database_killed_while_full=FILLINGS)


def test_a_database_that_finds_its_own_disk_full_is_told_apart_from_one_that_is_away() -> None:
    """Not embedded, so its disk cannot be seen from here: what PostgreSQL says is passed on."""

    async def check(service: Served, disk: Path) -> None:
        async with service.client() as client:
            await ready(client)
            filler = fill(disk, 300_000)
            refused = await refused_as_full(client)
            assert (refused.status_code, refused.json()["code"]) == (503, "StorageFullError")
            assert (await client.get("/zones", params={"limit": 5})).status_code == 200
            report = await client.get("/ready")
            assert (report.status_code, report.json()["database"]) == (503, "up")
            assert report.json()["reasons"][-1] == "the disk of the database is full; commands are refused"
            filler.unlink()
            await lists_follow(client)

    with small_disk() as disk, tempfile.TemporaryDirectory(prefix="beamwright-data-") as data:
        embedded = EmbeddedPostgres(disk)
        service = Served(data, {"DATABASE_URL": embedded.start()})
        try:
            asyncio.run(check(service, disk))
        finally:
            service.stop()
            embedded.stop()
