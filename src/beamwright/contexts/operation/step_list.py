"""The steps of a procedure beside what its rows say of each."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.recipe.steps import (
    PlacedStep,
    RecipeActionStep,
    RecipeCaptureStep,
    RecipeCheckStep,
    RecipeComputeStep,
    RecipeSetpointStep,
    RecipeStep,
    StepKind,
    StepListName,
    walk,
)
from beamwright.kernel.entries import EntryGroup
from beamwright.kernel.operation import Query, World
from beamwright.kernel.value import Time, Value

from .activities import ACTIVITIES, ActivityResult, ProcedureActivity
from .procedure import procedures

type Found = Annotated[Any, Meta(extra_json_schema={"x-may-contain-personal-data": True})]


class ProcedureStepState(StrEnum):
    PENDING = "Pending"
    IN_FLIGHT = "InFlight"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class ProcedureStep(Value):
    """A pinned step, and how far it has come by the latest row of its index."""

    list: StepListName
    step_index: int
    label: str | None
    kind: StepKind
    target: str
    # As it is pinned, with every binding in place.
    step: RecipeStep
    state: ProcedureStepState
    attempts: int
    # The value that was written and the reading that was taken, as the driver told them.
    value: Found
    reading: Found
    first_sampled_at: Time | None
    last_sampled_at: Time | None


class ProcedureSteps(Value):
    """Every pinned step in the order of execution."""

    items: list[ProcedureStep]


@procedures.operation("GET /procedures/{procedure_id}/steps")
class ListProcedureSteps(Query[ProcedureSteps]):
    """List the pinned steps of a procedure, main and closing ones, with how far each has come.

    The rows of an outside driver are of main steps, so closing ones stay Pending.
    """

    procedure_id: UUID

    async def answer(self, world: World) -> ProcedureSteps:
        procedure = await world.load(procedures, self.procedure_id)
        groups = await world.entries.groups(
            ACTIVITIES,
            procedure.id,
            by="step_index",
            keys=range(len(procedure.steps)),
            uncounted=("result", ActivityResult.IN_FLIGHT),
        )
        told = {group.key: group for group in groups}
        return ProcedureSteps(items=[shown_step(placed, told) for placed in walk(procedure.lists)])


def shown_step(placed: PlacedStep, told: Mapping[int, EntryGroup[ProcedureActivity]]) -> ProcedureStep:
    """A step with the rows of its index; what is under way counts as an attempt, though it has not ended."""
    main = placed.list is StepListName.STEPS
    group = told.get(placed.step_index) if main else None
    latest = group.latest if group else None
    payload = latest.payload if latest else {}
    state = step_state(latest)
    return ProcedureStep(
        list=placed.list,
        step_index=placed.step_index,
        label=placed.step.label,
        kind=placed.step.kind,
        target=step_target(placed.step),
        step=placed.step,
        state=state,
        attempts=(group.count if group else 0) + (state is ProcedureStepState.IN_FLIGHT),
        value=payload.get("value"),
        reading=payload.get("reading"),
        first_sampled_at=group.first_sampled_at if group else None,
        last_sampled_at=group.last_sampled_at if group else None,
    )


def step_state(latest: ProcedureActivity | None) -> ProcedureStepState:
    """Where a driver tells no result, what it did succeeded."""
    if latest is None:
        return ProcedureStepState.PENDING
    return ProcedureStepState(latest.result or ActivityResult.SUCCEEDED)


def step_target(step: RecipeStep) -> str:
    match step:
        case RecipeSetpointStep() | RecipeCheckStep() | RecipeCaptureStep():
            return step.address
        case RecipeActionStep():
            return step.name
        case RecipeComputeStep():
            return step.command[0]
        case _:
            assert_never(step)
