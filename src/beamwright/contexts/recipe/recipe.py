"""Recipe: the executable steps that realise one capability at one deployment."""

from enum import StrEnum
from typing import assert_never
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.content_hash import content_hash
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, Value, replace
from beamwright.kernel.versions import (
    INITIAL,
    Counted,
    Deprecation,
    DeprecationReason,
    TaggedVersion,
    counted,
    next_version,
    tagged,
)

from .steps import RecipeStep, StepLists, addresses

MEDIA_TYPE = "application/vnd.beamwright.recipe+json"


class RecipeStatus(StrEnum):
    DEFINED = "Defined"
    VERSIONED = "Versioned"
    DEPRECATED = "Deprecated"


class RecipeNotFoundError(NotFoundError):
    """There is no such recipe."""


class RecipeVersionNotFoundError(NotFoundError):
    """The recipe has no version of this tag."""


class InvalidRecipeNameError(InvalidError):
    """The recipe's name is blank or too long."""


class InvalidRecipeVersionTagError(InvalidError):
    """The version tag is malformed, or is “initial”."""


class InvalidRecipeDeprecationReasonError(InvalidError):
    """The reason is blank or too long."""


class RecipeBoundCapabilityDeprecatedError(ConflictError):
    """A deprecated capability takes no recipe, and no new version of one."""


class RecipeVersionTagTakenError(ConflictError):
    """The version tag already names a version of the recipe."""


class RecipeReplacementInvalidError(ConflictError):
    """A recipe is replaced by another one of the same capability that is not deprecated."""


class RecipeCannotVersionError(CannotTransitionError):
    """A deprecated recipe is not versioned any more."""


class RecipeCannotDeprecateError(CannotTransitionError):
    """The recipe is deprecated already."""


class RecipeContent(Value):
    """What the content hash is taken of."""

    name: str
    capability_id: UUID
    facility_code: str
    steps: tuple[RecipeStep, ...]
    closing_steps: tuple[RecipeStep, ...]


class RecipeFact(Event):
    recipe_id: UUID


class RecipeDefined(RecipeFact):
    name: str
    capability_id: UUID
    facility_code: str
    steps: tuple[RecipeStep, ...]
    closing_steps: tuple[RecipeStep, ...]
    content_hash: str


class RecipeVersioned(RecipeFact):
    version_tag: str
    steps: tuple[RecipeStep, ...]
    closing_steps: tuple[RecipeStep, ...]
    content_hash: str


class RecipeDeprecated(RecipeFact):
    reason_kind: DeprecationReason
    reason: str
    replaced_by_recipe_id: UUID | None


type RecipeEvent = RecipeDefined | RecipeVersioned | RecipeDeprecated

EDITABLE = frozenset({RecipeStatus.DEFINED, RecipeStatus.VERSIONED})

LIFECYCLE = StateMachine[RecipeStatus](
    {
        RecipeVersioned: move(EDITABLE, RecipeStatus.VERSIONED, RecipeCannotVersionError),
        RecipeDeprecated: move(EDITABLE, RecipeStatus.DEPRECATED, RecipeCannotDeprecateError),
    }
)


class RecipeVersion(Value):
    """One content of a recipe, kept for ever under its tag."""

    version_tag: str
    stream_version: int
    content_hash: str
    steps: tuple[RecipeStep, ...]
    closing_steps: tuple[RecipeStep, ...]
    versioned_at: Time

    @property
    def lists(self) -> StepLists:
        return StepLists(steps=self.steps, closing_steps=self.closing_steps)


class Recipe(Counted):
    id: UUID
    name: str
    capability_id: UUID
    facility_code: str
    steps: tuple[RecipeStep, ...]
    closing_steps: tuple[RecipeStep, ...]
    content_hash: str
    # Every content, oldest first, beginning with the initial one.
    versions: tuple[RecipeVersion, ...]
    status: RecipeStatus = RecipeStatus.DEFINED
    version_tag: str | None = None
    version_tags: tuple[TaggedVersion, ...] = ()
    deprecation: Deprecation | None = None
    replaced_by_recipe_id: UUID | None = None

    @property
    def content(self) -> RecipeContent:
        return RecipeContent(
            name=self.name,
            capability_id=self.capability_id,
            facility_code=self.facility_code,
            steps=self.steps,
            closing_steps=self.closing_steps,
        )

    @property
    def lists(self) -> StepLists:
        return StepLists(steps=self.steps, closing_steps=self.closing_steps)

    def version_named(self, version_tag: str | None) -> RecipeVersion:
        """The version of a tag, or without one the latest."""
        for version in reversed(self.versions):
            if version_tag in (None, version.version_tag):
                return version
        raise RecipeVersionNotFoundError(
            f"Recipe {self.name} has no version “{str(version_tag)[:50]}”.",
            recipe_id=str(self.id),
            version_tags=[version.version_tag for version in self.versions],
        )


def recipe_hash(content: RecipeContent) -> str:
    return content_hash(MEDIA_TYPE, content)


@counted
def evolve(recipe: Recipe | None, event: RecipeEvent) -> Recipe:
    match event:
        case RecipeDefined():
            return Recipe(
                id=event.recipe_id,
                name=event.name,
                capability_id=event.capability_id,
                facility_code=event.facility_code,
                steps=event.steps,
                closing_steps=event.closing_steps,
                content_hash=event.content_hash,
                versions=(_version(recipe, event, INITIAL),),
            )
        case _ if recipe is None:
            raise ValueError(event)
        case RecipeVersioned():
            return replace(
                recipe,
                steps=event.steps,
                closing_steps=event.closing_steps,
                content_hash=event.content_hash,
                versions=(*recipe.versions, _version(recipe, event, event.version_tag)),
                status=LIFECYCLE.after(event),
                version_tag=event.version_tag,
                version_tags=tagged(recipe.version_tags, event.version_tag, recipe),
            )
        case RecipeDeprecated():
            return replace(
                recipe,
                status=LIFECYCLE.after(event),
                deprecation=Deprecation(reason_kind=event.reason_kind, reason=event.reason),
                replaced_by_recipe_id=event.replaced_by_recipe_id,
            )
        case _:
            assert_never(event)


def _version(recipe: Recipe | None, event: RecipeDefined | RecipeVersioned, tag: str) -> RecipeVersion:
    return RecipeVersion(
        version_tag=tag,
        stream_version=next_version(recipe),
        content_hash=event.content_hash,
        steps=event.steps,
        closing_steps=event.closing_steps,
        versioned_at=event.occurred_at,
    )


recipes = Aggregate[Recipe, RecipeEvent](
    "Recipe",
    events=RecipeEvent,
    evolve=evolve,
    missing=RecipeNotFoundError,
    belongs=lambda recipe: Belonging(facility_code=recipe.facility_code),
)
recipes.reads(
    "/recipes",
    filters=(
        "status",
        "capability_id",
        "facility_code",
        Filter(name="address", type=str, of=lambda recipe: addresses(recipe.lists), test=Test.CONTAINS),
    ),
    hidden=("versions",),
    sorts=("created_at", "updated_at", "name"),
    text=("name",),
)


class RecipeToDeprecate(Value):
    """A recipe, and the one that is to take its place."""

    recipe: Recipe
    replacement: Recipe | None = None


@recipes.operation("POST /recipes/{recipe_id}/deprecate")
class DeprecateRecipe(Command[RecipeToDeprecate]):
    """Deprecate a recipe: what was expanded from it goes on, and nothing new is."""

    recipe_id: UUID
    reason_kind: DeprecationReason
    reason: text.Reason
    replaced_by_recipe_id: UUID | None = None

    async def gather(self, world: World) -> RecipeToDeprecate:
        recipe, replaced_by = await world.load(recipes, self.recipe_id), self.replaced_by_recipe_id
        replacement = None if replaced_by is None else await world.load(recipes, replaced_by)
        return RecipeToDeprecate(recipe=recipe, replacement=replacement)

    def decide(self, seen: RecipeToDeprecate, occasion: Occasion) -> RecipeDeprecated:
        recipe = seen.recipe
        reason = text.reason(self.reason, InvalidRecipeDeprecationReasonError)
        LIFECYCLE.check(RecipeDeprecated, recipe.status, recipe.id)
        check_replacement(recipe, seen.replacement)
        return RecipeDeprecated(
            recipe_id=recipe.id,
            occurred_at=occasion.now,
            reason_kind=self.reason_kind,
            reason=reason,
            replaced_by_recipe_id=self.replaced_by_recipe_id,
        )


def check_replacement(recipe: Recipe, replacement: Recipe | None) -> None:
    """Gate: what takes a recipe's place can be used for the same."""
    if replacement is None:
        return
    ground = None
    if replacement.id == recipe.id:
        ground = "A recipe does not replace itself."
    elif replacement.status is RecipeStatus.DEPRECATED:
        ground = f"Recipe {replacement.name} is deprecated too."
    elif replacement.capability_id != recipe.capability_id:
        ground = f"Recipe {replacement.name} realises another capability."
    if ground:
        raise RecipeReplacementInvalidError(
            f"{ground} Name another recipe, or none.", replaced_by_recipe_id=str(replacement.id)
        )
