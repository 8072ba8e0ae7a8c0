"""Background work of a process: each worker is started again when it fails, and stopped with the service."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# Whoever worked this long without failing has got over what ailed it.
WELL = 60.0

log = structlog.get_logger("beamwright.workers")


class Workers:
    """Named coroutines that run until the service stops."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self._tasks.append(asyncio.create_task(self._keep(name, work), name=name))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _keep(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        pause = SHORTEST_PAUSE
        while True:
            began = time.monotonic()
            try:
                await work()
                return
            except Exception as error:  # noqa: BLE001 - a worker is started again whatever it died of
                log.error("worker_failed", worker=name, error=f"{type(error).__name__}: {error}")
            pause = SHORTEST_PAUSE if time.monotonic() - began > WELL else pause
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
