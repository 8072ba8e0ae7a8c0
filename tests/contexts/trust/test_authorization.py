"""Authorization: the lines of its table in order, and how far grants reach."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.access.actor import (
    ActorDeactivated,
    ActorDeactivationReason,
    actors,
)
from beamwright.contexts.trust.authorization import Snapshot
from beamwright.contexts.trust.conduit import ConduitRetired
from beamwright.contexts.trust.policy import (
    GrantEffect,
    GrantScopeKind,
    PolicyGrantRevoked,
    PolicyResumed,
    PolicySuspended,
    Principals,
)
from beamwright.contexts.trust.surface import (
    ControlBasis,
    SurfaceControlTaken,
    SurfaceRetired,
    SurfaceUpdated,
)
from beamwright.contexts.trust.visit import (
    PresenceMode,
    VisitHeld,
    VisitMemberRemoved,
    VisitPresenceOpened,
    VisitVoided,
)
from beamwright.contexts.trust.zone import ZoneDefined
from beamwright.kernel.authority import Authority, AuthzReason, Caller
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.operation import Installation
from beamwright.kernel.roles import ActorKind, VisitRole, VisitStatus
from beamwright.kernel.wellknown import HTTP_SURFACE, IN_PROCESS_SURFACE
from tests.contexts.trust.premises import (
    ANN,
    ANN_MAY,
    BEN,
    CONDUIT,
    EVE,
    HALL,
    HOME,
    HUTCH,
    LATER,
    NOWHERE,
    OPERATIONS,
    OTHER_VISIT,
    PART,
    STOP_DENIED,
    VISIT,
    A,
    B,
    ask,
    at,
    authority,
    conduit,
    facility,
    grant,
    policy,
    started,
    visit,
)
from tests.rules import NOW

# The table, line by line.


@pytest.mark.parametrize(
    ("scopes", "reason"),
    [
        ((), AuthzReason.GRANTED),
        (("openid", "profile"), AuthzReason.GRANTED),
        (("beamwright:run:*",), AuthzReason.GRANTED),
        (("beamwright:@commands", "beamwright:trust:*"), AuthzReason.GRANTED),
        (("beamwright:@reads",), AuthzReason.TOKEN_SCOPE),
        (("beamwright:nonsense!",), AuthzReason.TOKEN_SCOPE),
        (("beamwright:",), AuthzReason.TOKEN_SCOPE),
    ],
)
def test_a_token_narrows(scopes: Collection[str], reason: AuthzReason) -> None:
    assert ask(authority(ANN_MAY), scopes=scopes).reason is reason


def test_a_token_never_widens() -> None:
    assert ask(authority(), scopes=["beamwright:*:*"]).reason is AuthzReason.NO_GRANT


def test_an_unknown_or_retired_surface_is_closed() -> None:
    retired = SurfaceRetired(surface_id=HTTP_SURFACE, occurred_at=NOW, reason="gone")
    assert ask(authority(ANN_MAY), surface_id=A).reason is AuthzReason.SURFACE_RETIRED
    assert ask(authority(ANN_MAY, retired)).reason is AuthzReason.SURFACE_RETIRED


def test_a_foreign_or_retired_conduit_is_closed() -> None:
    retired = ConduitRetired(conduit_id=CONDUIT, occurred_at=NOW, reason="gone")
    assert ask(authority(ANN_MAY), conduit_id=A).reason is AuthzReason.CONDUIT_RETIRED
    assert ask(authority(ANN_MAY, conduit(A)), conduit_id=A).reason is AuthzReason.CONDUIT_RETIRED
    assert ask(authority(ANN_MAY, retired)).reason is AuthzReason.CONDUIT_RETIRED


def test_an_unknown_actor_may_nothing() -> None:
    everyone = policy(grant(), actor_ids=[A])
    assert ask(authority(everyone), A).reason is AuthzReason.ACTOR_UNKNOWN


def test_an_inactive_actor_may_nothing() -> None:
    gone = ActorDeactivated(actor_id=ANN, occurred_at=NOW, reason=ActorDeactivationReason.DEPARTED)
    assert ask(authority(ANN_MAY, gone)).reason is AuthzReason.ACTOR_INACTIVE


def test_deny_beats_allow_and_names_its_policy() -> None:
    barred = policy(grant(effect=GrantEffect.DENY, number=2), id=B, kinds=[ActorKind.HUMAN])
    result = ask(authority(ANN_MAY, barred))
    assert (result.reason, result.determining_policies) == (AuthzReason.DENIED_BY_POLICY, (B,))
    assert result.grant_ids == (UUID(int=502),)


def test_nothing_said_is_denied() -> None:
    result = ask(authority(ANN_MAY), BEN)
    assert (result.reason, result.determining_policies) == (AuthzReason.NO_GRANT, ())


def test_allow_names_the_policies_of_all_its_grants() -> None:
    also = policy(grant(GrantScopeKind.OWNER, number=2), id=B, kinds=[ActorKind.HUMAN])
    result = ask(authority(also, ANN_MAY))
    assert result.allowed
    assert (result.reason, result.determining_policies) == (AuthzReason.GRANTED, (A, B))


@pytest.mark.parametrize(
    ("patterns", "allowed"),
    [
        (["start_run"], True),
        (["run:@commands"], True),
        (["*_run"], True),
        (["trust:*", "run:stop_*"], False),
        (["@reads"], False),
    ],
)
def test_a_grant_is_about_its_operations(patterns: list[str], allowed: bool) -> None:
    assert ask(authority(policy(grant(operations=patterns), actor_ids=[ANN]))).allowed is allowed


@pytest.mark.parametrize(
    ("principals", "allowed"),
    [
        ({"actor_ids": [ANN]}, True),
        ({"actor_ids": [BEN]}, False),
        ({"kinds": [ActorKind.HUMAN]}, True),
        ({"kinds": [ActorKind.AGENT], "actor_ids": [ANN]}, True),
        ({"kinds": [ActorKind.AGENT]}, False),
        ({}, False),
    ],
)
def test_a_grant_is_for_whom_any_part_names(principals: dict[str, Any], allowed: bool) -> None:
    assert ask(authority(policy(grant(), **principals))).allowed is allowed


def test_a_grants_own_principals_replace_the_policys() -> None:
    own = grant(principals=Principals(actor_ids=frozenset({BEN})))
    snapshot = authority(policy(own, actor_ids=[ANN]))
    assert not ask(snapshot, ANN).allowed
    assert ask(snapshot, BEN).allowed


def test_an_allow_without_surfaces_holds_on_no_in_process_surface() -> None:
    assert ask(authority(ANN_MAY), surface_id=IN_PROCESS_SURFACE).reason is AuthzReason.NO_GRANT


def test_an_allow_may_name_the_in_process_surface() -> None:
    inside = policy(grant(surface_ids=frozenset({IN_PROCESS_SURFACE})), actor_ids=[ANN])
    assert ask(authority(inside), surface_id=IN_PROCESS_SURFACE).allowed
    assert not ask(authority(inside)).allowed


def test_a_deny_without_surfaces_holds_on_every_surface() -> None:
    inside = grant(surface_ids=frozenset({IN_PROCESS_SURFACE}))
    both = policy(inside, grant(effect=GrantEffect.DENY, number=2), actor_ids=[ANN])
    assert ask(authority(both), surface_id=IN_PROCESS_SURFACE).reason is AuthzReason.DENIED_BY_POLICY


def test_a_grant_of_another_conduit_does_not_count() -> None:
    assert not ask(authority(policy(grant(conduit_id=A), actor_ids=[ANN]))).allowed
    assert ask(authority(policy(grant(conduit_id=CONDUIT), actor_ids=[ANN]))).allowed


def test_only_active_policies_count() -> None:
    suspended = PolicySuspended(policy_id=A, occurred_at=NOW, reason="audit")
    resumed = PolicyResumed(policy_id=A, occurred_at=NOW)
    assert not ask(authority(ANN_MAY, suspended)).allowed
    assert ask(authority(ANN_MAY, suspended, resumed)).allowed


def test_a_period_is_half_open() -> None:
    limited = policy(grant(from_at=NOW, until_at=LATER), actor_ids=[ANN])
    moments = [NOW - timedelta(seconds=1), NOW, LATER - timedelta(seconds=1), LATER]
    assert [ask(authority(limited), now=at).allowed for at in moments] == [False, True, True, False]


def test_an_answer_is_remembered_only_until_a_period_begins_or_ends() -> None:
    snapshot = authority(policy(grant(from_at=NOW, until_at=LATER), actor_ids=[ANN]))
    moments = [NOW, LATER, NOW - timedelta(seconds=1), NOW, LATER]
    assert [ask(snapshot, now=at).allowed for at in moments] == [True, False, False, True, False]
    assert ask(snapshot, now=NOW).holds_until == LATER


def test_an_answer_is_remembered() -> None:
    snapshot = authority(ANN_MAY)
    assert ask(snapshot) is ask(snapshot)
    assert ask(snapshot, scopes=["beamwright:@reads"]) is not ask(snapshot)


# Control of an exclusive surface.

EXCLUSIVE = SurfaceUpdated(
    surface_id=HTTP_SURFACE,
    occurred_at=NOW,
    name="door",
    conduit_id=CONDUIT,
    audience=None,
    exclusive=True,
    controlled_operations=frozenset({"run:start_*"}),
)
TAKEN = SurfaceControlTaken(
    surface_id=HTTP_SURFACE,
    occurred_at=NOW,
    visit_id=VISIT,
    actor_id=ANN,
    from_visit_id=None,
    basis=ControlBasis.FREE,
)
TEAM = {ANN: VisitRole.LEAD, BEN: VisitRole.MEMBER}
PRESENT = VisitPresenceOpened(visit_id=VISIT, occurred_at=NOW, actor_id=ANN, mode=PresenceMode.REMOTE)
IN_CONTROL: list[Event] = [ANN_MAY, EXCLUSIVE, visit(members=TEAM), *started(), PRESENT, TAKEN]


def test_who_is_present_where_control_is_held_may_use_it() -> None:
    assert ask(authority(*IN_CONTROL)).allowed


def test_without_control_only_uncontrolled_operations_pass() -> None:
    both = policy(grant(), id=B, actor_ids=[BEN])
    result = ask(authority(*IN_CONTROL, both), BEN)
    assert result.reason is AuthzReason.CONTROL_NOT_HELD
    assert result.context == {"holder": {"visit_id": str(VISIT), "actor_id": str(ANN)}}
    assert ask(authority(*IN_CONTROL, both), BEN, "stop_run").allowed


def test_a_free_exclusive_surface_must_be_taken_first() -> None:
    result = ask(authority(ANN_MAY, EXCLUSIVE))
    assert (result.reason, result.context) == (AuthzReason.CONTROL_NOT_HELD, {"holder": None})


def test_a_visit_on_hold_keeps_control_but_does_not_use_it() -> None:
    held = VisitHeld(visit_id=VISIT, occurred_at=NOW, reason="beam is off")
    assert ask(authority(*IN_CONTROL, held)).reason is AuthzReason.CONTROL_NOT_HELD


def test_control_gives_nothing_without_a_grant() -> None:
    assert ask(authority(*IN_CONTROL[1:])).reason is AuthzReason.NO_GRANT


def test_a_surface_that_is_not_exclusive_needs_no_control() -> None:
    assert ask(authority(ANN_MAY)).allowed


# Reach.


def reaches(snapshot: Snapshot, object: Belonging, name: str = "start_run", principal_id: UUID = ANN) -> bool:
    result = ask(snapshot, principal_id, name)
    return result.reach.holds(object, reading=OPERATIONS[name].reads)


def test_everything_reaches_everything() -> None:
    assert all(reaches(authority(ANN_MAY), each) for each in (NOWHERE, at("home"), Belonging(owner_id=BEN)))


def test_any_scope_reads_what_belongs_to_nothing_and_none_but_everything_changes_it() -> None:
    snapshot = authority(policy(grant(GrantScopeKind.OWNER), actor_ids=[ANN]))
    assert reaches(snapshot, NOWHERE, "get_run")
    assert not reaches(snapshot, NOWHERE, "start_run")


def test_facility_reaches_what_it_covers() -> None:
    snapshot = authority(policy(grant(GrantScopeKind.FACILITY, facility_codes=["hall"]), actor_ids=[ANN]))
    codes = ["home", "hall", "hutch", "away"]
    assert [reaches(snapshot, at(code)) for code in codes] == [False, True, True, False]


def test_visit_reaches_the_named_and_their_parts() -> None:
    named = policy(grant(GrantScopeKind.VISIT, visit_ids=[VISIT]), actor_ids=[ANN])
    snapshot = authority(visit(), visit(PART, parent_id=VISIT), visit(OTHER_VISIT), named)
    reached = [reaches(snapshot, at("hall", id)) for id in (VISIT, PART, OTHER_VISIT)]
    assert reached == [True, True, False]


def test_visit_does_not_reach_what_contains_it() -> None:
    named = policy(grant(GrantScopeKind.VISIT, visit_ids=[PART]), actor_ids=[ANN])
    assert not reaches(authority(visit(), visit(PART, parent_id=VISIT), named), at("hall", VISIT))


OWN_VISITS = policy(grant(GrantScopeKind.OWN_VISITS), roles=[VisitRole.LEAD])


def test_own_visits_reaches_the_visits_of_the_role_and_their_parts() -> None:
    snapshot = authority(
        visit(members=TEAM),
        visit(PART, parent_id=VISIT),
        visit(OTHER_VISIT, {ANN: VisitRole.MEMBER}),
        OWN_VISITS,
    )
    reached = [reaches(snapshot, at("hall", id)) for id in (VISIT, PART, OTHER_VISIT)]
    assert reached == [True, True, False]
    assert not ask(snapshot, BEN).allowed


def test_a_role_grant_matches_a_member_of_any_visit_in_that_role() -> None:
    voided = VisitVoided(visit_id=VISIT, occurred_at=NOW, reason="twice")
    snapshot = authority(visit(members=TEAM), voided, OWN_VISITS)
    assert ask(snapshot).allowed
    assert not reaches(snapshot, at("hall", VISIT))


def test_a_named_principal_reaches_its_visits_in_any_role() -> None:
    anyone = policy(grant(GrantScopeKind.OWN_VISITS), kinds=[ActorKind.HUMAN])
    assert reaches(authority(visit(members=TEAM), anyone), at("hall", VISIT), principal_id=BEN)


def test_own_visits_reaches_visits_of_the_listed_statuses() -> None:
    working = grant(GrantScopeKind.OWN_VISITS, visit_statuses=[VisitStatus.IN_PROGRESS])
    events = [visit(members=TEAM), policy(working, roles=[VisitRole.LEAD])]
    held = VisitHeld(visit_id=VISIT, occurred_at=NOW, reason="beam is off")
    stages = [events, [*events, *started()], [*events, *started(), held]]
    assert [reaches(authority(*stage), at("hall", VISIT)) for stage in stages] == [False, True, False]


def test_a_former_member_reaches_nothing() -> None:
    left = VisitMemberRemoved(visit_id=VISIT, occurred_at=NOW, actor_id=ANN, reason="ill")
    before = authority(visit(members=TEAM), OWN_VISITS)
    assert not ask(before.after([left])).allowed
    assert before.visits_of(ANN) == {VISIT}
    assert before.after([left]).visits_of(ANN) == frozenset()


def test_a_visits_own_policy_keeps_the_roles_of_other_policies_out() -> None:
    governed = visit(members=TEAM, policy_id=B)
    snapshot = authority(governed, visit(OTHER_VISIT, TEAM), OWN_VISITS)
    assert [reaches(snapshot, at("hall", id)) for id in (VISIT, OTHER_VISIT)] == [False, True]
    own = policy(grant(GrantScopeKind.OWN_VISITS), id=B, roles=[VisitRole.LEAD])
    assert reaches(authority(governed, own), at("hall", VISIT))


def test_a_visits_own_policy_does_not_keep_named_principals_out() -> None:
    named = policy(grant(GrantScopeKind.OWN_VISITS), kinds=[ActorKind.HUMAN])
    assert reaches(authority(visit(members=TEAM, policy_id=B), named), at("hall", VISIT))


OWN_FACILITIES = policy(grant(GrantScopeKind.OWN_VISIT_FACILITIES), roles=[VisitRole.LEAD])


def test_own_visit_facilities_reaches_what_is_at_a_related_facility_and_of_no_visit() -> None:
    snapshot = authority(visit(members=TEAM), OWN_FACILITIES)
    codes = ["home", "hall", "hutch", "away"]
    assert [reaches(snapshot, at(code)) for code in codes] == [True, True, True, False]
    assert not reaches(snapshot, at("hall", VISIT))


def test_own_visit_facilities_leaves_sisters_out() -> None:
    snapshot = authority(
        visit(members=TEAM, facility_code="hutch"), facility(A, "shed", HALL), OWN_FACILITIES
    )
    assert [reaches(snapshot, at(code)) for code in ("hall", "shed")] == [True, False]


def test_own_visit_facilities_leaves_visits_with_another_policy_out() -> None:
    assert not reaches(authority(visit(members=TEAM, policy_id=B), OWN_FACILITIES), at("hall"))


def test_owner_reaches_ones_own() -> None:
    snapshot = authority(policy(grant(GrantScopeKind.OWNER), kinds=[ActorKind.HUMAN]))
    assert reaches(snapshot, Belonging(owner_id=ANN))
    assert not reaches(snapshot, Belonging(owner_id=BEN))


def as_actor(id: UUID) -> Belonging:
    return Belonging(owner_id=id, member_id=id)


def test_actors_are_reached_through_a_shared_visit() -> None:
    snapshot = authority(visit(members=TEAM), OWN_VISITS)
    assert [reaches(snapshot, as_actor(id), "get_actor") for id in (ANN, BEN, EVE)] == [True, True, False]


def test_the_caller_always_reads_itself() -> None:
    abroad = policy(grant(GrantScopeKind.FACILITY, facility_codes=["away"]), actor_ids=[ANN])
    assert reaches(authority(abroad), as_actor(ANN), "get_actor")
    assert not reaches(authority(abroad), as_actor(ANN), "update_actor_profile")


def test_a_scoped_deny_limits_reach() -> None:
    snapshot = authority(ANN_MAY, STOP_DENIED)
    reached = [reaches(snapshot, at(code), "stop_run") for code in ("home", "hutch", "away")]
    assert reached == [False, False, True]
    assert ask(snapshot, ANN, "stop_run").reach.determining(at("hutch")) == (A, B)


# What one policy says, and what a snapshot keeps.


def test_evaluate_policy_looks_at_one_policy_alone() -> None:
    barred = policy(grant(effect=GrantEffect.DENY, number=2), id=B, kinds=[ActorKind.HUMAN])
    snapshot, caller = authority(ANN_MAY, barred), Caller(principal_id=ANN, kind="human")
    results = [snapshot.evaluate_policy(id, caller, "start_run", CONDUIT, HTTP_SURFACE, NOW) for id in (A, B)]
    assert [each.reason for each in results] == [AuthzReason.GRANTED, AuthzReason.DENIED_BY_POLICY]
    assert [each.determining_policies for each in results] == [(A,), (B,)]


def test_evaluate_policy_leaves_liveness_and_control_out() -> None:
    gone = ActorDeactivated(actor_id=ANN, occurred_at=NOW, reason=ActorDeactivationReason.DEPARTED)
    snapshot, caller = authority(ANN_MAY, EXCLUSIVE, gone), Caller(principal_id=ANN, kind="human")
    assert snapshot.evaluate_policy(A, caller, "start_run", CONDUIT, HTTP_SURFACE, NOW).allowed


def test_a_snapshot_stays_as_it_was() -> None:
    before = authority(ANN_MAY)
    revoked = PolicyGrantRevoked(policy_id=A, occurred_at=NOW, principal_id=ANN, reason="left")
    after = before.after([revoked], epoch=2)
    assert (ask(before).allowed, ask(after).allowed) == (True, False)
    assert (before.epoch, after.epoch) == (1, 2)


def test_events_of_other_aggregates_change_nothing() -> None:
    snapshot = authority(ANN_MAY)
    assert snapshot.after([ZoneDefined(zone_id=A, occurred_at=NOW, name="Clients")]).folded == snapshot.folded


def test_a_snapshot_uses_nothing_of_the_one_before_that_has_changed() -> None:
    first = authority(visit(members=TEAM), OWN_VISITS)
    left = VisitMemberRemoved(visit_id=VISIT, occurred_at=NOW, actor_id=ANN, reason="ill")
    states = {name: dict(known) for name, known in first.after([left]).folded.items()}
    second = Snapshot(states, OPERATIONS, Installation(), 2, first)
    assert (ask(first).allowed, ask(second).allowed) == (True, False)


def test_facility_ancestors_are_nearest_first() -> None:
    assert authority().facility_ancestors(HUTCH) == (HALL, HOME)


def test_the_authority_is_made_of_what_the_aggregates_say_it_is() -> None:
    seam: Authority = authority()
    assert seam.state("Actor", ANN, actors.state) == authority().states("Actor", actors.state)[ANN]
