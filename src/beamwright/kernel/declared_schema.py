"""Declared schemas: the one check that each passes before it is kept, and what a new one does to units."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Annotated, Any, cast

import msgspec
from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError, Validator
from msgspec import Meta

from .errors import InvalidError
from .units import CODE_LENGTH, LABEL_LENGTH, Unit, UnitSystem, meaning, unit_fault
from .value import Time, Value, encode

DIALECT = "https://json-schema.org/draft/2020-12/schema"

type Schema = Annotated[
    dict[str, Any],
    Meta(
        description=(
            "A declared schema: `{}` for no constraint, or a JSON Schema of draft 2020-12 with `$schema` and"
            " `type: object` at its root. Every object level is closed with `additionalProperties: false` and"
            " `unevaluatedProperties: false`; a number whose meaning needs a unit has `unit: {system, code,"
            " label?}`. Use generic property names without a unit in them, and descriptions that name quantity,"
            " range and unit, never a transport, driver class or control system."
        )
    ),
]

TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean"})

_KEYWORDS = frozenset(
    {"type", "title", "description", "properties", "required", "additionalProperties", "unevaluatedProperties",
     "items", "minItems", "maxItems", "uniqueItems", "enum", "const", "minimum", "maximum", "exclusiveMinimum",
     "exclusiveMaximum", "minLength", "maxLength", "pattern", "unit", "x-may-contain-personal-data"}
)  # fmt: skip
_CLOSING = ("additionalProperties", "unevaluatedProperties")
_OBJECT_KEYWORDS = frozenset({"properties", "required", *_CLOSING})
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?")
_RESERVED = frozenset({"compatible", "backend"})
_NUMERIC = frozenset({"number", "integer"})

_MOST_BYTES = 64 * 1024
_MOST_LEVELS = 8
_MOST_PROPERTIES = 200
# JSON within JSON: far more than eight levels need, little enough for whatever recurses.
MOST_NESTING = 64


class NumberedSchema(Value):
    """One kept version of a declared schema."""

    schema_version: int
    schema: Schema
    since: Time


class UnitChange(Value):
    """A property whose numbers mean something else; `path` points into the values, `*` being every item."""

    path: str
    was: Unit | None
    now: Unit | None


class Level(Value):
    """One sub-schema: where it stands in the schema, and where in the values (`*` being every item)."""

    path: str
    place: str
    depth: int
    node: dict[str, Any]


class SchemaFault(Value):
    """A rule of declared schemas that is broken, and where."""

    path: str
    keyword: str
    detail: str


def checked_schema(schema: Schema | None, refusal: type[InvalidError]) -> Schema:
    """`schema`, or `refusal` with the first rule that it breaks."""
    if schema is None:
        detail = (
            "A schema is needed; declare {} for no constraint. A declared schema is replaced, never removed."
        )
        raise refusal(detail, path="", keyword="type")
    for fault in _faults(schema):
        raise refusal(fault.detail, path=fault.path, keyword=fault.keyword)
    return schema


def unit_changes(before: Schema | None, after: Schema | None) -> list[UnitChange]:
    """Where a property that both schemas have changes, gains or loses its unit; labels do not count."""
    was, now = _units(before), _units(after)
    return [
        UnitChange(path=place, was=was[place], now=now[place])
        for place in sorted(was.keys() & now.keys())
        if meaning(was[place]) != meaning(now[place])
    ]


def annotated_unit(node: dict[str, Any]) -> Unit | None:
    """The unit that a checked sub-schema declares."""
    return msgspec.convert(node["unit"], Unit) if "unit" in node else None


def compiled(schema: Schema) -> Validator:
    """The validator of a schema that will be asked for again."""
    return _compiled(encode(schema))


def compiled_once(node: dict[str, Any]) -> Validator:
    """The validator of a level, or of a part of one."""
    return Draft202012Validator(node, pattern_options=_PATTERNS, offline=True)


def pointer(path: str, part: str | int) -> str:
    """The JSON pointer one step below `path`."""
    return f"{path}/{str(part).replace('~', '~0').replace('/', '~1')}"


def nested_deeper(value: Any, most: int) -> bool:
    """Whether JSON nests in more than `most` containers; told without recursion, so for any depth."""
    layer = [value]
    for _ in range(most + 1):
        layer = [child for each in layer for child in children(each)]
        if not layer:
            return False
    return True


def holds_null(value: Any) -> bool:
    """Whether JSON holds null anywhere, or is null."""
    layer = [value]
    while layer and not any(each is None for each in layer):
        layer = [child for each in layer for child in children(each)]
    return bool(layer)


def children(value: Any) -> list[Any]:
    """What a JSON value directly holds."""
    match value:
        case dict():
            return list(cast(dict[str, Any], value).values())
        case list() | tuple():
            return list(cast(list[Any], value))
        case _:
            return []


def types(node: dict[str, Any]) -> frozenset[str]:
    """The names of the types that a level admits: all of them when it states none."""
    match node.get("type"):
        case None:
            return TYPES
        case str(name):
            return frozenset({name})
        case names:
            return frozenset(cast(list[str], names))


# One automaton per pattern, of bounded size, that reads a text once: no pattern can hang or fill the memory.
_PATTERNS = RegexOptions(size_limit=1 << 17, dfa_size_limit=1 << 17)


@lru_cache(maxsize=128)
def _compiled(schema: bytes) -> Validator:
    return compiled_once(msgspec.json.decode(schema))


def _units(schema: Schema | None) -> dict[str, Unit | None]:
    return {level.place: annotated_unit(level.node) for level in _levels(schema or {})}


def _levels(schema: Schema) -> Iterator[Level]:
    """Every level in the order of the document; iterative, as nothing is checked yet."""
    pending = [Level(path="", place="", depth=1, node=schema)]
    while pending:
        level = pending.pop()
        yield level
        pending.extend(reversed(list(_below(level))))


def _below(level: Level) -> Iterator[Level]:
    depth = level.depth + 1
    for name, node in _properties(level).items():
        if isinstance(node, dict):
            path, place = pointer(f"{level.path}/properties", name), pointer(level.place, name)
            yield Level(path=path, place=place, depth=depth, node=cast(dict[str, Any], node))
    if isinstance(node := level.node.get("items"), dict):
        path, place = f"{level.path}/items", f"{level.place}/*"
        yield Level(path=path, place=place, depth=depth, node=cast(dict[str, Any], node))


def _properties(level: Level) -> dict[str, Any]:
    properties = level.node.get("properties")
    return cast(dict[str, Any], properties) if isinstance(properties, dict) else {}


def _faults(schema: Schema) -> Iterator[SchemaFault]:
    """The broken rules in the order in which they are to be reported; only the first is ever asked for."""
    yield from _unbounded(schema)
    if schema == {}:
        return
    levels = list(_levels(schema))
    yield from _dialect(schema, levels)
    rules: list[Callable[[Level], Iterator[SchemaFault]]] = [_keywords, _closing, _names, _unit]
    for rule in rules:
        for level in levels:
            yield from rule(level)
    yield from _size(levels)
    yield from _compiling(schema)
    # Last, as asking for a code takes longer than all the rest.
    for level in levels:
        yield from _unit_code(level)


def _unbounded(schema: Schema) -> Iterator[SchemaFault]:
    """What the other rules could not even look at in reasonable time."""
    if nested_deeper(schema, MOST_NESTING):
        yield SchemaFault(
            path="", keyword="levels", detail=f"A schema may have at most {_MOST_LEVELS} levels."
        )
    elif (size := len(encode(schema))) > _MOST_BYTES:
        detail = f"A schema may have at most {_MOST_BYTES} bytes of JSON; this one has {size}."
        yield SchemaFault(path="", keyword="size", detail=detail)


def _dialect(schema: Schema, levels: list[Level]) -> Iterator[SchemaFault]:
    if schema.get("type") != "object":
        detail = "A schema is either {} or has `type: object` at its root."
        yield SchemaFault(path="", keyword="type", detail=detail)
    if schema.get("$schema") != DIALECT:
        yield SchemaFault(path="", keyword="$schema", detail=f"`$schema` at the root must be {DIALECT}.")
    for level in levels[1:]:
        if "$schema" in level.node:
            detail = f"`$schema` stands at the root alone, not at {level.path}."
            yield SchemaFault(path=level.path, keyword="$schema", detail=detail)


def _keywords(level: Level) -> Iterator[SchemaFault]:
    for keyword, value in level.node.items():
        detail = None
        if keyword not in _KEYWORDS and keyword != "$schema":
            detail = f"`{keyword}` is not an accepted keyword; accepted are {', '.join(sorted(_KEYWORDS))}."
        elif keyword == "type" and not _names_types(value):
            detail = f"`type` must be one or several of {', '.join(sorted(TYPES))}."
        elif keyword == "properties" and not isinstance(value, dict):
            detail = "`properties` must be an object of schemas."
        elif keyword in ("enum", "const") and holds_null(value):
            detail = f"`{keyword}` must not hold null, which is never stored as a value."
        elif keyword == "x-may-contain-personal-data" and not isinstance(value, bool):
            detail = f"`{keyword}` must be true or false."
        if detail:
            yield SchemaFault(path=level.path, keyword=keyword, detail=detail)


def _names_types(value: Any) -> bool:
    names = cast(list[Any], value) if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in TYPES for name in names)


def _closing(level: Level) -> Iterator[SchemaFault]:
    node = level.node
    listed = "enum" in node or "const" in node
    open_ended = "object" in types(node) and not ("type" not in node and listed)
    must_close = open_ended or not _OBJECT_KEYWORDS.isdisjoint(node)
    for keyword in _CLOSING:
        if must_close and node.get(keyword) is not False:
            detail = f"{_at(level)} can be an object, so it must say `{keyword}: false`"
            detail += "." if "type" in node else ", or state another type."
            yield SchemaFault(path=level.path, keyword=keyword, detail=detail)
    for name, below in _properties(level).items():
        if not isinstance(below, dict):
            path = pointer(f"{level.path}/properties", name)
            yield SchemaFault(path=path, keyword="properties", detail=f"{path} must be an object.")
    if not isinstance(node.get("items", {}), dict):
        yield SchemaFault(
            path=level.path, keyword="items", detail=f"`items` of {_at(level)} must be an object."
        )


def _names(level: Level) -> Iterator[SchemaFault]:
    for name in _properties(level):
        path = pointer(f"{level.path}/properties", name)
        if name in _RESERVED:
            detail = f"`{name}` is reserved and cannot name a property."
            yield SchemaFault(path=path, keyword="properties", detail=detail)
        elif not _NAME.fullmatch(name):
            detail = "A property name is lower-case letters, digits and underscores, with one vendor prefix at most."
            yield SchemaFault(path=path, keyword="properties", detail=detail)


def _unit(level: Level) -> Iterator[SchemaFault]:
    if "unit" not in level.node:
        return
    detail = None
    if not _well_formed(level.node["unit"]):
        detail = (
            f"`unit` of {_at(level)} must be {{system, code, label?}} with system {', '.join(UnitSystem)},"
            f" code of 1 to {CODE_LENGTH} and label of 1 to {LABEL_LENGTH} characters."
        )
    elif not _measured(level.node):
        detail = f"{_at(level)} has a unit, so its type must be number, integer or an array of those."
    if detail:
        yield SchemaFault(path=level.path, keyword="unit", detail=detail)


def _well_formed(unit: Any) -> bool:
    match unit:
        case {"system": str(system), "code": str(code), **rest}:
            label = rest.pop("label", "-")
            return (
                not rest
                and system in set(UnitSystem)
                and 1 <= len(code) <= CODE_LENGTH
                and isinstance(label, str)
                and 1 <= len(label) <= LABEL_LENGTH
            )
        case _:
            return False


def _measured(node: dict[str, Any]) -> bool:
    """Whether a level is a number, or an array of numbers."""
    if not types(node) <= _NUMERIC | {"array"}:
        return False
    return "array" not in types(node) or types(node.get("items", {})) <= _NUMERIC


def _unit_code(level: Level) -> Iterator[SchemaFault]:
    unit = annotated_unit(level.node)
    fault = unit_fault(unit) if unit else None
    if fault:
        yield SchemaFault(path=level.path, keyword="unit", detail=fault)


def _size(levels: list[Level]) -> Iterator[SchemaFault]:
    for level in levels:
        if level.depth > _MOST_LEVELS:
            detail = f"A schema may have at most {_MOST_LEVELS} levels; {level.path} lies deeper."
            yield SchemaFault(path=level.path, keyword="levels", detail=detail)
    count = sum(len(_properties(level)) for level in levels)
    if count > _MOST_PROPERTIES:
        detail = f"A schema may have at most {_MOST_PROPERTIES} properties; this one has {count}."
        yield SchemaFault(path="", keyword="properties", detail=detail)


def _compiling(schema: Schema) -> Iterator[SchemaFault]:
    try:
        compiled(schema)
    except ValidationError as error:
        path, keyword = _placed(error.instance_path)
        detail = f"`{keyword}` of {path or 'the root'} is not JSON Schema 2020-12: {error.message[:200]}."
        if keyword == "pattern" and error.kind.name == "format":
            detail = (
                f"The pattern of {path} cannot be used: it must be a regular expression without lookaround and"
                " back references, and small; bound a length with minLength and maxLength rather than by counts."
            )
        yield SchemaFault(path=path, keyword=keyword, detail=detail)


def _placed(parts: list[str | int]) -> tuple[str, str]:
    """The level and the keyword that a path into a schema leads to."""
    path, rest = "", list(parts)
    while len(rest) > 1:
        step = 2 if rest[0] == "properties" else 1 if rest[0] == "items" else 0
        if not step or len(rest) <= step:
            break
        for part in rest[:step]:
            path = pointer(path, part)
        rest = rest[step:]
    return path, str(rest[0]) if rest else "type"


def _at(level: Level) -> str:
    return level.path or "The root"
