"""Text that people type: trimmed, bounded, and refused with the caller's own error when blank."""

import re
import unicodedata
from typing import Annotated

from msgspec import Meta

from .errors import InvalidError

type Name = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 200})]
type Reason = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 500, "x-may-contain-personal-data": True})
]
type ShortNote = Reason
type Note = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 5000, "x-may-contain-personal-data": True})
]
type Description = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 2000})]
type Personal = Annotated[str, Meta(extra_json_schema={"x-personal-data": True})]

# Control characters break logs and terminals, and those that turn the direction of writing make a text look like
# another one; prose may keep its tabs and line ends.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_CONTROL_IN_PROSE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def trimmed(value: str, most: int, refusal: type[InvalidError], what: str, *, prose: bool = False) -> str:
    """`value` without surrounding space, 1 to `most` characters long, or `refusal`."""
    text = value.strip()
    if not 1 <= len(text) <= most or (_CONTROL_IN_PROSE if prose else _CONTROL).search(text):
        raise refusal(
            f"The {what} must have 1 to {most} printable characters after trimming.",
            length=len(text),
            most=most,
        )
    return text


def name(value: str, refusal: type[InvalidError], what: str = "name") -> str:
    return trimmed(value, 200, refusal, what)


def reason(value: str, refusal: type[InvalidError]) -> str:
    return trimmed(value, 500, refusal, "reason", prose=True)


def short_note(value: str | None, refusal: type[InvalidError]) -> str | None:
    """An optional remark, as long as a reason."""
    return None if value is None else trimmed(value, 500, refusal, "note", prose=True)


def note(value: str, refusal: type[InvalidError]) -> str:
    return trimmed(value, 5000, refusal, "note", prose=True)


def description(value: str | None, refusal: type[InvalidError]) -> str | None:
    """An optional description of up to 2000 characters."""
    return None if value is None else trimmed(value, 2000, refusal, "description", prose=True)


def code(value: str, pattern: str, refusal: type[InvalidError], what: str = "code") -> str:
    """`value` without surrounding space, matching `pattern` as a whole."""
    text = value.strip()
    if not re.fullmatch(pattern, text):
        raise refusal(f"The {what} must match {pattern}.", pattern=pattern)
    return text


def folded(value: str) -> str:
    """How names are compared where two may not be alike."""
    return unicodedata.normalize("NFC", value).casefold()
