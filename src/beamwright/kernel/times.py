"""Times that nobody can turn into UTC: with their offset they lie before the year 1 or after the year 9999."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeAliasType, Union, cast, get_args, get_origin

import msgspec

EDGES = frozenset({1, 9999})


def beyond_utc(value: Any, path: str = "$") -> Iterator[str]:
    """Where in a request there is such a time."""
    match value:
        case datetime():
            if value.year in EDGES and _overflows(value):
                yield path
        case msgspec.Struct():
            for field in _fields(type(value)):
                yield from beyond_utc(getattr(value, field), f"{path}.{field}")
        case list() | tuple() | set() | frozenset():
            for number, each in enumerate(cast(list[Any], value)):
                yield from beyond_utc(each, f"{path}[{number}]")
        case dict():
            for key, each in cast(dict[Any, Any], value).items():
                yield from beyond_utc(each, f"{path}.{key}")
        case _:
            return


def _overflows(time: datetime) -> bool:
    try:
        time.astimezone(UTC)
    except OverflowError:
        return True
    return False


@cache
def _fields(record: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a record that may hold times; the others are not looked into."""
    return tuple(field.name for field in msgspec.structs.fields(record) if _holds_times(field.type))


def _holds_times(hint: Any, within: frozenset[Any] = frozenset()) -> bool:
    if isinstance(hint, TypeAliasType):
        return _holds_times(hint.__value__, within)
    if hint is datetime:
        return True
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        inner = within | {hint}
        fields = msgspec.structs.fields(hint)
        return hint not in within and any(_holds_times(field.type, inner) for field in fields)
    arguments = get_args(hint)
    if get_origin(hint) is Annotated:
        return _holds_times(arguments[0], within)
    if get_origin(hint) in (Union, UnionType) or arguments:
        return any(_holds_times(each, within) for each in arguments)
    return False
