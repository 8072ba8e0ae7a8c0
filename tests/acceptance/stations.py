"""Stations of an installation, made in its own process: what a run needs, granted and withdrawn at will."""

from typing import Any
from uuid import UUID, uuid4

from beamwright.app import App
from beamwright.contexts.enclosure.enclosure import PermitStatus
from beamwright.contexts.enclosure.enclosure_observation import ObserveEnclosureStatus
from beamwright.contexts.enclosure.enclosure_registration import RegisterEnclosure
from beamwright.contexts.equipment.asset import AssetTier
from beamwright.contexts.equipment.asset_assignments import ActivateAsset
from beamwright.contexts.equipment.asset_registration import RegisterAsset
from beamwright.contexts.recipe.capability import ExecutorShape
from beamwright.contexts.recipe.capability_definition import DefineCapability
from beamwright.contexts.recipe.method import ExecutionPattern
from beamwright.contexts.recipe.method_definition import DefineMethod
from beamwright.contexts.recipe.plan_definition import DefinePlan
from beamwright.contexts.recipe.practice_definition import DefinePractice
from beamwright.contexts.safety.clearance import ReviewDecision
from beamwright.contexts.safety.clearance_drafting import RegisterClearance, SubmitClearance
from beamwright.contexts.safety.clearance_lifecycle import ActivateClearance
from beamwright.contexts.safety.clearance_review import (
    AppendClearanceReviewStep,
    ApproveClearance,
    StartClearanceReview,
)
from beamwright.contexts.safety.clearance_template import ActivateClearanceTemplate
from beamwright.contexts.safety.clearance_template_definition import DefineClearanceTemplate
from beamwright.contexts.safety.values import Binding, BindingKind
from beamwright.contexts.supply.supply import MarkSupplyAvailable
from beamwright.contexts.supply.supply_registration import RegisterSupply
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.observing import MonitorRef
from beamwright.kernel.roles import ActorKind
from beamwright.runtime.call import Call
from tests.runtime.test_projector import ADMINISTRATOR

CAMERA = wellknown.seeded_family(4)
MONITOR = Call(
    caller=Caller(principal_id=wellknown.MONITOR, kind=ActorKind.SERVICE_ACCOUNT),
    surface_id=wellknown.IN_PROCESS_SURFACE,
    conduit_id=wellknown.SERVICE_CONDUIT,
    correlation_id="test",
)
INTERLOCK = MonitorRef(source_kind="interlock", source_id="PSS")


class Station:
    """A unit in a hutch, with supplies and a clearance of its own, and a plan over its cameras."""

    unit_id: UUID
    asset_ids: list[UUID]
    enclosure_ids: list[UUID]
    supply_ids: list[UUID]
    clearance_ids: list[UUID]
    plan_id: UUID
    template_id: UUID

    def __init__(self, app: App) -> None:
        self.app = app

    async def do(self, request: Any, call: Call = ADMINISTRATOR) -> Any:
        return (await self.app.service.call(request, call)).body

    async def build(
        self,
        *,
        cameras: int = 2,
        levels: int = 1,
        enclosures: int = 1,
        supplies: int = 1,
        clearances: int = 1,
    ) -> "Station":
        """Everything that a run needs, there and permitted."""
        self.enclosure_ids = [await self.enclosure() for _ in range(enclosures)]
        self.unit_id = await self.asset(AssetTier.UNIT, self.enclosure_ids[0], facility_code="home")
        parent_id = self.unit_id
        for _ in range(levels - 1):
            parent_id = await self.asset(AssetTier.COMPONENT, parent_id=parent_id)
        self.asset_ids = [
            await self.asset(AssetTier.DEVICE, self.enclosure_ids[number % enclosures], parent_id=parent_id)
            for number in range(cameras)
        ]
        kinds = [f"gas {uuid4().hex}" for _ in range(supplies)]
        self.supply_ids = [await self.supply(kind) for kind in kinds]
        self.template_id = await self.template()
        self.clearance_ids = [await self.clearance() for _ in range(clearances)]
        self.plan_id = await self.plan(frozenset(kinds))
        return self

    async def asset(self, tier: AssetTier, enclosure_id: UUID | None = None, **place: Any) -> UUID:
        """An asset; a device is in service."""
        device = tier is AssetTier.DEVICE
        made = await self.do(
            RegisterAsset(
                name=uuid4().hex,
                tier=tier,
                family_ids=frozenset({CAMERA}) if device else frozenset(),
                located_in_enclosure_id=enclosure_id,
                **place,
            )
        )
        if device:
            await self.do(ActivateAsset(asset_id=made.asset_id))
        return made.asset_id

    async def enclosure(self) -> UUID:
        made = await self.do(RegisterEnclosure(name=uuid4().hex, facility_code="home"))
        await self.observe(made.enclosure_id, PermitStatus.PERMITTED)
        return made.enclosure_id

    async def observe(self, enclosure_id: UUID, status: PermitStatus, app: App | None = None) -> Any:
        request = ObserveEnclosureStatus(
            enclosure_id=enclosure_id,
            observed_status=status,
            monitor_ref=INTERLOCK,
            observed_at=self.app.clock(),
            reason="reported",
        )
        return (await (app or self.app).service.call(request, MONITOR)).body

    async def supply(self, kind: str) -> UUID:
        made = await self.do(RegisterSupply(kind=kind, name="it", facility_code="home"))
        await self.do(MarkSupplyAvailable(supply_id=made.supply_id, reason="it is"))
        return made.supply_id

    async def template(self) -> UUID:
        """A form that one person can finish."""
        define = DefineClearanceTemplate(code=f"t{uuid4().hex}", title="Work", separated_duties=False)
        id = (await self.do(define)).template_id
        await self.do(ActivateClearanceTemplate(template_id=id))
        return id

    async def clearance(self, *bindings: Binding, **fields: Any) -> UUID:
        """A clearance in force, of the whole unit unless bound to something else."""
        unit = Binding(kind=BindingKind.ASSET, id=self.unit_id)
        request = RegisterClearance(
            template_id=self.template_id, title="Work", bindings=bindings or (unit,), **fields
        )
        made = await self.do(request)
        id = made.clearance_id
        await self.do(SubmitClearance(clearance_id=id))
        await self.do(StartClearanceReview(clearance_id=id))
        step = AppendClearanceReviewStep(clearance_id=id, role="safety", decision=ReviewDecision.APPROVED)
        await self.do(step)
        await self.do(ApproveClearance(clearance_id=id))
        await self.do(ActivateClearance(clearance_id=id))
        return id

    async def plan(self, kinds: frozenset[str]) -> UUID:
        capability = await self.do(
            DefineCapability(
                code=f"beamwright.capability.{uuid4().hex}",
                name="Imaging",
                required_affordances=frozenset(),
                executor_shapes=frozenset({ExecutorShape.METHOD}),
            )
        )
        method = await self.do(
            DefineMethod(
                name="Imaging",
                capability_id=capability.capability_id,
                execution_pattern=ExecutionPattern.BATCH,
                needed_supplies=kinds,
            )
        )
        practice = await self.do(
            DefinePractice(name="Imaging", method_id=method.method_id, facility_code="home")
        )
        plan = await self.do(
            DefinePlan(name="Plan", practice_id=practice.practice_id, asset_ids=frozenset(self.asset_ids))
        )
        return plan.plan_id
