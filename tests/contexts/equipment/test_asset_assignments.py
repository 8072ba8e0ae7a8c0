"""Activation, model, controller and owners of an asset."""

import asyncio
from typing import Any

import pytest

from beamwright.contexts.access.actor import ActorNotFoundError
from beamwright.contexts.equipment.asset import (
    AssetActivated,
    AssetControllerAssigned,
    AssetModelAssigned,
    AssetOwnerAdded,
)
from beamwright.contexts.equipment.asset_assignments import (
    ActivateAsset,
    AddAssetOwner,
    AssetControllerDecommissionedError,
    AssetControllerSelfError,
    AssetFamilyRequiredError,
    AssetModelMismatchError,
    AssetOfModel,
    AssetWithController,
    AssignAssetController,
    AssignAssetModel,
)
from beamwright.contexts.equipment.asset_parts import MOST_OWNERS, AssetOwnerAlreadyPresentError
from beamwright.contexts.equipment.asset_values import AssetOwner, InvalidAssetOwnerError
from beamwright.contexts.equipment.model import Model, ModelDeprecatedError
from beamwright.kernel.value import replace
from tests.contexts.equipment.asset_examples import (
    ACTIVATED,
    DECOMMISSIONED,
    LINEAR,
    MODEL,
    OTHER,
    REGISTERED,
    ROTARY,
    STAGE,
    asset,
    check_lifecycles,
    model,
    stays,
)
from tests.contexts.trust.examples import SmallWorld
from tests.rules import NOW, outcome

ACTIVATE = ActivateAsset(asset_id=STAGE)
ASSIGN_MODEL = AssignAssetModel(asset_id=STAGE, model_id=MODEL)
ASSIGN_CONTROLLER = AssignAssetController(asset_id=STAGE, controller_id=OTHER)
OWNER = AssetOwner(name="Argonne", identifier="https://ror.org/05gvnxz63", identifier_type="ROR")
OF_ROTARY = replace(REGISTERED, family_ids=frozenset({ROTARY}))

ACTIVATION = """
               activate
Commissioned   Active
Active         -
Maintenance    -
Decommissioned -
"""


def test_activation_grid() -> None:
    check_lifecycles(
        ACTIVATION, ACTIVATE, lambda stage: AssetOfModel(asset=stage, model=None), first=OF_ROTARY
    )


def test_assigning_grids() -> None:
    check_lifecycles(
        stays("assign-model"),
        ASSIGN_MODEL,
        lambda stage: AssetOfModel(asset=stage, model=model(ROTARY)),
        OF_ROTARY,
    )
    check_lifecycles(
        stays("assign-controller"),
        ASSIGN_CONTROLLER,
        lambda stage: AssetWithController(asset=stage, controller=asset(asset_id=OTHER)),
    )
    check_lifecycles(stays("add-owner"), AddAssetOwner(asset_id=STAGE, owner=OWNER))


def test_an_asset_without_family_is_not_activated() -> None:
    assert outcome(ACTIVATE, AssetOfModel(asset=asset(), model=None)) == AssetFamilyRequiredError


def test_activation_needs_every_family_of_the_model() -> None:
    half = asset(family_ids=frozenset({ROTARY}))
    assert outcome(ACTIVATE, AssetOfModel(asset=half, model=model(ROTARY, LINEAR))) == AssetModelMismatchError
    whole = asset(family_ids=frozenset({ROTARY, LINEAR}))
    activated = AssetActivated(asset_id=STAGE, occurred_at=NOW)
    assert outcome(ACTIVATE, AssetOfModel(asset=whole, model=model(ROTARY, LINEAR))) == [activated]


@pytest.mark.parametrize(
    ("given_model", "events", "expected"),
    [
        (model(ROTARY, deprecated=True), [], ModelDeprecatedError),
        (model(LINEAR), [ACTIVATED], AssetModelMismatchError),
        (model(LINEAR), [], [AssetModelAssigned(asset_id=STAGE, occurred_at=NOW, model_id=MODEL)]),
    ],
)
def test_a_model_is_usable_and_covered_while_in_service(
    given_model: Model, events: list[Any], expected: Any
) -> None:
    stage = asset(*events, family_ids=frozenset({ROTARY}))
    assert outcome(ASSIGN_MODEL, AssetOfModel(asset=stage, model=given_model)) == expected


def test_the_same_model_again_is_a_no_op_even_when_deprecated() -> None:
    seen = AssetOfModel(asset=asset(model_id=MODEL), model=model(ROTARY, deprecated=True))
    assert outcome(ASSIGN_MODEL, seen) == []


def test_a_model_can_be_taken_back() -> None:
    got = outcome(AssignAssetModel(asset_id=STAGE), AssetOfModel(asset=asset(model_id=MODEL), model=None))
    assert got == [AssetModelAssigned(asset_id=STAGE, occurred_at=NOW, model_id=None)]


def test_an_asset_does_not_control_itself() -> None:
    seen = AssetWithController(asset=asset(), controller=asset())
    assert (
        outcome(AssignAssetController(asset_id=STAGE, controller_id=STAGE), seen) == AssetControllerSelfError
    )


def test_a_controller_is_in_use() -> None:
    gone = asset(replace(DECOMMISSIONED, asset_id=OTHER), asset_id=OTHER)
    seen = AssetWithController(asset=asset(), controller=gone)
    assert outcome(ASSIGN_CONTROLLER, seen) == AssetControllerDecommissionedError


def test_a_controller_can_be_taken_back() -> None:
    seen = AssetWithController(asset=asset(controller_id=OTHER), controller=None)
    got = outcome(AssignAssetController(asset_id=STAGE), seen)
    assert got == [AssetControllerAssigned(asset_id=STAGE, occurred_at=NOW, controller_id=None)]


def add(owner: AssetOwner) -> AddAssetOwner:
    return AddAssetOwner(asset_id=STAGE, owner=owner)


def test_an_owner_is_added() -> None:
    assert outcome(add(OWNER), asset()) == [AssetOwnerAdded(asset_id=STAGE, occurred_at=NOW, owner=OWNER)]


@pytest.mark.parametrize(
    ("owner", "refusal"),
    [
        (AssetOwner(name=" "), InvalidAssetOwnerError),
        (AssetOwner(name="x" * 256), InvalidAssetOwnerError),
        (AssetOwner(name="CERN", identifier="https://ror.org/01ggx4157"), InvalidAssetOwnerError),
        (AssetOwner(name="CERN", identifier_type="ROR"), InvalidAssetOwnerError),
        (AssetOwner(name="CERN", identifier="x", identifier_type="x" * 65), InvalidAssetOwnerError),
        (AssetOwner(name="ARGONNE"), AssetOwnerAlreadyPresentError),
    ],
)
def test_owner_refusals(owner: AssetOwner, refusal: type) -> None:
    assert outcome(add(owner), asset(owners=(OWNER,))) == refusal


def test_owners_are_bounded() -> None:
    many = asset(owners=tuple(AssetOwner(name=f"owner {n}") for n in range(MOST_OWNERS)))
    assert outcome(add(OWNER), many) == InvalidAssetOwnerError


def test_the_contact_of_an_owner_is_an_actor() -> None:
    world: Any = SmallWorld(asset())
    with pytest.raises(ActorNotFoundError):
        asyncio.run(add(replace(OWNER, contact_actor_id=OTHER)).gather(world))
