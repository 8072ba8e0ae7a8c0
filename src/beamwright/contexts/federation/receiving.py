"""Receiving artifacts: authentic ones are stored, and accepted once a permit and the issuer's seal speak for them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from beamwright.kernel import signing
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.signing import Envelope
from beamwright.kernel.value import Value

from .artifact import (
    LIFECYCLE,
    Artifact,
    ArtifactAccepted,
    ArtifactCannotAcceptError,
    ArtifactReceived,
    ArtifactStatus,
    ArtifactVerified,
    StageResult,
    Stages,
    VerificationStage,
    artifacts,
    failed,
)
from .artifact_statement import ArtifactStatement, content_hash, read
from .credential import (
    Credential,
    CredentialPurpose,
    CredentialStatus,
    Key,
    credentials,
    verifying_key,
)
from .facility import Facility, facilities
from .issuing import load_issuer
from .permit import (
    ArtifactKind,
    ArtifactTier,
    FederationPermitStatus,
    Permit,
    PermitDirection,
    permits,
)
from .permit_gate import in_force
from .seal import Seal, fresh, seals

CLOCKS_DIFFER = timedelta(seconds=300)


class ArtifactIssuerMismatchError(ConflictError):
    """A peer's account delivers only what that peer has issued."""


class ArtifactKeyUnknownError(ConflictError):
    """No verification key of the issuer that is believed now has this id."""


class ArtifactSignatureInvalidError(ConflictError):
    """The signature does not verify with the issuer's key."""


class ArtifactRecipientMismatchError(ConflictError):
    """The artifact is addressed to another facility."""


class ArtifactStaleError(ConflictError):
    """The artifact was issued too long ago, or in the future."""


class Told(Protocol):
    """What an artifact says of itself, be it a statement or a record of one."""

    @property
    def artifact_kind(self) -> ArtifactKind: ...
    @property
    def tier(self) -> ArtifactTier: ...
    @property
    def audience(self) -> str: ...
    @property
    def purpose(self) -> str: ...
    @property
    def ledger_number(self) -> int: ...
    @property
    def content_hash(self) -> str: ...
    @property
    def content(self) -> dict[str, Any] | None: ...
    @property
    def expires_at(self) -> datetime | None: ...


class Grounds(Value):
    """What the stages of an artifact are judged by."""

    peer: Facility
    # The permit for its audience and purpose, if there is one, and the credentials that this allows.
    permit: Permit | None
    allowed: tuple[Credential, ...]
    seal: Seal | None


class Delivered(Value):
    """What an artifact must be addressed to, which keys of its issuer are known, and what it is judged by."""

    site_code: str
    max_age: timedelta
    verification: tuple[Credential, ...]
    grounds: Grounds


@artifacts.operation("POST /federation/artifacts/receive", creates=True)
class ReceiveArtifact(Command[Delivered]):
    """Take in a signed artifact of a peer; an authentic one is stored, and accepted or quarantined."""

    envelope: Envelope

    async def gather(self, world: World) -> Delivered:
        statement, _ = read(self.envelope)
        peer = await load_issuer(world, statement.facility_code, ArtifactIssuerMismatchError)
        verification = await world.find(
            credentials, facility_id=peer.id, purpose=CredentialPurpose.VERIFICATION
        )
        return Delivered(
            site_code=world.installation.self_facility_code,
            max_age=world.installation.artifact_max_age,
            verification=tuple(verification),
            grounds=await load_grounds(world, peer, statement.audience, statement.purpose),
        )

    def decide(self, seen: Delivered, occasion: Occasion) -> ArtifactReceived:
        (statement, opened), now, peer = read(self.envelope), occasion.now, seen.grounds.peer
        [signature] = self.envelope.signatures
        credential, key = check_key(seen.verification, signature.keyid, statement.issued_at, now)
        if not signing.verifies(key.public_key or "", signature.octets, opened.pae):
            raise ArtifactSignatureInvalidError(
                "The signature does not verify; ask the issuer to publish it again.", key_id=signature.keyid
            )
        check_recipient(statement, seen.site_code)
        check_age(statement.issued_at, seen.max_age, now)
        stages = judged(statement, credential, seen.grounds, now)
        return ArtifactReceived(
            artifact_id=occasion.new_id,
            occurred_at=now,
            site_code=seen.site_code,
            issuer_facility_code=peer.code,
            peer_actor_id=peer.peer_actor_id,
            peer_facility_id=peer.id,
            permit_id=permit_in_force(stages, seen.grounds),
            credential_id=credential.id,
            key_id=signature.keyid,
            artifact_kind=statement.artifact_kind,
            tier=statement.tier,
            audience=statement.audience,
            purpose=statement.purpose,
            terms=statement.terms,
            content_hash=statement.content_hash,
            content=statement.content,
            ledger_number=statement.ledger_number,
            issued_at=statement.issued_at,
            expires_at=statement.expires_at,
            nonce=statement.nonce,
            envelope=self.envelope,
            stages=stages,
            status=outcome(stages, seen.grounds),
        )


class ArtifactInQuestion(Value):
    """An artifact, the credential that vouches for it, and what it is judged by."""

    artifact: Artifact
    credential: Credential
    grounds: Grounds


async def load_in_question(world: World, artifact_id: UUID) -> ArtifactInQuestion:
    artifact = await world.load(artifacts, artifact_id)
    peer = await world.load(facilities, artifact.peer_facility_id)
    return ArtifactInQuestion(
        artifact=artifact,
        credential=await world.load(credentials, artifact.credential_id),
        grounds=await load_grounds(world, peer, artifact.audience, artifact.purpose),
    )


@artifacts.operation("POST /federation/artifacts/{artifact_id}/verify")
class VerifyArtifact(Command[ArtifactInQuestion]):
    """Judge a quarantined artifact again, after what kept it there was mended."""

    artifact_id: UUID

    async def gather(self, world: World) -> ArtifactInQuestion:
        return await load_in_question(world, self.artifact_id)

    def decide(self, seen: ArtifactInQuestion, occasion: Occasion) -> list[ArtifactVerified]:
        artifact = seen.artifact
        LIFECYCLE.check(ArtifactVerified, artifact.status, artifact.id)
        stages = judged(artifact, seen.credential, seen.grounds, occasion.now)
        verified = ArtifactVerified(
            artifact_id=artifact.id,
            occurred_at=occasion.now,
            stages=stages,
            permit_id=permit_in_force(stages, seen.grounds),
            status=outcome(stages, seen.grounds),
        )
        same = (verified.stages, verified.permit_id, verified.status) == (
            artifact.stages,
            artifact.permit_id,
            artifact.status,
        )
        return [] if same else [verified]


@artifacts.operation("POST /federation/artifacts/{artifact_id}/accept")
class AcceptArtifact(Command[ArtifactInQuestion]):
    """Accept a quarantined artifact that nothing stands against."""

    artifact_id: UUID

    async def gather(self, world: World) -> ArtifactInQuestion:
        return await load_in_question(world, self.artifact_id)

    def decide(self, seen: ArtifactInQuestion, occasion: Occasion) -> ArtifactAccepted:
        artifact = seen.artifact
        LIFECYCLE.check(ArtifactAccepted, artifact.status, artifact.id)
        now_failed = failed(judged(artifact, seen.credential, seen.grounds, occasion.now))
        # What is on record speaks for the acceptance later, so it must not say otherwise either.
        against = [stage for stage in VerificationStage if stage in {*now_failed, *artifact.failed_stages}]
        if against:
            raise ArtifactCannotAcceptError(
                f"Failed: {', '.join(against)}. Mend the cause and verify the artifact, or reject it.",
                artifact_id=str(artifact.id),
                failed_stages=against,
            )
        return ArtifactAccepted(artifact_id=artifact.id, occurred_at=occasion.now)


async def load_grounds(world: World, peer: Facility, audience: str, purpose: str) -> Grounds:
    found = await world.find(permits, peer_facility_id=peer.id, audience=audience, purpose=purpose)
    permit = next((each for each in found if applies(each)), None)
    ids = [] if permit is None else sorted(permit.allowed_credential_ids)
    return Grounds(
        peer=peer,
        permit=permit,
        allowed=tuple(await world.load_all(credentials, ids)),
        seal=(await world.load_known(seals, [peer.id])).get(peer.id),
    )


def applies(permit: Permit) -> bool:
    """Whether it is about what comes in; of those that are not revoked there is one at most."""
    revoked = permit.status is FederationPermitStatus.REVOKED
    return permit.direction is PermitDirection.INBOUND and not revoked


def check_key(
    known: Sequence[Credential], key_id: str, at: datetime, now: datetime
) -> tuple[Credential, Key]:
    """Gate: the key is one of the issuer's that is believed."""
    for credential in known:
        key = verifying_key(credential, key_id, at, now)
        if key is not None:
            return credential, key
    raise ArtifactKeyUnknownError(
        "Register the issuer's key as a Verification credential first, or ask it to sign with a current one.",
        key_id=key_id,
    )


def check_recipient(statement: ArtifactStatement, site_code: str) -> None:
    if statement.recipient_facility_code != site_code:
        raise ArtifactRecipientMismatchError(
            f"The artifact is for {statement.recipient_facility_code}; this is {site_code}.",
            recipient_facility_code=statement.recipient_facility_code,
            site_code=site_code,
        )


def check_age(issued_at: datetime, max_age: timedelta, now: datetime) -> None:
    """Gate: old enough to be a replay whose nonce nobody remembers, or from a wrong clock, is refused."""
    if not now - max_age <= issued_at <= now + CLOCKS_DIFFER:
        raise ArtifactStaleError(
            f"It was issued at {issued_at.isoformat()}; ask the issuer to publish it again.",
            issued_at=issued_at.isoformat(),
        )


def judged(told: Told, credential: Credential, grounds: Grounds, now: datetime) -> Stages:
    """The result of every stage."""
    permit = grounds.permit
    return {
        VerificationStage.PERMIT: result(permitted(credential, grounds, now)),
        VerificationStage.KIND: result(
            None if permit is None else told.artifact_kind in permit.allowed_artifact_kinds
        ),
        VerificationStage.TIER: result(None if permit is None else told.tier in permit.accepted_tiers),
        VerificationStage.EXPIRY: result(told.expires_at is None or told.expires_at > now),
        VerificationStage.CONTENT_HASH: result(
            None if told.content is None else content_hash(told.content) == told.content_hash
        ),
        VerificationStage.FRESHNESS: result(
            None if grounds.seal is None else covered(grounds.seal, told.ledger_number, now)
        ),
    }


def result(passed: bool | None) -> StageResult:
    """None where there is nothing to judge by."""
    if passed is None:
        return StageResult.SKIPPED
    return StageResult.PASSED if passed else StageResult.FAILED


def permitted(credential: Credential, grounds: Grounds, now: datetime) -> bool:
    """Whether a permit in force names the credential, and this may still be believed."""
    permit = grounds.permit
    return (
        permit is not None
        and in_force(permit, grounds.peer, grounds.allowed, now)
        and credential.id in permit.allowed_credential_ids
        and credential.status is not CredentialStatus.REVOKED
    )


def covered(seal: Seal, ledger_number: int, now: datetime) -> bool:
    """Whether the issuer's fresh pointer reaches as far as the artifact's entry."""
    return seal.pointer is not None and fresh(seal, now) and seal.pointer.ledger_length >= ledger_number


def permit_in_force(stages: Stages, grounds: Grounds) -> UUID | None:
    passed = stages[VerificationStage.PERMIT] is StageResult.PASSED
    return grounds.permit.id if passed and grounds.permit is not None else None


def outcome(stages: Stages, grounds: Grounds) -> ArtifactStatus:
    """Accepted without a person where nothing failed and the permit says so."""
    automatic = grounds.permit is not None and grounds.permit.terms.automatic is True
    return ArtifactStatus.ACCEPTED if automatic and not failed(stages) else ArtifactStatus.QUARANTINED
