"""The feed at /events: the same operation as a page, or followed as server-sent events."""

import asyncio

from beamwright.contexts.trust.feed import FeedPage, ListEvents
from beamwright.kernel.errors import DomainError
from beamwright.kernel.operation import Operation
from beamwright.kernel.problem import problem
from beamwright.kernel.value import encode, replace
from beamwright.runtime.call import Call
from beamwright.runtime.service import Service

from .exchange import Exchange, query_fields
from .rest import Rest, note_operation

POLL = 0.25
HEARTBEAT = 15.0


class FeedSurface:
    """Streams what `list_events` answers; every batch is authorized anew, so a revocation ends it."""

    def __init__(self, service: Service, rest: Rest) -> None:
        self._service = service
        self._rest = rest

    async def answer(self, exchange: Exchange, operation: Operation) -> None:
        if "text/event-stream" in (exchange.header(b"accept") or ""):
            await self._follow(exchange, operation)
        else:
            await self._rest.answer(exchange, operation)

    async def _follow(self, exchange: Exchange, operation: Operation) -> None:
        note_operation(exchange, operation)
        try:
            call = await self._rest.call(exchange)
            given = query_fields(exchange.scope["query_string"])
            wanted: ListEvents = self._service.decode(operation, given, strict=False)
            last = exchange.header(b"last-event-id")
            wanted = replace(wanted, after=last) if last else wanted
            page = await self._page(wanted, call)
        except Exception as error:  # noqa: BLE001 - a surface answers every failure
            await self._rest.refuse(exchange, error)
            return
        await exchange.begin(200, "text/event-stream", {"cache-control": "no-store"})
        await exchange.until_gone(self._events(exchange, wanted, call, page))

    async def _page(self, wanted: ListEvents, call: Call) -> FeedPage:
        return (await self._service.call(wanted, call)).body

    async def _events(self, exchange: Exchange, wanted: ListEvents, call: Call, page: FeedPage) -> None:
        quiet = 0.0
        await exchange.part(b"retry: 1000\n\n")
        while True:
            for item in page.items:
                text = f"id: {item.token}\nevent: {item.type}\ndata: {encode(item).decode()}\n\n"
                await exchange.part(text.encode())
            if not page.items:
                await asyncio.sleep(POLL)
                quiet += POLL
                if quiet >= HEARTBEAT:
                    quiet = 0.0
                    await exchange.part(b": still here\n\n")
            try:
                wanted = replace(wanted, after=page.next)
                # The token may have expired and the login gone since the stream began.
                call = await self._rest.call(exchange)
                page = await self._page(wanted, call)
            except DomainError as error:
                refusal = encode(problem(error, call.correlation_id))
                await exchange.part(b"event: problem\ndata: " + refusal + b"\n\n", last=True)
                return
