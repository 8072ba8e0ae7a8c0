"""A laptop: calls without a token, from this machine and from no web page."""

from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from tests.live import Cluster, LiveServer, serving


@pytest.fixture(scope="module")
def laptop(cluster: Cluster) -> Iterator[LiveServer]:
    with serving(cluster, require_authenticated_principal=False) as server:
        yield server


def define(laptop: LiveServer, **headers: str) -> httpx.Response:
    return httpx.post(f"{laptop.url}/zones", json={"name": uuid4().hex}, headers=headers)


def test_a_call_without_a_token_is_the_local_operators(laptop: LiveServer) -> None:
    made = define(laptop)
    assert made.status_code == 201
    shown = httpx.get(laptop.url + made.headers["location"]).json()
    assert shown["created_by_name"] == "Local operator"


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"origin": "https://evil.example"}, 403, "ForeignOriginError"),
        ({"origin": "null"}, 403, "ForeignOriginError"),
        ({"host": "evil.example"}, 421, "MisdirectedRequestError"),
    ],
)
def test_no_web_page_can_speak_for_the_operator(
    laptop: LiveServer, headers: dict[str, str], status: int, code: str
) -> None:
    got = define(laptop, **headers)
    assert (got.status_code, got.json()["code"]) == (status, code)


def test_a_token_is_still_verified(laptop: LiveServer) -> None:
    assert define(laptop, authorization="Bearer nonsense").status_code == 401
