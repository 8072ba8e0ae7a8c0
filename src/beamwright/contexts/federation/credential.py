"""Credential: a key or secret of one facility for one audience and purpose; only public parts are stored."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.errors import CannotTransitionError, ConflictError, InvalidError, NotFoundError
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.secret_store import SecretRef, discreet, scheme
from beamwright.kernel.signing import KeyId, PublicKey, key_id
from beamwright.kernel.value import Time, Value, replace

AUDIENCE = "^[A-Za-z][A-Za-z0-9+.-]*:[!-~]+$"

type Audience = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 200, "pattern": AUDIENCE, "format": "uri"})
]


class CredentialPurpose(StrEnum):
    """What the keys of a credential are used for."""

    SIGNING = "Signing"
    VERIFICATION = "Verification"
    AUTHENTICATION = "Authentication"
    SEAL_ONLINE_SIGNING = "SealOnlineSigning"
    SEAL_OFFLINE_ROOT = "SealOfflineRoot"


class CredentialStatus(StrEnum):
    ACTIVE = "Active"
    ROTATING = "Rotating"
    REVOKED = "Revoked"


class CredentialNotFoundError(NotFoundError):
    """There is no such credential."""


class InvalidCredentialAudienceError(InvalidError):
    """The audience is not a URI or URN of up to 200 characters."""


class InvalidCredentialKeyError(InvalidError):
    """The public key is no sound Ed25519 key, or the purpose needs one and none is given."""


class InvalidCredentialSecretRefError(InvalidError):
    """The secret reference is malformed, or the purpose needs one, or must not have one."""


class InvalidCredentialExpiryError(InvalidError):
    """The expiry is not ahead."""


class InvalidCredentialReasonError(InvalidError):
    """The reason is blank or too long."""


class CredentialTripleTakenError(ConflictError):
    """A credential that is not revoked has this facility, audience and purpose."""


class CredentialCannotStartRotationError(CannotTransitionError):
    """The credential is not Active, or has this key already."""


class CredentialCannotCompleteRotationError(CannotTransitionError):
    """No rotation is under way, or it is one that only the seal's own rotation completes."""


class CredentialCannotAbortRotationError(CannotTransitionError):
    """No rotation is under way."""


class CredentialCannotRevokeError(CannotTransitionError):
    """The credential is revoked already."""


class Key(Value):
    """A key as far as it is known here: its public part, and where its private part is found."""

    key_id: KeyId | None = None
    public_key: PublicKey | None = None
    secret_ref: SecretRef | None = None
    expires_at: Time | None = None
    since_at: Time

    __repr__ = discreet


class RetiredKey(Key):
    """A key that another one has replaced, and until when it still verifies what it signed before."""

    until_at: Time


class CredentialFact(Event):
    credential_id: UUID


class CredentialRegistered(CredentialFact):
    """`site_code` is the own Site, which the credential belongs to whosever key it is."""

    facility_id: UUID
    site_code: str
    audience: str
    purpose: CredentialPurpose
    key_id: str | None = None
    public_key: str | None = None
    secret_ref: SecretRef | None = None
    expires_at: datetime | None = None

    __repr__ = discreet


class CredentialRotationStarted(CredentialFact):
    pending: Key


class CredentialRotationCompleted(CredentialFact):
    """The pending key is the current one; the one before verifies its own statements a while longer."""

    key_id: str | None
    retired_until_at: datetime


class CredentialRotationAborted(CredentialFact):
    reason: str


class CredentialRevoked(CredentialFact):
    reason: str


type CredentialEvent = (
    CredentialRegistered
    | CredentialRotationStarted
    | CredentialRotationCompleted
    | CredentialRotationAborted
    | CredentialRevoked
)

LIFECYCLE = StateMachine[CredentialStatus](
    {
        CredentialRotationStarted: move(
            {CredentialStatus.ACTIVE}, CredentialStatus.ROTATING, CredentialCannotStartRotationError
        ),
        CredentialRotationCompleted: move(
            {CredentialStatus.ROTATING}, CredentialStatus.ACTIVE, CredentialCannotCompleteRotationError
        ),
        CredentialRotationAborted: move(
            {CredentialStatus.ROTATING}, CredentialStatus.ACTIVE, CredentialCannotAbortRotationError
        ),
        CredentialRevoked: move(
            {CredentialStatus.ACTIVE, CredentialStatus.ROTATING},
            CredentialStatus.REVOKED,
            CredentialCannotRevokeError,
        ),
    }
)

# Purposes whose rotation the offline root must have signed.
SEAL_PURPOSES = frozenset({CredentialPurpose.SEAL_ONLINE_SIGNING, CredentialPurpose.SEAL_OFFLINE_ROOT})


class Credential(Value):
    id: UUID
    site_code: str
    facility_id: UUID
    audience: str
    purpose: CredentialPurpose
    current: Key
    pending: Key | None = None
    retired: tuple[RetiredKey, ...] = ()
    status: CredentialStatus = CredentialStatus.ACTIVE

    @property
    def expires_at(self) -> datetime | None:
        return self.current.expires_at

    @property
    def key_ids(self) -> list[str]:
        """Every key that it has or had: whoever holds an envelope knows only one of them."""
        keys = (self.current, self.pending, *self.retired)
        return [key.key_id for key in keys if key is not None and key.key_id is not None]


def evolve(credential: Credential | None, event: CredentialEvent) -> Credential:
    match event:
        case CredentialRegistered():
            return Credential(
                id=event.credential_id,
                site_code=event.site_code,
                facility_id=event.facility_id,
                audience=event.audience,
                purpose=event.purpose,
                current=Key(
                    key_id=event.key_id,
                    public_key=event.public_key,
                    secret_ref=event.secret_ref,
                    expires_at=event.expires_at,
                    since_at=event.occurred_at,
                ),
            )
        case _ if credential is None:
            raise ValueError(event)
        case CredentialRotationStarted():
            return replace(credential, pending=event.pending, status=LIFECYCLE.after(event))
        case CredentialRotationCompleted():
            if credential.pending is None:
                raise ValueError(event)
            return replace(
                credential,
                current=replace(credential.pending, since_at=event.occurred_at),
                pending=None,
                retired=(_retired(credential.current, event.retired_until_at), *credential.retired),
                status=LIFECYCLE.after(event),
            )
        case CredentialRotationAborted():
            return replace(credential, pending=None, status=LIFECYCLE.after(event))
        case CredentialRevoked():
            return replace(credential, pending=None, status=LIFECYCLE.after(event))
        case _:
            assert_never(event)


def _retired(key: Key, until_at: datetime) -> RetiredKey:
    return RetiredKey(
        key_id=key.key_id,
        public_key=key.public_key,
        secret_ref=key.secret_ref,
        expires_at=key.expires_at,
        since_at=key.since_at,
        until_at=until_at,
    )


def triple(facility_id: UUID, audience: str, purpose: CredentialPurpose) -> str:
    """What only one credential that is not revoked may be for."""
    return f"{facility_id}/{audience}/{purpose}"


def claims(credential: Credential) -> list[Claim]:
    if credential.status is CredentialStatus.REVOKED:
        return []
    key = triple(credential.facility_id, credential.audience, credential.purpose)
    return [Claim(kind="credential-triple", key=key, taken=CredentialTripleTakenError)]


credentials = Aggregate[Credential, CredentialEvent](
    "Credential",
    events=CredentialEvent,
    evolve=evolve,
    missing=CredentialNotFoundError,
    belongs=lambda credential: Belonging(facility_code=credential.site_code),
    claims=claims,
)


def usable_key(credential: Credential, now: datetime) -> Key | None:
    """The key to sign or verify with now, if there is one."""
    usable = credential.status is not CredentialStatus.REVOKED and not expired(credential.current, now)
    return credential.current if usable else None


def verifying_key(credential: Credential, key_id: str, at: datetime, now: datetime) -> Key | None:
    """The key of this id, if it may vouch now for a statement made at `at`."""
    if credential.status is CredentialStatus.REVOKED:
        return None
    for key in (credential.current, credential.pending):
        if key is not None and key.key_id == key_id and not expired(key, now):
            return key
    replaced_at = credential.current.since_at
    for key in credential.retired:
        in_time = at <= replaced_at and not expired(key, at) and now <= key.until_at
        if key.key_id == key_id and in_time:
            return key
        replaced_at = key.since_at
    return None


def expired(key: Key, now: datetime) -> bool:
    return key.expires_at is not None and key.expires_at <= now


def started(credential: Credential, pending: Key, now: datetime) -> CredentialRotationStarted:
    """The beginning of a rotation to another key, or the verb's refusal."""
    LIFECYCLE.check(CredentialRotationStarted, credential.status, credential.id)
    same = (pending.key_id, pending.key_id or pending.secret_ref) == (
        credential.current.key_id,
        credential.current.key_id or credential.current.secret_ref,
    )
    if same:
        raise CredentialCannotStartRotationError(
            f"Credential {credential.id} has this key already; rotate to another one.",
            credential_id=str(credential.id),
            key_id=pending.key_id,
        )
    return CredentialRotationStarted(credential_id=credential.id, occurred_at=now, pending=pending)


def completed(credential: Credential, now: datetime, overlap: timedelta) -> CredentialRotationCompleted:
    """The end of a rotation, whoever is entitled to it, or the verb's refusal."""
    LIFECYCLE.check(CredentialRotationCompleted, credential.status, credential.id)
    return CredentialRotationCompleted(
        credential_id=credential.id,
        occurred_at=now,
        key_id=credential.pending.key_id if credential.pending else None,
        retired_until_at=now + overlap,
    )


def public_key_of(public_key: str, now: datetime, expires_at: datetime | None = None) -> Key:
    """A key of which only the public part is known."""
    return Key(key_id=key_id(public_key), public_key=public_key, expires_at=expires_at, since_at=now)


def checked_audience(value: str, refusal: type[InvalidError]) -> str:
    """A URI or URN that names the receiving side."""
    audience = text.trimmed(value, 200, refusal, "audience")
    if not re.fullmatch(AUDIENCE, audience):
        raise refusal("The audience must be a URI or URN, such as urn:example:facility.", pattern=AUDIENCE)
    return audience


class CredentialExtras(Value):
    """What a credential's view shows beyond its state: where its secret is kept, and whether it is too old."""

    secret_scheme: str | None
    expired: bool


async def credential_extras(world: World, states: Sequence[Credential]) -> list[CredentialExtras]:
    return [
        CredentialExtras(
            secret_scheme=scheme(credential.current.secret_ref) if credential.current.secret_ref else None,
            expired=expired(credential.current, world.now),
        )
        for credential in states
    ]


credentials.reads(
    "/federation/credentials",
    filters=(
        "facility_id",
        "audience",
        "purpose",
        "status",
        Filter(name="key_id", type=str, of=lambda credential: credential.key_ids, test=Test.CONTAINS),
        Filter(
            name="expires_until",
            type=Time,
            of=lambda credential: credential.expires_at,
            test=Test.BEFORE,
        ),
    ),
    sorts=("created_at", "expires_at"),
    text=("audience",),
    extras=(CredentialExtras, credential_extras),
)


class CredentialInRotation(Value):
    """A credential, and how long a replaced key still verifies."""

    credential: Credential
    overlap: timedelta


@credentials.operation("POST /federation/credentials/{credential_id}/rotation/complete")
class CompleteCredentialRotation(Command[CredentialInRotation]):
    """Use a credential's new key from now on; the old one verifies a while longer what it has signed."""

    credential_id: UUID

    async def gather(self, world: World) -> CredentialInRotation:
        return CredentialInRotation(
            credential=await world.load(credentials, self.credential_id),
            overlap=world.installation.federation_key_overlap,
        )

    def decide(self, seen: CredentialInRotation, occasion: Occasion) -> CredentialRotationCompleted:
        event = completed(seen.credential, occasion.now, seen.overlap)
        check_not_of_seal(seen.credential)
        return event


def check_not_of_seal(credential: Credential) -> None:
    """Gate: a key of a seal is rotated by a statement of its offline root."""
    if credential.purpose in SEAL_PURPOSES:
        raise CredentialCannotCompleteRotationError(
            f"A {credential.purpose} key takes over when the seal is rotated with the offline root's statement.",
            credential_id=str(credential.id),
            purpose=credential.purpose,
        )


@credentials.operation("POST /federation/credentials/{credential_id}/rotation/abort")
class AbortCredentialRotation(Command[Credential]):
    """Give up a rotation: the current key stays, the pending one is forgotten."""

    credential_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Credential:
        return await world.load(credentials, self.credential_id)

    def decide(self, credential: Credential, occasion: Occasion) -> CredentialRotationAborted:
        reason = text.reason(self.reason, InvalidCredentialReasonError)
        LIFECYCLE.check(CredentialRotationAborted, credential.status, credential.id)
        return CredentialRotationAborted(credential_id=credential.id, occurred_at=occasion.now, reason=reason)
