"""Line charts as SVG, written by hand: legible in light and dark, and no library to install."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Literal

from beamwright.kernel.value import Value

type Side = Literal["service", "bare"]

WIDTH, PLOT_HEIGHT = 760, 270
LEFT, RIGHT, BOTTOM = 76, 24, 54
EDGE = 20
LEGEND_TOP, LEGEND_ROW, LEGEND_COLUMNS = 48, 19, 2

# The panel changes with the ink, so that a page of either colour shows it as it is meant.
STYLE = """
  .panel { fill: #ffffff; stroke: #d0d7de }
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 16px; font-weight: 600 }
  .grid { stroke: #d8dee4; stroke-width: 1 }
  .line { fill: none; stroke-width: 2.5; stroke-linejoin: round }
  .bare { stroke-dasharray: 7 5 }
  .c0 { stroke: #0550ae } .c1 { stroke: #bc4c00 } .c2 { stroke: #1a7f37 } .c3 { stroke: #6e7781 } .c4 { stroke: #8250df }
  .d0 { fill: #0550ae } .d1 { fill: #bc4c00 } .d2 { fill: #1a7f37 } .d3 { fill: #6e7781 } .d4 { fill: #8250df }
  @media (prefers-color-scheme: dark) {
    .panel { fill: #0d1117; stroke: #3d444d }
    text { fill: #e6edf3 }
    .grid { stroke: #30363d }
    .c0 { stroke: #79c0ff } .c1 { stroke: #ffa657 } .c2 { stroke: #56d364 } .c3 { stroke: #9198a1 } .c4 { stroke: #d2a8ff }
    .d0 { fill: #79c0ff } .d1 { fill: #ffa657 } .d2 { fill: #56d364 } .d3 { fill: #9198a1 } .d4 { fill: #d2a8ff }
  }
"""


class Series(Value):
    """One line: what was measured at each x."""

    name: str
    side: Side
    points: list[tuple[float, float]]


class Chart(Value):
    """One picture; both axes are logarithmic."""

    name: str
    title: str
    x: str
    y: str
    series: list[Series]


class Scale:
    """Places values on a stretch of the picture, by their logarithm."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low, self._span = math.log10(low), math.log10(high) - math.log10(low) or 1.0
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        return round(self.start + (math.log10(value) - self._low) / self._span * (self.end - self.start), 1)


def svg(chart: Chart) -> str:
    """The picture as the text of an SVG file."""
    xs = sorted({x for series in chart.series for x, _ in series.points})
    ys = ticks([y for series in chart.series for _, y in series.points])
    rows = math.ceil(len(chart.series) / LEGEND_COLUMNS)
    top = LEGEND_TOP + rows * LEGEND_ROW + 32
    height = top + PLOT_HEIGHT + BOTTOM
    across = Scale(xs[0], xs[-1], LEFT + 12, WIDTH - RIGHT - 12)
    up = Scale(ys[0], ys[-1], height - BOTTOM, top)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-labelledby="title">',
        f'<title id="title">{escape(chart.title)}</title>',
        f"<style>{STYLE}</style>",
        f'<rect class="panel" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        _text(EDGE, 28, chart.title, "start", "title"),
        *_legend(chart.series),
        *_grid(xs, ys, across, up),
        _text((LEFT + WIDTH - RIGHT) / 2, height - 12, chart.x, "middle"),
        _text(EDGE, top - 14, chart.y, "start"),
    ]
    for number, series in enumerate(chart.series):
        parts += _line(number, series, across, up)
    return "\n".join([*parts, "</svg>\n"])


def ticks(values: Sequence[float]) -> list[float]:
    """Round values that hold all of these between the first and the last."""
    low, high = min(values), max(values)
    wide = math.log10(high / low) > 2.2
    steps = (1,) if wide else (1, 2, 5)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [step * 10.0**decade for decade in decades for step in steps]
    first = max((tick for tick in every if tick <= low), default=every[0])
    last = min((tick for tick in every if tick >= high), default=every[-1])
    found = [tick for tick in every if first <= tick <= last]
    return found if len(found) > 1 else [first, first * 10]


def label(value: float) -> str:
    """A number as an axis shows it: 0.5, 20, 5k, 10M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _grid(xs: Iterable[float], ys: Iterable[float], across: Scale, up: Scale) -> list[str]:
    parts: list[str] = []
    for y in ys:
        at = up.at(y)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(_text(LEFT - 8, at + 4.5, label(y), "end"))
    for x in xs:
        at = across.at(x)
        parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{up.end}" y2="{up.start}"/>')
        parts.append(_text(at, up.start + 18, label(x), "middle"))
    return parts


def _line(number: int, series: Series, across: Scale, up: Scale) -> list[str]:
    places = [(across.at(x), up.at(y)) for x, y in series.points]
    path = " ".join(f"{x},{y}" for x, y in places)
    parts = [f'<polyline class="{_class(number, series)}" points="{path}"/>']
    for (x, y), (value, got) in zip(places, series.points, strict=True):
        told = escape(f"{series.name}, {label(value)}: {got:,.4g}")
        parts.append(f'<circle class="d{number}" cx="{x}" cy="{y}" r="4"><title>{told}</title></circle>')
    return parts


def _legend(series: Sequence[Series]) -> list[str]:
    parts: list[str] = []
    width = (WIDTH - 2 * EDGE) / LEGEND_COLUMNS
    for number, each in enumerate(series):
        x = EDGE + number % LEGEND_COLUMNS * width
        y = LEGEND_TOP + number // LEGEND_COLUMNS * LEGEND_ROW
        parts.append(f'<line class="{_class(number, each)}" x1="{x:g}" x2="{x + 34:g}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="d{number}" cx="{x + 17:g}" cy="{y}" r="4"/>')
        parts.append(_text(x + 42, y + 4.5, each.name, "start"))
    return parts


def _class(number: int, series: Series) -> str:
    return f"line c{number}{' bare' if series.side == 'bare' else ''}"


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
