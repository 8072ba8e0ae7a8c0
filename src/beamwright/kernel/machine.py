"""State machines as data: which event may follow which status, and where it leads."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from uuid import UUID

from .errors import CannotTransitionError
from .value import Value


class Move[S: StrEnum](Value):
    """One allowed move: from any of `start` to `end`, refused otherwise with `error`."""

    start: frozenset[S]
    end: S
    error: type[CannotTransitionError]


def move[S: StrEnum](start: Collection[S], end: S, error: type[CannotTransitionError]) -> Move[S]:
    return Move(start=frozenset(start), end=end, error=error)


class StateMachine[S: StrEnum]:
    """One axis of an aggregate's status, keyed by the event that makes the move."""

    def __init__(self, moves: Mapping[type, Move[S]]) -> None:
        self.moves = moves

    def check(self, event: type, current: S, id: UUID) -> None:
        """Raise the event's own error unless `current` allows it."""
        allowed = self.moves[event]
        if current not in allowed.start:
            raise allowed.error.of(id, current, allowed.start)

    def after(self, event: object) -> S:
        """The status that `event` leads to."""
        return self.moves[type(event)].end
