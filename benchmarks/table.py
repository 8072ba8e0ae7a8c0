"""The printed table: what was measured, against what in the same run, and the aim."""

from typing import NamedTuple

from rich.console import Console
from rich.table import Table


class Figure(NamedTuple):
    """One line of the table."""

    what: str
    got: str
    against: str = "-"
    ratio: str = "-"
    aim: str = "-"
    met: bool | None = None


def show(title: str, figures: list[Figure]) -> None:
    table = Table(title=title, title_justify="left", show_lines=False)
    for heading in ("figure", "measured", "in the same run", "ratio", "aim", ""):
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    for figure in figures:
        mark = {True: "[green]met[/]", False: "[red]below[/]", None: ""}[figure.met]
        table.add_row(*figure[:5], mark)
    Console(width=150).print(table)


def rate(value: float) -> str:
    return f"{value:,.0f}/s"


def milliseconds(value: float) -> str:
    return f"{value * 1000:.2f} ms"


def difference(value: float) -> str:
    return f"{value * 1000:+.2f} ms"
