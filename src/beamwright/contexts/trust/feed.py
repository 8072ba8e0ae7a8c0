"""The feed: the log after a token, as far as the caller can see it."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta

from beamwright.kernel.aggregate import Cursor, Limit
from beamwright.kernel.operation import Query, World
from beamwright.kernel.value import Value

from .surface import surfaces

type EventTypeName = Annotated[str, Meta(pattern="^[A-Za-z]{1,100}$")]


class FeedItem(Value):
    """One event in a CloudEvents 1.0 envelope."""

    specversion: str
    id: UUID
    source: str
    type: str
    subject: str
    time: datetime
    datacontenttype: str
    data: dict[str, Any]
    streamtype: str
    streamid: UUID
    streamversion: int
    schemaversion: int
    principalid: UUID
    commandname: str
    surfaceid: UUID
    correlationid: str
    causationid: UUID | None
    token: str


class FeedPage(Value):
    """Events in reading order; give `next` as `after` to go on."""

    items: list[FeedItem]
    next: str


@surfaces.operation("GET /events")
class ListEvents(Query[FeedPage]):
    """Read what happened after a token, or follow it as server-sent events."""

    after: Cursor | None = None
    limit: Limit = 50
    stream_type: EventTypeName | None = None
    event_type: EventTypeName | None = None

    async def answer(self, world: World) -> FeedPage:
        return await world.feed(self)
