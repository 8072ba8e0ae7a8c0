"""The work of `peers.py` through the `eventsourcing` library; runs in its own environment and prints JSON.

Imports nothing of ours, because that environment holds the library and its driver alone.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any
from uuid import UUID, uuid4

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event


class Zone(Aggregate):
    """The zone of the service: a name and a description."""

    @event("Defined")
    def __init__(self, name: str, description: str | None) -> None:
        self.name = name
        self.description = description

    @event("Updated")
    def update(self, name: str, description: str | None) -> None:
        self.name = name
        self.description = description


class Zones(Application[UUID]):
    """Create and change, as an application of the library does."""

    def define(self, name: str) -> UUID:
        zone = Zone(name=name, description=None)
        self.save(zone)
        return zone.id

    def update(self, id: UUID, description: str) -> None:
        zone: Zone = self.repository.get(id)
        zone.update(zone.name, description)
        self.save(zone)

    def long(self, events: int) -> UUID:
        zone = Zone(name="long", description=None)
        for number in range(2, events + 1):
            zone.update("long", f"change {number}")
            # All at once they would fill both ends of the connection, and neither would read.
            if number % 500 == 0:
                self.save(zone)
        self.save(zone)
        return zone.id


def opened(given: dict[str, Any], *, functions: bool) -> Zones:
    return Zones(
        env={
            "PERSISTENCE_MODULE": "eventsourcing.postgres",
            "POSTGRES_HOST": given["host"],
            "POSTGRES_PORT": given["port"],
            "POSTGRES_USER": given["user"],
            "POSTGRES_PASSWORD": "trusted",
            "POSTGRES_DBNAME": given["database"],
            "POSTGRES_POOL_SIZE": str(max(given["writers"])),
            "POSTGRES_ENABLE_DB_FUNCTIONS": "yes" if functions else "no",
        }
    )


def writing(work: Callable[[], object], threads: int, seconds: float) -> dict[str, float]:
    """So many threads, each as fast as it can: per second, p50 and p99."""
    times: list[float] = []
    until = time.perf_counter() + seconds

    def loop() -> None:
        while (began := time.perf_counter()) < until:
            work()
            times.append(time.perf_counter() - began)

    began = time.perf_counter()
    running = [threading.Thread(target=loop) for _ in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    took = time.perf_counter() - began
    times.sort()
    return {
        "per_second": len(times) / took,
        "p50": times[len(times) // 2],
        "p99": times[int(len(times) * 0.99)],
    }


def updating(app: Zones, ids: list[UUID]) -> Callable[[], None]:
    """Each zone in turn, so that no two writers meet on one."""
    turns = iter(range(sys.maxsize))
    return lambda: app.update(ids[next(turns) % len(ids)], uuid4().hex)


def replaying(app: Zones, length: int, times: int) -> float:
    """Events per second of loading an aggregate, without snapshots."""
    id = app.long(length)
    app.repository.get(id)
    began = time.perf_counter()
    for _ in range(times):
        assert app.repository.get(id).version == length
    return length * times / (time.perf_counter() - began)


def following(app: Zones, page: int) -> tuple[float, int]:
    """All events in the order of the log, page by page, each as an event object: per second, and how many."""
    count, start = 0, 1
    began = time.perf_counter()
    while found := app.notification_log.recorder.select_notifications(start, page):
        for notification in found:
            app.mapper.to_domain_event(notification)
        count += len(found)
        start = found[-1].id + 1
    return count / (time.perf_counter() - began), count


def measured(given: dict[str, Any], *, functions: bool) -> dict[str, Any]:
    with opened(given, functions=functions) as app:
        seconds: float = given["seconds"]
        ids = [app.define(uuid4().hex) for _ in range(given["zones"])]
        writing(lambda: app.define(uuid4().hex), 1, seconds / 2)
        got: dict[str, Any] = {"creation": {}, "transition": {}, "replay": {}}
        for threads in given["writers"]:
            got["creation"][threads] = writing(lambda: app.define(uuid4().hex), threads, seconds)
            got["transition"][threads] = writing(updating(app, ids), threads, seconds)
        for length in given["lengths"]:
            got["replay"][length] = replaying(app, length, given["replays"])
        got["log"] = following(app, given["page"])
        return got


def main() -> None:
    given: dict[str, Any] = json.load(sys.stdin)
    answer: dict[str, Any] = {name: version(name) for name in ("eventsourcing", "psycopg")}
    answer["default"] = measured(given, functions=False)
    answer["functions"] = measured(given | {"database": given["second_database"]}, functions=True)
    json.dump(answer, sys.stdout)


main()
