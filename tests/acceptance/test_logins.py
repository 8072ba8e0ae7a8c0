"""Logins of an outside identity provider, through the whole service: keys, introspection, outages, lost links."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import httpx
import pytest

from beamwright.kernel.tokens import ProviderSettings
from tests.adapters.tokens.provider import ED_KEY, ISSUER, RSA_KEY, Provider, claims
from tests.live import Cluster, LiveServer, serving

OPAQUE_ISSUER = "https://opaque.facility.example"


class Running:
    """The provider in a loop of its own, so that it can be stopped under the service."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.provider = self.do(self._make())

    async def _make(self) -> Provider:
        provider = Provider(RSA_KEY, ED_KEY)
        await provider.start()
        return provider

    def do(self, work):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def close(self) -> None:
        self.do(self.provider.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


@contextmanager
def facility(cluster: Cluster) -> Iterator[tuple[LiveServer, Running]]:
    running = Running()
    providers = (
        ProviderSettings(issuer=ISSUER, jwks_url=running.provider.keys_url),
        ProviderSettings(
            issuer=OPAQUE_ISSUER,
            introspection_url=running.provider.introspection_url,
            client_id="beamwright",
            client_secret="s3cret",
        ),
    )
    try:
        with serving(cluster, identity_providers=providers) as server:
            yield server, running
    finally:
        running.close()


@pytest.fixture(scope="module")
def place(cluster: Cluster) -> Iterator[tuple[LiveServer, Running]]:
    with facility(cluster) as place:
        yield place


def me(server: LiveServer, token: str) -> httpx.Response:
    return httpx.get(f"{server.url}/actors/current", headers={"authorization": f"Bearer {token}"}, timeout=20)


def signed(subject: str, **changes: object) -> str:
    now = time.time()
    whole = claims(sub=subject, exp=now + 600, iat=now, scope=None, **changes)
    return RSA_KEY.sign(whole)


def registered(server: LiveServer, issuer: str) -> tuple[str, str]:
    """A person with a login of that issuer: the actor's id and the subject."""
    subject = uuid4().hex
    with server.client() as admin:
        made = admin.post(
            "/actors", json={"name": "Ada", "identities": [{"issuer": issuer, "subject": subject}]}
        )
    return made.json()["actor_id"], subject


def test_a_signed_token_of_a_linked_login_is_its_actor(place: tuple[LiveServer, Running]) -> None:
    server, _ = place
    actor, subject = registered(server, ISSUER)
    got = me(server, signed(subject))
    assert (got.status_code, got.json()["actor"]["id"]) == (200, actor)
    assert got.json()["token"]["issuer"] == ISSUER


def test_an_opaque_token_is_introspected_and_remembered(place: tuple[LiveServer, Running]) -> None:
    server, running = place
    actor, subject = registered(server, OPAQUE_ISSUER)
    token = uuid4().hex
    running.provider.tokens[token] = {
        "active": True,
        "sub": subject,
        "iss": OPAQUE_ISSUER,
        "aud": "urn:beamwright:http",
        "client_id": "scan-client",
        "exp": int(time.time()) + 600,
    }
    assert me(server, token).json()["actor"]["id"] == actor
    asked = len(running.provider.requests)
    assert me(server, token).status_code == 200
    assert len(running.provider.requests) == asked
    assert me(server, uuid4().hex).status_code == 401


def test_a_valid_token_of_nobodys_login_is_403(place: tuple[LiveServer, Running]) -> None:
    server, _ = place
    got = me(server, signed("stranger"))
    assert (got.status_code, got.json()["code"]) == (403, "IdentityNotLinkedError")
    assert "stranger" not in got.text


@pytest.mark.parametrize(
    "changes",
    [{"aud": "urn:beamwright:mcp"}, {"aud": "urn:elsewhere"}, {"exp": 1}, {"iss": "https://evil.example"}],
)
def test_a_token_that_is_not_for_here_is_401(
    place: tuple[LiveServer, Running], changes: dict[str, object]
) -> None:
    server, _ = place
    _, subject = registered(server, ISSUER)
    now = time.time()
    got = me(server, RSA_KEY.sign(claims(**{"sub": subject, "exp": now + 600, "iat": now} | changes)))
    assert (got.status_code, got.json()["code"]) == (401, "RefusedTokenError")
    assert 'error="invalid_token"' in got.headers["www-authenticate"]


def test_an_unreachable_provider_is_503_and_not_401(cluster: Cluster) -> None:
    with facility(cluster) as (server, running):
        _, subject = registered(server, ISSUER)
        running.do(running.provider.stop())
        away = me(server, signed(subject))
        assert (away.status_code, away.headers["retry-after"]) == (503, "5")
        assert away.json()["code"] == "IdentityProviderUnavailableError"
        with server.client() as admin:
            assert admin.get("/actors/current").status_code == 200, "other issuers go on"


def test_an_unlinked_login_is_out_at_once(place: tuple[LiveServer, Running]) -> None:
    server, _ = place
    actor, subject = registered(server, ISSUER)
    token = signed(subject)
    assert me(server, token).status_code == 200
    with server.client() as admin:
        [login] = admin.get(f"/actors/{actor}/profile").json()["identities"]
        body = {"identity_id": login["identity_id"], "reason": "Compromised"}
        assert admin.post(f"/actors/{actor}/identities/unlink", json=body).status_code == 200
    assert me(server, token).json()["code"] == "IdentityNotLinkedError"
