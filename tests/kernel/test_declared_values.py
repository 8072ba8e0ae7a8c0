"""Values against declared schemas: the carrier rule, what a refusal says, and stale units."""

import time
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamwright.kernel.declared_schema import Schema, UnitChange, compiled
from beamwright.kernel.declared_values import (
    Violation,
    check_values,
    not_restated,
    stale_units,
    violations,
)
from beamwright.kernel.errors import InvalidError
from tests.kernel.test_declared_schema import closed, declared, measured, unit


class InvalidThingParametersError(InvalidError):
    """The parameters of the thing do not fit."""


def check(schema: Schema | None, values: dict[str, Any]) -> None:
    check_values(schema, values, InvalidThingParametersError, declare_with="version_method")


def refusal(schema: Schema | None, values: dict[str, Any]) -> InvalidError:
    with pytest.raises(InvalidThingParametersError) as refused:
        check(schema, values)
    return refused.value


SCHEMA = declared(
    {"energy": {"type": "number", "minimum": 5}, "exposure": measured("s")}, required=["energy"]
)


@pytest.mark.parametrize("schema", [None, {}, SCHEMA])
def test_no_values_pass_whatever_is_declared_or_required(schema: Schema | None) -> None:
    check(schema, {})


def test_values_without_a_schema_are_refused_with_their_keys_and_a_way_out() -> None:
    refused = refusal(None, {"exposure": 1, "energy": 20})
    assert refused.detail == (
        "No schema is declared for energy, exposure: declare one with version_method, or {} for no constraint."
    )
    assert refused.context == {"keys": ["energy", "exposure"]}


@pytest.mark.parametrize("values", [{"a": 1}, {"Anything at all": [{"b/c": {}}, 10**400]}])
def test_an_empty_schema_admits_any_values(values: dict[str, Any]) -> None:
    check({}, values)


def test_values_that_meet_the_schema_pass() -> None:
    check(SCHEMA, {"energy": 20, "exposure": 0.1})
    check_values(SCHEMA, MappingProxyType({"energy": 20}), InvalidThingParametersError, declare_with="x")


def test_a_missing_key_is_reported_where_it_is_missing() -> None:
    refused = refusal(SCHEMA, {"exposure": 0.1})
    assert refused.detail == "/energy is required."
    assert refused.context["violations"] == [
        {"path": "/energy", "keyword": "required", "expected": "present", "actual": None}
    ]


def one(node: dict[str, Any], value: Any) -> Violation:
    """The single violation of one property, with its sentence checked to be one."""
    (violation,) = violations(declared({"a": node}), {"a": value})
    assert violation.sentence().startswith(f"{violation.path} ")
    return violation


@pytest.mark.parametrize(
    ("node", "value", "sentence"),
    [
        ({"type": "number"}, "fast", "/a must be of type number, not fast."),
        ({"type": ["integer", "string"]}, 1.5, "/a must be of type integer, string, not 1.5."),
        ({"type": "number"}, True, "/a must be of type number, not true."),
        ({"type": "number"}, None, "/a must be of type number, not null."),
        ({"enum": ["x", 2]}, "z", "/a must be one of x, 2, not z."),
        ({"const": 1}, True, "/a must be 1, not true."),
        ({"type": "number", "minimum": 5}, 3, "/a must be at least 5, not 3."),
        ({"type": "number", "exclusiveMinimum": 5}, 5.0, "/a must be more than 5, not 5.0."),
        ({"type": "number", "maximum": 5}, 6, "/a must be at most 5, not 6."),
        ({"type": "number", "exclusiveMaximum": 5}, 5, "/a must be less than 5, not 5."),
        ({"type": "string", "minLength": 2}, "é", "/a must have at least 2 characters, not 1."),
        ({"type": "string", "maxLength": 1}, "ab", "/a may have at most 1 characters, not 2."),
        ({"type": "string", "pattern": "^[a-z]+$"}, "A{0}", "/a must match ^[a-z]+$, unlike A{0}."),
        ({"type": "array", "minItems": 1}, [], "/a must have at least 1 items, not 0."),
        ({"type": "array", "maxItems": 1}, [1, 2], "/a may have at most 1 items, not 2."),
        ({"type": "array", "uniqueItems": True}, [1, 1.0], "/a must not hold an item twice."),
        ({"type": "array", "items": {"type": "string"}}, ["x", 2], "/a/1 must be of type string, not 2."),
        (closed({"b": measured("s")}), {"c/d": 1}, "/a/c~1d is not declared; declared are b."),
        (closed({}, required=["b"]), {}, "/a/b is required."),
    ],
)
def test_a_violation_is_said_in_plain_words(node: dict[str, Any], value: Any, sentence: str) -> None:
    assert one(node, value).sentence() == sentence


@pytest.mark.parametrize(
    ("node", "value"),
    [
        ({"const": 1}, 1.0),
        ({"enum": [[1, {"b": 2.0}]]}, [1.0, {"b": 2}]),
        ({"type": "integer"}, 3.0),
        ({"type": "array", "uniqueItems": True}, [0, False, "0"]),
        ({"type": "integer", "minimum": 10**400}, 10**400),
        ({"type": "number", "maximum": 10**400}, 1e308),
        ({"type": "number", "unit": {"system": "udunits", "code": "mm"}}, 1),
    ],
)
def test_numbers_are_compared_by_value_and_booleans_are_none(node: dict[str, Any], value: Any) -> None:
    check(declared({"a": node}), {"a": value})


def test_an_integer_beyond_every_double_is_compared_exactly() -> None:
    assert one({"type": "number", "minimum": 10**400}, 10**400 - 1).keyword == "minimum"


def test_violations_are_ordered_by_pointer_then_keyword() -> None:
    schema = declared(
        {
            "b": {"type": "string", "pattern": "^x", "maxLength": 1},
            "a": closed({"x": {"type": "number"}}, required=["y"]),
            "a.b": {"type": "number"},
        },
        required=["c"],
    )
    found = violations(schema, {"b": "abc", "a": {"x": "1", "z": 1}, "a.b": "1", "d": 1})
    assert [(each.path, each.keyword) for each in found] == [
        ("/a.b", "type"),
        ("/a/x", "type"),
        ("/a/y", "required"),
        ("/a/z", "additionalProperties"),
        ("/b", "maxLength"),
        ("/b", "pattern"),
        ("/c", "required"),
        ("/d", "additionalProperties"),
    ]


def test_twenty_violations_are_listed() -> None:
    refused = refusal(SCHEMA, {f"unknown{n:02}": n for n in range(50)})
    assert [each["path"] for each in refused.context["violations"]] == [
        "/energy",
        *[f"/unknown{n:02}" for n in range(19)],
    ]


def test_the_items_listed_are_the_first_by_pointer() -> None:
    found = violations(declared({"a": {"type": "array", "items": {"type": "string"}}}), {"a": [1] * 300})
    assert [each.path for each in found] == sorted(f"/a/{index}" for index in range(300))[:20]


@pytest.mark.parametrize("values", [{"a": None}, {"a": [1, None]}, {"a": {"b": {"c": None}}}])
def test_null_is_never_a_value_even_where_anything_goes(values: dict[str, Any]) -> None:
    (violation,) = violations({}, values)
    assert (violation.keyword, violation.actual) == ("type", None)


@pytest.mark.parametrize("value", ["x" * 10_000, ["x"] * 10_000, {f"k{n}": 1 for n in range(999)}, 10**900])
def test_what_is_large_is_described_and_not_repeated(value: Any) -> None:
    assert len(one({"type": "boolean"}, value).actual) < 600


def test_values_of_any_depth_are_refused_and_not_recursed_into() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"a": deep}
    for schema in ({}, declared({"a": closed({})})):
        assert refusal(schema, deep).context["violations"][0]["keyword"] == "levels"


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (declared({f"p{n}": measured("s") for n in range(199)} | {"a": {"type": "array"}},
                  required=[f"p{n}" for n in range(199)]), {"a": [1] * 300_000}),
        (declared({"a": {"type": "array", "items": {"type": "string"}}}), {"a": [1] * 300_000}),
        (declared({}), {f"k{n}": n for n in range(100_000)}),
        (declared({"a": {"type": "array", "uniqueItems": True}}), {"a": [[1]] * 100_000}),
        (declared({"a": {"type": "string", "pattern": "^(a+a+)+$"}}), {"a": "a" * 1_000_000 + "b"}),
    ],
)  # fmt: skip
def test_no_values_take_long(schema: Schema, values: dict[str, Any]) -> None:
    start = time.thread_time()
    assert violations(schema, values)
    assert time.thread_time() - start < 3


def test_checking_valid_values_again_is_cheap() -> None:
    values = {"energy": 20, "exposure": 0.1}
    check(SCHEMA, values)
    start = time.thread_time()
    for _ in range(1_000):
        check(SCHEMA, values)
    assert time.thread_time() - start < 0.5


anything = st.recursive(
    st.booleans() | st.integers(-2, 4) | st.sampled_from([0.5, 1.0, "", "a", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
levels = st.recursive(
    st.sampled_from(
        [
            {"type": "number", "minimum": 0, "exclusiveMaximum": 3},
            {"type": "integer", "maximum": 2},
            {"type": ["string", "boolean"], "minLength": 1, "maxLength": 1, "pattern": "a"},
            {"enum": [1, "a", [1]]},
            {"const": {"a": 1}},
            {"minimum": 1, "maxLength": 1, "maxItems": 1, "additionalProperties": False},
        ]
    ),
    lambda inner: st.one_of(
        st.builds(
            lambda items, unique: {"type": "array", "items": items, "uniqueItems": unique, "minItems": 1},
            inner,
            st.booleans(),
        ),
        st.builds(
            lambda properties, required: closed(properties, required=sorted(required)),
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.sets(st.sampled_from("abc"), max_size=2),
        ),
    ),
    max_leaves=5,
)


@settings(deadline=None)
@given(level=levels, value=anything)
def test_there_are_violations_exactly_when_the_validator_finds_some(level: Any, value: Any) -> None:
    schema, values = declared({"a": level}), {"a": value}
    found = violations(schema, values)
    assert (not found) is compiled(schema).is_valid(values)
    assert [(each.path, each.keyword) for each in found] == sorted(
        {(each.path, each.keyword) for each in found}
    )


@settings(deadline=None)
@given(level=levels, value=anything)
def test_the_validator_finds_every_keyword_that_is_named(level: Any, value: Any) -> None:
    schema, values = declared({"a": level}), {"a": value}
    # Where nothing is declared it calls an unknown key a false schema, and may call a given one missing.
    named = {error.kind.name for error in compiled(schema).iter_errors(values)}
    known = {"additionalProperties" if name == "falseSchema" else name for name in named}
    found = {each.keyword for each in violations(schema, values)}
    assert found - {"required"} == known - {"required", "unevaluatedProperties"}
    assert "required" not in found - known


MILLI, WHOLE = (
    declared({"exposure": measured("ms"), "energy": measured("keV")}),
    declared({"exposure": measured("s"), "energy": measured("keV")}),
)
EXPOSURE = UnitChange(path="/exposure", was=unit("ms"), now=unit("s"))


def test_a_stored_value_whose_unit_changed_is_stale() -> None:
    assert stale_units(MILLI, WHOLE, {"exposure": 100, "energy": 20}) == [EXPOSURE]
    assert stale_units(MILLI, WHOLE, {"energy": 20}) == []
    assert stale_units(MILLI, MILLI, {"exposure": 100}) == []
    assert stale_units(None, WHOLE, {"exposure": 100}) == []


@pytest.mark.parametrize(
    ("values", "stale"),
    [
        ({"stage": {"speeds": [1, 2]}}, ["/stage/speeds/*"]),
        ({"stage": {"speeds": []}}, []),
        ({"stage": {"speed": 1}}, ["/stage/speed"]),
        ({"stage": {}}, []),
    ],
)
def test_values_are_stale_at_any_depth(values: dict[str, Any], stale: list[str]) -> None:
    def stage(code: str) -> Schema:
        speeds = {"type": "array", "items": measured(code)}
        return declared({"stage": closed({"speed": measured(code), "speeds": speeds})})

    assert [change.path for change in stale_units(stage("mm"), stage("um"), values)] == stale


@pytest.mark.parametrize(
    ("patch", "restated"),
    [
        ({"exposure": 0.1}, True),
        ({"exposure": None}, True),
        ({"energy": 5}, False),
        ({}, False),
    ],
)
def test_a_patch_restates_what_it_writes_or_deletes(patch: dict[str, Any], restated: bool) -> None:
    assert not_restated([EXPOSURE], patch) == ([] if restated else [EXPOSURE])


@pytest.mark.parametrize(
    ("patch", "restated"),
    [
        ({"stage": {"speeds": [3]}}, True),
        ({"stage": {"speeds": None}}, True),
        ({"stage": None}, True),
        ({"stage": {"other": 1}}, False),
        ({"stage": {}}, False),
    ],
)
def test_a_patch_restates_what_lies_in_what_it_replaces(patch: dict[str, Any], restated: bool) -> None:
    change = UnitChange(path="/stage/speeds/*", was=unit("mm"), now=unit("um"))
    assert not_restated([change], patch) == ([] if restated else [change])
