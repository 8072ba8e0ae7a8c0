"""Defining and versioning recipes: steps that their capability's parameters can be bound in."""

from uuid import UUID

from beamwright.contexts.federation.coverage import load_facility
from beamwright.contexts.federation.facility import FacilityCode
from beamwright.kernel import text
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, replace
from beamwright.kernel.versions import VersionTag, check_tag_unused, checked_tag

from .capability import Capability, CapabilityStatus, capabilities
from .recipe import (
    LIFECYCLE,
    InvalidRecipeNameError,
    InvalidRecipeVersionTagError,
    Recipe,
    RecipeBoundCapabilityDeprecatedError,
    RecipeContent,
    RecipeDefined,
    RecipeVersioned,
    RecipeVersionTagTakenError,
    recipe_hash,
    recipes,
)
from .step_rules import check_bindings_declared, checked_steps
from .steps import RecipeStep


class RecipeGrounds(Value):
    """What a new recipe realises, and where."""

    capability: Capability
    facility_code: str


@recipes.operation("POST /recipes", creates=True)
class DefineRecipe(Command[RecipeGrounds]):
    """Define the steps that realise a capability at a facility, and those that bring it to rest."""

    name: text.Name
    capability_id: UUID
    steps: tuple[RecipeStep, ...]
    closing_steps: tuple[RecipeStep, ...] = ()
    facility_code: FacilityCode | None = None

    async def gather(self, world: World) -> RecipeGrounds:
        capability = await world.load(capabilities, self.capability_id)
        code = world.installation.self_facility_code if self.facility_code is None else self.facility_code
        return RecipeGrounds(capability=capability, facility_code=(await load_facility(world, code)).code)

    def decide(self, seen: RecipeGrounds, occasion: Occasion) -> RecipeDefined:
        name = text.name(self.name, InvalidRecipeNameError)
        lists = checked_steps(self.steps, self.closing_steps)
        check_bindings_declared(lists, seen.capability.parameters_schema)
        check_capability_usable(seen.capability)
        content = RecipeContent(
            name=name,
            capability_id=seen.capability.id,
            facility_code=seen.facility_code,
            steps=lists.steps,
            closing_steps=lists.closing_steps,
        )
        return RecipeDefined(
            recipe_id=occasion.new_id,
            occurred_at=occasion.now,
            name=content.name,
            capability_id=content.capability_id,
            facility_code=content.facility_code,
            steps=content.steps,
            closing_steps=content.closing_steps,
            content_hash=recipe_hash(content),
        )


class RecipeRevision(Value):
    """A recipe, and the capability that it realises."""

    recipe: Recipe
    capability: Capability


@recipes.operation("POST /recipes/{recipe_id}/version")
class VersionRecipe(Command[RecipeRevision]):
    """Give a recipe a new version, replacing both of its lists; earlier versions stay readable."""

    recipe_id: UUID
    version_tag: VersionTag
    steps: tuple[RecipeStep, ...]
    closing_steps: tuple[RecipeStep, ...]

    async def gather(self, world: World) -> RecipeRevision:
        recipe = await world.load(recipes, self.recipe_id)
        return RecipeRevision(recipe=recipe, capability=await world.load(capabilities, recipe.capability_id))

    def decide(self, seen: RecipeRevision, occasion: Occasion) -> RecipeVersioned:
        recipe = seen.recipe
        tag = checked_tag(self.version_tag, InvalidRecipeVersionTagError)
        lists = checked_steps(self.steps, self.closing_steps)
        LIFECYCLE.check(RecipeVersioned, recipe.status, recipe.id)
        check_bindings_declared(lists, seen.capability.parameters_schema)
        check_tag_unused(recipe.version_tags, tag, recipe.id, RecipeVersionTagTakenError)
        check_capability_usable(seen.capability)
        content = replace(recipe.content, steps=lists.steps, closing_steps=lists.closing_steps)
        return RecipeVersioned(
            recipe_id=recipe.id,
            occurred_at=occasion.now,
            version_tag=tag,
            steps=lists.steps,
            closing_steps=lists.closing_steps,
            content_hash=recipe_hash(content),
        )


def check_capability_usable(capability: Capability) -> None:
    """Gate: nothing new is bound to a deprecated capability."""
    if capability.status is CapabilityStatus.DEPRECATED:
        raise RecipeBoundCapabilityDeprecatedError(
            f"Capability {capability.code} is deprecated; define the recipe for its replacement.",
            capability_id=str(capability.id),
            replaced_by_capability_id=capability.replaced_by_capability_id
            and str(capability.replaced_by_capability_id),
        )
