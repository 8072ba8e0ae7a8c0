"""The observers on real Channel Access servers, which are killed and restarted under them."""

import asyncio
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from beamwright.adapters.control.channel_access import ChannelAccess
from beamwright.app import App
from beamwright.contexts.supply.supply import StatusSource
from beamwright.kernel.control import ControlPort
from beamwright.kernel.units import Unit, UnitSystem
from beamwright.kernel.value import replace
from beamwright.runtime.enclosure_observer import ENCLOSURES
from beamwright.runtime.observer import Observer
from beamwright.runtime.supply_observer import SUPPLIES
from beamwright.settings import Settings
from tests.ioc import Ioc
from tests.live import Clock, Cluster
from tests.runtime.test_observer import (
    QUICK,
    becomes,
    enclosure,
    erred,
    observing,
    opened,
    permits,
    run,
    supply,
    until,
    view,
)

KIND = "channel_access"
PACE = replace(QUICK, heartbeat=1.0)
X, Y = "BW:x:permit", "BW:y:permit"


def channel(value: int) -> dict[str, Any]:
    return {"type": "long", "value": value}


class Control:
    """The one adapter of these tests, searching at both servers."""

    def __init__(self, *servers: Ioc) -> None:
        self.adapter = ChannelAccess(" ".join(server.addresses for server in servers), timeout=1.0)

    def port(self, kind: str) -> ControlPort:
        assert kind == KIND
        return self.adapter


def test_a_killed_server_is_unknown_until_it_is_back_and_leaves_others_alone(
    cluster: Cluster, dsn: str
) -> None:
    async def check(first: Ioc, second: Ioc) -> None:
        control = Control(first, second)
        async with opened(cluster, dsn) as app:
            async with observing(app, control.port, timings=PACE):
                x, y = await enclosure(app, X, KIND), await enclosure(app, Y, KIND)
                await becomes(app, x, "Permitted")
                await becomes(app, y, "Permitted")
                await asyncio.to_thread(first.kill)
                await becomes(app, x, "Unknown")
                contact = await erred(app, x, "contact lost: ")
                assert (contact.connected, contact.fresh) == (False, False)
                await asyncio.to_thread(first.start)
                assert (await becomes(app, x, "Permitted")).contact.fresh
                assert [status for status, _ in await permits(app, x)] == [
                    "Permitted",
                    "Unknown",
                    "Permitted",
                ]
                assert (await permits(app, x))[1][1].startswith("contact lost: Control")
                assert await permits(app, y) == [("Permitted", "source reported 1")]
                assert await asyncio.to_thread(second.subscribers, Y) == 1
                await asyncio.to_thread(second.put, Y, 0)
                await becomes(app, y, "NotPermitted")
            await control.adapter.aclose()

    with Ioc({X: channel(1)}) as first, Ioc({Y: channel(1)}) as second:
        run(check(first, second))


def test_a_server_that_hangs_with_open_sockets_is_contact_lost(cluster: Cluster, dsn: str) -> None:
    async def check(ioc: Ioc) -> None:
        control = Control(ioc)
        async with opened(cluster, dsn) as app:
            async with observing(app, control.port, timings=PACE):
                x = await enclosure(app, X, KIND)
                await becomes(app, x, "Permitted")
                ioc.pause()
                await becomes(app, x, "Unknown")
                ioc.resume()
                await becomes(app, x, "Permitted")
            await control.adapter.aclose()

    with Ioc({X: channel(1)}) as ioc:
        run(check(ioc))


def test_values_and_alarms_of_a_channel_decide_the_permit(cluster: Cluster, dsn: str) -> None:
    async def check(ioc: Ioc) -> None:
        control = Control(ioc)
        async with opened(cluster, dsn) as app:
            async with observing(app, control.port, timings=PACE):
                x = await enclosure(app, X, KIND)
                await becomes(app, x, "Permitted")
                for value, about in ((7, {}), (1, {}), (1, {"severity": 1}), (1, {"severity": 0}), (0, {})):
                    before = len(await permits(app, x))
                    await asyncio.to_thread(ioc.put, X, value, **about)

                    async def recorded(count: int = before) -> bool:
                        return len(await permits(app, x)) > count

                    await until(recorded)
                assert (await permits(app, x))[1:] == [
                    ("Unknown", "source reported 7"),
                    ("Permitted", "source reported 1"),
                    ("Unknown", "quality Uncertain"),
                    ("Permitted", "source reported 1"),
                    ("NotPermitted", "source reported 0"),
                ]
            await control.adapter.aclose()

    with Ioc({X: channel(1)}) as ioc:
        run(check(ioc))


def test_a_killed_observer_leaves_a_permit_that_grows_stale_until_another_takes_over(
    cluster: Cluster, dsn: str
) -> None:
    async def check(ioc: Ioc) -> None:
        clock, control = Clock(), Control(ioc)
        async with opened(cluster, dsn, clock) as app:
            x = await enclosure(app, X, KIND)
            process = observer_process(dsn, ioc, cluster.data)
            try:
                await becomes(app, x, "Permitted")
            finally:
                process.send_signal(signal.SIGKILL)
                await asyncio.to_thread(process.wait)
            before = len(await permits(app, x))
            assert (await view(app, x)).contact.fresh
            clock.ahead = timedelta(seconds=61)
            left = await view(app, x)
            assert (left.permit_status, left.contact.fresh) == ("Permitted", False)
            async with observing(app, control.port, timings=PACE):

                async def taken_over() -> bool:
                    return len(await permits(app, x)) > before

                await until(taken_over)
                assert (await permits(app, x))[before] == ("Unknown", "observer started")
                assert (await becomes(app, x, "Permitted")).contact.fresh
            await control.adapter.aclose()

    with Ioc({X: channel(1)}) as ioc:
        run(check(ioc))


def test_a_ring_current_channel_moves_the_supply_as_the_table_says(cluster: Cluster, dsn: str) -> None:
    ring = StatusSource(
        source_kind=KIND,
        source_id="BW:ring",
        unavailable_below=2,
        recovering_above=10,
        degraded_below=90,
        unit=Unit(system=UnitSystem.UCUM, code="mA", label="mA"),
    )

    async def check(ioc: Ioc) -> None:
        control, statuses = Control(ioc), list[str]()
        async with opened(cluster, dsn) as app:
            id = await supply(app, ring)
            async with observing(app, control.port, SUPPLIES, PACE):
                for value in (100.0, 80.0, 1.0, 5.0, 95.0):
                    asked = app.clock()
                    await asyncio.to_thread(ioc.put, "BW:ring", value)

                    async def heard(since: Any = asked) -> bool:
                        at = (await view(app, id, "supply")).contact.last_observed_at
                        return at is not None and at >= since

                    await until(heard)
                    statuses.append((await view(app, id, "supply")).status)
            assert statuses == ["Available", "Degraded", "Unavailable", "Unavailable", "Recovering"]
            await control.adapter.aclose()

    with Ioc({"BW:ring": {"type": "double", "value": 100.0, "unit": "mA"}}) as ioc:
        run(check(ioc))


def observer_process(dsn: str, ioc: Ioc, data: Path) -> subprocess.Popen[bytes]:
    """An observer in a process of its own, which can be killed."""
    command = [sys.executable, "-m", "tests.runtime.test_observer_ioc", dsn, ioc.addresses, str(data)]
    return subprocess.Popen(command)


async def _observe(dsn: str, addresses: str, data: str) -> None:
    settings = Settings(data=Path(data), enclosure_observer=False, supply_observer=False)
    app = await App.open(settings, dsn)
    control = ChannelAccess(addresses, timeout=1.0)
    await Observer(app.service, app.leases, app.holder, lambda _: control, ENCLOSURES, PACE).run()


if __name__ == "__main__":
    asyncio.run(_observe(*sys.argv[1:]))
