"""`make bench-curves`: measures the scaling curves, draws them and writes them into the document."""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psutil

from beamwright.kernel.value import Value
from benchmarks import scaling
from benchmarks.installation import Installation, installation, quiet
from benchmarks.pages import rewrite, table
from benchmarks.plots import Chart, svg
from benchmarks.scaling import QUICK, Sizes

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "performance.md"
FOLDER = "curves"

type Measure = Callable[[Installation, Sizes, Callable[[str], None]], list[Chart]]

CURVES: dict[str, Measure] = {
    "clients": lambda place, sizes, note: scaling.clients(place, sizes),
    "streams": lambda place, sizes, note: scaling.streams(place, sizes),
    "lists": lambda place, sizes, note: scaling.lists(place, sizes),
    "logs": scaling.logs,
}


class Curve(Value):
    """What one run measured of one curve."""

    measured: str
    machine: str
    charts: list[Chart]
    notes: list[str] = []


type Figures = dict[str, Curve]


def measure(name: str, sizes: Sizes) -> Curve:
    notes: list[str] = []
    began = time.perf_counter()
    with installation() as place:
        charts = CURVES[name](place, sizes, notes.append)
    print(f"{name}: {time.perf_counter() - began:.0f} s", *notes, sep="\n  ", flush=True)
    return Curve(measured=today(), machine=machine(), charts=charts, notes=notes)


def today() -> str:
    return f"{datetime.now(UTC):%d %B %Y}".lstrip("0")


def machine() -> str:
    memory = round(psutil.virtual_memory().total / 2**30)
    python = ".".join(platform.python_version_tuple()[:2])
    return f"{os.cpu_count()} cores ({platform.machine()}), {memory} GiB, Python {python}, the embedded PostgreSQL"


def kept(page: Path) -> Figures:
    """The figures that the page shows."""
    file = page.parent / FOLDER / "figures.json"
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Curve]) if file.exists() else {}


def write(figures: Figures, page: Path) -> None:
    """The pictures, the figures, and the sections of the page."""
    folder = page.parent / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    encoded = msgspec.json.format(msgspec.json.encode(figures), indent=1)
    (folder / "figures.json").write_bytes(encoded + b"\n")
    for chart in (chart for curve in figures.values() for chart in curve.charts):
        (folder / f"{chart.name}.svg").write_text(svg(chart))
    rewrite(page, {name: section(curve) for name, curve in figures.items()})


def section(curve: Curve) -> str:
    told = f"Measured on {curve.measured}: {curve.machine}. {' '.join(curve.notes)}"
    return "\n\n".join([told.strip(), *map(shown, curve.charts)])


def shown(chart: Chart) -> str:
    xs = sorted({x for series in chart.series for x, _ in series.points})
    rows: list[list[str]] = []
    for x in xs:
        got = [dict(series.points).get(x) for series in chart.series]
        rows.append([f"{x:,.0f}", *("-" if y is None else figure(y) for y in got)])
    headings = [chart.x, *(f"{series.name} ({chart.y})" for series in chart.series)]
    return f"![{chart.title}]({FOLDER}/{chart.name}.svg)\n\n{table(headings, rows)}"


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    quiet()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--redraw", action="store_true", help="draw the kept figures again, measure nothing")
    parser.add_argument("--only", default=",".join(CURVES), help="curves to measure")
    parser.add_argument("--page", type=Path, default=PAGE, help="document to write into")
    given = parser.parse_args()
    if given.quick and given.page == PAGE:
        sys.exit("Small sizes do not go into the document: give a copy of it with --page.")
    figures = kept(given.page)
    wanted: list[str] = [] if given.redraw else given.only.split(",")
    for name in wanted:
        figures[name] = measure(name, QUICK if given.quick else Sizes())
        write(figures, given.page)
    write(figures, given.page)


if __name__ == "__main__":
    main()
