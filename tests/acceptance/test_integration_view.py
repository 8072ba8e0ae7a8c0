"""Drift and the integration view of served assets."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from beamwright.contexts.equipment.asset import Asset, AssetTier
from beamwright.contexts.equipment.integration_view import Integration
from beamwright.kernel.erasable import ErasableText
from tests.acceptance.stage import Stage, done
from tests.rules import NOW

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def thickness(code: str, **others: Any) -> dict[str, Any]:
    closed = {"additionalProperties": False, "unevaluatedProperties": False}
    property = {"type": "number", "unit": {"system": "udunits", "code": code}}
    return {"$schema": DIALECT, "type": "object", "properties": {"thickness": property, **others}, **closed}


class Beamline:
    """A root with what is put below it."""

    def __init__(self, admin: httpx.Client) -> None:
        self.admin = admin
        root = self.made("/assets", name="Microtomography", tier="Unit", facility_code="home")
        self.root: str = root["asset_id"]
        self.as_of = ""

    def made(self, path: str, **body: Any) -> dict[str, Any]:
        answer = done(self.admin.post(path, json=body))
        self.as_of = answer["as_of"]
        return answer

    def asset(self, name: str = "Attenuator", **body: Any) -> str:
        given = {"name": name, "tier": "Device", "parent_id": self.root} | body
        return self.made("/assets", **given)["asset_id"]

    def family(self, **body: Any) -> str:
        given: dict[str, Any] = {"name": f"Family {uuid4().hex}", "affordances": []} | body
        return self.made("/families", **given)["family_id"]

    def view(self, asset: str) -> dict[str, Any]:
        return done(self.admin.get(f"/assets/{asset}/integration-view"))

    def drift(self, **filters: Any) -> list[dict[str, Any]]:
        """Every row, over all pages."""
        rows, cursor = list[dict[str, Any]](), {}
        while True:
            asked = {**filters, **cursor, "consistent_with": self.as_of}
            page = done(self.admin.get("/assets/drift", params=asked))
            rows += page["items"]
            if page["next_cursor"] is None:
                return rows
            cursor = {"cursor": page["next_cursor"]}


@pytest.fixture
def beamline(admin: httpx.Client) -> Beamline:
    return Beamline(admin)


def test_a_new_unit_makes_every_stored_value_drift(beamline: Beamline) -> None:
    family = beamline.family(settings_schema=thickness("um"))
    stored = [
        beamline.asset(family_ids=[family], settings={"thickness": 5}),
        beamline.asset(family_ids=[family], settings={"thickness": 6}),
    ]
    beamline.asset(family_ids=[family])
    beamline.made(
        f"/families/{family}/version", version_tag="v2", affordances=[], settings_schema=thickness("mm")
    )
    rows = beamline.drift(family_id=family)
    assert [(row["asset_id"], row["kind"]) for row in rows] == [(each, "Unit") for each in stored]
    assert beamline.drift(family_id=family, kind="Settings") == []


def test_drift_is_paged_even_within_one_asset(beamline: Beamline) -> None:
    names = [f"thickness_{letter}" for letter in "abc"]
    before = {name: thickness("um")["properties"]["thickness"] for name in names}
    after = {name: thickness("mm")["properties"]["thickness"] for name in names}
    family = beamline.family(settings_schema=thickness("um", **before))
    settings = dict.fromkeys(names, 1)
    of_both = [beamline.asset(family_ids=[family], settings=settings) for _ in range(2)]
    schema = thickness("um", **after)
    beamline.made(f"/families/{family}/version", version_tag="v2", affordances=[], settings_schema=schema)
    rows = beamline.drift(family_id=family, kind="Unit", limit=2)
    assert [row["asset_id"] for row in rows] == [id for id in of_both for _ in names]
    assert len({(row["asset_id"], row["detail"]) for row in rows}) == 6


def test_a_model_edited_later_never_blocks_and_shows_as_drift(beamline: Beamline) -> None:
    first, second = beamline.family(), beamline.family()
    model = beamline.made(
        "/models",
        name="Stage",
        manufacturer={"name": f"Works {uuid4().hex}"},
        part_number="1",
        declared_family_ids=[first],
    )["model_id"]
    asset = beamline.asset(family_ids=[first], model_id=model)
    beamline.made(f"/assets/{asset}/activate")
    beamline.made(f"/models/{model}/families/add", family_id=second)
    rows = beamline.drift(model_id=model)
    assert [(row["kind"], row["asset_id"], row["family_id"]) for row in rows] == [
        ("ModelFamilies", asset, second)
    ]
    assert beamline.view(asset)["drift"] == rows


def test_a_cursor_of_another_list_is_refused(admin: httpx.Client) -> None:
    answer = admin.get("/assets/drift", params={"cursor": "nonsense"})
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidCursorError")


def test_the_view_joins_what_the_asset_is_bound_to(beamline: Beamline) -> None:
    family = beamline.family(affordances=["Attenuable"])
    enclosure = beamline.made("/enclosures", name=uuid4().hex, facility_code="home")["enclosure_id"]
    controller = beamline.asset("Controller")
    asset = beamline.asset(family_ids=[family], controller_id=controller, located_in_enclosure_id=enclosure)
    view = beamline.view(asset)
    assert [each["asset_id"] for each in view["ancestors"]] == [beamline.root]
    assert (view["affordances"], view["families"][0]["family_id"]) == (["Attenuable"], family)
    assert view["controller"] == {"asset_id": controller, "name": "Controller"}
    assert (view["enclosure"]["permit_status"], view["enclosure"]["fresh"]) == ("Unknown", False)
    assert (view["model"], view["mount"], view["fixture"], view["drift"]) == (None, None, None, [])


def test_the_view_names_only_what_could_not_be_read(beamline: Beamline) -> None:
    view = beamline.view(beamline.asset())
    assert set(view["incomplete"]) <= {"active_cautions", "applicable_capabilities"}


def test_the_view_of_an_asset_out_of_reach_is_not_found(stage: Stage, beamline: Beamline) -> None:
    answer = stage.person().get(f"/assets/{beamline.root}/integration-view")
    assert answer.status_code in (403, 404)


def test_the_view_lists_the_capabilities_that_the_affordances_cover(beamline: Beamline) -> None:
    code = f"beamwright.capability.{uuid4().hex}"
    for name, affordances in (("Attenuate", ["Attenuable"]), ("Image", ["Attenuable", "Imageable"])):
        beamline.made(
            "/capabilities",
            code=f"{code}.{name.lower()}",
            name=name,
            required_affordances=affordances,
            executor_shapes=["METHOD"],
        )
    asset = beamline.asset(family_ids=[beamline.family(affordances=["Attenuable"])])
    found = [
        each for each in beamline.view(asset)["applicable_capabilities"] if each["code"].startswith(code)
    ]
    assert [(each["name"], each["status"]) for each in found] == [("Attenuate", "Defined")]


CAMERA, TOWER, UNIT = (
    Asset(
        id=UUID(int=number),
        name="Camera",
        tier=AssetTier.DEVICE,
        parent_id=None,
        facility_code=None,
        scope_facility_code="home",
        condition_since=NOW,
        commissioned_at=NOW,
    )
    for number in (901, 902, 903)
)


def caution(number: int, target: Asset, **fields: Any) -> SimpleNamespace:
    """A caution as the other context shows it."""
    given: dict[str, Any] = {
        "id": UUID(int=number),
        "target": SimpleNamespace(kind="Asset", id=target.id),
        "category": "Wear",
        "severity": "Notice",
        "status": "Active",
        "text": f"caution {number}",
        "expires_at": None,
        "propagate_to_children": False,
    }
    return SimpleNamespace(**given | fields)


class Cautioned:
    """A world of cautions alone, or one that has never heard of them."""

    now = NOW

    def __init__(self, *cautions: SimpleNamespace, known: bool = True) -> None:
        self.cautions = cautions
        self.known = known

    async def look_up(self, aggregate_name: str, *, target_id: UUID) -> list[SimpleNamespace] | None:
        found = [each for each in self.cautions if each.target.id == target_id]
        return found if self.known and aggregate_name == "Caution" else None

    async def texts(self, ids: list[UUID]) -> Mapping[UUID, str]:
        return {UUID(int=1): "kept elsewhere"}


def cautions(world: Any) -> tuple[list[str], set[str]]:
    integration = Integration(world, CAMERA)
    shown = asyncio.run(integration.cautions([TOWER, UNIT]))
    return [each.text for each in shown], integration.incomplete


def test_cautions_in_force_on_the_asset_and_those_passed_on_from_above_are_shown() -> None:
    world = Cautioned(
        caution(1, CAMERA),
        caution(2, CAMERA, status="Retired"),
        caution(3, CAMERA, expires_at=NOW - timedelta(seconds=1)),
        caution(4, TOWER),
        caution(5, UNIT, propagate_to_children=True),
    )
    assert cautions(world) == (["caution 1", "caution 5"], set())


def test_the_words_of_a_caution_that_can_be_erased_are_read_or_redacted() -> None:
    kept, erased = (ErasableText(text_id=UUID(int=number), sha256="", length=1) for number in (1, 2))
    world = Cautioned(caution(1, CAMERA, text=kept), caution(2, CAMERA, text=erased))
    assert cautions(world)[0] == ["kept elsewhere", "<redacted>"]


def test_cautions_that_nobody_keeps_are_named_as_incomplete() -> None:
    assert cautions(Cautioned(known=False)) == ([], {"active_cautions"})
