"""When the sources of observed objects were last heard: one row per object, beside the log."""

from collections.abc import Collection
from uuid import UUID

from beamwright.kernel.observing import (
    Contact,
    Contacts,
    MonitorRef,
    SourceForgotten,
    SourceHeard,
)

from .database import Database
from .driver import Connection

# Source times never run backwards here, whichever of two observations commits first.
HEARD = """INSERT INTO observer_contacts AS c
    (aggregate_type, aggregate_id, source_kind, source_id, connected, last_contact_at, last_observed_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET source_kind = excluded.source_kind,
    source_id = excluded.source_id, connected = excluded.connected, last_error = NULL,
    last_contact_at = coalesce(excluded.last_contact_at, c.last_contact_at),
    last_observed_at = CASE WHEN excluded.connected
        THEN greatest(c.last_observed_at, excluded.last_observed_at) END"""

LOST = """INSERT INTO observer_contacts (aggregate_type, aggregate_id, source_kind, source_id, connected, last_error)
    VALUES ($1, $2, $3, $4, false, $5)
    ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET source_kind = excluded.source_kind,
    source_id = excluded.source_id, connected = false, last_observed_at = NULL, last_error = excluded.last_error"""


async def write_contact(connection: Connection, record: SourceHeard | SourceForgotten) -> None:
    """Within the append of the observation, or of the assignment that replaces the source."""
    match record:
        case SourceHeard(monitor_ref=ref):
            await connection.execute(
                HEARD,
                record.aggregate,
                record.id,
                ref.source_kind,
                ref.source_id,
                record.connected,
                record.heard_at if record.connected else None,
                record.observed_at if record.connected else None,
            )
        case SourceForgotten():
            await connection.execute(
                "DELETE FROM observer_contacts WHERE aggregate_type = $1 AND aggregate_id = $2",
                record.aggregate,
                record.id,
            )


class PostgresContacts:
    """Reads the table, and writes what only an observer knows: that a source fell silent."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def contacts(self, aggregate: str, ids: Collection[UUID]) -> Contacts:
        if not ids:
            return {}
        rows = await self._database.fetch(
            "SELECT aggregate_id, connected, last_contact_at, last_observed_at, last_error "
            "FROM observer_contacts WHERE aggregate_type = $1 AND aggregate_id = ANY ($2::uuid[])",
            aggregate,
            list(ids),
        )
        return {
            row["aggregate_id"]: Contact(
                connected=row["connected"],
                last_contact_at=row["last_contact_at"],
                last_observed_at=row["last_observed_at"],
                last_error=row["last_error"],
            )
            for row in rows
        }

    async def lost(self, aggregate: str, id: UUID, ref: MonitorRef, error: str) -> None:
        await self._database.execute(LOST, aggregate, id, ref.source_kind, ref.source_id, error[:500])
