"""Commands that take a backup and bring it back."""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .maintaining import opened, progress_bars
from .terminal import Data, DatabaseUrl, fail, settings_of

if TYPE_CHECKING:
    from rich.progress import TaskID

type Told = Callable[[str, int, int], None]


def backup(
    file: Annotated[Path, typer.Argument(help="File to write; it must not exist.", dir_okay=False)],
    after: Annotated[
        Path | None,
        typer.Option(help="Earlier backup to continue: of the log only what came since is written."),
    ] = None,
    issuer_key: Annotated[
        bool,
        typer.Option(
            "--issuer-key",
            help="Include the built-in issuer's key, so that bearer tokens given out before stay valid.",
        ),
    ] = False,
    data: Data = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Write everything of record into one file, also while the service runs. Keep it safe: it names people."""
    settings = settings_of(data=data, database_url=database_url)
    from beamwright.maintenance import NotPossibleError
    from beamwright.preservation import make_backup

    with opened(data, database_url) as dsn, bars() as told:
        try:
            made = make_backup(dsn, settings, file, after, issuer_key, told)
        except NotPossibleError as error:
            fail(str(error))
    rows = {part.name: part.rows for part in made.parts}
    typer.echo(f"{file}: {rows['events']} events, {sum(rows.values()) - rows['events']} rows beside the log.")


def restore(
    files: Annotated[
        list[Path], typer.Argument(help="A backup, and those that continue it, in their order.")
    ],
    data: Data = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Bring a backup back into a new folder or an empty database. Nothing is overwritten."""
    settings = settings_of(data=data, database_url=database_url)
    import structlog

    from beamwright.maintenance import NotPossibleError, RebuildFailedError
    from beamwright.preservation import restore_backup

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with bars() as told:
        try:
            manifest = restore_backup(files, settings, told)
        except NotPossibleError as error:
            fail(str(error))
        except RebuildFailedError as error:
            fail(f"The record is restored. {error} Mend it with `beamwright projections rebuild`.")
    taken = manifest.taken_at.strftime("%Y-%m-%d %H:%M:%S")
    typer.echo(f"Restored what the service held at {taken} UTC. Start it with `beamwright serve`.")
    if not manifest.issuer_key and settings.issuer_active:
        typer.echo("The issuer's key was not in the backup: mint new bearer tokens with `beamwright token`.")
    if manifest.facility != settings.self_facility_code:
        typer.echo(
            f"The backup is of another facility: set SELF_FACILITY_CODE={manifest.facility}.", err=True
        )


@contextmanager
def bars() -> Generator[Told]:
    """One bar for each thing that is being done, shown when it begins."""
    with progress_bars() as progress:
        tasks: dict[str, TaskID] = {}

        def told(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what)
            progress.update(tasks[what], completed=done, total=max(total, done, 1))

        yield told
