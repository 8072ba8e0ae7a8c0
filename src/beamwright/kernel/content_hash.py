"""Hashes of content: the same for the same meaning, whatever the order of keys or the form of a number."""

import hashlib
import json
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, cast
from unicodedata import normalize

import msgspec

# Integers up to here are doubles exactly, and are written as they are.
_EXACT = 1 << 53

_quoted = json.JSONEncoder(ensure_ascii=False).encode


def content_hash(media_type: str, content: Any) -> str:
    """SHA-256, in hex, over the DSSE v1 pre-authentication encoding of the media type and the canonical body."""
    kind, body = media_type.encode(), canonical(content)
    return hashlib.sha256(b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(body), body)).hexdigest()


def canonical(value: Any) -> bytes:
    """Canonical JSON (RFC 8785) with all text in NFC; sets are lists sorted by their members' canonical form."""
    return _text(value).encode()


def canonical_json(text: str) -> bytes:
    """The canonical form of a JSON text; quick where no letter and no number needs a second look."""
    if text.isascii() and "\\u" not in text and not _LONG.search(text):
        return _sorted.encode(_read.decode(text))
    return canonical(msgspec.json.decode(text))


def _text(value: Any) -> str:
    match value:
        case str():
            return _quoted(normalize("NFC", value))
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return _integer(value)
        case float():
            return _double(value)
        case dict():
            return _members(cast(dict[Any, Any], value).items())
        case list() | tuple():
            return f"[{','.join([_text(each) for each in cast(Iterable[Any], value)])}]"
        case set() | frozenset():
            members = [_text(each) for each in cast(Iterable[Any], value)]
            return f"[{','.join(sorted(members, key=str.encode))}]"
        case msgspec.Struct():
            return _members(_fields(value))
        case _:
            return _text(msgspec.to_builtins(value))


def _members(pairs: Iterable[tuple[Any, Any]]) -> str:
    named = [(normalize("NFC", _name(key)), value) for key, value in pairs]
    # RFC 8785 sorts by UTF-16 code units, which differs from code points beyond the basic plane.
    named.sort(key=lambda pair: pair[0].encode("utf-16-be"))
    members = ",".join([f"{_quoted(name)}:{_text(value)}" for name, value in named])
    return f"{{{members}}}"


def _name(key: Any) -> str:
    return key if isinstance(key, str) else str(msgspec.to_builtins(key))


def _fields(value: msgspec.Struct) -> Iterable[tuple[str, Any]]:
    """The fields of a record by their encoded names, with the tag of a union's member."""
    config = value.__struct_config__
    if config.tag_field is not None:
        yield config.tag_field, config.tag
    for name, field in zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True):
        if (given := getattr(value, field)) is not msgspec.UNSET:
            yield name, given


def _integer(value: int) -> str:
    if -_EXACT <= value <= _EXACT:
        return str(value)
    try:
        return _double(float(value))
    except OverflowError:
        # Beyond every double, so RFC 8785 has no form for it; in full, it is at least told from any other.
        return str(value)


def _double(value: float) -> str:
    """A number as ECMAScript writes it: the shortest digits that read back as the same double."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a JSON number")
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text, point = "".join(map(str, digits)), len(digits) + cast(int, exponent)
    return ("-" if sign else "") + _placed(text, point)


def _placed(digits: str, point: int) -> str:
    """`digits` with the decimal point after the first `point` of them, in ECMAScript's choice of notation."""
    if len(digits) <= point <= 21:
        return digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def _as_written(number: str) -> msgspec.Raw:
    return msgspec.Raw(_double(float(number)).encode())


# An integer that a double may not hold, which the quick encoder would write in full.
_LONG = re.compile(r"(?:^|[:\[, -])[0-9]{16}")
_read = msgspec.json.Decoder(float_hook=_as_written)
_sorted = msgspec.json.Encoder(order="sorted")
