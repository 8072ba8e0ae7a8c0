"""Subject: its status grid, what its places and counts become, and its claims."""

from beamwright.contexts.subject.citation import Creator, IdentifierStatus
from beamwright.contexts.subject.subject import (
    Subject,
    SubjectPersistentIdentifierAssigned,
    SubjectPersistentIdentifierFailed,
    SubjectPersistentIdentifierRequested,
    SubjectPersistentIdentifierTombstoned,
    SubjectStatus,
    subjects,
)
from beamwright.contexts.subject.subject_custody import (
    DiscardSubject,
    ReceiveSubject,
    ReturnSubject,
    StoreSubject,
    TransferSubjectCustody,
)
from beamwright.contexts.subject.subject_mounting import (
    DismountSubject,
    MeasureSubject,
    MountSubject,
    RemoveSubject,
    SubjectAndRun,
    SubjectAndTarget,
    SubjectAtWork,
)
from beamwright.contexts.subject.subject_registration import DeclareSubjectHazards, DescribeSubject
from beamwright.kernel.value import replace
from tests.contexts.equipment.asset_examples import ACTIVATED, asset
from tests.contexts.subject.examples import (
    DISCARDED,
    DISMOUNTED,
    KEEPER,
    MEASURED,
    MOUNTED,
    OTHER,
    REACH,
    RECEIVED,
    REMOVED,
    RETURNED,
    RUN,
    STAGE,
    STORED,
    SUBJECT,
    VISIT,
    subject,
)
from tests.grids import check_grid
from tests.rules import NOW, PRINCIPAL

# A verb that needs no more than the subject, and what the others see besides.
ALONE = {
    "describe": DescribeSubject(subject_id=SUBJECT, name="Granite"),
    "declare-hazards": DeclareSubjectHazards(subject_id=SUBJECT, hazards=(), reason="none"),
    "return": ReturnSubject(subject_id=SUBJECT),
    "store": StoreSubject(subject_id=SUBJECT, location="Cabinet"),
    "discard": DiscardSubject(subject_id=SUBJECT, reason="used up"),
    "receive": ReceiveSubject(subject_id=SUBJECT),
    "transfer": TransferSubjectCustody(subject_id=SUBJECT, to_custodian_id=KEEPER, reason="shift"),
}

GRID = """
           describe   declare-hazards  return    store   discard    receive   transfer
Received   Received   Received         -         -       -          -         Received
Mounted    Mounted    Mounted          -         -       -          -         Mounted
Measured   Measured   Measured         -         -       -          -         Measured
Removed    Removed    Removed          Returned  Stored  Discarded  Received  Removed
Returned   Returned   Returned         -         -       -          Received  -
Stored     Stored     Stored           Returned  -       Discarded  Received  Stored
Discarded  -          -                -         -       -          -         -
"""

MOUNT_GRID = """
           mount
Received   Mounted
Mounted    -
Measured   -
Removed    -
Returned   -
Stored     -
Discarded  -
"""

MEASURE_GRID = """
           measure
Received   -
Mounted    Measured
Measured   Measured
Removed    -
Returned   -
Stored     -
Discarded  -
"""

LEAVE_GRID = """
           dismount  remove
Received   -         Removed
Mounted    Received  Removed
Measured   Received  Removed
Removed    -         -
Returned   -         -
Stored     -         -
Discarded  -         -
"""


def status(state: Subject) -> str:
    return state.status


def test_status_grid_of_what_needs_the_subject_alone() -> None:
    check_grid(GRID, subjects, status=status, reach=REACH, verbs=ALONE)


def test_status_grid_of_mounting() -> None:
    verbs = {"mount": MountSubject(subject_id=SUBJECT, asset_id=STAGE, reason="scan")}
    target = asset(ACTIVATED)
    check_grid(
        MOUNT_GRID,
        subjects,
        status=status,
        reach=REACH,
        verbs=verbs,
        seen=lambda state: SubjectAndTarget(subject=state, asset=target),
    )


def test_status_grid_of_measuring() -> None:
    check_grid(
        MEASURE_GRID,
        subjects,
        status=status,
        reach=REACH,
        verbs={"measure": MeasureSubject(subject_id=SUBJECT)},
        seen=lambda state: SubjectAndRun(subject=state),
    )


def test_status_grid_of_leaving() -> None:
    check_grid(
        LEAVE_GRID,
        subjects,
        status=status,
        reach=REACH,
        verbs={
            "dismount": DismountSubject(subject_id=SUBJECT, reason="done"),
            "remove": RemoveSubject(subject_id=SUBJECT, reason="done"),
        },
        seen=lambda state: SubjectAtWork(subject=state),
    )


def test_a_subject_is_at_an_asset_exactly_while_it_is_mounted() -> None:
    for history in REACH.values():
        state = subjects.fold(history)
        assert state is not None
        assert (state.mounted_on_asset_id is not None) == (state.status in ("Mounted", "Measured"))


def test_a_second_cycle_is_told_from_the_first() -> None:
    again = subject(MOUNTED, MEASURED, DISMOUNTED, MOUNTED)
    assert (again.status, again.mount_count, again.measured_count) == (SubjectStatus.MOUNTED, 2, 1)


def test_the_runs_that_measured_a_subject_are_remembered() -> None:
    by_hand = replace(MEASURED, run_id=None)
    measured = subject(MOUNTED, MEASURED, by_hand)
    assert (measured.measured_run_ids, measured.measured_count) == ({RUN}, 2)


def test_while_a_subject_is_mounted_its_place_is_the_asset() -> None:
    assert subject().location == "Shelf 3"
    assert subject(MOUNTED).location is None


def test_nobody_is_known_to_hold_what_was_returned() -> None:
    returned = subject(REMOVED, RETURNED)
    assert (returned.custodian_id, returned.location) == (None, None)


def test_what_is_stored_stays_with_its_custodian_unless_another_is_named() -> None:
    assert subject(REMOVED, STORED).custodian_id == PRINCIPAL
    assert subject(REMOVED, replace(STORED, to_custodian_id=KEEPER)).custodian_id == KEEPER


def test_whoever_receives_a_subject_for_a_visit_holds_it_there() -> None:
    received = subject(REMOVED, STORED, RECEIVED)
    assert (received.status, received.custodian_id, received.visit_id) == ("Received", KEEPER, VISIT)


def test_a_subject_received_without_a_visit_keeps_the_one_it_has() -> None:
    received = subject(REMOVED, STORED, replace(RECEIVED, visit_id=None), visit_id=OTHER)
    assert received.visit_id == OTHER


def test_a_place_is_claimed_while_a_subject_is_there() -> None:
    assert keys(subject()) == []
    assert keys(subject(MOUNTED)) == [f"subject-place {STAGE}/-"]
    assert keys(subject(replace(MOUNTED, position="2"), MEASURED)) == [f"subject-place {STAGE}/2"]
    assert keys(subject(MOUNTED, DISMOUNTED)) == []


def test_an_identifier_is_claimed_for_ever_whatever_its_case() -> None:
    assigned = SubjectPersistentIdentifierAssigned(
        subject_id=SUBJECT,
        occurred_at=NOW,
        scheme="IGSN",
        value="10.5072/ABC",
        authority="stub",
        assigned_by=PRINCIPAL,
    )
    assert keys(subject(assigned, REMOVED, DISCARDED)) == ["external-ref IGSN:10.5072/abc"]


def test_the_identifier_status_follows_the_request() -> None:
    requested = SubjectPersistentIdentifierRequested(
        subject_id=SUBJECT,
        occurred_at=NOW,
        scheme="IGSN",
        suffix=str(SUBJECT),
        creators=(Creator(actor_id=KEEPER),),
        publication_year=2026,
        license=None,
        requested_by=PRINCIPAL,
    )
    failed = SubjectPersistentIdentifierFailed(
        subject_id=SUBJECT, occurred_at=NOW, scheme="IGSN", reason="no", failed_by=PRINCIPAL
    )
    assigned = SubjectPersistentIdentifierAssigned(
        subject_id=SUBJECT,
        occurred_at=NOW,
        scheme="IGSN",
        value="10.5072/a",
        authority="x",
        assigned_by=KEEPER,
    )
    gone = SubjectPersistentIdentifierTombstoned(
        subject_id=SUBJECT, occurred_at=NOW, scheme="IGSN", reason="withdrawn", tombstoned_by=PRINCIPAL
    )
    events = [requested, failed, requested, assigned, gone]
    found = [subject(*events[:count]).identifier_status for count in range(len(events) + 1)]
    assert found == [
        IdentifierStatus.NOT_REQUESTED,
        IdentifierStatus.REQUESTED,
        IdentifierStatus.FAILED,
        IdentifierStatus.REQUESTED,
        IdentifierStatus.ASSIGNED,
        IdentifierStatus.TOMBSTONED,
    ]


def test_a_plain_link_leaves_the_identifier_status_alone() -> None:
    link = SubjectPersistentIdentifierAssigned(
        subject_id=SUBJECT, occurred_at=NOW, scheme="lims", value="42", authority="x", assigned_by=KEEPER
    )
    linked = subject(link)
    assert (linked.identifier_status, linked.external_refs["lims"].value) == ("NotRequested", "42")


def test_a_subject_belongs_to_its_facility_visit_and_owner() -> None:
    belonging = subjects.belongs(subject(visit_id=VISIT))
    assert (belonging.facility_code, belonging.visit_ids, belonging.owner_id) == ("aps", {VISIT}, PRINCIPAL)


def keys(state: Subject) -> list[str]:
    return [f"{claim.kind} {claim.key}" for claim in subjects.claims(state)]
