"""What the log says of runs and all around them: beside the model, and of every admission by itself."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from beamwright.app import App
from beamwright.contexts.campaign.campaign import CampaignRunAdded, CampaignRunRemoved, campaigns
from beamwright.contexts.enclosure.enclosure import EnclosureLifecycle, PermitStatus, enclosures
from beamwright.contexts.equipment.asset import AssetCondition, AssetLifecycle, assets
from beamwright.contexts.recipe.plan import PlanStatus, plans
from beamwright.contexts.run.run import (
    Run,
    RunAddedToCampaign,
    RunRemovedFromCampaign,
    RunResumed,
    RunStarted,
    RunStatus,
    runs,
)
from beamwright.contexts.run.values import GateEvidence, RelianceOn
from beamwright.contexts.safety.clearance import clearances
from beamwright.contexts.subject.subject import subjects
from beamwright.contexts.supply.supply import SupplyStatus, supplies
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.store import BEGINNING, LogFilter, Stored
from tests.runtime.run_model import Model
from tests.walks import all_folds

FOLDED = (runs, campaigns, plans, subjects, supplies, enclosures, assets, clearances)
MEMBERSHIPS: dict[type, str] = {
    RunAddedToCampaign: "added",
    CampaignRunAdded: "added",
    RunRemovedFromCampaign: "removed",
    CampaignRunRemoved: "removed",
}


async def told(app: App) -> dict[str, Any]:
    """What the log says, as far as the model has a say in it."""
    states = await all_folds(app, *FOLDED)
    run, campaign, plan, subject, supply, enclosure, asset, clearance = (
        {id: each.state for id, each in states[aggregate.name].items()} for aggregate in FOLDED
    )
    return {
        "runs": {
            id: (each.status, holders(each), each.subject_id, each.campaign_id, each.effective_parameters)
            for id, each in run.items()
        },
        "campaigns": {id: (each.status, each.run_ids) for id, each in campaign.items()},
        "plans": {id: (each.status, each.window_end is not None) for id, each in plan.items()},
        "subjects": {
            id: (each.status, each.mounted_on_asset_id, each.measured_run_ids) for id, each in subject.items()
        },
        "supplies": {id: each.status for id, each in supply.items()},
        "permits": {id: each.permit_status for id, each in enclosure.items()},
        "places": {id: each.located_in_enclosure_id for id, each in asset.items()},
        "conditions": {id: each.condition for id, each in asset.items() if each.condition_reason},
        "in maintenance": {id for id, each in asset.items() if each.lifecycle is AssetLifecycle.MAINTENANCE},
        "clearances": {id: each.status for id, each in clearance.items()},
    }


def foretold(model: Model) -> dict[str, Any]:
    """The same by the model."""
    return {
        "runs": {
            id: (each.status, {*each.holders}, each.subject_id, each.campaign_id, each.parameters)
            for id, each in model.runs.items()
        },
        "campaigns": {id: (each.status, each.run_ids) for id, each in model.campaigns.items()},
        "plans": {
            id: ("Deprecated" if each.deprecated else "Defined", each.window is not None)
            for id, each in model.plans.items()
        },
        "subjects": {id: (each.status, each.asset_id, each.run_ids) for id, each in model.subjects.items()},
        "supplies": {id: each.status for id, each in model.supplies.items()},
        "permits": {id: each.status for id, each in model.permits.items()},
        "places": model.places,
        "conditions": model.conditions,
        "in maintenance": model.in_maintenance,
        "clearances": {id: each.status for id, each in model.clearances.items()},
    }


def holders(run: Run) -> set[UUID]:
    return {claim.held_by for claim in run.hold_claims.values()}


async def check_log(app: App, log: "Log") -> None:
    """Read the whole log again, event by event."""
    mark, wanted, more = BEGINNING, LogFilter([*log.aggregates]), True
    while more:
        events, mark, more = await app.store.search_log(mark, 500, wanted)
        for stored in events:
            log.read(stored)
    alone = {change: streams for change, streams in log.memberships.items() if len(streams) != 2}
    assert not alone, "a membership is told on both streams at once"


class Log:
    """The states as they stood, while the log is read from its beginning."""

    # Whose streams are read.
    read_from: ClassVar[tuple[Aggregate[Any, Any], ...]] = FOLDED

    def __init__(self, kinds: frozenset[str]) -> None:
        self.kinds = kinds
        self.aggregates = {aggregate.name: aggregate for aggregate in self.read_from}
        self.states: dict[tuple[str, UUID], Any] = {}
        self.versions: dict[tuple[str, UUID], int] = {}
        # The streams that tell of each change, by transaction, kind, campaign and run.
        self.memberships: dict[tuple[int, str, UUID, UUID], set[str]] = {}

    def read(self, stored: Stored) -> None:
        name, aggregate = (stored.stream_type, stored.stream_id), self.aggregates[stored.stream_type]
        event: Any = aggregate.decoder.decode(stored.tagged)
        before, after = self.states.get(name), aggregate.evolve(self.states.get(name), event)
        if isinstance(event, RunStarted | RunResumed):
            self.check_admitted(after, event.gate_evidence, event.occurred_at)
        if isinstance(event, RunStarted):
            assert self.states["Plan", event.plan_id].status is not PlanStatus.DEPRECATED
        if stored.stream_type == "Run":
            check_held(before, after)
        self.check(event, after)
        if change := MEMBERSHIPS.get(type(event)):
            key = (stored.mark.transaction_id, change, event.campaign_id, event.run_id)
            self.memberships.setdefault(key, set()).add(stored.stream_type)
        self.states[name], self.versions[name] = after, stored.version

    def check(self, event: Any, after: Any) -> None:
        """What else an event must be, before it counts."""

    def check_admitted(self, run: Run, evidence: GateEvidence, now: datetime) -> None:
        """Whatever the run relied on stood just so when it was admitted, and permitted it."""
        scope = self.scope(run.asset_ids)
        self.check_equipment(run, scope)
        self.check_plan(run, now)
        for enclosure in (located := self.relied_on("Enclosure", evidence.enclosures)):
            assert enclosure.lifecycle is EnclosureLifecycle.ACTIVE
            assert enclosure.permit_status is PermitStatus.PERMITTED
        assert {each.id for each in located} == {each.located_in_enclosure_id for each in scope} - {None}
        serving = self.relied_on("Supply", evidence.supplies)
        assert {each.status for each in serving} == {SupplyStatus.AVAILABLE}
        assert {each.kind for each in serving} == self.kinds
        self.check_cleared({run.id, run.visit_id}, run.asset_ids, run.subject_id, evidence, now)

    def check_cleared(
        self,
        work: set[UUID | None],
        asset_ids: frozenset[UUID],
        subject_id: UUID | None,
        evidence: GateEvidence,
        now: datetime,
    ) -> None:
        """Whatever some clearance is bound to was covered, and all that covered it was relied on."""
        things = [{each.id for each in self.upwards(id)} for id in asset_ids]
        relied, covering = {each.id for each in self.relied_on("Clearance", evidence.clearances)}, set[UUID]()
        for thing in [*things, *([] if subject_id is None else [{subject_id}])]:
            bound = [each for each in self.all("Clearance") if not bound_to(each).isdisjoint(work | thing)]
            in_force = {each.id for each in bound if each.in_force(now)}
            assert in_force or not bound
            covering |= in_force
        assert relied == covering

    def check_equipment(self, run: Run, scope: Sequence[Any]) -> None:
        for asset in (each for each in scope if each.id in run.asset_ids):
            assert asset.lifecycle is AssetLifecycle.ACTIVE and asset.condition is not AssetCondition.FAULTED
        if run.subject_id is not None:
            assert self.states["Subject", run.subject_id].mounted_on_asset_id in {each.id for each in scope}

    def check_plan(self, run: Run, now: datetime) -> None:
        plan = self.states["Plan", run.plan_id]
        assert plan.window_start is None or plan.window_start <= now < plan.window_end

    def relied_on(self, name: str, evidence: Sequence[RelianceOn]) -> list[Any]:
        """The states at the recorded versions, which are those of this moment."""
        assert all(self.versions[name, each.id] == each.version for each in evidence)
        return [self.states[name, each.id] for each in evidence]

    def scope(self, asset_ids: frozenset[UUID]) -> list[Any]:
        """Some assets, what controls them, and all above these."""
        controllers = {self.states["Asset", id].controller_id for id in asset_ids} - {None}
        found = {each.id: each for id in asset_ids | controllers for each in self.upwards(id)}
        return [*found.values()]

    def upwards(self, asset_id: UUID) -> list[Any]:
        """An asset and all above it."""
        asset = self.states["Asset", asset_id]
        return [asset, *([] if asset.parent_id is None else self.upwards(asset.parent_id))]

    def all(self, name: str) -> list[Any]:
        return [state for (stream_type, _), state in self.states.items() if stream_type == name]


def bound_to(clearance: Any) -> set[UUID]:
    """What a clearance is bound to."""
    return {binding.id for binding in clearance.bindings}


def check_held(before: Run | None, after: Run) -> None:
    """A run is held exactly while somebody holds it, and what has ended stays so."""
    assert bool(after.hold_claims) is (after.status is RunStatus.HELD)
    if before is not None and before.status not in (RunStatus.RUNNING, RunStatus.HELD):
        assert after.status is before.status
