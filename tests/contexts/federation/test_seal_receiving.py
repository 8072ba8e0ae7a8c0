"""Receiving a Peer's statements: in the order of the catalogue's table, and what follows for its credentials."""

import base64
from datetime import timedelta
from typing import Any

import pytest

from beamwright.contexts.federation.credential import (
    CredentialRevoked,
    CredentialRotationAborted,
    CredentialRotationCompleted,
    CredentialRotationStarted,
    credentials,
)
from beamwright.contexts.federation.seal import (
    InvalidSealEnvelopeError,
    SealKeyCollisionError,
    SealKeyUnknownError,
    SealOfflineRootRotated,
    SealOnlineKeyRotated,
    SealPointerChainError,
    SealPointerForkedError,
    SealPointerReceived,
    SealPointerReplayedError,
    SealPointerStaleError,
    SealRotationNumberError,
    SealSignatureInvalidError,
    pointer_hash,
)
from beamwright.contexts.federation.seal_receiving import (
    ReceiveSealStatement,
    SealSurroundings,
    report_fork,
)
from beamwright.contexts.federation.seal_statements import SealPointerStatement, opened
from beamwright.kernel.signing import Envelope, canonical, enclosed
from beamwright.kernel.value import replace
from tests.contexts.federation.seal_examples import (
    ACCOUNT,
    CONTENT_HASH,
    DAY,
    NEXT_ONLINE,
    NEXT_ROOT,
    NORTH,
    OFFLINE_ID,
    ONLINE,
    ONLINE_ID,
    PEER,
    ROOT,
    STRANGER,
    Pair,
    next_key_statement,
    offline,
    online,
    peers_seal,
    pending,
    pointer,
    pointer_received,
    root_statement,
    signed,
)
from tests.rules import NOW, outcome

WEEK = 7 * DAY


def theirs(number: int, **changes: Any) -> SealPointerStatement:
    return pointer(number, facility_code="north", **changes)


SEVENTH = theirs(7)
RECEIVED = pointer_received(SEVENTH)
HASH = pointer_hash(RECEIVED.envelope)
NEW = SealSurroundings(
    facility=NORTH, seal=peers_seal(), online=online(owner=PEER), offline=offline(owner=PEER), overlap=WEEK
)
SEEN = replace(NEW, seal=peers_seal(RECEIVED))


def received(envelope: Envelope, seen: SealSurroundings = SEEN) -> Any:
    return outcome(ReceiveSealStatement(envelope=envelope), seen)


def after(number: int = 8, by: Pair = ONLINE, **changes: Any) -> Envelope:
    """The pointer that follows the seventh, as the Peer signs it."""
    return signed(theirs(number, **{"previous_pointer_hash": HASH} | changes), by)


def test_a_pointer_is_kept_as_it_was_signed() -> None:
    envelope = after(ledger_length=3, head_hash=CONTENT_HASH)
    [event] = received(envelope)
    assert isinstance(event, SealPointerReceived)
    assert (event.sequence_number, event.ledger_length, event.head_hash) == (8, 3, CONTENT_HASH)
    assert (event.key_id, event.envelope, event.peer_actor_id) == (ONLINE.key_id, envelope, ACCOUNT)


def test_the_first_pointer_that_comes_may_have_any_number() -> None:
    [event] = received(signed(theirs(57, previous_pointer_hash=CONTENT_HASH), ONLINE), NEW)
    assert event.sequence_number == 57


def test_a_pointer_that_skips_some_need_not_name_the_one_we_have() -> None:
    assert received(after(9, previous_pointer_hash=CONTENT_HASH))[0].sequence_number == 9


@pytest.mark.parametrize(
    "envelope",
    [
        replace(after(), payloadType="application/vnd.beamwright.artifact.v1+json"),
        replace(after(), signatures=after().signatures * 2),
        replace(after(), signatures=()),
        replace(after(), payload=base64.b64encode(b'{"facility_code": "north"}').decode()),
        replace(after(), payload=base64.b64encode(canonical({"facility_code": "north"})).decode()),
        signed(theirs(8, log_position="over there"), ONLINE),
        signed(theirs(0), ONLINE),
        signed(theirs(8, head_hash="AB" * 32), ONLINE),
        enclosed("seal-pointer", {"facility_code": "north", "more": 1}, [(ONLINE.key_id, bytes(64))]),
    ],
    ids=["type", "two", "none", "spaces", "lacking", "position", "zero", "hash", "unknown field"],
)
def test_what_is_no_statement_is_refused_whatever_it_says(envelope: Envelope) -> None:
    assert received(envelope) is InvalidSealEnvelopeError


def test_only_the_online_key_signs_pointers() -> None:
    for other in (ROOT, STRANGER, NEXT_ONLINE):
        assert received(after(by=other)) is SealKeyUnknownError


def test_a_key_of_a_revoked_credential_vouches_for_nothing() -> None:
    revoked = CredentialRevoked(credential_id=ONLINE_ID, occurred_at=NOW, reason="lost")
    assert received(after(), replace(SEEN, online=online(revoked, owner=PEER))) is SealKeyUnknownError


def test_one_bit_more_and_the_signature_is_another_statements() -> None:
    signature = after().signatures[0]
    forged = replace(after(ledger_length=9), signatures=(signature,))
    assert received(forged) is SealSignatureInvalidError


def test_the_same_pointer_again_is_no_news() -> None:
    assert received(RECEIVED.envelope) == []
    late = replace(SEEN, seal=peers_seal(RECEIVED))
    assert received(RECEIVED.envelope, late) == []


def test_an_older_pointer_is_a_replay() -> None:
    assert received(signed(theirs(6), ONLINE)) is SealPointerReplayedError


def test_another_pointer_of_the_same_number_is_a_fork() -> None:
    assert received(signed(theirs(7, head_hash=CONTENT_HASH), ONLINE)) is SealPointerForkedError


def test_a_replay_is_told_before_staleness() -> None:
    old = signed(theirs(6, valid_until=NOW - DAY), ONLINE)
    assert received(old) is SealPointerReplayedError


def test_only_an_authentic_fork_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[dict[str, Any]] = []

    class Log:
        def error(self, name: str, **fields: Any) -> None:
            lines.append({"name": name} | fields)

    monkeypatch.setattr("beamwright.contexts.federation.seal_receiving.log", Log())
    fork = signed(theirs(7, head_hash=CONTENT_HASH), ONLINE)
    forged = replace(fork, signatures=after().signatures)
    for envelope in (forged, RECEIVED.envelope, after(), fork):
        report_fork(SEEN, opened(envelope, SealPointerStatement), NOW)
    [line] = lines
    assert (line["name"], line["received"], line["current"]) == (
        "seal_pointer_forked",
        pointer_hash(fork),
        HASH,
    )


def test_the_next_pointer_names_the_one_we_have() -> None:
    assert received(after(previous_pointer_hash=CONTENT_HASH)) is SealPointerChainError
    assert received(after(previous_pointer_hash=None)) is SealPointerChainError


def test_the_very_first_pointer_names_none() -> None:
    assert received(signed(theirs(1, previous_pointer_hash=HASH), ONLINE), NEW) is SealPointerChainError
    assert received(signed(theirs(1), ONLINE), NEW)[0].sequence_number == 1


def test_a_ledger_never_becomes_shorter() -> None:
    grown = replace(NEW, seal=peers_seal(pointer_received(theirs(7, ledger_length=5))))
    assert received(after(9, ledger_length=4), grown) is SealPointerChainError
    assert received(after(9, ledger_length=5), grown)[0].ledger_length == 5


@pytest.mark.parametrize(
    ("change", "stale"),
    [
        ({"valid_until": NOW}, True),
        ({"valid_until": NOW + timedelta(seconds=1)}, False),
        ({"signed_at": NOW + timedelta(seconds=301)}, True),
        ({"signed_at": NOW + timedelta(seconds=300)}, False),
    ],
)
def test_a_pointer_is_believed_in_its_time(change: dict[str, Any], stale: bool) -> None:
    assert (received(after(**change)) is SealPointerStaleError) is stale


def test_a_broken_chain_is_told_before_staleness() -> None:
    assert received(after(previous_pointer_hash=None, valid_until=NOW)) is SealPointerChainError


def their_key(**changes: Any) -> Any:
    return next_key_statement(facility_code="north", **changes)


def test_another_online_key_rotates_the_peers_credential_in_the_same_decision() -> None:
    envelope = signed(their_key(), ROOT)
    rotated, started, completed = received(envelope)
    assert rotated == SealOnlineKeyRotated(
        facility_id=PEER,
        occurred_at=NOW,
        rotation_number=1,
        key_id=NEXT_ONLINE.key_id,
        previous_key_id=ONLINE.key_id,
        signed_by_offline_root=True,
        envelope=envelope,
    )
    assert started == CredentialRotationStarted(
        credential_id=ONLINE_ID, occurred_at=NOW, pending=NEXT_ONLINE.key()
    )
    assert completed == CredentialRotationCompleted(
        credential_id=ONLINE_ID, occurred_at=NOW, key_id=NEXT_ONLINE.key_id, retired_until_at=NOW + WEEK
    )


def test_pointers_of_the_new_key_are_known_from_then_on_and_earlier_ones_of_the_old_a_while() -> None:
    _, *rotation = received(signed(their_key(), ROOT))
    rotated = replace(SEEN, online=credentials.fold(rotation, SEEN.online) or SEEN.online)
    assert received(after(by=NEXT_ONLINE), rotated)[0].key_id == NEXT_ONLINE.key_id
    assert received(after(signed_at=NOW - DAY), rotated)[0].key_id == ONLINE.key_id
    assert received(after(signed_at=NOW + timedelta(seconds=1)), rotated) is SealKeyUnknownError


def test_a_rotation_that_was_begun_here_is_completed() -> None:
    begun = replace(SEEN, online=online(pending(ONLINE_ID, NEXT_ONLINE), owner=PEER))
    assert [type(event) for event in received(signed(their_key(), ROOT), begun)] == [
        SealOnlineKeyRotated,
        CredentialRotationCompleted,
    ]


def test_a_rotation_to_another_key_gives_way_to_the_roots_word() -> None:
    begun = replace(SEEN, online=online(pending(ONLINE_ID, STRANGER), owner=PEER))
    events = received(signed(their_key(), ROOT), begun)
    assert [type(event) for event in events[1:]] == [
        CredentialRotationAborted,
        CredentialRotationStarted,
        CredentialRotationCompleted,
    ]
    assert (credentials.fold(events[1:], begun.online) or begun.online).current.key_id == NEXT_ONLINE.key_id


def test_only_the_root_announces_keys() -> None:
    for other in (ONLINE, NEXT_ONLINE, STRANGER):
        assert received(signed(their_key(), other)) is SealKeyUnknownError


def test_a_forged_announcement_is_no_announcement() -> None:
    forged = replace(
        signed(their_key(), ROOT), signatures=signed(their_key(issued_at=NOW - DAY), ROOT).signatures
    )
    assert received(forged) is SealSignatureInvalidError


@pytest.mark.parametrize(
    "change", [{"rotation_number": 2}, {"previous_key_id": STRANGER.key_id}], ids=["number", "previous"]
)
def test_announcements_come_without_a_gap(change: dict[str, Any]) -> None:
    assert received(signed(their_key(**change), ROOT)) is SealRotationNumberError


def test_the_root_does_not_announce_itself_as_online_key() -> None:
    itself = their_key(key_id=ROOT.key_id, public_key=ROOT.public_key)
    assert received(signed(itself, ROOT)) is SealKeyCollisionError


def their_root(**changes: Any) -> Any:
    return root_statement(facility_code="north", **changes)


def test_another_root_rotates_the_peers_root_credential() -> None:
    envelope = signed(their_root(), ROOT, NEXT_ROOT)
    rotated, started, completed = received(envelope)
    assert rotated == SealOfflineRootRotated(
        facility_id=PEER,
        occurred_at=NOW,
        root_number=1,
        key_id=NEXT_ROOT.key_id,
        previous_key_id=ROOT.key_id,
        envelope=envelope,
    )
    assert (started.credential_id, completed.key_id) == (OFFLINE_ID, NEXT_ROOT.key_id)


@pytest.mark.parametrize(
    ("signers", "refusal"),
    [
        ((ROOT, ROOT), SealKeyUnknownError),
        ((NEXT_ROOT, NEXT_ROOT), SealKeyUnknownError),
        ((STRANGER, NEXT_ROOT), SealKeyUnknownError),
        ((ONLINE, NEXT_ROOT), SealKeyUnknownError),
        ((ROOT, STRANGER), SealKeyUnknownError),
    ],
)
def test_the_old_root_and_the_new_one_vouch_for_it(signers: tuple[Pair, Pair], refusal: type) -> None:
    assert received(signed(their_root(), *signers)) is refusal


@pytest.mark.parametrize("forged", [0, 1])
def test_both_signatures_of_a_root_statement_are_verified(forged: int) -> None:
    good, other = signed(their_root(), ROOT, NEXT_ROOT), signed(their_root(root_number=2), ROOT, NEXT_ROOT)
    signatures = [each.signatures[n] for n in (0, 1) for each in [other if n == forged else good]]
    assert received(replace(good, signatures=tuple(signatures))) is SealSignatureInvalidError


def test_roots_come_without_a_gap() -> None:
    assert received(signed(their_root(root_number=2), ROOT, NEXT_ROOT)) is SealRotationNumberError


def test_the_online_key_does_not_become_the_root() -> None:
    itself = their_root(key_id=ONLINE.key_id, public_key=ONLINE.public_key)
    assert received(signed(itself, ROOT, ONLINE)) is SealKeyCollisionError
