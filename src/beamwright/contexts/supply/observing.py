"""What a reading of a status source says of the supply, and which status to report after it."""

import math
from collections.abc import Mapping
from enum import StrEnum

from beamwright.kernel.control import ControlValue, Quality

from .supply import (
    AVAILABLE,
    DEGRADED,
    RECOVERING,
    UNAVAILABLE,
    UNKNOWN,
    StatusSource,
    SupplyStatus,
)


class SupplyReading(StrEnum):
    """How a source's value stands to its thresholds."""

    GOOD = "Good"
    LOW = "Low"
    BAD = "Bad"


# The present status is reported where nothing is written here: that appends nothing and renews contact.
REPORTS: Mapping[SupplyReading, Mapping[SupplyStatus, SupplyStatus]] = {
    SupplyReading.GOOD: {UNAVAILABLE: RECOVERING},
    SupplyReading.LOW: {
        UNKNOWN: DEGRADED,
        AVAILABLE: DEGRADED,
        UNAVAILABLE: RECOVERING,
        RECOVERING: DEGRADED,
    },
    SupplyReading.BAD: {
        UNKNOWN: UNAVAILABLE,
        AVAILABLE: UNAVAILABLE,
        DEGRADED: UNAVAILABLE,
        RECOVERING: UNAVAILABLE,
    },
}


def report(reading: SupplyReading, status: SupplyStatus) -> SupplyStatus:
    """The status to report of a supply that has `status`."""
    return REPORTS[reading].get(status, status)


def reading(
    source: StatusSource, value: ControlValue, quality: Quality, status: SupplyStatus
) -> SupplyReading | None:
    """What `value` says, or None where the source does not count as heard."""
    if quality is not Quality.GOOD or (isinstance(value, float) and math.isnan(value)):
        return None
    if not source.thresholds:
        return SupplyReading.BAD if value in (0, "") else SupplyReading.GOOD
    # Thresholds say nothing of text and arrays.
    return None if isinstance(value, str | list) else _measured(source, value, status)


def _measured(source: StatusSource, value: float, status: SupplyStatus) -> SupplyReading:
    """Once unavailable, a supply is Bad until it rises to `recovering_above`, so that it does not flutter."""
    if _below(value, source.unavailable_below):
        return SupplyReading.BAD
    if status is UNAVAILABLE and _below(value, source.recovering_above):
        return SupplyReading.BAD
    return SupplyReading.LOW if _below(value, source.degraded_below) else SupplyReading.GOOD


def _below(value: float, threshold: float | None) -> bool:
    return threshold is not None and value < threshold
