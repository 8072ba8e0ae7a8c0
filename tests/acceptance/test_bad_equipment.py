"""Bad input about equipment: whatever is sent, a problem document says what to do, and nothing is recorded."""

import json
from typing import Any

import httpx
import pytest

from tests.acceptance.stage import Stage, done, refusal
from tests.acceptance.things import CAMERA, Things, number, schema

NAME = "Family of bad input"


@pytest.fixture(scope="module")
def things(stage: Stage) -> Things:
    return Things(stage)


def declared(stage: Stage, settings_schema: Any) -> httpx.Response:
    """The answer to a family that declares this, which must leave no trace; the client waits half a minute."""
    before = stage.event_count()
    answer = stage.admin.post("/families", name=NAME, affordances=[], settings_schema=settings_schema)
    assert answer.status_code < 500 and stage.event_count() == before
    return answer


@pytest.mark.parametrize(
    ("broken", "keyword"),
    [
        (schema(energy={"type": "number", "unit": {"system": "imperial", "code": "mm"}}), "unit"),
        (schema(energy=number("no such unit")), "unit"),
        (schema(energy={"type": "string", "unit": {"system": "udunits", "code": "mm"}}), "unit"),
        (schema(name={"type": "string", "pattern": "(a+)+$("}), "pattern"),
        (schema(name={"type": "string", "pattern": r"(?=a)b"}), "pattern"),
        (schema(backend={"type": "string"}), "properties"),
        (schema() | {"$ref": "#"}, "$ref"),
        ({key: value for key, value in schema().items() if key != "$schema"}, "$schema"),
        (schema(inner={"type": "object", "properties": {}}), "additionalProperties"),
    ],
)
def test_a_faulty_schema_is_refused_with_its_place(
    stage: Stage, broken: dict[str, Any], keyword: str
) -> None:
    answer = declared(stage, broken)
    assert refusal(answer) == (400, "InvalidFamilySettingsSchemaError")
    assert answer.json()["context"]["keyword"] == keyword and answer.json()["context"]["path"] is not None


def test_a_pattern_that_would_never_end_ends(stage: Stage, things: Things) -> None:
    """Accepted, because the engine that runs it takes linear time."""
    family = things.family(settings_schema=schema(name={"type": "string", "pattern": "^(a+)+$"}))
    body = {"name": "A", "tier": "Device", "parent_id": things.unit(), "family_ids": [family]}
    answer = stage.admin.post("/assets", **body, settings={"name": "a" * 5000 + "!"})
    assert refusal(answer) == (400, "InvalidAssetSettingsError")


def test_a_schema_of_ten_thousand_levels_is_refused(stage: Stage) -> None:
    deep = '{"a":' * 10_000 + "1" + "}" * 10_000
    body = f'{{"name": "{NAME}", "affordances": [], "settings_schema": {deep}}}'
    answer = stage.admin.client.post("/families", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422) and answer.headers["content-type"].startswith(
        "application/problem+json"
    )


def test_a_schema_of_many_levels_that_can_be_read_is_refused(stage: Stage) -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    assert refusal(declared(stage, schema(a=deep))) == (400, "InvalidFamilySettingsSchemaError")


def test_a_schema_of_two_megabytes_is_refused(stage: Stage) -> None:
    large = schema(**{f"p{n}": {"type": "string", "description": "x" * 1000} for n in range(2000)})
    body = json.dumps({"name": NAME, "affordances": [], "settings_schema": large})
    assert len(body) > 2_000_000
    assert stage.admin.client.post("/families", content=body).status_code == 413


def test_a_schema_above_its_own_limit_is_refused(stage: Stage) -> None:
    large = schema(**{f"p{n}": {"type": "string", "description": "x" * 1000} for n in range(100)})
    answer = declared(stage, large)
    assert refusal(answer) == (400, "InvalidFamilySettingsSchemaError")
    assert answer.json()["context"]["keyword"] == "size"


def test_an_unknown_setting_is_refused_by_name(stage: Stage, things: Things) -> None:
    body = {"name": "A", "tier": "Device", "parent_id": things.unit(), "family_ids": [CAMERA]}
    answer = stage.admin.post("/assets", **body, settings={"gain": 3})
    assert refusal(answer) == (400, "InvalidAssetSettingsError") and "gain" in answer.json()["detail"]


@pytest.mark.parametrize("name", ["", "   ", "\t\n", "x" * 201, "a\u0000b", "a\u202eb"])
def test_a_name_that_is_none_is_refused(stage: Stage, things: Things, name: str) -> None:
    answer = stage.admin.post("/assets", name=name, tier="Unit", facility_code="home")
    assert answer.status_code in (400, 422) and answer.json()["detail"]


def test_a_missing_parent_is_not_found(stage: Stage) -> None:
    nowhere = "01900000-0000-7000-8000-00000000dead"
    answer = stage.admin.post("/assets", name="A", tier="Device", parent_id=nowhere)
    assert refusal(answer) == (404, "AssetNotFoundError") and nowhere in answer.json()["detail"]


def test_a_tree_is_at_most_sixty_four_levels_deep(stage: Stage, things: Things) -> None:
    asset = things.unit()
    for _ in range(63):
        asset = things.asset(asset)
    answer = stage.admin.post("/assets", name="A", tier="Device", parent_id=asset)
    assert refusal(answer) == (409, "AssetTreeTooDeepError")
    assert len(done(stage.admin.get(f"/assets/{asset}/ancestors"))["items"]) == 63
