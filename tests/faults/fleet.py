"""Several serving processes and separate workers on one database, each a process that can be stopped or killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx

from tests.faults.service import Served, ready


class Worker:
    """`beamwright worker`, and the lines that it logs."""

    def __init__(self, directory: str, environment: Mapping[str, str]) -> None:
        self.log = Path(directory) / f"worker-{uuid4().hex}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "beamwright", "worker", "--data", directory],
                env=os.environ | {"LOG_LEVEL": "info"} | dict(environment),
                stderr=log,
            )

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    @property
    def holder(self) -> str | None:
        """Under which id it holds leases, once it works."""
        return next((line["holder"] for line in self.lines() if line["event"] == "working"), None)

    def pause(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(20)

    def end(self) -> int:
        if self.process.poll() is None:
            self.resume()
            self.process.terminate()
        return self.process.wait(30)


class Fleet:
    """Processes on one database that share a data folder, hence the issuer's key."""

    def __init__(self, directory: Path, dsn: str, environment: Mapping[str, str]) -> None:
        self.directory = str(directory)
        self.dsn = dsn
        self.environment = {"DATABASE_URL": dsn, "SEED_STARTER_FAMILIES": "false"} | dict(environment)
        self.servers: list[Served] = []
        self.workers: list[Worker] = []

    def serve(self, count: int) -> None:
        for _ in range(count):
            self.servers.append(Served(self.directory, self.environment, "--separate-worker"))

    def work(self, count: int) -> None:
        self.workers += [Worker(self.directory, self.environment) for _ in range(count)]

    def clients(self, token: str | None = None) -> list[httpx.AsyncClient]:
        token = token or self.servers[0].token()
        return [server.client(token) for server in self.servers]

    def stop(self) -> None:
        for each in [*self.workers, *self.servers]:
            if each.process.poll() is None:
                each.process.send_signal(signal.SIGCONT)
                each.process.terminate()
        for each in [*self.workers, *self.servers]:
            each.process.wait(30)

    def verify(self) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "beamwright", "verify", "--database-url", self.dsn]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    async def leases(self) -> dict[str, tuple[str, bool]]:
        """The holder of each, and whether its term is running."""
        rows = await self.rows("SELECT name, holder, expires_at > clock_timestamp() AS held FROM leases")
        return {row["name"]: (str(row["holder"]), row["held"]) for row in rows}

    async def rows(self, query: str, *arguments: Any) -> Sequence[Any]:
        connection = await asyncpg.connect(self.dsn)
        try:
            return await connection.fetch(query, *arguments)
        finally:
            await connection.close()

    async def holding(self, lease: str, within: float = 30, other_than: str = "") -> Worker:
        """The worker that holds a lease, once one that is not `other_than` does."""
        found: Worker | None = None

        async def held() -> bool:
            nonlocal found
            holder, running = (await self.leases()).get(lease, ("", False))
            known = {each.holder: each for each in self.workers}
            found = known.get(holder)
            return running and holder != other_than and found is not None

        await until(held, within, f"nobody else took {lease}")
        assert found is not None
        return found


@contextmanager
def fleet(
    directory: Path, dsn: str, *, servers: int, workers: int, environment: Mapping[str, str] = {}
) -> Iterator[Fleet]:
    """Running, though not yet ready."""
    started = Fleet(directory, dsn, environment)
    try:
        started.work(workers)
        started.serve(servers)
        yield started
    finally:
        started.stop()


async def all_ready(clients: Sequence[httpx.AsyncClient]) -> None:
    await asyncio.gather(*(ready(client) for client in clients))


async def until(holds: Callable[[], Awaitable[bool]], within: float, otherwise: str) -> float:
    """How long it took to come true."""
    began = time.monotonic()
    while not await holds():
        assert time.monotonic() - began < within, otherwise
        await asyncio.sleep(0.05)
    return time.monotonic() - began
