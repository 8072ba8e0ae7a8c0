"""Where an asset stands: below which other, in which enclosure, and what stands above and below it."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

import msgspec

from beamwright.contexts.enclosure.enclosure import Enclosure, EnclosureLifecycle, enclosures
from beamwright.contexts.federation.coverage import load_chain, related
from beamwright.kernel import text
from beamwright.kernel.errors import CannotTransitionError, ConflictError
from beamwright.kernel.operation import Command, Occasion, Query, World
from beamwright.kernel.trees import MOST_LEVELS, SubtreeRequest
from beamwright.kernel.value import Value

from .asset import (
    IN_USE,
    LIFECYCLE,
    Asset,
    AssetDecommissioned,
    AssetLifecycle,
    AssetPlaced,
    AssetRelocated,
    AssetTier,
    InvalidAssetReasonError,
    assets,
    check_in_use,
)


class AssetCannotRelocateError(CannotTransitionError):
    """The asset is decommissioned, or it is a root, which belongs to its facility for life."""


class AssetCannotPlaceError(CannotTransitionError):
    """A decommissioned asset stays where it was."""


class AssetParentDecommissionedError(ConflictError):
    """The parent is decommissioned."""


class AssetTreeCycleError(ConflictError):
    """The new parent is the asset itself or below it."""


class AssetRelocationFacilityError(ConflictError):
    """The new parent belongs to another facility."""


class AssetTreeTooDeepError(ConflictError):
    """Assets are nested 64 levels deep at most."""


class AssetEnclosureDecommissionedError(ConflictError):
    """The enclosure is decommissioned."""


class AssetEnclosureFacilityMismatchError(ConflictError):
    """The enclosure's facility neither covers the asset's nor is covered by it."""


class AssetHasFixtureBindingError(ConflictError):
    """The asset is part of a fixture."""


class AssetIsInstalledError(ConflictError):
    """The asset is installed in a mount."""


class AssetHasActiveChildrenError(ConflictError):
    """Assets below this one are not decommissioned."""


async def load_ancestors(world: World, asset: Asset) -> tuple[Asset, ...]:
    """The parent of an asset and every further ancestor, nearest first."""
    found: list[Asset] = []
    while asset.parent_id is not None:
        asset = await world.load(assets, asset.parent_id)
        found.append(asset)
    return tuple(found)


class AssetOnTheMove(Value):
    """An asset, the parent it is to have, that one's ancestors, and the levels below the asset."""

    asset: Asset
    target: Asset
    above: tuple[Asset, ...]
    height: int


@assets.operation("POST /assets/{asset_id}/relocate")
class RelocateAsset(Command[AssetOnTheMove]):
    """Move an asset with all that is below it under another parent of the same facility."""

    asset_id: UUID
    to_parent_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> AssetOnTheMove:
        asset = await world.load(assets, self.asset_id)
        target = await world.load(assets, self.to_parent_id)
        return AssetOnTheMove(
            asset=asset,
            target=target,
            above=await load_ancestors(world, target),
            height=await world.height(assets, asset.id),
        )

    def decide(self, seen: AssetOnTheMove, occasion: Occasion) -> list[AssetRelocated]:
        reason, asset, target = text.reason(self.reason, InvalidAssetReasonError), seen.asset, seen.target
        from_parent_id = movable_from(asset)
        if target.id == from_parent_id:
            return []
        check_parent(target)
        check_no_cycle(asset, (target, *seen.above))
        check_same_facility(asset, target)
        check_depth(target, len(seen.above) + 1, seen.height)
        return [
            AssetRelocated(
                asset_id=asset.id,
                occurred_at=occasion.now,
                from_parent_id=from_parent_id,
                to_parent_id=target.id,
                reason=reason,
            )
        ]


class AssetAndEnclosure(Value):
    """An asset, the enclosure it is to stand in, and whether their facilities have to do with each other."""

    asset: Asset
    enclosure: Enclosure | None
    related: bool


@assets.operation("POST /assets/{asset_id}/place")
class PlaceAsset(Command[AssetAndEnclosure]):
    """Say in which enclosure an asset operates; null says in none."""

    asset_id: UUID
    located_in_enclosure_id: UUID | None = None
    reason: text.Reason

    async def gather(self, world: World) -> AssetAndEnclosure:
        asset = await world.load(assets, self.asset_id)
        enclosure = await load_enclosure(world, self.located_in_enclosure_id)
        near = await enclosure_related(world, enclosure, asset.scope_facility_code)
        return AssetAndEnclosure(asset=asset, enclosure=enclosure, related=near)

    def decide(self, seen: AssetAndEnclosure, occasion: Occasion) -> list[AssetPlaced]:
        reason, asset = text.reason(self.reason, InvalidAssetReasonError), seen.asset
        check_in_use(asset, AssetCannotPlaceError)
        if self.located_in_enclosure_id == asset.located_in_enclosure_id:
            return []
        check_enclosure(seen.enclosure, asset.scope_facility_code, related=seen.related)
        return [
            AssetPlaced(
                asset_id=asset.id,
                occurred_at=occasion.now,
                from_enclosure_id=asset.located_in_enclosure_id,
                to_enclosure_id=self.located_in_enclosure_id,
                reason=reason,
            )
        ]


class AssetWithChildren(Value):
    """An asset and what is directly below it."""

    asset: Asset
    children: tuple[Asset, ...]


@assets.operation("POST /assets/{asset_id}/decommission")
class DecommissionAsset(Command[AssetWithChildren]):
    """Take an asset out of use for good, once it is in no fixture or mount and nothing is in use below it."""

    asset_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> AssetWithChildren:
        asset = await world.load(assets, self.asset_id)
        return AssetWithChildren(
            asset=asset, children=tuple(await world.find(assets, parent_id=self.asset_id))
        )

    def decide(self, seen: AssetWithChildren, occasion: Occasion) -> AssetDecommissioned:
        reason, asset = text.reason(self.reason, InvalidAssetReasonError), seen.asset
        LIFECYCLE.check(AssetDecommissioned, asset.lifecycle, asset.id)
        check_unbound(asset)
        check_no_children_in_use(asset, seen.children)
        return AssetDecommissioned(asset_id=asset.id, occurred_at=occasion.now, reason=reason)


def movable_from(asset: Asset) -> UUID:
    """The parent that an asset can be moved from; a root belongs to its facility for life."""
    check_in_use(asset, AssetCannotRelocateError)
    if asset.parent_id is None:
        raise AssetCannotRelocateError(
            f"{asset.name} is the root of its tree and stays with facility {asset.facility_code}.",
            id=str(asset.id),
            current=asset.lifecycle,
            allowed=sorted(IN_USE),
        )
    return asset.parent_id


def check_parent(parent: Asset) -> None:
    """Gate: nothing new is put below what is out of use."""
    if parent.decommissioned:
        raise AssetParentDecommissionedError(
            f"{parent.name} is decommissioned; choose another parent.", parent_id=str(parent.id)
        )


def check_no_cycle(asset: Asset, chain: Sequence[Asset]) -> None:
    """Gate: nothing stands below itself."""
    if any(above.id == asset.id for above in chain):
        raise AssetTreeCycleError(
            f"{chain[0].name} is {asset.name} itself or below it; choose another parent.",
            asset_id=str(asset.id),
            to_parent_id=str(chain[0].id),
        )


def check_same_facility(asset: Asset, parent: Asset) -> None:
    """Gate: equipment that goes to another facility is decommissioned here and registered there."""
    if parent.scope_facility_code != asset.scope_facility_code:
        raise AssetRelocationFacilityError(
            f"{parent.name} belongs to facility {parent.scope_facility_code}: decommission the asset here and"
            f" register it there.",
            asset_id=str(asset.id),
            from_facility_code=asset.scope_facility_code,
            to_facility_code=parent.scope_facility_code,
        )


def check_depth(parent: Asset, levels: int, below: int = 0) -> None:
    """Gate: `levels` down to the parent, the asset itself, and the levels below it fit into a tree."""
    if levels + 1 + below > MOST_LEVELS:
        raise AssetTreeTooDeepError(
            f"Below {parent.name} the tree would have {levels + 1 + below} levels; at most {MOST_LEVELS} are"
            f" allowed.",
            parent_id=str(parent.id),
            levels=levels + 1 + below,
            most=MOST_LEVELS,
        )


async def load_enclosure(world: World, enclosure_id: UUID | None) -> Enclosure | None:
    return None if enclosure_id is None else await world.load(enclosures, enclosure_id)


async def enclosure_related(world: World, enclosure: Enclosure | None, facility_code: str) -> bool:
    return enclosure is None or await related(world, enclosure.facility_code, facility_code)


def check_enclosure(enclosure: Enclosure | None, facility_code: str, *, related: bool) -> None:
    """Gate: an asset stands in an enclosure in use, of a facility that covers its own or is covered by it."""
    if enclosure is None:
        return
    if enclosure.lifecycle is EnclosureLifecycle.DECOMMISSIONED:
        raise AssetEnclosureDecommissionedError(
            f"Enclosure {enclosure.name} is decommissioned; choose another.", enclosure_id=str(enclosure.id)
        )
    if not related:
        raise AssetEnclosureFacilityMismatchError(
            f"Enclosure {enclosure.name} belongs to {enclosure.facility_code}, the asset to {facility_code}.",
            enclosure_id=str(enclosure.id),
            enclosure_facility_code=enclosure.facility_code,
            scope_facility_code=facility_code,
        )


def check_unbound(asset: Asset) -> None:
    """Gate: the fixture is retired first, then the asset uninstalled."""
    if asset.fixture_id is not None:
        raise AssetHasFixtureBindingError(
            "The asset is part of a fixture; retire the fixture first.",
            asset_id=str(asset.id),
            fixture_id=str(asset.fixture_id),
        )
    if asset.mount_id is not None:
        raise AssetIsInstalledError(
            "The asset is installed in a mount; uninstall it first.",
            asset_id=str(asset.id),
            mount_id=str(asset.mount_id),
        )


def check_no_children_in_use(asset: Asset, children: Sequence[Asset]) -> None:
    """Gate: what is below goes first."""
    remaining = [child for child in children if not child.decommissioned]
    if remaining:
        raise AssetHasActiveChildrenError(
            f"Decommission what is below it first: {', '.join(sorted(child.name for child in remaining))}.",
            asset_id=str(asset.id),
            child_ids=sorted(str(child.id) for child in remaining),
        )


class AssetAncestor(Value):
    """An asset above another."""

    asset_id: UUID
    name: str
    tier: AssetTier
    lifecycle: AssetLifecycle
    located_in_enclosure_id: UUID | None


class AssetAncestors(Value):
    """The assets above one, root first, parent last."""

    items: list[AssetAncestor]


@assets.operation("GET /assets/{asset_id}/ancestors")
class ListAssetAncestors(Query[AssetAncestors]):
    """List the assets above an asset, root first; always current."""

    asset_id: UUID

    async def answer(self, world: World) -> AssetAncestors:
        above = await load_ancestors(world, await world.load(assets, self.asset_id))
        return AssetAncestors(items=[ancestor_view(asset) for asset in reversed(above)])


def ancestor_view(asset: Asset) -> AssetAncestor:
    return AssetAncestor(
        asset_id=asset.id,
        name=asset.name,
        tier=asset.tier,
        lifecycle=asset.lifecycle,
        located_in_enclosure_id=asset.located_in_enclosure_id,
    )


AssetNode = msgspec.defstruct(
    "AssetNode",
    [("depth", int), *((field.name, field.type) for field in msgspec.structs.fields(assets.view))],
    frozen=True,
    kw_only=True,
)
AssetNode.__doc__ = "An asset as the list shows it, and how many levels below the first it stands."

AssetSubtree = msgspec.defstruct(
    "AssetSubtree",
    [("items", list[AssetNode]), ("next_cursor", str | None), ("as_of", str)],
    frozen=True,
    kw_only=True,
)
AssetSubtree.__doc__ = "One page of an asset and what is below it, depth first."


@assets.operation("GET /assets/{asset_id}/subtree", response=AssetSubtree)
class ListAssetSubtree(SubtreeRequest):
    """List an asset and everything below it, depth first, siblings by name."""

    asset_id: UUID
    include_decommissioned: bool = False

    def hidden(self) -> dict[str, Any]:
        return {} if self.include_decommissioned else {"lifecycle": AssetLifecycle.DECOMMISSIONED}

    async def answer(self, world: World) -> Any:
        found = await world.subtree(assets, self.asset_id, self)
        items = [AssetNode(depth=node.depth, **msgspec.structs.asdict(node.view)) for node in found.nodes]
        return AssetSubtree(items=items, next_cursor=found.next_cursor, as_of=found.as_of)


class AssetScope(Value):
    """Everything that work on some assets touches: the assets, their controllers and all that is above these."""

    asset_ids: frozenset[UUID]
    assets: dict[UUID, Asset]
    # The facilities of the assets and every facility that covers one of them.
    facility_codes: frozenset[str]

    @property
    def enclosure_ids(self) -> frozenset[UUID]:
        located = (asset.located_in_enclosure_id for asset in self.assets.values())
        return frozenset(enclosure_id for enclosure_id in located if enclosure_id is not None)


async def asset_scope(world: World, asset_ids: Collection[UUID]) -> AssetScope:
    """The scope of some assets, level by level; every stream in it is loaded, hence guarded."""
    found: dict[UUID, Asset] = {}
    first = await load_missing(world, found, asset_ids)
    wanted = {asset.controller_id for asset in first} | {asset.parent_id for asset in first}
    while level := await load_missing(world, found, {id for id in wanted if id is not None}):
        wanted = {asset.parent_id for asset in level}
    codes: set[str] = set()
    for code in sorted({asset.scope_facility_code for asset in found.values()}):
        codes |= {facility.code for facility in await load_chain(world, code)}
    return AssetScope(asset_ids=frozenset(asset_ids), assets=found, facility_codes=frozenset(codes))


async def load_missing(
    world: World, found: dict[UUID, Asset], asset_ids: Collection[UUID]
) -> Sequence[Asset]:
    """Load the assets that are not among `found` yet, and add them."""
    loaded = await world.load_all(assets, sorted(set(asset_ids) - found.keys()))
    found |= {asset.id: asset for asset in loaded}
    return loaded
