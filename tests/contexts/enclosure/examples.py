"""What the tests of enclosures share: one enclosure, its sources and its history."""

from datetime import datetime
from uuid import UUID

from beamwright.contexts.enclosure.enclosure import (
    EnclosureDecommissioned,
    EnclosurePermitObserved,
    EnclosurePermitSourceAssigned,
    EnclosureRegistered,
    PermitSource,
    PermitStatus,
)
from beamwright.kernel.observing import MonitorRef, TriggerSource
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import replace
from tests.rules import NOW, OCCASION, PRINCIPAL

ENCLOSURE = UUID(int=2)
X = MonitorRef(source_kind="channel_access", source_id="PSS:A:PERMIT")
Y = MonitorRef(source_kind="simulated", source_id="Y")
SOURCE_X = PermitSource(source_kind=X.source_kind, source_id=X.source_id)
SOURCE_Y = PermitSource(source_kind=Y.source_kind, source_id=Y.source_id)
AS_MONITOR = replace(OCCASION, principal_kind=ActorKind.SERVICE_ACCOUNT)

REGISTERED = EnclosureRegistered(
    enclosure_id=ENCLOSURE, occurred_at=NOW, name="Station A", facility_code="aps"
)
WATCHED = replace(REGISTERED, permit_source=SOURCE_X)
ASSIGNED_Y = EnclosurePermitSourceAssigned(
    enclosure_id=ENCLOSURE, occurred_at=NOW, permit_source=SOURCE_Y, reason="new interlock"
)
DECOMMISSIONED = EnclosureDecommissioned(enclosure_id=ENCLOSURE, occurred_at=NOW, reason="dismantled")


def observed(
    to: PermitStatus,
    start: PermitStatus = PermitStatus.UNKNOWN,
    at: datetime | None = NOW,
    ref: MonitorRef = X,
    reason: str = "source reported 1",
) -> EnclosurePermitObserved:
    return EnclosurePermitObserved(
        enclosure_id=ENCLOSURE,
        occurred_at=NOW,
        from_status=start,
        to_status=to,
        reason=reason,
        trigger=TriggerSource.MONITOR,
        triggered_by=PRINCIPAL,
        monitor_ref=ref,
        observed_at=at,
    )


PERMITTED = observed(PermitStatus.PERMITTED)
