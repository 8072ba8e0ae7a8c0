"""The calling actor: who it is, how it came in, and what its visits let it do."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from beamwright.contexts.trust.surface import Surface
from beamwright.contexts.trust.visit import Visit
from beamwright.kernel.authority import Authority, Caller
from beamwright.kernel.operation import Query, World
from beamwright.kernel.roles import VisitRole, VisitStatus
from beamwright.kernel.value import Value

from .actor import actors


class CallerToken(Value):
    """What the token of this call says; there is none on a laptop that asks for none."""

    issuer: str
    scopes: frozenset[str]
    expires_at: datetime | None


class OpenVisit(Value):
    """A visit that has not ended, and the caller's role in it."""

    visit_id: UUID
    code: str
    role: VisitRole
    status: VisitStatus


# The view exists only once it was derived from the state, hence no class statement and no static type.
CurrentActor: Any = msgspec.defstruct(
    "CurrentActor",
    [
        ("actor", actors.view),
        ("token", CallerToken | None),
        ("surface_id", UUID),
        ("open_visits", list[OpenVisit]),
        ("controlled_surface_ids", frozenset[UUID]),
    ],
    frozen=True,
    kw_only=True,
)


@actors.operation("GET /actors/current", response=CurrentActor)
class GetCurrentActor(Query[Any]):
    """Read who is calling: the actor, its token, its open visits and the surfaces they control."""

    async def answer(self, world: World) -> Any:
        actor_id = world.caller.principal_id
        visits = open_visits(world.authority, actor_id)
        return CurrentActor(
            actor=await world.view(actors, actor_id, None, None),
            token=caller_token(world.caller),
            surface_id=world.surface_id,
            open_visits=[
                OpenVisit(
                    visit_id=visit.id, code=visit.code, role=visit.members[actor_id], status=visit.status
                )
                for visit in visits
            ],
            controlled_surface_ids=controlled_surface_ids(world.authority, visits),
        )


def caller_token(caller: Caller) -> CallerToken | None:
    if caller.issuer is None:
        return None
    return CallerToken(issuer=caller.issuer, scopes=caller.scopes, expires_at=caller.expires_at)


def open_visits(authority: Authority, actor_id: UUID) -> list[Visit]:
    """The visits that an actor is a member of and that have not ended, oldest first."""
    found = [authority.state("Visit", id, Visit) for id in sorted(authority.visits_of(actor_id))]
    return [visit for visit in found if visit and actor_id in visit.members and not visit.ended]


def controlled_surface_ids(authority: Authority, visits: Iterable[Visit]) -> frozenset[UUID]:
    """The surfaces whose control one of `visits` holds."""
    return frozenset(visit.surface_id for visit in visits if holds_control(authority, visit))


def holds_control(authority: Authority, visit: Visit) -> bool:
    surface = authority.state("Surface", visit.surface_id, Surface)
    return surface is not None and surface.holder is not None and surface.holder.visit_id == visit.id
