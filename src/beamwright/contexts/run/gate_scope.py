"""What the gate looks at, loaded: every stream in it is guarded, so that a withdrawn permit refuses the start."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import Any
from uuid import UUID

from beamwright.contexts.enclosure.enclosure import Enclosure, enclosures
from beamwright.contexts.equipment.asset import Asset, assets
from beamwright.contexts.federation.coverage import load_chain
from beamwright.contexts.safety.clearance import Clearance, clearances
from beamwright.contexts.safety.gate import ClearanceGateMode, ClearedWork, binding_keys
from beamwright.contexts.subject.subject import Subject, subjects
from beamwright.contexts.supply.supply import Supply, supplies
from beamwright.contexts.trust.visit import Visit, visits
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.observing import Contact
from beamwright.kernel.operation import World
from beamwright.kernel.value import Value, replace

from .gate import GateScope
from .run import Run


class GatedWork(Value):
    """A piece of work as far as the gate must know it."""

    work: ClearedWork
    asset_ids: frozenset[UUID]
    subject_id: UUID | None = None
    needed_supplies: frozenset[str] = frozenset()
    window_start: datetime | None = None
    window_end: datetime | None = None
    parent_run: Run | None = None


async def load_gate_scope(world: World, work: GatedWork) -> GateScope:
    """The scope of a piece of work: its assets level by level, then all that depends on them at once."""
    installation = world.installation
    found, missing = await load_asset_scope(world, work.asset_ids)
    scope = GateScope(
        work=work.work,
        asset_ids=work.asset_ids,
        assets=found,
        missing_asset_ids=missing,
        subject_id=work.subject_id,
        window_start=work.window_start,
        window_end=work.window_end,
        parent_run=work.parent_run,
        needed_supplies=work.needed_supplies,
        clearance_gate=ClearanceGateMode(installation.clearance_gate),
        supply_stale_after=installation.supply_stale_after,
        enclosure_stale_after=installation.enclosure_stale_after,
    )
    # The loads share no stream, so none of them can see another state than the one that is guarded.
    supplied, located, cleared, subject, visit = await asyncio.gather(
        _load_supplies(world, scope),
        _load_enclosures(world, scope.enclosure_ids),
        _load_clearances(world, scope),
        _load_subject(world, work.subject_id),
        _load_visit(world, work.work.visit_id),
    )
    return replace(
        scope,
        facility_codes=supplied.facility_codes,
        supplies=supplied.supplies,
        enclosures=dict(located.enclosures),
        clearances=tuple(cleared),
        subject=subject,
        visit=visit,
        contacts={**supplied.contacts, **located.contacts},
        versions={
            **_versions(world, supplies, (supply.id for supply in supplied.supplies)),
            **_versions(world, enclosures, located.enclosures),
            **_versions(world, clearances, (clearance.id for clearance in cleared)),
        },
    )


async def load_asset_scope(
    world: World, asset_ids: Collection[UUID]
) -> tuple[dict[UUID, Asset], frozenset[UUID]]:
    """Assets, their controllers and all that is above these, one level at a time; and the ids that lead nowhere."""
    found: dict[UUID, Asset] = {}
    missing: set[UUID] = set()
    wanted: set[UUID | None] = set(asset_ids)
    first = True
    while level := sorted({id for id in wanted if id is not None} - found.keys() - missing):
        loaded = await world.load_known(assets, level)
        found |= loaded
        missing |= set(level) - loaded.keys()
        wanted = {asset.parent_id for asset in loaded.values()}
        if first:
            wanted |= {asset.controller_id for asset in loaded.values()}
            first = False
    return found, frozenset(missing)


class LoadedSupplies(Value):
    """Supplies of the needed kinds where the scope's assets belong."""

    facility_codes: frozenset[str] = frozenset()
    supplies: tuple[Supply, ...] = ()
    contacts: dict[UUID, Contact] = {}


async def _load_supplies(world: World, scope: GateScope) -> LoadedSupplies:
    if not scope.needed_supplies:
        return LoadedSupplies()
    codes: set[str] = set()
    for code in sorted({asset.scope_facility_code for asset in scope.assets.values()}):
        codes |= {facility.code for facility in await load_chain(world, code)}
    found = await asyncio.gather(
        *(
            world.look_up(supplies.name, kind=kind, facility_code=code)
            for kind, code in product(sorted(scope.needed_supplies), sorted(codes))
        )
    )
    # One more supply can only help, so none need be feared that comes meanwhile; those met are guarded.
    every = await world.load_all(supplies, sorted({supply.id for some in found for supply in some or ()}))
    contacts = await world.contacts(supplies.name, [supply.id for supply in every if supply.watched])
    return LoadedSupplies(facility_codes=frozenset(codes), supplies=tuple(every), contacts=dict(contacts))


class LoadedEnclosures(Value):
    """Those of the scope's enclosures that exist."""

    enclosures: dict[UUID, Enclosure]
    contacts: dict[UUID, Contact]


async def _load_enclosures(world: World, ids: Collection[UUID]) -> LoadedEnclosures:
    found = await world.load_known(enclosures, sorted(ids))
    contacts = await world.contacts(enclosures.name, list(found))
    return LoadedEnclosures(enclosures=dict(found), contacts=dict(contacts))


async def _load_clearances(world: World, scope: GateScope) -> Sequence[Clearance]:
    if scope.clearance_gate is ClearanceGateMode.OFF:
        return []
    keys = binding_keys(scope.work, scope.needed_clearances)
    return await world.find(clearances, binds=keys) if keys else []


async def _load_subject(world: World, id: UUID | None) -> Subject | None:
    return None if id is None else (await world.load_known(subjects, [id])).get(id)


async def _load_visit(world: World, id: UUID | None) -> Visit | None:
    return None if id is None else (await world.load_known(visits, [id])).get(id)


def _versions(world: World, aggregate: Aggregate[Any, Any], ids: Iterable[UUID]) -> Mapping[UUID, int]:
    """The versions at which streams were seen, which the append verifies."""
    return {id: world.version(aggregate, id) for id in ids}
