"""Authorization: one picture of policies, actors, doors, visits and facilities, and what it allows."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from beamwright.contexts.access.actor import Actor, actors
from beamwright.contexts.federation.facility import facilities
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.authority import (
    AuthzDecision,
    AuthzReason,
    AuthzResult,
    Caller,
    Candidate,
    Reach,
    Span,
)
from beamwright.kernel.event import Event
from beamwright.kernel.operation import Installation, Operation
from beamwright.kernel.pattern import parse_pattern
from beamwright.kernel.roles import ActorKind, VisitRole, VisitStatus
from beamwright.kernel.value import Value, replace
from beamwright.kernel.wellknown import LOCAL_OPERATOR

from .conduit import ConduitStatus, conduits
from .policy import GrantEffect, GrantScopeKind, policies
from .rulebook import Places, Rule, Rulebook, Teams
from .surface import Surface, SurfaceStatus, surfaces
from .visit import visits

WATCHED: tuple[Aggregate[Any, Any], ...] = (actors, policies, surfaces, conduits, visits, facilities)
OWNERS: Mapping[type[Event], Aggregate[Any, Any]] = {
    event: aggregate for aggregate in WATCHED for event in (*aggregate.event_classes, *aggregate.upcasters)
}
NOTHING: Mapping[UUID, Value] = {}

SCOPE_PREFIX = "beamwright:"
IN_CONTROL = frozenset({VisitStatus.ARRIVED, VisitStatus.IN_PROGRESS})
COUNTED_BY_DEFAULT = frozenset(VisitStatus) - {VisitStatus.VOIDED}
# What it takes to put any other right in order.
POWERS = ("add_grant", "revoke_grant", "add_policy_principal", "resume_policy", "reactivate_actor")
MOST_REMEMBERED = 100_000


class Remembered(Value):
    """An answer, and the boundary of a grant's period from which on it was right."""

    since: datetime | None
    result: AuthzResult

    def holds(self, now: datetime) -> bool:
        until = self.result.holds_until
        return (self.since is None or self.since <= now) and (until is None or now < until)


class Snapshot:
    """The authority at one epoch. It never changes; what follows on events is another snapshot."""

    def __init__(
        self,
        states: Mapping[str, Mapping[UUID, Value]],
        operations: Mapping[str, Operation],
        installation: Installation,
        epoch: int,
        before: "Snapshot | None" = None,
    ) -> None:
        self.folded = states
        self.operations = operations
        self.installation = installation
        self.epoch = epoch
        self._actors = _of(states, actors)
        self._surfaces = _of(states, surfaces)
        self._conduits = _of(states, conduits)
        self._visits = _of(states, visits)
        self._policies = _of(states, policies)
        self._facilities = _of(states, facilities)
        self._rulebook, self._teams, self._places = self._indexes(before)
        self._results: dict[object, Remembered] = {}
        self._candidates: dict[tuple[UUID, UUID, UUID, bool], Candidate] = {}

    def _indexes(self, before: "Snapshot | None") -> tuple[Rulebook, Teams, Places]:
        """An earlier snapshot's indexes where nothing that they are made of has changed."""
        if before is None:
            return (
                Rulebook(self._policies, self.operations, {}),
                Teams(self._visits),
                Places(self._facilities),
            )
        rulebook, teams, places = before._rulebook, before._teams, before._places
        if not same(before._policies, self._policies):
            rulebook = Rulebook(self._policies, self.operations, rulebook.known)
        if not same(before._visits, self._visits, lambda visit: visit.members):
            teams = Teams(self._visits)
        if not same(before._facilities, self._facilities):
            places = Places(self._facilities)
        return rulebook, teams, places

    def after(self, events: Sequence[Event], epoch: int | None = None) -> "Snapshot":
        """The snapshot that follows on `events`, of which those of other aggregates change nothing."""
        changed: dict[str, dict[UUID, Value]] = {}
        for event in events:
            aggregate = OWNERS.get(type(event))
            if aggregate is None:
                continue
            if aggregate.name not in changed:
                changed[aggregate.name] = dict(self.folded.get(aggregate.name, {}))
            states = changed[aggregate.name]
            id: UUID = getattr(event, aggregate.id_field)
            states[id] = aggregate.evolve(states.get(id), aggregate.current(event))
        return Snapshot(
            {**self.folded, **changed},
            self.operations,
            self.installation,
            self.epoch if epoch is None else epoch,
            before=self,
        )

    def state[S](self, aggregate: str, id: UUID, type: type[S]) -> S | None:
        found = self.folded.get(aggregate, {}).get(id)
        return found if isinstance(found, type) else None

    def states[S](self, aggregate: str, type: type[S]) -> Mapping[UUID, S]:
        return cast(Mapping[UUID, S], self.folded.get(aggregate, NOTHING))

    def visits_of(self, actor_id: UUID) -> frozenset[UUID]:
        return frozenset(self._teams.roles(actor_id))

    def facility_ancestors(self, facility_id: UUID) -> tuple[UUID, ...]:
        return self._places.ancestors(facility_id)

    def authorize(
        self, caller: Caller, command_name: str, conduit_id: UUID, surface_id: UUID, now: datetime
    ) -> AuthzResult:
        key = (caller.principal_id, caller.scopes, command_name, conduit_id, surface_id)
        remembered = self._results.get(key)
        if remembered is None or not remembered.holds(now):
            if len(self._results) >= MOST_REMEMBERED:
                self._results.clear()
            remembered = self._decided(caller, self.operations[command_name], conduit_id, surface_id, now)
            self._results[key] = remembered
        return remembered.result

    def evaluate_policy(
        self,
        policy_id: UUID,
        caller: Caller,
        command_name: str,
        conduit_id: UUID,
        surface_id: UUID,
        now: datetime,
    ) -> AuthzResult:
        actor, surface = self._actors.get(caller.principal_id), self._surfaces.get(surface_id)
        if actor is None or surface is None:
            return denied(AuthzReason.NO_GRANT)
        rules = self._rules(actor, command_name, surface, conduit_id)
        applying = [rule for rule in rules if rule.policy_id == policy_id and rule.in_period(now)]
        return self._judged(actor, self.operations[command_name], applying)

    def _decided(
        self, caller: Caller, operation: Operation, conduit_id: UUID, surface_id: UUID, now: datetime
    ) -> Remembered:
        """The table of the authorization seam: the first line that applies decides."""
        actor, surface = self._actors.get(caller.principal_id), self._surfaces.get(surface_id)
        if not within_token(caller.scopes, operation):
            return Remembered(since=None, result=denied(AuthzReason.TOKEN_SCOPE))
        if surface is None or surface.status is SurfaceStatus.RETIRED:
            return Remembered(since=None, result=denied(AuthzReason.SURFACE_RETIRED))
        if not self._passable(surface, conduit_id):
            return Remembered(since=None, result=denied(AuthzReason.CONDUIT_RETIRED))
        if actor is None or not actor.active:
            reason = AuthzReason.ACTOR_INACTIVE if actor else AuthzReason.ACTOR_UNKNOWN
            return Remembered(since=None, result=denied(reason))
        rules = self._rules(actor, operation.name, surface, conduit_id)
        result = self._judged(actor, operation, [rule for rule in rules if rule.in_period(now)])
        if result.allowed and not self._in_control(actor, operation, surface):
            result = control_not_held(surface)
        bounds = {at for rule in rules for at in (rule.grant.from_at, rule.grant.until_at) if at}
        until = min((at for at in bounds if at > now), default=None)
        since = max((at for at in bounds if at <= now), default=None)
        return Remembered(since=since, result=replace(result, holds_until=until))

    def _passable(self, surface: Surface, conduit_id: UUID) -> bool:
        conduit = self._conduits.get(conduit_id)
        return (
            conduit is not None
            and conduit_id == surface.conduit_id
            and conduit.status is not ConduitStatus.RETIRED
        )

    def _rules(self, actor: Actor, operation: str, surface: Surface, conduit_id: UUID) -> list[Rule]:
        """The rules about this principal, operation and door, whatever their period."""
        roles = frozenset(self._teams.roles(actor.id).values())
        return [
            rule
            for rule in self._rulebook.about(operation)
            if (rule.names(actor) or not roles.isdisjoint(rule.principals.visit_roles))
            and rule.opens(surface, conduit_id)
        ]

    def _judged(self, actor: Actor, operation: Operation, rules: Sequence[Rule]) -> AuthzResult:
        """What the rules that apply say: an unlimited Deny ends it, an Allow is needed."""
        found = [(rule, self._candidate(actor, rule, reading=operation.reads)) for rule in rules]
        allow = tuple(each for rule, each in found if rule.grant.effect is GrantEffect.ALLOW)
        deny = tuple(each for rule, each in found if rule.grant.effect is GrantEffect.DENY)
        if barred := [candidate for candidate in deny if candidate.span.everything]:
            return denied(AuthzReason.DENIED_BY_POLICY, barred)
        if not allow:
            return denied(AuthzReason.NO_GRANT)
        return AuthzResult(
            decision=AuthzDecision.ALLOW,
            reason=AuthzReason.GRANTED,
            determining_policies=policy_ids(allow),
            grant_ids=grant_ids(allow),
            reach=Reach(allow=allow, deny=deny),
        )

    def _candidate(self, actor: Actor, rule: Rule, *, reading: bool) -> Candidate:
        grant = rule.grant
        # A caller always reaches itself, as far as reading goes.
        itself = {actor.id} if reading and grant.effect is GrantEffect.ALLOW else set[UUID]()
        key = (actor.id, rule.policy_id, grant.grant_id, bool(itself))
        if key not in self._candidates:
            span = self._span(actor, rule)
            members = itself.union(*(self._members(visit_id) for visit_id in span.visit_ids))
            self._candidates[key] = Candidate(
                policy_id=rule.policy_id,
                grant_id=grant.grant_id,
                span=replace(span, member_ids=frozenset(members)),
            )
        return self._candidates[key]

    def _members(self, visit_id: UUID) -> Collection[UUID]:
        visit = self._visits.get(visit_id)
        return visit.members if visit else ()

    def _span(self, actor: Actor, rule: Rule) -> Span:
        """The objects that a rule's scope holds for."""
        scope = rule.grant.scope
        match scope.kind:
            case GrantScopeKind.EVERYTHING:
                return Span(everything=True)
            case GrantScopeKind.FACILITY:
                return Span(facility_codes=self._places.covered(scope.facility_codes))
            case GrantScopeKind.VISIT:
                return Span(visit_ids=self._teams.with_parts(scope.visit_ids))
            case GrantScopeKind.OWN_VISITS:
                reached = self._teams.with_parts(self._own_visits(actor, rule))
                return Span(visit_ids=frozenset(id for id in reached if self._governs(rule, actor, id)))
            case GrantScopeKind.OWN_VISIT_FACILITIES:
                own = [id for id in self._own_visits(actor, rule) if self._governs(rule, actor, id)]
                related = (self._places.related(self._visits[id].facility_code) for id in own)
                return Span(visitless_facility_codes=frozenset[str]().union(*related))
            case GrantScopeKind.OWNER:
                return Span(owner_id=actor.id)

    def _own_visits(self, actor: Actor, rule: Rule) -> list[UUID]:
        """The visits of a listed status where the actor has one of the rule's roles, or any if named."""
        wanted = frozenset(VisitRole) if rule.names(actor) else rule.principals.visit_roles
        statuses = rule.grant.scope.visit_statuses or COUNTED_BY_DEFAULT
        return [
            id
            for id, role in self._teams.roles(actor.id).items()
            if role in wanted and self._visits[id].status in statuses
        ]

    def _governs(self, rule: Rule, actor: Actor, visit_id: UUID) -> bool:
        """Where a visit has a policy of its own, no other policy's roles count."""
        visit = self._visits.get(visit_id)
        own_policy_id = visit.policy_id if visit else None
        return own_policy_id in (None, rule.policy_id) or rule.names(actor)

    def _in_control(self, actor: Actor, operation: Operation, surface: Surface) -> bool:
        """Whether the operation needs no control of the surface, or the actor is present where it is held."""
        controlled = surface.exclusive and any(
            operation.name in self._rulebook.meant(pattern) for pattern in surface.controlled_operations
        )
        if not controlled:
            return True
        visit = self._visits.get(surface.holder.visit_id) if surface.holder else None
        return visit is not None and visit.status in IN_CONTROL and visit.open_presence(actor.id) is not None

    def administrators(self, after: Sequence[Event], now: datetime) -> frozenset[UUID]:
        """Whoever could still put every other right in order through some door from outside."""
        then = self.after(after) if after else self
        doors = [surface for surface in then._surfaces.values() if not surface.in_process]
        boundless = [rule for rule in then._rulebook.about(POWERS[0]) if rule.boundless]
        return frozenset(
            actor.id
            for actor in then._actors.values()
            if can_come_in(actor, then.installation)
            and any(rule.names(actor) for rule in boundless)
            and any(all(then._keeps(actor, power, door, now) for power in POWERS) for door in doors)
        )

    def _keeps(self, actor: Actor, power: str, door: Surface, now: datetime) -> bool:
        """Whether the actor may use `power` on everything, now and from each later bound of a period on."""
        caller = Caller(principal_id=actor.id, kind=actor.kind)
        at: datetime | None = now
        while at is not None:
            result = self.authorize(caller, power, door.conduit_id, door.id, at)
            if not result.reach.everything:
                return False
            at = result.holds_until
        return True


def _of[S: Value, E: Event](
    states: Mapping[str, Mapping[UUID, Value]], aggregate: Aggregate[S, E]
) -> Mapping[UUID, S]:
    return cast(Mapping[UUID, S], states.get(aggregate.name, NOTHING))


def same[S: Value](
    before: Mapping[UUID, S], after: Mapping[UUID, S], part: Callable[[S], object] = lambda state: state
) -> bool:
    """Whether that part of every state is as it was: a fold hands on what an event leaves alone."""
    if len(before) != len(after):
        return False
    pairs = zip(before.values(), after.values(), strict=True)
    return all(old is new or part(old) is part(new) for old, new in pairs)


def denied(reason: AuthzReason, candidates: Sequence[Candidate] = ()) -> AuthzResult:
    return AuthzResult(
        decision=AuthzDecision.DENY,
        reason=reason,
        determining_policies=policy_ids(candidates),
        grant_ids=grant_ids(candidates),
    )


def control_not_held(surface: Surface) -> AuthzResult:
    """The denial that names who holds the controls, if anybody does."""
    holder = surface.holder
    named = {"visit_id": str(holder.visit_id), "actor_id": str(holder.actor_id)} if holder else None
    return replace(denied(AuthzReason.CONTROL_NOT_HELD), context={"holder": named})


def policy_ids(candidates: Iterable[Candidate]) -> tuple[UUID, ...]:
    return tuple(sorted({candidate.policy_id for candidate in candidates}))


def grant_ids(candidates: Iterable[Candidate]) -> tuple[UUID, ...]:
    return tuple(sorted({candidate.grant_id for candidate in candidates}))


def within_token(scopes: Iterable[str], operation: Operation) -> bool:
    """A token narrows, never widens: its own scopes, where it has some, must mean the operation."""
    ours = [scope.removeprefix(SCOPE_PREFIX) for scope in scopes if scope.startswith(SCOPE_PREFIX)]
    patterns = [parse_pattern(scope) for scope in ours]
    return not ours or any(
        pattern.matches(operation.context, operation.name, operation.reads) for pattern in patterns if pattern
    )


def can_come_in(actor: Actor, installation: Installation) -> bool:
    """Whether somebody can call as this actor; the local operator needs a laptop and no login."""
    if not actor.active or actor.kind is ActorKind.AGENT:
        return False
    if actor.id == LOCAL_OPERATOR:
        return installation.laptop
    return not installation.issuers.isdisjoint(actor.identities.values())
