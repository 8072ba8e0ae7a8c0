"""Subjects on assets: where they may be mounted, which runs measured them, and when they may leave."""

from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.asset import AssetCondition, AssetDegraded, AssetFaulted
from beamwright.contexts.subject.subject import (
    InvalidSubjectReasonError,
    SubjectCannotMeasureError,
    SubjectCannotMountError,
    SubjectDismounted,
    SubjectMeasured,
    SubjectMounted,
    SubjectMountTargetOccupiedError,
    subjects,
)
from beamwright.contexts.subject.subject_mounting import (
    DismountSubject,
    InvalidSubjectPositionError,
    MeasureSubject,
    MountSubject,
    RemoveSubject,
    SubjectAlreadyMeasuredByRunError,
    SubjectAndRun,
    SubjectAndTarget,
    SubjectAtWork,
    SubjectInOpenRunError,
    SubjectMeasureRunMismatchError,
    SubjectMountFacilityMismatchError,
    SubjectMountTargetFaultedError,
    SubjectMountTargetUnavailableError,
)
from beamwright.kernel.observing import TriggerSource
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import replace
from tests.contexts.equipment.asset_examples import (
    ACTIVATED,
    DECOMMISSIONED,
    LIFECYCLES,
    asset,
)
from tests.contexts.equipment.asset_examples import STAGE as STAGE_ASSET
from tests.contexts.subject.examples import (
    MEASURED,
    MOUNTED,
    OTHER,
    REMOVED,
    RUN,
    STAGE,
    SUBJECT,
    subject,
)
from tests.rules import NOW, OCCASION, PRINCIPAL, outcome

MOUNT = MountSubject(subject_id=SUBJECT, asset_id=STAGE_ASSET, reason=" tomography ")
FAULTED = AssetFaulted(
    asset_id=STAGE_ASSET, occurred_at=NOW, from_condition=AssetCondition.NOMINAL, reason="stuck"
)
DEGRADED = AssetDegraded(
    asset_id=STAGE_ASSET, occurred_at=NOW, from_condition=AssetCondition.NOMINAL, reason="noisy"
)
FREE = SubjectAndTarget(subject=subject(), asset=asset(ACTIVATED))
THERE = subject(MOUNTED, subject_id=OTHER, name="Granite")


def test_a_subject_is_mounted_at_a_position() -> None:
    assert outcome(replace(MOUNT, position=" 2 "), FREE) == [
        SubjectMounted(
            subject_id=SUBJECT,
            occurred_at=NOW,
            asset_id=STAGE_ASSET,
            position="2",
            reason="tomography",
            mounted_by=PRINCIPAL,
        )
    ]


@pytest.mark.parametrize("lifecycle", ["Commissioned", "Maintenance", "Decommissioned"])
def test_mount_needs_an_active_asset(lifecycle: str) -> None:
    target = replace(FREE, asset=asset(*LIFECYCLES[lifecycle]))
    assert outcome(MOUNT, target) == SubjectMountTargetUnavailableError


def test_mount_refuses_a_faulted_asset_and_takes_a_degraded_one() -> None:
    assert outcome(MOUNT, replace(FREE, asset=asset(ACTIVATED, FAULTED))) == SubjectMountTargetFaultedError
    assert not isinstance(outcome(MOUNT, replace(FREE, asset=asset(ACTIVATED, DEGRADED))), type)


def test_mount_needs_an_asset_of_a_related_facility() -> None:
    assert outcome(MOUNT, replace(FREE, related=False)) == SubjectMountFacilityMismatchError


def test_a_place_takes_one_subject_and_the_refusal_names_it() -> None:
    with pytest.raises(SubjectMountTargetOccupiedError) as refusal:
        MOUNT.decide(replace(FREE, occupant=THERE), OCCASION)
    assert refusal.value.context["subject_id"] == str(OTHER)


@pytest.mark.parametrize("position", [" ", "x" * 51])
def test_mount_refuses_a_bad_position(position: str) -> None:
    assert outcome(replace(MOUNT, position=position), FREE) == InvalidSubjectPositionError


def test_refusals_of_a_mount_come_in_their_order() -> None:
    wrong = SubjectAndTarget(
        subject=subject(REMOVED), asset=asset(DECOMMISSIONED, FAULTED), related=False, occupant=THERE
    )
    steps: list[tuple[SubjectAndTarget, type]] = [
        (wrong, SubjectCannotMountError),
        (replace(wrong, subject=subject()), SubjectMountTargetUnavailableError),
        (replace(wrong, subject=subject(), asset=asset(ACTIVATED, FAULTED)), SubjectMountTargetFaultedError),
        (replace(wrong, subject=subject(), asset=asset(ACTIVATED)), SubjectMountFacilityMismatchError),
        (replace(FREE, occupant=THERE), SubjectMountTargetOccupiedError),
    ]
    assert [outcome(MOUNT, seen) for seen, _ in steps] == [refusal for _, refusal in steps]


def test_a_run_measures_its_subject_where_it_is_mounted() -> None:
    seen = SubjectAndRun(subject=subject(MOUNTED), run_subject_id=SUBJECT)
    assert outcome(MeasureSubject(subject_id=SUBJECT, run_id=RUN), seen) == [
        SubjectMeasured(
            subject_id=SUBJECT, occurred_at=NOW, asset_id=STAGE, run_id=RUN, measured_by=PRINCIPAL
        )
    ]


@pytest.mark.parametrize("about", [None, OTHER])
def test_a_run_about_something_else_measures_nothing_here(about: UUID | None) -> None:
    seen = SubjectAndRun(subject=subject(MOUNTED), run_subject_id=about)
    assert outcome(MeasureSubject(subject_id=SUBJECT, run_id=RUN), seen) == SubjectMeasureRunMismatchError


def test_a_run_measures_a_subject_once() -> None:
    seen = SubjectAndRun(subject=subject(MOUNTED, MEASURED), run_subject_id=SUBJECT)
    assert outcome(MeasureSubject(subject_id=SUBJECT, run_id=RUN), seen) == SubjectAlreadyMeasuredByRunError


def test_that_a_subject_is_not_mounted_comes_before_what_the_run_is_about() -> None:
    seen = SubjectAndRun(subject=subject(), run_subject_id=OTHER)
    assert outcome(MeasureSubject(subject_id=SUBJECT, run_id=RUN), seen) == SubjectCannotMeasureError


def test_a_person_measures_without_a_run_as_often_as_needed() -> None:
    seen = SubjectAndRun(subject=subject(MOUNTED, MEASURED))
    assert not isinstance(outcome(MeasureSubject(subject_id=SUBJECT), seen), type)


DISMOUNT = DismountSubject(subject_id=SUBJECT, reason=" over ")


@pytest.mark.parametrize(
    ("kind", "trigger"),
    [
        (ActorKind.HUMAN, TriggerSource.OPERATOR),
        (ActorKind.AGENT, TriggerSource.AUTO),
        (ActorKind.SERVICE_ACCOUNT, TriggerSource.AUTO),
    ],
)
def test_a_dismount_tells_from_where_and_who_set_it_off(kind: ActorKind, trigger: TriggerSource) -> None:
    seen = SubjectAtWork(subject=subject(replace(MOUNTED, position="2")))
    assert outcome(DISMOUNT, seen, replace(OCCASION, principal_kind=kind)) == [
        SubjectDismounted(
            subject_id=SUBJECT,
            occurred_at=NOW,
            from_asset_id=STAGE,
            position="2",
            reason="over",
            trigger=trigger,
            dismounted_by=PRINCIPAL,
        )
    ]


@pytest.mark.parametrize("verb", [DISMOUNT, RemoveSubject(subject_id=SUBJECT, reason="over")])
def test_nobody_takes_away_what_an_open_run_is_about(verb: Any) -> None:
    with pytest.raises(SubjectInOpenRunError) as refusal:
        verb.decide(SubjectAtWork(subject=subject(MOUNTED), open_run_ids=(RUN,)), OCCASION)
    assert refusal.value.context["run_ids"] == [str(RUN)]


def test_removing_a_mounted_subject_dismounts_it_first_and_frees_its_place() -> None:
    mounted = subject(MOUNTED)
    events = RemoveSubject(subject_id=SUBJECT, reason="over").decide(SubjectAtWork(subject=mounted), OCCASION)
    assert [type(event).__name__ for event in events] == ["SubjectDismounted", "SubjectRemoved"]
    assert list(subjects.claims(subject(MOUNTED, *events))) == []


def test_removing_a_received_subject_dismounts_nothing() -> None:
    events = RemoveSubject(subject_id=SUBJECT, reason="over").decide(
        SubjectAtWork(subject=subject()), OCCASION
    )
    assert [type(event).__name__ for event in events] == ["SubjectRemoved"]


@pytest.mark.parametrize(
    "verb", [replace(DISMOUNT, reason=" "), RemoveSubject(subject_id=SUBJECT, reason="")]
)
def test_leaving_needs_a_reason(verb: Any) -> None:
    assert outcome(verb, SubjectAtWork(subject=subject(MOUNTED))) == InvalidSubjectReasonError
