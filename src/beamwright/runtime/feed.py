"""Pages of the log for one caller: only what its single reads reach, and a token that skips the rest."""

from typing import TYPE_CHECKING, Any

from beamwright.contexts.trust.feed import FeedItem, FeedPage, ListEvents
from beamwright.kernel.store import BEGINNING, EventStore, LogFilter, Stored

if TYPE_CHECKING:
    from .work import UnitOfWork

# Neither a caller who sees little nor one who wants what is rare scans the whole log in one request.
MOST_SCANNED = 2000
MOST_FRUITLESS = 10


async def read_feed(work: "UnitOfWork", store: EventStore, request: ListEvents) -> FeedPage:
    mark = await store.place(request.after) if request.after is not None else BEGINNING
    wanted = LogFilter(
        (request.stream_type,) if request.stream_type else (),
        (request.event_type,) if request.event_type else (),
    )
    items: list[FeedItem] = []
    scanned, fruitless, more = 0, 0, True
    while more and len(items) < request.limit and scanned < MOST_SCANNED and fruitless < MOST_FRUITLESS:
        events, reached, more = await store.search_log(mark, min(200, request.limit), wanted)
        visible = await work.visible({(event.stream_type, event.stream_id) for event in events})
        for event in events:
            if len(items) == request.limit:
                break
            mark = event.mark
            if (event.stream_type, event.stream_id) in visible:
                items.append(feed_item(event, work.shown_payload(event)))
        else:
            mark = reached
        scanned, fruitless = scanned + len(events), fruitless + (not events)
    return FeedPage(items=items, next=mark.token())


def feed_item(event: Stored, data: dict[str, Any]) -> FeedItem:
    return FeedItem(
        specversion="1.0",
        id=event.event_id,
        source="urn:beamwright:log",
        type=f"beamwright.{event.event_type}",
        subject=f"{event.stream_type}/{event.stream_id}",
        time=event.occurred_at,
        datacontenttype="application/json",
        data=data,
        streamtype=event.stream_type,
        streamid=event.stream_id,
        streamversion=event.version,
        schemaversion=event.schema_version,
        principalid=event.principal_id,
        commandname=event.command_name,
        surfaceid=event.surface_id,
        correlationid=event.correlation_id,
        causationid=event.causation_id,
        token=event.mark.token(),
    )
