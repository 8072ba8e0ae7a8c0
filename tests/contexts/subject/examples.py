"""What the tests of subjects share: one subject, and how each status is reached."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from beamwright.contexts.subject.subject import (
    Subject,
    SubjectDiscarded,
    SubjectDismounted,
    SubjectKind,
    SubjectMeasured,
    SubjectMounted,
    SubjectReceived,
    SubjectRegistered,
    SubjectRemoved,
    SubjectReturned,
    SubjectStored,
    subjects,
)
from beamwright.kernel.event import Event
from beamwright.kernel.observing import TriggerSource
from beamwright.kernel.value import replace
from tests.rules import NOW, PRINCIPAL, given

SUBJECT, OTHER, STAGE, RUN, VISIT, KEEPER = (UUID(int=n) for n in range(901, 907))

REGISTERED = SubjectRegistered(
    subject_id=SUBJECT,
    occurred_at=NOW,
    name="Basalt",
    kind=SubjectKind.SAMPLE,
    description=None,
    composition=None,
    keywords=frozenset(),
    facility_code="aps",
    visit_id=None,
    owner_id=PRINCIPAL,
    parent_id=None,
    parent_relation=None,
    hazards=(),
    location="Shelf 3",
    custodian_id=PRINCIPAL,
    registered_by=PRINCIPAL,
)
MOUNTED = SubjectMounted(
    subject_id=SUBJECT, occurred_at=NOW, asset_id=STAGE, position=None, reason="scan", mounted_by=PRINCIPAL
)
MEASURED = SubjectMeasured(
    subject_id=SUBJECT, occurred_at=NOW, asset_id=STAGE, run_id=RUN, measured_by=PRINCIPAL
)
DISMOUNTED = SubjectDismounted(
    subject_id=SUBJECT,
    occurred_at=NOW,
    from_asset_id=STAGE,
    position=None,
    reason="done",
    trigger=TriggerSource.OPERATOR,
    dismounted_by=PRINCIPAL,
)
REMOVED = SubjectRemoved(subject_id=SUBJECT, occurred_at=NOW, reason="done", removed_by=PRINCIPAL)
RETURNED = SubjectReturned(
    subject_id=SUBJECT, occurred_at=NOW, to_custodian_id=None, note=None, returned_by=PRINCIPAL
)
STORED = SubjectStored(
    subject_id=SUBJECT, occurred_at=NOW, location="Cabinet", to_custodian_id=None, stored_by=PRINCIPAL
)
DISCARDED = SubjectDiscarded(subject_id=SUBJECT, occurred_at=NOW, reason="used up", discarded_by=PRINCIPAL)
RECEIVED = SubjectReceived(
    subject_id=SUBJECT,
    occurred_at=NOW,
    location=None,
    visit_id=VISIT,
    custodian_id=KEEPER,
    note=None,
    received_by=KEEPER,
)

# What follows the registration until each status is reached.
FURTHER: Mapping[str, Sequence[Event]] = {
    "Received": [],
    "Mounted": [MOUNTED],
    "Measured": [MOUNTED, MEASURED],
    "Removed": [REMOVED],
    "Returned": [REMOVED, RETURNED],
    "Stored": [REMOVED, STORED],
    "Discarded": [REMOVED, DISCARDED],
}
REACH = {status: [REGISTERED, *events] for status, events in FURTHER.items()}


def subject(*events: Event, **changes: Any) -> Subject:
    """The subject after `events`, with other first facts where told."""
    return given(subjects, replace(REGISTERED, **changes), *events)
