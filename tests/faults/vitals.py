"""What a serving process and its database use up, sample by sample, and whether that grows."""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import httpx
import msgspec

from beamwright.adapters.postgres.driver import Connection
from beamwright.adapters.postgres.embedded import PORT, ROLE
from tests.faults.service import Served

MIB = 1 << 20
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'beamwright'"
STORAGE = """SELECT pg_database_size(current_database()) AS size, (SELECT count(*) FROM events) AS events,
    (SELECT sum(n_dead_tup)::bigint FROM pg_stat_user_tables) AS dead"""


class Latency(msgspec.Struct, frozen=True):
    """How long the calls of one kind took in one window, in milliseconds."""

    calls: int
    p50: float
    p99: float


class Sample(msgspec.Struct, frozen=True):
    """One look at everything."""

    at: float
    memory: float
    backend_memory: float
    handles: int
    threads: int
    connections: int
    behind_events: int
    database: float
    events: int
    dead_rows: int
    load_average: float
    # How long the same small work took that has nothing to do with the service, in milliseconds.
    yardstick: float
    latencies: dict[str, Latency]


def latency(seconds: Sequence[float]) -> Latency:
    ordered = sorted(each * 1000 for each in seconds)
    return Latency(
        calls=len(ordered),
        p50=round(ordered[len(ordered) // 2], 2),
        p99=round(ordered[int(len(ordered) * 0.99)], 2),
    )


class Vitals:
    """Looks at a served installation from outside; its own connection is counted nowhere."""

    def __init__(self, service: Served, client: httpx.AsyncClient, database: Connection) -> None:
        self._service = service
        self._client = client
        self._database = database
        self._began = time.monotonic()
        self._measured: list[float] = []

    async def measure(self) -> None:
        """Some arithmetic and a few round trips to the database: what a busy machine makes of fixed work."""
        began = time.monotonic()
        for _ in range(3):
            await self._database.fetchval("SELECT $1::int", sum(range(20_000)) % 7)
        self._measured.append((time.monotonic() - began) * 1000)

    async def sample(self, latencies: Mapping[str, Latency]) -> Sample:
        pid = self._service.process.pid
        backends = [row["pid"] for row in await self._database.fetch(BACKENDS)]
        stored = await self._database.fetchrow(STORAGE)
        assert stored is not None
        measured, self._measured = self._measured or [0.0], []
        lists = (await self._client.get("/ready")).json()["projections"]
        return Sample(
            at=round(time.monotonic() - self._began, 1),
            memory=round(status(pid)["VmRSS"] / MIB, 2),
            # What shared memory a backend has touched is the same 128 MB for all, and no leak.
            backend_memory=round(sum(status(each)["RssAnon"] for each in backends) / MIB, 2),
            handles=len(os.listdir(f"/proc/{pid}/fd")),
            threads=status(pid)["Threads"],
            connections=len(backends),
            behind_events=max((each["behind_events"] for each in lists), default=0),
            database=round(stored["size"] / MIB, 1),
            events=stored["events"],
            dead_rows=stored["dead"],
            load_average=os.getloadavg()[0],
            yardstick=round(statistics.median(measured), 2),
            latencies=dict(latencies),
        )


def status(pid: int) -> dict[str, int]:
    """The numbers of /proc/<pid>/status; sizes in bytes. Zeros for a process that has just ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        lines = []
    found = {"VmRSS": 0, "RssAnon": 0, "Threads": 0}
    for name, _, value in (line.partition(":") for line in lines):
        if name in found:
            number, *unit = value.split()
            found[name] = int(number) * (1024 if unit else 1)
    return found


def address(service: Served) -> str:
    """The embedded database of a service, as its owner reaches it."""
    sockets = Path(service.directory, "postgres", "postmaster.pid").read_text().splitlines()[4]
    return f"postgresql://{ROLE}@/postgres?host={quote(sockets, safe='')}&port={PORT}"


def growth(samples: Sequence[Sample], name: str) -> float:
    """How much a figure grows in an hour: the slope of the least-squares line."""
    moments = [sample.at / 3600 for sample in samples]
    return statistics.linear_regression(moments, [getattr(sample, name) for sample in samples]).slope


def thirds(samples: Sequence[Sample], value: Callable[[Sample], float | None]) -> tuple[float, float]:
    """What is typical of the first and of the last third of those that have such a value."""
    found = [each for sample in samples if (each := value(sample)) is not None]
    part = max(1, len(found) // 3)
    return statistics.median(found[:part]), statistics.median(found[-part:])


def typical(kind: str) -> Callable[[Sample], float | None]:
    return lambda sample: sample.latencies[kind].p50 if kind in sample.latencies else None
