"""Composition for backups: taken from a database that may be serving, restored into an empty one."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from beamwright.adapters.backup_file import (
    BackupFileError,
    BackupReader,
    Manifest,
    check_all,
    check_chain,
    keep_private,
    new_backup,
    opened_backup,
)
from beamwright.adapters.postgres.attached import check_schema
from beamwright.adapters.postgres.backing_up import back_up
from beamwright.adapters.postgres.embedded import EmbeddedPostgres
from beamwright.adapters.postgres.migrate import EPOCHS, HEAD, RESTORING
from beamwright.adapters.postgres.restoring import NotVacantError, claim_vacant, restore
from beamwright.adapters.tokens.builtin import KEY_FILE
from beamwright.settings import Settings

from .maintenance import Built, NotPossibleError, in_sentences, read_models

# Told what is being done, how much of it is done, and how much there is.
type Progress = Callable[[str, int, int], None]


@contextmanager
def _in_sentences() -> Generator[None]:
    try:
        with in_sentences():
            yield
    except (BackupFileError, NotVacantError) as error:
        raise NotPossibleError(str(error)) from error


def make_backup(
    dsn: str, settings: Settings, path: Path, after: Path | None, issuer_key: bool, progress: Progress
) -> Manifest:
    """Write a backup of the database; it is there under its name when it is whole."""
    key = settings.data / KEY_FILE
    with _in_sentences():
        asyncio.run(check_schema(dsn))
    with _in_sentences(), new_backup(path) as file:
        if issuer_key and not key.exists():
            raise BackupFileError(f"There is no {KEY_FILE} in {settings.data}.")
        before = _manifest(after) if after is not None else None
        manifest = asyncio.run(back_up(dsn, file, settings.self_facility_code, progress, before))
        if issuer_key:
            file.issuer_key(key.read_bytes())
        file.finish(manifest, issuer_key=issuer_key)
        return manifest


def _manifest(path: Path) -> Manifest:
    with opened_backup(path) as backup:
        return backup.manifest


def restore_backup(paths: Sequence[Path], settings: Settings, progress: Progress) -> Manifest:
    """Check the backups, bring them into an empty installation, and build its lists."""
    with _in_sentences(), ExitStack() as stack:
        backups = [stack.enter_context(opened_backup(path)) for path in paths]
        check_chain(backups)
        manifest = backups[-1].manifest
        _check_schema(backups)
        check_all(backups, lambda done, total: progress("checking", done, total))
        _check_key(backups[-1], settings.data)
        with _vacant(settings) as dsn:
            asyncio.run(_restore(dsn, settings.data, backups, progress))
            asyncio.run(_build(dsn, progress))
        return manifest


def _check_schema(backups: Sequence[BackupReader]) -> None:
    for backup in backups:
        schema = backup.manifest.schema
        if not EPOCHS <= schema <= HEAD:
            raise BackupFileError(
                f"{backup.path} has schema {schema}, and this version of Beamwright knows {EPOCHS} to {HEAD}. "
                f"Restore it with {backup.manifest.made_by}, or a later version."
            )


def _check_key(backup: BackupReader, data: Path) -> None:
    key = data / KEY_FILE
    if backup.manifest.issuer_key and key.exists() and key.read_bytes() != backup.issuer_key():
        raise BackupFileError(
            f"{key} is another key than the one in the backup. Move it away, or choose another folder."
        )


@contextmanager
def _vacant(settings: Settings) -> Generator[str]:
    """The DSN of the given database, or of a new embedded one that runs as long as the restore does."""
    if settings.database_url is not None:
        yield settings.database_url
        return
    data = settings.data
    data.mkdir(parents=True, exist_ok=True)
    if not (data / "postgres").exists():
        (data / RESTORING).touch()
    embedded = EmbeddedPostgres(data)
    try:
        yield embedded.start()
    finally:
        embedded.stop()


async def _restore(dsn: str, data: Path, backups: Sequence[BackupReader], progress: Progress) -> None:
    connection = await claim_vacant(dsn)
    try:
        # From here on the database itself says that it is unfinished.
        (data / RESTORING).unlink(missing_ok=True)
        if backups[-1].manifest.issuer_key and not (data / KEY_FILE).exists():
            keep_private(data / KEY_FILE, backups[-1].issuer_key())
        await restore(connection, dsn, backups, progress)
    finally:
        await connection.close()


async def _build(dsn: str, progress: Progress) -> None:
    marks: dict[str, Built] = {}

    def told(built: Built) -> None:
        marks[built.name] = built
        done = sum(each.newest.position if each.serving else each.mark.position for each in marks.values())
        progress("lists", done, sum(each.newest.position for each in marks.values()))

    async with read_models(dsn) as lists:
        await lists.build(told)
