"""Granting: making policies and widening them, with everything that a grant may name."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from beamwright.contexts.access.actor import actors
from beamwright.contexts.federation.facility import facilities
from beamwright.kernel import text
from beamwright.kernel.authority import Authority
from beamwright.kernel.operation import Command, Occasion, Operation, World
from beamwright.kernel.value import Time, Value

from .conduit import conduits
from .policy import (
    Grant,
    GrantEffect,
    GrantScope,
    GrantScopeKind,
    InvalidPolicyDescriptionError,
    InvalidPolicyGrantError,
    InvalidPolicyNameError,
    InvalidPolicyOperationError,
    Policy,
    PolicyCannotAddGrantError,
    PolicyCannotAddPrincipalError,
    PolicyDefined,
    PolicyGrantAdded,
    PolicyPrincipalAdded,
    PolicyPrincipalAlreadyPresentError,
    Principals,
    check_alive,
    matched,
    policies,
    unless_locked_out,
)
from .surface import surfaces
from .visit import visits

MOST_ACTORS = 500
MOST_AGENT_KINDS = 32
MOST_GRANTS = 100
MOST_PATTERNS = 200
MOST_SURFACES = 20
MOST_FACILITIES = 50
MOST_VISITS = 200

OWN_SCOPES = frozenset({GrantScopeKind.OWN_VISITS, GrantScopeKind.OWN_VISIT_FACILITIES})


def check_size(what: str, given: Collection[object], least: int, most: int) -> None:
    """Gate: no part of a grant is larger than people can read."""
    if not least <= len(given) <= most:
        raise InvalidPolicyGrantError(
            f"Give {least} to {most} {what}, not {len(given)}.", least=least, most=most, given=len(given)
        )


class PrincipalsDraft(Principals, forbid_unknown_fields=True):
    """Whom a grant is for, as a request says it."""

    def checked(self) -> Principals:
        check_size("actor_ids", self.actor_ids, 0, MOST_ACTORS)
        check_size("agent_kinds", self.agent_kinds, 0, MOST_AGENT_KINDS)
        return Principals(
            actor_ids=self.actor_ids,
            kinds=self.kinds,
            agent_kinds=frozenset(
                text.trimmed(kind, 100, InvalidPolicyGrantError, "agent kind") for kind in self.agent_kinds
            ),
            visit_roles=self.visit_roles,
        )


class GrantScopeDraft(GrantScope, forbid_unknown_fields=True):
    """The objects that a grant is about, as a request says it."""

    def checked(self) -> GrantScope:
        kind = self.kind
        check_size(
            "facility_codes", self.facility_codes, *self.bounds(GrantScopeKind.FACILITY, MOST_FACILITIES)
        )
        check_size("visit_ids", self.visit_ids, *self.bounds(GrantScopeKind.VISIT, MOST_VISITS))
        if self.visit_statuses and kind not in OWN_SCOPES:
            raise InvalidPolicyGrantError(f"A grant of scope {kind} has no visit_statuses.", scope=kind)
        return GrantScope(
            kind=kind,
            facility_codes=self.facility_codes,
            visit_ids=self.visit_ids,
            visit_statuses=self.visit_statuses,
        )

    def bounds(self, kind: GrantScopeKind, most: int) -> tuple[int, int]:
        """How many names a scope of `kind` takes; one of another kind takes none."""
        return (1, most) if self.kind is kind else (0, 0)


class GrantDraft(Value, forbid_unknown_fields=True):
    """A grant as a request says it, before it has an id."""

    effect: GrantEffect
    principals: PrincipalsDraft | None = None
    operations: frozenset[str]
    surface_ids: frozenset[UUID] = frozenset()
    conduit_id: UUID | None = None
    scope: GrantScopeDraft
    from_at: Time | None = None
    until_at: Time | None = None

    def checked(self, grant_id: UUID, inherited: Principals) -> Grant:
        """The grant with its text trimmed, or the first refusal; `inherited` are the policy's principals."""
        principals = self.principals and self.principals.checked()
        check_size("operations", self.operations, 1, MOST_PATTERNS)
        check_size("surface_ids", self.surface_ids, 0, MOST_SURFACES)
        scope = self.scope.checked()
        if self.from_at and self.until_at and self.until_at <= self.from_at:
            raise InvalidPolicyGrantError("A grant's until_at must be after its from_at.")
        # An empty Principals is somebody's decision too: only null means the policy's.
        selected = inherited if principals is None else principals
        if selected.visit_roles and scope.kind not in OWN_SCOPES:
            raise InvalidPolicyGrantError(
                f"Visit roles need the scope OwnVisits or OwnVisitFacilities, not {scope.kind}.",
                scope=scope.kind,
            )
        return Grant(
            grant_id=grant_id,
            effect=self.effect,
            principals=principals,
            operations=frozenset(pattern.strip() for pattern in self.operations),
            surface_ids=self.surface_ids,
            conduit_id=self.conduit_id,
            scope=scope,
            from_at=self.from_at,
            until_at=self.until_at,
        )


def check_operations(grants: Iterable[Grant], operations: Mapping[str, Operation]) -> None:
    """Gate: every pattern means at least one operation that can be granted."""
    patterns = {pattern for grant in grants for pattern in grant.operations}
    if unknown := sorted(pattern for pattern in patterns if not matched(pattern, operations)):
        raise InvalidPolicyOperationError(
            "These patterns match no operation; write name or context:name, with * for any characters.",
            operations=unknown,
        )


async def load_named(world: World, principals: Principals, grants: Sequence[Grant]) -> None:
    """Load whatever the principals and grants name: each must exist, and exist still when it is recorded."""
    everyone = [principals, *(grant.principals for grant in grants if grant.principals)]
    await world.load_all(actors, sorted({id for each in everyone for id in each.actor_ids}))
    await world.load_all(surfaces, sorted({id for grant in grants for id in grant.surface_ids}))
    await world.load_all(conduits, sorted({grant.conduit_id for grant in grants if grant.conduit_id}))
    for code in sorted({code for grant in grants for code in grant.scope.facility_codes}):
        await world.load_claimed(facilities, "facility-code", code)
    await world.load_all(visits, sorted({id for grant in grants for id in grant.scope.visit_ids}))


class Mandate(Value):
    """What a new policy is measured by: the operations there are, and who administers the installation."""

    operations: Mapping[str, Operation]
    authority: Authority


@policies.operation("POST /policies", creates=True)
class DefinePolicy(Command[Mandate]):
    """Define a policy: named grants, and the principals they are for."""

    name: text.Name
    description: text.Description | None = None
    principals: PrincipalsDraft = PrincipalsDraft()
    grants: tuple[GrantDraft, ...] = ()

    async def gather(self, world: World) -> Mandate:
        _, _, principals, grants = self.checked(world.operations, [UUID(int=0)] * len(self.grants))
        await load_named(world, principals, grants)
        return Mandate(operations=world.operations, authority=world.authority)

    def checked(
        self, operations: Mapping[str, Operation], grant_ids: Sequence[UUID]
    ) -> tuple[str, str | None, Principals, list[Grant]]:
        """Name, description, principals and grants, or the first refusal of a value."""
        name = text.name(self.name, InvalidPolicyNameError)
        description = text.description(self.description, InvalidPolicyDescriptionError)
        check_size("grants", self.grants, 0, MOST_GRANTS)
        principals = self.principals.checked()
        drafts = zip(self.grants, grant_ids, strict=True)
        grants = [draft.checked(grant_id, principals) for draft, grant_id in drafts]
        check_operations(grants, operations)
        return name, description, principals, grants

    def decide(self, mandate: Mandate, occasion: Occasion) -> PolicyDefined:
        grant_ids = [occasion.fresh_id(number) for number in range(len(self.grants))]
        name, description, principals, grants = self.checked(mandate.operations, grant_ids)
        defined = PolicyDefined(
            policy_id=occasion.new_id,
            occurred_at=occasion.now,
            name=name,
            description=description,
            principals=principals,
            grants=tuple(grants),
        )
        return unless_locked_out(defined, mandate.authority)


@policies.operation("POST /policies/{policy_id}/add-principal")
class AddPolicyPrincipal(Command[tuple[Policy, Authority]]):
    """Let a policy's grants be for one more actor."""

    policy_id: UUID
    principal_id: UUID

    async def gather(self, world: World) -> tuple[Policy, Authority]:
        policy = await world.load(policies, self.policy_id)
        await world.load(actors, self.principal_id)
        return policy, world.authority

    def decide(self, seen: tuple[Policy, Authority], occasion: Occasion) -> PolicyPrincipalAdded:
        policy, authority = seen
        check_alive(policy, PolicyCannotAddPrincipalError)
        present = policy.principals.actor_ids
        if len(present) >= MOST_ACTORS:
            raise PolicyCannotAddPrincipalError(
                f"A policy names at most {MOST_ACTORS} actors.", policy_id=str(policy.id), most=MOST_ACTORS
            )
        if self.principal_id in present:
            raise PolicyPrincipalAlreadyPresentError(
                "The policy names this actor already.",
                policy_id=str(policy.id),
                principal_id=str(self.principal_id),
            )
        added = PolicyPrincipalAdded(
            policy_id=policy.id, occurred_at=occasion.now, principal_id=self.principal_id
        )
        return unless_locked_out(added, authority)


class PolicyMandate(Mandate):
    """What a new grant is measured by, and the policy it joins."""

    policy: Policy


@policies.operation("POST /policies/{policy_id}/grants/add", name="add_grant")
class AddPolicyGrant(Command[PolicyMandate]):
    """Add a grant to a policy."""

    policy_id: UUID
    grant: GrantDraft

    async def gather(self, world: World) -> PolicyMandate:
        policy = await world.load(policies, self.policy_id)
        grant = self.checked(policy, world.operations, UUID(int=0))
        await load_named(world, Principals(), [grant])
        return PolicyMandate(policy=policy, operations=world.operations, authority=world.authority)

    def checked(self, policy: Policy, operations: Mapping[str, Operation], grant_id: UUID) -> Grant:
        grant = self.grant.checked(grant_id, policy.principals)
        check_operations([grant], operations)
        return grant

    def decide(self, mandate: PolicyMandate, occasion: Occasion) -> PolicyGrantAdded:
        policy = mandate.policy
        grant = self.checked(policy, mandate.operations, occasion.new_id)
        check_alive(policy, PolicyCannotAddGrantError)
        if len(policy.grants) >= MOST_GRANTS:
            raise PolicyCannotAddGrantError(
                f"A policy has at most {MOST_GRANTS} grants.", policy_id=str(policy.id), most=MOST_GRANTS
            )
        added = PolicyGrantAdded(policy_id=policy.id, occurred_at=occasion.now, grant=grant)
        return unless_locked_out(added, mandate.authority)
