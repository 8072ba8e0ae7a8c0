"""A station to walk over: cameras, enclosures, supplies and subjects by twos, under clearances that lapse."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from beamwright.contexts.equipment.asset import assets
from beamwright.contexts.federation.facility import FacilityKind, facilities
from beamwright.contexts.federation.registration import RegisterFacility
from beamwright.contexts.recipe.capability import ExecutorShape
from beamwright.contexts.recipe.capability_definition import DefineCapability
from beamwright.contexts.recipe.method import ExecutionPattern
from beamwright.contexts.recipe.method_definition import DefineMethod
from beamwright.contexts.recipe.plan_definition import DefinePlan
from beamwright.contexts.recipe.practice_definition import DefinePractice
from beamwright.contexts.safety.values import Binding
from beamwright.contexts.subject.subject_registration import RegisterSubject
from beamwright.contexts.supply.supply import supplies
from tests.acceptance.stations import Station
from tests.acceptance.things import number, schema
from tests.runtime.run_model import Clearance, Model, Permit, Plan, Subject, Supply
from tests.walks import folds

# The model counts time in waits of this length; whatever ends, ends in the middle of one.
A_WHILE = timedelta(minutes=40)
CLEARED_FOR = 1
UNITS = {"exposure": "s", "gain": "1"}
AT_FIRST = frozenset({"exposure"})


def taking(names: frozenset[str]) -> dict[str, Any]:
    """The schema of parameters of these names."""
    return schema(**{name: number(UNITS[name]) for name in sorted(names)})


class Bench(Station):
    """A station whose method takes parameters, with subjects to measure."""

    kinds: frozenset[str]
    method_id: UUID
    practice_id: UUID
    subject_ids: list[UUID]

    async def furnish(self) -> Model:
        """Build everything that a run needs; the answer is the model of it."""
        await self.build(cameras=2, levels=2, enclosures=2, supplies=2)
        self.subject_ids = [(await self.do(RegisterSubject(name="Rock"))).subject_id for _ in range(2)]
        [home] = await folds(self.app, facilities)
        area = RegisterFacility(code="area", display_name="Area", kind=FacilityKind.AREA, parent_id=home)
        await self.do(area)
        standing, supplied = await folds(self.app, assets), await folds(self.app, supplies)
        return Model(
            unit_id=self.unit_id,
            bound=tuple(self.asset_ids),
            kinds=self.kinds,
            places={id: each.state.located_in_enclosure_id for id, each in standing.items()},
            parents={id: each.state.parent_id for id, each in standing.items()},
            takes=AT_FIRST,
            permits={id: Permit("Permitted", self.app.clock(), heard=0) for id in self.enclosure_ids},
            supplies={id: Supply(each.state.kind, "Available") for id, each in supplied.items()},
            subjects={id: Subject() for id in self.subject_ids},
            clearances={id: Clearance(self.unit_id, last=CLEARED_FOR) for id in self.clearance_ids},
            plans={self.plan_id: Plan()},
        )

    async def clearance(self, *bindings: Binding, **fields: Any) -> UUID:
        """One that lapses by itself."""
        until = self.app.clock() + (CLEARED_FOR + 0.5) * A_WHILE
        return await super().clearance(*bindings, valid_until=until, **fields)

    async def plan(self, kinds: frozenset[str]) -> UUID:
        capability = DefineCapability(
            code="beamwright.capability.walk",
            name="Imaging",
            required_affordances=frozenset(),
            executor_shapes=frozenset({ExecutorShape.METHOD}),
            parameters_schema=taking(frozenset(UNITS)),
        )
        method = DefineMethod(
            name="Imaging",
            capability_id=(await self.do(capability)).capability_id,
            execution_pattern=ExecutionPattern.BATCH,
            needed_supplies=kinds,
            parameters_schema=taking(AT_FIRST),
        )
        self.kinds, self.method_id = kinds, (await self.do(method)).method_id
        practice = DefinePractice(name="Imaging", method_id=self.method_id, facility_code="home")
        self.practice_id = (await self.do(practice)).practice_id
        return (await self.do(self.another_plan())).plan_id

    def another_plan(self) -> DefinePlan:
        return DefinePlan(name="Plan", practice_id=self.practice_id, asset_ids=frozenset(self.asset_ids))
