"""Zone: a named part of the networked world that shares one trust posture."""

from enum import StrEnum
from typing import assert_never
from uuid import UUID

from msgspec import UNSET, UnsetType

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, patched, replace


class ZoneStatus(StrEnum):
    ACTIVE = "Active"
    RETIRED = "Retired"


class ZoneNotFoundError(NotFoundError):
    """There is no such zone."""


class InvalidZoneNameError(InvalidError):
    """The zone's name is blank or too long."""


class InvalidZoneDescriptionError(InvalidError):
    """The zone's description is blank or too long."""


class InvalidZoneReasonError(InvalidError):
    """The reason is blank or too long."""


class ZoneNameTakenError(ConflictError):
    """Another zone that is not retired has this name."""


class ZoneCannotUpdateError(CannotTransitionError):
    """A retired zone is not changed any more."""


class ZoneCannotRetireError(CannotTransitionError):
    """The zone is retired already."""


class ZoneFact(Event):
    zone_id: UUID


class ZoneDefined(ZoneFact):
    name: str
    description: str | None = None


class ZoneUpdated(ZoneFact):
    name: str
    description: str | None = None


class ZoneRetired(ZoneFact):
    reason: str


type ZoneEvent = ZoneDefined | ZoneUpdated | ZoneRetired

LIFECYCLE = StateMachine[ZoneStatus](
    {
        ZoneUpdated: move({ZoneStatus.ACTIVE}, ZoneStatus.ACTIVE, ZoneCannotUpdateError),
        ZoneRetired: move({ZoneStatus.ACTIVE}, ZoneStatus.RETIRED, ZoneCannotRetireError),
    }
)


class Zone(Value):
    id: UUID
    name: str
    description: str | None
    status: ZoneStatus = ZoneStatus.ACTIVE


def evolve(zone: Zone | None, event: ZoneEvent) -> Zone:
    match event:
        case ZoneDefined():
            return Zone(id=event.zone_id, name=event.name, description=event.description)
        case _ if zone is None:
            raise ValueError(event)
        case ZoneUpdated():
            return replace(zone, name=event.name, description=event.description)
        case ZoneRetired():
            return replace(zone, status=LIFECYCLE.after(event))
        case _:
            assert_never(event)


def claims(zone: Zone) -> list[Claim]:
    """A name is taken while its zone is not retired."""
    if zone.status is ZoneStatus.RETIRED:
        return []
    return [Claim(kind="zone-name", key=zone.name.casefold(), taken=ZoneNameTakenError)]


zones = Aggregate[Zone, ZoneEvent](
    "Zone",
    events=ZoneEvent,
    evolve=evolve,
    missing=ZoneNotFoundError,
    belongs=lambda zone: Belonging.nowhere,
    claims=claims,
)
zones.reads("/zones", filters=("status",), sorts=("name", "created_at"), text=("name", "description"))


@zones.operation("POST /zones", creates=True)
class DefineZone(Command[None]):
    """Define a zone of the networked world."""

    name: text.Name
    description: text.Description | None = None

    async def gather(self, world: World) -> None: ...

    def decide(self, seen: None, occasion: Occasion) -> ZoneDefined:
        return ZoneDefined(
            zone_id=occasion.new_id,
            occurred_at=occasion.now,
            name=text.name(self.name, InvalidZoneNameError),
            description=text.description(self.description, InvalidZoneDescriptionError),
        )


@zones.operation("POST /zones/{zone_id}/update")
class UpdateZone(Command[Zone]):
    """Change a zone's name or description."""

    zone_id: UUID
    name: text.Name | UnsetType = UNSET
    description: text.Description | UnsetType | None = UNSET

    async def gather(self, world: World) -> Zone:
        return await world.load(zones, self.zone_id)

    def decide(self, zone: Zone, occasion: Occasion) -> list[ZoneUpdated]:
        name = text.name(patched(self.name, zone.name), InvalidZoneNameError)
        description = text.description(
            patched(self.description, zone.description), InvalidZoneDescriptionError
        )
        LIFECYCLE.check(ZoneUpdated, zone.status, zone.id)
        if (name, description) == (zone.name, zone.description):
            return []
        return [ZoneUpdated(zone_id=zone.id, occurred_at=occasion.now, name=name, description=description)]
