"""Publishing: what a permit lets out is rendered, entered in the ledger of the own seal, signed, and recorded."""

import base64
import secrets
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from beamwright.kernel import signing, text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.event import Event
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.secret_store import SecretStoreUnavailableError
from beamwright.kernel.signing import Envelope
from beamwright.kernel.value import Time, Value, replace

from .artifact import (
    LIFECYCLE,
    Artifact,
    ArtifactPublished,
    ArtifactSource,
    ArtifactTerms,
    ArtifactWithdrawn,
    InvalidArtifactReasonError,
    artifacts,
)
from .artifact_statement import (
    MOST_CONTENT_OCTETS,
    NAME,
    ArtifactStatement,
    content_hash,
    content_size,
)
from .credential import Credential, Key, credentials, usable_key
from .facility import Facility, facilities
from .issuing import own_site
from .permit import (
    ArtifactKind,
    ArtifactTier,
    OnwardAction,
    Permit,
    PermitDirection,
    ReadScope,
    permits,
)
from .permit_gate import in_force
from .seal import LedgerEntry, Seal, SealLedgerExtended, SealNotFoundError, SealStatus, extended, seals


class InvalidArtifactExpiryError(InvalidError):
    """The artifact would have expired when it is issued."""


class ArtifactPermitNotInForceError(ConflictError):
    """The permit is not Active, is expired, or has no peer or key to serve it."""


class ArtifactPermitDirectionError(ConflictError):
    """The permit lets artifacts in, not out."""


class ArtifactKindNotPermittedError(ConflictError):
    """The permit does not allow artifacts of this kind."""


class ArtifactTierNotPermittedError(ConflictError):
    """The permit does not allow artifacts of this tier."""


class ArtifactSealNotLiveError(ConflictError):
    """The own seal is being republished: nothing is published or withdrawn meanwhile."""


class ArtifactSourceNotPublishableError(ConflictError):
    """The thing to be published is not fit for it, or this installation does not publish such things."""


class Exported(Value):
    """A thing as a peer is to see it; `trouble` says why it must not be published."""

    source: ArtifactSource
    content: dict[str, Any]
    trouble: str | None = None


type Exporter = Callable[[World, UUID], Awaitable[Exported]]

# Each context adds what it lets out; a thing outside the caller's reach is not found.
EXPORTERS: dict[ArtifactKind, Exporter] = {}


def exports(kind: ArtifactKind) -> Callable[[Exporter], Exporter]:
    """Declare what renders things of a kind."""

    def declare(exporter: Exporter) -> Exporter:
        EXPORTERS[kind] = exporter
        return exporter

    return declare


class Offer(Value):
    """What is to be published, and as what."""

    permit_id: UUID
    artifact_kind: ArtifactKind
    source_id: UUID
    tier: ArtifactTier
    expires_at: datetime | None = None


class SignedArtifact(Value):
    """A statement with its envelope, and the key that signed it."""

    statement: ArtifactStatement
    credential_id: UUID
    key_id: str
    envelope: Envelope


class Publication(Value):
    """Everything that a publication depends on; signed only once nothing stands against it."""

    own: Facility
    permit: Permit
    peer: Facility
    credentials: tuple[Credential, ...]
    exported: Exported | None
    seal: Seal | None
    signed: SignedArtifact | None = None


@artifacts.operation("POST /federation/artifacts", creates=True)
class PublishArtifact(Command[Publication]):
    """Publish something to a peer under a permit: it is signed, entered in the ledger and sent."""

    permit_id: UUID
    artifact_kind: ArtifactKind
    source_id: UUID
    tier: ArtifactTier
    expires_at: Time | None = None

    @property
    def offer(self) -> Offer:
        return Offer(
            permit_id=self.permit_id,
            artifact_kind=self.artifact_kind,
            source_id=self.source_id,
            tier=self.tier,
            expires_at=self.expires_at,
        )

    async def gather(self, world: World) -> Publication:
        check_expiry(self.expires_at, world.now)
        await world.load(permits, self.permit_id)
        exporter = EXPORTERS.get(self.artifact_kind)
        exported = None if exporter is None else await exporter(world, self.source_id)
        return await signed(world, await load_publication(world, self.permit_id, exported), self.offer)

    def decide(self, publication: Publication, occasion: Occasion) -> list[Event]:
        check_expiry(self.expires_at, occasion.now)
        return published(publication, self.offer, occasion.now, occasion.new_id)


class ArtifactAndSeal(Value):
    """An artifact, and the seal in whose ledger it stands."""

    artifact: Artifact
    seal: Seal | None


@artifacts.operation("POST /federation/artifacts/{artifact_id}/withdraw")
class WithdrawArtifact(Command[ArtifactAndSeal]):
    """Withdraw a published artifact: the ledger tells its peer."""

    artifact_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> ArtifactAndSeal:
        artifact = await world.load(artifacts, self.artifact_id)
        return ArtifactAndSeal(artifact=artifact, seal=await own_seal(world, await own_site(world)))

    def decide(self, seen: ArtifactAndSeal, occasion: Occasion) -> list[Event]:
        reason, artifact = text.reason(self.reason, InvalidArtifactReasonError), seen.artifact
        LIFECYCLE.check(ArtifactWithdrawn, artifact.status, artifact.id)
        seal = check_seal(seen.seal)
        withdrawn = ArtifactWithdrawn(artifact_id=artifact.id, occurred_at=occasion.now, reason=reason)
        return [
            withdrawn,
            extended(seal, LedgerEntry.WITHDRAWN, artifact.id, artifact.content_hash, occasion.now),
        ]


async def load_publication(world: World, permit_id: UUID, exported: Exported | None) -> Publication:
    """A permit with all that its use depends on, for something that was rendered already."""
    permit, own = await world.load(permits, permit_id), await own_site(world)
    return Publication(
        own=own,
        permit=permit,
        peer=await world.load(facilities, permit.peer_facility_id),
        credentials=tuple(await world.load_all(credentials, sorted(permit.allowed_credential_ids))),
        exported=exported,
        seal=await own_seal(world, own),
    )


async def own_seal(world: World, own: Facility) -> Seal | None:
    """None while there is none, which the append verifies as well."""
    return (await world.load_known(seals, [own.id])).get(own.id)


def checked(publication: Publication, offer: Offer, now: datetime) -> tuple[Exported, Seal]:
    """Every guard of a publication in order; what is left to do then is to sign."""
    permit = publication.permit
    if not in_force(permit, publication.peer, publication.credentials, now):
        raise ArtifactPermitNotInForceError(
            f"Permit {permit.id} is {permit.status}; it needs to be Active, unexpired, with an Active peer and a "
            "usable key.",
            permit_id=str(permit.id),
            status=permit.status,
        )
    if permit.direction is not PermitDirection.OUTBOUND:
        raise ArtifactPermitDirectionError(
            f"Permit {permit.id} is {permit.direction}; publishing needs an Outbound one.",
            permit_id=str(permit.id),
            direction=permit.direction,
        )
    if offer.artifact_kind not in permit.allowed_artifact_kinds:
        allowed = sorted(permit.allowed_artifact_kinds)
        raise ArtifactKindNotPermittedError(
            f"Permit {permit.id} allows {', '.join(allowed)}, not {offer.artifact_kind}.",
            permit_id=str(permit.id),
            allowed=allowed,
        )
    if offer.tier not in permit.accepted_tiers:
        allowed = sorted(permit.accepted_tiers)
        raise ArtifactTierNotPermittedError(
            f"Permit {permit.id} allows tier {', '.join(allowed)}, not {offer.tier}.",
            permit_id=str(permit.id),
            allowed=allowed,
        )
    if publication.seal is None:
        raise SealNotFoundError.of("Seal", publication.own.id)
    return check_exported(publication.exported, offer, check_seal(publication.seal))


def check_expiry(expires_at: datetime | None, now: datetime) -> None:
    if expires_at is not None and expires_at <= now:
        raise InvalidArtifactExpiryError("expires_at must lie ahead.", expires_at=expires_at.isoformat())


def check_seal(seal: Seal | None) -> Seal:
    """Gate: while the own seal is republished, its ledger stands still."""
    if seal is None or seal.status is not SealStatus.LIVE:
        status = "missing" if seal is None else seal.status
        raise ArtifactSealNotLiveError(
            f"The own seal is {status}; complete its republishing first.", status=str(status)
        )
    return seal


def check_exported(exported: Exported | None, offer: Offer, seal: Seal) -> tuple[Exported, Seal]:
    """Gate: there is an exporter for the kind, and the thing is fit to be published."""
    if exported is None:
        known = sorted(EXPORTERS)
        raise ArtifactSourceNotPublishableError(
            f"This installation publishes {', '.join(known)}, not {offer.artifact_kind}.",
            artifact_kind=offer.artifact_kind,
            published_kinds=known,
        )
    trouble = exported.trouble or trouble_with(exported.content)
    if trouble is not None:
        raise ArtifactSourceNotPublishableError(
            f"{offer.artifact_kind} {offer.source_id} cannot be published. {trouble}",
            artifact_kind=offer.artifact_kind,
            source_id=str(offer.source_id),
        )
    return exported, seal


def trouble_with(content: dict[str, Any]) -> str | None:
    """Why content cannot be signed, if it cannot."""
    try:
        size = content_size(content)
    except ValueError as error:
        return f"It cannot be written canonically: {error}."
    return f"It has more than {MOST_CONTENT_OCTETS} octets." if size > MOST_CONTENT_OCTETS else None


async def signed(world: World, publication: Publication, offer: Offer) -> Publication:
    """The publication with its signature. The ledger's number is that of the seal which the append guards."""
    exported, seal = checked(publication, offer, world.now)
    credential, key = signing_key(publication, world.now)
    statement = stated(publication, exported, seal, offer, world.now, world.new_id)
    octets = signing.statement(NAME, statement.payload)
    signature = await world.signer.sign(key.secret_ref or "", octets)
    if not signing.verifies(key.public_key or "", signature, octets):
        raise SecretStoreUnavailableError(
            f"What the secret of credential {credential.id} signs does not verify with its public key; rotate it.",
            credential_id=str(credential.id),
        )
    key_id = key.key_id or ""
    return replace(
        publication,
        signed=SignedArtifact(
            statement=statement,
            credential_id=credential.id,
            key_id=key_id,
            envelope=signing.enclosed(NAME, statement.payload, [(key_id, signature)]),
        ),
    )


def signing_key(publication: Publication, now: datetime) -> tuple[Credential, Key]:
    """A usable key that the permit allows; the one made for the permit's audience before others."""
    audience = publication.permit.audience
    candidates = sorted(publication.credentials, key=lambda each: (each.audience != audience, each.id))
    return next((each, key) for each in candidates if (key := usable_key(each, now)) is not None)


def stated(
    publication: Publication, exported: Exported, seal: Seal, offer: Offer, now: datetime, id: UUID
) -> ArtifactStatement:
    permit = publication.permit
    scope = permit.terms.read_scope or ReadScope.METADATA_ONLY
    return ArtifactStatement(
        artifact_id=str(id),
        artifact_kind=offer.artifact_kind,
        facility_code=publication.own.code,
        recipient_facility_code=publication.peer.code,
        audience=permit.audience,
        purpose=permit.purpose,
        tier=offer.tier,
        terms=ArtifactTerms(
            read_scope=scope, onward_actions=permit.terms.onward_actions or frozenset[OnwardAction]()
        ),
        ledger_number=seal.ledger_length + 1,
        content_hash=content_hash(exported.content),
        content=exported.content if scope is ReadScope.FULL else None,
        issued_at=now,
        expires_at=offer.expires_at,
        nonce=base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("="),
    )


def published(publication: Publication, offer: Offer, now: datetime, id: UUID) -> list[Event]:
    """What a publication records: the artifact, and its entry in the ledger."""
    exported, seal = checked(publication, offer, now)
    signed = publication.signed
    assert signed is not None, "gather signs whatever passes the guards"
    statement = signed.statement
    artifact = ArtifactPublished(
        artifact_id=id,
        occurred_at=now,
        site_code=publication.own.code,
        peer_actor_id=publication.peer.peer_actor_id,
        peer_facility_id=publication.peer.id,
        permit_id=publication.permit.id,
        credential_id=signed.credential_id,
        key_id=signed.key_id,
        artifact_kind=statement.artifact_kind,
        tier=statement.tier,
        audience=statement.audience,
        purpose=statement.purpose,
        terms=statement.terms,
        source=exported.source,
        content_hash=statement.content_hash,
        content=statement.content,
        ledger_number=statement.ledger_number,
        issued_at=statement.issued_at,
        expires_at=statement.expires_at,
        nonce=statement.nonce,
        envelope=signed.envelope,
    )
    entry: SealLedgerExtended = extended(seal, LedgerEntry.PUBLISHED, id, statement.content_hash, now)
    return [artifact, entry]
