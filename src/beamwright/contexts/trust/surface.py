"""Surface: a door through which calls arrive, and the holder of its control."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from beamwright.kernel.aggregate import Aggregate, Filter
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.value import Value, replace

# A request whose visit did not use it is forgotten this long after it lapsed.
REQUEST_KEPT = timedelta(seconds=300)


class SurfaceStatus(StrEnum):
    ACTIVE = "Active"
    RETIRED = "Retired"


class SurfaceKind(StrEnum):
    """How calls arrive at a surface."""

    HTTP = "HTTP"
    MCP_STDIO = "MCP_STDIO"
    MCP_STREAMABLE_HTTP = "MCP_STREAMABLE_HTTP"


class ControlBasis(StrEnum):
    """What entitled a visit to take control."""

    FREE = "Free"
    SAME_VISIT = "SameVisit"
    ANCESTOR = "Ancestor"
    LAPSED = "Lapsed"


class ControlReleaseCause(StrEnum):
    """Why control became free."""

    RELEASED = "Released"
    VISIT_ENDED = "VisitEnded"
    SURFACE_RETIRED = "SurfaceRetired"


class SurfaceNotFoundError(NotFoundError):
    """There is no such surface."""


class InvalidSurfaceNameError(InvalidError):
    """The surface's name is blank or too long."""


class InvalidSurfaceAudienceError(InvalidError):
    """The surface's token audience is blank or too long."""


class InvalidSurfaceControlledOperationsError(InvalidError):
    """A pattern is malformed, or would make reading or winding down need control."""


class InvalidSurfaceReasonError(InvalidError):
    """The reason is blank or too long."""


class SurfaceAudienceTakenError(ConflictError):
    """Another surface that is not retired has this token audience."""


class SurfaceCannotUpdateError(CannotTransitionError):
    """The surface is retired, or is the in-process one."""


class SurfaceCannotRetireError(CannotTransitionError):
    """The surface is retired already, or is the in-process one."""


class SurfaceFact(Event):
    surface_id: UUID


class SurfaceDefined(SurfaceFact):
    name: str
    kind: SurfaceKind | None
    conduit_id: UUID
    audience: str | None
    exclusive: bool
    controlled_operations: frozenset[str]


class SurfaceUpdated(SurfaceFact):
    name: str
    conduit_id: UUID
    audience: str | None
    exclusive: bool
    controlled_operations: frozenset[str]


class SurfaceRetired(SurfaceFact):
    reason: str


class SurfaceControlRequested(SurfaceFact):
    visit_id: UUID
    actor_id: UUID
    expires_at: datetime


class SurfaceControlTaken(SurfaceFact):
    visit_id: UUID
    actor_id: UUID
    from_visit_id: UUID | None
    basis: ControlBasis


class SurfaceControlGiven(SurfaceFact):
    from_visit_id: UUID
    visit_id: UUID
    actor_id: UUID


class SurfaceControlRefused(SurfaceFact):
    visit_id: UUID
    reason: str


class SurfaceControlReleased(SurfaceFact):
    """Control became free; `visit_id` and `actor_id` name who held it."""

    visit_id: UUID
    actor_id: UUID
    cause: ControlReleaseCause


class SurfaceControlSeized(SurfaceFact):
    visit_id: UUID
    actor_id: UUID
    from_visit_id: UUID
    reason: str


type SurfaceEvent = (
    SurfaceDefined
    | SurfaceUpdated
    | SurfaceRetired
    | SurfaceControlRequested
    | SurfaceControlTaken
    | SurfaceControlGiven
    | SurfaceControlRefused
    | SurfaceControlReleased
    | SurfaceControlSeized
)

LIFECYCLE = StateMachine[SurfaceStatus](
    {
        SurfaceUpdated: move({SurfaceStatus.ACTIVE}, SurfaceStatus.ACTIVE, SurfaceCannotUpdateError),
        SurfaceRetired: move({SurfaceStatus.ACTIVE}, SurfaceStatus.RETIRED, SurfaceCannotRetireError),
    }
)


class SurfaceHolder(Value):
    """The visit that holds a surface's control, and through whom."""

    visit_id: UUID
    actor_id: UUID
    since_at: datetime


class ControlRequest(Value):
    """A visit's wish that control be handed over to it."""

    visit_id: UUID
    actor_id: UUID
    requested_at: datetime
    expires_at: datetime

    def lapsed(self, now: datetime) -> bool:
        """Whether nobody answered in time, so that the requesting visit may take control."""
        return now >= self.expires_at

    def dropped(self, now: datetime) -> bool:
        """Whether the request lapsed so long ago that it counts no more."""
        return now >= self.expires_at + REQUEST_KEPT


class Surface(Value):
    id: UUID
    name: str
    kind: SurfaceKind | None
    conduit_id: UUID
    audience: str | None
    exclusive: bool
    controlled_operations: frozenset[str]
    status: SurfaceStatus = SurfaceStatus.ACTIVE
    holder: SurfaceHolder | None = None
    control_request: ControlRequest | None = None

    @property
    def in_process(self) -> bool:
        """Whether nothing arrives on it from outside."""
        return self.kind is None

    def held_by(self, visit_id: UUID) -> bool:
        return self.holder is not None and self.holder.visit_id == visit_id

    def request_at(self, now: datetime) -> ControlRequest | None:
        """The request that counts at `now`, lapsed or not."""
        request = self.control_request
        return None if request is None or request.dropped(now) else request


def evolve(surface: Surface | None, event: SurfaceEvent) -> Surface:
    match event:
        case SurfaceDefined():
            return _defined(event)
        case _ if surface is None:
            raise ValueError(event)
        case SurfaceUpdated():
            return replace(
                surface,
                name=event.name,
                conduit_id=event.conduit_id,
                audience=event.audience,
                exclusive=event.exclusive,
                controlled_operations=event.controlled_operations,
            )
        case SurfaceRetired():
            return replace(surface, status=LIFECYCLE.after(event))
        case SurfaceControlRequested():
            return replace(surface, control_request=_requested(event))
        case SurfaceControlRefused():
            return replace(surface, control_request=None)
        case SurfaceControlReleased():
            return replace(surface, holder=None, control_request=None)
        case SurfaceControlTaken() | SurfaceControlGiven() | SurfaceControlSeized():
            holder = SurfaceHolder(
                visit_id=event.visit_id, actor_id=event.actor_id, since_at=event.occurred_at
            )
            return replace(surface, holder=holder, control_request=None)
        case _:
            assert_never(event)


def _defined(event: SurfaceDefined) -> Surface:
    return Surface(
        id=event.surface_id,
        name=event.name,
        kind=event.kind,
        conduit_id=event.conduit_id,
        audience=event.audience,
        exclusive=event.exclusive,
        controlled_operations=event.controlled_operations,
    )


def _requested(event: SurfaceControlRequested) -> ControlRequest:
    return ControlRequest(
        visit_id=event.visit_id,
        actor_id=event.actor_id,
        requested_at=event.occurred_at,
        expires_at=event.expires_at,
    )


def released(surface: Surface, cause: ControlReleaseCause, at: datetime) -> list[SurfaceControlReleased]:
    """The event that frees control of `surface`, when somebody holds it."""
    if surface.holder is None:
        return []
    return [
        SurfaceControlReleased(
            surface_id=surface.id,
            occurred_at=at,
            visit_id=surface.holder.visit_id,
            actor_id=surface.holder.actor_id,
            cause=cause,
        )
    ]


def check_from_outside(surface: Surface, error: type[CannotTransitionError]) -> None:
    """The in-process surface belongs to the installation and stays as it was seeded."""
    if surface.in_process:
        raise error(
            "The in-process surface is part of the installation and is not changed.",
            surface_id=str(surface.id),
        )


def claims(surface: Surface) -> list[Claim]:
    """A token audience is taken while its surface is not retired."""
    if surface.status is SurfaceStatus.RETIRED or surface.audience is None:
        return []
    return [Claim(kind="surface-audience", key=surface.audience, taken=SurfaceAudienceTakenError)]


surfaces = Aggregate[Surface, SurfaceEvent](
    "Surface",
    events=SurfaceEvent,
    evolve=evolve,
    missing=SurfaceNotFoundError,
    belongs=lambda surface: Belonging.nowhere,
    claims=claims,
    authority=True,
)
surfaces.reads(
    "/surfaces",
    filters=(
        "kind",
        "conduit_id",
        "exclusive",
        Filter(name="held", type=bool, of=lambda surface: surface.holder is not None),
        "status",
    ),
    sorts=("name", "created_at"),
    text=("name",),
)
