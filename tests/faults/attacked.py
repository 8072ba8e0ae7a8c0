"""A served installation under attack: its process, its log, its memory, and what it answered to how much."""

import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import httpx
import msgspec
import psutil

from beamwright.adapters.postgres.attached import attached
from beamwright.adapters.tokens.builtin import BuiltInIssuer
from beamwright.kernel import wellknown
from tests.faults.form import sized
from tests.faults.service import Served, ready
from tests.live import HTTP_AUDIENCE, MCP_AUDIENCE

# What has not ended by then never will: where other tests run beside, everything takes its time.
PATIENCE = 30.0
# The long form has the machine for itself.
HANG = sized(short=PATIENCE, long=5.0)
# What no answer may show: the inside of the program or of the database.
INSIDE = re.compile(
    r"Traceback|File \"|asyncpg|pydantic|[Pp]ostgre|\bSELECT\b|\bINSERT\b|syntax error at|site-packages|"
    r"/src/|msgspec|line \d+, in |NoneType|has no attribute|object at 0x"
)


class Footprint(NamedTuple):
    """What a process holds of the machine."""

    memory: int
    files: int
    connections: int

    def beyond(self, before: "Footprint", megabytes: int, connections: int) -> list[str]:
        """What is too much of it, in words."""
        # Beside connections, because the pools may fill.
        files = (self.files - self.connections) - (before.files - before.connections)
        grown = {
            "MB": ((self.memory - before.memory) / 1e6, megabytes),
            "file handles": (files, 8),
            "connections": (self.connections - before.connections, connections),
        }
        return [f"{more:.0f} more {what}" for what, (more, most) in grown.items() if more > most]


class Tally:
    """What was sent, and what came of it."""

    def __init__(self) -> None:
        self.sent = 0
        self.statuses: Counter[int] = Counter()
        self.slowest = 0.0
        self.slowest_what = ""
        self.failures: list[str] = []

    @property
    def failed(self) -> int:
        return sum(count for status, count in self.statuses.items() if status >= 500)

    def note(self, what: str, status: int, seconds: float, text: str = "") -> None:
        self.sent += 1
        self.statuses[status] += 1
        if seconds > self.slowest:
            self.slowest, self.slowest_what = seconds, what
        if status >= 500:
            self.fail(what, f"{status} {text[:300]}")

    def fail(self, what: str, why: str) -> None:
        self.failures.append(f"{what}: {why}")

    def check(self) -> None:
        assert not self.failures, f"{len(self.failures)} failures:\n" + "\n".join(self.failures[:20])
        assert self.slowest < HANG, f"{self.slowest_what} took {self.slowest:.1f} s"

    def figures(self) -> dict[str, int | float]:
        return {"requests": self.sent, "5xx": self.failed, "slowest_seconds": round(self.slowest, 2)}


class Attacked(Served):
    """The service with its log in a file and its tokens minted here, which `Stage` takes for a server."""

    @property
    def log(self) -> Path:
        return Path(self.directory, "service.log")

    def start(self) -> None:
        command = [sys.executable, "-m", "beamwright", "serve", "--data", self.directory]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port), *self.options], env=self.environ, stderr=log
            )

    def come_up(self) -> None:
        async def wait() -> None:
            async with httpx.AsyncClient(base_url=self.url, timeout=5) as client:
                await ready(client)

        asyncio.run(wait())
        self.issuer = BuiltInIssuer(Path(self.directory))

    def clock(self) -> datetime:
        return datetime.now(UTC)

    def token(self, actor: UUID | str = wellknown.ADMINISTRATOR, *audiences: str, **options: Any) -> str:
        chosen = audiences or (HTTP_AUDIENCE, MCP_AUDIENCE)
        return self.issuer.mint(str(actor), chosen, timedelta(hours=2), **options)

    def footprint(self) -> Footprint:
        process = psutil.Process(self.process.pid)
        sockets = [one for one in process.net_connections(kind="tcp") if one.status != psutil.CONN_LISTEN]
        return Footprint(process.memory_info().rss, process.num_fds(), len(sockets))

    def settled(self, before: Footprint, megabytes: int, connections: int = 100) -> Footprint:
        """What the process holds once that is no more than before, or only so much; in the end it must be.

        The callers of a test keep connections of their own, and may have become more.
        """
        deadline = time.monotonic() + PATIENCE
        while (
            left := self.footprint().beyond(before, megabytes, connections)
        ) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not left, left
        return self.footprint()

    def rows(self, sql: str, *arguments: Any) -> list[Any]:
        """What the database holds, as its owner sees it."""

        async def fetched(dsn: str) -> list[Any]:
            connection = await asyncpg.connect(dsn)
            try:
                return await connection.fetch(sql, *arguments)
            finally:
                await connection.close()

        with attached(Path(self.directory), None) as dsn:
            return asyncio.run(fetched(dsn))

    def shape(self) -> list[tuple[str, ...]]:
        """Every table, column, function, trigger and role: what no request may change."""
        columns = (
            "SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns"
            " WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND table_name NOT LIKE 'verdicts_%'"
        )
        rest = (
            "SELECT 'function', oid::regprocedure::text, md5(prosrc), '' FROM pg_proc"
            " WHERE pronamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')"
            " UNION ALL SELECT 'trigger', tgname, tgrelid::regclass::text, tgenabled::text FROM pg_trigger"
            " UNION ALL SELECT 'role', rolname, rolsuper::text, rolcanlogin::text FROM pg_roles"
        )
        return sorted(tuple(map(str, row)) for row in [*self.rows(columns), *self.rows(rest)])

    def log_lines(self) -> list[dict[str, Any]]:
        """The log as objects; a line that is none, or that two objects share, fails."""
        return [msgspec.json.decode(line, type=dict) for line in self.log.read_bytes().split(b"\n") if line]


@contextmanager
def attacked(environment: Mapping[str, str] = {}) -> Iterator[Attacked]:
    """An installation of its own that is up, and whose log held nothing but whole lines in the end."""
    with tempfile.TemporaryDirectory(prefix="beamwright-attack-", ignore_cleanup_errors=True) as directory:
        service = Attacked(directory, {"LOG_LEVEL": "info"} | dict(environment))
        try:
            service.come_up()
            yield service
        finally:
            if service.process.poll() is None:
                service.stop()
