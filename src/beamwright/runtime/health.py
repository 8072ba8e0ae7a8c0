"""Whether the service can do its work now, and the figures that show how well."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from beamwright.kernel.errors import UnavailableError
from beamwright.kernel.seams import Bookmarks, Clock
from beamwright.kernel.store import EventStore, Mark
from beamwright.kernel.value import Value

from .observer import Observer, metrics
from .verdicts import Verdicts

MOST_LAG = 30.0


class Backlog(Value):
    """How far readers are from the newest event, and who holds them back."""

    newest: Mark
    horizon: Mark
    behind_events: dict[str, int]
    behind_seconds: dict[str, float]
    holder: str | None = None


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


class Report(Value):
    """The answer of /ready."""

    ready: bool
    database: str
    migrations: str
    projections: list[ProjectionHealth]
    held_back_by: str | None = None
    reasons: list[str] = []


def shape(version: str) -> str:
    """The part of a list's version that changes with its declaration; the rest counts its rebuilds."""
    return version.partition("_")[0]


class Health:
    """Asks the database, the schema and the read models."""

    def __init__(
        self,
        store: EventStore,
        bookmarks: Bookmarks,
        backlogs: Backlogs,
        verdicts: Verdicts,
        now: Clock,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._store = store
        self._bookmarks = bookmarks
        self._backlogs = backlogs
        self._verdicts = verdicts
        self._now = now
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
        # Reactions keep their places beside those of the lists.
        lists = {each.name for each in await self._bookmarks.projections()}
        projections = [
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
        reasons = [] if current else ["migrations missing"]
        served = {(each.name, shape(each.version)) for each in projections if each.serving}
        reasons += [
            f"list {each.name} is being built"
            for each in await self._bookmarks.projections()
            if (each.name, shape(each.version)) not in served
        ]
        reasons += [
            f"list {each.name} is {each.behind_seconds:.0f} s behind"
            for each in projections
            if each.serving and each.behind_seconds > MOST_LAG
        ]
        return Report(
            ready=not reasons and bool(projections),
            database="up",
            migrations="current" if current else "missing",
            projections=projections,
            held_back_by=backlog.holder,
            reasons=reasons,
        )

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
        lines += metrics(self._observers)
        return ("\n".join(lines) + "\n").encode()
