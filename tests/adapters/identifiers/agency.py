"""A registration agency on a loopback port: keeps what it is sent, checks it, and misbehaves on demand."""

import asyncio
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from datacite.schema45 import validator


class Sent(NamedTuple):
    """One request as it arrived."""

    path: str
    parameters: dict[str, str]
    user: str
    password: str
    content_type: str
    body: Any


class FakeAgency:
    """Answers each request with the next of `answers`, or with 201 the first time and 200 afterwards."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.answers: list[tuple[int, bytes]] = []
        self.silent = False
        self.records: dict[str, Any] = {}
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> "FakeAgency":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                fields = (line.partition(":") for line in head[1:])
                headers = {name.lower(): value.strip() for name, _, value in fields}
                content = await reader.readexactly(int(headers["content-length"]))
                status, body = self._answer(head[0], headers, json.loads(content))
                if self.silent:
                    await asyncio.sleep(60)
                answer = f"HTTP/1.1 {status} Whatever\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(answer.encode() + body)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, line: str, headers: dict[str, str], body: Any) -> tuple[int, bytes]:
        method, address, _ = line.split()
        assert method == "PUT"
        parts = urlsplit(address)
        user, _, password = b64decode(headers["authorization"].removeprefix("Basic ")).decode().partition(":")
        parameters = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = unquote(parts.path)
        self.sent.append(Sent(path, parameters, user, password, headers["content-type"], body))
        if self.answers:
            return self.answers.pop(0)
        known = path in self.records
        self.records[path] = body
        return (200 if known else 201), b"{}"


def faults(record: Any) -> list[str]:
    """What the published DataCite JSON schema has against a record."""
    return [error.message for error in validator.iter_errors(record)]


def against_agency(scenario: Callable[[FakeAgency], Awaitable[None]]) -> None:
    async def serve() -> None:
        async with FakeAgency() as agency:
            await scenario(agency)

    asyncio.run(serve())
