"""The keys of a seal: its beginning, the rotation of either key, and what the offline machine signs for them."""

import base64
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from beamwright.kernel import signing
from beamwright.kernel.errors import CannotTransitionError
from beamwright.kernel.operation import Command, Occasion, Query, World
from beamwright.kernel.signing import Envelope
from beamwright.kernel.value import Value

from .credential import (
    Credential,
    CredentialPurpose,
    CredentialRotationCompleted,
    CredentialStatus,
    Key,
    completed,
    credentials,
    usable_key,
)
from .facility import Facility, FacilityKind, FacilityStatus, facilities
from .seal import (
    InvalidSealEnvelopeError,
    Seal,
    SealAlreadyInitializedError,
    SealCannotRotateOfflineRootError,
    SealCannotRotateOnlineKeyError,
    SealFacilityNotEligibleError,
    SealInitialized,
    SealKeyCollisionError,
    SealKeyNotUsableError,
    SealKeyPurposeMismatchError,
    SealNoPendingKeyError,
    SealNotFoundError,
    SealOfflineRootRotated,
    SealOnlineKeyRotated,
    SealRootNotAnchoredError,
    SealRotationNumberError,
    SealSignatureInvalidError,
    seals,
)
from .seal_statements import (
    SealKeyFields,
    SealKeyStatement,
    SealRootStatement,
    SealStatement,
    Stated,
    check_issuer,
    check_signature,
    opened,
    payload,
)


class SealBeginnings(Value):
    """A facility, its seal if it has one, and the two credentials of a new one."""

    facility: Facility
    seal: Seal | None
    online: Credential
    offline: Credential
    self_facility_code: str


@seals.operation("POST /federation/seals", creates=True)
class InitializeSeal(Command[SealBeginnings]):
    """Begin the seal of the own Site or of a Peer, with the offline root's statement of the first online key."""

    facility_id: UUID
    online_credential_id: UUID
    offline_credential_id: UUID
    envelope: Envelope

    def stated(self) -> Stated[SealKeyStatement]:
        stated = opened(self.envelope, SealKeyStatement)
        if stated.statement.rotation_number != 0 or stated.statement.previous_key_id is not None:
            raise InvalidSealEnvelopeError(
                "A seal begins with the statement of rotation number 0, which has no previous key.",
                rotation_number=stated.statement.rotation_number,
            )
        return stated

    async def gather(self, world: World) -> SealBeginnings:
        self.stated()
        return SealBeginnings(
            facility=await world.load(facilities, self.facility_id),
            online=await world.load(credentials, self.online_credential_id),
            offline=await world.load(credentials, self.offline_credential_id),
            seal=(await world.load_known(seals, [self.facility_id])).get(self.facility_id),
            self_facility_code=world.installation.self_facility_code,
        )

    def decide(self, seen: SealBeginnings, occasion: Occasion) -> SealInitialized:
        statement, envelope, pae = self.stated()
        facility, online, offline = seen.facility, seen.online, seen.offline
        check_beginning(seen)
        check_keys(facility, online, offline)
        check_issuer(statement, facility.code)
        root = check_usable(online, offline, statement.key_id, occasion.now)
        check_signature(pae, envelope.signatures[0], root)
        return SealInitialized(
            facility_id=facility.id,
            occurred_at=occasion.now,
            online_credential_id=online.id,
            offline_credential_id=offline.id,
            key_id=statement.key_id,
            envelope=envelope,
            foreign=facility.kind is FacilityKind.PEER,
            peer_actor_id=facility.peer_actor_id,
        )


def check_beginning(seen: SealBeginnings) -> None:
    """Gate: a facility that may have a seal, and has none."""
    facility = seen.facility
    if seen.seal is not None:
        raise SealAlreadyInitializedError(
            f"{facility.code} has a seal; rotate its keys instead.", facility_id=str(facility.id)
        )
    ours = facility.kind is FacilityKind.SITE and facility.code == seen.self_facility_code
    if facility.status is not FacilityStatus.ACTIVE or not (ours or facility.kind is FacilityKind.PEER):
        raise SealFacilityNotEligibleError(
            f"{facility.code} is a {facility.kind} and {facility.status}; only the own Site and Active Peers "
            "have seals.",
            facility_id=str(facility.id),
            kind=facility.kind,
            status=facility.status,
        )


def check_keys(facility: Facility, online: Credential, offline: Credential) -> None:
    """Gate: two keys of the facility, each for its purpose, the root believed here."""
    check_apart(online.current, offline.current)
    needed = (
        (online, CredentialPurpose.SEAL_ONLINE_SIGNING),
        (offline, CredentialPurpose.SEAL_OFFLINE_ROOT),
    )
    for credential, purpose in needed:
        if credential.purpose is not purpose or credential.facility_id != facility.id:
            raise SealKeyPurposeMismatchError(
                f"Credential {credential.id} must be a {purpose} of {facility.code}.",
                credential_id=str(credential.id),
                purpose=credential.purpose,
                expected=purpose,
            )
    if offline.id not in facility.trust_anchor_credential_ids:
        raise SealRootNotAnchoredError(
            f"Make credential {offline.id} a trust anchor of {facility.code} first.",
            credential_id=str(offline.id),
        )


def check_apart(one: Key, other: Key) -> None:
    """Gate: whoever takes the online key must not have the root with it."""
    if one.key_id == other.key_id:
        raise SealKeyCollisionError("The online key and the offline root must differ.", key_id=one.key_id)


def check_usable(online: Credential, offline: Credential, key_id: str, now: datetime) -> Key:
    """The root, if both keys are usable and the online one is that of the statement."""
    root = usable_key(offline, now)
    for credential, key in ((online, usable_key(online, now)), (offline, root)):
        if key is None:
            raise SealKeyNotUsableError(
                f"The key of credential {credential.id} is expired or revoked.",
                credential_id=str(credential.id),
            )
    if key_id != online.current.key_id or root is None:
        raise SealKeyNotUsableError(
            "The statement names another key than the current one of the online credential.",
            key_id=key_id,
            expected=online.current.key_id,
        )
    return root


class SealRotation(Value):
    """A seal with its facility and both credentials, and how long a replaced key still verifies."""

    seal: Seal
    facility: Facility
    online: Credential
    offline: Credential
    overlap: timedelta


async def load_rotation(world: World, facility_id: UUID) -> SealRotation:
    seal = await world.load(seals, facility_id)
    return SealRotation(
        seal=seal,
        facility=await world.load(facilities, facility_id),
        online=await world.load(credentials, seal.online_credential_id),
        offline=await world.load(credentials, seal.offline_credential_id),
        overlap=world.installation.federation_key_overlap,
    )


@seals.operation("POST /federation/seals/{facility_id}/online-key/rotate")
class RotateSealOnlineKey(Command[SealRotation]):
    """Sign pointers with the pending key from now on, as the offline root has stated."""

    facility_id: UUID
    envelope: Envelope

    async def gather(self, world: World) -> SealRotation:
        return await load_rotation(world, self.facility_id)

    def decide(
        self, seen: SealRotation, occasion: Occasion
    ) -> list[SealOnlineKeyRotated | CredentialRotationCompleted]:
        stated = opened(self.envelope, SealKeyStatement)
        pending = check_pending(seen.online, stated.statement, SealCannotRotateOnlineKeyError)
        check_number(
            stated.statement, stated.statement.rotation_number, seen.seal.rotation_number, seen.online
        )
        check_issuer(stated.statement, seen.facility.code)
        check_apart(pending, seen.offline.current)
        # Only the root that is current: else whoever may begin a rotation could make a root of their own.
        check_signature(stated.pae, stated.envelope.signatures[0], usable_key(seen.offline, occasion.now))
        return [
            online_key_rotated(seen.seal, stated, occasion.now),
            completed(seen.online, occasion.now, seen.overlap),
        ]


@seals.operation("POST /federation/seals/{facility_id}/offline-root/rotate")
class RotateSealOfflineRoot(Command[SealRotation]):
    """Believe another offline root from now on, as the old one and the new one have stated."""

    facility_id: UUID
    envelope: Envelope

    async def gather(self, world: World) -> SealRotation:
        return await load_rotation(world, self.facility_id)

    def decide(
        self, seen: SealRotation, occasion: Occasion
    ) -> list[SealOfflineRootRotated | CredentialRotationCompleted]:
        stated = opened(self.envelope, SealRootStatement)
        pending = check_pending(seen.offline, stated.statement, SealCannotRotateOfflineRootError)
        check_number(stated.statement, stated.statement.root_number, seen.seal.root_number, seen.offline)
        check_issuer(stated.statement, seen.facility.code)
        check_apart(pending, seen.online.current)
        check_both(stated, usable_key(seen.offline, occasion.now), pending)
        return [
            offline_root_rotated(seen.seal, stated, occasion.now),
            completed(seen.offline, occasion.now, seen.overlap),
        ]


def check_pending(
    credential: Credential, statement: SealKeyFields, refusal: type[CannotTransitionError]
) -> Key:
    """Gate: the credential is being rotated, to the key of the statement."""
    pending = credential.pending
    if credential.status is not CredentialStatus.ROTATING or pending is None:
        raise refusal.of(credential.id, credential.status, [CredentialStatus.ROTATING])
    if pending.key_id != statement.key_id:
        raise refusal(
            f"Credential {credential.id} is being rotated to another key than that of the statement.",
            credential_id=str(credential.id),
            pending=pending.key_id,
            key_id=statement.key_id,
        )
    return pending


def check_number(statement: SealKeyFields, number: int, current: int, credential: Credential) -> None:
    """Gate: the statement follows what is in use."""
    if number != current + 1 or statement.previous_key_id != credential.current.key_id:
        raise SealRotationNumberError(
            f"The next statement has number {current + 1} and follows key {credential.current.key_id}.",
            expected=current + 1,
            number=number,
            previous_key_id=statement.previous_key_id,
            current_key_id=credential.current.key_id,
        )


def check_both(stated: Stated[SealRootStatement], old: Key | None, new: Key) -> None:
    """Gate: the old root gives way, and the new one is really held by whoever says so."""
    by_key = {signature.keyid: signature for signature in stated.envelope.signatures}
    if old is None or by_key.keys() != {old.key_id, new.key_id}:
        raise SealSignatureInvalidError(
            "The statement must be signed by the old root and by the new one.",
            key_ids=sorted(by_key),
            expected=sorted(str(key.key_id) for key in (old, new) if key is not None),
        )
    for key in (old, new):
        check_signature(stated.pae, by_key[str(key.key_id)], key)


def online_key_rotated(seal: Seal, stated: Stated[SealKeyStatement], now: datetime) -> SealOnlineKeyRotated:
    """The fact, once the signature of the root was verified."""
    statement = stated.statement
    return SealOnlineKeyRotated(
        facility_id=seal.id,
        occurred_at=now,
        rotation_number=statement.rotation_number,
        key_id=statement.key_id,
        previous_key_id=str(statement.previous_key_id),
        signed_by_offline_root=True,
        envelope=stated.envelope,
    )


def offline_root_rotated(
    seal: Seal, stated: Stated[SealRootStatement], now: datetime
) -> SealOfflineRootRotated:
    """The fact, once both signatures were verified."""
    statement = stated.statement
    return SealOfflineRootRotated(
        facility_id=seal.id,
        occurred_at=now,
        root_number=statement.root_number,
        key_id=statement.key_id,
        previous_key_id=str(statement.previous_key_id),
        envelope=stated.envelope,
    )


class SealKeyRole(StrEnum):
    """Which key of a seal: the one that signs pointers, or the root."""

    ONLINE = "online"
    ROOT = "root"


class SealKeyStatementView(Value):
    """The exact octets to carry to the offline machine; `pae_base64` is what it signs."""

    payload_type: str
    payload: str
    pae_base64: str


@seals.operation("GET /federation/seals/{facility_id}/online-key/statement")
class GetSealKeyStatement(Query[SealKeyStatementView]):
    """Read what the offline root has to sign for the key that is pending, or is to be the first."""

    facility_id: UUID
    key: SealKeyRole = SealKeyRole.ONLINE

    async def answer(self, world: World) -> SealKeyStatementView:
        found = (await world.load_known(facilities, [self.facility_id])).get(self.facility_id)
        if found is None:
            raise SealNotFoundError.of("Seal", self.facility_id)
        seal = (await world.load_known(seals, [self.facility_id])).get(self.facility_id)
        statement = await self._first(world, found) if seal is None else await self._next(world, found, seal)
        return view(statement)

    async def _first(self, world: World, facility: Facility) -> SealKeyStatement:
        """Of a facility without a seal: its one online key."""
        held = await world.find(
            credentials, facility_id=facility.id, purpose=CredentialPurpose.SEAL_ONLINE_SIGNING
        )
        usable = [each.current for each in held if usable_key(each, world.now) is not None]
        if self.key is SealKeyRole.ROOT or len(usable) != 1:
            raise no_pending_key(facility, len(usable))
        return SealKeyStatement(
            facility_code=facility.code,
            rotation_number=0,
            key_id=str(usable[0].key_id),
            public_key=str(usable[0].public_key),
            previous_key_id=None,
            issued_at=world.now,
        )

    async def _next(
        self, world: World, facility: Facility, seal: Seal
    ) -> SealKeyStatement | SealRootStatement:
        online = self.key is SealKeyRole.ONLINE
        id = seal.online_credential_id if online else seal.offline_credential_id
        credential = await world.load(credentials, id)
        pending, now = credential.pending, world.now
        if pending is None:
            raise no_pending_key(facility, 0)
        names = (str(pending.key_id), str(pending.public_key), credential.current.key_id)
        return next_statement(facility.code, seal, online, names, now)


def next_statement(
    code: str, seal: Seal, online: bool, names: tuple[str, str, str | None], now: datetime
) -> SealKeyStatement | SealRootStatement:
    """The statement of a key that takes over."""
    key_id, public_key, previous_key_id = names
    if online:
        return SealKeyStatement(
            facility_code=code,
            rotation_number=seal.rotation_number + 1,
            key_id=key_id,
            public_key=public_key,
            previous_key_id=previous_key_id,
            issued_at=now,
        )
    return SealRootStatement(
        facility_code=code,
        root_number=seal.root_number + 1,
        key_id=key_id,
        public_key=public_key,
        previous_key_id=previous_key_id,
        issued_at=now,
    )


def view(statement: SealStatement) -> SealKeyStatementView:
    data = signing.canonical(payload(statement))
    kind = signing.payload_type(statement.name)
    return SealKeyStatementView(
        payload_type=kind,
        payload=base64.b64encode(data).decode(),
        pae_base64=base64.b64encode(signing.pae(kind, data)).decode(),
    )


def no_pending_key(facility: Facility, found: int) -> SealNoPendingKeyError:
    return SealNoPendingKeyError(
        f"No key of {facility.code} waits for a statement, or several do. Register one online credential, or start "
        "the rotation of the seal's credential.",
        facility_id=str(facility.id),
        found=found,
    )
