"""Devices in memory, for demonstrations and tests: they hold what they are told and move by themselves never."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

from beamwright.kernel.control import (
    ControlError,
    ControlNotConnectedError,
    ControlValue,
    ControlValueCoercionError,
    ControlWriteRejectedError,
    Measurement,
    MeasurementKind,
    Quality,
)
from beamwright.kernel.value import replace


class _Listener:
    """One subscription, in the event loop that it belongs to; None tells it that contact was lost."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._inbox: asyncio.Queue[Measurement | None] = asyncio.Queue()

    def tell(self, measurement: Measurement | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._inbox.put_nowait, measurement)

    async def next(self) -> Measurement | None:
        return await self._inbox.get()


class SimulatedControl:
    """Exists at the addresses that were put. May be changed from any thread while others read and listen."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._readings: dict[str, Measurement] = {}
        self._away: set[str] = set()
        self._refusals: dict[str, type[ControlError]] = {}
        self._listeners: dict[str, set[_Listener]] = {}

    def put(
        self,
        address: str,
        value: ControlValue,
        quality: Quality = Quality.GOOD,
        produced_at: datetime | None = None,
        *,
        quality_detail: str | None = None,
        unit: str | None = None,
        kind: MeasurementKind | None = None,
    ) -> None:
        """What the device shows from now on; a device that is away shows it when it is back."""
        shape = MeasurementKind.ARRAY if isinstance(value, list) else MeasurementKind.SCALAR
        measurement = Measurement(
            value=value,
            kind=kind or shape,
            quality=quality,
            quality_detail=quality_detail,
            produced_at=produced_at,
            name=address,
            unit=unit,
        )
        with self._lock:
            self._show(address, measurement)

    def disconnect(self, address: str) -> None:
        """Contact is lost: subscriptions end with an error, and reads fail until `connect`."""
        with self._lock:
            self._away.add(address)
            for listener in self._listeners.pop(address, set()):
                listener.tell(None)

    def connect(self, address: str) -> None:
        with self._lock:
            self._away.discard(address)

    def refuse(self, address: str, error: type[ControlError] = ControlWriteRejectedError) -> None:
        """Writes end with this error until `accept`."""
        with self._lock:
            self._refusals[address] = error

    def accept(self, address: str) -> None:
        with self._lock:
            self._refusals.pop(address, None)

    async def read(self, address: str) -> Measurement:
        with self._lock:
            return self._reading(address)

    async def write(
        self, address: str, value: ControlValue, *, wait: bool = True, within: float = 30.0
    ) -> None:
        with self._lock:
            reading = self._reading(address)
            refusal = self._refusals.get(address)
            if refusal is not None:
                raise refusal(address, "the device refuses this")
            if _sort(value) != _sort(reading.value):
                raise ControlValueCoercionError(address, f"{value!r} is no {_sort(reading.value)}")
            # The time of the value before would be wrong for this one.
            self._show(address, replace(reading, value=value, produced_at=None))

    async def subscribe(self, address: str) -> AsyncGenerator[Measurement, None]:
        listener = _Listener()
        with self._lock:
            reading = self._reading(address)
            self._listeners.setdefault(address, set()).add(listener)
        try:
            yield reading
            while (measurement := await listener.next()) is not None:
                yield measurement
            raise ControlNotConnectedError(address, "the device disconnected")
        finally:
            with self._lock:
                self._listeners.get(address, set()).discard(listener)

    def listeners(self, address: str) -> int:
        """How many subscriptions are open."""
        with self._lock:
            return len(self._listeners.get(address, ()))

    async def aclose(self) -> None:
        """End every subscription; the devices stay as they are."""
        with self._lock:
            for listeners in self._listeners.values():
                for listener in listeners:
                    listener.tell(None)
            self._listeners.clear()

    def _reading(self, address: str) -> Measurement:
        if address in self._away or address not in self._readings:
            raise ControlNotConnectedError(address, "no simulated device answers here")
        return self._readings[address]

    def _show(self, address: str, measurement: Measurement) -> None:
        self._readings[address] = measurement
        if address not in self._away:
            for listener in self._listeners.get(address, ()):
                listener.tell(measurement)


def _sort(value: Any) -> str:
    match value:
        case list():
            return "list"
        case str():
            return "text"
        case _:
            return "number"
