"""What arrives with a request: who calls, through which door, and under which conditions."""

from typing import Any
from uuid import UUID

from beamwright.kernel.authority import Caller
from beamwright.kernel.value import Value


class Call(Value):
    """The circumstances of one request, the same on every surface."""

    caller: Caller
    surface_id: UUID
    conduit_id: UUID
    correlation_id: str
    causation_id: UUID | None = None
    idempotency_key: str | None = None
    expected_version: int | None = None
    # The id of what is created, where it is fixed: seeds have theirs.
    new_id: UUID | None = None


class Outcome(Value):
    """What an operation answered: a view, or the receipt of a command."""

    status: int
    body: Any
    version: int | None = None
    object_id: UUID | None = None
    replayed: bool = False
    # Where what the call started is found.
    location: str | None = None
