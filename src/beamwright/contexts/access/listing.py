"""Listing actors: their names are joined from the profile store, and never kept in a list table."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from beamwright.contexts.trust.visit import visits
from beamwright.kernel.aggregate import ListRequest, SearchText
from beamwright.kernel.operation import World
from beamwright.kernel.profiles import ActorSearch
from beamwright.kernel.roles import ActorKind

from .actor import Actor, actors

# The view exists only once it was derived from the state, hence no class statement and no static type.
ActorPage: Any = msgspec.defstruct(
    "ActorPage",
    [("items", list[actors.view]), ("next_cursor", str | None), ("as_of", str)],
    frozen=True,
    kw_only=True,
)


@actors.operation("GET /actors", response=ActorPage)
class ListActors(ListRequest):
    """List actors, filtered, searched by name and sorted."""

    kind: ActorKind | None = None
    active: bool | None = None
    forgotten: bool | None = None
    issuer: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    visit_id: UUID | None = None
    q: SearchText | None = None
    sort: Literal["created_at", "-created_at", "name", "-name"] = "-created_at"

    async def answer(self, world: World) -> Any:
        await world.caught_up(actors, self.consistent_with)
        rows, next_cursor, mark = await world.profiles.search(
            ActorSearch(
                kind=self.kind,
                active=self.active,
                forgotten=self.forgotten,
                issuer=self.issuer,
                visit_members=await self.visit_members(world),
                q=self.q,
                sort=self.sort,
                limit=self.limit,
                cursor=self.cursor,
                reach=world.reach("list_actors"),
            )
        )
        return ActorPage(items=await viewed(world, rows), next_cursor=next_cursor, as_of=mark.token())

    async def visit_members(self, world: World) -> frozenset[UUID] | None:
        """The members of the visit asked for, which the caller must be able to read."""
        if self.visit_id is None:
            return None
        return frozenset((await world.load(visits, self.visit_id)).members)


async def viewed(world: World, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The same views that reading each actor gives."""
    creators = await world.profiles.names({row["created_by"] for row in rows})
    return [
        actors.view(
            **msgspec.structs.asdict(msgspec.json.decode(row["state"], type=Actor)),
            name=row["name"],
            identity_count=row["identity_count"],
            version=row["version"],
            created_at=row["created_at"],
            updated_at=row["updated_at"],
            created_by=row["created_by"],
            created_by_name=creators[row["created_by"]],
        )
        for row in rows
    ]
