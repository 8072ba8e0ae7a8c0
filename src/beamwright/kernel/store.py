"""The event-store seam: what can be read from the log, and what an append must verify and write at once."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import UUID

from .errors import InvalidError
from .event import Beside, Claim

if TYPE_CHECKING:
    from .epochs import Epoch

type StreamName = tuple[str, UUID]


class InvalidConsistencyTokenError(InvalidError):
    """The consistency token was not given out by this service."""


class Mark(NamedTuple):
    """A place in the log. Readers order by transaction first: a newer one can hold a lower position."""

    transaction_id: int
    position: int

    def token(self) -> str:
        return f"{self.transaction_id:x}.{self.position:x}"

    @classmethod
    def parse(cls, token: str) -> "Mark":
        try:
            transaction_id, position = (int(part, 16) for part in token.split("."))
        except ValueError:
            transaction_id, position = -1, -1
        if not (0 <= transaction_id < 2**63 and 0 <= position < 2**63):
            raise InvalidConsistencyTokenError("Use an `as_of` token as it was given out, unchanged.")
        return cls(transaction_id, position)


BEGINNING = Mark(0, 0)


class Stream(NamedTuple):
    """A stream, or the end of one, as read: its events as a JSON array of tagged objects, and its envelope."""

    version: int
    events: str | bytes
    mark: Mark
    created_at: datetime
    created_by: UUID
    updated_at: datetime


class Stored(NamedTuple):
    """One event of the log with its envelope; `tagged` is its JSON with the type tag in front."""

    mark: Mark
    event_id: UUID
    stream_type: str
    stream_id: UUID
    version: int
    event_type: str
    schema_version: int
    tagged: str
    principal_id: UUID
    command_name: str
    surface_id: UUID
    correlation_id: str
    causation_id: UUID | None
    occurred_at: datetime
    recorded_at: datetime


class NewEvent(NamedTuple):
    """An event about to be appended."""

    event_id: UUID
    stream_type: str
    stream_id: UUID
    version: int
    event_type: str
    schema_version: int
    payload: str
    occurred_at: datetime
    # Whether the authority is folded from it.
    bumps_epoch: bool = False


class Envelope(NamedTuple):
    """Who asked for a command, how it arrived, and what it answers to."""

    principal_id: UUID
    command_name: str
    surface_id: UUID
    correlation_id: str
    causation_id: UUID | None = None


class IdempotencyKey(NamedTuple):
    surface_id: UUID
    principal_id: UUID
    key: str


class StoredAnswer(NamedTuple):
    """What a first call answered; the mark completes a receipt's consistency token."""

    request_hash: bytes
    status: int
    body: str
    mark: Mark | None


class Append(NamedTuple):
    """Everything that one command writes, and everything that must still hold when it does."""

    envelope: Envelope
    events: Sequence[NewEvent] = ()
    # Streams the decision saw, with the version it saw; written streams are among them.
    seen: Mapping[StreamName, int] = {}
    # Searches the decision made: no event of this stream type may have come after the mark.
    searched: Mapping[str, Mark] = {}
    claimed: Sequence[tuple[Claim, StreamName]] = ()
    released: Sequence[Claim] = ()
    beside: Sequence[Beside] = ()
    epoch: int | None = None
    idempotency: tuple[IdempotencyKey, StoredAnswer] | None = None

    @property
    def bumps_epoch(self) -> bool:
        return any(event.bumps_epoch for event in self.events)


class LostRaceError(Exception):
    """Something the decision saw has changed since."""


class EpochMovedError(Exception):
    """The authority changed since the call was authorized."""


class ClaimTakenError(Exception):
    """Another stream holds the claim."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(claim.kind, claim.key)
        self.claim = claim


class AnsweredBeforeError(Exception):
    """Another call with the same idempotency key was answered meanwhile."""


class LogFilter(NamedTuple):
    """Which events of the log a reader wants; empty means all."""

    stream_types: Sequence[str] = ()
    event_types: Sequence[str] = ()


EVERYTHING = LogFilter()


class Searched(NamedTuple):
    """What was wanted of the log, and how far it has been searched: up to there nothing else is wanted."""

    events: Sequence[Stored]
    reached: Mark
    # Whether the log goes on; a search that finds little ends before it takes long.
    more: bool


WHOLE: Mapping[StreamName, int] = {}


class EventStore(Protocol):
    """The append-only log."""

    async def read(
        self, names: Sequence[StreamName], after: Mapping[StreamName, int] = WHOLE
    ) -> Mapping[StreamName, Stream]:
        """Streams as they are now, or what of them lies after a version; one without such events is absent.

        A part is told to be created by its own first event.
        """
        ...

    async def read_until(self, name: StreamName, version: int | None, at: datetime | None) -> Stream | None:
        """One stream as it was at a version or a time."""
        ...

    async def read_events(self, name: StreamName, after_version: int, limit: int) -> Sequence[Stored]: ...

    async def read_log(self, after: Mark, limit: int) -> Sequence[Stored]:
        """The next events in reading order, only those that no running transaction can still precede."""
        ...

    async def search_log(self, after: Mark, limit: int, wanted: LogFilter) -> Searched:
        """The next events that are wanted, among those that `read_log` would give; bounded work."""
        ...

    async def horizon(self) -> Mark:
        """The newest mark readers may see now."""
        ...

    async def place(self, token: str) -> Mark:
        """Where a token points; a token of something that a restore lost is refused."""
        ...

    async def epochs(self) -> Sequence["Epoch"]:
        """The restores that this log has gone through, newest first."""
        ...

    async def read_authority(self, after_position: int, stream_types: Sequence[str]) -> Sequence[Stored]:
        """Events that the authority is folded from; appends to these are serialised, so position orders them."""
        ...

    async def authority_epoch(self) -> int: ...

    async def append(self, append: Append) -> Mark:
        """Write all of it or nothing; raises one of the errors above when something no longer holds."""
        ...

    async def answer(self, key: IdempotencyKey) -> StoredAnswer | None: ...

    async def claim_holder(self, kind: str, key: str) -> StreamName | None: ...


class Found(NamedTuple):
    """Rows of a list table: the state as JSON with the envelope, and the mark the list stood at."""

    rows: Sequence["ListRow"]
    next_cursor: str | None
    mark: Mark


class Matched(NamedTuple):
    """Ids of a list, the mark the list stood at, and the newest event of its aggregate that it had not seen."""

    ids: Sequence[UUID]
    mark: Mark
    unseen: Mark | None


class ListRow(NamedTuple):
    id: UUID
    version: int
    state: str
    created_at: datetime
    updated_at: datetime
    created_by: UUID


type Search = Callable[[Any], Awaitable[Found]]
