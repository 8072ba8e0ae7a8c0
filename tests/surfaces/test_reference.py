"""The reference: the committed files are what the source says now, and nothing is missing from them."""

import re
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import beamwright
import beamwright.contexts
from beamwright.kernel.errors import DomainError
from beamwright.kernel.event import event_type
from beamwright.kernel.registry import discover
from beamwright.settings import Settings
from beamwright.surfaces.reference import rendered

DIRECTORY = Path(__file__).parents[2] / "docs" / "reference"
FILES = rendered()
REGISTRY = discover(beamwright.contexts)
PAGES = sorted(name for name in FILES if name.endswith(".md"))


@pytest.mark.parametrize("name", sorted(FILES))
def test_committed_file_is_current(name: str) -> None:
    committed = DIRECTORY / name
    assert committed.exists() and committed.read_text() == FILES[name], (
        f"{name} is out of date: run `make reference`"
    )


def test_no_other_file_is_committed() -> None:
    of_the_lock = {"dependencies.md", "sbom.cdx.json"}
    assert {path.name for path in DIRECTORY.iterdir()} == set(FILES) | of_the_lock, (
        "run `make reference` and delete the rest"
    )


@pytest.mark.parametrize("operation", sorted(REGISTRY.operations))
def test_operation_is_described_with_route_and_fields(operation: str) -> None:
    known = REGISTRY.operations[operation]
    section = section_of("operations.md", operation)
    assert f"`{known.method} {known.path}`" in section
    assert all(f"| `{field}` |" in section for field in known.request.__struct_encode_fields__)


@pytest.mark.parametrize("event", sorted(REGISTRY.owner, key=lambda each: each.__name__))
def test_event_is_described_with_version_and_fields(event: type) -> None:
    kind = event_type(event)
    section = section_of("events.md", kind.name)
    assert f"Schema version {kind.schema_version}." in section
    assert all(f"| `{field}` |" in section for field in event.__struct_encode_fields__)


def test_every_error_is_listed_once() -> None:
    for module in walk_packages(beamwright.__path__, "beamwright."):
        if module.name != "beamwright.__main__" and ".migrations" not in module.name:
            import_module(module.name)
    listed = re.findall(r"^\| `(\w+)` \|", FILES["errors.md"], re.MULTILINE)
    assert sorted(listed) == sorted(errors_below(DomainError))


def test_every_setting_is_listed() -> None:
    listed = re.findall(r"^\| `([A-Z_]+)` \|", FILES["settings.md"], re.MULTILINE)
    assert listed == [field.upper() for field in Settings.__struct_fields__]


def test_self_moves_starts_and_ends_are_drawn() -> None:
    drawn = section_of("state-machines.md", "Zone: lifecycle")
    for line in ("[*] --> Active", "Active --> Active: ZoneUpdated", "Retired --> [*]"):
        assert line in drawn


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere_and_headings_are_unique(name: str) -> None:
    anchors = {page: headings(FILES[page]) for page in PAGES}
    assert len(anchors[name]) == len(set(anchors[name]))
    for page, anchor in re.findall(r"\]\(([\w.-]*)#([\w-]+)\)", FILES[name]):
        assert anchor in anchors[page or name], f"{page}#{anchor}"


def section_of(page: str, heading: str) -> str:
    _, _, rest = re.sub(r"^#+ ", "# ", FILES[page], flags=re.MULTILINE).partition(f"\n# {heading}\n")
    assert rest, f"{heading} is missing from {page}"
    return rest.partition("\n# ")[0]


def headings(text: str) -> list[str]:
    """Anchors as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return [re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in found]


def errors_below(base: type[DomainError]) -> list[str]:
    own = [each for each in base.__subclasses__() if each.__module__.startswith("beamwright.")]
    return [name for each in own for name in (each.__name__, *errors_below(each))]
