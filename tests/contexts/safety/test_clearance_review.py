"""Review: current round, every role, no standing objection, and separated duties."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.safety.clearance import (
    ClearanceApproved,
    ClearanceApproverIsAuthorError,
    ClearanceReviewerIsAuthorError,
    ClearanceReviewerRoleConflictError,
    ClearanceReviewIncompleteError,
    ClearanceReviewStarted,
    ClearanceReviewStepAppended,
    ClearanceWindowRequiredError,
    ClearanceWindowTooLongError,
    InvalidClearanceReviewerNotesError,
    InvalidClearanceReviewerRoleError,
    InvalidClearanceValidityWindowError,
    ReviewDecision,
    ReviewStep,
)
from beamwright.contexts.safety.clearance_review import (
    AppendClearanceReviewStep,
    ApproveClearance,
    ClearanceUnderForm,
    StartClearanceReview,
)
from beamwright.kernel.errors import DomainError
from beamwright.kernel.event import Event
from beamwright.kernel.value import replace
from tests.contexts.safety.examples import (
    AUTHOR,
    BY_OFFICER,
    CHEMISTRY,
    CLEARANCE,
    DAY,
    OFFICER,
    RADIATION,
    REGISTERED,
    RETURNED,
    REVIEWED,
    STARTED,
    SUBMITTED,
    SUBMITTER,
    UNDER_REVIEW,
    by,
    clearance,
    step,
    template,
)
from tests.rules import NOW, outcome

YES, NO, NOT_YET = ReviewDecision
APPROVE = ApproveClearance(clearance_id=CLEARANCE)


def reviewed(*steps: Event, form: dict[str, Any] | None = None, **fields: Any) -> ClearanceUnderForm:
    """A clearance under review, with these steps, on a template with these fields."""
    pinned = template(**form or {})
    under_review = clearance(*UNDER_REVIEW, *steps, reviewer_roles=pinned.reviewer_roles, **fields)
    return ClearanceUnderForm(clearance=under_review, form=pinned.form(1))


def saying(role: str, decision: ReviewDecision = YES, notes: str | None = None) -> AppendClearanceReviewStep:
    return AppendClearanceReviewStep(clearance_id=CLEARANCE, role=role, decision=decision, notes=notes)


@pytest.mark.parametrize(
    ("steps", "complete"),
    [
        ([], False),
        ([("radiation", YES)], False),
        ([("radiation", YES), ("chemistry", YES)], True),
        ([("radiation", YES), ("chemistry", NOT_YET)], False),
        ([("radiation", YES), ("chemistry", NO)], False),
        ([("radiation", YES), ("chemistry", NOT_YET), ("chemistry", YES)], True),
        ([("radiation", YES), ("chemistry", YES), ("radiation", NO)], False),
    ],
)
def test_every_role_s_latest_word_is_an_approval(
    steps: list[tuple[str, ReviewDecision]], complete: bool
) -> None:
    seen = reviewed(*(step(role, RADIATION, decision) for role, decision in steps))
    got = outcome(APPROVE, seen, BY_OFFICER)
    assert isinstance(got, list) if complete else got == ClearanceReviewIncompleteError


@pytest.mark.parametrize(
    ("steps", "complete"),
    [
        ([], False),
        ([("anyone", YES)], True),
        ([("anyone", YES), ("another", NO)], False),
        ([("anyone", NO)], False),
    ],
)
def test_without_roles_one_approval_and_no_objection_suffice(
    steps: list[tuple[str, ReviewDecision]], complete: bool
) -> None:
    said = (step(role, RADIATION, decision) for role, decision in steps)
    got = outcome(APPROVE, reviewed(*said, form={"reviewer_roles": ()}), BY_OFFICER)
    assert isinstance(got, list) if complete else got == ClearanceReviewIncompleteError


def test_an_incomplete_review_names_who_is_missing_and_who_objects() -> None:
    seen = reviewed(step("chemistry", CHEMISTRY, NOT_YET))
    with pytest.raises(ClearanceReviewIncompleteError) as refused:
        APPROVE.decide(seen, BY_OFFICER)
    assert refused.value.context["missing_roles"] == ["radiation", "chemistry"]
    assert [each["role"] for each in refused.value.context["objections"]] == ["chemistry"]


def test_steps_of_an_earlier_round_do_not_count() -> None:
    again = replace(SUBMITTED, round=2)
    second = clearance(REGISTERED, SUBMITTED, STARTED, *REVIEWED, RETURNED, again, replace(STARTED, round=2))
    seen = ClearanceUnderForm(clearance=second, form=template().form(1))
    assert outcome(APPROVE, seen, BY_OFFICER) == ClearanceReviewIncompleteError
    assert [each.round for each in second.review_steps] == [1, 1]


def test_a_step_has_the_service_s_number_time_and_person() -> None:
    seen = reviewed(step("radiation", RADIATION))
    got = outcome(saying(" chemistry ", NOT_YET, " which gas? "), seen, by(CHEMISTRY))
    said = ReviewStep(
        index=2,
        round=1,
        role="chemistry",
        decision=NOT_YET,
        decided_by=CHEMISTRY,
        decided_at=NOW,
        notes="which gas?",
    )
    assert got == [ClearanceReviewStepAppended(clearance_id=CLEARANCE, occurred_at=NOW, step=said)]


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (saying("optics"), InvalidClearanceReviewerRoleError),
        (saying(" "), InvalidClearanceReviewerRoleError),
        (saying("radiation", notes=" "), InvalidClearanceReviewerNotesError),
        (saying("radiation", notes="x" * 2001), InvalidClearanceReviewerNotesError),
    ],
)
def test_a_bad_step_is_refused_by_its_value(
    command: AppendClearanceReviewStep, refusal: type[DomainError]
) -> None:
    assert outcome(command, reviewed(), by(RADIATION)) == refusal


def test_without_roles_any_role_reviews() -> None:
    assert isinstance(outcome(saying("optics"), reviewed(form={"reviewer_roles": ()})), list)


@pytest.mark.parametrize("person", [AUTHOR, SUBMITTER])
def test_separated_duties_keep_author_and_submitter_from_judging(person: UUID) -> None:
    assert outcome(saying("radiation"), reviewed(), by(person)) == ClearanceReviewerIsAuthorError
    assert outcome(APPROVE, reviewed(*REVIEWED), by(person)) == ClearanceApproverIsAuthorError


def test_separated_duties_keep_one_person_to_one_role_in_a_round() -> None:
    seen = reviewed(step("radiation", RADIATION))
    assert outcome(saying("chemistry"), seen, by(RADIATION)) == ClearanceReviewerRoleConflictError
    assert isinstance(outcome(saying("radiation", NO), seen, by(RADIATION)), list)


def test_a_role_of_an_earlier_round_binds_nobody() -> None:
    seen = reviewed(step("radiation", RADIATION, round=0))
    assert isinstance(outcome(saying("chemistry"), seen, by(RADIATION)), list)


def test_without_separated_duties_one_person_does_all() -> None:
    alone = {"separated_duties": False}
    first = reviewed(form=alone)
    assert isinstance(outcome(saying("radiation"), first, by(AUTHOR)), list)
    half = reviewed(step("radiation", AUTHOR), form=alone)
    assert isinstance(outcome(saying("chemistry"), half, by(AUTHOR)), list)
    whole = reviewed(step("radiation", AUTHOR), step("chemistry", AUTHOR), form=alone)
    assert isinstance(outcome(APPROVE, whole, by(AUTHOR)), list)


def test_the_author_is_told_before_the_missing_roles() -> None:
    assert outcome(APPROVE, reviewed(), by(AUTHOR)) == ClearanceApproverIsAuthorError


def test_an_approval_keeps_the_window_or_gives_another() -> None:
    seen = reviewed(*REVIEWED, valid_from=NOW, valid_until=NOW + DAY)
    kept = ClearanceApproved(
        clearance_id=CLEARANCE,
        occurred_at=NOW,
        valid_from=NOW,
        valid_until=NOW + DAY,
        approved_by=OFFICER,
    )
    assert outcome(APPROVE, seen, BY_OFFICER) == [kept]
    longer = replace(APPROVE, valid_until=NOW + 2 * DAY)
    assert outcome(longer, seen, BY_OFFICER) == [replace(kept, valid_until=NOW + 2 * DAY)]
    assert outcome(replace(APPROVE, valid_until=None), seen, BY_OFFICER) == [replace(kept, valid_until=None)]


def test_the_merged_window_is_what_counts() -> None:
    seen = reviewed(*REVIEWED, valid_until=NOW)
    late = replace(APPROVE, valid_from=NOW + DAY)
    assert outcome(late, seen, BY_OFFICER) == InvalidClearanceValidityWindowError


@pytest.mark.parametrize(
    ("begin", "end", "refusal"),
    [
        (None, None, ClearanceWindowRequiredError),
        (NOW, None, ClearanceWindowRequiredError),
        (None, NOW + DAY, ClearanceWindowRequiredError),
        (NOW, NOW + 31 * DAY, ClearanceWindowTooLongError),
        (NOW, NOW + 30 * DAY, None),
    ],
)
def test_a_template_that_limits_validity_asks_for_a_window(
    begin: Any, end: Any, refusal: type[DomainError] | None
) -> None:
    seen = reviewed(*REVIEWED, form={"valid_for": timedelta(days=30)}, valid_from=begin, valid_until=end)
    got = outcome(APPROVE, seen, BY_OFFICER)
    assert got == refusal if refusal else isinstance(got, list)


def test_a_review_begins_with_a_role_of_the_template() -> None:
    submitted = ClearanceUnderForm(clearance=clearance(REGISTERED, SUBMITTED), form=template().form(1))
    begin = StartClearanceReview(clearance_id=CLEARANCE, first_reviewer_role=" radiation ")
    assert outcome(begin, submitted, BY_OFFICER) == [
        ClearanceReviewStarted(
            clearance_id=CLEARANCE,
            occurred_at=NOW,
            round=1,
            first_reviewer_role="radiation",
            started_by=OFFICER,
        )
    ]
    optics = replace(begin, first_reviewer_role="optics")
    assert outcome(optics, submitted, BY_OFFICER) == InvalidClearanceReviewerRoleError


def test_missing_roles_are_those_whose_approval_does_not_stand() -> None:
    assert clearance(*UNDER_REVIEW).missing_roles == ["radiation", "chemistry"]
    objected = clearance(*UNDER_REVIEW, *REVIEWED, step("radiation", RADIATION, NO, index=3))
    assert objected.missing_roles == ["radiation"]
