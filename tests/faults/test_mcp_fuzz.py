"""Whatever is said to any operation or to the agents' protocol, the answer is one that can be understood, and soon."""

import asyncio
import random
import re
import time
from collections.abc import Iterator, Mapping
from itertools import batched
from typing import Any

import pytest

from tests.faults.attacked import INSIDE, PATIENCE, Attacked, Footprint, Tally
from tests.faults.form import record, seeded, sized
from tests.faults.messages import HEADERS, Letter, in_each_era, letters, message, stateless
from tests.faults.mutation import allowed, mutated, written
from tests.faults.places import OPERATIONS
from tests.faults.scene import RecordingStage, Target, in_order
from tests.faults.wire import CLOSED, Answer, Wire, read_answer

AT_ONCE = 8
OPERATIONS_PER_TARGET = 30
SEGMENT = re.compile(r"[A-Za-z0-9-]{1,64}")
# The protocol's word for a failure of ours.
INTERNAL = -32603


class Fuzzer:
    """Sends messages and looks at every answer."""

    def __init__(self, service: Attacked, stage: RecordingStage, wire: Wire) -> None:
        self.service = service
        self.stage = stage
        self.wire = wire
        self.tally = Tally()
        self.results = self.refusals = self.protocol_errors = 0
        self._room = asyncio.Semaphore(AT_ONCE)

    async def send(self, letter: Letter) -> Answer:
        async with self._room:
            began = time.perf_counter()
            answer = await self.wire.ask(letter.method, letter.target, letter.body, letter.headers)
            self.tally.note(letter.name, answer.status, time.perf_counter() - began, answer.text)
        if answer.status == CLOSED:
            self.tally.fail(letter.name, "no answer")
        elif found := INSIDE.search(answer.text):
            self.tally.fail(letter.name, f"the answer says {found[0]!r}: {answer.text[:300]}")
        elif answer.is_problem:
            self.refusals += 1
        elif answer.body and letter.target.startswith("/mcp"):
            self.look_at(letter, answer)
        return answer

    def look_at(self, letter: Letter, answer: Answer) -> None:
        """An answer of the protocol: a result, a refusal in the result, or an error that is not ours."""
        if "application/json" not in answer.headers.get("content-type", ""):
            self.tally.fail(letter.name, f"{answer.status} {answer.headers} {answer.text[:300]}")
            return
        body = answer.json()
        if "error" in body:
            self.protocol_errors += 1
            if body["error"]["code"] == INTERNAL or not isinstance(body["error"]["message"], str):
                self.tally.fail(letter.name, answer.text[:300])
        elif body["result"].get("isError"):
            self.refusals += 1
            self.check_problem(letter, body["result"])
        else:
            self.results += 1

    def check_problem(self, letter: Letter, result: Mapping[str, Any]) -> None:
        problem = result.get("structuredContent") or {}
        said = result["content"][0]["text"]
        if not 400 <= problem.get("status", 0) < 500 or said != f"{problem['code']}: {problem['detail']}":
            self.tally.fail(letter.name, f"no problem document: {str(result)[:300]}")

    async def schemas(self) -> dict[str, Any]:
        answer = await self.send(Letter("tools/list", written(message("tools/list"))))
        return {tool["name"]: tool["inputSchema"] for tool in answer.json()["result"]["tools"]}

    def call(self, what: str, name: str, arguments: Any, *, modern: bool) -> Letter:
        params = {"name": name, "arguments": arguments}
        whole, headers = (
            stateless("tools/call", params) if modern else (message("tools/call", params), HEADERS)
        )
        return Letter(f"{name}: {what}", written(whole), headers | self.token(name))

    def request(self, what: str, name: str, arguments: Any) -> Letter | None:
        """The same over REST, where its fields are the body."""
        operation = OPERATIONS[name]
        if operation.in_address or (operation.path_fields and not isinstance(arguments, dict)):
            return None
        path, left = operation.path, dict(arguments) if isinstance(arguments, dict) else arguments
        for field in operation.path_fields:
            if not isinstance(left.get(field), str) or not SEGMENT.fullmatch(left[field]):
                return None
            path = path.replace(f"{{{field}}}", left.pop(field))
        headers = {"content-type": "application/json"} | self.token(name)
        return Letter(f"REST {name}: {what}", written(left), headers, path)

    def token(self, name: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.service.token(self.stage.subject(OPERATIONS[name]))}"}

    def figures(self) -> dict[str, int | float]:
        counted = {
            "results": self.results,
            "refusals": self.refusals,
            "protocol_errors": self.protocol_errors,
        }
        return self.tally.figures() | counted


async def fuzz_operations(fuzzer: Fuzzer, dice: random.Random, names: list[str], each: int) -> None:
    """Requests that are in order, and those that their schema allows, each with one thing wrong."""
    known = await fuzzer.schemas()
    for some in batched(in_order(names), OPERATIONS_PER_TARGET):
        target = await asyncio.to_thread(Target, fuzzer.stage)
        for name in some:
            written_letters: list[Letter | None] = []
            for number in range(each):
                base = target.request(OPERATIONS[name])
                if number % 2 and name in known:
                    ids = {
                        field: base[field] for field in OPERATIONS[name].path_fields if dice.random() < 0.8
                    }
                    base = allowed(known[name], dice) | ids
                what, arguments = mutated(base, dice) if number % 4 else ("in order", base)
                written_letters.append(fuzzer.call(what, name, arguments, modern=dice.random() < 0.5))
                written_letters.append(fuzzer.request(what, name, arguments))
            await asyncio.gather(*(fuzzer.send(letter) for letter in written_letters if letter))


@pytest.fixture(scope="module")
def stage(service: Attacked) -> Iterator[RecordingStage]:
    with RecordingStage(service) as stage:
        yield stage


@pytest.fixture(scope="module")
def warm(service: Attacked, stage: RecordingStage) -> Footprint:
    """The SDK is loaded by the first call, and what that takes is nobody's attack."""

    async def once() -> None:
        async with wire_to(service) as wire:
            await Fuzzer(service, stage, wire).schemas()

    Target(stage)
    asyncio.run(once())
    return service.footprint()


def wire_to(service: Attacked) -> Wire:
    return Wire(service.port, authorization=f"Bearer {service.token()}")


def test_every_operation_withstands_mutated_requests(
    service: Attacked, stage: RecordingStage, warm: Footprint
) -> None:
    seed, dice = seeded()
    print(f"FAULTS_SEED={seed}")
    names = sized(short=dice.sample(sorted(OPERATIONS), 20), long=sorted(OPERATIONS))

    async def run() -> Fuzzer:
        async with wire_to(service) as wire:
            fuzzer = Fuzzer(service, stage, wire)
            await fuzz_operations(fuzzer, dice, names, sized(short=4, long=16))
            return fuzzer

    before = service.footprint()
    fuzzer = asyncio.run(run())
    fuzzer.tally.check()
    assert fuzzer.refusals
    after = service.settled(before, sized(short=40, long=100))
    sizes = {"memory_before_mb": before.memory // 10**6, "memory_after_mb": after.memory // 10**6}
    record("mutated requests", seed=seed, **fuzzer.figures(), **sizes)


def test_no_message_breaks_the_protocol(service: Attacked, stage: RecordingStage, warm: Footprint) -> None:
    seed, dice = seeded()
    print(f"FAULTS_SEED={seed}")
    known = letters()
    chosen = sized(short=dice.sample(known, 300), long=known)

    async def run() -> Fuzzer:
        async with wire_to(service) as wire:
            fuzzer = Fuzzer(service, stage, wire)
            await asyncio.gather(*(fuzzer.send(letter) for letter in chosen))
            return fuzzer

    before = service.footprint()
    fuzzer = asyncio.run(run())
    fuzzer.tally.check()
    assert fuzzer.results and fuzzer.protocol_errors
    service.log_lines()
    after = service.settled(before, sized(short=40, long=60))
    sizes = {"memory_before_mb": before.memory // 10**6, "memory_after_mb": after.memory // 10**6}
    record("broken messages", seed=seed, **fuzzer.figures(), **sizes)


async def leave(service: Attacked, head: bytes, body: bytes, heard: int) -> None:
    """Send a request, hear so much of its answer, and go."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(head + body)
        await writer.drain()
        if heard:
            await reader.read(heard)
        writer.transport.abort()


def test_callers_who_leave_take_nothing_with_them(
    service: Attacked, stage: RecordingStage, warm: Footprint
) -> None:
    """Calls that nobody waits for, and streams that nobody follows any more."""
    count = sized(short=60, long=1000)
    common = f"Host: 127.0.0.1:{service.port}\r\nAuthorization: Bearer {service.token()}\r\n"
    accept = "Accept: application/json, text/event-stream\r\n"
    feed = f"GET /events HTTP/1.1\r\n{common}Accept: text/event-stream\r\n\r\n".encode()
    calls = [
        letter.body for letter in in_each_era("", "tools/call", {"name": "list_assets", "arguments": {}})
    ]
    head = f"POST /mcp HTTP/1.1\r\n{common}{accept}Content-Type: application/json\r\nContent-Length: {len(calls[0])}\r\n\r\n".encode()

    async def run() -> int:
        for number in range(count):
            await leave(service, feed, b"", 40 * (number % 3))
            await leave(service, head, calls[0], 10 * (number % 2))
            await leave(service, head, calls[0][:20], 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(head + calls[0])
        answer = await read_answer(reader)
        writer.transport.abort()
        return answer.status

    before = service.footprint()
    assert asyncio.run(run()) == 200
    after = service.settled(before, 40, connections=2)
    record("callers who leave", connections=3 * count, memory_after_mb=after.memory // 10**6)
