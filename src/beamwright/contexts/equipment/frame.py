"""Frame: a named coordinate frame that other frames and mounts are placed in."""

from enum import StrEnum
from typing import assert_never
from uuid import UUID

from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, Query, World
from beamwright.kernel.value import Value, replace

from .values import Placement, Survey, checked_placement, checked_survey


class FrameStatus(StrEnum):
    ACTIVE = "Active"
    DECOMMISSIONED = "Decommissioned"


class FrameNotFoundError(NotFoundError):
    """There is no such frame."""


class InvalidFrameNameError(InvalidError):
    """The frame's name is blank or too long."""


class InvalidFrameRootError(InvalidError):
    """A root has neither parent nor placement; any other frame has both, and they name the same parent."""


class InvalidFrameRevisionError(InvalidError):
    """The transform from the predecessor is not given in the predecessor's own frame."""


class InvalidFrameReasonError(InvalidError):
    """The reason is blank or too long."""


class FrameCannotSupersedeError(ConflictError):
    """Another frame supersedes this predecessor already."""


class FrameCannotUpdatePlacementError(CannotTransitionError):
    """The frame is decommissioned, or is a root, which is placed in nothing."""


class FrameCannotDecommissionError(CannotTransitionError):
    """The frame is decommissioned already."""


class FrameRevision(Value):
    """The frame that a new one takes over from, and where the new one lies within it."""

    predecessor_frame_id: UUID
    transform_from_predecessor: Placement


class FrameFact(Event):
    frame_id: UUID


class FrameRegistered(FrameFact):
    name: str
    facility_code: str
    parent_id: UUID | None
    placement: Placement | None
    supersedes: FrameRevision | None


class FramePlacementUpdated(FrameFact):
    placement: Placement
    survey: Survey | None


class FrameDecommissioned(FrameFact):
    reason: str


type FrameEvent = FrameRegistered | FramePlacementUpdated | FrameDecommissioned

LIFECYCLE = StateMachine[FrameStatus](
    {
        FramePlacementUpdated: move(
            {FrameStatus.ACTIVE}, FrameStatus.ACTIVE, FrameCannotUpdatePlacementError
        ),
        FrameDecommissioned: move(
            {FrameStatus.ACTIVE}, FrameStatus.DECOMMISSIONED, FrameCannotDecommissionError
        ),
    }
)


class Frame(Value):
    id: UUID
    name: str
    facility_code: str
    parent_id: UUID | None
    placement: Placement | None
    supersedes: FrameRevision | None
    status: FrameStatus = FrameStatus.ACTIVE


def evolve(frame: Frame | None, event: FrameEvent) -> Frame:
    match event:
        case FrameRegistered():
            return Frame(
                id=event.frame_id,
                name=event.name,
                facility_code=event.facility_code,
                parent_id=event.parent_id,
                placement=event.placement,
                supersedes=event.supersedes,
            )
        case _ if frame is None:
            raise ValueError(event)
        case FramePlacementUpdated():
            return replace(frame, placement=event.placement)
        case FrameDecommissioned():
            return replace(frame, status=LIFECYCLE.after(event))
        case _:
            assert_never(event)


def claims(frame: Frame) -> list[Claim]:
    """A frame is superseded once, so coordinates have one way forward."""
    if frame.supersedes is None:
        return []
    predecessor = str(frame.supersedes.predecessor_frame_id)
    return [Claim(kind="frame-successor", key=predecessor, taken=FrameCannotSupersedeError)]


frames = Aggregate[Frame, FrameEvent](
    "Frame",
    events=FrameEvent,
    evolve=evolve,
    missing=FrameNotFoundError,
    belongs=lambda frame: Belonging(facility_code=frame.facility_code),
    claims=claims,
)
frames.reads(
    "/frames",
    filters=("facility_code", "status", "parent_id"),
    sorts=("name", "created_at"),
    text=("name",),
)


@frames.operation("POST /frames/{frame_id}/update-placement")
class UpdateFramePlacement(Command[Frame]):
    """Correct where a frame lies within its parent, with the survey that measured it."""

    frame_id: UUID
    placement: Placement
    survey: Survey | None = None

    async def gather(self, world: World) -> Frame:
        return await world.load(frames, self.frame_id)

    def decide(self, frame: Frame, occasion: Occasion) -> list[FramePlacementUpdated]:
        placement = checked_placement(self.placement)
        survey = checked_survey(self.survey)
        if frame.parent_id is not None:
            check_placed_in(frame.parent_id, placement)
        LIFECYCLE.check(FramePlacementUpdated, frame.status, frame.id)
        if frame.parent_id is None:
            raise FrameCannotUpdatePlacementError(
                "The frame is a root and is placed in nothing; register a frame that supersedes it.",
                frame_id=str(frame.id),
            )
        # A survey that confirms the placement is a fact of its own.
        if survey is None and placement == frame.placement:
            return []
        return [
            FramePlacementUpdated(
                frame_id=frame.id, occurred_at=occasion.now, placement=placement, survey=survey
            )
        ]


def check_placed_in(parent_id: UUID | None, placement: Placement | None) -> None:
    """Gate: a frame is placed in its parent, and a root in nothing."""
    placed_in = None if placement is None else placement.parent_frame_id
    if placed_in != parent_id:
        raise InvalidFrameRootError(
            "Give a parent and a placement in that same parent, or neither for a root.",
            parent_id=None if parent_id is None else str(parent_id),
            parent_frame_id=None if placed_in is None else str(placed_in),
        )


class FrameAncestor(Value):
    """A frame above another, and where it lies within its own parent."""

    frame_id: UUID
    name: str
    parent_id: UUID | None
    placement: Placement | None
    status: FrameStatus


class FrameAncestors(Value):
    """The frames above one, root first, parent last."""

    items: list[FrameAncestor]


@frames.operation("GET /frames/{frame_id}/ancestors")
class ListFrameAncestors(Query[FrameAncestors]):
    """List the frames above a frame with their placements, root first."""

    frame_id: UUID

    async def answer(self, world: World) -> FrameAncestors:
        frame = await world.load(frames, self.frame_id)
        above: list[FrameAncestor] = []
        while frame.parent_id is not None:
            frame = await world.load(frames, frame.parent_id)
            above.append(
                FrameAncestor(
                    frame_id=frame.id,
                    name=frame.name,
                    parent_id=frame.parent_id,
                    placement=frame.placement,
                    status=frame.status,
                )
            )
        return FrameAncestors(items=above[::-1])
