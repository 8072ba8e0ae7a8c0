"""The identity provider is down, hangs or talks nonsense: what is known goes on, what cannot be told is 503."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.test_logins import OPAQUE_ISSUER, Running, facility, registered, signed
from tests.adapters.tokens.provider import ISSUER, RSA_KEY, claims
from tests.faults.form import record, sized
from tests.live import Cluster, LiveServer

CALLERS = sized(short=100, long=400)
ROUNDS = sized(short=1, long=4)
HUGE = b'{"active": true, "x": "' + b"y" * 400_000 + b'"}'


class Beat:
    """Somebody with a token of the built-in issuer, who calls all the time and must never notice."""

    def __init__(self, server: LiveServer) -> None:
        self.slowest = 0.0
        self.calls = 0
        self._server = server
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        headers = {"authorization": f"Bearer {self._server.token()}"}
        async with httpx.AsyncClient(base_url=self._server.url, headers=headers, timeout=30) as client:
            while not self._over.is_set():
                began = time.monotonic()
                assert (await client.get("/actors/current")).status_code == 200
                self.slowest = max(self.slowest, time.monotonic() - began)
                self.calls += 1
                await asyncio.sleep(0.01)

    async def end(self) -> None:
        self._over.set()
        await self._task


@asynccontextmanager
async def beating(server: LiveServer) -> AsyncGenerator[Beat]:
    beat = Beat(server)
    try:
        yield beat
    finally:
        await beat.end()


@contextmanager
def misbehaving(running: Running, how: str) -> Iterator[None]:
    """The provider as it is on a bad day, and well again afterwards."""
    provider = running.provider
    match how:
        case "down":
            running.do(provider.stop())
        case "hangs":
            running.loop.call_soon_threadsafe(provider.open.clear)
        case "500":
            provider.status = 500
        case "garbage":
            provider.body = b"<html>maintenance</html>"
        case _:
            provider.body = HUGE
    try:
        yield
    finally:
        provider.status, provider.body = 200, None
        running.loop.call_soon_threadsafe(provider.open.set)
        if how == "down":
            running.do(provider.start())


def opaque(running: Running, subject: str) -> str:
    """A token that only the provider can read."""
    token = uuid4().hex
    running.provider.tokens[token] = {
        "active": True,
        "sub": subject,
        "iss": OPAQUE_ISSUER,
        "aud": "urn:beamwright:http",
        "client_id": "scan-client",
        "exp": int(time.time()) + 86_400,
    }
    return token


async def me(client: httpx.AsyncClient, token: str) -> httpx.Response:
    return await client.get("/actors/current", headers={"authorization": f"Bearer {token}"})


def check_unavailable(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["code"]) == (503, "IdentityProviderUnavailableError"), (
        answer.text
    )
    assert answer.headers["retry-after"] == "5"


@pytest.fixture(scope="module")
def place(cluster: Cluster) -> Iterator[tuple[LiveServer, Running]]:
    with facility(cluster) as place:
        yield place


@pytest.mark.parametrize("how", ["500", "down", "garbage", "hangs", "huge"])
def test_what_the_provider_cannot_tell_is_503_and_all_else_goes_on(
    place: tuple[LiveServer, Running], how: str
) -> None:
    async def check(server: LiveServer, running: Running) -> None:
        _, subject = registered(server, ISSUER)
        _, other = registered(server, OPAQUE_ISSUER)
        known, remembered = signed(subject), opaque(running, other)
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as client, beating(server) as beat:
            assert (await me(client, known)).status_code == 200
            for _ in range(ROUNDS):
                assert (await me(client, remembered)).status_code == 200
                with misbehaving(running, how):
                    assert (await me(client, known)).status_code == 200, "its token is remembered"
                    assert (await me(client, signed(subject))).status_code == 200, "its key is known"
                    assert (await me(client, remembered)).status_code == 200, "its answer is remembered"
                    strangers = [me(client, uuid4().hex) for _ in range(CALLERS)]
                    for answer in await asyncio.gather(*strangers):
                        check_unavailable(answer)
                    fresh = opaque(running, other)
                    check_unavailable(await me(client, fresh))
                assert (await me(client, fresh)).status_code == 200, "it recovers by itself"
        record(
            f"identity provider {how}",
            rounds=ROUNDS,
            strangers=ROUNDS * CALLERS,
            calls_of_others=beat.calls,
            slowest_call_of_others_s=round(beat.slowest, 2),
        )

    asyncio.run(check(*place))


def test_known_keys_do_not_wait_for_a_provider_that_hangs(cluster: Cluster) -> None:
    """After ten minutes the keys are asked for again; whoever has a fitting one waits a second at most."""

    async def check(server: LiveServer, running: Running) -> None:
        _, subject = registered(server, ISSUER)
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
            assert (await me(client, signed(subject))).status_code == 200
            with misbehaving(running, "hangs"):
                server.clock.ahead = timedelta(minutes=11)
                later = time.time() + 660
                began = time.monotonic()
                token = RSA_KEY.sign(claims(sub=subject, exp=later + 600, iat=later, scope=None))
                assert (await me(client, token)).status_code == 200
                assert time.monotonic() - began < 4.5, "it waited for the provider's time limit"

    with facility(cluster) as (server, running):
        asyncio.run(check(server, running))


def test_a_provider_that_was_never_reached_is_asked_again_by_itself(cluster: Cluster) -> None:
    async def check(server: LiveServer, running: Running) -> None:
        _, subject = registered(server, ISSUER)
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
            with misbehaving(running, "down"):
                check_unavailable(await me(client, signed(subject)))
            answers = Counter[int]()
            deadline = time.monotonic() + 30
            while not answers[200]:
                assert time.monotonic() < deadline and not answers[401], answers
                answers[(await me(client, signed(subject))).status_code] += 1
                await asyncio.sleep(0.2)

    with facility(cluster) as (server, running):
        asyncio.run(check(server, running))
