"""The HTTP application: operations, feed, description, health and metrics, behind one correlation and log line."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from litestar import Litestar, Request, Response, get
from litestar.exceptions import HTTPException
from litestar.handlers import ASGIRouteHandler
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)

from beamwright.kernel.registry import Registry
from beamwright.kernel.value import encode
from beamwright.runtime.health import Health
from beamwright.settings import Settings

from .admission import Admission
from .documents import documents
from .door import (
    CORRELATION_HEADER,
    MalformedRequestError,
    MethodNotAllowedError,
    UnknownRouteError,
    correlation_id,
    refusal,
    refusal_headers,
)
from .exchange import JSON, PROBLEM, Exchange
from .feed import FeedSurface
from .mcp import McpSurface
from .rest import OPERATION, Rest
from .router import Router

log = structlog.get_logger("beamwright.http")

FEED = "list_events"
QUIET = ("/health", "/ready", "/metrics")


class Metrics:
    """What Prometheus may scrape; each application has its own registry, so tests do not share one."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "beamwright_requests",
            "Requests by operation and status",
            ["operation", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "beamwright_request_seconds",
            "Time to answer by operation",
            ["operation"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
            registry=self.registry,
        )
        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def observe(self, operation: str, status: int, seconds: float) -> None:
        """Children are looked up once: finding one by its labels costs more than counting."""
        children = self._children.get((operation, status))
        if children is None:
            children = (self.requests.labels(operation, status), self.seconds.labels(operation))
            self._children[operation, status] = children
        children[0].inc()
        children[1].observe(seconds)


def application(
    registry: Registry,
    rest: Rest,
    feed: FeedSurface,
    mcp: McpSurface,
    health: Health,
    settings: Settings,
    description: Callable[[], bytes],
) -> ASGIApp:
    """Operations are answered on bare ASGI; pages, probes and the mount for agents by Litestar."""
    metrics = Metrics()
    router = Router(registry.operations.values())
    pages = _pages(mcp, health, metrics, settings, description)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await pages(scope, receive, send)
            return
        methods, path_values = router.find(scope["path"])
        if not methods:
            await pages(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, path_values)
        operation = methods.get(scope["method"])
        if operation is None:
            allowed = ", ".join(sorted(methods))
            await rest.refuse(exchange, MethodNotAllowedError(f"This address takes {allowed}; see /docs."))
        elif operation.name == FEED:
            await feed.answer(exchange, operation)
        else:
            await rest.answer(exchange, operation)

    return _watched(Admission(answer, rest, settings.max_concurrent_calls, QUIET), metrics)


def _pages(
    mcp: McpSurface, health: Health, metrics: Metrics, settings: Settings, description: Callable[[], bytes]
) -> Litestar:
    def unrouted(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        own = _own(error, request)
        correlation = correlation_id(request.headers.get(CORRELATION_HEADER))
        headers = {CORRELATION_HEADER: correlation, **refusal_headers(own, settings.base_url)}
        document = refusal(own, correlation)
        return Response(encode(document), status_code=document.status, headers=headers, media_type=PROBLEM)

    return Litestar(
        [
            *documents(description, settings),
            *_probes(health, metrics),
            ASGIRouteHandler("/mcp", is_mount=True, copy_scope=True, name="mcp")(_mount(mcp.asgi)),
        ],
        exception_handlers={Exception: unrouted},
        lifespan=[mcp.lifespan],
        openapi_config=None,
        logging_config=None,
    )


def _own(error: Exception, request: Request[Any, Any, Any]) -> Exception:
    """The router's own refusals, in our words."""
    match error:
        case HTTPException(status_code=404):
            return UnknownRouteError(f"There is nothing at {request.scope['path'][:200]}; see /docs.")
        case HTTPException(status_code=405):
            return MethodNotAllowedError(f"This address does not take {request.method}; see /docs.")
        case HTTPException(status_code=400):
            return MalformedRequestError("The request cannot be read.")
        case _:
            return error


def _mount(app: ASGIApp) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def mcp(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    return mcp


def _probes(health: Health, metrics: Metrics) -> list[Any]:
    @get("/health", sync_to_thread=False)
    def alive() -> Response[bytes]:
        return Response(b'{"status":"alive"}', media_type=JSON)

    @get("/ready")
    async def ready() -> Response[bytes]:
        report = await health.report()
        return Response(encode(report), status_code=200 if report.ready else 503, media_type=JSON)

    @get("/metrics")
    async def scrape() -> Response[bytes]:
        text = generate_latest(metrics.registry) + await health.metrics()
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    return [alive, ready, scrape]


def _watched(app: ASGIApp, metrics: Metrics) -> ASGIApp:
    """One log line and one measurement per request; the address without its query, which may name people."""

    async def watch(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        began = time.perf_counter()
        status, correlation = 0, b""

        async def note(message: Message) -> None:
            nonlocal status, correlation
            if message["type"] == "http.response.start":
                status = message["status"]
                correlation = dict(message["headers"]).get(b"x-correlation-id", b"")
            await send(message)

        await app(scope, receive, note)
        took = time.perf_counter() - began
        known: Any = scope
        name = known.get(OPERATION) or getattr(known.get("route_handler"), "name", None) or "other"
        metrics.observe(name, status, took)
        if scope["path"] not in QUIET:
            log.info(
                "request",
                method=scope["method"],
                operation=name,
                status=status,
                ms=round(took * 1000, 2),
                correlation_id=correlation.decode("latin-1"),
            )

    return watch
