"""The starter catalogue: every entry is what its own command accepts, and what the specification's table says."""

from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.family import Family, families
from beamwright.contexts.equipment.family_definition import DefineFamily
from beamwright.contexts.equipment.role import DefineRole, Role, roles
from beamwright.contexts.equipment.starter_catalogue import starter_commands
from beamwright.kernel.value import replace
from beamwright.kernel.wellknown import PSEUDO_AXIS_FAMILY, seeded_family, seeded_role
from tests.rules import OCCASION

COMMANDS = starter_commands(True)
ROLES: dict[UUID, Role] = {
    id: role
    for id, command in COMMANDS
    if isinstance(command, DefineRole)
    and (role := roles.fold([command.decide(None, replace(OCCASION, new_id=id))]))
}


def defined(id: UUID, command: DefineFamily) -> Family:
    presented = tuple(ROLES[role_id] for role_id in command.presented_role_ids)
    family = families.fold([command.decide(presented, replace(OCCASION, new_id=id))])
    assert family is not None
    return family


FAMILIES = {id: defined(id, command) for id, command in COMMANDS if isinstance(command, DefineFamily)}
BY_NAME = {family.name: family for family in FAMILIES.values()}

ANGULAR = {"angular_resolution": "degree", "maximum_angular_speed": "degree/s"}
LINEAR = {"linear_resolution": "mm", "maximum_linear_speed": "mm/s", "travel": "mm"}
LAYER = {"material": None, "thickness": "um"}
EXTRAS: dict[str, dict[str, str | None]] = {
    "RotaryStage": {**ANGULAR},
    "TiltStage": {**ANGULAR},
    "Goniometer": {**ANGULAR},
    "LinearStage": {**LINEAR},
    "Slit": {**LINEAR},
    "Table": {**LINEAR},
    "BeamStop": {**LINEAR},
    "Condenser": {**LINEAR},
    "Camera": {"pixel_size": "um", "sensor_columns": None, "sensor_rows": None, "bit_depth": None},
    "Scintillator": LAYER,
    "Filter": LAYER,
    "Window": LAYER,
    "Objective": {"magnification": None, "numerical_aperture": None, "focal_length": "mm"},
    "Mirror": {"coating": None, "length": "mm"},
}
STRINGS = {"serial_number", "firmware_version", "material", "coating"}
INTEGERS = {"sensor_columns", "sensor_rows", "bit_depth"}


def properties(family: Family) -> dict[str, dict[str, Any]]:
    return family.settings_schema["properties"] if family.settings_schema else {}


def test_five_roles_and_thirty_seven_families_are_accepted() -> None:
    assert list(ROLES) == [seeded_role(number) for number in range(1, 6)]
    assert list(FAMILIES) == [seeded_family(number) for number in range(1, 38)]


def test_roles_come_before_the_families_that_present_them() -> None:
    assert [type(command) for _, command in COMMANDS] == [DefineRole] * 5 + [DefineFamily] * 37


def test_ids_are_distinct_and_have_the_fixed_prefix() -> None:
    ids = [str(id) for id, _ in COMMANDS]
    assert len(set(ids)) == 42
    assert all(id.startswith("01900000-0000-7000-8000-0000e") for id in ids)


def test_names_are_distinct() -> None:
    claims = [claim.key for family in FAMILIES.values() for claim in families.claims(family)]
    assert len(set(claims)) == 37
    assert len({claim.key for role in ROLES.values() for claim in roles.claims(role)}) == 5


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_affordances_cover_the_presented_roles(family: Family) -> None:
    required = {each for id in family.presented_role_ids for each in ROLES[id].required_affordances}
    assert required <= family.affordances


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_settings_are_identity_and_the_extras_in_their_units(family: Family) -> None:
    units = {name: each.get("unit") for name, each in properties(family).items()}
    identity = {} if family.id == PSEUDO_AXIS_FAMILY else {"serial_number": None, "firmware_version": None}
    expected = identity | EXTRAS.get(family.name, {})
    assert units == {
        name: None if code is None else {"system": "udunits", "code": code} for name, code in expected.items()
    }


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_settings_have_the_types_of_the_table(family: Family) -> None:
    for name, each in properties(family).items():
        expected = "string" if name in STRINGS else "integer" if name in INTEGERS else "number"
        assert each["type"] == expected, name
        assert expected == "string" or each["exclusiveMinimum"] == 0, name


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_descriptions_name_the_unit(family: Family) -> None:
    for name, each in properties(family).items():
        assert each["description"].endswith("."), name
        assert each.get("unit", {"code": ""})["code"] in each["description"], name


def test_serial_number_and_firmware_version_have_one_to_a_hundred_characters() -> None:
    bounds = {
        (each["minLength"], each["maxLength"])
        for family in FAMILIES.values()
        for name, each in properties(family).items()
        if name in ("serial_number", "firmware_version")
    }
    assert bounds == {(1, 100)}


def test_only_pseudo_axis_has_no_schema() -> None:
    assert [family.name for family in FAMILIES.values() if family.settings_schema is None] == ["PseudoAxis"]
    assert BY_NAME["PseudoAxis"].id == PSEUDO_AXIS_FAMILY


def test_without_starter_families_the_roles_and_pseudo_axis_remain() -> None:
    assert [id for id, _ in starter_commands(False)] == [*ROLES, PSEUDO_AXIS_FAMILY]
