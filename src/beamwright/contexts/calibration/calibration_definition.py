"""Defining calibrations: of an asset's quantity at one operating point."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec

from beamwright.contexts.equipment.asset import Asset, assets
from beamwright.kernel import text
from beamwright.kernel.declared_schema import Schema
from beamwright.kernel.declared_values import violations
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .calibration import (
    IDENTITY_CLAIM,
    Calibration,
    CalibrationDefined,
    CalibrationIdentityAlreadyExistsError,
    CalibrationNotFoundError,
    InvalidCalibrationDescriptionError,
    calibrations,
    identity_key,
)
from .quantity import (
    CODE_CLAIM,
    CalibrationQuantity,
    CalibrationQuantityStatus,
    QuantityCode,
    calibration_quantities,
)


class InvalidCalibrationOperatingPointError(InvalidError):
    """The operating point does not meet the quantity's schema."""


class CalibrationQuantityDeprecatedError(ConflictError):
    """The quantity is deprecated."""


class CalibrationTargetDecommissionedError(ConflictError):
    """The asset is decommissioned."""


class CalibrationTarget(Value):
    """What is to be calibrated, and the calibration that has its identity, as far as the caller may know."""

    asset: Asset
    quantity: CalibrationQuantity
    holder: Calibration | None = None


@calibrations.operation("POST /calibrations", creates=True)
class DefineCalibration(Command[CalibrationTarget]):
    """Define a calibration: a quantity of an asset at an operating point, whose values are appended as revisions."""

    target_id: UUID
    quantity: QuantityCode
    operating_point: dict[str, Any]
    description: text.Description | None = None

    async def gather(self, world: World) -> CalibrationTarget:
        asset = await world.load(assets, self.target_id)
        quantity = await load_quantity(world, self.quantity)
        check_meets(
            quantity.operating_point_schema, self.operating_point, InvalidCalibrationOperatingPointError
        )
        key = identity_key(asset.id, quantity.code, self.operating_point)
        return CalibrationTarget(asset=asset, quantity=quantity, holder=await holder(world, key))

    def decide(self, target: CalibrationTarget, occasion: Occasion) -> CalibrationDefined:
        asset, quantity = target.asset, target.quantity
        check_meets(
            quantity.operating_point_schema, self.operating_point, InvalidCalibrationOperatingPointError
        )
        description = text.description(self.description, InvalidCalibrationDescriptionError)
        check_definable(target)
        return CalibrationDefined(
            calibration_id=occasion.new_id,
            occurred_at=occasion.now,
            target_id=asset.id,
            facility_code=asset.scope_facility_code,
            quantity=quantity.code,
            quantity_id=quantity.id,
            operating_point=self.operating_point,
            description=description,
            defined_by=occasion.principal_id,
        )


async def load_quantity(world: World, code: str) -> CalibrationQuantity:
    return await world.load_claimed(calibration_quantities, CODE_CLAIM, code.strip())


async def holder(world: World, identity: str) -> Calibration | None:
    """The calibration of an identity; one outside the caller's reach is refused by its claim, unnamed."""
    try:
        return await world.load_claimed(calibrations, IDENTITY_CLAIM, identity)
    except CalibrationNotFoundError:
        return None


def check_meets(schema: Schema, values: Mapping[str, Any], refusal: type[InvalidError]) -> None:
    """The values as a whole, empty ones included, meet their schema."""
    if broken := violations(schema, values):
        raise refusal(broken[0].sentence(), violations=msgspec.to_builtins(broken))


def check_definable(target: CalibrationTarget) -> None:
    """Gate: the quantity and the asset are in use, and the identity is free."""
    asset, quantity = target.asset, target.quantity
    if quantity.status is CalibrationQuantityStatus.DEPRECATED:
        raise CalibrationQuantityDeprecatedError(
            f"{quantity.code} is Deprecated; choose another quantity.", quantity=quantity.code
        )
    if asset.decommissioned:
        raise CalibrationTargetDecommissionedError(
            f"{asset.name} is Decommissioned and is calibrated no more.", target_id=str(asset.id)
        )
    if target.holder is not None:
        raise CalibrationIdentityAlreadyExistsError(
            f"{asset.name} has {quantity.code} at this operating point already; append a revision to it.",
            calibration_id=str(target.holder.id),
        )
