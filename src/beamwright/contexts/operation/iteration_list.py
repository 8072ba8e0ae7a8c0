"""The passes of a procedure: begun and ended as its log says, with the point and objective of their outcome rows."""

from collections.abc import Iterable
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.aggregate import Cursor, Limit
from beamwright.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from beamwright.kernel.operation import Query, World
from beamwright.kernel.value import Time, Value, replace

from .outcomes import OUTCOMES, Point
from .procedure import ProcedureEvent, ProcedureIterationEnded, ProcedureIterationStarted, procedures


class ProcedureIteration(Value):
    """One pass; without an end it goes on."""

    iteration_index: int
    started_at: Time
    ended_at: Time | None = None
    converged: bool | None = None
    reason: text.Reason | None = None
    point: Point | None = None
    objective_value: float | None = None


class ProcedureIterationPage(Value):
    """One page of passes."""

    items: list[ProcedureIteration]
    next_cursor: str | None


@procedures.operation("GET /procedures/{procedure_id}/iterations")
class ListProcedureIterations(Query[ProcedureIterationPage]):
    """List the passes of a procedure in order, each with the point and objective value of its latest outcome."""

    procedure_id: UUID
    limit: Limit = 50
    cursor: Cursor | None = None

    async def answer(self, world: World) -> ProcedureIterationPage:
        after = 0 if self.cursor is None else _index(self.cursor)
        found = passes(await world.events(procedures, self.procedure_id))
        found = [each for each in found if each.iteration_index > after]
        page = found[: self.limit]
        more = len(found) > len(page)
        return ProcedureIterationPage(
            items=await self._measured(world, page),
            next_cursor=encode_cursor([str(page[-1].iteration_index)]) if more else None,
        )

    async def _measured(self, world: World, page: list[ProcedureIteration]) -> list[ProcedureIteration]:
        groups = await world.entries.groups(
            OUTCOMES,
            self.procedure_id,
            by="iteration_index",
            keys=[each.iteration_index for each in page],
        )
        latest = {group.key: group.latest for group in groups}
        return [
            replace(each, point=outcome.point, objective_value=outcome.objective_value)
            if (outcome := latest.get(each.iteration_index))
            else each
            for each in page
        ]


def passes(events: Iterable[ProcedureEvent]) -> list[ProcedureIteration]:
    """The passes that a log tells of, in order."""
    found: dict[int, ProcedureIteration] = {}
    for event in events:
        match event:
            case ProcedureIterationStarted(iteration_index=index):
                found[index] = ProcedureIteration(iteration_index=index, started_at=event.occurred_at)
            case ProcedureIterationEnded(iteration_index=index):
                found[index] = replace(
                    found[index],
                    ended_at=event.occurred_at,
                    converged=event.converged,
                    reason=event.reason,
                )
            case _:
                continue
    return list(found.values())


def _index(cursor: str) -> int:
    [value] = decode_cursor(cursor, 1)
    if not (value.isascii() and value.isdecimal() and len(value) < 11):
        raise InvalidCursorError("Use the next_cursor of a page of this list, unchanged, or none.")
    return int(value)
