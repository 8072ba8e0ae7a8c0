"""One way to call any operation by its name, through REST or through MCP."""

import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple, Protocol

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from beamwright.app import registry
from tests.live import MCP_AUDIENCE, LiveServer

OPERATIONS = registry().operations
# Reading the certificates takes longer than most calls.
TLS = ssl.create_default_context()


class Refused(NamedTuple):
    """What a problem document says."""

    status: int
    code: str
    context: dict[str, Any]


class Caller(Protocol):
    """Somebody who calls operations by name."""

    async def answer(self, operation: str, **fields: Any) -> tuple[bool, dict[str, Any]]:
        """Whether the call was refused, and the body."""
        ...

    async def call(self, operation: str, **fields: Any) -> dict[str, Any]:
        """The body of an answer that is no refusal."""
        refused, body = await self.answer(operation, **fields)
        assert not refused, f"{operation}: {body}"
        return body

    async def refusal(self, operation: str, **fields: Any) -> Refused:
        refused, body = await self.answer(operation, **fields)
        assert refused, f"{operation}: {body}"
        return Refused(body["status"], body["code"], body.get("context", {}))


class RestCaller(Caller):
    """Routes of the registry, with the fields in the path, the query string or the body."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def answer(self, operation: str, **fields: Any) -> tuple[bool, dict[str, Any]]:
        route = OPERATIONS[operation]
        path = re.sub(r"{(\w+)}", lambda match: str(fields.pop(match[1])), route.path)
        asked = (
            self.client.get(path, params=fields) if route.in_address else self.client.post(path, json=fields)
        )
        response = await asked
        return response.is_error, response.json()


class McpCaller(Caller):
    """Tools, each with the name and the fields of its operation."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def answer(self, operation: str, **fields: Any) -> tuple[bool, dict[str, Any]]:
        result = await self.client.call_tool(operation, fields)
        return bool(result.is_error), result.structured_content or {}


type Door = Callable[[LiveServer, str], AbstractAsyncContextManager[Caller]]


@asynccontextmanager
async def by_rest(server: LiveServer, subject: str) -> AsyncIterator[Caller]:
    headers = {"authorization": f"Bearer {server.token(subject)}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=30, verify=TLS) as client:
        yield RestCaller(client)


@asynccontextmanager
async def by_mcp(server: LiveServer, subject: str) -> AsyncIterator[Caller]:
    headers = {"authorization": f"Bearer {server.token(subject, MCP_AUDIENCE)}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30, verify=TLS) as transport,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=transport)) as client,
    ):
        yield McpCaller(client)
