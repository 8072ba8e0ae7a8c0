"""Text that can be erased: an event holds its fingerprint, a table beside the log holds its words."""

from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Protocol
from uuid import UUID

from .event import Beside
from .value import Value

REDACTED = "<redacted>"


class ErasableText(Value):
    """What an event keeps of a text."""

    text_id: UUID
    sha256: str
    length: int


class WrittenText(Beside):
    """The words, written in the transaction of the event that refers to them."""

    text_id: UUID
    body: str


class ErasedText(Beside):
    """Words that are no longer kept."""

    text_id: UUID


def erasable(text_id: UUID, body: str) -> tuple[ErasableText, WrittenText]:
    """A text as the event keeps it and as the table keeps it."""
    digest = sha256(body.encode()).hexdigest()
    kept = ErasableText(text_id=text_id, sha256=digest, length=len(body))
    return kept, WrittenText(text_id=text_id, body=body)


class Texts(Protocol):
    """The table of texts; what was erased is absent."""

    async def texts(self, ids: Collection[UUID]) -> Mapping[UUID, str]: ...
