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

from beamwright.kernel.value import encode
from beamwright.runtime.health import Health
from beamwright.settings import Settings

from .documents import documents
from .door import (
    CORRELATION_HEADER,
    MalformedRequestError,
    MethodNotAllowedError,
    UnknownRouteError,
    correlation_id,
)
from .feed import FeedSurface
from .mcp import McpSurface
from .rest import JSON, Http, Rest

log = structlog.get_logger("beamwright.http")

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


def application(
    rest: Rest,
    feed: FeedSurface,
    mcp: McpSurface,
    health: Health,
    settings: Settings,
    description: Callable[[], bytes],
) -> Litestar:
    metrics = Metrics()

    def unrouted(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        correlation = correlation_id(request.headers.get(CORRELATION_HEADER))
        return rest.refuse(_own(error, request), correlation)

    return Litestar(
        [
            *rest.routes(),
            feed.route(),
            *documents(description, settings),
            *_probes(health, metrics),
            ASGIRouteHandler("/mcp", is_mount=True, copy_scope=True, name="mcp")(_mount(mcp.asgi)),
        ],
        exception_handlers={Exception: unrouted},
        middleware=[_watched(metrics)],
        lifespan=[mcp.lifespan],
        openapi_config=None,
        logging_config=None,
    )


def _own(error: Exception, request: Http) -> Exception:
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


def _watched(metrics: Metrics) -> Callable[[ASGIApp], ASGIApp]:
    """One log line and one measurement per request; the address without its query, which may name people."""

    def wrap(app: ASGIApp) -> ASGIApp:
        async def watch(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            began = time.perf_counter()
            seen: dict[str, Any] = {"status": 0, "correlation": ""}

            async def note(message: Message) -> None:
                if message["type"] == "http.response.start":
                    seen["status"] = message["status"]
                    for name, value in message["headers"]:
                        if name == b"x-correlation-id":
                            seen["correlation"] = value.decode()
                await send(message)

            await app(scope, receive, note)
            took = time.perf_counter() - began
            name = getattr(scope.get("route_handler"), "name", None) or "other"
            metrics.requests.labels(name, seen["status"]).inc()
            metrics.seconds.labels(name).observe(took)
            if scope["path"] not in QUIET:
                log.info(
                    "request",
                    method=scope["method"],
                    operation=name,
                    status=seen["status"],
                    ms=round(took * 1000, 2),
                    correlation_id=seen["correlation"],
                )

        return watch

    return wrap
