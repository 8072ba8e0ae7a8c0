"""Would it start, would it resume: every refusal that a procedure would meet now, not only the first."""

from collections.abc import Callable
from uuid import UUID

from beamwright.contexts.run.gate import gate_notices, judge
from beamwright.contexts.run.readiness import Readiness, gate_refusals, refusals, remaining_holds
from beamwright.kernel.holds import check_releases, releasable
from beamwright.kernel.operation import Query, World

from .gate_errors import PROCEDURE_GATE
from .procedure import DEFINED, STATUS, Procedure, ProcedureResumed, procedures
from .procedure_moves import load_procedure_gate
from .procedure_resume import ProcedureHoldClaimsRemainError


class ProcedureReadiness(Readiness):
    """Whether a procedure would start or resume now, and all that stands against it."""


@procedures.operation("GET /procedures/{procedure_id}/readiness")
class GetProcedureReadiness(Query[ProcedureReadiness]):
    """Tell everything that a start of this procedure, or its resume, would be refused for; nothing is recorded."""

    procedure_id: UUID

    async def answer(self, world: World) -> ProcedureReadiness:
        procedure = await world.load(procedures, self.procedure_id)
        gate = await load_procedure_gate(world, procedure)
        released = releasable(procedure.hold_claims, None, world.caller.principal_id)
        judged = judge(gate, world.now)
        failures = [*refusals(_own_rules(procedure, released)), *gate_refusals(judged, PROCEDURE_GATE)]
        held = await remaining_holds(world, procedure.hold_claims, released, "procedure")
        return ProcedureReadiness(
            ready=not failures,
            failures=failures,
            notices=[*held, *gate_notices(gate)],
            cautions=sorted(gate.caution_ids),
            as_of=judged.now,
        )


def _own_rules(procedure: Procedure, released: frozenset[UUID]) -> list[Callable[[], object]]:
    if procedure.status is DEFINED:
        return []
    claims, refusal = procedure.hold_claims, ProcedureHoldClaimsRemainError
    status: list[Callable[[], object]] = [
        lambda: STATUS.check(ProcedureResumed, procedure.status, procedure.id)
    ]
    return [*status, lambda: check_releases(released, claims, "procedure", refusal)] if claims else status
