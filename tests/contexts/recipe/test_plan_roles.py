"""The roles of a plan: who may take a part, in the order in which it is refused."""

from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.asset import Asset
from beamwright.contexts.recipe.method import Method, RoleRequirement
from beamwright.contexts.recipe.plan import (
    Plan,
    PlanRoleBound,
    PlanRoleUnbound,
    PlanStatus,
    PlanWireAdded,
    plan_hash,
    plans,
)
from beamwright.contexts.recipe.plan_roles import (
    BindPlanRole,
    InvalidPlanRoleBindingsError,
    PlanCannotBindRoleError,
    PlanCasting,
    PlanRoleAlreadyBoundError,
    PlanRoleAssetCannotPresentError,
    PlanRoleAssetNotBoundError,
    PlanRoleFamilyMismatchError,
    PlanRoleNameNotDeclaredError,
    PlanRoleNotBoundError,
    PlanRolePortCoverageNotSatisfiedError,
    PlanWireRoleEndpointMismatchError,
    UnbindPlanRole,
    unbound_roles,
    unfilled_roles,
)
from beamwright.kernel.event import Event
from beamwright.kernel.value import replace
from tests.contexts.recipe.plan_examples import (
    CAMERA,
    CAMERA_FAMILY,
    DEFINED,
    DEPRECATED,
    DETECTOR,
    EQUIPMENT,
    INPUT,
    OUTPUT,
    PLAN,
    REACH,
    STAGE,
    STAGE_FAMILY,
    THE_CAMERA,
    THE_STAGE,
    WIRE,
    asset,
    needs_port,
    plan,
    requiring,
)
from tests.grids import check_grid
from tests.rules import NOW, OCCASION, outcome

IMAGING = RoleRequirement(
    role_name="detector", role_id=DETECTOR, required_ports=(needs_port("trigger", INPUT),)
)
TURNING = RoleRequirement(
    role_name="rotation", family_id=STAGE_FAMILY, required_ports=(needs_port("pulse", OUTPUT),)
)
METHOD = requiring(IMAGING, TURNING)
STRANGER = asset(UUID(int=90), "Stranger")

BIND = BindPlanRole(plan_id=PLAN, role_name="detector", asset_id=CAMERA)
UNBIND = UnbindPlanRole(plan_id=PLAN, role_name="detector")


def bound(role_name: str = "detector", asset_id: UUID = CAMERA) -> PlanRoleBound:
    return PlanRoleBound(
        plan_id=PLAN, occurred_at=NOW, role_name=role_name, asset_id=asset_id, content_hash="4" * 64
    )


WIRED = PlanWireAdded(plan_id=PLAN, occurred_at=NOW, wire=WIRE, content_hash="3" * 64)


def casting(*history: Event, asset: Asset = THE_CAMERA, method: Method = METHOD) -> PlanCasting:
    equipment = replace(EQUIPMENT, assets=(asset,))
    return PlanCasting(plan=plan(*history), method=method, asset=asset, equipment=equipment)


def test_an_asset_takes_a_part() -> None:
    after = replace(plan().content, role_bindings={"detector": CAMERA})
    got = outcome(replace(BIND, role_name=" detector "), casting())
    assert got == [replace(bound(), content_hash=plan_hash(after))]


def test_an_asset_may_take_several_parts() -> None:
    again = requiring(IMAGING, RoleRequirement(role_name="viewer", family_id=CAMERA_FAMILY))
    got = outcome(replace(BIND, role_name="viewer"), casting(bound(), method=again))
    assert not isinstance(got, type)


BLIND = replace(THE_CAMERA, ports=())


@pytest.mark.parametrize(
    ("role_name", "seen", "refusal"),
    [
        ("unknown", casting(DEPRECATED, asset=STRANGER), PlanCannotBindRoleError),
        ("detector", casting(bound(), asset=STRANGER), PlanRoleAssetNotBoundError),
        ("detector", casting(bound(), asset=THE_STAGE), PlanRoleAlreadyBoundError),
        ("unknown", casting(), PlanRoleNameNotDeclaredError),
        ("rotation", casting(WIRED), PlanRoleFamilyMismatchError),
        ("detector", casting(WIRED, asset=THE_STAGE), PlanRoleAssetCannotPresentError),
        ("detector", casting(asset=BLIND), PlanRolePortCoverageNotSatisfiedError),
    ],
)
def test_a_part_is_refused_in_order(role_name: str, seen: PlanCasting, refusal: type) -> None:
    assert outcome(replace(BIND, role_name=role_name, asset_id=seen.asset.id), seen) == refusal


def test_a_missing_port_is_named() -> None:
    with pytest.raises(PlanRolePortCoverageNotSatisfiedError) as refused:
        BIND.decide(casting(asset=BLIND), OCCASION)
    assert refused.value.context["missing_ports"] == [
        {"port_name": "trigger", "direction": "Input", "signal_type": "TTL"}
    ]


SECOND_STAGE = replace(THE_STAGE, id=CAMERA)


@pytest.mark.parametrize(
    ("required", "asset_id", "refusal"),
    [
        (TURNING, STAGE, None),
        (TURNING, CAMERA, PlanWireRoleEndpointMismatchError),
        (IMAGING, CAMERA, None),
    ],
)
def test_a_part_agrees_with_the_wires(
    required: RoleRequirement, asset_id: UUID, refusal: type | None
) -> None:
    able = {STAGE: THE_STAGE, CAMERA: THE_CAMERA if required is IMAGING else SECOND_STAGE}[asset_id]
    command = replace(BIND, role_name=required.role_name, asset_id=asset_id)
    got = outcome(command, casting(WIRED, asset=able))
    assert (got if isinstance(got, type) else None) == refusal


def test_a_plan_binds_not_too_many_roles() -> None:
    full = replace(plan(), role_bindings={f"role {n}": CAMERA for n in range(50)})
    assert outcome(BIND, replace(casting(), plan=full)) == InvalidPlanRoleBindingsError


def test_unbind_a_role() -> None:
    expected = PlanRoleUnbound(
        plan_id=PLAN, occurred_at=NOW, role_name="detector", content_hash=plan_hash(plan().content)
    )
    assert outcome(UNBIND, plan(bound())) == [expected]


def test_a_role_that_is_not_bound_is_not_unbound() -> None:
    assert outcome(UNBIND, plan(bound("rotation", STAGE))) == PlanRoleNotBoundError


def test_an_unbound_role_is_free_again() -> None:
    unbound = PlanRoleUnbound(plan_id=PLAN, occurred_at=NOW, role_name="detector", content_hash="5" * 64)
    assert plan(bound(), unbound).role_bindings == {}


OPTIONAL = replace(TURNING, optional=True)


@pytest.mark.parametrize(
    ("state", "method", "unbound"),
    [
        (plan(), METHOD, ["detector", "rotation"]),
        (plan(bound()), METHOD, ["rotation"]),
        (plan(), requiring(OPTIONAL), []),
    ],
)
def test_roles_that_must_be_taken(state: Plan, method: Method, unbound: list[str]) -> None:
    assert unbound_roles(state, method) == unbound


@pytest.mark.parametrize(
    ("state", "method", "assets", "unfilled"),
    [
        (plan(bound(), bound("rotation", STAGE)), METHOD, (THE_CAMERA, THE_STAGE), []),
        (plan(bound()), METHOD, (THE_CAMERA, THE_STAGE), ["rotation"]),
        (plan(bound()), requiring(IMAGING, OPTIONAL), (BLIND, THE_STAGE), ["detector"]),
        (plan(bound("rotation", CAMERA)), requiring(OPTIONAL), (THE_CAMERA,), ["rotation"]),
        (plan(bound()), requiring(IMAGING), (THE_STAGE,), ["detector"]),
    ],
)
def test_roles_that_are_not_filled_today(
    state: Plan, method: Method, assets: tuple[Asset, ...], unfilled: list[Any]
) -> None:
    assert unfilled_roles(state, method, replace(EQUIPMENT, assets=assets)) == unfilled


GRID = """
             bind-role
Defined      Defined
Versioned    Versioned
Deprecated   -
"""

GRID_OF_UNBINDING = """
             unbind-role
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
        verbs={"bind-role": BIND},
        seen=lambda state: replace(casting(), plan=state),
    )


def test_status_grid_of_unbinding() -> None:
    reach = {name: [DEFINED, bound(), *events[1:]] for name, events in REACH.items()}
    check_grid(GRID_OF_UNBINDING, plans, status=status, reach=reach, verbs={"unbind-role": UNBIND})
