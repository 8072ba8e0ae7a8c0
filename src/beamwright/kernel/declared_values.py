"""Values against a declared schema: the carrier rule, its violations, and numbers whose unit has changed."""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush, nsmallest
from itertools import islice
from typing import Any, cast

import msgspec

from .declared_schema import (
    MOST_NESTING,
    Schema,
    UnitChange,
    compiled,
    compiled_once,
    holds_null,
    nested_deeper,
    pointer,
    unit_changes,
)
from .errors import InvalidError
from .value import Value, encode

_MOST_VIOLATIONS = 20
_MOST_SHOWN = 500

# How each keyword reads in a refusal; those that a value meets or breaks on its own are looked at level by level.
_WORDS = {
    "additionalProperties": "is not declared; declared are {expected}",
    "const": "must be {expected}, not {actual}",
    "enum": "must be one of {expected}, not {actual}",
    "exclusiveMaximum": "must be less than {expected}, not {actual}",
    "exclusiveMinimum": "must be more than {expected}, not {actual}",
    "levels": "nests deeper than {expected} levels",
    "maxItems": "may have at most {expected} items, not {actual}",
    "maxLength": "may have at most {expected} characters, not {actual}",
    "maximum": "must be at most {expected}, not {actual}",
    "minItems": "must have at least {expected} items, not {actual}",
    "minLength": "must have at least {expected} characters, not {actual}",
    "minimum": "must be at least {expected}, not {actual}",
    "pattern": "must match {expected}, unlike {actual}",
    "required": "is required",
    "type": "must be of type {expected}, not {actual}",
    "uniqueItems": "must not hold an item twice",
}
_LOCAL = _WORDS.keys() - {"additionalProperties", "levels", "required"}
_COUNTED = frozenset({"maxItems", "maxLength", "minItems", "minLength"})


class Violation(Value):
    """One place where values break their schema; `path` is a JSON pointer into the values."""

    path: str
    keyword: str
    expected: Any
    actual: Any

    def sentence(self) -> str:
        """The violation in plain words."""
        words = _WORDS[self.keyword].format(expected=_said(self.expected), actual=_said(self.actual))
        return f"{self.path or 'The whole'} {words}."


def check_values(
    schema: Schema | None, values: Mapping[str, Any], refusal: type[InvalidError], *, declare_with: str
) -> None:
    """The carrier rule: no values always pass; others need a declared schema and must meet it as a whole."""
    if not values:
        return
    if schema is None:
        keys = [key[:_MOST_SHOWN] for key in sorted(values)[:_MOST_VIOLATIONS]]
        raise refusal(
            f"No schema is declared for {_said(keys)}: declare one with {declare_with}, or {{}} for no constraint.",
            keys=keys,
        )
    if broken := violations(schema, values):
        raise refusal(broken[0].sentence(), violations=msgspec.to_builtins(broken))


def violations(schema: Schema, values: Mapping[str, Any]) -> list[Violation]:
    """What is wrong with `values`, ordered by pointer and keyword: the first 20."""
    whole = dict(values)
    if nested_deeper(whole, MOST_NESTING):
        return [Violation(path="", keyword="levels", expected=MOST_NESTING, actual=None)]
    if compiled(schema).is_valid(whole) and not holds_null(whole):
        return []
    return list(islice(broken_rules(schema, whole), _MOST_VIOLATIONS))


def stale_units(was: Schema | None, now: Schema | None, values: Mapping[str, Any]) -> list[UnitChange]:
    """The changes of unit between two schemas that touch a stored value."""
    return [change for change in unit_changes(was, now) if _stored(values, change.path)]


def not_restated(stale: Sequence[UnitChange], patch: Mapping[str, Any]) -> list[UnitChange]:
    """Those of `stale` that a merge patch neither writes again nor deletes."""
    return [change for change in stale if not _restates(patch, change.path)]


type _Pending = tuple[str, str, Any, Any]


def broken_rules(node: dict[str, Any], value: Any) -> Iterator[Violation]:
    """The violations of a level by any value, in order; each is looked for only when it is asked for.

    The validator lists errors too, but all at once and each with a copy of the value that it stands in.
    """
    pending: list[_Pending] = [("", "", node, value)]
    while pending:
        # The smallest pointer next: whatever lies below a place sorts after it.
        path, keyword, constraint, actual = heappop(pending)
        if keyword:
            yield _violation(path, keyword, constraint, actual)
            continue
        for keyword in _broken_here(constraint, actual):
            yield _violation(path, keyword, constraint.get(keyword, "any but null"), actual)
        for below in _broken_below(path, constraint, actual):
            heappush(pending, below)


def _broken_here(node: dict[str, Any], value: Any) -> list[str]:
    if value is None:
        return ["type"]
    local = sorted(node.keys() & _LOCAL)
    return [keyword for keyword in local if not compiled_once({keyword: node[keyword]}).is_valid(value)]


def _broken_below(path: str, node: dict[str, Any], value: Any) -> Iterator[_Pending]:
    """The keys that are missing or unknown, and the levels (with an empty keyword) that need a closer look."""
    match value:
        case dict():
            given = cast(dict[str, Any], value)
            declared: dict[str, dict[str, Any]] = node.get("properties", {})
            yield from _missing_or_unknown(path, node, given)
            for name in given.keys() & declared.keys():
                if _broken(declared[name], given[name]):
                    yield pointer(path, name), "", declared[name], given[name]
            if node.get("additionalProperties") is not False:
                for name in given.keys() - declared.keys():
                    if holds_null(given[name]):
                        yield pointer(path, name), "", {}, given[name]
        case list() | tuple():
            yield from _broken_items(path, node.get("items", {}), cast(list[Any], value))
        case _:
            pass


def _broken_items(path: str, node: dict[str, Any], items: Sequence[Any]) -> Iterator[_Pending]:
    validator, null = compiled_once(node), holds_null(items)
    broken = [
        str(index)
        for index, item in enumerate(items)
        if not validator.is_valid(item) or (null and holds_null(item))
    ]
    # Each has a violation, so no more than these can be reported.
    for index in nsmallest(_MOST_VIOLATIONS, broken):
        yield f"{path}/{index}", "", node, items[int(index)]


def _missing_or_unknown(path: str, node: dict[str, Any], given: dict[str, Any]) -> Iterator[_Pending]:
    declared = node.get("properties", {}).keys()
    for name in set(node.get("required", ())) - given.keys():
        yield pointer(path, name), "required", "present", None
    if node.get("additionalProperties") is False:
        names = sorted(declared)
        for name in given.keys() - declared:
            yield pointer(path, name), "additionalProperties", names, given[name]


def _broken(node: dict[str, Any], value: Any) -> bool:
    return not compiled_once(node).is_valid(value) or holds_null(value)


def _violation(path: str, keyword: str, expected: Any, actual: Any) -> Violation:
    shown = len(actual) if keyword in _COUNTED else _shown(actual)
    return Violation(path=path, keyword=keyword, expected=_shown(expected), actual=shown)


def _shown(value: Any) -> Any:
    """`value` where it is small, or else what kind of thing it is."""
    text = encode(value)
    if len(text) <= _MOST_SHOWN:
        return value
    match value:
        case str():
            return f"{value[:_MOST_SHOWN]}…"
        case dict():
            return f"an object of {len(cast(dict[str, Any], value))} keys"
        case list() | tuple():
            return f"an array of {len(cast(list[Any], value))} items"
        case _:
            return f"a number of {len(text)} digits"


def _said(value: Any) -> str:
    """A value within a sentence."""
    match value:
        case str():
            return value
        case list() | tuple():
            return ", ".join(
                each if isinstance(each, str) else encode(each).decode() for each in cast(list[Any], value)
            )
        case _:
            return encode(value).decode()


def _stored(values: Mapping[str, Any], path: str) -> bool:
    """Whether anything is stored at a place, where `*` stands for every item of an array."""
    here: list[Any] = [values]
    for part in path.split("/")[1:]:
        here = [below for each in here for below in _at(each, part)]
    return bool(here)


def _at(value: Any, part: str) -> list[Any]:
    match value:
        case dict() if part in value:
            return [cast(dict[str, Any], value)[part]]
        case list() | tuple() if part == "*":
            return list(cast(list[Any], value))
        case _:
            return []


def _restates(patch: Mapping[str, Any], path: str) -> bool:
    """Whether a merge patch sets a place: itself, or by replacing what it lies in."""
    here: Any = patch
    for part in path.split("/")[1:]:
        if not isinstance(here, Mapping):
            return True
        if part not in here:
            return False
        here = cast(Mapping[str, Any], here)[part]
    return True
