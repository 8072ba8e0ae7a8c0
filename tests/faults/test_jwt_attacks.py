"""No forged, altered or misplaced token opens a door, at either surface, of whichever issuer it claims to be."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from beamwright.kernel import wellknown
from beamwright.kernel.tokens import LOCAL_ISSUER
from tests.acceptance.stage import done
from tests.adapters.tokens.provider import EC_KEY, ED_KEY, ISSUER, RSA_KEY, SigningKey
from tests.faults.attacked import INSIDE, Attacked, Tally
from tests.faults.forgery import FORGERIES, Mint
from tests.faults.form import record, seeded, sized
from tests.faults.provider import Outside
from tests.faults.scene import RecordingStage
from tests.faults.wire import Answer, Wire

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
MCP = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
SURFACES = ("REST", "MCP")
# What the connection refuses before anybody looks at a token.
UNREADABLE = (400, 431)


async def knock(wire: Wire, surface: str, **headers: str) -> Answer:
    if surface == "REST":
        return await wire.ask("GET", "/actors/current", headers=headers)
    return await wire.ask("POST", "/mcp", PING, MCP | headers)


def bearing(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token.encode().decode('latin-1')}"}


@pytest.fixture(scope="module")
def mints(service: Attacked, outside: Outside) -> Iterator[list[Mint]]:
    """One for the built-in issuer, and one for each key of the other, each with a login that works."""
    subject = uuid4().hex
    with RecordingStage(service) as stage:
        login = {"issuer": ISSUER, "subject": subject}
        done(stage.admin.post("/actors", name="Ada", kind="human", identities=[login]))
    evil = f"http://127.0.0.1:{outside.provider.port}/evil"
    own = SigningKey("EdDSA")
    own.private = load_pem_private_key((Path(service.directory) / "issuer.key").read_bytes(), None)
    own.kid = jwt.get_unverified_header(service.token())["kid"]
    built_in = Mint(LOCAL_ISSUER, str(wellknown.ADMINISTRATOR), own, evil, ISSUER)
    yield [built_in, *(Mint(ISSUER, subject, key, evil, LOCAL_ISSUER) for key in (RSA_KEY, EC_KEY, ED_KEY))]


async def forge(service: Attacked, mints: list[Mint], tally: Tally) -> None:
    async with Wire(service.port) as wire:
        for mint in mints:
            for surface in SURFACES:
                answer = await knock(wire, surface, **bearing(mint.good()))
                assert answer.status == 200, f"{mint.issuer} at {surface}: {answer.text}"
                for name in sorted(FORGERIES):
                    await attempt(wire, mint, surface, name, tally)


async def attempt(wire: Wire, mint: Mint, surface: str, name: str, tally: Tally) -> None:
    what = f"{mint.issuer} {mint.key.algorithm} at {surface}: {name}"
    began = time.perf_counter()
    answer = await knock(wire, surface, **bearing(FORGERIES[name](mint)))
    tally.note(what, answer.status, time.perf_counter() - began, answer.text)
    if answer.status in UNREADABLE:
        return
    if answer.status != 401 or 'error="invalid_token"' not in answer.headers.get("www-authenticate", ""):
        tally.fail(what, f"{answer.status} {answer.text[:200]}")
    elif answer.json()["code"] != "RefusedTokenError" or INSIDE.search(answer.text):
        tally.fail(what, answer.text[:300])


def test_no_forged_token_opens_a_door(service: Attacked, mints: list[Mint], outside: Outside) -> None:
    seed, dice = seeded()
    tally = Tally()
    chosen = sized(short=[mints[0], dice.choice(mints[1:])], long=mints)
    before = service.footprint()
    asyncio.run(forge(service, chosen, tally))
    tally.check()
    assert "/evil" not in outside.provider.requests, "a key was fetched from where the token said"
    service.settled(before, 40)
    record("forged tokens", seed=seed, **tally.figures(), forgeries=len(FORGERIES), accepted=0)


@pytest.mark.parametrize("surface", SURFACES)
def test_a_token_elsewhere_than_in_its_header_is_none(
    service: Attacked, mints: list[Mint], surface: str
) -> None:
    async def statuses() -> list[int]:
        token = mints[0].good()
        async with Wire(service.port) as wire:
            given = [{}, {"cookie": f"token={token}; access_token={token}"}, {"x-api-key": token}]
            given += [
                {"authorization": text}
                for text in ("Bearer", "Bearer ", f"Basic {token}", f"Bearer{token}", token)
            ]
            found = [(await knock(wire, surface, **headers)).status for headers in given]
            found.append((await wire.ask("GET", f"/actors/current?access_token={token}")).status)
            return found

    assert set(asyncio.run(statuses())) == {401}


@pytest.mark.parametrize("surface", SURFACES)
def test_a_token_for_one_surface_is_refused_at_the_other(
    service: Attacked, mints: list[Mint], surface: str
) -> None:
    other = {"REST": "urn:beamwright:mcp", "MCP": "urn:beamwright:http"}[surface]

    async def statuses() -> set[int]:
        async with Wire(service.port) as wire:
            return {(await knock(wire, surface, **bearing(mint.good(aud=other)))).status for mint in mints}

    assert asyncio.run(statuses()) == {401}


def test_a_login_of_nobody_is_known_and_refused(service: Attacked, mints: list[Mint]) -> None:
    """The last of two subjects counts for everybody who reads the token, so nobody is taken for the first."""

    async def statuses() -> set[int]:
        async with Wire(service.port) as wire:
            tokens = [
                each for mint in mints for each in (mint.good(sub="nobody"), mint.twice("sub", "nobody"))
            ]
            return {(await knock(wire, name, **bearing(each))).status for each in tokens for name in SURFACES}

    assert asyncio.run(statuses()) == {403}


def test_unknown_keys_do_not_flood_the_provider(
    service: Attacked, mints: list[Mint], outside: Outside
) -> None:
    tokens = sized(short=200, long=5000)
    tally = Tally()

    async def flood() -> None:
        async with Wire(service.port) as wire:
            for number in range(tokens):
                mint = mints[1 + number % 3]
                began = time.perf_counter()
                answer = await knock(wire, "REST", **bearing(mint.headed(kid=uuid4().hex)))
                tally.note("unknown key", answer.status, time.perf_counter() - began, answer.text)
                if number % 50 == 0:
                    good = await knock(wire, "REST", **bearing(mint.good()))
                    assert good.status == 200, good.text

    before, asked, began = service.footprint(), outside.asked, time.monotonic()
    asyncio.run(flood())
    minutes = (time.monotonic() - began) / 60
    tally.check()
    assert set(tally.statuses) == {401}
    assert outside.asked - asked <= 1 + minutes, "the provider is asked once a minute at most"
    service.settled(before, 40)
    record("unknown keys", **tally.figures(), provider_asked=outside.asked - asked)


def test_no_token_is_in_the_log(service: Attacked, mints: list[Mint]) -> None:
    log = service.log.read_text()
    assert "token_refused" in log, "refusals are told to the operator"
    assert "eyJ" not in log
    service.log_lines()
