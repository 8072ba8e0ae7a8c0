"""Run: its fold, its status grid, and the moves that nothing gates."""

from datetime import timedelta
from itertools import permutations
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.recipe.method import Method
from beamwright.contexts.run.adjustment import AdjustRun, RunWithMethod
from beamwright.contexts.run.logbook_entry import LogbookEntryKind
from beamwright.contexts.run.resume import HeldRun, ResumeRun
from beamwright.contexts.run.run import (
    DecisionDebriefRequested,
    HoldCause,
    InvalidRunAbortReasonError,
    InvalidRunAdjustPatchError,
    InvalidRunAdjustReasonError,
    InvalidRunExternalRefsError,
    InvalidRunHoldReasonError,
    InvalidRunInterruptedAtError,
    InvalidRunNoteError,
    InvalidRunParametersError,
    InvalidRunStopReasonError,
    InvalidRunTruncateReasonError,
    Run,
    RunActuationObserved,
    RunAddedToCampaign,
    RunAdjusted,
    RunCannotAdjustError,
    RunCannotCompleteError,
    RunCannotHoldError,
    RunCompleted,
    RunConductEnded,
    RunConductStarted,
    RunExternalRefAlreadyAssignedError,
    RunExternalRefAssigned,
    RunHoldClaimReleased,
    RunLogbookEntryAppended,
    RunLogbookEntryRedacted,
    RunOutcome,
    RunRemovedFromCampaign,
    RunResumed,
    RunStatus,
    RunTruncated,
    runs,
)
from beamwright.contexts.run.run_moves import (
    AbortRun,
    AssignRunExternalRef,
    CompleteRun,
    HoldRun,
    StopRun,
    TruncateRun,
)
from beamwright.contexts.run.values import ActuationKind, GateEvidence, RelianceOn, merged_actuation
from beamwright.kernel.erasable import erasable
from beamwright.kernel.errors import DomainError
from beamwright.kernel.event import Event
from beamwright.kernel.external_refs import GivenRef
from beamwright.kernel.operation import Command
from beamwright.kernel.value import replace
from tests.contexts.recipe.plan_examples import FLY_SCAN, declaring
from tests.contexts.recipe.schemas import closed, energy
from tests.contexts.run.examples import (
    ABORTED,
    AS_ROBOT,
    AS_SOMEBODY,
    BY_ROBOT,
    BY_SOMEBODY,
    CAMPAIGN,
    CLAIM,
    COMPLETED,
    DECISION,
    HELD,
    MINUTE,
    OPEN_GATE,
    OTHER_CLAIM,
    REACH,
    RUN,
    STOPPED,
    TRUNCATED,
    run,
)
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, OCCASION, PRINCIPAL, outcome

ENTRY, CONDUCT = UUID(int=541), UUID(int=542)
RESUMED = RunResumed(
    run_id=RUN, occurred_at=NOW + MINUTE, released_claim_ids=frozenset({CLAIM}), resumed_by=PRINCIPAL
)
CONDUCT_STARTED = RunConductStarted(
    run_id=RUN,
    occurred_at=NOW,
    conduct_id=CONDUCT,
    command=("reconstruct",),
    input_uris=(),
    output_uri=None,
    resources=None,
    job_key="job",
)
CONDUCT_ENDED = RunConductEnded(
    run_id=RUN, occurred_at=NOW, conduct_id=CONDUCT, succeeded=True, job_status="Succeeded"
)


def test_status_grid() -> None:
    check_grid(
        """
                  hold   complete   abort    stop     truncate
        Running   Held   Completed  Aborted  Stopped  Truncated
        Held      -      -          Aborted  Stopped  Truncated
        Completed -      -          -        -        -
        Aborted   -      -          -        -        -
        Stopped   -      -          -        -        -
        Truncated -      -          -        -        -
        """,
        runs,
        status=lambda state: state.status,
        reach=REACH,
        verbs={
            "hold": HoldRun(run_id=RUN, reason="r"),
            "complete": CompleteRun(run_id=RUN),
            "abort": AbortRun(run_id=RUN, reason="r"),
            "stop": StopRun(run_id=RUN, reason="r"),
            "truncate": TruncateRun(run_id=RUN, reason="r"),
        },
    )


def test_status_grid_of_resume() -> None:
    check_grid(
        """
                  resume
        Running   -
        Held      Running
        Completed -
        Aborted   -
        Stopped   -
        Truncated -
        """,
        runs,
        status=lambda state: state.status,
        reach=REACH,
        verbs={"resume": ResumeRun(run_id=RUN)},
        seen=lambda state: HeldRun(run=state, gate=OPEN_GATE),
    )


def test_status_grid_of_adjust() -> None:
    check_grid(
        """
                  adjust
        Running   Running
        Held      Held
        Completed -
        Aborted   -
        Stopped   -
        Truncated -
        """,
        runs,
        status=lambda state: state.status,
        reach=REACH,
        verbs={"adjust": AdjustRun(run_id=RUN, parameters_patch={"energy": 20}, reason="r")},
        seen=lambda state: RunWithMethod(
            run=replace(state, parameters_schema_version=1), method=declaring(energy())
        ),
    )


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("Running", RunOutcome.IN_PROGRESS),
        ("Held", RunOutcome.IN_PROGRESS),
        ("Completed", RunOutcome.SUCCEEDED),
        ("Stopped", RunOutcome.ENDED_EARLY),
        ("Aborted", RunOutcome.FAILED),
        ("Truncated", RunOutcome.FAILED),
    ],
)
def test_outcome_says_how_it_went(status: str, expected: RunOutcome) -> None:
    assert run(*REACH[status][1:]).outcome is expected


def test_a_started_run_keeps_what_was_asked_and_what_the_gate_relied_on() -> None:
    evidence = GateEvidence(supplies=(RelianceOn(id=UUID(int=5), version=2),))
    state = run(gate_evidence=evidence, external_refs={"item_uid": GivenRef(value="a1")})
    assert (state.status, state.started_at, state.running_since, state.started_by) == (
        RunStatus.RUNNING,
        NOW,
        NOW,
        PRINCIPAL,
    )
    assert state.gate_evidence == evidence
    assert state.external_refs["item_uid"].value == "a1"


def test_a_run_belongs_to_its_facility_visit_and_starter() -> None:
    visit = UUID(int=7)
    belonging = runs.belongs(run(visit_id=visit))
    assert (belonging.facility_code, belonging.visit_ids, belonging.owner_id) == (
        "aps",
        frozenset({visit}),
        PRINCIPAL,
    )


def test_a_hold_is_a_claim_of_its_holder() -> None:
    [event] = _events(HoldRun(run_id=RUN, reason=" beam "), run())
    assert event == replace(HELD, claim_id=NEW_ID, reason="beam")


def test_agents_and_service_accounts_hold_as_supervisors() -> None:
    [event] = _events(HoldRun(run_id=RUN, reason="beam", decided_by_decision_id=DECISION), run(), AS_ROBOT)
    assert (event.cause, event.decided_by_decision_id) == (HoldCause.SUPERVISOR, DECISION)


def test_another_principal_adds_a_claim_to_a_held_run() -> None:
    [event] = _events(HoldRun(run_id=RUN, reason="drift"), run(HELD), AS_SOMEBODY)
    state = run(HELD, event)
    assert (state.status, len(state.hold_claims), state.status_reason) == (RunStatus.HELD, 2, "drift")


def test_one_principal_does_not_hold_twice() -> None:
    assert outcome(HoldRun(run_id=RUN, reason="again"), run(BY_SOMEBODY, HELD)) is RunCannotHoldError


def test_a_run_is_held_exactly_while_it_has_claims() -> None:
    assert set(run(HELD, BY_SOMEBODY).hold_claims) == {CLAIM, OTHER_CLAIM}
    assert run(HELD, RESUMED).hold_claims == {}
    assert run(HELD, BY_SOMEBODY, ABORTED).hold_claims == {}


def test_of_the_concerns_that_remain_the_latest_is_the_reason() -> None:
    released = RunHoldClaimReleased(
        run_id=RUN, occurred_at=NOW, claim_id=OTHER_CLAIM, cause=HoldCause.SUPERVISOR, released_by=PRINCIPAL
    )
    state = run(HELD, BY_ROBOT, released)
    assert (state.status, state.status_reason) == (RunStatus.HELD, HELD.reason)


def test_a_resumed_run_has_no_reason_and_runs_since_then() -> None:
    state = run(HELD, RESUMED)
    assert (state.status, state.status_reason, state.running_since) == (
        RunStatus.RUNNING,
        None,
        NOW + MINUTE,
    )


@pytest.mark.parametrize("end", [ABORTED, STOPPED, TRUNCATED], ids=lambda end: type(end).__name__)
def test_the_reason_of_the_end_stays(end: Any) -> None:
    state = run(HELD, end)
    assert (state.status_reason, state.ended_by, state.ended_at) == (end.reason, PRINCIPAL, NOW)
    assert state.running_since is None


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (HoldRun(run_id=RUN, reason=" "), InvalidRunHoldReasonError),
        (AbortRun(run_id=RUN, reason=" "), InvalidRunAbortReasonError),
        (StopRun(run_id=RUN, reason=" "), InvalidRunStopReasonError),
        (TruncateRun(run_id=RUN, reason=" "), InvalidRunTruncateReasonError),
        (CompleteRun(run_id=RUN, note=" "), InvalidRunNoteError),
    ],
    ids=lambda value: type(value).__name__,
)
def test_blank_words_are_refused_before_the_status(
    command: Command[Run], expected: type[DomainError]
) -> None:
    assert outcome(command, run(COMPLETED)) is expected


@pytest.mark.parametrize("at", [NOW - MINUTE, NOW + timedelta(hours=2)], ids=["before", "future"])
def test_a_run_is_not_interrupted_before_its_start_or_in_the_future(at: Any) -> None:
    occasion = replace(OCCASION, now=NOW + timedelta(hours=1))
    command = TruncateRun(run_id=RUN, reason="power", interrupted_at=at)
    assert outcome(command, run(), occasion) is InvalidRunInterruptedAtError


def test_a_truncated_run_lasted_until_it_was_interrupted() -> None:
    occasion = replace(OCCASION, now=NOW + timedelta(hours=1))
    command = TruncateRun(run_id=RUN, reason="power", interrupted_at=NOW + MINUTE)
    [event] = _events(command, run(), occasion)
    assert isinstance(event, RunTruncated)
    assert run(event).duration(NOW + timedelta(hours=3)) == 60


def test_a_run_that_goes_on_lasts_until_now() -> None:
    assert run().duration(NOW + MINUTE) == 60


def test_a_run_does_not_complete_while_a_conduct_is_open() -> None:
    assert outcome(CompleteRun(run_id=RUN), run(CONDUCT_STARTED)) is RunCannotCompleteError
    ended = RunCompleted(run_id=RUN, occurred_at=NOW, ended_by=PRINCIPAL)
    assert outcome(CompleteRun(run_id=RUN), run(CONDUCT_STARTED, CONDUCT_ENDED)) == [ended]


def test_the_note_of_a_completed_run_is_its_reason() -> None:
    [event] = _events(CompleteRun(run_id=RUN, note="all angles"), run())
    assert run(event).status_reason == "all angles"


def adjust(patch: dict[str, Any], state: Run, method: Method, reason: str = "r") -> Any:
    command = AdjustRun(run_id=RUN, parameters_patch=patch, reason=reason)
    return outcome(command, RunWithMethod(run=state, method=method))


def test_an_adjustment_merges_into_the_effective_parameters() -> None:
    schema = closed(energy={"type": "number"}, exposure={"type": "number"})
    state = run(effective_parameters={"energy": 20, "exposure": 0.1}, parameters_schema_version=1)
    [event] = adjust({"energy": 25, "exposure": None}, state, declaring(schema))
    after = run(event)
    assert isinstance(event, RunAdjusted)
    assert after.effective_parameters == {"energy": 25}
    assert (after.adjustment_count, after.last_adjusted_by) == (1, PRINCIPAL)
    assert after.override_parameters == {}


def test_an_adjustment_is_checked_against_the_schema_that_the_run_pinned() -> None:
    narrow, wide = energy(maximum=30), energy(maximum=100)
    pinned_first = run(parameters_schema_version=1)
    pinned_second = run(parameters_schema_version=2)
    assert adjust({"energy": 50}, pinned_first, declaring(narrow, wide)) is InvalidRunParametersError
    [event] = adjust({"energy": 50}, pinned_second, declaring(narrow, wide))
    assert event.parameters_schema_version == 2


def test_an_adjustment_without_a_declared_schema_is_refused() -> None:
    assert adjust({"energy": 50}, run(), FLY_SCAN) is InvalidRunParametersError


def test_an_adjustment_that_changes_nothing_is_none() -> None:
    state = run(effective_parameters={"energy": 20}, parameters_schema_version=1)
    assert adjust({"energy": 20}, state, declaring(energy())) == []


def test_refusals_of_an_adjustment_come_in_order() -> None:
    ended = run(COMPLETED)
    assert adjust({}, ended, FLY_SCAN, " ") is InvalidRunAdjustReasonError
    assert adjust({}, ended, FLY_SCAN) is InvalidRunAdjustPatchError
    assert adjust({"energy": 20}, ended, FLY_SCAN) is RunCannotAdjustError
    assert adjust({"energy": 20}, run(), FLY_SCAN) is InvalidRunParametersError


def assign(value: str, state: Run, scheme: str = "item_uid") -> Any:
    return outcome(AssignRunExternalRef(run_id=RUN, scheme=scheme, value=value), state)


def test_an_external_ref_is_assigned_once() -> None:
    assigned = RunExternalRefAssigned(run_id=RUN, occurred_at=NOW, scheme="item_uid", value="a1")
    assert assign("a1", run()) == [assigned]
    assert assign("a1", run(assigned)) == []
    assert assign("b2", run(assigned)) is RunExternalRefAlreadyAssignedError


def test_an_ended_run_takes_external_refs_too() -> None:
    assert not isinstance(assign("a1", run(COMPLETED)), type)


@pytest.mark.parametrize(("scheme", "value"), [("Item", "a1"), ("item_uid", " "), ("doi", "doi:10.1/x")])
def test_a_malformed_external_ref_is_refused(scheme: str, value: str) -> None:
    assert assign(value, run(), scheme) is InvalidRunExternalRefsError


def test_at_most_twenty_external_refs_are_kept() -> None:
    full = run(external_refs={f"scheme{n}": GivenRef(value="x") for n in range(20)})
    assert assign("a1", full) is InvalidRunExternalRefsError
    assert assign("x", full, "scheme3") == []


def test_a_run_is_of_one_campaign_at_a_time() -> None:
    added = RunAddedToCampaign(run_id=RUN, occurred_at=NOW, campaign_id=CAMPAIGN)
    removed = RunRemovedFromCampaign(run_id=RUN, occurred_at=NOW, campaign_id=CAMPAIGN, reason="other")
    assert run(added).campaign_id == CAMPAIGN
    assert run(added, removed).campaign_id is None


def test_a_redacted_entry_stays_in_the_logbook() -> None:
    kept, _ = erasable(UUID(int=9), "We saw it.")
    written = RunLogbookEntryAppended(
        run_id=RUN,
        occurred_at=NOW,
        entry_id=ENTRY,
        author_id=PRINCIPAL,
        kind=LogbookEntryKind.NOTE,
        text=kept,
    )
    redacted = RunLogbookEntryRedacted(
        run_id=RUN, occurred_at=NOW, entry_id=ENTRY, reason="a name", redacted_by=PRINCIPAL
    )
    assert run(written).logbook[ENTRY].text == kept
    assert run(written, redacted).logbook[ENTRY].redacted


def test_a_lease_of_a_debriefer_changes_nothing() -> None:
    lease = DecisionDebriefRequested(
        run_id=RUN,
        occurred_at=NOW,
        debriefer_agent_id=PRINCIPAL,
        debriefer_kind="RunDebriefer",
        terminal_event_id=UUID(int=3),
    )
    assert run(COMPLETED, lease) == run(COMPLETED)


P, S, H = ActuationKind.PHYSICAL, ActuationKind.SIMULATED, ActuationKind.HYBRID


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((None, None), None),
        ((None, P), P),
        ((S, S), S),
        ((P, S), H),
        ((H, P), H),
        ((H, None), H),
        ((P, S, None), H),
    ],
)
def test_actuation_is_merged_and_never_overwritten(kinds: tuple[Any, ...], expected: Any) -> None:
    for order in permutations(kinds):
        assert merged_actuation(*order) is expected


def test_actuation_is_observed_after_the_end_too() -> None:
    seen = RunActuationObserved(run_id=RUN, occurred_at=NOW, procedure_id=UUID(int=4), actuation_kind=S)
    assert run(COMPLETED, seen).actuation_kind is S


def _events(command: Command[Run], state: Run, occasion: Any = OCCASION) -> list[Any]:
    decided = outcome(command, state, occasion)
    assert not isinstance(decided, type), decided
    return [event for event in decided if isinstance(event, Event)]
