"""Registering an asset: its anchor, what it is bound to, and what is said twice."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.access.actor import ActorNotFoundError
from beamwright.contexts.enclosure.enclosure import (
    Enclosure,
    EnclosureDecommissioned,
    EnclosureNotFoundError,
    EnclosureRegistered,
    enclosures,
)
from beamwright.contexts.equipment.asset import (
    AssetNotFoundError,
    AssetRegistered,
    AssetTier,
    InvalidAssetNameError,
)
from beamwright.contexts.equipment.asset_assignments import AssetControllerDecommissionedError
from beamwright.contexts.equipment.asset_parts import (
    AssetAlternateIdentifierAlreadyPresentError,
    AssetOwnerAlreadyPresentError,
    AssetPortAlreadyPresentError,
)
from beamwright.contexts.equipment.asset_registration import (
    AssetSurroundings,
    InvalidAssetParentError,
    RegisterAsset,
)
from beamwright.contexts.equipment.asset_settings import (
    AssetFamilySchemaConflictError,
    InvalidAssetFamilyIdsError,
    InvalidAssetSettingsError,
)
from beamwright.contexts.equipment.asset_tree import (
    AssetEnclosureDecommissionedError,
    AssetEnclosureFacilityMismatchError,
    AssetParentDecommissionedError,
    AssetTreeTooDeepError,
)
from beamwright.contexts.equipment.asset_values import (
    AlternateIdentifier,
    AlternateIdentifierKind,
    AssetOwner,
    AssetPort,
    InvalidAlternateIdentifierError,
    InvalidAssetOwnerError,
    InvalidAssetPortError,
)
from beamwright.contexts.equipment.family import FamilyDeprecatedError, FamilyNotFoundError
from beamwright.contexts.equipment.model import ModelDeprecatedError, ModelNotFoundError
from beamwright.contexts.equipment.values import (
    Drawing,
    DrawingSystem,
    EquipmentFacilityNotActiveError,
    InvalidDrawingError,
    PortDirection,
)
from beamwright.contexts.federation.facility import (
    FacilityDecommissioned,
    FacilityKind,
    FacilityNotFoundError,
    InvalidFacilityCodeError,
    facilities,
)
from beamwright.kernel.value import replace
from tests.contexts.equipment.asset_examples import (
    DECOMMISSIONED,
    LINEAR,
    MODEL,
    OTHER,
    ROOT,
    ROTARY,
    SITE,
    asset,
    closed,
    facility,
    family,
    length,
    model,
    root,
)
from tests.contexts.trust.examples import SmallWorld
from tests.rules import NEW_ID, NOW, given, outcome

HUTCH, AREA, AWAY = UUID(int=730), UUID(int=731), UUID(int=732)
UNIT = RegisterAsset(name=" Microtomography ", tier=AssetTier.UNIT, facility_code="aps")
DEVICE = RegisterAsset(name="Camera", tier=AssetTier.DEVICE, parent_id=ROOT)
AT_SITE = AssetSurroundings(facility=facility("aps"))
BELOW_ROOT = AssetSurroundings(lineage=(root(),))
PORT = AssetPort(name="trigger", direction=PortDirection.INPUT, signal_type="TTL")
SERIAL = AlternateIdentifier(kind=AlternateIdentifierKind.SERIAL_NUMBER, value="A-17")
OWNER = AssetOwner(name="Argonne")


def enclosure(code: str = "aps", *events: Any) -> Enclosure:
    registered = EnclosureRegistered(enclosure_id=HUTCH, occurred_at=NOW, name="2-BM-A", facility_code=code)
    return given(enclosures, registered, *events)


def test_a_root_binds_its_facility() -> None:
    assert outcome(UNIT, AT_SITE) == [
        AssetRegistered(
            asset_id=NEW_ID,
            occurred_at=NOW,
            name="Microtomography",
            tier=AssetTier.UNIT,
            parent_id=None,
            facility_code="aps",
            scope_facility_code="aps",
        )
    ]


def test_any_other_asset_belongs_where_its_parent_does() -> None:
    assert outcome(DEVICE, BELOW_ROOT) == [
        AssetRegistered(
            asset_id=NEW_ID,
            occurred_at=NOW,
            name="Camera",
            tier=AssetTier.DEVICE,
            parent_id=ROOT,
            facility_code=None,
            scope_facility_code="aps",
        )
    ]


@pytest.mark.parametrize(
    "seen", [AssetSurroundings(), AssetSurroundings(facility=facility("aps"), lineage=(root(),))]
)
def test_an_asset_has_a_parent_or_a_facility(seen: AssetSurroundings) -> None:
    assert outcome(DEVICE, seen) == InvalidAssetParentError


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"name": " "}, InvalidAssetNameError),
        ({"name": "x" * 201}, InvalidAssetNameError),
        ({"ports": (replace(PORT, name=" "),)}, InvalidAssetPortError),
        ({"ports": tuple(replace(PORT, name=str(n)) for n in range(201))}, InvalidAssetPortError),
        ({"drawing": Drawing(system=DrawingSystem.DOI, number="")}, InvalidDrawingError),
        ({"alternate_identifiers": (replace(SERIAL, value=""),)}, InvalidAlternateIdentifierError),
        ({"owners": (AssetOwner(name=""),)}, InvalidAssetOwnerError),
        ({"family_ids": frozenset(UUID(int=n) for n in range(51))}, InvalidAssetFamilyIdsError),
    ],
)
def test_value_faults_come_before_the_anchor(changes: dict[str, Any], refusal: type) -> None:
    assert outcome(replace(DEVICE, **changes), AssetSurroundings()) == refusal


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"ports": (PORT, replace(PORT, signal_type="24 V"))}, AssetPortAlreadyPresentError),
        ({"alternate_identifiers": (SERIAL, SERIAL)}, AssetAlternateIdentifierAlreadyPresentError),
        ({"owners": (OWNER, AssetOwner(name="ARGONNE"))}, AssetOwnerAlreadyPresentError),
    ],
)
def test_nothing_is_said_twice(changes: dict[str, Any], refusal: type) -> None:
    assert outcome(replace(DEVICE, **changes), BELOW_ROOT) == refusal


def closed_site() -> Any:
    return facilities.evolve(
        facility("aps"), FacilityDecommissioned(facility_id=SITE, occurred_at=NOW, reason="closed")
    )


def test_a_root_is_bound_to_a_facility_in_use() -> None:
    assert outcome(UNIT, AssetSurroundings(facility=closed_site())) == EquipmentFacilityNotActiveError


def test_a_root_is_not_bound_to_a_peer() -> None:
    peer = replace(facility("aps"), kind=FacilityKind.PEER)
    assert outcome(UNIT, AssetSurroundings(facility=peer)) == EquipmentFacilityNotActiveError


def test_the_parent_is_in_use() -> None:
    gone = asset(replace(DECOMMISSIONED, asset_id=ROOT), asset_id=ROOT)
    assert outcome(DEVICE, AssetSurroundings(lineage=(gone,))) == AssetParentDecommissionedError


@pytest.mark.parametrize(("levels", "refused"), [(63, False), (64, True)])
def test_a_tree_has_64_levels(levels: int, refused: bool) -> None:
    got = outcome(DEVICE, AssetSurroundings(lineage=(root(),) * levels))
    assert (got == AssetTreeTooDeepError) is refused


@pytest.mark.parametrize(
    ("seen", "refusal"),
    [
        ({"families": (family(ROTARY, deprecated=True),)}, FamilyDeprecatedError),
        ({"model": model(ROTARY, deprecated=True)}, ModelDeprecatedError),
        (
            {"controller": asset(replace(DECOMMISSIONED, asset_id=OTHER), asset_id=OTHER)},
            AssetControllerDecommissionedError,
        ),
        (
            {
                "enclosure": enclosure(
                    "aps", EnclosureDecommissioned(enclosure_id=HUTCH, occurred_at=NOW, reason="torn down")
                )
            },
            AssetEnclosureDecommissionedError,
        ),
        ({"enclosure": enclosure("away"), "enclosure_related": False}, AssetEnclosureFacilityMismatchError),
    ],
)
def test_what_the_asset_is_bound_to_is_in_use_and_near(seen: dict[str, Any], refusal: type) -> None:
    assert outcome(DEVICE, replace(BELOW_ROOT, **seen)) == refusal


def test_families_agree_on_what_they_declare() -> None:
    seen = replace(
        BELOW_ROOT,
        families=(family(ROTARY, closed(speed=length("mm"))), family(LINEAR, closed(speed=length("um")))),
    )
    request = replace(DEVICE, family_ids=frozenset({ROTARY, LINEAR}))
    assert outcome(request, seen) == AssetFamilySchemaConflictError


def test_settings_hold_to_the_families_and_name_their_schema_versions() -> None:
    seen = replace(BELOW_ROOT, families=(family(ROTARY, closed(speed=length("mm"))),))
    request = replace(DEVICE, family_ids=frozenset({ROTARY}), settings={"speed": 3, "gain": None})
    (registered,) = outcome(request, seen)
    assert (registered.settings, registered.settings_schema_versions) == ({"speed": 3}, {ROTARY: 1})
    assert outcome(replace(request, settings={"speed": "fast"}), seen) == InvalidAssetSettingsError


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"parent_id": None, "facility_code": "Not A Code"}, InvalidFacilityCodeError),
        ({"parent_id": None, "facility_code": "elsewhere"}, FacilityNotFoundError),
        ({"parent_id": OTHER}, AssetNotFoundError),
        ({"controller_id": OTHER}, AssetNotFoundError),
        ({"family_ids": frozenset({ROTARY})}, FamilyNotFoundError),
        ({"model_id": MODEL}, ModelNotFoundError),
        ({"located_in_enclosure_id": OTHER}, EnclosureNotFoundError),
        ({"owners": (replace(OWNER, contact_actor_id=OTHER),)}, ActorNotFoundError),
    ],
)
def test_what_the_request_names_exists(changes: dict[str, Any], refusal: type[Exception]) -> None:
    world: Any = SmallWorld(root(), facility("aps"))
    with pytest.raises(refusal):
        asyncio.run(replace(DEVICE, **changes).gather(world))


@pytest.mark.parametrize(("code", "related"), [("aps", True), ("sector", True), ("away", False)])
def test_an_enclosure_of_a_related_facility_is_near(code: str, related: bool) -> None:
    site, area, away = facility("aps"), facility("sector", AREA, SITE), facility("away", AWAY)
    world: Any = SmallWorld(root(), site, area, away, enclosure(code))
    seen = asyncio.run(replace(DEVICE, located_in_enclosure_id=HUTCH).gather(world))
    assert seen.enclosure_related is related
