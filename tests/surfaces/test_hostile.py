"""Whatever is sent to any operation, the answer is one that the description names, and never a failure."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS

from beamwright.app import registry
from beamwright.surfaces.openapi import openapi
from tests.live import LiveServer


@schemathesis.serializer("application/vnd.apache.arrow.stream")
def any_bytes(context: Any, value: Any) -> bytes:
    """Whatever was generated, as the bytes of a table that it is not."""
    return value if isinstance(value, bytes) else repr(value).encode()


schema = schemathesis.openapi.from_dict(openapi(registry()))
WANTED = CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    ]
)


def test_every_operation_is_given_right_and_wrong_input() -> None:
    operations = [found.ok() for found in schema.get_all_operations()]
    assert {(each.method.upper(), each.path) for each in operations} == {
        (each.method, each.path) for each in registry().operations.values()
    }
    for each in operations:
        assert set(schema.config.generation_for(operation=each).modes) == set(schemathesis.GenerationMode)


@pytest.fixture(scope="module")
def address(server: LiveServer) -> Iterator[tuple[str, dict[str, str]]]:
    yield server.url, {"Authorization": f"Bearer {server.token()}"}


@schema.parametrize()
@settings(
    max_examples=15,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_operation_withstands_generated_input(
    case: schemathesis.Case, address: tuple[str, dict[str, str]]
) -> None:
    url, headers = address
    response = case.call(base_url=url, headers=headers, timeout=20)
    case.validate_response(response, checks=WANTED)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_utc_cannot_tell_is_refused(address: tuple[str, dict[str, str]], time: str) -> None:
    url, headers = address
    answer = httpx.get(f"{url}/decisions", params={"decided_until": time}, headers=headers)
    assert answer.status_code == 422 and answer.json()["faults"][0]["path"] == "$.decided_until"


@pytest.mark.parametrize(
    ("kind", "name"), [(None, "null"), ({}, "object"), ([], "array"), (1, "int"), (True, "bool")]
)
def test_what_a_field_must_not_be_is_told_in_json(
    address: tuple[str, dict[str, str]], kind: Any, name: str
) -> None:
    """The field that tells the kinds of step apart is looked at by another part of the decoder than all others."""
    url, headers = address
    body = {"name": "R", "capability_id": str(uuid4()), "steps": [{"kind": kind}]}
    [fault] = httpx.post(f"{url}/recipes", json=body, headers=headers).json()["faults"]
    assert fault == {"path": "$.steps[0].kind", "message": f"Expected `str`, got `{name}`"}
