"""Writers that send each command with its key until it is answered, whoever is killed meanwhile."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

import httpx

from tests.acceptance.things import CAMERA, ORIGIN

PATIENCE = 300.0
SAMPLES = 20
# Refusals that end by themselves; all others are the answer.
PASSING = ("IdempotencyInProgressError", "ConcurrencyError")

type Answer = dict[str, Any]


class StoppedError(Exception):
    """The load is over, and a new command is not begun."""


class Sent(NamedTuple):
    """A command and its one answer. `lost` says whether an answer to it went missing on the way."""

    key: str
    path: str
    body: Answer
    status: int
    text: str
    lost: bool
    replayed: bool


class Ledger:
    """What clients hold in their hands when all is over."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, Sent] = {}
        self.refused: dict[str, Sent] = {}
        # Sent once and without a key: whether those without an answer were recorded cannot be known.
        self.once: dict[str, Answer | None] = {}
        self.samples: dict[str, tuple[str, float]] = {}
        self.lost_answers = 0
        self.codes: Counter[str] = Counter()

    @property
    def proves_something(self) -> bool:
        """Samples were delivered, names were refused, and an answer to an acknowledged command was lost."""
        lost = (sent for sent in self.acknowledged.values() if sent.lost)
        return bool(self.samples and self.refused and next(lost, None))

    def note(self, sent: Sent) -> None:
        (self.acknowledged if sent.status < 300 else self.refused)[sent.key] = sent
        if sent.status >= 300:
            self.codes[json.loads(sent.text)["code"]] += 1


class Writer:
    """One client; it ends between two commands, never within one."""

    def __init__(
        self, ledger: Ledger, clients: Sequence[httpx.AsyncClient], stop: asyncio.Event, dice: random.Random
    ) -> None:
        self.ledger = ledger
        self.stop = stop
        self.dice = dice
        self._clients = clients

    async def do(self, path: str, *, prefix: str = "k", at_once: int = 1, **body: Any) -> Answer | None:
        """The receipt, or None where the rules refuse. `at_once` clients may send the same key together."""
        if self.stop.is_set():
            raise StoppedError
        key = f"{prefix}-{uuid4().hex}"
        clients = self.dice.sample(self._clients, at_once)
        answers = await asyncio.gather(*(self._until_answered(each, key, path, body) for each in clients))
        first = answers[0]
        assert {(each.status, each.text) for each in answers} == {(first.status, first.text)}, answers
        assert sum(not each.replayed for each in answers) <= 1, "only one of them did it"
        self.ledger.note(first._replace(lost=any(each.lost for each in answers)))
        return json.loads(first.text) if first.status < 300 else None

    async def done(self, path: str, **body: Any) -> Answer:
        """As `do`, of a command that nothing speaks against."""
        answer = await self.do(path, **body)
        assert answer is not None, (path, body, list(self.ledger.refused.values())[-1])
        return answer

    async def make(self, path: str, id_field: str, **body: Any) -> str:
        """The address of something new."""
        return f"{path}/{(await self.done(path, **body))[id_field]}"

    async def once(self, path: str, **body: Any) -> None:
        """Without a key, hence without a second try."""
        if self.stop.is_set():
            raise StoppedError
        name = f"u-{uuid4().hex}"
        self.ledger.once[name] = None
        try:
            answer = await self._clients[0].post(path, json=body, headers={"x-correlation-id": name})
        except httpx.TransportError:
            return
        if answer.status_code == 201:
            self.ledger.once[name] = answer.json()
        else:
            assert answer.status_code in (409, 429, 503), answer.text

    async def _until_answered(self, client: httpx.AsyncClient, key: str, path: str, body: Answer) -> Sent:
        headers = {"idempotency-key": key, "x-correlation-id": key}
        deadline, lost = time.monotonic() + PATIENCE, False
        while time.monotonic() < deadline:
            try:
                answer = await client.post(path, json=body, headers=headers)
            except httpx.TransportError:
                self.ledger.lost_answers += 1
                lost = True
                await asyncio.sleep(self.dice.uniform(0.02, 0.2))
                continue
            if not passing(answer):
                replayed = "idempotency-replayed" in answer.headers
                return Sent(key, path, body, answer.status_code, answer.text, lost, replayed)
            await asyncio.sleep(self.dice.uniform(0.01, 0.1))
        raise AssertionError(f"{path} was not answered in {PATIENCE} s")


def passing(answer: httpx.Response) -> bool:
    """Whether the same command has to be sent again."""
    if answer.status_code in (429, 503):
        return True
    assert answer.status_code < 500, answer.text
    return answer.status_code == 409 and answer.json()["code"] in PASSING


async def repeated(script: Callable[[Writer], Awaitable[None]], writer: Writer) -> None:
    while not writer.stop.is_set():
        try:
            await script(writer)
        except StoppedError:
            return


# What writers do, again and again.


async def naming(writer: Writer) -> None:
    """Names are taken and given up: that of a zone is free as soon as it is renamed."""
    name = uuid4().hex
    zone = await writer.make("/zones", "zone_id", name=name)
    for _ in range(4):
        await writer.done(f"{zone}/update", name=uuid4().hex)
    again = await writer.make("/zones", "zone_id", name=name)
    assert await writer.do(f"{zone}/update", name=name) is None, "the name is taken"
    await writer.done(f"{again}/update", description="twice the same name")


async def retiring(writer: Writer) -> None:
    """Retirement searches for conduits, so it waits until the list has seen everything."""
    zone = await writer.make("/zones", "zone_id", name=uuid4().hex)
    await writer.done(f"{zone}/retire", reason="over")
    assert await writer.do(f"{zone}/update", name="never") is None


async def contesting(writer: Writer) -> None:
    """Few addresses and many who want them."""
    address = {"kind": "vacuum", "name": f"line {writer.dice.randrange(3)}", "facility_code": "home"}
    made = await writer.do("/supplies", **address)
    if made is not None:
        supply = f"/supplies/{made['supply_id']}"
        for move in ("mark-available", "degrade", "restore", "deregister"):
            await writer.done(f"{supply}/{move}", reason="as it is")


async def crowding(writer: Writer) -> None:
    """Several clients send one command with one key at the same time; all of them hear the same."""
    at_once = writer.dice.choice((2, 3))
    made = await writer.done("/decisions", at_once=at_once, context="RunStop", choice="Stop")
    assert made["version"] == 1
    zone = (await writer.done("/zones", at_once=at_once, name=uuid4().hex))["zone_id"]
    await writer.done(f"/zones/{zone}/update", at_once=at_once, description=uuid4().hex)
    assert await writer.do(f"/zones/{uuid4()}/update", at_once=at_once, description="of none") is None


async def once(writer: Writer) -> None:
    await writer.once("/zones", name=uuid4().hex)


class Sharing:
    """Everybody changes the same few zones: each change is one version, whoever wins."""

    def __init__(self) -> None:
        self.zones: list[str] = []

    async def __call__(self, writer: Writer) -> None:
        while len(self.zones) < 3:
            self.zones.append(await writer.make("/zones", "zone_id", name=uuid4().hex))
        await writer.done(f"{writer.dice.choice(self.zones)}/update", description=uuid4().hex)


async def installing(writer: Writer) -> None:
    """A device below a unit goes into mounts and out of them, and under another unit: several streams at once."""
    units = [
        await writer.make("/assets", "asset_id", name="Unit", tier="Unit", facility_code="home")
        for _ in range(2)
    ]
    frame = await writer.make("/frames", "frame_id", name="Hall", facility_code="home")
    placement = {"parent_frame_id": id_of(frame), "reference_surface": "MountingFace"} | ORIGIN
    body = {"name": "Camera", "tier": "Device", "parent_id": id_of(units[0]), "family_ids": [CAMERA]}
    asset = await writer.make("/assets", "asset_id", **body)
    await writer.done(f"{asset}/activate")
    at = {"facility_code": "home", "placement": placement}
    mount = await writer.make("/mounts", "mount_id", slot_code=uuid4().hex, **at)
    for number in range(6):
        await writer.done(f"{mount}/install", asset_id=id_of(asset))
        assert await writer.do(f"{mount}/install", asset_id=id_of(asset)) is None
        await writer.done(f"{mount}/uninstall", reason="out again")
        await writer.done(f"{asset}/degrade", reason=f"drift {number}")
        await writer.done(f"{asset}/restore", reason="mended")
    await writer.done(f"{asset}/relocate", to_parent_id=id_of(units[1]), reason="moved")


async def measuring(writer: Writer) -> None:
    """A run of a campaign with its samples; the sample that was mounted belongs to both."""
    plan, camera = await planned(writer)
    tags = [uuid4().hex for _ in range(4)]
    campaign = await writer.make("/campaigns", "campaign_id", name="Series", intent="Series", tags=tags)
    await writer.done(f"{campaign}/start")
    subject = await writer.make("/subjects", "subject_id", name="Rock", keywords=tags)
    await writer.done(f"{subject}/mount", asset_id=id_of(camera), reason="next")
    belongs = {"subject_id": id_of(subject), "campaign_id": id_of(campaign)}
    run = await writer.make("/runs", "run_id", name="Run", plan_id=id_of(plan), **belongs)
    for _ in range(8):
        await deliver(writer, run)
        await writer.done(f"{run}/logbook/append", text="A remark.")
        await writer.done(f"{run}/hold", reason="a look inside")
        await writer.done(f"{run}/resume")
    await writer.done(f"{run}/complete")
    await writer.done(f"{campaign}/close")


async def planned(writer: Writer) -> tuple[str, str]:
    """A plan on a camera in service."""
    unit = await writer.make("/assets", "asset_id", name="Unit", tier="Unit", facility_code="home")
    body = {"name": "Camera", "tier": "Device", "parent_id": id_of(unit), "family_ids": [CAMERA]}
    camera = await writer.make("/assets", "asset_id", **body)
    await writer.done(f"{camera}/activate")
    able = {"required_affordances": ["Imageable"], "executor_shapes": ["METHOD"]}
    code = f"beamwright.capability.{uuid4().hex}"
    capability = await writer.make("/capabilities", "capability_id", code=code, name="Imaging", **able)
    of = {"capability_id": id_of(capability), "execution_pattern": "Batch"}
    method = await writer.make("/methods", "method_id", name="Scan", **of)
    at = {"method_id": id_of(method), "facility_code": "home"}
    practice = await writer.make("/practices", "practice_id", name="Here", **at)
    bound = {"practice_id": id_of(practice), "asset_ids": [id_of(camera)]}
    return await writer.make("/plans", "plan_id", name="Plan", **bound), camera


async def deliver(writer: Writer, run: str) -> None:
    """A batch of samples; each is kept once, however often the batch is sent."""
    batch = {str(uuid4()): writer.dice.random() for _ in range(SAMPLES)}
    now = datetime.now(UTC).isoformat()
    entries = [
        {
            "event_id": id,
            "channel_name": f"channel {number % 4}",
            "value": value,
            "sampling_procedure": "Monitor",
            "sampled_at": now,
        }
        for number, (id, value) in enumerate(batch.items())
    ]
    inserted = await writer.done(f"{run}/observations/append", prefix="b", entries=entries)
    assert inserted["inserted"] + inserted["duplicates"] == SAMPLES, inserted
    writer.ledger.samples |= {id: (id_of(run), value) for id, value in batch.items()}


def id_of(path: str) -> str:
    return path.rpartition("/")[2]


def scripts(writers: int) -> list[Callable[[Writer], Awaitable[None]]]:
    """One for each writer; every kind comes up among eight."""
    kinds = [naming, contesting, crowding, measuring, installing, Sharing(), retiring, once]
    return [kinds[number % len(kinds)] for number in range(writers)]
