"""Procedure: its fold, its status grid, and its moves."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.enclosure.enclosure import PermitStatus
from beamwright.contexts.operation.gate_errors import (
    ProcedureParentRunNotRunningError,
    ProcedureRequiresPermittedEnclosureError,
)
from beamwright.contexts.operation.procedure import (
    Procedure,
    ProcedureAborted,
    ProcedureCannotHoldError,
    ProcedureCannotStartError,
    ProcedureHoldCause,
    ProcedureHoldClaimReleased,
    ProcedureIterationEnded,
    ProcedureResumed,
    ProcedureStarted,
    ProcedureStatus,
    ProcedureTerminationReason,
    procedures,
)
from beamwright.contexts.operation.procedure_moves import (
    AbortProcedure,
    CompleteProcedure,
    GatedProcedure,
    HoldProcedure,
    InvalidProcedureAbortReasonError,
    InvalidProcedureHoldReasonError,
    InvalidProcedureInterruptedAtError,
    InvalidProcedureNoteError,
    InvalidProcedureTruncateReasonError,
    ProcedureIterationOpenError,
    StartProcedure,
    TruncateProcedure,
)
from beamwright.contexts.operation.procedure_resume import (
    HeldProcedure,
    ProcedureHoldClaimNotPresentError,
    ProcedureHoldClaimsRemainError,
    ResumeProcedure,
)
from beamwright.contexts.run.gate import GateScope, gate_evidence, judge
from beamwright.kernel.errors import DomainError
from beamwright.kernel.holds import releasable
from beamwright.kernel.operation import Command, Occasion
from beamwright.kernel.value import replace
from tests.contexts.operation.examples import (
    ABORTED,
    BY_ROBOT,
    BY_SOMEBODY,
    CLAIM,
    COMPLETED,
    DECISION,
    HELD,
    MINUTE,
    OPEN_GATE,
    OTHER_CLAIM,
    PROCEDURE,
    REACH,
    STARTED,
    TRUNCATED,
    passed,
    procedure,
    running,
)
from tests.contexts.run.examples import AS_ROBOT, AS_SOMEBODY, HUTCH, SOMEBODY, enclosure, run
from tests.contexts.run.examples import HELD as RUN_HELD
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, OCCASION, PRINCIPAL, outcome

CLOSED_GATE = replace(OPEN_GATE, enclosures={HUTCH: enclosure(status=PermitStatus.NOT_PERMITTED)})
LATER = replace(OCCASION, now=NOW + timedelta(hours=1))


def test_status_grid() -> None:
    check_grid(
        """
                  hold   complete   abort    truncate
        Defined   -      -          -        -
        Running   Held   Completed  Aborted  Truncated
        Held      -      -          Aborted  Truncated
        Completed -      -          -        -
        Aborted   -      -          -        -
        Truncated -      -          -        -
        """,
        procedures,
        status=lambda state: state.status,
        reach=REACH,
        verbs={
            "hold": HoldProcedure(procedure_id=PROCEDURE, reason="r"),
            "complete": CompleteProcedure(procedure_id=PROCEDURE),
            "abort": AbortProcedure(procedure_id=PROCEDURE, reason="r"),
            "truncate": TruncateProcedure(procedure_id=PROCEDURE, reason="r"),
        },
    )


def test_status_grid_of_start() -> None:
    check_grid(
        """
                  start
        Defined   Running
        Running   -
        Held      -
        Completed -
        Aborted   -
        Truncated -
        """,
        procedures,
        status=lambda state: state.status,
        reach=REACH,
        verbs={"start": StartProcedure(procedure_id=PROCEDURE)},
        seen=lambda state: GatedProcedure(procedure=state, gate=OPEN_GATE),
    )


def test_status_grid_of_resume() -> None:
    check_grid(
        """
                  resume
        Defined   -
        Running   -
        Held      Running
        Completed -
        Aborted   -
        Truncated -
        """,
        procedures,
        status=lambda state: state.status,
        reach=REACH,
        verbs={"resume": ResumeProcedure(procedure_id=PROCEDURE)},
        seen=lambda state: HeldProcedure(procedure=state, gate=OPEN_GATE),
    )


def start(state: Procedure, gate: GateScope = OPEN_GATE) -> Any:
    return outcome(StartProcedure(procedure_id=PROCEDURE), GatedProcedure(procedure=state, gate=gate))


def test_a_start_records_what_the_gate_relied_on() -> None:
    [event] = start(procedure())
    evidence = gate_evidence(judge(OPEN_GATE, NOW))
    assert event == ProcedureStarted(
        procedure_id=PROCEDURE, occurred_at=NOW, started_by=PRINCIPAL, gate_evidence=evidence
    )
    after = procedure(event)
    assert (after.status, after.started_at, after.started_by, after.gate_evidence) == (
        ProcedureStatus.RUNNING,
        NOW,
        PRINCIPAL,
        evidence,
    )


def test_a_closed_gate_refuses_the_start_after_the_status() -> None:
    assert start(procedure(), CLOSED_GATE) is ProcedureRequiresPermittedEnclosureError
    assert start(running(), CLOSED_GATE) is ProcedureCannotStartError


def test_a_phase_waits_for_its_run() -> None:
    held = replace(OPEN_GATE, parent_run=run(RUN_HELD))
    assert start(procedure(), held) is ProcedureParentRunNotRunningError


def test_a_procedure_belongs_to_its_facility_visit_and_registrant() -> None:
    visit = UUID(int=7)
    belonging = procedures.belongs(procedure(visit_id=visit))
    assert (belonging.facility_code, belonging.visit_ids, belonging.owner_id) == (
        "aps",
        frozenset({visit}),
        PRINCIPAL,
    )
    assert procedures.belongs(procedure()).visit_ids == frozenset()


def test_a_hold_is_a_claim_of_its_holder() -> None:
    [event] = events(HoldProcedure(procedure_id=PROCEDURE, reason=" squeaks "), running())
    assert event == replace(HELD, claim_id=NEW_ID, reason="squeaks")
    assert event.cause is ProcedureHoldCause.OPERATOR


def test_agents_and_service_accounts_hold_as_supervisors() -> None:
    command = HoldProcedure(procedure_id=PROCEDURE, reason="drift", decided_by_decision_id=DECISION)
    [event] = events(command, running(), AS_ROBOT)
    assert (event.cause, event.decided_by_decision_id) == (ProcedureHoldCause.SUPERVISOR, DECISION)


def test_another_principal_adds_a_claim_and_nobody_holds_twice() -> None:
    again = HoldProcedure(procedure_id=PROCEDURE, reason="drift")
    [event] = events(again, running(HELD), AS_SOMEBODY)
    state = running(HELD, event)
    assert (state.status, len(state.hold_claims), state.status_reason) == (ProcedureStatus.HELD, 2, "drift")
    assert outcome(again, running(BY_SOMEBODY, HELD)) is ProcedureCannotHoldError


def resume(
    state: Procedure,
    occasion: Occasion = OCCASION,
    claim_ids: frozenset[UUID] | None = None,
    gate: GateScope = OPEN_GATE,
    **fields: Any,
) -> Any:
    """What a resume decides; the gate is loaded exactly when nothing else holds the procedure."""
    command = ResumeProcedure(procedure_id=PROCEDURE, claim_ids=claim_ids, **fields)
    released = releasable(state.hold_claims, claim_ids, occasion.principal_id)
    resumes = bool(state.hold_claims) and released >= state.hold_claims.keys()
    return outcome(command, HeldProcedure(procedure=state, gate=gate if resumes else None), occasion)


def test_whoever_holds_alone_resumes_through_the_gate() -> None:
    [event] = resume(running(HELD), note="oiled", decided_by_decision_id=DECISION)
    assert event == ProcedureResumed(
        procedure_id=PROCEDURE,
        occurred_at=NOW,
        released_claim_ids=frozenset({CLAIM}),
        resumed_by=PRINCIPAL,
        note="oiled",
        gate_evidence=gate_evidence(judge(OPEN_GATE, NOW)),
        decided_by_decision_id=DECISION,
    )
    after = running(HELD, event)
    assert (after.status, after.status_reason, after.hold_claims) == (ProcedureStatus.RUNNING, None, {})
    assert resume(running(HELD), gate=CLOSED_GATE) is ProcedureRequiresPermittedEnclosureError


def test_a_second_operator_releases_the_supervisors_hold_alone() -> None:
    [event] = resume(running(HELD, BY_ROBOT), AS_SOMEBODY, gate=CLOSED_GATE)
    assert event == ProcedureHoldClaimReleased(
        procedure_id=PROCEDURE,
        occurred_at=NOW,
        claim_id=OTHER_CLAIM,
        cause=ProcedureHoldCause.SUPERVISOR,
        released_by=SOMEBODY,
    )
    after = running(HELD, BY_ROBOT, event)
    assert (after.status, after.status_reason) == (ProcedureStatus.HELD, HELD.reason)


def test_named_claims_are_released_whoever_made_them() -> None:
    [event] = resume(running(HELD, BY_SOMEBODY), AS_SOMEBODY, frozenset({CLAIM, OTHER_CLAIM}))
    assert event.released_claim_ids == {CLAIM, OTHER_CLAIM}


def test_refusals_of_a_resume_come_in_order() -> None:
    unknown = frozenset({OTHER_CLAIM})
    assert resume(running(), note=" ", claim_ids=unknown) is InvalidProcedureNoteError
    assert resume(running(HELD), claim_ids=unknown) is ProcedureHoldClaimNotPresentError
    assert resume(running(HELD), AS_SOMEBODY) is ProcedureHoldClaimsRemainError
    assert resume(running(HELD), claim_ids=frozenset()) is ProcedureHoldClaimsRemainError


@pytest.mark.parametrize("end", [ABORTED, TRUNCATED], ids=lambda end: type(end).__name__)
def test_the_reason_of_the_end_stays_and_no_claim_does(end: Any) -> None:
    state = running(HELD, BY_SOMEBODY, end)
    assert (state.status_reason, state.ended_by, state.ended_at) == (end.reason, PRINCIPAL, NOW)
    assert (state.hold_claims, state.termination_reason) == ({}, None)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (HoldProcedure(procedure_id=PROCEDURE, reason=" "), InvalidProcedureHoldReasonError),
        (AbortProcedure(procedure_id=PROCEDURE, reason=" "), InvalidProcedureAbortReasonError),
        (TruncateProcedure(procedure_id=PROCEDURE, reason=" "), InvalidProcedureTruncateReasonError),
        (CompleteProcedure(procedure_id=PROCEDURE, note=" "), InvalidProcedureNoteError),
    ],
    ids=lambda value: type(value).__name__,
)
def test_blank_words_are_refused_before_the_status(
    command: Command[Procedure], expected: type[DomainError]
) -> None:
    assert outcome(command, running(COMPLETED)) is expected


def test_a_completed_procedure_says_why_it_was_complete() -> None:
    done, converged = ProcedureTerminationReason.STEPS_COMPLETED, ProcedureTerminationReason.CONVERGED
    complete = CompleteProcedure(procedure_id=PROCEDURE, note="at zero")
    [event] = events(complete, running())
    state = running(event)
    assert (state.termination_reason, state.status_reason, state.ended_by) == (done, "at zero", PRINCIPAL)
    [event] = events(complete, running(*passed(1, False), *passed(2, True)))
    assert event.termination_reason is converged
    [event] = events(complete, running(*passed(1, True), *passed(2, False)))
    assert event.termination_reason is done
    [event] = events(complete, running(*passed(1, True), *passed(2, None)))
    assert event.termination_reason is done


def test_a_procedure_does_not_complete_within_a_pass() -> None:
    state = running(passed(1)[0])
    assert outcome(CompleteProcedure(procedure_id=PROCEDURE), state) is ProcedureIterationOpenError


@pytest.mark.parametrize("immediate", [False, True])
def test_an_abort_says_whether_anything_was_waited_for(immediate: bool) -> None:
    command = AbortProcedure(procedure_id=PROCEDURE, reason="smoke", immediate=immediate)
    [event] = events(command, running())
    assert event == ProcedureAborted(
        procedure_id=PROCEDURE, occurred_at=NOW, reason="smoke", ended_by=PRINCIPAL, cancelled=immediate
    )
    assert running(event).cancelled is immediate


@pytest.mark.parametrize(
    "command",
    [
        AbortProcedure(procedure_id=PROCEDURE, reason="smoke"),
        TruncateProcedure(procedure_id=PROCEDURE, reason="smoke"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_pass_that_went_on_ends_without_a_verdict(command: Command[Procedure]) -> None:
    ended, _ = both = events(command, running(passed(1)[0]))
    assert ended == ProcedureIterationEnded(
        procedure_id=PROCEDURE, occurred_at=NOW, iteration_index=1, reason="smoke"
    )
    after = running(passed(1)[0], *both)
    assert (after.current_iteration_index, after.converged, after.open) == (None, None, False)


@pytest.mark.parametrize("at", [NOW - MINUTE, NOW + timedelta(hours=2)], ids=["before", "future"])
def test_a_procedure_is_not_interrupted_before_its_start_or_in_the_future(at: Any) -> None:
    command = TruncateProcedure(procedure_id=PROCEDURE, reason="power", interrupted_at=at)
    assert outcome(command, running(), LATER) is InvalidProcedureInterruptedAtError


def test_a_truncated_procedure_lasted_until_it_was_interrupted() -> None:
    command = TruncateProcedure(procedure_id=PROCEDURE, reason="power", interrupted_at=NOW + MINUTE)
    [event] = events(command, running(), LATER)
    assert running(event).duration(NOW + timedelta(hours=3)) == 60


def test_a_procedure_lasts_from_its_start_until_now() -> None:
    assert (procedure().duration(NOW), procedure(STARTED).duration(NOW + MINUTE)) == (None, 60)


def events(command: Command[Procedure], state: Procedure, occasion: Occasion = OCCASION) -> Any:
    got = outcome(command, state, occasion)
    assert not isinstance(got, type), got
    return got
