"""The moves of a run that nothing gates: holding it, ending it, and naming it in other systems."""

from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.external_refs import MOST, Scheme, checked_ref
from beamwright.kernel.holds import check_not_held_by
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time

from .deciding import check_decision
from .run import (
    OPEN,
    RUNNING,
    STATUS,
    InvalidRunAbortReasonError,
    InvalidRunExternalRefsError,
    InvalidRunHoldReasonError,
    InvalidRunInterruptedAtError,
    InvalidRunNoteError,
    InvalidRunStopReasonError,
    InvalidRunTruncateReasonError,
    Run,
    RunAborted,
    RunCannotCompleteError,
    RunCannotHoldError,
    RunCompleted,
    RunExternalRefAlreadyAssignedError,
    RunExternalRefAssigned,
    RunHeld,
    RunStopped,
    RunTruncated,
    hold_cause,
    runs,
)


class RunCommand(Command[Run]):
    """A command that sees its run and nothing else."""

    run_id: UUID

    async def gather(self, world: World) -> Run:
        return await world.load(runs, self.run_id)


class DecidedRunCommand(RunCommand):
    """A command that may name the decision that explains it."""

    reason: text.Reason
    decided_by_decision_id: UUID | None = None

    async def gather(self, world: World) -> Run:
        run = await world.load(runs, self.run_id)
        await check_decision(world, self.decided_by_decision_id)
        return run


@runs.operation("POST /runs/{run_id}/hold")
class HoldRun(DecidedRunCommand):
    """Hold a run for a reason; it resumes when this concern and every other is released."""

    def decide(self, run: Run, occasion: Occasion) -> RunHeld:
        reason = text.reason(self.reason, InvalidRunHoldReasonError)
        STATUS.check(RunHeld, run.status, run.id)
        check_not_held_by(
            occasion.principal_id,
            run.hold_claims,
            "run",
            RunCannotHoldError,
            id=str(run.id),
            current=run.status,
            allowed=sorted(OPEN),
        )
        return RunHeld(
            run_id=run.id,
            occurred_at=occasion.now,
            claim_id=occasion.new_id,
            cause=hold_cause(occasion.principal_kind),
            held_by=occasion.principal_id,
            reason=reason,
            decided_by_decision_id=self.decided_by_decision_id,
        )


@runs.operation("POST /runs/{run_id}/complete")
class CompleteRun(RunCommand):
    """Complete a run that worked to its end."""

    note: text.ShortNote | None = None

    def decide(self, run: Run, occasion: Occasion) -> RunCompleted:
        note = text.short_note(self.note, InvalidRunNoteError)
        STATUS.check(RunCompleted, run.status, run.id)
        if run.conduct is not None:
            raise RunCannotCompleteError(
                "A compute job is under way; the run completes when that ends.",
                id=str(run.id),
                current=run.status,
                allowed=[RUNNING],
                conduct_id=str(run.conduct.conduct_id),
            )
        return RunCompleted(
            run_id=run.id, occurred_at=occasion.now, note=note, ended_by=occasion.principal_id
        )


@runs.operation("POST /runs/{run_id}/abort")
class AbortRun(DecidedRunCommand):
    """End a run because something is wrong."""

    def decide(self, run: Run, occasion: Occasion) -> RunAborted:
        reason = text.reason(self.reason, InvalidRunAbortReasonError)
        STATUS.check(RunAborted, run.status, run.id)
        return RunAborted(
            run_id=run.id,
            occurred_at=occasion.now,
            reason=reason,
            ended_by=occasion.principal_id,
            decided_by_decision_id=self.decided_by_decision_id,
        )


@runs.operation("POST /runs/{run_id}/stop")
class StopRun(DecidedRunCommand):
    """End a run early and in good order; its data are valid."""

    def decide(self, run: Run, occasion: Occasion) -> RunStopped:
        reason = text.reason(self.reason, InvalidRunStopReasonError)
        STATUS.check(RunStopped, run.status, run.id)
        return RunStopped(
            run_id=run.id,
            occurred_at=occasion.now,
            reason=reason,
            ended_by=occasion.principal_id,
            decided_by_decision_id=self.decided_by_decision_id,
        )


@runs.operation("POST /runs/{run_id}/truncate")
class TruncateRun(DecidedRunCommand):
    """Close a run that has died; say when, as well as it is known."""

    interrupted_at: Time | None = None

    def decide(self, run: Run, occasion: Occasion) -> RunTruncated:
        reason = text.reason(self.reason, InvalidRunTruncateReasonError)
        if self.interrupted_at is not None and not run.started_at <= self.interrupted_at <= occasion.now:
            raise InvalidRunInterruptedAtError(
                "A run is interrupted after its start and not in the future.",
                started_at=run.started_at.isoformat(),
                now=occasion.now.isoformat(),
            )
        STATUS.check(RunTruncated, run.status, run.id)
        return RunTruncated(
            run_id=run.id,
            occurred_at=occasion.now,
            reason=reason,
            interrupted_at=self.interrupted_at,
            ended_by=occasion.principal_id,
            decided_by_decision_id=self.decided_by_decision_id,
        )


@runs.operation("POST /runs/{run_id}/external-refs/assign")
class AssignRunExternalRef(RunCommand):
    """Say by which id another system knows a run."""

    scheme: Scheme
    value: text.Name
    authority: text.Name | None = None

    def decide(self, run: Run, occasion: Occasion) -> list[RunExternalRefAssigned]:
        scheme, ref = checked_ref(self.scheme, self.value, self.authority, InvalidRunExternalRefsError)
        known = run.external_refs.get(scheme)
        if known is None and len(run.external_refs) >= MOST:
            raise InvalidRunExternalRefsError(f"At most {MOST} external references are kept.", most=MOST)
        if known is not None and known.value != ref.value:
            raise RunExternalRefAlreadyAssignedError(
                f"The run is {known.value} in {scheme} already.", scheme=scheme, value=known.value
            )
        if known is not None:
            return []
        return [
            RunExternalRefAssigned(
                run_id=run.id,
                occurred_at=occasion.now,
                scheme=scheme,
                value=ref.value,
                authority=ref.authority,
            )
        ]
