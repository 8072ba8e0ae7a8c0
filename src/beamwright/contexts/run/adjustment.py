"""Adjusting a run: other parameters while it goes on, under the schema it started with."""

from typing import Any
from uuid import UUID

from beamwright.contexts.recipe.method import Method, methods
from beamwright.kernel import text
from beamwright.kernel.declared_schema import Schema
from beamwright.kernel.declared_values import check_values
from beamwright.kernel.merge import merged
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, encode

from .deciding import check_decision
from .run import (
    OPEN,
    InvalidRunAdjustPatchError,
    InvalidRunAdjustReasonError,
    InvalidRunParametersError,
    Parameters,
    Run,
    RunAdjusted,
    RunCannotAdjustError,
    runs,
)


class RunWithMethod(Value):
    """A run, and the method whose parameters it takes."""

    run: Run
    method: Method


@runs.operation("POST /runs/{run_id}/adjust")
class AdjustRun(Command[RunWithMethod]):
    """Change some parameters of a run that goes on; null takes one away."""

    run_id: UUID
    parameters_patch: dict[str, Any]
    reason: text.Reason
    decided_by_decision_id: UUID | None = None

    async def gather(self, world: World) -> RunWithMethod:
        run = await world.load(runs, self.run_id)
        await check_decision(world, self.decided_by_decision_id)
        return RunWithMethod(run=run, method=await world.load(methods, run.method_id))

    def decide(self, seen: RunWithMethod, occasion: Occasion) -> list[RunAdjusted]:
        run, reason = seen.run, text.reason(self.reason, InvalidRunAdjustReasonError)
        if not self.parameters_patch:
            raise InvalidRunAdjustPatchError("Name at least one parameter to change, or to take away.")
        if run.status not in OPEN:
            raise RunCannotAdjustError.of(run.id, run.status, OPEN)
        parameters = merged(run.effective_parameters, self.parameters_patch)
        check_parameters(pinned_schema(seen.method, run.parameters_schema_version), parameters)
        # As JSON, where true is not 1.
        if encode(parameters) == encode(run.effective_parameters):
            return []
        return [
            RunAdjusted(
                run_id=run.id,
                occurred_at=occasion.now,
                parameters_patch=self.parameters_patch,
                effective_parameters=parameters,
                parameters_schema_version=run.parameters_schema_version,
                reason=reason,
                adjusted_by=occasion.principal_id,
                decided_by_decision_id=self.decided_by_decision_id,
            )
        ]


def pinned_schema(method: Method, number: int) -> Schema | None:
    """The method's schema of a number; number 0 says that it had none."""
    numbered = {each.schema_version: each.schema for each in method.parameters_schemas}
    return numbered.get(number)


def check_parameters(schema: Schema | None, parameters: Parameters) -> None:
    """Gate: the carrier rule on the method's schema."""
    check_values(
        schema, parameters, InvalidRunParametersError, declare_with="update_method_parameters_schema"
    )
