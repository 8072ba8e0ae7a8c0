"""Installing an asset in a mount and taking it out: the bay and the asset say the same, in one append."""

from uuid import UUID

from beamwright.contexts.federation.coverage import related
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .asset import Asset, AssetInstalledInMount, AssetLifecycle, AssetUninstalledFromMount, assets
from .mount import (
    LIFECYCLE,
    InvalidMountReasonError,
    Mount,
    MountAssetInstalled,
    MountAssetUninstalled,
    mounts,
)


class MountAlreadyOccupiedError(ConflictError):
    """An asset is installed in the mount already."""


class AssetNotInstallableError(ConflictError):
    """Only an active asset is installed."""


class AssetAlreadyInstalledElsewhereError(ConflictError):
    """The asset is installed in another mount."""


class MountAssetFacilityMismatchError(ConflictError):
    """Neither of the facilities of mount and asset covers the other."""


class MountIsEmptyError(ConflictError):
    """No asset is installed in the mount."""


class MountHasFixtureBoundAssetError(ConflictError):
    """The installed asset is part of a fixture."""


class AssetBeforeMount(Value):
    """A mount, the asset that is to go in, and whether their facilities are related."""

    mount: Mount
    asset: Asset
    related: bool


@mounts.operation("POST /mounts/{mount_id}/install")
class InstallAsset(Command[AssetBeforeMount]):
    """Install an active asset in an empty mount."""

    mount_id: UUID
    asset_id: UUID

    async def gather(self, world: World) -> AssetBeforeMount:
        mount = await world.load(mounts, self.mount_id)
        asset = await world.load(assets, self.asset_id)
        near = await related(world, mount.facility_code, asset.scope_facility_code)
        return AssetBeforeMount(mount=mount, asset=asset, related=near)

    def decide(
        self, seen: AssetBeforeMount, occasion: Occasion
    ) -> list[MountAssetInstalled | AssetInstalledInMount]:
        mount, asset = seen.mount, seen.asset
        LIFECYCLE.check(MountAssetInstalled, mount.status, mount.id)
        check_vacant(mount)
        check_installable(asset)
        check_not_elsewhere(asset)
        if not seen.related:
            raise MountAssetFacilityMismatchError(
                f"The mount belongs to {mount.facility_code} and the asset to {asset.scope_facility_code}.",
                mount_facility_code=mount.facility_code,
                asset_facility_code=asset.scope_facility_code,
            )
        return [
            MountAssetInstalled(mount_id=mount.id, occurred_at=occasion.now, asset_id=asset.id),
            AssetInstalledInMount(asset_id=asset.id, occurred_at=occasion.now, mount_id=mount.id),
        ]


class AssetInMount(Value):
    """A mount and what is installed in it."""

    mount: Mount
    asset: Asset | None = None


@mounts.operation("POST /mounts/{mount_id}/uninstall")
class UninstallAsset(Command[AssetInMount]):
    """Take the asset out of a mount."""

    mount_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> AssetInMount:
        mount = await world.load(mounts, self.mount_id)
        if mount.installed_asset_id is None:
            return AssetInMount(mount=mount)
        return AssetInMount(mount=mount, asset=await world.load(assets, mount.installed_asset_id))

    def decide(
        self, seen: AssetInMount, occasion: Occasion
    ) -> list[MountAssetUninstalled | AssetUninstalledFromMount]:
        reason, mount, asset = text.reason(self.reason, InvalidMountReasonError), seen.mount, seen.asset
        LIFECYCLE.check(MountAssetUninstalled, mount.status, mount.id)
        if asset is None:
            raise MountIsEmptyError("There is no asset in the mount.", mount_id=str(mount.id))
        if asset.fixture_id is not None:
            raise MountHasFixtureBoundAssetError(
                "Retire the fixture that the asset is part of first.",
                asset_id=str(asset.id),
                fixture_id=str(asset.fixture_id),
            )
        return [
            MountAssetUninstalled(
                mount_id=mount.id, occurred_at=occasion.now, asset_id=asset.id, reason=reason
            ),
            AssetUninstalledFromMount(asset_id=asset.id, occurred_at=occasion.now, mount_id=mount.id),
        ]


def check_vacant(mount: Mount) -> None:
    """Gate: a bay holds one asset."""
    if mount.installed_asset_id is not None:
        raise MountAlreadyOccupiedError(
            "Uninstall the asset that is in the mount first.",
            mount_id=str(mount.id),
            asset_id=str(mount.installed_asset_id),
        )


def check_installable(asset: Asset) -> None:
    """Gate: only what is in use goes into a bay."""
    if asset.lifecycle is not AssetLifecycle.ACTIVE:
        raise AssetNotInstallableError(
            f"Asset {asset.name} is {asset.lifecycle}; only an Active asset is installed.",
            asset_id=str(asset.id),
            lifecycle=asset.lifecycle,
        )


def check_not_elsewhere(asset: Asset) -> None:
    """Gate: an asset is in one bay at a time."""
    if asset.mount_id is not None:
        raise AssetAlreadyInstalledElsewhereError(
            f"Asset {asset.name} is installed in another mount; uninstall it there first.",
            asset_id=str(asset.id),
            mount_id=str(asset.mount_id),
        )
