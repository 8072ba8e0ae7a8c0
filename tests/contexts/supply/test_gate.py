"""The supplies of a start: which needed kinds nothing serves, and what is said of them."""

from datetime import timedelta
from uuid import UUID

import pytest

from beamwright.contexts.supply.gate import (
    SupplyFailure,
    SupplyMet,
    SupplyScope,
    failing_supplies,
)
from beamwright.contexts.supply.supply import Supply, SupplyStatus
from beamwright.kernel.observing import Contact, Contacts
from beamwright.kernel.value import replace
from tests.contexts.supply.examples import SOURCE_X
from tests.rules import NOW

LIMIT = timedelta(seconds=60)
ROOT, ELSEWHERE = UUID(int=8), UUID(int=9)
SCOPE = SupplyScope(asset_ids=frozenset({ROOT}), facility_codes=frozenset({"aps", "aps-2bm"}))
WIDE = Supply(
    id=UUID(int=10),
    kind="vacuum",
    name="House vacuum",
    facility_code="aps",
    containing_asset_id=None,
    status=SupplyStatus.AVAILABLE,
    status_since=NOW,
    status_source=None,
)
HERE = replace(WIDE, id=UUID(int=11), name="Beamline vacuum", containing_asset_id=ROOT)
THERE = replace(WIDE, id=UUID(int=12), containing_asset_id=ELSEWHERE)
AWAY = replace(WIDE, id=UUID(int=13), facility_code="esrf")
GONE = replace(WIDE, id=UUID(int=14), status=SupplyStatus.DECOMMISSIONED)
WATCHED = replace(WIDE, status_source=SOURCE_X)

HEARD = Contact(connected=True, last_contact_at=NOW - LIMIT)
STALE = Contact(connected=True, last_contact_at=NOW - LIMIT - timedelta(microseconds=1))
LOST = Contact(connected=False, last_contact_at=NOW, last_error="contact lost: ControlTimeoutError")


def failing(*found: Supply, contacts: Contacts | None = None) -> list[SupplyFailure]:
    return failing_supplies({"vacuum"}, found, SCOPE, contacts or {}, NOW, LIMIT)


@pytest.mark.parametrize("supply", [THERE, AWAY, GONE, replace(WIDE, kind="Vacuum")])
def test_a_supply_beyond_the_scope_never_counts(supply: Supply) -> None:
    [failure] = failing(supply)
    assert (failure.kind, failure.supplies) == ("vacuum", ())
    assert "register_supply" in failure.advice


@pytest.mark.parametrize("supply", [WIDE, HERE, replace(WIDE, facility_code="aps-2bm")])
def test_an_available_supply_in_scope_serves(supply: Supply) -> None:
    assert failing(supply) == []


@pytest.mark.parametrize(
    ("status", "way_out"),
    [
        (SupplyStatus.UNKNOWN, "House vacuum is Unknown: mark_supply_available."),
        (SupplyStatus.DEGRADED, "House vacuum is Degraded: restore_supply."),
        (SupplyStatus.RECOVERING, "House vacuum is Recovering: restore_supply."),
        (
            SupplyStatus.UNAVAILABLE,
            "House vacuum is Unavailable: mark_supply_recovering, then restore_supply.",
        ),
    ],
)
def test_no_other_status_serves_and_each_has_its_way_out(status: SupplyStatus, way_out: str) -> None:
    met = SupplyMet(supply_id=WIDE.id, name="House vacuum", status=status)
    assert failing(replace(WIDE, status=status)) == [
        SupplyFailure(kind="vacuum", supplies=(met,), advice=way_out)
    ]


def test_one_that_serves_is_enough() -> None:
    assert failing(replace(WIDE, status=SupplyStatus.UNAVAILABLE), HERE) == []


def test_an_available_one_elsewhere_does_not_help_a_degraded_one_here() -> None:
    [failure] = failing(THERE, replace(WIDE, status=SupplyStatus.DEGRADED))
    assert [met.supply_id for met in failure.supplies] == [WIDE.id]


@pytest.mark.parametrize(
    ("contact", "serves"),
    [(HEARD, True), (STALE, False), (LOST, False), (None, False)],
)
def test_a_watched_supply_must_be_fresh(contact: Contact | None, *, serves: bool) -> None:
    got = failing(WATCHED, contacts={WATCHED.id: contact} if contact else {})
    assert (got == []) is serves


def test_a_declared_supply_needs_no_contact() -> None:
    assert failing(WIDE, contacts={WIDE.id: LOST}) == []


def test_one_that_is_not_fresh_names_its_source_and_last_error() -> None:
    [failure] = failing(WATCHED, contacts={WATCHED.id: LOST})
    assert failure.supplies[0].fresh is False
    assert failure.advice == (
        "House vacuum is not heard at channel_access S:SRcurrent: contact lost: ControlTimeoutError."
    )


def test_kinds_come_sorted_and_each_is_judged_on_its_own() -> None:
    got = failing_supplies({"vacuum", "photon_beam", "cryogen"}, [WIDE], SCOPE, {}, NOW, LIMIT)
    assert [failure.kind for failure in got] == ["cryogen", "photon_beam"]


def test_no_needed_kind_needs_no_supply() -> None:
    assert failing_supplies((), [], SCOPE, {}, NOW, LIMIT) == []
