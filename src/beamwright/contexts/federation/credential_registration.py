"""Registering a credential and starting its rotation: a private key proves that it belongs to the public one."""

import secrets
from datetime import datetime
from uuid import UUID

from beamwright.kernel import signing
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.secret_store import (
    GivenSecretRef,
    UnusableSecretError,
    checked_secret_ref,
    discreet,
)
from beamwright.kernel.signing import PublicKey, checked_public_key, key_id, verifies
from beamwright.kernel.value import Time, Value, replace

from .credential import (
    Audience,
    Credential,
    CredentialNotFoundError,
    CredentialPurpose,
    CredentialRegistered,
    CredentialRotationStarted,
    CredentialTripleTakenError,
    InvalidCredentialAudienceError,
    InvalidCredentialExpiryError,
    InvalidCredentialKeyError,
    InvalidCredentialSecretRefError,
    Key,
    checked_audience,
    credentials,
    started,
    triple,
)
from .facility import Facility, FacilityKind, FacilityStatus, facilities


class CredentialFacilityNotActiveError(ConflictError):
    """The credential's facility is decommissioned."""


class CredentialPurposeMismatchError(ConflictError):
    """A credential of this purpose is not kept for this kind of facility."""


class CredentialKeyMismatchError(ConflictError):
    """The secret does not sign what the public key verifies."""


class Probe(Value):
    """Random octets, and what the secret made of them: nothing, when it is no key."""

    octets: bytes
    signature: bytes


class CredentialPlace(Value):
    """The facility of a new credential, who holds its triple, and the probe that its secret signed."""

    facility: Facility
    self_facility_code: str
    holder: Credential | None = None
    probe: Probe | None = None


@credentials.operation("POST /federation/credentials", creates=True)
class RegisterCredential(Command[CredentialPlace]):
    """Register a key or secret of a facility; the private part stays where `secret_ref` says."""

    facility_id: UUID
    audience: Audience
    purpose: CredentialPurpose
    public_key: PublicKey | None = None
    secret_ref: GivenSecretRef | None = None
    expires_at: Time | None = None

    __repr__ = discreet

    def checked(self, now: datetime) -> Key:
        """The key of this request, or the first refusal of a value."""
        checked_audience(self.audience, InvalidCredentialAudienceError)
        return checked_key(self.purpose, self.public_key, self.secret_ref, self.expires_at, now)

    def check(self, place: CredentialPlace) -> None:
        """Everything that is refused before the secret is looked at."""
        own = place.facility.code == place.self_facility_code
        check_secret_for(self.purpose, place.facility, own, self.secret_ref)
        check_facility_active(place.facility)
        check_purpose(self.purpose, place.facility, own)
        check_triple_free(place.holder)

    async def gather(self, world: World) -> CredentialPlace:
        key = self.checked(world.now)
        place = CredentialPlace(
            facility=await world.load(facilities, self.facility_id),
            self_facility_code=world.installation.self_facility_code,
            holder=await self._holder(world),
        )
        self.check(place)
        return replace(place, probe=await probed(world, key))

    async def _holder(self, world: World) -> Credential | None:
        taken = triple(self.facility_id, self.audience.strip(), self.purpose)
        try:
            return await world.load_claimed(credentials, "credential-triple", taken)
        except CredentialNotFoundError:
            return None

    def decide(self, place: CredentialPlace, occasion: Occasion) -> CredentialRegistered:
        key = self.checked(occasion.now)
        self.check(place)
        check_probe(key, place.probe)
        return CredentialRegistered(
            credential_id=occasion.new_id,
            occurred_at=occasion.now,
            facility_id=place.facility.id,
            site_code=place.self_facility_code,
            audience=self.audience.strip(),
            purpose=self.purpose,
            key_id=key.key_id,
            public_key=key.public_key,
            secret_ref=key.secret_ref,
            expires_at=key.expires_at,
        )


class CredentialWithProbe(Value):
    """A credential, its facility, and the probe that the new secret signed."""

    credential: Credential
    facility: Facility
    self_facility_code: str
    probe: Probe | None = None


@credentials.operation("POST /federation/credentials/{credential_id}/rotation/start")
class StartCredentialRotation(Command[CredentialWithProbe]):
    """Announce the next key of a credential; the current one is used until the rotation is completed."""

    credential_id: UUID
    public_key: PublicKey | None = None
    secret_ref: GivenSecretRef | None = None
    expires_at: Time | None = None

    __repr__ = discreet

    def check(self, seen: CredentialWithProbe, now: datetime) -> CredentialRotationStarted:
        """The rotation, as far as it can be judged without looking at the secret."""
        purpose, facility = seen.credential.purpose, seen.facility
        key = checked_key(purpose, self.public_key, self.secret_ref, self.expires_at, now)
        check_secret_for(purpose, facility, facility.code == seen.self_facility_code, self.secret_ref)
        return started(seen.credential, key, now)

    async def gather(self, world: World) -> CredentialWithProbe:
        credential = await world.load(credentials, self.credential_id)
        seen = CredentialWithProbe(
            credential=credential,
            facility=await world.load(facilities, credential.facility_id),
            self_facility_code=world.installation.self_facility_code,
        )
        rotation = self.check(seen, world.now)
        return replace(seen, probe=await probed(world, rotation.pending))

    def decide(self, seen: CredentialWithProbe, occasion: Occasion) -> CredentialRotationStarted:
        rotation = self.check(seen, occasion.now)
        check_probe(rotation.pending, seen.probe)
        return rotation


def checked_key(
    purpose: CredentialPurpose,
    public_key: str | None,
    secret_ref: str | None,
    expires_at: datetime | None,
    now: datetime,
) -> Key:
    """A key with the parts that its purpose asks for, or the first refusal."""
    if public_key is not None:
        public_key = checked_public_key(public_key, InvalidCredentialKeyError)
    elif purpose is not CredentialPurpose.AUTHENTICATION:
        raise InvalidCredentialKeyError(f"A {purpose} credential needs its public key.", purpose=purpose)
    if secret_ref is not None:
        secret_ref = checked_secret_ref(secret_ref, InvalidCredentialSecretRefError)
    check_secret_given(secret_ref, SECRET_NEEDED.get(purpose), purpose)
    if expires_at is not None and expires_at <= now:
        raise InvalidCredentialExpiryError(
            f"The expiry {expires_at} is not ahead.", expires_at=str(expires_at)
        )
    return Key(
        key_id=key_id(public_key) if public_key else None,
        public_key=public_key,
        secret_ref=secret_ref,
        expires_at=expires_at,
        since_at=now,
    )


# Whether a purpose needs a secret or must not have one; the online key of a seal is the own Site's, or a Peer's.
SECRET_NEEDED = {
    CredentialPurpose.SIGNING: True,
    CredentialPurpose.VERIFICATION: False,
    CredentialPurpose.AUTHENTICATION: True,
    CredentialPurpose.SEAL_OFFLINE_ROOT: False,
}


def check_secret_given(secret_ref: str | None, needed: bool | None, purpose: CredentialPurpose) -> None:
    """Gate: a private key is referred to where this service signs, and nowhere else."""
    if needed is not None and needed != (secret_ref is not None):
        raise InvalidCredentialSecretRefError(
            f"A {purpose} credential needs its secret_ref here."
            if needed
            else f"A {purpose} credential has no secret_ref here: its private key is not this service's business.",
            purpose=purpose,
        )


def check_secret_for(
    purpose: CredentialPurpose, facility: Facility, own: bool, secret_ref: str | None
) -> None:
    """Gate: we sign for the own seal, and only verify a Peer's."""
    if purpose is CredentialPurpose.SEAL_ONLINE_SIGNING and (own or facility.kind is FacilityKind.PEER):
        check_secret_given(secret_ref, own, purpose)


def check_facility_active(facility: Facility) -> None:
    """Gate: nothing new is registered for a facility that is out of use."""
    if facility.status is not FacilityStatus.ACTIVE:
        raise CredentialFacilityNotActiveError(
            f"Facility {facility.code} is {facility.status}.",
            facility_id=str(facility.id),
            status=facility.status,
        )


OF_OWN_SITE = frozenset(CredentialPurpose) - {CredentialPurpose.VERIFICATION}
OF_PEER = frozenset(CredentialPurpose) - {CredentialPurpose.SIGNING, CredentialPurpose.AUTHENTICATION}


def check_purpose(purpose: CredentialPurpose, facility: Facility, own: bool) -> None:
    """Gate: the own Site signs and calls, a Peer is verified; Areas and other Sites have no keys."""
    peer = facility.kind is FacilityKind.PEER
    if not (own and purpose in OF_OWN_SITE) and not (peer and purpose in OF_PEER):
        raise CredentialPurposeMismatchError(
            f"{facility.code} is {'the own Site' if own else f'a {facility.kind}'}; "
            f"no {purpose} credential is kept for it.",
            facility_id=str(facility.id),
            kind=facility.kind,
            purpose=purpose,
        )


def check_triple_free(holder: Credential | None) -> None:
    """Gate: one credential for one audience and purpose; the claim decides between two that come at once."""
    if holder is not None:
        raise CredentialTripleTakenError(
            f"Credential {holder.id} is for this facility, audience and purpose; rotate or revoke it.",
            credential_id=str(holder.id),
        )


async def probed(world: World, key: Key) -> Probe | None:
    """What the secret signs, where there is a public key to compare it with."""
    if key.public_key is None or key.secret_ref is None:
        return None
    # Encoded as a type of its own, so that the signature fits no other statement.
    octets = signing.pae(signing.payload_type("probe"), secrets.token_bytes(32))
    try:
        return Probe(octets=octets, signature=await world.signer.sign(key.secret_ref, octets))
    except UnusableSecretError:
        return Probe(octets=octets, signature=b"")


def check_probe(key: Key, probe: Probe | None) -> None:
    """Gate: the two halves of the key belong together."""
    if key.public_key is None or key.secret_ref is None:
        return
    if probe is None or not verifies(key.public_key, probe.signature, probe.octets):
        raise CredentialKeyMismatchError(
            "What the secret signs does not verify with this public key; check both.", key_id=key.key_id
        )
