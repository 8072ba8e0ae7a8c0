"""Clearance: one filled form: what work on what, for how long, reviewed by whom."""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    DeniedError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.external_refs import GivenRef, assigned
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.observing import TriggerSource
from beamwright.kernel.operation import Occasion, World
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import Time, Value, replace

from .values import Binding, BindingKind, HazardDeclaration, RiskBand

AMENDMENT_CLAIM = "clearance-amendment"
# A window without beginning or end, as a column that can be compared.
_ALWAYS = datetime(1000, 1, 1, tzinfo=UTC)
_FOR_EVER = datetime(9000, 1, 1, tzinfo=UTC)

type ReviewerRole = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 50})]
type ReviewNotes = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 2000, "x-may-contain-personal-data": True})
]


class ClearanceStatus(StrEnum):
    DEFINED = "Defined"
    SUBMITTED = "Submitted"
    UNDER_REVIEW = "UnderReview"
    APPROVED = "Approved"
    ACTIVE = "Active"
    EXPIRED = "Expired"
    REJECTED = "Rejected"
    SUPERSEDED = "Superseded"
    WITHDRAWN = "Withdrawn"


class ReviewDecision(StrEnum):
    APPROVED = "Approved"
    REJECTED = "Rejected"
    REQUESTED_CHANGES = "RequestedChanges"


class ClearanceNotFoundError(NotFoundError):
    """There is no such clearance."""


class InvalidClearanceTitleError(InvalidError):
    """The clearance's title is blank or too long."""


class InvalidClearanceValidityWindowError(InvalidError):
    """The window ends before it begins."""


class InvalidClearanceAnswersError(InvalidError):
    """The answers do not meet the form's schema."""


class InvalidClearanceExternalRefError(InvalidError):
    """The external reference's scheme, value or authority is malformed."""


class InvalidClearanceReasonError(InvalidError):
    """The reason is blank or too long."""


class InvalidClearanceReviewerRoleError(InvalidError):
    """The reviewer's role is blank, too long or not one of the template's."""


class InvalidClearanceReviewerNotesError(InvalidError):
    """The reviewer's notes are blank or too long."""


class ClearanceRequiresHumanError(DeniedError):
    """Only people review, approve, reject and activate clearances, whatever a policy grants."""


class ClearanceTemplateNotBindableError(ConflictError):
    """New clearances need an Active template."""


class ClearanceBindingFacilityMismatchError(ConflictError):
    """A bound thing's facility is not related to the clearance's."""


class ClearanceAnswersRequiredError(ConflictError):
    """The form asks for answers that are absent."""


class ClearanceDeclarationsRequiredError(ConflictError):
    """The template asks for a hazard declaration of a binding that has none."""


class ClearanceReviewerIsAuthorError(ConflictError):
    """Duties are separated: who wrote or submitted a clearance does not review it."""


class ClearanceReviewerRoleConflictError(ConflictError):
    """Duties are separated: one person acts in one role in a round."""


class ClearanceApproverIsAuthorError(ConflictError):
    """Duties are separated: who wrote or submitted a clearance does not approve it."""


class ClearanceReviewIncompleteError(ConflictError):
    """A role has not approved in this round, or its latest word is an objection."""


class ClearanceWindowRequiredError(ConflictError):
    """The template limits how long a clearance lasts, so it needs a window."""


class ClearanceWindowTooLongError(ConflictError):
    """The window is longer than the template allows."""


class ClearanceWindowLapsedError(ConflictError):
    """The window is over already."""


class ClearanceTemplateWithdrawnError(ConflictError):
    """The template was withdrawn, so what is under way is not activated any more."""


class ClearanceNotDueError(ConflictError):
    """Only a person expires a clearance before its time."""


class ClearanceAmendmentOpenError(ConflictError):
    """An amendment of this clearance is under way already."""


class ClearanceExternalRefAlreadyAssignedError(ConflictError):
    """The clearance has another value of this scheme."""


class ClearanceExternalRefTakenError(ConflictError):
    """Another object has this external reference."""


class ClearanceCannotReviseError(CannotTransitionError):
    """Only a draft is revised; return it first."""


class ClearanceCannotSubmitError(CannotTransitionError):
    """Only a draft is submitted."""


class ClearanceCannotStartReviewError(CannotTransitionError):
    """Only a submitted clearance goes under review."""


class ClearanceCannotAppendReviewStepError(CannotTransitionError):
    """The clearance is not under review."""


class ClearanceCannotReturnError(CannotTransitionError):
    """Only what was submitted and is not yet in force goes back to its author."""


class ClearanceCannotApproveError(CannotTransitionError):
    """Only a clearance under review is approved."""


class ClearanceCannotRejectError(CannotTransitionError):
    """Only what is submitted or under review is rejected."""


class ClearanceCannotActivateError(CannotTransitionError):
    """Only an approved clearance is activated."""


class ClearanceCannotExpireError(CannotTransitionError):
    """Only an active clearance expires."""


class ClearanceCannotWithdrawError(CannotTransitionError):
    """Only what is not yet in force is withdrawn."""


class ClearanceCannotAmendError(CannotTransitionError):
    """Only an active clearance is amended."""


class ReviewStep(Value):
    """What one person said in one role; the number, time and person are the service's."""

    index: int
    round: int
    role: str
    decision: ReviewDecision
    decided_by: UUID
    decided_at: Time
    notes: ReviewNotes | None = None


class ClearanceFact(Event):
    clearance_id: UUID


class ClearanceRegistered(ClearanceFact):
    template_id: UUID
    template_code: str
    template_version: int
    facility_code: str
    title: str
    answers: dict[str, Any]
    bindings: tuple[Binding, ...]
    declarations: tuple[HazardDeclaration, ...]
    risk_band: RiskBand | None
    valid_from: datetime | None
    valid_until: datetime | None
    reviewer_roles: tuple[str, ...]
    external_refs: dict[str, GivenRef]
    parent_id: UUID | None
    registered_by: UUID


class ClearanceRevised(ClearanceFact):
    title: str
    answers: dict[str, Any]
    bindings: tuple[Binding, ...]
    declarations: tuple[HazardDeclaration, ...]
    risk_band: RiskBand | None
    valid_from: datetime | None
    valid_until: datetime | None
    revised_by: UUID


class ClearanceSubmitted(ClearanceFact):
    round: int
    submitted_by: UUID


class ClearanceReviewStarted(ClearanceFact):
    round: int
    first_reviewer_role: str | None
    started_by: UUID


class ClearanceReviewStepAppended(ClearanceFact):
    step: ReviewStep


class ClearanceReturned(ClearanceFact):
    round: int
    reason: str
    returned_by: UUID


class ClearanceApproved(ClearanceFact):
    valid_from: datetime | None
    valid_until: datetime | None
    approved_by: UUID


class ClearanceRejected(ClearanceFact):
    reason: str
    rejected_by: UUID


class ClearanceActivated(ClearanceFact):
    activated_by: UUID


class ClearanceSuperseded(ClearanceFact):
    superseded_by_clearance_id: UUID
    superseded_by: UUID


class ClearanceExpired(ClearanceFact):
    reason: str
    valid_until: datetime | None
    trigger: TriggerSource
    decided_by_decision_id: UUID | None
    expired_by: UUID


class ClearanceWithdrawn(ClearanceFact):
    reason: str
    withdrawn_by: UUID


class ClearanceExternalRefAssigned(ClearanceFact):
    scheme: str
    value: str
    authority: str
    assigned_by: UUID


type ClearanceEvent = (
    ClearanceRegistered
    | ClearanceRevised
    | ClearanceSubmitted
    | ClearanceReviewStarted
    | ClearanceReviewStepAppended
    | ClearanceReturned
    | ClearanceApproved
    | ClearanceRejected
    | ClearanceActivated
    | ClearanceSuperseded
    | ClearanceExpired
    | ClearanceWithdrawn
    | ClearanceExternalRefAssigned
)
type ClearanceReviewEvent = (
    ClearanceSubmitted
    | ClearanceReviewStarted
    | ClearanceReviewStepAppended
    | ClearanceReturned
    | ClearanceApproved
)
type ClearanceClosingEvent = ClearanceRejected | ClearanceSuperseded | ClearanceExpired | ClearanceWithdrawn

(
    DEFINED,
    SUBMITTED,
    UNDER_REVIEW,
    APPROVED,
    ACTIVE,
    EXPIRED,
    REJECTED,
    SUPERSEDED,
    WITHDRAWN,
) = ClearanceStatus
UNDER_WAY = frozenset({DEFINED, SUBMITTED, UNDER_REVIEW, APPROVED})
IN_REVIEW = frozenset({SUBMITTED, UNDER_REVIEW})

LIFECYCLE = StateMachine[ClearanceStatus](
    {
        ClearanceRevised: move({DEFINED}, DEFINED, ClearanceCannotReviseError),
        ClearanceSubmitted: move({DEFINED}, SUBMITTED, ClearanceCannotSubmitError),
        ClearanceReviewStarted: move({SUBMITTED}, UNDER_REVIEW, ClearanceCannotStartReviewError),
        ClearanceReviewStepAppended: move({UNDER_REVIEW}, UNDER_REVIEW, ClearanceCannotAppendReviewStepError),
        ClearanceReturned: move({*IN_REVIEW, APPROVED}, DEFINED, ClearanceCannotReturnError),
        ClearanceApproved: move({UNDER_REVIEW}, APPROVED, ClearanceCannotApproveError),
        ClearanceRejected: move(IN_REVIEW, REJECTED, ClearanceCannotRejectError),
        ClearanceActivated: move({APPROVED}, ACTIVE, ClearanceCannotActivateError),
        ClearanceSuperseded: move({ACTIVE}, SUPERSEDED, ClearanceCannotAmendError),
        ClearanceExpired: move({ACTIVE}, EXPIRED, ClearanceCannotExpireError),
        ClearanceWithdrawn: move(UNDER_WAY, WITHDRAWN, ClearanceCannotWithdrawError),
    }
)


class Clearance(Value):
    id: UUID
    template_id: UUID
    template_code: str
    template_version: int
    facility_code: str
    title: str
    answers: dict[str, Any]
    bindings: tuple[Binding, ...]
    declarations: tuple[HazardDeclaration, ...]
    risk_band: RiskBand | None
    valid_from: Time | None
    valid_until: Time | None
    status: ClearanceStatus = ClearanceStatus.DEFINED
    round: int = 0
    reviewer_roles: tuple[str, ...]
    review_steps: tuple[ReviewStep, ...] = ()
    parent_id: UUID | None = None
    external_refs: dict[str, ExternalRef] = {}
    author_id: UUID
    submitted_by: UUID | None = None
    approved_by: UUID | None = None
    activated_by: UUID | None = None
    closed_by: UUID | None = None
    status_reason: text.Reason | None = None
    registered_at: Time

    @property
    def visit_ids(self) -> frozenset[UUID]:
        return frozenset(
            binding.id for binding in self.bindings if binding.kind is BindingKind.VISIT and binding.id
        )

    @property
    def latest_steps(self) -> dict[str, ReviewStep]:
        """The latest word of each role in this round; earlier rounds are history."""
        return {step.role: step for step in self.review_steps if step.round == self.round}

    @property
    def objections(self) -> list[ReviewStep]:
        """Latest words of this round that are not an approval."""
        latest = self.latest_steps.values()
        return [step for step in latest if step.decision is not ReviewDecision.APPROVED]

    @property
    def missing_roles(self) -> list[str]:
        """The template's roles that have not approved in this round, or no longer do."""
        latest = self.latest_steps
        return [
            role
            for role in self.reviewer_roles
            if role not in latest or latest[role].decision is not ReviewDecision.APPROVED
        ]

    def in_force(self, at: datetime) -> bool:
        """Whether it authorises at that time; a stopped expirer never lengthens that."""
        begun = self.valid_from is None or self.valid_from <= at
        over = self.valid_until is not None and self.valid_until <= at
        return self.status is ClearanceStatus.ACTIVE and begun and not over


def evolve(clearance: Clearance | None, event: ClearanceEvent) -> Clearance:
    match event:
        case ClearanceRegistered():
            return registered(event)
        case _ if clearance is None:
            raise ValueError(event)
        case ClearanceRevised():
            return revised(clearance, event)
        case (
            ClearanceSubmitted()
            | ClearanceReviewStarted()
            | ClearanceReviewStepAppended()
            | ClearanceReturned()
            | ClearanceApproved()
        ):
            return reviewed(clearance, event)
        case ClearanceActivated():
            return replace(clearance, status=LIFECYCLE.after(event), activated_by=event.activated_by)
        case ClearanceExternalRefAssigned():
            ref = ExternalRef(value=event.value, authority=event.authority, assigned_at=event.occurred_at)
            return replace(clearance, external_refs={**clearance.external_refs, event.scheme: ref})
        case _:
            return closed(clearance, event)


def registered(event: ClearanceRegistered) -> Clearance:
    return Clearance(
        id=event.clearance_id,
        template_id=event.template_id,
        template_code=event.template_code,
        template_version=event.template_version,
        facility_code=event.facility_code,
        title=event.title,
        answers=event.answers,
        bindings=event.bindings,
        declarations=event.declarations,
        risk_band=event.risk_band,
        valid_from=event.valid_from,
        valid_until=event.valid_until,
        reviewer_roles=event.reviewer_roles,
        parent_id=event.parent_id,
        external_refs={
            scheme: assigned(ref, event.occurred_at) for scheme, ref in event.external_refs.items()
        },
        author_id=event.registered_by,
        registered_at=event.occurred_at,
    )


def revised(clearance: Clearance, event: ClearanceRevised) -> Clearance:
    return replace(
        clearance,
        title=event.title,
        answers=event.answers,
        bindings=event.bindings,
        declarations=event.declarations,
        risk_band=event.risk_band,
        valid_from=event.valid_from,
        valid_until=event.valid_until,
    )


def reviewed(clearance: Clearance, event: ClearanceReviewEvent) -> Clearance:
    clearance = replace(clearance, status=LIFECYCLE.after(event))
    match event:
        case ClearanceSubmitted():
            by, number = event.submitted_by, event.round
            return replace(clearance, round=number, submitted_by=by, status_reason=None)
        case ClearanceReviewStarted():
            return clearance
        case ClearanceReviewStepAppended():
            return replace(clearance, review_steps=(*clearance.review_steps, event.step))
        case ClearanceReturned():
            return replace(clearance, submitted_by=None, approved_by=None, status_reason=event.reason)
        case ClearanceApproved():
            begin, end = event.valid_from, event.valid_until
            return replace(clearance, valid_from=begin, valid_until=end, approved_by=event.approved_by)
        case _:
            assert_never(event)


def closed(clearance: Clearance, event: ClearanceClosingEvent) -> Clearance:
    """The four ends."""
    match event:
        case ClearanceRejected():
            by, reason = event.rejected_by, event.reason
        case ClearanceExpired():
            by, reason = event.expired_by, event.reason
        case ClearanceWithdrawn():
            by, reason = event.withdrawn_by, event.reason
        case ClearanceSuperseded():
            by, reason = event.superseded_by, None
        case _:
            assert_never(event)
    return replace(clearance, status=LIFECYCLE.after(event), closed_by=by, status_reason=reason)


def claims(clearance: Clearance) -> list[Claim]:
    """An external number names one object; a clearance has one amendment under way."""
    claimed = [
        Claim(kind="external-ref", key=f"{scheme}:{ref.value}", taken=ClearanceExternalRefTakenError)
        for scheme, ref in clearance.external_refs.items()
    ]
    if clearance.parent_id is not None and clearance.status in UNDER_WAY:
        claimed.append(
            Claim(kind=AMENDMENT_CLAIM, key=str(clearance.parent_id), taken=ClearanceAmendmentOpenError)
        )
    return claimed


clearances = Aggregate[Clearance, ClearanceEvent](
    "Clearance",
    events=ClearanceEvent,
    evolve=evolve,
    missing=ClearanceNotFoundError,
    belongs=lambda clearance: Belonging(
        facility_code=clearance.facility_code,
        visit_ids=clearance.visit_ids,
        owner_id=clearance.author_id,
    ),
    claims=claims,
)


class ClearanceExtras(Value):
    """Whether it authorises now, who still has to approve, and the amendment under way."""

    in_force: bool
    missing_roles: list[str]
    open_amendment_id: UUID | None


async def clearance_extras(world: World, states: Sequence[Clearance]) -> list[ClearanceExtras]:
    # Only what was in force can have been amended.
    parents = frozenset(each.id for each in states if each.status in (ACTIVE, EXPIRED))
    children = await world.look_up("Clearance", parent_id=parents) if parents else None
    amendments = {child.parent_id: child.id for child in children or () if child.status in UNDER_WAY}
    return [
        ClearanceExtras(
            in_force=each.in_force(world.now),
            missing_roles=each.missing_roles if each.status in IN_REVIEW else [],
            open_amendment_id=amendments.get(each.id),
        )
        for each in states
    ]


# `in_force_at` asks for the two columns that begin with `in_force`; the list's own request gives them.
clearances.reads(
    "/clearances",
    filters=(
        "template_id",
        "template_code",
        Filter(name="status", type=frozenset[ClearanceStatus], of=lambda c: c.status, test=Test.ONE_OF),
        "risk_band",
        "facility_code",
        "author_id",
        Filter(
            name="binds",
            type=frozenset[str],
            of=lambda c: [binding.key for binding in c.bindings],
            test=Test.CONTAINS_ANY,
        ),
        Filter(name="in_force_from", type=Time, of=lambda c: c.valid_from or _ALWAYS, test=Test.BEFORE),
        Filter(
            name="in_force_until",
            type=Time,
            of=lambda c: (c.valid_until or _FOR_EVER) if c.status is ACTIVE else None,
            test=Test.AT_LEAST,
        ),
        Filter(name="valid_until_before", type=Time, of=lambda c: c.valid_until, test=Test.BEFORE),
        Filter(
            name="awaiting_role",
            type=str,
            of=lambda c: c.missing_roles if c.status in IN_REVIEW else [],
            test=Test.CONTAINS,
        ),
        Filter(name="external_scheme", type=str, of=lambda c: sorted(c.external_refs), test=Test.CONTAINS),
        Filter(
            name="external_value",
            type=str,
            of=lambda c: sorted({ref.value for ref in c.external_refs.values()}),
            test=Test.CONTAINS,
        ),
        Filter(name="parent_id", type=frozenset[UUID], of=lambda c: c.parent_id, test=Test.ONE_OF),
        Filter(name="created_from", type=Time, of=lambda c: c.registered_at, test=Test.AT_LEAST),
        Filter(name="created_until", type=Time, of=lambda c: c.registered_at, test=Test.BEFORE),
    ),
    sorts=("created_at", "valid_until", "updated_at"),
    text=("title", "status_reason"),
    extras=(ClearanceExtras, clearance_extras),
    lists=False,
)


def check_human(occasion: Occasion, clearance_id: UUID) -> None:
    """Gate: judgement about safety is a person's, whatever a policy grants."""
    if occasion.principal_kind != ActorKind.HUMAN:
        raise ClearanceRequiresHumanError(
            "Only a person reviews, approves, rejects and activates clearances; ask one.",
            clearance_id=str(clearance_id),
            principal_kind=occasion.principal_kind,
        )


def checked_window(
    valid_from: datetime | None, valid_until: datetime | None
) -> tuple[datetime | None, datetime | None]:
    if valid_from is not None and valid_until is not None and valid_from >= valid_until:
        raise InvalidClearanceValidityWindowError(
            f"The window would begin at {valid_from.isoformat()} and end at {valid_until.isoformat()}.",
            valid_from=valid_from.isoformat(),
            valid_until=valid_until.isoformat(),
        )
    return valid_from, valid_until
