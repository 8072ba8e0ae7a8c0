"""Background work of a process: each worker is started again when it fails, and stopped with the service."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

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
        pause = 0.5
        while True:
            try:
                await work()
                return
            except Exception as error:  # noqa: BLE001 - a worker is started again whatever it died of
                log.error("worker_failed", worker=name, error=f"{type(error).__name__}: {error}")
            await asyncio.sleep(pause)
            pause = min(pause * 2, 30.0)
