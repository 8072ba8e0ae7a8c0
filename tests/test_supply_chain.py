"""The lists of what the service is made of are current, and everyone may use it with them."""

from pathlib import Path

import pytest
from supply_chain.__main__ import bill, written
from supply_chain.lock import Package, packages

PACKAGES = list(packages())


def test_every_line_of_the_lock_is_a_pinned_package_with_hashes() -> None:
    lines = Path("requirements.lock").read_text().splitlines()
    assert len(PACKAGES) == sum(not line.startswith(("    ", "#")) for line in lines)
    assert all(each.hashes and each.via for each in PACKAGES)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_licence_lets_everyone_use_it(package: Package) -> None:
    assert package.allowed, f"{package.name} is under {package.licence}: look at it, then add it to ALLOWED"


@pytest.mark.parametrize("file", sorted(written()), ids=lambda file: file.name)
def test_page_is_current(file: Path) -> None:
    assert file.read_text() == written()[file], "Run `make sbom`."


def test_everything_in_the_bill_is_reached_from_the_service() -> None:
    made = bill(PACKAGES)
    below = {each["ref"]: each["dependsOn"] for each in made["dependencies"]}
    seen, ready = set[str](), ["beamwright"]
    while ready:
        ref = ready.pop()
        if ref not in seen:
            seen.add(ref)
            ready += below.get(ref, [])
    assert seen == {"beamwright", *(each["bom-ref"] for each in made["components"])}
