"""`make bench-peers`: the same work through the service and through the `eventsourcing` library, side by side."""

import argparse
import asyncio
import json
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid4

import asyncpg
import uvloop

from beamwright.app import App
from beamwright.contexts.trust.zone import DefineZone, UpdateZone
from beamwright.contexts.trust.zone import zones as zone_aggregate
from beamwright.kernel.store import BEGINNING, Mark
from beamwright.kernel.value import Value
from beamwright.settings import Settings
from benchmarks.curves import machine, today
from benchmarks.growth import LENGTHEN, execute
from benchmarks.installation import Installation, installation, quiet
from benchmarks.load import Sent, request
from benchmarks.pages import rewrite, table
from benchmarks.stages import CALL
from benchmarks.table import milliseconds, rate
from benchmarks.writing import run, zones

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "peers.md"
PEER = ROOT / "benchmarks" / "peer_eventsourcing.py"
DATABASES = ("peer", "peer_functions")


class Work(Value):
    """What is done on every side."""

    seconds: float = 4.0
    writers: tuple[int, ...] = (1, 8, 32)
    zones: int = 2_000
    lengths: tuple[int, ...] = (1_000, 10_000)
    replays: int = 10
    page: int = 1_000


QUICK = Work(seconds=0.5, writers=(1, 8), zones=100, lengths=(1_000,), replays=3)


class Speed(NamedTuple):
    """Writers at work."""

    per_second: float
    p50: float
    p99: float


class Side(Value):
    """What one side did."""

    creation: dict[int, Speed]
    transition: dict[int, Speed]
    replay: dict[int, float] = {}
    log: tuple[float, int] | None = None


async def in_process(place: Installation, work: Work) -> Side:
    """The service without HTTP: authorization, rule, guards and append in this process, no projector."""
    app = await App.open(Settings(data=place.directory), place.dsn)
    writing_verdicts = asyncio.create_task(app.verdicts.run())
    made = [(await _define(app)).object_id for _ in range(work.zones)]
    ids = [id for id in made if id is not None]
    await _writing(lambda: _define(app), 1, work.seconds / 2)
    creation: dict[int, Speed] = {}
    transition: dict[int, Speed] = {}
    for writers in work.writers:
        creation[writers] = await _writing(lambda: _define(app), writers, work.seconds)
        transition[writers] = await _writing(_updating(app, ids), writers, work.seconds)
    replay = {length: await _replaying(app, place.dsn, length, work.replays) for length in work.lengths}
    side = Side(creation=creation, transition=transition, replay=replay, log=await _following(app, work.page))
    writing_verdicts.cancel()
    await app.close()
    return side


async def _define(app: App) -> Any:
    return await app.service.call(DefineZone(name=uuid4().hex), CALL)


def _updating(app: App, ids: list[UUID]) -> Callable[[], Awaitable[Any]]:
    """Each zone in turn, so that no two writers meet on one."""
    turns = iter(range(2**62))

    def update() -> Awaitable[Any]:
        command = UpdateZone(zone_id=ids[next(turns) % len(ids)], description=uuid4().hex)
        return app.service.call(command, CALL)

    return update


async def _writing(call: Callable[[], Awaitable[Any]], writers: int, seconds: float) -> Speed:
    times: list[float] = []
    until = time.perf_counter() + seconds

    async def loop() -> None:
        while (began := time.perf_counter()) < until:
            await call()
            times.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(loop() for _ in range(writers)))
    took = time.perf_counter() - began
    times.sort()
    return Speed(len(times) / took, times[len(times) // 2], times[int(len(times) * 0.99)])


async def _replaying(app: App, dsn: str, length: int, times: int) -> float:
    """Events per second of loading one zone."""
    id: UUID = (await _define(app)).object_id
    await execute(dsn, LENGTHEN, id, "long", length)
    name = ("Zone", id)

    async def once() -> None:
        stream = (await app.store.read([name]))[name]
        assert stream.version == length
        assert zone_aggregate.fold(zone_aggregate.stream_decoder.decode(stream.events)) is not None

    await once()
    began = time.perf_counter()
    for _ in range(times):
        await once()
    return length * times / (time.perf_counter() - began)


async def _following(app: App, page: int) -> tuple[float, int]:
    """All events in the order of the log, page by page, each as an event object: per second, and how many."""
    aggregates = app.service.registry.aggregates
    count, mark = 0, BEGINNING
    began = time.perf_counter()
    while found := await app.store.read_log(mark, page):
        for event in found:
            aggregates[event.stream_type].decoder.decode(event.tagged)
        count += len(found)
        mark = Mark(*found[-1].mark)
    return count / (time.perf_counter() - began), count


def over_http(place: Installation, work: Work) -> Side:
    """The whole service: HTTP, token, authorization, rule, guards, verdict, and the projector at work."""
    creation: dict[int, Speed] = {}
    transition: dict[int, Speed] = {}
    with place.serving():
        ids = zones(place, work.zones)
        run(place, 1, _creations(place.token, work.seconds / 2), 201)
        for writers in work.writers:
            creation[writers] = _speed(run(place, writers, _creations(place.token, work.seconds), 201))
            updates = _updates(place.token, ids, work.seconds)
            transition[writers] = _speed(run(place, writers, updates, 200))
    return Side(creation=creation, transition=transition)


def _speed(sent: Sent) -> Speed:
    return Speed(sent.per_second, sent.p50, sent.p99)


def _creations(token: str, seconds: float) -> Iterator[bytes]:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        yield request("POST", "/zones", token, b'{"name":"%s"}' % uuid4().hex.encode())


def _updates(token: str, ids: list[str], seconds: float) -> Iterator[bytes]:
    until, turns = time.perf_counter() + seconds, iter(range(2**62))
    while time.perf_counter() < until:
        body = b'{"description":"%s"}' % uuid4().hex.encode()
        yield request("POST", f"/zones/{ids[next(turns) % len(ids)]}/update", token, body)


def peer(place: Installation, work: Work, python: Path) -> tuple[dict[str, Side], str]:
    """The library in its own environment, on databases of the same server."""
    uvloop.run(_databases(place.dsn))
    address = urlsplit(place.dsn)
    asked = parse_qs(address.query)
    given = {
        "host": asked["host"][0],
        "port": asked["port"][0],
        "user": address.username,
        "database": DATABASES[0],
        "second_database": DATABASES[1],
        "seconds": work.seconds,
        "writers": work.writers,
        "zones": work.zones,
        "lengths": work.lengths,
        "replays": work.replays,
        "page": work.page,
    }
    ran = subprocess.run(
        [python, PEER], input=json.dumps(given), capture_output=True, text=True, check=False, timeout=1200
    )
    if ran.returncode:
        raise SystemExit(ran.stderr)
    answer = json.loads(ran.stdout)
    sides = {name: _side(answer[name]) for name in ("default", "functions")}
    return sides, f"eventsourcing {answer['eventsourcing']} with psycopg {answer['psycopg']}"


def _side(got: dict[str, Any]) -> Side:
    def speeds(kind: str) -> dict[int, Speed]:
        return {int(writers): Speed(**speed) for writers, speed in got[kind].items()}

    replay = {int(length): speed for length, speed in got["replay"].items()}
    log = (got["log"][0], got["log"][1])
    return Side(creation=speeds("creation"), transition=speeds("transition"), replay=replay, log=log)


async def _databases(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    for name in DATABASES:
        await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()


def rows(sides: list[Side], work: Work) -> list[list[str]]:
    """A line for each piece of work, a column for each side."""
    lines: list[list[str]] = []
    for kind in ("creation", "transition"):
        for writers in work.writers:
            speeds = [getattr(side, kind)[writers] for side in sides]
            who = f"{writers} writer{'s' * (writers > 1)}"
            lines.append([f"{kind}, {who}", *(rate(each.per_second) for each in speeds)])
            lines.append([f"{kind}, {who}, p99", *(milliseconds(each.p99) for each in speeds)])
    for length in work.lengths:
        replays = [side.replay.get(length) for side in sides]
        lines.append(
            [f"replay of {length:,} events, events", *("-" if got is None else rate(got) for got in replays)]
        )
    logs = ["-" if side.log is None else rate(side.log[0]) for side in sides]
    lines.append([f"the whole log in pages of {work.page:,}, events", *logs])
    return lines


def main() -> None:
    quiet()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--python", type=Path, required=True, help="interpreter that has the library")
    parser.add_argument("--page", type=Path, default=PAGE, help="document to write into")
    given = parser.parse_args()
    work = QUICK if given.quick else Work()
    with installation() as place:
        sides, versions = peer(place, work, given.python)
        alone = uvloop.run(in_process(place, work))
        served = over_http(place, work)
    columns = [sides["default"], sides["functions"], alone, served]
    headings = ["work", "eventsourcing", "eventsourcing, database functions", "beamwright in process"]
    shown = table([*headings, "beamwright over HTTP"], rows(columns, work))
    print(shown)
    if not given.quick or given.page != PAGE:
        told = f"Measured on {today()}: {machine()}; {versions}."
        rewrite(given.page, {"peers": f"{told}\n\n{shown}"})


if __name__ == "__main__":
    main()
