"""The control seam: how the service reads and moves what an experiment's control system exposes."""

from collections.abc import AsyncIterator
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from .value import Value

type ControlValue = bool | int | float | str | list[Any]


class MeasurementKind(StrEnum):
    SCALAR = "Scalar"
    ARRAY = "Array"
    IMAGE = "Image"
    CATEGORICAL = "Categorical"
    TABULAR = "Tabular"


class Quality(StrEnum):
    """How far a reading can be trusted, as its source says."""

    GOOD = "Good"
    UNCERTAIN = "Uncertain"
    BAD = "Bad"


class Measurement(Value):
    """One reading; `produced_at` is the source's own time."""

    value: ControlValue
    kind: MeasurementKind = MeasurementKind.SCALAR
    # The number behind a label, where the source has both.
    index: int | None = None
    quality: Quality = Quality.GOOD
    quality_detail: str | None = None
    produced_at: datetime | None = None
    name: str | None = None
    unit: str | None = None


class ControlError(Exception):
    """The control system did not do what it was asked; every adapter raises one of the classes below."""

    def __init__(self, address: str, detail: str = "") -> None:
        super().__init__(f"{address}: {detail}" if detail else address)
        self.address = address
        self.detail = detail


class ControlNotConnectedError(ControlError):
    """Nothing answers at this address, or contact was lost."""


class ControlTimeoutError(ControlError):
    """No answer in time."""


class ControlWriteRejectedError(ControlError):
    """The device refused the value."""


class ControlWritesDisabledError(ControlError):
    """This route may only be read."""


class ControlValueCoercionError(ControlError):
    """The value does not fit the type of the address."""


class ControlAccessDeniedError(ControlError):
    """The control system lets this client not do that."""


class MalformedControlAddressError(ControlError):
    """The address is not written as its kind asks."""


class NoAdapterForAddressError(ControlError):
    """No adapter serves this kind of address here."""


class ControlPort(Protocol):
    """One kind of control system. Addresses are written as that system writes them, without a scheme."""

    async def read(self, address: str) -> Measurement: ...

    async def write(
        self, address: str, value: ControlValue, *, wait: bool = True, within: float = 30.0
    ) -> None:
        """Set a value; with `wait`, until the device says that it is done, at most `within` seconds."""
        ...

    def subscribe(self, address: str) -> AsyncIterator[Measurement]:
        """The reading now, then every change; closing it unsubscribes, a lost contact raises through it."""
        ...

    async def aclose(self) -> None: ...
