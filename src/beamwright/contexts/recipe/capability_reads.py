"""Reads of a capability: its schemas by number, and what a change of its schema does to methods and recipes."""

from collections.abc import Iterator
from typing import Any, cast
from uuid import UUID

import msgspec

from beamwright.kernel.declared_schema import Schema, children
from beamwright.kernel.event import Belonging
from beamwright.kernel.operation import Query, World
from beamwright.kernel.schema_subset import Difference, first_difference
from beamwright.kernel.value import Value

from .capability import capabilities
from .method import Method, MethodStatus, methods
from .parameters_schema import ParametersSchemas, every_schema, undeclared


@capabilities.operation("GET /capabilities/{capability_id}/parameters-schemas")
class ListCapabilitySchemas(Query[ParametersSchemas]):
    """List every parameters schema that a capability ever had, by number."""

    capability_id: UUID

    async def answer(self, world: World) -> ParametersSchemas:
        return every_schema(await world.load(capabilities, self.capability_id))


class DependentMethod(Value):
    """A method of the capability: whether its parameters lie within the capability's, and if not, where first."""

    method_id: UUID
    name: str
    status: MethodStatus
    subset: bool
    first_difference: Difference | None


class DependentRecipe(Value):
    """A recipe of the capability, and the bindings it uses that the capability does not declare."""

    recipe_id: UUID
    name: str
    status: str
    unknown_binding_names: list[str]


class CapabilityDependents(Value):
    """What is bound to a capability, judged against its current schema; each by name."""

    methods: list[DependentMethod]
    recipes: list[DependentRecipe]


@capabilities.operation("GET /capabilities/{capability_id}/dependents")
class InspectCapabilityDependents(Query[CapabilityDependents]):
    """Judge the methods and recipes of a capability against its current parameters schema."""

    capability_id: UUID

    async def answer(self, world: World) -> CapabilityDependents:
        capability = await world.load(capabilities, self.capability_id)
        schema = capability.parameters_schema
        bound = sorted(await world.find(methods, capability_id=capability.id), key=_by_name)
        recipes = sorted(await _recipes_within_reach(world, capability.id), key=_by_name)
        return CapabilityDependents(
            methods=[judged_method(method, schema) for method in bound],
            recipes=[judged_recipe(recipe, schema) for recipe in recipes],
        )


def judged_method(method: Method, schema: Schema | None) -> DependentMethod:
    difference = None
    if method.parameters_schema is not None and schema is not None:
        difference = first_difference(method.parameters_schema, schema)
    return DependentMethod(
        method_id=method.id,
        name=method.name,
        status=method.status,
        subset=difference is None,
        first_difference=difference,
    )


def judged_recipe(recipe: Any, schema: Schema | None) -> DependentRecipe:
    names = binding_names([msgspec.to_builtins(each) for each in (*recipe.steps, *recipe.closing_steps)])
    return DependentRecipe(
        recipe_id=recipe.id,
        name=recipe.name,
        status=recipe.status,
        unknown_binding_names=undeclared(schema, names),
    )


def binding_names(value: Any) -> Iterator[str]:
    """The name of every binding that JSON refers to, at any depth."""
    match value:
        case {"__binding__": str(name), **rest} if not rest:
            yield name
        case _:
            for child in children(value):
                yield from binding_names(child)


async def _recipes_within_reach(world: World, capability_id: UUID) -> list[Any]:
    """The recipes that the caller may list: unlike methods, they belong to facilities."""
    found = await world.look_up("Recipe", capability_id=capability_id)
    if not found:
        return []
    reach = world.reach("list_recipes")
    return [
        recipe for recipe in found if reach.holds(Belonging(facility_code=recipe.facility_code), reading=True)
    ]


def _by_name(dependent: Any) -> tuple[str, UUID]:
    return cast(str, dependent.name), cast(UUID, dependent.id)
