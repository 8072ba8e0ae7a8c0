"""Subsets of schemas: each rule, and that no value ever passes the inner schema and fails the outer."""

from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from beamwright.kernel.declared_schema import Schema, checked_schema, compiled_once
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.schema_subset import Difference, first_difference
from tests.kernel.test_declared_schema import CLOSED, closed, declared, measured, without

KEV = {"system": "udunits", "code": "keV"}
EV = {"system": "udunits", "code": "eV"}


def energy(**keywords: Any) -> Schema:
    return declared({"energy": {"type": "number", "unit": KEV, **keywords}})


CAPABILITY = energy(minimum=5, maximum=40)


def test_a_missing_bound_is_named_with_its_place() -> None:
    assert first_difference(energy(maximum=30), CAPABILITY) == Difference(
        path="/properties/energy", keyword="minimum", inner=None, outer=5
    )


@pytest.mark.parametrize(
    "inner", [energy(minimum=10, maximum=30), energy(minimum=10, maximum=30, type="integer")]
)
def test_a_narrower_range_is_within(inner: Schema) -> None:
    assert first_difference(inner, CAPABILITY) is None


def test_another_unit_is_not_within() -> None:
    difference = first_difference(energy(minimum=10, maximum=30, unit=EV), CAPABILITY)
    assert difference == Difference(path="/properties/energy", keyword="unit", inner=EV, outer=KEV)


@pytest.mark.parametrize("inner", [{}, CAPABILITY])
def test_everything_is_within_the_empty_schema(inner: Schema) -> None:
    assert first_difference(inner, {}) is None


def test_the_empty_schema_is_within_no_other() -> None:
    assert first_difference({}, declared({})) == Difference(
        path="", keyword="type", inner=None, outer="object"
    )


# keyword of the difference, or `-` for none; the inner level; the outer level
RULES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # Listed values speak for themselves.
    ("-", {"enum": [1, 2]}, {"type": "number", "maximum": 2}),
    ("enum", {"enum": [1, 3]}, {"type": "number", "maximum": 2}),
    ("-", {"const": "a"}, {"type": "string", "minLength": 1}),
    ("const", {"const": ""}, {"type": "string", "minLength": 1}),
    ("-", {"enum": [1.0]}, {"enum": [1]}),
    ("enum", {"enum": [True]}, {"enum": [1]}),
    ("-", {"type": "integer", "enum": [1, "a"]}, {"type": "integer"}),
    ("-", {"enum": [1, 2], "const": 1}, {"const": 1}),
    ("unit", {"type": "number", "enum": [1]}, {"type": "number", "unit": KEV}),
    ("-", {"type": "number", "enum": [1], "unit": KEV}, {"type": "number", "unit": KEV}),
    # Types.
    ("type", {"type": "string"}, {"type": "number"}),
    ("type", {"type": ["number", "string"]}, {"type": "number"}),
    ("type", CLOSED, {"type": "number"}),
    ("type", CLOSED, {"type": ["object", "array", "string", "number", "integer", "boolean"], **CLOSED}),
    ("type", {"type": "number"}, {"type": "integer"}),
    ("-", {"type": "integer"}, {"type": "number"}),
    ("-", {"type": "number"}, {"type": ["number", "string"]}),
    ("-", {"type": "number"}, CLOSED),
    # The outer lists values.
    ("enum", {"type": "integer", "minimum": 1, "maximum": 1}, {"enum": [1]}),
    ("const", {"type": "boolean"}, {"const": True}),
    # Bounds.
    ("-", {"type": "number", "minimum": 5}, {"type": "number", "minimum": 5}),
    ("-", {"type": "number", "exclusiveMinimum": 5}, {"type": "number", "minimum": 5}),
    ("exclusiveMinimum", {"type": "number", "minimum": 5}, {"type": "number", "exclusiveMinimum": 5}),
    ("-", {"type": "number", "minimum": 5.5}, {"type": "number", "exclusiveMinimum": 5}),
    ("-", {"type": "number", "exclusiveMaximum": 5}, {"type": "number", "maximum": 5}),
    ("exclusiveMaximum", {"type": "number", "maximum": 5}, {"type": "number", "exclusiveMaximum": 5}),
    ("-", {"type": "number", "maximum": 4}, {"type": "number", "exclusiveMaximum": 5}),
    ("maximum", {"type": "number", "minimum": 5}, {"type": "number", "maximum": 9}),
    ("minimum", {"type": "number", "minimum": 2**53}, {"type": "number", "minimum": 2**53 + 1}),
    ("-", {"type": "number", "maximum": 1e308}, {"type": "number", "maximum": 10**400}),
    ("maximum", {"type": "number", "maximum": 10**400}, {"type": "number", "maximum": 1e308}),
    ("-", {"type": "string"}, {"type": ["string", "number"], "minimum": 5}),
    ("minimum", {"type": ["string", "integer"]}, {"type": ["string", "number"], "minimum": 5}),
    # Lengths.
    ("-", {"type": "string", "minLength": 2, "maxLength": 3}, {"type": "string", "minLength": 1, "maxLength": 3}),
    ("minLength", {"type": "string", "minLength": 1}, {"type": "string", "minLength": 2}),
    ("maxLength", {"type": "string"}, {"type": "string", "maxLength": 2}),
    ("minItems", {"type": "array"}, {"type": "array", "minItems": 0}),
    ("maxItems", {"type": "array", "maxItems": 3}, {"type": "array", "maxItems": 2}),
    ("-", {"type": "number"}, {"type": ["number", "string", "array"], "minLength": 2, "maxItems": 2}),
    # The same or nothing.
    ("-", {"type": "string", "pattern": "a"}, {"type": "string", "pattern": "a"}),
    ("pattern", {"type": "string", "pattern": "aa"}, {"type": "string", "pattern": "a"}),
    ("pattern", {"type": "string"}, {"type": "string", "pattern": "a"}),
    ("uniqueItems", {"type": "array"}, {"type": "array", "uniqueItems": True}),
    ("-", {"type": "array", "uniqueItems": True}, {"type": "array"}),
    ("-", {"type": "array"}, {"type": "array", "uniqueItems": False}),
    # Items.
    ("items", {"type": "array"}, {"type": "array", "items": {"type": "string"}}),
    ("type", {"type": "array", "items": {"type": "number"}}, {"type": "array", "items": {"type": "string"}}),
    ("-", {"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "number"}}),
    # Properties.
    ("properties", closed({"b": {"type": "string"}}), closed({"a": {"type": "string"}})),
    ("-", closed({}), closed({"a": {"type": "string"}})),
    ("type", closed({"a": {"type": "string"}}), closed({"a": {"type": "number"}})),
    ("additionalProperties", {"type": "object"}, closed({})),
    ("required", closed({"a": {"type": "string"}}), closed({"a": {"type": "string"}}, required=["a"])),
    ("-", closed({"a": {"type": "string"}}, required=["a"]), closed({"a": {"type": "string"}})),
    # Units, also of numbers within listed values.
    ("unit", measured(None), measured("keV")),
    ("-", measured("keV"), measured(None)),
    ("-", measured("keV", label="x"), measured("keV", label="y")),
    ("unit", closed({"a": measured("eV")}, const={"a": 1}), closed({"a": measured("keV")})),
    ("unit", {"enum": [{"a": 1}]}, closed({"a": measured("keV")})),
    ("unit", {"enum": [[1]]}, {"type": "array", "items": measured("keV")}),
    ("-", {"enum": [{}, []]}, {"type": ["object", "array"], "items": measured("keV"), **closed({"a": measured("keV")})} | {"type": ["object", "array"]}),
    ("-", {"type": "string", "title": "x"}, {"type": "string", "title": "y", "x-may-contain-personal-data": True}),
]  # fmt: skip


@pytest.mark.parametrize(("keyword", "inner", "outer"), RULES)
def test_each_rule(keyword: str, inner: dict[str, Any], outer: dict[str, Any]) -> None:
    difference = first_difference(declared({"a": inner}), declared({"a": outer}))
    assert (difference.keyword if difference else "-") == keyword


def test_the_first_property_by_name_and_the_first_rule_are_named() -> None:
    outer = declared(
        {"b": {"type": "number", "minimum": 1, "unit": KEV}, "a": {"type": "array", "items": measured("s")}}
    )
    inner = declared({"b": {"type": "number"}, "a": {"type": "array", "items": measured("ms")}})
    difference = first_difference(inner, outer)
    assert difference is not None
    assert (difference.path, difference.keyword) == ("/properties/a/items", "unit")


def test_a_listed_value_is_shown_with_what_refuses_it() -> None:
    difference = first_difference(
        declared({"a": {"enum": [1, 9]}}), declared({"a": {"type": "number", "maximum": 5}})
    )
    assert difference == Difference(path="/properties/a", keyword="enum", inner=9, outer={"maximum": 5})


# Levels over a world so small that all its values can be tried, and that unrelated ones are often within another.

NUMBERS = [-1, 0, 0.5, 1, 2, 2**53, 2**53 + 1, 10**400]
TEXTS = ["", "a", "ab", "é"]
FEW = [True, 1, 2, "a"]
ITEMS = [
    [],
    *([each] for each in [*NUMBERS, *TEXTS, True]),
    *map(list, product(FEW, FEW)),
    [1, 1.0],
    [[1]],
    [{"a": 1}],
]
MEMBERS = [
    {},
    *({name: each} for name in "ab" for each in [*NUMBERS, *TEXTS, True]),
    *({"a": one, "b": other} for one, other in product(FEW, FEW)),
    {"a": []},
    {"a": [1]},
    {"b": {"a": 1}},
    {"c": 1},
]
POOL: list[Any] = [True, False, *NUMBERS, *TEXTS, *ITEMS, *MEMBERS]

numbers, counts, names = st.sampled_from(NUMBERS), st.integers(0, 2), st.sampled_from("ab")
listed = st.sampled_from(POOL)
types = st.sampled_from(["object", "array", "string", "number", "integer", "boolean"])
units = st.sampled_from([KEV, EV, KEV | {"label": "x"}])

ORDINARY = {
    "minimum": numbers,
    "maximum": numbers,
    "exclusiveMinimum": numbers,
    "exclusiveMaximum": numbers,
    "minLength": counts,
    "maxLength": counts,
    "pattern": st.sampled_from(["a", "^a$"]),
    "minItems": counts,
    "maxItems": counts,
    "uniqueItems": st.booleans(),
    "required": st.lists(names, max_size=2, unique=True),
}
LISTING = {"enum": st.lists(listed, min_size=1, max_size=3), "const": listed}
KEYWORDS = ORDINARY | LISTING | {"type": types | st.lists(types, min_size=1, max_size=3, unique=True)}

patient = partial(settings, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def levels(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    """A level with a few keywords, closed whatever its type."""
    keywords = draw(st.lists(st.sampled_from(sorted(ORDINARY)), max_size=3, unique=True))
    node = CLOSED | {keyword: draw(ORDINARY[keyword]) for keyword in keywords}
    for keyword, chance in (("type", 5), ("enum", 1), ("const", 1)):
        if draw(st.integers(0, 5)) < chance:
            node[keyword] = draw(KEYWORDS[keyword])
    if node.get("type") in ("number", "integer") and draw(st.booleans()):
        node["unit"] = draw(units)
    if depth and draw(st.booleans()):
        node["items"] = draw(levels(depth - 1))
    if depth and draw(st.booleans()):
        node["properties"] = draw(st.dictionaries(names, levels(depth - 1), max_size=2))
    return node


@st.composite
def edited(draw: st.DrawFn, node: dict[str, Any]) -> dict[str, Any]:
    """A level that differs in one keyword, here or below."""
    place = draw(st.sampled_from(["here", *(each for each in ("items", "properties") if node.get(each))]))
    if place == "items":
        return node | {"items": draw(edited(node["items"]))}
    if place == "properties":
        name = draw(st.sampled_from(sorted(node["properties"])))
        return node | {"properties": node["properties"] | {name: draw(edited(node["properties"][name]))}}
    given = sorted(node.keys() - CLOSED.keys() - {"type"})
    if given and draw(st.booleans()):
        return without(node, draw(st.sampled_from(given)))
    keyword = draw(st.sampled_from([*given, *KEYWORDS]).filter(KEYWORDS.__contains__))
    return without(node, "unit") | {keyword: draw(KEYWORDS[keyword])}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Schema, Schema]:
    """Two schemas: one edited into the other, in either direction, or unrelated."""
    one = draw(levels())
    match draw(st.sampled_from(["apart", "inner", "inner", "outer", "outer"])):
        case "apart":
            inner, outer = one, draw(levels())
        case "inner":
            inner, outer = draw(edited(one)), one
        case _:
            inner, outer = one, draw(edited(one))
    return declared({"a": inner}), declared({"a": outer})


def small_levels() -> list[dict[str, Any]]:
    """Every keyword at a few values, alone and in the company that its rule is about."""
    every = ["object", "array", "string", "number", "integer", "boolean"]
    bounds = [{keyword: bound} for keyword in list(ORDINARY)[:4] for bound in (0, 0.5, 1)]
    lengths = [{keyword: count} for keyword in ("minLength", "maxLength") for count in range(3)]
    counts = [{keyword: count} for keyword in ("minItems", "maxItems") for count in range(3)]
    items = [{"items": {"type": name}} for name in ("integer", "number", "string")]
    a, b = {"a": {"type": "number"}}, {"b": {"type": "string"}}
    whole = {"a": {"type": "integer"}}
    members = [{"properties": each} for each in ({}, a, whole, b, a | b)]
    members += [{"properties": a | b, "required": each} for each in (["a"], ["b"], ["a", "b"])]
    typed: list[tuple[Any, list[dict[str, Any]]]] = [
        ("number", [*bounds, {"minimum": 0, "exclusiveMaximum": 1}, {"exclusiveMinimum": 0, "maximum": 1}]),
        ("integer", bounds),
        ("string", [*lengths, {"pattern": "a"}, {"pattern": "^a$"}]),
        ("array", [*counts, *items, {"uniqueItems": True}, {"uniqueItems": False}]),
        ("object", members),
        ("boolean", []),
        (["integer", "string"], [{"minimum": 1}, {"minLength": 1}]),
        (["number", "array", "object"], [{"minimum": 1}, {"maxItems": 1}, members[1], members[5]]),
        (every, [{"minimum": 1}, {"maxLength": 1}]),
    ]
    listing: list[dict[str, Any]] = [
        {"enum": each} for each in ([1], [1, 2], [1, "a"], [True], [{"a": 1}, []])
    ]
    listing += [{"const": each} for each in (1, 1.0, True, "a", {"a": 1})]
    untyped = [CLOSED | each for each in ({}, {"minimum": 1}, {"minLength": 1}, members[1], items[0])]
    return (
        listing + untyped + [CLOSED | {"type": name} | each for name, more in typed for each in ({}, *more)]
    )


def test_no_pair_of_small_schemas_is_judged_wrongly() -> None:
    tried = [(declared({"a": level}), compiled_once(level)) for level in small_levels()]
    passed = [{index for index, value in enumerate([None, *POOL]) if it.is_valid(value)} for _, it in tried]
    wrong = [
        (inner, outer)
        for (inner, _), inside in zip(tried, passed, strict=True)
        for (outer, _), outside in zip(tried, passed, strict=True)
        if first_difference(inner, outer) is None and not inside <= outside
    ]
    assert wrong == []


@patient(max_examples=300)
@given(pair=pairs())
def test_whatever_passes_the_inner_passes_the_outer(pair: tuple[Schema, Schema]) -> None:
    inner, outer = pair
    if first_difference(inner, outer) is None:
        accepts, covers = compiled_once(inner).is_valid, compiled_once(outer).is_valid
        passed = [value for value in POOL if accepts({"a": value})]
        event(f"within, with values: {bool(passed)}")
        assert [value for value in passed if not covers({"a": value})] == []


@patient()
@given(level=levels())
def test_a_schema_is_within_itself(level: dict[str, Any]) -> None:
    assert first_difference(declared({"a": level}), declared({"a": level})) is None


@patient()
@given(data=st.data(), level=levels())
def test_within_is_transitive(data: st.DataObject, level: dict[str, Any]) -> None:
    middle = data.draw(edited(level))
    inner, middle, outer = (declared({"a": each}) for each in (data.draw(edited(middle)), middle, level))
    if first_difference(inner, middle) is None and first_difference(middle, outer) is None:
        assert first_difference(inner, outer) is None


@patient()
@given(pair=pairs())
def test_the_schemas_tried_here_are_declared_schemas(pair: tuple[Schema, Schema]) -> None:
    for schema in pair:
        assert checked_schema(schema, InvalidError) is schema
