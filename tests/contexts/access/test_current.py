"""The calling actor: its token, the visits that are open to it, and the surfaces they control."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from beamwright.contexts.access.current import CallerToken, GetCurrentActor, OpenVisit
from beamwright.kernel.authority import Caller
from beamwright.kernel.roles import VisitRole, VisitStatus
from tests.rules import NOW, PRINCIPAL

DOOR, OTHER_DOOR, OPEN, ENDED, LEFT = (UUID(int=number) for number in (11, 12, 21, 22, 23))
CALLER = Caller(principal_id=PRINCIPAL, kind="human", issuer="urn:x", expires_at=NOW + timedelta(minutes=5))


def visit(id: UUID, surface_id: UUID, *, ended: bool = False, member: UUID = PRINCIPAL) -> Any:
    status = VisitStatus.COMPLETED if ended else VisitStatus.IN_PROGRESS
    return SimpleNamespace(
        id=id, code="cm1", surface_id=surface_id, status=status, ended=ended, members={member: VisitRole.LEAD}
    )


def held_by(visit_id: UUID) -> Any:
    return SimpleNamespace(holder=SimpleNamespace(visit_id=visit_id))


def answer(caller: Caller = CALLER, **surfaces: Any) -> Any:
    states = {
        ("Visit", OPEN): visit(OPEN, DOOR),
        ("Visit", ENDED): visit(ENDED, OTHER_DOOR, ended=True),
        ("Visit", LEFT): visit(LEFT, OTHER_DOOR, member=UUID(int=99)),
        ("Surface", DOOR): surfaces.get("door"),
        ("Surface", OTHER_DOOR): surfaces.get("other"),
    }
    authority = SimpleNamespace(
        visits_of=lambda actor_id: frozenset({OPEN, ENDED, LEFT}),
        state=lambda aggregate, id, type: states[aggregate, id],
    )

    async def view(aggregate: Any, id: UUID, version: None, at: None) -> str:
        return f"view of {id.int}"

    world: Any = SimpleNamespace(authority=authority, caller=caller, surface_id=DOOR, view=view)
    return asyncio.run(GetCurrentActor().answer(world))


def test_it_is_the_caller() -> None:
    assert (answer().actor, answer().surface_id) == ("view of 1", DOOR)


def test_the_token_is_shown() -> None:
    token = CallerToken(issuer="urn:x", scopes=frozenset(), expires_at=CALLER.expires_at)
    assert answer().token == token


def test_a_call_without_a_token_has_none_to_show() -> None:
    assert answer(Caller(principal_id=PRINCIPAL, kind="human")).token is None


def test_only_visits_that_are_open_to_the_caller_are_shown() -> None:
    visit = OpenVisit(visit_id=OPEN, code="cm1", role=VisitRole.LEAD, status=VisitStatus.IN_PROGRESS)
    assert answer().open_visits == [visit]


def test_a_surface_that_an_open_visit_holds_is_controlled() -> None:
    assert answer(door=held_by(OPEN), other=held_by(ENDED)).controlled_surface_ids == {DOOR}


def test_a_surface_that_another_visit_holds_is_not_controlled() -> None:
    assert answer(door=held_by(LEFT)).controlled_surface_ids == frozenset()


def test_a_free_surface_is_not_controlled() -> None:
    assert answer(door=SimpleNamespace(holder=None)).controlled_surface_ids == frozenset()
