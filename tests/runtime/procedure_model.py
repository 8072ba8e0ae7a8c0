"""What the catalogue says of procedures, once more and by itself; each rule answers as the service must, and follows it."""

from typing import NamedTuple
from uuid import UUID

from tests.runtime.run_model import ACCEPTED, OPEN_RUN, Model, Procedure, moves, refusal, released_by

PROCEDURE = moves("""
            start    hold  resume   complete   abort    truncate
Defined     Running  -     -        -          -        -
Running     -        Held  -        Completed  Aborted  Truncated
Held        -        Held  Running  -          Aborted  Truncated
Completed   -        -     -        -          -        -
Aborted     -        -     -        -          -        -
Truncated   -        -     -        -          -        -
""")
VISIT = moves("""
            record-arrival  start       hold    resume      complete   cancel
Planned     Arrived         -           -       -           -          Cancelled
Arrived     -               InProgress  -       -           -          Cancelled
InProgress  -               -           OnHold  -           Completed  -
OnHold      -               -           -       InProgress  Completed  -
Completed   -               -           -       -           -          -
Cancelled   -               -           -       -           -          -
""")
OPEN_PROCEDURE = ("Running", "Held")
# What may be wrong about a registration by itself, in the order in which it is told.
WRONG = {
    "asset": "AssetNotFoundError",
    "run": "RunNotFoundError",
    "visit": "VisitNotFoundError",
    "capability": "CapabilityNotFoundError",
    "recipe": "RecipeNotFoundError",
    "name": "InvalidProcedureNameError",
    "kind": "InvalidProcedureKindError",
    "patience": "InvalidProcedureIterationCapError",
    "bindings": "InvalidRecipeBindingsError",
}


class Task(NamedTuple):
    """What is asked for with a registration."""

    targets: frozenset[UUID] = frozenset()
    run_id: UUID | None = None
    visit_id: UUID | None = None
    capability_id: UUID | None = None
    patience: int | None = None
    wrong: frozenset[str] = frozenset()


# The gate


def gate(model: Model, procedure_id: UUID) -> str:
    """The first refusal of the gate, or that there is none; its assets may be out of service and faulted."""
    procedure = model.procedures[procedure_id]
    run = None if procedure.run_id is None else model.runs[procedure.run_id]
    bound = procedure.targets or (model.bound if run else ())
    kinds, permits = model.kinds if run else (), model.permitted(bound)
    work = (procedure_id, procedure.visit_id)
    needing = model.needing(bound, run.subject_id if run else None)
    rows = (
        ("ProcedureTargetAssetDecommissionedError", model.retired.isdisjoint(bound)),
        ("ProcedureVisitNotOpenError", model.visited(procedure.visit_id)),
        ("ProcedureParentRunNotRunningError", run is None or run.status == "Running"),
        ("ProcedureRequiresAvailableSupplyError", all(model.supplied(kind) for kind in kinds)),
        (
            "ProcedureSupplyCoverageMismatchError",
            all("Available" in model.supplied(kind) for kind in kinds),
        ),
        ("ProcedureRequiresPermittedEnclosureError", any(permits) or not permits),
        ("ProcedureEnclosureCoverageMismatchError", all(permits)),
        ("ProcedureClearanceCoverageMismatchError", all(model.cleared(*each, *work) for each in needing)),
    )
    return next((code for code, holds in rows if not holds), ACCEPTED)


# Moves


def register(model: Model, procedure_id: UUID, task: Task, annex_id: UUID) -> str:
    """One at the annex belongs to its area, any other to the station."""
    for wrong, told in WRONG.items():
        if wrong in task.wrong:
            return told
    codes = {"area" if id == annex_id else "home" for id in task.targets}
    if len(codes) > 1:
        return "ProcedureTargetsSpanFacilitiesError"
    run = None if task.run_id is None else model.runs[task.run_id]
    if run and run.status not in OPEN_RUN:
        return "ProcedureParentRunEndedError"
    capability = model.capabilities[task.capability_id] if task.capability_id else "Procedure"
    if capability == "Deprecated":
        return "ProcedureBoundCapabilityDeprecatedError"
    if capability != "Procedure":
        return "ProcedureCapabilityExecutorMismatchError"
    model.procedures[procedure_id] = Procedure(
        targets=task.targets,
        run_id=task.run_id,
        visit_id=task.visit_id or (run.visit_id if run else None),
        facility_code=min(codes, default="home"),
        patience=task.patience,
    )
    return ACCEPTED


def start(model: Model, procedure_id: UUID) -> str:
    procedure = model.procedures[procedure_id]
    if PROCEDURE[procedure.status, "start"] == "-":
        return "ProcedureCannotStartError"
    told = gate(model, procedure_id)
    if told == ACCEPTED:
        procedure.status = "Running"
    return told


def hold(
    model: Model, procedure_id: UUID, holder: UUID, *, supervises: bool, blank: bool, undecided: bool
) -> str:
    procedure = model.procedures[procedure_id]
    if undecided or blank:
        return "DecisionNotFoundError" if undecided else "InvalidProcedureHoldReasonError"
    if PROCEDURE[procedure.status, "hold"] == "-" or holder in procedure.holders:
        return "ProcedureCannotHoldError"
    procedure.status, procedure.holders = "Held", procedure.holders | {holder: supervises}
    return ACCEPTED


def resume(model: Model, procedure_id: UUID, caller: UUID, holders: frozenset[UUID] | None) -> str:
    """Release the claims of the named holders, or those that the caller may release unasked."""
    procedure = model.procedures[procedure_id]
    if PROCEDURE[procedure.status, "resume"] == "-":
        return "ProcedureCannotResumeError"
    released = released_by(caller, procedure.holders) if holders is None else holders
    if not released <= procedure.holders.keys():
        return "ProcedureHoldClaimNotPresentError"
    if not released:
        return "ProcedureHoldClaimsRemainError"
    if released == procedure.holders.keys():
        told = gate(model, procedure_id)
        if told != ACCEPTED:
            return told
        procedure.status = "Running"
    procedure.holders = {id: how for id, how in procedure.holders.items() if id not in released}
    return ACCEPTED


def would_go_on(model: Model, procedure_id: UUID, caller: UUID) -> str:
    """What stands first against a start or resume, the gate's refusal also where others hold it, too."""
    procedure = model.procedures[procedure_id]
    if procedure.status not in ("Defined", "Held"):
        return "ProcedureCannotResumeError"
    if procedure.status == "Held" and not released_by(caller, procedure.holders):
        return "ProcedureHoldClaimsRemainError"
    return gate(model, procedure_id)


def complete(model: Model, procedure_id: UUID, *, blank: bool) -> str:
    procedure = model.procedures[procedure_id]
    if blank:
        return "InvalidProcedureNoteError"
    if PROCEDURE[procedure.status, "complete"] == "-":
        return "ProcedureCannotCompleteError"
    if procedure.current is not None:
        return "ProcedureIterationOpenError"
    procedure.status, procedure.reason = "Completed", "StepsCompleted"
    if procedure.converged:
        procedure.reason = "Converged"
    return ACCEPTED


def break_off(model: Model, procedure_id: UUID, verb: str, *, wrong: str | None, immediate: bool) -> str:
    """Abort or truncate; a pass that goes on ends without a verdict."""
    procedure = model.procedures[procedure_id]
    if wrong is not None:
        return wrong
    after = PROCEDURE[procedure.status, verb]
    if after == "-":
        return refusal("Procedure", verb)
    if procedure.current is not None:
        procedure.current, procedure.converged = None, None
    procedure.status, procedure.holders, procedure.cancelled = after, {}, immediate
    return ACCEPTED


# Passes


def begin_pass(model: Model, procedure_id: UUID, index: int) -> str:
    procedure = model.procedures[procedure_id]
    following = procedure.current is None and index == procedure.passes + 1
    if procedure.status != "Running" or not following:
        return "ProcedureCannotStartIterationError"
    if procedure.patience is not None and procedure.streak >= procedure.patience:
        return "ProcedureIterationLimitReachedError"
    procedure.passes = procedure.current = index
    return ACCEPTED


def end_pass(model: Model, procedure_id: UUID, index: int, verdict: bool | None, *, blank: bool) -> str:
    procedure = model.procedures[procedure_id]
    if blank:
        return "InvalidProcedureIterationEndReasonError"
    if procedure.status not in OPEN_PROCEDURE or procedure.current != index:
        return "ProcedureCannotEndIterationError"
    procedure.current, procedure.converged = None, verdict
    if verdict is not None:
        procedure.streak = 0 if verdict else procedure.streak + 1
    return ACCEPTED


# What comes and goes around them


def register_visit(model: Model, visit_id: UUID) -> str:
    model.visits[visit_id] = "Planned"
    return ACCEPTED


def move_visit(model: Model, visit_id: UUID, verb: str) -> str:
    after = VISIT[model.visits[visit_id], verb]
    if after == "-":
        return refusal("Visit", verb)
    model.visits[visit_id] = after
    return ACCEPTED


def register_spare(model: Model, asset_id: UUID, controller_id: UUID) -> str:
    """A device of the unit in no enclosure of its own, and driven by one elsewhere."""
    model.places[asset_id], model.parents[asset_id] = None, model.unit_id
    model.controllers[asset_id] = controller_id
    return ACCEPTED


def retire(model: Model, asset_id: UUID) -> str:
    if asset_id in model.retired:
        return "AssetCannotDecommissionError"
    model.retired.add(asset_id)
    return ACCEPTED


def define_capability(model: Model, capability_id: UUID) -> str:
    model.capabilities[capability_id] = "Procedure"
    return ACCEPTED


def deprecate_capability(model: Model, capability_id: UUID) -> str:
    if model.capabilities[capability_id] == "Deprecated":
        return "CapabilityCannotDeprecateError"
    model.capabilities[capability_id] = "Deprecated"
    return ACCEPTED
