"""What the tests of supplies share: one supply, its sources, and how each status is reached."""

from datetime import datetime
from uuid import UUID

from beamwright.contexts.supply.supply import (
    StatusSource,
    SupplyDegraded,
    SupplyDeregistered,
    SupplyMarkedAvailable,
    SupplyMarkedRecovering,
    SupplyMarkedUnavailable,
    SupplyRegistered,
    SupplyStatus,
    SupplyStatusFact,
)
from beamwright.kernel.observing import MonitorRef, TriggerSource
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.units import Unit, UnitSystem
from beamwright.kernel.value import replace
from tests.rules import NOW, OCCASION, PRINCIPAL

SUPPLY = UUID(int=2)
X = MonitorRef(source_kind="channel_access", source_id="S:SRcurrent")
Y = MonitorRef(source_kind="simulated", source_id="Y")
SOURCE_X = StatusSource(
    source_kind=X.source_kind,
    source_id=X.source_id,
    unavailable_below=2,
    recovering_above=10,
    degraded_below=90,
    unit=Unit(system=UnitSystem.UDUNITS, code="mA"),
)
SOURCE_Y = StatusSource(source_kind=Y.source_kind, source_id=Y.source_id)
AS_MONITOR = replace(OCCASION, principal_kind=ActorKind.SERVICE_ACCOUNT)

REGISTERED = SupplyRegistered(
    supply_id=SUPPLY, occurred_at=NOW, kind="photon_beam", name="Storage ring", facility_code="aps"
)
WATCHED = replace(REGISTERED, status_source=SOURCE_X)


def declared[E: SupplyStatusFact](
    event: type[E], start: SupplyStatus, trigger: TriggerSource = TriggerSource.OPERATOR
) -> E:
    return event(
        supply_id=SUPPLY,
        occurred_at=NOW,
        from_status=start,
        reason="r",
        trigger=trigger,
        triggered_by=PRINCIPAL,
    )


def observed[E: SupplyStatusFact](
    event: type[E], start: SupplyStatus, at: datetime | None = NOW, ref: MonitorRef = X
) -> E:
    return event(
        supply_id=SUPPLY,
        occurred_at=NOW,
        from_status=start,
        reason="r",
        trigger=TriggerSource.MONITOR,
        triggered_by=PRINCIPAL,
        monitor_ref=ref,
        observed_at=at,
    )


MARKED_AVAILABLE = declared(SupplyMarkedAvailable, SupplyStatus.UNKNOWN)
DEGRADED = declared(SupplyDegraded, SupplyStatus.AVAILABLE)
MARKED_UNAVAILABLE = declared(SupplyMarkedUnavailable, SupplyStatus.AVAILABLE)
MARKED_RECOVERING = declared(SupplyMarkedRecovering, SupplyStatus.UNAVAILABLE)
DEREGISTERED = declared(SupplyDeregistered, SupplyStatus.AVAILABLE)

# What follows the registration until each status is reached.
REACH = {
    "Unknown": [],
    "Available": [MARKED_AVAILABLE],
    "Degraded": [MARKED_AVAILABLE, DEGRADED],
    "Unavailable": [MARKED_AVAILABLE, MARKED_UNAVAILABLE],
    "Recovering": [MARKED_AVAILABLE, MARKED_UNAVAILABLE, MARKED_RECOVERING],
    "Decommissioned": [MARKED_AVAILABLE, DEREGISTERED],
}
