"""Registering and placing mounts: the facility, the parent and the frame must exist and agree."""

from uuid import UUID

from beamwright.contexts.federation.coverage import check_bindable, load_facility
from beamwright.contexts.federation.facility import Facility, FacilityCode
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .frame import Frame, FrameStatus, frames
from .mount import (
    LIFECYCLE,
    InvalidSlotCodeError,
    Mount,
    MountPlacementUpdated,
    MountRegistered,
    MountStatus,
    mounts,
)
from .values import (
    Drawing,
    EquipmentFacilityNotActiveError,
    Placement,
    Survey,
    checked_drawing,
    checked_placement,
    checked_survey,
)


class MountParentDecommissionedError(ConflictError):
    """The parent mount is decommissioned."""


class MountFrameDecommissionedError(ConflictError):
    """The frame that the mount is placed in is decommissioned."""


class MountFacilityMismatchError(ConflictError):
    """The parent mount or the frame belongs to another facility."""


class MountSurroundings(Value):
    """The facility of a new mount, the mount it is within and the frame it is placed in."""

    facility: Facility
    frame: Frame
    parent: Mount | None = None


@mounts.operation("POST /mounts", creates=True)
class RegisterMount(Command[MountSurroundings]):
    """Register a named bay of a facility, placed in one of its frames."""

    slot_code: text.Name
    facility_code: FacilityCode
    parent_id: UUID | None = None
    placement: Placement
    drawing: Drawing | None = None

    async def gather(self, world: World) -> MountSurroundings:
        facility = await load_facility(world, self.facility_code)
        parent = None if self.parent_id is None else await world.load(mounts, self.parent_id)
        frame = await world.load(frames, self.placement.parent_frame_id)
        return MountSurroundings(facility=facility, parent=parent, frame=frame)

    def decide(self, around: MountSurroundings, occasion: Occasion) -> MountRegistered:
        slot_code = text.trimmed(self.slot_code, 200, InvalidSlotCodeError, "slot code")
        placement = checked_placement(self.placement)
        drawing = checked_drawing(self.drawing)
        facility_code = around.facility.code
        check_bindable(around.facility, EquipmentFacilityNotActiveError)
        check_parent_active(around.parent)
        check_frame_active(around.frame)
        if around.parent is not None:
            check_same_facility(facility_code, around.parent.facility_code)
        check_same_facility(facility_code, around.frame.facility_code)
        return MountRegistered(
            mount_id=occasion.new_id,
            occurred_at=occasion.now,
            slot_code=slot_code,
            facility_code=facility_code,
            parent_id=self.parent_id,
            placement=placement,
            drawing=drawing,
        )


class MountInFrame(Value):
    """A mount and the frame it is to be placed in."""

    mount: Mount
    frame: Frame


@mounts.operation("POST /mounts/{mount_id}/update-placement")
class UpdateMountPlacement(Command[MountInFrame]):
    """Correct where a mount lies, also in another frame of its facility, with the survey that measured it."""

    mount_id: UUID
    placement: Placement
    survey: Survey | None = None

    async def gather(self, world: World) -> MountInFrame:
        mount = await world.load(mounts, self.mount_id)
        return MountInFrame(mount=mount, frame=await world.load(frames, self.placement.parent_frame_id))

    def decide(self, seen: MountInFrame, occasion: Occasion) -> list[MountPlacementUpdated]:
        placement, survey, mount = checked_placement(self.placement), checked_survey(self.survey), seen.mount
        LIFECYCLE.check(MountPlacementUpdated, mount.status, mount.id)
        check_frame_active(seen.frame)
        check_same_facility(mount.facility_code, seen.frame.facility_code)
        # A survey that confirms the placement is a fact of its own.
        if survey is None and placement == mount.placement:
            return []
        return [
            MountPlacementUpdated(
                mount_id=mount.id, occurred_at=occasion.now, placement=placement, survey=survey
            )
        ]


def check_parent_active(parent: Mount | None) -> None:
    """Gate: no bay is added within one that is out of use."""
    if parent is not None and parent.status is MountStatus.DECOMMISSIONED:
        raise MountParentDecommissionedError(
            f"Mount {parent.slot_code} is decommissioned; choose an Active parent.", parent_id=str(parent.id)
        )


def check_frame_active(frame: Frame) -> None:
    """Gate: nothing is placed in a frame that is out of use."""
    if frame.status is FrameStatus.DECOMMISSIONED:
        raise MountFrameDecommissionedError(
            f"Frame {frame.name} is decommissioned; choose an Active one.", frame_id=str(frame.id)
        )


def check_same_facility(facility_code: str, other: str) -> None:
    """Gate: a bay, what it is within and what it is placed in are of one facility."""
    if other != facility_code:
        raise MountFacilityMismatchError(
            f"The mount's parent and frame must belong to {facility_code}, not to {other}.",
            facility_code=other,
            expected=facility_code,
        )
