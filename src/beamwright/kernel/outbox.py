"""The outbox: what is asked of a registration agency, and how each kind of object asks for it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from .aggregate import Aggregate
from .event import Event
from .identifiers import MintedIdentifier, PersistentIdentifierScheme
from .operation import Command, Query
from .store import Mark
from .value import Time, Value


class OutboxPurpose(StrEnum):
    """`Mint` asks for an identifier; `Refresh` sends the record of an identified object again."""

    MINT = "Mint"
    REFRESH = "Refresh"


class OutboxState(StrEnum):
    PENDING = "Pending"
    DONE = "Done"
    FAILED = "Failed"


class IdentifierRequest(Value):
    """One row of the outbox; `last_error` is what the latest attempt met."""

    request_event_id: UUID
    aggregate: str
    id: UUID
    scheme: PersistentIdentifierScheme
    suffix: str
    purpose: OutboxPurpose
    state: OutboxState = OutboxState.PENDING
    attempts: int = 0
    next_attempt_at: Time
    claimed_until: Time | None = None
    last_error: str | None = None
    requested_at: Time


class Outbox(Protocol):
    """The rows, and the bookmark of the reader that writes them."""

    async def bookmark(self) -> Mark: ...

    async def enqueue(self, requests: Sequence[IdentifierRequest], mark: Mark) -> None:
        """Add rows and advance the bookmark, all or nothing.

        A row that is there stays; a refresh is left out where one of the same object has yet to begin.
        """
        ...

    async def claim(self, now: datetime, until: datetime) -> IdentifierRequest | None:
        """One due row, counted as an attempt; of several refreshes of one object it stands for all."""
        ...

    async def postpone(self, request: IdentifierRequest, next_attempt_at: datetime, error: str) -> None:
        """Put the row off, unless a later attempt has it by now."""
        ...

    async def finish(self, request: IdentifierRequest, state: OutboxState, error: str | None = None) -> None:
        """End the row, unless a later attempt has it by now."""
        ...

    async def page(self, request: Any) -> tuple[Sequence[IdentifierRequest], str | None]: ...


class Identifiable(Value):
    """How the objects of one aggregate get their identifiers: an entry of the minter's table."""

    aggregate: Aggregate[Any, Any]
    # The events that ask for an identifier, and the scheme that each asks for.
    requested: Mapping[type[Event], Callable[[Any], PersistentIdentifierScheme]]
    # The events that change what the record of an identified object says.
    refreshed: frozenset[type[Event]]
    # The scheme of the request that is pending, from the state.
    pending: Callable[[Any], PersistentIdentifierScheme | None]
    # The read whose answer becomes the record, and what of the answer is sent out.
    read: Callable[[UUID], Query[Any]]
    record: Callable[[Any], dict[str, Any]]
    assign: Callable[[UUID, PersistentIdentifierScheme, MintedIdentifier], Command[Any]]
    fail: Callable[[UUID, str], Command[Any]]
