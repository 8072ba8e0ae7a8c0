"""Types in words: fields and their bounds as a person reads them in a Markdown table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import NODEFAULT, inspect

from beamwright.kernel.value import encode

MOST_LISTED = 8
# Bounds that only say that a number fits its column.
NO_BOUNDS = (-(2**31), 2**31 - 1)
PLAIN: Mapping[type[inspect.Type], str] = {
    inspect.AnyType: "any JSON",
    inspect.BoolType: "boolean",
    inspect.BytesType: "bytes as base64",
    inspect.DateTimeType: "time",
    inspect.NoneType: "null",
    inspect.TimeDeltaType: "duration",
    inspect.UUIDType: "id",
}
NOTES = {"x-personal-data": "personal data", "x-may-contain-personal-data": "may contain personal data"}


class Types:
    """Tells types, and remembers which of those that have a name need a section of their own."""

    def __init__(self) -> None:
        self._mentioned: dict[str, inspect.StructType | inspect.EnumType] = {}

    def fields(self, struct: Any) -> dict[str, list[str]]:
        """Type and default of each field, by its name on the wire."""
        known = cast(inspect.StructType, inspect.type_info(struct))
        return {field.encode_name: self._field(field) for field in known.fields}

    def of(self, hint: Any) -> str:
        return self._text(inspect.type_info(hint))

    def sections(self) -> Iterator[str]:
        """A section for each type that was mentioned, and for those that these mention."""
        written: dict[str, str] = {}
        while left := sorted(self._mentioned.keys() - written.keys()):
            for name in left:
                written[name] = self._section(name, self._mentioned[name])
        yield from (written[name] for name in sorted(written))

    def _section(self, name: str, type: inspect.StructType | inspect.EnumType) -> str:
        about = own_sentence(type.cls)
        if isinstance(type, inspect.EnumType):
            content = _listed(type.cls)
        elif all(field.required for field in type.fields):
            content = table(["Field", "Type"], [[code(n), f[0]] for n, f in self.fields(type.cls).items()])
        else:
            rows = [[code(field), *rest] for field, rest in self.fields(type.cls).items()]
            content = table(["Field", "Type", "Default"], rows)
        return "\n\n".join([f"### {name}", *([about] if about else []), content])

    def _field(self, field: inspect.Field) -> list[str]:
        type = field.type
        # What may be left out need not say that it may be null as well.
        if field.default is None and isinstance(type, inspect.UnionType):
            type = inspect.UnionType(tuple(t for t in type.types if not isinstance(t, inspect.NoneType)))
        return [self._text(type), default_text(field)]

    def _text(self, type: inspect.Type) -> str:
        match type:
            case inspect.Metadata():
                notes = _notes(cast(Any, type).extra_json_schema or {})
                return "; ".join([self._text(type.type), *notes])
            case inspect.UnionType():
                return " or ".join(self._text(each) for each in type.types)
            case inspect.LiteralType():
                return _listed(type.values)
            case inspect.EnumType() if len(type.cls) <= MOST_LISTED:
                return _listed(type.cls)
            case inspect.EnumType() | inspect.StructType():
                self._mentioned[type.cls.__name__] = type
                return f"[{type.cls.__name__}](#{type.cls.__name__.lower()})"
            case inspect.StrType():
                return _string(type)
            case inspect.IntType() | inspect.FloatType():
                return _bounded(
                    "integer" if isinstance(type, inspect.IntType) else "number", type.ge, type.le
                )
            case inspect.FrozenSetType() | inspect.SetType():
                return f"set of {self._text(type.item_type)}"
            case inspect.ListType() | inspect.VarTupleType():
                return f"list of {self._text(type.item_type)}"
            case inspect.TupleType():
                return f"list of {' and '.join(self._text(each) for each in type.item_types)}"
            case inspect.DictType():
                return f"map from {self._text(type.key_type)} to {self._text(type.value_type)}"
            case _:
                return PLAIN[type.__class__]


def _notes(extra: Mapping[str, Any]) -> Iterator[str]:
    least, most = extra.get("minLength"), extra.get("maxLength")
    if most is not None:
        yield f"{least} to {most} characters"
    if pattern := extra.get("pattern"):
        yield f"matches {code(pattern)}"
    yield from (note for key, note in NOTES.items() if extra.get(key))
    if unit := extra.get("x-unit"):
        yield f"unit: {unit}"
    if unit := extra.get("unit"):
        yield f"unit: {unit['code']}"
    if description := extra.get("description"):
        yield cell(description)


def _string(type: inspect.StrType) -> str:
    matching = f"text; matches {code(type.pattern)}" if type.pattern else "text"
    return _bounded(matching, type.min_length, type.max_length, " characters")


def _bounded(kind: str, least: float | None, most: float | None, unit: str = "") -> str:
    low, high = (None if bound in NO_BOUNDS else bound for bound in (least, most))
    if low is None:
        return kind if high is None else f"{kind}; at most {high}{unit}"
    return f"{kind}; at least {low}{unit}" if high is None else f"{kind}; {low} to {high}{unit}"


def default_text(field: inspect.Field | msgspec.structs.FieldInfo) -> str:
    """What holds when the field is left out; a merge patch then changes nothing."""
    if field.required:
        return "required"
    if field.default is NODEFAULT and field.default_factory is NODEFAULT:
        return "unchanged"
    value: Any = field.default_factory() if field.default is NODEFAULT else field.default
    match value:
        case None:
            return "none"
        case Path() | str():
            return code(str(value))
        case timedelta():
            return code(msgspec.to_builtins(value))
        case _:
            return code(encode(value).decode())


def own_sentence(cls: type) -> str:
    """The first sentence of a class's own docstring."""
    text = vars(cls).get("__doc__")
    return text.strip().splitlines()[0] if isinstance(text, str) else ""


def _listed(choices: Iterable[Any]) -> str:
    return ", ".join(code(str(each.value if isinstance(each, Enum) else each)) for each in choices)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(text: str) -> str:
    return f"`{cell(text)}`"


def cell(text: str) -> str:
    """Text that ends neither its column nor its row."""
    return text.replace("|", "\\|").replace("\n", " ")
