"""How subjects get their persistent identifiers: an entry of the minter's table."""

from uuid import UUID

from beamwright.kernel.identifiers import MintedIdentifier, PersistentIdentifierScheme
from beamwright.kernel.outbox import Identifiable

from .citation import IdentifierStatus
from .subject import IGSN, Subject, SubjectPersistentIdentifierRequested, subjects
from .subject_datacite import GetSubjectDatacite, for_agency
from .subject_identifiers import AssignSubjectPersistentIdentifier, FailSubjectPersistentIdentifier

# An IGSN is a DOI, and is asked for as one.
MINTED_AS = PersistentIdentifierScheme.DOI


def pending(subject: Subject) -> PersistentIdentifierScheme | None:
    return MINTED_AS if subject.identifier_status is IdentifierStatus.REQUESTED else None


def assign_to_subject(
    id: UUID, scheme: PersistentIdentifierScheme, minted: MintedIdentifier
) -> AssignSubjectPersistentIdentifier:
    return AssignSubjectPersistentIdentifier(
        subject_id=id, scheme=IGSN, value=minted.value, authority=minted.authority
    )


IDENTIFIABLE_SUBJECTS = Identifiable(
    aggregate=subjects,
    requested={SubjectPersistentIdentifierRequested: lambda event: MINTED_AS},
    # The minter finds no identifier of the scheme that it knows, so records are not sent again.
    refreshed=frozenset(),
    pending=pending,
    read=lambda id: GetSubjectDatacite(subject_id=id),
    record=for_agency,
    assign=assign_to_subject,
    fail=lambda id, reason: FailSubjectPersistentIdentifier(subject_id=id, reason=reason),
)
