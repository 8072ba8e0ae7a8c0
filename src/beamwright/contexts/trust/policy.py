"""Policy: a named set of grants and of the principals they are for."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, assert_never
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, ListRequest, SearchText, Test
from beamwright.kernel.authority import Authority, check_administrators
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, Operation, World
from beamwright.kernel.pattern import parse_pattern, texts
from beamwright.kernel.roles import ActorKind, VisitRole, VisitStatus
from beamwright.kernel.value import Value, patched, replace


class PolicyStatus(StrEnum):
    ACTIVE = "Active"
    SUSPENDED = "Suspended"
    REVOKED = "Revoked"


class GrantEffect(StrEnum):
    ALLOW = "Allow"
    DENY = "Deny"


class GrantScopeKind(StrEnum):
    EVERYTHING = "Everything"
    FACILITY = "Facility"
    VISIT = "Visit"
    OWN_VISITS = "OwnVisits"
    OWN_VISIT_FACILITIES = "OwnVisitFacilities"
    OWNER = "Owner"


class PolicyNotFoundError(NotFoundError):
    """There is no such policy."""


class PolicyGrantNotFoundError(NotFoundError):
    """The policy has no such grant, or names this actor nowhere."""


class InvalidPolicyNameError(InvalidError):
    """The policy's name is blank or too long."""


class InvalidPolicyDescriptionError(InvalidError):
    """The policy's description is blank or too long."""


class InvalidPolicyReasonError(InvalidError):
    """The reason is blank or too long."""


class InvalidPolicyGrantError(InvalidError):
    """A grant contradicts itself: its principals, scope, period or size."""


class InvalidPolicyOperationError(InvalidError):
    """This names no operation of this installation."""


class PolicyNameTakenError(ConflictError):
    """Another policy that is not revoked has this name."""


class PolicyPrincipalAlreadyPresentError(ConflictError):
    """The policy names this actor already."""


class PolicyCannotUpdateError(CannotTransitionError):
    """A revoked policy is not changed any more."""


class PolicyCannotAddPrincipalError(CannotTransitionError):
    """The policy is revoked, or names as many actors as it may."""


class PolicyCannotAddGrantError(CannotTransitionError):
    """The policy is revoked, or has as many grants as it may."""


class PolicyCannotRevokeGrantError(CannotTransitionError):
    """A revoked policy has no grants to take away."""


class PolicyCannotSuspendError(CannotTransitionError):
    """Only an active policy is suspended."""


class PolicyCannotResumeError(CannotTransitionError):
    """Only a suspended policy is resumed."""


class PolicyCannotRevokeError(CannotTransitionError):
    """The policy is revoked already."""


class Principals(Value):
    """Whom a grant is for: a principal that any part names. With all parts empty, nobody."""

    actor_ids: frozenset[UUID] = frozenset()
    kinds: frozenset[ActorKind] = frozenset()
    agent_kinds: frozenset[str] = frozenset()
    visit_roles: frozenset[VisitRole] = frozenset()

    def without(self, actor_id: UUID) -> "Principals":
        return replace(self, actor_ids=self.actor_ids - {actor_id})


class GrantScope(Value):
    """The objects a grant is about; each kind uses its own fields only."""

    kind: GrantScopeKind
    facility_codes: frozenset[str] = frozenset()
    visit_ids: frozenset[UUID] = frozenset()
    # Empty: every status but Voided.
    visit_statuses: frozenset[VisitStatus] = frozenset()


class Grant(Value):
    """One rule of a policy: who may, or may not, call what, through which door, on which objects, and when.

    Without principals of its own it is for the policy's. Without surfaces, an Allow holds on every surface
    that calls arrive on from outside, and a Deny on every surface at all.
    """

    grant_id: UUID
    effect: GrantEffect
    principals: Principals | None = None
    operations: frozenset[str]
    surface_ids: frozenset[UUID] = frozenset()
    conduit_id: UUID | None = None
    scope: GrantScope
    from_at: datetime | None = None
    until_at: datetime | None = None


class PolicyFact(Event):
    policy_id: UUID


class PolicyDefined(PolicyFact):
    name: str
    description: str | None = None
    principals: Principals = Principals()
    grants: tuple[Grant, ...] = ()


class PolicyUpdated(PolicyFact):
    name: str
    description: str | None = None


class PolicyPrincipalAdded(PolicyFact):
    principal_id: UUID


class PolicyGrantAdded(PolicyFact):
    grant: Grant


class PolicyGrantRevoked(PolicyFact):
    """The grant goes; or the actor goes, from the policy's principals and from those of every grant."""

    grant_id: UUID | None = None
    principal_id: UUID | None = None
    reason: str


class PolicySuspended(PolicyFact):
    reason: str


class PolicyResumed(PolicyFact):
    """The policy counts again."""


class PolicyRevoked(PolicyFact):
    reason: str


type PolicyEvent = (
    PolicyDefined
    | PolicyUpdated
    | PolicyPrincipalAdded
    | PolicyGrantAdded
    | PolicyGrantRevoked
    | PolicySuspended
    | PolicyResumed
    | PolicyRevoked
)

ALIVE = frozenset({PolicyStatus.ACTIVE, PolicyStatus.SUSPENDED})

LIFECYCLE = StateMachine[PolicyStatus](
    {
        PolicySuspended: move({PolicyStatus.ACTIVE}, PolicyStatus.SUSPENDED, PolicyCannotSuspendError),
        PolicyResumed: move({PolicyStatus.SUSPENDED}, PolicyStatus.ACTIVE, PolicyCannotResumeError),
        PolicyRevoked: move(ALIVE, PolicyStatus.REVOKED, PolicyCannotRevokeError),
    }
)


class Policy(Value):
    id: UUID
    name: str
    description: str | None
    principals: Principals
    grants: dict[UUID, Grant]
    status: PolicyStatus = PolicyStatus.ACTIVE

    @property
    def all_principals(self) -> list[Principals]:
        """The policy's own principals, and those of each grant that has some."""
        return [self.principals, *(grant.principals for grant in self.grants.values() if grant.principals)]

    @property
    def actor_ids(self) -> frozenset[UUID]:
        """Every actor that the policy names."""
        return frozenset[UUID]().union(*(each.actor_ids for each in self.all_principals))


def evolve(policy: Policy | None, event: PolicyEvent) -> Policy:
    match event:
        case PolicyDefined():
            return Policy(
                id=event.policy_id,
                name=event.name,
                description=event.description,
                principals=event.principals,
                grants={grant.grant_id: grant for grant in event.grants},
            )
        case _ if policy is None:
            raise ValueError(event)
        case PolicyUpdated():
            return replace(policy, name=event.name, description=event.description)
        case PolicyPrincipalAdded():
            actor_ids = policy.principals.actor_ids | {event.principal_id}
            return replace(policy, principals=replace(policy.principals, actor_ids=actor_ids))
        case PolicyGrantAdded():
            return replace(policy, grants=policy.grants | {event.grant.grant_id: event.grant})
        case PolicyGrantRevoked():
            return _revoked(policy, event)
        case PolicySuspended() | PolicyResumed() | PolicyRevoked():
            return replace(policy, status=LIFECYCLE.after(event))
        case _:
            assert_never(event)


def _revoked(policy: Policy, event: PolicyGrantRevoked) -> Policy:
    actor_id = event.principal_id
    grants = {id: grant for id, grant in policy.grants.items() if id != event.grant_id}
    if actor_id is None:
        return replace(policy, grants=grants)
    # A grant that loses its last principal is for nobody: it does not fall back to the policy's.
    narrowed = {
        id: replace(grant, principals=grant.principals and grant.principals.without(actor_id))
        for id, grant in grants.items()
    }
    return replace(policy, principals=policy.principals.without(actor_id), grants=narrowed)


def claims(policy: Policy) -> list[Claim]:
    """A name is taken while its policy is not revoked."""
    if policy.status is PolicyStatus.REVOKED:
        return []
    return [Claim(kind="policy-name", key=policy.name.casefold(), taken=PolicyNameTakenError)]


policies = Aggregate[Policy, PolicyEvent](
    "Policy",
    plural="policies",
    events=PolicyEvent,
    evolve=evolve,
    missing=PolicyNotFoundError,
    belongs=lambda policy: Belonging.nowhere,
    claims=claims,
    authority=True,
)


def like_patterns(policy: Policy) -> list[str]:
    """The SQL LIKE patterns of all operations that some grant is about."""
    parsed = {parse_pattern(text) for grant in policy.grants.values() for text in grant.operations}
    return sorted(pattern.like() for pattern in parsed if pattern)


policies.reads(
    "/policies",
    filters=(
        "status",
        Filter(name="principal_id", type=UUID, of=lambda p: sorted(p.actor_ids), test=Test.CONTAINS),
        Filter(
            name="kind",
            type=ActorKind,
            of=lambda p: sorted({kind for each in p.all_principals for kind in each.kinds}),
            test=Test.CONTAINS,
        ),
        Filter(
            name="visit_role",
            type=VisitRole,
            of=lambda p: sorted({role for each in p.all_principals for role in each.visit_roles}),
            test=Test.CONTAINS,
        ),
        Filter(name="operation", type=str, of=like_patterns, test=Test.MATCHED_BY, texts=str.split),
        Filter(
            name="surface_id",
            type=UUID,
            of=lambda p: sorted({id for grant in p.grants.values() for id in grant.surface_ids}),
            test=Test.CONTAINS,
        ),
        Filter(
            name="conduit_id",
            type=UUID,
            of=lambda p: sorted({grant.conduit_id for grant in p.grants.values() if grant.conduit_id}),
            test=Test.CONTAINS,
        ),
        Filter(
            name="effect",
            type=GrantEffect,
            of=lambda p: sorted({grant.effect for grant in p.grants.values()}),
            test=Test.CONTAINS,
        ),
    ),
    sorts=("name", "created_at"),
    text=("name", "description"),
    lists=False,
)


def check_alive(policy: Policy, refusal: type[CannotTransitionError]) -> None:
    """Gate: a revoked policy stays as it is."""
    if policy.status not in ALIVE:
        raise refusal.of(policy.id, policy.status, ALIVE)


def unless_locked_out[E: PolicyEvent](event: E, authority: Authority) -> E:
    """Gate: `event`, when it leaves an effective administrator."""
    check_administrators(authority, [event], event.occurred_at)
    return event


@policies.operation("POST /policies/{policy_id}/update")
class UpdatePolicy(Command[Policy]):
    """Change a policy's name or description."""

    policy_id: UUID
    name: text.Name | UnsetType = UNSET
    description: text.Description | UnsetType | None = UNSET

    async def gather(self, world: World) -> Policy:
        return await world.load(policies, self.policy_id)

    def decide(self, policy: Policy, occasion: Occasion) -> list[PolicyUpdated]:
        name = text.name(patched(self.name, policy.name), InvalidPolicyNameError)
        description = text.description(
            patched(self.description, policy.description), InvalidPolicyDescriptionError
        )
        check_alive(policy, PolicyCannotUpdateError)
        if (name, description) == (policy.name, policy.description):
            return []
        return [
            PolicyUpdated(policy_id=policy.id, occurred_at=occasion.now, name=name, description=description)
        ]


@policies.operation("POST /policies/{policy_id}/grants/revoke", name="revoke_grant")
class RevokePolicyGrant(Command[tuple[Policy, Authority]]):
    """Take one grant from a policy, or one actor from the policy and all its grants."""

    policy_id: UUID
    grant_id: UUID | None = None
    principal_id: UUID | None = None
    reason: text.Reason

    async def gather(self, world: World) -> tuple[Policy, Authority]:
        return await world.load(policies, self.policy_id), world.authority

    def decide(self, seen: tuple[Policy, Authority], occasion: Occasion) -> PolicyGrantRevoked:
        policy, authority = seen
        reason = text.reason(self.reason, InvalidPolicyReasonError)
        if (self.grant_id is None) == (self.principal_id is None):
            raise InvalidPolicyGrantError("Name either the grant or the principal to revoke, not both.")
        self.check_present(policy)
        check_alive(policy, PolicyCannotRevokeGrantError)
        revoked = PolicyGrantRevoked(
            policy_id=policy.id,
            occurred_at=occasion.now,
            grant_id=self.grant_id,
            principal_id=self.principal_id,
            reason=reason,
        )
        return unless_locked_out(revoked, authority)

    def check_present(self, policy: Policy) -> None:
        """Gate: what is to be revoked is there."""
        if self.grant_id is not None and self.grant_id not in policy.grants:
            raise PolicyGrantNotFoundError(
                "The policy has no such grant.", policy_id=str(policy.id), grant_id=str(self.grant_id)
            )
        if self.principal_id is not None and self.principal_id not in policy.actor_ids:
            raise PolicyGrantNotFoundError(
                "The policy does not name this actor. One that it matches by kind or role is kept out by "
                "adding a Deny grant for it.",
                policy_id=str(policy.id),
                principal_id=str(self.principal_id),
            )


@policies.operation("POST /policies/{policy_id}/suspend")
class SuspendPolicy(Command[tuple[Policy, Authority]]):
    """Let a policy count no more until it is resumed."""

    policy_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> tuple[Policy, Authority]:
        return await world.load(policies, self.policy_id), world.authority

    def decide(self, seen: tuple[Policy, Authority], occasion: Occasion) -> PolicySuspended:
        policy, authority = seen
        reason = text.reason(self.reason, InvalidPolicyReasonError)
        LIFECYCLE.check(PolicySuspended, policy.status, policy.id)
        suspended = PolicySuspended(policy_id=policy.id, occurred_at=occasion.now, reason=reason)
        return unless_locked_out(suspended, authority)


@policies.operation("POST /policies/{policy_id}/resume")
class ResumePolicy(Command[tuple[Policy, Authority]]):
    """Let a suspended policy count again."""

    policy_id: UUID

    async def gather(self, world: World) -> tuple[Policy, Authority]:
        return await world.load(policies, self.policy_id), world.authority

    def decide(self, seen: tuple[Policy, Authority], occasion: Occasion) -> PolicyResumed:
        policy, authority = seen
        LIFECYCLE.check(PolicyResumed, policy.status, policy.id)
        return unless_locked_out(PolicyResumed(policy_id=policy.id, occurred_at=occasion.now), authority)


@policies.operation("POST /policies/{policy_id}/revoke")
class RevokePolicy(Command[tuple[Policy, Authority]]):
    """Put a policy out of force for good; its name becomes free."""

    policy_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> tuple[Policy, Authority]:
        return await world.load(policies, self.policy_id), world.authority

    def decide(self, seen: tuple[Policy, Authority], occasion: Occasion) -> PolicyRevoked:
        policy, authority = seen
        reason = text.reason(self.reason, InvalidPolicyReasonError)
        LIFECYCLE.check(PolicyRevoked, policy.status, policy.id)
        revoked = PolicyRevoked(policy_id=policy.id, occurred_at=occasion.now, reason=reason)
        return unless_locked_out(revoked, authority)


# The view exists only once it was derived from the state, hence no class statement and no static type.
PolicyPage: Any = msgspec.defstruct(
    "PolicyPage",
    [("items", list[policies.view]), ("next_cursor", str | None), ("as_of", str)],
    frozen=True,
    kw_only=True,
)


@policies.operation("GET /policies")
class ListPolicies(ListRequest):
    """List policies, filtered, searched and sorted."""

    status: PolicyStatus | None = None
    principal_id: UUID | None = None
    kind: ActorKind | None = None
    visit_role: VisitRole | None = None
    operation: str | None = None
    surface_id: UUID | None = None
    conduit_id: UUID | None = None
    effect: GrantEffect | None = None
    q: SearchText | None = None
    sort: Literal["name", "-name", "created_at", "-created_at"] = "-created_at"

    async def answer(self, world: World) -> Any:
        return await world.page(policies, self.resolved(world.operations))

    answer.__annotations__["return"] = PolicyPage

    def resolved(self, operations: Mapping[str, Operation]) -> "ListPolicies":
        """This request with the texts that stored patterns are tried on in place of the operation's name."""
        if self.operation is None:
            return self
        operation = named_operation(self.operation, operations)
        tried = texts(operation.context, operation.name, operation.reads)
        return replace(self, operation=" ".join(tried))


def named_operation(name: str, operations: Mapping[str, Operation]) -> Operation:
    """The operation whose grant `name` needs, or the refusal: history needs that of the single read."""
    if name not in operations:
        raise InvalidPolicyOperationError(f"There is no operation {name}.", operations=[name])
    return operations[operations[name].permission]


def matched(text: str, operations: Mapping[str, Operation]) -> frozenset[str]:
    """The operations that a pattern means; those that need another one's grant are not granted themselves."""
    pattern = parse_pattern(text)
    if pattern is None:
        return frozenset()
    return frozenset(
        each.name
        for each in operations.values()
        if each.permission == each.name and pattern.matches(each.context, each.name, each.reads)
    )
