"""Values that several kinds of equipment share."""

import math
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.value import Time, Value

type Short = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 100})]
type SignalType = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 50})]
type Millimetres = Annotated[float, Meta(extra_json_schema={"unit": {"system": "udunits", "code": "mm"}})]
type Radians = Annotated[float, Meta(extra_json_schema={"unit": {"system": "udunits", "code": "rad"}})]


class Affordance(StrEnum):
    """What a device of a class can do. Add only: stored events name these."""

    ROTATABLE = "Rotatable"
    TRANSLATABLE = "Translatable"
    HOMEABLE = "Homeable"
    LIMITABLE = "Limitable"
    CAPTURABLE = "Capturable"
    POSABLE = "Posable"
    INDEXABLE = "Indexable"
    FOLLOWING = "Following"
    LEADING = "Leading"
    IMAGEABLE = "Imageable"
    BINNABLE = "Binnable"
    CAPTURING = "Capturing"
    TRIGGERABLE = "Triggerable"
    GATEABLE = "Gateable"
    SYNCHRONIZABLE = "Synchronizable"
    PULSING = "Pulsing"
    STREAMABLE = "Streamable"
    BUFFERABLE = "Bufferable"
    COMPRESSIBLE = "Compressible"
    RECORDING = "Recording"
    COOLABLE = "Coolable"
    PID_CONTROLLABLE = "PIDControllable"
    SETTABLE = "Settable"
    SHUTTERABLE = "Shutterable"
    ATTENUABLE = "Attenuable"
    BENDABLE = "Bendable"
    IDENTIFIABLE = "Identifiable"
    REPORTABLE = "Reportable"
    MARKING = "Marking"
    CONSUMABLE = "Consumable"


class InvalidDrawingError(InvalidError):
    """The drawing's number or revision is blank or too long."""


class InvalidSignalTypeError(InvalidError):
    """The signal type is blank or too long."""


class InvalidPlacementError(InvalidError):
    """A coordinate is not finite, or a tolerance is negative."""


class InvalidSurveyError(InvalidError):
    """The survey's method, document or note is blank or too long."""


class InvalidManufacturerError(InvalidError):
    """The manufacturer's name is blank or too long, or its identifier comes without a type."""


class EquipmentFacilityNotActiveError(ConflictError):
    """The facility is decommissioned, or is a Peer, whose equipment is not ours."""


class DrawingSystem(StrEnum):
    EDMS = "EDMS"
    ICMS = "ICMS"
    DOI = "DOI"
    OTHER = "Other"


class Drawing(Value):
    """Where the drawing is kept; no revision means the latest."""

    system: DrawingSystem
    number: text.Name
    revision: Short | None = None


def checked_drawing(drawing: Drawing | None) -> Drawing | None:
    if drawing is None:
        return None
    return Drawing(
        system=drawing.system,
        number=text.trimmed(drawing.number, 200, InvalidDrawingError, "drawing number"),
        revision=_optional(drawing.revision, 100, InvalidDrawingError, "drawing revision"),
    )


class PortDirection(StrEnum):
    INPUT = "Input"
    OUTPUT = "Output"


def checked_signal_type(value: str) -> str:
    return text.trimmed(value, 50, InvalidSignalTypeError, "signal type")


class ReferenceSurface(StrEnum):
    THERMAL_FACE = "ThermalFace"
    OPTIC_CENTER = "OpticCenter"
    SHIELDING_FACE = "ShieldingFace"
    MOUNTING_FACE = "MountingFace"


class Placement(Value):
    """A pose within a frame: right-handed, z along the beam, y up; rotations Rz Ry Rx about the frame's axes."""

    parent_frame_id: UUID
    reference_surface: ReferenceSurface
    x: Millimetres
    y: Millimetres
    z: Millimetres
    rx: Radians
    ry: Radians
    rz: Radians
    tolerance_x: Millimetres
    tolerance_y: Millimetres
    tolerance_z: Millimetres
    tolerance_rx: Radians
    tolerance_ry: Radians
    tolerance_rz: Radians


def checked_placement(placement: Placement) -> Placement:
    for field in placement.__struct_fields__[2:]:
        value: float = getattr(placement, field)
        if not math.isfinite(value) or (field.startswith("tolerance") and value < 0):
            raise InvalidPlacementError(
                f"{field} is {value}: coordinates are finite, tolerances are not negative.", field=field
            )
    return placement


class Survey(Value):
    """How a pose was measured; kept on the event."""

    method: text.Name
    performed_at: Time
    document: text.Name | None = None
    note: text.Note | None = None


def checked_survey(survey: Survey | None) -> Survey | None:
    if survey is None:
        return None
    return Survey(
        method=text.trimmed(survey.method, 200, InvalidSurveyError, "survey method"),
        performed_at=survey.performed_at,
        document=_optional(survey.document, 200, InvalidSurveyError, "survey document"),
        note=None if survey.note is None else text.note(survey.note, InvalidSurveyError),
    )


class ManufacturerIdentifierType(StrEnum):
    ROR = "ROR"
    GRID = "GRID"
    ISNI = "ISNI"


class Manufacturer(Value):
    """Who makes a model; identifier and type come together."""

    name: text.Name
    identifier: text.Name | None = None
    identifier_type: ManufacturerIdentifierType | None = None


def checked_manufacturer(manufacturer: Manufacturer) -> Manufacturer:
    if (manufacturer.identifier is None) != (manufacturer.identifier_type is None):
        raise InvalidManufacturerError(
            "Give the manufacturer's identifier and its type together, or neither."
        )
    return Manufacturer(
        name=text.name(manufacturer.name, InvalidManufacturerError, "manufacturer's name"),
        identifier=_optional(manufacturer.identifier, 200, InvalidManufacturerError, "identifier"),
        identifier_type=manufacturer.identifier_type,
    )


def _optional(value: str | None, most: int, refusal: type[InvalidError], what: str) -> str | None:
    return None if value is None else text.trimmed(value, most, refusal, what)
