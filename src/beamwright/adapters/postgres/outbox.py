"""The outbox of identifier requests, and the bookmark of the reaction that fills it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from beamwright.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from beamwright.kernel.identifiers import PersistentIdentifierScheme
from beamwright.kernel.outbox import IdentifierRequest, OutboxPurpose, OutboxState
from beamwright.kernel.store import BEGINNING, Mark

from .database import Database
from .driver import Row
from .lists import Conditions

REACTION = ("identifier-minter", "1")

COLUMNS = """request_event_id, aggregate_type, aggregate_id, scheme, suffix, purpose, state, attempts,
    next_attempt_at, claimed_until, last_error, requested_at"""

# A refresh that nobody has begun yet will send this change as well.
ENQUEUE = """INSERT INTO identifier_outbox
    (request_event_id, aggregate_type, aggregate_id, scheme, suffix, purpose, next_attempt_at, requested_at)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE NOT ($6 = 'Refresh' AND EXISTS (
        SELECT FROM identifier_outbox o WHERE o.aggregate_type = $2 AND o.aggregate_id = $3
        AND o.purpose = 'Refresh' AND o.state = 'Pending' AND o.claimed_until IS NULL))
    ON CONFLICT DO NOTHING"""

# No serving list: that it waits for an agency must not make the service unready.
ADVANCE = """INSERT INTO projections (name, version, transaction_id, position) VALUES ($1, $2, $3, $4)
    ON CONFLICT (name, version) DO UPDATE SET transaction_id = excluded.transaction_id,
    position = excluded.position, updated_at = clock_timestamp()
    WHERE (projections.transaction_id, projections.position) < (excluded.transaction_id, excluded.position)"""

# A wait or a claim that is longer than any means that the clock was set back.
CLAIM = f"""UPDATE identifier_outbox SET claimed_until = $2, attempts = attempts + 1
    WHERE request_event_id = (SELECT request_event_id FROM identifier_outbox
        WHERE state = 'Pending' AND (next_attempt_at <= $1 OR next_attempt_at > $1::timestamptz + interval '2 hours')
        AND (claimed_until IS NULL OR claimed_until <= $1 OR claimed_until > $2::timestamptz + interval '5 minutes')
        ORDER BY next_attempt_at, request_event_id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING {COLUMNS}"""

COVER = """UPDATE identifier_outbox SET state = 'Done', claimed_until = NULL
    WHERE aggregate_type = $1 AND aggregate_id = $2 AND purpose = 'Refresh' AND state = 'Pending'
    AND request_event_id <> $3"""


class PostgresOutbox:
    """The rows of `identifier_outbox`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def bookmark(self) -> Mark:
        row = await self._database.fetchrow(
            "SELECT transaction_id, position FROM projections WHERE name = $1 AND version = $2", *REACTION
        )
        return Mark(*row) if row is not None else BEGINNING

    async def enqueue(self, requests: Sequence[IdentifierRequest], mark: Mark) -> None:
        async with self._database.connection() as connection, connection.transaction():
            for request in requests:
                await connection.execute(
                    ENQUEUE,
                    request.request_event_id,
                    request.aggregate,
                    request.id,
                    request.scheme,
                    request.suffix,
                    request.purpose,
                    request.next_attempt_at,
                    request.requested_at,
                )
            await connection.execute(ADVANCE, *REACTION, *mark)

    async def claim(self, now: datetime, until: datetime) -> IdentifierRequest | None:
        async with self._database.connection() as connection, connection.transaction():
            row = await connection.fetchrow(CLAIM, now, until)
            if row is None:
                return None
            request = _request(row)
            if request.purpose is OutboxPurpose.REFRESH:
                await connection.execute(COVER, request.aggregate, request.id, request.request_event_id)
            return request

    async def postpone(self, request: IdentifierRequest, next_attempt_at: datetime, error: str) -> None:
        await self._database.execute(
            "UPDATE identifier_outbox SET next_attempt_at = $3, last_error = $4, claimed_until = NULL "
            "WHERE request_event_id = $1 AND attempts = $2",
            request.request_event_id,
            request.attempts,
            next_attempt_at,
            error,
        )

    async def finish(self, request: IdentifierRequest, state: OutboxState, error: str | None = None) -> None:
        await self._database.execute(
            "UPDATE identifier_outbox SET state = $3, last_error = $4, claimed_until = NULL "
            "WHERE request_event_id = $1 AND attempts = $2",
            request.request_event_id,
            request.attempts,
            state,
            error,
        )

    async def page(self, request: Any) -> tuple[Sequence[IdentifierRequest], str | None]:
        query = Conditions()
        given = {"state": request.state, "aggregate_type": request.aggregate, "scheme": request.scheme}
        for column, value in given.items():
            if value is not None:
                query.add(f"{column} = {query.value(value)}")
        if request.cursor is not None:
            at, id = _place(request.cursor)
            query.add(f"(requested_at, request_event_id) < ({query.value(at)}, {query.value(id)})")
        rows = await self._database.fetch(
            f"SELECT {COLUMNS} FROM identifier_outbox {query.where()} "
            f"ORDER BY requested_at DESC, request_event_id DESC LIMIT {request.limit + 1}",
            *query.values,
        )
        found = [_request(row) for row in rows[: request.limit]]
        if len(rows) <= request.limit:
            return found, None
        last = found[-1]
        return found, encode_cursor([last.requested_at.isoformat(), str(last.request_event_id)])


def _request(row: Row) -> IdentifierRequest:
    return IdentifierRequest(
        request_event_id=row["request_event_id"],
        aggregate=row["aggregate_type"],
        id=row["aggregate_id"],
        scheme=PersistentIdentifierScheme(row["scheme"]),
        suffix=row["suffix"],
        purpose=OutboxPurpose(row["purpose"]),
        state=OutboxState(row["state"]),
        attempts=row["attempts"],
        next_attempt_at=row["next_attempt_at"],
        claimed_until=row["claimed_until"],
        last_error=row["last_error"],
        requested_at=row["requested_at"],
    )


def _place(cursor: str) -> tuple[datetime, UUID]:
    at, id = decode_cursor(cursor, 2)
    try:
        return datetime.fromisoformat(at), UUID(id)
    except ValueError:
        raise InvalidCursorError(
            "Use the next_cursor of a page of the same list, unchanged, or none."
        ) from None
