"""Whether the service can do its work now, and the figures that show how well."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from beamwright.kernel.errors import UnavailableError
from beamwright.kernel.seams import Bookmarks, Leases
from beamwright.kernel.store import Mark
from beamwright.kernel.value import Value

from .observer import Observer, metrics
from .projector import LEASE, LEASE_SECONDS
from .verdicts import Verdicts

MOST_LAG = 30.0
# A process that was killed holds its lease to the end, and another looks for it every third of that.
LONGEST_GAP = 3 * LEASE_SECONDS


class Holder(Value):
    """The oldest open transaction of the cluster: no reader goes past it, lest it commits behind them."""

    process: int | None
    database: str | None
    application: str | None
    state: str | None
    since: datetime | None
    statement: str | None


class Backlog(Value):
    """How far readers are from the newest event, and who holds them back."""

    newest: Mark
    horizon: Mark
    behind_events: dict[str, int]
    behind_seconds: dict[str, float]
    holder: Holder | None = None


class Backlogs(Protocol):
    """Measures the backlog of the read models."""

    async def backlog(self) -> Backlog: ...
    async def schema_current(self) -> bool: ...


class ProjectionHealth(Value):
    name: str
    version: str
    serving: bool
    behind_events: int
    behind_seconds: float
    failures: int
    last_error: str | None
    updated_at: datetime


class WorkerHealth(Value):
    """One kind of background work, and for how long no process has done it."""

    name: str
    working: bool
    idle_seconds: float


class Report(Value):
    """The answer of /ready."""

    ready: bool
    database: str
    migrations: str
    projections: list[ProjectionHealth]
    workers: list[WorkerHealth] = []
    held_back_by: Holder | None = None
    reasons: list[str] = []


def shape(version: str) -> str:
    """The part of a list's version that changes with its declaration; the rest counts its rebuilds."""
    return version.partition("_")[0]


class Health:
    """Asks the database, the schema and the read models."""

    def __init__(
        self,
        bookmarks: Bookmarks,
        backlogs: Backlogs,
        leases: Leases,
        verdicts: Verdicts,
        storage_trouble: Callable[[], str | None],
        observers: Sequence[Observer] = (),
    ) -> None:
        self._bookmarks = bookmarks
        self._backlogs = backlogs
        self._leases = leases
        self._verdicts = verdicts
        self._storage_trouble = storage_trouble
        self._observers = observers

    async def report(self) -> Report:
        try:
            async with asyncio.timeout(5):
                return await self._report()
        except (UnavailableError, TimeoutError):
            return Report(
                ready=False, database="away", migrations="unknown", projections=[], reasons=["database away"]
            )

    async def _report(self) -> Report:
        current = await self._backlogs.schema_current()
        backlog = await self._backlogs.backlog()
        projections = await self._projections(backlog)
        idle = await self._leases.idle()
        reasons = [] if current else ["migrations missing"]
        reasons += await self._lagging(projections)
        reasons += _unattended(idle.get(LEASE))
        trouble = self._storage_trouble()
        reasons += [] if trouble is None else [trouble]
        return Report(
            ready=not reasons and bool(projections),
            database="up",
            migrations="current" if current else "missing",
            projections=projections,
            workers=[
                WorkerHealth(name=name, working=not seconds, idle_seconds=round(seconds, 1))
                for name, seconds in idle.items()
            ],
            held_back_by=backlog.holder,
            reasons=reasons,
        )

    async def _projections(self, backlog: Backlog) -> list[ProjectionHealth]:
        # Reactions keep their places beside those of the lists.
        lists = {each.name for each in await self._bookmarks.projections()}
        return [
            ProjectionHealth(
                name=mark.name,
                version=mark.version,
                serving=mark.serving,
                behind_events=backlog.behind_events.get(mark.name, 0),
                behind_seconds=backlog.behind_seconds.get(mark.name, 0.0),
                failures=mark.failures,
                last_error=mark.last_error,
                updated_at=mark.updated_at,
            )
            for mark in await self._bookmarks.all()
            if mark.name in lists
        ]

    async def _lagging(self, projections: Sequence[ProjectionHealth]) -> list[str]:
        """What lists there are no answers from, or old ones."""
        served = {(each.name, shape(each.version)) for each in projections if each.serving}
        unbuilt = [
            f"list {each.name} is being built"
            for each in await self._bookmarks.projections()
            if (each.name, shape(each.version)) not in served
        ]
        return unbuilt + [
            f"list {each.name} is {each.behind_seconds:.0f} s behind"
            for each in projections
            if each.serving and each.behind_seconds > MOST_LAG
        ]

    async def metrics(self) -> bytes:
        """Figures of the read models and the verdict log, in the Prometheus text form."""
        report = await self.report()
        lines = [
            "# TYPE beamwright_ready gauge",
            f"beamwright_ready {int(report.ready)}",
            "# TYPE beamwright_verdicts_lost_total counter",
            f"beamwright_verdicts_lost_total {self._verdicts.lost}",
        ]
        for metric in ("behind_events", "behind_seconds", "failures"):
            lines.append(f"# TYPE beamwright_projection_{metric} gauge")
            lines += [
                f'beamwright_projection_{metric}{{projection="{each.name}"}} {getattr(each, metric)}'
                for each in report.projections
                if each.serving
            ]
        lines.append("# TYPE beamwright_worker_idle_seconds gauge")
        lines += [
            f'beamwright_worker_idle_seconds{{worker="{each.name}"}} {each.idle_seconds}'
            for each in report.workers
        ]
        lines.append("# TYPE beamwright_readers_held_back gauge")
        lines.append(_held_back(report.held_back_by))
        lines += metrics(self._observers)
        return ("\n".join(lines) + "\n").encode()


def _unattended(idle_seconds: float | None) -> list[str]:
    """The reason that nobody feeds the lists; somebody may be on the way to do so."""
    if idle_seconds is None or idle_seconds <= LONGEST_GAP:
        return []
    return [f"no worker has fed the lists for {idle_seconds:.0f} s; start `beamwright worker`"]


def _held_back(holder: Holder | None) -> str:
    """1 with the name of who holds readers back. What others call themselves must not break the line."""
    if holder is None:
        return "beamwright_readers_held_back 0"
    named = {
        "process": holder.process,
        "database": holder.database,
        "application": holder.application,
        "since": None if holder.since is None else holder.since.isoformat(),
    }
    labels = ",".join(f'{name}="{_label(value)}"' for name, value in named.items())
    return f"beamwright_readers_held_back{{{labels}}} 1"


def _label(value: object) -> str:
    text = "" if value is None else str(value)
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
