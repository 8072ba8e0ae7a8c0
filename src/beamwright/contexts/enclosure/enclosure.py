"""Enclosure: an interlock-gated volume, and the permit state that the facility's interlock system reports of it.

Beamwright is not a safety interlock: nothing here grants, forces or bypasses a permit.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.observing import (
    Contact,
    ContactView,
    MonitorRef,
    TriggerSource,
    checked_monitor_ref,
    contact_view,
)
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, Value, replace

# Whole numbers beyond this are not exact in JSON.
MOST_VALUE = 2**53

type PermitValue = (
    Annotated[int, Meta(extra_json_schema={"minimum": -MOST_VALUE, "maximum": MOST_VALUE})]
    | Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 200})]
)


class EnclosureLifecycle(StrEnum):
    ACTIVE = "Active"
    DECOMMISSIONED = "Decommissioned"


class PermitStatus(StrEnum):
    """What the interlock system reports; a bypass is its own affair, hence no such status."""

    PERMITTED = "Permitted"
    NOT_PERMITTED = "NotPermitted"
    UNKNOWN = "Unknown"


class EnclosureNotFoundError(NotFoundError):
    """There is no such enclosure."""


class InvalidEnclosureNameError(InvalidError):
    """The enclosure's name is blank or too long."""


class InvalidEnclosureReasonError(InvalidError):
    """The reason is blank or too long."""


class InvalidPermitSourceError(InvalidError):
    """The permit source's kind, address or values are malformed, or both values are the same."""


class EnclosureAlreadyExistsError(ConflictError):
    """Another active enclosure of the facility has this name."""


class EnclosureCannotObserveError(CannotTransitionError):
    """The permit of a decommissioned enclosure is observed no more."""


class EnclosureCannotAssignPermitSourceError(CannotTransitionError):
    """A decommissioned enclosure gets no other permit source."""


class EnclosureCannotDecommissionError(CannotTransitionError):
    """The enclosure is decommissioned already."""


class PermitSource(MonitorRef):
    """What the observer watches, and which of its values mean that the permit is given or withheld."""

    permitted_value: PermitValue = 1
    not_permitted_value: PermitValue = 0

    @property
    def monitor_ref(self) -> MonitorRef:
        return MonitorRef(source_kind=self.source_kind, source_id=self.source_id)


class EnclosureFact(Event):
    enclosure_id: UUID


class EnclosureRegistered(EnclosureFact):
    name: str
    facility_code: str
    permit_source: PermitSource | None = None


class EnclosurePermitObserved(EnclosureFact):
    from_status: PermitStatus
    to_status: PermitStatus
    reason: str
    trigger: TriggerSource
    triggered_by: UUID
    monitor_ref: MonitorRef
    observed_at: datetime | None = None


class EnclosurePermitSourceAssigned(EnclosureFact):
    permit_source: PermitSource | None
    reason: str


class EnclosureDecommissioned(EnclosureFact):
    reason: str


type EnclosureEvent = (
    EnclosureRegistered | EnclosurePermitObserved | EnclosurePermitSourceAssigned | EnclosureDecommissioned
)

LIFECYCLE = StateMachine[EnclosureLifecycle](
    {
        EnclosurePermitObserved: move(
            {EnclosureLifecycle.ACTIVE}, EnclosureLifecycle.ACTIVE, EnclosureCannotObserveError
        ),
        EnclosurePermitSourceAssigned: move(
            {EnclosureLifecycle.ACTIVE}, EnclosureLifecycle.ACTIVE, EnclosureCannotAssignPermitSourceError
        ),
        EnclosureDecommissioned: move(
            {EnclosureLifecycle.ACTIVE}, EnclosureLifecycle.DECOMMISSIONED, EnclosureCannotDecommissionError
        ),
    }
)


class Enclosure(Value):
    id: UUID
    name: str
    facility_code: str
    lifecycle: EnclosureLifecycle = EnclosureLifecycle.ACTIVE
    permit_status: PermitStatus = PermitStatus.UNKNOWN
    permit_reason: text.Reason | None = None
    permit_since: Time
    observed_at: Time | None = None
    last_monitor_ref: MonitorRef | None = None
    permit_source: PermitSource | None
    decommissioned_at: Time | None = None

    @property
    def watched(self) -> bool:
        return self.permit_source is not None


def evolve(enclosure: Enclosure | None, event: EnclosureEvent) -> Enclosure:
    match event:
        case EnclosureRegistered():
            return Enclosure(
                id=event.enclosure_id,
                name=event.name,
                facility_code=event.facility_code,
                permit_since=event.occurred_at,
                permit_source=event.permit_source,
            )
        case _ if enclosure is None:
            raise ValueError(event)
        case EnclosurePermitObserved():
            return replace(
                enclosure,
                permit_status=event.to_status,
                permit_reason=event.reason,
                permit_since=event.occurred_at,
                observed_at=event.observed_at,
                last_monitor_ref=event.monitor_ref,
            )
        case EnclosurePermitSourceAssigned():
            return replace(_unobserved(enclosure, event), permit_source=event.permit_source)
        case EnclosureDecommissioned():
            return replace(enclosure, lifecycle=LIFECYCLE.after(event), decommissioned_at=event.occurred_at)
        case _:
            assert_never(event)


def _unobserved(enclosure: Enclosure, event: EnclosurePermitSourceAssigned) -> Enclosure:
    """What was observed belonged to another source, so nothing is known any more."""
    if enclosure.permit_status is PermitStatus.UNKNOWN:
        return replace(enclosure, observed_at=None)
    return replace(
        enclosure,
        permit_status=PermitStatus.UNKNOWN,
        permit_reason=event.reason,
        permit_since=event.occurred_at,
        observed_at=None,
    )


def claims(enclosure: Enclosure) -> list[Claim]:
    """A name is taken within its facility while the enclosure is active."""
    if enclosure.lifecycle is EnclosureLifecycle.DECOMMISSIONED:
        return []
    key = f"{enclosure.facility_code}/{text.folded(enclosure.name)}"
    return [Claim(kind="enclosure-name", key=key, taken=EnclosureAlreadyExistsError)]


enclosures = Aggregate[Enclosure, EnclosureEvent](
    "Enclosure",
    events=EnclosureEvent,
    evolve=evolve,
    missing=EnclosureNotFoundError,
    belongs=lambda enclosure: Belonging(facility_code=enclosure.facility_code),
    claims=claims,
)

# What a source is like of which nothing was ever heard.
_NEVER_HEARD = Contact(connected=False)


class EnclosureExtras(Value):
    """What an enclosure's view shows beyond its state: when its source was last heard."""

    contact: ContactView | None


async def enclosure_extras(world: World, states: Sequence[Enclosure]) -> list[EnclosureExtras]:
    contacts = await world.contacts("Enclosure", [enclosure.id for enclosure in states])
    now, limit = world.now, world.installation.enclosure_stale_after
    return [
        EnclosureExtras(contact=contact_view(contacts.get(enclosure.id, _NEVER_HEARD), now, limit))
        for enclosure in states
    ]


enclosures.reads(
    "/enclosures",
    filters=(
        "facility_code",
        "lifecycle",
        "permit_status",
        Filter(name="watched", type=bool, of=lambda enclosure: enclosure.watched),
    ),
    sorts=("name", "created_at", "permit_since"),
    text=("name",),
    extras=(EnclosureExtras, enclosure_extras),
)


@enclosures.operation("POST /enclosures/{enclosure_id}/decommission")
class DecommissionEnclosure(Command[Enclosure]):
    """Take an enclosure out of use for good; what is located inside fails the start gate until placed elsewhere."""

    enclosure_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Enclosure:
        return await world.load(enclosures, self.enclosure_id)

    def decide(self, enclosure: Enclosure, occasion: Occasion) -> EnclosureDecommissioned:
        reason = text.reason(self.reason, InvalidEnclosureReasonError)
        LIFECYCLE.check(EnclosureDecommissioned, enclosure.lifecycle, enclosure.id)
        return EnclosureDecommissioned(enclosure_id=enclosure.id, occurred_at=occasion.now, reason=reason)


def checked_permit_source(source: PermitSource | None) -> PermitSource | None:
    """The source with its text trimmed; its values are compared exactly, hence kept as they are."""
    if source is None:
        return None
    ref = checked_monitor_ref(source, InvalidPermitSourceError)
    for value in (source.permitted_value, source.not_permitted_value):
        _check_permit_value(value)
    if source.permitted_value == source.not_permitted_value:
        raise InvalidPermitSourceError(
            "One value cannot mean both; give a permitted_value and another not_permitted_value.",
            value=source.permitted_value,
        )
    return replace(source, source_kind=ref.source_kind, source_id=ref.source_id)


def _check_permit_value(value: PermitValue) -> None:
    if isinstance(value, str) and not 1 <= len(value) <= 200:
        raise InvalidPermitSourceError("A text value has 1 to 200 characters.", length=len(value))
    if isinstance(value, int) and abs(value) > MOST_VALUE:
        raise InvalidPermitSourceError(f"A whole number lies within {MOST_VALUE} of 0.", most=MOST_VALUE)
