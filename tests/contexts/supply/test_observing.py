"""What a reading of a status source says, and what is reported after it."""

from typing import Any

import pytest

from beamwright.contexts.supply.observing import SupplyReading, reading, report
from beamwright.contexts.supply.supply import StatusSource, SupplyStatus
from beamwright.kernel.control import Quality
from beamwright.kernel.value import replace
from tests.contexts.supply.examples import SOURCE_X, SOURCE_Y

GOOD, LOW, BAD = SupplyReading

REPORTS = """
      Unknown      Available    Degraded     Unavailable  Recovering   Decommissioned
Good  -            -            -            Recovering   -            -
Low   Degraded     Degraded     -            Recovering   Degraded     -
Bad   Unavailable  Unavailable  Unavailable  -            Unavailable  -
"""
HEADER, *ROWS = [line.split() for line in REPORTS.strip().splitlines()]
CELLS = [(row[0], status, cell) for row in ROWS for status, cell in zip(HEADER, row[1:], strict=True)]


@pytest.mark.parametrize(("found", "status", "expected"), CELLS)
def test_what_is_reported_follows_from_reading_and_status(found: str, status: str, expected: str) -> None:
    got = report(SupplyReading(found), SupplyStatus(status))
    assert got == (status if expected == "-" else expected)


def test_a_ring_current_takes_the_supply_down_and_announces_its_return() -> None:
    status, statuses = SupplyStatus.AVAILABLE, list[SupplyStatus]()
    for current in (100, 80, 1, 5, 95):
        found = reading(SOURCE_X, current, Quality.GOOD, status)
        assert found is not None
        status = report(found, status)
        statuses.append(status)
    assert statuses == ["Available", "Degraded", "Unavailable", "Unavailable", "Recovering"]


NO_RECOVERY = replace(SOURCE_X, recovering_above=None)
ONLY_DEGRADED = replace(SOURCE_X, unavailable_below=None, recovering_above=None)


@pytest.mark.parametrize(
    ("source", "value", "status", "expected"),
    [
        (SOURCE_X, 1.9, SupplyStatus.AVAILABLE, BAD),
        (SOURCE_X, 2, SupplyStatus.AVAILABLE, LOW),
        (SOURCE_X, 9.9, SupplyStatus.UNAVAILABLE, BAD),
        (SOURCE_X, 9.9, SupplyStatus.RECOVERING, LOW),
        (SOURCE_X, 10, SupplyStatus.UNAVAILABLE, LOW),
        (SOURCE_X, 89.9, SupplyStatus.AVAILABLE, LOW),
        (SOURCE_X, 90, SupplyStatus.AVAILABLE, GOOD),
        (SOURCE_X, True, SupplyStatus.AVAILABLE, BAD),
        (SOURCE_X, float("inf"), SupplyStatus.AVAILABLE, GOOD),
        (NO_RECOVERY, 2, SupplyStatus.UNAVAILABLE, LOW),
        (NO_RECOVERY, 1.9, SupplyStatus.UNAVAILABLE, BAD),
        (ONLY_DEGRADED, -5, SupplyStatus.UNAVAILABLE, LOW),
        (SOURCE_Y, False, SupplyStatus.AVAILABLE, BAD),
        (SOURCE_Y, 0, SupplyStatus.AVAILABLE, BAD),
        (SOURCE_Y, 0.0, SupplyStatus.AVAILABLE, BAD),
        (SOURCE_Y, "", SupplyStatus.AVAILABLE, BAD),
        (SOURCE_Y, "0", SupplyStatus.AVAILABLE, GOOD),
        (SOURCE_Y, -1, SupplyStatus.AVAILABLE, GOOD),
        (SOURCE_Y, True, SupplyStatus.AVAILABLE, GOOD),
        (SOURCE_Y, [], SupplyStatus.AVAILABLE, GOOD),
    ],
)
def test_a_value_stands_to_its_thresholds(
    source: StatusSource, value: Any, status: SupplyStatus, expected: SupplyReading
) -> None:
    assert reading(source, value, Quality.GOOD, status) is expected


@pytest.mark.parametrize("quality", [Quality.UNCERTAIN, Quality.BAD])
def test_a_reading_of_other_quality_is_not_heard(quality: Quality) -> None:
    assert reading(SOURCE_X, 100, quality, SupplyStatus.AVAILABLE) is None


@pytest.mark.parametrize(
    ("source", "value"),
    [(SOURCE_X, float("nan")), (SOURCE_Y, float("nan")), (SOURCE_X, "100"), (SOURCE_X, [1])],
)
def test_what_cannot_be_compared_is_not_heard(source: StatusSource, value: Any) -> None:
    assert reading(source, value, Quality.GOOD, SupplyStatus.AVAILABLE) is None
