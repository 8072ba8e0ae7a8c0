"""The event store on PostgreSQL: streams folded from one row, readers below the horizon, guarded appends."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from beamwright.kernel.epochs import Epoch, check_kept
from beamwright.kernel.store import (
    EVERYTHING,
    WHOLE,
    Append,
    IdempotencyKey,
    LogFilter,
    Mark,
    Searched,
    Stored,
    StoredAnswer,
    Stream,
    StreamName,
)

from .appender import Appender
from .database import Database
from .driver import Row
from .stream_reader import READ_ONE, TAGGED, StreamReader, stream

# As of a time: what stands before the first event that came later. A stream has no holes, even where its times run
# backwards because a clock was set.
READ_UNTIL = f"""{READ_ONE} AND version <= coalesce($4, version) AND version < coalesce((
    SELECT min(version) FROM events WHERE stream_type = $1 AND stream_id = $2 AND occurred_at > $5), version + 1)"""

STORED = f"""transaction_id, position, event_id, stream_type, stream_id, version, event_type,
    schema_version, {TAGGED} AS tagged, principal_id, command_name, surface_id, correlation_id, causation_id,
    occurred_at, recorded_at"""

READ_EVENTS = f"""SELECT {STORED} FROM events
    WHERE stream_type = $1 AND stream_id = $2 AND version > $3 ORDER BY version LIMIT $4"""

# One statement, hence one snapshot: what is below its horizon can never be preceded by a later commit.
READ_LOG = f"""SELECT {STORED} FROM events
    WHERE (transaction_id, position) > ($1::xid8, $2::bigint)
    AND transaction_id < log_horizon()
    ORDER BY events.transaction_id, events.position LIMIT $3"""

# How far a search goes at once: from the index alone.
SEARCHED = """WITH ahead AS (SELECT transaction_id, position FROM events
        WHERE (transaction_id, position) > ($1::xid8, $2::bigint) AND transaction_id < log_horizon()
        ORDER BY events.transaction_id, events.position LIMIT $3)
    SELECT transaction_id, position, (SELECT count(*) FROM ahead) FROM ahead
    ORDER BY ahead.transaction_id DESC, ahead.position DESC LIMIT 1"""

# What lies below a horizon does not change any more.
SEARCH = f"""SELECT {STORED} FROM events
    WHERE (transaction_id, position) > ($1::xid8, $2::bigint)
    AND (transaction_id, position) <= ($3::xid8, $4::bigint)
    AND (cardinality($5::text[]) = 0 OR stream_type = ANY ($5))
    AND (cardinality($6::text[]) = 0 OR event_type = ANY ($6))
    ORDER BY events.transaction_id, events.position LIMIT $7"""

HORIZON = """SELECT transaction_id, position FROM events
    WHERE transaction_id < log_horizon()
    ORDER BY events.transaction_id DESC, events.position DESC LIMIT 1"""

# Some tens of milliseconds, however rare the wanted events are.
MOST_SEARCHED = 50_000

READ_EPOCHS = """SELECT first_transaction_id, last_transaction_id, last_position, unfinished, began_at
    FROM log_epochs WHERE first_transaction_id > '0' ORDER BY first_transaction_id DESC"""

READ_AUTHORITY = f"""SELECT {STORED} FROM events WHERE position > $1 AND stream_type = ANY ($2)
    AND stream_type IN ('Actor', 'Agent', 'Conduit', 'Facility', 'Policy', 'Surface', 'Visit') ORDER BY position"""


class PostgresEventStore:
    """The log of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._appender = Appender(database)
        self._reader = StreamReader(database)
        self._epochs: list[Epoch] | None = None

    async def read(
        self, names: Sequence[StreamName], after: Mapping[StreamName, int] = WHOLE
    ) -> Mapping[StreamName, Stream]:
        return await self._reader.read([(name, after.get(name, 0)) for name in names])

    async def read_until(self, name: StreamName, version: int | None, at: datetime | None) -> Stream | None:
        row = await self._database.fetchrow(READ_UNTIL, *name, 0, version, at)
        return stream(row) if row is not None and row["version"] else None

    async def read_events(self, name: StreamName, after_version: int, limit: int) -> Sequence[Stored]:
        return [_stored(row) for row in await self._database.fetch(READ_EVENTS, *name, after_version, limit)]

    async def read_log(self, after: Mark, limit: int) -> Sequence[Stored]:
        return [_stored(row) for row in await self._database.fetch(READ_LOG, *after, limit)]

    async def search_log(self, after: Mark, limit: int, wanted: LogFilter) -> Searched:
        if wanted == EVERYTHING:
            events = await self.read_log(after, limit)
            return Searched(events, events[-1].mark if events else after, len(events) == limit)
        end = await self._database.fetchrow(SEARCHED, *after, MOST_SEARCHED)
        if end is None:
            return Searched((), after, more=False)
        types = list(wanted.stream_types), list(wanted.event_types)
        rows = await self._database.fetch(SEARCH, *after, end[0], end[1], *types, limit)
        events = [_stored(row) for row in rows]
        if len(events) == limit:
            return Searched(events, events[-1].mark, more=True)
        return Searched(events, Mark(end[0], end[1]), more=end[2] == MOST_SEARCHED)

    async def horizon(self) -> Mark:
        row = await self._database.fetchrow(HORIZON)
        return Mark(*row) if row is not None else Mark(0, 0)

    async def place(self, token: str) -> Mark:
        mark = Mark.parse(token)
        check_kept(mark, await self.epochs())
        return mark

    async def epochs(self) -> Sequence[Epoch]:
        if self._epochs is None:
            # An epoch begins before a service starts, so one look is enough.
            rows = await self._database.fetch(READ_EPOCHS)
            self._epochs = [Epoch(row[0], Mark(row[1], row[2]), frozenset(row[3]), row[4]) for row in rows]
        return self._epochs

    async def read_authority(self, after_position: int, stream_types: Sequence[str]) -> Sequence[Stored]:
        rows = await self._database.fetch(READ_AUTHORITY, after_position, list(stream_types))
        return [_stored(row) for row in rows]

    async def authority_epoch(self) -> int:
        row = await self._database.fetchrow("SELECT epoch FROM authority")
        return row[0] if row is not None else 0

    async def append(self, append: Append) -> Mark:
        return await self._appender.append(append)

    async def answer(self, key: IdempotencyKey) -> StoredAnswer | None:
        row = await self._database.fetchrow(
            "SELECT request_hash, status, body, transaction_id, position FROM idempotency "
            "WHERE surface_id = $1 AND principal_id = $2 AND key = $3",
            *key,
        )
        if row is None:
            return None
        mark = Mark(row[3], row[4]) if row[4] is not None else None
        return StoredAnswer(row[0], row[1], row[2], mark)

    async def claim_holder(self, kind: str, key: str) -> StreamName | None:
        row = await self._database.fetchrow(
            "SELECT stream_type, stream_id FROM claims WHERE kind = $1 AND key = $2", kind, key
        )
        return (row[0], row[1]) if row is not None else None


def _stored(row: Row) -> Stored:
    transaction_id, position, *rest = row
    return Stored(Mark(transaction_id, position), *rest)
