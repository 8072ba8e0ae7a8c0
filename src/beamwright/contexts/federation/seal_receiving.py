"""Receiving what a Peer states of its seal: a pointer, another online key, or another root."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog

from beamwright.kernel import signing
from beamwright.kernel.event import Event
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.signing import Envelope, EnvelopeSignature
from beamwright.kernel.value import Value

from .credential import (
    Credential,
    CredentialRotationAborted,
    CredentialStatus,
    Key,
    completed,
    credentials,
    public_key_of,
    started,
    verifying_key,
)
from .facility import Facility
from .issuing import load_issuer
from .seal import (
    Seal,
    SealCannotRotateOnlineKeyError,
    SealIssuerMismatchError,
    SealKeyUnknownError,
    SealPointerChainError,
    SealPointerForkedError,
    SealPointerReceived,
    SealPointerReplayedError,
    SealPointerStaleError,
    pointer_hash,
    seals,
)
from .seal_keys import check_apart, check_number, offline_root_rotated, online_key_rotated
from .seal_statements import (
    SealKeyStatement,
    SealPointerStatement,
    SealRootStatement,
    Stated,
    check_signature,
    opened_any,
    pointer_fields,
)

log = structlog.get_logger("beamwright.seals")

# How far another facility's clock may be ahead of ours.
TOLERANCE = timedelta(seconds=300)
USABLE = (CredentialStatus.ACTIVE, CredentialStatus.ROTATING)
SUPERSEDED = "The facility's offline root has stated another key."


class SealSurroundings(Value):
    """The Peer that a statement is from, its seal here with both credentials, and the overlap of its keys."""

    facility: Facility
    seal: Seal
    online: Credential
    offline: Credential
    overlap: timedelta


@seals.operation("POST /federation/seals/receive")
class ReceiveSealStatement(Command[SealSurroundings]):
    """Take in a statement that a Peer has signed of its seal."""

    envelope: Envelope

    async def gather(self, world: World) -> SealSurroundings:
        stated = opened_any(self.envelope)
        facility = await load_issuer(world, stated.statement.facility_code, SealIssuerMismatchError)
        seal = await world.load(seals, facility.id)
        seen = SealSurroundings(
            facility=facility,
            seal=seal,
            online=await world.load(credentials, seal.online_credential_id),
            offline=await world.load(credentials, seal.offline_credential_id),
            overlap=world.installation.federation_key_overlap,
        )
        if isinstance(stated.statement, SealPointerStatement):
            report_fork(seen, stated, world.now)
        return seen

    def decide(self, seen: SealSurroundings, occasion: Occasion) -> Sequence[Event]:
        stated = opened_any(self.envelope)
        match stated.statement:
            case SealPointerStatement():
                return received(seen, stated, occasion.now)
            case SealKeyStatement():
                return online_key_received(seen, stated, occasion.now)
            case _:
                return offline_root_received(seen, stated, occasion.now)


def received(
    seen: SealSurroundings, stated: Stated[SealPointerStatement], now: datetime
) -> list[SealPointerReceived]:
    """The pointer, unless it is the current one once more."""
    check_made_by(seen.online, stated, stated.envelope.signatures[0], stated.statement.signed_at, now)
    seal, facility = seen.seal, seen.facility
    if seal.pointer is not None and seal.pointer.pointer_hash == pointer_hash(stated.envelope):
        return []
    check_above(seal, stated)
    check_follows(seal, stated.statement)
    check_in_time(stated.statement, now)
    fields = pointer_fields(stated.statement, stated.envelope, seal.id, now)
    return [SealPointerReceived(**fields, peer_actor_id=facility.peer_actor_id)]


def check_made_by(
    credential: Credential, stated: Stated[Any], signature: EnvelopeSignature, at: datetime, now: datetime
) -> Key:
    """Gate: a key of this credential that may vouch for a statement of that time has signed it."""
    key = verifying_key(credential, signature.keyid, at, now)
    if key is None:
        raise SealKeyUnknownError(
            f"Key {signature.keyid} is not one that vouches for this. Has a statement of its rotation been received?",
            key_id=signature.keyid,
            credential_id=str(credential.id),
        )
    check_signature(stated.pae, signature, key)
    return key


def check_above(seal: Seal, stated: Stated[SealPointerStatement]) -> None:
    """Gate: only a pointer of a higher number is news, and one number has one pointer."""
    number = stated.statement.sequence_number
    if forks(seal, stated):
        raise SealPointerForkedError(
            f"Another pointer {number} of this facility was received before. Ask the facility which one is true.",
            sequence_number=number,
            received=pointer_hash(stated.envelope),
            current=seal.pointer and seal.pointer.pointer_hash,
        )
    if number <= seal.sequence_number:
        raise SealPointerReplayedError(
            f"Pointer {seal.sequence_number} was received before pointer {number}.",
            sequence_number=number,
            current=seal.sequence_number,
        )


def forks(seal: Seal, stated: Stated[SealPointerStatement]) -> bool:
    """Whether this is another pointer of the current one's number."""
    return (
        seal.pointer is not None
        and stated.statement.sequence_number == seal.sequence_number
        and seal.pointer.pointer_hash != pointer_hash(stated.envelope)
    )


def report_fork(seen: SealSurroundings, stated: Stated[SealPointerStatement], now: datetime) -> None:
    """Keep both hashes where operators look: an authentic fork means that a facility's key is in two hands."""
    [signature] = stated.envelope.signatures
    key = verifying_key(seen.online, signature.keyid, stated.statement.signed_at, now)
    authentic = (
        key is not None
        and key.public_key is not None
        and signing.verifies(key.public_key, signature.octets, stated.pae)
    )
    if authentic and forks(seen.seal, stated):
        log.error(
            "seal_pointer_forked",
            facility_code=seen.facility.code,
            sequence_number=stated.statement.sequence_number,
            received=pointer_hash(stated.envelope),
            current=seen.seal.pointer and seen.seal.pointer.pointer_hash,
        )


def check_follows(seal: Seal, statement: SealPointerStatement) -> None:
    """Gate: the next pointer names the one before it, and no ledger becomes shorter."""
    before = seal.pointer
    current = before and before.pointer_hash
    next_one = statement.sequence_number == seal.sequence_number + 1
    if next_one and statement.previous_pointer_hash != current:
        raise SealPointerChainError(
            f"Pointer {statement.sequence_number} does not follow the pointer that was received before it.",
            previous_pointer_hash=statement.previous_pointer_hash,
            current=current,
        )
    if before is not None and statement.ledger_length < before.ledger_length:
        raise SealPointerChainError(
            f"The ledger had {before.ledger_length} entries before, and has {statement.ledger_length} now.",
            ledger_length=statement.ledger_length,
            current=before.ledger_length,
        )


def check_in_time(statement: SealPointerStatement, now: datetime) -> None:
    """Gate: the pointer may be believed now."""
    if statement.valid_until <= now or statement.signed_at > now + TOLERANCE:
        raise SealPointerStaleError(
            "The pointer is no longer valid, or its time lies ahead. Ask for a newer one, and compare clocks.",
            signed_at=statement.signed_at.isoformat(),
            valid_until=statement.valid_until.isoformat(),
        )


def online_key_received(
    seen: SealSurroundings, stated: Stated[SealKeyStatement], now: datetime
) -> list[Event]:
    """The Peer signs its pointers with another key, as its root says."""
    statement = stated.statement
    check_made_by(seen.offline, stated, stated.envelope.signatures[0], statement.issued_at, now)
    check_number(statement, statement.rotation_number, seen.seal.rotation_number, seen.online)
    if seen.online.status is CredentialStatus.REVOKED:
        raise SealCannotRotateOnlineKeyError.of(seen.online.id, seen.online.status, USABLE)
    key = public_key_of(statement.public_key, now)
    check_apart(key, seen.offline.current)
    return [online_key_rotated(seen.seal, stated, now), *rotated(seen.online, key, seen.overlap, now)]


def offline_root_received(
    seen: SealSurroundings, stated: Stated[SealRootStatement], now: datetime
) -> list[Event]:
    """The Peer has another root, as the old one and the new one say."""
    statement = stated.statement
    new = public_key_of(statement.public_key, now)
    by_old, by_new = root_signatures(stated, new)
    check_made_by(seen.offline, stated, by_old, statement.issued_at, now)
    check_signature(stated.pae, by_new, new)
    check_number(statement, statement.root_number, seen.seal.root_number, seen.offline)
    check_apart(new, seen.online.current)
    return [offline_root_rotated(seen.seal, stated, now), *rotated(seen.offline, new, seen.overlap, now)]


def root_signatures(
    stated: Stated[SealRootStatement], new: Key
) -> tuple[EnvelopeSignature, EnvelopeSignature]:
    """The signatures of the old root and of the new one."""
    by_new = [each for each in stated.envelope.signatures if each.keyid == new.key_id]
    by_old = [each for each in stated.envelope.signatures if each.keyid != new.key_id]
    if len(by_new) != 1 or len(by_old) != 1:
        raise SealKeyUnknownError(
            "The statement must be signed by the old root and by the new one.",
            key_ids=sorted(each.keyid for each in stated.envelope.signatures),
        )
    return by_old[0], by_new[0]


def rotated(credential: Credential, key: Key, overlap: timedelta, now: datetime) -> list[Event]:
    """The Peer's credential with its new key; a rotation to another key, begun here by hand, is void."""
    events: list[Event] = []
    if credential.pending is not None and credential.pending.key_id != key.key_id:
        aborted = CredentialRotationAborted(credential_id=credential.id, occurred_at=now, reason=SUPERSEDED)
        credential, events = _after(credential, aborted), [aborted]
    if credential.pending is None:
        begun = started(credential, key, now)
        credential, events = _after(credential, begun), [*events, begun]
    return [*events, completed(credential, now, overlap)]


def _after(credential: Credential, event: Any) -> Credential:
    state = credentials.fold([event], credential)
    assert state is not None
    return state
