"""Erasable texts: the words that events refer to by fingerprint."""

from collections.abc import Collection, Mapping
from uuid import UUID

from beamwright.kernel.erasable import ErasedText, WrittenText

from .database import Database
from .driver import Connection


async def write_text(connection: Connection, record: WrittenText | ErasedText) -> None:
    """Within the append of the event that brings the words, or of the one that takes them away."""
    match record:
        case WrittenText():
            await connection.execute(
                "INSERT INTO erasable_texts (text_id, body) VALUES ($1, $2)", record.text_id, record.body
            )
        case ErasedText():
            # Blanked before it is deleted, so that no old row version with content outlives the transaction.
            await connection.execute("UPDATE erasable_texts SET body = '' WHERE text_id = $1", record.text_id)
            await connection.execute("DELETE FROM erasable_texts WHERE text_id = $1", record.text_id)


class PostgresTexts:
    """Reads the table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def texts(self, ids: Collection[UUID]) -> Mapping[UUID, str]:
        if not ids:
            return {}
        rows = await self._database.fetch(
            "SELECT text_id, body FROM erasable_texts WHERE text_id = ANY ($1::uuid[])", list(ids)
        )
        return {row["text_id"]: row["body"] for row in rows}
