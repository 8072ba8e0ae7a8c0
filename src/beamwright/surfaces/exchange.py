"""One HTTP request and its answer on bare ASGI: what the operations need of it and nothing more."""

import asyncio
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping
from typing import Any
from urllib.parse import parse_qsl

from litestar.types import Receive, Scope, Send

from beamwright.kernel.errors import ShapeError
from beamwright.kernel.value import encode

from .door import (
    CORRELATION_HEADER,
    MalformedRequestError,
    correlation_id,
    read_body,
    refusal,
    refusal_headers,
)

JSON = "application/json"
PROBLEM = "application/problem+json"
LOOPBACK = ("127.0.0.1", "::1")


class Exchange:
    """Reads the request piece by piece and sends one answer."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, path_values: Mapping[str, str] | None = None
    ) -> None:
        self.scope = scope
        self.path_values = path_values or {}
        self._receive = receive
        self._send = send
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.correlation = correlation_id(self.header(b"x-correlation-id"))

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def media_type(self) -> str:
        """Of the body, without its parameters."""
        return (self.header(b"content-type") or "").partition(";")[0].strip().lower()

    @property
    def loopback(self) -> bool:
        client = self.scope["client"]
        return client is not None and client[0] in LOOPBACK

    async def body(self, most: int, seconds: float) -> bytes:
        return await read_body(self._chunks(), most, seconds)

    async def _chunks(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message: Mapping[str, Any] = await self._receive()
            if message["type"] != "http.request":
                # Half a body, or none of it, may be a whole request of another meaning.
                raise MalformedRequestError("The client left before the body was complete.")
            more = message.get("more_body", False)
            yield message.get("body", b"")

    async def answer(
        self, status: int, body: bytes, media_type: str = JSON, headers: Mapping[str, str] | None = None
    ) -> None:
        await self.begin(status, media_type, {"content-length": str(len(body)), **(headers or {})})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def begin(self, status: int, media_type: str, headers: Mapping[str, str]) -> None:
        named = {"content-type": media_type, CORRELATION_HEADER: self.correlation, **headers}
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in named.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})

    async def part(self, body: bytes, *, last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": not last})

    async def until_gone(self, stream: Coroutine[Any, Any, None]) -> None:
        """Stream until the client goes away or the stream ends by itself."""
        streaming = asyncio.ensure_future(stream)
        gone = asyncio.ensure_future(self._gone())
        _, pending = await asyncio.wait((streaming, gone), return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        if streaming.done() and not streaming.cancelled():
            streaming.result()

    async def _gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            continue

    async def refuse(self, error: Exception, base_url: str) -> None:
        document = refusal(error, self.correlation)
        await self.answer(document.status, encode(document), PROBLEM, refusal_headers(error, base_url))


def query_fields(query_string: bytes, repeatable: Collection[str] = ()) -> dict[str, Any]:
    """The parameters of an address, each given once unless it takes several values."""
    if not query_string:
        return {}
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except ValueError:
        raise MalformedRequestError("The query string is not valid UTF-8 or has too many fields.") from None
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in repeatable:
            fields.setdefault(name, []).append(value)
        elif name in fields:
            raise MalformedRequestError(f"The query parameter {name} is given more than once.")
        else:
            fields[name] = value
    if any("\x00" in text for pair in pairs for text in pair):
        raise ShapeError("Text must not contain the NUL character.")
    return fields
