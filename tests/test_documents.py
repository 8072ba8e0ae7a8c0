"""The documents: every link leads somewhere, and every record and guide is in the index."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target, _, anchor in (link.partition("#") for link in links(page)):
        linked = (page.parent / target).resolve() if target else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), f"{target}#{anchor}"


@each_page
def test_page_begins_with_one_title(page: Path) -> None:
    titles = re.findall(r"^# .+$", without_code(page), re.MULTILINE)
    assert len(titles) == 1


def test_index_names_every_page() -> None:
    index = DOCS / "README.md"
    named = {(DOCS / link.partition("#")[0]).resolve() for link in links(index)}
    assert {page for page in PAGES if page.is_relative_to(DOCS)} - {index} <= named


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = [path.name.partition("-")[0] for path in sorted((DOCS / "decisions").iterdir())]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]


def links(page: Path) -> list[str]:
    found = re.findall(r"\]\(([^)\s]+)\)", without_code(page))
    return [link for link in found if not link.startswith(("http://", "https://"))]


def anchors(page: Path) -> set[str]:
    """As GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}


def without_code(page: Path) -> str:
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
