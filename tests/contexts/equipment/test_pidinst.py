"""Instrument records: what PIDINST and DataCite are told of an asset, and what is left out."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest

from beamwright.contexts.equipment.asset import (
    Asset,
    AssetPartitionRuleUpdated,
    AssetPersistentIdentifierAssigned,
    AssetRegistered,
    AssetSettingsUpdated,
    AssetTier,
    assets,
)
from beamwright.contexts.equipment.asset_values import (
    AlternateIdentifier,
    AlternateIdentifierKind,
    AssetOwner,
)
from beamwright.contexts.equipment.partition_rule import AffineRule
from beamwright.contexts.equipment.pidinst import (
    AssetManufacturerNotAvailableError,
    AssetOwnerNotAvailableError,
    FixtureManufacturerNotAvailableError,
    FixtureOwnerNotAvailableError,
    Instrument,
    InstrumentKind,
    InstrumentModel,
    Party,
    RelatedResource,
    VirtualAxisNotPidinstableError,
    check_asset_exportable,
    check_fixture_exportable,
    datacite,
    for_agency,
    pidinst,
)
from beamwright.contexts.equipment.pidinst_reads import alternate_identifiers
from beamwright.contexts.equipment.pidinst_records import PidinstRelation
from beamwright.contexts.equipment.values import Drawing, DrawingSystem
from beamwright.kernel.errors import DomainError
from beamwright.kernel.identifiers import PersistentIdentifierScheme
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.value import encode, replace
from tests.adapters.identifiers.agency import faults
from tests.rules import NOW, given

ASSET, PARENT, CHILD, MOUNT, FIXTURE, FAMILY, MODEL = (UUID(int=number) for number in range(1, 8))
PV = AlternateIdentifier(kind=AlternateIdentifierKind.CONTROLSYS_PV, value="2bm:cam1")
SERIAL_NUMBER = AlternateIdentifier(kind=AlternateIdentifierKind.SERIAL_NUMBER, value="A-17")
IDENTIFIED = {"DOI": ExternalRef(value="10.5072/parent", authority="DataCite", assigned_at=NOW)}
PARENT_RELATION = RelatedResource(
    relation=PidinstRelation.IS_COMPONENT_OF, id=PARENT, external_refs=IDENTIFIED
)
CHILD_RELATION = RelatedResource(relation=PidinstRelation.HAS_COMPONENT, id=CHILD)
MOUNT_RELATION = RelatedResource(relation=PidinstRelation.IS_ATTACHED_TO, id=MOUNT, name="2-BM/camera")
CAMERA = Instrument(
    id=ASSET,
    external_refs={},
    landing_page=f"https://beamwright.facility.example/console/assets/{ASSET}",
    name="Camera",
    owners=(
        Party(name="Photon Source", identifier="https://ror.org/05gvnxz63", identifier_type="ROR"),
        Party(name="Imaging Group", contact="imaging@facility.example"),
    ),
    manufacturers=(Party(name="Optics Works", identifier="grid.1.2", identifier_type="GRID"),),
    model=InstrumentModel(name="Oryx", part_number="ORX-10G"),
    affordances=frozenset({"Triggerable", "Imageable"}),
    kinds=(InstrumentKind(id=FAMILY, name="Camera"),),
    measured_variables=frozenset({"Image", "Frame"}),
    commissioned_at=NOW,
    related=(PARENT_RELATION, MOUNT_RELATION, CHILD_RELATION),
    drawing=Drawing(system=DrawingSystem.DOI, number="10.5072/drawing"),
    alternate_identifiers=(PV, SERIAL_NUMBER),
)
REGISTERED = AssetRegistered(
    asset_id=ASSET,
    occurred_at=NOW,
    name="Camera",
    tier=AssetTier.DEVICE,
    parent_id=PARENT,
    facility_code=None,
    scope_facility_code="aps",
    model_id=MODEL,
    alternate_identifiers=(PV,),
    owners=(AssetOwner(name="Photon Source"),),
)


def shown(instrument: Instrument) -> dict[str, Any]:
    """The record as a client reads it."""
    return msgspec.json.decode(encode(pidinst(instrument)))


def in_datacite(instrument: Instrument) -> dict[str, Any]:
    return msgspec.json.decode(encode(datacite(pidinst(instrument), "Home", 2026)))


def related(record: dict[str, Any]) -> list[dict[str, str]]:
    return record["relatedIdentifiers"]


def test_a_record_says_what_pidinst_asks_for() -> None:
    assert shown(replace(CAMERA, related=(), drawing=None, alternate_identifiers=())) == {
        "schemaVersion": "1.0",
        "identifier": {"identifier": f"urn:uuid:{ASSET}", "identifierType": "URN"},
        "landingPage": f"https://beamwright.facility.example/console/assets/{ASSET}",
        "name": "Camera",
        "owners": [
            {"ownerName": "Imaging Group", "ownerContact": "imaging@facility.example"},
            {
                "ownerName": "Photon Source",
                "ownerIdentifier": {
                    "ownerIdentifier": "https://ror.org/05gvnxz63",
                    "ownerIdentifierType": "ROR",
                },
            },
        ],
        "manufacturers": [
            {
                "manufacturerName": "Optics Works",
                "manufacturerIdentifier": {
                    "manufacturerIdentifier": "grid.1.2",
                    "manufacturerIdentifierType": "GRID",
                },
            }
        ],
        "model": {
            "modelName": "Oryx",
            "modelIdentifier": {"modelIdentifier": "ORX-10G", "modelIdentifierType": "PartNumber"},
        },
        "description": "Affordances: Imageable, Triggerable",
        "instrumentTypes": [
            {
                "instrumentTypeName": "Camera",
                "instrumentTypeIdentifier": {
                    "instrumentTypeIdentifier": f"urn:uuid:{FAMILY}",
                    "instrumentTypeIdentifierType": "URN",
                },
            }
        ],
        "measuredVariables": ["Frame", "Image"],
        "dates": [{"date": "2026-01-01", "dateType": "Commissioned"}],
    }


def test_null_and_empty_members_are_left_out() -> None:
    bare = Instrument(
        id=ASSET,
        external_refs={},
        landing_page="https://facility.example/1",
        name="Stage",
        owners=(Party(name="Photon Source"),),
        manufacturers=(Party(name="Optics Works"),),
        commissioned_at=NOW,
    )
    assert sorted(shown(bare)) == [
        "dates",
        "identifier",
        "landingPage",
        "manufacturers",
        "name",
        "owners",
        "schemaVersion",
    ]
    assert faults(in_datacite(bare)) == []


def test_a_related_resource_is_named_by_its_identifier_or_its_id() -> None:
    parent, mount, child, drawing = related(shown(CAMERA))
    assert parent == {
        "relationType": "IsComponentOf",
        "relatedIdentifier": "10.5072/parent",
        "relatedIdentifierType": "DOI",
    }
    assert mount == {
        "relationType": "IsAttachedTo",
        "relatedIdentifier": f"urn:uuid:{MOUNT}",
        "relatedIdentifierType": "URN",
        "relatedIdentifierName": "2-BM/camera",
    }
    assert (child["relationType"], child["relatedIdentifier"]) == ("HasComponent", f"urn:uuid:{CHILD}")
    assert (drawing["relationType"], drawing["relatedIdentifier"]) == ("IsDescribedBy", "10.5072/drawing")


def test_a_process_variable_is_exported_as_other() -> None:
    variable, serial_number = shown(CAMERA)["alternateIdentifiers"]
    assert variable == {
        "alternateIdentifier": "2bm:cam1",
        "alternateIdentifierType": "Other",
        "alternateIdentifierName": "CONTROLSYS_PV",
    }
    assert serial_number == {"alternateIdentifier": "A-17", "alternateIdentifierType": "SerialNumber"}


def test_only_a_drawing_with_a_doi_describes_the_instrument() -> None:
    drawn = replace(CAMERA, related=(), drawing=Drawing(system=DrawingSystem.EDMS, number="EDMS-1"))
    assert "relatedIdentifiers" not in shown(drawn)


def test_a_decommissioned_instrument_says_when() -> None:
    ended = replace(CAMERA, decommissioned_at=datetime(2031, 5, 6, 23, tzinfo=UTC))
    assert shown(ended)["dates"][1] == {"date": "2031-05-06", "dateType": "DeCommissioned"}
    assert in_datacite(ended)["dates"] == [
        {"date": "2026-01-01", "dateType": "Other", "dateInformation": "Commissioned"},
        {"date": "2031-05-06", "dateType": "Other", "dateInformation": "Decommissioned"},
    ]


def test_an_organisation_is_named_once_per_name_and_identifier() -> None:
    again = Party(name="Photon Source", identifier="https://ror.org/05gvnxz63", identifier_type="ROR")
    namesake = Party(name="Photon Source")
    owners = shown(replace(CAMERA, owners=(*CAMERA.owners, again, namesake)))["owners"]
    assert [owner["ownerName"] for owner in owners] == ["Imaging Group", "Photon Source", "Photon Source"]


@pytest.mark.parametrize("scheme", ["DOI", "Handle"])
def test_an_identified_instrument_is_named_by_its_identifier(scheme: str) -> None:
    ref = ExternalRef(value="10.5072/x", authority="someone", assigned_at=NOW)
    known = replace(CAMERA, external_refs={scheme: ref})
    assert shown(known)["identifier"] == {"identifier": "10.5072/x", "identifierType": scheme}
    assert in_datacite(known).get("doi") == ("10.5072/x" if scheme == "DOI" else None)


def test_the_datacite_form_satisfies_the_published_schema() -> None:
    assert faults(in_datacite(CAMERA)) == []


def test_the_datacite_form_says_the_same_in_datacites_terms() -> None:
    record = in_datacite(CAMERA)
    assert record["titles"] == [{"title": "Camera"}]
    assert (record["publisher"], record["publicationYear"]) == ({"name": "Home"}, "2026")
    assert record["types"] == {"resourceTypeGeneral": "Instrument"}
    assert [creator["name"] for creator in record["creators"]] == ["Optics Works"]
    assert {each["contributorType"] for each in record["contributors"]} == {"HostingInstitution"}
    assert record["subjects"] == [{"subject": "Camera", "valueUri": f"urn:uuid:{FAMILY}"}]
    assert [(each["descriptionType"], each["description"]) for each in record["descriptions"]] == [
        ("Abstract", "Affordances: Imageable, Triggerable"),
        ("TechnicalInfo", "Model: Oryx (PartNumber ORX-10G)"),
        ("TechnicalInfo", "Measured variables: Frame, Image"),
    ]
    assert [each["relationType"] for each in related(record)] == ["IsPartOf", "HasPart", "IsDescribedBy"]


def test_a_contact_never_reaches_an_agency() -> None:
    assert "imaging@facility.example" in str(shown(CAMERA))
    assert "imaging@facility.example" not in str(in_datacite(CAMERA))


def test_an_agency_gets_only_relations_that_resolve_for_everyone() -> None:
    record = for_agency(datacite(pidinst(CAMERA), "Home", 2026))
    assert [each["relatedIdentifier"] for each in related(record)] == ["10.5072/parent", "10.5072/drawing"]
    assert faults(record) == []


def test_the_serial_number_of_the_settings_is_listed_once() -> None:
    updated = AssetSettingsUpdated(
        asset_id=ASSET, occurred_at=NOW, settings={"serial_number": "A-17"}, settings_schema_versions={}
    )
    assert alternate_identifiers(given(assets, REGISTERED)) == (PV,)
    assert alternate_identifiers(given(assets, REGISTERED, updated)) == (PV, SERIAL_NUMBER)
    listed = replace(REGISTERED, alternate_identifiers=(PV, SERIAL_NUMBER))
    assert alternate_identifiers(given(assets, listed, updated)) == (PV, SERIAL_NUMBER)


def refused(asset: Asset) -> type[DomainError] | None:
    try:
        check_asset_exportable(asset)
    except DomainError as refusal:
        return type(refusal)
    return None


def test_a_record_needs_a_real_thing_an_owner_and_a_manufacturer() -> None:
    ruled = AssetPartitionRuleUpdated(asset_id=ASSET, occurred_at=NOW, partition_rule=AffineRule())
    nobodys = replace(REGISTERED, owners=(), model_id=None)
    assert refused(given(assets, REGISTERED)) is None
    assert refused(given(assets, nobodys, ruled)) is VirtualAxisNotPidinstableError
    assert refused(given(assets, nobodys)) is AssetOwnerNotAvailableError
    assert refused(given(assets, replace(REGISTERED, model_id=None))) is AssetManufacturerNotAvailableError


def test_a_fixture_needs_an_owner_and_a_manufacturer_among_its_assets() -> None:
    owned = given(assets, replace(REGISTERED, model_id=None))
    made = given(assets, replace(REGISTERED, owners=()))
    check_fixture_exportable(FIXTURE, [owned, made])
    with pytest.raises(FixtureOwnerNotAvailableError):
        check_fixture_exportable(FIXTURE, [made])
    with pytest.raises(FixtureManufacturerNotAvailableError):
        check_fixture_exportable(FIXTURE, [owned])


def test_an_assigned_identifier_is_the_one_that_is_shown() -> None:
    assigned = AssetPersistentIdentifierAssigned(
        asset_id=ASSET,
        occurred_at=NOW,
        scheme=PersistentIdentifierScheme.DOI,
        value="10.5072/x",
        authority="DataCite",
    )
    asset = given(assets, REGISTERED, assigned)
    shown_as = shown(replace(CAMERA, external_refs=asset.external_refs))["identifier"]
    assert shown_as == {"identifier": "10.5072/x", "identifierType": "DOI"}
