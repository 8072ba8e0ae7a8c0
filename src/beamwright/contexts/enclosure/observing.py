"""What a reading of a permit source says of the permit."""

from beamwright.kernel.control import Measurement, Quality

from .enclosure import PermitSource, PermitStatus

MOST_SHOWN = 200


def observed(source: PermitSource, measurement: Measurement) -> tuple[PermitStatus, str]:
    """The permit status that a reading means, and the reason to report with it."""
    if measurement.quality is not Quality.GOOD:
        return PermitStatus.UNKNOWN, f"quality {measurement.quality}"
    reason = f"source reported {_shown(measurement.value)}"
    # Booleans equal 0 and 1, 1.0 equals 1, and text equals no number: exactly what is asked for. A labelled
    # source is understood by label and by number; one that says both things is not understood.
    said = (measurement.value,) if measurement.index is None else (measurement.value, measurement.index)
    permitted, refused = source.permitted_value in said, source.not_permitted_value in said
    if permitted == refused:
        return PermitStatus.UNKNOWN, reason
    return (PermitStatus.PERMITTED if permitted else PermitStatus.NOT_PERMITTED), reason


def _shown(value: object) -> str:
    """A value as a reason may carry it: short and printable."""
    if isinstance(value, list):
        return "an array"
    return "".join(each if each.isprintable() else "?" for each in str(value)[:MOST_SHOWN])
