"""Observed status: who reports it, from which source, and when that source was last heard."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Protocol
from uuid import UUID

from msgspec import Meta

from . import text
from .errors import ConflictError, InvalidError
from .event import Beside
from .roles import ActorKind
from .value import Time, Value

# A source's clock may be ahead of ours by this much.
MOST_AHEAD = timedelta(seconds=60)
# The kind of a source that reports by itself: nobody watches it.
PUSH = "push"
_KIND = "^[a-z0-9_-]{1,50}$"

type SourceKind = Annotated[str, Meta(extra_json_schema={"pattern": _KIND})]


class TriggerSource(StrEnum):
    """Who asserted a status: a person, a monitor's observation, or the service's own agents and accounts."""

    OPERATOR = "Operator"
    MONITOR = "Monitor"
    AUTO = "Auto"


def trigger(kind: str) -> TriggerSource:
    """What a command that is no observation carries for a caller of this kind."""
    return TriggerSource.OPERATOR if kind == ActorKind.HUMAN else TriggerSource.AUTO


class MonitorRef(Value):
    """Where an observation comes from: a control adapter (for example `channel_access`) and the address there."""

    source_kind: SourceKind
    source_id: text.Name


class InvalidMonitorRefError(InvalidError):
    """The monitor reference's kind or address is malformed."""


def checked_monitor_ref(ref: MonitorRef, refusal: type[InvalidError] = InvalidMonitorRefError) -> MonitorRef:
    return MonitorRef(
        source_kind=text.code(ref.source_kind, _KIND, refusal, "source kind"),
        source_id=text.trimmed(ref.source_id, 200, refusal, "source id"),
    )


class Contact(Value):
    """When a source was last heard, which unchanged observations would otherwise hide."""

    connected: bool
    last_contact_at: Time | None = None
    last_observed_at: Time | None = None
    last_error: str | None = None


class ContactView(Value):
    """A contact as a view shows it."""

    connected: bool
    fresh: bool
    last_contact_at: Time | None
    last_observed_at: Time | None
    last_error: str | None


def fresh(contact: Contact | None, now: datetime, limit: timedelta) -> bool:
    """Whether the source was heard within `limit`; a source without a row was never heard.

    Of a time that is yet to come, after a clock was set back, nobody knows how long ago it was.
    """
    return (
        contact is not None
        and contact.connected
        and contact.last_contact_at is not None
        and -limit <= now - contact.last_contact_at <= limit
    )


def contact_view(contact: Contact | None, now: datetime, limit: timedelta) -> ContactView | None:
    if contact is None:
        return None
    return ContactView(
        connected=contact.connected,
        fresh=fresh(contact, now, limit),
        last_contact_at=contact.last_contact_at,
        last_observed_at=contact.last_observed_at,
        last_error=contact.last_error,
    )


def outdated(contact: Contact | None, observed_at: datetime | None) -> bool:
    """Whether a source time runs backwards."""
    return (
        contact is not None
        and contact.last_observed_at is not None
        and observed_at is not None
        and observed_at < contact.last_observed_at
    )


def check_reporter(kind: str, refusal: type[ConflictError], instead: str) -> None:
    """Gate: what is observed is reported by a monitor, never declared by a person or an agent."""
    if kind != ActorKind.SERVICE_ACCOUNT:
        raise refusal(f"The caller is of kind {kind}; {instead}.", kind=kind)


def check_not_ahead(observed_at: datetime | None, now: datetime, refusal: type[InvalidError]) -> None:
    """Gate: the source's clock is ours, nearly."""
    if observed_at is not None and observed_at > now + MOST_AHEAD:
        raise refusal(
            f"{observed_at.isoformat()} lies more than a minute ahead; set the source's clock right.",
            now=now.isoformat(),
        )


def check_in_order(
    contact: Contact | None, observed_at: datetime | None, refusal: type[ConflictError], **about: str
) -> None:
    """Gate: source times do not run backwards."""
    if contact is not None and outdated(contact, observed_at):
        raise refusal(
            "The source has reported a later time already; report what it says now.",
            **about,
            last_observed_at=contact.last_observed_at and contact.last_observed_at.isoformat(),
        )


class SourceHeard(Beside):
    """An accepted observation; without a source time it says that contact was lost."""

    aggregate: str
    id: UUID
    monitor_ref: MonitorRef
    heard_at: datetime
    observed_at: datetime | None
    connected: bool


class SourceForgotten(Beside):
    """Another source was assigned: what was heard before belonged to the old one."""

    aggregate: str
    id: UUID


type Contacts = Mapping[UUID, Contact]


class ContactBook(Protocol):
    """The table of contacts. What is heard is written beside an accepted observation; only silence comes here."""

    async def contacts(self, aggregate: str, ids: Collection[UUID]) -> Contacts: ...
    async def lost(self, aggregate: str, id: UUID, ref: MonitorRef, error: str) -> None: ...
