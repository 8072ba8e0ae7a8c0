"""What the gate looks at: assets, their controllers, all that is above these, and what they depend on."""

import asyncio
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from beamwright.contexts.equipment.asset import Asset
from beamwright.contexts.run.gate import GateScope
from beamwright.contexts.run.gate_scope import GatedWork, load_asset_scope, load_gate_scope
from beamwright.contexts.safety.gate import ClearedWork
from beamwright.contexts.safety.values import BindingKind
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.operation import Installation, World
from beamwright.kernel.value import Value, replace
from tests.contexts.equipment.asset_examples import below, facility, root
from tests.contexts.run.examples import FORM, HUTCH, ON_UNIT, clearance, enclosure, supply
from tests.rules import NOW

BEAMLINE, STAGE, AXIS, CRATE, CONTROLLER, STRANGER, GHOST = (UUID(int=n) for n in range(601, 608))
SITE, AREA = UUID(int=611), UUID(int=612)
BEAM, FAR = UUID(int=621), UUID(int=622)

UNIT = replace(root(id=BEAMLINE), scope_facility_code="area")
THE_STAGE = replace(below(UNIT, STAGE), controller_id=CONTROLLER)
THE_AXIS = below(THE_STAGE, AXIS)
THE_CRATE = replace(root(id=CRATE), located_in_enclosure_id=HUTCH, controller_id=STRANGER)
THE_CONTROLLER = replace(below(THE_CRATE, CONTROLLER), controller_id=STRANGER)


class Stored:
    """A world of a few states; remembers how often it was asked, and refuses what was not loaded."""

    def __init__(self, **states: Sequence[Value]) -> None:
        self.streams: dict[tuple[str, UUID], Any] = {}
        for name, each in states.items():
            self.streams |= {(name, cast(Any, state).id): state for state in each}
        self.loaded: dict[tuple[str, UUID], Any] = {}
        self.rounds: list[Collection[UUID]] = []
        self.installation = Installation()
        self.now = NOW

    def version(self, aggregate: Aggregate[Any, Any], id: UUID) -> int:
        return self.loaded[aggregate.name, id].version

    async def load_known(self, aggregate: Aggregate[Any, Any], ids: Collection[UUID]) -> dict[UUID, Any]:
        self.rounds.append(ids)
        known = {id: self.streams[aggregate.name, id] for id in ids if (aggregate.name, id) in self.streams}
        self.loaded |= {(aggregate.name, id): SimpleNamespace(version=7) for id in known}
        return known

    async def load_all(self, aggregate: Aggregate[Any, Any], ids: Collection[UUID]) -> list[Any]:
        known = await self.load_known(aggregate, ids)
        return [known[id] for id in ids]

    async def load(self, aggregate: Aggregate[Any, Any], id: UUID) -> Any:
        return (await self.load_all(aggregate, [id]))[0]

    async def load_claimed(self, aggregate: Aggregate[Any, Any], kind: str, key: str) -> Any:
        return next(
            each for (name, _), each in self.streams.items() if name == aggregate.name and each.code == key
        )

    async def look_up(self, name: str, **filters: Any) -> list[Any]:
        return [
            each
            for (type, _), each in self.streams.items()
            if type == name and all(getattr(each, field) == value for field, value in filters.items())
        ]

    async def find(self, aggregate: Aggregate[Any, Any], binds: frozenset[str]) -> list[Any]:
        found = [
            each
            for (type, _), each in self.streams.items()
            if type == aggregate.name and binds & {binding.key for binding in each.bindings}
        ]
        return await self.load_all(aggregate, [each.id for each in found])

    async def contacts(self, aggregate_name: str, ids: Collection[UUID]) -> dict[UUID, Any]:
        return {}


def world(**states: Sequence[Value]) -> Any:
    return cast(World, Stored(**states))


EVERY_ASSET = (UNIT, THE_STAGE, THE_AXIS, THE_CRATE, THE_CONTROLLER)


def asset_scope(*asset_ids: UUID, known: Sequence[Asset] = EVERY_ASSET) -> tuple[set[UUID], frozenset[UUID]]:
    found, missing = asyncio.run(load_asset_scope(world(Asset=known), asset_ids))
    return set(found), missing


def test_the_scope_is_the_assets_their_controllers_and_all_above() -> None:
    assert asset_scope(STAGE) == ({STAGE, BEAMLINE, CONTROLLER, CRATE}, frozenset())


def test_controllers_count_one_hop_from_what_is_bound() -> None:
    # The stage above the axis has a controller, and the controller has one; neither is the axis's own.
    assert asset_scope(AXIS) == ({AXIS, STAGE, BEAMLINE}, frozenset())


def test_what_leads_nowhere_is_told() -> None:
    assert asset_scope(STAGE, GHOST) == ({STAGE, BEAMLINE, CONTROLLER, CRATE}, frozenset({GHOST}))
    orphans = (THE_STAGE, THE_CONTROLLER, THE_CRATE)
    assert asset_scope(STAGE, known=orphans) == ({STAGE, CONTROLLER, CRATE}, frozenset({BEAMLINE}))


def test_each_level_is_one_round() -> None:
    stored = Stored(Asset=EVERY_ASSET)
    asyncio.run(load_asset_scope(cast(World, stored), [AXIS, STAGE]))
    assert [len(ids) for ids in stored.rounds] == [2, 2, 1]


def loaded(**states: Sequence[Value]) -> GateScope:
    facilities = (facility("aps", SITE), facility("area", AREA, parent_id=SITE), facility("other", FAR))
    known: dict[str, Sequence[Value]] = {"Asset": EVERY_ASSET, "Facility": facilities}
    work = GatedWork(
        work=ClearedWork(kind=BindingKind.RUN),
        asset_ids=frozenset({STAGE}),
        needed_supplies=frozenset({"photon_beam"}),
    )
    return asyncio.run(load_gate_scope(world(**known | states), work))


def test_supplies_of_covering_facilities_count() -> None:
    of_site, of_other = supply(BEAM, facility_code="aps"), supply(FAR, facility_code="other")
    scope = loaded(Supply=(of_site, of_other))
    assert scope.facility_codes == {"aps", "area"}
    assert [each.id for each in scope.supplies] == [BEAM]
    assert scope.versions[BEAM] == 7


def test_an_enclosure_is_found_wherever_the_scope_reaches() -> None:
    assert loaded(Enclosure=(enclosure(),)).enclosures.keys() == {HUTCH}
    assert loaded().enclosure_ids == {HUTCH}


def test_clearances_bound_to_what_is_above_are_found() -> None:
    above = replace(ON_UNIT, id=BEAMLINE)
    scope = loaded(Clearance=(clearance(above),))
    assert [each.id for each in scope.clearances] == [FORM]
    assert loaded(Clearance=(clearance(ON_UNIT),)).clearances == ()
