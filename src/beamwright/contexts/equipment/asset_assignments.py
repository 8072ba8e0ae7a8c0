"""What an asset is bound to: its model, its controller, its owners; and the activation that the model gates."""

from collections.abc import Collection
from uuid import UUID

from beamwright.contexts.access.actor import actors
from beamwright.kernel.errors import CannotTransitionError, ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .asset import (
    IN_SERVICE,
    LIFECYCLE,
    Asset,
    AssetActivated,
    AssetControllerAssigned,
    AssetModelAssigned,
    AssetOwnerAdded,
    assets,
    check_in_use,
)
from .asset_parts import check_owners_distinct, checked_owners
from .asset_values import AssetOwner
from .model import Model, check_model_usable, models


class AssetFamilyRequiredError(ConflictError):
    """An asset in service belongs to at least one family."""


class AssetModelMismatchError(ConflictError):
    """The asset lacks families that its model declares."""


class AssetCannotAssignModelError(CannotTransitionError):
    """A decommissioned asset keeps its model."""


class AssetCannotAssignControllerError(CannotTransitionError):
    """A decommissioned asset keeps its controller."""


class AssetControllerSelfError(ConflictError):
    """An asset does not control itself."""


class AssetControllerDecommissionedError(ConflictError):
    """The controller is decommissioned."""


class AssetCannotAddOwnerError(CannotTransitionError):
    """A decommissioned asset keeps its owners."""


class AssetOfModel(Value):
    """An asset, and the model it has or is to have."""

    asset: Asset
    model: Model | None


async def load_model(world: World, model_id: UUID | None) -> Model | None:
    return None if model_id is None else await world.load(models, model_id)


@assets.operation("POST /assets/{asset_id}/activate")
class ActivateAsset(Command[AssetOfModel]):
    """Put a commissioned asset into service."""

    asset_id: UUID

    async def gather(self, world: World) -> AssetOfModel:
        asset = await world.load(assets, self.asset_id)
        return AssetOfModel(asset=asset, model=await load_model(world, asset.model_id))

    def decide(self, seen: AssetOfModel, occasion: Occasion) -> AssetActivated:
        asset = seen.asset
        LIFECYCLE.check(AssetActivated, asset.lifecycle, asset.id)
        check_has_family(asset.id, asset.family_ids)
        check_model_covered(seen.model, asset)
        return AssetActivated(asset_id=asset.id, occurred_at=occasion.now)


@assets.operation("POST /assets/{asset_id}/assign-model")
class AssignAssetModel(Command[AssetOfModel]):
    """Say which model of a manufacturer an asset is; null takes it back."""

    asset_id: UUID
    model_id: UUID | None = None

    async def gather(self, world: World) -> AssetOfModel:
        asset = await world.load(assets, self.asset_id)
        return AssetOfModel(asset=asset, model=await load_model(world, self.model_id))

    def decide(self, seen: AssetOfModel, occasion: Occasion) -> list[AssetModelAssigned]:
        asset, model = seen.asset, seen.model
        check_in_use(asset, AssetCannotAssignModelError)
        if self.model_id == asset.model_id:
            return []
        if model is not None:
            check_model_usable(model)
        if asset.lifecycle in IN_SERVICE:
            check_model_covered(model, asset)
        return [AssetModelAssigned(asset_id=asset.id, occurred_at=occasion.now, model_id=self.model_id)]


class AssetWithController(Value):
    """An asset, and the one that is to drive it."""

    asset: Asset
    controller: Asset | None


@assets.operation("POST /assets/{asset_id}/assign-controller")
class AssignAssetController(Command[AssetWithController]):
    """Say which asset drives this one; null takes it back."""

    asset_id: UUID
    controller_id: UUID | None = None

    async def gather(self, world: World) -> AssetWithController:
        asset = await world.load(assets, self.asset_id)
        controller = None if self.controller_id is None else await world.load(assets, self.controller_id)
        return AssetWithController(asset=asset, controller=controller)

    def decide(self, seen: AssetWithController, occasion: Occasion) -> list[AssetControllerAssigned]:
        asset = seen.asset
        check_in_use(asset, AssetCannotAssignControllerError)
        if self.controller_id == asset.controller_id:
            return []
        if self.controller_id == asset.id:
            raise AssetControllerSelfError("Choose another asset as controller.", asset_id=str(asset.id))
        check_controller(seen.controller)
        return [
            AssetControllerAssigned(
                asset_id=asset.id, occurred_at=occasion.now, controller_id=self.controller_id
            )
        ]


@assets.operation("POST /assets/{asset_id}/owners/add")
class AddAssetOwner(Command[Asset]):
    """Add an organisation to the owners of an asset."""

    asset_id: UUID
    owner: AssetOwner

    async def gather(self, world: World) -> Asset:
        asset = await world.load(assets, self.asset_id)
        if self.owner.contact_actor_id is not None:
            await world.load(actors, self.owner.contact_actor_id)
        return asset

    def decide(self, asset: Asset, occasion: Occasion) -> AssetOwnerAdded:
        *others, owner = checked_owners([*asset.owners, self.owner])
        check_in_use(asset, AssetCannotAddOwnerError)
        check_owners_distinct([*others, owner])
        return AssetOwnerAdded(asset_id=asset.id, occurred_at=occasion.now, owner=owner)


def check_has_family(asset_id: UUID, family_ids: Collection[UUID]) -> None:
    """Gate: what is in service is of some family."""
    if not family_ids:
        raise AssetFamilyRequiredError("Add a family to the asset first.", asset_id=str(asset_id))


def check_model_covered(model: Model | None, asset: Asset) -> None:
    """Gate: an asset in service has every family that its model declares."""
    missing = frozenset[UUID]() if model is None else model.declared_family_ids - asset.family_ids
    if model is not None and missing:
        raise AssetModelMismatchError(
            f"Model {model.name} declares families that the asset lacks; add them first.",
            asset_id=str(asset.id),
            model_id=str(model.id),
            missing_family_ids=sorted(str(family_id) for family_id in missing),
        )


def check_controller(controller: Asset | None) -> None:
    """Gate: what drives an asset is in use."""
    if controller is not None and controller.decommissioned:
        raise AssetControllerDecommissionedError(
            f"{controller.name} is decommissioned; choose another controller.",
            controller_id=str(controller.id),
        )
