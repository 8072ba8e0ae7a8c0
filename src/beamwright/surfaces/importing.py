"""Commands on facility files: import one into a running service, and write one from it."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .maintaining import progress_bars
from .terminal import NOT_DONE, NOT_POSSIBLE, Data, console, fail, printable

# As on the whole command line, what a command needs is imported by the command.
if TYPE_CHECKING:
    from beamwright.importing.apply import Outcome
    from beamwright.importing.calls import Calls
    from beamwright.importing.plan import Plan

PENDING = 3
MOST_SHOWN = 20
STYLES = {"+": "green", "~": "yellow", "!": "red", "=": "dim"}

Url = Annotated[
    str | None,
    typer.Option(help="Address of the service.", show_default="BEAMWRIGHT_URL or http://HOST:PORT"),
]
Token = Annotated[
    str | None,
    typer.Option(
        help="Bearer token; for a local service it is minted where the issuer's key is at hand.",
        show_default="BEAMWRIGHT_TOKEN",
    ),
]

exports = typer.Typer(help="Write what the service has to a file.", no_args_is_help=True)


def import_facility(
    file: Annotated[Path | None, typer.Argument(help="Facility file in YAML.", show_default=False)] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of the file, and end.")
    ] = False,
    reason: Annotated[
        str | None, typer.Option(help="Why, for commands that ask.", show_default="Import of FILE")
    ] = None,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Bring a facility's equipment, enclosures and supplies in line with a file.

    What the file does not name is left alone, nothing is renamed, moved or taken out of use, and the same file
    may be imported any number of times: what is there already is not made again.

    Ends with 0 when all is done or nothing is to do, 1 when something was refused or is in conflict, 2 when the
    file is faulty or no service answers, and with --dry-run 3 when changes are pending.
    """
    from beamwright.importing.apply import apply

    from .calling import UnreachableError

    if schema:
        return print_schema()
    if file is None:
        fail("Name a facility file, or give --schema.")
    with calling(url, token, data) as calls:
        plan = planned(file, calls, reason or f"Import of {file.name}"[:500])
        if dry_run:
            return show_diff(plan)
        try:
            with progress_bars() as progress:
                task = progress.add_task("commands", total=max(len(plan.steps), 1))
                outcome = apply(plan, calls, lambda: progress.advance(task))
        except KeyboardInterrupt:
            fail("Interrupted. Import the same file again to do the rest.", NOT_DONE)
        except UnreachableError as error:
            fail(f"{error} Import the same file again to do the rest.")
    return show_outcome(file, plan, outcome)


@exports.command("facility")
def export_facility(
    facility: Annotated[str, typer.Option(help="Code of the facility.")],
    output: Annotated[
        Path | None, typer.Option(help="File to write.", show_default="standard output")
    ] = None,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Write a facility file from what the service has; importing it again changes nothing."""
    from beamwright.importing.export import export
    from beamwright.importing.live import Live

    with calling(url, token, data) as calls:
        live = Live(calls, facility)
        if live.facility is None:
            fail(f"There is no facility {facility}, or it is outside your reach.", NOT_DONE)
        exported = export(live)
    for note in exported.notes:
        typer.echo(printable(note), err=True)
    if output is None:
        sys.stdout.write(exported.text)
        return
    try:
        output.write_text(exported.text, encoding="utf-8")
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}.")


@contextmanager
def calling(url: str | None, token: str | None, data: Path | None) -> "Generator[Calls]":
    from beamwright.importing.calls import Calls

    from .cli import answering, client_of

    with answering():
        calls = Calls(client_of(url, token, data))
        try:
            yield calls
        finally:
            calls.close()


def planned(file: Path, calls: "Calls", reason: str) -> "Plan":
    """The plan, or everything that is wrong with the file, and then nothing is done."""
    from beamwright.importing.checking import read_source
    from beamwright.importing.document import MOST_BYTES, FaultyFileError
    from beamwright.importing.planning import make_plan

    try:
        with file.open("rb") as opened:
            # No more than shows that it is too much.
            content = opened.read(MOST_BYTES + 1)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}.")
    try:
        return make_plan(read_source(content), calls, reason)
    except FaultyFileError as error:
        lines = [fault.sentence(str(file)) for fault in error.faults[:MOST_SHOWN]]
        hidden = len(error.faults) - len(lines)
        fail("\n".join([*lines, *([f"and {hidden} more"] if hidden else [])]), NOT_POSSIBLE)


def print_schema() -> None:
    import msgspec

    from beamwright.importing.schema import schema

    typer.echo(msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode())


def show_diff(plan: "Plan") -> None:
    from beamwright.importing.report import diff, summary

    out = console()
    for sign, line in diff(plan):
        out.print(printable(line), style=STYLES[sign])
    out.print(summary(plan), style="bold")
    if plan.conflicts:
        raise typer.Exit(NOT_DONE)
    if plan.steps:
        raise typer.Exit(PENDING)


def show_outcome(file: Path, plan: "Plan", outcome: "Outcome") -> None:
    from beamwright.importing.report import counted, summary

    out = console()
    for conflict in plan.conflicts:
        subject = conflict.subject
        for sentence in conflict.details:
            out.print(
                printable(f"{file}:{subject.line}: {subject.kind} {subject.path}: {sentence}"), style="red"
            )
    for refusal in outcome.refusals[:MOST_SHOWN]:
        out.print(printable(f"{file}:{refusal.step.subject.line}: {refusal.sentence()}"), style="red")
    out.print(summary(plan))
    told = f"{counted(outcome.done, 'command')} carried out"
    if outcome.refusals or outcome.skipped:
        told += f", {len(outcome.refusals)} refused, {outcome.skipped} not tried"
    out.print(f"{told}.", style="bold")
    if plan.conflicts or outcome.refusals or outcome.skipped:
        raise typer.Exit(NOT_DONE)
