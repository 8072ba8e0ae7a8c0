"""Observing enclosures, the only way in which a permit status comes about, and assigning what is observed."""

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

from .enclosure import (
    LIFECYCLE,
    Enclosure,
    EnclosurePermitObserved,
    EnclosurePermitSourceAssigned,
    InvalidEnclosureReasonError,
    PermitSource,
    PermitStatus,
    checked_permit_source,
    enclosures,
)


class InvalidEnclosureObservedAtError(InvalidError):
    """The source time is missing, or more than a minute ahead of the clock."""


class EnclosureMonitorTriggerRequiredError(ConflictError):
    """Only a service account reports a permit status, and only as an observation."""


class EnclosureSourceMismatchError(ConflictError):
    """The observation comes from another source than the enclosure's permit source."""


class EnclosureObservationOutdatedError(ConflictError):
    """The source has reported something later already."""


class ObservedEnclosure(Value):
    """An enclosure, and when its source was last heard."""

    enclosure: Enclosure
    contact: Contact | None


@enclosures.operation("POST /enclosures/{enclosure_id}/observe")
class ObserveEnclosureStatus(Command[ObservedEnclosure]):
    """Report what the interlock system says of an enclosure's permit; a repetition only renews contact."""

    enclosure_id: UUID
    observed_status: PermitStatus
    monitor_ref: MonitorRef
    observed_at: Time | None = None
    reason: text.Reason

    async def gather(self, world: World) -> ObservedEnclosure:
        enclosure = await world.load(enclosures, self.enclosure_id)
        contacts = await world.contacts("Enclosure", [enclosure.id])
        return ObservedEnclosure(enclosure=enclosure, contact=contacts.get(enclosure.id))

    def decide(
        self, seen: ObservedEnclosure, occasion: Occasion
    ) -> list[EnclosurePermitObserved | SourceHeard]:
        request, enclosure = self.checked(occasion), seen.enclosure
        check_reporter(
            occasion.principal_kind,
            EnclosureMonitorTriggerRequiredError,
            "permits are reported by a service_account alone",
        )
        LIFECYCLE.check(EnclosurePermitObserved, enclosure.lifecycle, enclosure.id)
        check_source(enclosure, request.monitor_ref)
        outdated = EnclosureObservationOutdatedError
        check_in_order(seen.contact, request.observed_at, outdated, enclosure_id=str(enclosure.id))
        heard = request.heard(occasion)
        if request.observed_status is enclosure.permit_status:
            return [heard]
        return [request.observation(enclosure, occasion), heard]

    def checked(self, occasion: Occasion) -> "ObserveEnclosureStatus":
        """This request with its text trimmed, or the first refusal of a value."""
        ref = checked_monitor_ref(self.monitor_ref)
        if self.observed_at is None and self.observed_status is not PermitStatus.UNKNOWN:
            raise InvalidEnclosureObservedAtError(
                f"Give the source's time: only Unknown is reported without one, not {self.observed_status}."
            )
        check_not_ahead(self.observed_at, occasion.now, InvalidEnclosureObservedAtError)
        return replace(self, monitor_ref=ref, reason=text.reason(self.reason, InvalidEnclosureReasonError))

    def heard(self, occasion: Occasion) -> SourceHeard:
        """An Unknown without source time says that contact was lost; all else that the source spoke."""
        return SourceHeard(
            aggregate="Enclosure",
            id=self.enclosure_id,
            monitor_ref=self.monitor_ref,
            heard_at=occasion.now,
            observed_at=self.observed_at,
            connected=self.observed_at is not None,
        )

    def observation(self, enclosure: Enclosure, occasion: Occasion) -> EnclosurePermitObserved:
        return EnclosurePermitObserved(
            enclosure_id=enclosure.id,
            occurred_at=occasion.now,
            from_status=enclosure.permit_status,
            to_status=self.observed_status,
            reason=self.reason,
            trigger=TriggerSource.MONITOR,
            triggered_by=occasion.principal_id,
            monitor_ref=self.monitor_ref,
            observed_at=self.observed_at,
        )


def check_source(enclosure: Enclosure, ref: MonitorRef) -> None:
    """Gate: where a source is assigned, no other is believed."""
    source = enclosure.permit_source
    if source is not None and source.monitor_ref != ref:
        raise EnclosureSourceMismatchError(
            f"{enclosure.name} is watched through {source.source_kind} {source.source_id}; "
            "assign_enclosure_permit_source to change that.",
            enclosure_id=str(enclosure.id),
            source_kind=source.source_kind,
            source_id=source.source_id,
        )


@enclosures.operation("POST /enclosures/{enclosure_id}/assign-permit-source")
class AssignEnclosurePermitSource(Command[Enclosure]):
    """Say what the observer watches for an enclosure's permit, or nothing; the permit becomes Unknown."""

    enclosure_id: UUID
    permit_source: PermitSource | None = None
    reason: text.Reason

    async def gather(self, world: World) -> Enclosure:
        return await world.load(enclosures, self.enclosure_id)

    def decide(
        self, enclosure: Enclosure, occasion: Occasion
    ) -> list[EnclosurePermitSourceAssigned | SourceForgotten]:
        source = checked_permit_source(self.permit_source)
        reason = text.reason(self.reason, InvalidEnclosureReasonError)
        LIFECYCLE.check(EnclosurePermitSourceAssigned, enclosure.lifecycle, enclosure.id)
        if source == enclosure.permit_source:
            return []
        return [
            EnclosurePermitSourceAssigned(
                enclosure_id=enclosure.id, occurred_at=occasion.now, permit_source=source, reason=reason
            ),
            SourceForgotten(aggregate="Enclosure", id=enclosure.id),
        ]
