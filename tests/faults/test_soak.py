"""An hour of moderate load: memory, connections, handles and latency stay flat."""

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from beamwright.adapters.postgres.driver import connect
from tests.faults.form import FIGURES, LONG, record, sized
from tests.faults.mixed_load import Load
from tests.faults.plots import Panel, drawing
from tests.faults.service import Served, ready, served
from tests.faults.vitals import MIB, Latency, Sample, Vitals, address, growth, latency, thirds, typical

SECONDS = sized(short=8.0, long=3600.0)
EVERY = sized(short=1.0, long=60.0)
# Pools fill, caches warm, and the allocator finds its size.
WARM_UP = sized(short=0.0, long=600.0)
# A machine may be busy with other things; how long it takes is seen in the latencies.
PATIENCE = 300
PLOT = Path("docs/explanation/soak.svg")
# At 90 calls a second 16 MB an hour are 52 bytes a call: less than the smallest object with its place in a container.
MOST_GROWTH = {"memory": 16.0, "backend_memory": 16.0, "handles": 5.0, "threads": 2.0, "connections": 3.0}
# What all pools of one process may open together.
MOST_CONNECTIONS = 16
# Of the typical latency of a kind of call.
MOST_SLOWER = 1.5
# Below a millisecond a scheduler's whim is half of it.
LEAST_SLOWER = 1.0
# When the machine itself took so much longer for the same work, its latencies say nothing about the service.
MOST_DISTURBED = 1.2
# At the end the aged service and a newborn one take turns, so that whatever else the machine does slows both.
TURNS, TURN = 8, 15.0


def faults(samples: Sequence[Sample]) -> list[str]:
    """What is not flat, each in a sentence."""
    steady = [sample for sample in samples if sample.at >= WARM_UP]
    found = [
        f"{name} grows by {slope:.1f} an hour, more than {most:g}"
        for name, most in MOST_GROWTH.items()
        if (slope := growth(steady, name)) > most
    ]
    if (most := max(sample.connections for sample in samples)) > MOST_CONNECTIONS:
        found.append(f"{most} database connections were open, more than {MOST_CONNECTIONS}")
    if slowdown(steady) <= MOST_DISTURBED:
        over_time = {kind: thirds(steady, typical(kind)) for kind in kinds(steady)}
        found += slower(over_time, "in the first third", "in the last")
    return found


def slower(typical: Mapping[str, tuple[float, float]], before: str, after: str) -> list[str]:
    """The kinds of calls that take so much longer than they did."""
    return [
        f"a {kind} took {first:.1f} ms {before} and {last:.1f} ms {after}"
        for kind, (first, last) in sorted(typical.items())
        if last > max(first * MOST_SLOWER, first + LEAST_SLOWER)
    ]


def slowdown(samples: Sequence[Sample]) -> float:
    """How much longer the machine took for the same work in the last third; never less than 1."""
    first, last = thirds(samples, lambda sample: sample.yardstick or None)
    return max(1.0, last / first)


def kinds(samples: Sequence[Sample]) -> list[str]:
    return sorted({kind for sample in samples for kind in sample.latencies})


async def soaked(service: Served) -> tuple[Load, list[Sample]]:
    token = service.token()
    async with service.client(token, timeout=PATIENCE) as client:
        await ready(client, within=PATIENCE)
        database = await connect(address(service))
        vitals, load = Vitals(service, client, database), Load(service, token, client)
        running = asyncio.create_task(load.run(SECONDS))
        samples: list[Sample] = []
        while not running.done():
            due = time.monotonic() + EVERY
            while not running.done() and time.monotonic() < due:
                await asyncio.wait([running], timeout=min(1.0, EVERY))
                await vitals.measure()
            samples.append(await vitals.sample(load.log.taken()))
            keep(samples)
        await running
        await caught_up(vitals)
        await database.close()
    return load, samples


async def compared(aged: Served) -> dict[str, tuple[float, float]]:
    """How long each kind of call typically takes a newborn service, and the aged one, in turns."""
    with served() as newborn:
        loads: list[Load] = []
        async with AsyncExitStack() as open_clients:
            for service in (newborn, aged):
                token = service.token()
                client = await open_clients.enter_async_context(service.client(token, timeout=PATIENCE))
                await ready(client, within=PATIENCE)
                loads.append(Load(service, token, client))
            turns: list[list[dict[str, Latency]]] = [[], []]
            # The first turn of each warms it up.
            for _ in range(TURNS + 1):
                for load, taken in zip(loads, turns, strict=True):
                    await load.run(TURN)
                    taken.append(load.log.taken())
    young, old = (taken[1:] for taken in turns)
    return {
        kind: (median_of(young, kind), median_of(old, kind)) for kind in sorted(set(young[0]) & set(old[0]))
    }


def median_of(turns: Sequence[Mapping[str, Latency]], kind: str) -> float:
    return statistics.median(turn[kind].p50 for turn in turns if kind in turn)


async def caught_up(vitals: Vitals) -> None:
    for _ in range(100):
        if not (await vitals.sample({})).behind_events:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the lists did not catch up after the load had ended")


def keep(samples: Sequence[Sample]) -> None:
    """So that an hour that ends badly still shows what it saw."""
    if LONG:
        folder = FIGURES / "samples"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "soak.json").write_bytes(msgspec.json.encode(samples))


def plotted(samples: Sequence[Sample]) -> str:
    def over_time(name: str) -> list[tuple[float, float]]:
        return [(sample.at / 60, getattr(sample, name)) for sample in samples]

    def p50(kind: str) -> list[tuple[float, float]]:
        return [(each.at / 60, each.latencies[kind].p50) for each in samples if kind in each.latencies]

    shown = ("create", "transition", "several streams", "single read", "list page")
    memory = {"service": over_time("memory"), "database backends": over_time("backend_memory")}
    open_things = {name: over_time(name) for name in ("handles", "connections", "threads")}
    return drawing(
        f"Soak: {samples[-1].at / 60:.0f} minutes, {sum(rates(samples).values()):.0f} calls a second",
        "min",
        [
            Panel("Memory, MB", memory),
            Panel("Open handles, database connections, threads", open_things),
            Panel(
                "Typical latency (p50), ms",
                {kind: p50(kind) for kind in shown} | {"the same work": over_time("yardstick")},
            ),
            Panel(
                "Load average of the machine, other people's work included",
                {"load": over_time("load_average")},
            ),
        ],
    )


def rates(samples: Sequence[Sample]) -> dict[str, float]:
    calls = {
        kind: [sample.latencies[kind].calls for sample in samples if kind in sample.latencies]
        for kind in kinds(samples)
    }
    return {kind: sum(each) / samples[-1].at for kind, each in calls.items()}


def figures(samples: Sequence[Sample]) -> dict[str, int | float | str]:
    calls = sum(each.calls for sample in samples for each in sample.latencies.values())
    steady = [sample for sample in samples if sample.at >= WARM_UP]
    slopes = {f"{name}_growth_per_hour": f"{growth(steady, name):+.1f}" for name in MOST_GROWTH}
    latencies = {kind: thirds(steady, typical(kind)) for kind in kinds(steady)}
    slowest = max(latencies, key=lambda kind: latencies[kind][1] / latencies[kind][0])
    first, last = latencies[slowest]
    return {
        "minutes": round(samples[-1].at / 60, 1),
        "calls": calls,
        "calls_per_second": round(calls / samples[-1].at, 1),
        "events": samples[-1].events,
        "database_MB": samples[-1].database,
        "service_MB": f"{steady[0].memory:.0f} to {steady[-1].memory:.0f}",
        "backends_MB": f"{steady[0].backend_memory:.0f} to {steady[-1].backend_memory:.0f}",
        "handles": f"{steady[0].handles} to {steady[-1].handles}",
        "connections": f"{steady[0].connections} to {steady[-1].connections}",
        **slopes,
        "memory_kept_per_call": f"{growth(steady, 'memory') * MIB * samples[-1].at / 3600 / calls:.0f} bytes",
        "most_slowed_p50": f"{slowest}, {first:.1f} to {last:.1f} ms",
        "machine_slowed": f"{slowdown(steady):.2f} times",
        "most_behind": f"{max(sample.behind_events for sample in samples)} events",
        "dead_rows": f"{samples[-1].dead_rows:,} at the end, {max(s.dead_rows for s in samples):,} at most",
        "load_average": f"{min(s.load_average for s in samples):.1f} to {max(s.load_average for s in samples):.1f}",
    }


def comparison(beside_newborn: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    if not beside_newborn:
        return {}
    slowest = max(beside_newborn, key=lambda kind: beside_newborn[kind][1] / beside_newborn[kind][0])
    young, old = beside_newborn[slowest]
    ratio = statistics.median(old / young for young, old in beside_newborn.values())
    return {
        "p50_beside_a_newborn_service": f"{ratio:.2f} times; at most {slowest}, {young:.1f} to {old:.1f} ms"
    }


def test_an_hour_leaves_the_service_as_it_was() -> None:
    with served() as service:
        load, samples = asyncio.run(soaked(service))
        beside_newborn = asyncio.run(compared(service)) if LONG else {}
    record("soak", seed=None, **figures(samples), **comparison(beside_newborn))
    if LONG:
        PLOT.write_text(plotted(samples))
    assert not load.log.unexpected, "\n".join(
        f"{n} x {what}" for what, n in load.log.unexpected.most_common(10)
    )
    assert load.followed > 0 and min(rates(samples).values()) > 0
    if LONG:
        found = faults(samples) + slower(beside_newborn, "newborn", "after the hour")
        assert not found, "\n".join(found)
    else:
        assert samples[-1].connections <= MOST_CONNECTIONS and samples[-1].handles < 100, samples[-1]


# What is judged once an hour is proved here on made-up samples.


def made_up(**growing: float) -> list[Sample]:
    """An hour in which all is flat but what grows by so much."""

    def at(minute: int) -> Sample:
        def value(name: str, base: float) -> float:
            return base + growing.get(name, 0) * minute / 60

        return Sample(
            at=minute * 60.0,
            memory=value("memory", 100),
            backend_memory=value("backend_memory", 50),
            handles=int(value("handles", 40)),
            threads=int(value("threads", 5)),
            connections=int(value("connections", 10)),
            behind_events=0,
            database=10,
            events=10,
            dead_rows=0,
            load_average=1.0,
            yardstick=value("yardstick", 2),
            latencies={"create": latency([value("latency", 4) / 1000] * 100)},
        )

    return [at(minute) for minute in range(1, 61)]


def test_a_flat_hour_has_no_fault() -> None:
    assert faults(made_up(memory=10)) == []


def test_what_a_busier_machine_slows_down_is_no_fault() -> None:
    assert faults(made_up(latency=8, yardstick=4)) == []


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("backend_memory", 20),
        ("connections", 5),
        ("handles", 12),
        ("latency", 8),
        ("memory", 20),
        ("threads", 4),
    ],
)
def test_what_grows_is_seen(name: str, by: float) -> None:
    [found] = faults(made_up(**{name: by}))
    assert ("create" if name == "latency" else name) in found
