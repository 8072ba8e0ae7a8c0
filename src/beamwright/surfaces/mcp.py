"""MCP at /mcp: each request is let in by its own token, then served by the protocol's SDK."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import blake2b
from typing import Any, Literal, Protocol
from uuid import uuid4

import msgspec
from litestar import Request
from litestar.types import Message, Receive, Scope, Send

from beamwright.contexts.trust.surface import SurfaceKind
from beamwright.kernel.errors import InvalidError, NotFoundError
from beamwright.kernel.value import Value, encode
from beamwright.runtime.arrival import Arrival
from beamwright.runtime.call import Call
from beamwright.runtime.service import Service
from beamwright.settings import LOOPBACK, Settings

from .door import (
    CORRELATION_HEADER,
    MalformedRequestError,
    MethodNotAllowedError,
    UnknownRouteError,
    check_once,
    check_source,
    correlation_id,
    read_body,
    refusal,
    refusal_headers,
)
from .exchange import JSON, PROBLEM, query_fields

type Http = Request[Any, Any, Any]

ARRIVED = "beamwright.arrived"
SESSION_HEADER = "mcp-session-id"
NONCE = 32
METADATA = "/.well-known/oauth-protected-resource"


class UnknownToolsetError(InvalidError):
    """No context has this name."""


class McpSessionNotFoundError(NotFoundError):
    """There is no such session of the caller's."""


class Arrived(Value):
    """What the door found out about one request; the tools find it in the request's scope."""

    call: Call
    toolsets: frozenset[str]


class SessionManager(Protocol):
    """The part of the SDK's session manager that is used here, so that naming it costs no import."""

    def run(self) -> AbstractAsyncContextManager[None]: ...
    async def handle_request(self, scope: Any, receive: Any, send: Any) -> None: ...


PARSE_ERROR, INVALID_REQUEST = -32700, -32600


class _Message(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    method: str
    id: Any = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")


_message = msgspec.json.Decoder(_Message)


class NoMessageError(Exception):
    """The body is no message of the protocol; `code` is the protocol's own."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class McpSurface:
    """Serves every operation as a tool, to those who may call it."""

    def __init__(self, service: Service, arrival: Arrival, settings: Settings) -> None:
        self._service = service
        self._arrival = arrival
        self._settings = settings
        self._loading = asyncio.Lock()
        self._closing = asyncio.Event()
        self._protocol: SessionManager | None = None
        self._tasks: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncGenerator[None]:
        async with asyncio.TaskGroup() as self._tasks:
            yield
            self._closing.set()

    async def asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        request: Http = Request(scope, receive, send)
        correlation = correlation_id(request.headers.get(CORRELATION_HEADER))
        try:
            arrived = await self._arrived(request, correlation)
            body = await self._body(receive)
            check_media_type(request)
            message = read_message(body)
            protocol = await self._loaded()
        except NoMessageError as error:
            await self._answer_no_message(error, correlation, send)
            return
        except Exception as error:  # noqa: BLE001 - a surface answers every failure
            await self._refuse(error, correlation, send)
            return
        headers = {CORRELATION_HEADER: correlation}
        if message.method == "initialize":
            headers[SESSION_HEADER] = new_session(arrived.call)
        handed: dict[str, Any] = {**scope, ARRIVED: arrived}
        await protocol.handle_request(handed, replayed(body, receive), with_headers(headers, send))

    async def _arrived(self, request: Http, correlation: str) -> Arrived:
        """Who calls, and whether from where and how it may: decided before anything of the body is read."""
        headers = request.headers
        check_once(request.scope["headers"])
        check_source(
            self._settings,
            request.scope["server"],
            headers.getall("host", []),
            headers.getall("origin", []),
        )
        if request.scope["path"] != "/":
            raise UnknownRouteError("Nothing is here; the tools are at /mcp.")
        loopback = request.client is not None and request.client.host in LOOPBACK
        call = await self._arrival.call(
            request.headers.get("authorization"),
            SurfaceKind.MCP_STREAMABLE_HTTP,
            correlation,
            loopback=loopback,
        )
        if request.method != "POST":
            raise MethodNotAllowedError("Send each message as a POST; there is no stream to follow here.")
        check_session(request.headers.get(SESSION_HEADER), call)
        return Arrived(call=call, toolsets=self._toolsets(request))

    def _toolsets(self, request: Http) -> frozenset[str]:
        """The contexts that `?toolsets=` asks for; all of them when it is absent."""
        contexts = self._service.registry.contexts
        given = query_fields(request.scope["query_string"]).get("toolsets")
        wanted = frozenset(contexts if given is None else (name.strip() for name in given.split(",")))
        if unknown := sorted(wanted.difference(contexts)):
            raise UnknownToolsetError(
                f"There is no toolset {', '.join(unknown)[:200]}; there are {', '.join(contexts)}.",
                allowed=list(contexts),
            )
        return wanted

    async def _body(self, receive: Receive) -> bytes:
        settings = self._settings
        return await read_body(chunks(receive), settings.max_body_bytes, settings.request_body_seconds)

    async def _loaded(self) -> SessionManager:
        """The SDK, brought in by the first caller: a service that no agent calls starts sooner without it."""
        async with self._loading:
            if self._protocol is None:
                manager = await asyncio.to_thread(self._load)
                opened = asyncio.Event()
                assert self._tasks is not None, "the application's lifespan has not begun"
                self._tasks.create_task(self._keep_open(manager, opened))
                await opened.wait()
                self._protocol = manager
            return self._protocol

    def _load(self) -> SessionManager:
        from .mcp_server import session_manager

        return session_manager(self._service, self._settings)

    async def _keep_open(self, manager: SessionManager, opened: asyncio.Event) -> None:
        """In a task of its own, because the manager must be closed by the task that opened it."""
        async with manager.run():
            opened.set()
            await self._closing.wait()

    async def _answer_no_message(self, error: NoMessageError, correlation: str, send: Send) -> None:
        document = {"jsonrpc": "2.0", "id": None, "error": {"code": error.code, "message": str(error)}}
        await respond(400, JSON, encode(document), with_headers({CORRELATION_HEADER: correlation}, send))

    async def _refuse(self, error: Exception, correlation: str, send: Send) -> None:
        document = refusal(error, correlation)
        headers = {CORRELATION_HEADER: correlation, **refusal_headers(error, self._settings.base_url)}
        if "www-authenticate" in headers:
            # The metadata must name the address that the client called (RFC 9728, 3.3).
            headers["www-authenticate"] = headers["www-authenticate"].replace(METADATA, f"{METADATA}/mcp")
        if document.status == 405:
            headers["allow"] = "POST"
        await respond(document.status, PROBLEM, encode(document), with_headers(headers, send))


async def chunks(receive: Receive) -> AsyncGenerator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise MalformedRequestError("The client left before the body was complete.")
        yield message["body"]
        more = message["more_body"]


def check_media_type(request: Http) -> None:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise MalformedRequestError(f"Send each message as {JSON}.")


def read_message(body: bytes) -> _Message:
    """What the body says before its method is looked at.

    The SDK takes more for JSON (other encodings, halves of characters), and explains in its own insides what it does
    not take for a message; so neither reaches it.
    """
    try:
        body.decode()
        if b"\\ud" in body or b"\\uD" in body:
            msgspec.json.decode(body)
        message = _message.decode(body)
    except msgspec.ValidationError:
        raise NoMessageError(INVALID_REQUEST, "The body is not one message of JSON-RPC 2.0.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NoMessageError(PARSE_ERROR, "The body is not JSON in UTF-8.") from None
    if not isinstance(message.id, str | int | msgspec.UnsetType) or isinstance(message.id, bool):
        raise NoMessageError(INVALID_REQUEST, "The id of a message is a text or a whole number.")
    if not bytes(message.params).startswith(b"{"):
        raise NoMessageError(INVALID_REQUEST, "The params of a message are an object.")
    return message


def new_session(call: Call) -> str:
    """An id that is its holder's own. It stands for no state, so any process and any restart honours it."""
    nonce = uuid4().hex
    return nonce + _seal(nonce, call)


def check_session(given: str | None, call: Call) -> None:
    """A session lends nobody any rights, yet one that somebody else opened is refused."""
    if given is not None and given[NONCE:] != _seal(given[:NONCE], call):
        raise McpSessionNotFoundError("This session is not yours or does not exist. Initialize a new one.")


def _seal(nonce: str, call: Call) -> str:
    holder = f"{nonce} {call.caller.principal_id} {call.surface_id}"
    return blake2b(holder.encode(), digest_size=16).hexdigest()


def replayed(body: bytes, receive: Receive) -> Receive:
    """The body that was read already, then whatever else the client says."""
    messages: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return messages.pop() if messages else await receive()

    return again


def with_headers(headers: Mapping[str, str], send: Send) -> Send:
    more = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *more]
        await send(message)

    return sent


async def respond(status: int, media_type: str, body: bytes, send: Send) -> None:
    headers = [(b"content-type", media_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
