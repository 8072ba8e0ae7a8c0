"""Declared schemas: each rule with its place and keyword, in the order of the rules, for any input."""

import time
from typing import Any

import msgspec
import pytest

from beamwright.kernel.declared_schema import DIALECT, Schema, Unit, UnitChange, checked_schema, unit_changes
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.units import UnitSystem

CLOSED: dict[str, Any] = {"additionalProperties": False, "unevaluatedProperties": False}
KEV = {"system": "udunits", "code": "keV"}


class InvalidThingSchemaError(InvalidError):
    """The schema of the thing is malformed."""


def closed(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **CLOSED, **more}


def declared(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"$schema": DIALECT, **closed(properties, **more)}


def without(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != keyword}


def refused(schema: dict[str, Any]) -> tuple[str, str]:
    """Where and why a schema is refused."""
    with pytest.raises(InvalidThingSchemaError) as refusal:
        checked_schema(schema, InvalidThingSchemaError)
    assert refusal.value.detail.endswith(".")
    return refusal.value.context["path"], refusal.value.context["keyword"]


FULL = declared(
    {
        "energy": {"type": "number", "minimum": 5, "exclusiveMaximum": 40, "unit": KEV | {"label": "Energy"}},
        "positions": {"type": "array", "items": {"type": "number"}, "unit": {"system": "ucum", "code": "mm"}},
        "mode": {"enum": ["fast", "slow"], "title": "Mode", "description": "How fast."},
        "either": {"type": ["integer", "string"], "minLength": 1, "maxLength": 9, "pattern": "^[a-z]+$"},
        "acme.gain": {"type": "boolean", "const": True},
        "note": {"type": "string", "x-may-contain-personal-data": True},
        "stage": closed(
            {
                "speeds": {
                    "type": "array",
                    "items": {"type": "integer", "unit": KEV},
                    "minItems": 1,
                    "maxItems": 4,
                    "uniqueItems": True,
                }
            },
            required=["speeds"],
        ),
    },
    required=["energy"],
    title="All accepted keywords",
)


@pytest.mark.parametrize("schema", [{}, declared({}), FULL])
def test_a_schema_by_the_rules_is_given_back(schema: Schema) -> None:
    assert checked_schema(schema, InvalidThingSchemaError) is schema


def test_null_is_refused_with_a_way_out() -> None:
    with pytest.raises(InvalidThingSchemaError, match=r"declare {} for no constraint"):
        checked_schema(None, InvalidThingSchemaError)


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "object", **CLOSED}, ("", "$schema")),
        (declared({}) | {"$schema": "http://json-schema.org/draft-07/schema#"}, ("", "$schema")),
        (declared({}) | {"type": "array"}, ("", "type")),
        (declared({}) | {"type": ["object"]}, ("", "type")),
        ({"$schema": DIALECT}, ("", "type")),
        (declared({"a": {"$schema": DIALECT, "type": "string"}}), ("/properties/a", "$schema")),
    ],
)
def test_the_root_is_an_object_of_the_dialect(schema: Schema, place: tuple[str, str]) -> None:
    assert refused(schema) == place


@pytest.mark.parametrize(
    "keyword",
    ["$ref", "$dynamicRef", "$defs", "$id", "$anchor", "$comment", "oneOf", "anyOf", "allOf", "not", "if", "then", "else",
     "dependentSchemas", "dependentRequired", "patternProperties", "propertyNames", "prefixItems", "contains",
     "unevaluatedItems", "minProperties", "multipleOf", "default", "format", "examples", "deprecated", "x-other"],
)  # fmt: skip
def test_other_keywords_are_refused_at_every_level(keyword: str) -> None:
    assert refused(declared({}) | {keyword: {}}) == ("", keyword)
    nested = declared({"a": {"type": "array", "items": {"type": "string", keyword: {}}}})
    assert refused(nested) == ("/properties/a/items", keyword)


@pytest.mark.parametrize(
    ("node", "keyword"),
    [
        ({"type": "null"}, "type"),
        ({"type": ["string", "null"]}, "type"),
        ({"type": []}, "type"),
        ({"type": "float"}, "type"),
        ({"type": {"a": 1}}, "type"),
        ({"type": [["string"]]}, "type"),
        ({"enum": ["a", None]}, "enum"),
        ({"const": {"a": [None]}}, "const"),
        ({"type": "string", "x-may-contain-personal-data": "yes"}, "x-may-contain-personal-data"),
        ({"type": "object", "properties": [], **CLOSED}, "properties"),
    ],
)
def test_what_could_admit_null_or_is_no_type_is_refused(node: Any, keyword: str) -> None:
    assert refused(declared({"a": node})) == ("/properties/a", keyword)


@pytest.mark.parametrize("keyword", CLOSED)
@pytest.mark.parametrize("value", [None, True, {}, {"type": "string"}, 0])
def test_every_object_level_is_closed(keyword: str, value: Any) -> None:
    def loose(schema: dict[str, Any]) -> dict[str, Any]:
        return without(schema, keyword) | ({} if value is None else {keyword: value})

    assert refused(loose(declared({}))) == ("", keyword)
    assert refused(declared({"a": loose(closed({}))})) == ("/properties/a", keyword)
    nested = declared({"a": {"type": "array", "items": closed({"b": loose(closed({}))})}})
    assert refused(nested) == ("/properties/a/items/properties/b", keyword)


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"minimum": 1},
        {"type": ["string", "object"]},
        {"type": "object", "enum": [{"b": 1}]},
        {"enum": ["b"], "properties": {}},
        {"type": "string", "required": ["b"]},
        {"type": "string", "additionalProperties": {"type": "string"}},
    ],
)
def test_a_level_that_can_be_an_object_counts_as_one(node: dict[str, Any]) -> None:
    assert refused(declared({"a": node})) == ("/properties/a", "additionalProperties")


@pytest.mark.parametrize(
    ("node", "place"),
    [
        (True, ("/properties/a", "properties")),
        ([], ("/properties/a", "properties")),
        ({"type": "array", "items": True}, ("/properties/a", "items")),
        ({"type": "array", "items": [{"type": "string"}]}, ("/properties/a", "items")),
    ],
)
def test_a_level_is_an_object(node: Any, place: tuple[str, str]) -> None:
    assert refused(declared({"a": node})) == place


@pytest.mark.parametrize(
    "name",
    [
        "backend",
        "compatible",
        "",
        "Energy",
        "1st",
        "_a",
        "a-b",
        "a.b.c",
        "a.",
        ".a",
        "a.B",
        "é",
        "a\n",
        "a/b~c",
    ],
)
def test_property_names_are_plain_and_not_reserved(name: str) -> None:
    path = "/properties/" + name.replace("~", "~0").replace("/", "~1")
    assert refused(declared({name: {"type": "string"}})) == (path, "properties")
    nested = declared({"ok": {"type": "array", "items": closed({name: {"type": "string"}})}})
    assert refused(nested) == (f"/properties/ok/items{path}", "properties")


@pytest.mark.parametrize(
    "node",
    [
        {"type": "number", "unit": "keV"},
        {"type": "number", "unit": {"system": "udunits"}},
        {"type": "number", "unit": {"code": "keV"}},
        {"type": "number", "unit": {"system": "si", "code": "keV"}},
        {"type": "number", "unit": {"system": ["udunits"], "code": "keV"}},
        {"type": "number", "unit": {"system": "udunits", "code": 1}},
        {"type": "number", "unit": {"system": "udunits", "code": ""}},
        {"type": "number", "unit": {"system": "udunits", "code": "m" * 65}},
        {"type": "number", "unit": KEV | {"label": ""}},
        {"type": "number", "unit": KEV | {"label": None}},
        {"type": "number", "unit": KEV | {"label": "l" * 101}},
        {"type": "number", "unit": KEV | {"display": "eV"}},
        {"type": "string", "unit": KEV},
        {"type": ["number", "string"], "unit": KEV},
        {"enum": [1, 2], "unit": KEV},
        {"type": "array", "unit": KEV},
        {"type": "array", "items": {"type": "string"}, "unit": KEV},
        {"type": "array", "items": {"type": "array", "items": {"type": "number"}}, "unit": KEV},
        {"type": "number", "unit": {"system": "udunits", "code": "kev"}},
        {"type": "number", "unit": {"system": "ucum", "code": "degree"}},
    ],
)
def test_a_unit_is_whole_known_and_of_a_number(node: dict[str, Any]) -> None:
    assert refused(declared({"a": node})) == ("/properties/a", "unit")


@pytest.mark.parametrize("types", ["number", "integer", ["integer", "number"], ["number", "array"]])
def test_numbers_and_arrays_of_numbers_may_have_a_unit(types: Any) -> None:
    node = {"type": types, "items": {"type": ["number", "integer"]}, "unit": KEV}
    checked_schema(declared({"a": node}), InvalidThingSchemaError)


def chain(levels: int) -> dict[str, Any]:
    node: dict[str, Any] = {"type": "string"}
    for _ in range(levels - 2):
        node = {"type": "array", "items": node}
    return declared({"a": node})


def test_eight_levels_are_enough() -> None:
    checked_schema(chain(8), InvalidThingSchemaError)
    assert refused(chain(9)) == ("/properties/a" + "/items" * 7, "levels")


def test_two_hundred_properties_are_enough() -> None:
    def wide(count: int) -> dict[str, Any]:
        inner = closed({f"b{n}": {"type": "string"} for n in range(99)})
        return declared({"a": inner} | {f"p{n}": {"type": "string"} for n in range(count - 100)})

    checked_schema(wide(200), InvalidThingSchemaError)
    assert refused(wide(201)) == ("", "properties")


def test_sixty_four_kibibytes_are_enough() -> None:
    spare = 64 * 1024 - len(msgspec.json.encode(declared({}, description="")))
    checked_schema(declared({}, description="x" * spare), InvalidThingSchemaError)
    assert refused(declared({}, description="x" * (spare + 1))) == ("", "size")


@pytest.mark.parametrize(
    ("node", "place"),
    [
        ({"type": "number", "minimum": "5"}, ("/properties/a", "minimum")),
        ({"type": "number", "minimum": True}, ("/properties/a", "minimum")),
        ({"type": "string", "minLength": -1}, ("/properties/a", "minLength")),
        ({"type": "string", "title": 1}, ("/properties/a", "title")),
        ({"type": ["string", "string"]}, ("/properties/a", "type")),
        ({"type": "array", "items": {"type": "string", "enum": "x"}}, ("/properties/a/items", "enum")),
        (closed({"b": closed({}, required="b")}), ("/properties/a/properties/b", "required")),
        (closed({}, required=["b", 1]), ("/properties/a", "required")),
    ],
)
def test_a_schema_compiles(node: dict[str, Any], place: tuple[str, str]) -> None:
    assert refused(declared({"a": node})) == place


@pytest.mark.parametrize("pattern", ["(?=a)", "(?<!a)b", r"(a)\1", "(", "a{2000}{2000}", r"\p{L}{1,900}", 1])
def test_a_pattern_is_a_small_regular_expression(pattern: Any) -> None:
    assert refused(declared({"a": {"type": "string", "pattern": pattern}})) == ("/properties/a", "pattern")


def test_an_unusable_pattern_says_why() -> None:
    with pytest.raises(InvalidThingSchemaError, match="without lookaround and back references"):
        checked_schema(declared({"a": {"type": "string", "pattern": "(?=a)"}}), InvalidThingSchemaError)


@pytest.mark.parametrize("number", [10**400, -(10**400), 2**64, 1.7976931348623157e308])
def test_bounds_of_any_size_are_accepted(number: float) -> None:
    node = {"type": "number", "minimum": number, "maximum": number, "const": number}
    checked_schema(declared({"a": node}), InvalidThingSchemaError)


# Rule by rule, a schema that breaks it; each also breaks all rules after it.
LAST_FIRST = [
    ("minimum", lambda schema: schema["properties"].update(c={"type": "number", "minimum": "x"})),
    ("unit", lambda schema: schema["properties"].update(b={"type": "string", "unit": KEV})),
    ("properties", lambda schema: schema["properties"].update(backend={"type": "string"})),
    ("unevaluatedProperties", lambda schema: schema.pop("unevaluatedProperties")),
    ("$ref", lambda schema: schema["properties"].update(a={"$ref": "#"})),
    ("$schema", lambda schema: schema.pop("$schema")),
    ("type", lambda schema: schema.pop("type")),
]  # fmt: skip


@pytest.mark.parametrize("count", range(1, len(LAST_FIRST) + 1))
def test_the_first_broken_rule_is_named(count: int) -> None:
    schema = declared({})
    for _, breaks in LAST_FIRST[:count]:
        breaks(schema)
    assert refused(schema)[1] == LAST_FIRST[count - 1][0]


@pytest.mark.parametrize(
    "wrap", [lambda node: {"a": node}, lambda node: [node], lambda node: {"items": node}]
)
def test_any_depth_is_refused_and_not_recursed_into(wrap: Any) -> None:
    node: Any = {}
    for _ in range(10_000):
        node = wrap(node)
    assert refused(declared({"a": {"const": node}})) == ("", "levels")
    assert refused({"items": node}) == ("", "levels")


def test_a_huge_schema_is_refused_quickly() -> None:
    huge = declared(
        {f"p{n}": {"type": "number", "unit": {"system": "ucum", "code": f"m{n}"}} for n in range(20_000)}
    )
    start = time.thread_time()
    assert refused(huge) == ("", "size")
    assert time.thread_time() - start < 1


def test_a_full_schema_is_checked_quickly() -> None:
    full = declared({f"p{n}": {"type": "number", "unit": KEV, "description": "x" * 200} for n in range(200)})
    start = time.thread_time()
    checked_schema(full, InvalidThingSchemaError)
    assert time.thread_time() - start < 0.5


def unit(code: str, label: str | None = None) -> Unit:
    return Unit(system=UnitSystem.UDUNITS, code=code, label=label)


def measured(code: str | None, **more: Any) -> dict[str, Any]:
    return {"type": "number"} | ({"unit": {"system": "udunits", "code": code, **more}} if code else {})


@pytest.mark.parametrize(
    ("was", "now", "change"),
    [
        (measured("ms"), measured("s"), (unit("ms"), unit("s"))),
        (measured("ms"), measured(None), (unit("ms"), None)),
        (measured(None), measured("s"), (None, unit("s"))),
        (measured("mm"), {"type": "number", "unit": {"system": "ucum", "code": "mm"}},
         (unit("mm"), Unit(system=UnitSystem.UCUM, code="mm"))),
        (measured("ms"), {"type": "string"}, (unit("ms"), None)),
        (measured("ms", label="a"), measured("s", label="b"), (unit("ms", "a"), unit("s", "b"))),
    ],
)  # fmt: skip
def test_a_changed_gained_or_lost_unit_is_found(was: Any, now: Any, change: tuple[Unit, Unit]) -> None:
    found = unit_changes(declared({"exposure": was}), declared({"exposure": now}))
    assert found == [UnitChange(path="/exposure", was=change[0], now=change[1])]


def test_units_are_compared_at_any_depth_in_the_order_of_their_paths() -> None:
    def deep(code: str) -> Schema:
        speeds = {"type": "array", "items": measured(code)}
        return declared(
            {"z": measured(code), "stage": closed({"speeds": speeds, "acme.gain": measured(code)})}
        )

    paths = [change.path for change in unit_changes(deep("mm"), deep("um"))]
    assert paths == ["/stage/acme.gain", "/stage/speeds/*", "/z"]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (declared({"a": measured("mm")}), declared({"a": measured("mm", label="new")})),
        (declared({"a": measured("mm")}), declared({"b": measured("um")})),
        (declared({"a": measured("mm")}), {}),
        (None, declared({"a": measured("mm")})),
        (None, None),
    ],
)
def test_labels_and_new_or_dropped_properties_change_no_unit(was: Schema | None, now: Schema | None) -> None:
    assert unit_changes(was, now) == []
