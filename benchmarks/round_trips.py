"""How often one call goes to the database and back, counted at the driver; what the process does beside is not."""

import asyncio
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from beamwright.app import App
from beamwright.contexts.run.start import StartRun
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.roles import ActorKind
from beamwright.runtime.call import Call
from beamwright.settings import Settings
from benchmarks.installation import Installation

CALL = Call(
    caller=Caller(principal_id=wellknown.ADMINISTRATOR, kind=ActorKind.HUMAN),
    surface_id=wellknown.HTTP_SURFACE,
    conduit_id=wellknown.CLIENTS_CONDUIT,
    correlation_id="bench",
)


# Set while the call runs, and seen by whatever runs in its name.
COUNTED: ContextVar[list[str] | None] = ContextVar("COUNTED", default=None)


async def of_a_start(place: Installation, plan: str, starts: int = 20) -> list[list[str]]:
    """The statements of every start, one after the other; each was prepared in a start before."""
    app = await App.open(Settings(data=place.directory), place.dsn)
    try:
        app.start_workers()
        await _listen(app)
        return [await _counted(app, plan) for _ in range(2 * starts)][starts:]
    finally:
        await app.close()


async def _counted(app: App, plan: str) -> list[str]:
    sent: list[str] = []
    COUNTED.set(sent)
    outcome = await app.service.call(StartRun(name="Counted", plan_id=UUID(plan)), CALL)
    assert outcome.status == 201, outcome
    # The driver tells a moment later.
    await asyncio.sleep(0)
    COUNTED.set(None)
    return sent


async def _listen(app: App) -> None:
    """To every connection that the process has: they are all held for a moment."""
    pools: list[Any] = list(app.database._pools.values())
    async with AsyncExitStack() as held:
        for pool in pools:
            for _ in range(pool.get_max_size()):
                connection = await held.enter_async_context(pool.acquire())
                connection.add_query_logger(_told)


def _told(record: Any) -> None:
    counted = COUNTED.get()
    if counted is not None:
        counted.append(record.query)
