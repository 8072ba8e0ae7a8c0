"""A backup: every kept table as it was in one snapshot, streamed into a file while the service runs."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

from beamwright import __version__
from beamwright.adapters.backup_file import FORMAT, VERSION, BackupFileError, BackupWriter, Manifest

from .database import ROLE
from .driver import Connection, connect
from .kept_tables import EVENTS, KEPT, Kept
from .migrate import current_revision

SERVER_SETTINGS = {
    "role": ROLE,
    "application_name": "beamwright backup",
    "default_transaction_read_only": "on",
    "beamwright.profiles": "open",
    "jit": "off",
}

COLUMNS = """SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0
    AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"""

# The planner's estimate: counting would read the whole table once more.
ABOUT = """SELECT coalesce(sum(greatest(reltuples, 0)), 0)::bigint FROM pg_class
    WHERE oid = $1::text::regclass OR oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = $1::text::regclass)"""

# Where the log of this snapshot ends. A transaction under way may have a number below that end.
END = """WITH newest AS (SELECT transaction_id, position, event_id FROM events
        ORDER BY events.transaction_id DESC, events.position DESC LIMIT 1),
    under_way AS (SELECT (xid::text::bigint + log_horizon()::text::bigint
            - pg_snapshot_xmin(pg_current_snapshot())::text::bigint) AS id
        FROM pg_snapshot_xip(pg_current_snapshot()) AS xid)
    SELECT transaction_id::text::bigint, position, event_id,
        ARRAY(SELECT id FROM under_way WHERE id < transaction_id::text::bigint ORDER BY id) FROM newest"""

NOTHING = (0, 0, None, ())

HOLDS = "SELECT EXISTS (SELECT FROM events WHERE position = $1 AND event_id = $2)"

# Told which table, how many of its rows are written, and about how many there are.
type Progress = Callable[[str, int, int], None]


async def back_up(
    dsn: str, file: BackupWriter, facility: str, progress: Progress, before: Manifest | None = None
) -> Manifest:
    """Write everything of record; with an earlier backup only the events that it does not hold."""
    connection = await connect(dsn, server_settings=SERVER_SETTINGS)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            taken_at = datetime.now(UTC)
            schema = await current_revision(connection) or ""
            if before is not None:
                await _check_continued(connection, before, schema)
            end = await connection.fetchrow(END)
            transaction_id, position, event_id, unfinished = end if end is not None else NOTHING
            for table in KEPT:
                await _copy(connection, table, file, progress, before)
            return Manifest(
                format=FORMAT,
                version=VERSION,
                backup_id=uuid4(),
                after=before.backup_id if before is not None else None,
                made_by=f"beamwright {__version__}",
                schema=schema,
                facility=facility,
                taken_at=taken_at,
                last_transaction_id=transaction_id,
                last_position=position,
                last_event_id=event_id,
                unfinished=tuple(unfinished),
                parts=tuple(file.parts),
                issuer_key=False,
            )
    finally:
        await connection.close()


async def _check_continued(connection: Connection, before: Manifest, schema: str) -> None:
    if before.schema != schema:
        raise BackupFileError(
            f"The earlier backup has schema {before.schema} and the database {schema}. Make a whole one."
        )
    if before.last_event_id is not None and not await connection.fetchval(
        HOLDS, before.last_position, before.last_event_id
    ):
        raise BackupFileError("The earlier backup is not of this log. Make a whole one.")


async def _copy(
    connection: Connection, table: Kept, file: BackupWriter, progress: Progress, before: Manifest | None
) -> None:
    columns = tuple(row[0] for row in await connection.fetch(COLUMNS, table.name))
    about = await connection.fetchval(ABOUT, table.name)
    where = _since(before) if table.name == EVENTS and before is not None else table.where
    names = ", ".join(f'"{column}"' for column in columns)
    with file.part(table.name) as part:

        async def write(chunk: bytes) -> None:
            await part.write(chunk)
            progress(table.name, part.rows, about)

        query = f'SELECT {names} FROM "{table.name}" WHERE {where}'
        await connection.copy_from_query(query, output=write, format="text")
        progress(table.name, part.rows, max(part.rows, 1))
    file.note(table.name, columns, part)


def _since(before: Manifest) -> str:
    """What came after the end of the earlier backup, or was under way when it was taken."""
    unfinished = ", ".join(f"'{id}'" for id in before.unfinished)
    return (
        f"(transaction_id, position) > ('{before.last_transaction_id}'::xid8, {before.last_position}) "
        f"OR transaction_id = ANY (ARRAY[{unfinished}]::xid8[])"
    )
