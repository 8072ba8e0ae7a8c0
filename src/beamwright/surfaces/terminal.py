"""What the commands share: common options, output, and how a command that cannot be done ends."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from beamwright.settings import Settings, UnsafeSettingsError, read_settings

if TYPE_CHECKING:
    from rich.console import Console

NOT_DONE, NOT_POSSIBLE = 1, 2

Data = Annotated[
    Path | None,
    typer.Option(help="Folder of the embedded database and the issuer's key.", show_default="DATA or ./data"),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(help="PostgreSQL to use instead of the embedded one.", show_default="DATABASE_URL"),
]


def settings_of(**given: Any) -> Settings:
    try:
        return read_settings(**given)
    except UnsafeSettingsError as error:
        fail(str(error))


def console(*, errors: bool = False) -> "Console":
    """Colours on a terminal only; elsewhere no line is broken at a width that nobody has."""
    from rich.console import Console

    stream = sys.stderr if errors else sys.stdout
    width = None if stream.isatty() else 240
    return Console(stderr=errors, width=width, markup=False, highlight=False, emoji=False)


def printable(text: str) -> str:
    """No character of a foreign text may steer the terminal."""
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)


def fail(sentence: str, code: int = NOT_POSSIBLE) -> NoReturn:
    typer.echo(printable(sentence), err=True)
    raise typer.Exit(code)
