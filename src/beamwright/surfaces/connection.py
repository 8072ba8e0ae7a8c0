"""One HTTP connection: uvicorn's, with bounds on what it takes in before a request is understood."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from beamwright.kernel.errors import DomainError
from beamwright.kernel.problem import problem
from beamwright.kernel.value import encode

from .door import CORRELATION_HEADER, HeadTooLargeError, MalformedRequestError, correlation_id
from .exchange import PROBLEM

MOST_HEAD = 64 * 1024
MOST_HEADERS = 100


class Connection(HttpToolsProtocol):
    """Ends when a head is too large, when no whole head comes in time, and when nobody takes what is answered.

    Bodies are bounded by who reads them.
    """

    seconds: float = 10.0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        # What came since the last head, piece of a body or end of a message: the parser keeps some of it.
        self._pending = 0
        self._in_head = True
        self._whole = True
        self._too_large = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._hurry()

    def connection_lost(self, exc: Exception | None) -> None:
        self._relax()
        self._watch_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._pending += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._pending > MOST_HEAD:
            self._too_large = True
            self.send_400_response("")
        elif not self.cycle or self.cycle.response_complete:
            # Nothing is being answered, so this was the rest of a body, or it must become a head.
            self._hurry()

    def on_message_begin(self) -> None:
        self._in_head = True
        self._whole = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # What comes after the body must not pass for what was said before it.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > MOST_HEAD or len(self.headers) > MOST_HEADERS:
            self._too_large = True
            raise HeadTooLargeError("")
        self._in_head = False
        self._pending = 0
        self._relax()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._pending = 0
        self._whole = True
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        self._watch_no_more()
        super().resume_writing()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            # A transport that closes waits for its last bytes to be taken, and would do so for ever.
            self._watch()
        elif not self._whole:
            # Answered before all of it came; the rest is owed, and then a head.
            self._hurry()

    def timeout_keep_alive_handler(self) -> None:
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """In our words, where uvicorn has a line of text."""
        error: DomainError = MalformedRequestError("This is not an HTTP request that can be read.")
        if self._too_large:
            error = HeadTooLargeError(
                f"Address and headers together must not exceed {MOST_HEAD} bytes or {MOST_HEADERS} headers."
            )
        correlation = correlation_id(None)
        body = encode(problem(error, correlation))
        lines = [
            f"content-type: {PROBLEM}",
            f"content-length: {len(body)}",
            f"{CORRELATION_HEADER}: {correlation}",
            "connection: close",
        ]
        head = "".join(f"{line}\r\n" for line in lines).encode()
        self.transport.write(STATUS_LINE[error.status] + head + b"\r\n" + body)
        self.transport.close()
        self._watch()

    def _hurry(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.seconds, self._late)

    def _relax(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        self.transport.abort()

    def _watch(self) -> None:
        """Look again in a while whether the client took anything of what waits for it."""
        self._watch_no_more()
        waiting = self.transport.get_write_buffer_size()
        self._stalled = self.loop.call_later(self.seconds, self._look, waiting)

    def _watch_no_more(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _look(self, before: int) -> None:
        if self.transport.get_write_buffer_size() >= before:
            self.transport.abort()
        else:
            self._watch()


def connections(seconds: float) -> type[Connection]:
    """Connections on which a client has so long to say what it wants."""

    class Hurried(Connection):
        pass

    Hurried.seconds = seconds
    return Hurried
