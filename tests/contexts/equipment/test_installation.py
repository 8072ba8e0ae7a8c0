"""Installation: an asset is in one bay, a bay holds one asset, and both streams say so."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.asset import (
    Asset,
    AssetActivated,
    AssetAttachedToFixture,
    AssetInstalledInMount,
    AssetMaintenanceEntered,
    AssetRegistered,
    AssetTier,
    AssetUninstalledFromMount,
    assets,
)
from beamwright.contexts.equipment.installation import (
    AssetAlreadyInstalledElsewhereError,
    AssetBeforeMount,
    AssetInMount,
    AssetNotInstallableError,
    InstallAsset,
    MountAlreadyOccupiedError,
    MountAssetFacilityMismatchError,
    MountHasFixtureBoundAssetError,
    MountIsEmptyError,
    UninstallAsset,
)
from beamwright.contexts.equipment.mount import (
    InvalidMountReasonError,
    Mount,
    MountAssetInstalled,
    MountAssetUninstalled,
    MountDecommissioned,
    MountRegistered,
    mounts,
)
from beamwright.contexts.equipment.values import Placement, ReferenceSurface
from beamwright.contexts.federation.facility import Facility, FacilityKind, FacilityRegistered, facilities
from beamwright.kernel.event import Event
from tests.contexts.trust.examples import SmallWorld, check_columns
from tests.rules import NOW, given, outcome

SITE, AREA, AWAY, FRAME, MOUNT, OTHER_MOUNT, CAMERA, FIXTURE = (UUID(int=n) for n in range(501, 509))

PLACEMENT = Placement(
    parent_frame_id=FRAME,
    reference_surface=ReferenceSurface.MOUNTING_FACE,
    x=0,
    y=0,
    z=0,
    rx=0,
    ry=0,
    rz=0,
    tolerance_x=0,
    tolerance_y=0,
    tolerance_z=0,
    tolerance_rx=0,
    tolerance_ry=0,
    tolerance_rz=0,
)
REGISTERED = MountRegistered(
    mount_id=MOUNT,
    occurred_at=NOW,
    slot_code="A-1",
    facility_code="aps",
    parent_id=None,
    placement=PLACEMENT,
    drawing=None,
)
MOUNT_INSTALLED = MountAssetInstalled(mount_id=MOUNT, occurred_at=NOW, asset_id=CAMERA)
MOUNT_UNINSTALLED = MountAssetUninstalled(mount_id=MOUNT, occurred_at=NOW, asset_id=CAMERA, reason="repair")
MOUNT_DECOMMISSIONED = MountDecommissioned(mount_id=MOUNT, occurred_at=NOW, reason="rebuilt")
ACTIVATED = AssetActivated(asset_id=CAMERA, occurred_at=NOW)
INSTALLED = AssetInstalledInMount(asset_id=CAMERA, occurred_at=NOW, mount_id=MOUNT)
INSTALLED_ELSEWHERE = AssetInstalledInMount(asset_id=CAMERA, occurred_at=NOW, mount_id=OTHER_MOUNT)
UNINSTALLED = AssetUninstalledFromMount(asset_id=CAMERA, occurred_at=NOW, mount_id=MOUNT)
ATTACHED = AssetAttachedToFixture(asset_id=CAMERA, occurred_at=NOW, fixture_id=FIXTURE, slot_name="camera")
MAINTENANCE = AssetMaintenanceEntered(asset_id=CAMERA, occurred_at=NOW, reason="cleaning")


def mount(*events: Event) -> Mount:
    return given(mounts, REGISTERED, *events)


def asset(*events: Event, code: str = "aps") -> Asset:
    first = AssetRegistered(
        asset_id=CAMERA,
        occurred_at=NOW,
        name="Camera",
        tier=AssetTier.DEVICE,
        parent_id=None,
        facility_code=code,
        scope_facility_code=code,
    )
    return given(assets, first, *events)


def facility(id: UUID, code: str, parent_id: UUID | None = None) -> Facility:
    kind = FacilityKind.AREA if parent_id else FacilityKind.SITE
    first = FacilityRegistered(
        facility_id=id, occurred_at=NOW, code=code, display_name=code, kind=kind, parent_id=parent_id
    )
    return given(facilities, first)


INSTALL = InstallAsset(mount_id=MOUNT, asset_id=CAMERA)
UNINSTALL = UninstallAsset(mount_id=MOUNT, reason="repair")


def before(mount: Mount, asset: Asset, *, related: bool = True) -> AssetBeforeMount:
    return AssetBeforeMount(mount=mount, asset=asset, related=related)


def test_install_writes_both_streams() -> None:
    assert outcome(INSTALL, before(mount(), asset(ACTIVATED))) == [MOUNT_INSTALLED, INSTALLED]


def test_uninstall_writes_both_streams() -> None:
    seen = AssetInMount(mount=mount(MOUNT_INSTALLED), asset=asset(ACTIVATED, INSTALLED))
    assert outcome(UNINSTALL, seen) == [MOUNT_UNINSTALLED, UNINSTALLED]


def test_mount_and_asset_name_each_other_while_installed() -> None:
    assert (mount(MOUNT_INSTALLED).installed_asset_id, asset(ACTIVATED, INSTALLED).mount_id) == (
        CAMERA,
        MOUNT,
    )


def test_mount_and_asset_forget_each_other_when_uninstalled() -> None:
    assert mount(MOUNT_INSTALLED, MOUNT_UNINSTALLED).installed_asset_id is None
    assert asset(ACTIVATED, INSTALLED, UNINSTALLED).mount_id is None


@pytest.mark.parametrize(
    ("seen", "refusal"),
    [
        (before(mount(MOUNT_INSTALLED), asset(), related=False), MountAlreadyOccupiedError),
        (before(mount(), asset(), related=False), AssetNotInstallableError),
        (before(mount(), asset(ACTIVATED, MAINTENANCE)), AssetNotInstallableError),
        (
            before(mount(), asset(ACTIVATED, INSTALLED_ELSEWHERE), related=False),
            AssetAlreadyInstalledElsewhereError,
        ),
        (before(mount(), asset(ACTIVATED), related=False), MountAssetFacilityMismatchError),
    ],
)
def test_install_refusals_in_order(seen: AssetBeforeMount, refusal: type) -> None:
    assert outcome(INSTALL, seen) == refusal


@pytest.mark.parametrize(
    ("seen", "refusal"),
    [
        (AssetInMount(mount=mount()), MountIsEmptyError),
        (
            AssetInMount(mount=mount(MOUNT_INSTALLED), asset=asset(ACTIVATED, INSTALLED, ATTACHED)),
            MountHasFixtureBoundAssetError,
        ),
    ],
)
def test_uninstall_refusals(seen: AssetInMount, refusal: type) -> None:
    assert outcome(UNINSTALL, seen) == refusal


def test_uninstall_asks_for_a_reason_first() -> None:
    command = UninstallAsset(mount_id=MOUNT, reason="  ")
    assert outcome(command, AssetInMount(mount=mount(MOUNT_DECOMMISSIONED))) == InvalidMountReasonError


@pytest.mark.parametrize(("code", "near"), [("aps", True), ("aps-32-id", True), ("als", False)])
def test_install_sees_whether_the_facilities_are_related(code: str, near: bool) -> None:
    places = facility(SITE, "aps"), facility(AREA, "aps-32-id", SITE), facility(AWAY, "als")
    world: Any = SmallWorld(*places, mount(), asset(code=code))
    assert asyncio.run(INSTALL.gather(world)) == before(mount(), asset(code=code), related=near)


def test_uninstall_sees_the_installed_asset() -> None:
    world: Any = SmallWorld(mount(MOUNT_INSTALLED), asset())
    assert asyncio.run(UNINSTALL.gather(world)) == AssetInMount(mount=mount(MOUNT_INSTALLED), asset=asset())


GRID = """
                  install   uninstall
Active            Active    Active
Decommissioned    -         -
"""


def test_status_grid() -> None:
    check_columns(
        GRID,
        mounts,
        {"Active": [REGISTERED], "Decommissioned": [REGISTERED, MOUNT_DECOMMISSIONED]},
        {
            "install": (INSTALL, lambda state: before(state, asset(ACTIVATED))),
            "uninstall": (
                UNINSTALL,
                lambda state: AssetInMount(mount=state, asset=asset(ACTIVATED, INSTALLED)),
            ),
        },
    )
