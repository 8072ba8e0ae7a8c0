"""REST: one raw Litestar route per registered operation."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler

from beamwright.contexts.trust.surface import SurfaceKind
from beamwright.kernel.operation import Operation
from beamwright.kernel.value import encode, replace
from beamwright.runtime.arrival import Arrival
from beamwright.runtime.call import Call, Outcome
from beamwright.runtime.service import Service
from beamwright.settings import Settings

from .door import (
    CORRELATION_HEADER,
    MalformedRequestError,
    check_no_nul,
    correlation_id,
    expected_version,
    idempotency_key,
    nested_too_deep,
    read_body,
    refusal,
    refusal_headers,
)

type Http = Request[Any, Any, Any]
type Handler = Callable[[Http], Awaitable[Response[bytes]]]

JSON = "application/json"
PROBLEM = "application/problem+json"
_object = msgspec.json.Decoder(dict[str, Any])


class Rest:
    """Turns HTTP requests into calls of the service, and its answers into responses."""

    def __init__(self, service: Service, arrival: Arrival, settings: Settings) -> None:
        self._service = service
        self._arrival = arrival
        self._settings = settings

    def routes(self) -> list[HTTPRouteHandler]:
        """Every operation but the feed, which can also be followed and has its own route."""
        operations = self._service.registry.operations.values()
        return [self._route(operation) for operation in operations if operation.name != "list_events"]

    def _route(self, operation: Operation) -> HTTPRouteHandler:
        async def handle(request: Request[Any, Any, Any]) -> Response[bytes]:
            return await self.answer(request, operation)

        path = operation.path.replace("}", ":str}")
        register = HTTPRouteHandler(path, http_method=operation.method, status_code=200, name=operation.name)  # pyright: ignore[reportArgumentType] - a literal in the stubs
        return register(handle)

    async def answer(self, request: Http, operation: Operation) -> Response[bytes]:
        correlation = correlation_id(request.headers.get(CORRELATION_HEADER))
        try:
            call = await self.call(request, correlation)
            given = await self._given(request, operation)
            typed = self._service.decode(operation, given, strict=not operation.reads)
            check_no_nul(encode(typed))
            return self._render(operation, await self._service.call(typed, call), correlation)
        except Exception as error:
            return self.refuse(error, correlation)

    async def call(self, request: Http, correlation: str) -> Call:
        """Who calls: decided before anything of the body is read."""
        headers = request.headers
        loopback = request.client is not None and request.client.host in ("127.0.0.1", "::1")
        call = await self._arrival.call(
            headers.get("authorization"), SurfaceKind.HTTP, correlation, loopback=loopback
        )
        key, version = headers.get("idempotency-key"), headers.get("if-match")
        if key is None and version is None:
            return call
        return replace(call, idempotency_key=idempotency_key(key), expected_version=expected_version(version))

    async def _given(self, request: Http, operation: Operation) -> dict[str, Any]:
        """Body, query and path joined; a name given in two places is refused."""
        given = query_fields(request.scope["query_string"]) if operation.reads else await self._body(request)
        doubled = [name for name in operation.path_fields if name in given]
        if doubled:
            raise MalformedRequestError(f"{', '.join(doubled)} is given by the path already.")
        return given | request.path_params

    async def _body(self, request: Http) -> dict[str, Any]:
        settings = self._settings
        body = await read_body(request.stream(), settings.max_body_bytes, settings.request_body_seconds)
        if not body.strip():
            return {}
        try:
            return _object.decode(body)
        except msgspec.ValidationError:
            raise MalformedRequestError("The body must be a JSON object.") from None
        except RecursionError:
            raise nested_too_deep() from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedRequestError(f"The body is not JSON: {error}.") from None

    def _render(self, operation: Operation, outcome: Outcome, correlation: str) -> Response[bytes]:
        headers = {CORRELATION_HEADER: correlation}
        if outcome.version is not None:
            headers["etag"] = f'"{outcome.version}"'
        if outcome.status == 201:
            headers["location"] = f"{operation.path}/{outcome.object_id}"
        if outcome.replayed:
            headers["idempotency-replayed"] = "true"
        media_type = PROBLEM if outcome.status >= 400 else JSON
        return Response(
            encode(outcome.body), status_code=outcome.status, headers=headers, media_type=media_type
        )

    def refuse(self, error: Exception, correlation: str) -> Response[bytes]:
        document = refusal(error, correlation)
        headers = {CORRELATION_HEADER: correlation, **refusal_headers(error, self._settings.base_url)}
        return Response(encode(document), status_code=document.status, headers=headers, media_type=PROBLEM)


def query_fields(query_string: bytes) -> dict[str, Any]:
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except (ValueError, UnicodeDecodeError):
        raise MalformedRequestError("The query string is not valid UTF-8 or has too many fields.") from None
    fields: Mapping[str, str] = dict(pairs)
    if len(fields) != len(pairs):
        raise MalformedRequestError("A query parameter is given more than once.")
    return dict(fields)
