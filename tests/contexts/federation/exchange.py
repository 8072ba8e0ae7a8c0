"""What the tests of artifacts share: the own Site, a peer, their keys, permits both ways, and seals."""

import base64
from datetime import timedelta
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beamwright.contexts.federation.artifact import (
    Artifact,
    ArtifactPublished,
    ArtifactReceived,
    ArtifactSource,
    ArtifactStatus,
    ArtifactTerms,
    StageResult,
    Stages,
    VerificationStage,
    artifacts,
)
from beamwright.contexts.federation.artifact_statement import NAME, ArtifactStatement, content_hash
from beamwright.contexts.federation.credential import (
    Credential,
    CredentialPurpose,
    CredentialRegistered,
    credentials,
)
from beamwright.contexts.federation.facility import (
    Facility,
    FacilityKind,
    FacilityRegistered,
    facilities,
)
from beamwright.contexts.federation.permit import (
    ArtifactKind,
    ArtifactTier,
    OnwardAction,
    Permit,
    PermitActivated,
    PermitDefined,
    PermitDirection,
    PermitTerms,
    ReadScope,
    permits,
)
from beamwright.contexts.federation.seal import Seal, SealPointer
from beamwright.kernel import signing
from beamwright.kernel.event import Event
from beamwright.kernel.signing import Envelope
from beamwright.kernel.value import replace
from tests.rules import NOW, given

OWN, PEER, PERMIT, CREDENTIAL, ARTIFACT, SOURCE = (UUID(int=n) for n in range(4001, 4007))
AUDIENCE, PURPOSE = "urn:test:receiver", "calibration-exchange"
NONCE = "AAAAAAAAAAAAAAAAAAAAAA"
CONTENT: dict[str, Any] = {"quantity": "rotation_center", "value": {"center": 1024.5}}
TERMS = ArtifactTerms(read_scope=ReadScope.FULL, onward_actions=frozenset({OnwardAction.CACHE_LOCALLY}))
PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = base64.urlsafe_b64encode(PRIVATE.public_key().public_bytes_raw()).decode().rstrip("=")
KEY_ID = signing.key_id(PUBLIC)


def facility(id: UUID, code: str, kind: FacilityKind) -> Facility:
    return given(
        facilities,
        FacilityRegistered(facility_id=id, occurred_at=NOW, code=code, display_name=code, kind=kind),
    )


def own() -> Facility:
    return facility(OWN, "home", FacilityKind.SITE)


def peer() -> Facility:
    return facility(PEER, "there", FacilityKind.PEER)


def credential(purpose: CredentialPurpose, *events: Event, **changes: Any) -> Credential:
    registered = CredentialRegistered(
        credential_id=CREDENTIAL,
        occurred_at=NOW,
        facility_id=OWN if purpose is CredentialPurpose.SIGNING else PEER,
        site_code="home",
        audience=AUDIENCE,
        purpose=purpose,
        key_id=KEY_ID,
        public_key=PUBLIC,
        secret_ref="env:KEY" if purpose is CredentialPurpose.SIGNING else None,
    )
    return given(credentials, replace(registered, **changes), *events)


def permit(direction: PermitDirection, *events: Event, **changes: Any) -> Permit:
    """An Active permit for stable revisions."""
    outbound = direction is PermitDirection.OUTBOUND
    defined = PermitDefined(
        permit_id=PERMIT,
        occurred_at=NOW,
        site_code="home",
        peer_facility_id=PEER,
        audience=AUDIENCE,
        purpose=PURPOSE,
        direction=direction,
        allowed_credential_ids=frozenset({CREDENTIAL}),
        allowed_artifact_kinds=frozenset({ArtifactKind.CALIBRATION_REVISION}),
        accepted_tiers=frozenset({ArtifactTier.STABLE}),
        terms=PermitTerms(read_scope=TERMS.read_scope, onward_actions=TERMS.onward_actions)
        if outbound
        else PermitTerms(automatic=True),
    )
    active = PermitActivated(permit_id=PERMIT, occurred_at=NOW)
    return given(permits, replace(defined, **changes), active, *events)


def seal(facility_id: UUID = OWN, **changes: Any) -> Seal:
    begun = Seal(facility_id=facility_id, online_credential_id=UUID(int=1), offline_credential_id=UUID(int=2))
    return replace(begun, **changes)


def pointer(ledger_length: int, valid: timedelta = timedelta(days=7)) -> SealPointer:
    return SealPointer(
        head_hash="0" * 64,
        ledger_length=ledger_length,
        log_position="0.0",
        log_digest="0" * 64,
        signed_at=NOW,
        valid_until=NOW + valid,
        key_id=KEY_ID,
        envelope=Envelope(payload="", payloadType="", signatures=()),
        pointer_hash="0" * 64,
    )


def statement(**changes: Any) -> ArtifactStatement:
    """What the peer states to us."""
    told = ArtifactStatement(
        artifact_id="7",
        artifact_kind=ArtifactKind.CALIBRATION_REVISION,
        facility_code="there",
        recipient_facility_code="home",
        audience=AUDIENCE,
        purpose=PURPOSE,
        tier=ArtifactTier.STABLE,
        terms=TERMS,
        ledger_number=3,
        content_hash=content_hash(CONTENT),
        content=CONTENT,
        issued_at=NOW,
        expires_at=None,
        nonce=NONCE,
    )
    return replace(told, **changes)


def enclosed(told: ArtifactStatement, key: Ed25519PrivateKey = PRIVATE) -> Envelope:
    signature = key.sign(signing.statement(NAME, told.payload))
    return signing.enclosed(NAME, told.payload, [(KEY_ID, signature)])


PASSED: Stages = dict.fromkeys(VerificationStage, StageResult.PASSED)


def published(**changes: Any) -> ArtifactPublished:
    told = statement()
    event = ArtifactPublished(
        artifact_id=ARTIFACT,
        occurred_at=NOW,
        site_code="home",
        peer_actor_id=None,
        peer_facility_id=PEER,
        permit_id=PERMIT,
        credential_id=CREDENTIAL,
        key_id=KEY_ID,
        artifact_kind=told.artifact_kind,
        tier=told.tier,
        audience=told.audience,
        purpose=told.purpose,
        terms=told.terms,
        source=ArtifactSource(type="CalibrationRevision", id=SOURCE, version=3),
        content_hash=told.content_hash,
        content=told.content,
        ledger_number=told.ledger_number,
        issued_at=NOW,
        expires_at=None,
        nonce=NONCE,
        envelope=enclosed(told),
    )
    return replace(event, **changes)


def received(**changes: Any) -> ArtifactReceived:
    told = statement()
    event = ArtifactReceived(
        artifact_id=ARTIFACT,
        occurred_at=NOW,
        site_code="home",
        issuer_facility_code="there",
        peer_actor_id=None,
        peer_facility_id=PEER,
        permit_id=PERMIT,
        credential_id=CREDENTIAL,
        key_id=KEY_ID,
        artifact_kind=told.artifact_kind,
        tier=told.tier,
        audience=told.audience,
        purpose=told.purpose,
        terms=told.terms,
        content_hash=told.content_hash,
        content=told.content,
        ledger_number=told.ledger_number,
        issued_at=NOW,
        expires_at=None,
        nonce=NONCE,
        envelope=enclosed(told),
        stages=PASSED,
        status=ArtifactStatus.QUARANTINED,
    )
    return replace(event, **changes)


def accepted(**changes: Any) -> Artifact:
    return given(artifacts, received(status=ArtifactStatus.ACCEPTED, **changes))
