"""The moves an asset makes by itself: its name, its maintenance, and how well it works."""

from beamwright.kernel import text
from beamwright.kernel.errors import CannotTransitionError
from beamwright.kernel.operation import Occasion

from .asset import (
    CONDITIONS,
    LIFECYCLE,
    Asset,
    AssetCommand,
    AssetDegraded,
    AssetFaulted,
    AssetMaintenanceEntered,
    AssetMaintenanceExited,
    AssetName,
    AssetRenamed,
    AssetRestored,
    InvalidAssetNameError,
    InvalidAssetReasonError,
    assets,
    check_in_use,
)


class AssetCannotRenameError(CannotTransitionError):
    """A decommissioned asset keeps its name."""


class AssetCannotDegradeError(CannotTransitionError):
    """A decommissioned asset keeps its condition."""


class AssetCannotFaultError(CannotTransitionError):
    """A decommissioned asset keeps its condition."""


class AssetCannotRestoreError(CannotTransitionError):
    """A decommissioned asset keeps its condition."""


@assets.operation("POST /assets/{asset_id}/rename")
class RenameAsset(AssetCommand):
    """Rename an asset after its role."""

    name: AssetName

    def decide(self, asset: Asset, occasion: Occasion) -> list[AssetRenamed]:
        name = text.name(self.name, InvalidAssetNameError)
        check_in_use(asset, AssetCannotRenameError)
        if name == asset.name:
            return []
        return [AssetRenamed(asset_id=asset.id, occurred_at=occasion.now, name=name)]


@assets.operation("POST /assets/{asset_id}/enter-maintenance")
class EnterAssetMaintenance(AssetCommand):
    """Take an active asset out of work for maintenance."""

    reason: text.Reason

    def decide(self, asset: Asset, occasion: Occasion) -> AssetMaintenanceEntered:
        reason = text.reason(self.reason, InvalidAssetReasonError)
        LIFECYCLE.check(AssetMaintenanceEntered, asset.lifecycle, asset.id)
        return AssetMaintenanceEntered(asset_id=asset.id, occurred_at=occasion.now, reason=reason)


@assets.operation("POST /assets/{asset_id}/exit-maintenance")
class ExitAssetMaintenance(AssetCommand):
    """Give an asset back to work after maintenance."""

    def decide(self, asset: Asset, occasion: Occasion) -> AssetMaintenanceExited:
        LIFECYCLE.check(AssetMaintenanceExited, asset.lifecycle, asset.id)
        return AssetMaintenanceExited(asset_id=asset.id, occurred_at=occasion.now)


class AssetConditionCommand(AssetCommand):
    """Says how well an asset works; saying the same again changes nothing, another reason is kept."""

    reason: text.Reason

    def conclude[E: (AssetDegraded, AssetFaulted, AssetRestored)](
        self, event: type[E], refusal: type[CannotTransitionError], asset: Asset, occasion: Occasion
    ) -> list[E]:
        reason = text.reason(self.reason, InvalidAssetReasonError)
        check_in_use(asset, refusal)
        if (asset.condition, asset.condition_reason) == (CONDITIONS[event], reason):
            return []
        return [
            event(asset_id=asset.id, occurred_at=occasion.now, from_condition=asset.condition, reason=reason)
        ]


@assets.operation("POST /assets/{asset_id}/degrade")
class DegradeAsset(AssetConditionCommand):
    """Record that an asset works, but not as it should."""

    def decide(self, asset: Asset, occasion: Occasion) -> list[AssetDegraded]:
        return self.conclude(AssetDegraded, AssetCannotDegradeError, asset, occasion)


@assets.operation("POST /assets/{asset_id}/fault")
class FaultAsset(AssetConditionCommand):
    """Record that an asset does not work."""

    def decide(self, asset: Asset, occasion: Occasion) -> list[AssetFaulted]:
        return self.conclude(AssetFaulted, AssetCannotFaultError, asset, occasion)


@assets.operation("POST /assets/{asset_id}/restore")
class RestoreAsset(AssetConditionCommand):
    """Record that an asset works as it should again."""

    def decide(self, asset: Asset, occasion: Occasion) -> list[AssetRestored]:
        return self.conclude(AssetRestored, AssetCannotRestoreError, asset, occasion)
