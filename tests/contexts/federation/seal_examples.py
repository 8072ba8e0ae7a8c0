"""What the tests of seals share: key pairs, the facilities and credentials that have them, and signed statements."""

import base64
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beamwright.contexts.federation.credential import (
    Credential,
    CredentialPurpose,
    CredentialRegistered,
    CredentialRotationStarted,
    Key,
    credentials,
)
from beamwright.contexts.federation.facility import Facility, FacilityKind, FacilityStatus
from beamwright.contexts.federation.seal import (
    NOTHING,
    Seal,
    SealInitialized,
    SealPointerReceived,
    SealPointerSigned,
    seals,
)
from beamwright.contexts.federation.seal_statements import (
    SealKeyStatement,
    SealPointerStatement,
    SealRootStatement,
    SealStatement,
    enclosed,
    octets,
    pointer_fields,
)
from beamwright.kernel import signing
from beamwright.kernel.event import Event
from beamwright.kernel.signing import Envelope
from beamwright.kernel.value import replace
from tests.rules import NOW, given

SITE, AREA, PEER, ONLINE_ID, OFFLINE_ID, ACCOUNT, ARTIFACT = (UUID(int=number) for number in range(501, 508))
DAY = timedelta(days=1)
CONTENT_HASH = "ab" * 32
LOG = "cd" * 32
POSITION = "7b.7"


class Pair:
    """A key pair that is the same in every run."""

    def __init__(self, number: int) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
        raw = self._private.public_key().public_bytes_raw()
        self.public_key = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        self.key_id = signing.key_id(self.public_key)

    def sign(self, data: bytes) -> bytes:
        return self._private.sign(data)

    def key(self, **changes: Any) -> Key:
        return replace(Key(key_id=self.key_id, public_key=self.public_key, since_at=NOW), **changes)


ROOT, NEXT_ROOT, ONLINE, NEXT_ONLINE, STRANGER = (Pair(number) for number in range(1, 6))


def signed(statement: SealStatement, *pairs: Pair) -> Envelope:
    """The statement as these have signed it."""
    return enclosed(statement, *((pair.key_id, pair.sign(octets(statement))) for pair in pairs))


def facility(kind: FacilityKind = FacilityKind.SITE, **changes: Any) -> Facility:
    ids = {FacilityKind.SITE: SITE, FacilityKind.AREA: AREA, FacilityKind.PEER: PEER}
    made = Facility(
        id=ids[kind],
        code="home" if kind is FacilityKind.SITE else "north",
        display_name="A place",
        kind=kind,
        parent_id=None,
        base_url=None,
        peer_actor_id=ACCOUNT if kind is FacilityKind.PEER else None,
        trust_anchor_credential_ids=frozenset({OFFLINE_ID}),
        status=FacilityStatus.ACTIVE,
    )
    return replace(made, **changes)


HOME, NORTH = facility(), facility(FacilityKind.PEER)


def registered(purpose: CredentialPurpose, pair: Pair, owner: UUID = SITE) -> CredentialRegistered:
    online = purpose is CredentialPurpose.SEAL_ONLINE_SIGNING
    return CredentialRegistered(
        credential_id=ONLINE_ID if online else OFFLINE_ID,
        occurred_at=NOW - 30 * DAY,
        facility_id=owner,
        site_code="home",
        audience="urn:beamwright:seal",
        purpose=purpose,
        key_id=pair.key_id,
        public_key=pair.public_key,
        secret_ref="env:BEAMWRIGHT_SEAL" if online and owner == SITE else None,
    )


def pending(id: UUID, pair: Pair) -> CredentialRotationStarted:
    return CredentialRotationStarted(credential_id=id, occurred_at=NOW - DAY, pending=pair.key())


def online(*more: Event, owner: UUID = SITE, pair: Pair = ONLINE) -> Credential:
    return given(credentials, registered(CredentialPurpose.SEAL_ONLINE_SIGNING, pair, owner), *more)


def offline(*more: Event, owner: UUID = SITE, pair: Pair = ROOT) -> Credential:
    return given(credentials, registered(CredentialPurpose.SEAL_OFFLINE_ROOT, pair, owner), *more)


def key_statement(**changes: Any) -> SealKeyStatement:
    """Of the first online key of the own Site, unless it says otherwise."""
    first = SealKeyStatement(
        facility_code="home",
        rotation_number=0,
        key_id=ONLINE.key_id,
        public_key=ONLINE.public_key,
        previous_key_id=None,
        issued_at=NOW,
    )
    return replace(first, **changes)


def next_key_statement(**changes: Any) -> SealKeyStatement:
    """Of the online key that follows the first."""
    following = key_statement(
        rotation_number=1,
        key_id=NEXT_ONLINE.key_id,
        public_key=NEXT_ONLINE.public_key,
        previous_key_id=ONLINE.key_id,
    )
    return replace(following, **changes)


def root_statement(**changes: Any) -> SealRootStatement:
    """Of the root that follows the first."""
    following = SealRootStatement(
        facility_code="home",
        root_number=1,
        key_id=NEXT_ROOT.key_id,
        public_key=NEXT_ROOT.public_key,
        previous_key_id=ROOT.key_id,
        issued_at=NOW,
    )
    return replace(following, **changes)


def pointer(number: int, **changes: Any) -> SealPointerStatement:
    """A pointer of an empty ledger."""
    made = SealPointerStatement(
        facility_code="home",
        sequence_number=number,
        head_hash=NOTHING,
        ledger_length=0,
        log_position=POSITION,
        log_digest=LOG,
        signed_at=NOW - timedelta(hours=1),
        valid_until=NOW + DAY,
        previous_pointer_hash=None,
    )
    return replace(made, **changes)


def initialized(**changes: Any) -> SealInitialized:
    made = SealInitialized(
        facility_id=SITE,
        occurred_at=NOW - 20 * DAY,
        online_credential_id=ONLINE_ID,
        offline_credential_id=OFFLINE_ID,
        key_id=ONLINE.key_id,
        envelope=signed(key_statement(), ROOT),
    )
    return replace(made, **changes)


BEGUN = initialized()
PEERS = initialized(
    facility_id=PEER,
    foreign=True,
    peer_actor_id=ACCOUNT,
    envelope=signed(key_statement(facility_code="north"), ROOT),
)


def pointer_signed(statement: SealPointerStatement, pair: Pair = ONLINE) -> SealPointerSigned:
    return SealPointerSigned(**pointer_fields(statement, signed(statement, pair), SITE, NOW))


def pointer_received(statement: SealPointerStatement, now: datetime = NOW) -> SealPointerReceived:
    fields = pointer_fields(statement, signed(statement, ONLINE), PEER, now)
    return SealPointerReceived(**fields, peer_actor_id=ACCOUNT)


def seal(*more: Event) -> Seal:
    return given(seals, BEGUN, *more)


def peers_seal(*more: Event) -> Seal:
    return given(seals, PEERS, *more)
