"""Line charts as SVG, written by hand: small, without a dependency, legible on light and on dark pages."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LEFT, RIGHT = 760, 62, 150
TOP, PLOT, GAP = 44, 130, 52
# Each is dark enough for white paper and light enough for a black page.
COLOURS = ("#2f7fc1", "#d1682a", "#2f9e6e", "#b0558f", "#8a7a1f", "#7a6fd0")
STYLE = """text{font:12px system-ui,sans-serif;fill:#444}.title{font-weight:600;fill:#222}
.grid{stroke:#8883;stroke-width:1}.line{fill:none;stroke-width:1.6}
@media (prefers-color-scheme:dark){text{fill:#bbb}.title{fill:#eee}}"""


@dataclass(frozen=True)
class Panel:
    """One chart: lines over the same time, from zero up, so that a slope looks as large as it is."""

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


def drawing(title: str, across: str, panels: Sequence[Panel]) -> str:
    """All panels below one another, with the same horizontal axis."""
    height = TOP + len(panels) * (PLOT + GAP)
    last = max(x for panel in panels for line in panel.lines.values() for x, _ in line) or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, TOP + number * (PLOT + GAP), last, across)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, top: float, last: float, across: str) -> list[str]:
    highest = max((y for line in panel.lines.values() for _, y in line), default=0)
    step = _step(highest / 4)
    levels = [step * n for n in range(int(highest / step) + 2)]
    floor = top + 14 + PLOT

    def height(value: float) -> float:
        return floor - value / levels[-1] * PLOT

    def place(moment: float) -> float:
        return LEFT + moment / last * (WIDTH - LEFT - RIGHT)

    parts = [f'<text class="title" x="{LEFT}" y="{top + 4:g}">{escape(panel.title)}</text>']
    for level in levels:
        y = height(level)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{level:,g}</text>')
    minor = _step(last / 8)
    for number in range(int(last / minor) + 1):
        moment = minor * number
        label = f"{moment:g} {across}" if number == 0 else f"{moment:g}"
        parts.append(f'<text x="{place(moment):.1f}" y="{floor + 16}" text-anchor="middle">{label}</text>')
    ends = {name: height(line[-1][1]) for name, line in panel.lines.items() if line}
    beside = _apart(ends)
    for colour, (name, line) in zip(COLOURS, panel.lines.items(), strict=False):
        path = "L".join(f"{place(x):.1f} {height(y):.1f}" for x, y in line)
        parts.append(f'<path class="line" stroke="{colour}" d="M{path}"/>')
        x, y = WIDTH - RIGHT + 6, beside[name] + 4
        parts.append(f'<text x="{x}" y="{y:.1f}" style="fill:{colour}">{escape(name)}</text>')
    return parts


def _step(rough: float) -> float:
    """The next round number: 1, 2 or 5 times a power of ten."""
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)


def _apart(ends: Mapping[str, float], least: float = 14) -> dict[str, float]:
    """Where the names go: beside the end of their line, but never over one another."""
    placed: dict[str, float] = {}
    above = -math.inf
    for name, y in sorted(ends.items(), key=lambda item: item[1]):
        above = placed[name] = max(y, above + least)
    return placed
