"""Policy: its rules, its status grid, and what its grants must be like."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from beamwright.contexts.access.actor import ActorNotFoundError, ActorRegistered, actors
from beamwright.contexts.federation.facility import FacilityNotFoundError
from beamwright.contexts.trust.conduit import ConduitNotFoundError
from beamwright.contexts.trust.granting import (
    AddPolicyGrant,
    AddPolicyPrincipal,
    DefinePolicy,
    GrantDraft,
    GrantScopeDraft,
    Mandate,
    PolicyMandate,
    PrincipalsDraft,
)
from beamwright.contexts.trust.policy import (
    Grant,
    GrantEffect,
    GrantScope,
    GrantScopeKind,
    InvalidPolicyDescriptionError,
    InvalidPolicyGrantError,
    InvalidPolicyNameError,
    InvalidPolicyOperationError,
    InvalidPolicyReasonError,
    ListPolicies,
    Policy,
    PolicyCannotAddGrantError,
    PolicyCannotAddPrincipalError,
    PolicyDefined,
    PolicyGrantAdded,
    PolicyGrantNotFoundError,
    PolicyGrantRevoked,
    PolicyPrincipalAdded,
    PolicyPrincipalAlreadyPresentError,
    PolicyResumed,
    PolicyRevoked,
    PolicySuspended,
    PolicyUpdated,
    Principals,
    ResumePolicy,
    RevokePolicy,
    RevokePolicyGrant,
    SuspendPolicy,
    UpdatePolicy,
    policies,
)
from beamwright.contexts.trust.surface import SurfaceNotFoundError
from beamwright.contexts.trust.visit import VisitNotFoundError
from beamwright.kernel.authority import LastAdministratorError
from beamwright.kernel.errors import DomainError
from beamwright.kernel.event import Event
from beamwright.kernel.registry import Registry
from beamwright.kernel.roles import ActorKind, VisitRole, VisitStatus
from tests.contexts.trust.examples import SmallWorld, check_columns
from tests.rules import NEW_ID, NOW, OCCASION, given, outcome

POLICY, GRANT, OTHER_GRANT, ANN, BEN = (UUID(int=number) for number in range(40, 45))
OPERATIONS = Registry([policies, actors]).operations
LATER = NOW + timedelta(hours=1)


class Administered:
    """An authority that is left with these administrators whatever happens."""

    def __init__(self, *administrators: UUID) -> None:
        self.left = frozenset(administrators)

    def administrators(self, after: Sequence[Event], now: datetime) -> frozenset[UUID]:
        return self.left


SAFE: Any = Administered(ANN)
LOCKED_OUT: Any = Administered()


def everything(grant_id: UUID = GRANT, principals: Principals | None = None) -> Grant:
    return Grant(
        grant_id=grant_id,
        effect=GrantEffect.ALLOW,
        principals=principals,
        operations=frozenset({"*:*"}),
        scope=GrantScope(kind=GrantScopeKind.EVERYTHING),
    )


def people(*actor_ids: UUID) -> Principals:
    return Principals(actor_ids=frozenset(actor_ids))


DEFINED = PolicyDefined(
    policy_id=POLICY,
    occurred_at=NOW,
    name="Staff",
    description="Old hands",
    principals=people(ANN),
    grants=(everything(), everything(OTHER_GRANT, people(ANN, BEN))),
)
SUSPENDED = PolicySuspended(policy_id=POLICY, occurred_at=NOW, reason="audit")
REVOKED = PolicyRevoked(policy_id=POLICY, occurred_at=NOW, reason="replaced")
STAFF: Policy = given(policies, DEFINED)


def draft(kind: GrantScopeKind = GrantScopeKind.EVERYTHING, **fields: Any) -> GrantDraft:
    """A grant of scope `kind`; each field goes to the grant or to its scope, wherever it belongs."""
    scope = {name: fields.pop(name) for name in GrantScope.__struct_fields__ if name in fields}
    grant: dict[str, Any] = {"effect": GrantEffect.ALLOW, "operations": frozenset({"access:*"})} | fields
    return GrantDraft(**grant, scope=GrantScopeDraft(kind=kind, **scope))


def define(*grants: GrantDraft, name: str = "Staff", **fields: Any) -> DefinePolicy:
    return DefinePolicy(name=name, grants=grants, **fields)


def decided(command: Any, seen: Any) -> Any:
    return outcome(command, seen)


def defining(command: DefinePolicy, authority: Any = SAFE) -> Any:
    return outcome(command, Mandate(operations=OPERATIONS, authority=authority))


def adding(command: AddPolicyGrant, policy: Policy = STAFF, authority: Any = SAFE) -> Any:
    return outcome(command, PolicyMandate(policy=policy, operations=OPERATIONS, authority=authority))


def test_define_gives_every_grant_an_id() -> None:
    [defined] = defining(define(draft(), draft(), name="  Staff "))
    assert [grant.grant_id for grant in defined.grants] == [OCCASION.fresh_id(0), OCCASION.fresh_id(1)]
    assert (defined.policy_id, defined.name) == (NEW_ID, "Staff")


def test_define_records_plain_values_that_fold_and_survive_storage() -> None:
    [defined] = defining(define(draft(principals=PrincipalsDraft(kinds=frozenset({ActorKind.HUMAN})))))
    stored = policies.decoder.decode(msgspec.json.encode(defined))
    assert stored == defined
    assert type(stored.grants[0].principals) is type(defined.grants[0].principals) is Principals


OWN = GrantScopeKind.OWN_VISITS
LEADS = PrincipalsDraft(visit_roles=frozenset({VisitRole.LEAD}))
MANY_IDS = frozenset(UUID(int=number) for number in range(501))


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (define(name=" "), InvalidPolicyNameError),
        (define(name="x" * 201), InvalidPolicyNameError),
        (define(description=" "), InvalidPolicyDescriptionError),
        (define(*[draft()] * 101), InvalidPolicyGrantError),
        (define(principals=PrincipalsDraft(actor_ids=MANY_IDS)), InvalidPolicyGrantError),
        (define(principals=PrincipalsDraft(agent_kinds=frozenset({" "}))), InvalidPolicyGrantError),
        (
            define(draft(principals=PrincipalsDraft(agent_kinds=frozenset(map(str, range(33)))))),
            InvalidPolicyGrantError,
        ),
        (define(draft(operations=frozenset())), InvalidPolicyGrantError),
        (define(draft(operations=frozenset(map(str, range(201))))), InvalidPolicyGrantError),
        (define(draft(surface_ids=frozenset(list(MANY_IDS)[:21]))), InvalidPolicyGrantError),
        (define(draft(GrantScopeKind.FACILITY)), InvalidPolicyGrantError),
        (define(draft(GrantScopeKind.VISIT)), InvalidPolicyGrantError),
        (define(draft(GrantScopeKind.OWNER, facility_codes=frozenset({"home"}))), InvalidPolicyGrantError),
        (
            define(draft(GrantScopeKind.FACILITY, facility_codes=frozenset(map(str, range(51))))),
            InvalidPolicyGrantError,
        ),
        (define(draft(GrantScopeKind.VISIT, visit_ids=MANY_IDS)), InvalidPolicyGrantError),
        (
            define(draft(GrantScopeKind.EVERYTHING, visit_statuses=frozenset({VisitStatus.PLANNED}))),
            InvalidPolicyGrantError,
        ),
        (define(draft(from_at=LATER, until_at=LATER)), InvalidPolicyGrantError),
        (define(draft(principals=LEADS)), InvalidPolicyGrantError),
        (define(draft(), principals=LEADS), InvalidPolicyGrantError),
        (define(draft(operations=frozenset({"access:*", "fly_away"}))), InvalidPolicyOperationError),
        (define(draft(operations=frozenset({"get_policy_history"}))), InvalidPolicyOperationError),
        (define(draft(operations=frozenset({"Access:*"}))), InvalidPolicyOperationError),
    ],
)
def test_define_refuses(command: DefinePolicy, refusal: type[DomainError]) -> None:
    assert defining(command) == refusal


@pytest.mark.parametrize(
    "command",
    [
        define(),
        define(draft(OWN, principals=LEADS)),
        define(draft(GrantScopeKind.OWN_VISIT_FACILITIES), principals=LEADS),
        define(draft(principals=PrincipalsDraft()), principals=LEADS),
        define(draft(from_at=NOW, until_at=LATER)),
        define(draft(operations=frozenset({" @reads ", "*", "trust:*_policy"}))),
    ],
)
def test_define_accepts(command: DefinePolicy) -> None:
    [defined] = defining(command)
    assert policies.fold([defined]) is not None


def test_unknown_operations_are_listed() -> None:
    command = define(draft(operations=frozenset({"nap", "access:*"})), draft(operations=frozenset({"doze"})))
    with pytest.raises(InvalidPolicyOperationError) as refused:
        command.decide(Mandate(operations=OPERATIONS, authority=SAFE), OCCASION)
    assert refused.value.context["operations"] == ["doze", "nap"]


@pytest.mark.parametrize(
    ("grant", "refusal"),
    [
        (draft(principals=PrincipalsDraft(actor_ids=frozenset({BEN}))), ActorNotFoundError),
        (draft(surface_ids=frozenset({BEN})), SurfaceNotFoundError),
        (draft(conduit_id=BEN), ConduitNotFoundError),
        (
            draft(GrantScopeKind.FACILITY, facility_codes=frozenset({"nowhere"})),
            FacilityNotFoundError,
        ),
        (
            draft(GrantScopeKind.VISIT, visit_ids=frozenset({BEN})),
            VisitNotFoundError,
        ),
        (draft(operations=frozenset({"fly_away"}), conduit_id=BEN), InvalidPolicyOperationError),
    ],
)
def test_whatever_a_grant_names_must_exist(grant: GrantDraft, refusal: type[DomainError]) -> None:
    world: Any = SmallWorld(STAFF)
    world.operations = OPERATIONS
    for command in (define(grant), AddPolicyGrant(policy_id=POLICY, grant=grant)):
        with pytest.raises(refusal):
            asyncio.run(command.gather(world))


def test_an_added_principal_must_exist() -> None:
    command = AddPolicyPrincipal(policy_id=POLICY, principal_id=BEN)
    ben = given(actors, ActorRegistered(actor_id=BEN, occurred_at=NOW, kind=ActorKind.HUMAN))
    worlds: list[Any] = [SmallWorld(STAFF), SmallWorld(STAFF, ben)]
    with pytest.raises(ActorNotFoundError):
        asyncio.run(command.gather(worlds[0]))
    assert asyncio.run(command.gather(worlds[1]))[0] == STAFF


def test_add_principal_adds_it_to_the_policy() -> None:
    [added] = decided(AddPolicyPrincipal(policy_id=POLICY, principal_id=BEN), (STAFF, SAFE))
    assert added == PolicyPrincipalAdded(policy_id=POLICY, occurred_at=NOW, principal_id=BEN)
    assert given(policies, DEFINED, added).principals == people(ANN, BEN)


def test_add_principal_refuses_one_that_is_present() -> None:
    command = AddPolicyPrincipal(policy_id=POLICY, principal_id=ANN)
    assert outcome(command, (STAFF, SAFE)) == PolicyPrincipalAlreadyPresentError


def test_a_policy_names_at_most_500_actors() -> None:
    full = given(policies, msgspec.structs.replace(DEFINED, principals=people(*sorted(MANY_IDS)[:500])))
    command = AddPolicyPrincipal(policy_id=POLICY, principal_id=UUID(int=600))
    assert outcome(command, (full, SAFE)) == PolicyCannotAddPrincipalError


def test_add_grant_gives_it_an_id() -> None:
    [added] = adding(AddPolicyGrant(policy_id=POLICY, grant=draft()))
    assert isinstance(added, PolicyGrantAdded)
    assert set(given(policies, DEFINED, added).grants) == {GRANT, OTHER_GRANT, NEW_ID}


def test_a_policy_has_at_most_100_grants() -> None:
    grants = tuple(everything(UUID(int=number)) for number in range(100))
    full = given(policies, msgspec.structs.replace(DEFINED, grants=grants))
    assert adding(AddPolicyGrant(policy_id=POLICY, grant=draft()), full) == PolicyCannotAddGrantError


def test_an_added_grant_for_the_policys_roles_needs_an_own_scope() -> None:
    leads = Principals(visit_roles=frozenset({VisitRole.LEAD}))
    policy = given(policies, msgspec.structs.replace(DEFINED, principals=leads, grants=()))
    assert adding(AddPolicyGrant(policy_id=POLICY, grant=draft()), policy) == InvalidPolicyGrantError


def revoke(
    grant_id: UUID | None = None, principal_id: UUID | None = None, reason: str = "left"
) -> RevokePolicyGrant:
    return RevokePolicyGrant(policy_id=POLICY, grant_id=grant_id, principal_id=principal_id, reason=reason)


def test_revoking_a_grant_takes_it_away() -> None:
    [revoked] = decided(revoke(grant_id=GRANT), (STAFF, SAFE))
    assert revoked == PolicyGrantRevoked(policy_id=POLICY, occurred_at=NOW, grant_id=GRANT, reason="left")
    assert set(given(policies, DEFINED, revoked).grants) == {OTHER_GRANT}


def test_revoking_a_principal_takes_it_from_the_policy_and_every_grant() -> None:
    [revoked] = decided(revoke(principal_id=ANN), (STAFF, SAFE))
    left = given(policies, DEFINED, revoked)
    assert (left.principals, left.grants[OTHER_GRANT].principals) == (Principals(), people(BEN))


def test_a_grant_that_loses_its_last_principal_does_not_fall_back_to_the_policys() -> None:
    first = msgspec.structs.replace(DEFINED, grants=(everything(GRANT, people(BEN)),))
    gone = PolicyGrantRevoked(policy_id=POLICY, occurred_at=NOW, principal_id=BEN, reason="left")
    assert given(policies, first, gone).grants[GRANT].principals == Principals()


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (revoke(grant_id=GRANT, reason=" "), InvalidPolicyReasonError),
        (revoke(), InvalidPolicyGrantError),
        (revoke(grant_id=GRANT, principal_id=ANN), InvalidPolicyGrantError),
        (revoke(grant_id=ANN), PolicyGrantNotFoundError),
        (revoke(principal_id=GRANT), PolicyGrantNotFoundError),
    ],
)
def test_revoke_grant_refuses(command: RevokePolicyGrant, refusal: type[DomainError]) -> None:
    assert outcome(command, (STAFF, SAFE)) == refusal


GUARDED: dict[str, Any] = {
    "revoke_grant": revoke(grant_id=GRANT),
    "add_policy_principal": AddPolicyPrincipal(policy_id=POLICY, principal_id=BEN),
    "suspend_policy": SuspendPolicy(policy_id=POLICY, reason="audit"),
    "revoke_policy": RevokePolicy(policy_id=POLICY, reason="replaced"),
}


@pytest.mark.parametrize("command", GUARDED.values(), ids=GUARDED)
def test_nothing_takes_the_last_administrator_away(command: Any) -> None:
    assert outcome(command, (STAFF, LOCKED_OUT)) == LastAdministratorError


def test_a_resumed_policy_may_not_lock_out() -> None:
    suspended = given(policies, DEFINED, SUSPENDED)
    assert outcome(ResumePolicy(policy_id=POLICY), (suspended, LOCKED_OUT)) == LastAdministratorError


def test_a_new_grant_may_not_lock_out() -> None:
    assert defining(define(draft(effect=GrantEffect.DENY)), LOCKED_OUT) == LastAdministratorError
    command = AddPolicyGrant(policy_id=POLICY, grant=draft(effect=GrantEffect.DENY))
    assert adding(command, authority=LOCKED_OUT) == LastAdministratorError


def test_update_keeps_what_is_absent_and_clears_what_is_null() -> None:
    got = outcome(UpdatePolicy(policy_id=POLICY, description=None), STAFF)
    assert got == [PolicyUpdated(policy_id=POLICY, occurred_at=NOW, name="Staff", description=None)]
    assert outcome(UpdatePolicy(policy_id=POLICY, name="Staff"), STAFF) == []


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (UpdatePolicy(policy_id=POLICY, name=" "), InvalidPolicyNameError),
        (UpdatePolicy(policy_id=POLICY, description=" "), InvalidPolicyDescriptionError),
    ],
)
def test_update_refuses_bad_text(command: UpdatePolicy, refusal: type[DomainError]) -> None:
    assert outcome(command, STAFF) == refusal


@pytest.mark.parametrize("verb", [SuspendPolicy, RevokePolicy])
def test_a_reason_is_needed(verb: Any) -> None:
    assert outcome(verb(policy_id=POLICY, reason=" "), (STAFF, SAFE)) == InvalidPolicyReasonError


def test_name_is_claimed_until_revoked() -> None:
    assert [claim.key for claim in policies.claims(STAFF)] == ["staff"]
    assert policies.claims(given(policies, DEFINED, REVOKED)) == []


GRID = """
            update     add-principal  add-grant  revoke-grant  suspend    resume  revoke
Active      Active     Active         Active     Active        Suspended  -       Revoked
Suspended   Suspended  Suspended      Suspended  Suspended     -          Active  Revoked
Revoked     -          -              -          -             -          -       -
"""


def test_status_grid() -> None:
    check_columns(
        GRID,
        policies,
        {"Active": [DEFINED], "Suspended": [DEFINED, SUSPENDED], "Revoked": [DEFINED, REVOKED]},
        {
            "update": (UpdatePolicy(policy_id=POLICY, name="Other"), lambda policy: policy),
            "add-principal": (GUARDED["add_policy_principal"], lambda policy: (policy, SAFE)),
            "add-grant": (
                AddPolicyGrant(policy_id=POLICY, grant=draft()),
                lambda policy: PolicyMandate(policy=policy, operations=OPERATIONS, authority=SAFE),
            ),
            "revoke-grant": (GUARDED["revoke_grant"], lambda policy: (policy, SAFE)),
            "suspend": (GUARDED["suspend_policy"], lambda policy: (policy, SAFE)),
            "resume": (ResumePolicy(policy_id=POLICY), lambda policy: (policy, SAFE)),
            "revoke": (GUARDED["revoke_policy"], lambda policy: (policy, SAFE)),
        },
    )


def test_a_resumed_policy_is_active_again() -> None:
    resumed = PolicyResumed(policy_id=POLICY, occurred_at=NOW)
    assert given(policies, DEFINED, SUSPENDED, resumed) == STAFF


def column(name: str, policy: Policy) -> Any:
    return next(each.of(policy) for each in policies.listing.filters if each.name == name)


def test_lists_find_what_the_policy_or_any_grant_names() -> None:
    grant = msgspec.structs.replace(
        everything(principals=Principals(kinds=frozenset({ActorKind.AGENT}), actor_ids=frozenset({BEN}))),
        surface_ids=frozenset({GRANT}),
        conduit_id=OTHER_GRANT,
    )
    policy = given(policies, msgspec.structs.replace(DEFINED, grants=(grant,)))
    assert column("principal_id", policy) == [ANN, BEN]
    assert column("kind", policy) == ["agent"]
    assert (column("surface_id", policy), column("conduit_id", policy)) == ([GRANT], [OTHER_GRANT])
    assert (column("effect", policy), column("operation", policy)) == (["Allow"], ["%:%"])


def test_list_by_operation_tries_its_full_name_and_its_kind() -> None:
    resolved = ListPolicies(operation="list_policies").resolved(OPERATIONS)
    texts = next(each.texts for each in policies.listing.filters if each.name == "operation")
    assert texts(resolved.operation) == ["trust:list_policies", "trust@reads"]


def test_list_by_an_unknown_operation_is_refused() -> None:
    with pytest.raises(InvalidPolicyOperationError):
        ListPolicies(operation="fly_away").resolved(OPERATIONS)


def test_the_list_request_has_a_parameter_for_every_filter() -> None:
    assert {each.name for each in policies.listing.filters} < set(ListPolicies.__struct_fields__)
