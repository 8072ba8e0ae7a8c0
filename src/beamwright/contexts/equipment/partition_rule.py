"""Partition rules: how a virtual axis maps its value to the axes it is made of."""

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.units import Unit, unit_fault
from beamwright.kernel.value import Value, replace

from .values import Short

MOST_PARAMETERS = 100
PAIR = 2

# Bounds are the rule's own matter, which names what is wrong by a sub-code.
type ConstituentCount = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


class InvalidPartitionRuleError(InvalidError):
    """The partition rule contradicts itself; `sub_code` says how."""


class AggregatorKind(StrEnum):
    SUM = "Sum"
    DIFFERENCE = "Difference"
    MID_RANGE = "MidRange"
    PRODUCT = "Product"


class ReadbackAggregatorKind(StrEnum):
    IDENTITY = "Identity"
    SUM = "Sum"
    MEAN = "Mean"
    SELECT_INDEX_0 = "SelectIndex0"


class InterpolationKind(StrEnum):
    LINEAR = "Linear"
    CUBIC = "Cubic"
    NEAREST = "Nearest"


class ExtrapolationKind(StrEnum):
    CLAMP = "Clamp"
    ERROR = "Error"


class PartitionKind(StrEnum):
    COARSE_FIRST_FILL = "CoarseFirstFill"
    FINE_CENTERED_KEEP = "FineCenteredKeep"
    PROPORTIONAL_FILL = "ProportionalFill"
    CONCENTRIC_SYMMETRIC = "ConcentricSymmetric"


class SolverTransportKind(StrEnum):
    SOFT_IOC_RECORD = "SoftIOCRecord"
    PYTHON_CALLABLE = "PythonCallable"
    CONTROLLER_API = "ControllerAPI"
    EXTERNAL_HTTP_SERVICE = "ExternalHTTPService"


# These compare two axes.
OF_TWO = frozenset({AggregatorKind.DIFFERENCE, AggregatorKind.MID_RANGE})


class AffineRule(Value, tag_field="kind", tag="Affine"):
    """One axis, scaled and shifted."""

    gain: float = 1.0
    offset: float = 0.0
    unit_in: Unit | None = None
    unit_out: Unit | None = None


class AggregationRule(Value, tag_field="kind", tag="Aggregation"):
    """The value is worked out from several axes."""

    aggregator_kind: AggregatorKind = AggregatorKind.SUM
    constituent_count: ConstituentCount = 1


class LookupTableRule(Value, tag_field="kind", tag="LookupTable"):
    """One axis, by a curve that was measured: a revision of a calibration."""

    calibration_id: UUID
    calibration_revision_id: UUID
    interpolation_kind: InterpolationKind = InterpolationKind.LINEAR
    extrapolation_kind: ExtrapolationKind = ExtrapolationKind.ERROR
    invertible: bool = True
    readback_aggregator_kind: ReadbackAggregatorKind | None = None
    unit_in: Unit | None = None
    unit_out: Unit | None = None


class PartitionParameter(Value):
    """A named number of a composite partition."""

    name: Short
    value: float


class CompositePartitionRule(Value, tag_field="kind", tag="CompositePartition"):
    """A travel that several axes share."""

    partition_kind: PartitionKind = PartitionKind.PROPORTIONAL_FILL
    constituent_count: ConstituentCount = 2
    partition_parameters: tuple[PartitionParameter, ...] = ()
    readback_aggregator_kind: ReadbackAggregatorKind = ReadbackAggregatorKind.SUM


class SolverReferenceRule(Value, tag_field="kind", tag="SolverReference"):
    """A solver elsewhere works out the axes."""

    solver_id: text.Name
    solver_version: Short
    solver_transport_kind: SolverTransportKind
    residual_tolerance_limit: float = 0.0
    singularity_threshold: float = 0.0
    invertible: bool = True
    readback_aggregator_kind: ReadbackAggregatorKind | None = None


type PartitionRule = (
    AffineRule | AggregationRule | LookupTableRule | CompositePartitionRule | SolverReferenceRule
)


def checked_rule(rule: PartitionRule) -> PartitionRule:
    """The rule with its text trimmed, if it makes sense by itself."""
    _check_finite(_numbers(rule))
    match rule:
        case AffineRule():
            _check_units(rule.unit_in, rule.unit_out)
            return rule
        case AggregationRule():
            _check_aggregation(rule)
            return rule
        case LookupTableRule():
            _check_units(rule.unit_in, rule.unit_out)
            _check_readback(rule)
            return rule
        case CompositePartitionRule():
            return _checked_composite(rule)
        case SolverReferenceRule():
            return _checked_solver(rule)
        case _:
            assert_never(rule)


def _numbers(rule: PartitionRule) -> list[tuple[str, float]]:
    fields = [(field, getattr(rule, field)) for field in rule.__struct_fields__]
    numbers = [(field, value) for field, value in fields if isinstance(value, float)]
    if isinstance(rule, CompositePartitionRule):
        numbers += [(parameter.name, parameter.value) for parameter in rule.partition_parameters]
    return numbers


def _check_finite(numbers: Iterable[tuple[str, float]]) -> None:
    for field, value in numbers:
        if not math.isfinite(value):
            raise _refused("numeric_not_finite", f"{field} is {value}; give a finite number.", field=field)


def _check_units(*units: Unit | None) -> None:
    for unit in units:
        fault = None if unit is None else unit_fault(unit)
        if fault is not None:
            raise _refused("unit_invalid", fault)


def _check_readback(rule: LookupTableRule | SolverReferenceRule) -> None:
    if not rule.invertible and rule.readback_aggregator_kind is None:
        raise _refused(
            "readback_aggregator_required",
            "A rule that cannot be inverted says by readback_aggregator_kind how its value is read back.",
        )


def _check_aggregation(rule: AggregationRule) -> None:
    if rule.constituent_count < 1:
        raise _refused("constituent_count_below_minimum", "An aggregation has at least one constituent.")
    if rule.aggregator_kind in OF_TWO and rule.constituent_count != PAIR:
        raise _refused(
            "aggregator_constituent_count_mismatch",
            f"{rule.aggregator_kind} is of exactly two constituents, not {rule.constituent_count}.",
            aggregator_kind=rule.aggregator_kind,
        )


def _checked_composite(rule: CompositePartitionRule) -> CompositePartitionRule:
    if rule.constituent_count < PAIR:
        raise _refused(
            "composite_constituent_count_below_minimum", "A composite has at least two constituents."
        )
    if len(rule.partition_parameters) > MOST_PARAMETERS:
        raise _refused("parameter_count_above_maximum", f"Give at most {MOST_PARAMETERS} parameters.")
    parameters = (
        PartitionParameter(
            name=_trimmed(parameter.name, 100, "parameter_name_invalid"), value=parameter.value
        )
        for parameter in rule.partition_parameters
    )
    return replace(rule, partition_parameters=tuple(parameters))


def _checked_solver(rule: SolverReferenceRule) -> SolverReferenceRule:
    solver_id = _trimmed(rule.solver_id, 200, "solver_id_invalid")
    version = _trimmed(rule.solver_version, 100, "solver_version_invalid")
    if rule.residual_tolerance_limit < 0:
        raise _refused("residual_tolerance_negative", "The limit of the residual is not negative.")
    if rule.singularity_threshold < rule.residual_tolerance_limit:
        raise _refused(
            "singularity_below_residual", "The threshold of a singularity is not below the residual's limit."
        )
    _check_readback(rule)
    return replace(rule, solver_id=solver_id, solver_version=version)


def _trimmed(value: str, most: int, sub_code: str) -> str:
    try:
        return text.trimmed(value, most, InvalidPartitionRuleError, sub_code.removesuffix("_invalid"))
    except InvalidPartitionRuleError as fault:
        raise _refused(sub_code, fault.detail) from None


def _refused(sub_code: str, detail: str, **context: object) -> InvalidPartitionRuleError:
    return InvalidPartitionRuleError(detail, sub_code=sub_code, **context)
