"""The decision that explains a move of a run."""

from uuid import UUID

from beamwright.contexts.decision.decision import decisions
from beamwright.kernel.operation import World


async def check_decision(world: World, decision_id: UUID | None) -> None:
    """Gate: a decision that is named exists."""
    if decision_id is not None:
        await world.load(decisions, decision_id)
