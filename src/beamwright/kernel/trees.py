"""Reads of a tree that a list's `parent_id` filter describes."""

from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta

from .aggregate import Cursor
from .operation import Query
from .value import Value

MOST_LEVELS = 64


class SubtreeRequest(Query[Any]):
    """Base of a subtree request."""

    max_depth: Annotated[int, Meta(ge=1, le=MOST_LEVELS)] = MOST_LEVELS
    limit: Annotated[int, Meta(ge=1, le=2000)] = 200
    cursor: Cursor | None = None
    consistent_with: Cursor | None = None

    def hidden(self) -> dict[str, Any]:
        """Filter values of objects that are left out; what is below them is still shown."""
        return {}


class Node(Value):
    """An object's view and how far below the root it is."""

    depth: int
    view: Any


class Subtree(Value):
    """One page of a subtree, depth first."""

    nodes: list[Node]
    next_cursor: str | None
    as_of: str


class Branch(Value):
    """What the subtree's SQL needs: where it begins, how deep it goes, and after which object it continues."""

    root_id: UUID
    max_depth: int
    limit: int
    after: UUID | None = None
    hidden: dict[str, Any] = {}
