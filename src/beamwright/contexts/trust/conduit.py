"""Conduit: a governed path between two zones, and the owner of the verdict log of the calls through it."""

from enum import StrEnum
from typing import Annotated, Literal, assert_never
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Cursor, Limit
from beamwright.kernel.authority import AuthzDecision, AuthzReason
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, Query, World
from beamwright.kernel.seams import Verdict
from beamwright.kernel.value import Time, Value, patched, replace


class ConduitStatus(StrEnum):
    ACTIVE = "Active"
    RETIRED = "Retired"


class VerdictLevel(StrEnum):
    """What a conduit's verdict log keeps: every call; commands and denials; denials alone."""

    ALL = "All"
    COMMANDS = "Commands"
    DENIALS = "Denials"


class ConduitNotFoundError(NotFoundError):
    """There is no such conduit."""


class InvalidConduitNameError(InvalidError):
    """The conduit's name is blank or too long."""


class InvalidConduitReasonError(InvalidError):
    """The reason is blank or too long."""


class ConduitNameTakenError(ConflictError):
    """Another conduit that is not retired has this name."""


class ConduitCannotUpdateError(CannotTransitionError):
    """A retired conduit is not changed any more."""


class ConduitCannotRetireError(CannotTransitionError):
    """The conduit is retired already."""


class ConduitFact(Event):
    conduit_id: UUID


class ConduitDefined(ConduitFact):
    name: str
    source_zone_id: UUID
    target_zone_id: UUID
    verdict_level: VerdictLevel


class ConduitUpdated(ConduitFact):
    name: str
    verdict_level: VerdictLevel


class ConduitRetired(ConduitFact):
    reason: str


type ConduitEvent = ConduitDefined | ConduitUpdated | ConduitRetired

LIFECYCLE = StateMachine[ConduitStatus](
    {
        ConduitUpdated: move({ConduitStatus.ACTIVE}, ConduitStatus.ACTIVE, ConduitCannotUpdateError),
        ConduitRetired: move({ConduitStatus.ACTIVE}, ConduitStatus.RETIRED, ConduitCannotRetireError),
    }
)


class Conduit(Value):
    id: UUID
    name: str
    source_zone_id: UUID
    target_zone_id: UUID
    verdict_level: VerdictLevel
    status: ConduitStatus = ConduitStatus.ACTIVE


def evolve(conduit: Conduit | None, event: ConduitEvent) -> Conduit:
    match event:
        case ConduitDefined():
            return Conduit(
                id=event.conduit_id,
                name=event.name,
                source_zone_id=event.source_zone_id,
                target_zone_id=event.target_zone_id,
                verdict_level=event.verdict_level,
            )
        case _ if conduit is None:
            raise ValueError(event)
        case ConduitUpdated():
            return replace(conduit, name=event.name, verdict_level=event.verdict_level)
        case ConduitRetired():
            return replace(conduit, status=LIFECYCLE.after(event))
        case _:
            assert_never(event)


def claims(conduit: Conduit) -> list[Claim]:
    """A name is taken while its conduit is not retired."""
    if conduit.status is ConduitStatus.RETIRED:
        return []
    return [Claim(kind="conduit-name", key=conduit.name.casefold(), taken=ConduitNameTakenError)]


conduits = Aggregate[Conduit, ConduitEvent](
    "Conduit",
    events=ConduitEvent,
    evolve=evolve,
    missing=ConduitNotFoundError,
    belongs=lambda conduit: Belonging.nowhere,
    claims=claims,
    authority=True,
)
conduits.reads(
    "/conduits",
    filters=("source_zone_id", "target_zone_id", "verdict_level", "status"),
    sorts=("name", "created_at"),
    text=("name",),
)


@conduits.operation("POST /conduits/{conduit_id}/update")
class UpdateConduit(Command[Conduit]):
    """Change a conduit's name, or what its verdict log keeps."""

    conduit_id: UUID
    name: text.Name | UnsetType = UNSET
    verdict_level: VerdictLevel | UnsetType = UNSET

    async def gather(self, world: World) -> Conduit:
        return await world.load(conduits, self.conduit_id)

    def decide(self, conduit: Conduit, occasion: Occasion) -> list[ConduitUpdated]:
        name = text.name(patched(self.name, conduit.name), InvalidConduitNameError)
        level = patched(self.verdict_level, conduit.verdict_level)
        LIFECYCLE.check(ConduitUpdated, conduit.status, conduit.id)
        if (name, level) == (conduit.name, conduit.verdict_level):
            return []
        return [
            ConduitUpdated(conduit_id=conduit.id, occurred_at=occasion.now, name=name, verdict_level=level)
        ]


class VerdictPage(Value):
    """One page of a conduit's verdict log, newest first unless sorted otherwise."""

    items: list[Verdict]
    next_cursor: str | None


@conduits.operation("GET /conduits/{conduit_id}/verdicts")
class ListVerdicts(Query[VerdictPage]):
    """List what was allowed and denied through a conduit; `from` is included, `until` is not."""

    conduit_id: UUID
    principal_id: UUID | None = None
    command_name: Annotated[str, Meta(max_length=200)] | None = None
    surface_id: UUID | None = None
    decision: AuthzDecision | None = None
    reason: AuthzReason | None = None
    policy_id: UUID | None = None
    correlation_id: Annotated[str, Meta(max_length=200)] | None = None
    from_: Time | None = msgspec.field(name="from", default=None)
    until: Time | None = None
    sort: Literal["occurred_at", "-occurred_at"] = "-occurred_at"
    limit: Limit = 50
    cursor: Cursor | None = None

    async def answer(self, world: World) -> VerdictPage:
        await world.load(conduits, self.conduit_id)
        items, next_cursor = await world.verdicts(self)
        return VerdictPage(items=list(items), next_cursor=next_cursor)
