"""How many calls one process answers at once; whoever comes when it is full is told to come back."""

from litestar.types import ASGIApp, Message, Receive, Scope, Send

from beamwright.kernel.errors import OverloadedError

from .exchange import Exchange
from .rest import Rest

STREAM = b"text/event-stream"


class Admission:
    """Beyond the bound, calls would only wait for one another and take memory while they do.

    Probes always pass. A stream that has begun is no call that ends, so it is not counted any longer.
    """

    def __init__(self, app: ASGIApp, rest: Rest, most: int, free: tuple[str, ...]) -> None:
        self._app = app
        self._rest = rest
        self._most = most
        self._free = free
        self.under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._free:
            await self._app(scope, receive, send)
        elif self.under_way >= self._most:
            overloaded = OverloadedError(
                "The service is answering as many calls as it can; try again shortly."
            )
            await self._rest.refuse(Exchange(scope, receive, send), overloaded)
        else:
            await self._count(scope, receive, send)

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        counted = 1
        self.under_way += 1

        async def note(message: Message) -> None:
            nonlocal counted
            if message["type"] == "http.response.start" and counted:
                media_type = dict(message["headers"]).get(b"content-type", b"")
                if media_type.startswith(STREAM):
                    counted = 0
                    self.under_way -= 1
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            self.under_way -= counted
