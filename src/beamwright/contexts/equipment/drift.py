"""Drift: where an asset no longer agrees with what it belongs to, is bound to, or stands in."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from beamwright.contexts.enclosure.enclosure import Enclosure
from beamwright.kernel.declared_schema import UnitChange, unit_changes
from beamwright.kernel.units import Unit
from beamwright.kernel.value import Time, Value

from .asset import IN_SERVICE, Asset
from .asset_settings import (
    InvalidAssetSettingsError,
    SchemaConflict,
    admitted,
    check_against,
    stale_settings,
)
from .family import Family
from .model import Model


class AssetDriftKind(StrEnum):
    """`Unit`: a stored number whose unit has changed since; `ModelFamilies`: families of the model that are lacking."""

    SETTINGS = "Settings"
    UNIT = "Unit"
    MODEL_FAMILIES = "ModelFamilies"
    DEPRECATED_FAMILY = "DeprecatedFamily"
    DEPRECATED_MODEL = "DeprecatedModel"
    PARENT_DECOMMISSIONED = "ParentDecommissioned"
    CONTROLLER_DECOMMISSIONED = "ControllerDecommissioned"
    ENCLOSURE_DECOMMISSIONED = "EnclosureDecommissioned"


# What a family that the asset belongs to brings about.
OF_OWN_FAMILY = frozenset({AssetDriftKind.SETTINGS, AssetDriftKind.UNIT, AssetDriftKind.DEPRECATED_FAMILY})


class AssetDrift(Value):
    """One way in which an asset has drifted, what helps, and since when its cause exists."""

    asset_id: UUID
    kind: AssetDriftKind
    family_id: UUID | None = None
    model_id: UUID | None = None
    detail: str
    since: Time


class AssetNeighbours(Value):
    """What an asset is judged against; what could not be found is absent and brings no drift about."""

    families: tuple[Family, ...] = ()
    # Of these families; whoever judges many assets works them out once for each set of families.
    conflicts: tuple[SchemaConflict, ...] = ()
    model: Model | None = None
    parent: Asset | None = None
    controller: Asset | None = None
    enclosure: Enclosure | None = None


def drift_of(asset: Asset, beside: AssetNeighbours) -> list[AssetDrift]:
    """Every drift of one asset; what is decommissioned has nothing to keep up with."""
    if asset.decommissioned:
        return []
    return [
        *_conflicting(asset, beside),
        *_refused(asset, beside.families),
        *_stale(asset, beside.families),
        *_of_model(asset, beside.model),
        *_deprecated_families(asset, beside.families),
        *_out_of_use(asset, beside),
    ]


def _conflicting(asset: Asset, beside: AssetNeighbours) -> Iterator[AssetDrift]:
    """Families that agreed when they were joined, and do not any more."""
    by_id = {family.id: family for family in beside.families}
    for conflict in beside.conflicts:
        last = max((by_id[id] for id in conflict.family_ids), key=_schema_since)
        names = " and ".join(conflict.family_names)
        yield AssetDrift(
            asset_id=asset.id,
            kind=AssetDriftKind.SETTINGS,
            family_id=last.id,
            detail=f"{names} declare {conflict.name} with different types or units; no value is accepted for it.",
            since=_schema_since(last),
        )


def _refused(asset: Asset, joined: Sequence[Family]) -> Iterator[AssetDrift]:
    """Settings that a schema refuses which changed after they were checked, one row for each such family."""
    declaring = [family for family in joined if family.settings_schema is not None]
    changed = {f.id: f for f in declaring if _checked_version(asset, f) != f.settings_schema_version}
    # A family that could not be found may well declare what the others do not.
    if not changed or not asset.settings or len(joined) < len(asset.family_ids):
        return
    latest = max(changed.values(), key=_schema_since)
    rows: dict[UUID, AssetDrift] = {}
    for family in sorted(declaring, key=lambda family: (family.id not in changed, family.id)):
        refusal = _refusal(asset, family, declaring)
        # A name that another family stopped declaring is refused by those that did not change as well.
        cause = changed.get(family.id, latest)
        if refusal is not None and cause.id not in rows:
            rows[cause.id] = AssetDrift(
                asset_id=asset.id,
                kind=AssetDriftKind.SETTINGS,
                family_id=cause.id,
                detail=f"{refusal.detail} Correct it with update_asset_settings.",
                since=_schema_since(cause),
            )
    yield from rows.values()


def _refusal(asset: Asset, family: Family, declaring: Sequence[Family]) -> InvalidAssetSettingsError | None:
    try:
        check_against(family, asset.settings, admitted(family, declaring, asset.settings))
    except InvalidAssetSettingsError as refusal:
        return refusal
    return None


def _stale(asset: Asset, joined: Sequence[Family]) -> Iterator[AssetDrift]:
    for family in joined:
        checked = _checked_version(asset, family)
        for change in stale_settings(family, checked, asset.settings):
            yield AssetDrift(
                asset_id=asset.id,
                kind=AssetDriftKind.UNIT,
                family_id=family.id,
                detail=(
                    f"{change.path} was checked in {_said(change.was)}, but family {family.name} now declares it in"
                    f" {_said(change.now)}; restate or delete it with update_asset_settings."
                ),
                since=_changed_at(family, checked, change),
            )


def _changed_at(family: Family, checked: int, change: UnitChange) -> datetime:
    """When the unit that a stored value was checked in was first given up."""
    before = next(each.schema for each in family.settings_schemas if each.schema_version == checked)
    return next(
        each.since
        for each in family.settings_schemas
        if each.schema_version > checked
        and any(found.path == change.path for found in unit_changes(before, each.schema))
    )


def _of_model(asset: Asset, model: Model | None) -> Iterator[AssetDrift]:
    if model is None:
        return
    # Before it is in service, an asset may still lack families of its model.
    lacking = model.declared_family_ids - asset.family_ids
    for family_id in sorted(lacking) if asset.lifecycle in IN_SERVICE else ():
        yield AssetDrift(
            asset_id=asset.id,
            kind=AssetDriftKind.MODEL_FAMILIES,
            family_id=family_id,
            model_id=model.id,
            detail=f"Model {model.name} declares a family that the asset lacks; add it with add_asset_family.",
            since=model.families_changed_at,
        )
    if model.deprecated_at is not None:
        yield AssetDrift(
            asset_id=asset.id,
            kind=AssetDriftKind.DEPRECATED_MODEL,
            model_id=model.id,
            detail=f"Model {model.name} is deprecated; assign its successor with assign_asset_model.",
            since=model.deprecated_at,
        )


def _deprecated_families(asset: Asset, joined: Sequence[Family]) -> Iterator[AssetDrift]:
    for family in joined:
        if family.deprecated_at is not None:
            yield AssetDrift(
                asset_id=asset.id,
                kind=AssetDriftKind.DEPRECATED_FAMILY,
                family_id=family.id,
                detail=f"Family {family.name} is deprecated; add the asset to its successor, then remove it here.",
                since=family.deprecated_at,
            )


def _out_of_use(asset: Asset, beside: AssetNeighbours) -> Iterator[AssetDrift]:
    around = (
        (AssetDriftKind.PARENT_DECOMMISSIONED, beside.parent, "move it with relocate_asset"),
        (
            AssetDriftKind.CONTROLLER_DECOMMISSIONED,
            beside.controller,
            "choose another with assign_asset_controller",
        ),
        (AssetDriftKind.ENCLOSURE_DECOMMISSIONED, beside.enclosure, "choose another with place_asset"),
    )
    for kind, what, advice in around:
        if what is not None and what.decommissioned_at is not None:
            yield AssetDrift(
                asset_id=asset.id,
                kind=kind,
                detail=f"{what.name} is decommissioned; {advice}.",
                since=what.decommissioned_at,
            )


def _checked_version(asset: Asset, family: Family) -> int:
    return asset.settings_schema_versions.get(family.id, 0)


def _schema_since(family: Family) -> datetime:
    return family.settings_schemas[-1].since


def _said(unit: Unit | None) -> str:
    return "no unit" if unit is None else f"{unit.label or unit.code} ({unit.system})"
