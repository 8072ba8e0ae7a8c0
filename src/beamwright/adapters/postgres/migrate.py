"""Brings the database to today's schema: alembic revisions, run at start under a lock."""

from io import StringIO
from pathlib import Path

import structlog

from .driver import Connection, connect
from .migrations.statements import DIRECTORY

log = structlog.get_logger("beamwright.database")

HEAD = "0006"
# The first revision that knows epochs.
EPOCHS = "0004"
# Stands in a folder until the database in it can say for itself that it is being restored.
RESTORING = "restore.unfinished"
_LOCK = 7231990000000000000


class UnfinishedRestoreError(RuntimeError):
    """A restore into this database was begun and did not come to its end."""

    def __init__(self) -> None:
        super().__init__(
            "A restore into this database did not finish, so there is nothing in it yet. Run `beamwright restore` "
            "again, or delete the database and begin anew."
        )


async def migrate(dsn: str, to: str = HEAD, *, restoring: bool = False) -> bool:
    """Run what is missing; true when something was. Only a restore may go on with an unfinished one."""
    connection = await connect(dsn)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
        if not restoring:
            await check_finished(connection)
        revision = await current_revision(connection)
        if revision != to:
            await connection.execute(_script(revision, to))
        if to >= EPOCHS and not restoring:
            await _settle(connection)
        return revision != to
    finally:
        await connection.close()


def check_folder(data: Path) -> None:
    """Refuse a folder in which a restore did not come as far as a database."""
    if (data / RESTORING).exists():
        raise UnfinishedRestoreError


async def check_finished(connection: Connection) -> None:
    if await connection.fetchval("SELECT to_regclass('restore_unfinished')") is not None:
        raise UnfinishedRestoreError


async def current_revision(connection: Connection) -> str | None:
    if await connection.fetchval("SELECT to_regclass('alembic_version')") is None:
        return None
    return await connection.fetchval("SELECT version_num FROM alembic_version")


async def _settle(connection: Connection) -> None:
    """A log that finds itself in another cluster, or in another history of it, begins a new epoch there."""
    moved = await connection.fetchval(
        "SELECT cluster <> log_cluster() FROM log_epochs ORDER BY first_transaction_id DESC LIMIT 1"
    )
    if moved:
        await connection.execute("SELECT begin_log_epoch()")
        log.warning("log_moved", why="the log was written in another cluster; a new epoch begins")


def _script(revision: str | None, to: str) -> str:
    """The SQL from one revision to another. Alembic is imported only here: it is slow to load."""
    from alembic import command
    from alembic.config import Config

    script = StringIO()
    config = Config(output_buffer=script)
    config.set_main_option("script_location", str(DIRECTORY))
    command.upgrade(config, f"{revision}:{to}" if revision else to, sql=True)
    return script.getvalue()
