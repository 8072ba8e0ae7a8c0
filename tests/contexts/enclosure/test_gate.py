"""The enclosures of a start: which fail, and what is said of them."""

from datetime import timedelta
from uuid import UUID

import pytest

from beamwright.contexts.enclosure.enclosure import (
    Enclosure,
    EnclosureLifecycle,
    PermitStatus,
)
from beamwright.contexts.enclosure.gate import EnclosureFailure, advice, failing_enclosures
from beamwright.kernel.observing import Contact
from beamwright.kernel.value import replace
from tests.rules import NOW

LIMIT = timedelta(seconds=60)
A, B = UUID(int=10), UUID(int=11)
GOOD = Enclosure(
    id=A,
    name="A",
    facility_code="aps",
    permit_status=PermitStatus.PERMITTED,
    permit_since=NOW,
    permit_source=None,
)
HEARD = Contact(connected=True, last_contact_at=NOW - LIMIT)
STALE = Contact(connected=True, last_contact_at=NOW - LIMIT - timedelta(microseconds=1))
LOST = replace(HEARD, connected=False)


def failing(enclosure: Enclosure | None, contact: Contact | None) -> list[EnclosureFailure]:
    found = {A: enclosure} if enclosure else {}
    return failing_enclosures({A}, found, {A: contact} if contact else {}, NOW, LIMIT)


DECOMMISSIONED = replace(GOOD, lifecycle=EnclosureLifecycle.DECOMMISSIONED)
UNKNOWN = replace(GOOD, permit_status=PermitStatus.UNKNOWN)
NOT_PERMITTED = replace(GOOD, permit_status=PermitStatus.NOT_PERMITTED)


@pytest.mark.parametrize(
    ("enclosure", "contact", "passes"),
    [
        (GOOD, HEARD, True),
        (GOOD, STALE, False),
        (GOOD, LOST, False),
        (GOOD, None, False),
        (UNKNOWN, HEARD, False),
        (NOT_PERMITTED, HEARD, False),
        (DECOMMISSIONED, HEARD, False),
        (None, HEARD, False),
        (None, None, False),
    ],
)
def test_only_permitted_active_and_fresh_passes(
    enclosure: Enclosure | None, contact: Contact | None, *, passes: bool
) -> None:
    assert (failing(enclosure, contact) == []) is passes


def test_no_enclosure_at_all_fails_nothing() -> None:
    assert failing_enclosures([], {}, {}, NOW, LIMIT) == []


def test_a_failure_says_what_was_met() -> None:
    assert failing(GOOD, STALE) == [
        EnclosureFailure(
            enclosure_id=A,
            name="A",
            permit_status=PermitStatus.PERMITTED,
            lifecycle=EnclosureLifecycle.ACTIVE,
            fresh=False,
        )
    ]


def test_a_missing_enclosure_counts_as_failing() -> None:
    assert failing(None, None) == [EnclosureFailure(enclosure_id=A)]


def test_only_those_that_fail_are_named_in_the_order_of_their_ids() -> None:
    found = {A: GOOD, B: replace(NOT_PERMITTED, id=B)}
    got = failing_enclosures([B, A, B], found, {A: HEARD, B: HEARD}, NOW, LIMIT)
    assert [failure.enclosure_id for failure in got] == [B]


@pytest.mark.parametrize(
    ("enclosure", "contact", "words"),
    [
        (None, None, "place_asset"),
        (DECOMMISSIONED, HEARD, "place_asset"),
        (GOOD, STALE, "not heard"),
        (NOT_PERMITTED, HEARD, "interlock system"),
        (UNKNOWN, HEARD, "neither of the permit's two values"),
    ],
)
def test_each_failure_has_its_way_out(
    enclosure: Enclosure | None, contact: Contact | None, words: str
) -> None:
    [failure] = failing(enclosure, contact)
    assert words in advice(failure)
