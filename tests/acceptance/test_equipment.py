"""Equipment: assets in their tree, what they are and how they are put together, as the catalogue's examples tell it."""

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.acceptance.stage import Stage, at_once, done, refusal
from tests.acceptance.things import (
    CAMERA,
    LINEAR_STAGE,
    ROTARY_STAGE,
    Things,
    number,
    schema,
)


@pytest.fixture(scope="module")
def things(stage: Stage) -> Things:
    return Things(stage)


@pytest.fixture(scope="module")
def unit(things: Things) -> str:
    return things.unit()


def move(stage: Stage, asset: str, to: str) -> httpx.Response:
    return stage.admin.post(f"/assets/{asset}/relocate", to_parent_id=to, reason="Needed elsewhere")


def test_a_root_binds_a_facility_and_its_children_inherit_it(stage: Stage, things: Things) -> None:
    root = things.unit(name="Microtomography")
    device = {"name": "Camera", "tier": "Device", "parent_id": root}
    both = stage.admin.post("/assets", **device, facility_code="home")
    child = done(stage.admin.get(f"/assets/{things.asset(root)}"))
    read = done(stage.admin.get(f"/assets/{root}"))
    assert (read["parent_id"], read["lifecycle"], read["condition"]) == (None, "Commissioned", "Nominal")
    assert refusal(both) == (400, "InvalidAssetParentError")
    assert (child["scope_facility_code"], child["facility_code"]) == ("home", None)


def test_an_asset_is_not_moved_below_itself(stage: Stage, things: Things, unit: str) -> None:
    a = things.asset(unit)
    c = things.asset(things.asset(a))
    assert refusal(move(stage, a, c)) == (409, "AssetTreeCycleError")


def test_of_two_moves_that_would_close_a_circle_one_loses(stage: Stage, things: Things, unit: str) -> None:
    for _ in range(10):
        x, y = things.asset(unit), things.asset(unit)
        answers = at_once(lambda x=x, y=y: move(stage, x, y), lambda x=x, y=y: move(stage, y, x))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        assert [a.json()["code"] for a in answers if a.status_code == 409] == ["AssetTreeCycleError"]


def test_an_asset_in_service_has_the_families_of_its_model(stage: Stage, things: Things, unit: str) -> None:
    bare, model = things.asset(unit), things.model(ROTARY_STAGE, LINEAR_STAGE)
    stage_asset = things.asset(unit, family_ids=[ROTARY_STAGE], model_id=model)
    activated = [stage.admin.post(f"/assets/{asset}/activate") for asset in (bare, stage_asset)]
    assert [refusal(answer)[1] for answer in activated] == [
        "AssetFamilyRequiredError",
        "AssetModelMismatchError",
    ]
    done(stage.admin.post(f"/assets/{stage_asset}/add-family", family_id=LINEAR_STAGE))
    done(stage.admin.post(f"/assets/{stage_asset}/activate"))
    assert done(stage.admin.get(f"/assets/{stage_asset}"))["lifecycle"] == "Active"


def test_settings_are_patched_and_checked(stage: Stage, things: Things, unit: str) -> None:
    camera = things.asset(unit, family_ids=[CAMERA], settings={"pixel_size": 3.45})
    path = f"/assets/{camera}/update-settings"
    done(stage.admin.post(path, settings_patch={"pixel_size": None, "serial_number": "A-17"}))
    unknown = stage.admin.post(path, settings_patch={"gain": 2})
    read = done(stage.admin.get(f"/assets/{camera}"))
    assert read["settings"] == {"serial_number": "A-17"} and read["settings_schema_versions"] == {CAMERA: 1}
    assert (
        refusal(unknown) == (400, "InvalidAssetSettingsError") and "gain" in unknown.json()["context"]["path"]
    )


def test_settings_need_a_declared_schema_and_an_open_one_is_enough(
    stage: Stage, things: Things, unit: str
) -> None:
    silent, open_ = things.family(), things.family(settings_schema={})
    refused = stage.admin.post(
        "/assets", name="A", tier="Device", parent_id=unit, family_ids=[silent], settings={"a": 1}
    )
    assert refusal(refused) == (400, "InvalidAssetSettingsError")
    assert things.asset(unit, family_ids=[open_], settings={"a": {"b": [1]}})


def test_a_changed_unit_makes_stored_values_stale(stage: Stage, things: Things, unit: str) -> None:
    family = things.family(settings_schema=schema(thickness=number("um"), note={"type": "string"}))
    asset = things.asset(unit, family_ids=[family], settings={"thickness": 100})
    in_mm = schema(thickness=number("mm"), note={"type": "string"})
    edited = stage.admin.post(f"/families/{family}/update-settings-schema", settings_schema=in_mm)
    assert refusal(edited) == (409, "FamilySettingsUnitChangedError")
    version = {"version_tag": "2", "affordances": ["Imageable"], "settings_schema": in_mm}
    head = done(stage.admin.post(f"/families/{family}/version", **version))["as_of"]
    kept = done(stage.admin.get(f"/families/{family}/settings-schemas"))["items"]
    assert [each["settings_schema_version"] for each in kept] == [1, 2]
    drift = done(stage.admin.get("/assets/drift", family_id=family, consistent_with=head))["items"]
    assert [(row["asset_id"], row["kind"]) for row in drift if row["kind"] == "Unit"] == [(asset, "Unit")]
    path = f"/assets/{asset}/update-settings"
    assert refusal(stage.admin.post(path, settings_patch={"note": "x"})) == (409, "AssetSettingsStaleError")
    done(stage.admin.post(path, settings_patch={"note": "x", "thickness": 0.1}))


def test_a_condition_is_said_again_only_with_another_reason(stage: Stage, things: Things, unit: str) -> None:
    asset = things.asset(unit)
    told = [
        done(stage.admin.post(f"/assets/{asset}/degrade", reason=reason))["events"]
        for reason in ("drift", "drift", "drift grew")
    ]
    assert told == [["AssetDegraded"], [], ["AssetDegraded"]]
    read = done(stage.admin.get(f"/assets/{asset}"))
    assert (read["condition"], read["condition_reason"], read["lifecycle"]) == (
        "Degraded",
        "drift grew",
        "Commissioned",
    )


def test_an_asset_is_in_one_mount(stage: Stage, things: Things, unit: str) -> None:
    camera = things.active(unit)
    things.installed(camera)
    again = stage.admin.post(f"/mounts/{things.mount()}/install", asset_id=camera)
    retired = stage.admin.post(f"/assets/{camera}/decommission", reason="Old")
    assert refusal(again) == (409, "AssetAlreadyInstalledElsewhereError")
    assert refusal(retired) == (409, "AssetIsInstalledError")


def test_of_two_installations_at_once_one_wins(stage: Stage, things: Things, unit: str) -> None:
    for _ in range(5):
        camera, mounts = things.active(unit), [things.mount(), things.mount()]
        calls: list[Callable[[], httpx.Response]] = [
            lambda mount=mount, camera=camera: stage.admin.post(f"/mounts/{mount}/install", asset_id=camera)
            for mount in mounts
        ]
        assert sorted(answer.status_code for answer in at_once(*calls)) == [200, 409]


def test_a_fixture_binds_its_assets_at_once(stage: Stage, things: Things, unit: str) -> None:
    rotation, camera = things.active(unit, ROTARY_STAGE), things.active(unit, CAMERA)
    for asset in (rotation, camera):
        things.installed(asset)
    assembly = things.assembly(things.slot("rotation", ROTARY_STAGE), things.slot("camera"))
    fixture = things.fixture(assembly, rotation=rotation, camera=camera)
    rows = stage.rows(
        "SELECT DISTINCT transaction_id FROM events WHERE event_type IN "
        "('FixtureRegistered', 'AssetAttachedToFixture') AND payload::text LIKE '%' || $1 || '%'",
        fixture,
    )
    assert len(rows) == 1
    before = stage.event_count()
    second = things.assembly(things.slot("camera"))
    taken = stage.admin.post(
        "/fixtures", assembly_id=second, slot_asset_bindings=[{"slot_name": "camera", "asset_id": camera}]
    )
    assert refusal(taken) == (409, "AssetAlreadyAttachedToFixtureError")
    assert stage.event_count() == before + 1, "only the second assembly"
    done(stage.admin.post(f"/fixtures/{fixture}/retire", reason="Rebuilt"))
    assert {done(stage.admin.get(f"/assets/{asset}"))["fixture_id"] for asset in (rotation, camera)} == {None}


def citable(things: Things, unit: str, **fields: Any) -> str:
    model = things.model(CAMERA)
    return things.active(unit, CAMERA, model_id=model, owners=[{"name": "Facility"}], **fields)


def test_an_identifier_comes_later_and_once(stage: Stage, things: Things, unit: str) -> None:
    asset = citable(things, unit)
    done(stage.admin.post(f"/assets/{asset}/persistent-identifier/request"))
    deadline = time.monotonic() + 30
    while not (refs := done(stage.admin.get(f"/assets/{asset}"))["external_refs"]):
        assert time.monotonic() < deadline, "no identifier was minted"
        time.sleep(0.1)
    assert refs["DOI"]["value"] == f"10.5072/{asset}"
    assert stage.event_types(asset).count("AssetPersistentIdentifierAssigned") == 1


def test_what_cannot_be_cited_is_not_asked_for(stage: Stage, things: Things, unit: str) -> None:
    asset = things.active(unit)
    answer = stage.admin.post(f"/assets/{asset}/persistent-identifier/request")
    assert refusal(answer) == (409, "AssetOwnerNotAvailableError")


def test_an_exported_asset_names_its_parent_its_mount_and_its_variable(
    stage: Stage, things: Things, unit: str
) -> None:
    contact = stage.person()
    done(stage.admin.post(f"/actors/{contact.id}/update-profile", email="somebody@example.org"))
    parent = citable(things, unit)
    done(
        stage.admin.post(
            f"/assets/{parent}/persistent-identifier/assign",
            scheme="DOI",
            value="10.5555/parent",
            authority="A",
        )
    )
    variable = {"kind": "CONTROLSYS_PV", "value": "BW:cam1"}
    owner = {"name": "Facility", "contact_actor_id": contact.id}
    asset = things.active(
        parent, CAMERA, model_id=things.model(CAMERA), owners=[owner], alternate_identifiers=[variable]
    )
    mount = things.installed(asset)
    record = done(stage.admin.get(f"/assets/{asset}/pidinst"))
    related = {(each["relationType"], each["relatedIdentifier"]) for each in record["relatedIdentifiers"]}
    assert related == {("IsComponentOf", "10.5555/parent"), ("IsAttachedTo", f"urn:uuid:{mount}")}
    [alternate] = record["alternateIdentifiers"]
    assert (alternate["alternateIdentifierType"], alternate["alternateIdentifierName"]) == (
        "Other",
        "CONTROLSYS_PV",
    )
    assert record["owners"][0]["ownerContact"] == "somebody@example.org"
    done(stage.admin.post(f"/actors/{contact.id}/forget"))
    assert "ownerContact" not in done(stage.admin.get(f"/assets/{asset}/pidinst"))["owners"][0]


def test_a_subtree_is_read_depth_first_and_in_pages(stage: Stage, things: Things) -> None:
    root = things.unit(name="Root")
    for letter in "BAC":
        branch = things.asset(root, name=letter)
        for digit in "21":
            head = things.asset(branch, name=f"{letter}{digit}")
    token = done(stage.admin.post(f"/assets/{head}/rename", name="C1"))["as_of"]
    for limit in range(1, 11):
        names: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            asked = {"limit": limit, "consistent_with": token} | cursor
            page = done(stage.admin.get(f"/assets/{root}/subtree", **asked))
            names += [f"{item['depth']}{item['name']}" for item in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert names == ["0Root", "1A", "2A1", "2A2", "1B", "2B1", "2B2", "1C", "2C1", "2C2"]
    ancestors = done(stage.admin.get(f"/assets/{head}/ancestors"))["items"]
    assert [each["name"] for each in ancestors] == ["Root", "C"]
