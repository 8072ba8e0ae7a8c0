"""The outbox of statements for peers, and the bookmark of the reader that fills it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from beamwright.kernel.delivery import Delivery, DeliveryRequest, StatementKind
from beamwright.kernel.outbox import OutboxState
from beamwright.kernel.store import BEGINNING, Mark

from .database import Database
from .driver import Row
from .outbox import ADVANCE
from .positions import VERSION

READER = ("federation-delivery", VERSION)

COLUMNS = """statement_id, peer_facility_id, kind, stream_id, version, ledger_number, attempts, next_attempt_at,
    requested_at"""

ENQUEUE = f"""INSERT INTO federation_outbox ({COLUMNS})
    VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $8) ON CONFLICT DO NOTHING"""

# Of pointers only the latest matters.
REPLACE = """DELETE FROM federation_outbox
    WHERE kind = 'SealPointer' AND peer_facility_id = $1 AND stream_id = $2 AND version < $3"""

COVER = """UPDATE federation_outbox SET next_attempt_at = $2
    WHERE state = 'Pending' AND attempts = 0 AND ledger_number <= $1 AND next_attempt_at > $2"""

# A wait or a claim that is longer than any means that the clock was set back.
CLAIM = f"""UPDATE federation_outbox SET claimed_until = $2, attempts = attempts + 1
    WHERE (statement_id, peer_facility_id) = (SELECT statement_id, peer_facility_id FROM federation_outbox
        WHERE state = 'Pending' AND (next_attempt_at <= $1 OR next_attempt_at > $1::timestamptz + interval '2 hours')
        AND (claimed_until IS NULL OR claimed_until <= $1 OR claimed_until > $2::timestamptz + interval '5 minutes')
        ORDER BY array_position(ARRAY['SealKey', 'SealPointer', 'Artifact'], kind), requested_at, version,
            statement_id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING {COLUMNS}"""

THIS_ATTEMPT = "WHERE statement_id = $1 AND peer_facility_id = $2 AND attempts = $3"


class PostgresDeliveries:
    """The rows of `federation_outbox`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def bookmark(self) -> Mark:
        row = await self._database.fetchrow(
            "SELECT transaction_id, position FROM projections WHERE name = $1 AND version = $2", *READER
        )
        return Mark(*row) if row is not None else BEGINNING

    async def enqueue(
        self, requests: Sequence[DeliveryRequest], covered: int, now: datetime, mark: Mark
    ) -> None:
        async with self._database.connection() as connection, connection.transaction():
            for request in requests:
                await connection.execute(
                    ENQUEUE,
                    request.statement_id,
                    request.peer_facility_id,
                    request.kind,
                    request.stream_id,
                    request.version,
                    request.ledger_number,
                    request.next_attempt_at,
                    request.requested_at,
                )
                if request.kind is StatementKind.SEAL_POINTER:
                    await connection.execute(
                        REPLACE, request.peer_facility_id, request.stream_id, request.version
                    )
            if covered:
                await connection.execute(COVER, covered, now)
            await connection.execute(ADVANCE, *READER, *mark)

    async def claim(self, now: datetime, until: datetime) -> DeliveryRequest | None:
        row = await self._database.fetchrow(CLAIM, now, until)
        return None if row is None else _request(row)

    async def postpone(self, request: DeliveryRequest, next_attempt_at: datetime, error: str) -> None:
        await self._database.execute(
            f"UPDATE federation_outbox SET next_attempt_at = $4, last_error = $5, claimed_until = NULL {THIS_ATTEMPT}",
            request.statement_id,
            request.peer_facility_id,
            request.attempts,
            next_attempt_at,
            error,
        )

    async def finish(
        self, request: DeliveryRequest, state: OutboxState, now: datetime, error: str | None = None
    ) -> None:
        await self._database.execute(
            "UPDATE federation_outbox SET state = $4, last_error = $5, delivered_at = $6, claimed_until = NULL "
            + THIS_ATTEMPT,
            request.statement_id,
            request.peer_facility_id,
            request.attempts,
            state,
            error,
            now if state is OutboxState.DONE else None,
        )

    async def of(self, statement_ids: Collection[UUID]) -> Mapping[UUID, Delivery]:
        rows = await self._database.fetch(
            "SELECT statement_id, state, attempts, last_error, delivered_at FROM federation_outbox "
            "WHERE statement_id = ANY($1::uuid[]) AND kind = 'Artifact'",
            list(statement_ids),
        )
        return {
            row["statement_id"]: Delivery(
                state=OutboxState(row["state"]),
                attempts=row["attempts"],
                last_error=row["last_error"],
                delivered_at=row["delivered_at"],
            )
            for row in rows
        }


def _request(row: Row) -> DeliveryRequest:
    return DeliveryRequest(
        statement_id=row["statement_id"],
        peer_facility_id=row["peer_facility_id"],
        kind=StatementKind(row["kind"]),
        stream_id=row["stream_id"],
        version=row["version"],
        ledger_number=row["ledger_number"],
        attempts=row["attempts"],
        next_attempt_at=row["next_attempt_at"],
        requested_at=row["requested_at"],
    )
