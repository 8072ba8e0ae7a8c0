"""Persistent identifiers of subjects: an IGSN asked for, given, refused or withdrawn, and plain links to elsewhere."""

from typing import Annotated
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.access.actor import actors
from beamwright.contexts.equipment.identifiers import (
    IdentifierAuthority,
    InvalidPersistentIdentifierError,
    checked_identifier,
)
from beamwright.kernel import text
from beamwright.kernel.errors import CannotTransitionError, ConflictError, InvalidError
from beamwright.kernel.identifiers import MintedIdentifier, PersistentIdentifierScheme
from beamwright.kernel.operation import Command, Occasion, World

from .citation import (
    Creator,
    IdentifierStatus,
    License,
    PublicationYear,
    checked_creators,
    checked_license,
    checked_publication_year,
)
from .subject import (
    IGSN,
    InvalidSubjectReasonError,
    Subject,
    SubjectCommand,
    SubjectKind,
    SubjectPersistentIdentifierAssigned,
    SubjectPersistentIdentifierFailed,
    SubjectPersistentIdentifierRequested,
    SubjectPersistentIdentifierTombstoned,
    check_kept,
    subjects,
)

SCHEME = "^[A-Za-z][A-Za-z0-9_-]{0,49}$"
# Schemes whose values are DOIs.
DOIS = frozenset({IGSN, "DOI"})

type IdentifierScheme = Annotated[str, Meta(extra_json_schema={"pattern": SCHEME})]


class InvalidSubjectCreatorsError(InvalidError):
    """There is no creator, there are too many, one is named twice, or an affiliation is malformed."""


class SubjectCannotRequestPersistentIdentifierError(CannotTransitionError):
    """A discarded or computed subject is given no identifier, nor one whose identifier was withdrawn."""


class SubjectCannotFailPersistentIdentifierError(CannotTransitionError):
    """No request is pending."""


class SubjectCannotTombstonePersistentIdentifierError(CannotTransitionError):
    """The subject has no identifier that could be withdrawn."""


class SubjectPersistentIdentifierAlreadyAssignedError(ConflictError):
    """The subject has another identifier of this scheme."""


class SubjectPersistentIdentifierAlreadyRequestedError(ConflictError):
    """A request for an identifier is pending."""


@subjects.operation("POST /subjects/{subject_id}/persistent-identifier/request")
class RequestSubjectPersistentIdentifier(Command[Subject]):
    """Ask for an IGSN, under which the subject can be cited, and say how it is cited."""

    subject_id: UUID
    creators: tuple[Creator, ...]
    publication_year: PublicationYear | None = None
    license: License | None = None

    async def gather(self, world: World) -> Subject:
        subject = await world.load(subjects, self.subject_id)
        await world.load_all(actors, sorted({creator.actor_id for creator in self.creators}))
        return subject

    def decide(self, subject: Subject, occasion: Occasion) -> SubjectPersistentIdentifierRequested:
        creators = checked_creators(self.creators, InvalidSubjectCreatorsError)
        year = checked_publication_year(self.publication_year, occasion.now)
        license = checked_license(self.license)
        check_identifiable(subject)
        return SubjectPersistentIdentifierRequested(
            subject_id=subject.id,
            occurred_at=occasion.now,
            scheme=IGSN,
            suffix=str(subject.id),
            creators=creators,
            publication_year=year,
            license=license,
            requested_by=occasion.principal_id,
        )


@subjects.operation("POST /subjects/{subject_id}/persistent-identifier/assign")
class AssignSubjectPersistentIdentifier(SubjectCommand):
    """Record the IGSN that an authority gave a subject, or what another system knows it as."""

    scheme: IdentifierScheme
    value: text.Name
    authority: IdentifierAuthority

    def decide(self, subject: Subject, occasion: Occasion) -> list[SubjectPersistentIdentifierAssigned]:
        scheme = text.code(self.scheme, SCHEME, InvalidPersistentIdentifierError, "scheme")
        given = checked_value(scheme, self.value, self.authority)
        known = subject.external_refs.get(scheme)
        if known is not None and known.value == given.value:
            return []
        if known is not None:
            raise SubjectPersistentIdentifierAlreadyAssignedError(
                f"The subject is {scheme} {known.value} already.",
                subject_id=str(subject.id),
                scheme=scheme,
                value=known.value,
            )
        return [
            SubjectPersistentIdentifierAssigned(
                subject_id=subject.id,
                occurred_at=occasion.now,
                scheme=scheme,
                value=given.value,
                authority=given.authority,
                assigned_by=occasion.principal_id,
            )
        ]


@subjects.operation("POST /subjects/{subject_id}/persistent-identifier/fail")
class FailSubjectPersistentIdentifier(SubjectCommand):
    """Record that the authority refused the pending request for good."""

    reason: text.Reason

    def decide(self, subject: Subject, occasion: Occasion) -> SubjectPersistentIdentifierFailed:
        reason = text.reason(self.reason, InvalidSubjectReasonError)
        check_status(subject, IdentifierStatus.REQUESTED, SubjectCannotFailPersistentIdentifierError)
        return SubjectPersistentIdentifierFailed(
            subject_id=subject.id,
            occurred_at=occasion.now,
            scheme=IGSN,
            reason=reason,
            failed_by=occasion.principal_id,
        )


@subjects.operation("POST /subjects/{subject_id}/persistent-identifier/tombstone")
class TombstoneSubjectPersistentIdentifier(SubjectCommand):
    """Record that a subject's identifier was withdrawn; it still leads to its page."""

    reason: text.Reason

    def decide(self, subject: Subject, occasion: Occasion) -> SubjectPersistentIdentifierTombstoned:
        reason = text.reason(self.reason, InvalidSubjectReasonError)
        check_status(subject, IdentifierStatus.ASSIGNED, SubjectCannotTombstonePersistentIdentifierError)
        return SubjectPersistentIdentifierTombstoned(
            subject_id=subject.id,
            occurred_at=occasion.now,
            scheme=IGSN,
            reason=reason,
            tombstoned_by=occasion.principal_id,
        )


def checked_value(scheme: str, value: str, authority: str) -> MintedIdentifier:
    """The identifier as it is written; a plain link is held to no more than what every identifier is."""
    kind = PersistentIdentifierScheme.DOI if scheme in DOIS else PersistentIdentifierScheme.HANDLE
    return checked_identifier(kind, value, authority)


def check_identifiable(subject: Subject) -> None:
    """Gate: a physical subject that is kept, has no IGSN and waits for none."""
    refusal = SubjectCannotRequestPersistentIdentifierError
    check_kept(subject, refusal)
    if subject.kind is SubjectKind.COMPUTED:
        raise refusal(
            "A computed subject is no physical object, so it gets no IGSN.",
            subject_id=str(subject.id),
            kind=subject.kind,
        )
    match subject.identifier_status:
        case IdentifierStatus.ASSIGNED:
            raise SubjectPersistentIdentifierAlreadyAssignedError(
                "The subject has an IGSN already.",
                subject_id=str(subject.id),
                value=subject.external_refs[IGSN].value,
            )
        case IdentifierStatus.REQUESTED:
            raise SubjectPersistentIdentifierAlreadyRequestedError(
                "An IGSN has been asked for already; wait for it.", subject_id=str(subject.id)
            )
        case IdentifierStatus.TOMBSTONED:
            raise refusal.of(
                subject.id,
                subject.identifier_status,
                {IdentifierStatus.NOT_REQUESTED, IdentifierStatus.FAILED},
            )
        case _:
            return


def check_status(subject: Subject, needed: IdentifierStatus, refusal: type[CannotTransitionError]) -> None:
    if subject.identifier_status is not needed:
        raise refusal.of(subject.id, subject.identifier_status, {needed})
