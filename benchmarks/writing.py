"""Commands per second over HTTP, beside pgbench and a bare asyncpg loop doing the same INSERT."""

import time
from collections.abc import Iterator
from uuid import uuid4

import httpx
import uvloop

from benchmarks.installation import Installation, bare_inserts
from benchmarks.load import Sent, request, send
from benchmarks.table import Figure, difference, milliseconds, rate

CLIENTS = (1, 8, 32)


def creations(token: str, count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield request("POST", "/zones", token, b'{"name":"%s"}' % uuid4().hex.encode())


def transitions(token: str, ids: list[str], count: int) -> Iterator[bytes]:
    for number in range(count):
        body = b'{"description":"%s"}' % uuid4().hex.encode()
        yield request("POST", f"/zones/{ids[number % len(ids)]}/update", token, body)


def zones(place: Installation, count: int) -> list[str]:
    with place.client() as client:
        return [client.post("/zones", json={"name": uuid4().hex}).json()["zone_id"] for _ in range(count)]


def run(place: Installation, clients: int, requests: Iterator[bytes], status: int) -> Sent:
    sent = uvloop.run(send(place.port, clients, lambda: requests))
    assert set(sent.statuses) == {status}, sent.statuses
    return sent


def throughput(place: Installation, seconds: float) -> list[Figure]:
    figures: list[Figure] = []
    bare = {n: uvloop.run(bare_inserts(place.dsn, n, seconds))[0] for n in CLIENTS}
    from_c = {n: place.pgbench(n, seconds) for n in CLIENTS}
    one_process: dict[str, float] = {}
    for processes in (1, 2):
        with place.serving(processes):
            ids = zones(place, 2000)
            for kind, status, aim in (("creation", 201, 0.6), ("transition", 200, 0.5)):
                for n in CLIENTS:
                    count = int(seconds * (300 if n == 1 else 1200))
                    make = (
                        creations(place.token, count)
                        if kind == "creation"
                        else transitions(place.token, ids, count)
                    )
                    got = run(place, n, make, status).per_second
                    share = got / bare[n]
                    met = None
                    if n == 32:
                        met = share >= aim and (kind != "creation" or got >= 1200)
                        if processes == 2:
                            met = got > one_process[kind]
                        one_process.setdefault(kind, got)
                    figures.append(
                        Figure(
                            f"{kind}, {n} client{'s' * (n > 1)}, {processes} process{'es' * (processes > 1)}",
                            rate(got),
                            f"asyncpg {rate(bare[n])}, pgbench {rate(from_c[n])}",
                            f"{share:.0%}, {got / from_c[n]:.0%}",
                            _aim(kind, n, processes, aim),
                            met,
                        )
                    )
    return figures


def _aim(kind: str, clients: int, processes: int, share: float) -> str:
    if clients != 32:
        return "-"
    if processes == 2:
        return "more than one"
    return f">= {share:.0%}" + (", >= 1,200/s" if kind == "creation" else "")


def latency(place: Installation, count: int) -> list[Figure]:
    with place.serving():
        ids = zones(place, 1000)
        run(place, 1, transitions(place.token, ids, 200), 200)
        sent = run(place, 1, transitions(place.token, ids, count), 200)
        _, p50, p99 = uvloop.run(bare_inserts(place.dsn, 1, 2))
    extra = sent.p50 - p50
    return [
        Figure(
            "transition latency p50, 1 client",
            milliseconds(sent.p50),
            f"bare commit {milliseconds(p50)}",
            difference(extra),
            "+1.5 ms",
            extra <= 0.0015,
        ),
        Figure(
            "transition latency p99, 1 client", milliseconds(sent.p99), f"bare commit {milliseconds(p99)}"
        ),
    ]


def visible_after(client: httpx.Client, count: int) -> list[float]:
    """Seconds from the acknowledged command to the row in a list, in order."""
    times: list[float] = []
    for _ in range(count):
        made = client.post("/zones", json={"name": uuid4().hex}).json()
        began = time.perf_counter()
        while client.get("/zones", params={"limit": 1}).json()["items"][0]["id"] != made["zone_id"]:
            pass
        times.append(time.perf_counter() - began)
    return sorted(times)


def freshness(place: Installation, count: int) -> list[Figure]:
    """From the acknowledged command to the row in a list."""
    with place.serving(), place.client() as client:
        times = visible_after(client, count)
    p99 = times[int(len(times) * 0.99)]
    return [
        Figure("acknowledged to visible in a list, p50", milliseconds(times[len(times) // 2])),
        Figure("acknowledged to visible in a list, p99", milliseconds(p99), aim="50 ms", met=p99 < 0.05),
    ]
