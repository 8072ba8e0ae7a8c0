"""Devices in memory: what they hold, who hears of it, and how they fail when told to."""

import asyncio
import threading
from collections.abc import Awaitable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest

from beamwright.adapters.control.simulated import SimulatedControl
from beamwright.kernel.control import (
    ControlAccessDeniedError,
    ControlError,
    ControlNotConnectedError,
    ControlPort,
    ControlValue,
    ControlValueCoercionError,
    ControlWriteRejectedError,
    Measurement,
    MeasurementKind,
    Quality,
)

AT = datetime(2024, 2, 29, 12, tzinfo=UTC)


@pytest.fixture
def control() -> SimulatedControl:
    control = SimulatedControl()
    control.put("shutter", 1, produced_at=AT)
    return control


def result(work: Awaitable[Any]) -> Any:
    async def run() -> Any:
        return await work

    return asyncio.run(run())


def error(work: Awaitable[Any]) -> type[ControlError]:
    with pytest.raises(ControlError) as caught:
        result(work)
    return type(caught.value)


def test_it_is_a_control_port() -> None:
    port: ControlPort = SimulatedControl()
    assert port


def test_what_was_put_is_read(control: SimulatedControl) -> None:
    assert result(control.read("shutter")) == Measurement(value=1, produced_at=AT, name="shutter")


def test_quality_and_unit_are_as_they_were_put(control: SimulatedControl) -> None:
    control.put("current", [1.0], Quality.BAD, quality_detail="no beam", unit="mA")
    assert result(control.read("current")) == Measurement(
        value=[1.0],
        kind=MeasurementKind.ARRAY,
        quality=Quality.BAD,
        quality_detail="no beam",
        name="current",
        unit="mA",
    )


def test_where_nothing_was_put_nothing_answers(control: SimulatedControl) -> None:
    assert error(control.read("elsewhere")) is ControlNotConnectedError


def test_a_device_that_is_away_does_not_answer(control: SimulatedControl) -> None:
    control.disconnect("shutter")
    assert error(control.read("shutter")) is ControlNotConnectedError


def test_a_device_that_is_back_shows_what_was_put_meanwhile(control: SimulatedControl) -> None:
    control.disconnect("shutter")
    control.put("shutter", 0)
    control.connect("shutter")
    assert result(control.read("shutter")).value == 0


def test_a_written_value_is_shown_without_the_time_of_the_one_before(control: SimulatedControl) -> None:
    result(control.write("shutter", 0))
    shown = result(control.read("shutter"))
    assert (shown.value, shown.produced_at) == (0, None)


@pytest.mark.parametrize("refused", [ControlWriteRejectedError, ControlAccessDeniedError])
def test_a_refusing_device_keeps_its_value(control: SimulatedControl, refused: type[ControlError]) -> None:
    control.refuse("shutter", refused)
    assert error(control.write("shutter", 0)) is refused
    assert result(control.read("shutter")).value == 1


def test_a_device_that_accepts_again_takes_the_value(control: SimulatedControl) -> None:
    control.refuse("shutter")
    control.accept("shutter")
    result(control.write("shutter", 0))
    assert result(control.read("shutter")).value == 0


@pytest.mark.parametrize("value", ["closed", [0]])
def test_a_value_of_another_sort_does_not_fit(control: SimulatedControl, value: ControlValue) -> None:
    assert error(control.write("shutter", value)) is ControlValueCoercionError


def test_a_device_that_is_away_cannot_be_written(control: SimulatedControl) -> None:
    control.disconnect("shutter")
    assert error(control.write("shutter", 0)) is ControlNotConnectedError


def test_a_subscription_sees_the_value_now_and_everything_after(control: SimulatedControl) -> None:
    async def scenario() -> list[ControlValue]:
        async with aclosing(control.subscribe("shutter")) as changes:
            seen = [await anext(changes)]
            control.put("shutter", 0)
            await control.write("shutter", 3)
            return [each.value for each in [*seen, await anext(changes), await anext(changes)]]

    assert result(scenario()) == [1, 0, 3]


def test_a_disconnect_is_raised_through_the_subscription_after_what_came_before(
    control: SimulatedControl,
) -> None:
    async def scenario() -> ControlValue:
        async with aclosing(control.subscribe("shutter")) as changes:
            await anext(changes)
            control.put("shutter", 0)
            control.disconnect("shutter")
            last = await anext(changes)
            with pytest.raises(ControlNotConnectedError):
                await anext(changes)
            return last.value

    assert result(scenario()) == 0


def test_one_lost_device_leaves_the_others_alone(control: SimulatedControl) -> None:
    async def scenario() -> ControlValue:
        control.put("valve", 1)
        async with aclosing(control.subscribe("valve")) as changes:
            await anext(changes)
            control.disconnect("shutter")
            control.put("valve", 0)
            return (await anext(changes)).value

    assert result(scenario()) == 0


def test_nobody_subscribes_to_a_device_that_is_away(control: SimulatedControl) -> None:
    async def scenario() -> None:
        control.disconnect("shutter")
        with pytest.raises(ControlNotConnectedError):
            await anext(control.subscribe("shutter"))
        control.connect("shutter")
        async with aclosing(control.subscribe("shutter")) as changes:
            assert (await anext(changes)).value == 1

    result(scenario())


def test_closing_a_subscription_unsubscribes(control: SimulatedControl) -> None:
    async def scenario() -> list[int]:
        async with aclosing(control.subscribe("shutter")) as changes:
            await anext(changes)
            during = control.listeners("shutter")
        return [during, control.listeners("shutter")]

    assert result(scenario()) == [1, 0]


def test_closing_the_adapter_ends_its_subscriptions(control: SimulatedControl) -> None:
    async def scenario() -> None:
        async with aclosing(control.subscribe("shutter")) as changes:
            await anext(changes)
            await control.aclose()
            with pytest.raises(ControlNotConnectedError):
                await anext(changes)

    result(scenario())


def test_another_thread_may_put(control: SimulatedControl) -> None:
    async def scenario() -> ControlValue:
        async with aclosing(control.subscribe("shutter")) as changes:
            await anext(changes)
            threading.Thread(target=control.put, args=("shutter", 0)).start()
            return (await anext(changes)).value

    assert result(scenario()) == 0
