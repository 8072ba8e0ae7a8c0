"""Seams that are not one aggregate's: time, ids, read models, verdicts. `app.py` fills each of them once."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from .aggregate import Aggregate
from .authority import AuthzDecision, AuthzReason, Reach
from .store import Found, Mark, Matched, Stored
from .trees import Branch
from .value import Value

type Clock = Callable[[], datetime]
type NewId = Callable[[], UUID]


class Lists(Protocol):
    """Reads of the derived list tables."""

    async def page(
        self, aggregate: Aggregate[Any, Any], request: Any, reach: Reach, now: datetime
    ) -> Found: ...

    async def matching(self, aggregate: Aggregate[Any, Any], filters: Mapping[str, Any]) -> Matched:
        """The ids of every row that matches, and how current they are."""
        ...

    async def unseen(self, aggregate: Aggregate[Any, Any]) -> Mark | None:
        """The newest event of the aggregate that was committed and that its list has not seen."""
        ...

    async def tally(
        self,
        aggregate: Aggregate[Any, Any],
        by: Sequence[str],
        reach: Reach,
        within: Mapping[str, Collection[Any]],
    ) -> Mapping[tuple[Any, ...], int]:
        """How many rows share each combination of the named filters' values."""
        ...

    async def subtree(
        self, aggregate: Aggregate[Any, Any], branch: Branch, reach: Reach
    ) -> tuple[Found, Sequence[int]]:
        """A page of the rows at and below one, depth first, and the depth of each."""
        ...

    async def height(self, aggregate: Aggregate[Any, Any], root_id: UUID) -> int: ...


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


class OvertakenError(Exception):
    """Another process has done this since: what was about to be written is void."""


class Bookmarks(Protocol):
    """The bookmark rows, saved in the same transaction as what they stand for."""

    async def all(self) -> Sequence[Bookmark]: ...
    async def projections(self) -> Sequence[Projection]: ...
    async def register(self, projection: Projection) -> None: ...
    def transaction(self) -> AbstractAsyncContextManager[Any]: ...
    async def advance(
        self, transaction: Any, keys: Sequence[tuple[str, str]], before: Mark, mark: Mark
    ) -> None:
        """Move those that stand at `before`; `OvertakenError` when another process has moved one of them."""
        ...

    async def park(
        self, key: tuple[str, str], at: Mark, error: str, failures: int, retry_at: datetime
    ) -> None: ...
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
    async def release_all(self, holder: UUID) -> None: ...
    async def idle(self) -> Mapping[str, float]:
        """For how many seconds nobody has held each lease; none while somebody does."""
        ...


class ModelRequest(Value):
    """One question to a language model: no tools, no streaming, no retry inside."""

    system: tuple[str, ...]
    user: str
    output_schema: dict[str, Any]
    model_ref: str
    max_output_tokens: int


class ModelUsage(Value):
    """What a completion used, in tokens."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0


class ModelCompletion(Value):
    """What a language model answered; whoever asked validates `parsed` against its schema."""

    parsed: dict[str, Any]
    raw_text: str
    usage: ModelUsage
    finish_reasons: tuple[str, ...]
    response_id: str
    response_model: str
    duration: timedelta


class LanguageModel(Protocol):
    """The language-model seam; filled when the first agent that thinks is built."""

    async def complete(self, request: ModelRequest) -> ModelCompletion: ...


class MirroredEntry(Value):
    """Where a logbook entry stands in an outside logbook."""

    external_id: str
    url: str


class LogbookMirror(Protocol):
    """The logbook-mirror seam; a retry asks `find` first, so an entry is delivered once."""

    async def find(self, target: str, entry_id: UUID) -> MirroredEntry | None: ...
    async def deliver(self, target: str, entry: Any) -> MirroredEntry: ...
    async def redact(self, target: str, external_id: str) -> None: ...
