"""`beamwright serve` as a person runs it: a process of its own, that can be killed and started again."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.live import free_port


class Served:
    """One serving process on a folder (with its embedded database) or on a database that is given."""

    def __init__(self, directory: str, environment: Mapping[str, str] = {}, *options: str) -> None:
        self.directory = directory
        self.environment = {"LOG_LEVEL": "error"} | dict(environment)
        self.options = options
        self.port = free_port()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        return os.environ | self.environment

    def start(self) -> None:
        where = ["--data", self.directory, "--port", str(self.port)]
        command = [sys.executable, "-m", "beamwright", "serve", *where, *self.options]
        self.process = subprocess.Popen(command, env=self.environ)

    def kill(self, *, database: bool = False) -> None:
        """With SIGKILL, at once; the database's processes end by themselves when their postmaster is gone."""
        if database:
            self.kill_database()
        self.process.kill()
        self.process.wait(20)

    def kill_database(self) -> None:
        os.kill(self.postmaster, signal.SIGKILL)

    @property
    def postmaster(self) -> int:
        return int(Path(self.directory, "postgres", "postmaster.pid").read_text().split()[0])

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)

    def command(self, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        whole = [sys.executable, "-m", "beamwright", *arguments, "--data", self.directory]
        return subprocess.run(whole, capture_output=True, text=True, timeout=timeout, env=self.environ)

    def token(self) -> str:
        return self.command("token").stdout.strip()

    def client(self, token: str | None = None, **options: Any) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token or self.token()}"}
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=options.pop("timeout", 20), **options
        )


@contextmanager
def served(environment: Mapping[str, str] = {}, *options: str) -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="beamwright-fault-", ignore_cleanup_errors=True) as directory:
        service = Served(directory, environment, *options)
        try:
            yield service
        finally:
            if service.process.poll() is None:
                service.stop()


async def ready(client: httpx.AsyncClient, within: float = 60) -> None:
    deadline = time.monotonic() + within
    while True:
        try:
            if (await client.get("/ready")).status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, "the service did not come back"
        await asyncio.sleep(0.05)
