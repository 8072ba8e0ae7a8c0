"""Calibration: its identity, its status grid, and what holds at a time."""

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given as given_any
from hypothesis import strategies as st

from beamwright.contexts.calibration.calibration import (
    Calibration,
    CalibrationDefined,
    CalibrationDescribed,
    CalibrationIdentityAlreadyExistsError,
    CalibrationRevision,
    CalibrationRevisionStatus,
    DescribeCalibration,
    InvalidCalibrationDescriptionError,
    InvalidCalibrationReasonError,
    RetireCalibration,
    calibrations,
    identity_key,
)
from beamwright.contexts.calibration.calibration_definition import (
    CalibrationQuantityDeprecatedError,
    CalibrationTarget,
    CalibrationTargetDecommissionedError,
    DefineCalibration,
    InvalidCalibrationOperatingPointError,
)
from beamwright.contexts.calibration.calibration_reads import holding
from beamwright.contexts.calibration.revisions import AppendCalibrationRevision, CalibrationAndQuantity
from beamwright.kernel.event import Event
from beamwright.kernel.value import replace
from tests.contexts.calibration.examples import (
    ASSERTED,
    CALIBRATION,
    DEFINED,
    POINT,
    R1,
    R2,
    R3,
    RETIRED,
    TARGET,
    appended,
    calibration,
    day,
    deprecated,
    quantity,
    verified,
    withdrawn,
)
from tests.contexts.equipment.asset_examples import DECOMMISSIONED, asset
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, OCCASION, PRINCIPAL, outcome

STAGE = asset()
HERE = CalibrationTarget(asset=STAGE, quantity=quantity())
DEFINE = DefineCalibration(target_id=STAGE.id, quantity="rotation_center", operating_point=POINT)


def test_a_calibration_belongs_to_the_facility_of_its_target() -> None:
    assert outcome(DEFINE, HERE) == [
        CalibrationDefined(
            calibration_id=NEW_ID,
            occurred_at=NOW,
            target_id=STAGE.id,
            facility_code="aps",
            quantity="rotation_center",
            quantity_id=quantity().id,
            operating_point=POINT,
            description=None,
            defined_by=PRINCIPAL,
        )
    ]


@pytest.mark.parametrize(
    "operating_point",
    [
        {},
        {"energy": 25},
        {"energy": 0, "optics_config": "10x"},
        {"energy": "25", "optics_config": "10x"},
        {"energy": 25, "optics_config": "10x", "colour": "red"},
        {"energy": 25, "optics_config": None},
    ],
)
def test_an_operating_point_meets_the_quantitys_schema(operating_point: dict[str, Any]) -> None:
    command = replace(DEFINE, operating_point=operating_point)
    assert outcome(command, HERE) == InvalidCalibrationOperatingPointError


def test_energies_have_no_upper_bound_and_no_step() -> None:
    point = {"energy": 123456.789, "optics_config": "10x"}
    assert not isinstance(outcome(replace(DEFINE, operating_point=point), HERE), type)


def test_the_second_calibration_of_an_identity_is_refused_with_the_id_of_the_first() -> None:
    with pytest.raises(CalibrationIdentityAlreadyExistsError) as refusal:
        DEFINE.decide(replace(HERE, holder=calibration()), OCCASION)
    assert refusal.value.context["calibration_id"] == str(CALIBRATION)


def test_refusals_of_a_definition_come_in_their_order() -> None:
    wrong = CalibrationTarget(asset=asset(DECOMMISSIONED), quantity=deprecated(), holder=calibration())
    steps: list[tuple[DefineCalibration, CalibrationTarget, type]] = [
        (replace(DEFINE, operating_point={}), wrong, InvalidCalibrationOperatingPointError),
        (replace(DEFINE, description=" "), wrong, InvalidCalibrationDescriptionError),
        (DEFINE, wrong, CalibrationQuantityDeprecatedError),
        (DEFINE, replace(wrong, quantity=quantity()), CalibrationTargetDecommissionedError),
        (DEFINE, replace(HERE, holder=calibration()), CalibrationIdentityAlreadyExistsError),
    ]
    assert [outcome(command, seen) for command, seen, _ in steps] == [refusal for *_, refusal in steps]


def test_the_form_of_a_number_and_the_order_of_members_are_nothing() -> None:
    other = {"optics_config": "10x", "energy": 25.0}
    assert identity_key(TARGET, "rotation_center", POINT) == identity_key(TARGET, "rotation_center", other)
    assert identity_key(TARGET, "rotation_center", POINT) != identity_key(
        TARGET, "rotation_center", POINT | {"energy": 26}
    )


def test_an_identity_is_free_after_retirement() -> None:
    key = identity_key(TARGET, "rotation_center", POINT)
    assert [claim.key for claim in calibrations.claims(calibration())] == [key]
    assert calibrations.claims(calibration(RETIRED)) == []


GRID = """
         describe  retire
Active   Active    Retired
Retired  -         -
"""

APPEND_GRID = """
         append-revision
Active   Active
Retired  -
"""
REACH: dict[str, list[Event]] = {"Active": [DEFINED], "Retired": [DEFINED, RETIRED]}


def test_status_grid() -> None:
    check_grid(
        GRID,
        calibrations,
        status=lambda state: state.status,
        reach=REACH,
        verbs={
            "describe": DescribeCalibration(calibration_id=CALIBRATION, description="new"),
            "retire": RetireCalibration(calibration_id=CALIBRATION, reason="replaced"),
        },
    )


def test_status_grid_of_appending() -> None:
    append = AppendCalibrationRevision(calibration_id=CALIBRATION, value={"center": 1}, source=ASSERTED)
    check_grid(
        APPEND_GRID,
        calibrations,
        status=lambda state: state.status,
        reach=REACH,
        verbs={"append-revision": append},
        seen=lambda state: CalibrationAndQuantity(calibration=state, quantity=quantity()),
    )


def test_null_clears_the_description() -> None:
    command = DescribeCalibration(calibration_id=CALIBRATION, description=None)
    assert outcome(command, calibration(description="old")) == [
        CalibrationDescribed(
            calibration_id=CALIBRATION, occurred_at=NOW, description=None, described_by=PRINCIPAL
        )
    ]


def test_describe_that_changes_nothing_is_a_no_op() -> None:
    command = DescribeCalibration(calibration_id=CALIBRATION, description=" old ")
    assert outcome(command, calibration(description="old")) == []


def test_text_is_not_blank() -> None:
    described = DescribeCalibration(calibration_id=CALIBRATION, description=" ")
    retired = RetireCalibration(calibration_id=CALIBRATION, reason=" ")
    assert outcome(described, calibration()) == InvalidCalibrationDescriptionError
    assert outcome(retired, calibration()) == InvalidCalibrationReasonError


MONDAY, TUESDAY, WEDNESDAY, THURSDAY = (day(n) for n in range(4))
TWO = [appended(R1, MONDAY), verified(R1), appended(R2, WEDNESDAY), verified(R2)]


def current(at: datetime, *events: Event, **asked: bool) -> UUID | None:
    found = calibration(*events).current_at(at, **asked)
    return None if found is None else found.revision_id


def test_the_revision_valid_latest_holds() -> None:
    assert [current(at, *TWO) for at in (day(-1), MONDAY, TUESDAY, WEDNESDAY, THURSDAY)] == [
        None,
        R1,
        R1,
        R2,
        R2,
    ]


def test_a_withdrawn_revision_holds_no_more() -> None:
    assert current(THURSDAY, *TWO, withdrawn(R2)) == R1


def test_a_revision_holds_until_its_validity_ends() -> None:
    ending = [appended(R1, MONDAY, valid_until=WEDNESDAY), verified(R1)]
    assert [current(at, *ending) for at in (TUESDAY, WEDNESDAY)] == [R1, None]


def test_a_provisional_revision_holds_when_it_is_asked_for() -> None:
    assert current(TUESDAY, appended(R1, MONDAY)) is None
    assert current(TUESDAY, appended(R1, MONDAY), include_provisional=True) == R1


def test_of_two_valid_from_the_same_moment_the_one_established_later_holds() -> None:
    later = appended(R2, MONDAY, occurred_at=day(0.5))
    assert current(TUESDAY, appended(R1, MONDAY), verified(R1), later, verified(R2)) == R2


def test_a_superseded_revision_gives_way_to_one_that_is_valid_earlier() -> None:
    newer = appended(R2, day(-7), supersedes_revision_id=R1)
    assert current(TUESDAY, appended(R1, MONDAY), verified(R1), newer, verified(R2)) == R2


def test_a_superseded_revision_holds_until_its_replacement_qualifies() -> None:
    newer = appended(R2, day(-7), supersedes_revision_id=R1)
    assert current(TUESDAY, appended(R1, MONDAY), verified(R1), newer) == R1
    assert current(TUESDAY, appended(R1, MONDAY), verified(R1), newer, verified(R2), withdrawn(R2)) == R1


def test_what_was_replaced_stays_replaced_when_one_in_between_is_withdrawn() -> None:
    second = appended(R2, MONDAY, supersedes_revision_id=R1)
    third = appended(R3, day(-7), supersedes_revision_id=R2)
    history = [appended(R1, MONDAY), verified(R1), second, verified(R2), third, verified(R3)]
    assert current(TUESDAY, *history, withdrawn(R2)) == R3


def test_superseding_marks_the_old_revision() -> None:
    after = calibration(appended(R1), appended(R2, supersedes_revision_id=R1))
    assert after.revision(R1).superseded_by_revision_id == R2
    assert (after.latest, after.last_revised_at) == (after.revision(R2), NOW)


def test_only_calibrations_in_use_hold_one_for_each_operating_point() -> None:
    other = calibration(*TWO, operating_point=POINT | {"energy": 30})
    found = holding(
        [calibration(*TWO), other, calibration(*TWO, RETIRED), None], THURSDAY, include_provisional=False
    )
    assert [(item.operating_point["energy"], item.revision.revision_id) for item in found] == [
        (25, R2),
        (30, R2),
    ]


# What holds at a time, for any history that commands can make.

IDS = [UUID(int=n) for n in range(1, 7)]


@st.composite
def histories(draw: st.DrawFn) -> Calibration:
    state = calibration()
    for id in IDS[: draw(st.integers(0, len(IDS)))]:
        start, length = draw(st.integers(-3, 3)), draw(st.integers(0, 4))
        free = [
            each.revision_id
            for each in state.revisions
            if each.status != "Withdrawn" and each.superseded_by_revision_id is None
        ]
        event = appended(
            id,
            day(start),
            valid_until=day(start + length) if length else None,
            occurred_at=day(draw(st.integers(0, 2))),
            supersedes_revision_id=draw(st.sampled_from([None, *free])),
        )
        state = calibrations.evolve(state, event)
        for each in state.revisions:
            if each.status == "Provisional" and draw(st.booleans()):
                state = calibrations.evolve(state, verified(each.revision_id))
        for each in state.revisions:
            if each.status != "Withdrawn" and draw(st.integers(0, 4)) == 0:
                state = calibrations.evolve(state, withdrawn(each.revision_id))
    return state


moments = st.integers(-5, 8).map(day)


def qualifies(revision: CalibrationRevision, at: datetime, *, include_provisional: bool) -> bool:
    trusted = {CalibrationRevisionStatus.VERIFIED}
    if include_provisional:
        trusted.add(CalibrationRevisionStatus.PROVISIONAL)
    begun = revision.valid_from <= at
    over = revision.valid_until is not None and revision.valid_until <= at
    return revision.status in trusted and begun and not over


@given_any(histories(), moments, st.booleans())
def test_what_holds_qualifies_and_something_holds_whenever_anything_does(
    state: Calibration, at: datetime, include_provisional: bool
) -> None:
    found = state.current_at(at, include_provisional=include_provisional)
    able = [each for each in state.revisions if qualifies(each, at, include_provisional=include_provisional)]
    assert (found is None) == (not able)
    assert found is None or found in able


@given_any(histories(), moments, st.booleans())
def test_nothing_that_qualifies_and_was_not_replaced_is_valid_later_than_what_holds(
    state: Calibration, at: datetime, include_provisional: bool
) -> None:
    found = state.current_at(at, include_provisional=include_provisional)
    for each in state.revisions:
        if (
            qualifies(each, at, include_provisional=include_provisional)
            and not each.superseded_by_revision_id
        ):
            assert found is not None
            assert (each.valid_from, each.established_at) <= (found.valid_from, found.established_at)


@given_any(histories(), moments, st.booleans())
def test_what_holds_was_replaced_by_nothing_that_qualifies(
    state: Calibration, at: datetime, include_provisional: bool
) -> None:
    found = state.current_at(at, include_provisional=include_provisional)
    while found is not None and found.superseded_by_revision_id is not None:
        found = state.revision(found.superseded_by_revision_id)
        assert not qualifies(found, at, include_provisional=include_provisional)


@given_any(histories(), moments)
def test_withdrawing_what_does_not_hold_changes_nothing_that_does(state: Calibration, at: datetime) -> None:
    found = state.current_at(at)
    for each in state.revisions:
        outside = not qualifies(each, at, include_provisional=False)
        if outside and each.status != "Withdrawn":
            after = calibrations.evolve(state, withdrawn(each.revision_id)).current_at(at)
            assert (after and after.revision_id) == (found and found.revision_id)
