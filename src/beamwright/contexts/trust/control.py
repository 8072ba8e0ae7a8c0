"""Control of a surface: visits take it, hand it over, give it up and seize it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.errors import CannotTransitionError, InvalidError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.roles import VisitStatus
from beamwright.kernel.value import Value, replace

from .surface import (
    ControlBasis,
    ControlReleaseCause,
    Surface,
    SurfaceControlGiven,
    SurfaceControlRefused,
    SurfaceControlReleased,
    SurfaceControlRequested,
    SurfaceControlSeized,
    SurfaceControlTaken,
    SurfaceHolder,
    SurfaceStatus,
    released,
    surfaces,
)
from .visit import InvalidVisitReasonError, Visit, visits

# A visit that is planned, on hold or over has no business at the controls.
ELIGIBLE = frozenset({VisitStatus.ARRIVED, VisitStatus.IN_PROGRESS})


class ControlObstacle(StrEnum):
    """Why a visit cannot do this with control; `context.reason` of the refusal."""

    STATUS_NOT_ELIGIBLE = "StatusNotEligible"
    NOT_PRESENT = "NotPresent"
    SURFACE_RETIRED = "SurfaceRetired"
    ALREADY_HELD = "AlreadyHeld"
    HELD_BY_OTHER = "HeldByOther"
    NOT_HOLDER = "NotHolder"
    NOT_HELD = "NotHeld"
    REQUEST_PENDING = "RequestPending"
    NO_REQUEST = "NoRequest"
    REQUESTER_NOT_ELIGIBLE = "RequesterNotEligible"


ADVICE: Mapping[ControlObstacle, str] = {
    ControlObstacle.STATUS_NOT_ELIGIBLE: "The visit must have arrived or be in progress.",
    ControlObstacle.NOT_PRESENT: "Open your presence in the visit first.",
    ControlObstacle.SURFACE_RETIRED: "The visit's surface is retired.",
    ControlObstacle.ALREADY_HELD: "Control is held already.",
    ControlObstacle.HELD_BY_OTHER: "Another visit holds control; request it and wait for the answer.",
    ControlObstacle.NOT_HOLDER: "The visit does not hold control.",
    ControlObstacle.NOT_HELD: "Nobody holds control; take it.",
    ControlObstacle.REQUEST_PENDING: "Another visit's request is pending; wait until it is settled.",
    ControlObstacle.NO_REQUEST: "No request for control is pending.",
    ControlObstacle.REQUESTER_NOT_ELIGIBLE: "The requesting visit has ended or is on hold.",
}


class VisitCannotTakeControlError(CannotTransitionError):
    """The visit may not take control of its surface now."""


class VisitCannotReleaseControlError(CannotTransitionError):
    """The visit does not hold control of its surface."""


class VisitCannotRequestControlError(CannotTransitionError):
    """The visit may not ask for control of its surface now."""


class VisitCannotGiveControlError(CannotTransitionError):
    """The visit may not give control of its surface now."""


class VisitCannotRefuseControlError(CannotTransitionError):
    """The visit may not refuse a request for control now."""


class VisitCannotSeizeControlError(CannotTransitionError):
    """The visit may not seize control of its surface now."""


class InvalidSurfaceControlTimeoutError(InvalidError):
    """A request for control waits 5 to 600 seconds."""


class ControlDesk(Value):
    """What control is decided on: the visit that acts, and its surface."""

    visit: Visit
    surface: Surface
    ancestor_ids: frozenset[UUID] = frozenset()
    requester: Visit | None = None

    def refusal(self, error: type[CannotTransitionError], obstacle: ControlObstacle) -> CannotTransitionError:
        holder = self.surface.holder
        return error(
            ADVICE[obstacle],
            reason=obstacle.value,
            visit_id=str(self.visit.id),
            visit_status=self.visit.status.value,
            surface_id=str(self.surface.id),
            holder_visit_id=None if holder is None else str(holder.visit_id),
        )


class ControlCommand(Command[ControlDesk]):
    """An act of a visit upon the control of its surface."""

    visit_id: UUID

    async def gather(self, world: World) -> ControlDesk:
        visit = await world.load(visits, self.visit_id)
        return ControlDesk(visit=visit, surface=await world.load(surfaces, visit.surface_id))


def check_eligible(desk: ControlDesk, actor_id: UUID, error: type[CannotTransitionError]) -> None:
    """Gate: the visit's status lets it act, and the actor is present in it."""
    if desk.visit.status not in ELIGIBLE:
        raise desk.refusal(error, ControlObstacle.STATUS_NOT_ELIGIBLE)
    check_present(desk, actor_id, error)


def check_present(desk: ControlDesk, actor_id: UUID, error: type[CannotTransitionError]) -> None:
    if desk.visit.open_presence(actor_id) is None:
        raise desk.refusal(error, ControlObstacle.NOT_PRESENT)


def check_holder(desk: ControlDesk, error: type[CannotTransitionError]) -> None:
    if not desk.surface.held_by(desk.visit.id):
        raise desk.refusal(error, ControlObstacle.NOT_HOLDER)


def other_holder(desk: ControlDesk, error: type[CannotTransitionError]) -> SurfaceHolder:
    """The other visit that holds control, or a refusal."""
    if desk.surface.holder is None:
        raise desk.refusal(error, ControlObstacle.NOT_HELD)
    if desk.surface.held_by(desk.visit.id):
        raise desk.refusal(error, ControlObstacle.ALREADY_HELD)
    return desk.surface.holder


async def ancestor_ids(world: World, visit: Visit) -> frozenset[UUID]:
    """The visits that this one is part of."""
    found: set[UUID] = set()
    while visit.parent_id is not None:
        visit = await world.load(visits, visit.parent_id)
        found.add(visit.id)
    return frozenset(found)


def control_basis(desk: ControlDesk, now: datetime) -> ControlBasis | None:
    """What entitles the visit to take control, if anything does."""
    holder, request = desk.surface.holder, desk.surface.request_at(now)
    if holder is None:
        return ControlBasis.FREE
    if holder.visit_id == desk.visit.id:
        return ControlBasis.SAME_VISIT
    if holder.visit_id in desk.ancestor_ids:
        return ControlBasis.ANCESTOR
    if request is not None and request.visit_id == desk.visit.id and request.lapsed(now):
        return ControlBasis.LAPSED
    return None


@surfaces.operation("POST /visits/{visit_id}/surface-control/take")
class TakeSurfaceControl(ControlCommand):
    """Take control of the visit's surface: free, within the visit, from a parent, or on a lapsed request."""

    async def gather(self, world: World) -> ControlDesk:
        desk = await super().gather(world)
        return replace(desk, ancestor_ids=await ancestor_ids(world, desk.visit))

    def decide(self, desk: ControlDesk, occasion: Occasion) -> SurfaceControlTaken:
        refused, holder = VisitCannotTakeControlError, desk.surface.holder
        check_eligible(desk, occasion.principal_id, refused)
        if desk.surface.status is SurfaceStatus.RETIRED:
            raise desk.refusal(refused, ControlObstacle.SURFACE_RETIRED)
        if desk.surface.held_by(desk.visit.id) and holder and holder.actor_id == occasion.principal_id:
            raise desk.refusal(refused, ControlObstacle.ALREADY_HELD)
        basis = control_basis(desk, occasion.now)
        if basis is None:
            raise desk.refusal(refused, ControlObstacle.HELD_BY_OTHER)
        return SurfaceControlTaken(
            surface_id=desk.surface.id,
            occurred_at=occasion.now,
            visit_id=desk.visit.id,
            actor_id=occasion.principal_id,
            from_visit_id=holder and holder.visit_id,
            basis=basis,
        )


@surfaces.operation("POST /visits/{visit_id}/surface-control/release")
class ReleaseSurfaceControl(ControlCommand):
    """Give up the visit's control of its surface, whoever of the visit holds it."""

    def decide(self, desk: ControlDesk, occasion: Occasion) -> list[SurfaceControlReleased]:
        check_holder(desk, VisitCannotReleaseControlError)
        return released(desk.surface, ControlReleaseCause.RELEASED, occasion.now)


@surfaces.operation("POST /visits/{visit_id}/surface-control/request")
class RequestSurfaceControl(ControlCommand):
    """Ask the visit that holds control to hand it over; unanswered, it may be taken after the timeout."""

    timeout: Annotated[
        int,
        Meta(
            ge=-(2**31),
            le=2**31 - 1,
            description="How long to wait for an answer, 5 to 600.",
            extra_json_schema={"x-unit": "second"},
        ),
    ] = 30

    def decide(self, desk: ControlDesk, occasion: Occasion) -> SurfaceControlRequested:
        refused = VisitCannotRequestControlError
        if not 5 <= self.timeout <= 600:
            raise InvalidSurfaceControlTimeoutError("The timeout must be 5 to 600 s.", timeout=self.timeout)
        check_eligible(desk, occasion.principal_id, refused)
        other_holder(desk, refused)
        pending = desk.surface.request_at(occasion.now)
        if pending is not None and pending.visit_id != desk.visit.id:
            raise desk.refusal(refused, ControlObstacle.REQUEST_PENDING)
        return SurfaceControlRequested(
            surface_id=desk.surface.id,
            occurred_at=occasion.now,
            visit_id=desk.visit.id,
            actor_id=occasion.principal_id,
            expires_at=occasion.now + timedelta(seconds=self.timeout),
        )


@surfaces.operation("POST /visits/{visit_id}/surface-control/give")
class GiveSurfaceControl(ControlCommand):
    """Hand control over to the visit that requested it."""

    async def gather(self, world: World) -> ControlDesk:
        desk = await super().gather(world)
        request = desk.surface.control_request
        requester = None if request is None else await world.load(visits, request.visit_id)
        return replace(desk, requester=requester)

    def decide(self, desk: ControlDesk, occasion: Occasion) -> SurfaceControlGiven:
        refused = VisitCannotGiveControlError
        check_holder(desk, refused)
        check_present(desk, occasion.principal_id, refused)
        request = desk.surface.request_at(occasion.now)
        if request is None:
            raise desk.refusal(refused, ControlObstacle.NO_REQUEST)
        if desk.requester is None or desk.requester.status not in ELIGIBLE:
            raise desk.refusal(refused, ControlObstacle.REQUESTER_NOT_ELIGIBLE)
        return SurfaceControlGiven(
            surface_id=desk.surface.id,
            occurred_at=occasion.now,
            from_visit_id=desk.visit.id,
            visit_id=request.visit_id,
            actor_id=request.actor_id,
        )


@surfaces.operation("POST /visits/{visit_id}/surface-control/refuse")
class RefuseSurfaceControl(ControlCommand):
    """Refuse another visit's request for control; it must ask again."""

    reason: text.Reason

    def decide(self, desk: ControlDesk, occasion: Occasion) -> SurfaceControlRefused:
        reason = text.reason(self.reason, InvalidVisitReasonError)
        refused = VisitCannotRefuseControlError
        check_holder(desk, refused)
        check_present(desk, occasion.principal_id, refused)
        request = desk.surface.request_at(occasion.now)
        if request is None or request.lapsed(occasion.now):
            raise desk.refusal(refused, ControlObstacle.NO_REQUEST)
        return SurfaceControlRefused(
            surface_id=desk.surface.id, occurred_at=occasion.now, visit_id=request.visit_id, reason=reason
        )


@surfaces.operation("POST /visits/{visit_id}/surface-control/seize")
class SeizeSurfaceControl(ControlCommand):
    """Take control from another visit without its consent."""

    reason: text.Reason

    def decide(self, desk: ControlDesk, occasion: Occasion) -> SurfaceControlSeized:
        reason = text.reason(self.reason, InvalidVisitReasonError)
        check_eligible(desk, occasion.principal_id, VisitCannotSeizeControlError)
        holder = other_holder(desk, VisitCannotSeizeControlError)
        return SurfaceControlSeized(
            surface_id=desk.surface.id,
            occurred_at=occasion.now,
            visit_id=desk.visit.id,
            actor_id=occasion.principal_id,
            from_visit_id=holder.visit_id,
            reason=reason,
        )
