"""Drift: what an asset no longer agrees with, since when, and what is none of its business."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.enclosure.enclosure import EnclosureDecommissioned, EnclosureRegistered, enclosures
from beamwright.contexts.equipment.asset import (
    Asset,
    AssetActivated,
    AssetDecommissioned,
    AssetRegistered,
    AssetTier,
    assets,
)
from beamwright.contexts.equipment.asset_drift import Place
from beamwright.contexts.equipment.asset_settings import schema_conflicts
from beamwright.contexts.equipment.drift import AssetDrift, AssetDriftKind, AssetNeighbours, drift_of
from beamwright.contexts.equipment.family import (
    Family,
    FamilyDefined,
    FamilyDeprecated,
    FamilyVersioned,
    families,
)
from beamwright.contexts.equipment.model import (
    Model,
    ModelDefined,
    ModelDeprecated,
    ModelFamilyAdded,
    models,
)
from beamwright.contexts.equipment.values import Manufacturer
from beamwright.kernel.cursor import InvalidCursorError, encode_cursor
from beamwright.kernel.declared_schema import DIALECT
from tests.rules import NOW, given

ASSET, PARENT, FILTER, STAGE, MODEL, ENCLOSURE = (UUID(int=n) for n in range(601, 607))
LATER, LATEST = NOW + timedelta(days=1), NOW + timedelta(days=2)


def schema(**properties: dict[str, Any]) -> dict[str, Any]:
    closed = {"additionalProperties": False, "unevaluatedProperties": False}
    return {"$schema": DIALECT, "type": "object", "properties": properties, **closed}


def number(code: str, **bounds: Any) -> dict[str, Any]:
    return {"type": "number", "unit": {"system": "udunits", "code": code}, **bounds}


def family(*schemas: dict[str, Any] | None, id: UUID = FILTER, name: str = "Filter") -> Family:
    """A family with one schema after the other, a day apart, the later ones by new versions."""
    first, *others = schemas
    versions = [
        FamilyVersioned(
            family_id=id,
            occurred_at=NOW + timedelta(days=days),
            version_tag=f"v{days}",
            affordances=frozenset(),
            settings_schema=each,
            settings_schema_version=days + (first is not None),
        )
        for days, each in enumerate(others, 1)
    ]
    defined = FamilyDefined(
        family_id=id,
        occurred_at=NOW,
        name=name,
        affordances=frozenset(),
        settings_schema=first,
        settings_schema_version=int(first is not None),
        presented_role_ids=frozenset(),
    )
    return given(families, defined, *versions)


def asset(*later: type, id: UUID = ASSET, **fields: Any) -> Asset:
    """An asset of the family Filter whose settings were checked against its first schema."""
    told: dict[str, Any] = {
        "family_ids": frozenset({FILTER}),
        "settings_schema_versions": {FILTER: 1},
    } | fields
    registered = AssetRegistered(
        asset_id=id,
        occurred_at=NOW,
        name="Attenuator",
        tier=AssetTier.DEVICE,
        parent_id=PARENT,
        facility_code=None,
        scope_facility_code="aps",
        **told,
    )
    reason: dict[type, dict[str, str]] = {AssetDecommissioned: {"reason": "worn out"}}
    events = [event(asset_id=id, occurred_at=LATER, **reason.get(event, {})) for event in later]
    return given(assets, registered, *events)


def model(*families: UUID, deprecated: bool = False) -> Model:
    first, *others = families
    defined = ModelDefined(
        model_id=MODEL,
        occurred_at=NOW,
        name="A-1",
        manufacturer=Manufacturer(name="Works"),
        part_number="1",
        declared_family_ids=frozenset({first}),
        version_tag=None,
    )
    added = [ModelFamilyAdded(model_id=MODEL, occurred_at=LATER, family_id=each) for each in others]
    end = [ModelDeprecated(model_id=MODEL, occurred_at=LATEST, reason="superseded")] if deprecated else []
    return given(models, defined, *added, *end)


def drift(asset: Asset, *joined: Family, **beside: Any) -> list[AssetDrift]:
    conflicts = tuple(schema_conflicts(joined))
    return drift_of(asset, AssetNeighbours(families=joined, conflicts=conflicts, **beside))


def kinds(rows: list[AssetDrift]) -> list[tuple[str, Any]]:
    return [(row.kind.value, row.since) for row in rows]


MICROMETRES, MILLIMETRES = schema(thickness=number("um")), schema(thickness=number("mm"))


def test_an_asset_that_agrees_with_everything_has_no_drift() -> None:
    assert (
        drift(asset(AssetActivated, settings={"thickness": 5}), family(MICROMETRES), model=model(FILTER))
        == []
    )


def test_a_stored_number_whose_unit_changed_drifts_since_the_change() -> None:
    other = schema(thickness=number("mm"), material={"type": "string"})
    rows = drift(asset(settings={"thickness": 5}), family(MICROMETRES, MILLIMETRES, other))
    assert kinds(rows) == [("Unit", LATER)]
    assert (rows[0].family_id, "um" in rows[0].detail, "mm" in rows[0].detail) == (FILTER, True, True)


def test_a_changed_unit_of_a_setting_without_a_value_is_no_drift() -> None:
    both = (
        schema(thickness=number("um"), width=number("mm")),
        schema(thickness=number("um"), width=number("m")),
    )
    assert drift(asset(settings={"thickness": 5}), family(*both)) == []


def test_settings_that_a_later_schema_refuses_drift() -> None:
    rows = drift(
        asset(settings={"thickness": 5}), family(MICROMETRES, schema(thickness=number("um", maximum=1)))
    )
    assert kinds(rows) == [("Settings", LATER)]
    assert "/thickness" in rows[0].detail


def test_settings_that_a_later_schema_accepts_do_not_drift() -> None:
    wider = schema(thickness=number("um"), material={"type": "string"})
    assert drift(asset(settings={"thickness": 5}), family(MICROMETRES, wider)) == []


def test_a_name_that_one_family_gave_up_drifts_for_that_family_alone() -> None:
    stage = family(schema(travel=number("mm")), schema(reach=number("mm")), id=STAGE, name="LinearStage")
    moving = asset(
        family_ids=frozenset({FILTER, STAGE}),
        settings={"thickness": 5, "travel": 10},
        settings_schema_versions={FILTER: 1, STAGE: 1},
    )
    rows = drift(moving, family(MICROMETRES), stage)
    assert [(row.kind, row.family_id) for row in rows] == [(AssetDriftKind.SETTINGS, STAGE)]


def test_families_that_came_to_disagree_drift_even_without_a_value() -> None:
    stage = family(schema(), MILLIMETRES, id=STAGE, name="LinearStage")
    joined = asset(family_ids=frozenset({FILTER, STAGE}), settings_schema_versions={})
    rows = drift(joined, family(MICROMETRES), stage)
    assert (kinds(rows), rows[0].family_id) == ([("Settings", LATER)], STAGE)


def test_settings_are_not_judged_while_one_of_the_families_cannot_be_found() -> None:
    moving = asset(family_ids=frozenset({FILTER, STAGE}), settings={"travel": 10})
    assert drift(moving, family(MICROMETRES, schema())) == []


def test_families_that_the_model_was_given_later_drift_one_by_one() -> None:
    rows = drift(asset(AssetActivated, model_id=MODEL), family(None), model=model(FILTER, STAGE))
    assert kinds(rows) == [("ModelFamilies", LATER)]
    assert (rows[0].family_id, rows[0].model_id) == (STAGE, MODEL)


def test_an_asset_not_yet_in_service_may_lack_families_of_its_model() -> None:
    assert drift(asset(model_id=MODEL), family(None), model=model(FILTER, STAGE)) == []


def test_a_deprecated_model_is_drift_since_its_deprecation() -> None:
    rows = drift(asset(AssetActivated, model_id=MODEL), family(None), model=model(FILTER, deprecated=True))
    assert (kinds(rows), rows[0].model_id) == ([("DeprecatedModel", LATEST)], MODEL)


def test_a_deprecated_family_is_drift_since_its_deprecation() -> None:
    ended = families.fold(
        [FamilyDeprecated(family_id=FILTER, occurred_at=LATEST, reason="merged")], family(MICROMETRES)
    )
    assert ended is not None
    rows = drift(asset(), ended)
    assert (kinds(rows), rows[0].family_id) == ([("DeprecatedFamily", LATEST)], FILTER)


@pytest.mark.parametrize(
    ("beside", "kind"), [("parent", "ParentDecommissioned"), ("controller", "ControllerDecommissioned")]
)
def test_an_asset_around_that_is_decommissioned_is_drift(beside: str, kind: str) -> None:
    gone: dict[str, Any] = {beside: asset(AssetDecommissioned, id=PARENT)}
    assert kinds(drift(asset(), family(None), **gone)) == [(kind, LATER)]


def test_an_enclosure_that_is_decommissioned_is_drift() -> None:
    gone = given(
        enclosures,
        EnclosureRegistered(enclosure_id=ENCLOSURE, occurred_at=NOW, name="Hutch", facility_code="aps"),
        EnclosureDecommissioned(enclosure_id=ENCLOSURE, occurred_at=LATER, reason="rebuilt"),
    )
    assert kinds(drift(asset(), family(None), enclosure=gone)) == [("EnclosureDecommissioned", LATER)]


def test_a_decommissioned_asset_has_nothing_to_keep_up_with() -> None:
    gone = asset(AssetDecommissioned, settings={"thickness": 5})
    assert drift(gone, family(MICROMETRES, MILLIMETRES), parent=asset(AssetDecommissioned, id=PARENT)) == []


def test_a_place_in_the_scan_survives_its_cursor() -> None:
    place = Place(cursor="abc", created_at=NOW, asset_id=ASSET, rows=3)
    assert Place.parse(place.text()) == place


@pytest.mark.parametrize("values", [["", "yesterday", str(ASSET), "0"], ["", "", "camera", "0"], ["a"]])
def test_a_cursor_of_somewhere_else_is_refused(values: list[str]) -> None:
    with pytest.raises(InvalidCursorError):
        Place.parse(encode_cursor(values))
