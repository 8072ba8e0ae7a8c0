"""Decommissioning a frame: only one that nothing is placed in any more."""

from collections.abc import Sequence
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .frame import LIFECYCLE, Frame, FrameDecommissioned, FrameStatus, InvalidFrameReasonError, frames
from .mount import Mount, MountStatus, mounts


class FrameInUseError(ConflictError):
    """An active frame or mount is placed in the frame."""


class FrameInUse(Value):
    """A frame, and the frames and mounts that are placed in it."""

    frame: Frame
    children: tuple[Frame, ...] = ()
    mounts: tuple[Mount, ...] = ()


@frames.operation("POST /frames/{frame_id}/decommission")
class DecommissionFrame(Command[FrameInUse]):
    """Take a frame out of use for good, once nothing is placed in it."""

    frame_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> FrameInUse:
        frame = await world.load(frames, self.frame_id)
        children = await world.find(frames, parent_id=frame.id, status=FrameStatus.ACTIVE)
        placed = await world.find(mounts, frame_id=frame.id, status=MountStatus.ACTIVE)
        return FrameInUse(frame=frame, children=tuple(children), mounts=tuple(placed))

    def decide(self, used: FrameInUse, occasion: Occasion) -> FrameDecommissioned:
        reason, frame = text.reason(self.reason, InvalidFrameReasonError), used.frame
        LIFECYCLE.check(FrameDecommissioned, frame.status, frame.id)
        check_unused(frame, used.children, used.mounts)
        return FrameDecommissioned(frame_id=frame.id, occurred_at=occasion.now, reason=reason)


def check_unused(frame: Frame, children: Sequence[Frame], placed: Sequence[Mount]) -> None:
    """Gate: what is placed in the frame would lose its place."""
    frame_ids = sorted(str(child.id) for child in children if child.status is FrameStatus.ACTIVE)
    mount_ids = sorted(str(mount.id) for mount in placed if mount.status is MountStatus.ACTIVE)
    if frame_ids or mount_ids:
        raise FrameInUseError(
            "Decommission the frames and mounts that are placed in it, or move the mounts, first.",
            frame_id=str(frame.id),
            frame_ids=frame_ids,
            mount_ids=mount_ids,
        )
