"""Seams that are not one aggregate's: time, ids, read models, verdicts. `app.py` fills each of them once."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from .aggregate import Aggregate
from .authority import AuthzDecision, AuthzReason, Reach
from .store import Found, Mark, Stored
from .value import Value

type Clock = Callable[[], datetime]
type NewId = Callable[[], UUID]


class Lists(Protocol):
    """Reads of the derived list tables."""

    async def page(
        self, aggregate: Aggregate[Any, Any], request: Any, reach: Reach, now: datetime
    ) -> Found: ...

    async def matching(
        self, aggregate: Aggregate[Any, Any], filters: Mapping[str, Any]
    ) -> tuple[Sequence[UUID], Mark]:
        """The ids of every row that matches, and the mark the list stood at."""
        ...


class Verdict(Value):
    """One authorization decision, kept by the conduit it was made for."""

    verdict_id: UUID
    occurred_at: datetime
    conduit_id: UUID
    surface_id: UUID
    principal_id: UUID
    command_name: str
    decision: AuthzDecision
    reason: AuthzReason
    determining_policies: tuple[UUID, ...]
    object_type: str | None
    object_id: UUID | None
    correlation_id: str


class VerdictLog(Protocol):
    """The append-only table of verdicts."""

    async def write(self, verdicts: Sequence[Verdict]) -> None: ...
    async def page(self, request: Any) -> tuple[Sequence[Verdict], str | None]: ...


class Bookmark(Value):
    """How far one projection has come, and what keeps it."""

    name: str
    version: str
    serving: bool
    mark: Mark
    updated_at: datetime
    failures: int = 0
    last_error: str | None = None
    retry_at: datetime | None = None


class Projection(Protocol):
    """A read model fed from the log; a changed shape or fold is a new version, built beside the old one."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    async def prepare(self) -> None:
        """Create its tables where they are missing."""
        ...

    async def apply(self, transaction: Any, events: Sequence[Stored]) -> None:
        """Write what the events change, in the given transaction."""
        ...


class Bookmarks(Protocol):
    """The bookmark rows, saved in the same transaction as what they stand for."""

    async def all(self) -> Sequence[Bookmark]: ...
    async def projections(self) -> Sequence[Projection]: ...
    async def register(self, projection: Projection) -> None: ...
    def transaction(self) -> AbstractAsyncContextManager[Any]: ...
    async def advance(self, transaction: Any, keys: Sequence[tuple[str, str]], mark: Mark) -> None: ...
    async def park(self, key: tuple[str, str], error: str, failures: int, retry_at: datetime) -> None: ...
    async def serve(self, key: tuple[str, str]) -> None:
        """Let readers use this version from now on, and drop what it replaces."""
        ...

    async def rebuild(self, name: str) -> str:
        """Start a new version of a read model, from the beginning of the log."""
        ...


class Leases(Protocol):
    """Expiring rows that make a worker the only one of its kind."""

    async def take(self, name: str, holder: UUID, seconds: float) -> bool: ...
    async def release(self, name: str, holder: UUID) -> None: ...
