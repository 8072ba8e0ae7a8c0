"""Passes of a procedure: one at a time, without a gap, and not for ever without convergence."""

from typing import Any

import pytest

from beamwright.contexts.operation.iterations import (
    EndProcedureIteration,
    InvalidProcedureIterationEndReasonError,
    ProcedureCannotEndIterationError,
    ProcedureCannotStartIterationError,
    ProcedureIterationLimitReachedError,
    StartProcedureIteration,
)
from beamwright.contexts.operation.procedure import (
    Procedure,
    ProcedureIterationEnded,
    ProcedureIterationStarted,
)
from beamwright.kernel.event import Event
from tests.contexts.operation.examples import (
    COMPLETED,
    HELD,
    PROCEDURE,
    REACH,
    passed,
    procedure,
    running,
)
from tests.rules import NOW, outcome


def begin(state: Procedure, index: int) -> Any:
    return outcome(StartProcedureIteration(procedure_id=PROCEDURE, iteration_index=index), state)


def end(state: Procedure, index: int, **fields: Any) -> Any:
    return outcome(EndProcedureIteration(procedure_id=PROCEDURE, iteration_index=index, **fields), state)


def test_passes_follow_one_another() -> None:
    assert begin(running(), 1) == [
        ProcedureIterationStarted(procedure_id=PROCEDURE, occurred_at=NOW, iteration_index=1)
    ]
    first = running(passed(1)[0])
    assert (first.current_iteration_index, first.iteration_count) == (1, 1)
    assert end(first, 1, converged=False, reason=" not yet ") == [
        ProcedureIterationEnded(
            procedure_id=PROCEDURE, occurred_at=NOW, iteration_index=1, converged=False, reason="not yet"
        )
    ]
    over = running(*passed(1))
    assert (over.current_iteration_index, over.iteration_count) == (None, 1)
    assert not isinstance(begin(over, 2), type)


@pytest.mark.parametrize(("events", "index"), [((), 2), (passed(1)[:1], 2), (passed(1), 1), (passed(1), 3)])
def test_no_pass_is_left_out_or_begun_within_another(events: list[Event], index: int) -> None:
    assert begin(running(*events), index) is ProcedureCannotStartIterationError


@pytest.mark.parametrize("status", ["Defined", "Held", "Completed", "Aborted", "Truncated"])
def test_a_pass_begins_only_in_a_running_procedure(status: str) -> None:
    assert begin(procedure(*REACH[status][1:]), 1) is ProcedureCannotStartIterationError


def test_the_pass_that_ends_is_the_one_that_goes_on_also_in_a_held_procedure() -> None:
    begun = passed(1)[0]
    assert not isinstance(end(running(begun, HELD), 1), type)
    for state, index in ((running(), 1), (running(begun), 2), (procedure(), 1), (running(COMPLETED), 1)):
        assert end(state, index) is ProcedureCannotEndIterationError
    assert end(running(COMPLETED), 1, reason=" ") is InvalidProcedureIterationEndReasonError


def test_a_verdict_counts_and_none_leaves_the_streak_alone() -> None:
    verdicts = [False, False, None, False, True, None, False]
    streaks: list[int] = []
    events: list[Event] = []
    for index, verdict in enumerate(verdicts, 1):
        events += passed(index, verdict)
        streaks.append(running(*events).consecutive_unconverged_iterations)
    assert streaks == [1, 2, 2, 3, 0, 0, 1]


def test_patience_ends() -> None:
    two = [*passed(1, False), *passed(2, False)]
    patient = running(*two, max_consecutive_unconverged_iterations=3)
    spent = running(*two, max_consecutive_unconverged_iterations=2)
    assert not isinstance(begin(patient, 3), type)
    assert begin(spent, 3) is ProcedureIterationLimitReachedError
    assert begin(spent, 4) is ProcedureCannotStartIterationError
    assert not isinstance(begin(running(*two), 3), type)
