"""Contract of every operation over REST, generated from the registry: adding an operation adds its cases."""

import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from beamwright.app import registry
from beamwright.kernel.operation import Operation
from beamwright.kernel.wellknown import ADMINISTRATOR
from tests.live import LiveServer
from tests.samples import minimal

OPERATIONS = list(registry().operations.values())
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda op: op.name)
each_command = pytest.mark.parametrize(
    "operation", [op for op in OPERATIONS if not op.reads], ids=lambda op: op.name
)


# Only the account that observes or conducts reports it; the seeded policy denies everybody else, whoever they are.
MONITORS_OWN = {"end_run_conduct", "observe_enclosure_status", "observe_supply_status"}


def send(client: httpx.Client, operation: Operation, extra: dict[str, Any] | None = None) -> httpx.Response:
    """The operation with the least it asks for, on objects that do not exist."""
    given = minimal(operation)
    path = re.sub(r"{(\w+)}", lambda match: given.pop(match[1]), operation.path)
    given |= extra or {}
    if operation.in_address:
        return client.get(path, params=given)
    return client.post(path, json=given)


@pytest.fixture(scope="module")
def stranger(server: LiveServer) -> Iterator[httpx.Client]:
    """An active machine account with a login and no grant at all."""
    with server.as_newcomer(server.newcomer("service_account")) as client:
        yield client


@each_operation
def test_without_a_token_the_answer_is_401_with_a_challenge(server: LiveServer, operation: Operation) -> None:
    with server.client(None) as anonymous:
        got = send(anonymous, operation)
    assert (got.status_code, got.json()["code"]) == (401, "MissingTokenError")
    assert got.headers["www-authenticate"].startswith('Bearer realm="beamwright", resource_metadata=')


@each_operation
def test_a_stranger_is_denied_before_anything_is_read(stranger: httpx.Client, operation: Operation) -> None:
    got = send(stranger, operation)
    assert (got.status_code, got.json()["code"]) == (403, "AuthorizationDeniedError")
    assert got.json()["context"]["reason"] == "NoGrant"


@each_operation
def test_an_unknown_field_is_422(admin: httpx.Client, operation: Operation) -> None:
    got = send(admin, operation, {"surprise": "1"})
    assert got.status_code == 422
    assert {"path": "$.surprise", "message": "unknown field"} in got.json()["faults"]


@each_operation
def test_an_unknown_target_is_404_with_its_own_class(admin: httpx.Client, operation: Operation) -> None:
    got = send(admin, operation)
    if operation.name in MONITORS_OWN:
        assert got.status_code == 403
        return
    if operation.target is None:
        assert got.status_code < 500
        return
    if got.status_code == 400:
        assert got.json()["code"].startswith("Invalid"), (
            "a value may be refused before the object is looked up"
        )
        return
    assert (got.status_code, got.json()["code"]) == (404, f"{operation.target}NotFoundError")


@each_command
@pytest.mark.parametrize("field", ["decided_by", "principal_id_of_caller", "surface", "authored_by"])
def test_nobody_can_say_who_decides(admin: httpx.Client, operation: Operation, field: str) -> None:
    assert send(admin, operation, {field: str(ADMINISTRATOR)}).status_code == 422


@pytest.mark.parametrize(
    "operation",
    [op for op in OPERATIONS if not op.reads and op.name not in MONITORS_OWN],
    ids=lambda op: op.name,
)
def test_a_refusal_replays_with_its_key(admin: httpx.Client, operation: Operation) -> None:
    key = {"idempotency-key": uuid4().hex}
    given = minimal(operation)
    path = re.sub(r"{(\w+)}", lambda match: given.pop(match[1]), operation.path)
    first = admin.post(path, json=given, headers=key)
    again = admin.post(path, json=given, headers=key)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["idempotency-replayed"] == "true"


def test_every_object_id_in_the_description_is_a_uuid(admin: httpx.Client) -> None:
    paths = admin.get("/docs/openapi.json").json()["paths"]
    for path, methods in paths.items():
        for method in methods.values():
            for parameter in method["parameters"]:
                if parameter["in"] == "path" and parameter["name"] != "version_tag":
                    assert parameter["schema"].get("format") == "uuid", path


def test_description_lists_every_operation(admin: httpx.Client) -> None:
    paths = admin.get("/docs/openapi.json").json()["paths"]
    described = {method["operationId"] for methods in paths.values() for method in methods.values()}
    assert described == {op.name for op in OPERATIONS}
