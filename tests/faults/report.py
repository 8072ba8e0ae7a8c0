"""Writes the table of docs/explanation/reliability.md from what the fault suites kept.

A suite that has not run since keeps its row, so that the suites can be run one at a time.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.faults.form import FIGURES

PAGE = Path("docs/explanation/reliability.md")
BEGIN, END = "<!-- figures: written by `make faults` -->", "<!-- end of figures -->"
HEAD = ["| suite | figures | seed | measured on | at commit |", "|---|---|---|---|---|"]


def row(kept: Mapping[str, Any]) -> str:
    figures = "; ".join(
        f"{name.replace('_', ' ')}: {_number(value)}" for name, value in kept["figures"].items()
    )
    seed = "-" if kept["seed"] is None else f"`{kept['seed']}`"
    return f"| {kept['suite']} | {figures} | {seed} | {kept['on']} | `{kept['commit']}` |"


def _number(value: int | float | str) -> str:
    return value if isinstance(value, str) else f"{value:,}"


def written(page: str, kept: list[Mapping[str, Any]]) -> str:
    """The page with the rows of these suites new, and all others as they were."""
    before, rest = page.split(BEGIN)
    table, after = rest.split(END)
    old = [line for line in table.strip().splitlines() if line.startswith("| ") and line not in HEAD]
    rows = {line.split("|")[1].strip(): line for line in old} | {each["suite"]: row(each) for each in kept}
    return "\n".join([before + BEGIN, "", *HEAD, *(rows[name] for name in sorted(rows)), "", END + after])


if __name__ == "__main__":
    kept = [json.loads(file.read_text()) for file in sorted(FIGURES.glob("*.json"))]
    PAGE.write_text(written(PAGE.read_text(), kept))
    print(f"{PAGE}: {len(kept)} suites")
