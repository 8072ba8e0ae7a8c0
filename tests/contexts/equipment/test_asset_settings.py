"""Settings over several families: who validates what, conflicts, stale units, and families that come and go."""

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from beamwright.contexts.equipment.asset import (
    Asset,
    AssetFamilyAdded,
    AssetFamilyRemoved,
    AssetPartitionRuleUpdated,
    AssetSettingsUpdated,
)
from beamwright.contexts.equipment.asset_assignments import AssetFamilyRequiredError
from beamwright.contexts.equipment.asset_settings import (
    AddAssetFamily,
    AssetFamilyAlreadyPresentError,
    AssetFamilyDeclaredByModelError,
    AssetFamilyNotPresentError,
    AssetFamilySchemaConflictError,
    AssetOfFamilies,
    AssetSettingsStaleError,
    InvalidAssetFamilyIdsError,
    InvalidAssetSettingsError,
    RemoveAssetFamily,
    UpdateAssetSettings,
    checked_settings,
    schema_conflicts,
    stale_settings,
)
from beamwright.contexts.equipment.family import (
    Family,
    FamilyDeprecatedError,
    FamilyNotFoundError,
    FamilyVersioned,
    families,
)
from beamwright.contexts.equipment.partition import AssetPseudoAxisFamilyRequiredError
from beamwright.contexts.equipment.partition_rule import AffineRule
from beamwright.kernel.declared_schema import checked_schema
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.value import replace
from beamwright.kernel.wellknown import PSEUDO_AXIS_FAMILY
from tests.contexts.equipment.asset_examples import (
    ACTIVATED,
    CAMERA_FAMILY,
    LINEAR,
    MODEL,
    REGISTERED,
    ROTARY,
    STAGE,
    asset,
    check_lifecycles,
    closed,
    family,
    length,
    model,
    stays,
)
from tests.contexts.trust.examples import SmallWorld
from tests.rules import NOW, OCCASION, outcome

TEXT, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
CAMERA = family(CAMERA_FAMILY, closed(pixel_size=length("um"), serial_number=TEXT))
STAGE_FAMILY = family(ROTARY, closed(speed=length("mm"), serial_number=TEXT))
OPEN, SILENT = family(LINEAR, {}), family(LINEAR)
UPDATED = AssetSettingsUpdated(asset_id=STAGE, occurred_at=NOW, settings={}, settings_schema_versions={})


def verdict(settings: Mapping[str, Any], *joined: Family) -> Any:
    """The schema versions that settings are checked against, or the path at which they are refused."""
    try:
        return checked_settings(joined, settings)
    except InvalidAssetSettingsError as refusal:
        return refusal.context.get("path", "no schema")


@pytest.mark.parametrize(
    ("settings", "joined", "expected"),
    [
        ({}, [], {}),
        ({}, [CAMERA], {}),
        ({"gain": 1}, [], "no schema"),
        ({"gain": 1}, [SILENT], "no schema"),
        ({"gain": 1}, [OPEN], {LINEAR: 1}),
        ({"pixel_size": 3.45}, [CAMERA], {CAMERA_FAMILY: 1}),
        ({"pixel_size": 3.45}, [CAMERA, SILENT], {CAMERA_FAMILY: 1}),
        ({"gain": 1}, [CAMERA], "/gain"),
        ({"pixel_size": "big"}, [CAMERA], "/pixel_size"),
        ({"pixel_size": 3, "speed": 2}, [CAMERA, STAGE_FAMILY], {ROTARY: 1, CAMERA_FAMILY: 1}),
        ({"pixel_size": 3, "gain": 2}, [CAMERA, STAGE_FAMILY], "/gain"),
        ({"pixel_size": 3, "gain": 2}, [CAMERA, OPEN], {LINEAR: 1, CAMERA_FAMILY: 1}),
        ({"pixel_size": "big"}, [CAMERA, OPEN], "/pixel_size"),
        ({"gain": [None]}, [OPEN], "/gain/0"),
    ],
)
def test_every_family_has_its_say(settings: dict[str, Any], joined: list[Family], expected: Any) -> None:
    assert verdict(settings, *joined) == expected


def test_the_first_refusing_family_by_id_is_named() -> None:
    with pytest.raises(InvalidAssetSettingsError) as refused:
        checked_settings([CAMERA, STAGE_FAMILY], {"serial_number": 17})
    assert refused.value.context["family_id"] == str(min(ROTARY, CAMERA_FAMILY))


def test_what_a_family_requires_is_asked_of_settings_that_are_not_empty() -> None:
    demanding = family(ROTARY, closed(speed=NUMBER) | {"required": ["speed"]})
    assert verdict({}, demanding) == {}
    assert verdict({"pixel_size": 3}, demanding, CAMERA) == "/speed"


def nested(levels: int) -> dict[str, Any]:
    return {"deep": nested(levels - 1)} if levels else {}


@pytest.mark.parametrize("settings", [{"blob": "x" * 70_000}, nested(70)], ids=["size", "depth"])
def test_settings_are_bounded(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidAssetSettingsError):
        checked_settings([OPEN], settings)


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        (NUMBER, NUMBER, True),
        (NUMBER, INTEGER, True),
        (NUMBER, TEXT, False),
        ({"type": ["integer", "string"]}, {"type": ["string", "number"]}, True),
        (length("mm"), length("mm", minimum=0), True),
        (length("mm"), length("um"), False),
        (length("mm"), {"type": "number", "unit": {"system": "ucum", "code": "mm"}}, False),
        (length("mm"), {"type": "number", "unit": {"system": "udunits", "code": "mm", "label": "x"}}, True),
        (length("mm"), NUMBER, False),
    ],
)
def test_families_agree_on_types_and_units(one: Any, other: Any, agree: bool) -> None:
    joined = [family(ROTARY, closed(speed=one)), family(LINEAR, closed(speed=other))]
    assert (schema_conflicts(joined) == []) is agree


def test_a_value_that_families_declare_differently_is_refused_once_they_do() -> None:
    joined = [
        family(ROTARY, closed(speed=length("mm"))),
        family(LINEAR, closed(speed=length("um"), gain=NUMBER)),
    ]
    assert verdict({"speed": 1}, *joined) == "/speed"
    assert verdict({"gain": 1}, *joined) == {ROTARY: 1, LINEAR: 1}


NAMES = ("a", "b", "c", "d")
KINDS: Mapping[str, type] = {"string": str, "boolean": bool, "number": float}
properties = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(sorted(KINDS)), max_size=4)
declarations = st.lists(st.none() | st.just({}) | properties.filter(bool), max_size=3)
values = st.dictionaries(
    st.sampled_from(NAMES), st.text(max_size=3) | st.booleans() | st.floats(-5, 5), max_size=4
)


def acceptable(declared: list[dict[str, str] | None], settings: dict[str, Any]) -> bool:
    """The rule as a person would say it, name by name."""
    stated = [each for each in declared if each is not None]

    def passes(name: str) -> bool:
        kinds = {each[name] for each in stated if name in each}
        return ({} in stated) if not kinds else {KINDS[kind] for kind in kinds} == {type(settings[name])}

    return all(passes(name) for name in settings)


@for_all(declarations, values)
def test_settings_are_accepted_exactly_when_each_name_is(
    declared: list[dict[str, str] | None], settings: dict[str, Any]
) -> None:
    schemas = [
        each if not each else closed(**{name: {"type": kind} for name, kind in each.items()})
        for each in declared
    ]
    joined = [family(UUID(int=n), schema) for n, schema in enumerate(schemas, 1)]
    assert isinstance(verdict(settings, *joined), dict) is acceptable(declared, settings)


def test_the_schemas_of_these_tests_are_declared_schemas() -> None:
    for each in (CAMERA, STAGE_FAMILY):
        assert checked_schema(each.settings_schema or {}, InvalidError)


def versioned(before: Family, schema: dict[str, Any]) -> Family:
    return families.evolve(
        before,
        FamilyVersioned(
            family_id=before.id,
            occurred_at=NOW,
            version_tag=f"v{before.settings_schema_version + 1}",
            affordances=frozenset(),
            settings_schema=schema,
            settings_schema_version=before.settings_schema_version + 1,
        ),
    )


FOIL = family(ROTARY, closed(thickness=length("um"), note=TEXT, window=closed(gap=length("um"))))
IN_MM = versioned(FOIL, closed(thickness=length("mm"), note=TEXT, window=closed(gap=length("mm"))))
MEASURED = asset(
    family_ids=frozenset({ROTARY}),
    settings={"thickness": 12, "note": "old"},
    settings_schema_versions={ROTARY: 1},
)


def update(patch: dict[str, Any], stage: Asset, *joined: Family) -> Any:
    command = UpdateAssetSettings(asset_id=STAGE, settings_patch=patch)
    return outcome(command, AssetOfFamilies(asset=stage, families=joined))


def test_a_stored_number_is_stale_once_its_unit_changes() -> None:
    assert [change.path for change in stale_settings(IN_MM, 1, MEASURED.settings)] == ["/thickness"]
    assert stale_settings(IN_MM, 2, MEASURED.settings) == []
    assert stale_settings(IN_MM, 1, {"note": "old"}) == []


@pytest.mark.parametrize("patch", [{}, {"note": "new"}, {"window": {"gap": 1}}])
def test_a_write_that_leaves_a_stale_number_is_refused(patch: dict[str, Any]) -> None:
    assert update(patch, MEASURED, IN_MM) == AssetSettingsStaleError


def test_the_refusal_says_what_is_stale_and_how() -> None:
    seen = AssetOfFamilies(asset=MEASURED, families=(IN_MM,))
    with pytest.raises(AssetSettingsStaleError) as refused:
        UpdateAssetSettings(asset_id=STAGE, settings_patch={}).decide(seen, OCCASION)
    (stale,) = refused.value.context["stale"]
    assert (stale["path"], stale["was"]["code"], stale["now"]["code"]) == ("/thickness", "um", "mm")


def test_stale_comes_before_what_the_values_break() -> None:
    assert update({"note": 3}, MEASURED, IN_MM) == AssetSettingsStaleError


@pytest.mark.parametrize(
    ("patch", "settings"),
    [
        ({"thickness": 0.012}, {"thickness": 0.012, "note": "old"}),
        ({"thickness": 12}, {"thickness": 12, "note": "old"}),
        ({"thickness": None}, {"note": "old"}),
    ],
)
def test_a_stale_number_is_restated_or_deleted(patch: dict[str, Any], settings: dict[str, Any]) -> None:
    expected = replace(UPDATED, settings=settings, settings_schema_versions={ROTARY: 2})
    assert update(patch, MEASURED, IN_MM) == [expected]


def test_a_nested_number_is_restated_in_its_place() -> None:
    nested = replace(MEASURED, settings={"window": {"gap": 5}})
    assert update({"window": {}}, nested, IN_MM) == AssetSettingsStaleError
    assert isinstance(update({"window": {"gap": 0.005}}, nested, IN_MM), list)
    assert isinstance(update({"window": None}, nested, IN_MM), list)


def test_a_patch_deletes_by_null_and_names_the_schema_version() -> None:
    camera = asset(family_ids=frozenset({CAMERA_FAMILY}), settings={"pixel_size": 3.45})
    got = update({"pixel_size": None, "serial_number": "A-17"}, camera, CAMERA)
    settings = {"serial_number": "A-17"}
    assert got == [replace(UPDATED, settings=settings, settings_schema_versions={CAMERA_FAMILY: 1})]


def test_a_patch_that_changes_nothing_is_a_no_op() -> None:
    assert update({"thickness": 12}, MEASURED, FOIL) == []


def test_true_is_not_one() -> None:
    assert isinstance(update({"flag": True}, replace(MEASURED, settings={"flag": 1}), OPEN), list)


def test_emptied_settings_name_no_schema_version() -> None:
    assert update({"thickness": None, "note": None}, MEASURED, FOIL) == [UPDATED]


def add(stage: Asset, *joined: Family, patch: dict[str, Any] | None = None, family_id: UUID = LINEAR) -> Any:
    command = AddAssetFamily(asset_id=STAGE, family_id=family_id, settings_patch=patch or {})
    return outcome(command, AssetOfFamilies(asset=stage, families=joined))


GAUGE = family(LINEAR, closed(gain=NUMBER) | {"required": ["gain"]})


def test_a_family_joins_with_what_it_requires_in_one_append() -> None:
    versions = {ROTARY: 1, LINEAR: 1}
    added = AssetFamilyAdded(
        asset_id=STAGE, occurred_at=NOW, family_id=LINEAR, settings_schema_versions=versions
    )
    settings = {"thickness": 12, "note": "old", "gain": 2}
    updated = replace(UPDATED, settings=settings, settings_schema_versions=versions)
    assert add(MEASURED, FOIL, GAUGE, patch={"gain": 2}) == [added, updated]


def test_a_family_that_changes_no_value_writes_no_settings() -> None:
    added = AssetFamilyAdded(asset_id=STAGE, occurred_at=NOW, family_id=LINEAR, settings_schema_versions={})
    assert add(asset(), GAUGE) == [added]


RIVAL = family(LINEAR, closed(thickness=length("mm")))


@pytest.mark.parametrize(
    ("stage", "joined", "patch", "refusal"),
    [
        (replace(MEASURED, family_ids=frozenset({LINEAR})), [GAUGE], {}, AssetFamilyAlreadyPresentError),
        (MEASURED, [FOIL, family(LINEAR, deprecated=True)], {}, FamilyDeprecatedError),
        (MEASURED, [FOIL, RIVAL], {"thickness": 1}, AssetFamilySchemaConflictError),
        (MEASURED, [IN_MM, GAUGE], {"gain": 1}, AssetSettingsStaleError),
        (MEASURED, [FOIL, GAUGE], {}, InvalidAssetSettingsError),
        (
            replace(MEASURED, family_ids=frozenset(UUID(int=n) for n in range(50))),
            [GAUGE],
            {},
            InvalidAssetFamilyIdsError,
        ),
    ],
)
def test_add_family_refusals(
    stage: Asset, joined: list[Family], patch: dict[str, Any], refusal: type
) -> None:
    assert add(stage, *joined, patch=patch) == refusal


def test_an_older_conflict_of_others_does_not_keep_a_family_out() -> None:
    at_odds = replace(asset(), family_ids=frozenset({ROTARY, LINEAR}))
    assert isinstance(add(at_odds, FOIL, RIVAL, CAMERA, family_id=CAMERA_FAMILY), list)


def test_every_family_that_is_or_becomes_present_is_loaded() -> None:
    world: Any = SmallWorld(MEASURED, GAUGE)
    with pytest.raises(FamilyNotFoundError):
        asyncio.run(AddAssetFamily(asset_id=STAGE, family_id=LINEAR).gather(world))


def remove(stage: Asset, *joined: Family, patch: dict[str, Any] | None = None, of_model: bool = False) -> Any:
    command = RemoveAssetFamily(asset_id=STAGE, family_id=LINEAR, settings_patch=patch or {})
    seen = AssetOfFamilies(asset=stage, families=joined, model=model(LINEAR) if of_model else None)
    return outcome(command, seen)


BOTH = replace(
    MEASURED,
    family_ids=frozenset({ROTARY, LINEAR}),
    settings={"thickness": 12, "gain": 2},
    settings_schema_versions={ROTARY: 1, LINEAR: 1},
)


def test_a_family_leaves_with_its_settings_in_one_append() -> None:
    removed = AssetFamilyRemoved(
        asset_id=STAGE, occurred_at=NOW, family_id=LINEAR, settings_schema_versions={ROTARY: 1}
    )
    updated = replace(UPDATED, settings={"thickness": 12}, settings_schema_versions={ROTARY: 1})
    assert remove(BOTH, FOIL, GAUGE, patch={"gain": None}) == [removed, updated]


@pytest.mark.parametrize(
    ("stage", "joined", "of_model", "refusal"),
    [
        (MEASURED, [FOIL], False, AssetFamilyNotPresentError),
        (asset(ACTIVATED, family_ids=frozenset({LINEAR})), [GAUGE], False, AssetFamilyRequiredError),
        (BOTH, [FOIL, GAUGE], True, AssetFamilyDeclaredByModelError),
        (BOTH, [IN_MM, GAUGE], False, AssetSettingsStaleError),
        (BOTH, [FOIL, GAUGE], False, InvalidAssetSettingsError),
    ],
)
def test_remove_family_refusals(stage: Asset, joined: list[Family], of_model: bool, refusal: type) -> None:
    assert remove(stage, *joined, of_model=of_model) == refusal


def test_the_last_family_of_an_asset_out_of_service_may_go() -> None:
    assert isinstance(remove(asset(family_ids=frozenset({LINEAR})), GAUGE), list)


def test_a_virtual_axis_keeps_its_family_while_it_has_a_rule() -> None:
    rule = AssetPartitionRuleUpdated(asset_id=STAGE, occurred_at=NOW, partition_rule=AffineRule())
    virtual = asset(rule, family_ids=frozenset({PSEUDO_AXIS_FAMILY}))
    command = RemoveAssetFamily(asset_id=STAGE, family_id=PSEUDO_AXIS_FAMILY)
    seen = AssetOfFamilies(asset=virtual, families=(family(PSEUDO_AXIS_FAMILY),))
    assert outcome(command, seen) == AssetPseudoAxisFamilyRequiredError


def test_removing_loads_the_model() -> None:
    world: Any = SmallWorld(replace(MEASURED, model_id=MODEL), FOIL, model(ROTARY))
    seen = asyncio.run(RemoveAssetFamily(asset_id=STAGE, family_id=ROTARY).gather(world))
    assert seen.model == model(ROTARY)


def test_grids() -> None:
    of_both = replace(REGISTERED, family_ids=frozenset({ROTARY, CAMERA_FAMILY}))
    joined = (STAGE_FAMILY, CAMERA)
    check_lifecycles(
        stays("update-settings"),
        UpdateAssetSettings(asset_id=STAGE, settings_patch={"speed": 1}),
        lambda stage: AssetOfFamilies(asset=stage, families=joined),
        of_both,
    )
    check_lifecycles(
        stays("add-family"),
        AddAssetFamily(asset_id=STAGE, family_id=LINEAR),
        lambda stage: AssetOfFamilies(asset=stage, families=(*joined, GAUGE)),
        of_both,
    )
    check_lifecycles(
        stays("remove-family"),
        RemoveAssetFamily(asset_id=STAGE, family_id=CAMERA_FAMILY),
        lambda stage: AssetOfFamilies(asset=stage, families=joined),
        of_both,
    )
