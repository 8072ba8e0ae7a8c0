"""Sections of a document that a benchmark writes anew: whatever stands between two marks."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path


def rewrite(page: Path, sections: Mapping[str, str]) -> None:
    """Put each text between `<!-- measured: name -->` and `<!-- end of name -->`."""
    text = page.read_text()
    for name, section in sections.items():
        marked = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        if not marked.search(text):
            raise ValueError(f"{page} has no place for {name}")
        text = marked.sub(lambda found, section=section: f"{found[1]}\n{section.strip()}\n\n{found[2]}", text)
    page.write_text(text)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column reads from the left, the others are figures."""
    align = ["---", *("---:" for _ in headings[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (headings, align, *rows))
