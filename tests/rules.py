"""Shared vocabulary of rule tests: a fixed occasion, and given/when/then for any command."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.errors import DomainError
from beamwright.kernel.event import Beside, Event
from beamwright.kernel.operation import Command, Occasion

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NEW_ID = UUID("01900000-0000-7000-8000-000000000777")
PRINCIPAL = UUID(int=1)
OCCASION = Occasion(now=NOW, principal_id=PRINCIPAL, new_id=NEW_ID)


def given[S](aggregate: Aggregate[Any, Any], *history: Event) -> Any:
    """The state after `history`."""
    state = aggregate.fold(history)
    assert state is not None
    return state


def outcome[V](
    command: Command[V], seen: V, occasion: Occasion = OCCASION
) -> Sequence[Event | Beside] | type[DomainError]:
    """What the command decides: its events, or the class of its refusal."""
    try:
        decided = command.decide(seen, occasion)
    except DomainError as error:
        return type(error)
    return [decided] if isinstance(decided, Event) else list(decided)
