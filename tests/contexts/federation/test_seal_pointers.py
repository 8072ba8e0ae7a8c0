"""Signing pointers: what they cover, who may sign them, and how republishing ends."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.federation.credential import (
    Credential,
    CredentialRevoked,
    credentials,
)
from beamwright.contexts.federation.facility import facilities
from beamwright.contexts.federation.seal import (
    InvalidSealSequenceFloorError,
    LedgerEntry,
    Seal,
    SealCannotCompleteRepublishingError,
    SealCannotSignPointerError,
    SealHeadMovedError,
    SealKeyNotUsableError,
    SealPointerSigned,
    SealRepublishingCompleted,
    SealRepublishingStarted,
    extended,
    pointer_hash,
    seals,
)
from beamwright.contexts.federation.seal_pointers import (
    CompleteSealRepublishing,
    SealSigning,
    SignSealPointer,
)
from beamwright.contexts.federation.seal_statements import SealPointerStatement, as_signed, opened
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.errors import DomainError
from beamwright.kernel.log_digest import EMPTY, LogDigest
from beamwright.kernel.operation import Command, Installation
from beamwright.kernel.secret_store import SecretStoreUnavailableError
from beamwright.kernel.store import Mark
from beamwright.kernel.value import replace
from tests.contexts.federation.seal_examples import (
    ARTIFACT,
    CONTENT_HASH,
    DAY,
    HOME,
    LOG,
    ONLINE,
    ONLINE_ID,
    PEER,
    SITE,
    online,
    peers_seal,
    pointer,
    pointer_signed,
    seal,
)
from tests.rules import NOW, OCCASION, outcome

SIGN = SignSealPointer(facility_id=SITE)
COMPLETE = CompleteSealRepublishing(facility_id=SITE, sequence_floor=9)
STARTED = SealRepublishingStarted(facility_id=SITE, occurred_at=NOW, reason="restored")
FIRST = pointer_signed(pointer(1))
REVOKED = CredentialRevoked(credential_id=ONLINE_ID, occurred_at=NOW, reason="lost")
HORIZON = Mark(200, 9)
# After a restore, transaction ids lie beyond what a double can hold.
RESTORED = Mark(1_890_000_000_000 << 20, 4_200)


class Signer:
    """Signs with the online key, or is away."""

    def __init__(self, *, away: bool = False) -> None:
        self._away = away

    async def sign(self, secret_ref: str, octets: bytes) -> bytes:
        if self._away:
            raise SecretStoreUnavailableError("away")
        assert secret_ref == "env:BEAMWRIGHT_SEAL"
        return ONLINE.sign(octets)


class Surroundings:
    """A world with one seal, and a log that has come as far as a test says."""

    installation = Installation(seal_validity=7 * DAY)
    now = NOW

    def __init__(self, seal: Seal, online: Credential, signer: Signer, log: LogDigest) -> None:
        self._states: dict[tuple[str, UUID], Any] = {
            (seals.name, seal.id): seal,
            (credentials.name, online.id): online,
            (facilities.name, SITE): HOME,
        }
        self._log = log
        self.signer = signer
        self.begun: LogDigest | None = None

    async def load(self, aggregate: Aggregate[Any, Any], id: UUID) -> Any:
        return self._states[aggregate.name, id]

    async def log_digest(self, begun: LogDigest) -> LogDigest:
        self.begun = begun
        return self._log


def world(
    seal: Seal, credential: Credential | None = None, *, away: bool = False, mark: Mark = HORIZON
) -> Surroundings:
    return Surroundings(seal, credential or online(), Signer(away=away), LogDigest(mark, LOG))


def signing(command: Command[SealSigning], surroundings: Any) -> Any:
    """What follows from gathering and deciding in this world, or the class of the refusal."""
    try:
        seen = asyncio.run(command.gather(surroundings))
    except DomainError as refusal:
        return type(refusal)
    return outcome(command, seen)


def statement(event: SealPointerSigned) -> SealPointerStatement:
    return opened(event.envelope, SealPointerStatement).statement


def test_a_pointer_covers_the_ledger_and_the_log_and_is_signed_with_the_online_key() -> None:
    entry = extended(seal(), LedgerEntry.PUBLISHED, ARTIFACT, CONTENT_HASH, NOW)
    [signed] = signing(SIGN, world(seal(entry)))
    assert (signed.head_hash, signed.ledger_length) == (entry.ledger_head, 1)
    assert (signed.log_position, signed.log_digest) == (HORIZON.token(), LOG)
    assert as_signed(signed, {ONLINE.key_id: ONLINE.public_key})


def test_a_pointer_is_believed_as_long_as_the_installation_says() -> None:
    [signed] = signing(SIGN, world(seal()))
    assert (signed.signed_at, signed.valid_until) == (NOW, NOW + 7 * DAY)


def test_the_first_pointer_has_number_1_and_names_none_before() -> None:
    [signed] = signing(SIGN, world(seal()))
    assert (signed.sequence_number, signed.previous_pointer_hash) == (1, None)


def test_the_next_pointer_names_the_one_before() -> None:
    [signed] = signing(SIGN, world(seal(FIRST)))
    assert (signed.sequence_number, signed.previous_pointer_hash) == (2, pointer_hash(FIRST.envelope))


def test_the_first_digest_begins_with_the_log_and_the_next_where_the_last_was_signed() -> None:
    first, later = world(seal()), world(seal(FIRST))
    signing(SIGN, first)
    signing(SIGN, later)
    assert (first.begun, later.begun) == (EMPTY, LogDigest(Mark(0x7B, 7), LOG))


def test_a_place_in_a_restored_log_can_be_signed() -> None:
    [signed] = signing(SIGN, world(seal(), mark=RESTORED))
    assert Mark.parse(statement(signed).log_position) == RESTORED


def test_what_is_recorded_is_what_was_signed() -> None:
    [signed] = signing(SIGN, world(seal()))
    told = statement(signed)
    assert told.facility_code == "home"
    assert all(
        getattr(signed, field) == getattr(told, field)
        for field in told.__struct_fields__
        if field != "facility_code"
    )


@pytest.mark.parametrize("command", [SIGN, replace(COMPLETE, facility_id=SITE)])
def test_nothing_is_signed_without_a_usable_key(command: Command[SealSigning]) -> None:
    begun = seal() if command is SIGN else seal(STARTED)
    assert signing(command, world(begun, online(REVOKED))) is SealKeyNotUsableError
    expiring = replace(online(), current=replace(online().current, expires_at=NOW))
    assert signing(command, world(begun, expiring)) is SealKeyNotUsableError


def test_a_secret_store_that_is_away_is_told_last() -> None:
    assert signing(SIGN, world(seal(), away=True)) is SecretStoreUnavailableError
    assert signing(SIGN, world(seal(), online(REVOKED), away=True)) is SealKeyNotUsableError


def test_a_caller_can_insist_on_the_head_that_it_saw() -> None:
    expecting = replace(SIGN, expected_head_hash=CONTENT_HASH)
    assert signing(expecting, world(seal())) is SealHeadMovedError
    assert signing(expecting, world(seal(), online(REVOKED))) is SealHeadMovedError
    seen = replace(SIGN, expected_head_hash=seal().ledger_head)
    assert [type(event) for event in signing(seen, world(seal()))] == [SealPointerSigned]


def test_nobody_signs_for_a_peer() -> None:
    foreign = world(peers_seal(), online(owner=PEER))
    assert signing(replace(SIGN, facility_id=PEER), foreign) is SealCannotSignPointerError
    ending = replace(COMPLETE, facility_id=PEER)
    assert signing(ending, foreign) is SealCannotCompleteRepublishingError


def test_nothing_is_signed_while_republishing() -> None:
    assert signing(SIGN, world(seal(STARTED))) is SealCannotSignPointerError


def test_republishing_ends_with_a_pointer_above_the_floor() -> None:
    completed, signed = signing(COMPLETE, world(seal(FIRST, STARTED)))
    assert completed == SealRepublishingCompleted(facility_id=SITE, occurred_at=NOW, sequence_floor=9)
    assert (signed.sequence_number, signed.previous_pointer_hash) == (10, pointer_hash(FIRST.envelope))


def test_a_floor_below_what_was_used_is_no_floor() -> None:
    used = seal(pointer_signed(pointer(10)), STARTED)
    assert signing(COMPLETE, world(used)) is InvalidSealSequenceFloorError
    assert signing(replace(COMPLETE, sequence_floor=10), world(used))[1].sequence_number == 11


def test_the_floor_is_judged_before_the_state() -> None:
    used = seal(pointer_signed(pointer(10)))
    assert signing(COMPLETE, world(used)) is InvalidSealSequenceFloorError
    assert signing(replace(COMPLETE, sequence_floor=10), world(used)) is SealCannotCompleteRepublishingError


def test_the_rule_itself_refuses_what_gathering_would_refuse() -> None:
    seen = asyncio.run(SIGN.gather(world(seal())))  # pyright: ignore[reportArgumentType] - a world in part
    later = replace(OCCASION, now=NOW + timedelta(days=400))
    expiring = replace(seen.online, current=replace(seen.online.current, expires_at=NOW + DAY))
    assert outcome(SIGN, replace(seen, online=expiring), later) is SealKeyNotUsableError
