"""Whatever comes over a socket, the service answers or ends the connection, soon, and nobody else notices."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.stage import done
from tests.acceptance.things import Things
from tests.faults.attacked import INSIDE, PATIENCE, Attacked, Tally
from tests.faults.form import record, seeded, sized
from tests.faults.raw import READ, Attack, Said, bodies, heads, lengths, lines, request, say
from tests.faults.scene import RecordingStage

AT_ONCE = 16
SMUGGLED = "smuggled"


@pytest.fixture(scope="module")
def stage(service: Attacked) -> Iterator[RecordingStage]:
    with RecordingStage(service) as stage:
        yield stage


def zone_by(token: str, name: str) -> bytes:
    """A whole request that defines a zone."""
    body = f'{{"name":"{name}"}}'.encode()
    headers = (f"Authorization: Bearer {token}", f"Content-Length: {len(body)}", "Connection: close")
    return request("POST /zones HTTP/1.1", *headers, body=body)


def attacks(token: str) -> dict[str, Attack]:
    smuggled = zone_by(token, SMUGGLED)
    return lines() | heads(token) | lengths(token, smuggled) | bodies(token)


def judge(name: str, attack: Attack, said: Said, tally: Tally) -> None:
    tally.note(name, max(said.statuses, default=0), said.seconds, said.text)
    if unexpected := [status for status in said.statuses if status not in attack.expected]:
        tally.fail(name, f"answered {unexpected}: {said.text[:300]}")
    if not said.ended and (not attack.answers or not said.statuses):
        tally.fail(name, f"neither answered nor ended: {said.statuses}")
    if INSIDE.search(said.text) or "set-cookie" in said.text.lower() or "pwned" in said.text:
        tally.fail(name, said.text[:500])


async def attack_all(service: Attacked, chosen: dict[str, Attack], tally: Tally) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(name: str, attack: Attack) -> None:
        async with room:
            judge(name, attack, await say(service.port, attack), tally)

    await asyncio.gather(*(one(name, attack) for name, attack in chosen.items()))


def test_no_bytes_bring_the_service_down(service: Attacked, stage: RecordingStage) -> None:
    seed, dice = seeded()
    print(f"FAULTS_SEED={seed}")
    known = attacks(service.token())
    names = sorted(known)
    chosen = sized(short=[{name: known[name] for name in dice.sample(names, 60)}], long=[known] * 5)
    tally = Tally()
    asyncio.run(attack_all(service, chosen[0], Tally()))
    before = service.footprint()
    for each in chosen:
        asyncio.run(attack_all(service, each, tally))
    tally.check()
    assert service.rows("SELECT 1 FROM events WHERE payload::text LIKE $1", f"%{SMUGGLED}%") == []
    service.log_lines()
    after = service.settled(before, sized(short=40, long=60))
    figures = {"attacks": len(chosen[0]), "memory_before_mb": before.memory // 10**6}
    record("raw bytes", seed=seed, **tally.figures(), **figures, memory_after_mb=after.memory // 10**6)


@pytest.mark.parametrize("framing", ["Content-Length: 50", "Transfer-Encoding: chunked"])
def test_half_a_body_is_no_request(service: Attacked, stage: RecordingStage, framing: str) -> None:
    """An empty body would be a request in order here."""
    campaign = Things(stage).campaign()
    bearer = f"Authorization: Bearer {service.token()}"
    begun = request(f"POST /campaigns/{campaign}/start HTTP/1.1", bearer, framing)
    for finish in (True, False):
        said = asyncio.run(say(service.port, Attack([begun], finish=finish, answers=0)))
        assert said.ended and set(said.statuses) <= {400, 408}
    assert done(stage.admin.get(f"/campaigns/{campaign}"))["status"] == "Planned"


def test_what_follows_a_body_is_no_header(service: Attacked) -> None:
    trailer = f"Authorization: Bearer {service.token()}\r\nX-Correlation-Id: trailed"
    body = f"0\r\n{trailer}\r\n\r\n".encode()
    sent = request("POST /zones HTTP/1.1", "Transfer-Encoding: chunked", "Trailer: Authorization", body=body)
    said = asyncio.run(say(service.port, Attack([sent])))
    assert said.statuses == [401] and "trailed" not in said.text


def test_pipelined_requests_are_answered_in_order(service: Attacked) -> None:
    count = sized(short=100, long=2000)
    bearer = f"Authorization: Bearer {service.token()}"
    asked = [request(f"GET /zones?limit={number}&limit=1 HTTP/1.1", bearer) for number in range(count)]
    named = [
        each.replace(b"Host:", f"X-Correlation-Id: n{n}\r\nHost:".encode()) for n, each in enumerate(asked)
    ]
    said = asyncio.run(say(service.port, Attack([b"".join(named)], answers=count)))
    assert said.statuses == [400] * count
    order = [
        line.rpartition("n")[2] for line in said.text.split("\r\n") if line.startswith("x-correlation-id")
    ]
    assert order == [str(number) for number in range(len(order))]


def opened(stack: ExitStack, port: int, begun: bytes, received: int | None = None) -> socket.socket:
    client = stack.enter_context(socket.socket())
    if received is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received)
    client.connect(("127.0.0.1", port))
    client.sendall(begun)
    return client


@pytest.mark.parametrize("begun", [b"", b"GET /heal", b"GET /health HTTP/1.1\r\nHost: x\r\nX-A: "])
def test_half_open_connections_hold_nobody_up(service: Attacked, begun: bytes) -> None:
    count = sized(short=150, long=900)
    before = service.footprint()
    with ExitStack() as stack, httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        for _ in range(count):
            opened(stack, service.port, begun)
        began = time.perf_counter()
        assert client.get("/health").status_code == 200
        answered = time.perf_counter() - began
        service.settled(before, 40, connections=2)
    record(f"half open after {len(begun)} bytes", connections=count, health_seconds=round(answered, 3))


def test_answers_that_nobody_takes_are_dropped(service: Attacked) -> None:
    """The description is large, and asked for often enough that no buffer below the service holds it all."""
    count = sized(short=20, long=100)
    page = request("GET /docs/openapi.json HTTP/1.1")
    asyncio.run(say(service.port, Attack([page], READ)))
    before = service.footprint()
    with ExitStack() as stack:
        for number in range(count):
            last = page if number % 2 else page[:-2] + b"Connection: close\r\n\r\n"
            opened(stack, service.port, page * 20 + last, 4096)
        after = service.settled(before, 60, connections=2)
    record("answers not taken", connections=count, memory_after_mb=after.memory // 10**6)


SECRETS = (
    "issuer.key",
    "service.log",
    "docs.py",
    "../settings.py",
    "../../../../../../etc/passwd",
    "guide.md",
)
STEPS = (
    "../",
    "..%2f",
    "%2e%2e/",
    "%2e%2e%2f",
    "..%5c",
    "..\\",
    "%c0%ae%c0%ae/",
    "....//",
    "%252e%252e%252f",
    "/",
)


@pytest.mark.parametrize("below", ["/docs/", "/docs", "/.well-known/", "/"])
def test_no_path_leads_to_a_file(service: Attacked, below: str) -> None:
    tally = Tally()
    attacks = {
        path: Attack([request(f"GET {path} HTTP/1.1", "Connection: close")])
        for secret in SECRETS
        for step in STEPS
        for path in (
            below + step * 6 + secret,
            below + "docs.css/" + step * 3 + secret,
            below + secret + "%00.css",
        )
    }
    asyncio.run(attack_all(service, attacks, tally))
    tally.check()


def test_two_tokens_are_none(service: Attacked) -> None:
    """A proxy may have looked at the one, and the service at the other."""
    good, bad = f"Authorization: Bearer {service.token()}", f"Authorization: Bearer {uuid4().hex}"
    for surface in ("GET /zones HTTP/1.1", "POST /mcp HTTP/1.1"):
        for pair in ((good, bad), (bad, good), (good, good)):
            sent = request(surface, *pair, host=f"127.0.0.1:{service.port}")
            said = asyncio.run(say(service.port, Attack([sent])))
            assert set(said.statuses) <= {400, 401}, f"{surface} {said.text}"
