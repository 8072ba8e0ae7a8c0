"""The wires of a plan: what they join, in the order in which they are refused."""

from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.asset import Asset
from beamwright.contexts.equipment.partition_rule import (
    AffineRule,
    AggregationRule,
    CompositePartitionRule,
    PartitionRule,
    SolverReferenceRule,
    SolverTransportKind,
)
from beamwright.contexts.recipe.method import Method, RoleRequirement
from beamwright.contexts.recipe.plan import (
    Plan,
    PlanRoleBound,
    PlanStatus,
    PlanWireAdded,
    PlanWireRemoved,
    Wire,
    plan_hash,
    plans,
)
from beamwright.contexts.recipe.plan_roles import PlanWireRoleEndpointMismatchError
from beamwright.contexts.recipe.plan_wiring import (
    AddPlanWire,
    InvalidWireError,
    PlanCannotAddWireError,
    PlanPseudoAxisArityMismatchError,
    PlanPseudoAxisFanoutSignalTypeMismatchError,
    PlanPseudoAxisOutputCardinalityError,
    PlanWireAlreadyExistsError,
    PlanWireAssetNotBoundError,
    PlanWireDirectionMismatchError,
    PlanWireNotPresentError,
    PlanWirePortNotFoundError,
    PlanWireSelfLoopError,
    PlanWireSignalTypeMismatchError,
    PlanWireTargetAlreadyConnectedError,
    PlanWiring,
    RemovePlanWire,
    broken_wires,
    constituents,
)
from beamwright.kernel.event import Event
from beamwright.kernel.value import replace
from tests.contexts.recipe.plan_examples import (
    CAMERA,
    CAMERA_FAMILY,
    DEFINED,
    DEPRECATED,
    FLY_SCAN,
    INPUT,
    OUTPUT,
    PLAN,
    REACH,
    STAGE,
    STAGE_FAMILY,
    THE_CAMERA,
    THE_STAGE,
    TIMER,
    WIRE,
    asset,
    needs_port,
    plan,
    port,
    requiring,
)
from tests.grids import check_grid
from tests.rules import NOW, outcome

AXIS, FINE, COARSE = UUID(int=51), UUID(int=52), UUID(int=53)
THE_TIMER = asset(
    TIMER, "Timer", ports=(port("pulse", OUTPUT), port("loop", INPUT), port("fast", OUTPUT, "LVDS"))
)
FINE_AXIS = asset(FINE, "Fine", ports=(port("position", OUTPUT, "Encoder"), port("turns", OUTPUT, "Count")))
COARSE_AXIS = asset(COARSE, "Coarse", ports=(port("position", OUTPUT, "Encoder"),))
VIRTUAL = replace(
    asset(
        AXIS,
        "Axis",
        ports=(port("in", INPUT, "Encoder"), port("count", INPUT, "Count"), port("out", OUTPUT, "Encoder")),
    ),
    partition_rule=AggregationRule(constituent_count=2),
)
ALL = (THE_CAMERA, THE_STAGE, THE_TIMER, FINE_AXIS, COARSE_AXIS, VIRTUAL)
BOUND = frozenset(each.id for each in ALL)


def wire(source: UUID, out: str, target: UUID, into: str) -> Wire:
    return Wire(source_asset_id=source, source_port_name=out, target_asset_id=target, target_port_name=into)


def add(wire: Wire) -> AddPlanWire:
    return AddPlanWire(
        plan_id=PLAN,
        source_asset_id=wire.source_asset_id,
        source_port_name=wire.source_port_name,
        target_asset_id=wire.target_asset_id,
        target_port_name=wire.target_port_name,
    )


def remove(wire: Wire) -> RemovePlanWire:
    return RemovePlanWire(
        plan_id=PLAN,
        source_asset_id=wire.source_asset_id,
        source_port_name=wire.source_port_name,
        target_asset_id=wire.target_asset_id,
        target_port_name=wire.target_port_name,
    )


def wired(*wires: Wire, **changes: Any) -> Plan:
    return plan(*(added(each) for each in wires), **({"asset_ids": BOUND} | changes))


def added(each: Wire) -> PlanWireAdded:
    return PlanWireAdded(plan_id=PLAN, occurred_at=NOW, wire=each, content_hash="3" * 64)


def seeing(state: Plan, *others: Asset, method: Method = FLY_SCAN) -> PlanWiring:
    known = {each.id: each for each in (*ALL, *others)}
    return PlanWiring(plan=state, method=method, assets=known)


def refused(new: Wire, *wires: Wire, others: tuple[Asset, ...] = ()) -> Any:
    return outcome(add(new), seeing(wired(*wires), *others))


def test_a_wire_leads_from_an_output_to_an_input() -> None:
    state = wired()
    after = replace(state.content, wires=(WIRE,))
    assert outcome(add(WIRE), seeing(state)) == [replace(added(WIRE), content_hash=plan_hash(after))]


def test_the_names_of_ports_are_trimmed() -> None:
    got = outcome(add(replace(WIRE, source_port_name=" pulse ")), seeing(wired()))
    assert isinstance(got, list) and isinstance(got[0], PlanWireAdded) and got[0].wire == WIRE


def test_an_output_may_lead_to_several_inputs() -> None:
    assert not isinstance(refused(wire(STAGE, "pulse", TIMER, "loop"), WIRE), type)


def test_two_ports_of_one_asset_may_be_joined() -> None:
    assert not isinstance(refused(wire(TIMER, "pulse", TIMER, "loop")), type)


FROM_STRANGER = wire(UUID(int=90), "pulse", UUID(int=90), "pulse")
STRANGER = asset(UUID(int=90), "Stranger")


@pytest.mark.parametrize(
    ("new", "present", "refusal"),
    [
        (wire(STAGE, "pulse", CAMERA, "trigger"), (WIRE,), PlanWireAlreadyExistsError),
        (wire(TIMER, "pulse", CAMERA, "trigger"), (WIRE,), PlanWireTargetAlreadyConnectedError),
        (FROM_STRANGER, (), PlanWireSelfLoopError),
        (wire(UUID(int=90), "gone", CAMERA, "gone"), (), PlanWireAssetNotBoundError),
        (wire(STAGE, "gone", CAMERA, "busy"), (), PlanWirePortNotFoundError),
        (wire(STAGE, "pulse", CAMERA, "gone"), (), PlanWirePortNotFoundError),
        (wire(STAGE, "pulse", CAMERA, "busy"), (), PlanWireDirectionMismatchError),
        (wire(CAMERA, "trigger", TIMER, "loop"), (), PlanWireDirectionMismatchError),
        (wire(TIMER, "fast", CAMERA, "trigger"), (), PlanWireSignalTypeMismatchError),
    ],
)
def test_a_wire_is_refused_in_order(new: Wire, present: tuple[Wire, ...], refusal: type) -> None:
    assert refused(new, *present, others=(STRANGER,)) == refusal


def test_a_malformed_name_is_refused_before_the_plans_status() -> None:
    state = plan(DEPRECATED, asset_ids=BOUND)
    assert outcome(add(replace(WIRE, source_port_name=" ")), seeing(state)) == InvalidWireError
    assert outcome(add(WIRE), seeing(state)) == PlanCannotAddWireError


def test_a_plan_has_not_too_many_wires() -> None:
    full = replace(wired(), wires=tuple(wire(STAGE, f"p{n}", CAMERA, "x") for n in range(500)))
    assert outcome(add(WIRE), seeing(full)) == InvalidWireError


FIRST = wire(FINE, "position", AXIS, "in")
SECOND = wire(COARSE, "position", AXIS, "in")


def axis(rule: PartitionRule | None, *ports: Any) -> Asset:
    return replace(VIRTUAL, partition_rule=rule, ports=ports or VIRTUAL.ports)


def test_a_virtual_axis_takes_several_wires_at_one_port() -> None:
    assert not isinstance(refused(SECOND, FIRST), type)


def test_a_real_axis_takes_one() -> None:
    assert refused(SECOND, FIRST, others=(axis(None),)) == PlanWireTargetAlreadyConnectedError


def test_a_virtual_axis_has_one_output() -> None:
    two = axis(AffineRule(), *VIRTUAL.ports, port("other", OUTPUT))
    assert refused(FIRST, others=(two,)) == PlanPseudoAxisOutputCardinalityError
    none = axis(AffineRule(), port("in", INPUT, "Encoder"))
    assert refused(FIRST, others=(none,)) == PlanPseudoAxisOutputCardinalityError


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (AffineRule(), False),
        (AggregationRule(constituent_count=1), False),
        (AggregationRule(constituent_count=2), True),
        (CompositePartitionRule(constituent_count=2), True),
        (
            SolverReferenceRule(
                solver_id="s", solver_version="1", solver_transport_kind=SolverTransportKind.PYTHON_CALLABLE
            ),
            True,
        ),
    ],
)
def test_a_virtual_axis_takes_as_many_wires_as_its_rule_has_constituents(
    rule: PartitionRule, fits: bool
) -> None:
    got = refused(SECOND, FIRST, others=(axis(rule),))
    assert (got != PlanPseudoAxisArityMismatchError) is fits


def test_the_constituents_of_a_virtual_axis_carry_one_signal() -> None:
    counted = wire(FINE, "turns", AXIS, "count")
    assert refused(counted, SECOND) == PlanPseudoAxisFanoutSignalTypeMismatchError


def test_constituents_are_ordered_by_port_and_asset() -> None:
    wires = [wire(COARSE, "position", AXIS, "b"), SECOND, wire(COARSE, "position", AXIS, "a"), FIRST, WIRE]
    assert [(each.target_port_name, each.source_asset_id) for each in constituents(wires, AXIS)] == [
        ("a", COARSE),
        ("b", COARSE),
        ("in", FINE),
        ("in", COARSE),
    ]


DETECTOR = RoleRequirement(
    role_name="detector", family_id=CAMERA_FAMILY, required_ports=(needs_port("trigger", INPUT),)
)
ROTATION = RoleRequirement(
    role_name="rotation", family_id=STAGE_FAMILY, required_ports=(needs_port("pulse", OUTPUT),)
)


def cast_as(role_name: str, asset_id: UUID) -> PlanRoleBound:
    return PlanRoleBound(
        plan_id=PLAN, occurred_at=NOW, role_name=role_name, asset_id=asset_id, content_hash="4" * 64
    )


@pytest.mark.parametrize(
    ("bound", "refusal"),
    [
        (cast_as("rotation", STAGE), None),
        (cast_as("rotation", TIMER), PlanWireRoleEndpointMismatchError),
        (cast_as("detector", CAMERA), None),
        (cast_as("detector", TIMER), PlanWireRoleEndpointMismatchError),
        (cast_as("forgotten", TIMER), None),
    ],
)
def test_a_wire_agrees_with_the_roles(bound: PlanRoleBound, refusal: type | None) -> None:
    state = plan(bound, asset_ids=BOUND)
    got = outcome(add(WIRE), seeing(state, method=requiring(DETECTOR, ROTATION)))
    assert (got if isinstance(got, type) else None) == refusal


def test_remove_a_wire() -> None:
    state = wired(WIRE, FIRST)
    after = replace(state.content, wires=(FIRST,))
    expected = PlanWireRemoved(plan_id=PLAN, occurred_at=NOW, wire=WIRE, content_hash=plan_hash(after))
    assert outcome(remove(WIRE), state) == [expected]


def test_a_wire_that_is_not_there_is_not_removed() -> None:
    assert outcome(remove(WIRE), wired(FIRST)) == PlanWireNotPresentError


def test_removing_and_adding_leaves_the_content() -> None:
    removed = PlanWireRemoved(plan_id=PLAN, occurred_at=NOW, wire=WIRE, content_hash="5" * 64)
    history: list[Event] = [added(WIRE), added(FIRST), removed, added(WIRE)]
    assert plan(*history).content == plan(added(FIRST), added(WIRE)).content


def test_wires_of_today_hold() -> None:
    assert broken_wires(wired(WIRE, FIRST, SECOND), FLY_SCAN, ALL) == []


def test_a_wire_is_broken_when_its_port_is_gone() -> None:
    bare = replace(THE_CAMERA, ports=())
    assert broken_wires(wired(WIRE, FIRST), FLY_SCAN, [*ALL, bare]) == [WIRE]


def test_a_wire_is_broken_when_a_role_demands_another_end() -> None:
    state = plan(added(WIRE), cast_as("rotation", TIMER), asset_ids=BOUND)
    assert broken_wires(state, requiring(ROTATION), ALL) == [WIRE]


GRID = """
             add-wire
Defined      Defined
Versioned    Versioned
Deprecated   -
"""

GRID_OF_REMOVALS = """
             remove-wire
Defined      Defined
Versioned    Versioned
Deprecated   -
"""


def status(state: Plan) -> PlanStatus:
    return state.status


def test_status_grid() -> None:
    check_grid(
        GRID,
        plans,
        status=status,
        reach=REACH,
        verbs={"add-wire": add(WIRE)},
        seen=lambda state: seeing(state),
    )


def test_status_grid_of_removals() -> None:
    reach = {name: [DEFINED, added(WIRE), *events[1:]] for name, events in REACH.items()}
    check_grid(GRID_OF_REMOVALS, plans, status=status, reach=reach, verbs={"remove-wire": remove(WIRE)})
