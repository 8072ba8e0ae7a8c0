"""CalibrationQuantity: its schemas, its versions and its status grid."""

from typing import Any

import pytest

from beamwright.contexts.calibration.quantity import (
    CalibrationQuantityCannotVersionError,
    CalibrationQuantityUnitChangedError,
    CalibrationQuantityVersioned,
    DefineCalibrationQuantity,
    DeprecateCalibrationQuantity,
    InvalidCalibrationQuantityCodeError,
    InvalidCalibrationQuantityDescriptionError,
    InvalidCalibrationQuantitySchemaError,
    InvalidCalibrationQuantityTitleError,
    QuantityLookup,
    VersionCalibrationQuantity,
    calibration_quantities,
)
from beamwright.kernel.value import replace
from tests.contexts.calibration.examples import STARTERS, deprecated, quantity, starter
from tests.contexts.equipment.asset_examples import closed, length
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, OCCASION, PRINCIPAL, given, outcome

DEFINE = DefineCalibrationQuantity(
    code="gap",
    title=" Gap ",
    operating_point_schema=closed(energy=length("keV")),
    value_schema=closed(gap=length("mm")),
)
GAP = given(calibration_quantities, DEFINE.decide(None, OCCASION))
CURVE = closed(
    points={"type": "array", "items": closed(x=length("keV"), y=length("mm"), name={"type": "string"})}
)
del CURVE["properties"]["points"]["items"]["$schema"]


def versioned(**changes: Any) -> VersionCalibrationQuantity:
    first = VersionCalibrationQuantity(
        quantity_id=NEW_ID,
        operating_point_schema=DEFINE.operating_point_schema,
        value_schema=DEFINE.value_schema,
    )
    return replace(first, **changes)


def test_a_quantity_is_defined_with_its_text_trimmed() -> None:
    event = DEFINE.decide(None, OCCASION)
    assert (event.code, event.title, event.defined_by) == ("gap", "Gap", PRINCIPAL)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"code": "Gap"}, InvalidCalibrationQuantityCodeError),
        ({"code": "x" * 51}, InvalidCalibrationQuantityCodeError),
        ({"title": " "}, InvalidCalibrationQuantityTitleError),
        ({"description": " "}, InvalidCalibrationQuantityDescriptionError),
        ({"operating_point_schema": {"type": "object"}}, InvalidCalibrationQuantitySchemaError),
        ({"operating_point_schema": {}}, InvalidCalibrationQuantitySchemaError),
        ({"value_schema": {}}, InvalidCalibrationQuantitySchemaError),
        ({"value_schema": closed(gap=length("no such unit"))}, InvalidCalibrationQuantitySchemaError),
    ],
)
def test_define_refuses_bad_values(changes: dict[str, Any], refusal: type) -> None:
    assert outcome(replace(DEFINE, **changes), None) == refusal


@pytest.mark.parametrize(
    "lookup",
    [
        QuantityLookup(points="curve", x="x", y="y"),
        QuantityLookup(points="points", x="z", y="y"),
        QuantityLookup(points="points", x="x", y="z"),
        QuantityLookup(points="points", x="name", y="y"),
    ],
)
def test_a_lookup_names_numbers_that_are_there(lookup: QuantityLookup) -> None:
    command = replace(DEFINE, value_schema=CURVE, lookup=lookup)
    assert outcome(command, None) == InvalidCalibrationQuantitySchemaError


@pytest.mark.parametrize("x", ["x", None])
def test_a_lookup_goes_by_a_column_or_by_the_index(x: str | None) -> None:
    command = replace(DEFINE, value_schema=CURVE, lookup=QuantityLookup(points="points", x=x, y="y"))
    assert not isinstance(outcome(command, None), type)


def test_a_lookup_into_a_value_that_is_no_table_is_refused() -> None:
    command = replace(DEFINE, lookup=QuantityLookup(points="gap", y="y"))
    assert outcome(command, None) == InvalidCalibrationQuantitySchemaError


def test_versions_are_counted_and_kept() -> None:
    wider = closed(gap=length("mm"), taper=length("mm"))
    event = versioned(value_schema=wider).decide(GAP, OCCASION)
    after = calibration_quantities.evolve(GAP, event)
    assert (after.quantity_version, after.value_schema) == (2, wider)
    assert after.at_version(1).value_schema == DEFINE.value_schema
    assert after.at_version(2).since == NOW


@pytest.mark.parametrize(
    "changes",
    [
        {"value_schema": closed(gap=length("um"))},
        {"operating_point_schema": closed(energy=length("eV"))},
        {"value_schema": closed(gap={"type": "number"})},
        {"value_schema": closed(gap={"type": "number", "unit": {"system": "ucum", "code": "mm"}})},
    ],
)
def test_a_field_keeps_its_unit(changes: dict[str, Any]) -> None:
    assert outcome(versioned(**changes), GAP) == CalibrationQuantityUnitChangedError


def test_the_label_of_a_unit_may_change() -> None:
    labelled = closed(
        gap={"type": "number", "unit": {"system": "udunits", "code": "mm", "label": "millimetre"}}
    )
    assert not isinstance(outcome(versioned(value_schema=labelled), GAP), type)


def test_values_come_before_the_status_and_that_before_the_units() -> None:
    old = deprecated()
    assert outcome(versioned(value_schema={}), old) == InvalidCalibrationQuantitySchemaError
    assert outcome(versioned(), old) == CalibrationQuantityCannotVersionError


def test_a_code_is_claimed_for_ever() -> None:
    assert [claim.key for claim in calibration_quantities.claims(deprecated())] == ["rotation_center"]


GRID = """
            version    deprecate
Defined     Versioned  Deprecated
Versioned   Versioned  Deprecated
Deprecated  -          -
"""


def test_status_grid() -> None:
    first = DEFINE.decide(None, OCCASION)
    second = CalibrationQuantityVersioned(
        quantity_id=NEW_ID,
        occurred_at=NOW,
        operating_point_schema=DEFINE.operating_point_schema,
        value_schema=DEFINE.value_schema,
        lookup=None,
        quantity_version=2,
        versioned_by=PRINCIPAL,
    )
    deprecate = DeprecateCalibrationQuantity(quantity_id=NEW_ID, reason="old")
    check_grid(
        GRID,
        calibration_quantities,
        status=lambda state: state.status,
        reach={
            "Defined": [first],
            "Versioned": [first, second],
            "Deprecated": [first, deprecate.decide(GAP, OCCASION)],
        },
        verbs={"version": versioned(), "deprecate": deprecate},
    )


def test_every_starter_is_what_its_command_accepts_under_its_own_id() -> None:
    assert len({starter(code).quantity_id for code in STARTERS}) == 14
    assert str(starter("rotation_center").quantity_id).endswith("0000ca1b0001")
    assert str(starter("rotary_encoder_offset").quantity_id).endswith("0000ca1b000e")


UNITS = {
    "rotation_center": {"center": "count"},
    "detector_pixel_size": {"pixel_size": "um"},
    "magnification": {"magnification": "1"},
    "effective_thickness": {"effective_thickness": "um"},
    "energy_position_curve": {"energy": "keV", "position": "mm"},
    "energy_angle_curve": {"energy": "keV", "angle": "degree"},
    "index_position_table": {"position": "mm"},
    "index_angle_table": {"angle": "degree"},
    "blade_throw_scale": {"scale": "count/mm"},
    "motor_sensitivity": {"sensitivity": "um/count"},
    "rotary_motor_sensitivity": {"sensitivity": "microradian/count"},
    "beam_profile": {"width_x": "um", "width_y": "um", "centre_x": "um", "centre_y": "um"},
    "encoder_offset": {"offset": "mm"},
    "rotary_encoder_offset": {"offset": "degree"},
}


@pytest.mark.parametrize("code", UNITS)
def test_every_number_of_a_starter_has_its_unit_and_an_uncertainty_in_it(code: str) -> None:
    properties: dict[str, Any] = quantity(code).value_schema["properties"]
    for array in ("points", "blades"):
        if array in properties:
            properties = properties[array]["items"]["properties"]
    found = {name: node["unit"]["code"] for name, node in properties.items() if node["type"] == "number"}
    measured = list(UNITS[code].values())[-1]
    assert found == UNITS[code] | {"uncertainty": measured}


def test_the_starters_that_are_tables_say_so() -> None:
    tables = {code for code in STARTERS if starter(code).lookup is not None}
    assert tables == {
        "energy_position_curve",
        "energy_angle_curve",
        "index_position_table",
        "index_angle_table",
    }
