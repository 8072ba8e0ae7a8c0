"""Periodic upkeep: old idempotency answers go, and the verdict log's months are kept."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from beamwright.kernel.seams import Leases

LEASE = "upkeep"
INTERVAL = 600.0


async def run_upkeep(leases: Leases, holder: UUID, chores: list[Callable[[], Awaitable[None]]]) -> None:
    """Do each chore every ten minutes, in one process at a time."""
    while True:
        if await leases.take(LEASE, holder, 2 * INTERVAL):
            for chore in chores:
                await chore()
        await asyncio.sleep(INTERVAL)
