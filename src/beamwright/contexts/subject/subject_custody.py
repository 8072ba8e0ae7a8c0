"""Who holds a subject and where: returned, stored, discarded, received again, or handed over."""

from uuid import UUID

from beamwright.contexts.access.actor import actors
from beamwright.contexts.trust.visit import visits
from beamwright.kernel import text
from beamwright.kernel.errors import CannotTransitionError, ConflictError, InvalidError
from beamwright.kernel.operation import Command, Occasion, World

from .subject import (
    HANDLING,
    IN_HOUSE,
    InvalidSubjectReasonError,
    Location,
    Subject,
    SubjectCommand,
    SubjectCustodyTransferred,
    SubjectDiscarded,
    SubjectReceived,
    SubjectReturned,
    SubjectStored,
    checked_location,
    subjects,
)


class InvalidSubjectNoteError(InvalidError):
    """The note is blank or too long."""


class InvalidSubjectTransferError(InvalidError):
    """A transfer names a new custodian, a new location, or both."""


class SubjectCannotTransferError(CannotTransitionError):
    """A subject that was returned or discarded is not ours to hand over."""


class SubjectLocationFixedError(ConflictError):
    """While the subject is mounted, its place is the asset."""


class HandOverCommand(Command[Subject]):
    """A command that gives a subject into the hands of an actor, if one is named."""

    subject_id: UUID
    to_custodian_id: UUID | None = None

    async def gather(self, world: World) -> Subject:
        subject = await world.load(subjects, self.subject_id)
        if self.to_custodian_id is not None:
            await world.load(actors, self.to_custodian_id)
        return subject


@subjects.operation("POST /subjects/{subject_id}/return")
class ReturnSubject(HandOverCommand):
    """Give a subject back; without a custodian nobody is known to hold it."""

    note: text.Note | None = None

    def decide(self, subject: Subject, occasion: Occasion) -> SubjectReturned:
        note = checked_note(self.note)
        HANDLING.check(SubjectReturned, subject.status, subject.id)
        return SubjectReturned(
            subject_id=subject.id,
            occurred_at=occasion.now,
            to_custodian_id=self.to_custodian_id,
            note=note,
            returned_by=occasion.principal_id,
        )


@subjects.operation("POST /subjects/{subject_id}/store")
class StoreSubject(HandOverCommand):
    """Put a removed subject into storage; without a custodian it stays with whoever holds it."""

    location: Location

    def decide(self, subject: Subject, occasion: Occasion) -> SubjectStored:
        location = checked_location(self.location)
        HANDLING.check(SubjectStored, subject.status, subject.id)
        return SubjectStored(
            subject_id=subject.id,
            occurred_at=occasion.now,
            location=location,
            to_custodian_id=self.to_custodian_id,
            stored_by=occasion.principal_id,
        )


@subjects.operation("POST /subjects/{subject_id}/discard")
class DiscardSubject(SubjectCommand):
    """Record that a subject was disposed of, for good."""

    reason: text.Reason

    def decide(self, subject: Subject, occasion: Occasion) -> SubjectDiscarded:
        reason = text.reason(self.reason, InvalidSubjectReasonError)
        HANDLING.check(SubjectDiscarded, subject.status, subject.id)
        return SubjectDiscarded(
            subject_id=subject.id,
            occurred_at=occasion.now,
            reason=reason,
            discarded_by=occasion.principal_id,
        )


@subjects.operation("POST /subjects/{subject_id}/receive")
class ReceiveSubject(Command[Subject]):
    """Receive a subject again, for another visit if one is given; whoever receives it holds it."""

    subject_id: UUID
    location: Location | None = None
    visit_id: UUID | None = None
    note: text.Note | None = None

    async def gather(self, world: World) -> Subject:
        subject = await world.load(subjects, self.subject_id)
        if self.visit_id is not None:
            await world.load(visits, self.visit_id)
        return subject

    def decide(self, subject: Subject, occasion: Occasion) -> SubjectReceived:
        location = None if self.location is None else checked_location(self.location)
        note = checked_note(self.note)
        HANDLING.check(SubjectReceived, subject.status, subject.id)
        return SubjectReceived(
            subject_id=subject.id,
            occurred_at=occasion.now,
            location=location,
            visit_id=self.visit_id,
            custodian_id=occasion.principal_id,
            note=note,
            received_by=occasion.principal_id,
        )


@subjects.operation("POST /subjects/{subject_id}/transfer")
class TransferSubjectCustody(HandOverCommand):
    """Hand a subject over to another custodian, move it to another place, or both."""

    to_location: Location | None = None
    reason: text.Reason

    def decide(self, subject: Subject, occasion: Occasion) -> list[SubjectCustodyTransferred]:
        location = None if self.to_location is None else checked_location(self.to_location)
        reason = text.reason(self.reason, InvalidSubjectReasonError)
        if location is None and self.to_custodian_id is None:
            raise InvalidSubjectTransferError("Give to_custodian_id, to_location or both.")
        check_transferable(subject, location)
        transferred = SubjectCustodyTransferred(
            subject_id=subject.id,
            occurred_at=occasion.now,
            from_custodian_id=subject.custodian_id,
            to_custodian_id=self.to_custodian_id or subject.custodian_id,
            from_location=subject.location,
            to_location=location or subject.location,
            reason=reason,
            transferred_by=occasion.principal_id,
        )
        return [] if subjects.evolve(subject, transferred) == subject else [transferred]


def checked_note(value: str | None) -> str | None:
    return None if value is None else text.note(value, InvalidSubjectNoteError)


def check_transferable(subject: Subject, location: str | None) -> None:
    """Gate: the subject is ours to hand over, and its place is free to change."""
    if subject.status not in IN_HOUSE:
        raise SubjectCannotTransferError.of(subject.id, subject.status, IN_HOUSE)
    if location is not None and subject.mounted:
        raise SubjectLocationFixedError(
            "The subject is mounted; dismount it before it goes elsewhere.",
            subject_id=str(subject.id),
            asset_id=str(subject.mounted_on_asset_id),
        )
