"""What a start asks for, and all that it depends on, loaded."""

import asyncio
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.calibration.calibration import (
    Calibration,
    CalibrationRevisionNotFoundError,
    calibrations,
)
from beamwright.contexts.campaign.campaign import Campaign, campaigns
from beamwright.contexts.equipment.asset import assets
from beamwright.contexts.federation.coverage import related
from beamwright.contexts.recipe.binding import Binding, Candidates, find_candidates, load_equipment
from beamwright.contexts.recipe.capability import capabilities
from beamwright.contexts.recipe.method import Method, methods
from beamwright.contexts.recipe.plan import Plan, plans
from beamwright.contexts.recipe.practice import practices
from beamwright.contexts.safety.gate import ClearedWork
from beamwright.contexts.safety.values import BindingKind
from beamwright.contexts.subject.subject import subjects
from beamwright.contexts.trust.visit import visits
from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.external_refs import GivenRef
from beamwright.kernel.merge import merged
from beamwright.kernel.operation import World
from beamwright.kernel.value import Value

from .deciding import check_decision
from .gate import GateScope
from .gate_scope import GatedWork, load_gate_scope
from .run import Parameters

type Raid = Annotated[
    str,
    Meta(
        description="A research activity identifier (ISO 23527), bare.",
        extra_json_schema={"minLength": 1, "maxLength": 255},
    ),
]


class RunOrder(Value):
    """What a start asks for."""

    name: text.Name
    plan_id: UUID
    subject_id: UUID | None = None
    visit_id: UUID | None = None
    campaign_id: UUID | None = None
    override_parameters: dict[str, Any] = {}
    pinned_calibration_ids: frozenset[UUID] = frozenset()
    raid: Raid | None = None
    external_refs: dict[str, GivenRef] = {}
    trigger_note: text.ShortNote | None = None
    decided_by_decision_id: UUID | None = None


class RunPreparation(Value):
    """What a start depends on, as it is today."""

    plan: Plan
    binding: Binding
    candidates: tuple[Candidates, ...]
    calibrations: tuple[Calibration, ...]
    visit_related: bool
    campaign: Campaign | None
    gate: GateScope

    def effective_parameters(self, override: Parameters) -> Parameters:
        """The plan's defaults with what the start overrides."""
        return merged(self.plan.default_parameters, override)


async def load_preparation(world: World, order: RunOrder) -> RunPreparation:
    """Everything that a start must see; whatever is named and does not exist is refused in the agreed order."""
    await _fetch(
        world,
        (plans, order.plan_id),
        (subjects, order.subject_id),
        (visits, order.visit_id),
        (campaigns, order.campaign_id),
    )
    plan = await world.load(plans, order.plan_id)
    await _fetch(
        world,
        (practices, plan.practice_id),
        (methods, plan.method_id),
        (capabilities, plan.capability_id),
        *((assets, id) for id in plan.asset_ids),
    )
    practice = await world.load(practices, plan.practice_id)
    method = await world.load(methods, plan.method_id)
    capability = await world.load(capabilities, plan.capability_id)
    if order.subject_id is not None:
        await world.load(subjects, order.subject_id)
    visit = None if order.visit_id is None else await world.load(visits, order.visit_id)
    campaign = None if order.campaign_id is None else await world.load(campaigns, order.campaign_id)
    pinned = await load_pinned(world, order.pinned_calibration_ids)
    await check_decision(world, order.decided_by_decision_id)
    known = (await world.load_known(assets, sorted(plan.asset_ids))).keys()
    # What both of them need is loaded by now, so neither can see another state of it than the other.
    gate, equipment = await asyncio.gather(
        load_gate_scope(world, gated(order, plan, method)),
        load_equipment(world, known, {each.role_id for each in method.required_roles if each.role_id}),
    )
    binding = Binding(practice=practice, method=method, capability=capability, equipment=equipment)
    return RunPreparation(
        plan=plan,
        binding=binding,
        candidates=await find_candidates(world, binding),
        calibrations=pinned,
        visit_related=visit is None or await related(world, plan.facility_code, visit.facility_code),
        campaign=campaign,
        gate=gate,
    )


def gated(order: RunOrder, plan: Plan, method: Method) -> GatedWork:
    """The run as the gate judges it."""
    return GatedWork(
        work=ClearedWork(kind=BindingKind.RUN, visit_id=order.visit_id),
        asset_ids=plan.asset_ids,
        subject_id=order.subject_id,
        needed_supplies=method.needed_supplies,
        window_start=plan.window_start,
        window_end=plan.window_end,
    )


async def _fetch(world: World, *wanted: tuple[Aggregate[Any, Any], UUID | None]) -> None:
    """Read streams in one round trip; loading them afterwards, in order, tells which is missing."""
    loads = (world.load(aggregate, id) for aggregate, id in wanted if id is not None)
    await asyncio.gather(*loads, return_exceptions=True)


async def load_pinned(world: World, revision_ids: frozenset[UUID]) -> tuple[Calibration, ...]:
    """The calibrations that have these revisions."""
    if not revision_ids:
        return ()
    found: list[Calibration] = list(await world.look_up("Calibration", revision_id=revision_ids) or ())
    reach = world.reach("get_calibration")
    readable = [each.id for each in found if reach.holds(calibrations.belongs(each), reading=True)]
    loaded = await world.load_all(calibrations, sorted(readable))
    known = {revision.revision_id for each in loaded for revision in each.revisions}
    if missing := sorted(str(id) for id in revision_ids - known):
        raise CalibrationRevisionNotFoundError(
            f"There are no such calibration revisions: {', '.join(missing)}.", revision_ids=missing
        )
    return tuple(loaded)
