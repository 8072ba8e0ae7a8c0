"""Whether one declared schema lies within another: whatever the inner accepts, the outer does, in the same units."""

from collections.abc import Callable, Iterator
from typing import Any, cast

from .declared_schema import Schema, annotated_unit, compiled_once, pointer, types
from .declared_values import broken_rules
from .units import meaning
from .value import Value


class Difference(Value):
    """Where the inner schema admits more than the outer; `path` points into the schemas."""

    path: str
    keyword: str
    inner: Any
    outer: Any


def first_difference(inner: Schema, outer: Schema) -> Difference | None:
    """The first reason why `inner` is not within `outer`, or None when it is.

    Sound rather than complete: what the outer states, the inner must state too.
    """
    return None if outer == {} else next(_differences("", inner, outer), None)


type _Node = dict[str, Any]

_NUMBER = frozenset({"number", "integer"})
_STRING = frozenset({"string"})
_ARRAY = frozenset({"array"})
_OBJECT = frozenset({"object"})

# Each bound of the outer with the bounds of the inner that may equal it and the one that must be tighter, and
# which way is tighter.
_BOUNDS = [
    ("minimum", ("minimum", "exclusiveMinimum"), None, 1),
    ("exclusiveMinimum", ("exclusiveMinimum",), "minimum", 1),
    ("maximum", ("maximum", "exclusiveMaximum"), None, -1),
    ("exclusiveMaximum", ("exclusiveMaximum",), "maximum", -1),
]
_LENGTHS = [
    ("minLength", _STRING, 1),
    ("minItems", _ARRAY, 1),
    ("maxLength", _STRING, -1),
    ("maxItems", _ARRAY, -1),
]


def _differences(path: str, inner: _Node, outer: _Node) -> Iterator[Difference]:
    """The rules in their order; each looks only at what the types of the inner leave possible."""
    if "enum" in inner or "const" in inner:
        yield from _listed(path, inner, outer)
        return
    yield from _types(path, inner, outer)
    for keyword in ("enum", "const"):
        if keyword in outer:
            yield _difference(path, keyword, inner, outer)
    for rule in _RULES:
        yield from rule(path, inner, outer)
    yield from _unit(path, inner, outer)


def _listed(path: str, inner: _Node, outer: _Node) -> Iterator[Difference]:
    """Each value that the inner lists, and itself accepts, stands for itself."""
    keyword = "enum" if "enum" in inner else "const"
    listed: list[Any] = inner["enum"] if "enum" in inner else [inner["const"]]
    validator = compiled_once(inner)
    accepted = [value for value in listed if validator.is_valid(value)]
    for value in accepted:
        for broken in broken_rules(outer, value):
            yield Difference(path=path, keyword=keyword, inner=value, outer={broken.keyword: broken.expected})
    yield from _unit(path, inner, outer)
    yield from _units_within(path, inner, outer, accepted)


def _types(path: str, inner: _Node, outer: _Node) -> Iterator[Difference]:
    # An integer is a number.
    admitted = types(outer) | _NUMBER if "number" in types(outer) else types(outer)
    if "type" in outer and ("type" not in inner or not types(inner) <= admitted):
        yield _difference(path, "type", inner, outer)


def _bounds(path: str, inner: _Node, outer: _Node) -> Iterator[Difference]:
    for keyword, equal, tighter, sign in _BOUNDS:
        if keyword not in outer or not types(inner) & _NUMBER:
            continue
        bound = sign * outer[keyword]
        met = any(sign * inner[each] >= bound for each in equal if each in inner)
        if not met and not (tighter in inner and sign * inner[tighter] > bound):
            yield _difference(path, keyword, inner, outer)


def _lengths(path: str, inner: _Node, outer: _Node) -> Iterator[Difference]:
    for keyword, kind, sign in _LENGTHS:
        stated = keyword in outer and types(inner) & kind
        if stated and (keyword not in inner or sign * inner[keyword] < sign * outer[keyword]):
            yield _difference(path, keyword, inner, outer)


def _identical(path: str, inner: _Node, outer: _Node) -> Iterator[Difference]:
    if "pattern" in outer and types(inner) & _STRING and inner.get("pattern") != outer["pattern"]:
        yield _difference(path, "pattern", inner, outer)
    if outer.get("uniqueItems") and types(inner) & _ARRAY and not inner.get("uniqueItems"):
        yield _difference(path, "uniqueItems", inner, outer)


def _items(path: str, inner: _Node, outer: _Node) -> Iterator[Difference]:
    if "items" not in outer or not types(inner) & _ARRAY:
        return
    if "items" not in inner:
        yield _difference(path, "items", inner, outer)
    else:
        yield from _differences(f"{path}/items", inner["items"], outer["items"])


def _properties(path: str, inner: _Node, outer: _Node) -> Iterator[Difference]:
    if not types(inner) & _OBJECT:
        return
    # Checked schemas are closed wherever they can be objects; anything else would let unknown keys through.
    if outer.get("additionalProperties") is False and inner.get("additionalProperties") is not False:
        yield _difference(path, "additionalProperties", inner, outer)
    mine, theirs = _declared(inner), _declared(outer)
    for name in sorted(mine):
        below = pointer(f"{path}/properties", name)
        if name not in theirs:
            yield Difference(path=below, keyword="properties", inner=name, outer=sorted(theirs))
        else:
            yield from _differences(below, mine[name], theirs[name])


def _required(path: str, inner: _Node, outer: _Node) -> Iterator[Difference]:
    if types(inner) & _OBJECT and not set(outer.get("required", ())) <= set(inner.get("required", ())):
        yield _difference(path, "required", inner, outer)


def _unit(path: str, inner: _Node, outer: _Node) -> Iterator[Difference]:
    if "unit" in outer and meaning(annotated_unit(inner)) != meaning(annotated_unit(outer)):
        yield _difference(path, "unit", inner, outer)


def _units_within(path: str, inner: _Node, outer: _Node, values: list[Any]) -> Iterator[Difference]:
    """The units of what the listed values hold."""
    mine, theirs = _declared(inner), _declared(outer)
    objects = [cast(dict[str, Any], value) for value in values if isinstance(value, dict)]
    for name in sorted(theirs):
        held = [value[name] for value in objects if name in value]
        if held:
            below = pointer(f"{path}/properties", name)
            yield from _unit(below, mine.get(name, {}), theirs[name])
            yield from _units_within(below, mine.get(name, {}), theirs[name], held)
    held = [item for value in values if isinstance(value, list) for item in cast(list[Any], value)]
    if held and "items" in outer:
        yield from _unit(f"{path}/items", inner.get("items", {}), outer["items"])
        yield from _units_within(f"{path}/items", inner.get("items", {}), outer["items"], held)


def _declared(node: _Node) -> dict[str, _Node]:
    return node.get("properties", {})


def _difference(path: str, keyword: str, inner: _Node, outer: _Node) -> Difference:
    return Difference(path=path, keyword=keyword, inner=inner.get(keyword), outer=outer[keyword])


_RULES: list[Callable[[str, _Node, _Node], Iterator[Difference]]] = [
    _bounds,
    _lengths,
    _identical,
    _items,
    _properties,
    _required,
]
