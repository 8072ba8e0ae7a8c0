"""Seal: the signed statement of how far a facility's ledger of published artifacts goes, and how fresh it is."""

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from beamwright.kernel import signing, text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.signing import Envelope
from beamwright.kernel.value import Time, Value, replace

# The head of an empty ledger, and the digest of an empty log.
NOTHING = "0" * 64


class SealStatus(StrEnum):
    """While `Republishing` nothing is signed or published."""

    LIVE = "Live"
    REPUBLISHING = "Republishing"


class LedgerEntry(StrEnum):
    """Whether the ledger grew by a publication, or by its withdrawal."""

    PUBLISHED = "Published"
    WITHDRAWN = "Withdrawn"


class SealNotFoundError(NotFoundError):
    """There is no seal of this facility."""


class InvalidSealEnvelopeError(InvalidError):
    """The envelope is not a well-formed statement of a seal in canonical form."""


class InvalidSealReasonError(InvalidError):
    """The reason is blank or too long."""


class InvalidSealSequenceFloorError(InvalidError):
    """The floor lies below a number that this seal has used itself."""


class SealAlreadyInitializedError(ConflictError):
    """The facility has a seal."""


class SealFacilityNotEligibleError(ConflictError):
    """Only the own Site and Peers have seals, while they are Active."""


class SealKeyCollisionError(ConflictError):
    """The online key and the offline root are one key."""


class SealKeyPurposeMismatchError(ConflictError):
    """A credential is another facility's, or is meant for something else."""


class SealRootNotAnchoredError(ConflictError):
    """The offline root is not a trust anchor of the facility."""


class SealKeyNotUsableError(ConflictError):
    """The key is expired or revoked, or is not the one that the statement names."""


class SealSignatureInvalidError(ConflictError):
    """The signature was not made with the key that had to make it."""


class SealIssuerMismatchError(ConflictError):
    """The statement speaks for a facility that the caller, or the request, does not."""


class SealKeyUnknownError(ConflictError):
    """The statement is signed with a key that is not known, or no longer believed, here."""


class SealRotationNumberError(ConflictError):
    """The statement does not follow the key that is in use."""


class SealHeadMovedError(ConflictError):
    """The ledger has grown since the caller looked."""


class SealNoPendingKeyError(ConflictError):
    """No key waits for a statement."""


class SealPointerReplayedError(ConflictError):
    """A later pointer was received before."""


class SealPointerForkedError(ConflictError):
    """Another pointer with this number was received before: its signer tells two stories."""


class SealPointerChainError(ConflictError):
    """The pointer does not follow the one before it, or its ledger has become shorter."""


class SealPointerStaleError(ConflictError):
    """The pointer is no longer valid, or was signed in the future."""


class SealCannotSignPointerError(CannotTransitionError):
    """The seal is Republishing, or is a Peer's."""


class SealCannotRotateOnlineKeyError(CannotTransitionError):
    """The online credential is not being rotated to the key of the statement."""


class SealCannotRotateOfflineRootError(CannotTransitionError):
    """The root credential is not being rotated to the key of the statement."""


class SealCannotStartRepublishingError(CannotTransitionError):
    """The seal is Republishing already, or is a Peer's."""


class SealCannotCompleteRepublishingError(CannotTransitionError):
    """The seal is not Republishing."""


class SealFact(Event):
    """A seal has the id of its facility."""

    facility_id: UUID


class SealInitialized(SealFact):
    online_credential_id: UUID
    offline_credential_id: UUID
    key_id: str
    envelope: Envelope
    # Whether it is a Peer's, and the account through which that Peer calls: where the seal belongs.
    foreign: bool = False
    peer_actor_id: UUID | None = None


class SealPointerFact(SealFact):
    """A pointer as it was signed; `log_position` is a mark, since numbers of a restored log exceed 2^53."""

    sequence_number: int
    head_hash: str
    ledger_length: int
    log_position: str
    log_digest: str
    signed_at: Time
    valid_until: Time
    previous_pointer_hash: str | None
    key_id: str
    envelope: Envelope


class SealPointerSigned(SealPointerFact):
    pass


class SealPointerReceived(SealPointerFact):
    # As of this statement; the Peer may call through another account by now.
    peer_actor_id: UUID | None = None


class SealLedgerExtended(SealFact):
    ledger_number: int
    entry: LedgerEntry
    artifact_id: UUID
    content_hash: str
    ledger_head: str


class SealOnlineKeyRotated(SealFact):
    rotation_number: int
    key_id: str
    previous_key_id: str
    # What verification found.
    signed_by_offline_root: bool
    envelope: Envelope


class SealOfflineRootRotated(SealFact):
    root_number: int
    key_id: str
    previous_key_id: str
    envelope: Envelope


class SealRepublishingStarted(SealFact):
    reason: str


class SealRepublishingCompleted(SealFact):
    sequence_floor: int


type SealEvent = (
    SealInitialized
    | SealPointerSigned
    | SealPointerReceived
    | SealLedgerExtended
    | SealOnlineKeyRotated
    | SealOfflineRootRotated
    | SealRepublishingStarted
    | SealRepublishingCompleted
)

PUBLISHING = StateMachine[SealStatus](
    {
        SealPointerSigned: move({SealStatus.LIVE}, SealStatus.LIVE, SealCannotSignPointerError),
        SealRepublishingStarted: move(
            {SealStatus.LIVE}, SealStatus.REPUBLISHING, SealCannotStartRepublishingError
        ),
        SealRepublishingCompleted: move(
            {SealStatus.REPUBLISHING}, SealStatus.LIVE, SealCannotCompleteRepublishingError
        ),
    }
)


class SealPointer(Value):
    """A signed pointer with the octets that prove it."""

    head_hash: str
    ledger_length: int
    log_position: str
    log_digest: str
    signed_at: Time
    valid_until: Time
    key_id: str
    envelope: Envelope
    pointer_hash: str


class Seal(Value):
    facility_id: UUID
    online_credential_id: UUID
    offline_credential_id: UUID
    foreign: bool = False
    peer_actor_id: UUID | None = None
    rotation_number: int = 0
    root_number: int = 0
    ledger_length: int = 0
    ledger_head: str = NOTHING
    sequence_number: int = 0
    pointer: SealPointer | None = None
    status: SealStatus = SealStatus.LIVE

    @property
    def id(self) -> UUID:
        return self.facility_id


def evolve(seal: Seal | None, event: SealEvent) -> Seal:
    match event:
        case SealInitialized():
            return Seal(
                facility_id=event.facility_id,
                online_credential_id=event.online_credential_id,
                offline_credential_id=event.offline_credential_id,
                foreign=event.foreign,
                peer_actor_id=event.peer_actor_id,
            )
        case _ if seal is None:
            raise ValueError(event)
        case SealPointerSigned():
            return replace(seal, sequence_number=event.sequence_number, pointer=_pointer(event))
        case SealPointerReceived():
            return replace(
                seal,
                sequence_number=event.sequence_number,
                pointer=_pointer(event),
                peer_actor_id=event.peer_actor_id,
            )
        case SealLedgerExtended():
            return replace(seal, ledger_length=event.ledger_number, ledger_head=event.ledger_head)
        case SealOnlineKeyRotated():
            return replace(seal, rotation_number=event.rotation_number)
        case SealOfflineRootRotated():
            return replace(seal, root_number=event.root_number)
        case SealRepublishingStarted() | SealRepublishingCompleted():
            return replace(seal, status=PUBLISHING.after(event))
        case _:
            assert_never(event)


def _pointer(event: SealPointerFact) -> SealPointer:
    return SealPointer(
        head_hash=event.head_hash,
        ledger_length=event.ledger_length,
        log_position=event.log_position,
        log_digest=event.log_digest,
        signed_at=event.signed_at,
        valid_until=event.valid_until,
        key_id=event.key_id,
        envelope=event.envelope,
        pointer_hash=pointer_hash(event.envelope),
    )


def pointer_hash(envelope: Envelope) -> str:
    """By which the next pointer names this one."""
    return signing.hashed(signing.pae(envelope.payloadType, base64.b64decode(envelope.payload)))


def belongs(seal: Seal) -> Belonging:
    """The own seal is everybody's to read; a Peer's is that Peer's, or nobody's while it has no account here."""
    return Belonging(owner_id=seal.peer_actor_id or seal.facility_id) if seal.foreign else Belonging.nowhere


seals = Aggregate[Seal, SealEvent](
    "Seal",
    id_field="facility_id",
    events=SealEvent,
    evolve=evolve,
    missing=SealNotFoundError,
    belongs=belongs,
)


def fresh(seal: Seal, now: datetime) -> bool:
    return seal.pointer is not None and seal.pointer.valid_until > now


class SealExtras(Value):
    """What a seal's view shows beyond its state: whether its pointer may still be believed."""

    fresh: bool


async def seal_extras(world: World, states: Sequence[Seal]) -> list[SealExtras]:
    return [SealExtras(fresh=fresh(seal, world.now)) for seal in states]


seals.reads(
    "/federation/seals",
    filters=(
        "status",
        Filter[Seal](
            name="fresh",
            type=bool,
            of=lambda seal: seal.pointer and seal.pointer.valid_until,
            test=Test.AHEAD,
        ),
    ),
    sorts=("sequence_number", "created_at"),
    extras=(SealExtras, seal_extras),
)


def next_head(head: str, entry: LedgerEntry, content_hash: str) -> str:
    """head_n = SHA-256(head_(n-1) || content_hash_n || 0 for a publication, 1 for a withdrawal), in octets."""
    tail = b"\0" if entry is LedgerEntry.PUBLISHED else b"\1"
    return hashlib.sha256(bytes.fromhex(head) + bytes.fromhex(content_hash) + tail).hexdigest()


def extended(
    seal: Seal, entry: LedgerEntry, artifact_id: UUID, content_hash: str, now: datetime
) -> SealLedgerExtended:
    """The ledger with one more entry; whoever publishes has checked that the seal is Live."""
    return SealLedgerExtended(
        facility_id=seal.facility_id,
        occurred_at=now,
        ledger_number=seal.ledger_length + 1,
        entry=entry,
        artifact_id=artifact_id,
        content_hash=content_hash,
        ledger_head=next_head(seal.ledger_head, entry, content_hash),
    )


@seals.operation("POST /federation/seals/{facility_id}/republishing/start")
class StartSealRepublishing(Command[Seal]):
    """Stop signing and publishing, after a restored backup or because the online key is compromised."""

    facility_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Seal:
        return await world.load(seals, self.facility_id)

    def decide(self, seal: Seal, occasion: Occasion) -> SealRepublishingStarted:
        reason = text.reason(self.reason, InvalidSealReasonError)
        check_own(seal, SealCannotStartRepublishingError)
        PUBLISHING.check(SealRepublishingStarted, seal.status, seal.id)
        return SealRepublishingStarted(facility_id=seal.id, occurred_at=occasion.now, reason=reason)


def check_own(seal: Seal, refusal: type[CannotTransitionError]) -> None:
    """Gate: a Peer signs for itself."""
    if seal.foreign:
        raise refusal(
            "This is the seal of a Peer, which signs and republishes it itself.",
            facility_id=str(seal.id),
            foreign=True,
        )
