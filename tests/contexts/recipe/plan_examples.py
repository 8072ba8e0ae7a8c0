"""A plan of tomography at one station, and what it is bound to: the beginning of several tests."""

from typing import Any
from uuid import UUID

from beamwright.contexts.equipment.assembly import Assembly
from beamwright.contexts.equipment.asset import Asset, AssetLifecycle, AssetTier
from beamwright.contexts.equipment.asset_values import AssetPort
from beamwright.contexts.equipment.family import Family
from beamwright.contexts.equipment.fixture import Fixture
from beamwright.contexts.equipment.role import Role
from beamwright.contexts.equipment.values import Affordance, PortDirection
from beamwright.contexts.recipe.binding import Binding, Equipment
from beamwright.contexts.recipe.capability import Capability, ExecutorShape
from beamwright.contexts.recipe.method import (
    ExecutionPattern,
    Method,
    PortRequirement,
    RoleRequirement,
)
from beamwright.contexts.recipe.plan import (
    Plan,
    PlanDefined,
    PlanDeprecated,
    PlanVersioned,
    Wire,
    plans,
)
from beamwright.contexts.recipe.practice import Practice
from beamwright.kernel.declared_schema import NumberedSchema
from beamwright.kernel.event import Event
from beamwright.kernel.value import replace
from beamwright.kernel.versions import DeprecationReason
from tests.rules import NOW, given

PLAN, PRACTICE, METHOD, CAPABILITY = (UUID(int=number) for number in range(11, 15))
CAMERA, STAGE, TIMER, CAMERA_FAMILY, STAGE_FAMILY = (UUID(int=number) for number in range(21, 26))
DETECTOR, FIXTURE, ASSEMBLY = (UUID(int=number) for number in range(31, 34))

INPUT, OUTPUT = PortDirection.INPUT, PortDirection.OUTPUT


def asset(id: UUID, name: str, *family_ids: UUID, ports: tuple[AssetPort, ...] = ()) -> Asset:
    return Asset(
        id=id,
        name=name,
        tier=AssetTier.DEVICE,
        parent_id=UUID(int=1),
        facility_code=None,
        scope_facility_code="aps",
        lifecycle=AssetLifecycle.ACTIVE,
        condition_since=NOW,
        commissioned_at=NOW,
        family_ids=frozenset(family_ids),
        ports=ports,
    )


def port(name: str, direction: PortDirection, signal_type: str = "TTL") -> AssetPort:
    return AssetPort(name=name, direction=direction, signal_type=signal_type)


def family(id: UUID, name: str, *affordances: Affordance, roles: frozenset[UUID] = frozenset()) -> Family:
    return Family(id=id, name=name, affordances=frozenset(affordances), presented_role_ids=roles)


CAMERAS = family(CAMERA_FAMILY, "Camera", Affordance.IMAGEABLE, roles=frozenset({DETECTOR}))
STAGES = family(STAGE_FAMILY, "Stage", Affordance.ROTATABLE)
THE_CAMERA = asset(CAMERA, "Camera", CAMERA_FAMILY, ports=(port("trigger", INPUT), port("busy", OUTPUT)))
THE_STAGE = asset(STAGE, "Stage", STAGE_FAMILY, ports=(port("pulse", OUTPUT),))
IMAGING = Role(
    id=DETECTOR,
    name="Detector",
    description="Yields frames.",
    required_affordances=frozenset({Affordance.IMAGEABLE}),
    optional_affordances=frozenset(),
    produces=frozenset(),
    consumes=frozenset(),
)
TRIPOD = Assembly(
    id=ASSEMBLY,
    name="Tripod",
    presented_role_ids=frozenset({DETECTOR}),
    required_slots=(),
    required_wires=(),
    required_sub_assemblies=(),
    parameter_overrides_schema=None,
    drawing=None,
    content_hash="",
)
THE_FIXTURE = Fixture(
    id=FIXTURE,
    assembly_id=ASSEMBLY,
    assembly_content_hash="",
    facility_code="aps",
    slot_asset_bindings=(),
    parameter_overrides={},
)

TOMOGRAPHY = Capability(
    id=CAPABILITY,
    code="beamwright.capability.tomography",
    name="Tomography",
    description=None,
    required_affordances=frozenset({Affordance.IMAGEABLE, Affordance.ROTATABLE}),
    executor_shapes=frozenset({ExecutorShape.METHOD}),
)
FLY_SCAN = Method(
    id=METHOD,
    name="Fly scan",
    capability_id=CAPABILITY,
    needed_family_ids=frozenset({CAMERA_FAMILY}),
    needed_supplies=frozenset(),
    needed_assembly_ids=frozenset(),
    execution_pattern=ExecutionPattern.BATCH,
    monotone_quality=False,
    resumable_from_checkpoint=False,
    content_hash="",
)
AT_APS = Practice(
    id=PRACTICE,
    name="Fly scan at APS",
    method_id=METHOD,
    facility_code="aps",
    family_ids=frozenset({STAGE_FAMILY}),
)
EQUIPMENT = Equipment(assets=(THE_CAMERA, THE_STAGE), families=(CAMERAS, STAGES), roles=(IMAGING,))
BINDING = Binding(
    practice=AT_APS,
    method=FLY_SCAN,
    capability=TOMOGRAPHY,
    equipment=EQUIPMENT,
    covering_facility_codes=frozenset({"aps"}),
)

DEFINED = PlanDefined(
    plan_id=PLAN,
    occurred_at=NOW,
    name="Tomography in March",
    practice_id=PRACTICE,
    method_id=METHOD,
    capability_id=CAPABILITY,
    facility_code="aps",
    asset_ids=frozenset({CAMERA, STAGE}),
    default_parameters={},
    parameters_schema_version=0,
    window_start=None,
    window_end=None,
    content_hash="1" * 64,
    asset_family_ids={CAMERA: frozenset({CAMERA_FAMILY}), STAGE: frozenset({STAGE_FAMILY})},
)
VERSIONED = PlanVersioned(plan_id=PLAN, occurred_at=NOW, version_tag="2", content_hash="2" * 64)
DEPRECATED = PlanDeprecated(
    plan_id=PLAN, occurred_at=NOW, reason_kind=DeprecationReason.OBSOLETE, reason="unused"
)
WIRE = Wire(
    source_asset_id=STAGE, source_port_name="pulse", target_asset_id=CAMERA, target_port_name="trigger"
)
REACH = {"Defined": [DEFINED], "Versioned": [DEFINED, VERSIONED], "Deprecated": [DEFINED, DEPRECATED]}


def plan(*history: Event, **changes: Any) -> Plan:
    """The plan after `history`, with other first facts where told."""
    return given(plans, replace(DEFINED, **changes), *history)


def declaring(*schemas: dict[str, Any], method: Method = FLY_SCAN) -> Method:
    """The method with these schemas, one after the other."""
    numbered = tuple(
        NumberedSchema(schema_version=number, schema=schema, since=NOW)
        for number, schema in enumerate(schemas, 1)
    )
    return replace(
        method,
        parameters_schema=schemas[-1],
        parameters_schema_version=len(schemas),
        parameters_schemas=numbered,
    )


def requiring(*required: RoleRequirement, method: Method = FLY_SCAN) -> Method:
    return replace(method, required_roles=required)


def needs_port(name: str, direction: PortDirection, signal_type: str = "TTL") -> PortRequirement:
    return PortRequirement(port_name=name, direction=direction, signal_type=signal_type)
