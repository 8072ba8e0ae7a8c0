"""Reads of plans: how a practice would be bound to assets, before it is."""

from uuid import UUID

from beamwright.kernel.operation import Query, World

from .binding import BindingView, binding_view, find_candidates, load_binding
from .plan import plans
from .plan_definition import check_asset_count
from .practice import practices


@plans.operation("POST /plans/inspect-binding")
class InspectPlanBinding(Query[BindingView]):
    """Show what a practice needs of these assets, what they offer and what is missing; nothing is written."""

    practice_id: UUID
    asset_ids: frozenset[UUID]

    async def answer(self, world: World) -> BindingView:
        practice = await world.load(practices, self.practice_id)
        binding = await load_binding(world, practice, self.asset_ids)
        check_asset_count(self.asset_ids)
        return binding_view(binding, await find_candidates(world, binding))
