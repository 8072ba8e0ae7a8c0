"""Times that cannot be told in UTC are found wherever they are in a request, and no others."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from beamwright.kernel.times import beyond_utc
from beamwright.kernel.value import Time, Value

EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))
LAST = datetime(9999, 12, 31, 23, 59, 59)
FIRST = datetime(1, 1, 1)


class Inner(Value):
    at: Time | None = None
    name: str = ""


class Request(Value):
    at: Time
    inner: Inner | None = None
    several: tuple[Inner, ...] = ()
    named: dict[str, Inner] = {}
    again: "Request | None" = None


FINE = Request(at=LAST.replace(tzinfo=UTC))
STRANGE = Inner(at=LAST.replace(tzinfo=WEST))


@pytest.mark.parametrize(
    "at", [LAST.replace(tzinfo=UTC), FIRST.replace(tzinfo=UTC), LAST.replace(tzinfo=EAST)]
)
def test_what_utc_can_tell_is_no_fault(at: datetime) -> None:
    assert list(beyond_utc(Request(at=at, inner=Inner(at=at)))) == []


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        (Request(at=FIRST.replace(tzinfo=EAST)), "$.at"),
        (Request(at=FINE.at, inner=STRANGE), "$.inner.at"),
        (Request(at=FINE.at, several=(Inner(), STRANGE)), "$.several[1].at"),
        (Request(at=FINE.at, named={"one": STRANGE}), "$.named.one.at"),
        (Request(at=FINE.at, again=Request(at=FINE.at, inner=STRANGE)), "$.again.inner.at"),
    ],
)
def test_what_utc_cannot_tell_is_named_by_its_place(request_: Request, path: str) -> None:
    assert list(beyond_utc(request_)) == [path]
