"""Channel Access against a real server: values, changes, refusals, and what happens when the server dies."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
import uvloop

from beamwright.adapters.control import channel_access
from beamwright.adapters.control.channel_access import ChannelAccess
from beamwright.kernel.control import (
    ControlAccessDeniedError,
    ControlError,
    ControlNotConnectedError,
    ControlTimeoutError,
    ControlValue,
    ControlValueCoercionError,
    ControlWriteRejectedError,
    MalformedControlAddressError,
    Measurement,
    MeasurementKind,
    Quality,
)
from tests.ioc import Ioc

AT = datetime(2024, 2, 29, 12, 30, 15, 250000, tzinfo=UTC)
# What must answer has long, on a busy machine too; what cannot answer is given up after a moment.
PATIENT = 30.0
BRIEF = 0.3
# Well below every time-out of the protocol itself, and of the patient adapter.
SOON = 10.0

CHANNELS: dict[str, dict[str, Any]] = {
    "T:float": {"type": "double", "value": 1.5, "unit": "mm", "at": AT.timestamp()},
    "T:integer": {"type": "long", "value": -3},
    "T:text": {"type": "string", "value": "ready"},
    "T:enum": {"type": "enum", "value": "Closed", "labels": ["Open", "Closed", ""]},
    "T:array": {"type": "double", "value": [1.0, 2.0], "length": 5},
    "T:bytes": {"type": "char", "value": [104, 105], "length": 20},
    "T:changing": {"type": "double", "value": 0.0},
    "T:alarming": {"type": "double", "value": 0.0},
    "T:float:set": {"type": "double", "value": 0.0},
    "T:single:set": {"type": "float", "value": 0.0},
    "T:integer:set": {"type": "long", "value": 0},
    "T:short:set": {"type": "short", "value": 0},
    "T:text:set": {"type": "string", "value": ""},
    "T:enum:set": {"type": "enum", "value": "Open", "labels": ["Open", "Closed"]},
    "T:array:set": {"type": "long", "value": [0], "length": 3},
    "T:bytes:set": {"type": "char", "value": [1, 2], "length": 20},
    "T:limited": {"type": "double", "value": 0.0, "limits": [-10, 10]},
    "T:readonly": {"type": "double", "value": 0.0, "read_only": True},
    "T:slow": {"type": "double", "value": 0.0, "slow": True},
}
ONE = {"T:one": {"type": "long", "value": 1, "at": AT.timestamp()}}

type Scenario = Callable[[ChannelAccess], Awaitable[Any]]
# The event loop of the tests elsewhere, and the one that the service runs on.
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.fixture(scope="module")
def ioc() -> Iterator[Ioc]:
    with Ioc(CHANNELS) as ioc:
        yield ioc


@pytest.fixture
def own() -> Iterator[Ioc]:
    """A server of this test's own, to be killed."""
    with Ioc(ONE) as ioc:
        yield ioc


def play(ioc: Ioc, scenario: Scenario, loop: Callable[[], Any] = LOOPS[0], timeout: float = PATIENT) -> Any:
    """Run the scenario, and see that the adapter leaves no task, no socket and no delay behind."""

    async def run() -> Any:
        before = open_sockets()
        control = ChannelAccess(ioc.addresses, timeout)
        try:
            return await scenario(control)
        finally:
            began = time.monotonic()
            await control.aclose()
            assert time.monotonic() - began < SOON
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert open_sockets() == before

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(run())


def open_sockets() -> int:
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return found


async def idle() -> None:
    """Wait until nothing runs but the test."""
    async with asyncio.timeout(SOON):
        while asyncio.all_tasks() != {asyncio.current_task()}:
            await asyncio.sleep(0.01)


def reading(ioc: Ioc, address: str) -> Measurement:
    return play(ioc, lambda control: control.read(address))


def refusal(ioc: Ioc, scenario: Scenario, timeout: float = PATIENT) -> tuple[type[ControlError], float]:
    """The class of the error, and the seconds until it came."""

    async def run(control: ChannelAccess) -> tuple[type[ControlError], float]:
        began = time.monotonic()
        with pytest.raises(ControlError) as caught:
            await scenario(control)
        return type(caught.value), time.monotonic() - began

    return play(ioc, run, timeout=timeout)


def test_a_float_is_read_with_its_unit_and_the_time_of_its_source(ioc: Ioc) -> None:
    assert reading(ioc, "T:float") == Measurement(value=1.5, unit="mm", produced_at=AT, name="T:float")


@pytest.mark.parametrize(
    ("address", "value", "kind"),
    [
        ("T:integer", -3, MeasurementKind.SCALAR),
        ("T:text", "ready", MeasurementKind.SCALAR),
        ("T:text.$", "ready", MeasurementKind.SCALAR),
        ("T:enum", "Closed", MeasurementKind.CATEGORICAL),
        ("T:array", [1.0, 2.0], MeasurementKind.ARRAY),
        ("T:bytes", [104, 105], MeasurementKind.ARRAY),
    ],
)
def test_each_type_is_read_as_its_kind_of_value(
    ioc: Ioc, address: str, value: Any, kind: MeasurementKind
) -> None:
    measurement = reading(ioc, address)
    assert (measurement.value, type(measurement.value), measurement.kind) == (value, type(value), kind)


def test_the_search_goes_where_the_environment_says(ioc: Ioc, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ioc.environment.items():
        monkeypatch.setenv(name, value)

    async def run() -> Measurement:
        control = ChannelAccess()
        try:
            return await control.read("T:integer")
        finally:
            await control.aclose()

    assert asyncio.run(run()).value == -3


def test_a_subscription_sees_the_value_now_and_each_change(ioc: Ioc) -> None:
    async def scenario(control: ChannelAccess) -> list[ControlValue]:
        ioc.put("T:changing", 1.0)
        async with aclosing(control.subscribe("T:changing")) as changes:
            first = await anext(changes)
            ioc.put("T:changing", 2.0)
            ioc.put("T:changing", 3.0)
            return [first.value, (await anext(changes)).value, (await anext(changes)).value]

    assert play(ioc, scenario) == [1.0, 2.0, 3.0]


def test_two_subscriptions_of_one_address_each_see_every_change(ioc: Ioc) -> None:
    async def scenario(control: ChannelAccess) -> list[ControlValue]:
        ioc.put("T:changing", 1.0)
        async with (
            aclosing(control.subscribe("T:changing")) as one,
            aclosing(control.subscribe("T:changing")) as other,
        ):
            firsts = [await anext(one), await anext(other)]
            ioc.put("T:changing", 2.0)
            return [each.value for each in [*firsts, await anext(one), await anext(other)]]

    assert play(ioc, scenario) == [1.0, 1.0, 2.0, 2.0]


def test_a_change_carries_the_time_of_its_source(ioc: Ioc) -> None:
    async def scenario(control: ChannelAccess) -> Measurement:
        async with aclosing(control.subscribe("T:changing")) as changes:
            await anext(changes)
            ioc.put("T:changing", 7.0, timestamp=AT.timestamp())
            return await anext(changes)

    assert play(ioc, scenario).produced_at == AT


@pytest.mark.parametrize(
    ("severity", "quality", "detail"),
    [
        (0, Quality.GOOD, None),
        (1, Quality.UNCERTAIN, "MINOR_ALARM HIGH"),
        (2, Quality.BAD, "MAJOR_ALARM HIGH"),
        (3, Quality.BAD, "INVALID_ALARM HIGH"),
    ],
)
def test_the_severity_of_an_alarm_is_the_quality(
    ioc: Ioc, severity: int, quality: Quality, detail: str | None
) -> None:
    ioc.put("T:alarming", 1.0, severity=severity, status=4 if severity else 0)
    measurement = reading(ioc, "T:alarming")
    assert (measurement.quality, measurement.quality_detail) == (quality, detail)


def test_an_alarm_alone_is_a_change(ioc: Ioc) -> None:
    async def scenario(control: ChannelAccess) -> Measurement:
        ioc.put("T:alarming", 1.0, severity=0, status=0)
        async with aclosing(control.subscribe("T:alarming")) as changes:
            await anext(changes)
            ioc.put("T:alarming", 1.0, severity=3, status=17)
            return await anext(changes)

    assert play(ioc, scenario).quality is Quality.BAD


def test_closing_a_subscription_unsubscribes_at_the_server(ioc: Ioc) -> None:
    async def scenario(control: ChannelAccess) -> int:
        async with aclosing(control.subscribe("T:integer")) as changes:
            await anext(changes)
            held = ioc.subscribers("T:integer")
        # The farewell goes ahead of this read on the same circuit.
        await control.read("T:integer")
        assert ioc.subscribers("T:integer") == 0
        return held

    assert play(ioc, scenario) == 1


@pytest.mark.parametrize(
    ("address", "value", "shown"),
    [
        ("T:float:set", 2.5, 2.5),
        ("T:float:set", 2, 2.0),
        ("T:float:set", True, 1.0),
        ("T:single:set", 0.5, 0.5),
        ("T:integer:set", 2**31 - 1, 2**31 - 1),
        ("T:integer:set", 4.0, 4),
        ("T:short:set", -7, -7),
        ("T:text:set", "moving", "moving"),
        ("T:enum:set", "Closed", "Closed"),
        ("T:enum:set", 0, "Open"),
        ("T:enum:set", True, "Closed"),
        ("T:array:set", [1, 2, 3], [1, 2, 3]),
        ("T:array:set", 9, [9]),
        ("T:bytes:set", [127, 1], [127, 1]),
        ("T:bytes:set", "hi", [104, 105]),
    ],
)
def test_a_written_value_is_read_back(ioc: Ioc, address: str, value: ControlValue, shown: Any) -> None:
    async def scenario(control: ChannelAccess) -> ControlValue:
        await control.write(address, value)
        return (await control.read(address)).value

    assert play(ioc, scenario) == shown


@pytest.mark.parametrize(
    ("address", "value"),
    [
        ("T:float:set", "2.5"),
        ("T:float:set", [1.0, 2.0]),
        ("T:float:set", float("nan")),
        ("T:float:set", 10**400),
        ("T:single:set", 1e39),
        ("T:integer:set", 1.5),
        ("T:integer:set", 2**31),
        ("T:integer:set", float("inf")),
        ("T:short:set", 2**15),
        ("T:text:set", 1),
        ("T:text:set", "x" * 40),
        ("T:enum:set", "Ajar"),
        ("T:enum:set", 2),
        ("T:array:set", [1, 2, 3, 4]),
        ("T:array:set", []),
        ("T:bytes:set", [256]),
    ],
)
def test_a_value_that_does_not_fit_is_not_sent(ioc: Ioc, address: str, value: ControlValue) -> None:
    error, _ = refusal(ioc, lambda control: control.write(address, value))
    assert error is ControlValueCoercionError


def test_a_value_that_the_server_refuses_is_rejected_with_its_reason(ioc: Ioc) -> None:
    async def scenario(control: ChannelAccess) -> str:
        with pytest.raises(ControlWriteRejectedError) as caught:
            await control.write("T:limited", 11.0)
        return caught.value.detail

    assert "Limits are set to -10 and 10" in play(ioc, scenario)


def test_writing_where_only_reading_is_granted_is_denied(ioc: Ioc) -> None:
    error, _ = refusal(ioc, lambda control: control.write("T:readonly", 1.0))
    assert error is ControlAccessDeniedError


def test_a_write_waits_for_completion_no_longer_than_it_was_told(ioc: Ioc) -> None:
    error, seconds = refusal(ioc, lambda control: control.write("T:slow", 1.0, within=3))
    assert error is ControlTimeoutError
    assert seconds < SOON


def test_a_write_that_shall_not_wait_ends_before_the_device_is_done(ioc: Ioc) -> None:
    assert play(ioc, lambda control: control.write("T:slow", 1.0, wait=False)) is None


def test_an_unknown_channel_is_given_up_in_time(ioc: Ioc) -> None:
    error, seconds = refusal(ioc, lambda control: control.read("T:unknown"), BRIEF)
    assert error is ControlNotConnectedError
    assert BRIEF <= seconds < SOON


def test_a_subscription_of_an_unknown_channel_is_given_up_in_time(ioc: Ioc) -> None:
    error, seconds = refusal(ioc, lambda control: anext(control.subscribe("T:unknown")), BRIEF)
    assert error is ControlNotConnectedError
    assert BRIEF <= seconds < SOON


def test_a_write_to_an_unknown_channel_is_given_up_in_its_own_time(ioc: Ioc) -> None:
    error, seconds = refusal(ioc, lambda control: control.write("T:unknown", 1, within=0.2))
    assert error is ControlNotConnectedError
    assert seconds < SOON


@pytest.mark.parametrize("address", ["", "T:a b", "T:\n", "T:µ", "T" * 501])
def test_an_address_that_is_no_channel_name_is_malformed(ioc: Ioc, address: str) -> None:
    error, _ = refusal(ioc, lambda control: control.read(address))
    assert error is MalformedControlAddressError


def test_nothing_is_searched_for_when_nobody_wants_it_any_more(ioc: Ioc) -> None:
    async def scenario(control: ChannelAccess) -> None:
        with pytest.raises(ControlNotConnectedError):
            await control.write("T:unknown", 1, within=0.1)
        await idle()

    play(ioc, scenario)


def test_a_connection_that_nobody_uses_is_ended_after_a_while(
    ioc: Ioc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_access, "LINGER", 0.01)

    async def scenario(control: ChannelAccess) -> ControlValue:
        await control.read("T:integer")
        await idle()
        return (await control.read("T:integer")).value

    assert play(ioc, scenario) == -3


def test_many_channels_are_read_at_once(ioc: Ioc) -> None:
    async def scenario(control: ChannelAccess) -> int:
        readings = await asyncio.gather(*(control.read(address) for address in CHANNELS))
        return len(readings)

    assert play(ioc, scenario) == len(CHANNELS)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_killed_server_ends_the_subscription_promptly(own: Ioc, loop: Callable[[], Any]) -> None:
    async def scenario(control: ChannelAccess) -> float:
        async with aclosing(control.subscribe("T:one")) as changes:
            await anext(changes)
            began = time.monotonic()
            own.kill()
            with pytest.raises(ControlNotConnectedError):
                await anext(changes)
            return time.monotonic() - began

    assert play(own, scenario, loop) < SOON


@pytest.mark.parametrize("loop", LOOPS)
def test_after_a_restart_a_new_subscription_and_a_new_read_work(own: Ioc, loop: Callable[[], Any]) -> None:
    async def scenario(control: ChannelAccess) -> list[ControlValue]:
        async with aclosing(control.subscribe("T:one")) as changes:
            await anext(changes)
            own.kill()
            with pytest.raises(ControlNotConnectedError):
                await anext(changes)
        own.start()
        async with aclosing(control.subscribe("T:one")) as changes:
            first = await anext(changes)
            own.put("T:one", 2)
            return [first.value, (await anext(changes)).value, (await control.read("T:one")).value]

    assert play(own, scenario, loop) == [1, 2, 2]


def test_a_subscription_finds_a_server_that_starts_while_it_searches(own: Ioc) -> None:
    own.kill()

    async def scenario(control: ChannelAccess) -> ControlValue:
        changes = control.subscribe("T:one")
        async with aclosing(changes), asyncio.TaskGroup() as tasks:
            first = tasks.create_task(anext(changes))
            await asyncio.sleep(0)
            await asyncio.to_thread(own.start)
            return (await first).value

    assert play(own, scenario) == 1


def test_a_read_of_a_killed_server_is_given_up_in_time(own: Ioc) -> None:
    own.kill()
    error, seconds = refusal(own, lambda control: control.read("T:one"), BRIEF)
    assert error is ControlNotConnectedError
    assert seconds < SOON


def test_a_read_that_the_server_does_not_answer_is_given_up_in_time(own: Ioc) -> None:
    async def scenario(control: ChannelAccess) -> float:
        await control.read("T:one")
        own.pause()
        began = time.monotonic()
        with pytest.raises(ControlTimeoutError):
            await control.read("T:one")
        return time.monotonic() - began

    assert play(own, scenario, timeout=3) < SOON


def test_a_write_during_which_the_server_dies_says_so_at_once() -> None:
    with Ioc({"T:slow": CHANNELS["T:slow"]}) as own:

        async def scenario(control: ChannelAccess) -> float:
            await control.read("T:slow")
            writing = asyncio.ensure_future(control.write("T:slow", 1.0))
            await asyncio.sleep(0.1)
            began = time.monotonic()
            own.kill()
            with pytest.raises(ControlNotConnectedError):
                await writing
            return time.monotonic() - began

        assert play(own, scenario) < SOON


def test_a_lost_address_leaves_the_others_alone(ioc: Ioc, own: Ioc) -> None:
    async def scenario(_: ChannelAccess) -> ControlValue:
        control = ChannelAccess(f"{ioc.addresses} {own.addresses}", PATIENT)
        async with (
            aclosing(control.subscribe("T:one")) as lost,
            aclosing(control.subscribe("T:changing")) as kept,
        ):
            await anext(lost)
            await anext(kept)
            own.kill()
            with pytest.raises(ControlNotConnectedError):
                await anext(lost)
            ioc.put("T:changing", 42.0)
            value = (await anext(kept)).value
        await control.aclose()
        return value

    assert play(ioc, scenario) == 42.0


def test_closing_the_adapter_ends_its_subscriptions(ioc: Ioc) -> None:
    async def scenario(control: ChannelAccess) -> None:
        changes = control.subscribe("T:integer")
        await anext(changes)
        await control.aclose()
        with pytest.raises(ControlNotConnectedError):
            await anext(changes)
        with pytest.raises(ControlNotConnectedError):
            await control.read("T:integer")

    play(ioc, scenario)


def test_a_cancelled_subscriber_leaves_nothing_behind(ioc: Ioc) -> None:
    async def scenario(control: ChannelAccess) -> None:
        async def watch() -> None:
            async for _ in control.subscribe("T:integer"):
                pass

        watching = asyncio.ensure_future(watch())
        while ioc.subscribers("T:integer") == 0:
            await asyncio.sleep(0.01)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    play(ioc, scenario)


def test_the_event_loop_goes_on_while_channels_are_sought(ioc: Ioc) -> None:
    async def scenario(control: ChannelAccess) -> float:
        longest, before = 0.0, time.thread_time()
        seeking = asyncio.ensure_future(asyncio.gather(*(control.read(address) for address in CHANNELS)))
        while not seeking.done():
            await asyncio.sleep(0)
            longest, before = max(longest, time.thread_time() - before), time.thread_time()
        return longest

    assert play(ioc, scenario) < 0.2
