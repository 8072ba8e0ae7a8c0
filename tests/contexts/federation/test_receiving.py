"""Receiving artifacts: hostile ones are refused in order, authentic ones are judged stage by stage."""

import base64
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beamwright.contexts.federation.artifact import (
    ArtifactAccepted,
    ArtifactCannotAcceptError,
    ArtifactReceived,
    ArtifactStatus,
    ArtifactVerified,
    StageResult,
    VerificationStage,
    artifacts,
)
from beamwright.contexts.federation.artifact_statement import (
    MOST_CONTENT_OCTETS,
    NAME,
    InvalidArtifactEnvelopeError,
    content_hash,
    read,
)
from beamwright.contexts.federation.credential import CredentialPurpose, CredentialRevoked
from beamwright.contexts.federation.permit import (
    ArtifactKind,
    ArtifactTier,
    PermitDirection,
    PermitSuspended,
    PermitTerms,
)
from beamwright.contexts.federation.receiving import (
    AcceptArtifact,
    ArtifactInQuestion,
    ArtifactKeyUnknownError,
    ArtifactRecipientMismatchError,
    ArtifactSignatureInvalidError,
    ArtifactStaleError,
    Delivered,
    Grounds,
    ReceiveArtifact,
    VerifyArtifact,
    applies,
)
from beamwright.kernel import signing
from beamwright.kernel.signing import Envelope
from beamwright.kernel.value import replace
from tests.contexts.federation.exchange import (
    ARTIFACT,
    CONTENT,
    CREDENTIAL,
    KEY_ID,
    PASSED,
    PEER,
    PERMIT,
    PRIVATE,
    credential,
    enclosed,
    peer,
    permit,
    pointer,
    received,
    seal,
    statement,
)
from tests.rules import NEW_ID, NOW, given, outcome

BELIEVED = credential(CredentialPurpose.VERIFICATION)
REVOKED = CredentialRevoked(credential_id=CREDENTIAL, occurred_at=NOW, reason="lost")
SUSPENDED = PermitSuspended(permit_id=PERMIT, occurred_at=NOW, reason="wait")
MANUAL = PermitTerms(automatic=False)
SEALED = seal(PEER, pointer=pointer(3))
PASS, FAIL, SKIP = StageResult.PASSED, StageResult.FAILED, StageResult.SKIPPED


def grounds(**changes: Any) -> Grounds:
    whole = Grounds(peer=peer(), permit=permit(PermitDirection.INBOUND), allowed=(BELIEVED,), seal=SEALED)
    return replace(whole, **changes)


def delivered(**changes: Any) -> Delivered:
    return Delivered(
        site_code="home",
        max_age=timedelta(days=30),
        verification=(BELIEVED,),
        grounds=grounds(**changes),
    )


def take(told: Any = None, seen: Delivered | None = None) -> ArtifactReceived:
    events = outcome(ReceiveArtifact(envelope=enclosed(told or statement())), seen or delivered())
    assert not isinstance(events, type), events
    [event] = events
    assert isinstance(event, ArtifactReceived)
    return event


def test_what_nothing_stands_against_is_accepted() -> None:
    event = take()
    assert (event.artifact_id, event.permit_id, event.status) == (NEW_ID, PERMIT, ArtifactStatus.ACCEPTED)
    assert event.stages == PASSED
    assert event.envelope == enclosed(statement())


def test_a_permit_that_is_not_automatic_leaves_it_to_a_person() -> None:
    event = take(seen=delivered(permit=permit(PermitDirection.INBOUND, terms=MANUAL)))
    assert (event.stages, event.status) == (PASSED, ArtifactStatus.QUARANTINED)


# Each row mends what the row before was refused for.
def test_refusals_come_in_their_order() -> None:
    stranger = Ed25519PrivateKey.generate()
    wrong = statement(recipient_facility_code="elsewhere", issued_at=NOW - timedelta(days=31))
    unknown = replace(delivered(), verification=())
    rows = [
        (enclosed(wrong, stranger), unknown, ArtifactKeyUnknownError),
        (enclosed(wrong, stranger), delivered(), ArtifactSignatureInvalidError),
        (enclosed(wrong), delivered(), ArtifactRecipientMismatchError),
        (enclosed(replace(wrong, recipient_facility_code="home")), delivered(), ArtifactStaleError),
    ]
    for envelope, seen, refusal in rows:
        assert outcome(ReceiveArtifact(envelope=envelope), seen) is refusal


@pytest.mark.parametrize(
    ("ago", "stale"),
    [
        (timedelta(days=30), False),
        (timedelta(days=30, seconds=1), True),
        (timedelta(seconds=-300), False),
        (timedelta(seconds=-301), True),
    ],
)
def test_an_artifact_is_issued_within_bounds(ago: timedelta, stale: bool) -> None:
    envelope = enclosed(statement(issued_at=NOW - ago))
    assert (outcome(ReceiveArtifact(envelope=envelope), delivered()) is ArtifactStaleError) == stale


def test_no_key_of_a_revoked_credential_vouches() -> None:
    seen = replace(delivered(), verification=(credential(CredentialPurpose.VERIFICATION, REVOKED),))
    assert outcome(ReceiveArtifact(envelope=enclosed(statement())), seen) is ArtifactKeyUnknownError


def with_payload(payload: bytes, signatures: int = 1, kind: str = NAME) -> Envelope:
    signature = PRIVATE.sign(signing.pae(signing.payload_type(kind), payload))
    given = signing.EnvelopeSignature(keyid=KEY_ID, sig=base64.b64encode(signature).decode())
    return Envelope(
        payload=base64.b64encode(payload).decode(),
        payloadType=signing.payload_type(kind),
        signatures=(given,) * signatures,
    )


PAYLOAD = statement().payload


@pytest.mark.parametrize(
    "envelope",
    [
        with_payload(json.dumps(PAYLOAD).encode()),
        with_payload(signing.canonical(PAYLOAD), signatures=2),
        with_payload(signing.canonical(PAYLOAD), signatures=0),
        with_payload(signing.canonical(PAYLOAD), kind="seal-key"),
        with_payload(signing.canonical(PAYLOAD | {"more": 1})),
        with_payload(signing.canonical({key: PAYLOAD[key] for key in PAYLOAD if key != "nonce"})),
        with_payload(signing.canonical(PAYLOAD | {"nonce": "AAAAAAAAAAAAAAAAAAAAAB"})),
        with_payload(signing.canonical(PAYLOAD | {"content_hash": "A" * 64})),
        with_payload(signing.canonical(PAYLOAD | {"ledger_number": 0})),
        with_payload(signing.canonical(PAYLOAD | {"issued_at": "2026-01-01T00:00:00"})),
        with_payload(signing.canonical(PAYLOAD | {"artifact_kind": "Song"})),
        with_payload(signing.canonical(PAYLOAD | {"content": {"x": "x" * MOST_CONTENT_OCTETS}})),
        with_payload(b"[]"),
        replace(enclosed(statement()), payload="?"),
    ],
)
def test_a_malformed_envelope_is_refused_before_anything_is_looked_up(envelope: Envelope) -> None:
    with pytest.raises(InvalidArtifactEnvelopeError):
        read(envelope)
    assert outcome(ReceiveArtifact(envelope=envelope), delivered()) is InvalidArtifactEnvelopeError


def test_a_changed_bit_breaks_the_signature() -> None:
    changed = signing.canonical(PAYLOAD | {"ledger_number": 2})
    envelope = replace(enclosed(statement()), payload=base64.b64encode(changed).decode())
    assert outcome(ReceiveArtifact(envelope=envelope), delivered()) is ArtifactSignatureInvalidError


P, K, T, E, C, F = VerificationStage
OTHER = permit(PermitDirection.INBOUND, allowed_credential_ids=frozenset({UUID(int=9)}))
ALLOWED_OTHER = credential(CredentialPurpose.VERIFICATION, credential_id=UUID(int=9))
STAGES: list[tuple[str, dict[str, Any], dict[str, Any], dict[VerificationStage, StageResult]]] = [
    ("no permit", {}, {"permit": None, "allowed": ()}, {P: FAIL, K: SKIP, T: SKIP}),
    ("suspended", {}, {"permit": permit(PermitDirection.INBOUND, SUSPENDED)}, {P: FAIL}),
    ("expired permit", {}, {"permit": permit(PermitDirection.INBOUND, expires_at=NOW)}, {P: FAIL}),
    ("another key", {}, {"permit": OTHER, "allowed": (ALLOWED_OTHER,)}, {P: FAIL}),
    ("kind", {"artifact_kind": ArtifactKind.RECIPE}, {}, {K: FAIL}),
    ("tier", {"tier": ArtifactTier.OBSOLETE}, {}, {T: FAIL}),
    ("expired", {"expires_at": NOW}, {}, {E: FAIL}),
    ("not yet expired", {"expires_at": NOW + timedelta(seconds=1)}, {}, {}),
    ("other content", {"content": {"value": 1}}, {}, {C: FAIL}),
    ("hash of other content", {"content_hash": content_hash({})}, {}, {C: FAIL}),
    ("no content", {"content": None}, {}, {C: SKIP}),
    ("no seal", {}, {"seal": None}, {F: SKIP}),
    ("no pointer", {}, {"seal": seal(PEER)}, {F: FAIL}),
    ("short ledger", {}, {"seal": seal(PEER, pointer=pointer(2))}, {F: FAIL}),
    ("old pointer", {}, {"seal": seal(PEER, pointer=pointer(3, timedelta()))}, {F: FAIL}),
]


@pytest.mark.parametrize(
    ("told", "judged_by", "different"), [row[1:] for row in STAGES], ids=[row[0] for row in STAGES]
)
def test_stages(told: dict[str, Any], judged_by: dict[str, Any], different: dict[Any, Any]) -> None:
    event = take(statement(**told), delivered(**judged_by))
    assert event.stages == PASSED | different
    good = FAIL not in different.values()
    assert event.status is (ArtifactStatus.ACCEPTED if good else ArtifactStatus.QUARANTINED)
    assert event.permit_id == (None if different.get(P) is FAIL else PERMIT)


@pytest.mark.parametrize("direction", PermitDirection)
def test_only_a_permit_for_what_comes_in_applies(direction: PermitDirection) -> None:
    assert applies(permit(direction)) == (direction is PermitDirection.INBOUND)


def in_question(artifact: ArtifactReceived, **changes: Any) -> ArtifactInQuestion:
    return ArtifactInQuestion(
        artifact=given(artifacts, artifact), credential=BELIEVED, grounds=grounds(**changes)
    )


VERIFY, ACCEPT = VerifyArtifact(artifact_id=ARTIFACT), AcceptArtifact(artifact_id=ARTIFACT)
TOO_LOW = PASSED | {T: FAIL}


def test_what_was_mended_is_accepted_when_it_is_verified() -> None:
    events = outcome(VERIFY, in_question(received(stages=TOO_LOW, permit_id=None)))
    assert not isinstance(events, type)
    [event] = events
    assert isinstance(event, ArtifactVerified)
    assert (event.stages, event.permit_id, event.status) == (PASSED, PERMIT, ArtifactStatus.ACCEPTED)


def test_the_same_result_is_no_event() -> None:
    manual = permit(PermitDirection.INBOUND, terms=MANUAL)
    assert outcome(VERIFY, in_question(received(), permit=manual)) == []
    failing = in_question(received(stages=PASSED | {F: FAIL}), seal=seal(PEER))
    assert outcome(VERIFY, failing) == []


def test_what_has_become_worse_is_recorded() -> None:
    events = outcome(VERIFY, in_question(received(), permit=permit(PermitDirection.INBOUND, SUSPENDED)))
    assert not isinstance(events, type)
    [event] = events
    assert isinstance(event, ArtifactVerified)
    assert (event.stages[P], event.permit_id, event.status) == (FAIL, None, ArtifactStatus.QUARANTINED)


def test_a_credential_that_was_revoked_since_speaks_for_nothing() -> None:
    revoked = credential(CredentialPurpose.VERIFICATION, REVOKED)
    other = credential(CredentialPurpose.VERIFICATION, credential_id=UUID(int=9))
    both = permit(PermitDirection.INBOUND, allowed_credential_ids=frozenset({CREDENTIAL, other.id}))
    seen = replace(in_question(received(), permit=both, allowed=(revoked, other)), credential=revoked)
    assert outcome(ACCEPT, seen) is ArtifactCannotAcceptError


def test_a_person_accepts_what_passed() -> None:
    accepted = ArtifactAccepted(artifact_id=ARTIFACT, occurred_at=NOW)
    assert outcome(ACCEPT, in_question(received(stages=PASSED | {C: SKIP, F: SKIP}))) == [accepted]


@pytest.mark.parametrize(
    "seen",
    [
        in_question(received(stages=TOO_LOW)),
        in_question(received(), permit=permit(PermitDirection.INBOUND, SUSPENDED)),
    ],
)
def test_nobody_accepts_what_failed_then_or_fails_now(seen: ArtifactInQuestion) -> None:
    assert outcome(ACCEPT, seen) is ArtifactCannotAcceptError


def test_the_content_is_read_as_it_was_stated() -> None:
    assert take().content == CONTENT
