"""The feed at /events: the same operation as a page, or followed as server-sent events."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from beamwright.contexts.trust.feed import FeedPage, ListEvents
from beamwright.kernel.errors import DomainError
from beamwright.kernel.operation import Operation
from beamwright.kernel.problem import problem
from beamwright.kernel.value import encode, replace
from beamwright.runtime.call import Call
from beamwright.runtime.service import Service

from .door import CORRELATION_HEADER, correlation_id
from .rest import Rest, query_fields

POLL = 0.25
HEARTBEAT = 15.0


class FeedSurface:
    """Streams what `list_events` answers; every batch is authorized anew, so a revocation ends it."""

    def __init__(self, service: Service, rest: Rest) -> None:
        self._service = service
        self._rest = rest

    def route(self) -> HTTPRouteHandler:
        operation = self._service.registry.operations["list_events"]

        async def handle(request: Request[Any, Any, Any]) -> Response[Any]:
            if "text/event-stream" not in request.headers.get("accept", ""):
                return await self._rest.answer(request, operation)
            return await self._follow(request, operation)

        return HTTPRouteHandler("/events", http_method="GET", status_code=200, name="list_events")(handle)

    async def _follow(self, request: Request[Any, Any, Any], operation: Operation) -> Response[Any]:
        correlation = correlation_id(request.headers.get(CORRELATION_HEADER))
        try:
            call = await self._rest.call(request, correlation)
            given = query_fields(request.scope["query_string"])
            wanted: ListEvents = self._service.decode(operation, given, strict=False)
            last = request.headers.get("last-event-id")
            wanted = replace(wanted, after=last) if last else wanted
            first = await self._page(wanted, call)
        except Exception as error:
            return self._rest.refuse(error, correlation)
        headers = {CORRELATION_HEADER: correlation, "cache-control": "no-store"}
        stream = self._events(wanted, call, first)
        return Stream(stream, status_code=200, media_type="text/event-stream", headers=headers)

    async def _page(self, wanted: ListEvents, call: Call) -> FeedPage:
        return (await self._service.call(wanted, call)).body

    async def _events(self, wanted: ListEvents, call: Call, page: FeedPage) -> AsyncIterator[bytes]:
        quiet = 0.0
        yield b"retry: 1000\n\n"
        while True:
            for item in page.items:
                yield (
                    b"id: "
                    + item.token.encode()
                    + b"\nevent: "
                    + item.type.encode()
                    + b"\ndata: "
                    + encode(item)
                    + b"\n\n"
                )
            if not page.items:
                await asyncio.sleep(POLL)
                quiet += POLL
                if quiet >= HEARTBEAT:
                    quiet = 0.0
                    yield b": still here\n\n"
            try:
                wanted = replace(wanted, after=page.next)
                page = await self._page(wanted, call)
            except DomainError as error:
                refusal = encode(problem(error, call.correlation_id))
                yield b"event: problem\ndata: " + refusal + b"\n\n"
                return
