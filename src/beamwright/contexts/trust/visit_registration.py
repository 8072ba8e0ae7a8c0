"""Registering a visit, and adding members to it: whom and what it names must exist."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.access.actor import actors
from beamwright.contexts.federation.facility import FacilityCode
from beamwright.kernel import text
from beamwright.kernel.errors import CannotTransitionError, ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.roles import VisitRole
from beamwright.kernel.value import Time, Value

from .surface import Surface
from .visit import (
    CODE,
    MOST_MEMBERS,
    InvalidVisitCodeError,
    InvalidVisitMembersError,
    InvalidVisitTitleError,
    Visit,
    VisitMemberAdded,
    VisitRegistered,
    VisitType,
    check_external_ref_count,
    check_not_ended,
    check_planned_period,
    external_ref,
    visits,
)
from .visit_gates import (
    VisitSurroundings,
    check_facility,
    check_parent,
    check_policy,
    check_surface,
    surroundings,
)


class VisitParentMismatchedSurfaceError(ConflictError):
    """A visit shares the surface of its parent."""


class VisitCannotAddMemberError(CannotTransitionError):
    """The visit has ended, or has as many members as it may have."""


class VisitMemberAlreadyPresentError(ConflictError):
    """The actor is a member of the visit already."""


class NewExternalRef(Value, forbid_unknown_fields=True):
    """What another system calls a new thing."""

    value: text.Name
    authority: text.Name


class VisitValues(Value):
    """The values of a new visit that have a form of their own, checked."""

    code: str
    title: str
    external_refs: dict[str, ExternalRef]


@visits.operation("POST /visits", creates=True)
class RegisterVisit(Command[VisitSurroundings]):
    """Register the planned stay of a team at a facility."""

    code: Annotated[str, Meta(extra_json_schema={"pattern": CODE})]
    title: text.Name
    facility_code: FacilityCode
    surface_id: UUID
    type: VisitType
    planned_start_at: Time
    planned_end_at: Time
    parent_id: UUID | None = None
    policy_id: UUID | None = None
    members: dict[UUID, VisitRole] = {}
    external_refs: dict[str, NewExternalRef] = {}

    async def gather(self, world: World) -> VisitSurroundings:
        self.checked(world.now)
        around = await surroundings(
            world, self.facility_code, self.surface_id, self.policy_id, self.parent_id
        )
        await world.load_all(actors, sorted(self.members))
        return around

    def checked(self, at: datetime) -> VisitValues:
        code = text.code(self.code, CODE, InvalidVisitCodeError)
        title = text.name(self.title, InvalidVisitTitleError, "title")
        check_planned_period(self.planned_start_at, self.planned_end_at)
        if len(self.members) > MOST_MEMBERS:
            raise InvalidVisitMembersError(
                f"A visit has at most {MOST_MEMBERS} members.", count=len(self.members), most=MOST_MEMBERS
            )
        refs = dict(
            external_ref(scheme, ref.value, ref.authority, at) for scheme, ref in self.external_refs.items()
        )
        check_external_ref_count(refs)
        return VisitValues(code=code, title=title, external_refs=refs)

    def decide(self, around: VisitSurroundings, occasion: Occasion) -> VisitRegistered:
        values = self.checked(occasion.now)
        check_facility(around.facility)
        check_surface(around.surface)
        check_policy(around.policy)
        check_same_surface(around.parent, around.surface)
        check_parent(around.parent)
        return VisitRegistered(
            visit_id=occasion.new_id,
            occurred_at=occasion.now,
            code=values.code,
            title=values.title,
            facility_code=self.facility_code,
            surface_id=self.surface_id,
            policy_id=self.policy_id,
            type=self.type,
            planned_start_at=self.planned_start_at,
            planned_end_at=self.planned_end_at,
            parent_id=self.parent_id,
            members=self.members,
            external_refs=values.external_refs,
        )


def check_same_surface(parent: Visit | None, surface: Surface) -> None:
    """Gate: control passes between a visit and its parent, so they share a surface."""
    if parent is not None and parent.surface_id != surface.id:
        raise VisitParentMismatchedSurfaceError(
            "A visit must be on the surface of its parent.",
            parent_id=str(parent.id),
            parent_surface_id=str(parent.surface_id),
            surface_id=str(surface.id),
        )


@visits.operation("POST /visits/{visit_id}/members/add")
class AddVisitMember(Command[Visit]):
    """Make an actor a member of a visit, in a role."""

    visit_id: UUID
    actor_id: UUID
    role: VisitRole

    async def gather(self, world: World) -> Visit:
        visit = await world.load(visits, self.visit_id)
        await world.load(actors, self.actor_id)
        return visit

    def decide(self, visit: Visit, occasion: Occasion) -> VisitMemberAdded:
        check_not_ended(visit, VisitCannotAddMemberError)
        if len(visit.members) >= MOST_MEMBERS:
            raise VisitCannotAddMemberError(
                f"The visit has {MOST_MEMBERS} members already; remove one first.",
                visit_id=str(visit.id),
                most=MOST_MEMBERS,
            )
        if self.actor_id in visit.members:
            raise VisitMemberAlreadyPresentError(
                "The actor is a member already; remove it first to give it another role.",
                visit_id=str(visit.id),
                actor_id=str(self.actor_id),
                role=visit.members[self.actor_id].value,
            )
        return VisitMemberAdded(
            visit_id=visit.id, occurred_at=occasion.now, actor_id=self.actor_id, role=self.role
        )
