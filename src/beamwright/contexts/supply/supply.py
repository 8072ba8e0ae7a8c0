"""Supply: a continuous resource that work depends on, for example beam, vacuum or computing, and whether it is there."""

import math
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
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
    trigger,
)
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.units import Unit, check_unit
from beamwright.kernel.value import Time, Value, replace

type SupplyKind = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 50})]


class SupplyStatus(StrEnum):
    UNKNOWN = "Unknown"
    AVAILABLE = "Available"
    DEGRADED = "Degraded"
    UNAVAILABLE = "Unavailable"
    RECOVERING = "Recovering"
    DECOMMISSIONED = "Decommissioned"


UNKNOWN, AVAILABLE, DEGRADED, UNAVAILABLE, RECOVERING, DECOMMISSIONED = SupplyStatus
IN_USE = frozenset(SupplyStatus) - {DECOMMISSIONED}


class SupplyNotFoundError(NotFoundError):
    """There is no such supply."""


class InvalidSupplyReasonError(InvalidError):
    """The reason is blank or too long."""


class InvalidStatusSourceError(InvalidError):
    """The status source's kind, address, thresholds or unit are malformed."""


class SupplyAlreadyExistsError(ConflictError):
    """The same place has a supply of this kind and name already."""


class SupplyCannotMarkAvailableError(CannotTransitionError):
    """Only a supply of which nothing is known is marked available."""


class SupplyCannotDegradeError(CannotTransitionError):
    """The supply is degraded already, or unavailable, or deregistered."""


class SupplyCannotMarkUnavailableError(CannotTransitionError):
    """The supply is unavailable already, or deregistered."""


class SupplyCannotMarkRecoveringError(CannotTransitionError):
    """Only an unavailable supply recovers."""


class SupplyCannotRestoreError(CannotTransitionError):
    """Only a recovering or degraded supply is restored."""


class SupplyCannotDeregisterError(CannotTransitionError):
    """The supply is deregistered already."""


class SupplyCannotObserveError(CannotTransitionError):
    """A deregistered supply is observed no more."""


class SupplyCannotAssignStatusSourceError(CannotTransitionError):
    """A deregistered supply gets no other status source."""


class StatusSource(MonitorRef):
    """What the observer watches; a numeric source has thresholds, written in its own unit."""

    unavailable_below: float | None = None
    recovering_above: float | None = None
    degraded_below: float | None = None
    unit: Unit | None = None

    @property
    def monitor_ref(self) -> MonitorRef:
        return MonitorRef(source_kind=self.source_kind, source_id=self.source_id)

    @property
    def thresholds(self) -> list[float]:
        """Those that are given, in the order in which they must rise."""
        given = (self.unavailable_below, self.recovering_above, self.degraded_below)
        return [threshold for threshold in given if threshold is not None]


class SupplyFact(Event):
    supply_id: UUID


class SupplyRegistered(SupplyFact):
    kind: str
    name: str
    facility_code: str
    containing_asset_id: UUID | None = None
    status_source: StatusSource | None = None


class SupplyStatusFact(SupplyFact):
    """What every change of status tells: from where, why, and who said so."""

    from_status: SupplyStatus
    reason: str
    trigger: TriggerSource
    triggered_by: UUID
    monitor_ref: MonitorRef | None = None
    observed_at: datetime | None = None


class SupplyMarkedAvailable(SupplyStatusFact): ...


class SupplyDegraded(SupplyStatusFact): ...


class SupplyMarkedUnavailable(SupplyStatusFact): ...


class SupplyMarkedRecovering(SupplyStatusFact): ...


class SupplyRestored(SupplyStatusFact): ...


class SupplyDeregistered(SupplyStatusFact): ...


class SupplyStatusSourceAssigned(SupplyFact):
    status_source: StatusSource | None
    reason: str


type SupplyEvent = (
    SupplyRegistered
    | SupplyMarkedAvailable
    | SupplyDegraded
    | SupplyMarkedUnavailable
    | SupplyMarkedRecovering
    | SupplyRestored
    | SupplyDeregistered
    | SupplyStatusSourceAssigned
)

STATUS = StateMachine[SupplyStatus](
    {
        SupplyMarkedAvailable: move({UNKNOWN}, AVAILABLE, SupplyCannotMarkAvailableError),
        SupplyDegraded: move({UNKNOWN, AVAILABLE, RECOVERING}, DEGRADED, SupplyCannotDegradeError),
        SupplyMarkedUnavailable: move(
            {UNKNOWN, AVAILABLE, DEGRADED, RECOVERING}, UNAVAILABLE, SupplyCannotMarkUnavailableError
        ),
        SupplyMarkedRecovering: move({UNAVAILABLE}, RECOVERING, SupplyCannotMarkRecoveringError),
        SupplyRestored: move({RECOVERING, DEGRADED}, AVAILABLE, SupplyCannotRestoreError),
        SupplyDeregistered: move(IN_USE, DECOMMISSIONED, SupplyCannotDeregisterError),
    }
)


class Supply(Value):
    id: UUID
    kind: str
    name: str
    facility_code: str
    containing_asset_id: UUID | None
    status: SupplyStatus = UNKNOWN
    status_reason: text.Reason | None = None
    status_since: Time
    last_trigger: TriggerSource | None = None
    last_triggered_by: UUID | None = None
    observed_at: Time | None = None
    status_source: StatusSource | None
    deregistered_at: Time | None = None

    @property
    def watched(self) -> bool:
        return self.status_source is not None


def evolve(supply: Supply | None, event: SupplyEvent) -> Supply:
    match event:
        case SupplyRegistered():
            return Supply(
                id=event.supply_id,
                kind=event.kind,
                name=event.name,
                facility_code=event.facility_code,
                containing_asset_id=event.containing_asset_id,
                status_since=event.occurred_at,
                status_source=event.status_source,
            )
        case _ if supply is None:
            raise ValueError(event)
        case SupplyStatusSourceAssigned():
            return replace(supply, status_source=event.status_source)
        case SupplyDeregistered():
            return replace(_changed(supply, event), deregistered_at=event.occurred_at)
        case (
            SupplyMarkedAvailable()
            | SupplyDegraded()
            | SupplyMarkedUnavailable()
            | SupplyMarkedRecovering()
            | SupplyRestored()
        ):
            return _changed(supply, event)
        case _:
            assert_never(event)


def _changed(supply: Supply, event: SupplyStatusFact) -> Supply:
    observed = event.trigger is TriggerSource.MONITOR
    return replace(
        supply,
        status=STATUS.after(event),
        status_reason=event.reason,
        status_since=event.occurred_at,
        last_trigger=event.trigger,
        last_triggered_by=event.triggered_by,
        observed_at=event.observed_at if observed else supply.observed_at,
    )


def claims(supply: Supply) -> list[Claim]:
    """A kind and name are taken at their place until the supply is deregistered."""
    if supply.status is DECOMMISSIONED:
        return []
    place = str(supply.containing_asset_id or "-")
    key = "\n".join((supply.facility_code, place, supply.kind, text.folded(supply.name)))
    return [Claim(kind="supply-address", key=key, taken=SupplyAlreadyExistsError)]


supplies = Aggregate[Supply, SupplyEvent](
    "Supply",
    plural="supplies",
    events=SupplyEvent,
    evolve=evolve,
    missing=SupplyNotFoundError,
    belongs=lambda supply: Belonging(facility_code=supply.facility_code),
    claims=claims,
)

# What a source is like of which nothing was ever heard.
_NEVER_HEARD = Contact(connected=False)


class SupplyExtras(Value):
    """What a supply's view shows beyond its state: when its source was last heard, where it has one."""

    contact: ContactView | None


async def supply_extras(world: World, states: Sequence[Supply]) -> list[SupplyExtras]:
    contacts = await world.contacts("Supply", [supply.id for supply in states])
    now, limit = world.now, world.installation.supply_stale_after
    return [
        SupplyExtras(
            contact=contact_view(
                contacts.get(supply.id, _NEVER_HEARD if supply.watched else None), now, limit
            )
        )
        for supply in states
    ]


supplies.reads(
    "/supplies",
    filters=(
        "facility_code",
        "containing_asset_id",
        "kind",
        "status",
        Filter(name="watched", type=bool, of=lambda supply: supply.watched),
    ),
    sorts=("kind", "name", "created_at", "status_since"),
    text=("kind", "name"),
    extras=(SupplyExtras, supply_extras),
)


class SupplyMove(Command[Supply]):
    """A change of status that somebody declares; observations are not among them."""

    supply_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Supply:
        return await world.load(supplies, self.supply_id)

    def declared[E: SupplyStatusFact](self, event: type[E], supply: Supply, occasion: Occasion) -> E:
        reason = text.reason(self.reason, InvalidSupplyReasonError)
        STATUS.check(event, supply.status, supply.id)
        return event(
            supply_id=supply.id,
            occurred_at=occasion.now,
            from_status=supply.status,
            reason=reason,
            trigger=trigger(occasion.principal_kind),
            triggered_by=occasion.principal_id,
        )


@supplies.operation("POST /supplies/{supply_id}/mark-available")
class MarkSupplyAvailable(SupplyMove):
    """Declare that a supply of which nothing was known is available."""

    def decide(self, supply: Supply, occasion: Occasion) -> SupplyMarkedAvailable:
        return self.declared(SupplyMarkedAvailable, supply, occasion)


@supplies.operation("POST /supplies/{supply_id}/degrade")
class DegradeSupply(SupplyMove):
    """Declare that a supply delivers less than it should; work that needs it does not start."""

    def decide(self, supply: Supply, occasion: Occasion) -> SupplyDegraded:
        return self.declared(SupplyDegraded, supply, occasion)


@supplies.operation("POST /supplies/{supply_id}/mark-unavailable")
class MarkSupplyUnavailable(SupplyMove):
    """Declare that a supply is not there."""

    def decide(self, supply: Supply, occasion: Occasion) -> SupplyMarkedUnavailable:
        return self.declared(SupplyMarkedUnavailable, supply, occasion)


@supplies.operation("POST /supplies/{supply_id}/mark-recovering")
class MarkSupplyRecovering(SupplyMove):
    """Declare that an unavailable supply is coming back."""

    def decide(self, supply: Supply, occasion: Occasion) -> SupplyMarkedRecovering:
        return self.declared(SupplyMarkedRecovering, supply, occasion)


@supplies.operation("POST /supplies/{supply_id}/restore")
class RestoreSupply(SupplyMove):
    """Declare that a recovering or degraded supply is available again."""

    def decide(self, supply: Supply, occasion: Occasion) -> SupplyRestored:
        return self.declared(SupplyRestored, supply, occasion)


@supplies.operation("POST /supplies/{supply_id}/deregister")
class DeregisterSupply(SupplyMove):
    """Take a supply out of use for good; its name becomes free."""

    def decide(self, supply: Supply, occasion: Occasion) -> SupplyDeregistered:
        return self.declared(SupplyDeregistered, supply, occasion)


def checked_status_source(source: StatusSource | None) -> StatusSource | None:
    """The source with its text trimmed, its thresholds rising and written in a unit."""
    if source is None:
        return None
    ref, thresholds = checked_monitor_ref(source, InvalidStatusSourceError), source.thresholds
    if not all(math.isfinite(threshold) for threshold in thresholds):
        raise InvalidStatusSourceError("The thresholds must be finite numbers.")
    if any(lower > upper for lower, upper in pairwise(thresholds)):
        raise InvalidStatusSourceError(
            "The thresholds must not fall: unavailable_below <= recovering_above <= degraded_below.",
            thresholds=thresholds,
        )
    if thresholds and source.unit is None:
        raise InvalidStatusSourceError("Name the unit of the thresholds, which is the source's own.")
    if source.unit is not None:
        check_unit(source.unit, InvalidStatusSourceError, "/status_source/unit")
    return replace(source, source_kind=ref.source_kind, source_id=ref.source_id)
