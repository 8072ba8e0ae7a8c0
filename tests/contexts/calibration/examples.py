"""What the tests of calibrations share: a quantity, a calibration of it, and its revisions."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from beamwright.contexts.calibration.calibration import (
    Calibration,
    CalibrationDefined,
    CalibrationRetired,
    CalibrationRevisionAppended,
    CalibrationRevisionVerified,
    CalibrationRevisionWithdrawn,
    CalibrationSource,
    CalibrationSourceKind,
    calibrations,
)
from beamwright.contexts.calibration.quantity import (
    CalibrationQuantity,
    CalibrationQuantityDefined,
    CalibrationQuantityDeprecated,
    calibration_quantities,
)
from beamwright.contexts.calibration.starter_quantities import starter_quantities
from beamwright.kernel.event import Event
from beamwright.kernel.value import replace
from tests.rules import NOW, OCCASION, PRINCIPAL, given

CALIBRATION, TARGET, QUANTITY, R1, R2, R3, VERIFIER = (UUID(int=n) for n in range(951, 958))
ASSERTED = CalibrationSource(kind=CalibrationSourceKind.ASSERTED)
POINT: dict[str, Any] = {"energy": 25, "optics_config": "10x"}

STARTERS = {command.code: (id, command) for id, command in starter_quantities()}


def starter(code: str) -> CalibrationQuantityDefined:
    id, command = STARTERS[code]
    return command.decide(None, replace(OCCASION, new_id=id))


def quantity(code: str = "rotation_center", *events: Event) -> CalibrationQuantity:
    return given(calibration_quantities, starter(code), *events)


def deprecated(code: str = "rotation_center") -> CalibrationQuantity:
    end = CalibrationQuantityDeprecated(
        quantity_id=starter(code).quantity_id,
        occurred_at=NOW,
        reason="old",
        deprecated_by=PRINCIPAL,
    )
    return quantity(code, end)


DEFINED = CalibrationDefined(
    calibration_id=CALIBRATION,
    occurred_at=NOW,
    target_id=TARGET,
    facility_code="aps",
    quantity="rotation_center",
    quantity_id=QUANTITY,
    operating_point=POINT,
    description=None,
    defined_by=PRINCIPAL,
)
RETIRED = CalibrationRetired(
    calibration_id=CALIBRATION, occurred_at=NOW, reason="replaced", retired_by=PRINCIPAL
)


def day(number: float) -> datetime:
    """A moment some days from now."""
    return NOW + timedelta(days=number)


def appended(id: UUID, valid_from: datetime = NOW, **changes: Any) -> CalibrationRevisionAppended:
    first = CalibrationRevisionAppended(
        calibration_id=CALIBRATION,
        occurred_at=NOW,
        revision_id=id,
        value={"center": 1024.5},
        quantity_version=1,
        uncertainty_basis=None,
        source=ASSERTED,
        valid_from=valid_from,
        valid_until=None,
        decided_by_decision_id=None,
        supersedes_revision_id=None,
        content_hash="",
        established_by=PRINCIPAL,
    )
    return replace(first, **changes)


def verified(id: UUID) -> CalibrationRevisionVerified:
    return CalibrationRevisionVerified(
        calibration_id=CALIBRATION, occurred_at=NOW, revision_id=id, note=None, verified_by=VERIFIER
    )


def withdrawn(id: UUID) -> CalibrationRevisionWithdrawn:
    return CalibrationRevisionWithdrawn(
        calibration_id=CALIBRATION, occurred_at=NOW, revision_id=id, reason="wrong", withdrawn_by=VERIFIER
    )


def calibration(*events: Event, **changes: Any) -> Calibration:
    return given(calibrations, replace(DEFINED, **changes), *events)
