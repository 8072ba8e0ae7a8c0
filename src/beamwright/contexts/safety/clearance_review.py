"""Review of clearances: people say yes, no or not yet in their roles, and somebody decides on that ground."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import UNSET, UnsetType

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, Value, patched

from .clearance import (
    LIFECYCLE,
    Clearance,
    ClearanceApproved,
    ClearanceApproverIsAuthorError,
    ClearanceRejected,
    ClearanceReturned,
    ClearanceReviewerIsAuthorError,
    ClearanceReviewerRoleConflictError,
    ClearanceReviewIncompleteError,
    ClearanceReviewStarted,
    ClearanceReviewStepAppended,
    ClearanceWindowRequiredError,
    ClearanceWindowTooLongError,
    InvalidClearanceReasonError,
    InvalidClearanceReviewerNotesError,
    InvalidClearanceReviewerRoleError,
    ReviewDecision,
    ReviewerRole,
    ReviewNotes,
    ReviewStep,
    check_human,
    checked_window,
    clearances,
)
from .clearance_template import ClearanceForm, clearance_templates


class ClearanceUnderForm(Value):
    """A clearance, and the form that it was written on."""

    clearance: Clearance
    form: ClearanceForm


class ClearanceReviewCommand(Command[ClearanceUnderForm]):
    """Base of the moves whose rules depend on the template as it was pinned."""

    clearance_id: UUID

    async def gather(self, world: World) -> ClearanceUnderForm:
        clearance = await world.load(clearances, self.clearance_id)
        template = await world.load(clearance_templates, clearance.template_id)
        return ClearanceUnderForm(clearance=clearance, form=template.form(clearance.template_version))


@clearances.operation("POST /clearances/{clearance_id}/start-review")
class StartClearanceReview(ClearanceReviewCommand):
    """Take a submitted clearance under review, and say which role looks at it first."""

    first_reviewer_role: ReviewerRole | None = None

    def decide(self, seen: ClearanceUnderForm, occasion: Occasion) -> ClearanceReviewStarted:
        clearance, role = seen.clearance, self.first_reviewer_role
        first = None if role is None else checked_role(role, seen.form)
        LIFECYCLE.check(ClearanceReviewStarted, clearance.status, clearance.id)
        return ClearanceReviewStarted(
            clearance_id=clearance.id,
            occurred_at=occasion.now,
            round=clearance.round,
            first_reviewer_role=first,
            started_by=occasion.principal_id,
        )


@clearances.operation("POST /clearances/{clearance_id}/review-steps/append")
class AppendClearanceReviewStep(ClearanceReviewCommand):
    """Say in a role what is thought of a clearance; an objection by itself decides nothing."""

    role: ReviewerRole
    decision: ReviewDecision
    notes: ReviewNotes | None = None

    def decide(self, seen: ClearanceUnderForm, occasion: Occasion) -> ClearanceReviewStepAppended:
        clearance, notes = seen.clearance, self.notes
        role = checked_role(self.role, seen.form)
        if notes is not None:
            notes = text.trimmed(notes, 2000, InvalidClearanceReviewerNotesError, "notes", prose=True)
        check_human(occasion, clearance.id)
        LIFECYCLE.check(ClearanceReviewStepAppended, clearance.status, clearance.id)
        if seen.form.separated_duties:
            check_not_author(clearance, occasion, ClearanceReviewerIsAuthorError)
            check_one_role(clearance, role, occasion)
        step = ReviewStep(
            index=len(clearance.review_steps) + 1,
            round=clearance.round,
            role=role,
            decision=self.decision,
            decided_by=occasion.principal_id,
            decided_at=occasion.now,
            notes=notes,
        )
        return ClearanceReviewStepAppended(clearance_id=clearance.id, occurred_at=occasion.now, step=step)


@clearances.operation("POST /clearances/{clearance_id}/return")
class ReturnClearance(Command[Clearance]):
    """Give a clearance back to its author, who revises and submits it again."""

    clearance_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Clearance:
        return await world.load(clearances, self.clearance_id)

    def decide(self, clearance: Clearance, occasion: Occasion) -> ClearanceReturned:
        reason = text.reason(self.reason, InvalidClearanceReasonError)
        LIFECYCLE.check(ClearanceReturned, clearance.status, clearance.id)
        return ClearanceReturned(
            clearance_id=clearance.id,
            occurred_at=occasion.now,
            round=clearance.round,
            reason=reason,
            returned_by=occasion.principal_id,
        )


@clearances.operation("POST /clearances/{clearance_id}/approve")
class ApproveClearance(ClearanceReviewCommand):
    """Approve a reviewed clearance, where needed with another window; it authorises nothing until activated."""

    valid_from: Time | UnsetType | None = UNSET
    valid_until: Time | UnsetType | None = UNSET

    def decide(self, seen: ClearanceUnderForm, occasion: Occasion) -> ClearanceApproved:
        clearance, form = seen.clearance, seen.form
        window = checked_window(
            patched(self.valid_from, clearance.valid_from), patched(self.valid_until, clearance.valid_until)
        )
        check_human(occasion, clearance.id)
        LIFECYCLE.check(ClearanceApproved, clearance.status, clearance.id)
        if form.separated_duties:
            check_not_author(clearance, occasion, ClearanceApproverIsAuthorError)
        check_review_complete(clearance)
        check_window_allowed(clearance, form, *window)
        return ClearanceApproved(
            clearance_id=clearance.id,
            occurred_at=occasion.now,
            valid_from=window[0],
            valid_until=window[1],
            approved_by=occasion.principal_id,
        )


@clearances.operation("POST /clearances/{clearance_id}/reject")
class RejectClearance(Command[Clearance]):
    """Reject a clearance for good."""

    clearance_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Clearance:
        return await world.load(clearances, self.clearance_id)

    def decide(self, clearance: Clearance, occasion: Occasion) -> ClearanceRejected:
        reason = text.reason(self.reason, InvalidClearanceReasonError)
        check_human(occasion, clearance.id)
        LIFECYCLE.check(ClearanceRejected, clearance.status, clearance.id)
        return ClearanceRejected(
            clearance_id=clearance.id,
            occurred_at=occasion.now,
            reason=reason,
            rejected_by=occasion.principal_id,
        )


def checked_role(given: str, form: ClearanceForm) -> str:
    role = text.trimmed(given, 50, InvalidClearanceReviewerRoleError, "role")
    if form.reviewer_roles and role not in form.reviewer_roles:
        raise InvalidClearanceReviewerRoleError(
            f"The template's roles are {', '.join(form.reviewer_roles)}.",
            role=role,
            roles=list(form.reviewer_roles),
        )
    return role


def check_not_author(clearance: Clearance, occasion: Occasion, refusal: type[ConflictError]) -> None:
    """Gate: whose work it is does not judge it."""
    if occasion.principal_id in (clearance.author_id, clearance.submitted_by):
        raise refusal(
            "The template separates duties: somebody other than the author and the submitter must do this.",
            clearance_id=str(clearance.id),
            author_id=str(clearance.author_id),
            submitted_by=str(clearance.submitted_by),
        )


def check_one_role(clearance: Clearance, role: str, occasion: Occasion) -> None:
    """Gate: one person does not stand for two roles in a round."""
    mine = (
        step.role
        for step in clearance.review_steps
        if step.round == clearance.round and step.decided_by == occasion.principal_id
    )
    if others := sorted(set(mine) - {role}):
        raise ClearanceReviewerRoleConflictError(
            f"You acted as {', '.join(others)} in this round; somebody else must act as {role}.",
            clearance_id=str(clearance.id),
            acted_as=others,
            role=role,
        )


def check_review_complete(clearance: Clearance) -> None:
    """Gate: this round has an approval, every role's approval, and no objection that stands."""
    missing, objections = clearance.missing_roles, clearance.objections
    if clearance.latest_steps and not missing and not objections:
        return
    raise ClearanceReviewIncompleteError(
        incomplete(missing, objections),
        clearance_id=str(clearance.id),
        round=clearance.round,
        missing_roles=missing,
        objections=[
            {"index": step.index, "role": step.role, "decision": step.decision} for step in objections
        ],
    )


def incomplete(missing: Sequence[str], objections: Sequence[ReviewStep]) -> str:
    """What the review lacks, in a sentence."""
    said = [f"{step.role} said {step.decision}" for step in objections]
    objecting = {step.role for step in objections}
    said += [f"{role} has not approved" for role in missing if role not in objecting]
    return f"{'; '.join(said) or 'Nobody has approved'} in this round."


def check_window_allowed(
    clearance: Clearance, form: ClearanceForm, valid_from: datetime | None, valid_until: datetime | None
) -> None:
    """Gate: where the template says how long a clearance may last, it has a window, and none longer."""
    if form.valid_for is None:
        return
    days = form.valid_for.days
    if valid_from is None or valid_until is None:
        raise ClearanceWindowRequiredError(
            f"The template allows {days} days at most: give valid_from and valid_until.",
            clearance_id=str(clearance.id),
            most_days=days,
        )
    if valid_until - valid_from > form.valid_for:
        raise ClearanceWindowTooLongError(
            f"The window is longer than the {days} days that the template allows.",
            clearance_id=str(clearance.id),
            most_days=days,
            valid_from=valid_from.isoformat(),
            valid_until=valid_until.isoformat(),
        )
