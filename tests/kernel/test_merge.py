"""Merge patches: the examples of RFC 7396, and that nothing given is ever changed."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamwright.kernel.merge import merged

# Appendix A of RFC 7396, where both sides are objects.
EXAMPLES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ({"a": "foo"}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    ({"a": [1, None]}, {"a": [None]}, {"a": [None]}),
]

json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)
objects = st.dictionaries(st.sampled_from("abc"), json, max_size=3)


@pytest.mark.parametrize(("target", "patch", "result"), EXAMPLES)
def test_a_patch_merges_as_the_standard_says(
    target: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]
) -> None:
    assert merged(target, patch) == result


@settings(deadline=None)
@given(target=objects, patch=objects)
def test_neither_side_is_changed(target: dict[str, Any], patch: dict[str, Any]) -> None:
    before = deepcopy((target, patch))
    merged(target, patch)
    assert (target, patch) == before


@settings(deadline=None)
@given(target=objects, patch=objects)
def test_a_patch_applied_twice_is_applied_once(target: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merged(target, patch)
    assert merged(once, patch) == once


@settings(deadline=None)
@given(target=objects)
def test_an_empty_patch_keeps_all_in_a_new_object(target: dict[str, Any]) -> None:
    result = merged(target, {})
    assert result == target
    assert result is not target


def test_any_depth_is_merged() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"a": deep}
    result = merged({"a": {"b": 1}}, deep)
    assert result["a"]["b"] == 1
    while result:
        result = result["a"]
