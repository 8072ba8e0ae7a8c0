"""Mount: a named bay that holds at most one asset."""

from collections.abc import Sequence
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, replace

from .values import Drawing, Placement, Survey


class MountStatus(StrEnum):
    ACTIVE = "Active"
    DECOMMISSIONED = "Decommissioned"


class MountNotFoundError(NotFoundError):
    """There is no such mount."""


class InvalidSlotCodeError(InvalidError):
    """The mount's slot code is blank or too long."""


class InvalidMountReasonError(InvalidError):
    """The reason is blank or too long."""


class MountAlreadyExistsError(ConflictError):
    """Another mount of the facility that is not decommissioned has this slot code."""


class MountCannotUpdatePlacementError(CannotTransitionError):
    """A decommissioned mount is not placed any more."""


class MountCannotInstallError(CannotTransitionError):
    """A decommissioned mount takes no asset."""


class MountCannotUninstallError(CannotTransitionError):
    """A decommissioned mount holds no asset."""


class MountCannotDecommissionError(CannotTransitionError):
    """The mount is decommissioned already."""


class MountHasAssetInstalledError(ConflictError):
    """An asset is installed in the mount."""


class MountHasActiveChildrenError(ConflictError):
    """Mounts within this one are still active."""


class MountFact(Event):
    mount_id: UUID


class MountRegistered(MountFact):
    slot_code: str
    facility_code: str
    parent_id: UUID | None
    placement: Placement
    drawing: Drawing | None


class MountPlacementUpdated(MountFact):
    placement: Placement
    survey: Survey | None


class MountAssetInstalled(MountFact):
    asset_id: UUID


class MountAssetUninstalled(MountFact):
    asset_id: UUID
    reason: str


class MountDecommissioned(MountFact):
    reason: str


type MountEvent = (
    MountRegistered
    | MountPlacementUpdated
    | MountAssetInstalled
    | MountAssetUninstalled
    | MountDecommissioned
)

LIFECYCLE = StateMachine[MountStatus](
    {
        MountPlacementUpdated: move(
            {MountStatus.ACTIVE}, MountStatus.ACTIVE, MountCannotUpdatePlacementError
        ),
        MountAssetInstalled: move({MountStatus.ACTIVE}, MountStatus.ACTIVE, MountCannotInstallError),
        MountAssetUninstalled: move({MountStatus.ACTIVE}, MountStatus.ACTIVE, MountCannotUninstallError),
        MountDecommissioned: move(
            {MountStatus.ACTIVE}, MountStatus.DECOMMISSIONED, MountCannotDecommissionError
        ),
    }
)


class Mount(Value):
    id: UUID
    slot_code: str
    facility_code: str
    parent_id: UUID | None
    placement: Placement
    drawing: Drawing | None
    installed_asset_id: UUID | None = None
    status: MountStatus = MountStatus.ACTIVE


def evolve(mount: Mount | None, event: MountEvent) -> Mount:
    match event:
        case MountRegistered():
            return Mount(
                id=event.mount_id,
                slot_code=event.slot_code,
                facility_code=event.facility_code,
                parent_id=event.parent_id,
                placement=event.placement,
                drawing=event.drawing,
            )
        case _ if mount is None:
            raise ValueError(event)
        case MountPlacementUpdated():
            return replace(mount, placement=event.placement)
        case MountAssetInstalled():
            return replace(mount, installed_asset_id=event.asset_id)
        case MountAssetUninstalled():
            return replace(mount, installed_asset_id=None)
        case MountDecommissioned():
            return replace(mount, status=LIFECYCLE.after(event))
        case _:
            assert_never(event)


def claims(mount: Mount) -> list[Claim]:
    """A slot code is taken within its facility while its mount is active."""
    if mount.status is MountStatus.DECOMMISSIONED:
        return []
    key = f"{mount.facility_code}/{mount.slot_code}"
    return [Claim(kind="mount-slot", key=key, taken=MountAlreadyExistsError)]


mounts = Aggregate[Mount, MountEvent](
    "Mount",
    events=MountEvent,
    evolve=evolve,
    missing=MountNotFoundError,
    belongs=lambda mount: Belonging(facility_code=mount.facility_code),
    claims=claims,
)
mounts.reads(
    "/mounts",
    filters=(
        "facility_code",
        "status",
        "parent_id",
        Filter(name="frame_id", type=UUID, of=lambda mount: mount.placement.parent_frame_id),
        Filter(name="occupied", type=bool, of=lambda mount: mount.installed_asset_id is not None),
    ),
    sorts=("slot_code", "created_at"),
    text=("slot_code",),
)


class MountInUse(Value):
    """A mount and the mounts within it."""

    mount: Mount
    children: tuple[Mount, ...] = ()


@mounts.operation("POST /mounts/{mount_id}/decommission")
class DecommissionMount(Command[MountInUse]):
    """Take an empty mount out of use for good; its slot code becomes free."""

    mount_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> MountInUse:
        mount = await world.load(mounts, self.mount_id)
        children = await world.find(mounts, parent_id=mount.id, status=MountStatus.ACTIVE)
        return MountInUse(mount=mount, children=tuple(children))

    def decide(self, used: MountInUse, occasion: Occasion) -> MountDecommissioned:
        reason, mount = text.reason(self.reason, InvalidMountReasonError), used.mount
        LIFECYCLE.check(MountDecommissioned, mount.status, mount.id)
        check_empty(mount)
        check_no_active_children(mount, used.children)
        return MountDecommissioned(mount_id=mount.id, occurred_at=occasion.now, reason=reason)


def check_empty(mount: Mount) -> None:
    """Gate: nothing may be left in the bay."""
    if mount.installed_asset_id is not None:
        raise MountHasAssetInstalledError(
            "Uninstall the asset first.", mount_id=str(mount.id), asset_id=str(mount.installed_asset_id)
        )


def check_no_active_children(mount: Mount, children: Sequence[Mount]) -> None:
    """Gate: no bay within this one may be in use."""
    active = [child for child in children if child.status is MountStatus.ACTIVE]
    if active:
        raise MountHasActiveChildrenError(
            f"Decommission the mounts within it first: {', '.join(sorted(each.slot_code for each in active))}.",
            mount_id=str(mount.id),
            mount_ids=sorted(str(each.id) for each in active),
        )
