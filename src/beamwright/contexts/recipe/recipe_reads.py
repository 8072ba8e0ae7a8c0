"""Reads of a recipe: every version of it, and what its steps become with given bindings."""

from typing import Any
from uuid import UUID

from beamwright.kernel.aggregate import RecordedEvent
from beamwright.kernel.declared_schema import Schema
from beamwright.kernel.operation import Query, World
from beamwright.kernel.value import Time, Value
from beamwright.kernel.versions import VersionTag

from .capability import capabilities
from .expansion import expand
from .recipe import Recipe, RecipeVersion, recipes
from .steps import RecipeStep, StepListName, StepLists, uses, walk

MOST_EVENTS = 200


class RecipeVersionItem(Value):
    """A version of a recipe, and who made it when."""

    version_tag: str
    stream_version: int
    content_hash: str
    step_count: int
    closing_step_count: int
    versioned_at: Time
    versioned_by: UUID
    versioned_by_name: str


class RecipeVersions(Value):
    """Every version of a recipe, oldest first, beginning with `initial`."""

    items: list[RecipeVersionItem]


@recipes.operation("GET /recipes/{recipe_id}/versions")
class ListRecipeVersions(Query[RecipeVersions]):
    """List the versions of a recipe, oldest first, and who made each."""

    recipe_id: UUID

    async def answer(self, world: World) -> RecipeVersions:
        recipe = await world.load(recipes, self.recipe_id)
        recorded = {event.version: event for event in await _events(world, recipe)}
        return RecipeVersions(
            items=[_item(version, recorded[version.stream_version]) for version in recipe.versions]
        )


async def _events(world: World, recipe: Recipe) -> list[RecordedEvent]:
    """The recipe's events with their envelopes, which alone say who acted."""
    request: Any = world.operations["get_recipe_history"].request
    found: list[RecordedEvent] = []
    after: int | None = 0
    while after is not None:
        page = await world.history(
            recipes, request(recipe_id=recipe.id, limit=MOST_EVENTS, after_version=after)
        )
        found += page.items
        after = page.next_version
    return found


def _item(version: RecipeVersion, recorded: RecordedEvent) -> RecipeVersionItem:
    return RecipeVersionItem(
        version_tag=version.version_tag,
        stream_version=version.stream_version,
        content_hash=version.content_hash,
        step_count=len(version.steps),
        closing_step_count=len(version.closing_steps),
        versioned_at=version.versioned_at,
        versioned_by=recorded.principal_id,
        versioned_by_name=recorded.principal_name,
    )


class RecipeVersionContent(Value):
    """The whole content of one version of a recipe."""

    recipe_id: UUID
    name: str
    capability_id: UUID
    facility_code: str
    version_tag: str
    stream_version: int
    content_hash: str
    steps: tuple[RecipeStep, ...]
    closing_steps: tuple[RecipeStep, ...]
    versioned_at: Time


@recipes.operation("GET /recipes/{recipe_id}/versions/{version_tag}")
class GetRecipeVersion(Query[RecipeVersionContent]):
    """Read the steps of a recipe as a version has them; `initial` is what it was defined with."""

    recipe_id: UUID
    version_tag: VersionTag

    async def answer(self, world: World) -> RecipeVersionContent:
        recipe = await world.load(recipes, self.recipe_id)
        return content_of(recipe, recipe.version_named(self.version_tag))


def content_of(recipe: Recipe, version: RecipeVersion) -> RecipeVersionContent:
    return RecipeVersionContent(
        recipe_id=recipe.id,
        name=recipe.name,
        capability_id=recipe.capability_id,
        facility_code=recipe.facility_code,
        version_tag=version.version_tag,
        stream_version=version.stream_version,
        content_hash=version.content_hash,
        steps=version.steps,
        closing_steps=version.closing_steps,
        versioned_at=version.versioned_at,
    )


class UnresolvedRef(Value):
    """A reference that execution resolves: the key it is written with, and the name it goes by."""

    list: StepListName
    step_index: int
    path: str
    key: str
    name: str


class RecipePreview(Value):
    """What a recipe's steps become; nothing is written."""

    recipe_id: UUID
    version_tag: str
    stream_version: int
    steps: tuple[RecipeStep, ...]
    closing_steps: tuple[RecipeStep, ...]
    steps_hash: str
    unresolved: tuple[UnresolvedRef, ...]


@recipes.operation("POST /recipes/{recipe_id}/preview")
class PreviewRecipe(Query[RecipePreview]):
    """Show what a recipe's steps become with these bindings, and what is left to execution."""

    recipe_id: UUID
    bindings: dict[str, Any] = {}
    version_tag: VersionTag | None = None

    async def answer(self, world: World) -> RecipePreview:
        recipe = await world.load(recipes, self.recipe_id)
        version = recipe.version_named(self.version_tag)
        capability = await world.load(capabilities, recipe.capability_id)
        return preview(recipe, version, self.bindings, capability.parameters_schema)


def preview(
    recipe: Recipe, version: RecipeVersion, bindings: dict[str, Any], schema: Schema | None
) -> RecipePreview:
    expansion = expand(version.lists, bindings, schema)
    return RecipePreview(
        recipe_id=recipe.id,
        version_tag=version.version_tag,
        stream_version=version.stream_version,
        steps=expansion.lists.steps,
        closing_steps=expansion.lists.closing_steps,
        steps_hash=expansion.steps_hash,
        unresolved=tuple(unresolved(expansion.lists)),
    )


def unresolved(lists: StepLists) -> list[UnresolvedRef]:
    """The references that the lists still hold, in order."""
    return [
        UnresolvedRef(
            list=placed.list,
            step_index=placed.step_index,
            path=use.path,
            key=use.ref.key,
            name=use.ref.name,
        )
        for placed in walk(lists)
        for use in uses(placed.step)
    ]
