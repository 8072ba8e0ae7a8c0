"""What a reading of a permit source says of the permit."""

from typing import Any

import pytest

from beamwright.contexts.enclosure.enclosure import PermitSource, PermitStatus
from beamwright.contexts.enclosure.observing import observed
from beamwright.kernel.control import Measurement, Quality

NUMBER = PermitSource(source_kind="channel_access", source_id="PSS:A")
TEXT = PermitSource(
    source_kind="tango", source_id="a/b/c", permitted_value="SEARCHED", not_permitted_value="OPEN"
)
INVERTED = PermitSource(source_kind="push", source_id="a", permitted_value=0, not_permitted_value=1)


@pytest.mark.parametrize(
    ("source", "value", "status"),
    [
        (NUMBER, 1, PermitStatus.PERMITTED),
        (NUMBER, 1.0, PermitStatus.PERMITTED),
        (NUMBER, True, PermitStatus.PERMITTED),
        (NUMBER, 0, PermitStatus.NOT_PERMITTED),
        (NUMBER, 0.0, PermitStatus.NOT_PERMITTED),
        (NUMBER, False, PermitStatus.NOT_PERMITTED),
        (NUMBER, 2, PermitStatus.UNKNOWN),
        (NUMBER, 0.5, PermitStatus.UNKNOWN),
        (NUMBER, float("nan"), PermitStatus.UNKNOWN),
        (NUMBER, "1", PermitStatus.UNKNOWN),
        (NUMBER, [1], PermitStatus.UNKNOWN),
        (INVERTED, False, PermitStatus.PERMITTED),
        (INVERTED, 1, PermitStatus.NOT_PERMITTED),
        (TEXT, "SEARCHED", PermitStatus.PERMITTED),
        (TEXT, "OPEN", PermitStatus.NOT_PERMITTED),
        (TEXT, "searched", PermitStatus.UNKNOWN),
        (TEXT, "SEARCHED ", PermitStatus.UNKNOWN),
        (TEXT, 1, PermitStatus.UNKNOWN),
        (TEXT, "", PermitStatus.UNKNOWN),
    ],
)
def test_a_good_reading_is_compared_exactly(source: PermitSource, value: Any, status: PermitStatus) -> None:
    assert observed(source, Measurement(value=value))[0] is status


@pytest.mark.parametrize("quality", [Quality.UNCERTAIN, Quality.BAD])
def test_a_reading_of_other_quality_means_unknown(quality: Quality) -> None:
    got = observed(NUMBER, Measurement(value=1, quality=quality))
    assert got == (PermitStatus.UNKNOWN, f"quality {quality}")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (1, "source reported 1"),
        ("OPEN", "source reported OPEN"),
        ("a\x00b", "source reported a?b"),
        ("x" * 1000, f"source reported {'x' * 200}"),
        ([1] * 1000, "source reported an array"),
    ],
)
def test_the_reason_tells_the_value_as_a_reason_may_carry_it(value: Any, reason: str) -> None:
    assert observed(NUMBER, Measurement(value=value))[1] == reason
