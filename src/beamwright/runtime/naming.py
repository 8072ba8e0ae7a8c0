"""The objects a request names: whatever it loads of these must be within the caller's reach."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import msgspec


def named_ids(request: msgspec.Struct) -> frozenset[UUID]:
    return frozenset(_ids(request))


def _ids(value: Any) -> Iterator[UUID]:
    match value:
        case UUID():
            yield value
        case str() | int() | float() | None:
            return
        case msgspec.Struct():
            for field in value.__struct_fields__:
                yield from _ids(getattr(value, field))
        case Mapping():
            for key, item in value.items():  # pyright: ignore[reportUnknownVariableType] - any JSON
                yield from _ids(key)
                yield from _ids(item)
        case list() | tuple() | set() | frozenset():
            for item in value:  # pyright: ignore[reportUnknownVariableType] - any JSON
                yield from _ids(item)
        case _:
            return
