"""Opaque tokens asked about at a running provider: what is believed, remembered and bounded."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from beamwright.adapters.tokens.introspection import IntrospectionVerifier
from beamwright.adapters.tokens.jwt import PROVIDER_TIMEOUT
from beamwright.kernel.tokens import ProviderUnavailableError, VerifiedToken
from tests.adapters.tokens.provider import (
    AUDIENCE,
    ISSUER,
    NOW,
    Clock,
    Provider,
    against_provider,
    claims,
    refused,
)


class Scene:
    """A verifier that asks the provider, and the time it goes by."""

    def __init__(self, provider: Provider, client: httpx.AsyncClient, patience: timedelta) -> None:
        self.provider = provider
        self.clock = Clock()
        self.verifier = IntrospectionVerifier(
            ISSUER, provider.introspection_url, "beamwright", "s3cret", client, self.clock, patience
        )
        self.know("good")

    def know(self, token: str, **changes: Any) -> None:
        self.provider.tokens[token] = {"active": True} | claims(**changes)

    async def verify(self, token: str = "good") -> VerifiedToken:
        return await self.verifier.verify(token)

    @property
    def questions(self) -> int:
        return len(self.provider.requests)


def play(scenario: Callable[[Scene], Awaitable[None]], patience: timedelta = PROVIDER_TIMEOUT) -> None:
    async def with_client(provider: Provider) -> None:
        async with httpx.AsyncClient() as client:
            await scenario(Scene(provider, client, patience))

    against_provider(with_client)


def test_an_active_token_is_vouched_for() -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.verify() == VerifiedToken(
            issuer=ISSUER,
            subject="ada",
            audiences=frozenset({AUDIENCE}),
            scopes=frozenset({"beamwright:get_*", "openid"}),
            expires_at=NOW + timedelta(minutes=10),
            client_id="scan-client",
        )
        assert scene.provider.forms == [{"token": "good", "token_type_hint": "access_token"}]

    play(scenario)


def test_optional_members_may_be_absent() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.tokens["bare"] = {"active": True, "sub": "ada", "aud": ["a", "b"]}
        token = await scene.verify("bare")
        assert (token.expires_at, token.client_id, token.scopes) == (None, None, frozenset())
        assert token.audiences == {"a", "b"}

    play(scenario)


def test_an_inactive_token_is_refused() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.tokens["revoked"] = {"active": False} | claims()
        for token in ("revoked", "never-seen"):
            with refused("active"):
                await scene.verify(token)

    play(scenario)


@pytest.mark.parametrize(
    "changes",
    [
        {"sub": None},
        {"sub": ""},
        {"sub": "a\nb"},
        {"sub": 7},
        {"aud": None},
        {"aud": []},
        {"aud": [1]},
        {"aud": ""},
        {"iss": "https://other.example"},
        {"iss": 7},
        {"exp": NOW.timestamp()},
        {"exp": NOW.timestamp() - 1},
        {"exp": "tomorrow"},
        {"exp": 1e300},
        {"exp": -1},
        {"exp": True},
        {"scope": ["openid"]},
    ],
)
def test_an_active_token_with_unacceptable_members_is_refused(changes: dict[str, Any]) -> None:
    async def scenario(scene: Scene) -> None:
        scene.know("odd", **changes)
        with refused():
            await scene.verify("odd")

    play(scenario)


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "é", "\ud800", "a&b", "=", "a" * 8193])
def test_text_that_is_no_bearer_token_is_refused_without_asking(token: str) -> None:
    async def scenario(scene: Scene) -> None:
        with refused():
            await scene.verify(token)
        assert scene.questions == 0

    play(scenario)


def test_an_answer_is_remembered_for_thirty_seconds() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.verify()
        scene.provider.tokens.clear()
        scene.clock.advance(seconds=29.9)
        assert (await scene.verify()).subject == "ada"
        assert scene.questions == 1
        scene.clock.advance(seconds=0.1)
        with refused("active"):
            await scene.verify()
        assert scene.questions == 2

    play(scenario)


def test_an_answer_is_never_remembered_past_expiry() -> None:
    async def scenario(scene: Scene) -> None:
        scene.know("short", exp=NOW.timestamp() + 10)
        await scene.verify("short")
        scene.clock.advance(seconds=10)
        with refused("expired"):
            await scene.verify("short")

    play(scenario)


def test_a_token_that_expires_while_the_provider_thinks_is_refused() -> None:
    async def scenario(scene: Scene) -> None:
        scene.know("short", exp=NOW.timestamp() + 3)
        scene.provider.open.clear()
        call = asyncio.create_task(scene.verify("short"))
        await scene.provider.asked(1)
        scene.clock.advance(seconds=3)
        scene.provider.open.set()
        with refused("expired"):
            await call

    play(scenario)


def test_the_time_to_answer_counts_as_remembered() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.open.clear()
        call = asyncio.create_task(scene.verify())
        await scene.provider.asked(1)
        scene.clock.advance(seconds=4)
        scene.provider.open.set()
        await call
        scene.clock.advance(seconds=26)
        await scene.verify()
        assert scene.questions == 2

    play(scenario)


def test_a_refusal_is_remembered_for_five_seconds() -> None:
    async def scenario(scene: Scene) -> None:
        for _ in range(20):
            with refused("active"):
                await scene.verify("late")
        assert scene.questions == 1
        scene.know("late")
        scene.clock.advance(seconds=5)
        assert (await scene.verify("late")).subject == "ada"

    play(scenario)


def test_a_clock_set_back_does_not_stretch_the_memory() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.verify()
        scene.clock.advance(hours=-1)
        await scene.verify()
        assert scene.questions == 2

    play(scenario)


def test_callers_at_once_share_one_question() -> None:
    async def scenario(scene: Scene) -> None:
        scene.know("other")
        scene.provider.open.clear()
        calls = [asyncio.create_task(scene.verify(token)) for token in ["good", "other"] * 25]
        await scene.provider.asked(2)
        scene.provider.open.set()
        assert len(await asyncio.gather(*calls)) == 50
        assert scene.questions == 2

    play(scenario)


def test_callers_at_once_share_one_failure() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.status = 500
        results = await asyncio.gather(*(scene.verify() for _ in range(20)), return_exceptions=True)
        assert {type(result) for result in results} == {ProviderUnavailableError}
        assert scene.questions == 1

    play(scenario)


def test_a_caller_that_goes_away_does_not_spoil_the_question() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.open.clear()
        first = asyncio.create_task(scene.verify())
        second = asyncio.create_task(scene.verify())
        await scene.provider.asked(1)
        first.cancel()
        scene.provider.open.set()
        assert (await second).subject == "ada"
        assert scene.questions == 1

    play(scenario)


def test_at_most_1024_answers_are_remembered_and_the_least_used_goes_first() -> None:
    async def scenario(scene: Scene) -> None:
        for number in range(1023):
            with refused():
                await scene.verify(f"filler-{number}")
        await scene.verify()
        with refused():
            await scene.verify("filler-0")
        assert scene.questions == 1024
        with refused():
            await scene.verify("one-more")
        with refused():
            await scene.verify("filler-0")
        await scene.verify()
        assert scene.questions == 1025
        with refused():
            await scene.verify("filler-1")
        assert scene.questions == 1026

    play(scenario)


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 429, 500, 502, 503])
def test_a_provider_that_does_not_answer_the_question_is_unavailable(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.status = status
        with pytest.raises(ProviderUnavailableError):
            await scene.verify()

    with caplog.at_level(logging.WARNING):
        play(scenario)
    assert str(status) in caplog.text


def test_wrong_client_credentials_are_logged_and_not_the_caller_s_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.credentials = ("beamwright", "changed")
        with pytest.raises(ProviderUnavailableError):
            await scene.verify()

    with caplog.at_level(logging.WARNING):
        play(scenario)
    assert "401" in caplog.text
    assert "s3cret" not in caplog.text
    assert "good" not in caplog.text


def test_client_credentials_may_hold_any_character() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.credentials = ("beam:wright", "p%20 +é:")
        async with httpx.AsyncClient() as client:
            verifier = IntrospectionVerifier(
                ISSUER, scene.provider.introspection_url, "beam:wright", "p%20 +é:", client, scene.clock
            )
            assert (await verifier.verify("good")).subject == "ada"

    play(scenario)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"active":"true"}', b'{"active":1}', b"[" * 9999]
)
def test_an_answer_that_is_no_introspection_is_an_outage(body: bytes) -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.body = body
        with pytest.raises(ProviderUnavailableError):
            await scene.verify()

    play(scenario)


def test_an_oversized_answer_is_an_outage() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.body = b'{"active":false}' + b" " * 256 * 1024
        with pytest.raises(ProviderUnavailableError):
            await scene.verify()

    play(scenario)


def test_a_stopped_provider_is_unavailable_until_it_is_back() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.provider.stop()
        with pytest.raises(ProviderUnavailableError):
            await scene.verify()
        await scene.provider.start()
        assert (await scene.verify()).subject == "ada"

    play(scenario)


def test_a_remembered_answer_outlives_the_provider() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.verify()
        await scene.provider.stop()
        assert (await scene.verify()).subject == "ada"
        scene.clock.advance(seconds=30)
        with pytest.raises(ProviderUnavailableError):
            await scene.verify()

    play(scenario)


def test_a_slow_provider_is_given_up() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.open.clear()
        async with asyncio.timeout(5):
            with pytest.raises(ProviderUnavailableError):
                await scene.verify()

    play(scenario, patience=timedelta(milliseconds=50))


def test_introspection_without_https_is_not_built() -> None:
    with pytest.raises(ValueError, match="https"):
        IntrospectionVerifier(ISSUER, "http://login.example/", "a", "b", httpx.AsyncClient(), Clock())
