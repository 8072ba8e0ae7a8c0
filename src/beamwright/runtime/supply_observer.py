"""The observer of status sources: silence changes no supply, it only ends the contact that the gate asks for."""

from typing import Any

from beamwright.contexts.supply.observing import reading, report
from beamwright.contexts.supply.supply import StatusSource, SupplyStatus, supplies
from beamwright.contexts.supply.supply_observation import ObserveSupplyStatus
from beamwright.kernel.control import Measurement, Quality
from beamwright.kernel.observing import PUSH

from .observer import Observation, Report, Silence, Watch

MOST_SHOWN = 200


def status_source(supply: Any) -> StatusSource | None:
    """What is watched for a supply, as its view shows it; who pushes reports by itself."""
    source: StatusSource | None = supply.status_source
    watched = supply.status is not SupplyStatus.DECOMMISSIONED and source and source.source_kind != PUSH
    return source if watched else None


def supply_report(supply: Any, observation: Observation) -> Report:
    """A reading is reported as the status that it leads to from the present one."""
    if isinstance(observation, Silence):
        return Report(silence=observation.reason)
    source: StatusSource = supply.status_source
    # Without thresholds 0 is bad, also where the source gives it a label.
    index = None if source.thresholds else observation.index
    value = observation.value if index is None else index
    read = reading(source, value, observation.quality, supply.status)
    if read is None:
        return Report(silence=_unheard(observation))
    command = ObserveSupplyStatus(
        supply_id=supply.id,
        observed_status=report(read, supply.status),
        monitor_ref=source.monitor_ref,
        observed_at=observation.produced_at,
        reason=f"source reported {_shown(observation)}",
    )
    return Report(command=command)


def _unheard(measurement: Measurement) -> str:
    if measurement.quality is not Quality.GOOD:
        return f"quality {measurement.quality}"
    return f"source reported {_shown(measurement)}, which no threshold fits"


def _shown(measurement: Measurement) -> str:
    """A value as a reason may carry it: short and printable."""
    if isinstance(measurement.value, list):
        return "an array"
    text = str(measurement.value)[:MOST_SHOWN]
    return "".join(each if each.isprintable() else "?" for each in text)


SUPPLIES = Watch(
    aggregate=supplies,
    filters={"watched": True},
    source=status_source,
    report=supply_report,
)
