"""Presence: members of a visit come and go, and who is here is listed."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.trust.presence import (
    AdmitVisitMember,
    CloseVisitPresence,
    DismissVisitMember,
    ExpireVisitPresence,
    LimitedVisit,
    ListPresence,
    ListVisitPresence,
    OpenVisitPresence,
    VisitCannotAdmitMemberError,
    VisitCannotClosePresenceError,
    VisitCannotDismissMemberError,
    VisitCannotExpirePresenceError,
    VisitCannotOpenPresenceError,
    VisitPresenceAlreadyOpenError,
    VisitPresenceNotMemberError,
)
from beamwright.contexts.trust.visit import (
    Presence,
    PresenceMode,
    VisitMemberRemoved,
    VisitPresenceClosed,
    VisitPresenceOpened,
    visits,
)
from beamwright.kernel.authority import Candidate, Reach, Span
from beamwright.kernel.cursor import InvalidCursorError
from beamwright.kernel.roles import VisitRole, VisitStatus
from beamwright.kernel.value import replace
from tests.contexts.trust.examples import (
    ANN,
    BEN,
    OTHER_VISIT,
    VISIT,
    SmallWorld,
    entered,
    history,
    visit,
)
from tests.rules import NOW, given, outcome

EVE = UUID(int=13)
POLICY = UUID(int=40)
LATER = NOW + timedelta(hours=1)


OPEN = OpenVisitPresence(visit_id=VISIT, mode=PresenceMode.REMOTE)
ADMIT = AdmitVisitMember(visit_id=VISIT, actor_id=BEN, mode=PresenceMode.PHYSICAL)
ATTENDED = {VisitStatus.ARRIVED, VisitStatus.IN_PROGRESS, VisitStatus.ON_HOLD}


@pytest.mark.parametrize("status", list(VisitStatus))
def test_presence_opens_between_arrival_and_end(status: VisitStatus) -> None:
    opened = [VisitPresenceOpened(visit_id=VISIT, occurred_at=NOW, actor_id=ANN, mode=PresenceMode.REMOTE)]
    assert outcome(OPEN, visit(status)) == (opened if status in ATTENDED else VisitCannotOpenPresenceError)


@pytest.mark.parametrize("status", list(VisitStatus))
def test_members_are_admitted_between_arrival_and_end(status: VisitStatus) -> None:
    expected = [entered(BEN)] if status in ATTENDED else VisitCannotAdmitMemberError
    assert outcome(ADMIT, visit(status)) == expected


def test_only_members_are_present() -> None:
    assert outcome(replace(ADMIT, actor_id=EVE), visit()) == VisitPresenceNotMemberError
    assert outcome(OPEN, replace(visit(), members={})) == VisitPresenceNotMemberError


def test_nobody_is_present_twice() -> None:
    present = given(visits, *history(VisitStatus.IN_PROGRESS), entered(ANN), entered(BEN))
    assert outcome(OPEN, present) == VisitPresenceAlreadyOpenError
    assert outcome(ADMIT, present) == VisitPresenceAlreadyOpenError


def test_close_ends_the_presence_of_the_caller() -> None:
    present = given(visits, *history(VisitStatus.IN_PROGRESS), entered(ANN))
    left = VisitPresenceClosed(visit_id=VISIT, occurred_at=NOW, actor_id=ANN)
    assert outcome(CloseVisitPresence(visit_id=VISIT), present) == [left]
    assert outcome(CloseVisitPresence(visit_id=VISIT), visits.evolve(present, left)) == (
        VisitCannotClosePresenceError
    )


def test_dismiss_ends_the_presence_of_another() -> None:
    command = DismissVisitMember(visit_id=VISIT, actor_id=BEN, reason="went home")
    present = given(visits, *history(VisitStatus.IN_PROGRESS), entered(BEN))
    left = VisitPresenceClosed(visit_id=VISIT, occurred_at=NOW, actor_id=BEN, reason="went home")
    assert outcome(command, present) == [left]
    assert outcome(command, visit()) == VisitCannotDismissMemberError


@pytest.mark.parametrize(
    ("age", "expires"),
    [(timedelta(days=1), False), (timedelta(days=1, microseconds=1), True)],
)
def test_presence_expires_once_it_is_older_than_the_limit(age: timedelta, expires: bool) -> None:
    present = given(visits, *history(VisitStatus.IN_PROGRESS), entered(BEN, at=NOW - age))
    limited = LimitedVisit(visit=present, limit=timedelta(days=1))
    expired = VisitPresenceClosed(
        visit_id=VISIT, occurred_at=NOW, actor_id=BEN, reason="presence limit passed"
    )
    got = outcome(ExpireVisitPresence(visit_id=VISIT, actor_id=BEN), limited)
    assert got == ([expired] if expires else VisitCannotExpirePresenceError)


def test_presence_that_is_not_open_does_not_expire() -> None:
    limited = LimitedVisit(visit=visit(), limit=timedelta(0))
    command = ExpireVisitPresence(visit_id=VISIT, actor_id=BEN)
    assert outcome(command, limited) == VisitCannotExpirePresenceError


# Ann came first and left; Ben came later and stays; in the other visit Ann is here from the start.
HERE = given(
    visits,
    *history(VisitStatus.IN_PROGRESS),
    entered(ANN),
    VisitPresenceClosed(visit_id=VISIT, occurred_at=LATER, actor_id=ANN),
    entered(BEN, at=LATER),
)
THERE = given(visits, *history(VisitStatus.IN_PROGRESS, OTHER_VISIT), entered(ANN, OTHER_VISIT))


@pytest.mark.parametrize(
    ("request_", "actors"),
    [
        (ListVisitPresence(visit_id=VISIT), [BEN, ANN]),
        (ListVisitPresence(visit_id=VISIT, sort="opened_at"), [ANN, BEN]),
        (ListVisitPresence(visit_id=VISIT, open=True), [BEN]),
        (ListVisitPresence(visit_id=VISIT, open=False), [ANN]),
        (ListVisitPresence(visit_id=VISIT, actor_id=ANN), [ANN]),
        (ListVisitPresence(visit_id=VISIT, mode=PresenceMode.REMOTE), []),
    ],
)
def test_the_presence_of_a_visit_is_listed(request_: ListVisitPresence, actors: list[UUID]) -> None:
    world: Any = SmallWorld(HERE, THERE)
    assert [row.actor_id for row in asyncio.run(request_.answer(world)).items] == actors


def test_a_row_of_presence_has_name_and_role() -> None:
    world: Any = SmallWorld(HERE)
    row = asyncio.run(ListVisitPresence(visit_id=VISIT, open=True).answer(world)).items[0]
    assert (row.name, row.role) == ("actor 12", VisitRole.MEMBER)


def test_who_is_no_member_any_more_has_no_role() -> None:
    gone = VisitMemberRemoved(visit_id=VISIT, occurred_at=LATER, actor_id=BEN, reason="left")
    world: Any = SmallWorld(visits.evolve(HERE, gone))
    row = asyncio.run(ListVisitPresence(visit_id=VISIT, actor_id=BEN).answer(world)).items[0]
    assert (row.role, row.closed_at) == (None, LATER)


@pytest.mark.parametrize(
    ("request_", "rows"),
    [
        (ListPresence(), [(VISIT, BEN), (OTHER_VISIT, ANN)]),
        (ListPresence(sort="opened_at"), [(OTHER_VISIT, ANN), (VISIT, BEN)]),
        (ListPresence(open=False), [(VISIT, ANN)]),
        (ListPresence(visit_id=VISIT), [(VISIT, BEN)]),
        (ListPresence(actor_id=ANN), [(OTHER_VISIT, ANN)]),
        (ListPresence(facility_code="away"), []),
        (ListPresence(surface_id=UUID(int=99)), []),
        (ListPresence(mode=PresenceMode.REMOTE), []),
    ],
)
def test_who_is_here_now_is_listed(request_: ListPresence, rows: list[tuple[UUID, UUID]]) -> None:
    world: Any = SmallWorld(HERE, THERE)
    page = asyncio.run(request_.answer(world))
    assert [(row.visit_id, row.actor_id) for row in page.items] == rows


def test_presence_outside_reach_is_not_listed() -> None:
    span = Span(visit_ids=frozenset({OTHER_VISIT}))
    reach = Reach(allow=(Candidate(policy_id=POLICY, grant_id=POLICY, span=span),))
    world: Any = SmallWorld(HERE, THERE, reach=reach)
    assert [row.visit_id for row in asyncio.run(ListPresence().answer(world)).items] == [OTHER_VISIT]


@pytest.mark.parametrize("sort", ["opened_at", "-opened_at"])
def test_pages_of_presence_join_without_gap_or_repetition(sort: Any) -> None:
    entries = tuple(
        Presence(actor_id=UUID(int=n), mode=PresenceMode.REMOTE, opened_at=NOW + timedelta(seconds=n // 2))
        for n in range(7)
    )
    world: Any = SmallWorld(replace(visit(), presence=entries))
    whole = asyncio.run(ListPresence(sort=sort).answer(world))
    assert (len(whole.items), whole.next_cursor) == (7, None)
    assert all_pages(world, sort) == whole.items


def all_pages(world: Any, sort: Any) -> Sequence[object]:
    rows: list[object] = []
    page = asyncio.run(ListPresence(sort=sort, limit=3).answer(world))
    rows += page.items
    while page.next_cursor is not None:
        page = asyncio.run(ListPresence(sort=sort, limit=3, cursor=page.next_cursor).answer(world))
        rows += page.items
    return rows


def test_a_cursor_of_another_order_is_refused() -> None:
    world: Any = SmallWorld(HERE, THERE)
    cursor = asyncio.run(ListPresence(limit=1).answer(world)).next_cursor
    with pytest.raises(InvalidCursorError):
        asyncio.run(ListPresence(sort="opened_at", cursor=cursor).answer(world))
