"""Settings of an asset: what the families it belongs to make of them together, and how both change."""

from collections.abc import Collection, Iterable, Mapping
from itertools import combinations
from typing import Any, Protocol
from uuid import UUID

import msgspec

from beamwright.kernel.declared_schema import (
    MOST_NESTING,
    NumberedSchema,
    Schema,
    UnitChange,
    nested_deeper,
    types,
    unit_changes,
)
from beamwright.kernel.declared_values import not_restated, stale_units, violations
from beamwright.kernel.errors import CannotTransitionError, ConflictError, InvalidError
from beamwright.kernel.merge import merged
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, encode
from beamwright.kernel.wellknown import PSEUDO_AXIS_FAMILY

from .asset import (
    IN_SERVICE,
    Asset,
    AssetFamilyAdded,
    AssetFamilyRemoved,
    AssetSettingsUpdated,
    assets,
    check_in_use,
)
from .asset_assignments import check_has_family, load_model
from .family import Family, check_families_usable, families
from .model import Model
from .partition import AssetPseudoAxisFamilyRequiredError

MOST_BYTES = 64 * 1024
MOST_FAMILIES = 50


class InvalidAssetSettingsError(InvalidError):
    """The settings do not hold to what the asset's families declare."""


class InvalidAssetFamilyIdsError(InvalidError):
    """An asset belongs to 50 families at most."""


class AssetFamilySchemaConflictError(ConflictError):
    """Two families declare one setting with different types or units."""


class AssetSettingsStaleError(ConflictError):
    """The unit of a stored setting has changed since; restate or delete it in the same call."""


class AssetCannotUpdateSettingsError(CannotTransitionError):
    """A decommissioned asset keeps its settings."""


class AssetCannotAddFamilyError(CannotTransitionError):
    """A decommissioned asset keeps its families."""


class AssetCannotRemoveFamilyError(CannotTransitionError):
    """A decommissioned asset keeps its families."""


class AssetFamilyAlreadyPresentError(ConflictError):
    """The asset belongs to this family already."""


class AssetFamilyNotPresentError(ConflictError):
    """The asset does not belong to this family."""


class AssetFamilyDeclaredByModelError(ConflictError):
    """The asset's model declares this family."""


class SettingsFamily(Protocol):
    """What the rules of settings need of a family."""

    @property
    def id(self) -> UUID: ...
    @property
    def name(self) -> str: ...
    @property
    def settings_schema(self) -> Schema | None: ...
    @property
    def settings_schema_version(self) -> int: ...
    @property
    def settings_schemas(self) -> tuple[NumberedSchema, ...]: ...


class SchemaConflict(Value):
    """One setting that two families declare differently."""

    name: str
    family_ids: tuple[UUID, UUID]
    family_names: tuple[str, str]


def checked_settings(joined: Iterable[SettingsFamily], settings: Mapping[str, Any]) -> dict[UUID, int]:
    """The schema versions that the settings hold to, or the first refusal; every family has its say."""
    declaring = [family for family in sorted(joined, key=_id) if family.settings_schema is not None]
    if not settings:
        return {}
    if not declaring:
        keys = sorted(settings)[:20]
        raise InvalidAssetSettingsError(
            f"No family of the asset declares {', '.join(keys)}: declare a schema with"
            " update_family_settings_schema, {} for no constraint.",
            keys=keys,
        )
    check_extent(settings)
    check_no_conflict(declaring, settings)
    for family in declaring:
        check_against(family, settings, admitted(family, declaring, settings))
    return {family.id: family.settings_schema_version for family in declaring}


def check_extent(settings: Mapping[str, Any]) -> None:
    """Gate: settings are a record, not a file."""
    if nested_deeper(settings, MOST_NESTING) or len(encode(settings)) > MOST_BYTES:
        raise InvalidAssetSettingsError(
            f"Settings have at most {MOST_BYTES} bytes of JSON and {MOST_NESTING} levels.", most=MOST_BYTES
        )


def check_no_conflict(declaring: Collection[SettingsFamily], settings: Mapping[str, Any]) -> None:
    """Gate: a setting that families declare differently has no value until they agree."""
    for conflict in schema_conflicts(declaring):
        if conflict.name in settings:
            raise InvalidAssetSettingsError(
                f"{' and '.join(conflict.family_names)} declare {conflict.name} differently; delete the value.",
                path=f"/{conflict.name}",
                family_ids=[str(id) for id in conflict.family_ids],
            )


def admitted(
    family: SettingsFamily, declaring: Collection[SettingsFamily], settings: Mapping[str, Any]
) -> frozenset[str]:
    """The names that a family does not look at: those that others declare, or an open schema lets pass."""
    own = declared(family).keys()
    if family.settings_schema != {} and any(other.settings_schema == {} for other in declaring):
        return frozenset(settings.keys() - own)
    return frozenset({name for other in declaring for name in declared(other)} - own)


def check_against(family: SettingsFamily, settings: Mapping[str, Any], admitted: Collection[str]) -> None:
    """Gate: the settings hold to what one family declares."""
    looked_at = {name: value for name, value in settings.items() if name not in admitted}
    found = violations(family.settings_schema or {}, looked_at)
    if found:
        message = found[0].sentence()
        raise InvalidAssetSettingsError(
            f"Family {family.name} refuses the settings. {message}",
            family_id=str(family.id),
            path=found[0].path,
            message=message,
            violations=msgspec.to_builtins(found),
        )


def schema_conflicts(joined: Iterable[SettingsFamily]) -> list[SchemaConflict]:
    """Every setting that two families declare with different types or units."""
    return [
        SchemaConflict(name=name, family_ids=(one.id, other.id), family_names=(one.name, other.name))
        for one, other in combinations(sorted(joined, key=_id), 2)
        for name in sorted(declared(one).keys() & declared(other).keys())
        if not agree(declared(one)[name], declared(other)[name])
    ]


def agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two declarations of a name mean the same; an integer is a number."""
    same_type = "type" not in one or "type" not in other or _kinds(one) == _kinds(other)
    return same_type and not unit_changes(one, other)


def check_joining(joined: Iterable[SettingsFamily], joining: Collection[UUID]) -> None:
    """Gate: a family that joins agrees with those that are there."""
    for conflict in schema_conflicts(joined):
        if not set(joining).isdisjoint(conflict.family_ids):
            raise AssetFamilySchemaConflictError(
                f"{' and '.join(conflict.family_names)} declare {conflict.name} with different types or units.",
                name=conflict.name,
                family_ids=[str(id) for id in conflict.family_ids],
            )


def stale_settings(
    family: SettingsFamily, checked_version: int, settings: Mapping[str, Any]
) -> list[UnitChange]:
    """The stored settings whose unit is another in the family's schema than when they were checked."""
    for numbered in family.settings_schemas:
        if numbered.schema_version == checked_version != family.settings_schema_version:
            return stale_units(numbered.schema, family.settings_schema, settings)
    return []


def check_restated(asset: Asset, joined: Iterable[SettingsFamily], patch: Mapping[str, Any]) -> None:
    """Gate: no write carries a number over into another unit unseen."""
    stale = {
        change.path: change
        for family in sorted(joined, key=_id)
        for change in not_restated(
            stale_settings(family, asset.settings_schema_versions.get(family.id, 0), asset.settings), patch
        )
    }
    if stale:
        raise AssetSettingsStaleError(
            f"The unit of {', '.join(sorted(stale))} has changed: restate or delete the value in this call.",
            asset_id=str(asset.id),
            stale=[msgspec.to_builtins(stale[path]) for path in sorted(stale)],
        )


def declared(family: SettingsFamily) -> dict[str, dict[str, Any]]:
    """The settings that a family declares, by name."""
    return (family.settings_schema or {}).get("properties", {})


def differs(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether two settings differ as JSON, where true is not 1."""
    return encode(was) != encode(now)


def _kinds(node: dict[str, Any]) -> frozenset[str]:
    return frozenset("number" if name == "integer" else name for name in types(node))


def _id(family: SettingsFamily) -> UUID:
    return family.id


class AssetOfFamilies(Value):
    """An asset, every family that it belongs to or is to belong to, and its model."""

    asset: Asset
    families: tuple[Family, ...]
    model: Model | None = None


async def load_families(world: World, family_ids: Collection[UUID]) -> tuple[Family, ...]:
    return tuple(await world.load_all(families, sorted(family_ids)))


@assets.operation("POST /assets/{asset_id}/update-settings")
class UpdateAssetSettings(Command[AssetOfFamilies]):
    """Change settings of an asset by a merge patch: null deletes, absent keeps."""

    asset_id: UUID
    settings_patch: dict[str, Any]

    async def gather(self, world: World) -> AssetOfFamilies:
        asset = await world.load(assets, self.asset_id)
        return AssetOfFamilies(asset=asset, families=await load_families(world, asset.family_ids))

    def decide(self, seen: AssetOfFamilies, occasion: Occasion) -> list[AssetSettingsUpdated]:
        asset = seen.asset
        check_in_use(asset, AssetCannotUpdateSettingsError)
        check_restated(asset, seen.families, self.settings_patch)
        settings = merged(asset.settings, self.settings_patch)
        versions = checked_settings(seen.families, settings)
        if not differs(asset.settings, settings) and versions == asset.settings_schema_versions:
            return []
        return [settings_updated(asset, settings, versions, occasion)]


@assets.operation("POST /assets/{asset_id}/add-family")
class AddAssetFamily(Command[AssetOfFamilies]):
    """Add an asset to a family, and set in the same call what the family asks for."""

    asset_id: UUID
    family_id: UUID
    settings_patch: dict[str, Any] = {}

    async def gather(self, world: World) -> AssetOfFamilies:
        asset = await world.load(assets, self.asset_id)
        joined = await load_families(world, asset.family_ids | {self.family_id})
        return AssetOfFamilies(asset=asset, families=joined)

    def decide(
        self, seen: AssetOfFamilies, occasion: Occasion
    ) -> list[AssetFamilyAdded | AssetSettingsUpdated]:
        asset = seen.asset
        check_family_count(asset.family_ids | {self.family_id})
        check_in_use(asset, AssetCannotAddFamilyError)
        check_not_present(asset, self.family_id)
        check_families_usable(family for family in seen.families if family.id == self.family_id)
        check_joining(seen.families, {self.family_id})
        check_restated(asset, seen.families, self.settings_patch)
        settings = merged(asset.settings, self.settings_patch)
        versions = checked_settings(seen.families, settings)
        added = AssetFamilyAdded(
            asset_id=asset.id,
            occurred_at=occasion.now,
            family_id=self.family_id,
            settings_schema_versions=versions,
        )
        changed = differs(asset.settings, settings)
        return [added, settings_updated(asset, settings, versions, occasion)] if changed else [added]


@assets.operation("POST /assets/{asset_id}/remove-family")
class RemoveAssetFamily(Command[AssetOfFamilies]):
    """Remove an asset from a family, and delete in the same call the settings that only it declared."""

    asset_id: UUID
    family_id: UUID
    settings_patch: dict[str, Any] = {}

    async def gather(self, world: World) -> AssetOfFamilies:
        asset = await world.load(assets, self.asset_id)
        return AssetOfFamilies(
            asset=asset,
            families=await load_families(world, asset.family_ids),
            model=await load_model(world, asset.model_id),
        )

    def decide(
        self, seen: AssetOfFamilies, occasion: Occasion
    ) -> list[AssetFamilyRemoved | AssetSettingsUpdated]:
        asset = seen.asset
        check_in_use(asset, AssetCannotRemoveFamilyError)
        check_removable(asset, self.family_id, seen.model)
        remaining = [family for family in seen.families if family.id != self.family_id]
        check_restated(asset, remaining, self.settings_patch)
        settings = merged(asset.settings, self.settings_patch)
        versions = checked_settings(remaining, settings)
        removed = AssetFamilyRemoved(
            asset_id=asset.id,
            occurred_at=occasion.now,
            family_id=self.family_id,
            settings_schema_versions=versions,
        )
        changed = differs(asset.settings, settings)
        return [removed, settings_updated(asset, settings, versions, occasion)] if changed else [removed]


def settings_updated(
    asset: Asset, settings: dict[str, Any], versions: dict[UUID, int], occasion: Occasion
) -> AssetSettingsUpdated:
    return AssetSettingsUpdated(
        asset_id=asset.id, occurred_at=occasion.now, settings=settings, settings_schema_versions=versions
    )


def check_family_count(family_ids: Collection[UUID]) -> None:
    if len(family_ids) > MOST_FAMILIES:
        raise InvalidAssetFamilyIdsError(
            f"An asset belongs to at most {MOST_FAMILIES} families.", most=MOST_FAMILIES
        )


def check_not_present(asset: Asset, family_id: UUID) -> None:
    if family_id in asset.family_ids:
        raise AssetFamilyAlreadyPresentError(
            "The asset belongs to this family already.", asset_id=str(asset.id), family_id=str(family_id)
        )


def check_removable(asset: Asset, family_id: UUID, model: Model | None) -> None:
    """Gate: an asset keeps what its service, its model and its partition rule ask for."""
    named = {"asset_id": str(asset.id), "family_id": str(family_id)}
    if family_id not in asset.family_ids:
        raise AssetFamilyNotPresentError("The asset does not belong to this family.", **named)
    if asset.lifecycle in IN_SERVICE:
        check_has_family(asset.id, asset.family_ids - {family_id})
    if model is not None and family_id in model.declared_family_ids:
        raise AssetFamilyDeclaredByModelError(
            f"Model {model.name} declares this family; assign another model first.",
            **named,
            model_id=str(model.id),
        )
    if family_id == PSEUDO_AXIS_FAMILY and asset.partition_rule is not None:
        raise AssetPseudoAxisFamilyRequiredError(
            "The asset has a partition rule; take it back first.", **named
        )
