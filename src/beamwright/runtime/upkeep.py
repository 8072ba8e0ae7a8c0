"""Periodic upkeep: old idempotency answers go, and the verdict log's months are kept."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from beamwright.kernel.seams import Leases

LEASE = "upkeep"


async def run_upkeep(leases: Leases, holder: UUID, chores: list[Callable[[], Awaitable[None]]]) -> None:
    """Do each chore hourly, in one process at a time."""
    while True:
        if await leases.take(LEASE, holder, 3600):
            for chore in chores:
                await chore()
        await asyncio.sleep(600)
