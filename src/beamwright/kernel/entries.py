"""Bulk records of a stream that are no events: kept in tables of their own, in order, each once."""

from collections.abc import Sequence
from typing import Any, Protocol
from uuid import UUID

from .value import Value


class Inserted(Value):
    """What became of a batch: entries that were there already are counted, not written again."""

    received: int
    inserted: int
    duplicates: int


class EntryTables(Protocol):
    """Tables named `entries_<name>`; every row belongs to a stream and carries its producer's own id."""

    async def append(
        self, table: str, stream: tuple[str, UUID], version: int, rows: Sequence[Sequence[Any]]
    ) -> Inserted:
        """Write what is new in one transaction, provided that the stream is still at `version`."""
        ...
