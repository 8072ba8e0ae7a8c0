"""Signing pointers of the own seal: now and then, and again above all that was seen after republishing."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from beamwright.kernel.log_digest import EMPTY, LogDigest
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.signing import Envelope
from beamwright.kernel.store import Mark
from beamwright.kernel.value import Value

from .credential import Credential, Key, credentials, usable_key
from .facility import facilities
from .seal import (
    PUBLISHING,
    InvalidSealSequenceFloorError,
    Seal,
    SealCannotCompleteRepublishingError,
    SealCannotSignPointerError,
    SealHeadMovedError,
    SealKeyNotUsableError,
    SealPointerSigned,
    SealRepublishingCompleted,
    check_own,
    seals,
)
from .seal_statements import SealPointerStatement, enclosed, octets, pointer_fields


class SealSigning(Value):
    """The own seal, its online credential, and the next pointer as it was signed while gathering."""

    seal: Seal
    online: Credential
    statement: SealPointerStatement
    envelope: Envelope

    def event(self, now: datetime) -> SealPointerSigned:
        return SealPointerSigned(**pointer_fields(self.statement, self.envelope, self.seal.id, now))


@seals.operation("POST /federation/seals/{facility_id}/pointer/sign")
class SignSealPointer(Command[SealSigning]):
    """Sign how far the own ledger and the own log go, so that peers can tell what is fresh."""

    facility_id: UUID
    expected_head_hash: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None = None

    def check(self, seal: Seal, online: Credential, now: datetime) -> Key:
        """The key to sign with, or the first refusal."""
        check_own(seal, SealCannotSignPointerError)
        PUBLISHING.check(SealPointerSigned, seal.status, seal.id)
        if self.expected_head_hash not in (None, seal.ledger_head):
            raise SealHeadMovedError(
                "The ledger has another head by now. Read the seal again.",
                expected=self.expected_head_hash,
                actual=seal.ledger_head,
                ledger_length=seal.ledger_length,
            )
        return signing_key(online, now)

    async def gather(self, world: World) -> SealSigning:
        seal = await world.load(seals, self.facility_id)
        online = await world.load(credentials, seal.online_credential_id)
        key = self.check(seal, online, world.now)
        return await signed(world, seal, online, key, seal.sequence_number + 1)

    def decide(self, seen: SealSigning, occasion: Occasion) -> SealPointerSigned:
        self.check(seen.seal, seen.online, occasion.now)
        return seen.event(occasion.now)


@seals.operation("POST /federation/seals/{facility_id}/republishing/complete")
class CompleteSealRepublishing(Command[SealSigning]):
    """Go on publishing with pointers above every number that a peer may have seen."""

    facility_id: UUID
    sequence_floor: Annotated[int, Meta(ge=0, le=2**53 - 1)]

    def check(self, seal: Seal, online: Credential, now: datetime) -> Key:
        """The key to sign with, or the first refusal."""
        if self.sequence_floor < seal.sequence_number:
            raise InvalidSealSequenceFloorError(
                f"The floor must not lie below {seal.sequence_number}, which this seal has used.",
                sequence_number=seal.sequence_number,
            )
        check_own(seal, SealCannotCompleteRepublishingError)
        PUBLISHING.check(SealRepublishingCompleted, seal.status, seal.id)
        return signing_key(online, now)

    async def gather(self, world: World) -> SealSigning:
        seal = await world.load(seals, self.facility_id)
        online = await world.load(credentials, seal.online_credential_id)
        key = self.check(seal, online, world.now)
        return await signed(world, seal, online, key, self.sequence_floor + 1)

    def decide(
        self, seen: SealSigning, occasion: Occasion
    ) -> list[SealRepublishingCompleted | SealPointerSigned]:
        self.check(seen.seal, seen.online, occasion.now)
        completed = SealRepublishingCompleted(
            facility_id=seen.seal.id, occurred_at=occasion.now, sequence_floor=self.sequence_floor
        )
        return [completed, seen.event(occasion.now)]


def signing_key(online: Credential, now: datetime) -> Key:
    """Gate: the online key is there, not expired and not revoked."""
    key = usable_key(online, now)
    if key is None or key.key_id is None or key.secret_ref is None:
        raise SealKeyNotUsableError(
            "The seal's online key is expired or revoked. Rotate it with a statement of the offline root.",
            credential_id=str(online.id),
            key_id=online.current.key_id,
        )
    return key


async def signed(world: World, seal: Seal, online: Credential, key: Key, number: int) -> SealSigning:
    """The next pointer; a lost race comes here again and signs what is true then."""
    facility = await world.load(facilities, seal.facility_id)
    log = await world.log_digest(_known(seal))
    statement = SealPointerStatement(
        facility_code=facility.code,
        sequence_number=number,
        head_hash=seal.ledger_head,
        ledger_length=seal.ledger_length,
        log_position=log.mark.token(),
        log_digest=log.digest,
        signed_at=world.now,
        valid_until=world.now + world.installation.seal_validity,
        previous_pointer_hash=seal.pointer and seal.pointer.pointer_hash,
    )
    assert key.key_id is not None and key.secret_ref is not None
    signature = await world.signer.sign(key.secret_ref, octets(statement))
    envelope = enclosed(statement, (key.key_id, signature))
    return SealSigning(seal=seal, online=online, statement=statement, envelope=envelope)


def _known(seal: Seal) -> LogDigest:
    """The last digest that was signed: what lies before it is never read again, and so cannot be made good."""
    if seal.pointer is None:
        return EMPTY
    return LogDigest(Mark.parse(seal.pointer.log_position), seal.pointer.log_digest)
