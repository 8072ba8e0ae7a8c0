"""What a logbook keeps of an entry, on whatever stream the logbook stands."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from beamwright.kernel.erasable import ErasableText
from beamwright.kernel.value import Time, Value


class LogbookEntryKind(StrEnum):
    NOTE = "Note"
    DEBRIEF = "Debrief"


class LogbookFormat(StrEnum):
    PLAIN = "Plain"
    MARKDOWN = "Markdown"


class LogbookReference(Value):
    """Something that an entry speaks of: the name of its aggregate, and its id."""

    kind: Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 100})]
    id: UUID


class LogbookEntry(Value):
    """One entry; its words are kept beside the log."""

    author_id: UUID
    kind: LogbookEntryKind
    text: ErasableText
    format: LogbookFormat
    tags: frozenset[str]
    references: tuple[LogbookReference, ...]
    corrects_entry_id: UUID | None
    decision_id: UUID | None
    written_at: Time
    redacted: bool = False
