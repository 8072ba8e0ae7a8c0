"""Revisions: values appended to a calibration, verified by a second person, and withdrawn where they are wrong."""

import math
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from beamwright.contexts.decision.decision import DecisionNotFoundError
from beamwright.contexts.federation.artifact import Artifact, ArtifactStatus, artifacts
from beamwright.contexts.federation.permit import ArtifactKind
from beamwright.kernel import text
from beamwright.kernel.content_hash import canonical
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, Value, replace

from .calibration import (
    LIFECYCLE,
    TRUST,
    WITHDRAWN,
    Calibration,
    CalibrationRevisionAppended,
    CalibrationRevisionVerified,
    CalibrationRevisionWithdrawn,
    CalibrationSource,
    CalibrationSourceKind,
    Covariance,
    InvalidCalibrationReasonError,
    UncertaintyBasis,
    UncertaintyKind,
    calibrations,
)
from .calibration_definition import check_meets
from .quantity import CalibrationQuantity, calibration_quantities

MOST_COVARIANCE_FIELDS = 32
MOST_COVERAGE_FACTOR = 10
# The aggregate that a source's id belongs to; whoever asserts a value is its own source.
SOURCES = {
    CalibrationSourceKind.MEASURED: "Procedure",
    CalibrationSourceKind.COMPUTED: "Dataset",
    CalibrationSourceKind.IMPORTED: "Artifact",
}


class InvalidCalibrationValueError(InvalidError):
    """The value does not meet the quantity's schema."""


class InvalidCalibrationSourceError(InvalidError):
    """A source of this kind needs an id, or has none."""


class InvalidCalibrationUncertaintyError(InvalidError):
    """The coverage factor or the covariance does not fit."""


class InvalidCalibrationValidityError(InvalidError):
    """The validity ends before it begins."""


class InvalidCalibrationNoteError(InvalidError):
    """The note is blank or too long."""


class CalibrationSupersededRevisionError(ConflictError):
    """What is to be superseded is no revision of the calibration, is withdrawn, or is superseded already."""


class CalibrationArtifactMismatchError(ConflictError):
    """The imported artifact is not accepted, or tells of another quantity, operating point or value."""


class CalibrationRevisionVerifierNotIndependentError(ConflictError):
    """Whoever established a revision does not verify it."""


class CalibrationAndQuantity(Value):
    """A calibration, its quantity, and the artifact that a value is imported from."""

    calibration: Calibration
    quantity: CalibrationQuantity
    artifact: Artifact | None = None


class NewCalibrationRevision(Value):
    """What a receipt tells of a revision."""

    revision_id: UUID


@calibrations.operation("POST /calibrations/{calibration_id}/revisions/append")
class AppendCalibrationRevision(Command[CalibrationAndQuantity]):
    """Append a value to a calibration; it is provisional until a second person verifies it."""

    calibration_id: UUID
    value: dict[str, Any]
    source: CalibrationSource
    uncertainty_basis: UncertaintyBasis | None = None
    valid_from: Time | None = None
    valid_until: Time | None = None
    decided_by_decision_id: UUID | None = None
    supersedes_revision_id: UUID | None = None

    async def gather(self, world: World) -> CalibrationAndQuantity:
        calibration = await world.load(calibrations, self.calibration_id)
        quantity = await world.load(calibration_quantities, calibration.quantity_id)
        artifact = await load_source(world, self.source)
        if self.decided_by_decision_id is not None:
            await check_decision(world, self.decided_by_decision_id)
        return CalibrationAndQuantity(calibration=calibration, quantity=quantity, artifact=artifact)

    def decide(self, seen: CalibrationAndQuantity, occasion: Occasion) -> CalibrationRevisionAppended:
        calibration, quantity = seen.calibration, seen.quantity
        check_meets(quantity.value_schema, self.value, InvalidCalibrationValueError)
        check_source(self.source)
        check_uncertainty(self.uncertainty_basis)
        valid_from = self.valid_from or occasion.now
        check_validity(valid_from, self.valid_until)
        LIFECYCLE.check(CalibrationRevisionAppended, calibration.status, calibration.id)
        check_supersedable(calibration, self.supersedes_revision_id)
        if seen.artifact is not None:
            check_artifact(calibration, self.value, seen.artifact)
        appended = CalibrationRevisionAppended(
            calibration_id=calibration.id,
            occurred_at=occasion.now,
            revision_id=occasion.new_id,
            value=self.value,
            quantity_version=quantity.quantity_version,
            uncertainty_basis=self.uncertainty_basis,
            source=self.source,
            valid_from=valid_from,
            valid_until=self.valid_until,
            decided_by_decision_id=self.decided_by_decision_id,
            supersedes_revision_id=self.supersedes_revision_id,
            content_hash="",
            established_by=occasion.principal_id,
        )
        return replace(appended, content_hash=revision_hash(calibration, appended))

    def told(self, calibration: Calibration) -> NewCalibrationRevision:
        return NewCalibrationRevision(revision_id=calibration.revisions[-1].revision_id)


@calibrations.operation("POST /calibrations/{calibration_id}/revisions/{revision_id}/verify")
class VerifyCalibrationRevision(Command[Calibration]):
    """Verify a provisional revision that somebody else established."""

    calibration_id: UUID
    revision_id: UUID
    note: text.Note | None = None

    async def gather(self, world: World) -> Calibration:
        calibration = await world.load(calibrations, self.calibration_id)
        calibration.revision(self.revision_id)
        return calibration

    def decide(self, calibration: Calibration, occasion: Occasion) -> CalibrationRevisionVerified:
        revision = calibration.revision(self.revision_id)
        note = None if self.note is None else text.note(self.note, InvalidCalibrationNoteError)
        TRUST.check(CalibrationRevisionVerified, revision.status, revision.revision_id)
        if occasion.principal_id == revision.established_by:
            raise CalibrationRevisionVerifierNotIndependentError(
                "You established this revision; somebody else must verify it.",
                revision_id=str(revision.revision_id),
            )
        return CalibrationRevisionVerified(
            calibration_id=calibration.id,
            occurred_at=occasion.now,
            revision_id=revision.revision_id,
            note=note,
            verified_by=occasion.principal_id,
        )


@calibrations.operation("POST /calibrations/{calibration_id}/revisions/{revision_id}/withdraw")
class WithdrawCalibrationRevision(Command[Calibration]):
    """Withdraw a revision that is wrong; runs that pinned it keep their pin and show that it is withdrawn."""

    calibration_id: UUID
    revision_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Calibration:
        calibration = await world.load(calibrations, self.calibration_id)
        calibration.revision(self.revision_id)
        return calibration

    def decide(self, calibration: Calibration, occasion: Occasion) -> CalibrationRevisionWithdrawn:
        revision = calibration.revision(self.revision_id)
        reason = text.reason(self.reason, InvalidCalibrationReasonError)
        TRUST.check(CalibrationRevisionWithdrawn, revision.status, revision.revision_id)
        return CalibrationRevisionWithdrawn(
            calibration_id=calibration.id,
            occurred_at=occasion.now,
            revision_id=revision.revision_id,
            reason=reason,
            withdrawn_by=occasion.principal_id,
        )


async def load_source(world: World, source: CalibrationSource) -> Artifact | None:
    """The artifact that a value is imported from; any other source only has to be there, and within reach."""
    if source.id is None or source.kind not in SOURCES:
        return None
    if source.kind is CalibrationSourceKind.IMPORTED:
        return await world.load(artifacts, source.id)
    await world.belonging(SOURCES[source.kind], source.id)
    return None


async def check_decision(world: World, id: UUID) -> None:
    if not await world.look_up("Decision", [id]):
        raise DecisionNotFoundError.of("Decision", id)


def revision_hash(calibration: Calibration, revision: CalibrationRevisionAppended) -> str:
    """The hash of what a revision says for ever; its status is outside."""
    content = {
        "calibration_id": calibration.id,
        "revision_id": revision.revision_id,
        "target_id": calibration.target_id,
        "quantity": calibration.quantity,
        "quantity_version": revision.quantity_version,
        "operating_point": calibration.operating_point,
        "value": revision.value,
        "uncertainty_basis": revision.uncertainty_basis,
        "source": revision.source,
        "valid_from": revision.valid_from,
        "valid_until": revision.valid_until,
        "supersedes_revision_id": revision.supersedes_revision_id,
    }
    return sha256(canonical(content)).hexdigest()


def check_source(source: CalibrationSource) -> None:
    if (source.id is not None) != (source.kind in SOURCES):
        needs = f"an id of a {SOURCES[source.kind]}" if source.kind in SOURCES else "no id"
        raise InvalidCalibrationSourceError(f"A source that is {source.kind} has {needs}.", kind=source.kind)


def check_uncertainty(basis: UncertaintyBasis | None) -> None:
    if basis is None:
        return
    factor = basis.coverage_factor
    if (factor is not None) != (basis.kind is UncertaintyKind.EXPANDED):
        raise InvalidCalibrationUncertaintyError(
            "An Expanded uncertainty has a coverage_factor, a Standard one has none.", kind=basis.kind
        )
    if factor is not None and not 0 < factor <= MOST_COVERAGE_FACTOR:
        raise InvalidCalibrationUncertaintyError(
            f"A coverage_factor is more than 0 and at most {MOST_COVERAGE_FACTOR}.", coverage_factor=factor
        )
    if basis.covariance is not None:
        check_covariance(basis.covariance)


def check_covariance(covariance: Covariance) -> None:
    """The matrix has a row and a column for each of some distinct fields, and is symmetric."""
    fields, matrix = covariance.fields, covariance.matrix
    size = len(fields)
    if not 1 <= size <= MOST_COVARIANCE_FIELDS or len(set(fields)) != size:
        raise InvalidCalibrationUncertaintyError(
            f"A covariance names 1 to {MOST_COVARIANCE_FIELDS} fields, each once.", fields=list(fields[:100])
        )
    for field in fields:
        text.trimmed(field, 100, InvalidCalibrationUncertaintyError, "field")
    square = len(matrix) == size and all(len(row) == size for row in matrix)
    if not square or not all(
        math.isfinite(matrix[i][j]) and matrix[i][j] == matrix[j][i]
        for i in range(size)
        for j in range(i + 1)
    ):
        raise InvalidCalibrationUncertaintyError(
            f"The matrix must be symmetric, with {size} rows and columns.", size=size
        )


def check_validity(valid_from: datetime, valid_until: datetime | None) -> None:
    if valid_until is not None and valid_until <= valid_from:
        raise InvalidCalibrationValidityError(
            "valid_until must lie after valid_from.",
            valid_from=valid_from.isoformat(),
            valid_until=valid_until.isoformat(),
        )


def check_supersedable(calibration: Calibration, id: UUID | None) -> None:
    """Gate: what is replaced is a revision of the same calibration that stands and was replaced by none."""
    if id is None:
        return
    old = calibration.find_revision(id)
    if old is None:
        why = "is no revision of this calibration"
    elif old.status is WITHDRAWN:
        why = "is Withdrawn"
    elif old.superseded_by_revision_id is not None:
        why = f"is superseded by {old.superseded_by_revision_id} already"
    else:
        return
    raise CalibrationSupersededRevisionError(f"{id} {why}.", supersedes_revision_id=str(id))


def check_artifact(calibration: Calibration, value: dict[str, Any], artifact: Artifact) -> None:
    """Gate: a peer's artifact was accepted, and tells exactly what is appended."""
    content = artifact.content or {}
    said = {
        "quantity": calibration.quantity,
        "operating_point": calibration.operating_point,
        "value": value,
    }
    accepted = (
        artifact.status is ArtifactStatus.ACCEPTED
        and artifact.artifact_kind is ArtifactKind.CALIBRATION_REVISION
    )
    different = sorted(name for name in said if canonical(content.get(name)) != canonical(said[name]))
    if not accepted or different:
        raise CalibrationArtifactMismatchError(
            f"The artifact is {artifact.artifact_kind} and {artifact.status}; it must be an Accepted"
            f" CalibrationRevision with the same content. It differs in: {', '.join(different) or 'nothing'}.",
            artifact_id=str(artifact.id),
            status=str(artifact.status),
            artifact_kind=str(artifact.artifact_kind),
            different=different,
        )
