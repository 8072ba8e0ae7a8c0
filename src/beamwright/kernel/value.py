"""Immutable records: every event, state, command and view is a `Value`."""

from datetime import datetime
from typing import Annotated, Any, Protocol, dataclass_transform

import msgspec
from msgspec import UNSET, Meta, UnsetType

type Time = Annotated[datetime, Meta(tz=True)]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class ValueMeta(msgspec.StructMeta):
    """Makes every subclass frozen with keyword-only fields, without repeating it on each class."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **config: Any
    ) -> type:
        options: dict[str, Any] = {"frozen": True, "kw_only": True} | config
        return super().__new__(mcls, name, bases, namespace, **options)


class Value(msgspec.Struct, metaclass=ValueMeta):
    """An immutable record whose fields are given by name."""


class _Replaceable[**P, T](Protocol):
    def __replace__(self, *args: P.args, **kwargs: P.kwargs) -> T: ...


def replace[**P, T](value: _Replaceable[P, T], /, *args: P.args, **changes: P.kwargs) -> T:
    """A copy of `value` with `changes`; field names and types are checked statically."""
    return value.__replace__(*args, **changes)


def patched[T](given: T | UnsetType, current: T) -> T:
    """One field of a merge patch (RFC 7396): absent keeps what is there."""
    return current if given is UNSET else given


_encoder = msgspec.json.Encoder(order="deterministic")


def encode(value: Any) -> bytes:
    """Canonical JSON of anything made of values: sets and keys sorted, times in RFC 3339."""
    try:
        return _encoder.encode(value)
    except TypeError:
        # Maps keyed by ids take the slower way; fields keep their order, sets and keys come out sorted.
        return msgspec.json.encode(msgspec.to_builtins(value, str_keys=True, order="deterministic"))
