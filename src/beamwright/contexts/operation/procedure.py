"""Procedure: one execution of an operational task: homing, an alignment, a bakeout, a phase of a run."""

from datetime import datetime
from enum import StrEnum
from typing import Any, assert_never
from uuid import UUID

from beamwright.contexts.recipe.steps import RecipeStep, StepLists
from beamwright.contexts.run.values import ActuationKind, GateEvidence
from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.errors import CannotTransitionError, NotFoundError
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.holds import Concern, held_by_a_person, latest_reason, without
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.value import Time, Value, replace

type Bindings = dict[str, Any]


class ProcedureStatus(StrEnum):
    DEFINED = "Defined"
    RUNNING = "Running"
    HELD = "Held"
    COMPLETED = "Completed"
    ABORTED = "Aborted"
    TRUNCATED = "Truncated"


DEFINED, RUNNING, HELD, COMPLETED, ABORTED, TRUNCATED = ProcedureStatus
OPEN = frozenset({RUNNING, HELD})
ENDED = frozenset({COMPLETED, ABORTED, TRUNCATED})


class ProcedureHoldCause(StrEnum):
    OPERATOR = "Operator"
    SUPERVISOR = "Supervisor"


class ProcedureTerminationReason(StrEnum):
    """Why a procedure was complete: its steps were done, or its last pass met the criterion."""

    STEPS_COMPLETED = "StepsCompleted"
    CONVERGED = "Converged"


class ProcedureNotFoundError(NotFoundError):
    """There is no such procedure."""


class ProcedureCannotStartError(CannotTransitionError):
    """Only a procedure that has not begun starts."""


class ProcedureCannotHoldError(CannotTransitionError):
    """The procedure does not go on, or this principal holds it already."""


class ProcedureCannotResumeError(CannotTransitionError):
    """Only a held procedure resumes."""


class ProcedureCannotCompleteError(CannotTransitionError):
    """Only a running procedure completes."""


class ProcedureCannotAbortError(CannotTransitionError):
    """The procedure has not begun, or has ended."""


class ProcedureCannotTruncateError(CannotTransitionError):
    """The procedure has not begun, or has ended."""


class ProcedureHoldClaim(Concern):
    """One principal's concern, which keeps the procedure held."""

    cause: ProcedureHoldCause


class ProcedureFact(Event):
    procedure_id: UUID


class ProcedureRegistered(ProcedureFact):
    name: str
    kind: str
    facility_code: str
    registered_by: UUID
    target_asset_ids: frozenset[UUID] = frozenset()
    parent_run_id: UUID | None = None
    visit_id: UUID | None = None
    capability_id: UUID | None = None
    max_consecutive_unconverged_iterations: int | None = None


class ProcedureRecipeExpanded(ProcedureFact):
    """The steps, pinned by their content: a later version of the recipe changes nothing here."""

    recipe_id: UUID
    recipe_stream_version: int
    recipe_version_tag: str
    capability_id: UUID
    capability_stream_version: int
    bindings: Bindings
    bindings_hash: str
    steps: tuple[RecipeStep, ...]
    closing_steps: tuple[RecipeStep, ...]
    steps_hash: str
    expander_version: int


class ProcedureStarted(ProcedureFact):
    started_by: UUID
    gate_evidence: GateEvidence = GateEvidence()
    shown_caution_ids: frozenset[UUID] = frozenset()


class ProcedureHeld(ProcedureFact):
    claim_id: UUID
    cause: ProcedureHoldCause
    held_by: UUID
    reason: str
    decided_by_decision_id: UUID | None = None


class ProcedureHoldClaimReleased(ProcedureFact):
    claim_id: UUID
    cause: ProcedureHoldCause
    released_by: UUID
    note: str | None = None


class ProcedureResumed(ProcedureFact):
    released_claim_ids: frozenset[UUID]
    resumed_by: UUID
    note: str | None = None
    gate_evidence: GateEvidence = GateEvidence()
    shown_caution_ids: frozenset[UUID] = frozenset()
    decided_by_decision_id: UUID | None = None


class ProcedureIterationStarted(ProcedureFact):
    iteration_index: int


class ProcedureIterationEnded(ProcedureFact):
    iteration_index: int
    converged: bool | None = None
    reason: str | None = None


class ProcedureCompleted(ProcedureFact):
    termination_reason: ProcedureTerminationReason
    ended_by: UUID
    note: str | None = None


class ProcedureAborted(ProcedureFact):
    """Something was wrong; `cancelled` where nothing was waited for."""

    reason: str
    ended_by: UUID
    cancelled: bool = False
    decided_by_decision_id: UUID | None = None


class ProcedureTruncated(ProcedureFact):
    """It had died; `interrupted_at` is the best guess of when."""

    reason: str
    ended_by: UUID
    interrupted_at: datetime | None = None


type ProcedureEnd = ProcedureCompleted | ProcedureAborted | ProcedureTruncated
type ProcedureEvent = (
    ProcedureRegistered
    | ProcedureRecipeExpanded
    | ProcedureStarted
    | ProcedureHeld
    | ProcedureHoldClaimReleased
    | ProcedureResumed
    | ProcedureIterationStarted
    | ProcedureIterationEnded
    | ProcedureCompleted
    | ProcedureAborted
    | ProcedureTruncated
)

STATUS = StateMachine[ProcedureStatus](
    {
        ProcedureStarted: move({DEFINED}, RUNNING, ProcedureCannotStartError),
        ProcedureHeld: move(OPEN, HELD, ProcedureCannotHoldError),
        ProcedureResumed: move({HELD}, RUNNING, ProcedureCannotResumeError),
        ProcedureCompleted: move({RUNNING}, COMPLETED, ProcedureCannotCompleteError),
        ProcedureAborted: move(OPEN, ABORTED, ProcedureCannotAbortError),
        ProcedureTruncated: move(OPEN, TRUNCATED, ProcedureCannotTruncateError),
    }
)


class Procedure(Value):
    id: UUID
    name: str
    kind: str
    status: ProcedureStatus = DEFINED
    status_reason: text.Reason | None = None
    facility_code: str
    visit_id: UUID | None
    registered_by: UUID
    target_asset_ids: frozenset[UUID]
    parent_run_id: UUID | None
    capability_id: UUID | None
    capability_stream_version: int | None = None
    recipe_id: UUID | None = None
    recipe_stream_version: int | None = None
    recipe_version_tag: str | None = None
    bindings: Bindings = {}
    bindings_hash: str | None = None
    steps: tuple[RecipeStep, ...] = ()
    closing_steps: tuple[RecipeStep, ...] = ()
    steps_hash: str | None = None
    max_consecutive_unconverged_iterations: int | None
    current_iteration_index: int | None = None
    iteration_count: int = 0
    consecutive_unconverged_iterations: int = 0
    # The verdict on the last pass that has ended; null while there is none.
    converged: bool | None = None
    hold_claims: dict[UUID, ProcedureHoldClaim] = {}
    actuation_kind: ActuationKind | None = None
    termination_reason: ProcedureTerminationReason | None = None
    cancelled: bool = False
    shown_caution_ids: frozenset[UUID] = frozenset()
    gate_evidence: GateEvidence = GateEvidence()
    started_at: Time | None = None
    started_by: UUID | None = None
    interrupted_at: Time | None = None
    ended_at: Time | None = None
    ended_by: UUID | None = None

    @property
    def open(self) -> bool:
        return self.status in OPEN

    @property
    def lists(self) -> StepLists:
        return StepLists(steps=self.steps, closing_steps=self.closing_steps)

    def duration(self, now: datetime) -> float | None:
        """Seconds from the start to the end: the true one where it is known, or now; none before the start."""
        if self.started_at is None:
            return None
        end = self.interrupted_at or self.ended_at or now
        return max(0.0, (end - self.started_at).total_seconds())


def hold_cause(principal_kind: str) -> ProcedureHoldCause:
    """People hold as operators, agents and service accounts as supervisors."""
    return ProcedureHoldCause.OPERATOR if held_by_a_person(principal_kind) else ProcedureHoldCause.SUPERVISOR


def evolve(procedure: Procedure | None, event: ProcedureEvent) -> Procedure:
    match event:
        case ProcedureRegistered():
            return Procedure(
                id=event.procedure_id,
                name=event.name,
                kind=event.kind,
                facility_code=event.facility_code,
                visit_id=event.visit_id,
                registered_by=event.registered_by,
                target_asset_ids=event.target_asset_ids,
                parent_run_id=event.parent_run_id,
                capability_id=event.capability_id,
                max_consecutive_unconverged_iterations=event.max_consecutive_unconverged_iterations,
            )
        case _ if procedure is None:
            raise ValueError(event)
        case ProcedureRecipeExpanded():
            return _expanded(procedure, event)
        case ProcedureStarted():
            return replace(
                procedure,
                status=STATUS.after(event),
                started_at=event.occurred_at,
                started_by=event.started_by,
                gate_evidence=event.gate_evidence,
                shown_caution_ids=event.shown_caution_ids,
            )
        case ProcedureHeld() | ProcedureHoldClaimReleased() | ProcedureResumed():
            return _held_or_resumed(procedure, event)
        case ProcedureIterationStarted() | ProcedureIterationEnded():
            return _iterated(procedure, event)
        case ProcedureCompleted() | ProcedureAborted() | ProcedureTruncated():
            return _ended(procedure, event)
        case _:
            assert_never(event)


def _expanded(procedure: Procedure, event: ProcedureRecipeExpanded) -> Procedure:
    return replace(
        procedure,
        recipe_id=event.recipe_id,
        recipe_stream_version=event.recipe_stream_version,
        recipe_version_tag=event.recipe_version_tag,
        capability_id=event.capability_id,
        capability_stream_version=event.capability_stream_version,
        bindings=event.bindings,
        bindings_hash=event.bindings_hash,
        steps=event.steps,
        closing_steps=event.closing_steps,
        steps_hash=event.steps_hash,
    )


def _held_or_resumed(
    procedure: Procedure, event: ProcedureHeld | ProcedureHoldClaimReleased | ProcedureResumed
) -> Procedure:
    match event:
        case ProcedureHeld():
            claim = ProcedureHoldClaim(
                cause=event.cause, held_by=event.held_by, reason=event.reason, held_at=event.occurred_at
            )
            return replace(
                procedure,
                status=STATUS.after(event),
                status_reason=event.reason,
                hold_claims=procedure.hold_claims | {event.claim_id: claim},
            )
        case ProcedureHoldClaimReleased():
            claims = without(procedure.hold_claims, {event.claim_id})
            return replace(procedure, hold_claims=claims, status_reason=latest_reason(claims))
        case ProcedureResumed():
            return replace(
                procedure,
                status=STATUS.after(event),
                status_reason=None,
                hold_claims={},
                gate_evidence=event.gate_evidence,
                shown_caution_ids=event.shown_caution_ids,
            )
        case _:
            assert_never(event)


def _iterated(procedure: Procedure, event: ProcedureIterationStarted | ProcedureIterationEnded) -> Procedure:
    match event:
        case ProcedureIterationStarted():
            index = event.iteration_index
            return replace(procedure, current_iteration_index=index, iteration_count=index)
        case ProcedureIterationEnded():
            streak = procedure.consecutive_unconverged_iterations
            return replace(
                procedure,
                current_iteration_index=None,
                consecutive_unconverged_iterations=_streak(streak, event.converged),
                converged=event.converged,
            )
        case _:
            assert_never(event)


def _streak(streak: int, converged: bool | None) -> int:
    """A pass without a verdict neither ends a streak nor lengthens it."""
    return streak if converged is None else 0 if converged else streak + 1


def _ended(procedure: Procedure, event: ProcedureEnd) -> Procedure:
    completed = isinstance(event, ProcedureCompleted)
    return replace(
        procedure,
        status=STATUS.after(event),
        status_reason=event.note if completed else event.reason,
        termination_reason=event.termination_reason if completed else None,
        cancelled=isinstance(event, ProcedureAborted) and event.cancelled,
        hold_claims={},
        interrupted_at=event.interrupted_at if isinstance(event, ProcedureTruncated) else None,
        ended_at=event.occurred_at,
        ended_by=event.ended_by,
    )


procedures = Aggregate[Procedure, ProcedureEvent](
    "Procedure",
    events=ProcedureEvent,
    evolve=evolve,
    missing=ProcedureNotFoundError,
    belongs=lambda procedure: Belonging(
        facility_code=procedure.facility_code,
        visit_ids=frozenset() if procedure.visit_id is None else frozenset({procedure.visit_id}),
        owner_id=procedure.registered_by,
    ),
)
