"""A served installation to measure, and the bare database beside it."""

import asyncio
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import asyncpg
import httpx
import structlog

from beamwright.adapters.postgres.embedded import EmbeddedPostgres, binaries
from beamwright.adapters.postgres.migrate import migrate
from beamwright.adapters.tokens.builtin import BuiltInIssuer
from beamwright.kernel import wellknown
from benchmarks.load import free_port

INSERT = """INSERT INTO events (event_id, stream_type, stream_id, version, event_type, schema_version, payload,
    principal_id, command_name, surface_id, correlation_id, occurred_at)
    VALUES ($1, 'Bare', $1, 1, 'ZoneDefined', 1, $2, $1, 'define_zone', $1, 'bench', now())"""
PAYLOAD = (
    '{"occurred_at":"2026-01-01T00:00:00Z","zone_id":"01900000-0000-7000-8000-000000000000",'
    '"name":"0123456789abcdef0123456789abcdef","description":null}'
)
# pgbench takes a colon for a variable, so its payload is a text of the same length.
PGBENCH = f"""INSERT INTO events (event_id, stream_type, stream_id, version, event_type, schema_version, payload,
    principal_id, command_name, surface_id, correlation_id, occurred_at)
    SELECT id, 'Bare', id, 1, 'ZoneDefined', 1, '"{"x" * len(PAYLOAD)}"', id, 'define_zone', id, 'bench', now()
    FROM gen_random_uuid() AS id;"""


class Installation:
    """The service as `beamwright serve` runs it, on an embedded database that the benchmark also reaches."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.embedded = EmbeddedPostgres(directory)
        self.dsn = self.embedded.start()
        asyncio.run(migrate(self.dsn))
        self.port = free_port()
        self.token = BuiltInIssuer(directory).mint(
            str(wellknown.ADMINISTRATOR), ["urn:beamwright:http", "urn:beamwright:mcp"], timedelta(hours=12)
        )

    @contextmanager
    def serving(self, processes: int = 1) -> Iterator[subprocess.Popen[bytes]]:
        environment = os.environ | {"DATABASE_URL": self.dsn, "LOG_LEVEL": "warning"}
        command = [sys.executable, "-m", "beamwright", "serve", "--data", str(self.directory)]
        command += ["--port", str(self.port), "--processes", str(processes)]
        server = subprocess.Popen(command, env=environment)
        try:
            self.wait_until_ready()
            yield server
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)

    def wait_until_ready(self, seconds: float = 300) -> float:
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            try:
                answer = httpx.get(f"http://127.0.0.1:{self.port}/ready", timeout=30)
                lists = answer.json()["projections"]
                if answer.status_code == 200 and not any(each["behind_events"] for each in lists):
                    return time.perf_counter() - began
            except httpx.TransportError:
                pass
            time.sleep(0.01)
        raise TimeoutError("the service did not become ready")

    def client(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=120)

    def token_of(self, subject: str) -> str:
        return BuiltInIssuer(self.directory).mint(subject, ["urn:beamwright:http"], timedelta(hours=1))

    def pgbench(self, clients: int, seconds: float) -> float:
        """Transactions per second of the same INSERT, straight from C."""
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            script.write(PGBENCH)
            script.flush()
            arguments = ["-n", "-M", "prepared", "-f", script.name, "-c", str(clients), "-j", "1"]
            arguments += ["-T", str(max(1, int(seconds))), self.dsn]
            got = subprocess.run(
                [binaries() / "pgbench", *arguments], capture_output=True, text=True, check=True
            )
        found = re.search(r"tps = ([\d.]+)", got.stdout)
        assert found is not None, got.stdout
        return float(found[1])


async def bare_inserts(dsn: str, clients: int, seconds: float) -> tuple[float, float, float]:
    """The same INSERT in a loop through asyncpg and nothing else: per second, p50 and p99."""
    from uuid import uuid4

    times: list[float] = []
    until = time.perf_counter() + seconds

    async def loop() -> None:
        connection = await asyncpg.connect(dsn)
        statement = await connection.prepare(INSERT)
        while time.perf_counter() < until:
            began = time.perf_counter()
            await statement.fetch(uuid4(), PAYLOAD)
            times.append(time.perf_counter() - began)
        await connection.close()

    began = time.perf_counter()
    await asyncio.gather(*(loop() for _ in range(clients)))
    took = time.perf_counter() - began
    times.sort()
    return len(times) / took, times[len(times) // 2], times[int(len(times) * 0.99)]


def quiet() -> None:
    """Warnings alone, so that what is measured can be read."""
    logging.disable(logging.INFO)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


@contextmanager
def installation() -> Iterator[Installation]:
    directory = Path(tempfile.mkdtemp(prefix="beamwright-bench-"))
    made = Installation(directory)
    try:
        yield made
    finally:
        made.embedded.stop()
        shutil.rmtree(directory, ignore_errors=True)
