"""Zone: its rules and status grid."""

from uuid import UUID

import pytest

from beamwright.contexts.trust.zone import (
    DefineZone,
    InvalidZoneDescriptionError,
    InvalidZoneNameError,
    UpdateZone,
    ZoneDefined,
    ZoneRetired,
    ZoneUpdated,
    zones,
)
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, given, outcome

ZONE = UUID(int=2)
DEFINED = ZoneDefined(zone_id=ZONE, occurred_at=NOW, name="Clients", description=None)
RETIRED = ZoneRetired(zone_id=ZONE, occurred_at=NOW, reason="merged")


def test_define_trims_the_name() -> None:
    got = outcome(DefineZone(name="  Clients "), None)
    assert got == [ZoneDefined(zone_id=NEW_ID, occurred_at=NOW, name="Clients", description=None)]


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (DefineZone(name="   "), InvalidZoneNameError),
        (DefineZone(name="x" * 201), InvalidZoneNameError),
        (DefineZone(name="a\x00b"), InvalidZoneNameError),
        (DefineZone(name="ok", description=" "), InvalidZoneDescriptionError),
    ],
)
def test_define_refuses_bad_text(command: DefineZone, refusal: type) -> None:
    assert outcome(command, None) == refusal


def test_update_keeps_what_is_absent_and_clears_what_is_null() -> None:
    zone = given(
        zones, DEFINED, ZoneUpdated(zone_id=ZONE, occurred_at=NOW, name="Clients", description="old")
    )
    got = outcome(UpdateZone(zone_id=ZONE, description=None), zone)
    assert got == [ZoneUpdated(zone_id=ZONE, occurred_at=NOW, name="Clients", description=None)]


def test_update_that_changes_nothing_is_a_no_op() -> None:
    assert outcome(UpdateZone(zone_id=ZONE, name="Clients"), given(zones, DEFINED)) == []


def test_name_is_claimed_until_retired() -> None:
    assert [claim.key for claim in zones.claims(given(zones, DEFINED))] == ["clients"]
    assert zones.claims(given(zones, DEFINED, RETIRED)) == []


GRID = """
          update
Active    Active
Retired   -
"""


def test_status_grid() -> None:
    check_grid(
        GRID,
        zones,
        status=lambda zone: zone.status,
        reach={"Active": [DEFINED], "Retired": [DEFINED, RETIRED]},
        verbs={"update": UpdateZone(zone_id=ZONE, name="Other")},
    )
