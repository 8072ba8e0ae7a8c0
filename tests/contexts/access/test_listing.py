"""Listing actors: what is asked of the profile store, and the page that is made of its rows."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import pytest

from beamwright.contexts.access.actor import Actor
from beamwright.contexts.access.listing import ActorPage, ListActors
from beamwright.contexts.trust.visit import VisitNotFoundError
from beamwright.kernel.authority import Reach
from beamwright.kernel.profiles import ActorSearch
from beamwright.kernel.roles import ActorKind, VisitRole
from beamwright.kernel.store import Mark
from tests.rules import NOW, PRINCIPAL

ADA, VISIT, LOGIN = UUID(int=2), UUID(int=3), UUID(int=4)
ROW = {
    "id": ADA,
    "state": msgspec.json.encode(Actor(id=ADA, kind=ActorKind.HUMAN, identities={LOGIN: "urn:x"})).decode(),
    "version": 2,
    "created_at": NOW,
    "updated_at": NOW,
    "created_by": PRINCIPAL,
    "name": "Ada",
    "identity_count": 1,
}


class OnePage:
    """A profile store with one page of one actor; it remembers what was asked."""

    asked: ActorSearch

    async def search(self, search: ActorSearch) -> tuple[Sequence[Mapping[str, Any]], str | None, Mark]:
        self.asked = search
        return [ROW], "next", Mark(1, 2)

    async def names(self, actor_ids: Collection[UUID]) -> Mapping[UUID, str]:
        return {id: f"name of {id.int}" for id in actor_ids}


def world() -> Any:
    async def load(aggregate: Any, id: UUID) -> Any:
        if id != VISIT:
            raise aggregate.missing.of(aggregate.name, id)
        return SimpleNamespace(members={ADA: VisitRole.LEAD})

    async def caught_up(aggregate: Any, token: str | None) -> None:
        assert token is None

    return SimpleNamespace(profiles=OnePage(), load=load, reach=lambda name: Reach(), caught_up=caught_up)


def test_the_page_shows_whole_views_with_names() -> None:
    page = asyncio.run(ListActors().answer(world()))
    [shown] = page.items
    assert (page.next_cursor, shown.name, shown.identity_count) == ("next", "Ada", 1)
    assert (shown.id, shown.identities, shown.created_by_name) == (ADA, {LOGIN: "urn:x"}, "name of 1")


def test_the_page_has_the_shape_that_is_declared() -> None:
    page = asyncio.run(ListActors().answer(world()))
    assert msgspec.json.decode(msgspec.json.encode(page), type=ActorPage) == page


def test_a_visit_narrows_to_its_members() -> None:
    facility = world()
    asyncio.run(ListActors(visit_id=VISIT).answer(facility))
    assert facility.profiles.asked.visit_members == {ADA}


def test_without_a_visit_nobody_is_left_out() -> None:
    facility = world()
    asyncio.run(ListActors().answer(facility))
    assert facility.profiles.asked.visit_members is None


def test_a_visit_out_of_reach_is_not_found() -> None:
    with pytest.raises(VisitNotFoundError):
        asyncio.run(ListActors(visit_id=UUID(int=99)).answer(world()))
