"""Resuming a run: whose concerns are released, what remains, and that the gate is passed again."""

from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.enclosure.enclosure import PermitStatus
from beamwright.contexts.run.gate import GateScope, gate_evidence, judge
from beamwright.contexts.run.gate_errors import RunRequiresPermittedEnclosureError
from beamwright.contexts.run.resume import (
    HeldRun,
    ResumeRun,
    RunHoldClaimNotPresentError,
    RunHoldClaimsRemainError,
)
from beamwright.contexts.run.run import (
    HoldCause,
    InvalidRunNoteError,
    Run,
    RunCannotResumeError,
    RunHoldClaimReleased,
    RunResumed,
    RunStatus,
)
from beamwright.kernel.holds import releasable
from beamwright.kernel.operation import Occasion
from tests.contexts.run.examples import (
    AS_SOMEBODY,
    BY_ROBOT,
    BY_SOMEBODY,
    CLAIM,
    HELD,
    HUTCH,
    OPEN_GATE,
    OTHER_CLAIM,
    RUN,
    SOMEBODY,
    enclosure,
    gate,
    held,
    run,
)
from tests.rules import NOW, OCCASION, PRINCIPAL, outcome

CLOSED_GATE = gate(enclosures={HUTCH: enclosure(status=PermitStatus.NOT_PERMITTED)})


def resume(
    state: Run,
    occasion: Occasion = OCCASION,
    claim_ids: frozenset[UUID] | None = None,
    gate: GateScope = OPEN_GATE,
    **fields: Any,
) -> Any:
    """What a resume decides; the gate is loaded exactly when nothing else holds the run."""
    command = ResumeRun(run_id=RUN, claim_ids=claim_ids, **fields)
    released = releasable(state.hold_claims, claim_ids, occasion.principal_id)
    resumes = bool(state.hold_claims) and released >= state.hold_claims.keys()
    return outcome(command, HeldRun(run=state, gate=gate if resumes else None), occasion)


def test_whoever_holds_alone_resumes() -> None:
    assert resume(run(HELD), note="stable again") == [
        RunResumed(
            run_id=RUN,
            occurred_at=NOW,
            released_claim_ids=frozenset({CLAIM}),
            resumed_by=PRINCIPAL,
            note="stable again",
            gate_evidence=gate_evidence(judge(OPEN_GATE, NOW)),
        )
    ]


def test_a_person_takes_over_from_a_supervisor() -> None:
    [event] = resume(run(BY_ROBOT))
    assert isinstance(event, RunResumed)


def test_a_run_that_another_operator_holds_stays_held() -> None:
    """An operator's and a supervisor's hold: a second operator releases the supervisor's alone."""
    state = run(HELD, BY_ROBOT)
    [event] = resume(state, AS_SOMEBODY)
    assert event == RunHoldClaimReleased(
        run_id=RUN, occurred_at=NOW, claim_id=OTHER_CLAIM, cause=HoldCause.SUPERVISOR, released_by=SOMEBODY
    )
    after = run(HELD, BY_ROBOT, event)
    assert (after.status, after.status_reason) == (RunStatus.HELD, HELD.reason)
    [last] = resume(after)
    assert isinstance(last, RunResumed)


def test_each_released_claim_has_an_event_of_its_own() -> None:
    third = held(UUID(int=523), UUID(int=524), HoldCause.SUPERVISOR)
    events = resume(run(HELD, BY_ROBOT, third), AS_SOMEBODY)
    assert [event.claim_id for event in events] == [OTHER_CLAIM, UUID(int=523)]


def test_named_claims_are_released_whoever_made_them() -> None:
    [event] = resume(run(HELD, BY_SOMEBODY), AS_SOMEBODY, frozenset({CLAIM}))
    assert event.claim_id == CLAIM
    [event] = resume(run(HELD, BY_SOMEBODY), AS_SOMEBODY, frozenset({CLAIM, OTHER_CLAIM}))
    assert event.released_claim_ids == {CLAIM, OTHER_CLAIM}


def test_a_claim_that_is_not_there_is_not_released() -> None:
    assert resume(run(HELD), claim_ids=frozenset({OTHER_CLAIM})) is RunHoldClaimNotPresentError
    assert resume(run(HELD), claim_ids=frozenset({CLAIM, OTHER_CLAIM})) is RunHoldClaimNotPresentError


def test_nothing_to_release_is_refused_and_tells_who_holds() -> None:
    command = ResumeRun(run_id=RUN)
    with pytest.raises(RunHoldClaimsRemainError) as refusal:
        command.decide(HeldRun(run=run(HELD), gate=None), AS_SOMEBODY)
    [claim] = refusal.value.context["claims"]
    assert (claim["cause"], claim["held_by"], claim["reason"]) == (
        "Operator",
        str(PRINCIPAL),
        HELD.reason,
    )
    assert resume(run(HELD), claim_ids=frozenset()) is RunHoldClaimsRemainError


def test_the_gate_is_passed_again() -> None:
    assert resume(run(HELD), gate=CLOSED_GATE) is RunRequiresPermittedEnclosureError


def test_the_gate_is_asked_only_when_nothing_else_holds_the_run() -> None:
    assert not isinstance(resume(run(HELD, BY_ROBOT), AS_SOMEBODY, gate=CLOSED_GATE), type)


def test_refusals_come_in_order() -> None:
    running, unknown = run(), frozenset({OTHER_CLAIM})
    assert resume(running, note=" ", claim_ids=unknown) is InvalidRunNoteError
    assert resume(running, claim_ids=unknown) is RunCannotResumeError
    assert resume(run(HELD), claim_ids=unknown, gate=CLOSED_GATE) is RunHoldClaimNotPresentError
    assert resume(run(HELD), AS_SOMEBODY, gate=CLOSED_GATE) is RunHoldClaimsRemainError
