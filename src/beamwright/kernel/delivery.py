"""Deliveries: signed statements on their way to the peers they are for."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from .outbox import OutboxState
from .store import Mark
from .value import Time, Value


class StatementKind(StrEnum):
    """What a peer is sent: keys of the seal first, then how far its ledger goes, then what stands in it."""

    SEAL_KEY = "SealKey"
    SEAL_POINTER = "SealPointer"
    ARTIFACT = "Artifact"


class Delivery(Value):
    """How far a statement has come; `last_error` is what the latest attempt met."""

    state: OutboxState
    attempts: int
    last_error: str | None = None
    delivered_at: Time | None = None


class DeliveryRequest(Value):
    """One row of the outbox: a statement for one peer. Artifacts are named by their id, the rest by their event's."""

    statement_id: UUID
    peer_facility_id: UUID
    kind: StatementKind
    # The stream that holds the statement, and its version there.
    stream_id: UUID
    version: int
    # Of an artifact: it had better come after the seal's pointer that covers it.
    ledger_number: int | None = None
    attempts: int = 0
    next_attempt_at: datetime
    requested_at: datetime


class Deliveries(Protocol):
    """The rows, and the bookmark of the reader that writes them."""

    async def bookmark(self) -> Mark: ...

    async def enqueue(
        self, requests: Sequence[DeliveryRequest], covered: int, now: datetime, mark: Mark
    ) -> None:
        """Add rows and advance the bookmark, all or nothing; a row that is there stays.

        A pointer replaces those before it. What waits for the pointer that covers it is due once `covered` is as
        high as its ledger number.
        """
        ...

    async def claim(self, now: datetime, until: datetime) -> DeliveryRequest | None:
        """One due row, counted as an attempt; of several, in the order of their kinds."""
        ...

    async def postpone(self, request: DeliveryRequest, next_attempt_at: datetime, error: str) -> None:
        """Put the row off, unless a later attempt has it by now."""
        ...

    async def finish(
        self, request: DeliveryRequest, state: OutboxState, now: datetime, error: str | None = None
    ) -> None:
        """End the row, unless a later attempt has it by now."""
        ...

    async def of(self, statement_ids: Collection[UUID]) -> Mapping[UUID, Delivery]:
        """How far these statements have come; what is sent to nobody is absent."""
        ...


class PeerAnswer(Value):
    """What a peer answered; `code` and `detail` are those of its refusal."""

    status: int
    code: str | None = None
    detail: str | None = None


class PeerUnreachableError(Exception):
    """The peer did not answer."""


class PeerDoor(Protocol):
    """Calls the API of other installations."""

    async def post(self, url: str, token: str, body: bytes) -> PeerAnswer:
        """Post JSON with a bearer token; `PeerUnreachableError` when there is no answer."""
        ...

    async def aclose(self) -> None: ...
