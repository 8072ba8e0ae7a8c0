"""Recipe: its rules, its versions and its status grid."""

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

from beamwright.contexts.recipe.capability import (
    Capability,
    CapabilityStatus,
    ExecutorShape,
)
from beamwright.contexts.recipe.expansion import UnboundRecipeBindingError
from beamwright.contexts.recipe.recipe import (
    DeprecateRecipe,
    InvalidRecipeDeprecationReasonError,
    InvalidRecipeNameError,
    InvalidRecipeVersionTagError,
    Recipe,
    RecipeBoundCapabilityDeprecatedError,
    RecipeDefined,
    RecipeDeprecated,
    RecipeReplacementInvalidError,
    RecipeStatus,
    RecipeToDeprecate,
    RecipeVersioned,
    RecipeVersionNotFoundError,
    RecipeVersionTagTakenError,
    recipe_hash,
    recipes,
)
from beamwright.contexts.recipe.recipe_definition import (
    DefineRecipe,
    RecipeGrounds,
    RecipeRevision,
    VersionRecipe,
)
from beamwright.contexts.recipe.recipe_reads import (
    ListRecipeVersions,
    UnresolvedRef,
    content_of,
    preview,
)
from beamwright.contexts.recipe.step_rules import (
    EmptyRecipeStepsError,
    InvalidRecipeStepError,
    RecipeBindingReferencesUnknownParameterError,
    RecipeRequiresCapabilityParametersSchemaError,
)
from beamwright.contexts.recipe.steps import (
    RecipeActionStep,
    RecipeCaptureStep,
    RecipeSetpointStep,
    StepListName,
)
from beamwright.kernel.aggregate import History, RecordedEvent
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.operation import World
from beamwright.kernel.value import replace
from beamwright.kernel.versions import Deprecation, DeprecationReason, TaggedVersion
from tests.contexts.recipe.schemas import energy
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, PRINCIPAL, given, outcome

RECIPE, OTHER, CAPABILITY = UUID(int=2), UUID(int=3), UUID(int=4)

MOVE = RecipeSetpointStep(address="ca://2bm:energy", value={"__binding__": "energy"})
READ = RecipeCaptureStep(address="ca://2bm:current", capture_name="current")
COLLECT = RecipeActionStep(name="collect", params={"current": {"__capture__": "current"}})
CLOSE = RecipeSetpointStep(address="ca://2bm:shutter", value="Closed")

ALIGN = Capability(
    id=CAPABILITY,
    code="beamwright.capability.align",
    name="Align",
    description=None,
    required_affordances=frozenset(),
    executor_shapes=frozenset({ExecutorShape.PROCEDURE}),
    parameters_schema=energy(),
    parameters_schema_version=1,
)
GONE = replace(ALIGN, status=CapabilityStatus.DEPRECATED)
MUTE = replace(ALIGN, parameters_schema=None, parameters_schema_version=0)

DEFINE = DefineRecipe(name="Align", capability_id=CAPABILITY, steps=(MOVE, READ), closing_steps=(CLOSE,))
VERSION = VersionRecipe(recipe_id=RECIPE, version_tag="2", steps=(READ, COLLECT), closing_steps=())
DEPRECATE = DeprecateRecipe(recipe_id=RECIPE, reason_kind=DeprecationReason.OBSOLETE, reason="unused")

DEFINED = RecipeDefined(
    recipe_id=RECIPE,
    occurred_at=NOW,
    name="Align",
    capability_id=CAPABILITY,
    facility_code="aps",
    steps=(MOVE, READ),
    closing_steps=(CLOSE,),
    content_hash="1" * 64,
)
VERSIONED = RecipeVersioned(
    recipe_id=RECIPE,
    occurred_at=NOW,
    version_tag="2",
    steps=(READ, COLLECT),
    closing_steps=(),
    content_hash="2" * 64,
)
DEPRECATED = RecipeDeprecated(
    recipe_id=RECIPE,
    occurred_at=NOW,
    reason_kind=DeprecationReason.OBSOLETE,
    reason="unused",
    replaced_by_recipe_id=None,
)

GROUNDS = RecipeGrounds(capability=ALIGN, facility_code="aps")


def recipe(*history: Event, first: RecipeDefined = DEFINED) -> Recipe:
    return given(recipes, first, *history)


def revising(*history: Event, capability: Capability = ALIGN) -> RecipeRevision:
    return RecipeRevision(recipe=recipe(*history), capability=capability)


def test_define_a_recipe() -> None:
    got = outcome(replace(DEFINE, name=" Align "), GROUNDS)
    assert got == [
        replace(DEFINED, recipe_id=NEW_ID, content_hash=recipe_hash(recipe().content)),
    ]


@pytest.mark.parametrize(
    ("command", "capability", "refusal"),
    [
        (replace(DEFINE, name=" ", steps=()), ALIGN, InvalidRecipeNameError),
        (replace(DEFINE, steps=()), MUTE, EmptyRecipeStepsError),
        (replace(DEFINE, steps=(replace(MOVE, label=" "),)), MUTE, InvalidRecipeStepError),
        (DEFINE, replace(MUTE, status=GONE.status), RecipeRequiresCapabilityParametersSchemaError),
        (
            replace(DEFINE, steps=(replace(MOVE, value={"__binding__": "exposure"}),)),
            GONE,
            RecipeBindingReferencesUnknownParameterError,
        ),
        (DEFINE, GONE, RecipeBoundCapabilityDeprecatedError),
    ],
)
def test_define_refuses_in_order(command: DefineRecipe, capability: Capability, refusal: type) -> None:
    assert outcome(command, replace(GROUNDS, capability=capability)) == refusal


def test_version_replaces_both_lists() -> None:
    after = replace(recipe().content, steps=(READ, COLLECT), closing_steps=())
    assert outcome(VERSION, revising()) == [replace(VERSIONED, content_hash=recipe_hash(after))]


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (replace(VERSION, version_tag="initial", steps=()), revising(), InvalidRecipeVersionTagError),
        (replace(VERSION, steps=()), revising(DEPRECATED), EmptyRecipeStepsError),
        (
            replace(VERSION, steps=(MOVE,)),
            revising(VERSIONED, capability=MUTE),
            RecipeRequiresCapabilityParametersSchemaError,
        ),
        (VERSION, revising(VERSIONED, capability=GONE), RecipeVersionTagTakenError),
        (VERSION, revising(capability=GONE), RecipeBoundCapabilityDeprecatedError),
    ],
)
def test_version_refuses_in_order(command: VersionRecipe, seen: RecipeRevision, refusal: type) -> None:
    assert outcome(command, seen) == refusal


def test_every_version_stays_readable_whole() -> None:
    versioned = recipe(VERSIONED)
    first, second = (content_of(versioned, versioned.version_named(tag)) for tag in ("initial", "2"))
    assert (first.steps, first.closing_steps, first.stream_version) == ((MOVE, READ), (CLOSE,), 1)
    assert (second.steps, second.closing_steps, second.stream_version) == ((READ, COLLECT), (), 2)


def test_an_unknown_version_is_not_found() -> None:
    with pytest.raises(RecipeVersionNotFoundError) as refused:
        recipe(VERSIONED).version_named("3")
    assert refused.value.context["version_tags"] == ["initial", "2"]


def test_without_a_tag_the_latest_version_is_meant() -> None:
    assert recipe(VERSIONED, DEPRECATED).version_named(None).version_tag == "2"


def test_tags_are_kept_with_their_stream_version() -> None:
    assert recipe().version_tag is None
    assert recipe(VERSIONED).version_tags == (TaggedVersion(version_tag="2", stream_version=2),)


def recorded(version: int, principal_id: UUID) -> RecordedEvent:
    return RecordedEvent(
        event_id=UUID(int=version),
        version=version,
        event_type="RecipeVersioned",
        schema_version=1,
        payload={},
        principal_id=principal_id,
        principal_name=f"actor {principal_id.int}",
        command_name="version_recipe",
        surface_id=UUID(int=9),
        correlation_id="",
        causation_id=None,
        occurred_at=NOW,
        recorded_at=NOW,
    )


class Library:
    """A world of one recipe, whose history comes in pages of one event."""

    def __init__(self, state: Recipe, *principals: UUID) -> None:
        self.operations = {operation.name: operation for operation in recipes.operations}
        self._state = state
        self._events = [recorded(number, id) for number, id in enumerate(principals, 1)]

    async def load(self, aggregate: Any, id: UUID) -> Recipe:
        return self._state

    async def history(self, aggregate: Any, request: Any) -> History:
        after: int = request.after_version
        more = after + 1 < len(self._events)
        return History(
            items=self._events[after : after + 1], next_version=after + 1 if more else None, as_of=""
        )


def test_versions_are_listed_with_who_made_them() -> None:
    library = cast(World, Library(recipe(VERSIONED, DEPRECATED), PRINCIPAL, UUID(int=8), PRINCIPAL))
    got = asyncio.run(ListRecipeVersions(recipe_id=RECIPE).answer(library)).items
    assert [
        (each.version_tag, each.versioned_by, each.step_count, each.closing_step_count) for each in got
    ] == [
        ("initial", PRINCIPAL, 2, 1),
        ("2", UUID(int=8), 2, 0),
    ]


def test_a_preview_shows_the_steps_and_what_is_left_to_execution() -> None:
    versioned = recipe(replace(VERSIONED, steps=(MOVE, READ, COLLECT)))
    got = preview(versioned, versioned.version_named(None), {"energy": 20}, ALIGN.parameters_schema)
    assert got.steps == (replace(MOVE, value=20), READ, COLLECT)
    assert got.unresolved == (
        UnresolvedRef(
            list=StepListName.STEPS, step_index=2, path="/params/current", key="__capture__", name="current"
        ),
    )


def test_a_preview_refuses_what_expansion_refuses() -> None:
    defined = recipe()
    with pytest.raises(UnboundRecipeBindingError):
        preview(defined, defined.version_named("initial"), {}, ALIGN.parameters_schema)


OTHERS = recipe(first=replace(DEFINED, recipe_id=OTHER))


def test_a_deprecated_recipe_names_its_replacement() -> None:
    seen = RecipeToDeprecate(recipe=recipe(), replacement=OTHERS)
    got = outcome(replace(DEPRECATE, replaced_by_recipe_id=OTHER), seen)
    assert got == [replace(DEPRECATED, replaced_by_recipe_id=OTHER)]


@pytest.mark.parametrize(
    "replacement",
    [
        recipe(),
        replace(OTHERS, status=RecipeStatus.DEPRECATED),
        replace(OTHERS, capability_id=UUID(int=99)),
    ],
)
def test_a_replacement_is_another_recipe_in_use_of_the_same_capability(replacement: Recipe) -> None:
    command = replace(DEPRECATE, replaced_by_recipe_id=replacement.id)
    seen = RecipeToDeprecate(recipe=recipe(), replacement=replacement)
    assert outcome(command, seen) == RecipeReplacementInvalidError


def test_deprecate_needs_a_reason() -> None:
    seen = RecipeToDeprecate(recipe=recipe(DEPRECATED))
    assert outcome(replace(DEPRECATE, reason=" "), seen) == InvalidRecipeDeprecationReasonError


def test_deprecation_is_kept_with_its_reason() -> None:
    kept = recipe(replace(DEPRECATED, replaced_by_recipe_id=OTHER))
    assert kept.deprecation == Deprecation(reason_kind=DeprecationReason.OBSOLETE, reason="unused")
    assert kept.replaced_by_recipe_id == OTHER


def test_a_recipe_belongs_to_its_facility() -> None:
    assert recipes.belongs(recipe()) == Belonging(facility_code="aps")


REACH = {"Defined": [DEFINED], "Versioned": [DEFINED, VERSIONED], "Deprecated": [DEFINED, DEPRECATED]}

GRID = """
             deprecate
Defined      Deprecated
Versioned    Deprecated
Deprecated   -
"""

GRID_OF_VERSIONS = """
             version
Defined      Versioned
Versioned    Versioned
Deprecated   -
"""


def status(state: Recipe) -> RecipeStatus:
    return state.status


def test_status_grid() -> None:
    check_grid(
        GRID,
        recipes,
        status=status,
        reach=REACH,
        verbs={"deprecate": DEPRECATE},
        seen=lambda state: RecipeToDeprecate(recipe=state),
    )


def test_status_grid_of_versions() -> None:
    check_grid(
        GRID_OF_VERSIONS,
        recipes,
        status=status,
        reach=REACH,
        verbs={"version": replace(VERSION, version_tag="3")},
        seen=lambda state: RecipeRevision(recipe=state, capability=ALIGN),
    )
