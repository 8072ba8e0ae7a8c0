"""Registering assets: anchored at a facility or below another asset, with all that describes them."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from beamwright.contexts.access.actor import actors
from beamwright.contexts.enclosure.enclosure import Enclosure
from beamwright.contexts.federation.coverage import check_bindable, load_facility
from beamwright.contexts.federation.facility import Facility, FacilityCode
from beamwright.kernel import text
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.merge import merged
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, replace

from .asset import Asset, AssetName, AssetRegistered, AssetTier, InvalidAssetNameError, assets
from .asset_assignments import check_controller, load_model
from .asset_parts import (
    check_alternate_identifiers_distinct,
    check_owners_distinct,
    check_ports_distinct,
    checked_alternate_identifiers,
    checked_owners,
    checked_ports,
)
from .asset_settings import check_family_count, check_joining, checked_settings, load_families
from .asset_tree import (
    check_depth,
    check_enclosure,
    check_parent,
    enclosure_related,
    load_ancestors,
    load_enclosure,
)
from .asset_values import AlternateIdentifier, AssetOwner, AssetPort
from .family import Family, check_families_usable
from .model import Model, check_model_usable
from .values import Drawing, EquipmentFacilityNotActiveError, checked_drawing


class InvalidAssetParentError(InvalidError):
    """An asset has either a parent or, as the root of a tree, a facility."""


class AssetSurroundings(Value):
    """What a new asset is anchored at and bound to; `lineage` is its parent and that one's ancestors."""

    facility: Facility | None = None
    lineage: tuple[Asset, ...] = ()
    families: tuple[Family, ...] = ()
    model: Model | None = None
    controller: Asset | None = None
    enclosure: Enclosure | None = None
    enclosure_related: bool = True

    @property
    def scope_facility_code(self) -> str | None:
        """The facility that the asset will belong to, unless its anchor is wrong."""
        if self.lineage:
            return self.lineage[0].scope_facility_code
        return None if self.facility is None else self.facility.code


@assets.operation("POST /assets", creates=True)
class RegisterAsset(Command[AssetSurroundings]):
    """Register a piece of equipment or a virtual axis: the root of a tree at a facility, or below another asset."""

    name: AssetName
    tier: AssetTier
    parent_id: UUID | None = None
    facility_code: FacilityCode | None = None
    family_ids: frozenset[UUID] = frozenset()
    settings: dict[str, Any] = {}
    ports: tuple[AssetPort, ...] = ()
    model_id: UUID | None = None
    drawing: Drawing | None = None
    controller_id: UUID | None = None
    located_in_enclosure_id: UUID | None = None
    alternate_identifiers: tuple[AlternateIdentifier, ...] = ()
    owners: tuple[AssetOwner, ...] = ()

    async def gather(self, world: World) -> AssetSurroundings:
        facility = None if self.facility_code is None else await load_facility(world, self.facility_code)
        parent = None if self.parent_id is None else await world.load(assets, self.parent_id)
        seen = AssetSurroundings(
            facility=facility,
            lineage=() if parent is None else (parent, *await load_ancestors(world, parent)),
            controller=None if self.controller_id is None else await world.load(assets, self.controller_id),
            families=await load_families(world, self.family_ids),
            model=await load_model(world, self.model_id),
            enclosure=await load_enclosure(world, self.located_in_enclosure_id),
        )
        await world.load_all(actors, contacts(self.owners))
        code = seen.scope_facility_code
        near = code is None or await enclosure_related(world, seen.enclosure, code)
        return replace(seen, enclosure_related=near)

    def checked(self) -> "RegisterAsset":
        """This request with its text trimmed, or the first refusal of a value."""
        name = text.name(self.name, InvalidAssetNameError)
        check_family_count(self.family_ids)
        return replace(
            self,
            name=name,
            ports=checked_ports(self.ports),
            drawing=checked_drawing(self.drawing),
            alternate_identifiers=checked_alternate_identifiers(self.alternate_identifiers),
            owners=checked_owners(self.owners),
        )

    def decide(self, seen: AssetSurroundings, occasion: Occasion) -> AssetRegistered:
        request = self.checked()
        scope_facility_code = anchored(seen)
        check_bindings(seen, scope_facility_code)
        check_ports_distinct(request.ports)
        check_alternate_identifiers_distinct(request.alternate_identifiers)
        check_owners_distinct(request.owners)
        check_joining(seen.families, self.family_ids)
        settings = merged({}, self.settings)
        return AssetRegistered(
            asset_id=occasion.new_id,
            occurred_at=occasion.now,
            name=request.name,
            tier=self.tier,
            parent_id=self.parent_id,
            facility_code=None if seen.facility is None else seen.facility.code,
            scope_facility_code=scope_facility_code,
            family_ids=self.family_ids,
            settings=settings,
            settings_schema_versions=checked_settings(seen.families, settings),
            ports=request.ports,
            model_id=self.model_id,
            drawing=request.drawing,
            controller_id=self.controller_id,
            located_in_enclosure_id=self.located_in_enclosure_id,
            alternate_identifiers=request.alternate_identifiers,
            owners=request.owners,
        )


def contacts(owners: Sequence[AssetOwner]) -> list[UUID]:
    """The actors that are named as contacts of owners."""
    return sorted({owner.contact_actor_id for owner in owners if owner.contact_actor_id is not None})


def anchored(seen: AssetSurroundings) -> str:
    """The facility that the asset will belong to, if it is anchored as it must be."""
    code = seen.scope_facility_code
    if code is None or (seen.facility is not None and seen.lineage):
        raise InvalidAssetParentError("Give parent_id, or facility_code for the root of a tree, not both.")
    if seen.facility is not None:
        check_bindable(seen.facility, EquipmentFacilityNotActiveError)
    if seen.lineage:
        check_parent(seen.lineage[0])
        check_depth(seen.lineage[0], len(seen.lineage))
    return code


def check_bindings(seen: AssetSurroundings, scope_facility_code: str) -> None:
    """Gate: nothing that the asset is bound to is out of use or elsewhere."""
    check_families_usable(seen.families)
    if seen.model is not None:
        check_model_usable(seen.model)
    check_controller(seen.controller)
    check_enclosure(seen.enclosure, scope_facility_code, related=seen.enclosure_related)
