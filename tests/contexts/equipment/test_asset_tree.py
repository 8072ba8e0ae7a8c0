"""Moving, placing and decommissioning assets in their tree, and what work on them touches."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.enclosure.enclosure import (
    Enclosure,
    EnclosureDecommissioned,
    EnclosureRegistered,
    enclosures,
)
from beamwright.contexts.equipment.asset import (
    Asset,
    AssetAttachedToFixture,
    AssetInstalledInMount,
    AssetNotFoundError,
    AssetPlaced,
    AssetRelocated,
    InvalidAssetReasonError,
)
from beamwright.contexts.equipment.asset_tree import (
    AssetAndEnclosure,
    AssetCannotRelocateError,
    AssetEnclosureDecommissionedError,
    AssetEnclosureFacilityMismatchError,
    AssetHasActiveChildrenError,
    AssetHasFixtureBindingError,
    AssetIsInstalledError,
    AssetOnTheMove,
    AssetParentDecommissionedError,
    AssetRelocationFacilityError,
    AssetScope,
    AssetTreeCycleError,
    AssetTreeTooDeepError,
    AssetWithChildren,
    DecommissionAsset,
    ListAssetAncestors,
    ListAssetSubtree,
    PlaceAsset,
    RelocateAsset,
    asset_scope,
)
from beamwright.kernel.value import replace
from tests.contexts.equipment.asset_examples import (
    AXIS,
    DECOMMISSIONED,
    OTHER,
    ROOT,
    SITE,
    STAGE,
    asset,
    below,
    check_lifecycles,
    facility,
    root,
    stays,
)
from tests.contexts.trust.examples import SmallWorld
from tests.rules import NOW, given, outcome

HUTCH, FIXTURE, MOUNT = UUID(int=740), UUID(int=741), UUID(int=742)
RELOCATE = RelocateAsset(asset_id=STAGE, to_parent_id=OTHER, reason="rebuilt")
PLACE = PlaceAsset(asset_id=STAGE, located_in_enclosure_id=HUTCH, reason="moved")
DECOMMISSION = DecommissionAsset(asset_id=STAGE, reason="worn out")
TABLE = below(root(), OTHER)


class TreeWorld(SmallWorld):
    """A small world that knows the height of every subtree and counts its round trips."""

    def __init__(self, *states: Any, height: int = 0) -> None:
        super().__init__(*states)
        self.levels = height
        self.trips = 0

    async def height(self, aggregate: Any, root_id: UUID) -> int:
        return self.levels

    async def load_all(self, aggregate: Any, ids: Collection[UUID]) -> Sequence[Any]:
        self.trips += bool(ids)
        return await super().load_all(aggregate, ids)


def enclosure(code: str = "aps", *events: Any) -> Enclosure:
    registered = EnclosureRegistered(enclosure_id=HUTCH, occurred_at=NOW, name="2-BM-A", facility_code=code)
    return given(enclosures, registered, *events)


def moving(
    stage: Asset, target: Asset = TABLE, above: Sequence[Asset] = (root(),), height: int = 0
) -> AssetOnTheMove:
    return AssetOnTheMove(asset=stage, target=target, above=tuple(above), height=height)


def relocated(from_parent_id: UUID, to_parent_id: UUID) -> AssetRelocated:
    return AssetRelocated(
        asset_id=STAGE,
        occurred_at=NOW,
        from_parent_id=from_parent_id,
        to_parent_id=to_parent_id,
        reason="rebuilt",
    )


def placed(enclosure: Enclosure | None, stage: Asset, *, related: bool = True) -> AssetAndEnclosure:
    return AssetAndEnclosure(asset=stage, enclosure=enclosure, related=related)


DECOMMISSIONING = """
               decommission
Commissioned   Decommissioned
Active         Decommissioned
Maintenance    Decommissioned
Decommissioned -
"""


def test_grids() -> None:
    check_lifecycles(stays("relocate"), RELOCATE, moving)
    check_lifecycles(stays("place"), PLACE, lambda stage: placed(enclosure(), stage))
    check_lifecycles(DECOMMISSIONING, DECOMMISSION, lambda stage: AssetWithChildren(asset=stage, children=()))


def test_an_asset_moves_under_another_parent() -> None:
    assert outcome(RELOCATE, moving(asset())) == [relocated(ROOT, OTHER)]


def test_relocating_to_the_present_parent_is_a_no_op() -> None:
    gone = asset(replace(DECOMMISSIONED, asset_id=ROOT), asset_id=ROOT)
    assert outcome(replace(RELOCATE, to_parent_id=ROOT), moving(asset(), gone, ())) == []


def test_a_root_is_not_relocated() -> None:
    assert outcome(RELOCATE, moving(root(id=STAGE))) == AssetCannotRelocateError


def test_the_new_parent_is_in_use() -> None:
    gone = asset(replace(DECOMMISSIONED, asset_id=OTHER), asset_id=OTHER)
    assert outcome(RELOCATE, moving(asset(), gone)) == AssetParentDecommissionedError


@pytest.mark.parametrize(
    ("target", "above"),
    [(asset(), (root(),)), (below(asset(), AXIS), (asset(), root()))],
    ids=["itself", "below it"],
)
def test_nothing_moves_below_itself(target: Asset, above: tuple[Asset, ...]) -> None:
    assert outcome(RELOCATE, moving(asset(), target, above)) == AssetTreeCycleError


def test_relocation_stays_within_the_facility() -> None:
    away = root("away", OTHER)
    assert outcome(RELOCATE, moving(asset(), away, ())) == AssetRelocationFacilityError


@pytest.mark.parametrize(("height", "refused"), [(61, False), (62, True)])
def test_the_moved_subtree_fits_into_64_levels(height: int, refused: bool) -> None:
    got = outcome(RELOCATE, moving(asset(), height=height))
    assert (got == AssetTreeTooDeepError) is refused


def test_a_blank_reason_is_refused_before_the_lifecycle() -> None:
    assert outcome(replace(RELOCATE, reason=" "), moving(asset(DECOMMISSIONED))) == InvalidAssetReasonError


def test_relocating_loads_the_target_and_all_above_it() -> None:
    world: Any = TreeWorld(root(), asset(), TABLE, height=2)
    seen = asyncio.run(RELOCATE.gather(world))
    assert (seen.target, seen.above, seen.height) == (TABLE, (root(),), 2)


def test_an_unknown_target_is_not_found() -> None:
    world: Any = TreeWorld(root(), asset())
    with pytest.raises(AssetNotFoundError):
        asyncio.run(RELOCATE.gather(world))


def test_an_asset_is_placed_and_taken_out() -> None:
    into = AssetPlaced(
        asset_id=STAGE, occurred_at=NOW, from_enclosure_id=None, to_enclosure_id=HUTCH, reason="moved"
    )
    assert outcome(PLACE, placed(enclosure(), asset())) == [into]
    out = replace(into, from_enclosure_id=HUTCH, to_enclosure_id=None)
    assert outcome(PlaceAsset(asset_id=STAGE, reason="moved"), placed(None, asset(into))) == [out]


def test_placing_where_it_is_is_a_no_op() -> None:
    inside = asset(located_in_enclosure_id=HUTCH)
    assert outcome(PLACE, placed(enclosure("away"), inside, related=False)) == []


def test_an_enclosure_is_in_use() -> None:
    gone = enclosure("aps", EnclosureDecommissioned(enclosure_id=HUTCH, occurred_at=NOW, reason="torn down"))
    assert outcome(PLACE, placed(gone, asset())) == AssetEnclosureDecommissionedError


def test_an_enclosure_is_of_a_related_facility() -> None:
    seen = placed(enclosure("away"), asset(), related=False)
    assert outcome(PLACE, seen) == AssetEnclosureFacilityMismatchError


def test_placing_asks_for_the_facilities_only_when_the_codes_differ() -> None:
    world: Any = SmallWorld(asset(), enclosure("aps"))
    assert asyncio.run(PLACE.gather(world)).related


ATTACHED = AssetAttachedToFixture(asset_id=STAGE, occurred_at=NOW, fixture_id=FIXTURE, slot_name="rotation")
INSTALLED = AssetInstalledInMount(asset_id=STAGE, occurred_at=NOW, mount_id=MOUNT)
CHILD = below(asset(), AXIS)


@pytest.mark.parametrize(
    ("stage", "children", "refusal"),
    [
        (asset(INSTALLED, ATTACHED), (CHILD,), AssetHasFixtureBindingError),
        (asset(INSTALLED), (CHILD,), AssetIsInstalledError),
        (asset(), (CHILD,), AssetHasActiveChildrenError),
    ],
)
def test_retirement_goes_fixture_mount_children_asset(
    stage: Asset, children: tuple[Asset, ...], refusal: type
) -> None:
    assert outcome(DECOMMISSION, AssetWithChildren(asset=stage, children=children)) == refusal


def test_decommissioned_children_do_not_hold_it_back() -> None:
    gone = replace(CHILD, lifecycle=asset(DECOMMISSIONED).lifecycle)
    assert outcome(DECOMMISSION, AssetWithChildren(asset=asset(), children=(gone,))) == [DECOMMISSIONED]


def test_decommissioning_finds_the_children() -> None:
    world: Any = SmallWorld(root(), asset(), CHILD)
    assert asyncio.run(DECOMMISSION.gather(world)).children == (CHILD,)


def test_ancestors_come_root_first() -> None:
    world: Any = SmallWorld(root(), asset(), CHILD)
    answer = asyncio.run(ListAssetAncestors(asset_id=AXIS).answer(world))
    assert [each.asset_id for each in answer.items] == [ROOT, STAGE]


def test_a_subtree_leaves_out_what_is_decommissioned_unless_asked() -> None:
    assert ListAssetSubtree(asset_id=ROOT).hidden() == {"lifecycle": "Decommissioned"}
    assert ListAssetSubtree(asset_id=ROOT, include_decommissioned=True).hidden() == {}


CONTROLLER, RACK, AREA = UUID(int=750), UUID(int=751), UUID(int=752)


def scope() -> tuple[AssetScope, TreeWorld]:
    rack = below(root("sector", RACK), CONTROLLER, controller_id=OTHER)
    axis = below(asset(located_in_enclosure_id=HUTCH), AXIS, controller_id=CONTROLLER)
    site, area = facility("aps"), facility("sector", AREA, SITE)
    world = TreeWorld(
        root(), asset(located_in_enclosure_id=HUTCH), axis, rack, root("sector", RACK), site, area
    )
    typed: Any = world
    return asyncio.run(asset_scope(typed, [AXIS])), world


def test_a_scope_is_the_assets_their_controllers_and_all_above() -> None:
    found, _ = scope()
    assert found.assets.keys() == {AXIS, STAGE, ROOT, CONTROLLER, RACK}


def test_a_scope_names_the_facilities_that_cover_it_and_its_enclosures() -> None:
    found, _ = scope()
    assert (found.facility_codes, found.enclosure_ids) == ({"aps", "sector"}, {HUTCH})


def test_a_scope_is_loaded_level_by_level() -> None:
    _, world = scope()
    assert world.trips == 3


def test_an_unknown_asset_has_no_scope() -> None:
    world: Any = TreeWorld()
    with pytest.raises(AssetNotFoundError):
        asyncio.run(asset_scope(world, [AXIS]))
