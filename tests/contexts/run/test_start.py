"""Starting a run: its values, its binding, its gate and its campaign, refused in the agreed order."""

from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.calibration.calibration import (
    CalibrationDefined,
    CalibrationRevisionAppended,
    CalibrationRevisionWithdrawn,
    CalibrationSource,
    CalibrationSourceKind,
    calibrations,
)
from beamwright.contexts.campaign.campaign import (
    Campaign,
    CampaignIntent,
    CampaignRunAdded,
    CampaignStatus,
)
from beamwright.contexts.equipment.asset import AssetCondition
from beamwright.contexts.recipe.capability import CapabilityStatus
from beamwright.contexts.recipe.method import (
    MethodParametersNotSubsetError,
    MethodStatus,
    RoleRequirement,
)
from beamwright.contexts.recipe.plan import PlanStatus, PlanWireAdded
from beamwright.contexts.recipe.practice import PracticeStatus
from beamwright.contexts.run.gate import judge
from beamwright.contexts.run.gate_errors import RunAssetFaultedError, RunRequiresPermittedEnclosureError
from beamwright.contexts.run.preparation import RunPreparation
from beamwright.contexts.run.readiness import refusals
from beamwright.contexts.run.run import (
    InvalidRunExternalRefsError,
    InvalidRunParametersError,
    RunAddedToCampaign,
    RunStarted,
)
from beamwright.contexts.run.start import StartRun
from beamwright.contexts.run.start_rules import (
    BEFORE_GATE,
    InvalidPinnedCalibrationsError,
    InvalidRunNameError,
    InvalidRunRaidError,
    InvalidRunTriggerNoteError,
    RunBindingNotSatisfiedError,
    RunBoundCapabilityDeprecatedError,
    RunBoundMethodDeprecatedError,
    RunBoundPlanDeprecatedError,
    RunBoundPracticeDeprecatedError,
    RunCannotJoinCampaignError,
    RunPinnedCalibrationWithdrawnError,
    RunPlanParametersStaleError,
    RunVisitFacilityMismatchError,
)
from beamwright.contexts.run.values import GateEvidence
from beamwright.kernel.errors import DomainError
from beamwright.kernel.external_refs import GivenRef
from beamwright.kernel.value import replace
from tests.contexts.recipe.plan_examples import (
    AT_APS,
    BINDING,
    CAMERA,
    CAMERAS,
    DEPRECATED,
    DETECTOR,
    EQUIPMENT,
    FLY_SCAN,
    PLAN,
    STAGE,
    THE_CAMERA,
    TOMOGRAPHY,
    WIRE,
    declaring,
    plan,
    requiring,
)
from tests.contexts.recipe.schemas import closed, energy
from tests.contexts.run.examples import (
    ASSETS,
    CAMPAIGN,
    DECISION,
    OPEN_GATE,
    PREPARED,
    REVISION,
    gate,
    prepared,
)
from tests.contexts.trust.examples import VISIT
from tests.rules import NEW_ID, NOW, OCCASION, PRINCIPAL, given, outcome

START = StartRun(name="First light", plan_id=PLAN)


def order(**changes: Any) -> StartRun:
    return replace(START, **changes)


def started(command: StartRun = START, seen: RunPreparation = PREPARED) -> RunStarted:
    decided = outcome(command, seen)
    assert not isinstance(decided, type), decided
    first = decided[0]
    assert isinstance(first, RunStarted)
    return first


def bound(**changes: Any) -> RunPreparation:
    """The preparation with another practice, method, capability or equipment."""
    return prepared(binding=replace(BINDING, **changes))


def test_a_start_pins_the_plan_and_the_method_as_they_are() -> None:
    event = started()
    assert (event.run_id, event.plan_id, event.plan_stream_version, event.plan_content_hash) == (
        NEW_ID,
        PLAN,
        1,
        "1" * 64,
    )
    assert (event.asset_ids, event.facility_code, event.started_by) == (
        frozenset({CAMERA, STAGE}),
        "aps",
        PRINCIPAL,
    )


def test_a_start_records_what_the_gate_relied_on() -> None:
    evidence = started().gate_evidence
    assert evidence != GateEvidence()
    assert [len(each) for each in (evidence.supplies, evidence.enclosures, evidence.clearances)] == [1, 1, 1]


def test_effective_parameters_are_the_defaults_with_the_overrides() -> None:
    schema = closed(energy={"type": "number"}, exposure={"type": "number"})
    seen = prepared(
        plan=plan(default_parameters={"energy": 20, "exposure": 0.1}, parameters_schema_version=1),
        binding=replace(BINDING, method=declaring(schema)),
    )
    event = started(order(override_parameters={"energy": 25, "exposure": None}), seen)
    assert event.effective_parameters == {"energy": 25}
    assert event.override_parameters == {"energy": 25, "exposure": None}
    assert event.parameters_schema_version == 1


def test_what_is_given_is_kept() -> None:
    event = started(
        order(
            name=" First light ",
            raid="10.25.1.1/abc",
            trigger_note="beam is back",
            external_refs={"item_uid": GivenRef(value="a1")},
            visit_id=VISIT,
            decided_by_decision_id=DECISION,
        )
    )
    assert (event.name, event.raid, event.trigger_note, event.visit_id, event.decided_by_decision_id) == (
        "First light",
        "10.25.1.1/abc",
        "beam is back",
        VISIT,
        DECISION,
    )
    assert event.external_refs == {"item_uid": GivenRef(value="a1")}


def campaign(status: CampaignStatus) -> Campaign:
    return Campaign(
        id=CAMPAIGN,
        name="March",
        intent=CampaignIntent.SERIES,
        lead_actor_id=PRINCIPAL,
        facility_code="aps",
        visit_id=None,
        subject_id=None,
        description=None,
        tags=frozenset(),
        external_refs={},
        status=status,
    )


@pytest.mark.parametrize("status", CampaignStatus)
def test_a_run_joins_only_a_planned_or_active_campaign(status: CampaignStatus) -> None:
    got = outcome(order(campaign_id=CAMPAIGN), prepared(campaign=campaign(status)))
    if status in (CampaignStatus.PLANNED, CampaignStatus.ACTIVE):
        assert not isinstance(got, type)
        assert got[1:] == [
            RunAddedToCampaign(run_id=NEW_ID, occurred_at=NOW, campaign_id=CAMPAIGN),
            CampaignRunAdded(campaign_id=CAMPAIGN, occurred_at=NOW, run_id=NEW_ID),
        ]
    else:
        assert got is RunCannotJoinCampaignError


def calibration(*, withdrawn: bool) -> Any:
    defined = CalibrationDefined(
        calibration_id=UUID(int=550),
        occurred_at=NOW,
        target_id=CAMERA,
        facility_code="aps",
        quantity="rotation_center",
        quantity_id=UUID(int=551),
        operating_point={},
        description=None,
        defined_by=PRINCIPAL,
    )
    appended = CalibrationRevisionAppended(
        calibration_id=UUID(int=550),
        occurred_at=NOW,
        revision_id=REVISION,
        value={},
        quantity_version=1,
        uncertainty_basis=None,
        source=CalibrationSource(kind=CalibrationSourceKind.ASSERTED),
        valid_from=NOW,
        valid_until=None,
        decided_by_decision_id=None,
        supersedes_revision_id=None,
        content_hash="",
        established_by=PRINCIPAL,
    )
    gone = CalibrationRevisionWithdrawn(
        calibration_id=UUID(int=550),
        occurred_at=NOW,
        revision_id=REVISION,
        reason="wrong",
        withdrawn_by=PRINCIPAL,
    )
    return given(calibrations, defined, appended, *([gone] if withdrawn else []))


def test_a_pinned_revision_may_be_provisional_but_not_withdrawn() -> None:
    command = order(pinned_calibration_ids=frozenset({REVISION}))
    fine, gone = calibration(withdrawn=False), calibration(withdrawn=True)
    assert started(command, prepared(calibrations=(fine,))).pinned_calibration_ids == {REVISION}
    assert outcome(command, prepared(calibrations=(gone,))) is RunPinnedCalibrationWithdrawnError


IN_KEV = energy()
IN_EV = closed(energy={"type": "number", "unit": {"system": "udunits", "code": "eV"}})
STALE = prepared(
    plan=plan(default_parameters={"energy": 20}, parameters_schema_version=1),
    binding=replace(BINDING, method=declaring(IN_KEV, IN_EV)),
)
NARROW = replace(TOMOGRAPHY, parameters_schema=energy(maximum=10), parameters_schema_version=1)
FAULTED_GATE = gate(assets=ASSETS | {CAMERA: replace(THE_CAMERA, condition=AssetCondition.FAULTED)})
WIRED = PlanWireAdded(plan_id=PLAN, occurred_at=NOW, wire=WIRE, content_hash="3" * 64)
NEEDS_DETECTOR = requiring(RoleRequirement(role_name="detector", role_id=DETECTOR))
WITHOUT_TRIGGER = replace(THE_CAMERA, ports=())

# One cause for each refusal, in the order in which a start meets them.
REFUSALS: list[tuple[type[DomainError], dict[str, Any], RunPreparation]] = [
    (InvalidRunNameError, {"name": " "}, PREPARED),
    (InvalidRunRaidError, {"raid": "https://raid.org/10.25"}, PREPARED),
    (InvalidRunTriggerNoteError, {"trigger_note": " "}, PREPARED),
    (InvalidRunExternalRefsError, {"external_refs": {"Bad": GivenRef(value="x")}}, PREPARED),
    (
        InvalidPinnedCalibrationsError,
        {"pinned_calibration_ids": frozenset(UUID(int=n) for n in range(65))},
        PREPARED,
    ),
    (InvalidRunParametersError, {"override_parameters": {"energy": 1}}, PREPARED),
    (RunBoundPlanDeprecatedError, {}, prepared(plan=plan(DEPRECATED))),
    (
        RunBoundPracticeDeprecatedError,
        {},
        bound(practice=replace(AT_APS, status=PracticeStatus.DEPRECATED)),
    ),
    (RunBoundMethodDeprecatedError, {}, bound(method=replace(FLY_SCAN, status=MethodStatus.DEPRECATED))),
    (
        RunBoundCapabilityDeprecatedError,
        {},
        bound(capability=replace(TOMOGRAPHY, status=CapabilityStatus.DEPRECATED)),
    ),
    (MethodParametersNotSubsetError, {}, bound(method=declaring(energy()), capability=NARROW)),
    (RunPlanParametersStaleError, {}, STALE),
    (
        RunBindingNotSatisfiedError,
        {},
        bound(equipment=replace(EQUIPMENT, families=(CAMERAS,))),
    ),
    (
        RunPinnedCalibrationWithdrawnError,
        {"pinned_calibration_ids": frozenset({REVISION})},
        prepared(calibrations=(calibration(withdrawn=True),)),
    ),
    (RunVisitFacilityMismatchError, {"visit_id": VISIT}, prepared(visit_related=False)),
    (RunAssetFaultedError, {}, prepared(gate=FAULTED_GATE)),
    (RunRequiresPermittedEnclosureError, {}, prepared(gate=gate(contacts={}))),
    (RunCannotJoinCampaignError, {}, prepared(campaign=campaign(CampaignStatus.CLOSED))),
]


@pytest.mark.parametrize(("expected", "changes", "seen"), REFUSALS, ids=lambda value: str(value)[:40])
def test_each_refusal(expected: type[DomainError], changes: dict[str, Any], seen: RunPreparation) -> None:
    assert outcome(order(**changes), seen) is expected


def test_everything_wrong_at_once_is_refused_in_order() -> None:
    """Each fault is mended in turn, and the next one is met."""
    bad = declaring(IN_KEV, IN_EV)
    method = replace(bad, status=MethodStatus.DEPRECATED)
    wrong = RunPreparation(
        plan=plan(DEPRECATED, default_parameters={"energy": 20}, parameters_schema_version=1),
        binding=replace(
            BINDING,
            practice=replace(AT_APS, status=PracticeStatus.DEPRECATED),
            method=method,
            capability=replace(NARROW, status=CapabilityStatus.DEPRECATED),
            equipment=replace(EQUIPMENT, families=(CAMERAS,)),
        ),
        candidates=(),
        calibrations=(calibration(withdrawn=True),),
        visit_related=False,
        campaign=campaign(CampaignStatus.CLOSED),
        gate=replace(FAULTED_GATE, contacts={}),
    )
    command = order(
        name=" ",
        raid="raid:1",
        trigger_note=" ",
        external_refs={"Bad": GivenRef(value="x")},
        pinned_calibration_ids=frozenset({REVISION, *(UUID(int=n) for n in range(65))}),
        override_parameters={"energy": "high"},
        visit_id=VISIT,
        campaign_id=CAMPAIGN,
    )
    mended: list[Any] = [
        (InvalidRunNameError, {"name": "x"}, {}),
        (InvalidRunRaidError, {"raid": None}, {}),
        (InvalidRunTriggerNoteError, {"trigger_note": None}, {}),
        (InvalidRunExternalRefsError, {"external_refs": {}}, {}),
        (InvalidPinnedCalibrationsError, {"pinned_calibration_ids": frozenset({REVISION})}, {}),
        (InvalidRunParametersError, {"override_parameters": {}}, {}),
        (RunBoundPlanDeprecatedError, {}, {"plan": replace(wrong.plan, status=PlanStatus.DEFINED)}),
        (RunBoundPracticeDeprecatedError, {}, {"practice": AT_APS}),
        (RunBoundMethodDeprecatedError, {}, {"method": bad}),
        (RunBoundCapabilityDeprecatedError, {}, {"capability": NARROW}),
        (MethodParametersNotSubsetError, {}, {"capability": TOMOGRAPHY}),
        (RunPlanParametersStaleError, {}, {"method": declaring(IN_KEV)}),
        (RunBindingNotSatisfiedError, {}, {"equipment": EQUIPMENT}),
        (RunPinnedCalibrationWithdrawnError, {}, {"calibrations": (calibration(withdrawn=False),)}),
        (RunVisitFacilityMismatchError, {}, {"visit_related": True}),
        (RunAssetFaultedError, {}, {"gate": replace(OPEN_GATE, contacts={})}),
        (RunRequiresPermittedEnclosureError, {}, {"gate": OPEN_GATE}),
        (RunCannotJoinCampaignError, {}, {"campaign": campaign(CampaignStatus.ACTIVE)}),
    ]
    for expected, given_now, seen_now in mended:
        assert outcome(command, wrong) is expected
        command = replace(command, **given_now)
        of_binding = {name: each for name, each in seen_now.items() if hasattr(BINDING, name)}
        of_start = {name: each for name, each in seen_now.items() if name not in of_binding}
        wrong = replace(wrong, **of_start, binding=replace(wrong.binding, **of_binding))
    assert not isinstance(outcome(command, wrong), type)


def test_the_context_of_a_refused_binding_is_the_binding_view() -> None:
    with pytest.raises(RunBindingNotSatisfiedError) as refusal:
        START.decide(bound(equipment=replace(EQUIPMENT, families=(CAMERAS,))), OCCASION)
    assert refusal.value.context["binding_status"] == "MissingAffordances"
    assert refusal.value.context["missing_affordances"] == ("Rotatable",)


def test_roles_are_checked_on_todays_assets() -> None:
    casting = replace(plan(), role_bindings={"detector": CAMERA})
    satisfied = prepared(plan=casting, binding=replace(BINDING, method=NEEDS_DETECTOR))
    assert not isinstance(outcome(START, satisfied), type)
    unbound = bound(method=NEEDS_DETECTOR)
    with pytest.raises(RunBindingNotSatisfiedError) as refusal:
        START.decide(unbound, OCCASION)
    assert refusal.value.context["unfilled_role_names"] == ["detector"]


def test_wires_are_checked_on_todays_assets() -> None:
    assert not isinstance(outcome(START, prepared(plan=plan(WIRED))), type)
    changed = replace(EQUIPMENT, assets=(WITHOUT_TRIGGER, *EQUIPMENT.assets[1:]))
    seen = prepared(plan=plan(WIRED), binding=replace(BINDING, equipment=changed))
    assert outcome(START, seen) is RunBindingNotSatisfiedError


def test_a_readiness_check_tells_every_refusal() -> None:
    command = order(name=" ", raid=" ")
    seen = prepared(plan=plan(DEPRECATED))
    judged = judge(seen.gate, NOW)
    told = refusals(lambda rule=rule: rule(command, seen, judged) for rule in BEFORE_GATE)
    assert [failure.code for failure in told] == [
        "InvalidRunNameError",
        "InvalidRunRaidError",
        "RunBoundPlanDeprecatedError",
    ]
