"""Values that a JSON schema allows, and what becomes of them in hostile hands."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import uuid4

from tests.faults.places import TEXTS

DEEPEST = 5


class Raw(str):
    """JSON as it stands, for what no Python value is written as."""

    __slots__ = ()


def nested(depth: int, *, objects: bool = False) -> Raw:
    return Raw('{"a":' * depth + "1" + "}" * depth if objects else "[" * depth + "]" * depth)


HOSTILE: dict[str, Callable[[], Any]] = {
    **{f"text {name}": (lambda text=text: text) for name, text in TEXTS.items()},
    "null": lambda: None,
    "true": lambda: True,
    "zero": lambda: 0,
    "minus one": lambda: -1,
    "minus zero": lambda: Raw("-0.0"),
    "64 bits": lambda: 2**63,
    "65 bits": lambda: -(2**64),
    "hundred digits": lambda: Raw("9" * 100),
    "ten thousand digits": lambda: Raw("9" * 10_000),
    "large float": lambda: Raw("1e308"),
    "too large float": lambda: Raw("1e999"),
    "tiny float": lambda: Raw("1e-400"),
    "not a number": lambda: Raw("NaN"),
    "infinity": lambda: Raw("-Infinity"),
    "empty list": list,
    "empty object": dict,
    "long list": lambda: list(range(5000)),
    "wide object": lambda: {f"k{number}": number for number in range(2000)},
    "deep list": lambda: nested(300),
    "deep object": lambda: nested(300, objects=True),
    "very deep list": lambda: nested(20_000),
    "doubled name": lambda: Raw('{"name":"a","name":"b"}'),
    "reference": lambda: {"$ref": "#", "$defs": {"a": {"$ref": "#/$defs/a"}}},
    "schema": lambda: {"type": "object", "pattern": "(a+)+$", "properties": {"a": {"pattern": "(a|a)*$"}}},
    "class": lambda: {"__class__": "x", "__proto__": {"admin": True}, "kind": "x", "type": "x"},
    "unknown id": lambda: str(uuid4()),
    "time": lambda: "9999-12-31T23:59:60.999999999+99:99",
    "first time": lambda: "0001-01-01T00:00:00+14:00",
    "last time": lambda: "9999-12-31T23:59:59-14:00",
}


def allowed(schema: Mapping[str, Any], dice: random.Random, depth: int = 0) -> Any:
    """Some value of the schema's shape, optional members included now and then."""
    if "enum" in schema:
        return dice.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return allowed(dice.choice(choices), dice, depth)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = dice.choice(kind)
    match kind:
        case "object":
            return _object(schema, dice, depth)
        case "array":
            several = 0 if depth > DEEPEST else dice.randint(0, 3)
            return [allowed(schema.get("items") or {}, dice, depth + 1) for _ in range(several)]
        case "integer" | "number":
            return dice.choice([schema.get("minimum", 0), schema.get("maximum", 1), 1, 0.5, 2**40])
        case "boolean":
            return dice.random() < 0.5
        case "null":
            return None
        case _:
            return _text(schema, dice)


def _object(schema: Mapping[str, Any], dice: random.Random, depth: int) -> dict[str, Any]:
    required = schema.get("required", ())
    made = {
        name: allowed(each, dice, depth + 1)
        for name, each in schema.get("properties", {}).items()
        if name in required or (depth <= DEEPEST and dice.random() < 0.4)
    }
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping) and depth <= DEEPEST and dice.random() < 0.5:
        made[dice.choice(["x", "a b", str(uuid4())])] = allowed(more, dice, depth + 1)
    return made


def _text(schema: Mapping[str, Any], dice: random.Random) -> str:
    match schema.get("format"):
        case "uuid":
            return str(uuid4())
        case "date-time":
            return dice.choice(["2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
        case _:
            return dice.choice(["x", "home", "simulated://x", "10.1234/x", "a" * schema.get("maxLength", 50)])


def spots(value: Any, within: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something can be put instead: every member, however deep."""
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value[:10])
    for key, each in members:
        yield (*within, key)
        yield from spots(each, (*within, key))


def changed(
    value: Any, path: tuple[Any, ...], change: Callable[[dict[Any, Any] | list[Any], Any], None]
) -> Any:
    """A copy in which the holder of one spot was changed."""
    copied = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1:
        change(copied, path[0])
    else:
        copied[path[0]] = changed(value[path[0]], path[1:], change)
    return copied


def mutated(value: dict[str, Any], dice: random.Random) -> tuple[str, Any]:
    """The value with one thing wrong, and what that is."""
    places = list(spots(value))
    how = dice.choice(["replace", "replace", "replace", "drop", "add", "whole"])
    name = dice.choice(sorted(HOSTILE))
    if how == "whole" or not places:
        return f"the whole is {name}", HOSTILE[name]() if how == "whole" else value | {
            "extra": HOSTILE[name]()
        }
    path = dice.choice(places)
    match how:
        case "drop":
            return f"{path} is missing", changed(value, path, lambda holder, key: holder.pop(key))
        case "add":
            return f"extra {name}", value | {dice.choice(["extra", "", "__class__", "\x00"]): HOSTILE[name]()}
        case _:

            def put(holder: Any, key: Any) -> None:
                holder[key] = HOSTILE[name]()

            return f"{path} is {name}", changed(value, path, put)


def written(value: Any) -> bytes:
    """JSON, with what is raw put in as it stands."""
    raw: list[str] = []

    def marked(node: Any) -> Any:
        match node:
            case Raw():
                raw.append(str(node))
                return f"\u2603{len(raw) - 1}\u2603"
            case dict():
                return {str(key): marked(each) for key, each in node.items()}
            case list() | tuple():
                return [marked(each) for each in node]
            case _:
                return node

    text = json.dumps(marked(value))
    for number, each in enumerate(raw):
        text = text.replace(f'"\\u2603{number}\\u2603"', each)
    return text.encode()
