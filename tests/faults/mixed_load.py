"""A day at a beamline in small: a steady mixture of commands and reads from a few clients, over REST and MCP."""

import asyncio
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from beamwright.kernel import wellknown
from tests.acceptance.clients import TLS
from tests.acceptance.things import CAMERA, ORIGIN
from tests.faults.service import Served
from tests.faults.vitals import Latency, latency

BATCH = 40
LISTS = ("/runs", "/assets", "/subjects", "/decisions", "/mounts", "/campaigns", "/visits", "/actors")


class Log:
    """What was called: how long it took since somebody last looked, and what went wrong."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = defaultdict(list)
        self.calls: Counter[str] = Counter()
        self.unexpected: Counter[str] = Counter()

    def note(self, kind: str, seconds: float) -> None:
        self._seconds[kind].append(seconds)
        self.calls[kind] += 1

    def taken(self) -> dict[str, Latency]:
        window, self._seconds = self._seconds, defaultdict(list)
        return {kind: latency(seconds) for kind, seconds in sorted(window.items())}


class BreakOffError(Exception):
    """The script does not go on: its time is over, or an answer was not what it needs."""


class Station:
    """One client that calls at a steady pace; a slow answer delays its next call and no other client's."""

    def __init__(self, load: "Load", per_second: float) -> None:
        self.load = load
        self.client = load.client
        self._interval = 1 / per_second
        self._due = time.monotonic() + random.random() * self._interval

    @property
    def over(self) -> bool:
        return time.monotonic() > self.load.until

    async def turn(self) -> None:
        """Wait until the next call is due; what could not be kept up with is not made up for."""
        self._due = max(self._due + self._interval, time.monotonic() - self._interval)
        await asyncio.sleep(max(0.0, self._due - time.monotonic()))

    async def timed(
        self, kind: str, expected: int, call: Callable[[], Awaitable[httpx.Response]]
    ) -> httpx.Response:
        if self.over:
            raise BreakOffError
        await self.turn()
        began = time.monotonic()
        answer = await call()
        self.load.log.note(kind, time.monotonic() - began)
        if answer.status_code != expected:
            self.load.log.unexpected[f"{kind}: {answer.status_code} {answer.text[:300]}"] += 1
            raise BreakOffError
        return answer

    async def post(self, kind: str, path: str, expected: int = 200, /, **body: Any) -> dict[str, Any]:
        return (await self.timed(kind, expected, lambda: self.client.post(path, json=body))).json()

    async def get(self, kind: str, path: str, expected: int = 200, /, **parameters: Any) -> dict[str, Any]:
        return (await self.timed(kind, expected, lambda: self.client.get(path, params=parameters))).json()

    async def make(self, path: str, id_field: str, kind: str = "create", /, **body: Any) -> str:
        """The address of something new, which readers will look at."""
        receipt = await self.post(kind, path, 201, **body)
        self.load.as_of = receipt["as_of"]
        made = f"{path}/{receipt[id_field]}"
        self.load.recent.append(made)
        return made


class Load:
    """The installation, the stations, and what they share."""

    def __init__(self, service: Served, token: str, client: httpx.AsyncClient) -> None:
        self.service = service
        self.token = token
        self.client = client
        self.log = Log()
        self.recent: deque[str] = deque(maxlen=200)
        self.recent_runs: deque[str] = deque(maxlen=50)
        self.as_of = ""
        self.followed = 0
        self.followed_to = ""
        self.until = 0.0

    async def run(self, seconds: float) -> None:
        """All stations at once: about 30 commands and 60 reads a second."""
        self.until = time.monotonic() + seconds
        scripts: Sequence[tuple[Callable[[Station], Awaitable[None]], float]] = [
            (measuring, 7),
            (measuring, 7),
            (installing, 10),
            (deciding, 5),
            (visiting, 0.5),
            (reading, 14),
            (reading, 14),
            (listing, 16),
            (looking_back, 14),
            (mistaken, 2),
            (arriving_anew, 1),
            (through_tools, 2),
        ]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.following())
            for script, per_second in scripts:
                tasks.create_task(self._repeated(script, Station(self, per_second)))

    async def _repeated(self, script: Callable[[Station], Awaitable[None]], station: Station) -> None:
        if script in READERS:
            while not self.recent_runs and time.monotonic() < self.until:
                await asyncio.sleep(0.05)
        while not station.over:
            try:
                await script(station)
            except BreakOffError:
                await asyncio.sleep(0)
            except Exception as error:
                # An hour must not end because of one call; that it failed is told in the end.
                self.log.unexpected[f"{script.__name__}: {error!r}"[:300]] += 1
                await asyncio.sleep(1)

    async def following(self) -> None:
        """The feed as a stream that somebody leaves and takes up again; each leaving must free everything.

        It begins with what is new: to read all there is would be more work on an older log.
        """
        if not self.followed_to:
            self.followed_to = (await self.client.get("/zones", params={"limit": 1})).json()["as_of"]
        headers = {"accept": "text/event-stream"}
        while time.monotonic() < self.until:
            leave, after = min(self.until, time.monotonic() + 15), {"after": self.followed_to}
            try:
                async with self.client.stream("GET", "/events", headers=headers, params=after) as stream:
                    async for line in stream.aiter_lines():
                        if line.startswith("id: "):
                            self.followed_to = line[4:]
                            self.followed += 1
                        if time.monotonic() > leave:
                            break
            except httpx.TransportError as error:
                self.log.unexpected[f"following: {error!r}"[:300]] += 1
                await asyncio.sleep(1)


# Commands.


async def measuring(station: Station) -> None:
    """Ten samples are measured in one campaign on equipment of its own."""
    plan, camera = await prepared(station)
    campaign = await station.make("/campaigns", "campaign_id", name="Series", intent="Series")
    await station.post("transition", f"{campaign}/start")
    for _ in range(10):
        subject = await station.make("/subjects", "subject_id", name="Rock")
        await station.post("several streams", f"{subject}/mount", asset_id=id_of(camera), reason="next")
        body = {"plan_id": id_of(plan), "subject_id": id_of(subject), "campaign_id": id_of(campaign)}
        run = await station.make("/runs", "run_id", "several streams", name="Run", **body)
        station.load.recent_runs.append(run)
        for _ in range(3):
            await station.post("observation batch", f"{run}/observations/append", entries=samples())
        await station.post("transition", f"{run}/logbook/append", text="A remark.")
        await station.post("transition", f"{run}/hold", reason="a look inside")
        await station.post("transition", f"{run}/resume")
        await station.post("transition", f"{run}/complete")
        await station.post("transition", f"{subject}/remove", reason="done")
        await station.post("transition", f"{subject}/store", location="Shelf")
    await station.post("transition", f"{campaign}/close")


async def prepared(station: Station) -> tuple[str, str]:
    """A plan on a camera."""
    unit = await station.make("/assets", "asset_id", name="Unit", tier="Unit", facility_code="home")
    body = {"name": "Camera", "tier": "Device", "parent_id": id_of(unit), "family_ids": [CAMERA]}
    camera = await station.make("/assets", "asset_id", **body)
    await station.post("transition", f"{camera}/activate")
    capability = await station.make(
        "/capabilities",
        "capability_id",
        code=f"beamwright.capability.{uuid4().hex}",
        name="Imaging",
        required_affordances=["Imageable"],
        executor_shapes=["METHOD"],
    )
    able = {"capability_id": id_of(capability), "execution_pattern": "Batch"}
    method = await station.make("/methods", "method_id", name="Scan", **able)
    practice = await station.make(
        "/practices", "practice_id", name="Here", method_id=id_of(method), facility_code="home"
    )
    bound = {"practice_id": id_of(practice), "asset_ids": [id_of(camera)]}
    return await station.make("/plans", "plan_id", name="Plan", **bound), camera


async def installing(station: Station) -> None:
    """Devices are registered, installed, maintained and taken out again."""
    unit = await station.make("/assets", "asset_id", name="Unit", tier="Unit", facility_code="home")
    frame = await station.make("/frames", "frame_id", name="Hall", facility_code="home")
    placement = {"parent_frame_id": id_of(frame), "reference_surface": "MountingFace"} | ORIGIN
    for _ in range(10):
        body = {"name": "Camera", "tier": "Device", "parent_id": id_of(unit), "family_ids": [CAMERA]}
        asset = await station.make("/assets", "asset_id", **body)
        await station.post("transition", f"{asset}/activate")
        mount = await station.make(
            "/mounts", "mount_id", slot_code=uuid4().hex, facility_code="home", placement=placement
        )
        await station.post("several streams", f"{mount}/install", asset_id=id_of(asset))
        await station.post("transition", f"{asset}/degrade", reason="it drifts")
        await station.post("transition", f"{asset}/restore", reason="mended")
        await station.post("transition", f"{asset}/enter-maintenance", reason="service")
        await station.post("transition", f"{asset}/exit-maintenance")
        await station.post("several streams", f"{mount}/uninstall", reason="gone")
        await station.post("transition", f"{mount}/decommission", reason="gone")
        await station.post("transition", f"{asset}/decommission", reason="gone")


async def deciding(station: Station) -> None:
    """A decision, sent again with its key as after a lost answer."""
    body, headers = {"context": "RunStop", "choice": "Stop"}, {"idempotency-key": uuid4().hex}
    for kind in ("create", "replay"):
        await station.timed(kind, 201, lambda: station.client.post("/decisions", json=body, headers=headers))


async def visiting(station: Station) -> None:
    """Visits are part of the authority, which every call decides on."""
    now = datetime.now(UTC)
    visit = await station.make(
        "/visits",
        "visit_id",
        code=uuid4().hex,
        title="A stay",
        facility_code="home",
        surface_id=str(wellknown.HTTP_SURFACE),
        type="User",
        planned_start_at=now.isoformat(),
        planned_end_at=(now + timedelta(days=1)).isoformat(),
    )
    for move in ("record-arrival", "start", "complete"):
        await station.post("several streams" if move == "complete" else "transition", f"{visit}/{move}")


# Reads.


async def reading(station: Station) -> None:
    await station.get("single read", random.choice(station.load.recent))


async def listing(station: Station) -> None:
    """A first page that has seen the newest append that anybody made, and the page after it."""
    path, fresh = random.choice(LISTS), random.random() < 0.25
    wanted = {"limit": 50} | ({"consistent_with": station.load.as_of} if fresh else {})
    page = await station.get("fresh list page" if fresh else "list page", path, **wanted)
    if page.get("next_cursor"):
        await station.get("list page", path, limit=50, cursor=page["next_cursor"])


async def looking_back(station: Station) -> None:
    run = random.choice(station.load.recent_runs)
    await station.get("history", f"{random.choice(station.load.recent)}/events")
    await station.get("feed page", "/events", limit=50, after=station.load.as_of)
    await station.get("series", f"{run}/observations", channel_name="channel 1", max_points=100)
    await station.get("series", f"{run}/channels")
    await station.get("history", f"{run}/logbook")
    await station.get("report", f"{run}/readiness")
    await station.get("report", "/permissions")


async def mistaken(station: Station) -> None:
    """What is refused must be forgotten as well."""
    client, recent = station.client, random.choice(station.load.recent_runs)
    nobody = {"authorization": "Bearer nonsense"}
    await station.timed("refusal", 401, lambda: client.get("/runs", headers=nobody))
    await station.get("refusal", f"/runs/{uuid4()}", 404)
    await station.post("refusal", "/runs", 422, wrong="field")
    await station.post("refusal", f"{recent}/complete", 422, unheard_of=True)


async def arriving_anew(station: Station) -> None:
    headers = {"authorization": f"Bearer {station.load.token}"}

    async def call() -> httpx.Response:
        async with httpx.AsyncClient(
            base_url=station.load.service.url, headers=headers, timeout=120, verify=TLS
        ) as client:
            return await client.get("/actors/current")

    await station.timed("new connection", 200, call)


async def through_tools(station: Station) -> None:
    """A session of twenty tool calls, then another session."""
    headers = {"authorization": f"Bearer {station.load.token}"}
    address = f"{station.load.service.url}/mcp"
    async with (
        httpx2.AsyncClient(headers=headers, timeout=120, verify=TLS) as transport,
        Client(streamable_http_client(address, http_client=transport)) as client,
    ):
        for number in range(20):
            if station.over:
                return
            run_id = {"run_id": id_of(random.choice(station.load.recent_runs))}
            tools = [("get_run", run_id), ("list_subjects", {"limit": 20}), ("get_run_history", run_id)]
            await station.turn()
            began = time.monotonic()
            result = await client.call_tool(*tools[number % 3])
            station.load.log.note("tool", time.monotonic() - began)
            if result.is_error:
                station.load.log.unexpected[f"tool: {str(result.structured_content)[:300]}"] += 1


READERS = (reading, listing, looking_back, mistaken, arriving_anew, through_tools)


def id_of(path: str) -> str:
    return path.rpartition("/")[2]


def samples() -> list[dict[str, Any]]:
    now = datetime.now(UTC).isoformat()
    return [
        {
            "event_id": str(uuid4()),
            "channel_name": f"channel {number % 4}",
            "value": random.random(),
            "sampling_procedure": "Monitor",
            "sampled_at": now,
        }
        for number in range(BATCH)
    ]
