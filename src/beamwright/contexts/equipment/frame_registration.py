"""Registering a frame: its facility, its parent and the frame it supersedes must exist and agree."""

from uuid import UUID

from beamwright.contexts.federation.coverage import check_bindable, load_facility
from beamwright.contexts.federation.facility import Facility, FacilityCode
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .frame import (
    Frame,
    FrameRegistered,
    FrameRevision,
    FrameStatus,
    InvalidFrameNameError,
    InvalidFrameRevisionError,
    check_placed_in,
    frames,
)
from .values import EquipmentFacilityNotActiveError, Placement, checked_placement


class FrameParentDecommissionedError(ConflictError):
    """The parent frame is decommissioned."""


class FrameFacilityMismatchError(ConflictError):
    """The parent or the predecessor belongs to another facility."""


class FrameSurroundings(Value):
    """The facility of a new frame, the frame it is placed in and the one it supersedes."""

    facility: Facility
    parent: Frame | None = None
    predecessor: Frame | None = None


@frames.operation("POST /frames", creates=True)
class RegisterFrame(Command[FrameSurroundings]):
    """Register a coordinate frame: a root of its facility, or one placed in another frame."""

    name: text.Name
    facility_code: FacilityCode
    parent_id: UUID | None = None
    placement: Placement | None = None
    supersedes: FrameRevision | None = None

    async def gather(self, world: World) -> FrameSurroundings:
        facility = await load_facility(world, self.facility_code)
        parent = None if self.parent_id is None else await world.load(frames, self.parent_id)
        predecessor = (
            None
            if self.supersedes is None
            else await world.load(frames, self.supersedes.predecessor_frame_id)
        )
        return FrameSurroundings(facility=facility, parent=parent, predecessor=predecessor)

    def decide(self, around: FrameSurroundings, occasion: Occasion) -> FrameRegistered:
        name = text.name(self.name, InvalidFrameNameError)
        placement = None if self.placement is None else checked_placement(self.placement)
        if self.supersedes is not None:
            checked_placement(self.supersedes.transform_from_predecessor)
        check_placed_in(self.parent_id, placement)
        check_revision(self.supersedes)
        check_bindable(around.facility, EquipmentFacilityNotActiveError)
        check_parent_active(around.parent)
        for other in (around.parent, around.predecessor):
            check_same_facility(around.facility, other)
        return FrameRegistered(
            frame_id=occasion.new_id,
            occurred_at=occasion.now,
            name=name,
            facility_code=around.facility.code,
            parent_id=self.parent_id,
            placement=placement,
            supersedes=self.supersedes,
        )


def check_revision(revision: FrameRevision | None) -> None:
    """Gate: the way from the predecessor begins at the predecessor."""
    if revision is None:
        return
    begins_at = revision.transform_from_predecessor.parent_frame_id
    if begins_at != revision.predecessor_frame_id:
        raise InvalidFrameRevisionError(
            "The transform's parent_frame_id must be the predecessor.",
            predecessor_frame_id=str(revision.predecessor_frame_id),
            parent_frame_id=str(begins_at),
        )


def check_parent_active(parent: Frame | None) -> None:
    """Gate: nothing is placed in a frame that is out of use."""
    if parent is not None and parent.status is FrameStatus.DECOMMISSIONED:
        raise FrameParentDecommissionedError(
            f"Frame {parent.name} is decommissioned; choose an Active parent.", parent_id=str(parent.id)
        )


def check_same_facility(facility: Facility, other: Frame | None) -> None:
    """Gate: a tree of frames stays within one facility."""
    if other is not None and other.facility_code != facility.code:
        raise FrameFacilityMismatchError(
            f"Frame {other.name} belongs to {other.facility_code}, not to {facility.code}.",
            frame_id=str(other.id),
            facility_code=other.facility_code,
            expected=facility.code,
        )
