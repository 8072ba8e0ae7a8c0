"""A run of tomography, its plan, and a scope in which nothing stands against it."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from beamwright.contexts.enclosure.enclosure import Enclosure, PermitStatus
from beamwright.contexts.equipment.asset import Asset
from beamwright.contexts.run.gate import GateScope
from beamwright.contexts.run.preparation import RunPreparation
from beamwright.contexts.run.run import (
    HoldCause,
    Run,
    RunAborted,
    RunCompleted,
    RunHeld,
    RunStarted,
    RunStopped,
    RunTruncated,
    runs,
)
from beamwright.contexts.safety.clearance import Clearance, ClearanceStatus
from beamwright.contexts.safety.gate import ClearedWork
from beamwright.contexts.safety.values import Binding, BindingKind
from beamwright.contexts.subject.subject import SubjectMounted, subjects
from beamwright.contexts.supply.supply import Supply, SupplyStatus
from beamwright.kernel.event import Event
from beamwright.kernel.observing import Contact
from beamwright.kernel.roles import ActorKind, VisitStatus
from beamwright.kernel.value import replace
from tests.contexts.recipe.plan_examples import (
    BINDING,
    CAMERA,
    CAPABILITY,
    METHOD,
    PLAN,
    PRACTICE,
    STAGE,
    THE_CAMERA,
    THE_STAGE,
    asset,
    plan,
)
from tests.contexts.subject.examples import REGISTERED as SUBJECT_REGISTERED
from tests.contexts.subject.examples import SUBJECT
from tests.contexts.trust.examples import VISIT, visit
from tests.rules import NOW, OCCASION, PRINCIPAL, given

RUN, UNIT, HUTCH, OTHER_HUTCH, BEAM, VACUUM, FORM = (UUID(int=n) for n in (501, 1, 503, 504, 505, 506, 507))
CAMPAIGN, DECISION, REVISION, SOMEBODY, ROBOT = (UUID(int=n) for n in range(511, 516))
CLAIM, OTHER_CLAIM = UUID(int=521), UUID(int=522)
MINUTE = timedelta(minutes=1)
AS_SOMEBODY = replace(OCCASION, principal_id=SOMEBODY)
AS_ROBOT = replace(OCCASION, principal_id=ROBOT, principal_kind=ActorKind.AGENT)

STARTED = RunStarted(
    run_id=RUN,
    occurred_at=NOW,
    name="First light",
    plan_id=PLAN,
    plan_stream_version=1,
    plan_content_hash="1" * 64,
    practice_id=PRACTICE,
    method_id=METHOD,
    method_stream_version=0,
    capability_id=CAPABILITY,
    facility_code="aps",
    asset_ids=frozenset({CAMERA, STAGE}),
    started_by=PRINCIPAL,
)


def held(
    claim_id: UUID = CLAIM,
    held_by: UUID = PRINCIPAL,
    cause: HoldCause = HoldCause.OPERATOR,
    reason: str = "beam is unstable",
    **changes: Any,
) -> RunHeld:
    told: dict[str, Any] = {"run_id": RUN, "occurred_at": NOW} | changes
    return RunHeld(claim_id=claim_id, held_by=held_by, cause=cause, reason=reason, **told)


HELD = held()
BY_SOMEBODY = held(OTHER_CLAIM, SOMEBODY, reason="the sample drifts")
BY_ROBOT = held(OTHER_CLAIM, ROBOT, HoldCause.SUPERVISOR, "beam current below 90 mA")
COMPLETED = RunCompleted(run_id=RUN, occurred_at=NOW, ended_by=PRINCIPAL)
ABORTED = RunAborted(run_id=RUN, occurred_at=NOW, reason="collision", ended_by=PRINCIPAL)
STOPPED = RunStopped(run_id=RUN, occurred_at=NOW, reason="enough data", ended_by=PRINCIPAL)
TRUNCATED = RunTruncated(run_id=RUN, occurred_at=NOW, reason="power failure", ended_by=PRINCIPAL)

REACH = {
    "Running": [STARTED],
    "Held": [STARTED, HELD],
    "Completed": [STARTED, COMPLETED],
    "Aborted": [STARTED, ABORTED],
    "Stopped": [STARTED, STOPPED],
    "Truncated": [STARTED, TRUNCATED],
}


def run(*events: Event, **changes: Any) -> Run:
    """The run after `events`, with other first facts where told."""
    return given(runs, replace(STARTED, **changes), *events)


def unit(**changes: Any) -> Asset:
    """The instrument that camera and stage are part of; it stands in the hutch."""
    top = asset(UNIT, "Microtomography")
    told: dict[str, Any] = {"parent_id": None, "facility_code": "aps", "located_in_enclosure_id": HUTCH}
    return replace(top, **told | changes)


def enclosure(id: UUID = HUTCH, status: PermitStatus = PermitStatus.PERMITTED, **changes: Any) -> Enclosure:
    told: dict[str, Any] = {"name": f"Hutch {id.int}", "facility_code": "aps", "permit_since": NOW} | changes
    return Enclosure(id=id, permit_status=status, permit_source=None, **told)


def supply(
    id: UUID = BEAM, kind: str = "photon_beam", status: SupplyStatus = SupplyStatus.AVAILABLE, **changes: Any
) -> Supply:
    told: dict[str, Any] = {
        "name": f"Supply {id.int}",
        "facility_code": "aps",
        "containing_asset_id": None,
        "status_since": NOW,
        "status_source": None,
    } | changes
    return Supply(id=id, kind=kind, status=status, **told)


def clearance(
    *bindings: Binding, status: ClearanceStatus = ClearanceStatus.ACTIVE, **changes: Any
) -> Clearance:
    usual = Clearance(
        id=FORM,
        bindings=bindings,
        status=status,
        template_id=UUID(int=530),
        template_code="general",
        template_version=1,
        facility_code="aps",
        title="Work",
        answers={},
        declarations=(),
        risk_band=None,
        valid_from=None,
        valid_until=None,
        reviewer_roles=(),
        author_id=SOMEBODY,
        registered_at=NOW,
    )
    return replace(usual, **changes)


ON_UNIT = Binding(kind=BindingKind.ASSET, id=UNIT)
ON_SUBJECT = Binding(kind=BindingKind.SUBJECT, id=SUBJECT)
ON_RUN = Binding(kind=BindingKind.RUN, id=RUN)
ON_VISIT = Binding(kind=BindingKind.VISIT, id=VISIT)

HEARD = Contact(connected=True, last_contact_at=NOW, last_observed_at=NOW)
MOUNTED = SubjectMounted(
    subject_id=SUBJECT, occurred_at=NOW, asset_id=STAGE, position=None, reason="scan", mounted_by=PRINCIPAL
)
ON_STAGE = given(subjects, SUBJECT_REGISTERED, MOUNTED)
ASSETS = {each.id: each for each in (unit(), THE_CAMERA, THE_STAGE)}
OPEN_GATE = GateScope(
    work=ClearedWork(kind=BindingKind.RUN, id=RUN, visit_id=VISIT),
    asset_ids=frozenset({CAMERA, STAGE}),
    assets=ASSETS,
    facility_codes=frozenset({"aps"}),
    subject_id=SUBJECT,
    subject=ON_STAGE,
    window_start=NOW - MINUTE,
    window_end=NOW + MINUTE,
    visit=visit(VisitStatus.IN_PROGRESS),
    needed_supplies=frozenset({"photon_beam"}),
    supplies=(supply(),),
    enclosures={HUTCH: enclosure()},
    contacts={HUTCH: HEARD},
    clearances=(clearance(ON_UNIT, ON_SUBJECT),),
    supply_stale_after=MINUTE,
    enclosure_stale_after=MINUTE,
    versions={BEAM: 2, HUTCH: 3, FORM: 5},
)


def gate(**changes: Any) -> GateScope:
    return replace(OPEN_GATE, **changes)


PREPARED = RunPreparation(
    plan=plan(),
    binding=BINDING,
    candidates=(),
    calibrations=(),
    visit_related=True,
    campaign=None,
    gate=OPEN_GATE,
)


def prepared(**changes: Any) -> RunPreparation:
    return replace(PREPARED, **changes)
