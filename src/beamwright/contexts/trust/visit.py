"""Visit: one stay of a team at a facility, who belongs to it, who is present, what it may control."""

from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.roles import VisitRole, VisitStatus
from beamwright.kernel.value import Time, Value, replace

CODE = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,49}$"
SCHEME = r"^[a-z0-9-]{1,50}$"
MOST_MEMBERS = 200
MOST_EXTERNAL_REFS = 20


class VisitType(StrEnum):
    """What a visit is for."""

    USER = "User"
    COMMISSIONING = "Commissioning"
    MAINTENANCE = "Maintenance"
    CALIBRATION = "Calibration"
    STAFF = "Staff"


class PresenceMode(StrEnum):
    """Where a present member is."""

    PHYSICAL = "Physical"
    REMOTE = "Remote"


NOT_ENDED = frozenset(
    {VisitStatus.PLANNED, VisitStatus.ARRIVED, VisitStatus.IN_PROGRESS, VisitStatus.ON_HOLD}
)


class VisitNotFoundError(NotFoundError):
    """There is no such visit."""


class InvalidVisitCodeError(InvalidError):
    """The visit's code is not of the form that people use."""


class InvalidVisitTitleError(InvalidError):
    """The visit's title is blank or too long."""


class InvalidVisitPlannedPeriodError(InvalidError):
    """The planned end is not after the planned start."""


class InvalidVisitMembersError(InvalidError):
    """The visit has too many members."""


class InvalidVisitExternalRefError(InvalidError):
    """An external reference is malformed, or there are too many."""


class InvalidVisitReasonError(InvalidError):
    """The reason is blank or too long."""


class VisitCodeTakenError(ConflictError):
    """Another visit of this facility has this code."""


class VisitCannotRescheduleError(CannotTransitionError):
    """The visit has ended."""


class VisitCannotRecordArrivalError(CannotTransitionError):
    """Only a planned visit arrives."""


class VisitCannotStartError(CannotTransitionError):
    """Only a visit that has arrived starts."""


class VisitCannotHoldError(CannotTransitionError):
    """Only a visit in progress is put on hold."""


class VisitCannotResumeError(CannotTransitionError):
    """Only a visit on hold resumes."""


class VisitCannotCompleteError(CannotTransitionError):
    """Only a visit that was started completes."""


class VisitCannotCancelError(CannotTransitionError):
    """Only a visit that has not started is cancelled."""


class VisitCannotAbortError(CannotTransitionError):
    """Only a visit that was started is aborted."""


class VisitCannotVoidError(CannotTransitionError):
    """The visit has ended."""


class VisitCannotRemoveMemberError(CannotTransitionError):
    """The visit has ended."""


class VisitMemberNotPresentError(ConflictError):
    """The actor is no member of the visit."""


class VisitFact(Event):
    visit_id: UUID


class VisitRegistered(VisitFact):
    code: str
    title: str
    facility_code: str
    surface_id: UUID
    policy_id: UUID | None
    type: VisitType
    planned_start_at: datetime
    planned_end_at: datetime
    parent_id: UUID | None
    members: dict[UUID, VisitRole]
    external_refs: dict[str, ExternalRef]


class VisitRescheduled(VisitFact):
    planned_start_at: datetime
    planned_end_at: datetime
    reason: str


class VisitArrived(VisitFact):
    """The team is at the facility."""


class VisitStarted(VisitFact):
    """The team has begun its work."""


class VisitHeld(VisitFact):
    reason: str


class VisitResumed(VisitFact):
    """The team goes on."""


class VisitCompleted(VisitFact):
    """The team did what it came for."""


class VisitCancelled(VisitFact):
    reason: str


class VisitAborted(VisitFact):
    reason: str


class VisitVoided(VisitFact):
    reason: str


class VisitMemberAdded(VisitFact):
    actor_id: UUID
    role: VisitRole


class VisitMemberRemoved(VisitFact):
    actor_id: UUID
    reason: str


class VisitExternalRefAssigned(VisitFact):
    scheme: str
    value: str
    authority: str


class VisitPresenceOpened(VisitFact):
    actor_id: UUID
    mode: PresenceMode


class VisitPresenceClosed(VisitFact):
    actor_id: UUID
    reason: str | None = None


type VisitMove = (
    VisitArrived
    | VisitStarted
    | VisitHeld
    | VisitResumed
    | VisitCompleted
    | VisitCancelled
    | VisitAborted
    | VisitVoided
)
type VisitEvent = (
    VisitRegistered
    | VisitRescheduled
    | VisitArrived
    | VisitStarted
    | VisitHeld
    | VisitResumed
    | VisitCompleted
    | VisitCancelled
    | VisitAborted
    | VisitVoided
    | VisitMemberAdded
    | VisitMemberRemoved
    | VisitExternalRefAssigned
    | VisitPresenceOpened
    | VisitPresenceClosed
)

_STARTED = {VisitStatus.IN_PROGRESS, VisitStatus.ON_HOLD}
_UPCOMING = {VisitStatus.PLANNED, VisitStatus.ARRIVED}

LIFECYCLE = StateMachine[VisitStatus](
    {
        VisitArrived: move({VisitStatus.PLANNED}, VisitStatus.ARRIVED, VisitCannotRecordArrivalError),
        VisitStarted: move({VisitStatus.ARRIVED}, VisitStatus.IN_PROGRESS, VisitCannotStartError),
        VisitHeld: move({VisitStatus.IN_PROGRESS}, VisitStatus.ON_HOLD, VisitCannotHoldError),
        VisitResumed: move({VisitStatus.ON_HOLD}, VisitStatus.IN_PROGRESS, VisitCannotResumeError),
        VisitCompleted: move(_STARTED, VisitStatus.COMPLETED, VisitCannotCompleteError),
        VisitCancelled: move(_UPCOMING, VisitStatus.CANCELLED, VisitCannotCancelError),
        VisitAborted: move(_STARTED, VisitStatus.ABORTED, VisitCannotAbortError),
        VisitVoided: move(NOT_ENDED, VisitStatus.VOIDED, VisitCannotVoidError),
    }
)


class Presence(Value):
    """One time that a member was there."""

    actor_id: UUID
    mode: PresenceMode
    opened_at: datetime
    closed_at: datetime | None = None

    @property
    def open(self) -> bool:
        return self.closed_at is None


class Visit(Value):
    id: UUID
    code: str
    title: str
    facility_code: str
    surface_id: UUID
    policy_id: UUID | None
    type: VisitType
    planned_start_at: datetime
    planned_end_at: datetime
    parent_id: UUID | None
    members: dict[UUID, VisitRole]
    presence: tuple[Presence, ...] = ()
    external_refs: dict[str, ExternalRef]
    status: VisitStatus = VisitStatus.PLANNED
    last_status_reason: str | None = None
    arrived_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def ended(self) -> bool:
        return self.status not in NOT_ENDED

    def open_presence(self, actor_id: UUID) -> Presence | None:
        """The open entry of `actor_id`: whether, and since when, it is present."""
        return next((entry for entry in self.presence if entry.open and entry.actor_id == actor_id), None)


def evolve(visit: Visit | None, event: VisitEvent) -> Visit:
    match event:
        case VisitRegistered():
            return _registered(event)
        case _ if visit is None:
            raise ValueError(event)
        case VisitRescheduled():
            return replace(
                visit, planned_start_at=event.planned_start_at, planned_end_at=event.planned_end_at
            )
        case VisitArrived():
            return replace(_moved(visit, event), arrived_at=event.occurred_at)
        case VisitStarted():
            return replace(_moved(visit, event), started_at=event.occurred_at)
        case VisitHeld():
            return _moved(visit, event, event.reason)
        case VisitResumed():
            return _moved(visit, event)
        case VisitCompleted():
            return _ended(_moved(visit, event), event.occurred_at)
        case VisitCancelled() | VisitAborted() | VisitVoided():
            return _ended(_moved(visit, event, event.reason), event.occurred_at)
        case VisitMemberAdded():
            return replace(visit, members=visit.members | {event.actor_id: event.role})
        case VisitMemberRemoved():
            members = {id: role for id, role in visit.members.items() if id != event.actor_id}
            return replace(_left(visit, {event.actor_id}, event.occurred_at), members=members)
        case VisitExternalRefAssigned():
            ref = ExternalRef(value=event.value, authority=event.authority, assigned_at=event.occurred_at)
            return replace(visit, external_refs=visit.external_refs | {event.scheme: ref})
        case VisitPresenceOpened():
            entry = Presence(actor_id=event.actor_id, mode=event.mode, opened_at=event.occurred_at)
            return replace(visit, presence=(*visit.presence, entry))
        case VisitPresenceClosed():
            return _left(visit, {event.actor_id}, event.occurred_at)
        case _:
            assert_never(event)


def _registered(event: VisitRegistered) -> Visit:
    return Visit(
        id=event.visit_id,
        code=event.code,
        title=event.title,
        facility_code=event.facility_code,
        surface_id=event.surface_id,
        policy_id=event.policy_id,
        type=event.type,
        planned_start_at=event.planned_start_at,
        planned_end_at=event.planned_end_at,
        parent_id=event.parent_id,
        members=event.members,
        external_refs=event.external_refs,
    )


def _moved(visit: Visit, event: VisitMove, reason: str | None = None) -> Visit:
    return replace(visit, status=LIFECYCLE.after(event), last_status_reason=reason)


def _ended(visit: Visit, at: datetime) -> Visit:
    """An end sends everybody home."""
    return replace(_left(visit, {entry.actor_id for entry in visit.presence}, at), ended_at=at)


def _left(visit: Visit, actor_ids: Collection[UUID], at: datetime) -> Visit:
    entries = (
        replace(entry, closed_at=at) if entry.open and entry.actor_id in actor_ids else entry
        for entry in visit.presence
    )
    return replace(visit, presence=tuple(entries))


def claims(visit: Visit) -> list[Claim]:
    """A code names one visit of its facility for ever."""
    key = f"{visit.facility_code}/{visit.code}"
    return [Claim(kind="visit-code", key=key, taken=VisitCodeTakenError)]


visits = Aggregate[Visit, VisitEvent](
    "Visit",
    events=VisitEvent,
    evolve=evolve,
    missing=VisitNotFoundError,
    belongs=lambda visit: Belonging(facility_code=visit.facility_code, visit_ids=frozenset({visit.id})),
    claims=claims,
    authority=True,
)


def check_not_ended(visit: Visit, error: type[CannotTransitionError]) -> None:
    """What has ended is not changed any more."""
    if visit.ended:
        raise error.of(visit.id, visit.status, NOT_ENDED)


def check_planned_period(start: datetime, end: datetime) -> None:
    if end <= start:
        raise InvalidVisitPlannedPeriodError(
            "The planned end must be after the planned start.",
            planned_start_at=start.isoformat(),
            planned_end_at=end.isoformat(),
        )


def external_ref(scheme: str, value: str, authority: str, at: datetime) -> tuple[str, ExternalRef]:
    """A checked reference, under its scheme."""
    scheme = text.code(scheme, SCHEME, InvalidVisitExternalRefError, "scheme")
    ref = ExternalRef(
        value=text.trimmed(value, 200, InvalidVisitExternalRefError, "value"),
        authority=text.trimmed(authority, 200, InvalidVisitExternalRefError, "authority"),
        assigned_at=at,
    )
    if ref.value.casefold().startswith(f"{scheme}:"):
        raise InvalidVisitExternalRefError("Give the value without its scheme prefix.", scheme=scheme)
    return scheme, ref


def check_external_ref_count(refs: Mapping[str, ExternalRef]) -> None:
    if len(refs) > MOST_EXTERNAL_REFS:
        raise InvalidVisitExternalRefError(
            f"A visit has at most {MOST_EXTERNAL_REFS} external references.", most=MOST_EXTERNAL_REFS
        )


@visits.operation("POST /visits/{visit_id}/reschedule")
class RescheduleVisit(Command[Visit]):
    """Change the planned period of a visit that has not ended."""

    visit_id: UUID
    planned_start_at: Time
    planned_end_at: Time
    reason: text.Reason

    async def gather(self, world: World) -> Visit:
        return await world.load(visits, self.visit_id)

    def decide(self, visit: Visit, occasion: Occasion) -> list[VisitRescheduled]:
        reason = text.reason(self.reason, InvalidVisitReasonError)
        check_planned_period(self.planned_start_at, self.planned_end_at)
        check_not_ended(visit, VisitCannotRescheduleError)
        planned = (self.planned_start_at, self.planned_end_at)
        if planned == (visit.planned_start_at, visit.planned_end_at):
            return []
        return [
            VisitRescheduled(
                visit_id=visit.id,
                occurred_at=occasion.now,
                planned_start_at=self.planned_start_at,
                planned_end_at=self.planned_end_at,
                reason=reason,
            )
        ]


@visits.operation("POST /visits/{visit_id}/hold")
class HoldVisit(Command[Visit]):
    """Put a visit in progress on hold; it keeps control but passes no controlled operation."""

    visit_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Visit:
        return await world.load(visits, self.visit_id)

    def decide(self, visit: Visit, occasion: Occasion) -> VisitHeld:
        reason = text.reason(self.reason, InvalidVisitReasonError)
        LIFECYCLE.check(VisitHeld, visit.status, visit.id)
        return VisitHeld(visit_id=visit.id, occurred_at=occasion.now, reason=reason)


@visits.operation("POST /visits/{visit_id}/members/remove")
class RemoveVisitMember(Command[Visit]):
    """Take an actor out of a visit; it is present no longer."""

    visit_id: UUID
    actor_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Visit:
        return await world.load(visits, self.visit_id)

    def decide(self, visit: Visit, occasion: Occasion) -> VisitMemberRemoved:
        reason = text.reason(self.reason, InvalidVisitReasonError)
        check_not_ended(visit, VisitCannotRemoveMemberError)
        if self.actor_id not in visit.members:
            raise VisitMemberNotPresentError(
                "The actor is no member of this visit.", visit_id=str(visit.id), actor_id=str(self.actor_id)
            )
        return VisitMemberRemoved(
            visit_id=visit.id, occurred_at=occasion.now, actor_id=self.actor_id, reason=reason
        )


@visits.operation("POST /visits/{visit_id}/assign-external-ref")
class AssignVisitExternalRef(Command[Visit]):
    """Record what another system calls this visit, for example a proposal number."""

    visit_id: UUID
    scheme: str
    value: text.Name
    authority: text.Name

    async def gather(self, world: World) -> Visit:
        return await world.load(visits, self.visit_id)

    def decide(self, visit: Visit, occasion: Occasion) -> list[VisitExternalRefAssigned]:
        scheme, ref = external_ref(self.scheme, self.value, self.authority, occasion.now)
        check_external_ref_count(visit.external_refs | {scheme: ref})
        current = visit.external_refs.get(scheme)
        if current is not None and (current.value, current.authority) == (ref.value, ref.authority):
            return []
        return [
            VisitExternalRefAssigned(
                visit_id=visit.id,
                occurred_at=occasion.now,
                scheme=scheme,
                value=ref.value,
                authority=ref.authority,
            )
        ]
