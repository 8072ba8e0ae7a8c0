"""What a walk over procedures may call, each call with what the model says to it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from beamwright.contexts.equipment.asset import AssetTier
from beamwright.contexts.equipment.asset_registration import RegisterAsset
from beamwright.contexts.equipment.asset_tree import DecommissionAsset
from beamwright.contexts.operation.iterations import EndProcedureIteration, StartProcedureIteration
from beamwright.contexts.operation.procedure_moves import (
    AbortProcedure,
    CompleteProcedure,
    HoldProcedure,
    StartProcedure,
    TruncateProcedure,
)
from beamwright.contexts.operation.procedure_resume import ResumeProcedure
from beamwright.contexts.operation.registration import RegisterProcedure
from beamwright.contexts.recipe.capability import ExecutorShape, capabilities
from beamwright.contexts.recipe.capability_definition import DefineCapability, DeprecateCapability
from beamwright.contexts.trust.visit import HoldVisit, VisitType
from beamwright.contexts.trust.visit_moves import (
    CancelVisit,
    CompleteVisit,
    RecordVisitArrival,
    ResumeVisit,
    StartVisit,
)
from beamwright.contexts.trust.visit_registration import RegisterVisit
from beamwright.kernel import wellknown
from beamwright.kernel.versions import DeprecationReason
from tests.runtime import procedure_model as rules
from tests.runtime.procedure_model import Task
from tests.runtime.run_actions import Action, Actions, creating, reason
from tests.runtime.run_bench import Bench
from tests.runtime.run_model import Model
from tests.runtime.test_projector import ADMINISTRATOR
from tests.walks import folds

VISIT_VERBS: dict[str, Any] = {
    "record-arrival": RecordVisitArrival,
    "start": StartVisit,
    "hold": HoldVisit,
    "resume": ResumeVisit,
    "complete": CompleteVisit,
    "cancel": CancelVisit,
}
# When a procedure was interrupted: unknown, before it started, after now, and just now.
INTERRUPTED = {
    None: None,
    "early": timedelta(days=-365),
    "late": timedelta(hours=1),
    "now": timedelta(),
}


class Workshop(Bench):
    """A bench with devices that are driven from elsewhere, and an annex that belongs to an area."""

    annex_id: UUID
    controller_id: UUID

    async def furnish(self) -> Model:
        model = await super().furnish()
        rack_id = await self.asset(AssetTier.UNIT, self.enclosure_ids[1], facility_code="home")
        self.controller_id = await self.asset(AssetTier.DEVICE, parent_id=rack_id)
        self.annex_id = await self.asset(AssetTier.UNIT, self.enclosure_ids[1], facility_code="area")
        model.places |= dict.fromkeys((rack_id, self.annex_id), self.enclosure_ids[1])
        model.places[self.controller_id] = None
        model.parents |= {rack_id: None, self.annex_id: None, self.controller_id: rack_id}
        for id, each in (await folds(self.app, capabilities)).items():
            shapes = each.state.executor_shapes
            model.capabilities[id] = "Procedure" if ExecutorShape.PROCEDURE in shapes else "Method"
        return model


class ProcedureActions:
    """The calls of three principals about procedures, and about what only they depend on."""

    def __init__(self, station: Workshop, acts: Actions) -> None:
        self.station = station
        self.acts = acts

    # Procedures

    def register(self, task: Task, who: int = 0) -> Action:
        procedure_id, call = creating(self.acts.callers[who])
        annex_id = self.station.annex_id
        return Action(
            RegisterProcedure(**asked(task)),
            lambda model: rules.register(model, procedure_id, task, annex_id),
            call,
        )

    def start(self, id: UUID, who: int = 0) -> Action:
        request = StartProcedure(procedure_id=id)
        return Action(request, lambda model: rules.start(model, id), self.acts.callers[who])

    def hold(self, id: UUID, who: int, *, blank: bool = False, undecided: bool = False) -> Action:
        """Hold, for a decision that nobody took now and then."""
        holder, supervises = self.acts.principal(who), not self.acts.person(who)
        decision_id = uuid4() if undecided else None
        return Action(
            HoldProcedure(procedure_id=id, reason=reason(blank), decided_by_decision_id=decision_id),
            lambda model: rules.hold(
                model, id, holder, supervises=supervises, blank=blank, undecided=undecided
            ),
            self.acts.callers[who],
        )

    def resume(self, id: UUID, who: int, named: Mapping[UUID, UUID] | None = None) -> Action:
        """Release the named claims, each with its holder, or what one may unasked."""
        caller, released = self.acts.principal(who), None if named is None else frozenset(named.values())
        request = ResumeProcedure(procedure_id=id, claim_ids=None if named is None else frozenset(named))
        return Action(
            request, lambda model: rules.resume(model, id, caller, released), self.acts.callers[who]
        )

    def complete(self, id: UUID, *, blank: bool = False) -> Action:
        request = CompleteProcedure(procedure_id=id, note=reason(blank))
        return Action(request, lambda model: rules.complete(model, id, blank=blank))

    def abort(self, id: UUID, *, blank: bool = False, immediate: bool = False) -> Action:
        wrong = "InvalidProcedureAbortReasonError" if blank else None
        return Action(
            AbortProcedure(procedure_id=id, reason=reason(blank), immediate=immediate),
            lambda model: rules.break_off(model, id, "abort", wrong=wrong, immediate=immediate),
        )

    def truncate(self, id: UUID, *, blank: bool = False, interrupted: str | None = None) -> Action:
        apart = INTERRUPTED[interrupted]
        at = None if apart is None else self.station.app.clock() + apart

        def expected(model: Model) -> str:
            # Whatever has not started was not interrupted before its start either.
            early = interrupted == "early" and model.procedures[id].status != "Defined"
            wrong = "InvalidProcedureInterruptedAtError" if early or interrupted == "late" else None
            wrong = "InvalidProcedureTruncateReasonError" if blank else wrong
            return rules.break_off(model, id, "truncate", wrong=wrong, immediate=False)

        return Action(TruncateProcedure(procedure_id=id, reason=reason(blank), interrupted_at=at), expected)

    def begin_pass(self, id: UUID, index: int) -> Action:
        request = StartProcedureIteration(procedure_id=id, iteration_index=index)
        return Action(request, lambda model: rules.begin_pass(model, id, index))

    def end_pass(self, id: UUID, index: int, verdict: bool | None = None, *, blank: bool = False) -> Action:
        request = EndProcedureIteration(
            procedure_id=id, iteration_index=index, converged=verdict, reason=reason(blank)
        )
        return Action(request, lambda model: rules.end_pass(model, id, index, verdict, blank=blank))

    # What comes and goes around them

    def register_visit(self) -> Action:
        id, call = creating(ADMINISTRATOR)
        now = self.station.app.clock()
        request = RegisterVisit(
            code=id.hex,
            title="Visit",
            facility_code="home",
            surface_id=wellknown.HTTP_SURFACE,
            type=VisitType.USER,
            planned_start_at=now,
            planned_end_at=now + timedelta(days=1),
        )
        return Action(request, lambda model: rules.register_visit(model, id), call)

    def move_visit(self, id: UUID, verb: str) -> Action:
        fields = {"reason": "walk"} if verb in ("hold", "cancel") else {}
        request = VISIT_VERBS[verb](visit_id=id, **fields)
        return Action(request, lambda model: rules.move_visit(model, id, verb))

    def register_spare(self) -> Action:
        id, call = creating(ADMINISTRATOR)
        unit_id, controller_id = self.station.unit_id, self.station.controller_id
        request = RegisterAsset(
            name=id.hex, tier=AssetTier.DEVICE, parent_id=unit_id, controller_id=controller_id
        )
        return Action(request, lambda model: rules.register_spare(model, id, controller_id), call)

    def retire(self, asset_id: UUID) -> Action:
        request = DecommissionAsset(asset_id=asset_id, reason="walk")
        return Action(request, lambda model: rules.retire(model, asset_id))

    def define_capability(self) -> Action:
        id, call = creating(ADMINISTRATOR)
        request = DefineCapability(
            code=f"beamwright.capability.x{id.hex}",
            name="Alignment",
            required_affordances=frozenset(),
            executor_shapes=frozenset({ExecutorShape.PROCEDURE}),
        )
        return Action(request, lambda model: rules.define_capability(model, id), call)

    def deprecate_capability(self, id: UUID) -> Action:
        request = DeprecateCapability(capability_id=id, reason_kind=DeprecationReason.OBSOLETE, reason="walk")
        return Action(request, lambda model: rules.deprecate_capability(model, id))


def asked(task: Task) -> dict[str, Any]:
    """The fields of a registration, with what is wrong about it."""
    wrong = task.wrong
    return {
        "name": reason("name" in wrong),
        "kind": reason("kind" in wrong),
        "target_asset_ids": task.targets | ({uuid4()} if "asset" in wrong else set()),
        "parent_run_id": uuid4() if "run" in wrong else task.run_id,
        "visit_id": uuid4() if "visit" in wrong else task.visit_id,
        "capability_id": uuid4() if "capability" in wrong else task.capability_id,
        "recipe_id": uuid4() if "recipe" in wrong else None,
        "bindings": {"x": 1} if "bindings" in wrong else {},
        "max_consecutive_unconverged_iterations": 0 if "patience" in wrong else task.patience,
    }
