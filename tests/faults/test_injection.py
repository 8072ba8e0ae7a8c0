"""Hostile text in every field of every request: it is refused or kept as text, and is never a statement or a log line."""

import ast
import asyncio
import random
import time
from collections.abc import Iterable
from itertools import batched
from pathlib import Path
from typing import Any

import beamwright
from beamwright.surfaces.connection import MOST_HEAD
from tests.acceptance.test_isolation import LISTS
from tests.faults.attacked import INSIDE, Attacked, Tally
from tests.faults.form import record, seeded, sized
from tests.faults.places import OPERATIONS, TEXTS, Place, on_the_wire, places
from tests.faults.scene import RecordingStage, Target, in_order
from tests.faults.wire import CLOSED, Wire

AT_ONCE = 8
# A target is used up: what is retired by one request refuses the next one before it looks at its text.
OPERATIONS_PER_TARGET = 20
SAMPLE = 12


def chosen(dice: random.Random) -> list[str]:
    return in_order(sized(short=dice.sample(sorted(OPERATIONS), SAMPLE), long=sorted(OPERATIONS)))


def texts(place: Place, dice: random.Random) -> list[str]:
    return sized(short=dice.sample(place.texts, min(len(place.texts), SAMPLE)), long=place.texts)


class Injection:
    """Sends requests and looks at every answer."""

    def __init__(self, service: Attacked, stage: RecordingStage, wire: Wire, tally: Tally) -> None:
        self.service = service
        self.stage = stage
        self.wire = wire
        self.tally = tally
        self.accepted = 0
        self._room = asyncio.Semaphore(AT_ONCE)

    async def all(self, target: Target, names: Iterable[str], dice: random.Random) -> None:
        for name in names:
            operation = OPERATIONS[name]
            token = self.service.token(self.stage.subject(operation))
            sending = [
                self.send(place, text, place.request(target.request(operation), TEXTS[text]), token)
                for place in places(operation)
                for text in texts(place, dice)
            ]
            await asyncio.gather(*sending)

    async def send(self, place: Place, text: str, request: dict[str, Any], token: str) -> None:
        operation = place.operation
        address, body = on_the_wire(operation, request)
        what = f"{operation.name} {place.name} with {text}"
        async with self._room:
            began = time.perf_counter()
            answer = await self.wire.ask(
                operation.method, address, body, {"authorization": f"Bearer {token}"}
            )
            self.tally.note(what, answer.status, time.perf_counter() - began, answer.text)
        self.accepted += 200 <= answer.status < 300
        if answer.status == CLOSED and len(address) < MOST_HEAD:
            self.tally.fail(what, "no answer")
        elif answer.status >= 400 and not answer.is_problem:
            self.tally.fail(what, f"no problem document: {answer.text[:200]}")
        if found := INSIDE.search(answer.text):
            self.tally.fail(what, f"the answer says {found[0]!r}: {answer.text[:300]}")


async def inject(service: Attacked, stage: RecordingStage, tally: Tally, dice: random.Random) -> int:
    async with Wire(service.port) as wire:
        injection = Injection(service, stage, wire, tally)
        for names in batched(chosen(dice), OPERATIONS_PER_TARGET):
            await injection.all(await asyncio.to_thread(Target, stage), names, dice)
        return injection.accepted


def check_all_is_readable(stage: RecordingStage) -> None:
    """Whatever was let in comes out again: in every list, and in the whole log."""
    for name in LISTS:
        answer = stage.admin.get(OPERATIONS[name].path, limit=200)
        assert answer.status_code == 200, f"{name}: {answer.text}"
    after = ""
    for _ in range(10_000):
        answer = stage.admin.get("/events", limit=200, **({"after": after} if after else {}))
        assert answer.status_code == 200, answer.text
        page = answer.json()
        if not page["items"]:
            return
        after = page["next"]


def log_vocabulary() -> tuple[set[str], set[str]]:
    """The events and the fields that our own source writes to the log."""
    events, fields = {"unexpected_error"}, {"event", "level", "timestamp", "logger", "exception"}
    for file in Path(beamwright.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="log")), args=[ast.Constant(str(event))]):
                    events.add(event)
                    fields |= {each.arg for each in node.keywords if each.arg}
                case _:
                    continue
    return events, fields


def check_log(service: Attacked) -> None:
    """Each line is an object in our own words; a text of a request may stand in a value and nowhere else."""
    events, fields = log_vocabulary()
    for line in service.log_lines():
        assert set(line) <= fields, f"unknown fields: {line}"
        assert line["event"] in events or "logger" in line, f"unknown event: {line}"
        assert line["level"] in ("info", "warning"), f"a failure: {line}"


def test_text_stays_text_wherever_it_is_put(service: Attacked) -> None:
    seed, dice = seeded()
    print(f"FAULTS_SEED={seed}")
    tally = Tally()
    with RecordingStage(service) as stage:
        Target(stage)
        shape, before = service.shape(), service.footprint()
        accepted = asyncio.run(inject(service, stage, tally, dice))
        tally.check()
        check_all_is_readable(stage)
    assert accepted > 0
    assert service.shape() == shape, "the database is another one"
    verified = service.command("verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    check_log(service)
    after = service.settled(before, sized(short=40, long=150))
    record(
        "injection",
        seed=seed,
        **tally.figures(),
        accepted_as_text=accepted,
        memory_before_mb=before.memory // 10**6,
        memory_after_mb=after.memory // 10**6,
    )
