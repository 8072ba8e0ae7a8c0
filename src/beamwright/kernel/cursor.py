"""Opaque page cursors: the sort values of the last row, so that paging never counts rows."""

import base64
import binascii
from collections.abc import Sequence

import msgspec

from .errors import InvalidError


class InvalidCursorError(InvalidError):
    """The cursor does not come from this list."""


_decoder = msgspec.json.Decoder(list[str])


def encode_cursor(values: Sequence[str]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(list(values))).rstrip(b"=").decode()


def decode_cursor(text: str, length: int) -> list[str]:
    """The values that `encode_cursor` was given, or a refusal."""
    try:
        values = _decoder.decode(base64.urlsafe_b64decode(text.encode("ascii") + b"=="))
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        values = []
    if len(values) != length or any("\x00" in value for value in values):
        raise InvalidCursorError("Use the next_cursor of a page of the same list, unchanged, or none.")
    return values
