"""Resuming a held procedure: concerns are released one principal's at a time, and the gate is passed again."""

from uuid import UUID

from beamwright.contexts.run.deciding import check_decision
from beamwright.contexts.run.gate import GateScope, check_gate, gate_evidence, judge
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.event import Event
from beamwright.kernel.holds import check_present, check_releases, releasable
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .gate_errors import PROCEDURE_GATE
from .procedure import (
    STATUS,
    Procedure,
    ProcedureHoldClaimReleased,
    ProcedureResumed,
    procedures,
)
from .procedure_moves import InvalidProcedureNoteError, load_procedure_gate


class ProcedureHoldClaimNotPresentError(ConflictError):
    """The procedure is not held by such a claim."""


class ProcedureHoldClaimsRemainError(ConflictError):
    """Others hold the procedure, and nothing is released."""


class HeldProcedure(Value):
    """A procedure, and what the gate looks at when nothing else holds it."""

    procedure: Procedure
    gate: GateScope | None


@procedures.operation("POST /procedures/{procedure_id}/resume")
class ResumeProcedure(Command[HeldProcedure]):
    """Release one's own hold and those that are no person's, or the named ones; the last release resumes."""

    procedure_id: UUID
    claim_ids: frozenset[UUID] | None = None
    note: text.ShortNote | None = None
    decided_by_decision_id: UUID | None = None

    async def gather(self, world: World) -> HeldProcedure:
        procedure = await world.load(procedures, self.procedure_id)
        await check_decision(world, self.decided_by_decision_id)
        claims = procedure.hold_claims
        resumes = bool(claims) and self.released(procedure, world.caller.principal_id) >= claims.keys()
        gate = await load_procedure_gate(world, procedure) if resumes else None
        return HeldProcedure(procedure=procedure, gate=gate)

    def released(self, procedure: Procedure, principal_id: UUID) -> frozenset[UUID]:
        return releasable(procedure.hold_claims, self.claim_ids, principal_id)

    def decide(self, seen: HeldProcedure, occasion: Occasion) -> list[Event]:
        procedure, note = seen.procedure, text.short_note(self.note, InvalidProcedureNoteError)
        STATUS.check(ProcedureResumed, procedure.status, procedure.id)
        released = self.released(procedure, occasion.principal_id)
        check_present(released, procedure.hold_claims, "procedure", ProcedureHoldClaimNotPresentError)
        check_releases(released, procedure.hold_claims, "procedure", ProcedureHoldClaimsRemainError)
        if seen.gate is None:
            return [
                ProcedureHoldClaimReleased(
                    procedure_id=procedure.id,
                    occurred_at=occasion.now,
                    claim_id=claim_id,
                    cause=procedure.hold_claims[claim_id].cause,
                    released_by=occasion.principal_id,
                    note=note,
                )
                for claim_id in sorted(released)
            ]
        judged = judge(seen.gate, occasion.now)
        check_gate(judged, PROCEDURE_GATE)
        return [
            ProcedureResumed(
                procedure_id=procedure.id,
                occurred_at=occasion.now,
                released_claim_ids=released,
                resumed_by=occasion.principal_id,
                note=note,
                gate_evidence=gate_evidence(judged),
                shown_caution_ids=seen.gate.caution_ids,
                decided_by_decision_id=self.decided_by_decision_id,
            )
        ]
