"""The service and its database are killed under load: nothing acknowledged is lost, nothing is written twice."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx

from tests.live import free_port

KILLS = 6
WRITERS = 8


class Killed:
    """`beamwright serve` as a person runs it, in a folder of its own."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.port = free_port()
        self.start()
        self.acknowledged: dict[str, str] = {}

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "beamwright",
            "serve",
            "--data",
            self.directory,
            "--port",
            str(self.port),
        ]
        self.process = subprocess.Popen(command, env=os.environ | {"LOG_LEVEL": "error"})

    def kill(self, *, database: bool) -> None:
        if database:
            pid = Path(self.directory, "postgres", "postmaster.pid").read_text().split()[0]
            os.kill(int(pid), signal.SIGKILL)
        self.process.kill()
        self.process.wait(20)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        whole = [sys.executable, "-m", "beamwright", *arguments, "--data", self.directory]
        return subprocess.run(whole, capture_output=True, text=True, timeout=120)


@contextmanager
def served() -> Iterator[Killed]:
    with tempfile.TemporaryDirectory(prefix="beamwright-kill-", ignore_cleanup_errors=True) as directory:
        service = Killed(directory)
        try:
            yield service
        finally:
            service.process.terminate()
            service.process.wait(30)


async def ready(client: httpx.AsyncClient) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            if (await client.get("/ready")).status_code == 200:
                return
        except httpx.TransportError:
            assert time.monotonic() < deadline, "the service did not come back"
        await asyncio.sleep(0.05)


async def write(service: Killed, client: httpx.AsyncClient, stop: asyncio.Event) -> None:
    """Define zones one after the other, each repeated with its key until it is acknowledged."""
    while not stop.is_set():
        name = uuid4().hex
        while name not in service.acknowledged:
            try:
                answer = await client.post("/zones", json={"name": name}, headers={"idempotency-key": name})
            except httpx.TransportError:
                await asyncio.sleep(0.05)
                continue
            if answer.status_code == 201:
                service.acknowledged[name] = answer.json()["zone_id"]
            else:
                assert answer.status_code in (409, 503), answer.text
                await asyncio.sleep(0.05)


async def scenario(service: Killed) -> None:
    token = service.command("token").stdout.strip()
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{service.port}", headers=headers, timeout=20
    ) as client:
        await ready(client)
        stop = asyncio.Event()
        writers = [asyncio.create_task(write(service, client, stop)) for _ in range(WRITERS)]
        for number in range(KILLS):
            await asyncio.sleep(random.uniform(0.3, 1.0))
            service.kill(database=number % 3 == 2)
            service.start()
            await ready(client)
        stop.set()
        await asyncio.gather(*writers)
        for name, id in service.acknowledged.items():
            zone = (await client.get(f"/zones/{id}")).json()
            assert (zone["name"], zone["version"]) == (name, 1)


def test_what_was_acknowledged_is_there_once_after_every_kill() -> None:
    with served() as service:
        asyncio.run(scenario(service))
        assert len(set(service.acknowledged.values())) == len(service.acknowledged) > 0
        service.process.terminate()
        service.process.wait(30)
        verified = service.command("verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
