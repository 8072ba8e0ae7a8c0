"""The default parameters of a plan: values of the method's schema, in the units they were given in."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from beamwright.kernel.declared_schema import Schema, UnitChange
from beamwright.kernel.declared_values import check_values, not_restated, stale_units
from beamwright.kernel.errors import CannotTransitionError, ConflictError, InvalidError
from beamwright.kernel.merge import merged
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, encode, replace

from .method import Method, methods
from .plan import Plan, PlanDefaultParametersUpdated, check_editable, plan_hash, plans


class InvalidPlanDefaultParametersError(InvalidError):
    """The default parameters do not meet the method's schema, or it has none."""


class PlanCannotUpdateDefaultParametersError(CannotTransitionError):
    """A deprecated plan keeps its default parameters."""


class PlanDefaultParametersStaleError(ConflictError):
    """A default was given in a unit that its parameter no longer has."""


class PlanWithMethod(Value):
    """A plan, and the method whose parameters it gives defaults for."""

    plan: Plan
    method: Method


@plans.operation("POST /plans/{plan_id}/update-default-parameters")
class UpdatePlanDefaultParameters(Command[PlanWithMethod]):
    """Change some default parameters of a plan; null takes one away."""

    plan_id: UUID
    default_parameters_patch: dict[str, Any]

    async def gather(self, world: World) -> PlanWithMethod:
        plan = await world.load(plans, self.plan_id)
        return PlanWithMethod(plan=plan, method=await world.load(methods, plan.method_id))

    def decide(self, seen: PlanWithMethod, occasion: Occasion) -> list[PlanDefaultParametersUpdated]:
        plan, method = seen.plan, seen.method
        values = merged(plan.default_parameters, self.default_parameters_patch)
        check_default_parameters(method.parameters_schema, values)
        check_editable(plan, PlanCannotUpdateDefaultParametersError)
        check_none_stale(not_restated(stale_defaults(plan, method), self.default_parameters_patch))
        # As JSON, where true is not 1; a newer schema is worth recording even for the same values.
        same = encode(values) == encode(plan.default_parameters)
        if same and plan.parameters_schema_version == method.parameters_schema_version:
            return []
        return [
            PlanDefaultParametersUpdated(
                plan_id=plan.id,
                occurred_at=occasion.now,
                default_parameters=values,
                parameters_schema_version=method.parameters_schema_version,
                content_hash=plan_hash(replace(plan.content, default_parameters=values)),
            )
        ]


def check_default_parameters(schema: Schema | None, values: dict[str, Any]) -> None:
    """Gate: the carrier rule on the method's schema."""
    check_values(
        schema,
        values,
        InvalidPlanDefaultParametersError,
        declare_with="update_method_parameters_schema",
    )


def stale_defaults(plan: Plan, method: Method) -> list[UnitChange]:
    """The defaults whose unit differs between the schema they were checked against and the current one."""
    checked = {each.schema_version: each.schema for each in method.parameters_schemas}
    was = checked.get(plan.parameters_schema_version)
    return stale_units(was, method.parameters_schema, plan.default_parameters)


def check_none_stale(stale: Sequence[UnitChange]) -> None:
    """Gate: a number is not read in another unit than it was written in."""
    if stale:
        paths = ", ".join(change.path for change in stale)
        raise PlanDefaultParametersStaleError(
            f"The unit of {paths} has changed: restate or delete these with update_plan_default_parameters.",
            stale=list(stale),
        )
