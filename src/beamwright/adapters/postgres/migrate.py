"""Brings the database to today's schema: alembic revisions, run at start under a lock."""

from io import StringIO

from .driver import Connection, connect
from .migrations.statements import DIRECTORY

HEAD = "0003"
_LOCK = 7231990000000000000


async def migrate(dsn: str) -> bool:
    """Run what is missing; true when something was."""
    connection = await connect(dsn)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
        revision = await current_revision(connection)
        if revision != HEAD:
            await connection.execute(_script(revision))
        return revision != HEAD
    finally:
        await connection.close()


async def current_revision(connection: Connection) -> str | None:
    if await connection.fetchval("SELECT to_regclass('alembic_version')") is None:
        return None
    return await connection.fetchval("SELECT version_num FROM alembic_version")


def _script(revision: str | None) -> str:
    """The SQL from `revision` to the head. Alembic is imported only here: it is slow to load."""
    from alembic import command
    from alembic.config import Config

    script = StringIO()
    config = Config(output_buffer=script)
    config.set_main_option("script_location", str(DIRECTORY))
    command.upgrade(config, f"{revision}:head" if revision else "head", sql=True)
    return script.getvalue()
