"""How a plan fares: its open runs, its latest one and how all of them ended, in one call."""

from typing import Any
from uuid import UUID

import msgspec

from beamwright.contexts.recipe.plan import plans
from beamwright.kernel.aggregate import Cursor
from beamwright.kernel.operation import Query, World
from beamwright.kernel.value import Time, Value

from .run import HELD, OPEN, RUNNING, RunOutcome, RunStatus, runs

# The list moves on in steps; between two of them several reads see the same.
TRIES = 10
MOST_IN_A_PAGE = 200


class LatestRun(Value):
    """The run of a plan that started last."""

    run_id: UUID
    name: str
    status: RunStatus
    outcome: RunOutcome
    status_reason: str | None
    started_at: Time
    ended_at: Time | None


class PlanOutcome(Value):
    """The runs of a plan within the caller's reach."""

    plan_id: UUID
    running_run_ids: list[UUID]
    held_run_ids: list[UUID]
    latest: LatestRun | None
    counts: dict[RunStatus, int]
    as_of: str


@plans.operation("GET /plans/{plan_id}/outcome")
class GetPlanOutcome(Query[PlanOutcome]):
    """Read which runs of a plan go on, which was the last, and how they ended."""

    plan_id: UUID
    consistent_with: Cursor | None = None

    async def answer(self, world: World) -> PlanOutcome:
        await world.load(plans, self.plan_id)
        await world.caught_up(runs, self.consistent_with)
        outcome, settled = await self._look(world)
        for _ in range(TRIES):
            if settled:
                break
            outcome, settled = await self._look(world)
        return outcome

    async def _look(self, world: World) -> tuple[PlanOutcome, bool]:
        """The outcome, and whether the list stood still while it was read."""
        ask: Any = world.operations["list_runs"].request
        first = await world.page(runs, ask(plan_id=self.plan_id, sort="-started_at", limit=1))
        tally = await world.tally(runs, "status", plan_id=[self.plan_id])
        going, as_of = await self._open(world, ask)
        outcome = PlanOutcome(
            plan_id=self.plan_id,
            running_run_ids=[run.id for run in going if run.status is RUNNING],
            held_run_ids=[run.id for run in going if run.status is HELD],
            latest=_latest(first.items[0]) if first.items else None,
            counts={status: tally.get((status,), 0) for status in RunStatus},
            as_of=as_of,
        )
        return outcome, first.as_of == as_of

    async def _open(self, world: World, ask: Any) -> tuple[list[Any], str]:
        """Every run that goes on, and where the list stood."""
        request = ask(plan_id=self.plan_id, status=OPEN, sort="started_at", limit=MOST_IN_A_PAGE)
        page = await world.page(runs, request)
        going = page.items
        while page.next_cursor is not None:
            page = await world.page(runs, msgspec.structs.replace(request, cursor=page.next_cursor))
            going += page.items
        return going, page.as_of


def _latest(run: Any) -> LatestRun:
    return LatestRun(
        run_id=run.id,
        name=run.name,
        status=run.status,
        outcome=run.outcome,
        status_reason=run.status_reason,
        started_at=run.started_at,
        ended_at=run.ended_at,
    )
