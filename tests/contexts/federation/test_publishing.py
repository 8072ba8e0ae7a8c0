"""Publishing: what stands against it, in which order, that nothing is signed then, and what is signed otherwise."""

import asyncio
import base64
import json
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beamwright.contexts.federation.artifact import (
    ArtifactPublished,
    ArtifactSource,
    InvalidArtifactReasonError,
    artifacts,
)
from beamwright.contexts.federation.credential import CredentialPurpose, CredentialRevoked
from beamwright.contexts.federation.facility import FacilityStatus
from beamwright.contexts.federation.permit import (
    ArtifactKind,
    ArtifactTier,
    PermitDirection,
    PermitSuspended,
    PermitTerms,
    ReadScope,
)
from beamwright.contexts.federation.publishing import (
    EXPORTERS,
    ArtifactAndSeal,
    ArtifactKindNotPermittedError,
    ArtifactPermitDirectionError,
    ArtifactPermitNotInForceError,
    ArtifactSealNotLiveError,
    ArtifactSourceNotPublishableError,
    ArtifactTierNotPermittedError,
    Exported,
    InvalidArtifactExpiryError,
    Publication,
    PublishArtifact,
    WithdrawArtifact,
    signed,
)
from beamwright.contexts.federation.seal import (
    LedgerEntry,
    SealLedgerExtended,
    SealNotFoundError,
    SealStatus,
    next_head,
)
from beamwright.kernel.errors import DomainError
from beamwright.kernel.operation import World
from beamwright.kernel.secret_store import SecretStoreUnavailableError
from beamwright.kernel.value import replace
from tests.contexts.federation.exchange import (
    ARTIFACT,
    CONTENT,
    CREDENTIAL,
    KEY_ID,
    OWN,
    PEER,
    PERMIT,
    PRIVATE,
    SOURCE,
    credential,
    own,
    peer,
    permit,
    published,
    seal,
)
from tests.rules import NEW_ID, NOW, given, outcome

PUBLISH = PublishArtifact(
    permit_id=PERMIT,
    artifact_kind=ArtifactKind.CALIBRATION_REVISION,
    source_id=SOURCE,
    tier=ArtifactTier.STABLE,
)
SUSPENDED = PermitSuspended(permit_id=PERMIT, occurred_at=NOW, reason="wait")
REVOKED = CredentialRevoked(credential_id=CREDENTIAL, occurred_at=NOW, reason="lost")
REPUBLISHING = seal(status=SealStatus.REPUBLISHING)
EXPORTED = Exported(source=ArtifactSource(type="CalibrationRevision", id=SOURCE, version=3), content=CONTENT)
UNFIT = replace(EXPORTED, trouble="It is Provisional.")


class Desk:
    """As much of a world as signing needs; it counts how often the signer was asked."""

    now, new_id = NOW, NEW_ID

    def __init__(self, key: Ed25519PrivateKey = PRIVATE) -> None:
        self.key = key
        self.asked: list[str] = []

    @property
    def signer(self) -> "Desk":
        return self

    async def sign(self, secret_ref: str, octets: bytes) -> bytes:
        self.asked.append(secret_ref)
        return self.key.sign(octets)


def publication(**changes: Any) -> Publication:
    return replace(
        Publication(
            own=own(),
            permit=permit(PermitDirection.OUTBOUND),
            peer=peer(),
            credentials=(credential(CredentialPurpose.SIGNING),),
            exported=EXPORTED,
            seal=seal(ledger_length=2),
        ),
        **changes,
    )


def sign(seen: Publication, command: PublishArtifact = PUBLISH, desk: Desk | None = None) -> Publication:
    return asyncio.run(signed(cast(World, desk or Desk()), seen, command.offer))


def decided(
    seen: Publication, command: PublishArtifact = PUBLISH
) -> tuple[ArtifactPublished, SealLedgerExtended]:
    events = outcome(command, sign(seen, command))
    assert not isinstance(events, type), events
    artifact, entry = events
    assert isinstance(artifact, ArtifactPublished) and isinstance(entry, SealLedgerExtended)
    return artifact, entry


def permit_of(**changes: Any) -> Publication:
    return publication(permit=permit(PermitDirection.OUTBOUND, **changes))


# Each row mends what the row before was refused for.
IN_ORDER: list[tuple[dict[str, Any], type[DomainError]]] = [
    ({}, ArtifactPermitNotInForceError),
    ({"permit": permit(PermitDirection.INBOUND)}, ArtifactPermitDirectionError),
    (
        {
            "permit": permit(
                PermitDirection.OUTBOUND,
                allowed_artifact_kinds=frozenset({ArtifactKind.RECIPE}),
                accepted_tiers=frozenset({ArtifactTier.TESTING}),
            )
        },
        ArtifactKindNotPermittedError,
    ),
    (
        {"permit": permit(PermitDirection.OUTBOUND, accepted_tiers=frozenset({ArtifactTier.TESTING}))},
        ArtifactTierNotPermittedError,
    ),
    ({"permit": permit(PermitDirection.OUTBOUND)}, SealNotFoundError),
    ({"seal": REPUBLISHING}, ArtifactSealNotLiveError),
    ({"seal": seal()}, ArtifactSourceNotPublishableError),
]


def test_refusals_come_in_their_order_and_before_the_signer_is_asked() -> None:
    seen = publication(permit=permit(PermitDirection.INBOUND, SUSPENDED), seal=None, exported=UNFIT)
    desk = Desk()
    for mend, refusal in IN_ORDER:
        seen = replace(seen, **mend)
        assert outcome(PUBLISH, seen) is refusal
        with pytest.raises(refusal):
            sign(seen, desk=desk)
    assert desk.asked == []
    sign(replace(seen, exported=EXPORTED), desk=desk)
    assert desk.asked == ["env:KEY"]


@pytest.mark.parametrize(
    "changes",
    [
        {"permit": permit(PermitDirection.OUTBOUND, SUSPENDED)},
        {"permit": permit(PermitDirection.OUTBOUND, expires_at=NOW)},
        {"peer": replace(peer(), status=FacilityStatus.DECOMMISSIONED)},
        {"credentials": (credential(CredentialPurpose.SIGNING, REVOKED),)},
        {"credentials": (credential(CredentialPurpose.SIGNING, expires_at=NOW),)},
    ],
)
def test_only_a_permit_in_force_lets_anything_out(changes: dict[str, Any]) -> None:
    assert outcome(PUBLISH, publication(**changes)) is ArtifactPermitNotInForceError


@pytest.mark.parametrize("expires_at", [NOW, NOW - timedelta(days=1)])
def test_an_artifact_that_has_expired_is_not_published(expires_at: datetime) -> None:
    command = replace(PUBLISH, expires_at=expires_at)
    assert outcome(command, publication(permit=permit(PermitDirection.INBOUND))) is InvalidArtifactExpiryError


@pytest.mark.parametrize(
    "content", [{"words": "x" * 512 * 1024}, {"count": 2**53 + 1}, {"\u00e9": 1, "e\u0301": 2}]
)
def test_what_cannot_be_signed_is_not_published(content: dict[str, Any]) -> None:
    seen = publication(exported=replace(EXPORTED, content=content))
    assert outcome(PUBLISH, seen) is ArtifactSourceNotPublishableError


def test_a_kind_without_exporter_is_refused_in_words() -> None:
    assert set(EXPORTERS) <= {ArtifactKind.CALIBRATION_REVISION}
    everything = permit(PermitDirection.OUTBOUND, allowed_artifact_kinds=frozenset(ArtifactKind))
    command = replace(PUBLISH, artifact_kind=ArtifactKind.DATASET)
    seen = publication(permit=everything, exported=None)
    assert outcome(command, seen) is ArtifactSourceNotPublishableError


def test_a_publication_is_an_artifact_and_an_entry_of_the_ledger() -> None:
    artifact, entry = decided(publication(seal=seal(ledger_length=2, ledger_head="1" * 64)))
    assert (artifact.artifact_id, artifact.issued_at, artifact.ledger_number) == (NEW_ID, NOW, 3)
    assert (artifact.peer_facility_id, artifact.permit_id, artifact.credential_id) == (
        PEER,
        PERMIT,
        CREDENTIAL,
    )
    assert entry == SealLedgerExtended(
        facility_id=OWN,
        occurred_at=NOW,
        ledger_number=3,
        entry=LedgerEntry.PUBLISHED,
        artifact_id=NEW_ID,
        content_hash=artifact.content_hash,
        ledger_head=next_head("1" * 64, LedgerEntry.PUBLISHED, artifact.content_hash),
    )


def test_the_envelope_verifies_over_the_stated_encoding() -> None:
    artifact, _ = decided(publication())
    envelope = artifact.envelope
    kind, payload = envelope.payloadType.encode(), base64.b64decode(envelope.payload)
    assert kind == b"application/vnd.beamwright.artifact.v1+json"
    encoded = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    [signature] = envelope.signatures
    PRIVATE.public_key().verify(base64.b64decode(signature.sig), encoded)
    assert signature.keyid == artifact.key_id == KEY_ID
    stated = json.loads(payload)
    assert set(stated) == {
        "artifact_id", "artifact_kind", "facility_code", "recipient_facility_code", "audience", "purpose",
        "tier", "terms", "ledger_number", "content_hash", "content", "issued_at", "expires_at", "nonce",
    }  # fmt: skip
    assert (stated["facility_code"], stated["recipient_facility_code"]) == ("home", "there")
    assert (stated["artifact_id"], stated["content"]) == (str(NEW_ID), CONTENT)


def test_metadata_only_leaves_the_content_out_and_keeps_its_hash() -> None:
    terms = PermitTerms(read_scope=ReadScope.METADATA_ONLY, onward_actions=frozenset())
    artifact, _ = decided(permit_of(terms=terms))
    whole, _ = decided(publication())
    assert (artifact.content, artifact.content_hash) == (None, whole.content_hash)
    assert json.loads(base64.b64decode(artifact.envelope.payload))["content"] is None


def test_no_two_publications_share_a_nonce() -> None:
    nonces = {decided(publication())[0].nonce for _ in range(20)}
    assert len(nonces) == 20 and all(len(base64.urlsafe_b64decode(f"{each}==")) == 16 for each in nonces)


def test_the_key_for_the_permits_audience_signs_before_others() -> None:
    first = credential(CredentialPurpose.SIGNING, audience="urn:a", credential_id=UUID(int=1))
    ids = frozenset({first.id, CREDENTIAL})
    seen = publication(
        permit=permit(PermitDirection.OUTBOUND, allowed_credential_ids=ids),
        credentials=(first, credential(CredentialPurpose.SIGNING)),
    )
    assert decided(seen)[0].credential_id == CREDENTIAL
    without = replace(seen, credentials=(first, credential(CredentialPurpose.SIGNING, REVOKED)))
    assert decided(without)[0].credential_id == first.id


def test_a_secret_that_is_not_the_keys_signs_nothing() -> None:
    with pytest.raises(SecretStoreUnavailableError):
        sign(publication(), desk=Desk(Ed25519PrivateKey.generate()))


WITHDRAW = WithdrawArtifact(artifact_id=ARTIFACT, reason=" wrong ")


def test_a_withdrawal_is_an_entry_of_the_ledger_too() -> None:
    seen = ArtifactAndSeal(artifact=given(artifacts, published()), seal=seal(ledger_length=5))
    events = outcome(WITHDRAW, seen)
    assert not isinstance(events, type)
    withdrawn, entry = events
    assert getattr(withdrawn, "reason", None) == "wrong"
    assert isinstance(entry, SealLedgerExtended)
    assert (entry.entry, entry.ledger_number, entry.artifact_id) == (LedgerEntry.WITHDRAWN, 6, ARTIFACT)
    assert entry.content_hash == seen.artifact.content_hash


@pytest.mark.parametrize("ledger", [None, REPUBLISHING])
def test_nothing_is_withdrawn_while_the_seal_is_not_live(ledger: Any) -> None:
    seen = ArtifactAndSeal(artifact=given(artifacts, published()), seal=ledger)
    assert outcome(WITHDRAW, seen) is ArtifactSealNotLiveError


def test_a_withdrawal_has_a_reason() -> None:
    seen = ArtifactAndSeal(artifact=given(artifacts, published()), seal=REPUBLISHING)
    assert outcome(replace(WITHDRAW, reason=" "), seen) is InvalidArtifactReasonError


def test_ids_of_publications_are_those_of_the_occasion() -> None:
    desk = Desk()
    desk.new_id = uuid4()
    stated = sign(publication(), desk=desk).signed
    assert stated is not None and stated.statement.artifact_id == str(desk.new_id)
