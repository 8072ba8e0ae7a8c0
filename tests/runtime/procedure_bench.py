"""A procedure that an outside program drives: what it sends, and whoever sends it."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from beamwright.app import App
from beamwright.contexts.operation.activities import (
    ActivityEntry,
    AppendProcedureActivities,
    ListProcedureActivities,
)
from beamwright.contexts.operation.iterations import EndProcedureIteration, StartProcedureIteration
from beamwright.contexts.operation.outcomes import (
    AppendProcedureOutcomes,
    OutcomeEntry,
)
from beamwright.contexts.recipe.steps import (
    EqualsCriterion,
    RecipeActionStep,
    RecipeCheckStep,
    RecipeSetpointStep,
    StepLists,
)
from beamwright.kernel.entries import Inserted
from tests.live import LiveServer
from tests.running import start_procedure
from tests.runtime.test_projector import ADMINISTRATOR

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TABLES = ("entries_procedure_activities", "entries_procedure_outcomes")
HOSTILE = "'; DROP TABLE events; -- \\ \" \u202e \ud7ff\U0001f4a9 $1 %s {} \t\r\n\x01\x7f"
LISTS = StepLists(
    steps=(
        RecipeSetpointStep(address="ca://m1", value=1, label="move"),
        RecipeActionStep(name="fly"),
        RecipeCheckStep(address="ca://s1", criterion=EqualsCriterion(expected=1)),
    ),
    closing_steps=(RecipeSetpointStep(address="ca://shutter", value=0),),
)


def done(number: int = 0, **fields: Any) -> ActivityEntry:
    given: dict[str, Any] = {
        "event_id": uuid4(),
        "step_kind": "Setpoint",
        "payload": {"address": "ca://m1", "value": number},
        "sampled_at": START + number * SECOND,
    } | fields
    return ActivityEntry(**given)


def came(index: int = 1, number: int = 0, **fields: Any) -> OutcomeEntry:
    given: dict[str, Any] = {
        "event_id": uuid4(),
        "iteration_index": index,
        "point": {"x": number},
        "succeeded": True,
        "sampled_at": START + number * SECOND,
    } | fields
    return OutcomeEntry(**given)


class Bench:
    """A procedure that started at START, and whoever drives it."""

    def __init__(self, app: App, procedure_id: UUID) -> None:
        self.app = app
        self.id = procedure_id

    async def call(self, request: type[Any], **fields: Any) -> Any:
        made = request(procedure_id=self.id, **fields)
        return (await self.app.service.call(made, ADMINISTRATOR)).body

    async def act(self, *entries: ActivityEntry) -> Inserted:
        return await self.call(AppendProcedureActivities, entries=entries)

    async def conclude(self, *entries: OutcomeEntry) -> Inserted:
        return await self.call(AppendProcedureOutcomes, entries=entries)

    async def begin(self, index: int) -> None:
        await self.call(StartProcedureIteration, iteration_index=index)

    async def finish(self, index: int, **fields: Any) -> None:
        await self.call(EndProcedureIteration, iteration_index=index, **fields)

    async def rows(self, request: type[Any] = ListProcedureActivities, **fields: Any) -> Any:
        return (await self.call(request, **fields)).items

    async def pages(self, request: type[Any], **fields: Any) -> list[Any]:
        read: list[Any] = []
        cursor: str | None = None
        while not read or cursor is not None:
            page = await self.call(request, cursor=cursor, **fields)
            assert len(page.items) <= fields["limit"]
            read += page.items
            cursor = page.next_cursor
        return read


type WithProcedure = Callable[[Callable[[Bench], Awaitable[None]]], None]


def driven(server: LiveServer) -> WithProcedure:
    """Lets a check drive a procedure of its own within the server."""

    def run(check: Callable[[Bench], Awaitable[None]]) -> None:
        async def checked(app: App) -> None:
            await check(Bench(app, await start_procedure(app, START, LISTS)))

        server.run(checked)

    return run
