"""Reads of clearances: the list, what covers some work, and which work relies on one of them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from beamwright.contexts.equipment.asset import Asset, assets
from beamwright.contexts.equipment.asset_tree import load_ancestors
from beamwright.contexts.federation.facility import FacilityCode
from beamwright.contexts.recipe.plan import plans
from beamwright.contexts.subject.subject import Hazard, Subject, subjects
from beamwright.contexts.trust.visit import visits
from beamwright.kernel.aggregate import ListRequest, SearchText
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.event import Belonging
from beamwright.kernel.operation import Query, World
from beamwright.kernel.value import Time, Value

from .clearance import ClearanceStatus, clearances
from .gate import (
    ClearanceCoverage,
    ClearedWork,
    NearClearance,
    NeededClearance,
    binding_keys,
    clearance_gate,
)
from .values import BindingKind, RiskBand

MOST_ASSETS = 200
# The smallest step between two times: lists compare with “before” and “from … on”.
_STEP = timedelta(microseconds=1)

type FilterText = Annotated[str, Meta(min_length=1, max_length=300)]

# The view exists only once it was derived from the state, hence no class statement and no static type.
ClearancePage: Any = msgspec.defstruct(
    "ClearancePage",
    [("items", list[clearances.view]), ("next_cursor", str | None), ("as_of", str)],
    frozen=True,
    kw_only=True,
)


class InvalidClearanceCoverageQuestionError(InvalidError):
    """Coverage is asked of a run, of a procedure, or of things named one by one."""


@clearances.operation("GET /clearances", response=ClearancePage)
class ListClearances(ListRequest):
    """List clearances, filtered, searched and sorted."""

    template_id: UUID | None = None
    template_code: FilterText | None = None
    status: frozenset[ClearanceStatus] | None = None
    risk_band: RiskBand | None = None
    facility_code: FacilityCode | None = None
    author_id: UUID | None = None
    binds: frozenset[FilterText] | None = None
    in_force_at: Time | None = None
    valid_until_before: Time | None = None
    awaiting_role: FilterText | None = None
    external_scheme: FilterText | None = None
    external_value: FilterText | None = None
    parent_id: frozenset[UUID] | None = None
    created_from: Time | None = None
    created_until: Time | None = None
    q: SearchText | None = None
    sort: Literal["created_at", "-created_at", "valid_until", "-valid_until", "updated_at", "-updated_at"] = (
        "-created_at"
    )

    @property
    def in_force_from(self) -> datetime | None:
        return self.in_force_at and self.in_force_at + _STEP

    @property
    def in_force_until(self) -> datetime | None:
        return self.in_force_from

    async def answer(self, world: World) -> Any:
        return await world.page(clearances, self)


class CoverageOfNeeded(Value):
    """A needed thing with the hazards of a subject, what covers it, and what is bound to it without being in force."""

    kind: BindingKind
    id: UUID
    hazards: tuple[Hazard, ...] | None
    covered_by: tuple[UUID, ...]
    near: tuple[NearClearance, ...]


class WorkCoverage(Value):
    """Whether every needed thing is covered by a clearance in force, and each of them."""

    covered: bool
    needed: list[CoverageOfNeeded]


class WorkToCover(Value):
    """Some work, real or only thought of, and what it needs clearances for."""

    work: ClearedWork
    asset_ids: frozenset[UUID] = frozenset()
    subject_id: UUID | None = None


@clearances.operation("GET /clearances/coverage")
class GetClearanceCoverage(Query[WorkCoverage]):
    """Read which clearances cover a run or a procedure, or work on a plan's or other assets, a subject, at a visit."""

    run_id: UUID | None = None
    procedure_id: UUID | None = None
    plan_id: UUID | None = None
    asset_ids: frozenset[UUID] | None = None
    subject_id: UUID | None = None
    visit_id: UUID | None = None
    at: Time | None = None

    async def answer(self, world: World) -> WorkCoverage:
        self.check_question()
        asked = await self.work_to_cover(world)
        needed = [
            await needed_asset(world, asset)
            for asset in await world.load_all(assets, sorted(asked.asset_ids))
        ]
        subject = None if asked.subject_id is None else await world.load(subjects, asked.subject_id)
        if subject is not None:
            needed.append(NeededClearance(kind=BindingKind.SUBJECT, id=subject.id))
        keys = binding_keys(asked.work, needed)
        found = await world.find(clearances, binds=keys) if keys else ()
        judged = clearance_gate(asked.work, needed, found, self.at or world.now).needed
        return WorkCoverage(
            covered=all(each.covered for each in judged), needed=[shown(each, subject) for each in judged]
        )

    def check_question(self) -> None:
        work = [id for id in (self.run_id, self.procedure_id) if id is not None]
        things = (self.plan_id, self.asset_ids, self.subject_id, self.visit_id)
        if len(work) > 1 or (work and any(thing is not None for thing in things)):
            raise InvalidClearanceCoverageQuestionError(
                "Ask of run_id, or of procedure_id, or of plan_id, asset_ids, subject_id and visit_id."
            )
        if len(self.asset_ids or ()) > MOST_ASSETS:
            raise InvalidClearanceCoverageQuestionError(
                f"Ask of {MOST_ASSETS} assets at most.", most=MOST_ASSETS
            )

    async def work_to_cover(self, world: World) -> WorkToCover:
        if self.run_id is not None:
            return await run_to_cover(world, self.run_id)
        if self.procedure_id is not None:
            return await procedure_to_cover(world, self.procedure_id)
        asset_ids = self.asset_ids or frozenset[UUID]()
        if self.plan_id is not None:
            asset_ids |= (await world.load(plans, self.plan_id)).asset_ids
        if self.visit_id is not None:
            await world.load(visits, self.visit_id)
        return WorkToCover(
            work=ClearedWork(kind=BindingKind.RUN, visit_id=self.visit_id),
            asset_ids=asset_ids,
            subject_id=self.subject_id,
        )


async def run_to_cover(world: World, run_id: UUID) -> WorkToCover:
    run = await state_of(world, "Run", run_id)
    return WorkToCover(
        work=ClearedWork(kind=BindingKind.RUN, id=run.id, visit_id=run.visit_id),
        asset_ids=run.asset_ids,
        subject_id=run.subject_id,
    )


async def procedure_to_cover(world: World, procedure_id: UUID) -> WorkToCover:
    procedure = await state_of(world, "Procedure", procedure_id)
    parent_id = procedure.parent_run_id
    parent = None if parent_id is None else await state_of(world, "Run", parent_id)
    return WorkToCover(
        work=ClearedWork(kind=BindingKind.PROCEDURE, id=procedure.id, visit_id=procedure.visit_id),
        asset_ids=procedure.target_asset_ids or (parent.asset_ids if parent else frozenset()),
        subject_id=parent.subject_id if parent else None,
    )


async def state_of(world: World, aggregate_name: str, id: UUID) -> Any:
    """A state of a context that imports this one; the first call refuses what is not there, or out of reach."""
    await world.belonging(aggregate_name, id)
    found = await world.look_up(aggregate_name, ids=[id])
    assert found, "what belongs somewhere exists"
    return found[0]


async def needed_asset(world: World, asset: Asset) -> NeededClearance:
    above = await load_ancestors(world, asset)
    return NeededClearance(kind=BindingKind.ASSET, id=asset.id, ancestor_ids=tuple(each.id for each in above))


def shown(coverage: ClearanceCoverage, subject: Subject | None) -> CoverageOfNeeded:
    hazards = subject.hazards if subject is not None and subject.id == coverage.id else None
    return CoverageOfNeeded(
        kind=coverage.kind,
        id=coverage.id,
        hazards=hazards,
        covered_by=coverage.covered_by,
        near=coverage.near,
    )


class ReliantWork(Value):
    """An open run or procedure that started or resumed on the ground of a clearance."""

    kind: BindingKind
    id: UUID
    name: str
    status: str
    facility_code: str | None
    visit_id: UUID | None
    started_at: Time | None


class ReliantWorkList(Value):
    """Oldest first."""

    items: list[ReliantWork]


@clearances.operation("GET /clearances/{clearance_id}/work")
class ListClearanceWork(Query[ReliantWorkList]):
    """List open runs and procedures whose last start or resume relied on a clearance."""

    clearance_id: UUID

    async def answer(self, world: World) -> ReliantWorkList:
        clearance = await world.load(clearances, self.clearance_id)
        found = [
            *relying(world, BindingKind.RUN, await open_states(world, "Run"), clearance.id),
            *relying(world, BindingKind.PROCEDURE, await open_states(world, "Procedure"), clearance.id),
        ]
        return ReliantWorkList(items=sorted(found, key=lambda each: each.id))


async def open_states(world: World, aggregate_name: str) -> Sequence[Any]:
    """What runs or is held: few enough to be looked through."""
    return await world.look_up(aggregate_name, status=frozenset({"Running", "Held"})) or ()


def relying(world: World, kind: BindingKind, states: Sequence[Any], clearance_id: UUID) -> list[ReliantWork]:
    """Those whose last gate names the clearance, and that the caller may read."""
    if not states:
        return []
    reach = world.reach(f"get_{kind.lower()}")
    return [
        ReliantWork(
            kind=kind,
            id=state.id,
            name=state.name,
            status=state.status,
            facility_code=state.facility_code,
            visit_id=state.visit_id,
            started_at=state.started_at,
        )
        for state in states
        if state.gate_evidence and any(each.id == clearance_id for each in state.gate_evidence.clearances)
        if reach.holds(place(state), reading=True)
    ]


def place(state: Any) -> Belonging:
    visit_ids = frozenset[UUID]() if state.visit_id is None else frozenset({state.visit_id})
    return Belonging(facility_code=state.facility_code, visit_ids=visit_ids)
