"""Seeds: they fold, they name only what there is, and they let exactly the right people in."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from uuid import UUID

import pytest

import beamwright.contexts
from beamwright.contexts.access.actor import Actor, ActorIdentityLinked
from beamwright.contexts.federation.facility import Facility, FacilityKind
from beamwright.contexts.trust.authorization import Snapshot
from beamwright.contexts.trust.conduit import Conduit
from beamwright.contexts.trust.policy import (
    Grant,
    GrantEffect,
    GrantScopeKind,
    Policy,
    PolicyDefined,
    PolicyGrantAdded,
    PolicyGrantRevoked,
    PolicyStatus,
    matched,
)
from beamwright.contexts.trust.ready_made import (
    EVERYTHING,
    IN_PROCESS,
    OWNER,
    SeedGrant,
    SeedPolicy,
    people,
    ready_made_policies,
)
from beamwright.contexts.trust.seeds import SeedStream, granted, policy_stream, seed, seeded_grants, terms
from beamwright.contexts.trust.surface import Surface
from beamwright.contexts.trust.visit import VisitArrived
from beamwright.kernel import wellknown
from beamwright.kernel.authority import AuthzReason, AuthzResult, Caller
from beamwright.kernel.event import Event
from beamwright.kernel.operation import Installation, Operation
from beamwright.kernel.pattern import parse_pattern
from beamwright.kernel.profiles import Identity, Profile
from beamwright.kernel.registry import discover
from beamwright.kernel.roles import ActorKind, VisitRole, VisitStatus
from beamwright.kernel.value import Value, replace
from tests.contexts.trust.examples import registered
from tests.contexts.trust.premises import OPERATIONS as RUN_OPERATIONS
from tests.contexts.trust.premises import operation
from tests.rules import NOW

REGISTRY = discover(beamwright.contexts)
OPERATIONS: Mapping[str, Operation] = {
    **{each.name: each for each in RUN_OPERATIONS.values() if each.context == "run"},
    "observe_enclosure_status": operation("enclosure", "observe_enclosure_status"),
    **REGISTRY.operations,
}
INSTALLATION = Installation(self_facility_code="home", issuers=frozenset({wellknown.BUILT_IN_ISSUER}))


def ids() -> Iterator[UUID]:
    number = 0
    while True:
        number += 1
        yield UUID(int=number)


def seeded(builtin_issuer: bool = True, operations: Mapping[str, Operation] = OPERATIONS) -> list[SeedStream]:
    numbers = ids()
    return seed(NOW, INSTALLATION, operations, lambda: next(numbers), builtin_issuer)


def events(streams: Sequence[SeedStream]) -> list[Event]:
    return [record for stream in streams for record in stream.records if isinstance(record, Event)]


@cache
def authority(laptop: bool = False) -> Snapshot:
    installation = Installation(issuers=INSTALLATION.issuers, laptop=laptop)
    return Snapshot({}, OPERATIONS, installation, 1).after(events(seeded()))


def of[S: Value](state: type[S], id: UUID) -> S:
    found = authority().state(state.__name__, id, state)
    assert found is not None
    return found


def ask(
    name: str, principal_id: UUID, surface_id: UUID = wellknown.HTTP_SURFACE, *more: Event
) -> AuthzResult:
    conduit_id = of(Surface, surface_id).conduit_id
    caller = Caller(principal_id=principal_id, kind="human")
    return authority().after(more).authorize(caller, name, conduit_id, surface_id, NOW)


def well_known_ids() -> dict[str, UUID]:
    return {name: value for name, value in vars(wellknown).items() if isinstance(value, UUID)}


def test_well_known_ids_are_distinct() -> None:
    assert len(set(well_known_ids().values())) == len(well_known_ids())


def test_well_known_ids_are_uuids_of_version_7() -> None:
    assert {id.version for id in well_known_ids().values()} == {7}
    assert str(wellknown.ADMINISTRATOR) == "01900000-0000-7000-8000-00a000000102"


def test_every_seed_folds() -> None:
    for stream in seeded():
        aggregate = REGISTRY.aggregates[stream.aggregate]
        state = aggregate.fold(record for record in stream.records if isinstance(record, Event))
        assert state is not None and state.id == stream.id


def test_every_well_known_id_is_seeded_once() -> None:
    streams = [stream.id for stream in seeded()]
    assert len(set(streams)) == len(streams)
    by_command = {wellknown.PSEUDO_AXIS_FAMILY, wellknown.GENERAL_CLEARANCE_TEMPLATE}
    assert set(well_known_ids().values()) - by_command < set(streams)


def test_what_a_seed_names_comes_before_it() -> None:
    order = [stream.aggregate for stream in seeded()]
    assert list(dict.fromkeys(order)) == ["Actor", "Zone", "Conduit", "Surface", "Facility", "Policy"]


def test_every_actor_has_its_profile() -> None:
    names = {
        stream.id: [record.name for record in stream.records if isinstance(record, Profile)]
        for stream in seeded()
        if stream.aggregate == "Actor"
    }
    assert names[wellknown.LOCAL_OPERATOR] == ["Local operator"]
    assert all(len(name) == 1 for name in names.values())


def test_the_administrator_has_a_login_of_the_built_in_issuer() -> None:
    [stream] = [stream for stream in seeded() if stream.id == wellknown.ADMINISTRATOR]
    linked, identity = stream.records[2:]
    assert isinstance(linked, ActorIdentityLinked) and isinstance(identity, Identity)
    assert linked.identity_id == identity.identity_id
    assert (identity.issuer, identity.subject) == ("urn:beamwright:local", str(wellknown.ADMINISTRATOR))


def test_without_the_built_in_issuer_nobody_has_a_login() -> None:
    records = [record for stream in seeded(builtin_issuer=False) for record in stream.records]
    assert not any(isinstance(record, ActorIdentityLinked | Identity) for record in records)


def test_kinds_of_the_seeded_actors() -> None:
    assert of(Actor, wellknown.ADMINISTRATOR).kind is ActorKind.HUMAN
    assert of(Actor, wellknown.SCHEDULER).kind is ActorKind.SERVICE_ACCOUNT


def test_doors_lead_from_the_clients_to_the_service() -> None:
    conduit = of(Conduit, wellknown.CLIENTS_CONDUIT)
    zones_of_it = (conduit.source_zone_id, conduit.target_zone_id)
    assert zones_of_it == (wellknown.CLIENTS_ZONE, wellknown.SERVICE_ZONE)
    assert of(Surface, wellknown.MCP_SURFACE).conduit_id == conduit.id
    inside = of(Surface, wellknown.IN_PROCESS_SURFACE)
    assert (inside.kind, inside.audience, inside.conduit_id) == (None, None, wellknown.SERVICE_CONDUIT)


def test_the_own_site_is_seeded() -> None:
    [site] = authority().states("Facility", Facility).values()
    assert (site.code, site.display_name, site.kind) == ("home", "home", FacilityKind.SITE)


def test_seeded_names_and_audiences_are_unique() -> None:
    held = [
        (claim.kind, claim.key)
        for stream in seeded()
        for aggregate in [REGISTRY.aggregates[stream.aggregate]]
        for claim in aggregate.claims(aggregate.fold(events([stream])))
    ]
    assert len(set(held)) == len(held)


def all_policies() -> list[SeedPolicy]:
    return ready_made_policies("home")


def test_every_ready_made_pattern_is_well_formed() -> None:
    patterns = [text for policy in all_policies() for grant in policy.grants for text in grant.patterns]
    assert [text for text in patterns if parse_pattern(text) is None] == []


def test_only_patterns_that_match_something_are_seeded() -> None:
    for policy in authority().states("Policy", Policy).values():
        for grant in policy.grants.values():
            assert grant.operations
            assert all(matched(pattern, OPERATIONS) for pattern in grant.operations)


def test_a_grant_without_any_pattern_left_is_left_out() -> None:
    few = {name: OPERATIONS[name] for name in ("get_visit", "start_run")}
    defined = {
        each.policy_id: each for each in events(seeded(operations=few)) if isinstance(each, PolicyDefined)
    }
    assert defined[wellknown.PEER_POLICY].grants == ()
    assert [grant.operations for grant in defined[wellknown.AGENT_POLICY].grants] == [{"get_visit"}]


def test_role_grants_have_a_scope_of_own_visits() -> None:
    own = {GrantScopeKind.OWN_VISITS, GrantScopeKind.OWN_VISIT_FACILITIES}
    grants = [grant for policy in all_policies() for grant in policy.grants]
    assert {g.scope.kind for g in grants if g.principals and g.principals.visit_roles} == own


def test_the_administrator_is_effective() -> None:
    assert authority().administrators((), NOW) == {wellknown.ADMINISTRATOR}


def test_the_administrator_may_everything_but_report_for_a_monitor() -> None:
    assert ask("define_policy", wellknown.ADMINISTRATOR).reach.everything
    refused = ask("observe_enclosure_status", wellknown.ADMINISTRATOR)
    assert refused.reason is AuthzReason.DENIED_BY_POLICY
    assert refused.determining_policies == (wellknown.MONITOR_POLICY,)


def test_the_monitor_reports_inside_the_service_only() -> None:
    inside = ask("observe_enclosure_status", wellknown.MONITOR, wellknown.IN_PROCESS_SURFACE)
    assert inside.allowed
    assert ask("observe_enclosure_status", wellknown.MONITOR).reason is AuthzReason.NO_GRANT


def test_the_local_operator_may_nothing_while_laptop_is_suspended() -> None:
    assert of(Policy, wellknown.LAPTOP_POLICY).status is PolicyStatus.SUSPENDED
    assert ask("define_policy", wellknown.LOCAL_OPERATOR).reason is AuthzReason.NO_GRANT


def test_the_seeder_may_nothing_by_itself() -> None:
    asked = [
        ask(each.permission, wellknown.SEEDER, wellknown.IN_PROCESS_SURFACE)
        for each in REGISTRY.operations.values()
    ]
    assert {each.reason for each in asked} == {AuthzReason.NO_GRANT}


@pytest.mark.parametrize("name", ["get_run", "list_policies", "get_visit"])
def test_the_scheduler_reads_everything(name: str) -> None:
    assert ask(name, wellknown.SCHEDULER, wellknown.IN_PROCESS_SURFACE).reach.everything


def visit(status: VisitStatus, role: VisitRole) -> list[Event]:
    """A visit at home of which the local operator, a human, is a member."""
    planned = replace(registered(), members={wellknown.LOCAL_OPERATOR: role})
    arrived = VisitArrived(visit_id=planned.visit_id, occurred_at=NOW)
    return [planned] if status is VisitStatus.PLANNED else [planned, arrived]


TEAM_GRID = """
                  get_run  start_run  add_visit_member
Planned-Lead      yes      -          yes
Arrived-Lead      yes      yes        yes
Arrived-Member    yes      yes        -
Arrived-Observer  yes      -          -
"""


def test_members_may_what_their_role_and_the_visits_status_allow() -> None:
    names, *rows = [line.split() for line in TEAM_GRID.strip().splitlines()]
    for title, *cells in rows:
        status, role = title.split("-")
        history = visit(VisitStatus(status), VisitRole(role))
        for name, cell in zip(names, cells, strict=True):
            result = ask(name, wellknown.LOCAL_OPERATOR, wellknown.HTTP_SURFACE, *history)
            reached = any(candidate.span.visit_ids for candidate in result.reach.allow)
            assert reached is (cell == "yes"), f"{name} as {title}"


def without_federation() -> Mapping[str, Operation]:
    return {name: each for name, each in OPERATIONS.items() if each.context != "federation"}


def late(policy: SeedPolicy, *history: Event) -> list[Grant]:
    numbers = ids()
    return seeded_grants(policy, history, OPERATIONS, lambda: next(numbers))


def test_a_newer_version_grants_what_the_older_had_no_operations_for() -> None:
    older = {stream.id: stream.records for stream in seeded(operations=without_federation())}
    for policy in ready_made_policies("home"):
        history = [record for record in older[policy.id] if isinstance(record, Event)]
        added = [
            PolicyGrantAdded(policy_id=policy.id, occurred_at=NOW, grant=grant)
            for grant in late(policy, *history)
        ]
        now, fresh = (
            {
                (terms(grant), text)
                for event in events
                for grant in granted(event)
                for text in grant.operations
            }
            for events in ([*history, *added], of_policy(policy.id))
        )
        assert now == fresh
        assert late(policy, *history, *added) == []
        whole = {text for grant in added for text in grant.grant.operations}
        assert all(not matched(text, without_federation()) for text in whole)


def of_policy(id: UUID) -> list[Event]:
    [records] = [stream.records for stream in seeded() if stream.id == id]
    return [record for record in records if isinstance(record, Event)]


def test_what_was_revoked_is_not_granted_again() -> None:
    for policy in ready_made_policies("home"):
        history = of_policy(policy.id)
        revoked = [
            PolicyGrantRevoked(
                policy_id=policy.id, occurred_at=NOW, grant_id=grant.grant_id, reason="too much"
            )
            for event in history
            for grant in granted(event)
        ]
        assert late(policy, *history, *revoked) == []


def test_the_same_operation_on_other_terms_is_another_grant() -> None:
    before = replace(ready_made_policies("home")[0], grants=(SeedGrant(scope=OWNER, patterns=("hold_run",)),))
    numbers = ids()
    [stream] = [policy_stream(before, NOW, OPERATIONS, lambda: next(numbers))]
    history = [record for record in stream.records if isinstance(record, Event)]
    assert late(before, *history) == []
    for other in (
        SeedGrant(scope=EVERYTHING, patterns=("hold_run",)),
        SeedGrant(scope=OWNER, patterns=("hold_run",), effect=GrantEffect.DENY),
        SeedGrant(scope=OWNER, patterns=("hold_run",), surface_ids=IN_PROCESS),
        SeedGrant(scope=OWNER, patterns=("hold_run",), principals=people(wellknown.MONITOR)),
    ):
        after = replace(before, grants=(*before.grants, other))
        assert [terms(grant) for grant in late(after, *history)] == [terms(other)]
