"""Commands on the database itself: the derived lists, and the verification of the whole store."""

import asyncio
import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .terminal import (
    NOT_DONE,
    Data,
    DatabaseUrl,
    console,
    fail,
    printable,
    settings_of,
)

# As on the whole command line, what a command needs is imported by the command.
if TYPE_CHECKING:
    from rich.progress import Progress

    from beamwright.kernel.seams import Bookmark
    from beamwright.runtime.health import Backlog
    from beamwright.runtime.verification import Report

MOST_SHOWN = 20

projections = typer.Typer(help="Look after the lists that are derived from the log.", no_args_is_help=True)


@projections.command("list")
def list_projections(data: Data = None, database_url: DatabaseUrl = None) -> None:
    """Show every list, how far it has come, and what keeps it."""
    from rich.table import Table

    from beamwright.maintenance import read_models

    async def read(dsn: str) -> "tuple[Sequence[Bookmark], Backlog]":
        async with read_models(dsn) as lists:
            return await lists.standing()

    with opened(data, database_url) as dsn:
        bookmarks, backlog = asyncio.run(read(dsn))
    table = Table("list", "version", "state", "behind", "failures", "last error", box=None)
    for each in bookmarks:
        events, seconds = backlog.behind_events.get(each.name, 0), backlog.behind_seconds.get(each.name, 0.0)
        behind = f"{events} events, {seconds:.1f} s" if each.serving else f"at {each.mark.token()}"
        state = "serves" if each.serving else "is being built"
        error = printable(each.last_error or "")
        table.add_row(each.name, each.version, state, behind, str(each.failures), error)
    console().print(table)


@projections.command()
def rebuild(
    name: Annotated[str | None, typer.Argument(help="List to rebuild, such as zone.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Rebuild every list.")] = False,
    data: Data = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Build a list anew from the whole log, beside the one that serves, and swap them."""
    from beamwright.maintenance import Built, RebuildFailedError, read_models, registry

    known = [aggregate.snake for aggregate in registry().aggregates.values()]
    if all == (name is not None):
        fail("Name one list, or give --all.")
    if name is not None and name not in known:
        fail(f"There is no list {name}; there are {', '.join(known)}.")

    async def run(dsn: str, progress: "Progress") -> None:
        tasks = {each: progress.add_task(each) for each in ([name] if name else known)}

        def show(built: Built) -> None:
            total = max(built.newest.position, 1)
            done = total if built.serving else min(built.mark.position, total)
            progress.update(tasks[built.name], completed=done, total=total)

        async with read_models(dsn) as lists:
            await lists.rebuild(list(tasks), show)

    with opened(data, database_url) as dsn, progress_bars() as progress:
        try:
            asyncio.run(run(dsn, progress))
        except RebuildFailedError as error:
            fail(str(error), NOT_DONE)
    typer.echo(f"Rebuilt {name or 'every list'}.")


def verify(data: Data = None, database_url: DatabaseUrl = None) -> None:
    """Check the whole store against its log. Ends with 1 when something does not agree."""
    from beamwright.maintenance import verify_database

    with opened(data, database_url) as dsn, progress_bars() as progress:
        task = progress.add_task("events")

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=max(total, 1))

        report = asyncio.run(verify_database(dsn, show))
    show_report(report)
    if not report.clean:
        raise typer.Exit(NOT_DONE)


def show_report(report: "Report") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("check", "looked at", "found", box=None)
    for check, found in report.found.items():
        number = Text(str(found), style="red" if found else "green")
        table.add_row(check.value, str(report.looked_at[check]), number)
    out = console()
    out.print(table)
    for finding in report.findings[:MOST_SHOWN]:
        out.print(printable(f"{finding.subject}: {finding.detail}"), style="red")
    hidden = sum(report.found.values()) - min(len(report.findings), MOST_SHOWN)
    if hidden:
        out.print(f"and {hidden} more")
    out.print("All of it agrees." if report.clean else "The store does not agree with its log.", style="bold")


@contextmanager
def opened(data: Path | None, database_url: str | None) -> Generator[str]:
    """The DSN of the installation's database, which is started when no service runs it."""
    settings = settings_of(data=data, database_url=database_url)
    import structlog

    from beamwright.maintenance import NotPossibleError, database

    # The parts of the service that a command uses say what they do to whoever runs the service.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        with database(settings) as dsn:
            yield dsn
    except NotPossibleError as error:
        fail(str(error))


def progress_bars() -> "Progress":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    out = console(errors=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=out, transient=True, disable=not out.is_terminal)
