"""Registering procedures: what is refused in which order, and that a recipe's steps are pinned by content."""

from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.operation.procedure import (
    ProcedureRecipeExpanded,
    ProcedureRegistered,
    procedures,
)
from beamwright.contexts.operation.registration import (
    InvalidProcedureIterationCapError,
    InvalidProcedureKindError,
    InvalidProcedureNameError,
    InvalidProcedureTargetsError,
    PinnedRecipe,
    ProcedureBoundCapabilityDeprecatedError,
    ProcedureCapabilityExecutorMismatchError,
    ProcedureCapabilityMismatchError,
    ProcedureGrounds,
    ProcedureParentRunEndedError,
    ProcedureRecipeDeprecatedError,
    ProcedureTargetsSpanFacilitiesError,
    RegisterProcedure,
)
from beamwright.contexts.recipe.capability import CapabilityStatus, ExecutorShape
from beamwright.contexts.recipe.expansion import (
    InvalidRecipeBindingsError,
    RecipeBindingsStaleAgainstCurrentCapabilityError,
    UnboundRecipeBindingError,
)
from beamwright.contexts.recipe.steps import StepLists, bindings_hash, steps_hash
from beamwright.kernel.errors import DomainError
from beamwright.kernel.value import replace
from tests.contexts.recipe.plan_examples import CAMERA, STAGE, THE_CAMERA, THE_STAGE
from tests.contexts.recipe.test_recipe import (
    ALIGN,
    CAPABILITY,
    CLOSE,
    DEPRECATED,
    MUTE,
    OTHER,
    READ,
    RECIPE,
    VERSIONED,
    recipe,
)
from tests.contexts.run.examples import COMPLETED, RUN, run
from tests.rules import NEW_ID, NOW, PRINCIPAL, given, outcome

ELSEWHERE = replace(THE_STAGE, scope_facility_code="esrf")
FOR_PROCEDURES = replace(ALIGN, executor_shapes=frozenset({ExecutorShape.PROCEDURE}))
VISIT = UUID(int=77)
BARE = ProcedureGrounds(targets=(), parent_run=None, capability=None, pinned=None, own_facility_code="home")


def pinned(*events: Any, tag: str | None = None) -> PinnedRecipe:
    it = recipe(*events)
    return PinnedRecipe(recipe=it, version=it.version_named(tag))


EXPANDING = replace(BARE, capability=FOR_PROCEDURES, pinned=pinned())


def register(seen: ProcedureGrounds = BARE, **fields: Any) -> Any:
    asked: dict[str, Any] = {"name": "Home the stage", "kind": "homing"} | fields
    return outcome(RegisterProcedure(**asked), seen)


def bound(seen: ProcedureGrounds = EXPANDING, **fields: Any) -> Any:
    return register(seen, **{"recipe_id": RECIPE, "bindings": {"energy": 20}} | fields)


def test_a_procedure_needs_no_more_than_a_name_and_a_kind() -> None:
    assert register(name=" Home the stage ", kind=" homing ") == [
        ProcedureRegistered(
            procedure_id=NEW_ID,
            occurred_at=NOW,
            name="Home the stage",
            kind="homing",
            facility_code="home",
            registered_by=PRINCIPAL,
        )
    ]


def test_a_facility_is_that_of_the_assets_or_of_the_run_or_our_own() -> None:
    visit_run = run(visit_id=VISIT, facility_code="run-site")
    of_run = replace(BARE, parent_run=visit_run)
    [phase] = register(of_run, parent_run_id=RUN)
    assert (phase.facility_code, phase.visit_id, phase.parent_run_id) == ("run-site", VISIT, RUN)
    [named] = register(of_run, parent_run_id=RUN, visit_id=UUID(int=78))
    assert named.visit_id == UUID(int=78)
    both = replace(of_run, targets=(THE_CAMERA,))
    [on_asset] = register(both, parent_run_id=RUN, target_asset_ids=frozenset({CAMERA}))
    assert (on_asset.facility_code, on_asset.target_asset_ids) == (THE_CAMERA.scope_facility_code, {CAMERA})


def test_a_recipe_is_expanded_into_the_event() -> None:
    registered, event = bound()
    lists = StepLists(steps=(replace(recipe().steps[0], value=20), READ), closing_steps=(CLOSE,))
    assert event == ProcedureRecipeExpanded(
        procedure_id=NEW_ID,
        occurred_at=NOW,
        recipe_id=RECIPE,
        recipe_stream_version=1,
        recipe_version_tag="initial",
        capability_id=CAPABILITY,
        capability_stream_version=FOR_PROCEDURES.stream_version,
        bindings={"energy": 20},
        bindings_hash=bindings_hash({"energy": 20}),
        steps=lists.steps,
        closing_steps=lists.closing_steps,
        steps_hash=steps_hash(lists),
        expander_version=1,
    )
    state = given(procedures, registered, event)
    assert (state.lists, state.capability_id, state.recipe_version_tag) == (lists, CAPABILITY, "initial")


def test_the_version_asked_for_is_the_one_pinned() -> None:
    newest = replace(EXPANDING, pinned=pinned(VERSIONED))
    _, event = register(newest, recipe_id=RECIPE)
    assert (event.recipe_version_tag, event.recipe_stream_version) == ("2", 2)
    first = replace(EXPANDING, pinned=pinned(VERSIONED, tag="initial"))
    _, event = bound(first, recipe_version_tag="initial")
    assert (event.recipe_version_tag, event.recipe_stream_version) == ("initial", 1)


def test_refusals_come_in_order() -> None:
    """Each refusal is met where everything before it is mended and everything after it is still wrong."""
    wrong = ProcedureGrounds(
        targets=(THE_CAMERA, ELSEWHERE),
        parent_run=run(COMPLETED),
        capability=replace(
            ALIGN, status=CapabilityStatus.DEPRECATED, executor_shapes=frozenset({ExecutorShape.METHOD})
        ),
        pinned=pinned(DEPRECATED),
        own_facility_code="home",
    )
    asked: dict[str, Any] = {
        "name": " ",
        "kind": " ",
        "max_consecutive_unconverged_iterations": 0,
        "target_asset_ids": frozenset(UUID(int=n) for n in range(201)),
        "bindings": {"energy": "no number"},
        "recipe_id": None,
        "capability_id": OTHER,
    }
    met: list[type[DomainError]] = []
    mends: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({"name": "A"}, {}),
        ({"kind": "homing"}, {}),
        ({"max_consecutive_unconverged_iterations": 1}, {}),
        ({"target_asset_ids": frozenset({CAMERA, STAGE})}, {}),
        ({"recipe_id": RECIPE}, {}),
        ({}, {"targets": (THE_CAMERA,)}),
        ({}, {"parent_run": run()}),
        ({"capability_id": CAPABILITY}, {}),
        ({}, {"pinned": pinned()}),
        ({}, {"capability": replace(ALIGN, executor_shapes=frozenset({ExecutorShape.METHOD}))}),
        ({}, {"capability": FOR_PROCEDURES}),
        ({"bindings": {}}, {}),
        ({"bindings": {"energy": 20}}, {}),
    ]
    for fields, grounds in mends:
        asked |= fields
        wrong = replace(wrong, **grounds)
        got = outcome(RegisterProcedure(**asked), wrong)
        if isinstance(got, type):
            met.append(got)
    assert met == [
        InvalidProcedureNameError,
        InvalidProcedureKindError,
        InvalidProcedureIterationCapError,
        InvalidProcedureTargetsError,
        InvalidRecipeBindingsError,
        ProcedureTargetsSpanFacilitiesError,
        ProcedureParentRunEndedError,
        ProcedureCapabilityMismatchError,
        ProcedureRecipeDeprecatedError,
        ProcedureBoundCapabilityDeprecatedError,
        ProcedureCapabilityExecutorMismatchError,
        InvalidRecipeBindingsError,
        UnboundRecipeBindingError,
    ]


def test_a_binding_that_the_capability_forgot_makes_the_recipe_stale() -> None:
    mute = replace(MUTE, executor_shapes=FOR_PROCEDURES.executor_shapes)
    stale = replace(EXPANDING, capability=mute)
    assert bound(stale) is RecipeBindingsStaleAgainstCurrentCapabilityError


@pytest.mark.parametrize("fields", [{"bindings": {"energy": 20}}, {"recipe_version_tag": "2"}])
def test_what_is_said_of_a_recipe_needs_one(fields: dict[str, Any]) -> None:
    assert register(**fields) is InvalidRecipeBindingsError


def test_a_capability_may_stand_without_a_recipe() -> None:
    [event] = register(replace(BARE, capability=FOR_PROCEDURES), capability_id=CAPABILITY)
    assert event.capability_id == CAPABILITY


@pytest.mark.parametrize("most", [0, -1, 10_001])
def test_patience_is_bounded(most: int) -> None:
    asked = {"max_consecutive_unconverged_iterations": most}
    assert register(**asked) is InvalidProcedureIterationCapError
    assert not isinstance(register(max_consecutive_unconverged_iterations=10_000), type)
