"""Publishing revisions to peers: verified ones, under a permit, each once."""

from typing import Any
from uuid import UUID

import msgspec

from beamwright.contexts.federation.artifact import (
    Artifact,
    ArtifactSource,
    ArtifactStatus,
    artifacts,
)
from beamwright.contexts.federation.permit import ArtifactKind, ArtifactTier, permits
from beamwright.contexts.federation.publishing import (
    Exported,
    Offer,
    Publication,
    check_expiry,
    exports,
    load_publication,
    published,
    signed,
)
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.event import Event
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, Value

from .calibration import (
    TRUST,
    VERIFIED,
    Calibration,
    CalibrationRevision,
    CalibrationRevisionPublished,
    calibrations,
)
from .calibration_reads import load_revision

KIND = ArtifactKind.CALIBRATION_REVISION


class CalibrationRevisionAlreadyPublishedError(ConflictError):
    """An artifact of the revision is published under this permit."""


class RevisionPublication(Value):
    """A calibration, what is published of the revision already, and what publishing it depends on."""

    calibration: Calibration
    standing: tuple[Artifact, ...]
    publication: Publication


class NewArtifact(Value):
    """What a receipt tells of an artifact."""

    artifact_id: UUID


@exports(KIND)
async def export_revision(world: World, revision_id: UUID) -> Exported:
    """A revision within the caller's reach, as a peer is to see it."""
    found, _ = await load_revision(world, revision_id)
    return rendered(world, await world.load(calibrations, found.id), revision_id)


def rendered(world: World, calibration: Calibration, revision_id: UUID) -> Exported:
    revision = calibration.revision(revision_id)
    verified = revision.status is VERIFIED
    return Exported(
        source=ArtifactSource(type=KIND, id=revision_id, version=world.version(calibrations, calibration.id)),
        content=revision_content(calibration, revision),
        trouble=None if verified else f"It is {revision.status}; only a Verified revision is.",
    )


def revision_content(calibration: Calibration, revision: CalibrationRevision) -> dict[str, Any]:
    """What a peer is told of a revision."""
    content = {
        "calibration_id": calibration.id,
        "revision_id": revision.revision_id,
        "content_hash": revision.content_hash,
        "source_facility_code": calibration.facility_code,
        "quantity": calibration.quantity,
        "operating_point": calibration.operating_point,
        "value": revision.value,
        "uncertainty_basis": revision.uncertainty_basis,
        "valid_from": revision.valid_from,
        "valid_until": revision.valid_until,
    }
    return msgspec.to_builtins(content, order="deterministic")


@calibrations.operation("POST /calibrations/{calibration_id}/revisions/{revision_id}/publish")
class PublishCalibrationRevision(Command[RevisionPublication]):
    """Publish a verified revision to a peer under a permit."""

    calibration_id: UUID
    revision_id: UUID
    permit_id: UUID
    tier: ArtifactTier
    expires_at: Time | None = None

    @property
    def offer(self) -> Offer:
        return Offer(
            permit_id=self.permit_id,
            artifact_kind=KIND,
            source_id=self.revision_id,
            tier=self.tier,
            expires_at=self.expires_at,
        )

    async def gather(self, world: World) -> RevisionPublication:
        calibration = await world.load(calibrations, self.calibration_id)
        calibration.revision(self.revision_id)
        await world.load(permits, self.permit_id)
        check_expiry(self.expires_at, world.now)
        standing = await world.find(
            artifacts, source_id=self.revision_id, permit_id=self.permit_id, status=ArtifactStatus.PUBLISHED
        )
        self.check(calibration, standing := tuple(standing))
        publication = await load_publication(
            world, self.permit_id, rendered(world, calibration, self.revision_id)
        )
        return RevisionPublication(
            calibration=calibration,
            standing=standing,
            publication=await signed(world, publication, self.offer),
        )

    def decide(self, seen: RevisionPublication, occasion: Occasion) -> list[Event]:
        check_expiry(self.expires_at, occasion.now)
        self.check(seen.calibration, seen.standing)
        done = CalibrationRevisionPublished(
            calibration_id=self.calibration_id,
            occurred_at=occasion.now,
            revision_id=self.revision_id,
            permit_id=self.permit_id,
            peer_facility_id=seen.publication.peer.id,
            artifact_id=occasion.new_id,
            published_by=occasion.principal_id,
        )
        return [done, *published(seen.publication, self.offer, occasion.now, occasion.new_id)]

    def check(self, calibration: Calibration, standing: tuple[Artifact, ...]) -> None:
        """Gate: the revision is verified, and not published under this permit."""
        revision = calibration.revision(self.revision_id)
        TRUST.check(CalibrationRevisionPublished, revision.status, revision.revision_id)
        if standing:
            raise CalibrationRevisionAlreadyPublishedError(
                f"Artifact {standing[0].id} publishes it under this permit; withdraw that first.",
                revision_id=str(revision.revision_id),
                permit_id=str(self.permit_id),
                artifact_id=str(standing[0].id),
            )

    def told(self, calibration: Calibration) -> NewArtifact:
        publication = calibration.revision(self.revision_id).publications[self.permit_id]
        return NewArtifact(artifact_id=publication.artifact_id)
