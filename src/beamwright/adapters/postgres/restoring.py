"""A restore: backups into an empty database, in one transaction, and a new epoch of the log."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from beamwright.adapters.backup_file import BackupReader, Part, damaged

from .driver import Connection, connect
from .kept_tables import EVENTS, KEPT
from .migrate import HEAD, migrate

SERVER_SETTINGS = {"application_name": "beamwright restore", "beamwright.profiles": "open", "jit": "off"}
_LOCK = 7231990000000000002

# Personal data is behind row security, which COPY does not pass; the summaries of channels come along, so that
# summing up all observations once more would be in vain.
PREPARE = """
    ALTER TABLE actor_profile NO FORCE ROW LEVEL SECURITY;
    ALTER TABLE actor_identity NO FORCE ROW LEVEL SECURITY;
    ALTER TABLE entries_run_observations DISABLE TRIGGER entries_run_observations_summary;
    SELECT keep_verdict_months(clock_timestamp(), interval '100 years');
"""

CONCLUDE = """
    ALTER TABLE entries_run_observations ENABLE TRIGGER entries_run_observations_summary;
    ALTER TABLE actor_identity FORCE ROW LEVEL SECURITY;
    ALTER TABLE actor_profile FORCE ROW LEVEL SECURITY;
    DROP TABLE restore_unfinished;
"""

NUMBERED = "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attidentity <> ''"

# Whatever the log says was erased stays so, whichever copy of the rows beside it came along.
FORGET = """
    DELETE FROM actor_profile p USING events e WHERE e.stream_type = 'Actor' AND e.stream_id = p.actor_id
        AND e.event_type = 'ActorProfileForgotten';
    DELETE FROM actor_identity i USING events e WHERE e.stream_type = 'Actor' AND e.stream_id = i.actor_id
        AND (e.event_type = 'ActorProfileForgotten' OR e.event_type = 'ActorIdentityUnlinked'
            AND e.payload ->> 'identity_id' = i.identity_id::text);
    DELETE FROM erasable_texts t USING events w, events r
        WHERE w.event_type = 'RunLogbookEntryAppended' AND w.payload -> 'text' ->> 'text_id' = t.text_id::text
        AND r.event_type = 'RunLogbookEntryRedacted' AND r.stream_type = w.stream_type
        AND r.stream_id = w.stream_id AND r.payload ->> 'entry_id' = w.payload ->> 'entry_id';
"""

# Told which table, how many of its rows are written, and how many there are.
type Progress = Callable[[str, int, int], None]


class NotVacantError(RuntimeError):
    """There is something in the database already."""


async def claim_vacant(dsn: str) -> Connection:
    """Mark an empty database as one that is being restored into; nobody else may, as long as we are connected."""
    connection = await connect(dsn, server_settings=SERVER_SETTINGS)
    try:
        if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):
            raise NotVacantError("Another restore into this database is running.")
        if await connection.fetchval("SELECT to_regclass('restore_unfinished')") is None:
            await _check_empty(connection)
            await connection.execute("CREATE TABLE restore_unfinished AS SELECT clock_timestamp() AS since")
    except BaseException:
        await connection.close()
        raise
    return connection


async def _check_empty(connection: Connection) -> None:
    if await connection.fetchval("SELECT to_regclass('events') IS NOT NULL"):
        raise NotVacantError(
            "There is an installation in this database already. A restore overwrites nothing: give an empty "
            "database or a new folder."
        )


async def restore(
    connection: Connection, dsn: str, backups: Sequence[BackupReader], progress: Progress
) -> None:
    """Bring back what the backups hold: all of it, or nothing. They were checked, and each continues the last."""
    last = backups[-1]
    await migrate(dsn, last.manifest.schema, restoring=True)
    async with connection.transaction():
        await connection.execute(PREPARE)
        for table in KEPT:
            sources = backups if table.name == EVENTS else [last]
            await _load(connection, table.name, sources, progress)
        await connection.execute("ANALYZE events")
        await connection.execute(FORGET)
        await connection.execute(CONCLUDE)
        unfinished = [str(id) for id in last.manifest.unfinished]
        await connection.execute("SELECT begin_log_epoch($1::text[]::xid8[])", unfinished)
    if last.manifest.schema != HEAD:
        await migrate(dsn)
    # Erased rows leave the files as well, and the planner learns what came.
    await connection.execute(f"VACUUM (ANALYZE) {', '.join(table.name for table in KEPT)}")


async def _load(
    connection: Connection, table: str, sources: Sequence[BackupReader], progress: Progress
) -> None:
    parts = [(source, part) for source in sources if (part := source.part(table)) is not None]
    total, done = sum(part.rows for _, part in parts), 0
    if parts and table != EVENTS:
        # Some tables begin with a row of their own.
        await connection.execute(f'DELETE FROM "{table}"')
    for source, part in parts:

        def told(rows: int, before: int = done) -> None:
            progress(table, before + rows, total)

        written = await connection.copy_to_table(
            table, source=_rows(source.chunks(table), told), columns=part.columns, format="text"
        )
        _check_rows(source, part, written)
        done += part.rows
    if parts:
        await _go_on_counting(connection, table)
    progress(table, total, total)


async def _go_on_counting(connection: Connection, table: str) -> None:
    """Numbers that the table gives out follow the last one that came."""
    for row in await connection.fetch(NUMBERED, table):
        last = f'(SELECT max("{row[0]}") FROM "{table}")'
        await connection.execute(f"SELECT setval(pg_get_serial_sequence('{table}', '{row[0]}'), {last})")


async def _rows(chunks: Iterator[bytes], told: Callable[[int], None]) -> AsyncIterator[bytes]:
    rows = 0
    for chunk in chunks:
        yield chunk
        rows += chunk.count(b"\n")
        told(rows)


def _check_rows(source: BackupReader, part: Part, written: str) -> None:
    if written != f"COPY {part.rows}":
        raise damaged(source.path, f"{part.name} should have {part.rows} rows ({written})")
