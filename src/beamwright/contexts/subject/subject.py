"""Subject: anything measured, where it is in its handling cycle, and who holds it."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.equipment.identifiers import PersistentIdentifierTakenError
from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.observing import TriggerSource
from beamwright.kernel.operation import Command, World
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.value import Time, Value, replace

from .citation import Citation, Creator, IdentifierStatus

# The scheme of a subject's own persistent identifier: a DOI of a physical object.
IGSN = "IGSN"

type Location = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 200, "x-may-contain-personal-data": True})
]


class SubjectStatus(StrEnum):
    """Where a subject is in its handling cycle."""

    RECEIVED = "Received"
    MOUNTED = "Mounted"
    MEASURED = "Measured"
    REMOVED = "Removed"
    RETURNED = "Returned"
    STORED = "Stored"
    DISCARDED = "Discarded"


class SubjectKind(StrEnum):
    SAMPLE = "Sample"
    SPECIMEN = "Specimen"
    PART = "Part"
    PHANTOM = "Phantom"
    STANDARD = "Standard"
    COMPUTED = "Computed"


class ParentRelation(StrEnum):
    """What a subject that was made out of another is of it."""

    ALIQUOT = "Aliquot"
    SECTION = "Section"
    FRAGMENT = "Fragment"
    DERIVATIVE = "Derivative"
    MEMBER = "Member"


class SubjectNotFoundError(NotFoundError):
    """There is no such subject."""


class InvalidSubjectReasonError(InvalidError):
    """The reason is blank or too long."""


class InvalidSubjectLocationError(InvalidError):
    """The location is blank or too long."""


class SubjectMountTargetOccupiedError(ConflictError):
    """Another subject is mounted at this place."""


class SubjectCannotMountError(CannotTransitionError):
    """Only a received subject is mounted."""


class SubjectCannotMeasureError(CannotTransitionError):
    """Only a mounted subject is measured."""


class SubjectCannotDismountError(CannotTransitionError):
    """The subject is not mounted."""


class SubjectCannotRemoveError(CannotTransitionError):
    """The subject has been removed already."""


class SubjectCannotReturnError(CannotTransitionError):
    """Only a removed or stored subject is returned."""


class SubjectCannotStoreError(CannotTransitionError):
    """Only a removed subject is stored."""


class SubjectCannotDiscardError(CannotTransitionError):
    """Only a removed or stored subject is discarded."""


class SubjectCannotReceiveError(CannotTransitionError):
    """Only a returned, stored or removed subject is received again."""


class Hazard(Value):
    """A hazard code of some scheme, for instance GHS and GHS06."""

    scheme: Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 50})]
    code: Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 100})]

    @property
    def text(self) -> str:
        return f"{self.scheme}:{self.code}"


class SubjectFact(Event):
    subject_id: UUID


class SubjectRegistered(SubjectFact):
    name: str
    kind: SubjectKind
    description: str | None
    composition: str | None
    keywords: frozenset[str]
    facility_code: str
    visit_id: UUID | None
    owner_id: UUID | None
    parent_id: UUID | None
    parent_relation: ParentRelation | None
    hazards: tuple[Hazard, ...]
    location: str | None
    custodian_id: UUID | None
    registered_by: UUID


class SubjectDescribed(SubjectFact):
    name: str
    kind: SubjectKind
    description: str | None
    composition: str | None
    keywords: frozenset[str]
    visit_id: UUID | None
    owner_id: UUID | None
    described_by: UUID


class SubjectHazardsDeclared(SubjectFact):
    hazards: tuple[Hazard, ...]
    reason: str
    declared_by: UUID


class SubjectMounted(SubjectFact):
    asset_id: UUID
    position: str | None
    reason: str
    mounted_by: UUID


class SubjectMeasured(SubjectFact):
    asset_id: UUID
    run_id: UUID | None
    measured_by: UUID


class SubjectDismounted(SubjectFact):
    from_asset_id: UUID
    position: str | None
    reason: str
    trigger: TriggerSource
    dismounted_by: UUID


class SubjectRemoved(SubjectFact):
    reason: str
    removed_by: UUID


class SubjectReturned(SubjectFact):
    to_custodian_id: UUID | None
    note: str | None
    returned_by: UUID


class SubjectStored(SubjectFact):
    location: str
    to_custodian_id: UUID | None
    stored_by: UUID


class SubjectDiscarded(SubjectFact):
    reason: str
    discarded_by: UUID


class SubjectReceived(SubjectFact):
    location: str | None
    visit_id: UUID | None
    custodian_id: UUID
    note: str | None
    received_by: UUID


class SubjectCustodyTransferred(SubjectFact):
    from_custodian_id: UUID | None
    to_custodian_id: UUID | None
    from_location: str | None
    to_location: str | None
    reason: str
    transferred_by: UUID


class SubjectPersistentIdentifierRequested(SubjectFact):
    scheme: str
    suffix: str
    creators: tuple[Creator, ...]
    publication_year: int
    license: str | None
    requested_by: UUID


class SubjectPersistentIdentifierAssigned(SubjectFact):
    scheme: str
    value: str
    authority: str
    assigned_by: UUID


class SubjectPersistentIdentifierFailed(SubjectFact):
    scheme: str
    reason: str
    failed_by: UUID


class SubjectPersistentIdentifierTombstoned(SubjectFact):
    scheme: str
    reason: str
    tombstoned_by: UUID


type SubjectHandlingEvent = (
    SubjectMounted
    | SubjectMeasured
    | SubjectDismounted
    | SubjectRemoved
    | SubjectReturned
    | SubjectStored
    | SubjectDiscarded
    | SubjectReceived
)
type SubjectIdentifierEvent = (
    SubjectPersistentIdentifierRequested
    | SubjectPersistentIdentifierAssigned
    | SubjectPersistentIdentifierFailed
    | SubjectPersistentIdentifierTombstoned
)
type SubjectEvent = (
    SubjectRegistered
    | SubjectDescribed
    | SubjectHazardsDeclared
    | SubjectMounted
    | SubjectMeasured
    | SubjectDismounted
    | SubjectRemoved
    | SubjectReturned
    | SubjectStored
    | SubjectDiscarded
    | SubjectReceived
    | SubjectCustodyTransferred
    | SubjectPersistentIdentifierRequested
    | SubjectPersistentIdentifierAssigned
    | SubjectPersistentIdentifierFailed
    | SubjectPersistentIdentifierTombstoned
)

RECEIVED, MOUNTED, MEASURED, REMOVED, RETURNED, STORED, DISCARDED = SubjectStatus
ON_ASSET = frozenset({MOUNTED, MEASURED})
KEPT = frozenset(SubjectStatus) - {DISCARDED}
IN_HOUSE = KEPT - {RETURNED}

HANDLING = StateMachine[SubjectStatus](
    {
        SubjectMounted: move({RECEIVED}, MOUNTED, SubjectCannotMountError),
        SubjectMeasured: move(ON_ASSET, MEASURED, SubjectCannotMeasureError),
        SubjectDismounted: move(ON_ASSET, RECEIVED, SubjectCannotDismountError),
        SubjectRemoved: move({RECEIVED, *ON_ASSET}, REMOVED, SubjectCannotRemoveError),
        SubjectReturned: move({REMOVED, STORED}, RETURNED, SubjectCannotReturnError),
        SubjectStored: move({REMOVED}, STORED, SubjectCannotStoreError),
        SubjectDiscarded: move({REMOVED, STORED}, DISCARDED, SubjectCannotDiscardError),
        SubjectReceived: move({RETURNED, STORED, REMOVED}, RECEIVED, SubjectCannotReceiveError),
    }
)


class Subject(Value):
    id: UUID
    name: str
    kind: SubjectKind
    description: str | None
    composition: str | None
    keywords: frozenset[str]
    facility_code: str
    visit_id: UUID | None
    owner_id: UUID | None
    parent_id: UUID | None
    parent_relation: ParentRelation | None
    hazards: tuple[Hazard, ...]
    status: SubjectStatus = SubjectStatus.RECEIVED
    mounted_on_asset_id: UUID | None = None
    position: str | None = None
    mount_count: int = 0
    measured_count: int = 0
    measured_run_ids: frozenset[UUID] = frozenset()
    custodian_id: UUID | None
    location: Location | None
    external_refs: dict[str, ExternalRef] = {}
    identifier_status: IdentifierStatus = IdentifierStatus.NOT_REQUESTED
    citation: Citation | None = None
    registered_at: Time
    discarded_at: Time | None = None

    @property
    def mounted(self) -> bool:
        return self.status in ON_ASSET

    @property
    def words(self) -> str:
        """What the list is searched by."""
        told = (self.name, self.description, self.composition, *sorted(self.keywords), self.location)
        return " ".join(each for each in told if each)


def evolve(subject: Subject | None, event: SubjectEvent) -> Subject:
    match event:
        case SubjectRegistered():
            return registered(event)
        case _ if subject is None:
            raise ValueError(event)
        case SubjectDescribed():
            return replace(
                subject,
                name=event.name,
                kind=event.kind,
                description=event.description,
                composition=event.composition,
                keywords=event.keywords,
                visit_id=event.visit_id,
                owner_id=event.owner_id,
            )
        case SubjectHazardsDeclared():
            return replace(subject, hazards=event.hazards)
        case SubjectCustodyTransferred():
            return replace(subject, custodian_id=event.to_custodian_id, location=event.to_location)
        case (
            SubjectPersistentIdentifierRequested()
            | SubjectPersistentIdentifierAssigned()
            | SubjectPersistentIdentifierFailed()
            | SubjectPersistentIdentifierTombstoned()
        ):
            return identified(subject, event)
        case _:
            return handled(replace(subject, status=HANDLING.after(event)), event)


def registered(event: SubjectRegistered) -> Subject:
    return Subject(
        id=event.subject_id,
        name=event.name,
        kind=event.kind,
        description=event.description,
        composition=event.composition,
        keywords=event.keywords,
        facility_code=event.facility_code,
        visit_id=event.visit_id,
        owner_id=event.owner_id,
        parent_id=event.parent_id,
        parent_relation=event.parent_relation,
        hazards=event.hazards,
        custodian_id=event.custodian_id,
        location=event.location,
        registered_at=event.occurred_at,
    )


def handled(subject: Subject, event: SubjectHandlingEvent) -> Subject:
    match event:
        case SubjectMounted():
            # While it is mounted, its place is the asset.
            return replace(
                subject,
                mounted_on_asset_id=event.asset_id,
                position=event.position,
                mount_count=subject.mount_count + 1,
                location=None,
            )
        case SubjectMeasured():
            run_ids = frozenset[UUID]() if event.run_id is None else frozenset({event.run_id})
            return replace(
                subject,
                measured_count=subject.measured_count + 1,
                measured_run_ids=subject.measured_run_ids | run_ids,
            )
        case SubjectDismounted():
            return replace(subject, mounted_on_asset_id=None, position=None)
        case SubjectRemoved():
            return subject
        case SubjectReturned():
            return replace(subject, custodian_id=event.to_custodian_id, location=None)
        case SubjectStored():
            custodian_id = event.to_custodian_id or subject.custodian_id
            return replace(subject, custodian_id=custodian_id, location=event.location)
        case SubjectDiscarded():
            return replace(subject, custodian_id=None, location=None, discarded_at=event.occurred_at)
        case SubjectReceived():
            return replace(
                subject,
                custodian_id=event.custodian_id,
                location=event.location,
                visit_id=event.visit_id or subject.visit_id,
            )
        case _:
            assert_never(event)


def identified(subject: Subject, event: SubjectIdentifierEvent) -> Subject:
    match event:
        case SubjectPersistentIdentifierRequested():
            citation = Citation(
                creators=event.creators,
                publication_year=event.publication_year,
                license=event.license,
                requested_at=event.occurred_at,
            )
            return replace(subject, identifier_status=IdentifierStatus.REQUESTED, citation=citation)
        case SubjectPersistentIdentifierAssigned():
            ref = ExternalRef(value=event.value, authority=event.authority, assigned_at=event.occurred_at)
            status = IdentifierStatus.ASSIGNED if event.scheme == IGSN else subject.identifier_status
            refs = subject.external_refs | {event.scheme: ref}
            return replace(subject, external_refs=refs, identifier_status=status)
        case SubjectPersistentIdentifierFailed():
            return replace(subject, identifier_status=IdentifierStatus.FAILED)
        case SubjectPersistentIdentifierTombstoned():
            return replace(subject, identifier_status=IdentifierStatus.TOMBSTONED)
        case _:
            assert_never(event)


def place_key(asset_id: UUID, position: str | None) -> str:
    """The claim of a place: an asset, or a slot of it."""
    return f"{asset_id}/{position or '-'}"


def claims(subject: Subject) -> Iterable[Claim]:
    """A place holds one subject; an identifier names one record for ever."""
    if subject.mounted_on_asset_id is not None:
        key = place_key(subject.mounted_on_asset_id, subject.position)
        yield Claim(kind="subject-place", key=key, taken=SubjectMountTargetOccupiedError)
    for scheme, ref in subject.external_refs.items():
        # An IGSN is a DOI, in which case makes no difference.
        value = ref.value.lower() if scheme in (IGSN, "DOI") else ref.value
        yield Claim(kind="external-ref", key=f"{scheme}:{value}", taken=PersistentIdentifierTakenError)


subjects = Aggregate[Subject, SubjectEvent](
    "Subject",
    events=SubjectEvent,
    evolve=evolve,
    missing=SubjectNotFoundError,
    belongs=lambda subject: Belonging(
        facility_code=subject.facility_code,
        visit_ids=frozenset() if subject.visit_id is None else frozenset({subject.visit_id}),
        owner_id=subject.owner_id,
    ),
    claims=claims,
)


def check_kept(subject: Subject, refusal: type[CannotTransitionError]) -> None:
    """Gate: a discarded subject is not changed any more."""
    if subject.status is SubjectStatus.DISCARDED:
        raise refusal.of(subject.id, subject.status, KEPT)


def checked_location(value: str) -> str:
    return text.trimmed(value, 200, InvalidSubjectLocationError, "location")


class SubjectCommand(Command[Subject]):
    """A command that sees the subject it is about and nothing else."""

    subject_id: UUID

    async def gather(self, world: World) -> Subject:
        return await world.load(subjects, self.subject_id)
