"""The lock-out guard: somebody can always put every other right in order."""

from uuid import UUID

import pytest

from beamwright.contexts.access.actor import (
    ActorDeactivated,
    ActorDeactivationReason,
    ActorIdentityLinked,
    ActorIdentityUnlinked,
    IdentityUnlinkReason,
)
from beamwright.contexts.trust.policy import (
    Grant,
    GrantEffect,
    GrantScopeKind,
    PolicyGrantAdded,
    PolicyGrantRevoked,
    PolicySuspended,
)
from beamwright.contexts.trust.surface import (
    SurfaceRetired,
)
from beamwright.kernel.event import Event
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.wellknown import HTTP_SURFACE, IN_PROCESS_SURFACE, LOCAL_OPERATOR
from tests.contexts.trust.premises import (
    ANN,
    ANN_MAY,
    BEN,
    ISSUER,
    LATER,
    ROBOT,
    STRANGER,
    A,
    B,
    actor,
    authority,
    grant,
    policy,
)
from tests.rules import NOW


def login(id: UUID, issuer: str = ISSUER) -> ActorIdentityLinked:
    return ActorIdentityLinked(actor_id=id, occurred_at=NOW, identity_id=id, issuer=issuer)


def administrators(*events: Event, laptop: bool = False) -> frozenset[UUID]:
    """Whoever administers after the last event, asked of the authority before it."""
    return authority(*events[:-1], laptop=laptop).administrators(events[-1:], NOW)


def test_an_administrator_needs_a_login_of_a_configured_issuer() -> None:
    assert administrators(ANN_MAY, login(ANN)) == {ANN}
    assert administrators(ANN_MAY) == frozenset()
    assert administrators(ANN_MAY, login(ANN, "https://elsewhere.example.org")) == frozenset()


@pytest.mark.parametrize(
    "event",
    [
        ActorDeactivated(actor_id=ANN, occurred_at=NOW, reason=ActorDeactivationReason.DEPARTED),
        ActorIdentityUnlinked(
            actor_id=ANN, occurred_at=NOW, identity_id=ANN, reason=IdentityUnlinkReason.REPLACED
        ),
        PolicyGrantRevoked(policy_id=A, occurred_at=NOW, grant_id=UUID(int=501), reason="left"),
        PolicyGrantRevoked(policy_id=A, occurred_at=NOW, principal_id=ANN, reason="left"),
        PolicySuspended(policy_id=A, occurred_at=NOW, reason="audit"),
        SurfaceRetired(surface_id=HTTP_SURFACE, occurred_at=NOW, reason="gone"),
        policy(grant(effect=GrantEffect.DENY, number=2), id=B, kinds=[ActorKind.HUMAN]),
        PolicyGrantAdded(policy_id=A, occurred_at=NOW, grant=grant(effect=GrantEffect.DENY, number=2)),
        PolicyGrantAdded(
            policy_id=A,
            occurred_at=NOW,
            grant=grant(effect=GrantEffect.DENY, operations=["reactivate_actor"], number=2),
        ),
        PolicyGrantAdded(
            policy_id=A, occurred_at=NOW, grant=grant(effect=GrantEffect.DENY, from_at=LATER, number=2)
        ),
        PolicyGrantAdded(
            policy_id=A,
            occurred_at=NOW,
            grant=grant(GrantScopeKind.FACILITY, facility_codes=["home"], effect=GrantEffect.DENY, number=2),
        ),
    ],
    ids=lambda event: type(event).__name__,
)
def test_the_only_administrator_is_lost_by(event: Event) -> None:
    assert administrators(ANN_MAY, login(ANN), event) == frozenset()


@pytest.mark.parametrize(
    "granted",
    [
        grant(until_at=LATER),
        grant(GrantScopeKind.FACILITY, facility_codes=["home"]),
        grant(operations=["trust:*"]),
        grant(surface_ids=frozenset({IN_PROCESS_SURFACE})),
    ],
)
def test_a_lesser_grant_makes_no_administrator(granted: Grant) -> None:
    assert administrators(policy(granted, actor_ids=[ANN]), login(ANN)) == frozenset()


def test_agents_do_not_administer() -> None:
    assert administrators(policy(grant(), actor_ids=[ROBOT, STRANGER]), login(ROBOT), login(STRANGER)) == {
        STRANGER
    }


def test_a_second_administrator_may_remain() -> None:
    suspended = PolicySuspended(policy_id=A, occurred_at=NOW, reason="audit")
    assert administrators(
        ANN_MAY, policy(grant(number=2), id=B, actor_ids=[BEN]), login(ANN), login(BEN), suspended
    ) == {BEN}


def test_the_local_operator_counts_only_on_a_laptop() -> None:
    local = policy(grant(), actor_ids=[LOCAL_OPERATOR])
    events = [actor(LOCAL_OPERATOR), login(LOCAL_OPERATOR), local]
    assert administrators(*events, laptop=True) == {LOCAL_OPERATOR}
    assert administrators(*events) == frozenset()
