"""Messages to the agents' surface: in order in either era of the protocol, and out of order in every way we know."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.faults.mutation import HOSTILE, Raw, nested, written

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
METHODS = (
    "completion/complete",
    "elicitation/create",
    "initialize",
    "logging/setLevel",
    "notifications/cancelled",
    "notifications/initialized",
    "notifications/progress",
    "notifications/roots/list_changed",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "roots/list",
    "sampling/createMessage",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tools/call",
    "tools/list",
)
ADDRESSES = (
    "",
    "beamwright://guide/../operations",
    "beamwright://guide\x00",
    "file:///etc/passwd",
    "http://127.0.0.1:1/",
    "data:text/plain,x",
    "../../etc/passwd",
    "a" * 100_000,
    "\u202e",
)


class Letter(NamedTuple):
    """One message as it is sent."""

    name: str
    body: bytes
    headers: Mapping[str, str] = HEADERS
    target: str = "/mcp"
    method: str = "POST"


def message(method: Any, params: Any = None, id: Any = 1) -> dict[str, Any]:
    given = {} if params is None else {"params": params}
    return {"jsonrpc": "2.0", "id": id, "method": method} | given


def stateless(method: str, params: Any = None, id: Any = 1) -> tuple[dict[str, Any], dict[str, str]]:
    """A message of the stateless era, which says with each message who sends it, and the headers that repeat it."""
    prefix = "io.modelcontextprotocol/"
    sender = {f"{prefix}protocolVersion": MODERN, f"{prefix}clientCapabilities": {}}
    given = dict(params) if isinstance(params, dict) else {}
    said = given.get("_meta", {})
    given["_meta"] = {**said, **sender} if isinstance(said, dict) else said
    headers = HEADERS | {"mcp-protocol-version": MODERN, "mcp-method": method}
    name = given.get(NAMED.get(method, ""))
    if isinstance(name, str) and name.isascii() and name.isprintable() and len(name) < 1000:
        headers["mcp-name"] = name
    return message(method, given, id), headers


def in_each_era(name: str, method: str, params: Any = None, id: Any = 1) -> Iterator[Letter]:
    yield Letter(name, written(message(method, params, id)))
    whole, headers = stateless(method, params, id)
    yield Letter(f"stateless {name}", written(whole), headers)


def letters() -> list[Letter]:
    return [*_frames(), *_methods(), *_metadata(), *_resources(), *_doors()]


def _frames() -> Iterator[Letter]:
    """What is around a message."""
    for name in sorted(HOSTILE):
        yield from in_each_era(f"id {name}", "ping", id=HOSTILE[name]())
        for member in ("jsonrpc", "method", "params"):
            yield Letter(f"{member} {name}", written(PING | {member: HOSTILE[name]()}))
        yield Letter(f"nothing but {name}", written(HOSTILE[name]()))
    batches = {
        "batch": [PING, PING],
        "empty batch": [],
        "batch of a batch": [[PING]],
        "large batch": [PING] * 2000,
    }
    for name, batch in batches.items():
        yield Letter(name, written(batch))
        yield Letter(f"stateless {name}", written(batch), stateless("ping")[1])
    for name, answer in {"result": {"result": {}}, "error": {"error": {"code": 1, "message": "x"}}}.items():
        yield Letter(f"an answer: {name}", written({"jsonrpc": "2.0", "id": 1} | answer))
    yield Letter("other encoding", written(PING).decode().encode("utf-16"))
    yield Letter("other encoding, unmarked", written(PING).decode().encode("utf-16-le"), stateless("ping")[1])
    yield Letter(
        "half a character", b'{"jsonrpc":"2.0","id":"\xed\xa0\x80","method":"ping"}', stateless("ping")[1]
    )
    yield Letter("two ids", b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"tools/list"}')


def _methods() -> Iterator[Letter]:
    for method in METHODS:
        for params in (
            None,
            {},
            {"name": "get_zone"},
            {"cursor": "x" * 5000},
            {"requestId": 1, "reason": "x"},
        ):
            yield from in_each_era(f"{method} {str(params)[:30]}", method, params)
        for name in ("text long", "deep list", "null", "hundred digits", "wide object"):
            yield from in_each_era(
                f"{method} of {name}", method, {"name": HOSTILE[name](), "uri": HOSTILE[name]()}
            )
        yield Letter(f"notification {method}", written({"jsonrpc": "2.0", "method": method}))
    for method in ("", "rpc.discover", "__init__", "tools/call\x00", "../ping", "a" * 100_000):
        yield Letter(f"method {method[:20]!r}", written(message(method)))
    start = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    for member in start:
        for name in sorted(HOSTILE):
            yield Letter(
                f"initialize, {member} {name}",
                written(message("initialize", start | {member: HOSTILE[name]()})),
            )


def _metadata() -> Iterator[Letter]:
    """What a message says about itself."""
    keys = ("beamwright/idempotency-key", "beamwright/if-match", "progressToken", "beamwright/correlation-id")
    for key in keys:
        for name in sorted(HOSTILE):
            params = {"name": "list_zones", "arguments": {}, "_meta": {key: HOSTILE[name]()}}
            yield from in_each_era(f"{key} {name}", "tools/call", params)
    for name in sorted(HOSTILE):
        yield from in_each_era(f"tool {name}", "tools/call", {"name": HOSTILE[name](), "arguments": {}})
        yield from in_each_era(
            f"arguments {name}", "tools/call", {"name": "list_zones", "arguments": HOSTILE[name]()}
        )
        yield from in_each_era(
            f"metadata {name}", "tools/call", {"name": "list_zones", "_meta": HOSTILE[name]()}
        )


def _resources() -> Iterator[Letter]:
    for address in ADDRESSES:
        for method in ("resources/read", "resources/subscribe", "prompts/get"):
            yield from in_each_era(f"{method} {address[:30]!r}", method, {"uri": address, "name": address})


def _doors() -> Iterator[Letter]:
    """Headers and addresses."""
    ping = written(PING)
    odd = {
        "mcp-session-id": ("", "x", "a" * 10_000, "\xff", "0" * 64),
        "mcp-protocol-version": (
            "",
            "x",
            "9999-99-99",
            "a" * 10_000,
            "\xff",
            MODERN,
            "2024-11-05",
            HANDSHAKE,
        ),
        "accept": ("", "text/html", "*/*", "text/event-stream", "application/json;q=0", ",;," * 1000, "\xff"),
        "content-type": ("", "text/plain", "multipart/form-data", "application/json; charset=utf-16", "\xff"),
        "mcp-method": ("tools/list", "\xff", "a" * 10_000),
        "mcp-name": ("x", "=?base64?!!!?="),
        "mcp-param-x": ("y", "=?base64?AAAA?="),
        "last-event-id": ("x", "a" * 10_000),
        "content-encoding": ("gzip", "br"),
    }
    for header, values in odd.items():
        for value in values:
            yield Letter(f"{header} {value[:20]!r}", ping, HEADERS | {header: value})
            yield Letter(f"stateless {header} {value[:20]!r}", ping, stateless("ping")[1] | {header: value})
    for query in (
        "toolsets=",
        "toolsets=x",
        "toolsets=%00",
        "toolsets=%ff",
        "toolsets=a&toolsets=b",
        "x" * 5000,
    ):
        yield Letter(f"query {query[:20]}", ping, target=f"/mcp?{query}")
    for target in ("/mcp/", "/mcp/x", "/mcp//", "/mcp/%2e%2e/zones", "/mcp%00"):
        yield Letter(f"at {target}", ping, target=target)
    for method in ("GET", "DELETE", "PUT", "OPTIONS"):
        yield Letter(f"by {method}", b"", HEADERS | {"accept": "text/event-stream"}, method=method)
    for name, raw in {"deep": nested(3000), "deeper": nested(100_000), "broken": Raw("{")}.items():
        yield from in_each_era(f"arguments {name}", "tools/call", {"name": "list_zones", "arguments": raw})
