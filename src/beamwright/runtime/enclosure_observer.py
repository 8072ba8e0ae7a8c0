"""The observer of permit sources: a permit is Unknown whenever its source is not heard."""

from typing import Any

from beamwright.contexts.enclosure.enclosure import (
    EnclosureLifecycle,
    PermitSource,
    PermitStatus,
    enclosures,
)
from beamwright.contexts.enclosure.enclosure_observation import ObserveEnclosureStatus
from beamwright.contexts.enclosure.observing import observed
from beamwright.kernel.observing import PUSH

from .observer import Observation, Report, Silence, Watch


def permit_source(enclosure: Any) -> PermitSource | None:
    """What is watched for an enclosure, as its view shows it; who pushes reports by itself."""
    source: PermitSource | None = enclosure.permit_source
    watched = enclosure.lifecycle is EnclosureLifecycle.ACTIVE and source and source.source_kind != PUSH
    return source if watched else None


def permit_report(enclosure: Any, observation: Observation) -> Report:
    """Silence is reported as Unknown without a source time, and kept as the contact's error."""
    source: PermitSource = enclosure.permit_source
    if isinstance(observation, Silence):
        status, reason, observed_at, silence = PermitStatus.UNKNOWN, observation.reason, None, True
    else:
        status, reason = observed(source, observation)
        observed_at, silence = observation.produced_at, False
    command = ObserveEnclosureStatus(
        enclosure_id=enclosure.id,
        observed_status=status,
        monitor_ref=source.monitor_ref,
        observed_at=observed_at,
        reason=reason,
    )
    return Report(command=command, silence=reason if silence else None)


ENCLOSURES = Watch(
    aggregate=enclosures,
    filters={"watched": True, "lifecycle": EnclosureLifecycle.ACTIVE},
    source=permit_source,
    report=permit_report,
)
