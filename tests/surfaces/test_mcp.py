"""MCP over real HTTP, by the SDK's own client, in the protocol's handshake era and in its stateless era."""

import asyncio
import re
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import httpx2
import jsonschema
import msgspec
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

from beamwright.app import registry
from beamwright.kernel import wellknown
from beamwright.kernel.operation import Operation
from beamwright.surfaces.mcp_server import standalone
from tests.live import HTTP_AUDIENCE, MCP_AUDIENCE, Cluster, LiveServer, serving
from tests.samples import minimal

OPERATIONS = list(registry().operations.values())
HANDSHAKE, STATELESS = "legacy", "2026-07-28"
# What only monitors and conductors may say, never a human.
OBSERVED = {"end_run_conduct", "observe_enclosure_status", "observe_supply_status"}
SELF_SERVICE = {
    "get_current_actor",
    "get_actor",
    "get_actor_history",
    "list_actors",
    "get_actor_profile",
    "update_actor_profile",
    "list_permissions",
}
# Reading the certificates takes longer than most tests.
TLS = ssl.create_default_context()
EITHER = "application/json, text/event-stream"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}

each_era = pytest.mark.parametrize("era", [HANDSHAKE, STATELESS, "auto"])
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda op: op.name)
asynchronous = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def connected(
    server: LiveServer, era: str = HANDSHAKE, subject: UUID | str = wellknown.ADMINISTRATOR, query: str = ""
) -> AsyncIterator[Client]:
    """The SDK's client, connected as `subject`."""
    headers = {"authorization": f"Bearer {server.token(subject, MCP_AUDIENCE)}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30, verify=TLS) as transport:
        streams = streamable_http_client(f"{server.url}/mcp{query}", http_client=transport)
        async with Client(streams, mode=era) as client:
            yield client


def post(
    server: LiveServer,
    message: Any,
    subject: UUID | str | None = wellknown.ADMINISTRATOR,
    path: str = "/mcp",
    **headers: str,
) -> httpx.Response:
    """One bare message, as a client without a session sends it."""
    sent = {"accept": EITHER, "content-type": "application/json"}
    if subject is not None:
        sent["authorization"] = f"Bearer {server.token(subject, MCP_AUDIENCE)}"
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    body = message if isinstance(message, bytes) else msgspec.json.encode(message)
    return httpx.post(f"{server.url}{path}", content=body, headers=sent, timeout=30, verify=TLS)


def call(name: str, arguments: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments or {}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def refused(result: CallToolResult) -> tuple[int, str]:
    """Status and code of an error result, whose text must say the same."""
    assert result.is_error
    problem = result.structured_content
    assert result.content[0].text == f"{problem['code']}: {problem['detail']}"
    return problem["status"], problem["code"]


def refusal(response: httpx.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["status"] == response.status_code
    return response.status_code, response.json()["code"]


def newcomer(server: LiveServer, kind: str = "human") -> tuple[UUID, str]:
    """Somebody without any grant beyond what its kind has: its id, and the subject of its login."""
    actor = server.newcomer(kind)
    return actor, server.subjects[actor]


def fresh() -> str:
    return f"zone {uuid4().hex}"


# The tools


@asynchronous
@each_era
async def test_a_zone_defined_by_a_tool_is_read_by_another(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        receipt = (await client.call_tool("define_zone", {"name": "Hutch " + era})).structured_content
        view = await client.call_tool("get_zone", {"zone_id": receipt["zone_id"]})
    assert (receipt["events"], view.structured_content["name"]) == (["ZoneDefined"], "Hutch " + era)
    assert msgspec.json.decode(view.content[0].text) == view.structured_content


@asynchronous
@each_era
async def test_an_administrator_sees_every_operation(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == {op.name for op in OPERATIONS} - OBSERVED


@asynchronous
@each_era
async def test_a_stranger_sees_only_what_serves_itself(server: LiveServer, era: str) -> None:
    _, stranger = newcomer(server)
    async with connected(server, era, stranger) as client:
        tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == SELF_SERVICE


@asynchronous
async def test_who_has_no_grant_sees_no_tool_and_is_refused_by_any(server: LiveServer) -> None:
    _, account = newcomer(server, "service_account")
    async with connected(server, subject=account) as client:
        tools = (await client.list_tools()).tools
        result = await client.call_tool("list_zones", {})
    assert tools == []
    assert refused(result) == (403, "AuthorizationDeniedError")


@asynchronous
async def test_a_session_ends_with_the_rights_of_its_holder(server: LiveServer) -> None:
    actor, login = newcomer(server)
    async with connected(server, subject=login) as client:
        before = await client.call_tool("get_current_actor", {})
        with server.client() as admin:
            admin.post(f"/actors/{actor}/deactivate", json={"reason": "Departed"}).raise_for_status()
        after, tools = await client.call_tool("get_current_actor", {}), await client.list_tools()
    assert not before.is_error and tools.tools == []
    assert refused(after) == (403, "AuthorizationDeniedError")
    assert after.structured_content["context"]["reason"] == "ActorInactive"


@pytest.fixture(scope="module")
def tools(server: LiveServer) -> dict[str, Any]:
    return {tool["name"]: tool for tool in post(server, LIST).json()["result"]["tools"]}


@each_operation
def test_a_tool_has_the_fields_of_its_operation(tools: dict[str, Any], operation: Operation) -> None:
    if operation.name in OBSERVED:
        return
    tool, fields = tools[operation.name], msgspec.structs.fields(operation.request)
    asked, given = tool["inputSchema"], tool["outputSchema"]
    assert (tool["description"], asked["type"], given["type"]) == (operation.summary, "object", "object")
    assert set(asked["properties"]) == {field.encode_name for field in fields}
    assert set(asked["required"]) == {field.encode_name for field in fields if field.required}
    jsonschema.Draft202012Validator(asked).validate(minimal(operation))


def test_a_tool_stands_alone(tools: dict[str, Any]) -> None:
    assert "$ref" not in msgspec.json.encode(tools).decode()


@pytest.mark.parametrize(
    ("name", "reads", "destroys"),
    [("get_zone", True, False), ("define_zone", False, False), ("retire_zone", False, True)],
)
def test_a_tool_says_what_it_does_to_the_world(
    tools: dict[str, Any], name: str, reads: bool, destroys: bool
) -> None:
    hints = {"readOnlyHint": reads, "destructiveHint": destroys, "idempotentHint": False}
    assert tools[name]["annotations"] == hints | {"openWorldHint": False}


class Branch(msgspec.Struct):
    children: list["Branch"] = []


class Tree(msgspec.Struct):
    root: Branch


def test_a_shape_that_holds_itself_keeps_its_definition() -> None:
    schema = standalone(Tree)
    jsonschema.Draft202012Validator(schema).validate({"root": {"children": [{"children": []}]}})
    assert not jsonschema.Draft202012Validator(schema).is_valid({"root": {"children": [{"children": 1}]}})


@each_operation
def test_rest_and_mcp_answer_alike(server: LiveServer, admin: httpx.Client, operation: Operation) -> None:
    given = minimal(operation)
    # What can be made only once is made by the first call, so that the two that are compared meet one state.
    post(server, call(operation.name, given))
    result = post(server, call(operation.name, given)).json()["result"]
    path = re.sub(r"{(\w+)}", lambda match: given.pop(match[1]), operation.path)
    rest = admin.get(path, params=given) if operation.in_address else admin.post(path, json=given)
    shown = result["structuredContent"]
    assert result["isError"] == rest.is_error
    assert (set(shown), shown.get("code")) == (set(rest.json()), rest.json().get("code"))


# Refusals


@asynchronous
@each_era
async def test_a_rule_refuses_with_its_code(server: LiveServer, era: str) -> None:
    name = fresh()
    async with connected(server, era) as client:
        await client.call_tool("define_zone", {"name": name})
        result = await client.call_tool("define_zone", {"name": name})
    assert refused(result) == (409, "ZoneNameTakenError")
    assert result.structured_content["context"]["kind"] == "zone-name"


@asynchronous
@each_era
async def test_a_wrong_shape_names_every_fault(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        result = await client.call_tool("define_zone", {"description": 7, "decided_by": "me"})
    assert refused(result) == (422, "ShapeError")
    assert {fault["path"] for fault in result.structured_content["faults"]} == {
        "$.name",
        "$.description",
        "$.decided_by",
    }


@asynchronous
@each_era
async def test_an_unknown_tool_is_an_error_result(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        result = await client.call_tool("launch_rocket", {})
    assert refused(result) == (404, "UnknownToolError")


def test_no_text_holds_a_nul(server: LiveServer) -> None:
    result = post(server, call("define_zone", {"name": "a\0b"})).json()["result"]
    assert result["structuredContent"]["code"] == "ShapeError"


def test_an_unexpected_error_says_only_its_correlation_id(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> UUID:
        raise RuntimeError("secret")

    monkeypatch.setattr(server.app.service, "new_id", broken)
    answer = post(server, call("define_zone", {"name": fresh()}), x_correlation_id="case-7")
    problem = answer.json()["result"]["structuredContent"]
    assert (problem["status"], problem["code"], problem["correlation_id"]) == (
        500,
        "UnexpectedError",
        "case-7",
    )
    assert "secret" not in answer.text


def test_the_correlation_id_is_the_callers(server: LiveServer) -> None:
    answer = post(server, call("get_current_actor"), x_correlation_id="case-8")
    assert answer.headers["x-correlation-id"] == "case-8"
    assert answer.json()["result"]["_meta"]["beamwright/correlation-id"] == "case-8"


# Idempotency and expected versions


@asynchronous
@each_era
async def test_a_repeated_key_is_done_once(server: LiveServer, era: str) -> None:
    arguments, meta = {"name": fresh()}, {"beamwright/idempotency-key": uuid4().hex}
    async with connected(server, era) as client:
        first = await client.call_tool("define_zone", arguments, meta=meta)
        again = await client.call_tool("define_zone", arguments, meta=meta)
        zone_id = first.structured_content["zone_id"]
        history = await client.call_tool("get_zone_history", {"zone_id": zone_id})
    assert again.structured_content == first.structured_content
    assert [item["event_type"] for item in history.structured_content["items"]] == ["ZoneDefined"]
    assert "beamwright/replayed" not in first.meta and again.meta["beamwright/replayed"] is True


@asynchronous
async def test_a_refusal_replays_as_a_refusal(server: LiveServer) -> None:
    name, meta = fresh(), {"beamwright/idempotency-key": uuid4().hex}
    async with connected(server) as client:
        zone = (await client.call_tool("define_zone", {"name": name})).structured_content["zone_id"]
        first = await client.call_tool("define_zone", {"name": name}, meta=meta)
        await client.call_tool("retire_zone", {"zone_id": zone, "reason": "no longer needed"})
        again = await client.call_tool("define_zone", {"name": name}, meta=meta)
    assert refused(first) == refused(again) == (409, "ZoneNameTakenError")
    assert again.meta["beamwright/replayed"] is True


def test_a_key_means_one_request(server: LiveServer) -> None:
    key = {"beamwright/idempotency-key": uuid4().hex}
    post(server, call("define_zone", {"name": fresh()}, **key))
    other = post(server, call("define_zone", {"name": fresh()}, **key)).json()["result"]
    assert other["structuredContent"]["code"] == "IdempotencyKeyReusedError"


@pytest.mark.parametrize("version", [1, "1", '"1"'])
def test_a_version_that_has_passed_is_refused(server: LiveServer, version: object) -> None:
    zone = post(server, call("define_zone", {"name": fresh()})).json()["result"]["structuredContent"]
    update = {"zone_id": zone["zone_id"], "name": fresh()}
    expected = {"beamwright/if-match": version}
    first = post(server, call("update_zone", update, **expected)).json()["result"]
    second = post(server, call("update_zone", update | {"name": fresh()}, **expected)).json()["result"]
    assert not first["isError"]
    assert second["structuredContent"]["code"] == "ConcurrencyError"


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({"beamwright/idempotency-key": ""}, "InvalidIdempotencyKeyError"),
        ({"beamwright/idempotency-key": 7}, "InvalidIdempotencyKeyError"),
        ({"beamwright/if-match": "soon"}, "InvalidExpectedVersionError"),
        ({"beamwright/if-match": True}, "InvalidExpectedVersionError"),
        ({"beamwright/if-match": -1}, "InvalidExpectedVersionError"),
    ],
)
def test_conditions_that_cannot_be_read_are_refused(
    server: LiveServer, meta: dict[str, Any], code: str
) -> None:
    result = post(server, call("define_zone", {"name": fresh()}, **meta)).json()["result"]
    assert (result["structuredContent"]["status"], result["structuredContent"]["code"]) == (400, code)


# Toolsets and documents


@asynchronous
@each_era
async def test_toolsets_narrow_the_list_to_contexts(server: LiveServer, era: str) -> None:
    async with connected(server, era, query="?toolsets=access,federation") as client:
        tools = (await client.list_tools()).tools
    expected = {op.name for op in OPERATIONS if op.context in ("access", "federation")}
    assert {tool.name for tool in tools} == expected


@pytest.mark.parametrize("toolsets", ["kitchen", "trust,kitchen", ""])
def test_an_unknown_toolset_is_refused(server: LiveServer, toolsets: str) -> None:
    answer = post(server, LIST, path=f"/mcp?toolsets={toolsets}")
    assert refusal(answer) == (400, "UnknownToolsetError")


@asynchronous
@each_era
async def test_an_agent_reads_the_guide_first(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        listed = (await client.list_resources()).resources
        guide = (await client.read_resource("beamwright://guide")).contents[0]
    assert {str(resource.uri) for resource in listed} == {"beamwright://guide", "beamwright://operations"}
    assert guide.mime_type == "text/markdown" and "beamwright/idempotency-key" in guide.text


@asynchronous
async def test_the_list_of_operations_is_the_readers_own(server: LiveServer) -> None:
    _, stranger = newcomer(server)
    async with connected(server, subject=stranger) as client:
        text = (await client.read_resource("beamwright://operations")).contents[0].text
    assert set(re.findall(r"^- `(\w+)`", text, re.MULTILINE)) == SELF_SERVICE


@asynchronous
@each_era
async def test_an_unknown_document_is_an_error_of_the_protocol(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        with pytest.raises(MCPError, match="Unknown resource"):
            await client.read_resource("beamwright://secrets")


# The door


def test_without_a_token_the_door_challenges(server: LiveServer) -> None:
    answer = post(server, PING, None)
    assert refusal(answer) == (401, "MissingTokenError")
    assert "error=" not in answer.headers["www-authenticate"]
    assert "/.well-known/oauth-protected-resource/mcp" in answer.headers["www-authenticate"]


def test_a_token_for_rest_is_refused_here(server: LiveServer) -> None:
    token = server.token(wellknown.ADMINISTRATOR, HTTP_AUDIENCE)
    answer = post(server, PING, None, authorization=f"Bearer {token}")
    assert refusal(answer) == (401, "RefusedTokenError")
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_a_token_for_here_is_refused_by_rest(server: LiveServer) -> None:
    token = server.token(wellknown.ADMINISTRATOR, MCP_AUDIENCE)
    answer = httpx.get(f"{server.url}/zones", headers={"authorization": f"Bearer {token}"})
    assert refusal(answer) == (401, "RefusedTokenError")


def test_a_login_of_nobody_stops_at_the_door(server: LiveServer) -> None:
    assert refusal(post(server, PING, uuid4().hex)) == (403, "IdentityNotLinkedError")


def test_nobody_is_named_by_a_header(server: LiveServer) -> None:
    answer = post(server, PING, None, x_principal_id=str(wellknown.ADMINISTRATOR))
    assert refusal(answer) == (401, "MissingTokenError")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example"])
def test_another_host_is_refused(server: LiveServer, host: str) -> None:
    assert refusal(post(server, PING, host=host)) == (421, "MisdirectedRequestError")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", ""])
def test_another_origin_is_refused(server: LiveServer, origin: str) -> None:
    assert refusal(post(server, PING, origin=origin)) == (403, "ForeignOriginError")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_a_page_of_this_machine_may_call(server: LiveServer, name: str) -> None:
    place = f"{name}:{server.port}"
    assert post(server, PING, host=place, origin=f"http://{place}").status_code == 200


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("beam.example", "https://beam.example", 200),
        ("beam.example:443", "https://beam.example", 200),
        ("beam.example:80", "https://beam.example", 421),
        ("beam.example", "http://beam.example", 403),
        ("beam.example", "https://beam.example.evil.example", 403),
    ],
)
def test_the_public_address_decides(public: LiveServer, host: str, origin: str, status: int) -> None:
    assert post(public, PING, host=host, origin=origin).status_code == status


@pytest.fixture(scope="module")
def public(cluster: Cluster, server: LiveServer) -> Any:
    """A second process of the same installation, with a public address and room for small messages."""
    settings = {"public_base_url": "https://beam.example", "max_body_bytes": 1024}
    with serving(cluster, server.dsn, **settings) as public:
        yield public


def test_without_a_token_a_laptop_serves_its_operator(cluster: Cluster) -> None:
    with serving(cluster, require_authenticated_principal=False) as laptop:
        answer = post(laptop, call("get_current_actor"), None)
    actor = answer.json()["result"]["structuredContent"]["actor"]
    assert actor["id"] == str(wellknown.LOCAL_OPERATOR)


@pytest.mark.parametrize(("path", "status"), [("/mcp", 200), ("/mcp/", 200), ("/mcp/x", 404), ("/mcpx", 404)])
def test_the_address_is_one(server: LiveServer, path: str, status: int) -> None:
    assert post(server, PING, path=path).status_code == status


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_messages_are_posted(server: LiveServer, method: str) -> None:
    headers = {"authorization": f"Bearer {server.token()}", "accept": EITHER}
    answer = httpx.request(method, f"{server.url}/mcp", headers=headers)
    assert refusal(answer) == (405, "MethodNotAllowedError")
    assert answer.headers["allow"] == "POST"


# Sessions


def test_a_handshake_gives_a_session(server: LiveServer) -> None:
    opened = post(server, INITIALIZE)
    session = opened.headers["mcp-session-id"]
    assert opened.json()["result"]["serverInfo"]["name"] == "beamwright"
    assert opened.json()["result"]["instructions"].count(". ") == 1
    assert post(server, LIST, mcp_session_id=session).status_code == 200


def test_a_session_is_its_openers_alone(server: LiveServer) -> None:
    session = post(server, INITIALIZE).headers["mcp-session-id"]
    _, thief = newcomer(server)
    assert refusal(post(server, LIST, thief, mcp_session_id=session)) == (404, "McpSessionNotFoundError")


@pytest.mark.parametrize("session", ["", "made-up", "0" * 64])
def test_a_session_that_nobody_opened_is_not_found(server: LiveServer, session: str) -> None:
    assert refusal(post(server, LIST, mcp_session_id=session)) == (404, "McpSessionNotFoundError")


def test_a_session_is_honoured_by_every_process(server: LiveServer, public: LiveServer) -> None:
    session = post(server, INITIALIZE).headers["mcp-session-id"]
    assert post(public, PING, host="beam.example", mcp_session_id=session).status_code == 200


def test_every_message_of_a_session_needs_a_token_of_its_own(server: LiveServer) -> None:
    session = post(server, INITIALIZE).headers["mcp-session-id"]
    expired = server.issuer.mint(
        str(wellknown.ADMINISTRATOR),
        [MCP_AUDIENCE],
        timedelta(minutes=1),
        now=datetime(2026, 1, 1, tzinfo=UTC),
    )
    answer = post(server, PING, None, authorization=f"Bearer {expired}", mcp_session_id=session)
    assert refusal(answer) == (401, "RefusedTokenError")
    assert post(server, PING, mcp_session_id=session).status_code == 200


def test_a_message_needs_no_session(server: LiveServer) -> None:
    answer = post(server, call("get_current_actor"))
    assert answer.json()["result"]["structuredContent"]["actor"]["id"] == str(wellknown.ADMINISTRATOR)
    assert "mcp-session-id" not in answer.headers


@asynchronous
@each_era
async def test_twenty_calls_at_once_each_get_their_own_answer(server: LiveServer, era: str) -> None:
    names = [fresh() for _ in range(20)]
    async with connected(server, era) as client:
        made = await asyncio.gather(*(client.call_tool("define_zone", {"name": name}) for name in names))
        ids = [result.structured_content["zone_id"] for result in made]
        views = await asyncio.gather(*(client.call_tool("get_zone", {"zone_id": id}) for id in ids))
    assert [view.structured_content["name"] for view in views] == names


@asynchronous
async def test_of_twenty_that_want_one_name_one_gets_it(server: LiveServer) -> None:
    name = fresh()
    async with connected(server) as client:
        results = await asyncio.gather(*(client.call_tool("define_zone", {"name": name}) for _ in range(20)))
    lost = [refused(result) for result in results if result.is_error]
    assert lost == [(409, "ZoneNameTakenError")] * 19


@asynchronous
async def test_two_callers_at_once_stay_themselves(server: LiveServer) -> None:
    actor, login = newcomer(server)

    async def whoami(subject: UUID | str) -> set[str]:
        async with connected(server, subject=subject) as client:
            answers = await asyncio.gather(*(client.call_tool("get_current_actor", {}) for _ in range(10)))
        return {answer.structured_content["actor"]["id"] for answer in answers}

    found = await asyncio.gather(whoami(wellknown.ADMINISTRATOR), whoami(login))
    assert found == [{str(wellknown.ADMINISTRATOR)}, {str(actor)}]


# Messages that are none

MODERN = {"mcp_protocol_version": "2026-07-28"}


@pytest.mark.parametrize("headers", [{}, MODERN], ids=["handshake", "stateless"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"\xff\xfe",
        b"[]",
        b"[" * 100_000,
        b"7",
        b"null",
        b'{"jsonrpc": "1.0"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": 7}',
    ],
    ids=lambda body: body[:20].decode("latin-1"),
)
def test_garbage_gets_an_error_of_the_protocol(
    server: LiveServer, body: bytes, headers: dict[str, str]
) -> None:
    answer = post(server, body, **headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in (-32700, -32600, -32602)
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 7}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_zone", "arguments": []}},
        {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {}},
        {"jsonrpc": "2.0", "id": 1, "method": "no/such"},
    ],
)
def test_a_wrong_message_gets_an_error_of_the_protocol(server: LiveServer, message: Any) -> None:
    assert post(server, message).json()["error"]["code"] in (-32601, -32602)


@pytest.mark.parametrize("depth", [50, 150, 500, 900])
def test_deep_arguments_are_refused_not_fatal(server: LiveServer, depth: int) -> None:
    nested: Any = []
    for _ in range(depth):
        nested = [nested]
    answer = post(server, call("define_zone", {"name": nested}))
    assert answer.status_code < 500
    assert "error" in answer.json() or answer.json()["result"]["isError"]


def test_a_large_message_is_refused(public: LiveServer) -> None:
    large = call("define_zone", {"name": "x" * 2000})
    answer = post(public, large, host="beam.example")
    assert refusal(answer) == (413, "BodyTooLargeError")


def test_a_large_message_is_refused_whatever_length_it_states(public: LiveServer) -> None:
    headers = {
        "authorization": f"Bearer {public.token()}",
        "host": "beam.example",
        "content-type": "application/json",
    }

    def chunks() -> Any:
        yield from [b"x" * 500] * 10

    answer = httpx.post(f"{public.url}/mcp", content=chunks(), headers=headers)
    assert refusal(answer) == (413, "BodyTooLargeError")


# Starting


def test_the_sdk_is_not_loaded_to_start_the_service() -> None:
    script = "import sys, beamwright.app; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
