"""Permit: what may flow, with whom, under which keys; its gate and its status grid."""

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.federation.credential import (
    Credential,
    CredentialNotFoundError,
    CredentialPurpose,
    CredentialStatus,
    Key,
)
from beamwright.contexts.federation.facility import (
    Facility,
    FacilityKind,
    FacilityNotFoundError,
    FacilityStatus,
)
from beamwright.contexts.federation.permit import (
    ArtifactKind,
    ArtifactTier,
    InvalidPermitReasonError,
    OnwardAction,
    Permit,
    PermitActivated,
    PermitAmended,
    PermitCannotAmendError,
    PermitDefined,
    PermitDirection,
    PermitKeyTakenError,
    PermitNotFoundError,
    PermitResumed,
    PermitRevoked,
    PermitSuspended,
    PermitTerms,
    ReadScope,
    RevokePermit,
    SuspendPermit,
    permit_extras,
    permits,
)
from beamwright.contexts.federation.permit_definition import (
    AmendPermit,
    DefinePermit,
    InvalidPermitArtifactKindsError,
    InvalidPermitAudienceError,
    InvalidPermitCredentialsError,
    InvalidPermitExpiryError,
    InvalidPermitPurposeError,
    InvalidPermitTermsError,
    InvalidPermitTiersError,
    PermitCredentialMismatchError,
    PermitParties,
    PermitPeerMismatchError,
    PermitTermsPatch,
    PermitWithParties,
)
from beamwright.contexts.federation.permit_gate import (
    ActivatePermit,
    PermitCredentialNotUsableError,
    PermitExpiredError,
    PermitPeerNotActiveError,
    PermitScope,
    ResumePermit,
    in_force,
)
from beamwright.kernel.errors import DomainError
from beamwright.kernel.event import Belonging
from beamwright.kernel.operation import Installation
from beamwright.kernel.value import replace
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, OCCASION, given, outcome

PERMIT, HOME, PEER, OURS, THEIRS, OTHERS = (UUID(int=number) for number in (20, 21, 22, 23, 24, 25))
DAY = timedelta(days=1)

THE_PEER = Facility(
    id=PEER,
    code="peer",
    display_name="Peer",
    kind=FacilityKind.PEER,
    parent_id=None,
    base_url=None,
    peer_actor_id=None,
)
CLOSED_PEER = replace(THE_PEER, status=FacilityStatus.DECOMMISSIONED)
SITE = replace(THE_PEER, kind=FacilityKind.SITE)


def credential(id: UUID, facility_id: UUID, purpose: CredentialPurpose, **key: Any) -> Credential:
    return Credential(
        id=id,
        site_code="home",
        facility_id=facility_id,
        audience="urn:peer",
        purpose=purpose,
        current=Key(since_at=NOW, **key),
    )


OUR_KEY = credential(OURS, HOME, CredentialPurpose.SIGNING)
THEIR_KEY = credential(THEIRS, PEER, CredentialPurpose.VERIFICATION)

OUTBOUND = PermitTerms(read_scope=ReadScope.FULL, onward_actions=frozenset({OnwardAction.EXPORT}))
INBOUND = PermitTerms(automatic=True)

DEFINE = DefinePermit(
    peer_facility_id=PEER,
    audience="urn:peer",
    purpose="calibration-exchange",
    direction=PermitDirection.OUTBOUND,
    allowed_credential_ids=frozenset({OURS}),
    allowed_artifact_kinds=frozenset({ArtifactKind.CALIBRATION_REVISION}),
    accepted_tiers=frozenset({ArtifactTier.STABLE}),
    terms=OUTBOUND,
)
DEFINE_INBOUND = replace(
    DEFINE,
    audience="urn:home",
    direction=PermitDirection.INBOUND,
    allowed_credential_ids=frozenset({THEIRS}),
    terms=INBOUND,
)
DEFINED = PermitDefined(
    permit_id=PERMIT,
    occurred_at=NOW,
    site_code="home",
    peer_facility_id=PEER,
    audience="urn:peer",
    purpose="calibration-exchange",
    direction=PermitDirection.OUTBOUND,
    allowed_credential_ids=frozenset({OURS}),
    allowed_artifact_kinds=frozenset({ArtifactKind.CALIBRATION_REVISION}),
    accepted_tiers=frozenset({ArtifactTier.STABLE}),
    terms=OUTBOUND,
)
ACTIVATED = PermitActivated(permit_id=PERMIT, occurred_at=NOW)
SUSPENDED = PermitSuspended(permit_id=PERMIT, occurred_at=NOW, reason="audit")
RESUMED = PermitResumed(permit_id=PERMIT, occurred_at=NOW)
REVOKED = PermitRevoked(permit_id=PERMIT, occurred_at=NOW, reason="over")

THE_PERMIT: Permit = given(permits, DEFINED)
ACTIVE: Permit = given(permits, DEFINED, ACTIVATED)
GONE: Permit = given(permits, DEFINED, REVOKED)


def parties(peer: Facility = THE_PEER, *keys: Credential) -> PermitParties:
    return PermitParties(peer=peer, credentials=keys or (OUR_KEY,), self_facility_code="home")


class World:
    """What `gather` asks, answered from memory."""

    installation = Installation(self_facility_code="home")
    now = NOW

    def __init__(self, *states: Any) -> None:
        self.states = {state.id: state for state in states}

    async def load(self, aggregate: Any, id: UUID) -> Any:
        return (await self.load_all(aggregate, [id]))[0]

    async def load_all(self, aggregate: Any, ids: Any) -> list[Any]:
        for id in ids:
            if id not in self.states:
                raise aggregate.missing.of(aggregate.name, id)
        return [self.states[id] for id in ids]


def gathered(command: Any, world: Any) -> Any:
    """What the command sees, or the class of its refusal."""
    try:
        return asyncio.run(command.gather(world))
    except DomainError as error:
        return type(error)


# --- define ---


def test_define_records_everything_that_it_was_given() -> None:
    command = replace(DEFINE, audience=" urn:peer ", purpose=" calibration-exchange ")
    assert outcome(command, parties()) == [replace(DEFINED, permit_id=NEW_ID)]


def test_define_sees_the_peer_and_every_credential() -> None:
    assert gathered(DEFINE, World(THE_PEER, OUR_KEY)) == parties()
    assert gathered(DEFINE, World(OUR_KEY)) == FacilityNotFoundError
    assert gathered(DEFINE, World(THE_PEER)) == CredentialNotFoundError


def test_values_are_refused_before_anything_is_looked_for() -> None:
    assert gathered(replace(DEFINE, purpose="X"), World()) == InvalidPermitPurposeError


@pytest.mark.parametrize("audience", ["", "peer", "urn:" + "x" * 197])
def test_an_audience_is_a_uri(audience: str) -> None:
    assert outcome(replace(DEFINE, audience=audience), parties()) == InvalidPermitAudienceError


@pytest.mark.parametrize("purpose", ["", "Calibration", "1st", "a_b", "x" * 65])
def test_a_purpose_has_a_pattern(purpose: str) -> None:
    assert outcome(replace(DEFINE, purpose=purpose), parties()) == InvalidPermitPurposeError


@pytest.mark.parametrize("count", [0, 17])
def test_a_permit_allows_one_to_sixteen_credentials(count: int) -> None:
    command = replace(DEFINE, allowed_credential_ids=frozenset(UUID(int=n) for n in range(count)))
    assert outcome(command, parties()) == InvalidPermitCredentialsError


def test_sixteen_credentials_are_allowed() -> None:
    command = replace(DEFINE, allowed_credential_ids=frozenset(UUID(int=n) for n in range(16)))
    assert not isinstance(outcome(command, parties()), type)


TERMS = [
    (PermitDirection.OUTBOUND, INBOUND),
    (PermitDirection.OUTBOUND, replace(OUTBOUND, automatic=False)),
    (PermitDirection.OUTBOUND, PermitTerms()),
    (PermitDirection.OUTBOUND, replace(OUTBOUND, read_scope=ReadScope.METADATA_ONLY)),
    (PermitDirection.INBOUND, OUTBOUND),
    (PermitDirection.INBOUND, replace(INBOUND, onward_actions=frozenset[OnwardAction]())),
    (PermitDirection.INBOUND, replace(INBOUND, read_scope=ReadScope.FULL)),
]


@pytest.mark.parametrize(("direction", "terms"), TERMS)
def test_terms_are_those_of_the_direction(direction: PermitDirection, terms: PermitTerms) -> None:
    assert outcome(replace(DEFINE, direction=direction, terms=terms), parties()) == InvalidPermitTermsError


def test_terms_are_completed() -> None:
    scope = PermitTerms(read_scope=ReadScope.METADATA_ONLY)
    [outbound] = outcome(replace(DEFINE, terms=scope), parties())
    assert outbound.terms == replace(scope, onward_actions=frozenset())
    [inbound] = outcome(replace(DEFINE_INBOUND, terms=PermitTerms()), parties(THE_PEER, THEIR_KEY))
    assert inbound.terms == PermitTerms(automatic=False)


WRONG_FOR_OUTBOUND = [
    THEIR_KEY,
    replace(OUR_KEY, purpose=CredentialPurpose.AUTHENTICATION),
    replace(OUR_KEY, purpose=CredentialPurpose.SEAL_ONLINE_SIGNING),
    replace(OUR_KEY, site_code="elsewhere"),
]
WRONG_FOR_INBOUND = [OUR_KEY, replace(THEIR_KEY, facility_id=HOME)]


@pytest.mark.parametrize("wrong", WRONG_FOR_OUTBOUND)
def test_what_goes_out_is_signed_with_our_own_keys(wrong: Credential) -> None:
    assert outcome(DEFINE, parties(THE_PEER, OUR_KEY, wrong)) == PermitCredentialMismatchError


@pytest.mark.parametrize("wrong", WRONG_FOR_INBOUND)
def test_what_comes_in_is_verified_with_the_peers_keys(wrong: Credential) -> None:
    assert outcome(DEFINE_INBOUND, parties(THE_PEER, THEIR_KEY, wrong)) == PermitCredentialMismatchError
    assert not isinstance(outcome(DEFINE_INBOUND, parties(THE_PEER, THEIR_KEY)), type)


NOTHING: Any = frozenset()


@pytest.mark.parametrize(
    ("changes", "seen", "refusal"),
    [
        ({"audience": ""}, parties(SITE), InvalidPermitAudienceError),
        ({"purpose": ""}, parties(SITE), InvalidPermitPurposeError),
        ({"allowed_credential_ids": NOTHING}, parties(SITE), InvalidPermitCredentialsError),
        ({"allowed_artifact_kinds": NOTHING}, parties(SITE), InvalidPermitArtifactKindsError),
        ({"accepted_tiers": NOTHING}, parties(SITE), InvalidPermitTiersError),
        ({"expires_at": NOW}, parties(SITE), InvalidPermitExpiryError),
        ({"terms": INBOUND}, parties(SITE), InvalidPermitTermsError),
        ({}, parties(SITE, THEIR_KEY), PermitPeerMismatchError),
        ({}, parties(THE_PEER, THEIR_KEY), PermitCredentialMismatchError),
    ],
)
def test_define_refuses_in_order(
    changes: dict[str, Any], seen: PermitParties, refusal: type[DomainError]
) -> None:
    order = ["audience", "purpose", "allowed_credential_ids", "allowed_artifact_kinds", "accepted_tiers"]
    bad: dict[str, Any] = dict.fromkeys(order[:2], "") | dict.fromkeys(order[2:], NOTHING)
    bad |= {"expires_at": NOW, "terms": INBOUND}
    # Everything after the first fault is wrong as well.
    later = list(bad)[list(bad).index(next(iter(changes))) :] if changes else []
    command = DEFINE.__replace__(**{name: bad[name] for name in later})
    assert outcome(command, seen) == refusal


# --- amend ---

AMEND = AmendPermit(permit_id=PERMIT, reason=" wider ")


def amended(permit: Permit = THE_PERMIT, *keys: Credential) -> PermitWithParties:
    return PermitWithParties(
        permit=permit, peer=THE_PEER, credentials=keys or (OUR_KEY,), self_facility_code="home"
    )


def test_amend_changes_what_it_names_and_keeps_the_rest() -> None:
    kinds = frozenset({ArtifactKind.RECIPE})
    command = replace(AMEND, allowed_artifact_kinds=kinds, expires_at=NOW + DAY)
    assert outcome(command, amended()) == [
        PermitAmended(
            permit_id=PERMIT,
            occurred_at=NOW,
            allowed_credential_ids=THE_PERMIT.allowed_credential_ids,
            allowed_artifact_kinds=kinds,
            accepted_tiers=THE_PERMIT.accepted_tiers,
            terms=OUTBOUND,
            expires_at=NOW + DAY,
            reason="wider",
        )
    ]


def after(command: AmendPermit, permit: Permit = THE_PERMIT) -> Permit:
    [event] = outcome(command, amended(permit))
    return permits.evolve(permit, event)


def test_terms_are_merged() -> None:
    patch = PermitTermsPatch(read_scope=ReadScope.METADATA_ONLY)
    assert outcome(replace(AMEND, terms=patch), amended()) == InvalidPermitTermsError
    patch = replace(patch, onward_actions=frozenset({OnwardAction.REPUBLISH}))
    changed = after(replace(AMEND, terms=patch))
    assert changed.terms == PermitTerms(
        read_scope=ReadScope.METADATA_ONLY, onward_actions=frozenset({OnwardAction.REPUBLISH})
    )


def test_an_expiry_can_be_taken_away() -> None:
    limited = replace(THE_PERMIT, expires_at=NOW + DAY)
    assert after(replace(AMEND, expires_at=None), limited).expires_at is None


def test_a_permit_that_is_expired_can_be_amended() -> None:
    late = replace(THE_PERMIT, expires_at=NOW - DAY)
    changed = after(replace(AMEND, accepted_tiers=frozenset({ArtifactTier.TESTING})), late)
    assert changed.expires_at == NOW - DAY


def test_an_amendment_that_changes_nothing_is_none() -> None:
    assert outcome(replace(AMEND, terms=PermitTermsPatch()), amended()) == []


def test_amend_refuses_an_unknown_permit_before_its_values() -> None:
    assert gathered(replace(AMEND, reason="", accepted_tiers=NOTHING), World()) == PermitNotFoundError
    assert gathered(replace(AMEND, reason=""), World(THE_PERMIT)) == InvalidPermitReasonError


def test_amend_loads_the_credentials_that_are_to_be_allowed() -> None:
    command = replace(AMEND, allowed_credential_ids=frozenset({OTHERS}))
    assert gathered(command, World(THE_PERMIT, THE_PEER, OUR_KEY)) == CredentialNotFoundError
    other = replace(OUR_KEY, id=OTHERS)
    assert gathered(command, World(THE_PERMIT, THE_PEER, other)) == amended(THE_PERMIT, other)


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (replace(AMEND, reason=" ", accepted_tiers=NOTHING), amended(GONE), InvalidPermitReasonError),
        (replace(AMEND, allowed_credential_ids=NOTHING), amended(GONE), InvalidPermitCredentialsError),
        (replace(AMEND, allowed_artifact_kinds=NOTHING), amended(GONE), InvalidPermitArtifactKindsError),
        (replace(AMEND, accepted_tiers=NOTHING), amended(GONE), InvalidPermitTiersError),
        (replace(AMEND, expires_at=NOW), amended(GONE), InvalidPermitExpiryError),
        (
            replace(AMEND, terms=PermitTermsPatch(automatic=True)),
            amended(GONE),
            InvalidPermitTermsError,
        ),
        (AMEND, amended(GONE, THEIR_KEY), PermitCredentialMismatchError),
        (AMEND, amended(GONE), PermitCannotAmendError),
    ],
)
def test_amend_refuses_in_order(
    command: AmendPermit, seen: PermitWithParties, refusal: type[DomainError]
) -> None:
    assert outcome(command, seen) == refusal


# --- gate ---

REVOKED_KEY = replace(OUR_KEY, status=CredentialStatus.REVOKED)
ROTATING_KEY = replace(OUR_KEY, status=CredentialStatus.ROTATING)
EXPIRED_KEY = replace(OUR_KEY, current=replace(OUR_KEY.current, expires_at=NOW))
NOT_ALLOWED = replace(OUR_KEY, id=OTHERS)
LATE = NOW + DAY

GATE = [
    (THE_PEER, None, (OUR_KEY,), NOW, None),
    (THE_PEER, None, (ROTATING_KEY,), NOW, None),
    (THE_PEER, None, (REVOKED_KEY, OUR_KEY), NOW, None),
    (THE_PEER, LATE, (OUR_KEY,), LATE - timedelta(microseconds=1), None),
    (CLOSED_PEER, NOW, (REVOKED_KEY,), NOW, PermitPeerNotActiveError),
    (THE_PEER, LATE, (REVOKED_KEY,), LATE, PermitExpiredError),
    (THE_PEER, None, (REVOKED_KEY,), NOW, PermitCredentialNotUsableError),
    (THE_PEER, None, (EXPIRED_KEY,), NOW, PermitCredentialNotUsableError),
    (THE_PEER, None, (NOT_ALLOWED,), NOW, PermitCredentialNotUsableError),
    (THE_PEER, None, (), NOW, PermitCredentialNotUsableError),
]


@pytest.mark.parametrize(("peer", "expires_at", "keys", "now", "refusal"), GATE)
def test_a_permit_gives_only_what_its_gate_lets_through(
    peer: Facility,
    expires_at: datetime | None,
    keys: tuple[Credential, ...],
    now: datetime,
    refusal: type[DomainError] | None,
) -> None:
    occasion = replace(OCCASION, now=now)
    for command, status in ((ActivatePermit, "Defined"), (ResumePermit, "Suspended")):
        permit = replace(given(permits, *REACH[status]), expires_at=expires_at)
        seen = PermitScope(permit=permit, peer=peer, credentials=keys)
        got = outcome(command(permit_id=PERMIT), seen, occasion)
        assert got == refusal if refusal else not isinstance(got, type)
    assert in_force(replace(ACTIVE, expires_at=expires_at), peer, keys, now) == (refusal is None)


@pytest.mark.parametrize("status", ["Defined", "Suspended", "Revoked"])
def test_only_an_active_permit_is_in_force(status: str) -> None:
    assert not in_force(given(permits, *REACH[status]), THE_PEER, (OUR_KEY,), NOW)


def test_the_gate_sees_the_peer_and_every_allowed_credential() -> None:
    seen = gathered(ActivatePermit(permit_id=PERMIT), World(THE_PERMIT, THE_PEER, OUR_KEY))
    assert seen == PermitScope(permit=THE_PERMIT, peer=THE_PEER, credentials=(OUR_KEY,))


# --- claims, belonging, view ---


def test_the_key_is_claimed_until_the_permit_is_revoked() -> None:
    [claim] = permits.claims(ACTIVE)
    assert (claim.kind, claim.key) == ("permit-key", f"{PEER}/urn:peer/calibration-exchange")
    assert claim.taken is PermitKeyTakenError
    assert list(permits.claims(GONE)) == []


def test_a_permit_belongs_to_the_own_site() -> None:
    assert permits.belongs(THE_PERMIT) == Belonging(facility_code="home")


def test_a_view_tells_whether_the_permits_time_is_over() -> None:
    states = [THE_PERMIT, replace(THE_PERMIT, expires_at=NOW), replace(THE_PERMIT, expires_at=LATE)]
    extras = asyncio.run(permit_extras(World(), states))  # type: ignore[arg-type]
    assert [each.expired for each in extras] == [False, True, False]


# --- status ---

GRID = """
           activate  suspend    resume  revoke   amend
Defined    Active    -          -       Revoked  Defined
Active     -         Suspended  -       Revoked  Active
Suspended  -         -          Active  Revoked  Suspended
Revoked    -         -          -       -        -
"""
REACH = {
    "Defined": [DEFINED],
    "Active": [DEFINED, ACTIVATED],
    "Suspended": [DEFINED, ACTIVATED, SUSPENDED],
    "Revoked": [DEFINED, REVOKED],
}


class Seeing:
    """A command that is shown more than the permit."""

    def __init__(self, command: Any, seen: Any) -> None:
        self.command = command
        self.seen = seen

    def decide(self, permit: Permit, occasion: Any) -> Any:
        return self.command.decide(self.seen(permit), occasion)


def scope(permit: Permit) -> PermitScope:
    return PermitScope(permit=permit, peer=THE_PEER, credentials=(OUR_KEY,))


def test_status_grid() -> None:
    check_grid(
        GRID,
        permits,
        status=lambda permit: permit.status,
        reach=REACH,
        verbs={
            "activate": Seeing(ActivatePermit(permit_id=PERMIT), scope),
            "suspend": SuspendPermit(permit_id=PERMIT, reason="audit"),
            "resume": Seeing(ResumePermit(permit_id=PERMIT), scope),
            "revoke": RevokePermit(permit_id=PERMIT, reason="over"),
            "amend": Seeing(replace(AMEND, expires_at=LATE), amended),
        },
    )


@pytest.mark.parametrize("command", [SuspendPermit, RevokePermit])
def test_a_reason_is_needed_to_stop(command: Any) -> None:
    assert outcome(command(permit_id=PERMIT, reason=" "), ACTIVE) == InvalidPermitReasonError


def test_a_permit_resumes_as_it_was() -> None:
    assert given(permits, DEFINED, ACTIVATED, SUSPENDED, RESUMED) == ACTIVE
