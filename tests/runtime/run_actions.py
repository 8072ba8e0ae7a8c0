"""What a walk over runs may call, each call with what the model says to it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import permutations, product
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from beamwright.app import new_id
from beamwright.contexts.campaign.campaign import (
    AbandonCampaign,
    CampaignIntent,
    CloseCampaign,
    HoldCampaign,
    ResumeCampaign,
    StartCampaign,
)
from beamwright.contexts.campaign.campaign_registration import RegisterCampaign
from beamwright.contexts.campaign.membership import AddRunToCampaign, RemoveRunFromCampaign
from beamwright.contexts.enclosure.enclosure import PermitStatus
from beamwright.contexts.enclosure.enclosure_observation import ObserveEnclosureStatus
from beamwright.contexts.equipment.asset_moves import (
    DegradeAsset,
    EnterAssetMaintenance,
    ExitAssetMaintenance,
    FaultAsset,
    RestoreAsset,
)
from beamwright.contexts.equipment.asset_tree import PlaceAsset
from beamwright.contexts.recipe.method_definition import UpdateMethodParametersSchema
from beamwright.contexts.recipe.plan import DeprecatePlan, UpdatePlanWindow
from beamwright.contexts.run.adjustment import AdjustRun
from beamwright.contexts.run.resume import ResumeRun
from beamwright.contexts.run.run import HoldClaim
from beamwright.contexts.run.run_moves import AbortRun, CompleteRun, HoldRun, StopRun, TruncateRun
from beamwright.contexts.run.start import StartRun
from beamwright.contexts.safety.clearance_lifecycle import ExpireClearance
from beamwright.contexts.subject.subject_custody import ReceiveSubject
from beamwright.contexts.subject.subject_mounting import (
    DismountSubject,
    MeasureSubject,
    MountSubject,
    RemoveSubject,
)
from beamwright.contexts.supply.supply import (
    DegradeSupply,
    DeregisterSupply,
    MarkSupplyAvailable,
    MarkSupplyRecovering,
    MarkSupplyUnavailable,
    RestoreSupply,
)
from beamwright.contexts.supply.supply_registration import RegisterSupply
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import replace
from beamwright.kernel.versions import DeprecationReason
from beamwright.runtime.call import Call
from tests.acceptance.stations import INTERLOCK, MONITOR
from tests.runtime.run_bench import A_WHILE, Bench, taking
from tests.runtime.run_model import ACCEPTED, UNCHANGED, Model, Order
from tests.runtime.test_projector import ADMINISTRATOR

ENDS: dict[str, Any] = {"complete": CompleteRun, "abort": AbortRun, "stop": StopRun, "truncate": TruncateRun}
CAMPAIGN_VERBS: dict[str, Any] = {
    "start": StartCampaign,
    "hold": HoldCampaign,
    "resume": ResumeCampaign,
    "close": CloseCampaign,
    "abandon": AbandonCampaign,
}
SUPPLY_VERBS: dict[str, Any] = {
    "mark-available": MarkSupplyAvailable,
    "degrade": DegradeSupply,
    "mark-unavailable": MarkSupplyUnavailable,
    "mark-recovering": MarkSupplyRecovering,
    "restore": RestoreSupply,
    "deregister": DeregisterSupply,
}
LEAVING: dict[str, Any] = {"dismount": DismountSubject, "remove": RemoveSubject}
CONDITIONS: dict[str, Any] = {"Degraded": DegradeAsset, "Faulted": FaultAsset, "Nominal": RestoreAsset}
MAINTENANCE = {
    "enter": lambda id: EnterAssetMaintenance(asset_id=id, reason="walk"),
    "exit": lambda id: ExitAssetMaintenance(asset_id=id),
}


class Action(NamedTuple):
    """A call, and what the model says to it."""

    request: Any
    expected: Callable[[Model], str]
    call: Call = ADMINISTRATOR
    # What the catalogue allows besides, of a call that others run into.
    allowed: Callable[[Model], str] | None = None


def answered(answer: Any) -> str:
    """An answer in the model's words."""
    if isinstance(answer, type):
        return answer.__name__
    return ACCEPTED if answer.events else UNCHANGED


def histories(model: Model, actions: Sequence[Action]) -> Iterator[tuple[list[str], Model]]:
    """What may be answered to calls at once, and what they leave: as if one had come after the other."""
    words = [[each.expected, *([each.allowed] if each.allowed else [])] for each in actions]
    for order, spoken in product(permutations(range(len(actions))), product(*words)):
        left = model.copy()
        answers = {index: spoken[index](left) for index in order}
        yield [answers[index] for index in range(len(actions))], left


def reason(blank: bool) -> str:
    return "  " if blank else "walk"


def creating(call: Call) -> tuple[UUID, Call]:
    """An id, and a call that gives it to what it creates."""
    id = new_id()
    return id, replace(call, new_id=id)


class Actions:
    """The calls of three principals at one station."""

    def __init__(self, station: Bench, callers: Sequence[Call]) -> None:
        self.station = station
        self.callers = callers

    def principal(self, who: int) -> UUID:
        return self.callers[who].caller.principal_id

    def person(self, who: int) -> bool:
        return self.callers[who].caller.kind == ActorKind.HUMAN

    # Runs

    def start(self, order: Order, who: int = 0) -> Action:
        run_id, call = creating(self.callers[who])
        request = StartRun(
            name="Run",
            plan_id=order.plan_id,
            override_parameters=order.parameters,
            subject_id=order.subject_id,
            campaign_id=order.campaign_id,
            visit_id=order.visit_id,
        )
        return Action(request, lambda model: model.start(run_id, order), call)

    def hold(self, run_id: UUID, who: int, *, blank: bool = False) -> Action:
        holder, supervises = self.principal(who), not self.person(who)
        return Action(
            HoldRun(run_id=run_id, reason=reason(blank)),
            lambda model: model.hold(run_id, holder, supervises=supervises, blank=blank),
            self.callers[who],
        )

    def resume(self, run_id: UUID, who: int) -> Action:
        """Release what one may unasked."""
        caller = self.principal(who)
        request = ResumeRun(run_id=run_id)
        return Action(request, lambda model: model.resume(run_id, caller, None), self.callers[who])

    def resume_by_name(self, run_id: UUID, claims: Iterable[tuple[UUID, HoldClaim]], who: int) -> Action:
        named = {id: claim.held_by for id, claim in claims}
        return self._release(run_id, named, who)

    def resume_by_a_wrong_name(self, run_id: UUID, who: int) -> Action:
        return self._release(run_id, {uuid4(): uuid4()}, who)

    def _release(self, run_id: UUID, holders: dict[UUID, UUID], who: int) -> Action:
        caller, released = self.principal(who), frozenset(holders.values())
        request = ResumeRun(run_id=run_id, claim_ids=frozenset(holders))
        return Action(request, lambda model: model.resume(run_id, caller, released), self.callers[who])

    def end(self, run_id: UUID, verb: str, *, blank: bool = False, future: bool = False) -> Action:
        """Complete, abort, stop or truncate a run; nothing was interrupted in the future."""
        fields: dict[str, Any] = {} if verb == "complete" else {"reason": reason(blank)}
        future = future and verb == "truncate"
        if future:
            fields["interrupted_at"] = self.station.app.clock() + timedelta(hours=1)
        return Action(
            ENDS[verb](run_id=run_id, **fields),
            lambda model: model.end(run_id, verb, blank=blank, future=future),
        )

    def adjust(self, run_id: UUID, patch: dict[str, Any], *, blank: bool = False) -> Action:
        request = AdjustRun(run_id=run_id, parameters_patch=patch, reason=reason(blank))
        return Action(request, lambda model: model.adjust(run_id, patch, blank=blank))

    # Campaigns

    def register_campaign(self, facility_code: str) -> Action:
        id, call = creating(ADMINISTRATOR)
        request = RegisterCampaign(name="Series", intent=CampaignIntent.SERIES, facility_code=facility_code)
        covers = facility_code == "home"
        return Action(request, lambda model: model.register_campaign(id, covers=covers), call)

    def move_campaign(self, id: UUID, verb: str, *, blank: bool = False) -> Action:
        fields = {"reason": reason(blank)} if verb in ("hold", "abandon") else {}
        request = CAMPAIGN_VERBS[verb](campaign_id=id, **fields)
        return Action(request, lambda model: model.move_campaign(id, verb, blank=blank))

    def add(self, campaign_id: UUID, run_id: UUID) -> Action:
        request = AddRunToCampaign(campaign_id=campaign_id, run_id=run_id)
        return Action(request, lambda model: model.add(campaign_id, run_id))

    def remove(self, campaign_id: UUID, run_id: UUID, *, blank: bool = False) -> Action:
        request = RemoveRunFromCampaign(campaign_id=campaign_id, run_id=run_id, reason=reason(blank))
        return Action(request, lambda model: model.remove(campaign_id, run_id, blank=blank))

    # Plans and their method

    def define_plan(self) -> Action:
        id, call = creating(ADMINISTRATOR)
        return Action(self.station.another_plan(), lambda model: model.define_plan(id), call)

    def deprecate(self, plan_id: UUID) -> Action:
        request = DeprecatePlan(plan_id=plan_id, reason_kind=DeprecationReason.OBSOLETE, reason="walk")
        return Action(request, lambda model: model.deprecate(plan_id))

    def limit(self, plan_id: UUID, window: tuple[int, int] | None) -> Action:
        """Give a plan a window from the first wait to the last after now, or none."""
        request = UpdatePlanWindow(plan_id=plan_id)
        if window is not None:
            now, (first, last) = self.station.app.clock(), window
            start, end = now + (first - 0.5) * A_WHILE, now + (last + 0.5) * A_WHILE
            request = UpdatePlanWindow(plan_id=plan_id, window_start=start, window_end=end)
        return Action(request, lambda model: model.limit(plan_id, window))

    def take_parameters(self, names: frozenset[str]) -> Action:
        method_id = self.station.method_id
        request = UpdateMethodParametersSchema(method_id=method_id, parameters_schema=taking(names))
        return Action(request, lambda model: model.take_parameters(names))

    # Subjects

    def mount(self, subject_id: UUID, asset: int) -> Action:
        asset_id = self.station.asset_ids[asset]
        request = MountSubject(subject_id=subject_id, asset_id=asset_id, reason="walk")
        return Action(request, lambda model: model.mount(subject_id, asset_id))

    def measure(self, subject_id: UUID, run_id: UUID) -> Action:
        request = MeasureSubject(subject_id=subject_id, run_id=run_id)
        return Action(request, lambda model: model.measure(subject_id, run_id))

    def leave(self, subject_id: UUID, verb: str, *, beside: Action | None = None) -> Action:
        """Dismount or remove; a start that happens `beside` it may be missed."""
        unseen = {beside.call.new_id} if beside and beside.call.new_id else set[UUID]()
        return Action(
            LEAVING[verb](subject_id=subject_id, reason="walk"),
            lambda model: model.leave(subject_id, verb),
            allowed=lambda model: model.leave(subject_id, verb, unseen=unseen),
        )

    def receive(self, subject_id: UUID) -> Action:
        return Action(ReceiveSubject(subject_id=subject_id), lambda model: model.receive(subject_id))

    # What comes and goes

    def observe(self, place: int, status: PermitStatus | None) -> Action:
        """What the interlock says of an enclosure; or that it is not heard any more."""
        id, at = self.station.enclosure_ids[place], None if status is None else self.station.app.clock()
        observed = PermitStatus.UNKNOWN if status is None else status
        request = ObserveEnclosureStatus(
            enclosure_id=id, observed_status=observed, monitor_ref=INTERLOCK, observed_at=at, reason="walk"
        )
        return Action(request, lambda model: model.observe(id, observed, at), MONITOR)

    def register_supply(self, kind: str) -> Action:
        id, call = creating(ADMINISTRATOR)
        request = RegisterSupply(kind=kind, name=str(id), facility_code="home")
        return Action(request, lambda model: model.register_supply(id, kind), call)

    def move_supply(self, id: UUID, verb: str) -> Action:
        request = SUPPLY_VERBS[verb](supply_id=id, reason="walk")
        return Action(request, lambda model: model.move_supply(id, verb))

    def declare(self, asset: int, condition: str) -> Action:
        id = self.station.asset_ids[asset]
        request = CONDITIONS[condition](asset_id=id, reason="walk")
        return Action(request, lambda model: model.declare(id, condition))

    def maintain(self, asset: int, verb: str) -> Action:
        id = self.station.asset_ids[asset]
        return Action(MAINTENANCE[verb](id), lambda model: model.maintain(id, verb))

    def place(self, asset: int, place: int | None) -> Action:
        id = self.station.asset_ids[asset]
        where = None if place is None else self.station.enclosure_ids[place]
        request = PlaceAsset(asset_id=id, located_in_enclosure_id=where, reason="walk")
        return Action(request, lambda model: model.place(id, where))

    def expire(self, clearance_id: UUID, who: int = 0) -> Action:
        person = self.person(who)
        request = ExpireClearance(clearance_id=clearance_id, reason="walk")
        return Action(request, lambda model: model.expire(clearance_id, person=person), self.callers[who])
