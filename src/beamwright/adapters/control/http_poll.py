"""Readings polled over HTTP: an address is a URL, and a JSON pointer in its fragment says which value.

    http://plc.example/status#/vacuum/0/pressure

The body is JSON, or else it is the value itself, as text. The value pointed at is a boolean, a number, a text, a
list, or an object {value, quality?, quality_detail?, produced_at?, unit?}; `quality` is Good, Uncertain or Bad, and
`produced_at` a time in RFC 3339. An answer without a quality is Good.

Loopback and private hosts are allowed, since that is where control systems live. So whoever may register an
address makes this service ask any host that it can reach, and sees one value of the answer: grant that to
administrators alone, and keep hosts that trust their network out of reach. Redirects are never followed, proxies
from the environment never used, and an address carries no password, since addresses are stored and shown.
"""

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Annotated, Any, cast
from urllib.parse import unquote, urlsplit

import httpx
import msgspec
from msgspec import Meta

from beamwright.kernel.control import (
    ControlAccessDeniedError,
    ControlNotConnectedError,
    ControlTimeoutError,
    ControlValue,
    ControlValueCoercionError,
    ControlWritesDisabledError,
    MalformedControlAddressError,
    Measurement,
    MeasurementKind,
    Quality,
)
from beamwright.kernel.value import Value

LONGEST_BODY = 64 * 1024


class _Reading(Value):
    value: Any
    quality: Quality = Quality.GOOD
    quality_detail: str | None = None
    produced_at: Annotated[datetime, Meta(tz=True)] | None = None
    unit: str | None = None


class HttpPoll:
    """Reads with GET, and looks for changes every so many seconds."""

    def __init__(self, every: float = 1.0, timeout: float = 5.0) -> None:
        self._every = every
        self._timeout = timeout
        self._client = httpx.AsyncClient(
            follow_redirects=False,
            trust_env=False,
            timeout=timeout,
            headers={"accept": "application/json, text/plain", "accept-encoding": "identity"},
        )

    async def read(self, address: str) -> Measurement:
        url, pointer = _parts(address)
        body = await self._body(address, url)
        return _measured(address, _pointed(address, _document(address, body, pointer), pointer))

    async def write(
        self, address: str, value: ControlValue, *, wait: bool = True, within: float = 30.0
    ) -> None:
        raise ControlWritesDisabledError(address, "an address of kind http can only be read")

    async def subscribe(self, address: str) -> AsyncGenerator[Measurement, None]:
        """Changes of value and quality; a later time of the same value is none."""
        last = await self.read(address)
        yield last
        while True:
            await asyncio.sleep(self._every)
            now = await self.read(address)
            if _differ(last, now):
                yield now
            last = now

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _body(self, address: str, url: str) -> bytes:
        try:
            # The client's own time-out is for each packet: a body that trickles would never end.
            async with asyncio.timeout(self._timeout), self._client.stream("GET", url) as response:
                _check_status(address, response)
                return await _bounded(address, response)
        except (TimeoutError, httpx.TimeoutException):
            raise ControlTimeoutError(address, f"no answer within {self._timeout:g} s") from None
        # A closed client says so with a RuntimeError.
        except (httpx.HTTPError, httpx.InvalidURL, RuntimeError) as error:
            raise ControlNotConnectedError(address, f"{type(error).__name__}: {error}") from error


def _parts(address: str) -> tuple[str, list[str]]:
    """The URL and the steps of the JSON pointer (RFC 6901)."""
    try:
        split = urlsplit(address)
        known = split.scheme in ("http", "https") and split.hostname and (split.port or True)
    except ValueError as error:
        raise MalformedControlAddressError(address, str(error)) from error
    if not known or any(letter.isspace() for letter in address):
        raise MalformedControlAddressError(address, "write an http or https URL with a host")
    if split.username is not None or split.password is not None:
        hidden = split._replace(netloc=split.netloc.rpartition("@")[2]).geturl()
        raise MalformedControlAddressError(hidden, "leave name and password out of the address")
    pointer = unquote(split.fragment)
    if pointer and not pointer.startswith("/"):
        raise MalformedControlAddressError(address, "what follows # is a JSON pointer and begins with /")
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    return split._replace(fragment="").geturl(), steps


def _check_status(address: str, response: httpx.Response) -> None:
    if response.status_code in (401, 403):
        raise ControlAccessDeniedError(address, f"answered {response.status_code}")
    if response.is_redirect:
        raise ControlNotConnectedError(address, "redirects; write the address where the value is")
    if response.status_code != 200:
        raise ControlNotConnectedError(address, f"answered {response.status_code}")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ControlValueCoercionError(address, "the answer is compressed although that was not asked for")


async def _bounded(address: str, response: httpx.Response) -> bytes:
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > LONGEST_BODY:
            raise ControlValueCoercionError(address, f"the answer is longer than {LONGEST_BODY} bytes")
    return bytes(body)


def _document(address: str, body: bytes, pointer: list[str]) -> Any:
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        if pointer:
            raise ControlValueCoercionError(address, f"the answer is no JSON: {error}") from error
    try:
        return body.decode().strip()
    except UnicodeDecodeError:
        raise ControlValueCoercionError(address, "the answer is neither JSON nor text") from None


def _pointed(address: str, document: Any, pointer: list[str]) -> Any:
    found = document
    for step in pointer:
        match found:
            case dict():
                found = cast(dict[str, Any], found).get(step)
            case list() if step.isascii() and step.isdigit() and int(step) < len(cast(list[Any], found)):
                found = cast(list[Any], found)[int(step)]
            case _:
                found = None
        if found is None:
            raise ControlNotConnectedError(address, f"the answer has nothing at {step!r}")
    return found


def _measured(address: str, found: Any) -> Measurement:
    try:
        reading = msgspec.convert(found, _Reading) if isinstance(found, dict) else _Reading(value=found)
    except msgspec.ValidationError as error:
        raise ControlValueCoercionError(address, f"the answer is no reading: {error}") from error
    value, array = reading.value, isinstance(reading.value, list)
    if not array and not isinstance(value, bool | int | float | str):
        raise ControlValueCoercionError(address, "the value is a boolean, a number, a text or a list")
    return Measurement(
        value=value,
        kind=MeasurementKind.ARRAY if array else MeasurementKind.SCALAR,
        quality=reading.quality,
        quality_detail=reading.quality_detail,
        produced_at=reading.produced_at,
        name=address,
        unit=reading.unit,
    )


def _differ(last: Measurement, now: Measurement) -> bool:
    # 1 and true are equal to Python, and are not to a reader.
    seen, sees = (
        (type(one.value), one.value, one.quality, one.quality_detail, one.unit) for one in (last, now)
    )
    return seen != sees
