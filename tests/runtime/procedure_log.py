"""What the log says of procedures: beside the model, and of every admission by itself."""

from datetime import datetime
from typing import Any

from beamwright.app import App
from beamwright.contexts.enclosure.enclosure import EnclosureLifecycle, PermitStatus
from beamwright.contexts.equipment.asset import AssetLifecycle, assets
from beamwright.contexts.operation.procedure import (
    Procedure,
    ProcedureEvent,
    ProcedureIterationStarted,
    ProcedureRegistered,
    ProcedureResumed,
    ProcedureStarted,
    ProcedureStatus,
    procedures,
)
from beamwright.contexts.recipe.capability import capabilities
from beamwright.contexts.run.run import RunStatus
from beamwright.contexts.run.values import GateEvidence
from beamwright.contexts.supply.supply import SupplyStatus
from beamwright.contexts.trust.visit import visits
from beamwright.kernel.roles import VisitStatus
from tests.runtime.run_log import FOLDED, Log
from tests.runtime.run_model import Model
from tests.walks import all_folds

ALSO_FOLDED = (procedures, visits, assets, capabilities)


async def procedures_told(app: App) -> dict[str, Any]:
    """What the log says of procedures, and of what only they depend on, as far as the model has a say in it."""
    states = await all_folds(app, *ALSO_FOLDED)
    procedure, visit, asset, capability = (
        {id: each.state for id, each in states[aggregate.name].items()} for aggregate in ALSO_FOLDED
    )
    return {
        "procedures": {id: shown(each) for id, each in procedure.items()},
        "visits": {id: each.status for id, each in visit.items()},
        "retired": {id for id, each in asset.items() if each.lifecycle is AssetLifecycle.DECOMMISSIONED},
        "deprecated": {id for id, each in capability.items() if each.status == "Deprecated"},
    }


def shown(procedure: Procedure) -> tuple[Any, ...]:
    return (
        procedure.status,
        {claim.held_by: claim.cause == "Supervisor" for claim in procedure.hold_claims.values()},
        procedure.target_asset_ids,
        procedure.parent_run_id,
        procedure.visit_id,
        procedure.facility_code,
        procedure.iteration_count,
        procedure.current_iteration_index,
        procedure.consecutive_unconverged_iterations,
        procedure.converged,
        procedure.termination_reason,
        procedure.cancelled,
    )


def procedures_foretold(model: Model) -> dict[str, Any]:
    """The same by the model."""
    return {
        "procedures": {
            id: (
                each.status,
                each.holders,
                each.targets,
                each.run_id,
                each.visit_id,
                each.facility_code,
                each.passes,
                each.current,
                each.streak,
                each.converged,
                each.reason,
                each.cancelled,
            )
            for id, each in model.procedures.items()
        },
        "visits": model.visits,
        "retired": model.retired,
        "deprecated": {id for id, each in model.capabilities.items() if each == "Deprecated"},
    }


class ProcedureLog(Log):
    """The same states, and procedures among them."""

    read_from = (*FOLDED, procedures, visits)

    def check(self, event: Any, after: Any) -> None:
        if isinstance(after, Procedure):
            self.check_procedure(event, after)

    def check_procedure(self, event: ProcedureEvent, after: Procedure) -> None:
        before = self.states.get(("Procedure", after.id))
        check_kept(before, after)
        if isinstance(event, ProcedureStarted | ProcedureResumed):
            self.check_begun(after, event.gate_evidence, event.occurred_at)
        if isinstance(event, ProcedureRegistered) and event.parent_run_id is not None:
            assert self.states["Run", event.parent_run_id].open, "a phase is of a run that goes on"
        if isinstance(event, ProcedureIterationStarted):
            assert before is not None and before.status is ProcedureStatus.RUNNING
            assert before.current_iteration_index is None
            assert event.iteration_index == before.iteration_count + 1

    def check_begun(self, procedure: Procedure, evidence: GateEvidence, now: datetime) -> None:
        """Whatever the procedure relied on stood just so when it was admitted, and permitted it."""
        assert procedure.gate_evidence == evidence
        run = None if procedure.parent_run_id is None else self.states["Run", procedure.parent_run_id]
        assert run is None or run.status is RunStatus.RUNNING
        if procedure.visit_id is not None:
            visit = self.states["Visit", procedure.visit_id]
            assert visit.status in (VisitStatus.ARRIVED, VisitStatus.IN_PROGRESS)
        bound = procedure.target_asset_ids or (run.asset_ids if run else frozenset())
        assert not any(self.states["Asset", id].decommissioned for id in bound)
        located = self.relied_on("Enclosure", evidence.enclosures)
        assert {each.id for each in located} == {
            each.located_in_enclosure_id for each in self.scope(bound)
        } - {None}
        for enclosure in located:
            assert enclosure.lifecycle is EnclosureLifecycle.ACTIVE
            assert enclosure.permit_status is PermitStatus.PERMITTED
        serving = self.relied_on("Supply", evidence.supplies)
        assert {each.kind for each in serving} == (self.kinds if run else set())
        assert all(each.status is SupplyStatus.AVAILABLE for each in serving)
        work = {procedure.id, procedure.visit_id}
        self.check_cleared(work, bound, run.subject_id if run else None, evidence, now)


def check_kept(before: Procedure | None, after: Procedure) -> None:
    """A procedure is held exactly while somebody holds it, and what has ended stays so."""
    assert bool(after.hold_claims) is (after.status is ProcedureStatus.HELD)
    if before is not None and before.status is not ProcedureStatus.DEFINED and not before.open:
        assert after.status is before.status
