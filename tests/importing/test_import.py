"""Importing a file into a service: what is new, what differs, what is there already, and what comes in between."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from beamwright.importing.apply import apply
from beamwright.importing.calls import Calls
from beamwright.surfaces.calling import UnreachableError
from tests.importing.command import EXAMPLE, Facility
from tests.live import LiveServer

SMALL = """\
    beamwright: 1
    facility: {code: CODE, display_name: Small}
    enclosures:
      - name: Hutch
    assets:
      - name: Unit
        tier: Unit
        children:
          - name: Rotation
            tier: Device
            families: [RotaryStage]
            controller: Crate
            enclosure: Hutch
            settings: {serial_number: R-1, angular_resolution: 0.001}
            ports: [{name: encoder, direction: Output, signal_type: Quadrature}]
          - name: Crate
            tier: Device
            families: [MotionController]
    supplies:
      - {kind: vacuum, name: Pump, within: Rotation}
"""


@pytest.fixture
def facility(server: LiveServer, tmp_path: Path) -> Iterator[Facility]:
    facility = Facility(server, tmp_path)
    yield facility
    facility.admin.close()


@pytest.fixture
def small(facility: Facility) -> Facility:
    return facility.write(SMALL)


def lines(result: Any, sign: str) -> list[str]:
    return [line for line in result.output.splitlines() if line.startswith(sign)]


def test_a_dry_run_shows_what_is_new_and_does_nothing(small: Facility) -> None:
    before = small.event_count()
    result = small.dry_run()
    assert (result.exit_code, small.event_count()) == (3, before)
    assert "+ asset      Unit/Rotation" in lines(result, "+")
    assert len(lines(result, "+")) == 6


def test_an_import_makes_everything_and_puts_it_into_service(small: Facility) -> None:
    assets = small.imported().assets()
    rotation, crate = assets["Rotation"], assets["Crate"]
    assert (rotation["lifecycle"], crate["lifecycle"], assets["Unit"]["lifecycle"]) == (
        "Active",
        "Active",
        "Commissioned",
    )
    assert rotation["parent_id"] == assets["Unit"]["id"]
    assert rotation["controller_id"] == crate["id"]
    assert rotation["located_in_enclosure_id"] is not None
    assert rotation["settings"] == {"serial_number": "R-1", "angular_resolution": 0.001}


def test_importing_again_does_nothing(small: Facility) -> None:
    small.imported()
    before = small.event_count()
    assert small.dry_run().exit_code == 0
    assert "0 commands carried out" in small.run().output
    assert small.event_count() == before


def test_one_changed_setting_is_one_command(small: Facility) -> None:
    small.imported().replace("angular_resolution: 0.001", "angular_resolution: 0.002")
    result = small.dry_run()
    assert lines(result, "~") == ["~ asset  Unit/Rotation"]
    assert "    settings.angular_resolution: 0.001 -> 0.002" in result.output
    assert "1 command carried out" in small.run().output
    assert small.assets()["Rotation"]["settings"]["angular_resolution"] == 0.002


def test_a_setting_that_the_file_does_not_name_is_left_alone_and_null_deletes_one(small: Facility) -> None:
    rotation = small.imported().assets()["Rotation"]["id"]
    patch = {"firmware_version": "2", "maximum_angular_speed": 5}
    small.post(f"/assets/{rotation}/update-settings", settings_patch=patch)
    assert small.dry_run().exit_code == 0
    small.replace("serial_number: R-1", "serial_number: null").imported()
    assert small.assets()["Rotation"]["settings"] == {"angular_resolution": 0.001, **patch}


def test_a_value_set_back_by_hand_is_set_again(small: Facility) -> None:
    small.imported().replace("angular_resolution: 0.001", "angular_resolution: 0.002").imported()
    rotation = small.assets()["Rotation"]["id"]
    small.post(f"/assets/{rotation}/update-settings", settings_patch={"angular_resolution": 0.001})
    small.imported()
    assert small.assets()["Rotation"]["settings"]["angular_resolution"] == 0.002


def test_families_are_joined_with_their_settings_and_left_with_theirs(small: Facility) -> None:
    small.imported()
    small.replace("families: [RotaryStage]", "families: [LinearStage]")
    small.replace("angular_resolution: 0.001", "linear_resolution: 0.5")
    result = small.dry_run()
    assert "families: + LinearStage" in result.output
    assert "settings.angular_resolution: 0.001 -> none" in result.output
    small.imported()
    rotation = small.assets()["Rotation"]
    assert rotation["settings"] == {"serial_number": "R-1", "linear_resolution": 0.5}
    assert small.dry_run().exit_code == 0


def test_ports_are_made_as_the_file_has_them(small: Facility) -> None:
    small.imported().replace("direction: Output", "direction: Input").imported()
    [port] = small.assets()["Rotation"]["ports"]
    assert port["direction"] == "Input"


def test_a_controller_enclosure_and_drawing_can_be_taken_away(small: Facility) -> None:
    small.imported().replace("controller: Crate", "controller: null").replace(
        "enclosure: Hutch", "enclosure: ~"
    )
    small.imported()
    rotation = small.assets()["Rotation"]
    assert (rotation["controller_id"], rotation["located_in_enclosure_id"]) == (None, None)


def test_a_controller_may_stand_below_what_it_drives(facility: Facility) -> None:
    facility.write(
        """
        beamwright: 1
        facility: {code: CODE}
        assets:
          - name: Unit
            tier: Unit
            controller: Crate
            children:
              - {name: Crate, tier: Device, families: [MotionController], controller: Unit}
        """
    ).imported()
    assets = facility.assets()
    assert assets["Unit"]["controller_id"] == assets["Crate"]["id"]
    assert facility.dry_run().exit_code == 0


def test_another_tier_is_a_conflict_that_leaves_the_asset_alone(small: Facility) -> None:
    small.imported().replace("name: Crate\n        tier: Device", "name: Crate\n        tier: Component")
    small.replace("angular_resolution: 0.001", "angular_resolution: 0.004")
    result = small.run()
    assert (result.exit_code, "asset Unit/Crate: It is a Device" in result.output) == (1, True)
    assert small.assets()["Rotation"]["settings"]["angular_resolution"] == 0.004


def test_an_asset_that_was_moved_is_a_conflict_and_not_made_twice(small: Facility) -> None:
    assets = small.imported().assets()
    to = {"to_parent_id": assets["Crate"]["id"], "reason": "rebuilt"}
    small.post(f"/assets/{assets['Rotation']['id']}/relocate", **to)
    result = small.dry_run()
    assert (result.exit_code, "It stands at Unit/Crate/Rotation" in result.output) == (1, True)
    assert lines(result, "+") == []


def test_assets_of_one_path_are_a_conflict(small: Facility) -> None:
    unit = small.imported().assets()["Unit"]["id"]
    small.post("/assets", name="Crate", tier="Device", parent_id=unit)
    result = small.dry_run()
    assert (result.exit_code, "2 assets of this path" in result.output) == (1, True)


def test_what_was_decommissioned_is_made_anew(small: Facility) -> None:
    before = small.imported().assets()["Rotation"]["id"]
    small.post(f"/assets/{before}/decommission", reason="worn out")
    small.imported()
    found = {
        each["id"]: each["lifecycle"] for each in small.live().assets.values() if each["name"] == "Rotation"
    }
    assert found.pop(before) == "Decommissioned"
    assert list(found.values()) == ["Active"]


def test_assets_that_the_file_does_not_name_are_left_alone_and_counted(small: Facility) -> None:
    unit = small.imported().assets()["Unit"]["id"]
    small.post("/assets", name="Guest", tier="Device", parent_id=unit)
    result = small.dry_run()
    assert (result.exit_code, "1 asset of the facility that the file does not name" in result.output) == (
        0,
        True,
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "[RotaryStage]",
            "[RotaryStag]",
            ":11: assets[0].children[0].families[0]: There is no family “RotaryStag”.",
        ),
        (
            "controller: Crate",
            "controller: Crat",
            ":12: assets[0].children[0].controller: There is no asset “Crat”.",
        ),
        (
            "enclosure: Hutch",
            "enclosure: Hut",
            ":13: assets[0].children[0].enclosure: There is no enclosure “Hut”.",
        ),
        ("within: Rotation", "within: Pump", ":20: supplies[0].within: There is no asset “Pump”."),
        (
            "0.001",
            "fast",
            ":14: assets[0].children[0].settings.angular_resolution: Family RotaryStage refuses",
        ),
        ("R-1, ", "R-1, gain: 2, ", ":14: assets[0].children[0].settings.gain: Family RotaryStage refuses"),
        ("controller: Crate", "model: crate", ":12: assets[0].children[0].model: There is no model “crate”"),
    ],
)
def test_names_that_nobody_knows_are_told_with_their_line_before_anything_is_done(
    small: Facility, old: str, new: str, told: str
) -> None:
    before = small.event_count()
    result = small.replace(old, new).run()
    assert (result.exit_code, told in result.output, small.event_count()) == (2, True, before), result.output


def test_a_file_that_is_missing_is_told(small: Facility) -> None:
    small.file.unlink()
    assert (small.run().exit_code, "cannot be read" in small.run().output) == (2, True)


def test_own_families_and_models_come_before_what_uses_them(facility: Facility) -> None:
    facility.write(
        """
        beamwright: 1
        facility: {code: CODE}
        families:
          - {name: Family CODE, affordances: [Identifiable], roles: [Controller], settings_schema: {}}
        models:
          - key: box
            name: Box
            manufacturer: {name: Works CODE}
            part_number: B-1
            families: [Family CODE]
        assets:
          - {name: Unit, tier: Unit, families: [family CODE], model: box, settings: {anything: goes}}
        """
    ).imported()
    assert facility.assets()["Unit"]["lifecycle"] == "Active"
    assert facility.dry_run().exit_code == 0


def test_another_permit_source_is_assigned(small: Facility) -> None:
    small.imported()
    small.replace("- name: Hutch", "- {name: Hutch, permit_source: {source_kind: push, source_id: pss}}")
    result = small.dry_run()
    assert (result.exit_code, lines(result, "~")) == (3, ["~ enclosure  Hutch"])
    assert small.imported().dry_run().exit_code == 0


class LosingCalls(Calls):
    """A connection that breaks after some commands: the last ones arrive, but their answers do not."""

    left = 0

    def command(self, name: str, fields: Mapping[str, Any], standing: str) -> dict[str, Any]:
        answer = super().command(name, fields, standing)
        self.left -= 1
        if self.left <= 0:
            raise UnreachableError("The cable was pulled.")
        return answer


@pytest.mark.parametrize("commands", [1, 20, 60, 100])
def test_an_import_that_broke_off_is_finished_by_the_next(facility: Facility, commands: int) -> None:
    facility.write(EXAMPLE.read_text().replace("code: micro-ct", "code: CODE"))
    plan = facility.plan()
    with facility.calls(LosingCalls) as calls, pytest.raises(UnreachableError):
        calls.left = commands
        apply(plan, calls)
    live = facility.imported().live()
    paths = [live.path(id) for id in live.assets]
    assert (len(paths), len(set(paths))) == (59, 59)
    assert facility.dry_run().exit_code == 0


def test_a_plan_carried_out_twice_makes_nothing_twice(small: Facility) -> None:
    plan = small.plan()
    with small.calls() as calls:
        first = apply(plan, calls)
        before = small.event_count()
        again = apply(plan, calls)
    assert (again.done, again.refusals, small.event_count()) == (first.done, [], before)


def test_a_refusal_does_not_stick_once_its_cause_is_gone(facility: Facility) -> None:
    facility.write(
        """
        beamwright: 1
        facility: {code: CODE}
        models:
          - key: stage
            name: Stage
            manufacturer: {name: Works CODE}
            part_number: S-1
            families: [RotaryStage, LinearStage]
        assets:
          - {name: Unit, tier: Unit, families: [RotaryStage], model: stage}
        """
    )
    refused = [facility.run(), facility.run()]
    assert [result.exit_code for result in refused] == [1, 1]
    assert "AssetModelMismatchError" in refused[1].output
    facility.replace("[RotaryStage, LinearStage]", "[RotaryStage]").imported()
    assert facility.assets()["Unit"]["lifecycle"] == "Active"


def test_what_the_caller_may_not_do_ends_the_import_at_once(small: Facility) -> None:
    someone = small.server.newcomer()
    token = small.server.token(small.server.subjects[someone])
    result = small.run("--token", token)
    assert (result.exit_code, "AuthorizationDeniedError" in result.output) == (1, True)


def test_the_example_imports_as_it_is(server: LiveServer, tmp_path: Path) -> None:
    facility = Facility(server, tmp_path)
    facility.file = EXAMPLE
    assert facility.imported().dry_run().exit_code == 0
    facility.admin.close()
