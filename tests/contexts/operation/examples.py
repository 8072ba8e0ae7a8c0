"""What the tests of procedures share: one procedure, how each status is reached, and a gate that stands open."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from beamwright.contexts.operation.procedure import (
    Procedure,
    ProcedureAborted,
    ProcedureCompleted,
    ProcedureHeld,
    ProcedureHoldCause,
    ProcedureIterationEnded,
    ProcedureIterationStarted,
    ProcedureRegistered,
    ProcedureStarted,
    ProcedureTerminationReason,
    ProcedureTruncated,
    procedures,
)
from beamwright.contexts.safety.values import BindingKind
from beamwright.kernel.event import Event
from beamwright.kernel.value import replace
from tests.contexts.recipe.plan_examples import CAMERA
from tests.contexts.run.examples import OPEN_GATE as RUN_GATE
from tests.contexts.run.examples import ROBOT, RUN, SOMEBODY, run
from tests.rules import NOW, PRINCIPAL, given

PROCEDURE, CLAIM, OTHER_CLAIM, DECISION = (UUID(int=n) for n in range(601, 605))
MINUTE = timedelta(minutes=1)

REGISTERED = ProcedureRegistered(
    procedure_id=PROCEDURE,
    occurred_at=NOW,
    name="Home the stage",
    kind="homing",
    facility_code="aps",
    registered_by=PRINCIPAL,
    target_asset_ids=frozenset({CAMERA}),
    parent_run_id=RUN,
)
STARTED = ProcedureStarted(procedure_id=PROCEDURE, occurred_at=NOW, started_by=PRINCIPAL)


def held(
    claim_id: UUID = CLAIM,
    held_by: UUID = PRINCIPAL,
    cause: ProcedureHoldCause = ProcedureHoldCause.OPERATOR,
    reason: str = "the axis squeaks",
) -> ProcedureHeld:
    return ProcedureHeld(
        procedure_id=PROCEDURE,
        occurred_at=NOW,
        claim_id=claim_id,
        held_by=held_by,
        cause=cause,
        reason=reason,
    )


HELD = held()
BY_SOMEBODY = held(OTHER_CLAIM, SOMEBODY, reason="I am inside")
BY_ROBOT = held(OTHER_CLAIM, ROBOT, ProcedureHoldCause.SUPERVISOR, "following error")
COMPLETED = ProcedureCompleted(
    procedure_id=PROCEDURE,
    occurred_at=NOW,
    termination_reason=ProcedureTerminationReason.STEPS_COMPLETED,
    ended_by=PRINCIPAL,
)
ABORTED = ProcedureAborted(procedure_id=PROCEDURE, occurred_at=NOW, reason="limit switch", ended_by=PRINCIPAL)
TRUNCATED = ProcedureTruncated(
    procedure_id=PROCEDURE, occurred_at=NOW, reason="power failure", ended_by=PRINCIPAL
)

REACH = {
    "Defined": [REGISTERED],
    "Running": [REGISTERED, STARTED],
    "Held": [REGISTERED, STARTED, HELD],
    "Completed": [REGISTERED, STARTED, COMPLETED],
    "Aborted": [REGISTERED, STARTED, ABORTED],
    "Truncated": [REGISTERED, STARTED, TRUNCATED],
}

OPEN_GATE = replace(
    RUN_GATE, work=replace(RUN_GATE.work, kind=BindingKind.PROCEDURE, id=PROCEDURE), parent_run=run()
)


def procedure(*events: Event, **changes: Any) -> Procedure:
    """The procedure after `events`, with other first facts where told."""
    return given(procedures, replace(REGISTERED, **changes), *events)


def running(*events: Event, **changes: Any) -> Procedure:
    return procedure(STARTED, *events, **changes)


def passed(index: int, converged: bool | None = None) -> list[Event]:
    """One pass from its beginning to its end."""
    begun = ProcedureIterationStarted(procedure_id=PROCEDURE, occurred_at=NOW, iteration_index=index)
    ended = ProcedureIterationEnded(
        procedure_id=PROCEDURE, occurred_at=NOW, iteration_index=index, converged=converged
    )
    return [begun, ended]
