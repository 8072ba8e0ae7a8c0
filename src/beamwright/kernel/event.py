"""What an event is, and what may be written beside the log in the same transaction."""

from datetime import datetime
from typing import ClassVar
from uuid import UUID

from .errors import ConflictError
from .value import Value, encode


class Event(Value, tag_field="event_type", tag=True):
    """A fact. Field names are the stored format: add with a default, never rename.

    A breaking change is a new class tagged `<Name>#<schema version>`; the old class stays, with an upcaster.
    """

    occurred_at: datetime


class EventType(Value):
    """How the store names an event class."""

    name: str
    schema_version: int


def event_type(event: type[Event]) -> EventType:
    name, _, version = str(event.__struct_config__.tag).partition("#")
    return EventType(name=name, schema_version=int(version or 1))


def payload(event: Event) -> bytes:
    """The stored form: the event's own fields, without the tag that its columns carry."""
    encoded = encode(event)
    return b"{" + encoded[encoded.index(b",") + 1 :]


class Beside(Value):
    """Mutable data written, or erased, in the transaction that appends an event: never part of the log."""


class Claim(Value):
    """A key that only one live stream may hold, and the refusal for whoever comes second."""

    kind: str
    key: str
    taken: type[ConflictError]


class Belonging(Value):
    """Where an object belongs, for object-level authorization. Nothing at all means installation-wide."""

    facility_code: str | None = None
    visit_ids: frozenset[UUID] = frozenset()
    owner_id: UUID | None = None
    member_id: UUID | None = None

    nowhere: ClassVar["Belonging"]

    @property
    def installation_wide(self) -> bool:
        return self == Belonging.nowhere


Belonging.nowhere = Belonging()
