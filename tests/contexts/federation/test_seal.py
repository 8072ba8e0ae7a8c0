"""Seal: its fold, its ledger, where it belongs, and its status grid."""

import hashlib
from datetime import timedelta

import pytest

from beamwright.contexts.federation.seal import (
    NOTHING,
    InvalidSealReasonError,
    LedgerEntry,
    Seal,
    SealCannotStartRepublishingError,
    SealOfflineRootRotated,
    SealOnlineKeyRotated,
    SealRepublishingCompleted,
    SealRepublishingStarted,
    SealStatus,
    StartSealRepublishing,
    belongs,
    extended,
    fresh,
    pointer_hash,
    seals,
)
from beamwright.contexts.federation.seal_pointers import (
    CompleteSealRepublishing,
    SealSigning,
    SignSealPointer,
)
from beamwright.kernel.event import Belonging
from beamwright.kernel.signing import hashed, statement
from beamwright.kernel.value import encode, replace
from tests.contexts.federation.seal_examples import (
    ACCOUNT,
    ARTIFACT,
    BEGUN,
    CONTENT_HASH,
    NEXT_ONLINE,
    NEXT_ROOT,
    ONLINE,
    PEER,
    ROOT,
    SITE,
    initialized,
    next_key_statement,
    online,
    peers_seal,
    pointer,
    pointer_received,
    pointer_signed,
    root_statement,
    seal,
    signed,
)
from tests.grids import check_grid
from tests.rules import NOW, given, outcome

STARTED = SealRepublishingStarted(facility_id=SITE, occurred_at=NOW, reason="restored from a backup")
COMPLETED = SealRepublishingCompleted(facility_id=SITE, occurred_at=NOW, sequence_floor=4)
STEM = StartSealRepublishing(facility_id=SITE, reason="restored from a backup")


REACH = {"Live": [BEGUN], "Republishing": [BEGUN, STARTED]}


def test_republishing_is_started_from_live() -> None:
    check_grid(
        """
                      start-republishing
        Live          Republishing
        Republishing  -
        """,
        seals,
        status=lambda seal: seal.status,
        reach=REACH,
        verbs={"start-republishing": STEM},
    )


def test_pointers_are_signed_while_live_and_republishing_ends_with_one() -> None:
    check_grid(
        """
                      sign-pointer  complete-republishing
        Live          Live          -
        Republishing  -             Live
        """,
        seals,
        status=lambda seal: seal.status,
        reach=REACH,
        verbs={
            "sign-pointer": SignSealPointer(facility_id=SITE),
            "complete-republishing": CompleteSealRepublishing(facility_id=SITE, sequence_floor=0),
        },
        seen=about_to_sign,
    )


def about_to_sign(seal: Seal) -> SealSigning:
    return SealSigning(seal=seal, online=online(), statement=pointer(1), envelope=signed(pointer(1), ONLINE))


def test_a_new_seal_is_live_and_has_nothing() -> None:
    begun = seal()
    assert (begun.status, begun.ledger_length, begun.ledger_head) == (SealStatus.LIVE, 0, NOTHING)
    assert (begun.sequence_number, begun.pointer, begun.rotation_number, begun.root_number) == (0, None, 0, 0)


def test_a_seal_has_the_id_of_its_facility() -> None:
    assert (seal().id, peers_seal().id) == (SITE, PEER)


def test_the_own_seal_is_for_all_readers_and_a_peers_for_that_peer() -> None:
    assert belongs(seal()) == Belonging.nowhere
    assert belongs(peers_seal()) == Belonging(owner_id=ACCOUNT)


def test_the_seal_of_a_peer_without_an_account_is_not_for_all_readers() -> None:
    strayed = given(seals, initialized(facility_id=PEER, foreign=True))
    assert not belongs(strayed).installation_wide


def test_a_pointer_that_comes_in_tells_through_which_account_its_peer_calls() -> None:
    moved = replace(pointer_received(pointer(1)), peer_actor_id=ARTIFACT)
    assert belongs(peers_seal(moved)) == Belonging(owner_id=ARTIFACT)


def test_each_head_of_the_ledger_fixes_the_one_before_the_content_and_the_kind_of_entry() -> None:
    first = extended(seal(), LedgerEntry.PUBLISHED, ARTIFACT, CONTENT_HASH, NOW)
    second = extended(seal(first), LedgerEntry.WITHDRAWN, ARTIFACT, CONTENT_HASH, NOW)
    content = bytes.fromhex(CONTENT_HASH)
    head = hashlib.sha256(bytes(32) + content + b"\x00").digest()
    assert (first.ledger_number, first.ledger_head) == (1, head.hex())
    assert (second.ledger_number, second.ledger_head) == (
        2,
        hashlib.sha256(head + content + b"\x01").hexdigest(),
    )


def test_the_ledger_in_the_state_is_that_of_the_last_entry() -> None:
    entry = extended(seal(), LedgerEntry.PUBLISHED, ARTIFACT, CONTENT_HASH, NOW)
    grown = seal(entry)
    assert (grown.ledger_length, grown.ledger_head) == (1, entry.ledger_head)


def test_the_current_pointer_is_the_last_with_the_hash_of_what_was_signed() -> None:
    last = pointer(2, log_position="7c.8")
    current = seal(pointer_signed(pointer(1)), pointer_signed(last))
    assert current.pointer is not None
    assert (current.sequence_number, current.pointer.log_position) == (2, "7c.8")
    told = {field: getattr(last, field) for field in last.__struct_fields__}
    assert current.pointer.pointer_hash == hashed(statement("seal-pointer", told))


def test_a_rotation_counts() -> None:
    rotated = SealOnlineKeyRotated(
        facility_id=SITE,
        occurred_at=NOW,
        rotation_number=1,
        key_id=NEXT_ONLINE.key_id,
        previous_key_id=ONLINE.key_id,
        signed_by_offline_root=True,
        envelope=signed(next_key_statement(), ROOT),
    )
    root = SealOfflineRootRotated(
        facility_id=SITE,
        occurred_at=NOW,
        root_number=1,
        key_id=NEXT_ROOT.key_id,
        previous_key_id=ROOT.key_id,
        envelope=signed(root_statement(), ROOT, NEXT_ROOT),
    )
    after = seal(rotated, root)
    assert (after.rotation_number, after.root_number) == (1, 1)


def test_a_seal_is_fresh_until_its_pointer_ends() -> None:
    current = seal(pointer_signed(pointer(1, valid_until=NOW + timedelta(seconds=1))))
    assert fresh(current, NOW)
    assert not fresh(current, NOW + timedelta(seconds=1))
    assert not fresh(seal(), NOW)


def test_republishing_needs_a_reason() -> None:
    assert outcome(replace(STEM, reason=" "), seal()) is InvalidSealReasonError


def test_a_peer_republishes_itself() -> None:
    assert outcome(replace(STEM, facility_id=PEER), peers_seal()) is SealCannotStartRepublishingError


@pytest.mark.parametrize(
    "event", [BEGUN, STARTED, COMPLETED, pointer_signed(pointer(1))], ids=lambda e: type(e).__name__
)
def test_events_survive_storage(event: object) -> None:
    assert seals.decoder.decode(encode(event)) == event


def test_a_pointer_is_known_by_its_octets_not_by_its_signature() -> None:
    statement = pointer(1)
    assert pointer_hash(signed(statement, ONLINE)) == pointer_hash(signed(statement, NEXT_ONLINE))
