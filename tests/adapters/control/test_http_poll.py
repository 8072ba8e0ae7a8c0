"""HTTP polling against a real server on loopback: what is read, what is a change, and what is refused."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest

from beamwright.adapters.control.http_poll import LONGEST_BODY, HttpPoll
from beamwright.kernel.control import (
    ControlAccessDeniedError,
    ControlError,
    ControlNotConnectedError,
    ControlTimeoutError,
    ControlValueCoercionError,
    ControlWritesDisabledError,
    MalformedControlAddressError,
    Measurement,
    MeasurementKind,
    Quality,
)

AT = datetime(2024, 2, 29, 12, 30, 15, tzinfo=UTC)


class Device:
    """Answers every path with `body`; `requests` are the heads of what was asked."""

    def __init__(self) -> None:
        self.body: bytes = b"null"
        self.status = 200
        self.headers = ""
        self.mute = False
        self.trickles = False
        self.requests: list[str] = []
        self.url = ""

    def shows(self, value: Any) -> None:
        self.body = json.dumps(value).encode()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
            while self.mute:
                await asyncio.sleep(0.01)
            length = 10**6 if self.trickles else len(self.body)
            head = f"HTTP/1.1 {self.status} Said\r\nconnection: close\r\ncontent-length: {length}\r\n"
            writer.write(f"{head}{self.headers}\r\n".encode() + self.body)
            while self.trickles:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)
            await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


type Scenario = Callable[[Device, HttpPoll], Awaitable[Any]]


def play(scenario: Scenario, timeout: float = 30.0) -> Any:
    async def run() -> Any:
        device = Device()
        server = await asyncio.start_server(device.answer, "127.0.0.1", 0)
        device.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/status"
        control = HttpPoll(every=0.01, timeout=timeout)
        try:
            async with server:
                result = await scenario(device, control)
                device.mute = device.trickles = False
                return result
        finally:
            await control.aclose()

    return asyncio.run(run())


def reading(shown: Any, pointer: str = "") -> Measurement:
    async def scenario(device: Device, control: HttpPoll) -> Measurement:
        device.body = shown if isinstance(shown, bytes) else json.dumps(shown).encode()
        return await control.read(device.url + pointer)

    return play(scenario)


def refusal(prepare: Callable[[Device], Any], pointer: str = "", timeout: float = 30.0) -> type[ControlError]:
    async def scenario(device: Device, control: HttpPoll) -> type[ControlError]:
        prepare(device)
        with pytest.raises(ControlError) as caught:
            await control.read(device.url + pointer)
        return type(caught.value)

    return play(scenario, timeout)


@pytest.mark.parametrize(
    ("shown", "pointer", "value"),
    [
        (1, "", 1),
        (1.5, "", 1.5),
        (True, "", True),
        ("open", "", "open"),
        (b"open\n", "", "open"),
        ([1, 2], "", [1, 2]),
        ({"a": {"b": 3}}, "#/a/b", 3),
        ({"a": [5, {"b": 6}]}, "#/a/1/b", 6),
        ({"a/b": {"c~d": 7}}, "#/a~1b/c~0d", 7),
        ({"a b": 8}, "#/a%20b", 8),
        ({"": 9}, "#/", 9),
        ({"a": {"value": "shut"}}, "#/a", "shut"),
    ],
)
def test_the_value_is_what_the_pointer_points_at(shown: Any, pointer: str, value: Any) -> None:
    measurement = reading(shown, pointer)
    assert (measurement.value, type(measurement.value)) == (value, type(value))


def test_an_answer_without_a_quality_is_good_and_without_a_time() -> None:
    measurement = reading(1)
    assert (measurement.quality, measurement.produced_at) == (Quality.GOOD, None)


def test_a_list_is_an_array() -> None:
    assert reading([1, 2]).kind is MeasurementKind.ARRAY


def test_quality_time_and_unit_stand_beside_the_value() -> None:
    shown = {
        "value": 3,
        "quality": "Bad",
        "quality_detail": "old",
        "produced_at": AT.isoformat(),
        "unit": "mbar",
    }
    measurement = reading({"pressure": shown}, "#/pressure")
    assert measurement == Measurement(
        value=3,
        quality=Quality.BAD,
        quality_detail="old",
        produced_at=AT,
        name=measurement.name,
        unit="mbar",
    )


@pytest.mark.parametrize(
    "shown",
    [
        None,
        {},
        {"quality": "Good"},
        {"value": None},
        {"value": {"deep": 1}},
        {"value": 1, "quality": "Splendid"},
        {"value": 1, "produced_at": "2024-02-29T12:30:15"},
        {"value": 1, "produced_at": "yesterday"},
    ],
)
def test_what_is_no_reading_is_not_believed(shown: Any) -> None:
    assert refusal(lambda device: device.shows(shown)) is ControlValueCoercionError


@pytest.mark.parametrize("pointer", ["#/b", "#/a/x", "#/a/2", "#/a/-1", "#/a/0/b", "#/nothing"])
def test_a_pointer_to_nothing_has_no_contact(pointer: str) -> None:
    shown = {"a": [1, 2], "nothing": None}
    assert refusal(lambda device: device.shows(shown), pointer) is ControlNotConnectedError


def test_a_pointer_into_text_is_refused() -> None:
    assert refusal(lambda device: setattr(device, "body", b"open"), "#/a") is ControlValueCoercionError


@pytest.mark.parametrize("body", [b"\xff\xfe", b"[" * LONGEST_BODY + b"\xff", b"1" * (LONGEST_BODY + 1)])
def test_a_body_that_is_binary_or_too_long_is_refused(body: bytes) -> None:
    assert (
        refusal(lambda device: setattr(device, "body", body[: LONGEST_BODY + 1])) is ControlValueCoercionError
    )


def test_a_body_as_long_as_allowed_is_read() -> None:
    assert reading(b"x" * LONGEST_BODY).value == "x" * LONGEST_BODY


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, ControlAccessDeniedError),
        (403, ControlAccessDeniedError),
        (404, ControlNotConnectedError),
        (204, ControlNotConnectedError),
        (500, ControlNotConnectedError),
    ],
)
def test_any_status_but_200_is_an_error(status: int, error: type[ControlError]) -> None:
    assert refusal(lambda device: setattr(device, "status", status)) is error


def test_redirects_are_not_followed() -> None:
    async def scenario(device: Device, control: HttpPoll) -> int:
        device.status, device.headers = 302, f"location: {device.url}/elsewhere\r\n"
        with pytest.raises(ControlNotConnectedError):
            await control.read(device.url)
        return len(device.requests)

    assert play(scenario) == 1


def test_a_compressed_answer_is_not_unpacked() -> None:
    gzip = "content-encoding: gzip\r\n"
    assert refusal(lambda device: setattr(device, "headers", gzip)) is ControlValueCoercionError


def test_a_silent_device_is_given_up_in_time() -> None:
    assert refusal(lambda device: setattr(device, "mute", True), timeout=0.2) is ControlTimeoutError


def test_a_device_that_trickles_is_given_up_in_time() -> None:
    assert refusal(lambda device: setattr(device, "trickles", True), timeout=0.2) is ControlTimeoutError


def test_a_closed_port_has_no_contact() -> None:
    async def scenario(device: Device, control: HttpPoll) -> None:
        with pytest.raises(ControlNotConnectedError):
            await control.read("http://127.0.0.1:1/status")

    play(scenario)


def test_the_pointer_is_not_sent() -> None:
    async def scenario(device: Device, control: HttpPoll) -> str:
        device.shows({"a": 1})
        await control.read(f"{device.url}?x=1#/a")
        return device.requests[0].splitlines()[0]

    assert play(scenario) == "GET /status?x=1 HTTP/1.1"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "plc/status",
        "ftp://plc/status",
        "http://",
        "http:///status",
        "http://plc:99999/",
        "http://[::1/",
        "http://plc/#a",
        "http://plc /",
    ],
)
def test_an_address_that_is_no_url_of_a_host_is_malformed(address: str) -> None:
    async def scenario(_: Device, control: HttpPoll) -> None:
        with pytest.raises(MalformedControlAddressError):
            await control.read(address)

    play(scenario)


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    async def scenario(_: Device, control: HttpPoll) -> str:
        with pytest.raises(MalformedControlAddressError) as caught:
            await control.read("http://me:s3cret@plc/status#/a")
        return str(caught.value)

    assert "s3cret" not in play(scenario)


def test_nothing_is_written() -> None:
    async def scenario(device: Device, control: HttpPoll) -> int:
        with pytest.raises(ControlWritesDisabledError):
            await control.write(device.url, 1)
        return len(device.requests)

    assert play(scenario) == 0


def test_a_subscription_yields_the_value_now_and_then_changes_only() -> None:
    async def scenario(device: Device, control: HttpPoll) -> list[Any]:
        device.shows(1)
        async with aclosing(control.subscribe(device.url)) as changes:
            seen = [await anext(changes)]
            for shown in (True, {"value": True, "quality": "Bad"}, 2):
                device.shows(shown)
                seen.append(await anext(changes))
            return [(each.value, each.quality) for each in seen]

    assert play(scenario) == [
        (1, Quality.GOOD),
        (True, Quality.GOOD),
        (True, Quality.BAD),
        (2, Quality.GOOD),
    ]


def test_a_later_time_of_the_same_value_is_no_change() -> None:
    async def scenario(device: Device, control: HttpPoll) -> Any:
        device.shows({"value": 1, "produced_at": "2024-01-01T00:00:00Z"})
        async with aclosing(control.subscribe(device.url)) as changes:
            await anext(changes)
            device.shows({"value": 1, "produced_at": "2024-01-02T00:00:00Z"})
            following = asyncio.ensure_future(anext(changes))
            while len(device.requests) < 4:
                await asyncio.sleep(0.01)
            device.shows({"value": 2, "produced_at": "2024-01-03T00:00:00Z"})
            return (await following).value

    assert play(scenario) == 2


def test_a_subscription_ends_with_the_error_of_a_failed_poll() -> None:
    async def scenario(device: Device, control: HttpPoll) -> None:
        device.shows(1)
        async with aclosing(control.subscribe(device.url)) as changes:
            await anext(changes)
            device.status = 500
            with pytest.raises(ControlNotConnectedError):
                await anext(changes)

    play(scenario)


def test_a_closed_adapter_has_no_contact() -> None:
    async def scenario(device: Device, control: HttpPoll) -> None:
        await control.aclose()
        with pytest.raises(ControlNotConnectedError):
            await control.read(device.url)

    play(scenario)
