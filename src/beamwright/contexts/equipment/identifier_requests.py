"""The outbox as an operator reads it: what was asked of the registration agency, and what came of it."""

from typing import Annotated

from msgspec import Meta

from beamwright.kernel.aggregate import Cursor, Limit
from beamwright.kernel.identifiers import PersistentIdentifierScheme
from beamwright.kernel.operation import Query, World
from beamwright.kernel.outbox import IdentifierRequest, OutboxState
from beamwright.kernel.value import Value

from .asset import assets


class IdentifierRequestPage(Value):
    """One page of identifier requests, newest first; those outside your reach are left out of it."""

    items: list[IdentifierRequest]
    next_cursor: str | None


@assets.operation("GET /identifier-requests")
class ListIdentifierRequests(Query[IdentifierRequestPage]):
    """List what was asked of the registration agency, with its state, attempts and latest error."""

    state: OutboxState | None = None
    aggregate: Annotated[str, Meta(pattern="^[A-Za-z]{1,100}$")] | None = None
    scheme: PersistentIdentifierScheme | None = None
    limit: Limit = 50
    cursor: Cursor | None = None

    async def answer(self, world: World) -> IdentifierRequestPage:
        items, next_cursor = await world.identifier_requests(self)
        return IdentifierRequestPage(items=list(items), next_cursor=next_cursor)
