"""The indexes of a snapshot: rules by operation, teams by member, facilities as a tree."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from uuid import UUID

from beamwright.contexts.access.actor import Actor
from beamwright.contexts.federation.facility import Facility
from beamwright.kernel.operation import Operation
from beamwright.kernel.roles import VisitRole
from beamwright.kernel.value import Value

from .policy import (
    Grant,
    GrantEffect,
    GrantScopeKind,
    Policy,
    PolicyStatus,
    Principals,
    matched,
)
from .surface import Surface
from .visit import Visit


class Rule(Value):
    """A grant of an active policy, with the principals it is for."""

    policy_id: UUID
    grant: Grant
    principals: Principals

    def names(self, actor: Actor) -> bool:
        """Whether it selects `actor` by who it is, and not by its role in a visit."""
        return actor.id in self.principals.actor_ids or actor.kind in self.principals.kinds

    def opens(self, surface: Surface, conduit_id: UUID) -> bool:
        """Whether it is about calls through this door."""
        grant = self.grant
        if grant.conduit_id not in (None, conduit_id):
            return False
        if grant.surface_ids:
            return surface.id in grant.surface_ids
        return grant.effect is GrantEffect.DENY or not surface.in_process

    def in_period(self, now: datetime) -> bool:
        begins, ends = self.grant.from_at, self.grant.until_at
        return (begins is None or begins <= now) and (ends is None or now < ends)

    @property
    def boundless(self) -> bool:
        """Whether it allows everything of its operations, for good."""
        grant = self.grant
        everything = grant.scope.kind is GrantScopeKind.EVERYTHING
        return everything and grant.effect is GrantEffect.ALLOW and grant.until_at is None


class Rulebook:
    """The rules of all active policies, found by operation."""

    def __init__(
        self,
        policies: Mapping[UUID, Policy],
        operations: Mapping[str, Operation],
        known: dict[str, frozenset[str]],
    ) -> None:
        self.policies = policies
        self.operations = operations
        # The operations never change while the service runs, so what a pattern means is worked out once.
        self.known = known
        self._about: dict[str, Sequence[Rule]] = {}

    def meant(self, pattern: str) -> frozenset[str]:
        """The names of the operations that a pattern means."""
        if pattern not in self.known:
            self.known[pattern] = matched(pattern, self.operations)
        return self.known[pattern]

    def about(self, operation: str) -> Sequence[Rule]:
        """Looked for when first asked: few operations are, between one change of a policy and the next."""
        if operation not in self._about:
            self._about[operation] = [rule for rule in self._rules if self._concerns(rule, operation)]
        return self._about[operation]

    def _concerns(self, rule: Rule, operation: str) -> bool:
        return any(operation in self.meant(pattern) for pattern in rule.grant.operations)

    @cached_property
    def _rules(self) -> Sequence[Rule]:
        return [
            Rule(
                policy_id=policy.id,
                grant=grant,
                principals=policy.principals if grant.principals is None else grant.principals,
            )
            for policy in self.policies.values()
            if policy.status is PolicyStatus.ACTIVE
            for grant in policy.grants.values()
        ]


class Teams:
    """Who belongs to which visits, and which visits are parts of which."""

    def __init__(self, visits: Mapping[UUID, Visit]) -> None:
        self.visits = visits

    @cached_property
    def _roles(self) -> Mapping[UUID, Mapping[UUID, VisitRole]]:
        found: dict[UUID, dict[UUID, VisitRole]] = {}
        for visit in self.visits.values():
            for actor_id, role in visit.members.items():
                found.setdefault(actor_id, {})[visit.id] = role
        return found

    @cached_property
    def _children(self) -> Mapping[UUID | None, Sequence[UUID]]:
        return children_of(self.visits.values())

    def roles(self, actor_id: UUID) -> Mapping[UUID, VisitRole]:
        """The actor's role in each visit that it is a member of."""
        return self._roles.get(actor_id, {})

    def with_parts(self, visit_ids: Iterable[UUID]) -> frozenset[UUID]:
        """The visits and all that descend from them."""
        return with_descendants(visit_ids, self._children)


class Places:
    """The tree of facilities."""

    def __init__(self, facilities: Mapping[UUID, Facility]) -> None:
        self.facilities = facilities

    @cached_property
    def _by_code(self) -> Mapping[str, UUID]:
        return {facility.code: facility.id for facility in self.facilities.values()}

    @cached_property
    def _children(self) -> Mapping[UUID | None, Sequence[UUID]]:
        return children_of(self.facilities.values())

    def ancestors(self, facility_id: UUID) -> tuple[UUID, ...]:
        """The parents of a facility, nearest first."""
        found: list[UUID] = []
        facility = self.facilities.get(facility_id)
        while facility is not None and facility.parent_id is not None:
            found.append(facility.parent_id)
            facility = self.facilities.get(facility.parent_id)
        return tuple(found)

    def covered(self, codes: Iterable[str]) -> frozenset[str]:
        """The codes of these facilities and of all their parts."""
        ids = [self._by_code[code] for code in codes if code in self._by_code]
        return frozenset(self.facilities[id].code for id in with_descendants(ids, self._children))

    def related(self, code: str) -> frozenset[str]:
        """The codes of the facilities that cover this one or that it covers."""
        above = self.ancestors(self._by_code[code]) if code in self._by_code else ()
        return self.covered([code]) | {self.facilities[id].code for id in above if id in self.facilities}


def children_of(nodes: Iterable[Visit] | Iterable[Facility]) -> dict[UUID | None, list[UUID]]:
    found: dict[UUID | None, list[UUID]] = {}
    for node in nodes:
        found.setdefault(node.parent_id, []).append(node.id)
    return found


def with_descendants(ids: Iterable[UUID], children: Mapping[UUID | None, Sequence[UUID]]) -> frozenset[UUID]:
    found: set[UUID] = set()
    waiting = list(ids)
    while waiting:
        id = waiting.pop()
        if id not in found:
            found.add(id)
            waiting.extend(children.get(id, ()))
    return frozenset(found)
