"""Keys fetched from a running provider: rotation, floods and outages."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

import httpx
import pytest

from beamwright.adapters.tokens.jwt import PROVIDER_TIMEOUT, JwtVerifier, RemoteKeySet
from beamwright.kernel.tokens import DEFAULT_ALGORITHMS, ProviderUnavailableError, VerifiedToken
from tests.adapters.tokens.provider import (
    ED_KEY,
    ISSUER,
    KEYS,
    NOW,
    Clock,
    Provider,
    SigningKey,
    against_provider,
    claims,
    key_set,
    refused,
)

TOKEN = ED_KEY.sign(claims(exp=NOW.timestamp() + 86400))
ROTATED_KEY = SigningKey("EdDSA", "ed-2")
ROTATED_TOKEN = ROTATED_KEY.sign(claims())


class Scene:
    """A verifier of the provider's tokens, and the time it goes by."""

    def __init__(self, provider: Provider, client: httpx.AsyncClient, patience: timedelta) -> None:
        self.provider = provider
        self.clock = Clock()
        keys = RemoteKeySet(provider.keys_url, client, self.clock, patience)
        self.verifier = JwtVerifier(ISSUER, keys, DEFAULT_ALGORITHMS, self.clock)

    async def verify(self, token: str = TOKEN) -> VerifiedToken:
        return await self.verifier.verify(token)

    @property
    def fetches(self) -> int:
        return len(self.provider.requests)


def play(scenario: Callable[[Scene], Awaitable[None]], patience: timedelta = PROVIDER_TIMEOUT) -> None:
    async def with_client(provider: Provider) -> None:
        async with httpx.AsyncClient() as client:
            await scenario(Scene(provider, client, patience))

    against_provider(with_client, ED_KEY)


def test_tokens_of_every_kind_of_key_are_accepted() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.keys = list(KEYS)
        for key in KEYS:
            assert (await scene.verify(key.sign(claims()))).subject == "ada"

    play(scenario)


def test_keys_are_fetched_once_for_ten_minutes() -> None:
    async def scenario(scene: Scene) -> None:
        for _ in range(20):
            await scene.verify()
        scene.clock.advance(minutes=9, seconds=59)
        await scene.verify()
        assert scene.fetches == 1
        scene.clock.advance(seconds=1)
        await scene.verify()
        assert scene.fetches == 2

    play(scenario)


def test_callers_at_once_share_one_fetch() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.open.clear()
        calls = [asyncio.create_task(scene.verify()) for _ in range(50)]
        await scene.provider.asked(1)
        scene.provider.open.set()
        assert len(await asyncio.gather(*calls)) == 50
        assert scene.fetches == 1

    play(scenario)


def test_a_caller_that_goes_away_does_not_spoil_the_fetch() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.open.clear()
        first = asyncio.create_task(scene.verify())
        await scene.provider.asked(1)
        second = asyncio.create_task(scene.verify())
        await asyncio.sleep(0)
        first.cancel()
        scene.provider.open.set()
        assert (await second).subject == "ada"
        assert first.cancelled()
        assert scene.fetches == 1

    play(scenario)


def test_a_rotated_key_is_found_at_once() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.verify()
        scene.provider.keys = [ED_KEY, ROTATED_KEY]
        scene.clock.advance(minutes=1)
        await scene.verify(ROTATED_TOKEN)
        await scene.verify()
        assert scene.fetches == 2

    play(scenario)


def test_a_withdrawn_key_is_forgotten() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.verify()
        scene.provider.keys = [ROTATED_KEY]
        scene.clock.advance(minutes=10)
        with refused("no key"):
            await scene.verify()

    play(scenario)


def test_a_flood_of_unknown_kids_asks_once_a_minute() -> None:
    async def flood(scene: Scene) -> None:
        tokens = [ROTATED_KEY.sign(claims(), kid=f"forged-{number}") for number in range(100)]
        results = await asyncio.gather(*map(scene.verify, tokens), return_exceptions=True)
        assert {type(result).__name__ for result in results} == {"InvalidTokenError"}

    async def scenario(scene: Scene) -> None:
        await scene.verify()
        scene.clock.advance(seconds=59)
        await flood(scene)
        assert scene.fetches == 1
        scene.clock.advance(seconds=1)
        await flood(scene)
        await flood(scene)
        assert scene.fetches == 2
        await scene.verify()
        assert scene.fetches == 2

    play(scenario)


def test_a_flood_while_the_provider_is_down_asks_once_a_minute() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.verify()
        scene.provider.status = 500
        scene.clock.advance(minutes=1)
        for _ in range(20):
            with pytest.raises(ProviderUnavailableError):
                await scene.verify(ROTATED_TOKEN)
        assert scene.fetches == 2

    play(scenario)


def test_without_keys_an_unreachable_provider_is_unavailable() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.provider.stop()
        with pytest.raises(ProviderUnavailableError):
            await scene.verify()

    play(scenario)


def test_without_keys_the_provider_is_asked_again_after_five_seconds() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.status = 503
        for _ in range(20):
            with pytest.raises(ProviderUnavailableError):
                await scene.verify()
        assert scene.fetches == 1
        scene.provider.status = 200
        scene.clock.advance(seconds=5)
        assert (await scene.verify()).subject == "ada"

    play(scenario)


def test_old_keys_serve_while_the_provider_is_down() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.verify()
        await scene.provider.stop()
        scene.clock.advance(hours=1)
        assert (await scene.verify()).subject == "ada"
        with pytest.raises(ProviderUnavailableError):
            await scene.verify(ROTATED_TOKEN)
        scene.provider.keys = [ROTATED_KEY]
        await scene.provider.start()
        scene.clock.advance(minutes=1)
        with refused("no key"):
            await scene.verify()
        await scene.verify(ROTATED_KEY.sign(claims(exp=NOW.timestamp() + 86400)))

    play(scenario)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"keys":7}', b'{"keys":["x"]}', b"{}", b"[" * 10_000, b"\xff"]
)
def test_an_answer_that_is_no_key_set_replaces_nothing(body: bytes) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.verify()
        scene.provider.body = body
        scene.clock.advance(minutes=10)
        assert (await scene.verify()).subject == "ada"
        with pytest.raises(ProviderUnavailableError):
            await scene.verify(ROTATED_TOKEN)
        assert scene.fetches == 2

    play(scenario)


def test_a_provider_that_publishes_no_keys_is_believed() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.verify()
        scene.provider.keys = []
        scene.clock.advance(minutes=10)
        with refused("no key"):
            await scene.verify()

    play(scenario)


def test_a_slow_provider_is_given_up() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.open.clear()
        async with asyncio.timeout(5):
            with pytest.raises(ProviderUnavailableError):
                await scene.verify()
        assert scene.fetches == 1

    assert timedelta(seconds=5) == PROVIDER_TIMEOUT
    play(scenario, patience=timedelta(milliseconds=50))


def test_an_oversized_answer_is_given_up() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.body = key_set(ED_KEY) + b" " * 256 * 1024
        with pytest.raises(ProviderUnavailableError):
            await scene.verify()

    play(scenario)


def test_the_largest_answer_is_read() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.body = key_set(ED_KEY).ljust(256 * 1024)
        assert (await scene.verify()).subject == "ada"

    play(scenario)


def test_a_redirect_is_not_followed() -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.status = 302
        scene.provider.headers = f"Location: {scene.provider.keys_url}\r\n"
        with pytest.raises(ProviderUnavailableError):
            await scene.verify()
        assert scene.fetches == 1

    play(scenario)


def test_a_clock_set_back_does_not_freeze_the_keys() -> None:
    async def scenario(scene: Scene) -> None:
        scene.clock.advance(minutes=1)
        await scene.verify()
        scene.provider.keys = [ROTATED_KEY]
        scene.clock.advance(minutes=-1)
        await scene.verify(ROTATED_TOKEN)

    play(scenario)


def test_an_outage_is_logged_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(scene: Scene) -> None:
        scene.provider.status = 503
        with pytest.raises(ProviderUnavailableError):
            await scene.verify()

    with caplog.at_level(logging.WARNING):
        play(scenario)
    assert "503" in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        "http://login.example/keys",
        "ftp://localhost/keys",
        "keys",
        "",
        "https://",
        "http://127.0.0.1.evil.example/",
    ],
)
def test_a_key_set_without_https_is_not_built(url: str) -> None:
    with pytest.raises(ValueError, match="https"):
        RemoteKeySet(url, httpx.AsyncClient(), Clock())
