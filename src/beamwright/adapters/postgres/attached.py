"""The database of a command that runs beside the service, or without it."""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from .driver import connect
from .embedded import PORT, ROLE, EmbeddedPostgres, EmbeddedPostgresError
from .migrate import HEAD, check_finished, current_revision

PATIENCE = 30.0


class SchemaError(RuntimeError):
    """The database does not have today's schema."""


@contextmanager
def attached(data: Path, database_url: str | None) -> Generator[str]:
    """The DSN of the given database, of the running service's, or of one that runs as long as the command does."""
    if database_url is not None:
        yield database_url
        return
    if not (data / "postgres" / "PG_VERSION").exists():
        raise EmbeddedPostgresError(
            f"There is no database in {data}. Name another folder, or start the service."
        )
    if in_use(data):
        yield running(data)
        return
    embedded = EmbeddedPostgres(data)
    try:
        yield embedded.start()
    finally:
        embedded.stop()


def in_use(data: Path) -> bool:
    """Whether a service, or another command, has locked the data folder."""
    folder = os.open(data, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(folder)
    return False


def running(data: Path) -> str:
    """The DSN of the server that somebody else runs there; it may be starting yet."""
    cluster = data.resolve() / "postgres"
    if not data.is_dir() or not in_use(data):
        raise EmbeddedPostgresError(f"No service runs on {data}. Start it, or give DATABASE_URL.")
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            lines = os.fsdecode((cluster / "postmaster.pid").read_bytes()).splitlines()
        except FileNotFoundError:
            lines = []
        if len(lines) > 7 and lines[7].strip() == "ready":
            return f"postgresql://{ROLE}@/postgres?host={quote(lines[4], safe='')}&port={PORT}"
        time.sleep(0.05)
    raise EmbeddedPostgresError(f"{cluster.parent} is in use, but its database does not come up.")


async def check_schema(dsn: str) -> None:
    """Refuse a database that the service has not brought to today's schema."""
    connection = await connect(dsn)
    try:
        await check_finished(connection)
        revision = await current_revision(connection)
    finally:
        await connection.close()
    if revision is None:
        raise SchemaError("This database is not Beamwright's yet. Start the service once.")
    if revision != HEAD:
        raise SchemaError(
            f"The database is at schema {revision}, and this version of Beamwright needs {HEAD}. "
            "Start the service of this version once."
        )
