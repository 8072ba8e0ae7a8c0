"""What the MCP surface offers: operations as tools, and the documents that an agent reads first.

Only `mcp.py` imports this module, when the first agent calls: the SDK takes long to load.
"""

from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, cast
from urllib.parse import urlencode

import msgspec
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

from beamwright import __version__
from beamwright.kernel.authority import AuthzReason
from beamwright.kernel.download import Download, DownloadAddress
from beamwright.kernel.errors import DomainError
from beamwright.kernel.operation import Operation
from beamwright.kernel.value import encode, replace
from beamwright.runtime.call import Call, Outcome
from beamwright.runtime.service import Service
from beamwright.settings import Settings

from .door import (
    InvalidExpectedVersionError,
    InvalidIdempotencyKeyError,
    Json,
    check_no_nul,
    expected_version,
    idempotency_key,
    nested_too_deep,
    refusal,
)
from .mcp import ARRIVED, Arrived

type Context = ServerRequestContext[Any, Any]

CORRELATION_META = "beamwright/correlation-id"
KEY_META = "beamwright/idempotency-key"
REPLAYED_META = "beamwright/replayed"
VERSION_META = "beamwright/if-match"

MOST_LISTINGS = 100

GUIDE = "beamwright://guide"
OPERATIONS = "beamwright://operations"
MARKDOWN = "text/markdown"
DOCUMENTS = [
    Resource(
        uri=GUIDE,
        name="guide",
        title="How to work with Beamwright",
        description="Receipts, consistency, idempotency and refusals; read this first.",
        mime_type=MARKDOWN,
    ),
    Resource(
        uri=OPERATIONS,
        name="operations",
        title="Operations you may call",
        description="Every tool that you may call, by context.",
        mime_type=MARKDOWN,
    ),
]
INSTRUCTIONS = (
    "Beamwright records and controls the operations of an experiment facility: what equipment exists, what was"
    f" decided by whom, and what happened. Read {GUIDE} before the first command; every refusal says in `detail`"
    " what to do next."
)

# Verbs that end something for good, or take something away from somebody.
DESTRUCTIVE = frozenset(
    {
        "abort",
        "cancel",
        "deactivate",
        "decommission",
        "demote",
        "discard",
        "dismiss",
        "expire",
        "forget",
        "redact",
        "remove",
        "retire",
        "revoke",
        "seize",
        "stop",
        "suspend",
        "truncate",
        "unlink",
        "void",
        "withdraw",
    }
)


class UnknownToolError(DomainError):
    """There is no tool of this name."""

    status = 404


class Tools:
    """The registry's operations in the words of the protocol."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._operations = service.registry.operations
        self._tools = {name: tool(operation) for name, operation in self._operations.items()}
        self._listings: dict[tuple[str, tuple[str, ...]], HandlerResult] = {}
        self._guide = (files("beamwright.surfaces") / "assets" / "guide.md").read_text()

    def server(self) -> Server[Any]:
        server = Server[Any](
            "beamwright",
            title="Beamwright",
            version=__version__,
            instructions=INSTRUCTIONS,
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_list_resources=self._documents,
            on_read_resource=self._document,
        )
        server.middleware.append(self._listed_before)
        return server

    async def _listed_before(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """A listing that the SDK has once checked and shaped is given again: that takes most of its time."""
        if ctx.method != "tools/list":
            return await call_next(ctx)
        key = (ctx.protocol_version, tuple(each.name for each in self._open_to(arrived(ctx))))
        if key not in self._listings:
            if len(self._listings) >= MOST_LISTINGS:
                self._listings.clear()
            self._listings[key] = await call_next(ctx)
        return self._listings[key]

    def _input_schema(self, name: str) -> Json | None:
        return self._tools[name].input_schema if name in self._tools else None

    async def _list(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[self._tools[each.name] for each in self._open_to(arrived(context))])

    def _open_to(self, arrived: Arrived) -> Iterable[Operation]:
        """What the caller may call; control of the surface can be taken at any time, so it does not count."""
        call, authority, now = arrived.call, self._service.authority.current, self._service.now()
        for operation in self._operations.values():
            if operation.context in arrived.toolsets:
                result = authority.authorize(
                    call.caller, operation.permission, call.conduit_id, call.surface_id, now
                )
                if result.allowed or result.reason is AuthzReason.CONTROL_NOT_HELD:
                    yield operation

    async def _call(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        call = arrived(context).call
        try:
            outcome = await self._outcome(params, under_conditions(call, params.meta or {}))
        except Exception as error:  # noqa: BLE001 - a surface answers every failure
            problem = refusal(error, call.correlation_id)
            outcome = Outcome(status=problem.status, body=problem)
        return rendered(outcome, call.correlation_id)

    async def _outcome(self, params: CallToolRequestParams, call: Call) -> Outcome:
        operation = self._operations.get(params.name)
        if operation is None:
            raise UnknownToolError(
                f"There is no tool {params.name[:100]}; tools/list names those you may call."
            )
        try:
            request = self._service.decode(operation, params.arguments or {}, strict=True)
            check_no_nul(encode(request))
        except RecursionError:
            raise nested_too_deep() from None
        outcome = await self._service.call(request, call)
        if isinstance(outcome.body, Download):
            address = self._address(operation, request, outcome.body)
            return replace(outcome, body=address)
        return outcome

    def _address(self, operation: Operation, request: Any, download: Download) -> DownloadAddress:
        """Where a file is, instead of its bytes, which a conversation should not carry."""
        given: Json = {
            name: value for name, value in msgspec.to_builtins(request).items() if value not in (None, [])
        }
        path = operation.path.format(**{name: given.pop(name) for name in operation.path_fields})
        query = urlencode(given, doseq=True)
        return DownloadAddress(
            url=f"{self._service.installation.base_url}{path}{'?' if query else ''}{query}",
            media_type=download.media_type,
            filename=download.filename,
        )

    async def _documents(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        return ListResourcesResult(resources=DOCUMENTS)

    async def _document(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        if params.uri == GUIDE:
            text = self._guide
        elif params.uri == OPERATIONS:
            text = listed(self._open_to(arrived(context)))
        else:
            raise MCPError(code=INVALID_PARAMS, message="Unknown resource", data={"uri": params.uri})
        content = TextResourceContents(uri=params.uri, mime_type=MARKDOWN, text=text)
        return ReadResourceResult(contents=[content])


def session_manager(service: Service, settings: Settings) -> StreamableHTTPSessionManager:
    """One answer per message and nothing kept between messages, in the older and the newer protocol alike."""
    return StreamableHTTPSessionManager(
        Tools(service).server(),
        stateless=True,
        json_response=True,
        max_request_body_size=settings.max_body_bytes,
    )


def arrived(context: Context) -> Arrived:
    assert context.request is not None, "every message comes in a request through the door"
    return context.request.scope[ARRIVED]


def under_conditions(call: Call, meta: Mapping[str, Any]) -> Call:
    """What headers say on REST, the message's metadata says here."""
    key, version = meta.get(KEY_META), meta.get(VERSION_META)
    if key is None and version is None:
        return call
    if not isinstance(key, str | None):
        raise InvalidIdempotencyKeyError(f"{KEY_META} must be 1 to 255 visible ASCII characters.")
    if isinstance(version, bool) or not isinstance(version, str | int | None):
        raise InvalidExpectedVersionError(f"{VERSION_META} must be the version of the object, for example 3.")
    expected = expected_version(None if version is None else str(version))
    return replace(call, idempotency_key=idempotency_key(key), expected_version=expected)


def rendered(outcome: Outcome, correlation: str) -> CallToolResult:
    """The same JSON as on REST, once for programs and once as text; a refusal's text is its reason."""
    text = encode(outcome.body).decode()
    body: Json = msgspec.json.decode(text)
    refused = outcome.status >= 400
    if refused:
        text = f"{body['code']}: {body['detail']}"
    meta: Json = {CORRELATION_META: correlation}
    if outcome.replayed:
        meta[REPLAYED_META] = True
    content = TextContent(text=text)
    return CallToolResult(content=[content], structured_content=body, is_error=refused, _meta=meta)


def tool(operation: Operation) -> Tool:
    ends = operation.name.partition("_")[0] in DESTRUCTIVE
    return Tool(
        name=operation.name,
        description=operation.summary,
        input_schema=standalone(operation.request),
        output_schema=standalone(operation.response),
        annotations=ToolAnnotations(
            read_only_hint=operation.reads,
            destructive_hint=ends and not operation.reads,
            idempotent_hint=False,
            open_world_hint=False,
        ),
    )


def standalone(shape: Any) -> Json:
    """The JSON schema of a record, with every definition put in its place; one that holds itself stays apart."""
    schema = msgspec.json.schema(shape)
    definitions: Json = schema.pop("$defs")
    recursive: set[str] = set()

    def inlined(node: Any, within: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [inlined(each, within) for each in cast(list[Any], node)]
        if not isinstance(node, dict):
            return node
        members = cast(Json, node)
        name = str(members.get("$ref", "")).removeprefix("#/$defs/")
        if name in within:
            recursive.add(name)
            return members
        rest = {key: inlined(value, within) for key, value in members.items() if key != "$ref"}
        return inlined(definitions[name], (*within, name)) | rest if name else rest

    whole: Json = inlined(schema, ())
    described = {key: value for key, value in whole.items() if key not in ("title", "description")}
    # A choice between records is a record too, which MCP wants to read at the root.
    return {"type": "object"} | described | ({"$defs": definitions} if recursive else {})


def listed(operations: Iterable[Operation]) -> str:
    """The operations as markdown, by context."""
    by_context: dict[str, list[Operation]] = {}
    for operation in operations:
        by_context.setdefault(operation.context, []).append(operation)
    sections = ["# Operations you may call"]
    for context, members in sorted(by_context.items()):
        lines = [f"- `{each.name}`{'' if each.reads else ' (command)'}: {each.summary}" for each in members]
        sections.append("\n".join([f"## {context}", "", *lines]))
    return "\n\n".join(sections) + "\n"
