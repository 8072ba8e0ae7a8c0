"""The observers on a control system that tests hold in their hand: on any doubt a permit is Unknown."""

import asyncio
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from beamwright.adapters.postgres.embedded import EmbeddedPostgres
from beamwright.app import App
from beamwright.contexts.enclosure.enclosure import PermitSource
from beamwright.contexts.supply.supply import StatusSource
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.control import (
    ControlNotConnectedError,
    ControlPort,
    Measurement,
    NoAdapterForAddressError,
    Quality,
)
from beamwright.kernel.seams import Leases
from beamwright.kernel.units import Unit, UnitSystem
from beamwright.kernel.value import replace
from beamwright.runtime.call import Call
from beamwright.runtime.enclosure_observer import ENCLOSURES
from beamwright.runtime.observer import (
    Link,
    Observation,
    Observer,
    Report,
    Reporter,
    Session,
    Silence,
    Timings,
    Watch,
    metrics,
)
from beamwright.runtime.supply_observer import SUPPLIES
from beamwright.settings import Settings
from tests.live import Clock, Cluster

ADMINISTRATOR = Call(
    caller=Caller(principal_id=wellknown.ADMINISTRATOR, kind="human"),
    surface_id=wellknown.HTTP_SURFACE,
    conduit_id=wellknown.CLIENTS_CONDUIT,
    correlation_id="test",
)
QUICK = Timings(
    lease=2.0,
    renew=0.2,
    poll=0.1,
    heartbeat=0.1,
    first_retry=0.02,
    longest_retry=0.2,
    first_reconnect=0.05,
    longest_reconnect=0.2,
)
# Nobody has the time for last words: what a process leaves behind that is killed.
KILLED = replace(QUICK, farewell=0.0)
RING = StatusSource(
    source_kind="bench",
    source_id="ring",
    unavailable_below=2,
    recovering_above=10,
    degraded_below=90,
    unit=Unit(system=UnitSystem.UCUM, code="mA", label="mA"),
)


class Bench:
    """A control system in memory; what is down answers nothing and ends what listens to it."""

    def __init__(self, **values: Any) -> None:
        self.values: dict[str, Measurement] = {}
        self.listeners: dict[str, list[asyncio.Queue[Measurement | Exception | None]]] = {}
        self.subscriptions = Counter[str]()
        self.reads = Counter[str]()
        self.deaf = False
        for address, value in values.items():
            self.set(address, value)

    def set(
        self, address: str, value: Any, at: datetime | None = None, quality: Quality = Quality.GOOD
    ) -> None:
        measurement = Measurement(value=value, quality=quality, produced_at=at or datetime.now(UTC))
        self.values[address] = measurement
        self.send(address, measurement)

    def send(self, address: str, item: Measurement | Exception | None) -> None:
        for queue in self.listeners.get(address, []):
            queue.put_nowait(item)

    def lose(self, address: str) -> Measurement:
        last = self.values.pop(address)
        self.send(address, ControlNotConnectedError(address, "gone"))
        return last

    async def read(self, address: str) -> Measurement:
        self.reads[address] += 1
        if self.deaf:
            await asyncio.Event().wait()
        if address not in self.values:
            raise ControlNotConnectedError(address, "gone")
        return self.values[address]

    async def write(self, address: str, value: Any, *, wait: bool = True, within: float = 30.0) -> None:
        raise AssertionError("an observer writes nothing")

    async def subscribe(self, address: str) -> AsyncIterator[Measurement]:
        queue: asyncio.Queue[Measurement | Exception | None] = asyncio.Queue()
        self.listeners.setdefault(address, []).append(queue)
        self.subscriptions[address] += 1
        try:
            if address not in self.values:
                raise ControlNotConnectedError(address, "nothing answers")
            queue.put_nowait(self.values[address])
            while (item := await queue.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.listeners[address].remove(queue)

    async def aclose(self) -> None: ...

    def port(self, kind: str) -> ControlPort:
        if kind != "bench":
            raise NoAdapterForAddressError(kind, "no such adapter")
        return self


@asynccontextmanager
async def opened(cluster: Cluster, dsn: str, clock: Clock | None = None) -> AsyncGenerator[App]:
    """A process of the service without observers of its own."""
    settings = Settings(data=cluster.data, enclosure_observer=False, supply_observer=False)
    app = await App.open(settings, dsn, clock or Clock())
    app.start_workers()
    try:
        yield app
    finally:
        await app.close()


@asynccontextmanager
async def observing(
    app: App, ports: Callable[[str], ControlPort], watch: Watch = ENCLOSURES, timings: Timings = QUICK
) -> AsyncGenerator[Observer]:
    observer = Observer(app.service, app.leases, uuid4(), ports, watch, timings)
    task = asyncio.create_task(observer.run())
    try:
        yield observer
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(holds: Callable[[], Awaitable[bool]], within: float = 30.0) -> None:
    deadline = time.monotonic() + within
    while not await holds():
        assert time.monotonic() < deadline, "it did not come about in time"
        await asyncio.sleep(0.01)


async def call(app: App, operation: str, /, **fields: Any) -> Any:
    request: Any = app.service.registry.operations[operation].request
    return (await app.service.call(request(**fields), ADMINISTRATOR)).body


async def enclosure(app: App, address: str, kind: str = "bench") -> UUID:
    source = PermitSource(source_kind=kind, source_id=address)
    fields = {"name": uuid4().hex, "facility_code": "home", "permit_source": source}
    return (await call(app, "register_enclosure", **fields)).enclosure_id


async def supply(app: App, source: StatusSource) -> UUID:
    """An available one."""
    fields = {"kind": "photon_beam", "name": uuid4().hex, "facility_code": "home", "status_source": source}
    id: UUID = (await call(app, "register_supply", **fields)).supply_id
    await call(app, "mark_supply_available", supply_id=id, reason="seen")
    return id


async def view(app: App, id: UUID, name: str = "enclosure") -> Any:
    return await call(app, f"get_{name}", **{f"{name}_id": id})


async def history(app: App, id: UUID, name: str = "enclosure") -> list[Any]:
    return (await call(app, f"get_{name}_history", **{f"{name}_id": id}, limit=200)).items


async def listed(app: App, id: UUID) -> None:
    async def holds() -> bool:
        return id in {each.id for each in (await call(app, "list_enclosures")).items}

    await until(holds)


async def permits(app: App, id: UUID) -> list[tuple[str, str]]:
    """What was recorded of the permit: each status with its reason."""
    events = [event.payload for event in await history(app, id) if "to_status" in event.payload]
    return [(event["to_status"], event["reason"]) for event in events]


async def becomes(app: App, id: UUID, status: str, name: str = "enclosure") -> Any:
    """The view, once its status is `status`."""
    field = "permit_status" if name == "enclosure" else "status"

    async def holds() -> bool:
        return getattr(await view(app, id, name), field) == status

    await until(holds)
    return await view(app, id, name)


async def erred(app: App, id: UUID, error: str, name: str = "enclosure") -> Any:
    """The contact, once its last error begins with `error`."""

    async def holds() -> bool:
        return ((await view(app, id, name)).contact.last_error or "").startswith(error)

    await until(holds)
    return (await view(app, id, name)).contact


def run(check: Coroutine[Any, Any, None]) -> None:
    asyncio.run(check)


def test_a_lost_source_is_unknown_until_it_is_heard_again(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        bench = Bench(x=1, y=1)
        async with opened(cluster, dsn) as app, observing(app, bench.port) as observer:
            x, y = await enclosure(app, "x"), await enclosure(app, "y")
            await becomes(app, x, "Permitted")
            await becomes(app, y, "Permitted")
            last = bench.lose("x")
            await becomes(app, x, "Unknown")
            contact = await erred(app, x, "contact lost: ControlNotConnectedError")
            assert (contact.connected, contact.fresh, contact.last_observed_at) == (False, False, None)
            bench.set("x", last.value, at=last.produced_at)
            assert (await becomes(app, x, "Permitted")).contact.fresh
            assert [status for status, _ in await permits(app, x)] == ["Permitted", "Unknown", "Permitted"]
            assert await permits(app, y) == [("Permitted", "source reported 1")]
            assert bench.subscriptions["y"] == 1 and observer.counted["lost"] >= 1

    run(check())


def test_the_observer_reports_as_the_monitor_account(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        async with opened(cluster, dsn) as app, observing(app, Bench(x=1).port) as observer:
            x = await enclosure(app, "x")
            await becomes(app, x, "Permitted")
            last = (await history(app, x))[-1]
            assert (last.principal_name, last.command_name) == ("Monitor", "observe_enclosure_status")
            assert last.payload["trigger"] == "Monitor"
            assert f'accepted_total{{observer="{observer.name}"}}' in "\n".join(metrics([observer]))

    run(check())


def test_nothing_stored_is_trusted_across_a_restart(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        bench = Bench(x=1)
        async with opened(cluster, dsn) as app:
            async with observing(app, bench.port, timings=KILLED):
                x = await enclosure(app, "x")
                await becomes(app, x, "Permitted")
            before = len(await permits(app, x))
            assert (await view(app, x)).permit_status == "Permitted"
            async with observing(app, bench.port):

                async def heard() -> bool:
                    return len(await permits(app, x)) == before + 2

                await until(heard)
            restarted = (await permits(app, x))[before : before + 2]
            assert restarted == [("Unknown", "observer started"), ("Permitted", "source reported 1")]

    run(check())


def test_an_observer_that_stops_leaves_unknown_and_frees_its_lease(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        bench = Bench(x=1, y=0)
        async with opened(cluster, dsn) as app:
            async with observing(app, bench.port):
                x, y = await enclosure(app, "x"), await enclosure(app, "y")
                await becomes(app, x, "Permitted")
                await becomes(app, y, "NotPermitted")
            for id in (x, y):
                assert (await permits(app, id))[-1] == ("Unknown", "observer stopped")
                contact = (await view(app, id)).contact
                assert (contact.connected, contact.last_error) == (False, "observer stopped")
            assert await app.leases.take("enclosure-observer", uuid4(), 1)

    run(check())


def test_a_permit_that_nobody_confirms_is_not_fresh(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        clock = Clock()
        async with opened(cluster, dsn, clock) as app:
            async with observing(app, Bench(x=1).port, timings=KILLED):
                x = await enclosure(app, "x")
                await becomes(app, x, "Permitted")
            assert (await view(app, x)).contact.fresh
            clock.ahead = timedelta(seconds=61)
            left = await view(app, x)
            assert (left.permit_status, left.contact.fresh) == ("Permitted", False)

    run(check())


def test_heartbeats_keep_an_unchanged_source_fresh(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        clock, bench = Clock(), Bench(x=1)
        async with opened(cluster, dsn, clock) as app, observing(app, bench.port):
            x = await enclosure(app, "x")
            await becomes(app, x, "Permitted")
            clock.ahead = timedelta(seconds=61)

            async def fresh() -> bool:
                return (await view(app, x)).contact.fresh

            await until(fresh)
            assert len(await permits(app, x)) == 1 and bench.subscriptions["x"] == 1

    run(check())


def test_a_second_observer_takes_over_when_the_first_is_killed(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        first, second = Bench(x=1), Bench(x=1)
        async with opened(cluster, dsn) as app:
            killed = observing(app, first.port, timings=KILLED)
            await killed.__aenter__()
            x = await enclosure(app, "x")
            await becomes(app, x, "Permitted")
            async with observing(app, second.port):
                await asyncio.sleep(3 * QUICK.renew)
                assert not second.subscriptions
                await killed.__aexit__(None, None, None)

                async def taken_over() -> bool:
                    return second.subscriptions["x"] == 1

                await until(taken_over)
                await becomes(app, x, "Permitted")
                assert [reason for _, reason in await permits(app, x)][1:] == [
                    "observer started",
                    "source reported 1",
                ]

    run(check())


def test_an_observer_without_its_lease_stops_at_once_and_says_nothing(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        bench, long = Bench(x=1), replace(QUICK, lease=60.0)
        async with opened(cluster, dsn) as app, observing(app, bench.port, timings=long):
            x = await enclosure(app, "x")
            await becomes(app, x, "Permitted")
            await app.database.execute(
                "UPDATE leases SET holder = $1, expires_at = clock_timestamp() + interval '1 minute' "
                "WHERE name = 'enclosure-observer'",
                uuid4(),
            )

            async def silent() -> bool:
                return not bench.listeners["x"]

            await until(silent, within=10)
            bench.set("x", 0)
            reads = bench.reads["x"]
            await asyncio.sleep(3 * QUICK.heartbeat)
            assert bench.reads["x"] == reads
            assert await permits(app, x) == [("Permitted", "source reported 1")]

    run(check())


def test_an_observer_whose_renewal_nobody_answers_stops_when_its_lease_runs_out(
    cluster: Cluster, dsn: str
) -> None:
    class Mute:
        """Leases that fall silent after the first."""

        def __init__(self, leases: Leases) -> None:
            self.leases = leases
            self.asked = 0

        async def take(self, name: str, holder: UUID, seconds: float) -> bool:
            self.asked += 1
            if self.asked > 1:
                await asyncio.Event().wait()
            return await self.leases.take(name, holder, seconds)

        async def release(self, name: str, holder: UUID) -> None:
            raise AssertionError("it is not ours any more")

    async def check() -> None:
        bench = Bench(x=1)
        async with opened(cluster, dsn) as app:
            x = await enclosure(app, "x")
            pace = replace(QUICK, lease=4.0)
            observer = Observer(app.service, Mute(app.leases), uuid4(), bench.port, ENCLOSURES, pace)
            task = asyncio.create_task(observer.run())
            await becomes(app, x, "Permitted")

            async def silent() -> bool:
                return not bench.listeners["x"]

            await until(silent, within=10)
            assert await permits(app, x) == [("Permitted", "source reported 1")]
            task.cancel()

    run(check())


def test_nothing_is_recorded_without_the_lease(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        async with opened(cluster, dsn) as app:
            x = await enclosure(app, "x")
            observer = Observer(app.service, app.leases, uuid4(), Bench().port, ENCLOSURES, QUICK)
            link = Link(x, (await view(app, x)).permit_source, QUICK)
            await observer.record(link, Measurement(value=1, produced_at=app.clock()))
            assert not await permits(app, x) and not observer.counted

    run(check())


def test_a_source_of_unknown_kind_is_unknown(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        async with opened(cluster, dsn) as app, observing(app, Bench(y=1).port):
            x, y = await enclosure(app, "x", "semaphore"), await enclosure(app, "y")
            await becomes(app, y, "Permitted")
            contact = await erred(app, x, "contact lost: NoAdapterForAddressError")
            assert not contact.connected and (await view(app, x)).permit_status == "Unknown"

    run(check())


@pytest.mark.parametrize(
    ("value", "quality", "recorded"),
    [
        (True, Quality.GOOD, ("Permitted", "source reported True")),
        (0, Quality.GOOD, ("NotPermitted", "source reported 0")),
        (7, Quality.GOOD, ("Unknown", "source reported 7")),
        ("1", Quality.GOOD, ("Unknown", "source reported 1")),
        (1, Quality.UNCERTAIN, ("Unknown", "quality Uncertain")),
        (1, Quality.BAD, ("Unknown", "quality Bad")),
    ],
)
def test_only_a_good_reading_of_one_of_both_values_says_something(
    cluster: Cluster, dsn: str, value: Any, quality: Quality, recorded: tuple[str, str]
) -> None:
    before = 0 if recorded[0] == "Permitted" else 1

    async def check() -> None:
        bench = Bench(x=before)
        async with opened(cluster, dsn) as app, observing(app, bench.port):
            x = await enclosure(app, "x")
            await becomes(app, x, "Permitted" if before else "NotPermitted")
            bench.set("x", value, quality=quality)
            await becomes(app, x, recorded[0])
            assert (await permits(app, x))[-1] == recorded

    run(check())


def test_a_source_without_a_clock_gets_the_time_of_the_service(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        bench = Bench()
        bench.set("x", 1, at=datetime(1990, 1, 1, tzinfo=UTC))
        async with opened(cluster, dsn) as app, observing(app, bench.port):
            x = await enclosure(app, "x")
            seen = await becomes(app, x, "Permitted")
            assert app.clock() - seen.observed_at < timedelta(minutes=1)

    run(check())


def test_a_refused_observation_ends_the_contact_and_the_next_is_believed(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        bench = Bench(x=1)
        async with opened(cluster, dsn) as app, observing(app, bench.port) as observer:
            x = await enclosure(app, "x")
            await becomes(app, x, "Permitted")
            bench.set("x", 0, at=datetime.now(UTC) + timedelta(hours=1))
            contact = await erred(app, x, "InvalidEnclosureObservedAtError")
            assert not contact.connected and not contact.fresh and observer.counted["refused"] >= 1
            bench.set("x", 0)
            assert (await becomes(app, x, "NotPermitted")).contact.fresh

    run(check())


@pytest.mark.parametrize("failing", ["ended", "deaf", "odd"])
def test_whatever_ends_a_source_is_contact_lost(cluster: Cluster, dsn: str, failing: str) -> None:
    reasons = {
        "ended": "contact lost: ControlNotConnectedError",
        "deaf": "contact lost: ControlTimeoutError",
        "odd": "contact lost: ZeroDivisionError",
    }

    async def check() -> None:
        bench, alone = Bench(x=1), replace(QUICK, poll=60.0)
        async with opened(cluster, dsn) as app:
            x = await enclosure(app, "x")
            await listed(app, x)
            async with observing(app, bench.port, timings=alone):
                await becomes(app, x, "Permitted")
                match failing:
                    case "ended":
                        bench.send("x", None)
                    case "deaf":
                        bench.deaf = True
                    case _:
                        bench.send("x", ZeroDivisionError())

                async def recorded() -> bool:
                    return ("Unknown", reasons[failing]) in await permits(app, x)

                await until(recorded)
                bench.deaf = False
                await becomes(app, x, "Permitted")

    run(check())


def test_registration_another_source_and_decommissioning_are_noticed(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        bench = Bench(x=1, y=0)
        async with opened(cluster, dsn) as app, observing(app, bench.port):
            id = await enclosure(app, "x")
            await becomes(app, id, "Permitted")
            other = PermitSource(source_kind="bench", source_id="y")
            fields = {"enclosure_id": id, "permit_source": other, "reason": "rewired"}
            await call(app, "assign_enclosure_permit_source", **fields)
            await becomes(app, id, "NotPermitted")

            async def left(address: str) -> bool:
                return not bench.listeners[address]

            await until(lambda: left("x"))
            await call(app, "decommission_enclosure", enclosure_id=id, reason="torn down")
            await until(lambda: left("y"))
            assert [status for status, _ in await permits(app, id)] == ["Permitted", "NotPermitted"]

    run(check())


def test_the_newest_observation_survives_a_store_outage() -> None:
    async def check(embedded: EmbeddedPostgres, directory: Path) -> None:
        bench, patient = Bench(x=1), replace(QUICK, lease=60.0)
        settings = Settings(data=directory, enclosure_observer=False, supply_observer=False)
        app = await App.open(settings, await asyncio.to_thread(embedded.start))
        app.start_workers()
        async with observing(app, bench.port, timings=patient):
            x = await enclosure(app, "x")
            await becomes(app, x, "Permitted")
            await asyncio.to_thread(embedded.stop)
            bench.set("x", 7)
            bench.set("x", 0)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(embedded.start)
            seen = await recovered(app, x, "NotPermitted")
            assert seen.observed_at == bench.values["x"].produced_at
            assert bench.subscriptions["x"] == 1
        await app.close()

    async def recovered(app: App, id: UUID, status: str) -> Any:
        async def holds() -> bool:
            try:
                return (await view(app, id)).permit_status == status
            except Exception:
                return False

        await until(holds, within=30)
        return await view(app, id)

    with tempfile.TemporaryDirectory(prefix="beamwright-outage-", ignore_cleanup_errors=True) as directory:
        embedded = EmbeddedPostgres(Path(directory))
        run(check(embedded, Path(directory)))
        embedded.stop()


def test_stopping_is_quick_while_the_database_is_away() -> None:
    async def check(embedded: EmbeddedPostgres, directory: Path) -> None:
        settings = Settings(data=directory, enclosure_observer=False, supply_observer=False)
        app = await App.open(settings, await asyncio.to_thread(embedded.start))
        app.start_workers()
        async with observing(app, Bench(x=1).port, timings=replace(QUICK, lease=60.0)):
            await becomes(app, await enclosure(app, "x"), "Permitted")
            await asyncio.to_thread(embedded.stop)
            began = time.monotonic()
        assert time.monotonic() - began < 30.0, "it waited for its lease to run out"
        await asyncio.to_thread(embedded.start)
        await app.close()

    with tempfile.TemporaryDirectory(prefix="beamwright-outage-", ignore_cleanup_errors=True) as directory:
        embedded = EmbeddedPostgres(Path(directory))
        run(check(embedded, Path(directory)))
        embedded.stop()


def test_a_ring_current_degrades_takes_away_and_announces_but_never_restores(
    cluster: Cluster, dsn: str
) -> None:
    async def check() -> None:
        bench, statuses = Bench(ring=100.0), list[str]()
        async with opened(cluster, dsn) as app:
            ring = await supply(app, RING)
            async with observing(app, bench.port, SUPPLIES):
                for value in (100.0, 80.0, 1.0, 5.0, 95.0):
                    bench.set("ring", value)
                    await heard(app, ring, bench.values["ring"])
                    statuses.append((await view(app, ring, "supply")).status)
                await call(app, "restore_supply", supply_id=ring, reason="beam is back")
                await heard(app, ring, bench.values["ring"])
            assert statuses == ["Available", "Degraded", "Unavailable", "Unavailable", "Recovering"]
            events = [event.event_type for event in await history(app, ring, "supply")]
            assert events[2:] == [
                "SupplyDegraded",
                "SupplyMarkedUnavailable",
                "SupplyMarkedRecovering",
                "SupplyRestored",
            ]

    async def heard(app: App, id: UUID, measurement: Measurement) -> None:
        """Accepted, and confirmed by a heartbeat after that."""
        asked = app.clock()

        async def holds() -> bool:
            contact = (await view(app, id, "supply")).contact
            at = contact.last_observed_at
            return at == measurement.produced_at and contact.last_contact_at > asked

        await until(holds)

    run(check())


def test_silence_changes_no_supply_and_ends_its_freshness(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        bench = Bench(ring=100.0)
        async with opened(cluster, dsn) as app:
            ring = await supply(app, RING)

            async def fresh() -> bool:
                return (await view(app, ring, "supply")).contact.fresh

            async with observing(app, bench.port, SUPPLIES):
                await until(fresh)
                last = bench.lose("ring")
                contact = await erred(app, ring, "contact lost: ControlNotConnectedError", "supply")
                assert not contact.fresh
                bench.set("ring", last.value, at=last.produced_at)
                await until(fresh)
                bench.set("ring", 100.0, quality=Quality.BAD)
                assert not (await erred(app, ring, "quality Bad", "supply")).fresh
                bench.set("ring", 100.0)
                await until(fresh)
            assert (await erred(app, ring, "observer stopped", "supply")).connected is False
            assert len(await history(app, ring, "supply")) == 2

    run(check())


def test_a_reading_is_judged_by_the_status_that_an_operator_gave_meanwhile(
    cluster: Cluster, dsn: str
) -> None:
    async def check() -> None:
        bench, moved = Bench(ring=95.0), list[UUID]()

        def restored_meanwhile(supply: Any, observation: Observation) -> Report:
            """Between the reading of the supply and the report on it, another process restores it."""
            if isinstance(observation, Measurement) and not moved:
                moved.append(supply.id)
                other = threading.Thread(target=run, args=(restore(supply.id),))
                other.start()
                other.join()
            return SUPPLIES.report(supply, observation)

        async def restore(id: UUID) -> None:
            async with opened(cluster, dsn) as app:
                await call(app, "restore_supply", supply_id=id, reason="fine")

        async with opened(cluster, dsn) as app:
            ring = await supply(app, RING)
            await call(app, "degrade_supply", supply_id=ring, reason="flickers")
            watch = replace(SUPPLIES, report=restored_meanwhile)
            async with observing(app, bench.port, watch, replace(QUICK, lease=60.0)) as observer:

                async def heard() -> bool:
                    return (await view(app, ring, "supply")).contact.fresh

                await until(heard)
                assert observer.counted["refused"] == 0
            assert [event.event_type for event in await history(app, ring, "supply")][2:] == [
                "SupplyDegraded",
                "SupplyRestored",
            ]

    run(check())


def test_a_reading_that_cannot_be_understood_is_none(cluster: Cluster, dsn: str) -> None:
    def confused(enclosure: Any, observation: Observation) -> Report:
        if isinstance(observation, Measurement) and observation.value == 7:
            raise ZeroDivisionError
        return ENCLOSURES.report(enclosure, observation)

    async def check() -> None:
        bench = Bench(x=1)
        async with (
            opened(cluster, dsn) as app,
            observing(app, bench.port, replace(ENCLOSURES, report=confused)),
        ):
            x = await enclosure(app, "x")
            await becomes(app, x, "Permitted")
            bench.set("x", 7)
            await becomes(app, x, "Unknown")
            assert (await permits(app, x))[-1] == ("Unknown", "contact lost: ZeroDivisionError")

    run(check())


def test_a_source_whose_task_died_is_watched_anew(cluster: Cluster, dsn: str) -> None:
    async def check() -> None:
        died = list[Observation]()

        def deadly(enclosure: Any, observation: Observation) -> Report:
            if enclosure.permit_status == "Permitted" and not died:
                died.append(observation)
                raise asyncio.CancelledError
            return ENCLOSURES.report(enclosure, observation)

        watch = replace(ENCLOSURES, report=deadly)
        async with opened(cluster, dsn) as app, observing(app, Bench(x=1).port, watch):
            x = await enclosure(app, "x")

            async def again() -> bool:
                return len(await permits(app, x)) == 3

            await until(again)
            assert (await permits(app, x))[1:] == [
                ("Unknown", "observer started"),
                ("Permitted", "source reported 1"),
            ]

    run(check())


def test_a_delivery_overtaken_by_a_reading_is_not_told() -> None:
    async def check() -> None:
        told, bench = list[Measurement](), Bench(x=1)
        session = Session(lambda: bench, "x", QUICK, Clock(), told.append)
        listening = asyncio.create_task(session.listen())
        while not bench.reads["x"]:
            await asyncio.sleep(0)
        older = replace(bench.values["x"], produced_at=datetime.now(UTC))
        bench.values["x"] = Measurement(value=0, produced_at=datetime.now(UTC))
        while told[-1].value == 1:
            await asyncio.sleep(0)
        bench.send("x", older)
        bench.send("x", bench.values["x"])
        before = len(told)
        while len(told) == before:
            await asyncio.sleep(0)
        assert all(each.value == 0 for each in told[before:])
        listening.cancel()
        await session.close()

    run(check())


def test_a_reading_overtaken_by_a_delivery_is_not_told() -> None:
    async def check() -> None:
        told, late, reading = list[Measurement](), asyncio.Event(), asyncio.Event()

        class Slow(Bench):
            async def read(self, address: str) -> Measurement:
                before = self.values[address]
                reading.set()
                await late.wait()
                return before

        bench = Slow(x=1)
        session = Session(lambda: bench, "x", QUICK, Clock(), told.append)
        listening = asyncio.create_task(session.listen())
        await reading.wait()
        bench.set("x", 0)
        while len(told) < 2:
            await asyncio.sleep(0)
        late.set()
        await asyncio.sleep(QUICK.heartbeat / 2)
        assert [each.value for each in told] == [1, 0]
        listening.cancel()
        await session.close()

    run(check())


def test_what_cannot_be_recorded_waits_until_something_newer_replaces_it() -> None:
    async def check() -> None:
        away, recorded = True, list[Observation]()

        async def record(observation: Observation) -> None:
            if away:
                raise OSError("the store is away")
            recorded.append(observation)

        reporter = Reporter(record, QUICK)
        task = asyncio.create_task(reporter.run())
        for number in range(3):
            reporter.offer(Silence(reason=str(number)))
            await asyncio.sleep(QUICK.first_retry)
        away = False
        await reporter.settled()
        assert recorded == [Silence(reason="2")]
        for number in range(3, 6):
            reporter.offer(Silence(reason=str(number)))
        await reporter.settled()
        assert recorded[1:] == [Silence(reason=str(number)) for number in range(3, 6)]
        task.cancel()

    run(check())
