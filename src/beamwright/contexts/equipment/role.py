"""Role: a functional contract that a method may ask for without naming a family."""

from collections.abc import Iterable
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, replace

from .values import Affordance, InvalidSignalTypeError, SignalType, checked_signal_type

MOST_SIGNAL_TYPES = 50


class RoleStatus(StrEnum):
    DEFINED = "Defined"
    DEPRECATED = "Deprecated"


class RoleNotFoundError(NotFoundError):
    """There is no such role."""


class InvalidRoleNameError(InvalidError):
    """The role's name is blank or too long."""


class InvalidRoleDescriptionError(InvalidError):
    """The role's description is blank or too long."""


class InvalidRoleAffordancesError(InvalidError):
    """An affordance is both required and optional."""


class InvalidRoleReasonError(InvalidError):
    """The reason is blank or too long."""


class RoleAlreadyExistsError(ConflictError):
    """Another role that is not deprecated has this name."""


class RoleDeprecatedError(ConflictError):
    """A deprecated role is not presented anew."""


class RoleCannotDeprecateError(CannotTransitionError):
    """The role is deprecated already."""


class RoleFact(Event):
    role_id: UUID


class RoleDefined(RoleFact):
    name: str
    description: str
    required_affordances: frozenset[Affordance]
    optional_affordances: frozenset[Affordance]
    produces: frozenset[str]
    consumes: frozenset[str]


class RoleDeprecated(RoleFact):
    reason: str


type RoleEvent = RoleDefined | RoleDeprecated

LIFECYCLE = StateMachine[RoleStatus](
    {RoleDeprecated: move({RoleStatus.DEFINED}, RoleStatus.DEPRECATED, RoleCannotDeprecateError)}
)


class Role(Value):
    id: UUID
    name: str
    description: str
    required_affordances: frozenset[Affordance]
    optional_affordances: frozenset[Affordance]
    produces: frozenset[str]
    consumes: frozenset[str]
    status: RoleStatus = RoleStatus.DEFINED


def evolve(role: Role | None, event: RoleEvent) -> Role:
    match event:
        case RoleDefined():
            return Role(
                id=event.role_id,
                name=event.name,
                description=event.description,
                required_affordances=event.required_affordances,
                optional_affordances=event.optional_affordances,
                produces=event.produces,
                consumes=event.consumes,
            )
        case _ if role is None:
            raise ValueError(event)
        case RoleDeprecated():
            return replace(role, status=LIFECYCLE.after(event))
        case _:
            assert_never(event)


def claims(role: Role) -> list[Claim]:
    """A name is taken while its role is not deprecated."""
    if role.status is RoleStatus.DEPRECATED:
        return []
    return [Claim(kind="role-name", key=text.folded(role.name), taken=RoleAlreadyExistsError)]


roles = Aggregate[Role, RoleEvent](
    "Role",
    events=RoleEvent,
    evolve=evolve,
    missing=RoleNotFoundError,
    belongs=lambda role: Belonging.nowhere,
    claims=claims,
)
roles.reads(
    "/roles",
    filters=(
        "status",
        Filter(
            name="required_affordance",
            type=Affordance,
            of=lambda role: sorted(role.required_affordances),
            test=Test.CONTAINS,
        ),
        Filter(name="produces", type=SignalType, of=lambda role: sorted(role.produces), test=Test.CONTAINS),
        Filter(name="consumes", type=SignalType, of=lambda role: sorted(role.consumes), test=Test.CONTAINS),
    ),
    sorts=("name", "created_at"),
    text=("name", "description"),
)


@roles.operation("POST /roles", creates=True)
class DefineRole(Command[None]):
    """Define a functional contract: what a device must be able to do, and which signals it gives and takes."""

    name: text.Name
    description: text.Description
    required_affordances: frozenset[Affordance]
    optional_affordances: frozenset[Affordance] = frozenset()
    produces: frozenset[SignalType] = frozenset()
    consumes: frozenset[SignalType] = frozenset()

    async def gather(self, world: World) -> None: ...

    def decide(self, seen: None, occasion: Occasion) -> RoleDefined:
        name = text.name(self.name, InvalidRoleNameError)
        description = text.trimmed(
            self.description, 2000, InvalidRoleDescriptionError, "description", prose=True
        )
        produces, consumes = checked_signal_types(self.produces), checked_signal_types(self.consumes)
        check_disjoint(self.required_affordances, self.optional_affordances)
        return RoleDefined(
            role_id=occasion.new_id,
            occurred_at=occasion.now,
            name=name,
            description=description,
            required_affordances=self.required_affordances,
            optional_affordances=self.optional_affordances,
            produces=produces,
            consumes=consumes,
        )


@roles.operation("POST /roles/{role_id}/deprecate")
class DeprecateRole(Command[Role]):
    """Deprecate a role: what presents it goes on doing so, nothing presents it anew."""

    role_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Role:
        return await world.load(roles, self.role_id)

    def decide(self, role: Role, occasion: Occasion) -> RoleDeprecated:
        reason = text.reason(self.reason, InvalidRoleReasonError)
        LIFECYCLE.check(RoleDeprecated, role.status, role.id)
        return RoleDeprecated(role_id=role.id, occurred_at=occasion.now, reason=reason)


def checked_signal_types(values: frozenset[str]) -> frozenset[str]:
    """The trimmed signal types, or the first refusal."""
    if len(values) > MOST_SIGNAL_TYPES:
        raise InvalidSignalTypeError(
            f"A role names at most {MOST_SIGNAL_TYPES} signal types each way, not {len(values)}.",
            most=MOST_SIGNAL_TYPES,
        )
    return frozenset(checked_signal_type(value) for value in sorted(values))


def check_disjoint(required: frozenset[Affordance], optional: frozenset[Affordance]) -> None:
    """Gate: an affordance is required or optional, not both."""
    both = sorted(required & optional)
    if both:
        raise InvalidRoleAffordancesError(
            f"Name these as required or as optional, not as both: {', '.join(both)}.", affordances=both
        )


def check_roles_usable(presented: Iterable[Role]) -> None:
    """Gate: what presents a role from now on presents one that is not deprecated."""
    deprecated = [role for role in presented if role.status is RoleStatus.DEPRECATED]
    if deprecated:
        names = ", ".join(sorted(role.name for role in deprecated))
        raise RoleDeprecatedError(
            f"Deprecated roles are not presented anew: {names}.",
            role_ids=sorted(str(role.id) for role in deprecated),
        )
