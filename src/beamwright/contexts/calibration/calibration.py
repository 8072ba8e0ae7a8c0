"""Calibration: a measured constant of one asset at one operating point, and every value it has had."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.content_hash import canonical
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, Value, replace

IDENTITY_CLAIM = "calibration-identity"


class CalibrationStatus(StrEnum):
    ACTIVE = "Active"
    RETIRED = "Retired"


class CalibrationRevisionStatus(StrEnum):
    """How far a revision is trusted; it is born provisional."""

    PROVISIONAL = "Provisional"
    VERIFIED = "Verified"
    WITHDRAWN = "Withdrawn"


class CalibrationSourceKind(StrEnum):
    """What a value comes from: a procedure, a dataset, a person's word, or a peer's artifact."""

    MEASURED = "Measured"
    COMPUTED = "Computed"
    ASSERTED = "Asserted"
    IMPORTED = "Imported"


class UncertaintyKind(StrEnum):
    STANDARD = "Standard"
    EXPANDED = "Expanded"


class CalibrationNotFoundError(NotFoundError):
    """There is no such calibration."""


class CalibrationRevisionNotFoundError(NotFoundError):
    """There is no such calibration revision."""


class InvalidCalibrationDescriptionError(InvalidError):
    """The calibration's description is blank or too long."""


class InvalidCalibrationReasonError(InvalidError):
    """The reason is blank or too long."""


class CalibrationIdentityAlreadyExistsError(ConflictError):
    """The asset has a calibration of this quantity at this operating point."""


class CalibrationCannotDescribeError(CannotTransitionError):
    """A retired calibration is not changed any more."""


class CalibrationCannotAppendRevisionError(CannotTransitionError):
    """A retired calibration gets no further revision."""


class CalibrationCannotRetireError(CannotTransitionError):
    """The calibration is retired already."""


class CalibrationRevisionCannotVerifyError(CannotTransitionError):
    """Only a provisional revision is verified."""


class CalibrationRevisionCannotWithdrawError(CannotTransitionError):
    """The revision is withdrawn already."""


class CalibrationRevisionCannotPublishError(CannotTransitionError):
    """Only a verified revision is published."""


class Covariance(Value):
    """How the errors of some members of a value go together."""

    fields: tuple[str, ...]
    matrix: tuple[tuple[float, ...], ...]


class UncertaintyBasis(Value):
    """What the uncertainties of a value mean; an expanded one says by which factor."""

    kind: UncertaintyKind
    coverage_factor: (
        Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": 10})] | None
    ) = None
    covariance: Covariance | None = None


class CalibrationSource(Value):
    """Where a value comes from: a procedure, dataset or artifact by its id, or the word of whoever appends it."""

    kind: CalibrationSourceKind
    id: UUID | None = None


class CalibrationFact(Event):
    calibration_id: UUID


class CalibrationDefined(CalibrationFact):
    target_id: UUID
    facility_code: str
    quantity: str
    quantity_id: UUID
    operating_point: dict[str, Any]
    description: str | None
    defined_by: UUID


class CalibrationDescribed(CalibrationFact):
    description: str | None
    described_by: UUID


class CalibrationRevisionAppended(CalibrationFact):
    revision_id: UUID
    value: dict[str, Any]
    quantity_version: int
    uncertainty_basis: UncertaintyBasis | None
    source: CalibrationSource
    valid_from: datetime
    valid_until: datetime | None
    decided_by_decision_id: UUID | None
    supersedes_revision_id: UUID | None
    content_hash: str
    established_by: UUID


class CalibrationRevisionVerified(CalibrationFact):
    revision_id: UUID
    note: str | None
    verified_by: UUID


class CalibrationRevisionWithdrawn(CalibrationFact):
    revision_id: UUID
    reason: str
    withdrawn_by: UUID


class CalibrationRevisionPublished(CalibrationFact):
    revision_id: UUID
    permit_id: UUID
    peer_facility_id: UUID
    artifact_id: UUID
    published_by: UUID


class CalibrationRetired(CalibrationFact):
    reason: str
    retired_by: UUID


type CalibrationEvent = (
    CalibrationDefined
    | CalibrationDescribed
    | CalibrationRevisionAppended
    | CalibrationRevisionVerified
    | CalibrationRevisionWithdrawn
    | CalibrationRevisionPublished
    | CalibrationRetired
)

LIFECYCLE = StateMachine[CalibrationStatus](
    {
        CalibrationDescribed: move(
            {CalibrationStatus.ACTIVE}, CalibrationStatus.ACTIVE, CalibrationCannotDescribeError
        ),
        CalibrationRevisionAppended: move(
            {CalibrationStatus.ACTIVE}, CalibrationStatus.ACTIVE, CalibrationCannotAppendRevisionError
        ),
        CalibrationRetired: move(
            {CalibrationStatus.ACTIVE}, CalibrationStatus.RETIRED, CalibrationCannotRetireError
        ),
    }
)
PROVISIONAL, VERIFIED, WITHDRAWN = CalibrationRevisionStatus
TRUST = StateMachine[CalibrationRevisionStatus](
    {
        CalibrationRevisionVerified: move({PROVISIONAL}, VERIFIED, CalibrationRevisionCannotVerifyError),
        CalibrationRevisionWithdrawn: move(
            {PROVISIONAL, VERIFIED}, WITHDRAWN, CalibrationRevisionCannotWithdrawError
        ),
        CalibrationRevisionPublished: move({VERIFIED}, VERIFIED, CalibrationRevisionCannotPublishError),
    }
)


class CalibrationPublication(Value):
    """To whom a revision was published, as which artifact."""

    peer_facility_id: UUID
    artifact_id: UUID


class CalibrationRevision(Value):
    """One value that a calibration has had; runs pin it and datasets name it."""

    revision_id: UUID
    value: dict[str, Any]
    quantity_version: int
    uncertainty_basis: UncertaintyBasis | None
    source: CalibrationSource
    valid_from: Time
    valid_until: Time | None
    established_at: Time
    established_by: UUID
    decided_by_decision_id: UUID | None
    supersedes_revision_id: UUID | None
    superseded_by_revision_id: UUID | None = None
    content_hash: str
    status: CalibrationRevisionStatus = CalibrationRevisionStatus.PROVISIONAL
    verified_by: UUID | None = None
    withdrawn_reason: text.Reason | None = None
    # By permit; of several under one permit, the latest.
    publications: Mapping[UUID, CalibrationPublication] = {}

    def valid_at(self, at: datetime) -> bool:
        return self.valid_from <= at and (self.valid_until is None or at < self.valid_until)


class Calibration(Value):
    id: UUID
    target_id: UUID
    facility_code: str
    quantity: str
    quantity_id: UUID
    operating_point: dict[str, Any]
    description: str | None
    status: CalibrationStatus = CalibrationStatus.ACTIVE
    revisions: tuple[CalibrationRevision, ...] = ()
    # When it was defined, until it has a revision: a list that is sorted by it leaves nothing out.
    last_revised_at: Time

    @property
    def latest(self) -> CalibrationRevision | None:
        """The revision appended last."""
        return self.revisions[-1] if self.revisions else None

    def revision(self, id: UUID) -> CalibrationRevision:
        found = self.find_revision(id)
        if found is None:
            raise CalibrationRevisionNotFoundError.of("Calibration revision", id)
        return found

    def find_revision(self, id: UUID) -> CalibrationRevision | None:
        return next((revision for revision in self.revisions if revision.revision_id == id), None)

    def current_at(self, at: datetime, *, include_provisional: bool = False) -> CalibrationRevision | None:
        """The revision that holds at a time: the one valid latest, unless one that qualifies replaced it."""
        trusted = {VERIFIED, PROVISIONAL} if include_provisional else {VERIFIED}
        qualified = [each for each in self.revisions if each.status in trusted and each.valid_at(at)]
        ids = {each.revision_id for each in qualified}
        standing = [each for each in qualified if ids.isdisjoint(self._replacements(each))]
        return max(standing, key=lambda each: (each.valid_from, each.established_at), default=None)

    def _replacements(self, revision: CalibrationRevision) -> Iterable[UUID]:
        """Whatever superseded a revision, what superseded that, and so on."""
        later = revision.superseded_by_revision_id
        while later is not None:
            yield later
            later = self.revision(later).superseded_by_revision_id


def evolve(calibration: Calibration | None, event: CalibrationEvent) -> Calibration:
    match event:
        case CalibrationDefined():
            return Calibration(
                id=event.calibration_id,
                target_id=event.target_id,
                facility_code=event.facility_code,
                quantity=event.quantity,
                quantity_id=event.quantity_id,
                operating_point=event.operating_point,
                description=event.description,
                last_revised_at=event.occurred_at,
            )
        case _ if calibration is None:
            raise ValueError(event)
        case CalibrationDescribed():
            return replace(calibration, description=event.description)
        case CalibrationRevisionAppended():
            return appended(calibration, event)
        case CalibrationRevisionVerified():
            revision = calibration.revision(event.revision_id)
            verified = replace(revision, status=TRUST.after(event), verified_by=event.verified_by)
            return revised(calibration, verified)
        case CalibrationRevisionWithdrawn():
            revision = calibration.revision(event.revision_id)
            withdrawn = replace(revision, status=TRUST.after(event), withdrawn_reason=event.reason)
            return revised(calibration, withdrawn)
        case CalibrationRevisionPublished():
            return published(calibration, event)
        case CalibrationRetired():
            return replace(calibration, status=LIFECYCLE.after(event))
        case _:
            assert_never(event)


def appended(calibration: Calibration, event: CalibrationRevisionAppended) -> Calibration:
    revision = CalibrationRevision(
        revision_id=event.revision_id,
        value=event.value,
        quantity_version=event.quantity_version,
        uncertainty_basis=event.uncertainty_basis,
        source=event.source,
        valid_from=event.valid_from,
        valid_until=event.valid_until,
        established_at=event.occurred_at,
        established_by=event.established_by,
        decided_by_decision_id=event.decided_by_decision_id,
        supersedes_revision_id=event.supersedes_revision_id,
        content_hash=event.content_hash,
    )
    if event.supersedes_revision_id is not None:
        old = calibration.revision(event.supersedes_revision_id)
        calibration = revised(calibration, replace(old, superseded_by_revision_id=event.revision_id))
    return replace(
        calibration, revisions=(*calibration.revisions, revision), last_revised_at=event.occurred_at
    )


def published(calibration: Calibration, event: CalibrationRevisionPublished) -> Calibration:
    revision = calibration.revision(event.revision_id)
    publication = CalibrationPublication(
        peer_facility_id=event.peer_facility_id, artifact_id=event.artifact_id
    )
    publications = {**revision.publications, event.permit_id: publication}
    return revised(calibration, replace(revision, publications=publications))


def revised(calibration: Calibration, revision: CalibrationRevision) -> Calibration:
    """`calibration` with `revision` in its place."""
    revisions = (
        revision if each.revision_id == revision.revision_id else each for each in calibration.revisions
    )
    return replace(calibration, revisions=tuple(revisions))


def identity_key(target_id: UUID, quantity: str, operating_point: Mapping[str, Any]) -> str:
    """The claim of an identity; the form of a number and the order of members make no difference."""
    return f"{target_id}/{quantity}/{sha256(canonical(dict(operating_point))).hexdigest()}"


def claims(calibration: Calibration) -> list[Claim]:
    """A constant of an asset has one calibration at each operating point, until that is retired."""
    if calibration.status is CalibrationStatus.RETIRED:
        return []
    key = identity_key(calibration.target_id, calibration.quantity, calibration.operating_point)
    return [Claim(kind=IDENTITY_CLAIM, key=key, taken=CalibrationIdentityAlreadyExistsError)]


calibrations = Aggregate[Calibration, CalibrationEvent](
    "Calibration",
    events=CalibrationEvent,
    evolve=evolve,
    missing=CalibrationNotFoundError,
    belongs=lambda calibration: Belonging(facility_code=calibration.facility_code),
    claims=claims,
)
calibrations.reads(
    "/calibrations",
    filters=(
        "target_id",
        "quantity",
        "status",
        "facility_code",
        Filter[Calibration](
            name="latest_revision_status",
            type=frozenset[CalibrationRevisionStatus],
            of=lambda calibration: calibration.latest and calibration.latest.status,
            test=Test.ONE_OF,
        ),
        Filter[Calibration](
            name="latest_source_kind",
            type=frozenset[CalibrationSourceKind],
            of=lambda calibration: calibration.latest and calibration.latest.source.kind,
            test=Test.ONE_OF,
        ),
        Filter[Calibration](
            name="valid_until_before",
            type=Time,
            of=lambda calibration: calibration.latest and calibration.latest.valid_until,
            test=Test.BEFORE,
        ),
        Filter[Calibration](
            name="provisional_before",
            type=Time,
            of=lambda calibration: provisional_since(calibration),
            test=Test.BEFORE,
        ),
        Filter[Calibration](
            name="revision_id",
            type=frozenset[UUID],
            of=lambda calibration: [revision.revision_id for revision in calibration.revisions],
            test=Test.CONTAINS_ANY,
        ),
    ),
    sorts=("created_at", "last_revised_at", "quantity"),
    text=("description",),
)


def provisional_since(calibration: Calibration) -> datetime | None:
    """Since when the latest revision waits for its verification, if it does."""
    latest = calibration.latest
    return latest.established_at if latest is not None and latest.status is PROVISIONAL else None


@calibrations.operation("POST /calibrations/{calibration_id}/describe")
class DescribeCalibration(Command[Calibration]):
    """Describe a calibration in words; null clears the description."""

    calibration_id: UUID
    description: text.Description | None

    async def gather(self, world: World) -> Calibration:
        return await world.load(calibrations, self.calibration_id)

    def decide(self, calibration: Calibration, occasion: Occasion) -> list[CalibrationDescribed]:
        description = text.description(self.description, InvalidCalibrationDescriptionError)
        LIFECYCLE.check(CalibrationDescribed, calibration.status, calibration.id)
        if description == calibration.description:
            return []
        return [
            CalibrationDescribed(
                calibration_id=calibration.id,
                occurred_at=occasion.now,
                description=description,
                described_by=occasion.principal_id,
            )
        ]


@calibrations.operation("POST /calibrations/{calibration_id}/retire")
class RetireCalibration(Command[Calibration]):
    """Retire a calibration: its revisions stay, and its operating point is free for another."""

    calibration_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Calibration:
        return await world.load(calibrations, self.calibration_id)

    def decide(self, calibration: Calibration, occasion: Occasion) -> CalibrationRetired:
        reason = text.reason(self.reason, InvalidCalibrationReasonError)
        LIFECYCLE.check(CalibrationRetired, calibration.status, calibration.id)
        return CalibrationRetired(
            calibration_id=calibration.id,
            occurred_at=occasion.now,
            reason=reason,
            retired_by=occasion.principal_id,
        )
