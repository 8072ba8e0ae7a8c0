"""Who holds a subject and where."""

from uuid import uuid4

import msgspec
import pytest

from beamwright.contexts.subject.subject import (
    InvalidSubjectLocationError,
    SubjectCannotReturnError,
    SubjectCustodyTransferred,
    SubjectReceived,
    SubjectReturned,
    SubjectStored,
)
from beamwright.contexts.subject.subject_custody import (
    InvalidSubjectNoteError,
    InvalidSubjectTransferError,
    ReceiveSubject,
    ReturnSubject,
    StoreSubject,
    SubjectCannotTransferError,
    SubjectLocationFixedError,
    TransferSubjectCustody,
)
from beamwright.contexts.subject.subject_reads import custody_entry
from beamwright.kernel.aggregate import RecordedEvent
from beamwright.kernel.event import Event, payload
from beamwright.kernel.value import replace
from tests.contexts.subject.examples import (
    DISMOUNTED,
    KEEPER,
    MEASURED,
    MOUNTED,
    RECEIVED,
    REGISTERED,
    REMOVED,
    RETURNED,
    STAGE,
    STORED,
    SUBJECT,
    VISIT,
    subject,
)
from tests.rules import NOW, OCCASION, PRINCIPAL, outcome

TRANSFER = TransferSubjectCustody(subject_id=SUBJECT, reason=" shift change ")


def test_a_subject_is_returned_to_somebody_with_a_note() -> None:
    command = ReturnSubject(subject_id=SUBJECT, to_custodian_id=KEEPER, note=" by courier ")
    assert outcome(command, subject(REMOVED)) == [
        SubjectReturned(
            subject_id=SUBJECT,
            occurred_at=NOW,
            to_custodian_id=KEEPER,
            note="by courier",
            returned_by=PRINCIPAL,
        )
    ]


def test_a_received_subject_is_not_returned_and_the_refusal_says_from_where_one_is() -> None:
    with pytest.raises(SubjectCannotReturnError) as refusal:
        ReturnSubject(subject_id=SUBJECT).decide(subject(), OCCASION)
    assert refusal.value.context["allowed"] == ["Removed", "Stored"]


def test_a_note_is_not_blank() -> None:
    assert outcome(ReturnSubject(subject_id=SUBJECT, note=" "), subject(REMOVED)) == InvalidSubjectNoteError
    assert outcome(ReceiveSubject(subject_id=SUBJECT, note=" "), subject(REMOVED)) == InvalidSubjectNoteError


def test_a_subject_is_stored_at_a_place() -> None:
    assert outcome(StoreSubject(subject_id=SUBJECT, location=" Cabinet 4 "), subject(REMOVED)) == [
        SubjectStored(
            subject_id=SUBJECT,
            occurred_at=NOW,
            location="Cabinet 4",
            to_custodian_id=None,
            stored_by=PRINCIPAL,
        )
    ]


@pytest.mark.parametrize("location", [" ", "x" * 201])
def test_a_place_is_not_blank_or_long(location: str) -> None:
    stored, removed = StoreSubject(subject_id=SUBJECT, location=location), subject(REMOVED)
    received = ReceiveSubject(subject_id=SUBJECT, location=location)
    moved = replace(TRANSFER, to_location=location)
    assert [outcome(each, removed) for each in (stored, received, moved)] == [InvalidSubjectLocationError] * 3


def test_whoever_receives_a_subject_holds_it() -> None:
    assert outcome(ReceiveSubject(subject_id=SUBJECT, visit_id=VISIT), subject(REMOVED, STORED)) == [
        SubjectReceived(
            subject_id=SUBJECT,
            occurred_at=NOW,
            location=None,
            visit_id=VISIT,
            custodian_id=PRINCIPAL,
            note=None,
            received_by=PRINCIPAL,
        )
    ]


def test_a_transfer_tells_from_whom_and_where_to_whom_and_where() -> None:
    assert outcome(replace(TRANSFER, to_custodian_id=KEEPER), subject()) == [
        SubjectCustodyTransferred(
            subject_id=SUBJECT,
            occurred_at=NOW,
            from_custodian_id=PRINCIPAL,
            to_custodian_id=KEEPER,
            from_location="Shelf 3",
            to_location="Shelf 3",
            reason="shift change",
            transferred_by=PRINCIPAL,
        )
    ]


def test_a_transfer_names_a_custodian_or_a_place() -> None:
    assert outcome(TRANSFER, subject()) == InvalidSubjectTransferError


def test_a_transfer_that_changes_nothing_is_a_no_op() -> None:
    assert outcome(replace(TRANSFER, to_custodian_id=PRINCIPAL), subject()) == []


def test_a_mounted_subject_changes_hands_and_stays_where_it_is() -> None:
    mounted = subject(MOUNTED)
    assert not isinstance(outcome(replace(TRANSFER, to_custodian_id=KEEPER), mounted), type)
    assert outcome(replace(TRANSFER, to_location="Shelf 4"), mounted) == SubjectLocationFixedError


def test_what_is_not_here_is_not_handed_over() -> None:
    returned = subject(REMOVED, RETURNED)
    assert outcome(replace(TRANSFER, to_location="Shelf 4"), returned) == SubjectCannotTransferError


def recorded(event: Event, version: int) -> RecordedEvent:
    return RecordedEvent(
        event_id=uuid4(),
        version=version,
        event_type=type(event).__name__,
        schema_version=1,
        payload=msgspec.json.decode(payload(event)),
        principal_id=PRINCIPAL,
        principal_name="Ada",
        command_name="",
        surface_id=uuid4(),
        correlation_id="",
        causation_id=None,
        occurred_at=NOW,
        recorded_at=NOW,
    )


def test_custody_lists_hand_overs_and_places_and_leaves_out_the_rest() -> None:
    history = [REGISTERED, MOUNTED, MEASURED, DISMOUNTED, REMOVED, STORED, RECEIVED]
    entries = [custody_entry(recorded(event, number)) for number, event in enumerate(history, 1)]
    told = [(e.event, e.custodian_id, e.location, e.asset_id, e.visit_id) for e in entries if e is not None]
    assert told == [
        ("SubjectRegistered", PRINCIPAL, "Shelf 3", None, None),
        ("SubjectMounted", None, None, STAGE, None),
        ("SubjectDismounted", None, None, STAGE, None),
        ("SubjectRemoved", None, None, None, None),
        ("SubjectStored", None, "Cabinet", None, None),
        ("SubjectReceived", KEEPER, None, None, VISIT),
    ]


def test_a_custody_entry_says_when_by_whom_and_why() -> None:
    entry = custody_entry(recorded(MOUNTED, 2))
    assert entry is not None
    assert (entry.at, entry.by, entry.by_name, entry.reason) == (NOW, PRINCIPAL, "Ada", "scan")
