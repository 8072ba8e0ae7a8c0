"""A plain HTTP client that sends whatever it is given, as fast as it can, and reads what comes back."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

# No answer at all: the other side ended the connection, or said nothing for so long that nobody waits any longer.
CLOSED = 0
LONGEST = 60.0


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    @property
    def is_problem(self) -> bool:
        return self.headers.get("content-type", "") == "application/problem+json"

    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """Connections to one service, each kept for the next request."""

    def __init__(self, port: int, **headers: str) -> None:
        self._port = port
        self._headers = {"host": f"127.0.0.1:{port}"} | headers
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for _reader, writer in self._idle:
            writer.transport.abort()
        self._idle.clear()

    async def ask(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] = {}
    ) -> Answer:
        """The answer to one request; a connection that died while nobody used it is no answer to it."""
        given = self._headers | dict(headers)
        if body is not None:
            given = {"content-type": "application/json", "content-length": str(len(body))} | given
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        message = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")
        reused = bool(self._idle)
        answer = await self._exchange(message)
        return await self._exchange(message) if answer.status == CLOSED and reused else answer

    async def _exchange(self, message: bytes) -> Answer:
        reader, writer = self._idle.pop() if self._idle else await self._connected()
        try:
            async with asyncio.timeout(LONGEST):
                writer.write(message)
                await writer.drain()
                answer = await read_answer(reader)
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            writer.transport.abort()
            return Answer(CLOSED, {}, b"")
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        if answer.headers.get("connection") == "close":
            writer.transport.abort()
        else:
            self._idle.append((reader, writer))
        return answer

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(head[0].split(" ")[1])
    fields = (line.partition(":") for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in fields}
    if headers.get("transfer-encoding") == "chunked":
        return Answer(status, headers, await _chunks(reader))
    return Answer(status, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    whole = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        whole += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return whole
