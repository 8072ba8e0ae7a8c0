"""What a practice needs of assets, and what of that they offer."""

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

from beamwright.contexts.equipment.asset import Asset, AssetLifecycle
from beamwright.contexts.equipment.fixture import FixtureStatus
from beamwright.contexts.equipment.values import Affordance
from beamwright.contexts.recipe.binding import (
    Binding,
    BindingStatus,
    Candidates,
    Equipment,
    binding_view,
    find_candidates,
    load_binding,
    missing_ports,
)
from beamwright.contexts.recipe.method import Method, RoleRequirement
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.authority import Candidate, Reach, Span
from beamwright.kernel.operation import World
from beamwright.kernel.value import Value, replace
from tests.contexts.recipe.plan_examples import (
    ASSEMBLY,
    AT_APS,
    BINDING,
    CAMERA,
    CAMERA_FAMILY,
    CAMERAS,
    DETECTOR,
    EQUIPMENT,
    FIXTURE,
    FLY_SCAN,
    IMAGING,
    INPUT,
    OUTPUT,
    STAGE,
    STAGE_FAMILY,
    STAGES,
    THE_CAMERA,
    THE_FIXTURE,
    THE_STAGE,
    TOMOGRAPHY,
    TRIPOD,
    asset,
    needs_port,
    requiring,
)


def over(*assets: Asset, method: Method = FLY_SCAN) -> Binding:
    return replace(BINDING, method=method, equipment=replace(EQUIPMENT, assets=assets))


IN_FIXTURE = replace(THE_STAGE, fixture_id=FIXTURE)
NEEDS_ASSEMBLY = replace(FLY_SCAN, needed_assembly_ids=frozenset({ASSEMBLY}))
MOUNTED = Equipment(
    assets=(THE_CAMERA, IN_FIXTURE),
    families=(CAMERAS, STAGES),
    fixtures=(THE_FIXTURE,),
    assemblies=(TRIPOD,),
    roles=(IMAGING,),
)
TRIGGERED = frozenset({Affordance.IMAGEABLE, Affordance.TRIGGERABLE})


def test_assets_that_offer_all_that_is_needed_satisfy_a_practice() -> None:
    assert BINDING.status is BindingStatus.SATISFIED


def test_families_are_needed_by_method_and_practice() -> None:
    assert over().missing_family_ids == [CAMERA_FAMILY, STAGE_FAMILY]
    assert over(THE_STAGE).missing_family_ids == [CAMERA_FAMILY]


def test_affordances_are_those_of_all_families_of_all_assets() -> None:
    binding = replace(BINDING, capability=replace(TOMOGRAPHY, required_affordances=TRIGGERED))
    assert binding.missing_affordances == [Affordance.TRIGGERABLE]


def test_an_assembly_is_realised_by_the_fixture_of_an_asset() -> None:
    binding = replace(BINDING, method=NEEDS_ASSEMBLY)
    assert binding.missing_assembly_ids == [ASSEMBLY]
    assert replace(binding, equipment=MOUNTED).missing_assembly_ids == []


def test_a_retired_fixture_realises_nothing() -> None:
    retired = replace(MOUNTED, fixtures=(replace(THE_FIXTURE, status=FixtureStatus.RETIRED),))
    assert replace(BINDING, method=NEEDS_ASSEMBLY, equipment=retired).missing_assembly_ids == [ASSEMBLY]


@pytest.mark.parametrize(
    ("binding", "status"),
    [
        (over(method=NEEDS_ASSEMBLY), BindingStatus.MISSING_FAMILIES),
        (
            replace(
                over(THE_CAMERA, THE_STAGE, method=NEEDS_ASSEMBLY),
                capability=replace(TOMOGRAPHY, required_affordances=TRIGGERED),
            ),
            BindingStatus.MISSING_ASSEMBLIES,
        ),
        (
            replace(BINDING, capability=replace(TOMOGRAPHY, required_affordances=TRIGGERED)),
            BindingStatus.MISSING_AFFORDANCES,
        ),
    ],
)
def test_the_status_is_the_first_thing_that_is_missing(binding: Binding, status: BindingStatus) -> None:
    assert binding.status is status


def test_an_asset_presents_a_role_by_a_family_that_covers_it() -> None:
    assert EQUIPMENT.presents(THE_CAMERA, DETECTOR)
    assert not EQUIPMENT.presents(THE_STAGE, DETECTOR)


def test_a_family_that_no_longer_covers_a_role_does_not_present_it() -> None:
    grown = replace(IMAGING, required_affordances=TRIGGERED)
    assert not replace(EQUIPMENT, roles=(grown,)).presents(THE_CAMERA, DETECTOR)


def test_an_asset_presents_a_role_by_its_fixture() -> None:
    assert MOUNTED.presents(IN_FIXTURE, DETECTOR)


def test_a_retired_fixture_presents_nothing() -> None:
    retired = replace(MOUNTED, fixtures=(replace(THE_FIXTURE, status=FixtureStatus.RETIRED),))
    assert not retired.presents(IN_FIXTURE, DETECTOR)


def test_an_unknown_role_is_not_presented() -> None:
    assert not EQUIPMENT.presents(THE_CAMERA, UUID(int=99))


def test_a_port_counts_with_its_direction_and_signal_type() -> None:
    ports = (
        needs_port("trigger", INPUT),
        needs_port("trigger", OUTPUT),
        needs_port("busy", OUTPUT, "LVDS"),
        needs_port("gate", INPUT),
    )
    required = RoleRequirement(role_name="detector", family_id=CAMERA_FAMILY, required_ports=ports)
    assert missing_ports(THE_CAMERA, required) == list(ports[1:])


def test_the_view_names_who_can_fill_each_role() -> None:
    method = requiring(
        RoleRequirement(role_name="detector", role_id=DETECTOR),
        RoleRequirement(role_name="rotation", family_id=STAGE_FAMILY, optional=True),
        RoleRequirement(
            role_name="trigger", family_id=STAGE_FAMILY, required_ports=(needs_port("x", OUTPUT),)
        ),
    )
    view = binding_view(replace(BINDING, method=method))
    assert [(role.role_name, role.able_asset_ids, role.optional) for role in view.required_roles] == [
        ("detector", (CAMERA,), False),
        ("rotation", (STAGE,), True),
        ("trigger", (), False),
    ]


def test_the_view_says_what_each_asset_can_do() -> None:
    view = binding_view(BINDING)
    assert [(each.asset_id, each.lifecycle, each.affordances) for each in view.assets] == [
        (CAMERA, "Active", ("Imageable",)),
        (STAGE, "Active", ("Rotatable",)),
    ]
    assert view.needed_family_ids == (CAMERA_FAMILY, STAGE_FAMILY)
    assert view.binding_status is BindingStatus.SATISFIED


class Site:
    """A world of given states; `seen` are those that were loaded, hence guarded."""

    def __init__(self, *states: Any, reach: Reach | None = None) -> None:
        self._states = {(type(state).__name__, state.id): state for state in states}
        self._reach = reach or Reach()
        self.seen: set[tuple[str, UUID]] = set()

    async def load[S: Value](self, aggregate: Aggregate[S, Any], id: UUID) -> S:
        self.seen.add((aggregate.name, id))
        return self._states[aggregate.name, id]

    async def load_all[S: Value](self, aggregate: Aggregate[S, Any], ids: Any) -> list[S]:
        return [await self.load(aggregate, id) for id in ids]

    async def look_up(self, name: str, **filters: Any) -> list[Any]:
        of_kind = [state for (kind, _), state in self._states.items() if kind == name]
        match filters:
            case {"affordance": affordance}:
                return [each for each in of_kind if affordance in each.affordances]
            case {"family_id": family_id, "facility_code": code}:
                return [
                    each
                    for each in of_kind
                    if family_id in each.family_ids and each.scope_facility_code == code
                ]
            case _:
                raise NotImplementedError(filters)

    def reach(self, operation_name: str) -> Reach:
        return self._reach


EVERYWHERE = Reach(
    allow=(Candidate(policy_id=UUID(int=1), grant_id=UUID(int=1), span=Span(everything=True)),)
)


def test_a_binding_is_loaded_with_all_that_says_what_assets_can_do() -> None:
    method = requiring(RoleRequirement(role_name="detector", role_id=DETECTOR))
    site = Site(method, TOMOGRAPHY, THE_CAMERA, IN_FIXTURE, CAMERAS, STAGES, THE_FIXTURE, TRIPOD, IMAGING)
    binding = asyncio.run(load_binding(cast(World, site), AT_APS, {CAMERA, STAGE}))
    assert binding == replace(BINDING, method=method, equipment=MOUNTED)
    assert ("Fixture", FIXTURE) in site.seen


LACKING = replace(over(THE_STAGE), practice=replace(AT_APS, family_ids=frozenset()))
SPARE = asset(UUID(int=81), "Spare", CAMERA_FAMILY)
SOLD = replace(asset(UUID(int=82), "Sold", CAMERA_FAMILY), lifecycle=AssetLifecycle.DECOMMISSIONED)
ABROAD = replace(asset(UUID(int=83), "Abroad", CAMERA_FAMILY), scope_facility_code="esrf")


def found_by(reach: Reach) -> tuple[Candidates, ...]:
    site = Site(CAMERAS, STAGES, SPARE, SOLD, ABROAD, reach=reach)
    return asyncio.run(find_candidates(cast(World, site), LACKING))


def test_candidates_are_assets_of_the_facility_in_use() -> None:
    assert found_by(EVERYWHERE) == (Candidates(affordance=Affordance.IMAGEABLE, asset_ids=(SPARE.id,)),)


def test_candidates_are_named_to_those_who_may_list_them() -> None:
    assert found_by(Reach()) == (Candidates(affordance=Affordance.IMAGEABLE, asset_ids=()),)
