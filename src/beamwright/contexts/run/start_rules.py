"""The rules of a start, each on its own: the start stops at the first, a readiness check tells all."""

import re
from collections.abc import Callable

import msgspec

from beamwright.contexts.calibration.calibration import CalibrationRevisionStatus
from beamwright.contexts.campaign.campaign import CampaignStatus
from beamwright.contexts.recipe.binding import BindingStatus, binding_view
from beamwright.contexts.recipe.capability import CapabilityStatus
from beamwright.contexts.recipe.method import MethodStatus, check_parameters_within
from beamwright.contexts.recipe.plan import PlanStatus
from beamwright.contexts.recipe.plan_parameters import stale_defaults
from beamwright.contexts.recipe.plan_roles import unfilled_roles
from beamwright.contexts.recipe.plan_wiring import broken_wires
from beamwright.contexts.recipe.practice import PracticeStatus
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.external_refs import checked_refs

from .adjustment import check_parameters
from .gate import Judgement, check_gate
from .gate_errors import RUN_GATE
from .preparation import RunOrder, RunPreparation
from .run import InvalidRunExternalRefsError

MOST_PINNED = 64
_PREFIX = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
JOINABLE = frozenset({CampaignStatus.PLANNED, CampaignStatus.ACTIVE})


class InvalidRunNameError(InvalidError):
    """The run's name is blank or too long."""


class InvalidRunRaidError(InvalidError):
    """The research activity identifier is blank, too long or not bare."""


class InvalidRunTriggerNoteError(InvalidError):
    """The note on what set the run off is blank or too long."""


class InvalidPinnedCalibrationsError(InvalidError):
    """Too many calibration revisions are pinned."""


class RunBoundPlanDeprecatedError(ConflictError):
    """A deprecated plan starts no run."""


class RunBoundPracticeDeprecatedError(ConflictError):
    """The plan's practice is deprecated."""


class RunBoundMethodDeprecatedError(ConflictError):
    """The plan's method is deprecated."""


class RunBoundCapabilityDeprecatedError(ConflictError):
    """The plan's capability is deprecated."""


class RunPlanParametersStaleError(ConflictError):
    """A default of the plan was given in a unit that its parameter no longer has."""


class RunBindingNotSatisfiedError(ConflictError):
    """Today's assets no longer offer what the plan binds them for."""


class RunPinnedCalibrationWithdrawnError(ConflictError):
    """A pinned calibration revision is withdrawn."""


class RunVisitFacilityMismatchError(ConflictError):
    """The visit is at a facility that has nothing to do with the plan's."""


class RunCannotJoinCampaignError(ConflictError):
    """Runs start only in a Planned or Active campaign."""


type StartRule = Callable[[RunOrder, RunPreparation, Judgement], object]


def checked_name(order: RunOrder) -> str:
    return text.name(order.name, InvalidRunNameError)


def checked_raid(order: RunOrder) -> str | None:
    if order.raid is None:
        return None
    raid = text.trimmed(order.raid, 255, InvalidRunRaidError, "research activity identifier")
    if _PREFIX.match(raid):
        raise InvalidRunRaidError("Give the bare identifier, without a scheme prefix.")
    return raid


def checked_trigger_note(order: RunOrder) -> str | None:
    return text.short_note(order.trigger_note, InvalidRunTriggerNoteError)


def check_few_pinned(order: RunOrder) -> None:
    if len(order.pinned_calibration_ids) > MOST_PINNED:
        raise InvalidPinnedCalibrationsError(
            f"A run pins at most {MOST_PINNED} calibration revisions.", most=MOST_PINNED
        )


def check_run_parameters(order: RunOrder, seen: RunPreparation) -> None:
    check_parameters(
        seen.binding.method.parameters_schema, seen.effective_parameters(order.override_parameters)
    )


def check_plan_in_use(seen: RunPreparation) -> None:
    if seen.plan.status is PlanStatus.DEPRECATED:
        raise RunBoundPlanDeprecatedError(
            f"Plan {seen.plan.name} is deprecated; choose another.", plan_id=str(seen.plan.id)
        )


def check_practice_in_use(seen: RunPreparation) -> None:
    practice = seen.binding.practice
    if practice.status is PracticeStatus.DEPRECATED:
        raise RunBoundPracticeDeprecatedError(
            f"Practice {practice.name} is deprecated; choose a plan of another.", practice_id=str(practice.id)
        )


def check_method_in_use(seen: RunPreparation) -> None:
    method = seen.binding.method
    if method.status is MethodStatus.DEPRECATED:
        raise RunBoundMethodDeprecatedError(
            f"Method {method.name} is deprecated; choose a plan of another.", method_id=str(method.id)
        )


def check_capability_in_use(seen: RunPreparation) -> None:
    capability = seen.binding.capability
    if capability.status is CapabilityStatus.DEPRECATED:
        raise RunBoundCapabilityDeprecatedError(
            f"Capability {capability.code} is deprecated; choose a plan of another.",
            capability_id=str(capability.id),
        )


def check_subset(seen: RunPreparation) -> None:
    """Gate: the capability may have been versioned since."""
    check_parameters_within(seen.binding.method.parameters_schema, seen.binding.capability.parameters_schema)


def check_defaults_fresh(seen: RunPreparation) -> None:
    """Gate: a number is not read in another unit than it was written in."""
    if stale := stale_defaults(seen.plan, seen.binding.method):
        raise RunPlanParametersStaleError(
            f"The unit of {', '.join(change.path for change in stale)} has changed: restate or delete these with"
            " update_plan_default_parameters.",
            stale=msgspec.to_builtins(stale),
        )


def check_binding(seen: RunPreparation) -> None:
    """Gate: families, assemblies, affordances, roles and wires hold on today's assets."""
    plan, binding = seen.plan, seen.binding
    unfilled = unfilled_roles(plan, binding.method, binding.equipment)
    # Without its assets a wire says nothing; that they are missing is the gate's to tell.
    broken = [] if seen.gate.missing_asset_ids else broken_wires(plan, binding.method, binding.assets)
    if binding.status is BindingStatus.SATISFIED and not unfilled and not broken:
        return
    view = msgspec.to_builtins(binding_view(binding, seen.candidates))
    told = [
        *([f"the binding is {binding.status}"] if binding.status is not BindingStatus.SATISFIED else ()),
        *(f"role {name} is not filled" for name in unfilled),
        *([f"{len(broken)} wires no longer fit their ports"] if broken else ()),
    ]
    raise RunBindingNotSatisfiedError(
        f"The plan's assets no longer offer what it needs: {', '.join(told)}.",
        **view,
        unfilled_role_names=unfilled,
        broken_wires=msgspec.to_builtins(broken),
    )


def check_pinned(order: RunOrder, seen: RunPreparation) -> None:
    """Gate: what is pinned can still be trusted."""
    withdrawn = sorted(
        str(revision.revision_id)
        for calibration in seen.calibrations
        for revision in calibration.revisions
        if revision.revision_id in order.pinned_calibration_ids
        and revision.status is CalibrationRevisionStatus.WITHDRAWN
    )
    if withdrawn:
        raise RunPinnedCalibrationWithdrawnError(
            f"These calibration revisions are withdrawn: {', '.join(withdrawn)}; pin others.",
            revision_ids=withdrawn,
        )


def check_visit_near(seen: RunPreparation) -> None:
    """Gate: a visit works where it is."""
    visit = seen.gate.visit
    if visit is not None and not seen.visit_related:
        raise RunVisitFacilityMismatchError(
            f"Visit {visit.code} is at {visit.facility_code}, the plan at {seen.plan.facility_code}.",
            visit_facility_code=visit.facility_code,
            plan_facility_code=seen.plan.facility_code,
        )


def check_campaign_takes_runs(seen: RunPreparation) -> None:
    campaign = seen.campaign
    if campaign is not None and campaign.status not in JOINABLE:
        raise RunCannotJoinCampaignError(
            f"Campaign {campaign.name} is {campaign.status}; runs start in one that is Planned or Active.",
            campaign_id=str(campaign.id),
            current=campaign.status,
            allowed=sorted(JOINABLE),
        )


# In the order in which a start is refused; the gate comes between the two.
BEFORE_GATE: tuple[StartRule, ...] = (
    lambda order, seen, judged: checked_name(order),
    lambda order, seen, judged: checked_raid(order),
    lambda order, seen, judged: checked_trigger_note(order),
    lambda order, seen, judged: checked_refs(order.external_refs, InvalidRunExternalRefsError),
    lambda order, seen, judged: check_few_pinned(order),
    lambda order, seen, judged: check_run_parameters(order, seen),
    lambda order, seen, judged: check_plan_in_use(seen),
    lambda order, seen, judged: check_practice_in_use(seen),
    lambda order, seen, judged: check_method_in_use(seen),
    lambda order, seen, judged: check_capability_in_use(seen),
    lambda order, seen, judged: check_subset(seen),
    lambda order, seen, judged: check_defaults_fresh(seen),
    lambda order, seen, judged: check_binding(seen),
    lambda order, seen, judged: check_pinned(order, seen),
    lambda order, seen, judged: check_visit_near(seen),
)
AFTER_GATE: tuple[StartRule, ...] = (lambda order, seen, judged: check_campaign_takes_runs(seen),)
START_RULES: tuple[StartRule, ...] = (
    *BEFORE_GATE,
    lambda order, seen, judged: check_gate(judged, RUN_GATE),
    *AFTER_GATE,
)
