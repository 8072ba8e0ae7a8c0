"""Giving a virtual axis its partition rule, whose calibration must be there and usable."""

from typing import Any
from uuid import UUID

from beamwright.kernel.errors import CannotTransitionError, ConflictError, NotFoundError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value
from beamwright.kernel.wellknown import PSEUDO_AXIS_FAMILY

from .asset import Asset, AssetPartitionRuleUpdated, assets, check_in_use
from .partition_rule import LookupTableRule, PartitionRule, checked_rule


class PartitionCalibrationNotFoundError(NotFoundError):
    """There is no such calibration, or it has no such revision."""


class PartitionCalibrationNotUsableError(ConflictError):
    """The revision is withdrawn, or its quantity is no table to look values up in."""


class AssetCannotUpdatePartitionRuleError(CannotTransitionError):
    """A decommissioned asset keeps its partition rule."""


class AssetPseudoAxisFamilyRequiredError(ConflictError):
    """Only an asset of the family PseudoAxis has a partition rule."""


class PartitionCurve(Value):
    """What a lookup table depends on, as another context says."""

    withdrawn: bool
    has_lookup: bool


class AssetToPartition(Value):
    """An asset, and the curve that its rule is to look values up in."""

    asset: Asset
    curve: PartitionCurve | None = None


@assets.operation("POST /assets/{asset_id}/update-partition-rule")
class UpdateAssetPartitionRule(Command[AssetToPartition]):
    """Say how a virtual axis maps its value to the axes it is made of; null takes the rule back."""

    asset_id: UUID
    partition_rule: PartitionRule | None = None

    async def gather(self, world: World) -> AssetToPartition:
        asset, rule = await world.load(assets, self.asset_id), self.partition_rule
        curve = await find_curve(world, rule) if isinstance(rule, LookupTableRule) else None
        return AssetToPartition(asset=asset, curve=curve)

    def decide(self, seen: AssetToPartition, occasion: Occasion) -> list[AssetPartitionRuleUpdated]:
        asset, rule = seen.asset, self.partition_rule
        rule = None if rule is None else checked_rule(rule)
        check_in_use(asset, AssetCannotUpdatePartitionRuleError)
        if rule == asset.partition_rule:
            return []
        if rule is not None:
            check_pseudo_axis(asset)
            check_curve(seen.curve)
        return [AssetPartitionRuleUpdated(asset_id=asset.id, occurred_at=occasion.now, partition_rule=rule)]


async def find_curve(world: World, rule: LookupTableRule) -> PartitionCurve:
    """The revision that a rule names. Calibrations belong to a context that imports this one."""
    for calibration in await world.look_up("Calibration", ids=[rule.calibration_id]) or ():
        for revision in calibration.revisions:
            if revision.revision_id == rule.calibration_revision_id:
                quantities = await world.look_up("CalibrationQuantity", ids=[calibration.quantity_id]) or ()
                return PartitionCurve(withdrawn=is_withdrawn(revision), has_lookup=has_lookup(quantities))
    raise PartitionCalibrationNotFoundError(
        "There is no such calibration, or it has no such revision.",
        calibration_id=str(rule.calibration_id),
        calibration_revision_id=str(rule.calibration_revision_id),
    )


def is_withdrawn(revision: Any) -> bool:
    return revision.status == "Withdrawn"


def has_lookup(quantities: Any) -> bool:
    return any(quantity.lookup is not None for quantity in quantities)


def check_pseudo_axis(asset: Asset) -> None:
    """Gate: real devices are not made of others."""
    if PSEUDO_AXIS_FAMILY not in asset.family_ids:
        raise AssetPseudoAxisFamilyRequiredError(
            "Add the family PseudoAxis to the asset first.",
            asset_id=str(asset.id),
            family_id=str(PSEUDO_AXIS_FAMILY),
        )


def check_curve(curve: PartitionCurve | None) -> None:
    """Gate: a lookup needs a table that stands."""
    if curve is None:
        return
    if curve.withdrawn:
        raise PartitionCalibrationNotUsableError("The calibration revision is withdrawn; choose another.")
    if not curve.has_lookup:
        raise PartitionCalibrationNotUsableError(
            "The calibrated quantity has no lookup; choose a calibration of a table-like quantity."
        )
