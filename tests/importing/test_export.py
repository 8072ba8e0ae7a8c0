"""Exporting: a file that says what the service has, so that importing it changes nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from beamwright.importing.document import parse, plain
from beamwright.importing.export import _Writer  # pyright: ignore[reportPrivateUsage]
from tests.importing.command import EXAMPLE, Facility
from tests.live import LiveServer


@pytest.fixture
def facility(server: LiveServer, tmp_path: Path) -> Iterator[Facility]:
    facility = Facility(server, tmp_path)
    facility.write(EXAMPLE.read_text().replace("code: micro-ct", "code: CODE")).imported()
    yield facility
    facility.admin.close()


def test_an_exported_facility_is_nothing_to_import(facility: Facility) -> None:
    exported = facility.export()
    assert (exported.exit_code, exported.stderr) == (0, "")
    facility.file.write_text(exported.stdout, encoding="utf-8")
    again = facility.dry_run()
    assert (again.exit_code, "0 to create, 0 to change" in again.output) == (0, True), again.output


def test_an_export_says_all_that_the_import_said(facility: Facility) -> None:
    """Into an installation without it, the exported file makes the same facility."""
    exported = facility.export().stdout
    other = Facility(facility.server, facility.file.parent)
    other.write(exported.replace(facility.code, "CODE")).imported()
    other.admin.close()
    assert other.export().stdout == exported.replace(facility.code, other.code)


def test_what_is_not_in_service_stays_so(facility: Facility) -> None:
    facility.replace("- name: Mask\n", "- name: Mask\n            lifecycle: Commissioned\n")
    mask = facility.assets()["Mask"]["id"]
    facility.post(f"/assets/{mask}/decommission", reason="replaced")
    facility.imported().file.write_text(facility.export().stdout, encoding="utf-8")
    assert facility.dry_run().exit_code == 0
    assert "lifecycle: Commissioned" in facility.file.read_text()


def test_what_is_decommissioned_is_left_out_and_told(facility: Facility) -> None:
    assets = facility.assets()
    for name in ("Fast shutter", "Hexapod controller"):
        facility.post(f"/assets/{assets[name]['id']}/decommission", reason="replaced")
    exported = facility.export()
    assert "Fast shutter" not in exported.stdout
    assert "The controller of Microtomography/Station/Sample tower/Hexapod is not in use" in exported.stderr
    facility.file.write_text(exported.stdout, encoding="utf-8")
    assert facility.dry_run().exit_code == 0


def test_a_facility_that_does_not_exist_cannot_be_exported(facility: Facility) -> None:
    facility.code = "nowhere"
    assert (facility.export().exit_code, "no facility nowhere" in facility.export().output) == (1, True)


@pytest.mark.parametrize(
    "text",
    ["5", "1e-3", "004417", "yes", "null", "~", "", " a ", "a: b", "# no", "[x", "12:30", "0x1F", "two\nlines", "ü",
     "'", '"', "-", "*a", "&a", "!t", "%", "@", "true", ".inf", "2024-01-01", "a\\b", "\t", "x" * 300],
)  # fmt: skip
def test_text_is_written_so_that_it_is_read_as_text(text: str) -> None:
    written = yaml.dump({"a": [text], "b": {"c": text}}, Dumper=_Writer, allow_unicode=True)
    assert plain(parse(written.encode())) == {"a": [text], "b": {"c": text}}


@pytest.mark.parametrize("number", [0, -1, 5, 1.0, 0.001, 1e-9, 1e22, 3.14, -2.5e-7])
def test_numbers_are_written_so_that_they_are_read_as_the_same_number(number: float) -> None:
    assert plain(parse(yaml.dump({"a": number}, Dumper=_Writer).encode())) == {"a": number}
