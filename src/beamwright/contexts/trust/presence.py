"""Presence: members of a visit come and go; who was there, and who is here now."""

from collections.abc import Iterable, Sequence
from datetime import UTC, timedelta
from typing import Literal
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.aggregate import Cursor, Limit
from beamwright.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from beamwright.kernel.errors import CannotTransitionError, ConflictError
from beamwright.kernel.operation import Command, Occasion, Query, World
from beamwright.kernel.roles import VisitRole, VisitStatus
from beamwright.kernel.value import Time, Value

from .visit import (
    InvalidVisitReasonError,
    Presence,
    PresenceMode,
    Visit,
    VisitPresenceClosed,
    VisitPresenceOpened,
    visits,
)

# While a visit has one of these statuses, people may be there for it.
ATTENDED = frozenset({VisitStatus.ARRIVED, VisitStatus.IN_PROGRESS, VisitStatus.ON_HOLD})


class VisitCannotOpenPresenceError(CannotTransitionError):
    """Members are present only between the visit's arrival and its end."""


class VisitCannotAdmitMemberError(CannotTransitionError):
    """Members are admitted only between the visit's arrival and its end."""


class VisitPresenceNotMemberError(ConflictError):
    """Only members of a visit can be present in it."""


class VisitPresenceAlreadyOpenError(ConflictError):
    """The member is present already."""


class VisitCannotClosePresenceError(CannotTransitionError):
    """The caller is not present."""


class VisitCannotDismissMemberError(CannotTransitionError):
    """The actor is not present."""


class VisitCannotExpirePresenceError(CannotTransitionError):
    """The actor is not present, or has not been for as long as presence may last."""


def check_can_enter(visit: Visit, actor_id: UUID, error: type[CannotTransitionError]) -> None:
    """Gate: the visit has arrived and not ended, and the actor is a member who is not there yet."""
    if visit.status not in ATTENDED:
        raise error.of(visit.id, visit.status, ATTENDED)
    if actor_id not in visit.members:
        raise VisitPresenceNotMemberError(
            "Add the actor to the visit first.", visit_id=str(visit.id), actor_id=str(actor_id)
        )
    if visit.open_presence(actor_id) is not None:
        raise VisitPresenceAlreadyOpenError(
            "The actor is present in this visit already.", visit_id=str(visit.id), actor_id=str(actor_id)
        )


def entry_of(visit: Visit, actor_id: UUID, error: type[CannotTransitionError]) -> Presence:
    """The open entry of `actor_id`, or a refusal."""
    entry = visit.open_presence(actor_id)
    if entry is None:
        raise error("The actor is not present in this visit.", visit_id=str(visit.id), actor_id=str(actor_id))
    return entry


@visits.operation("POST /visits/{visit_id}/presence/open")
class OpenVisitPresence(Command[Visit]):
    """Say that you are present in a visit."""

    visit_id: UUID
    mode: PresenceMode

    async def gather(self, world: World) -> Visit:
        return await world.load(visits, self.visit_id)

    def decide(self, visit: Visit, occasion: Occasion) -> VisitPresenceOpened:
        check_can_enter(visit, occasion.principal_id, VisitCannotOpenPresenceError)
        return VisitPresenceOpened(
            visit_id=visit.id, occurred_at=occasion.now, actor_id=occasion.principal_id, mode=self.mode
        )


@visits.operation("POST /visits/{visit_id}/presence/close")
class CloseVisitPresence(Command[Visit]):
    """Say that you are leaving a visit; control that you hold stays with it."""

    visit_id: UUID

    async def gather(self, world: World) -> Visit:
        return await world.load(visits, self.visit_id)

    def decide(self, visit: Visit, occasion: Occasion) -> VisitPresenceClosed:
        entry = entry_of(visit, occasion.principal_id, VisitCannotClosePresenceError)
        return VisitPresenceClosed(visit_id=visit.id, occurred_at=occasion.now, actor_id=entry.actor_id)


@visits.operation("POST /visits/{visit_id}/presence/admit")
class AdmitVisitMember(Command[Visit]):
    """Record that a member is present, as a badge gate or the staff does."""

    visit_id: UUID
    actor_id: UUID
    mode: PresenceMode

    async def gather(self, world: World) -> Visit:
        return await world.load(visits, self.visit_id)

    def decide(self, visit: Visit, occasion: Occasion) -> VisitPresenceOpened:
        check_can_enter(visit, self.actor_id, VisitCannotAdmitMemberError)
        return VisitPresenceOpened(
            visit_id=visit.id, occurred_at=occasion.now, actor_id=self.actor_id, mode=self.mode
        )


@visits.operation("POST /visits/{visit_id}/presence/dismiss")
class DismissVisitMember(Command[Visit]):
    """Record that a member is present no longer, as a badge gate or the staff does."""

    visit_id: UUID
    actor_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Visit:
        return await world.load(visits, self.visit_id)

    def decide(self, visit: Visit, occasion: Occasion) -> VisitPresenceClosed:
        reason = text.reason(self.reason, InvalidVisitReasonError)
        entry = entry_of(visit, self.actor_id, VisitCannotDismissMemberError)
        return VisitPresenceClosed(
            visit_id=visit.id, occurred_at=occasion.now, actor_id=entry.actor_id, reason=reason
        )


class LimitedVisit(Value):
    """A visit, and how long presence in it may last."""

    visit: Visit
    limit: timedelta


@visits.operation("POST /visits/{visit_id}/presence/expire")
class ExpireVisitPresence(Command[LimitedVisit]):
    """Close a presence that nobody closed for longer than presence may last."""

    visit_id: UUID
    actor_id: UUID

    async def gather(self, world: World) -> LimitedVisit:
        visit = await world.load(visits, self.visit_id)
        return LimitedVisit(visit=visit, limit=world.installation.visit_presence_limit)

    def decide(self, limited: LimitedVisit, occasion: Occasion) -> VisitPresenceClosed:
        entry = entry_of(limited.visit, self.actor_id, VisitCannotExpirePresenceError)
        if occasion.now - entry.opened_at <= limited.limit:
            raise VisitCannotExpirePresenceError(
                "The presence is not older than the limit yet.",
                visit_id=str(limited.visit.id),
                actor_id=str(self.actor_id),
                opened_at=entry.opened_at.isoformat(),
                expires_at=(entry.opened_at + limited.limit).isoformat(),
            )
        return VisitPresenceClosed(
            visit_id=limited.visit.id,
            occurred_at=occasion.now,
            actor_id=entry.actor_id,
            reason="presence limit passed",
        )


class VisitPresenceRow(Value):
    """One time that a member was present in a visit; `role` is null once it is no member any more."""

    actor_id: UUID
    name: text.Personal
    role: VisitRole | None
    mode: PresenceMode
    opened_at: Time
    closed_at: Time | None


class VisitPresencePage(Value):
    """One page of a visit's presence."""

    items: list[VisitPresenceRow]
    next_cursor: str | None


class PresenceRow(VisitPresenceRow):
    """One time that a member was present, with the visit."""

    visit_id: UUID
    visit_code: str
    facility_code: str
    surface_id: UUID


class PresencePage(Value):
    """One page of the presence in every visit within reach."""

    items: list[PresenceRow]
    next_cursor: str | None


class PresenceList[Answer](Query[Answer]):
    """What both lists of presence are filtered and paged by."""

    actor_id: UUID | None = None
    mode: PresenceMode | None = None
    sort: Literal["opened_at", "-opened_at"] = "-opened_at"
    limit: Limit = 50
    cursor: Cursor | None = None


type Stay = tuple[Visit, Presence]


def stays(request: PresenceList[object], among: Iterable[Visit], *, open: bool | None) -> list[Stay]:
    """Every presence that the request asks for, sorted."""
    found = [
        (visit, entry)
        for visit in among
        for entry in visit.presence
        if (open is None or entry.open is open)
        and (request.mode is None or entry.mode is request.mode)
        and (request.actor_id is None or entry.actor_id == request.actor_id)
    ]
    return sorted(found, key=place, reverse=request.sort.startswith("-"))


def place(stay: Stay) -> tuple[str, str, str]:
    """Where a stay stands in the list; texts of one length, so that they sort as what they say."""
    visit, entry = stay
    opened_at = entry.opened_at.astimezone(UTC).isoformat(timespec="microseconds")
    return opened_at, str(visit.id), str(entry.actor_id)


def paged(request: PresenceList[object], all: Sequence[Stay]) -> tuple[Sequence[Stay], str | None]:
    """The stays of the asked page, and the cursor of the next."""
    if request.cursor is not None:
        sort, *values = decode_cursor(request.cursor, 4)
        if sort != request.sort:
            raise InvalidCursorError("The cursor was made for another sort order.", sort=sort)
        last = (values[0], values[1], values[2])
        descending = sort.startswith("-")
        all = [each for each in all if (place(each) < last if descending else place(each) > last)]
    page = all[: request.limit]
    more = len(all) > len(page)
    return page, encode_cursor([request.sort, *place(page[-1])]) if more else None


@visits.operation("GET /visits/{visit_id}/presence")
class ListVisitPresence(PresenceList[VisitPresencePage]):
    """List who was and is present in a visit."""

    visit_id: UUID
    open: bool | None = None

    async def answer(self, world: World) -> VisitPresencePage:
        visit = await world.load(visits, self.visit_id)
        page, next_cursor = paged(self, stays(self, [visit], open=self.open))
        names = await world.profiles.names({entry.actor_id for _, entry in page})
        items = [
            VisitPresenceRow(
                actor_id=entry.actor_id,
                name=names[entry.actor_id],
                role=visit.members.get(entry.actor_id),
                mode=entry.mode,
                opened_at=entry.opened_at,
                closed_at=entry.closed_at,
            )
            for _, entry in page
        ]
        return VisitPresencePage(items=items, next_cursor=next_cursor)


@visits.operation("GET /presence")
class ListPresence(PresenceList[PresencePage]):
    """List who is here now, over all visits within reach; `open=false` lists who was."""

    facility_code: str | None = None
    surface_id: UUID | None = None
    visit_id: UUID | None = None
    open: bool = True

    async def answer(self, world: World) -> PresencePage:
        page, next_cursor = paged(self, stays(self, self.visits_within(world), open=self.open))
        names = await world.profiles.names({entry.actor_id for _, entry in page})
        items = [
            PresenceRow(
                visit_id=visit.id,
                visit_code=visit.code,
                facility_code=visit.facility_code,
                surface_id=visit.surface_id,
                actor_id=entry.actor_id,
                name=names[entry.actor_id],
                role=visit.members.get(entry.actor_id),
                mode=entry.mode,
                opened_at=entry.opened_at,
                closed_at=entry.closed_at,
            )
            for visit, entry in page
        ]
        return PresencePage(items=items, next_cursor=next_cursor)

    def visits_within(self, world: World) -> list[Visit]:
        """The visits asked for that the caller's grants reach."""
        reach = world.reach("list_presence")
        return [
            visit
            for visit in world.authority.states("Visit", Visit).values()
            if (self.visit_id is None or visit.id == self.visit_id)
            and (self.facility_code is None or visit.facility_code == self.facility_code)
            and (self.surface_id is None or visit.surface_id == self.surface_id)
            and reach.holds(visits.belongs(visit), reading=True)
        ]
