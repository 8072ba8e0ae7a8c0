"""The moves of a visit that look beyond it: past the gates, and to its end."""

from collections.abc import Sequence
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .surface import (
    ControlReleaseCause,
    Surface,
    SurfaceControlReleased,
    released,
    surfaces,
)
from .visit import (
    LIFECYCLE,
    InvalidVisitReasonError,
    Visit,
    VisitAborted,
    VisitArrived,
    VisitCancelled,
    VisitCompleted,
    VisitResumed,
    VisitStarted,
    VisitVoided,
    visits,
)
from .visit_gates import VisitSurroundings, check_gates, surroundings


class VisitHasActiveChildrenError(ConflictError):
    """A visit that is part of this one has not ended."""


class GatedVisit(Value):
    """What a gated move must see: the visit and what it depends on."""

    visit: Visit
    around: VisitSurroundings


class GatedMove(Command[GatedVisit]):
    """A move that every gate around the visit must let pass."""

    visit_id: UUID

    async def gather(self, world: World) -> GatedVisit:
        visit = await world.load(visits, self.visit_id)
        around = await surroundings(
            world, visit.facility_code, visit.surface_id, visit.policy_id, visit.parent_id
        )
        return GatedVisit(visit=visit, around=around)


@visits.operation("POST /visits/{visit_id}/record-arrival")
class RecordVisitArrival(GatedMove):
    """Record that the team of a planned visit has arrived."""

    def decide(self, gated: GatedVisit, occasion: Occasion) -> VisitArrived:
        LIFECYCLE.check(VisitArrived, gated.visit.status, gated.visit.id)
        check_gates(gated.around)
        return VisitArrived(visit_id=gated.visit.id, occurred_at=occasion.now)


@visits.operation("POST /visits/{visit_id}/start")
class StartVisit(GatedMove):
    """Start the work of a visit that has arrived."""

    def decide(self, gated: GatedVisit, occasion: Occasion) -> VisitStarted:
        LIFECYCLE.check(VisitStarted, gated.visit.status, gated.visit.id)
        check_gates(gated.around)
        return VisitStarted(visit_id=gated.visit.id, occurred_at=occasion.now)


@visits.operation("POST /visits/{visit_id}/resume")
class ResumeVisit(GatedMove):
    """Go on with a visit that was put on hold."""

    def decide(self, gated: GatedVisit, occasion: Occasion) -> VisitResumed:
        LIFECYCLE.check(VisitResumed, gated.visit.status, gated.visit.id)
        check_gates(gated.around)
        return VisitResumed(visit_id=gated.visit.id, occurred_at=occasion.now)


type VisitEnd = VisitCompleted | VisitCancelled | VisitAborted | VisitVoided


class EndingVisit(Value):
    """What an end must see: the visit, the surface that it may hold, and the visits within it."""

    visit: Visit
    surface: Surface
    children: tuple[Visit, ...] = ()

    def with_release(self, end: VisitEnd) -> list[VisitEnd | SurfaceControlReleased]:
        """An end, and with it the release of control when the visit holds it."""
        if not self.surface.held_by(self.visit.id):
            return [end]
        return [end, *released(self.surface, ControlReleaseCause.VISIT_ENDED, end.occurred_at)]


class EndingMove(Command[EndingVisit]):
    """A move that ends a visit."""

    visit_id: UUID

    async def gather(self, world: World) -> EndingVisit:
        visit = await world.load(visits, self.visit_id)
        return EndingVisit(visit=visit, surface=await world.load(surfaces, visit.surface_id))


@visits.operation("POST /visits/{visit_id}/complete")
class CompleteVisit(EndingMove):
    """Complete a visit whose work is done; presence is closed and control released."""

    async def gather(self, world: World) -> EndingVisit:
        visit = await world.load(visits, self.visit_id)
        surface = await world.load(surfaces, visit.surface_id)
        children = await world.find(visits, parent_id=visit.id)
        return EndingVisit(visit=visit, surface=surface, children=tuple(children))

    def decide(self, ending: EndingVisit, occasion: Occasion) -> list[VisitEnd | SurfaceControlReleased]:
        visit = ending.visit
        LIFECYCLE.check(VisitCompleted, visit.status, visit.id)
        check_children(visit, ending.children)
        return ending.with_release(VisitCompleted(visit_id=visit.id, occurred_at=occasion.now))


def check_children(visit: Visit, children: Sequence[Visit]) -> None:
    """Gate: every visit within this one has ended."""
    active = sorted(str(child.id) for child in children if not child.ended)
    if active:
        raise VisitHasActiveChildrenError(
            "End the visits within this one first.", visit_id=str(visit.id), child_ids=active
        )


@visits.operation("POST /visits/{visit_id}/cancel")
class CancelVisit(EndingMove):
    """Cancel a visit that has not started."""

    reason: text.Reason

    def decide(self, ending: EndingVisit, occasion: Occasion) -> list[VisitEnd | SurfaceControlReleased]:
        reason = text.reason(self.reason, InvalidVisitReasonError)
        visit = ending.visit
        LIFECYCLE.check(VisitCancelled, visit.status, visit.id)
        return ending.with_release(VisitCancelled(visit_id=visit.id, occurred_at=occasion.now, reason=reason))


@visits.operation("POST /visits/{visit_id}/abort")
class AbortVisit(EndingMove):
    """End a visit before its work is done."""

    reason: text.Reason

    def decide(self, ending: EndingVisit, occasion: Occasion) -> list[VisitEnd | SurfaceControlReleased]:
        reason = text.reason(self.reason, InvalidVisitReasonError)
        visit = ending.visit
        LIFECYCLE.check(VisitAborted, visit.status, visit.id)
        return ending.with_release(VisitAborted(visit_id=visit.id, occurred_at=occasion.now, reason=reason))


@visits.operation("POST /visits/{visit_id}/void")
class VoidVisit(EndingMove):
    """Void a visit that was registered by mistake."""

    reason: text.Reason

    def decide(self, ending: EndingVisit, occasion: Occasion) -> list[VisitEnd | SurfaceControlReleased]:
        reason = text.reason(self.reason, InvalidVisitReasonError)
        visit = ending.visit
        LIFECYCLE.check(VisitVoided, visit.status, visit.id)
        return ending.with_release(VisitVoided(visit_id=visit.id, occurred_at=occasion.now, reason=reason))
