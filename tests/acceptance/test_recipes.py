"""What may be done and how, in a served installation: capabilities, methods, plans and recipes."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.interleaving import Meanwhile
from tests.acceptance.stage import Stage, at_once, done, refusal
from tests.acceptance.things import DRAFT_2020_12, Things, number, schema
from tests.live import LiveServer

SHUTTER = "simulated://shutter:open"


@pytest.fixture(scope="module")
def things(stage: Stage) -> Things:
    return Things(stage)


@pytest.fixture
def meanwhile(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return Meanwhile(server, monkeypatch)


def energy(**bounds: Any) -> dict[str, Any]:
    return schema(energy=number("keV", **bounds))


def define_capability(stage: Stage, parameters_schema: Any, **fields: Any) -> httpx.Response:
    given = {
        "code": f"beamwright.capability.{uuid4().hex}",
        "name": "Imaging",
        "required_affordances": [],
        "executor_shapes": ["METHOD"],
    }
    return stage.admin.post("/capabilities", **given | fields, parameters_schema=parameters_schema)


def define_method(stage: Stage, capability: str, parameters_schema: Any) -> httpx.Response:
    given = {"name": "Method", "capability_id": capability, "execution_pattern": "Batch"}
    return stage.admin.post("/methods", **given, parameters_schema=parameters_schema)


def practice(things: Things, parameters: dict[str, Any] | None = None) -> str:
    """A practice of a method that declares these parameters, or none."""
    declared = {} if parameters is None else {"parameters_schema": parameters}
    return things.practice(things.method(things.capability(**declared), **declared))


def define_plan(stage: Stage, things: Things, practice: str, defaults: dict[str, Any]) -> httpx.Response:
    asset = things.active(things.unit())
    body = {"name": "Plan", "practice_id": practice, "asset_ids": [asset], "default_parameters": defaults}
    return stage.admin.post("/plans", **body)


# Schemas of capabilities and methods


@pytest.mark.parametrize(
    ("inner", "keyword"),
    [
        (number("keV"), "minimum"),
        (number("keV", minimum=10), "maximum"),
        (number("eV", minimum=10, maximum=30), "unit"),
    ],
)
def test_a_method_states_what_its_capability_states(
    stage: Stage, things: Things, inner: dict[str, Any], keyword: str
) -> None:
    capability = things.capability(parameters_schema=energy(minimum=5, maximum=40))
    answer = define_method(stage, capability, schema(energy=inner))
    context = answer.json()["context"]
    assert refusal(answer) == (409, "MethodParametersNotSubsetError")
    assert (context["path"], context["keyword"]) == ("/properties/energy", keyword)


@pytest.mark.parametrize("kind", ["number", "integer"])
def test_a_method_may_be_narrower_than_its_capability(stage: Stage, things: Things, kind: str) -> None:
    capability = things.capability(parameters_schema=energy(minimum=5, maximum=40))
    inner = number("keV", minimum=10, maximum=30) | {"type": kind}
    assert define_method(stage, capability, schema(energy=inner)).status_code == 201


def without(broken: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in broken.items() if name != key}


NESTED = {"type": "object", "properties": {"x": {"type": "number"}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        (schema(inner=NESTED), "/properties/inner"),
        (schema() | {"$ref": "#"}, ""),
        (schema() | {"oneOf": [{}]}, ""),
        (schema() | {"allOf": [{}]}, ""),
        (schema() | {"if": {}}, ""),
        (schema() | {"$schema": DRAFT_2020_12.replace("2020-12", "2019-09")}, ""),
        (schema(backend={"type": "string"}), ""),
    ],
    ids=["open", "ref", "oneOf", "allOf", "if", "draft", "reserved"],
)
def test_a_faulty_schema_is_refused_with_its_place(stage: Stage, broken: dict[str, Any], path: str) -> None:
    answer = define_capability(stage, broken)
    assert refusal(answer) == (400, "InvalidCapabilityParametersSchemaError")
    assert answer.json()["context"]["path"].startswith(path)


def test_a_schema_without_a_constraint_is_declared_as_such(stage: Stage) -> None:
    assert define_capability(stage, {}).status_code == 201


def test_of_two_that_define_a_code_at_once_one_does(stage: Stage) -> None:
    code = f"beamwright.capability.{uuid4().hex}"
    answers = at_once(*[lambda: define_capability(stage, {}, code=code)] * 2)
    assert sorted(answer.status_code for answer in answers) == [201, 409]
    [loser] = [answer for answer in answers if answer.is_error]
    [winner] = [answer.json() for answer in answers if answer.is_success]
    assert loser.json()["code"] == "CapabilityCodeTakenError"
    found = done(stage.admin.get("/capabilities", code=code, consistent_with=winner["as_of"]))["items"]
    assert [each["id"] for each in found] == [winner["capability_id"]]


def test_a_capability_narrowed_before_the_append_refuses_the_method(
    stage: Stage, things: Things, meanwhile: Meanwhile
) -> None:
    capability = things.capability(parameters_schema=energy(minimum=5, maximum=40))
    narrower = {"version_tag": "2", "parameters_schema": energy(minimum=10, maximum=20)}
    meanwhile.within("define_method", stage.admin, f"/capabilities/{capability}/version", **narrower)
    answer = define_method(stage, capability, energy(minimum=5, maximum=40))
    assert [each.status_code for each in meanwhile.answers] == [200]
    assert refusal(answer) == (409, "MethodParametersNotSubsetError")
    sql = "SELECT 1 FROM events WHERE event_type = 'MethodDefined' AND payload->>'capability_id' = $1"
    assert stage.rows(sql, capability) == []


# Default parameters of plans


def test_values_need_a_schema(stage: Stage, things: Things) -> None:
    bare = practice(things)
    answer = define_plan(stage, things, bare, {"energy": 20})
    assert refusal(answer) == (400, "InvalidPlanDefaultParametersError")
    assert "schema" in answer.json()["detail"] and "{}" in answer.json()["detail"]
    assert define_plan(stage, things, bare, {}).status_code == 201


def test_what_is_required_is_looked_at_once_something_is_given(stage: Stage, things: Things) -> None:
    parameters = schema(energy=number("keV"), exposure=number("s")) | {"required": ["energy"]}
    strict = practice(things, parameters)
    answer = define_plan(stage, things, strict, {"exposure": 0.1})
    [violation] = answer.json()["context"]["violations"]
    assert refusal(answer) == (400, "InvalidPlanDefaultParametersError")
    assert (violation["path"], violation["keyword"]) == ("/energy", "required")
    assert define_plan(stage, things, strict, {}).status_code == 201


def test_a_default_in_a_unit_of_the_past_is_restated(stage: Stage, things: Things) -> None:
    before, after = (schema(exposure=number(unit), energy=number("keV")) for unit in ("ms", "s"))
    method = things.method(things.capability(parameters_schema={}), parameters_schema=before)
    plan = things.plan(practice_id=things.practice(method), default_parameters={"exposure": 100})
    done(stage.admin.post(f"/methods/{method}/version", version_tag="2", parameters_schema=after))
    path = f"/plans/{plan}/update-default-parameters"
    stale = stage.admin.post(path, default_parameters_patch={"energy": 20})
    assert refusal(stale) == (409, "PlanDefaultParametersStaleError") and "exposure" in stale.text
    started = stage.admin.post("/runs", name="Run", plan_id=plan)
    assert refusal(started) == (409, "RunPlanParametersStaleError")
    done(stage.admin.post(path, default_parameters_patch={"exposure": 0.1}))
    assert stage.admin.post("/runs", name="Run", plan_id=plan).status_code == 201


# Bindings and wires of plans


def test_the_families_of_all_assets_together_afford_what_is_required(stage: Stage, things: Things) -> None:
    camera, rotary = things.family(), things.family(affordances=["Rotatable"])
    unit = things.unit()
    assets = [things.active(unit, family) for family in (camera, rotary)]
    capability = things.capability(required_affordances=["Imageable", "Rotatable", "Triggerable"])
    body = {"name": "Plan", "practice_id": things.practice(things.method(capability)), "asset_ids": assets}
    answer = stage.admin.post("/plans", **body)
    assert refusal(answer) == (409, "PlanAffordancesNotSatisfiedError")
    assert answer.json()["context"]["missing_affordances"] == ["Triggerable"]
    done(
        stage.admin.post(
            f"/families/{camera}/version", version_tag="2", affordances=["Imageable", "Triggerable"]
        )
    )
    assert stage.admin.post("/plans", **body).status_code == 201


@pytest.fixture
def wired(stage: Stage, things: Things) -> tuple[str, dict[str, str]]:
    """A plan over two assets, and a wire that fits between them."""
    unit = things.unit()
    source, target = things.active(unit), things.active(unit)
    for asset, name, direction in ((source, "out", "Output"), (target, "in", "Input")):
        port = {"name": name, "direction": direction, "signal_type": "TTL"}
        done(stage.admin.post(f"/assets/{asset}/ports/add", **port))
    wire = {"source_asset_id": source, "source_port_name": "out"}
    return things.plan(source, target), wire | {"target_asset_id": target, "target_port_name": "in"}


def test_an_edit_shows_and_the_version_keeps_its_hash(
    stage: Stage, wired: tuple[str, dict[str, str]]
) -> None:
    plan, wire = wired
    done(stage.admin.post(f"/plans/{plan}/version", version_tag="1"))
    versioned = done(stage.admin.get(f"/plans/{plan}"))
    done(stage.admin.post(f"/plans/{plan}/wires/add", **wire))
    shown = done(stage.admin.get(f"/plans/{plan}"))
    assert (versioned["modified"], shown["modified"]) == (False, True)
    assert shown["versioned_content_hash"] == versioned["content_hash"] != shown["content_hash"]


def test_a_deprecated_plan_refuses_every_edit_by_its_own_name(
    stage: Stage, wired: tuple[str, dict[str, str]]
) -> None:
    plan, wire = wired
    done(stage.admin.post(f"/plans/{plan}/deprecate", reason_kind="Obsolete", reason="moved"))
    edits: dict[str, tuple[str, dict[str, Any]]] = {
        "PlanCannotVersionError": ("version", {"version_tag": "9"}),
        "PlanCannotUpdateDefaultParametersError": (
            "update-default-parameters",
            {"default_parameters_patch": {}},
        ),
        "PlanCannotUpdateWindowError": ("update-window", {}),
        "PlanCannotAddWireError": ("wires/add", wire),
        "PlanCannotRemoveWireError": ("wires/remove", wire),
        "PlanCannotBindRoleError": (
            "role-bindings/bind",
            {"role_name": "camera", "asset_id": wire["source_asset_id"]},
        ),
        "PlanCannotUnbindRoleError": ("role-bindings/unbind", {"role_name": "camera"}),
    }
    codes = [refusal(stage.admin.post(f"/plans/{plan}/{path}", **body)) for path, body in edits.values()]
    assert codes == [(409, code) for code in edits]


# Recipes


def setpoint(value: Any) -> dict[str, Any]:
    return {"kind": "Setpoint", "address": SHUTTER, "value": value}


def define_recipe(stage: Stage, things: Things, *steps: Any, closing: Any = ()) -> httpx.Response:
    capability = things.capability(parameters_schema=schema(x=number("mm")))
    body = {"name": "Recipe", "capability_id": capability, "steps": steps, "closing_steps": closing}
    return stage.admin.post("/recipes", **body)


def test_every_version_of_a_recipe_stays_whole(stage: Stage, things: Things) -> None:
    recipe = done(define_recipe(stage, things, setpoint(True)))["recipe_id"]
    other = {"version_tag": "2", "steps": [setpoint(False), setpoint(True)], "closing_steps": []}
    done(stage.admin.post(f"/recipes/{recipe}/version", **other))
    values = {
        tag: [step["value"] for step in done(stage.admin.get(f"/recipes/{recipe}/versions/{tag}"))["steps"]]
        for tag in ("initial", "2")
    }
    assert values == {"initial": [True], "2": [False, True]}
    again = stage.admin.post(f"/recipes/{recipe}/version", **other)
    assert refusal(again) == (409, "RecipeVersionTagTakenError")


@pytest.mark.parametrize(
    "step",
    [
        setpoint({"target": {"__binding__": "x"}}),
        {"kind": "Action", "name": "scan", "params": {"start": {"__binding__": "x", "y": 1}}},
    ],
    ids=["hidden", "mixed"],
)
def test_a_reference_stands_alone_where_it_may(stage: Stage, things: Things, step: dict[str, Any]) -> None:
    answer = define_recipe(stage, things, setpoint(True), step)
    assert refusal(answer) == (400, "InvalidRecipeStepError")
    assert answer.json()["context"]["path"]


def test_a_binding_is_filled_in_by_the_preview(stage: Stage, things: Things) -> None:
    recipe = done(define_recipe(stage, things, setpoint({"__binding__": "x"})))["recipe_id"]
    preview = done(stage.admin.post(f"/recipes/{recipe}/preview", bindings={"x": 1.5}))
    assert "1.5" in str(preview) and "__binding__" not in str(preview)


CAPTURE = {"kind": "Capture", "address": SHUTTER, "capture_name": "before"}


def test_closing_steps_put_back_what_was_captured(stage: Stage, things: Things) -> None:
    closing = [setpoint({"__capture__": "before"})]
    assert define_recipe(stage, things, CAPTURE, setpoint(True), closing=closing).status_code == 201


def test_closing_steps_are_not_steered(stage: Stage, things: Things) -> None:
    answer = define_recipe(stage, things, setpoint(True), closing=[setpoint({"__steering__": "x"})])
    assert answer.status_code == 400 and answer.json()["code"] == "InvalidRecipeStepError"
