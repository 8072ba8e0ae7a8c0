"""Resuming a held run: concerns are released one principal's at a time, and the gate is passed again."""

from uuid import UUID

from beamwright.contexts.recipe.method import methods
from beamwright.contexts.recipe.plan import plans
from beamwright.contexts.safety.gate import ClearedWork
from beamwright.contexts.safety.values import BindingKind
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.event import Event
from beamwright.kernel.holds import check_present, check_releases, releasable
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .deciding import check_decision
from .gate import GateScope, check_gate, gate_evidence, judge
from .gate_errors import RUN_GATE
from .gate_scope import GatedWork, load_gate_scope
from .run import (
    STATUS,
    InvalidRunNoteError,
    Run,
    RunHoldClaimReleased,
    RunResumed,
    runs,
)


class RunHoldClaimNotPresentError(ConflictError):
    """The run is not held by such a claim."""


class RunHoldClaimsRemainError(ConflictError):
    """Others hold the run, and nothing is released."""


class HeldRun(Value):
    """A run, and what the gate looks at when nothing else holds it."""

    run: Run
    gate: GateScope | None


async def load_run_gate(world: World, run: Run) -> GateScope:
    """What the gate looks at for a run that has started."""
    plan = await world.load(plans, run.plan_id)
    method = await world.load(methods, run.method_id)
    return await load_gate_scope(
        world,
        GatedWork(
            work=ClearedWork(kind=BindingKind.RUN, id=run.id, visit_id=run.visit_id),
            asset_ids=run.asset_ids,
            subject_id=run.subject_id,
            # Fixed when a method is defined, so today's are those of the version that the run pinned.
            needed_supplies=method.needed_supplies,
            window_start=plan.window_start,
            window_end=plan.window_end,
        ),
    )


@runs.operation("POST /runs/{run_id}/resume")
class ResumeRun(Command[HeldRun]):
    """Release one's own hold and those of supervisors, or the named ones; the last release resumes the run."""

    run_id: UUID
    claim_ids: frozenset[UUID] | None = None
    note: text.ShortNote | None = None
    decided_by_decision_id: UUID | None = None

    async def gather(self, world: World) -> HeldRun:
        run = await world.load(runs, self.run_id)
        await check_decision(world, self.decided_by_decision_id)
        released = releasable(run.hold_claims, self.claim_ids, world.caller.principal_id)
        resumes = bool(run.hold_claims) and released >= run.hold_claims.keys()
        return HeldRun(run=run, gate=await load_run_gate(world, run) if resumes else None)

    def decide(self, seen: HeldRun, occasion: Occasion) -> list[Event]:
        run, note = seen.run, text.short_note(self.note, InvalidRunNoteError)
        STATUS.check(RunResumed, run.status, run.id)
        released = releasable(run.hold_claims, self.claim_ids, occasion.principal_id)
        check_present(released, run.hold_claims, "run", RunHoldClaimNotPresentError)
        check_releases(released, run.hold_claims, "run", RunHoldClaimsRemainError)
        if seen.gate is None:
            return [
                RunHoldClaimReleased(
                    run_id=run.id,
                    occurred_at=occasion.now,
                    claim_id=claim_id,
                    cause=run.hold_claims[claim_id].cause,
                    released_by=occasion.principal_id,
                    note=note,
                )
                for claim_id in sorted(released)
            ]
        judged = judge(seen.gate, occasion.now)
        check_gate(judged, RUN_GATE)
        return [
            RunResumed(
                run_id=run.id,
                occurred_at=occasion.now,
                released_claim_ids=released,
                resumed_by=occasion.principal_id,
                note=note,
                gate_evidence=gate_evidence(judged),
                shown_caution_ids=seen.gate.caution_ids,
                decided_by_decision_id=self.decided_by_decision_id,
            )
        ]
