"""Bulk records of a stream that are no events: kept in tables of their own, in order, each once."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from .value import Time, Value


class Inserted(Value):
    """What became of a batch: entries that were there already are counted, not written again."""

    received: int
    inserted: int
    duplicates: int


class Entry(Value):
    """What a producer says of one moment; its own id makes sure that it is kept once."""

    event_id: UUID
    sampled_at: Time


class EntryTable[E: Entry, K: Entry](Value):
    """A table `entries_<name>`, whose columns are the fields of its records.

    `entry` is what is written; `row` is what is read: that, and the number, stream and delivery of the row.
    """

    name: str
    stream_type: str
    stream_column: str
    entry: type[E]
    row: type[K]


class EntryDelivery(Value):
    """Which stream a batch belongs to, and how it came."""

    stream_id: UUID
    principal_id: UUID
    correlation_id: str
    recorded_at: datetime
    # Delivered after the stream's end.
    late: bool


class EntryGroup[K: Entry](Value):
    """The rows that have one value of a column."""

    key: int
    count: int
    first_sampled_at: Time
    last_sampled_at: Time
    latest: K


class EntryTables(Protocol):
    """The tables of entries. The rows of a stream appear in the order of their numbers, never one before another."""

    async def append[E: Entry, K: Entry](
        self,
        table: EntryTable[E, K],
        entries: Sequence[E],
        delivery: EntryDelivery,
        ends: Collection[str],
    ) -> Inserted:
        """Write what is new. Unless it is late, no event of the types `ends` may be on the stream by then: this is
        verified in the same transaction, and a `LostRaceError` where it fails."""
        ...

    async def page[E: Entry, K: Entry](
        self,
        table: EntryTable[E, K],
        stream_id: UUID,
        where: Mapping[str, Any],
        *,
        by: Sequence[str],
        descending: bool = False,
        limit: int,
        cursor: str | None,
    ) -> tuple[Sequence[K], str | None]:
        """Rows whose columns have the values of `where`, None being any, in the order of the whole-number columns
        `by`, and the cursor of the next page."""
        ...

    async def groups[E: Entry, K: Entry](
        self,
        table: EntryTable[E, K],
        stream_id: UUID,
        *,
        by: str,
        keys: Collection[int],
        uncounted: tuple[str, str] | None = None,
    ) -> Sequence[EntryGroup[K]]:
        """The rows whose column `by` has one of the keys, by key, each group with its latest row; a key without rows
        is absent. Rows whose column has the value of `uncounted` do not count."""
        ...
