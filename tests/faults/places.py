"""Every place of every request where text can stand, found in the registry, and hostile texts to put there."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import inspect

from beamwright.app import registry
from beamwright.kernel.operation import Operation
from tests.samples import sample_of

OPERATIONS = registry().operations
# Types may hold themselves.
DEEPEST = 6

MARK = "pwned"
# Words of SQL in small letters: a statement of ours, which an answer must not show, has them in capitals.
TEXTS: dict[str, str] = {
    "quote": "x' or '1'='1",
    "drop": f"'; drop table events; create table {MARK} (); --",
    "sleep": "'||(select pg_sleep(6))||'",
    "dollars": "$$; select pg_sleep(6); $$",
    "double quote": f'x"; create table {MARK} (); --',
    "backslash": f"\\'; copy (select 1) to program 'touch {MARK}'; --\\",
    "placeholders": "$1 $2::uuid %s %(name)s {0.__class__} {}",
    "wildcards": "%_%\\",
    "search": "a & | ! <-> :* ' ( \"",
    "pattern": "(a+)+$[",
    "NUL": "a\x00b",
    "lone surrogate": "a\ud800b",
    "bidirectional": "abc\u202egnp.exe\u2066",
    "log line": f'x\r\n{{"event":"{MARK}","level":"critical","attacker":true}}\r\n',
    "line separators": f"x\u2028{MARK}\u2029\x85\x0b\x0c",
    "terminal": f"\x1b[2J\x1b]0;{MARK}\x07\x1b[31m",
    "format": "%n%n%s%x${jndi:ldap://127.0.0.1/x}{{7*7}}",
    "markup": f"<script>alert('{MARK}')</script>",
    "traversal": "../../../../etc/passwd",
    "address": "http://127.0.0.1:1/x?y=z#\\@[::1]",
    "no character": "\ufffe\uffff\ufdd0",
    "accents": "a" + "\u0301" * 3000,
    "wide": "\U0001f4a9" * 3000,
    "empty": "",
    "blank": " \t\u00a0\u3000",
    "long": "a" * 100_000,
    "number": "9" * 400,
}

# Of an id, a time or a member of an enumeration, any text is wrong before it is looked at.
FOR_OTHERS = ("NUL", "lone surrogate", "log line", "long")

type Fill = Callable[[str], Any]
type Hole = tuple[str, Fill, bool]


class Place(NamedTuple):
    """Where in a request a text goes."""

    operation: Operation
    name: str
    fill: Fill
    takes_text: bool

    @property
    def texts(self) -> list[str]:
        return sorted(TEXTS if self.takes_text else FOR_OTHERS)

    def request(self, base: Mapping[str, Any], text: str) -> dict[str, Any]:
        field = self.name.partition(".")[0].partition("[")[0]
        return {**base, field: self.fill(text)}


def places(operation: Operation) -> list[Place]:
    """The places of one request; ids, times and enums are places too, whatever they make of a text."""
    found: list[Place] = []
    for field in msgspec.structs.fields(operation.request):
        info = inspect.type_info(field.type)
        for name, fill, takes_text in _holes(info, 0):
            found.append(Place(operation, field.encode_name + name, fill, takes_text))
    return found


def _holes(info: inspect.Type, depth: int) -> Iterator[Hole]:
    if depth > DEEPEST:
        return
    match info:
        case inspect.Metadata(type=inner):
            yield from _holes(inner, depth)
        case inspect.UnionType(types=members):
            yield from _of_members(members, depth)
        case inspect.StructType():
            yield from _of_struct(info, depth)
        case inspect.DictType(key_type=key, value_type=value):
            for name, fill, takes_text in _holes(key, depth + 1):
                yield f"{name}.key", _as_key(fill, value), takes_text
            for name, fill, takes_text in _holes(value, depth + 1):
                yield f".value{name}", _as_value(fill, key), takes_text
        case inspect.TupleType(item_types=items):
            for name, fill, takes_text in _holes(items[0], depth + 1) if items else ():
                yield f"[0]{name}", _as_item(fill), takes_text
        case inspect.CollectionType(item_type=item):
            for name, fill, takes_text in _holes(item, depth + 1):
                yield f"[]{name}", _as_item(fill), takes_text
        case inspect.AnyType():
            yield "", lambda text: text, True
            yield ".any", lambda text: {"type": "object", text: [text, {text: text}]}, True
        case inspect.IntType() | inspect.FloatType() | inspect.BoolType() | inspect.NoneType():
            return
        case _:
            yield (
                "",
                lambda text: text,
                isinstance(info, inspect.StrType | inspect.BytesType | inspect.RawType),
            )


def _of_members(members: tuple[inspect.Type, ...], depth: int) -> Iterator[Hole]:
    """A plain text fills every member that takes one, so it is given once."""
    plain = False
    for member in members:
        for name, fill, takes_text in _holes(member, depth):
            if name or not plain:
                yield name, fill, takes_text
            plain = plain or not name


def _of_struct(info: inspect.StructType, depth: int) -> Iterator[Hole]:
    for field in info.fields:
        for name, fill, takes_text in _holes(field.type, depth + 1):
            yield f".{field.encode_name}{name}", _as_field(fill, info, field.encode_name), takes_text


def _as_field(fill: Fill, info: inspect.StructType, name: str) -> Fill:
    return lambda text: sample_of(info) | {name: fill(text)}


def _as_key(fill: Fill, value: inspect.Type) -> Fill:
    return lambda text: {str(fill(text)): sample_of(value)}


def _as_value(fill: Fill, key: inspect.Type) -> Fill:
    return lambda text: {str(sample_of(key)): fill(text)}


def _as_item(fill: Fill) -> Fill:
    return lambda text: [fill(text)]


def on_the_wire(operation: Operation, request: Mapping[str, Any]) -> tuple[str, bytes | None]:
    """The address and the body of a request; whatever is in it, it is sent as it is."""
    left = dict(request)
    path = operation.path
    for field in operation.path_fields:
        path = path.replace(f"{{{field}}}", _quoted(left.pop(field)))
    if not operation.in_address:
        return path, json.dumps(left).encode()
    pairs = [
        f"{name}={_quoted(each)}"
        for name, value in left.items()
        for each in (value if isinstance(value, list) else [value])
    ]
    return path + ("?" + "&".join(pairs) if pairs else ""), None


def _quoted(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return quote(text.encode("utf-8", "surrogatepass"), safe="")
