"""Passes of a procedure that an outside program drives: begun one at a time, and ended with a verdict or none."""

from typing import Annotated

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.errors import CannotTransitionError, ConflictError, InvalidError
from beamwright.kernel.operation import Occasion

from .procedure import (
    OPEN,
    RUNNING,
    Procedure,
    ProcedureIterationEnded,
    ProcedureIterationStarted,
    procedures,
)
from .procedure_moves import ProcedureCommand

type IterationIndex = Annotated[
    int, Meta(description="1 for the first pass, one more for each that follows.", ge=1, le=2**31 - 1)
]


class InvalidProcedureIterationEndReasonError(InvalidError):
    """The reason is blank or too long."""


class ProcedureCannotStartIterationError(CannotTransitionError):
    """The procedure is not running, a pass goes on, or the index is not the next one."""


class ProcedureCannotEndIterationError(CannotTransitionError):
    """The procedure has not begun or has ended, or no such pass goes on."""


class ProcedureIterationLimitReachedError(ConflictError):
    """As many passes in a row as the procedure allows went without convergence."""


@procedures.operation("POST /procedures/{procedure_id}/iterations/start", name="start_iteration")
class StartProcedureIteration(ProcedureCommand):
    """Begin the next pass of a procedure."""

    iteration_index: IterationIndex

    def decide(self, procedure: Procedure, occasion: Occasion) -> ProcedureIterationStarted:
        self.check_next(procedure)
        check_patience_left(procedure)
        return ProcedureIterationStarted(
            procedure_id=procedure.id, occurred_at=occasion.now, iteration_index=self.iteration_index
        )

    def check_next(self, procedure: Procedure) -> None:
        """Gate: passes follow one another without a gap."""
        refusal, here, following = (
            ProcedureCannotStartIterationError,
            procedure.current_iteration_index,
            procedure.iteration_count + 1,
        )
        if procedure.status is not RUNNING:
            raise refusal.of(procedure.id, procedure.status, {RUNNING})
        if here is not None or self.iteration_index != following:
            why = f"Pass {here} goes on: end_iteration first." if here else f"The next pass is {following}."
            raise refusal(
                why,
                id=str(procedure.id),
                current=procedure.status,
                allowed=[RUNNING],
                current_iteration_index=here,
                next_iteration_index=following,
            )


def check_patience_left(procedure: Procedure) -> None:
    """Gate: what does not converge is not tried for ever."""
    most, streak = (
        procedure.max_consecutive_unconverged_iterations,
        procedure.consecutive_unconverged_iterations,
    )
    if most is not None and streak >= most:
        raise ProcedureIterationLimitReachedError(
            f"The last {streak} passes did not converge, and no more than {most} are allowed: "
            "complete_procedure or abort_procedure.",
            consecutive_unconverged_iterations=streak,
            most=most,
        )


@procedures.operation("POST /procedures/{procedure_id}/iterations/end", name="end_iteration")
class EndProcedureIteration(ProcedureCommand):
    """End the pass that goes on, and say whether it met the criterion, if that is known."""

    iteration_index: IterationIndex
    converged: bool | None = None
    reason: text.Reason | None = None

    def decide(self, procedure: Procedure, occasion: Occasion) -> ProcedureIterationEnded:
        refusal = InvalidProcedureIterationEndReasonError
        reason = None if self.reason is None else text.reason(self.reason, refusal)
        self.check_open(procedure)
        return ProcedureIterationEnded(
            procedure_id=procedure.id,
            occurred_at=occasion.now,
            iteration_index=self.iteration_index,
            converged=self.converged,
            reason=reason,
        )

    def check_open(self, procedure: Procedure) -> None:
        """Gate: the pass that is ended is the one that goes on."""
        refusal, here = ProcedureCannotEndIterationError, procedure.current_iteration_index
        if not procedure.open:
            raise refusal.of(procedure.id, procedure.status, OPEN)
        if here != self.iteration_index:
            raise refusal(
                "No pass goes on." if here is None else f"Pass {here} goes on, not {self.iteration_index}.",
                id=str(procedure.id),
                current=procedure.status,
                allowed=sorted(OPEN),
                current_iteration_index=here,
            )
