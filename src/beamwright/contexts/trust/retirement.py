"""Retiring zones, conduits and surfaces: only what nothing uses any more goes."""

from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.authority import Authority, check_administrators
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .conduit import LIFECYCLE as CONDUIT_LIFECYCLE
from .conduit import (
    Conduit,
    ConduitRetired,
    ConduitStatus,
    InvalidConduitReasonError,
    conduits,
)
from .surface import LIFECYCLE as SURFACE_LIFECYCLE
from .surface import (
    ControlReleaseCause,
    InvalidSurfaceReasonError,
    Surface,
    SurfaceCannotRetireError,
    SurfaceControlReleased,
    SurfaceRetired,
    SurfaceStatus,
    check_from_outside,
    released,
    surfaces,
)
from .visit import NOT_ENDED, Visit, visits
from .zone import LIFECYCLE as ZONE_LIFECYCLE
from .zone import InvalidZoneReasonError, Zone, ZoneRetired, zones


class ZoneInUseError(ConflictError):
    """An active conduit begins or ends in the zone."""


class ConduitInUseError(ConflictError):
    """An active surface uses the conduit."""


class SurfaceInUseError(ConflictError):
    """A visit on the surface has not ended."""


class ZoneInUse(Value):
    """A zone and the conduits that begin or end there."""

    zone: Zone
    conduits: tuple[Conduit, ...] = ()


@zones.operation("POST /zones/{zone_id}/retire")
class RetireZone(Command[ZoneInUse]):
    """Retire a zone that no active conduit begins or ends in."""

    zone_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> ZoneInUse:
        zone = await world.load(zones, self.zone_id)
        beginning = await world.find(conduits, source_zone_id=zone.id)
        ending = await world.find(conduits, target_zone_id=zone.id)
        return ZoneInUse(zone=zone, conduits=(*beginning, *ending))

    def decide(self, used: ZoneInUse, occasion: Occasion) -> ZoneRetired:
        reason = text.reason(self.reason, InvalidZoneReasonError)
        zone = used.zone
        ZONE_LIFECYCLE.check(ZoneRetired, zone.status, zone.id)
        users = {str(each.id) for each in used.conduits if each.status is ConduitStatus.ACTIVE}
        if users:
            raise ZoneInUseError(
                "Retire the conduits of the zone first.", zone_id=str(zone.id), conduit_ids=sorted(users)
            )
        return ZoneRetired(zone_id=zone.id, occurred_at=occasion.now, reason=reason)


class ConduitInUse(Value):
    """A conduit and the surfaces that open onto it."""

    conduit: Conduit
    surfaces: tuple[Surface, ...] = ()


@conduits.operation("POST /conduits/{conduit_id}/retire")
class RetireConduit(Command[ConduitInUse]):
    """Retire a conduit that no active surface uses."""

    conduit_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> ConduitInUse:
        conduit = await world.load(conduits, self.conduit_id)
        found = await world.find(surfaces, conduit_id=conduit.id)
        return ConduitInUse(conduit=conduit, surfaces=tuple(found))

    def decide(self, used: ConduitInUse, occasion: Occasion) -> ConduitRetired:
        reason = text.reason(self.reason, InvalidConduitReasonError)
        conduit = used.conduit
        CONDUIT_LIFECYCLE.check(ConduitRetired, conduit.status, conduit.id)
        users = {str(each.id) for each in used.surfaces if each.status is SurfaceStatus.ACTIVE}
        if users:
            raise ConduitInUseError(
                "Retire the conduit's surfaces, or move them to another conduit, first.",
                conduit_id=str(conduit.id),
                surface_ids=sorted(users),
            )
        return ConduitRetired(conduit_id=conduit.id, occurred_at=occasion.now, reason=reason)


class SurfaceInUse(Value):
    """A surface, the visits on it, and who may still administer the installation without it."""

    surface: Surface
    authority: Authority
    visits: tuple[Visit, ...] = ()


@surfaces.operation("POST /surfaces/{surface_id}/retire")
class RetireSurface(Command[SurfaceInUse]):
    """Retire a surface that no visit needs any more."""

    surface_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> SurfaceInUse:
        surface = await world.load(surfaces, self.surface_id)
        # One search for each status: a surface has few visits that go on, and a history of those that ended.
        found = [
            visit
            for status in sorted(NOT_ENDED)
            for visit in await world.find(visits, surface_id=surface.id, status=status)
        ]
        return SurfaceInUse(surface=surface, authority=world.authority, visits=tuple(found))

    def decide(self, used: SurfaceInUse, occasion: Occasion) -> list[SurfaceRetired | SurfaceControlReleased]:
        reason = text.reason(self.reason, InvalidSurfaceReasonError)
        surface = used.surface
        SURFACE_LIFECYCLE.check(SurfaceRetired, surface.status, surface.id)
        check_from_outside(surface, SurfaceCannotRetireError)
        users = {str(visit.id) for visit in used.visits if not visit.ended}
        if users:
            raise SurfaceInUseError(
                "End the visits on the surface first.", surface_id=str(surface.id), visit_ids=sorted(users)
            )
        events = [
            SurfaceRetired(surface_id=surface.id, occurred_at=occasion.now, reason=reason),
            *released(surface, ControlReleaseCause.SURFACE_RETIRED, occasion.now),
        ]
        check_administrators(used.authority, events, occasion.now)
        return events
