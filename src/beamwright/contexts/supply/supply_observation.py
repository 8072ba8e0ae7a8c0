"""Observing supplies, and assigning what is observed.

A monitor takes away or announces; it never declares a supply available.
"""

from collections.abc import Mapping
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.observing import (
    Contact,
    MonitorRef,
    SourceForgotten,
    SourceHeard,
    TriggerSource,
    check_in_order,
    check_not_ahead,
    check_reporter,
    checked_monitor_ref,
)
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, Value, replace

from .supply import (
    IN_USE,
    STATUS,
    InvalidSupplyReasonError,
    StatusSource,
    Supply,
    SupplyCannotAssignStatusSourceError,
    SupplyCannotObserveError,
    SupplyDegraded,
    SupplyMarkedRecovering,
    SupplyMarkedUnavailable,
    SupplyStatus,
    SupplyStatusFact,
    SupplyStatusSourceAssigned,
    checked_status_source,
    supplies,
)

REPORTED: Mapping[SupplyStatus, type[SupplyStatusFact]] = {
    SupplyStatus.DEGRADED: SupplyDegraded,
    SupplyStatus.UNAVAILABLE: SupplyMarkedUnavailable,
    SupplyStatus.RECOVERING: SupplyMarkedRecovering,
}


class InvalidSupplyObservedAtError(InvalidError):
    """The source time is more than a minute ahead of the clock."""


class SupplyMonitorTriggerRequiredError(ConflictError):
    """Only a service account reports observations."""


class SupplySourceMismatchError(ConflictError):
    """The observation comes from another source than the supply's status source."""


class SupplyObservationOutdatedError(ConflictError):
    """The source has reported something later already."""


class SupplyMonitorTargetNotPermittedError(ConflictError):
    """A monitor reports Degraded, Unavailable and Recovering; anything else is declared by a command."""


class ObservedSupply(Value):
    """A supply, and when its source was last heard."""

    supply: Supply
    contact: Contact | None


@supplies.operation("POST /supplies/{supply_id}/observe")
class ObserveSupplyStatus(Command[ObservedSupply]):
    """Report what a monitor sees of a supply; a repetition of its present status only renews contact."""

    supply_id: UUID
    observed_status: SupplyStatus
    monitor_ref: MonitorRef
    observed_at: Time | None = None
    reason: text.Reason

    async def gather(self, world: World) -> ObservedSupply:
        supply = await world.load(supplies, self.supply_id)
        contacts = await world.contacts("Supply", [supply.id])
        return ObservedSupply(supply=supply, contact=contacts.get(supply.id))

    def decide(self, seen: ObservedSupply, occasion: Occasion) -> list[SupplyStatusFact | SourceHeard]:
        request, supply = self.checked(occasion), seen.supply
        check_reporter(
            occasion.principal_kind,
            SupplyMonitorTriggerRequiredError,
            "declare the status with its own command instead",
        )
        if supply.status not in IN_USE:
            raise SupplyCannotObserveError.of(supply.id, supply.status, IN_USE)
        check_source(supply, request.monitor_ref)
        outdated = SupplyObservationOutdatedError
        check_in_order(seen.contact, request.observed_at, outdated, supply_id=str(supply.id))
        heard = request.heard(occasion)
        if request.observed_status is supply.status:
            return [heard]
        return [request.observation(supply, occasion), heard]

    def checked(self, occasion: Occasion) -> "ObserveSupplyStatus":
        """This request with its text trimmed, or the first refusal of a value."""
        ref = checked_monitor_ref(self.monitor_ref)
        check_not_ahead(self.observed_at, occasion.now, InvalidSupplyObservedAtError)
        return replace(self, monitor_ref=ref, reason=text.reason(self.reason, InvalidSupplyReasonError))

    def heard(self, occasion: Occasion) -> SourceHeard:
        """An Unknown without source time says that contact was lost; all else that the source spoke."""
        return SourceHeard(
            aggregate="Supply",
            id=self.supply_id,
            monitor_ref=self.monitor_ref,
            heard_at=occasion.now,
            observed_at=self.observed_at,
            connected=self.observed_at is not None or self.observed_status is not SupplyStatus.UNKNOWN,
        )

    def observation(self, supply: Supply, occasion: Occasion) -> SupplyStatusFact:
        event = reported(supply, self.observed_status)
        STATUS.check(event, supply.status, supply.id)
        return event(
            supply_id=supply.id,
            occurred_at=occasion.now,
            from_status=supply.status,
            reason=self.reason,
            trigger=TriggerSource.MONITOR,
            triggered_by=occasion.principal_id,
            monitor_ref=self.monitor_ref,
            observed_at=self.observed_at,
        )


def check_source(supply: Supply, ref: MonitorRef) -> None:
    """Gate: where a source is assigned, no other is believed."""
    source = supply.status_source
    if source is not None and source.monitor_ref != ref:
        raise SupplySourceMismatchError(
            f"{supply.name} is watched through {source.source_kind} {source.source_id}; "
            "assign_supply_status_source to change that.",
            supply_id=str(supply.id),
            source_kind=source.source_kind,
            source_id=source.source_id,
        )


def reported(supply: Supply, target: SupplyStatus) -> type[SupplyStatusFact]:
    """The event of a status that a monitor may report."""
    event = REPORTED.get(target)
    if event is None:
        raise SupplyMonitorTargetNotPermittedError(
            f"A monitor does not report {target}; mark_supply_available or restore_supply declare it available.",
            supply_id=str(supply.id),
            target=target,
            permitted=sorted(REPORTED),
        )
    return event


@supplies.operation("POST /supplies/{supply_id}/assign-status-source")
class AssignSupplyStatusSource(Command[Supply]):
    """Say what the observer watches for a supply, or nothing; the status stays."""

    supply_id: UUID
    status_source: StatusSource | None = None
    reason: text.Reason

    async def gather(self, world: World) -> Supply:
        return await world.load(supplies, self.supply_id)

    def decide(
        self, supply: Supply, occasion: Occasion
    ) -> list[SupplyStatusSourceAssigned | SourceForgotten]:
        source = checked_status_source(self.status_source)
        reason = text.reason(self.reason, InvalidSupplyReasonError)
        if supply.status not in IN_USE:
            raise SupplyCannotAssignStatusSourceError.of(supply.id, supply.status, IN_USE)
        if source == supply.status_source:
            return []
        return [
            SupplyStatusSourceAssigned(
                supply_id=supply.id, occurred_at=occasion.now, status_source=source, reason=reason
            ),
            SourceForgotten(aggregate="Supply", id=supply.id),
        ]
