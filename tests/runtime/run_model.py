"""What the catalogue says of runs, campaigns and the gate, once more and by itself, for walks to be compared with."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Self
from uuid import UUID

ACCEPTED, UNCHANGED = "accepted", "unchanged"
# How many waits after it was heard a permit is still believed.
HEARD_FOR = 1


def moves(grid: str) -> Mapping[tuple[str, str], str]:
    """The status after a verb, by status before and verb; `-` where it is refused."""
    header, *rows = [line.split() for line in grid.strip().splitlines()]
    return {(row[0], verb): cell for row in rows for verb, cell in zip(header, row[1:], strict=True)}


RUN = moves("""
            hold  resume   complete   abort    stop     truncate   adjust
Running     Held  -        Completed  Aborted  Stopped  Truncated  Running
Held        Held  Running  -          Aborted  Stopped  Truncated  Held
Completed   -     -        -          -        -        -          -
Aborted     -     -        -          -        -        -          -
Stopped     -     -        -          -        -        -          -
Truncated   -     -        -          -        -        -          -
""")
CAMPAIGN = moves("""
            start   hold  resume  close   abandon
Planned     Active  -     -       -       Abandoned
Active      -       Held  -       Closed  Abandoned
Held        -       -     Active  Closed  Abandoned
Closed      -       -     -       -       -
Abandoned   -       -     -       -       -
""")
SUPPLY = moves("""
                mark-available  degrade   mark-unavailable  mark-recovering  restore    deregister
Unknown         Available       Degraded  Unavailable       -                -          Decommissioned
Available       -               Degraded  Unavailable       -                -          Decommissioned
Degraded        -               -         Unavailable       -                Available  Decommissioned
Unavailable     -               -         -                 Recovering       -          Decommissioned
Recovering      -               Degraded  Unavailable       -                Available  Decommissioned
Decommissioned  -               -         -                 -                -          -
""")
SUBJECT = moves("""
            mount    measure   dismount  remove   receive
Received    Mounted  -         -         Removed  -
Mounted     -        Measured  Received  Removed  -
Measured    -        Measured  Received  Removed  -
Removed     -        -         -         -        Received
""")
OUTCOMES = {
    "Running": "InProgress",
    "Held": "InProgress",
    "Completed": "Succeeded",
    "Stopped": "EndedEarly",
    "Aborted": "Failed",
    "Truncated": "Failed",
}
OPEN_RUN = ("Running", "Held")
OPEN_CAMPAIGN = ("Planned", "Active", "Held")
JOINABLE = ("Planned", "Active")
# Verbs whose reason may be blank.
WITH_REASON = ("hold", "abort", "stop", "truncate", "adjust", "abandon")


def refusal(aggregate: str, verb: str) -> str:
    return f"{aggregate}Cannot{verb.title().replace('-', '')}Error"


class Order(NamedTuple):
    """What is asked for with a start."""

    plan_id: UUID
    parameters: dict[str, Any]
    subject_id: UUID | None = None
    campaign_id: UUID | None = None
    visit_id: UUID | None = None


@dataclass
class Run:
    plan_id: UUID
    subject_id: UUID | None
    campaign_id: UUID | None
    parameters: dict[str, Any]
    # The names that its method took when it started.
    takes: frozenset[str]
    visit_id: UUID | None = None
    status: str = "Running"
    # Who holds it, each as a supervisor or not.
    holders: dict[UUID, bool] = field(default_factory=dict[UUID, bool])


@dataclass
class Procedure:
    """A task on some assets, or a phase of a run; what is said of it is in `procedure_model`."""

    targets: frozenset[UUID]
    run_id: UUID | None
    visit_id: UUID | None
    facility_code: str
    patience: int | None
    status: str = "Defined"
    holders: dict[UUID, bool] = field(default_factory=dict[UUID, bool])
    # How many passes were begun, the one that goes on, how many in a row failed, what the last one came to.
    passes: int = 0
    current: int | None = None
    streak: int = 0
    converged: bool | None = None
    # Why it was complete, and whether it was aborted at once.
    reason: str | None = None
    cancelled: bool = False


def released_by(caller: UUID, holders: Mapping[UUID, bool]) -> frozenset[UUID]:
    """The holders whose claims a resume by this caller releases unasked."""
    return frozenset(id for id, supervises in holders.items() if id == caller or supervises)


@dataclass
class Campaign:
    covers: bool
    status: str = "Planned"
    run_ids: set[UUID] = field(default_factory=set[UUID])


@dataclass
class Subject:
    status: str = "Received"
    asset_id: UUID | None = None
    run_ids: set[UUID] = field(default_factory=set[UUID])


@dataclass
class Supply:
    kind: str
    status: str = "Unknown"


@dataclass
class Permit:
    """What an enclosure's source said, by its own clock, and after how many waits it was heard."""

    status: str
    observed_at: datetime | None
    heard: int


@dataclass
class Clearance:
    """Bound to one thing or piece of work, and valid for so many waits."""

    bound_to: UUID
    last: int
    status: str = "Active"


@dataclass
class Plan:
    """Its window is the first and the last number of waits in which runs may start; without one, always."""

    window: tuple[int, int] | None = None
    deprecated: bool = False


@dataclass
class Model:
    """All that a start or resume depends on; each method answers as the service must, and follows it."""

    unit_id: UUID
    bound: tuple[UUID, ...]
    kinds: frozenset[str]
    places: dict[UUID, UUID | None]
    parents: dict[UUID, UUID | None]
    takes: frozenset[str]
    permits: dict[UUID, Permit]
    supplies: dict[UUID, Supply]
    subjects: dict[UUID, Subject]
    clearances: dict[UUID, Clearance]
    plans: dict[UUID, Plan]
    runs: dict[UUID, Run] = field(default_factory=dict[UUID, Run])
    campaigns: dict[UUID, Campaign] = field(default_factory=dict[UUID, Campaign])
    # As last declared; nothing was said of the others.
    conditions: dict[UUID, str] = field(default_factory=dict[UUID, str])
    in_maintenance: set[UUID] = field(default_factory=set[UUID])
    # What only procedures have to do with, besides the visits.
    procedures: dict[UUID, Procedure] = field(default_factory=dict[UUID, Procedure])
    visits: dict[UUID, str] = field(default_factory=dict[UUID, str])
    # What capabilities are for, and whether they are out of use.
    capabilities: dict[UUID, str] = field(default_factory=dict[UUID, str])
    controllers: dict[UUID, UUID] = field(default_factory=dict[UUID, UUID])
    retired: set[UUID] = field(default_factory=set[UUID])
    # How often it was waited: all the time that the gate knows.
    waited: int = 0

    def copy(self) -> Self:
        return deepcopy(self)

    # The gate

    def gate(self, plan_id: UUID, subject_id: UUID | None, visit_id: UUID | None, run_id: UUID | None) -> str:
        """The first refusal of the gate, or that there is none."""
        permits = self.permitted(self.bound)
        rows = (
            ("RunAssetNotActiveError", self.in_maintenance.isdisjoint(self.bound)),
            ("RunAssetFaultedError", all(self.conditions.get(id) != "Faulted" for id in self.bound)),
            (
                "RunSubjectNotMountedError",
                subject_id is None or self.subjects[subject_id].asset_id is not None,
            ),
            ("RunOutsidePlanWindowError", self.within_window(plan_id)),
            ("RunVisitNotOpenError", self.visited(visit_id)),
            ("RunRequiresAvailableSupplyError", all(self.supplied(kind) for kind in self.kinds)),
            (
                "RunSupplyCoverageMismatchError",
                all("Available" in self.supplied(kind) for kind in self.kinds),
            ),
            ("RunRequiresPermittedEnclosureError", any(permits) or not permits),
            ("RunEnclosureCoverageMismatchError", all(permits)),
            (
                "RunClearanceCoverageMismatchError",
                all(self.cleared(*thing, visit_id, run_id) for thing in self.needing(self.bound, subject_id)),
            ),
        )
        return next((code for code, holds in rows if not holds), ACCEPTED)

    def within_window(self, plan_id: UUID) -> bool:
        window = self.plans[plan_id].window
        return window is None or window[0] <= self.waited <= window[1]

    def supplied(self, kind: str) -> set[str]:
        """How the supplies of a kind stand that are not out of use."""
        return {each.status for each in self.supplies.values() if each.kind == kind} - {"Decommissioned"}

    def visited(self, visit_id: UUID | None) -> bool:
        return visit_id is None or self.visits[visit_id] in ("Arrived", "InProgress")

    def upwards(self, asset_id: UUID) -> list[UUID]:
        """An asset and all above it."""
        above = self.parents[asset_id]
        return [asset_id, *([] if above is None else self.upwards(above))]

    def permitted(self, bound: Iterable[UUID]) -> list[bool]:
        """Of each enclosure that matters: whether its permit was heard, and not too long ago."""
        first = {*bound}
        first |= {self.controllers[id] for id in first if id in self.controllers}
        located = {self.places[id] for each in first for id in self.upwards(each)} - {None}
        return [self.believed(self.permits[id]) for id in located if id is not None]

    def believed(self, permit: Permit) -> bool:
        return permit.status == "Permitted" and self.waited - permit.heard <= HEARD_FOR

    def needing(self, bound: Iterable[UUID], subject_id: UUID | None) -> list[list[UUID]]:
        """What needs a clearance, each thing with all whose clearance is also its own."""
        return [*map(self.upwards, bound), *([] if subject_id is None else [[subject_id]])]

    def cleared(self, *ids: UUID | None) -> bool:
        """Whether one of the clearances bound to any of these is in force, or none is bound to one."""
        bound = [each for each in self.clearances.values() if each.bound_to in ids]
        return not bound or any(map(self.in_force, bound))

    def in_force(self, clearance: Clearance) -> bool:
        return clearance.status == "Active" and self.waited <= clearance.last

    # Runs

    def start(self, run_id: UUID, order: Order) -> str:
        parameters = merged({}, order.parameters)
        if not parameters.keys() <= self.takes:
            return "InvalidRunParametersError"
        if self.plans[order.plan_id].deprecated:
            return "RunBoundPlanDeprecatedError"
        gate = self.gate(order.plan_id, order.subject_id, order.visit_id, None)
        if gate != ACCEPTED:
            return gate
        campaign = self.campaigns[order.campaign_id] if order.campaign_id else None
        if campaign and campaign.status not in JOINABLE:
            return "RunCannotJoinCampaignError"
        self.runs[run_id] = Run(
            order.plan_id, order.subject_id, order.campaign_id, parameters, self.takes, order.visit_id
        )
        if campaign:
            campaign.run_ids.add(run_id)
        return ACCEPTED

    def hold(self, run_id: UUID, holder: UUID, *, supervises: bool, blank: bool) -> str:
        run = self.runs[run_id]
        if blank:
            return "InvalidRunHoldReasonError"
        if RUN[run.status, "hold"] == "-" or holder in run.holders:
            return "RunCannotHoldError"
        run.status, run.holders = "Held", run.holders | {holder: supervises}
        return ACCEPTED

    def resume(self, run_id: UUID, caller: UUID, holders: frozenset[UUID] | None) -> str:
        """Release the claims of the named holders, or those that the caller may release unasked."""
        run = self.runs[run_id]
        if RUN[run.status, "resume"] == "-":
            return "RunCannotResumeError"
        released = released_by(caller, run.holders) if holders is None else holders
        if not released <= run.holders.keys():
            return "RunHoldClaimNotPresentError"
        if not released:
            return "RunHoldClaimsRemainError"
        if released == run.holders.keys():
            gate = self.gate(run.plan_id, run.subject_id, run.visit_id, run_id)
            if gate != ACCEPTED:
                return gate
            run.status = "Running"
        run.holders = {id: supervises for id, supervises in run.holders.items() if id not in released}
        return ACCEPTED

    def would_resume(self, run_id: UUID, caller: UUID) -> str:
        """What stands first against a resume, the gate's refusal also where others hold the run, too."""
        run = self.runs[run_id]
        if RUN[run.status, "resume"] == "-":
            return "RunCannotResumeError"
        if not released_by(caller, run.holders):
            return "RunHoldClaimsRemainError"
        return self.gate(run.plan_id, run.subject_id, run.visit_id, run_id)

    def end(self, run_id: UUID, verb: str, *, blank: bool, future: bool = False) -> str:
        """Complete, abort, stop or truncate."""
        run = self.runs[run_id]
        if blank and verb in WITH_REASON:
            return f"InvalidRun{verb.title()}ReasonError"
        if future:
            return "InvalidRunInterruptedAtError"
        after = RUN[run.status, verb]
        if after == "-":
            return refusal("Run", verb)
        run.status, run.holders = after, {}
        return ACCEPTED

    def adjust(self, run_id: UUID, patch: dict[str, Any], *, blank: bool) -> str:
        run = self.runs[run_id]
        if blank or not patch:
            return "InvalidRunAdjustReasonError" if blank else "InvalidRunAdjustPatchError"
        if RUN[run.status, "adjust"] == "-":
            return "RunCannotAdjustError"
        parameters = merged(run.parameters, patch)
        if not parameters.keys() <= run.takes:
            return "InvalidRunParametersError"
        if parameters == run.parameters:
            return UNCHANGED
        run.parameters = parameters
        return ACCEPTED

    # Campaigns

    def register_campaign(self, campaign_id: UUID, *, covers: bool) -> str:
        self.campaigns[campaign_id] = Campaign(covers)
        return ACCEPTED

    def move_campaign(self, campaign_id: UUID, verb: str, *, blank: bool) -> str:
        campaign = self.campaigns[campaign_id]
        if blank and verb in WITH_REASON:
            return f"InvalidCampaign{verb.title()}ReasonError"
        after = CAMPAIGN[campaign.status, verb]
        if after == "-":
            return refusal("Campaign", verb)
        campaign.status = after
        return ACCEPTED

    def add(self, campaign_id: UUID, run_id: UUID) -> str:
        campaign, run = self.campaigns[campaign_id], self.runs[run_id]
        if campaign.status not in OPEN_CAMPAIGN:
            return "CampaignCannotAddRunError"
        if run.campaign_id is not None:
            own = run.campaign_id == campaign_id
            return "CampaignRunAlreadyMemberError" if own else "RunAlreadyAssignedToCampaignError"
        if not campaign.covers:
            return "CampaignFacilityMismatchError"
        campaign.run_ids.add(run_id)
        run.campaign_id = campaign_id
        return ACCEPTED

    def remove(self, campaign_id: UUID, run_id: UUID, *, blank: bool) -> str:
        campaign, run = self.campaigns[campaign_id], self.runs[run_id]
        if blank:
            return "InvalidCampaignRunRemoveReasonError"
        if campaign.status not in OPEN_CAMPAIGN:
            return "CampaignCannotRemoveRunError"
        if run_id not in campaign.run_ids:
            return "CampaignRunNotMemberError"
        campaign.run_ids.remove(run_id)
        run.campaign_id = None
        return ACCEPTED

    # Plans and their method

    def define_plan(self, plan_id: UUID) -> str:
        self.plans[plan_id] = Plan()
        return ACCEPTED

    def deprecate(self, plan_id: UUID) -> str:
        plan = self.plans[plan_id]
        if plan.deprecated:
            return "PlanCannotDeprecateError"
        plan.deprecated = True
        return ACCEPTED

    def limit(self, plan_id: UUID, window: tuple[int, int] | None) -> str:
        """Give a plan a window, counted from now on, or none."""
        plan = self.plans[plan_id]
        if plan.deprecated:
            return "PlanCannotUpdateWindowError"
        if plan.window is None and window is None:
            return UNCHANGED
        plan.window = None if window is None else (self.waited + window[0], self.waited + window[1])
        return ACCEPTED

    def take_parameters(self, names: frozenset[str]) -> str:
        if names == self.takes:
            return UNCHANGED
        self.takes = names
        return ACCEPTED

    # Subjects

    def mount(self, subject_id: UUID, asset_id: UUID) -> str:
        subject = self.subjects[subject_id]
        if SUBJECT[subject.status, "mount"] == "-":
            return "SubjectCannotMountError"
        if asset_id in self.in_maintenance:
            return "SubjectMountTargetUnavailableError"
        if self.conditions.get(asset_id) == "Faulted":
            return "SubjectMountTargetFaultedError"
        if asset_id in {each.asset_id for each in self.subjects.values()}:
            return "SubjectMountTargetOccupiedError"
        subject.status, subject.asset_id = "Mounted", asset_id
        return ACCEPTED

    def measure(self, subject_id: UUID, run_id: UUID) -> str:
        subject = self.subjects[subject_id]
        if SUBJECT[subject.status, "measure"] == "-":
            return "SubjectCannotMeasureError"
        if self.runs[run_id].subject_id != subject_id:
            return "SubjectMeasureRunMismatchError"
        if run_id in subject.run_ids:
            return "SubjectAlreadyMeasuredByRunError"
        subject.status = "Measured"
        subject.run_ids.add(run_id)
        return ACCEPTED

    def leave(self, subject_id: UUID, verb: str, *, unseen: Iterable[UUID] = ()) -> str:
        """Dismount or remove; the catalogue lets this miss runs that start in the same moment."""
        subject = self.subjects[subject_id]
        after = SUBJECT[subject.status, verb]
        if after == "-":
            return refusal("Subject", verb)
        about = {
            id for id, run in self.runs.items() if run.subject_id == subject_id and run.status in OPEN_RUN
        }
        if about.difference(unseen):
            return "SubjectInOpenRunError"
        subject.status, subject.asset_id = after, None
        return ACCEPTED

    def receive(self, subject_id: UUID) -> str:
        subject = self.subjects[subject_id]
        if SUBJECT[subject.status, "receive"] == "-":
            return "SubjectCannotReceiveError"
        subject.status = "Received"
        return ACCEPTED

    # What comes and goes

    def observe(self, enclosure_id: UUID, status: str, observed_at: datetime | None) -> str:
        before = self.permits[enclosure_id]
        if before.observed_at is not None and observed_at is not None and observed_at < before.observed_at:
            return "EnclosureObservationOutdatedError"
        self.permits[enclosure_id] = Permit(status, observed_at, self.waited)
        return UNCHANGED if status == before.status else ACCEPTED

    def register_supply(self, supply_id: UUID, kind: str) -> str:
        self.supplies[supply_id] = Supply(kind)
        return ACCEPTED

    def move_supply(self, supply_id: UUID, verb: str) -> str:
        supply = self.supplies[supply_id]
        after = SUPPLY[supply.status, verb]
        if after == "-":
            return refusal("Supply", verb)
        supply.status = after
        return ACCEPTED

    def place(self, asset_id: UUID, enclosure_id: UUID | None) -> str:
        if self.places[asset_id] == enclosure_id:
            return UNCHANGED
        self.places[asset_id] = enclosure_id
        return ACCEPTED

    def declare(self, asset_id: UUID, condition: str) -> str:
        if self.conditions.get(asset_id) == condition:
            return UNCHANGED
        self.conditions[asset_id] = condition
        return ACCEPTED

    def maintain(self, asset_id: UUID, verb: str) -> str:
        """Enter or exit maintenance."""
        if (asset_id in self.in_maintenance) is (verb == "enter"):
            return f"AssetCannot{verb.title()}MaintenanceError"
        self.in_maintenance ^= {asset_id}
        return ACCEPTED

    def expire(self, clearance_id: UUID, *, person: bool) -> str:
        """End a clearance, before its time if a person does."""
        clearance = self.clearances[clearance_id]
        if clearance.status != "Active":
            return "ClearanceCannotExpireError"
        if not person and self.in_force(clearance):
            return "ClearanceNotDueError"
        clearance.status = "Expired"
        return ACCEPTED


def merged(parameters: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (parameters | patch).items() if value is not None}
