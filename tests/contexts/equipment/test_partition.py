"""Partition rules: what each kind demands, and the calibration behind a lookup."""

import asyncio
import math
from typing import Any
from uuid import UUID

import msgspec
import pytest

from beamwright.contexts.equipment.asset import AssetPartitionRuleUpdated
from beamwright.contexts.equipment.partition import (
    AssetPseudoAxisFamilyRequiredError,
    AssetToPartition,
    PartitionCalibrationNotFoundError,
    PartitionCalibrationNotUsableError,
    PartitionCurve,
    UpdateAssetPartitionRule,
)
from beamwright.contexts.equipment.partition_rule import (
    AffineRule,
    AggregationRule,
    AggregatorKind,
    CompositePartitionRule,
    InvalidPartitionRuleError,
    LookupTableRule,
    PartitionParameter,
    PartitionRule,
    ReadbackAggregatorKind,
    SolverReferenceRule,
    SolverTransportKind,
    checked_rule,
)
from beamwright.kernel.units import Unit, UnitSystem
from beamwright.kernel.value import Value, encode, replace
from beamwright.kernel.wellknown import PSEUDO_AXIS_FAMILY
from tests.contexts.equipment.asset_examples import (
    DECOMMISSIONED,
    REGISTERED,
    STAGE,
    asset,
    check_lifecycles,
    stays,
)
from tests.contexts.trust.examples import SmallWorld
from tests.rules import NOW, outcome

CALIBRATION, REVISION, QUANTITY = UUID(int=760), UUID(int=761), UUID(int=762)
LOOKUP = LookupTableRule(calibration_id=CALIBRATION, calibration_revision_id=REVISION)
SOLVER = SolverReferenceRule(
    solver_id="hexapod", solver_version="1", solver_transport_kind=SolverTransportKind.PYTHON_CALLABLE
)
VIRTUAL = asset(family_ids=frozenset({PSEUDO_AXIS_FAMILY}))
GOOD = PartitionCurve(withdrawn=False, has_lookup=True)


@pytest.mark.parametrize(
    "rule",
    [
        AffineRule(gain=-2, offset=1, unit_in=Unit(system=UnitSystem.UDUNITS, code="mm")),
        AggregationRule(),
        AggregationRule(aggregator_kind=AggregatorKind.DIFFERENCE, constituent_count=2),
        AggregationRule(aggregator_kind=AggregatorKind.PRODUCT, constituent_count=5),
        LOOKUP,
        replace(LOOKUP, invertible=False, readback_aggregator_kind=ReadbackAggregatorKind.MEAN),
        CompositePartitionRule(),
        CompositePartitionRule(partition_parameters=(PartitionParameter(name="share", value=0.5),)),
        SOLVER,
        replace(SOLVER, residual_tolerance_limit=0.1, singularity_threshold=0.1),
    ],
)
def test_sound_rules_are_kept_as_they_are(rule: PartitionRule) -> None:
    assert checked_rule(rule) == rule


@pytest.mark.parametrize(
    ("rule", "sub_code"),
    [
        (AffineRule(gain=math.inf), "numeric_not_finite"),
        (AffineRule(offset=math.nan), "numeric_not_finite"),
        (AffineRule(unit_out=Unit(system=UnitSystem.UDUNITS, code="nonsense")), "unit_invalid"),
        (AggregationRule(constituent_count=0), "constituent_count_below_minimum"),
        (
            AggregationRule(aggregator_kind=AggregatorKind.DIFFERENCE, constituent_count=3),
            "aggregator_constituent_count_mismatch",
        ),
        (AggregationRule(aggregator_kind=AggregatorKind.MID_RANGE), "aggregator_constituent_count_mismatch"),
        (replace(LOOKUP, invertible=False), "readback_aggregator_required"),
        (CompositePartitionRule(constituent_count=1), "composite_constituent_count_below_minimum"),
        (
            CompositePartitionRule(partition_parameters=(PartitionParameter(name="share", value=math.inf),)),
            "numeric_not_finite",
        ),
        (
            CompositePartitionRule(partition_parameters=(PartitionParameter(name=" ", value=1),)),
            "parameter_name_invalid",
        ),
        (
            CompositePartitionRule(partition_parameters=(PartitionParameter(name="share", value=1),) * 101),
            "parameter_count_above_maximum",
        ),
        (replace(SOLVER, solver_id=" "), "solver_id_invalid"),
        (replace(SOLVER, solver_version="x" * 101), "solver_version_invalid"),
        (replace(SOLVER, residual_tolerance_limit=-0.1), "residual_tolerance_negative"),
        (
            replace(SOLVER, residual_tolerance_limit=0.2, singularity_threshold=0.1),
            "singularity_below_residual",
        ),
        (replace(SOLVER, singularity_threshold=math.nan), "numeric_not_finite"),
        (replace(SOLVER, invertible=False), "readback_aggregator_required"),
    ],
)
def test_a_refused_rule_says_what_is_wrong(rule: PartitionRule, sub_code: str) -> None:
    with pytest.raises(InvalidPartitionRuleError) as refused:
        checked_rule(rule)
    assert refused.value.context["sub_code"] == sub_code


def test_a_rule_is_told_by_its_kind() -> None:
    decoded = msgspec.json.decode(b'{"kind": "CompositePartition"}', type=PartitionRule)
    assert decoded == CompositePartitionRule()


def test_an_event_with_a_rule_survives_storage() -> None:
    event = AssetPartitionRuleUpdated(asset_id=STAGE, occurred_at=NOW, partition_rule=LOOKUP)
    assert msgspec.json.decode(encode(event), type=AssetPartitionRuleUpdated) == event


def update(rule: PartitionRule | None) -> UpdateAssetPartitionRule:
    return UpdateAssetPartitionRule(asset_id=STAGE, partition_rule=rule)


def updated(rule: PartitionRule | None) -> AssetPartitionRuleUpdated:
    return AssetPartitionRuleUpdated(asset_id=STAGE, occurred_at=NOW, partition_rule=rule)


def test_a_virtual_axis_gets_a_rule_and_loses_it() -> None:
    assert outcome(update(AffineRule()), AssetToPartition(asset=VIRTUAL)) == [updated(AffineRule())]
    ruled = replace(VIRTUAL, partition_rule=AffineRule())
    assert outcome(update(None), AssetToPartition(asset=ruled)) == [updated(None)]


def test_the_same_rule_again_is_a_no_op() -> None:
    assert outcome(update(SOLVER), AssetToPartition(asset=replace(VIRTUAL, partition_rule=SOLVER))) == []


def test_grid() -> None:
    check_lifecycles(
        stays("update-partition-rule"),
        update(AffineRule()),
        lambda axis: AssetToPartition(asset=axis),
        replace(REGISTERED, family_ids=frozenset({PSEUDO_AXIS_FAMILY})),
    )


@pytest.mark.parametrize(
    ("rule", "seen", "refusal"),
    [
        (
            AffineRule(gain=math.inf),
            AssetToPartition(asset=asset(DECOMMISSIONED)),
            InvalidPartitionRuleError,
        ),
        (AffineRule(), AssetToPartition(asset=asset()), AssetPseudoAxisFamilyRequiredError),
        (
            LOOKUP,
            AssetToPartition(asset=VIRTUAL, curve=replace(GOOD, withdrawn=True)),
            PartitionCalibrationNotUsableError,
        ),
        (
            LOOKUP,
            AssetToPartition(asset=VIRTUAL, curve=replace(GOOD, has_lookup=False)),
            PartitionCalibrationNotUsableError,
        ),
    ],
)
def test_refusals(rule: PartitionRule, seen: AssetToPartition, refusal: type) -> None:
    assert outcome(update(rule), seen) == refusal


class Revision(Value):
    revision_id: UUID
    status: str = "Verified"


class Calibration(Value):
    id: UUID
    quantity_id: UUID
    revisions: tuple[Revision, ...]


class Quantity(Value):
    id: UUID
    lookup: dict[str, str] | None


class LookingWorld(SmallWorld):
    """A world in which calibrations can be looked up, or do not exist."""

    def __init__(self, found: dict[str, list[Any]]) -> None:
        super().__init__(VIRTUAL)
        self.found = found

    async def look_up(self, aggregate_name: str, ids: list[UUID]) -> list[Any] | None:
        known = self.found.get(aggregate_name)
        return None if known is None else [each for each in known if each.id in ids]


def gathered(*revisions: Revision, lookup: dict[str, str] | None = None) -> AssetToPartition:
    world: Any = LookingWorld(
        {
            "Calibration": [Calibration(id=CALIBRATION, quantity_id=QUANTITY, revisions=revisions)],
            "CalibrationQuantity": [Quantity(id=QUANTITY, lookup=lookup)],
        }
    )
    return asyncio.run(update(LOOKUP).gather(world))


def test_the_revision_and_its_quantity_are_looked_up() -> None:
    table = {"points": "points", "y": "position"}
    assert gathered(Revision(revision_id=REVISION), lookup=table).curve == GOOD
    assert gathered(Revision(revision_id=REVISION, status="Withdrawn")).curve == PartitionCurve(
        withdrawn=True, has_lookup=False
    )


def test_an_unknown_revision_is_not_found() -> None:
    with pytest.raises(PartitionCalibrationNotFoundError):
        gathered(Revision(revision_id=QUANTITY))


def test_without_calibrations_none_is_found() -> None:
    world: Any = LookingWorld({})
    with pytest.raises(PartitionCalibrationNotFoundError):
        asyncio.run(update(LOOKUP).gather(world))
