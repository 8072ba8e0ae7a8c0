"""The moves of a procedure: the start, which the gate grants, and holds and ends, which nothing gates."""

from uuid import UUID

from beamwright.contexts.recipe.method import methods
from beamwright.contexts.run.deciding import check_decision
from beamwright.contexts.run.gate import GateScope, check_gate, gate_evidence, judge
from beamwright.contexts.run.gate_scope import GatedWork, load_gate_scope
from beamwright.contexts.run.run import runs
from beamwright.contexts.safety.gate import ClearedWork
from beamwright.contexts.safety.values import BindingKind
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.holds import check_not_held_by
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, Value

from .gate_errors import PROCEDURE_GATE
from .procedure import (
    OPEN,
    STATUS,
    Procedure,
    ProcedureAborted,
    ProcedureCannotHoldError,
    ProcedureCompleted,
    ProcedureHeld,
    ProcedureIterationEnded,
    ProcedureStarted,
    ProcedureTerminationReason,
    ProcedureTruncated,
    hold_cause,
    procedures,
)


class InvalidProcedureHoldReasonError(InvalidError):
    """The reason of the hold is blank or too long."""


class InvalidProcedureAbortReasonError(InvalidError):
    """The reason of the abort is blank or too long."""


class InvalidProcedureTruncateReasonError(InvalidError):
    """The reason of the truncation is blank or too long."""


class InvalidProcedureInterruptedAtError(InvalidError):
    """The procedure was interrupted neither before it started nor in the future."""


class InvalidProcedureNoteError(InvalidError):
    """The note is blank or too long."""


class ProcedureIterationOpenError(ConflictError):
    """A pass of the procedure has not ended."""


class GatedProcedure(Value):
    """A procedure, and what the gate looks at."""

    procedure: Procedure
    gate: GateScope


async def load_procedure_gate(world: World, procedure: Procedure) -> GateScope:
    """What the gate looks at for a procedure; a phase needs what the method of its run needs."""
    parent_id = procedure.parent_run_id
    parent = None if parent_id is None else await world.load(runs, parent_id)
    # Fixed when a method is defined, so today's are those of the version that the run pinned.
    needed = (
        frozenset[str]() if parent is None else (await world.load(methods, parent.method_id)).needed_supplies
    )
    return await load_gate_scope(
        world,
        GatedWork(
            work=ClearedWork(kind=BindingKind.PROCEDURE, id=procedure.id, visit_id=procedure.visit_id),
            asset_ids=procedure.target_asset_ids or (parent.asset_ids if parent else frozenset()),
            subject_id=None if parent is None else parent.subject_id,
            needed_supplies=needed,
            parent_run=parent,
        ),
    )


@procedures.operation("POST /procedures/{procedure_id}/start")
class StartProcedure(Command[GatedProcedure]):
    """Start a procedure, if the enclosures, supplies and clearances that it depends on allow it."""

    procedure_id: UUID

    async def gather(self, world: World) -> GatedProcedure:
        procedure = await world.load(procedures, self.procedure_id)
        return GatedProcedure(procedure=procedure, gate=await load_procedure_gate(world, procedure))

    def decide(self, seen: GatedProcedure, occasion: Occasion) -> ProcedureStarted:
        procedure = seen.procedure
        STATUS.check(ProcedureStarted, procedure.status, procedure.id)
        judged = judge(seen.gate, occasion.now)
        check_gate(judged, PROCEDURE_GATE)
        return ProcedureStarted(
            procedure_id=procedure.id,
            occurred_at=occasion.now,
            started_by=occasion.principal_id,
            gate_evidence=gate_evidence(judged),
            shown_caution_ids=seen.gate.caution_ids,
        )


class ProcedureCommand(Command[Procedure]):
    """A command that sees its procedure and nothing else."""

    procedure_id: UUID

    async def gather(self, world: World) -> Procedure:
        return await world.load(procedures, self.procedure_id)


class DecidedProcedureCommand(ProcedureCommand):
    """A command that may name the decision that explains it."""

    reason: text.Reason
    decided_by_decision_id: UUID | None = None

    async def gather(self, world: World) -> Procedure:
        procedure = await world.load(procedures, self.procedure_id)
        await check_decision(world, self.decided_by_decision_id)
        return procedure


@procedures.operation("POST /procedures/{procedure_id}/hold")
class HoldProcedure(DecidedProcedureCommand):
    """Hold a procedure for a reason; it resumes when this concern and every other is released."""

    def decide(self, procedure: Procedure, occasion: Occasion) -> ProcedureHeld:
        reason = text.reason(self.reason, InvalidProcedureHoldReasonError)
        STATUS.check(ProcedureHeld, procedure.status, procedure.id)
        check_not_held_by(
            occasion.principal_id,
            procedure.hold_claims,
            "procedure",
            ProcedureCannotHoldError,
            id=str(procedure.id),
            current=procedure.status,
            allowed=sorted(OPEN),
        )
        return ProcedureHeld(
            procedure_id=procedure.id,
            occurred_at=occasion.now,
            claim_id=occasion.new_id,
            cause=hold_cause(occasion.principal_kind),
            held_by=occasion.principal_id,
            reason=reason,
            decided_by_decision_id=self.decided_by_decision_id,
        )


@procedures.operation("POST /procedures/{procedure_id}/complete")
class CompleteProcedure(ProcedureCommand):
    """Complete a procedure that worked to its end."""

    note: text.ShortNote | None = None

    def decide(self, procedure: Procedure, occasion: Occasion) -> ProcedureCompleted:
        note = text.short_note(self.note, InvalidProcedureNoteError)
        STATUS.check(ProcedureCompleted, procedure.status, procedure.id)
        check_no_iteration_open(procedure)
        converged = ProcedureTerminationReason.CONVERGED
        return ProcedureCompleted(
            procedure_id=procedure.id,
            occurred_at=occasion.now,
            termination_reason=converged
            if procedure.converged
            else ProcedureTerminationReason.STEPS_COMPLETED,
            note=note,
            ended_by=occasion.principal_id,
        )


def check_no_iteration_open(procedure: Procedure) -> None:
    """Gate: a pass that goes on is ended first, so that its verdict is not lost."""
    if procedure.current_iteration_index is not None:
        raise ProcedureIterationOpenError(
            f"Pass {procedure.current_iteration_index} goes on: end_iteration first.",
            iteration_index=procedure.current_iteration_index,
        )


@procedures.operation("POST /procedures/{procedure_id}/abort")
class AbortProcedure(DecidedProcedureCommand):
    """End a procedure because something is wrong; `immediate` says that nothing was waited for."""

    immediate: bool = False

    def decide(
        self, procedure: Procedure, occasion: Occasion
    ) -> list[ProcedureIterationEnded | ProcedureAborted]:
        reason = text.reason(self.reason, InvalidProcedureAbortReasonError)
        STATUS.check(ProcedureAborted, procedure.status, procedure.id)
        aborted = ProcedureAborted(
            procedure_id=procedure.id,
            occurred_at=occasion.now,
            reason=reason,
            cancelled=self.immediate,
            ended_by=occasion.principal_id,
            decided_by_decision_id=self.decided_by_decision_id,
        )
        return [*abandoned_iteration(procedure, aborted), aborted]


@procedures.operation("POST /procedures/{procedure_id}/truncate")
class TruncateProcedure(ProcedureCommand):
    """Close a procedure that has died; say when, as well as it is known."""

    reason: text.Reason
    interrupted_at: Time | None = None

    def decide(
        self, procedure: Procedure, occasion: Occasion
    ) -> list[ProcedureIterationEnded | ProcedureTruncated]:
        reason = text.reason(self.reason, InvalidProcedureTruncateReasonError)
        self.check_interrupted_at(procedure, occasion)
        STATUS.check(ProcedureTruncated, procedure.status, procedure.id)
        truncated = ProcedureTruncated(
            procedure_id=procedure.id,
            occurred_at=occasion.now,
            reason=reason,
            interrupted_at=self.interrupted_at,
            ended_by=occasion.principal_id,
        )
        return [*abandoned_iteration(procedure, truncated), truncated]

    def check_interrupted_at(self, procedure: Procedure, occasion: Occasion) -> None:
        time, start = self.interrupted_at, procedure.started_at
        if time is not None and (time > occasion.now or (start is not None and time < start)):
            raise InvalidProcedureInterruptedAtError(
                "A procedure is interrupted after its start and not in the future.",
                started_at=None if start is None else start.isoformat(),
                now=occasion.now.isoformat(),
            )


def abandoned_iteration(
    procedure: Procedure, end: ProcedureAborted | ProcedureTruncated
) -> list[ProcedureIterationEnded]:
    """A pass that went on when the procedure ended has no verdict."""
    if procedure.current_iteration_index is None:
        return []
    return [
        ProcedureIterationEnded(
            procedure_id=procedure.id,
            occurred_at=end.occurred_at,
            iteration_index=procedure.current_iteration_index,
            reason=end.reason,
        )
    ]
