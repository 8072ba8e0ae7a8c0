"""Registering supplies: where they may be, and the order of refusals."""

from uuid import UUID

import pytest

from beamwright.contexts.equipment.asset import Asset, AssetLifecycle, AssetTier
from beamwright.contexts.federation.facility import (
    Facility,
    FacilityKind,
    FacilityStatus,
)
from beamwright.contexts.supply.supply import InvalidStatusSourceError, SupplyRegistered
from beamwright.contexts.supply.supply_registration import (
    InvalidSupplyKindError,
    InvalidSupplyNameError,
    RegisterSupply,
    SupplyContainingAssetDecommissionedError,
    SupplyFacilityMismatchError,
    SupplyFacilityNotActiveError,
    SupplyPlace,
)
from beamwright.kernel.value import replace
from tests.contexts.supply.examples import SOURCE_X
from tests.rules import NEW_ID, NOW, outcome

ASSET = UUID(int=9)
SITE = Facility(
    id=UUID(int=1),
    code="aps",
    display_name="APS",
    kind=FacilityKind.SITE,
    parent_id=None,
    base_url=None,
    peer_actor_id=None,
)
AREA = replace(SITE, id=UUID(int=3), code="aps-2bm", kind=FacilityKind.AREA, parent_id=SITE.id)
BEAMLINE = Asset(
    id=ASSET,
    name="2-BM",
    tier=AssetTier.UNIT,
    parent_id=None,
    facility_code="aps-2bm",
    scope_facility_code="aps-2bm",
    condition_since=NOW,
    commissioned_at=NOW,
)
WIDE = RegisterSupply(kind=" photon_beam ", name=" Storage ring ", facility_code="aps")
INSIDE = replace(WIDE, containing_asset_id=ASSET)
INSIDE_AREA = SupplyPlace(facility=SITE, asset=BEAMLINE, asset_chain=(AREA, SITE))


def test_a_supply_of_a_facility_is_registered_with_its_text_trimmed() -> None:
    assert outcome(WIDE, SupplyPlace(facility=SITE)) == [
        SupplyRegistered(
            supply_id=NEW_ID,
            occurred_at=NOW,
            kind="photon_beam",
            name="Storage ring",
            facility_code="aps",
        )
    ]


def test_a_supply_inside_an_asset_belongs_to_a_facility_that_covers_it() -> None:
    assert outcome(INSIDE, INSIDE_AREA) == [
        SupplyRegistered(
            supply_id=NEW_ID,
            occurred_at=NOW,
            kind="photon_beam",
            name="Storage ring",
            facility_code="aps",
            containing_asset_id=ASSET,
        )
    ]


def test_a_facility_that_does_not_cover_the_asset_is_refused() -> None:
    asset = replace(BEAMLINE, facility_code="aps", scope_facility_code="aps")
    place = SupplyPlace(facility=AREA, asset=asset, asset_chain=(SITE,))
    assert outcome(replace(INSIDE, facility_code="aps-2bm"), place) == SupplyFacilityMismatchError


@pytest.mark.parametrize("kind", [" ", "x" * 51])
def test_register_refuses_a_bad_kind(kind: str) -> None:
    assert outcome(replace(WIDE, kind=kind), SupplyPlace(facility=SITE)) == InvalidSupplyKindError


@pytest.mark.parametrize("name", [" ", "x" * 201])
def test_register_refuses_a_bad_name(name: str) -> None:
    assert outcome(replace(WIDE, name=name), SupplyPlace(facility=SITE)) == InvalidSupplyNameError


def test_register_refuses_a_bad_source() -> None:
    command = replace(WIDE, status_source=replace(SOURCE_X, unit=None))
    assert outcome(command, SupplyPlace(facility=SITE)) == InvalidStatusSourceError


@pytest.mark.parametrize(
    "facility",
    [
        replace(SITE, status=FacilityStatus.DECOMMISSIONED),
        replace(SITE, kind=FacilityKind.PEER),
    ],
)
def test_register_needs_a_facility_in_use(facility: Facility) -> None:
    assert outcome(WIDE, SupplyPlace(facility=facility)) == SupplyFacilityNotActiveError


GONE = replace(BEAMLINE, lifecycle=AssetLifecycle.DECOMMISSIONED)


def test_register_needs_an_asset_in_use() -> None:
    assert outcome(INSIDE, replace(INSIDE_AREA, asset=GONE)) == SupplyContainingAssetDecommissionedError


@pytest.mark.parametrize(
    ("command", "facility", "refusal"),
    [
        (replace(INSIDE, name=" "), replace(AREA, kind=FacilityKind.PEER), InvalidSupplyNameError),
        (INSIDE, replace(AREA, kind=FacilityKind.PEER), SupplyFacilityNotActiveError),
        (INSIDE, AREA, SupplyContainingAssetDecommissionedError),
    ],
)
def test_values_come_before_the_facility_the_facility_before_the_asset_and_its_state_before_coverage(
    command: RegisterSupply, facility: Facility, refusal: type
) -> None:
    everything_wrong = SupplyPlace(facility=facility, asset=GONE, asset_chain=(SITE,))
    assert outcome(command, everything_wrong) == refusal
