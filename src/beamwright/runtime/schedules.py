"""Time-driven commands: the Scheduler account asks for them through the same door as everyone else."""

import asyncio
from uuid import UUID, uuid4

import structlog

from beamwright.contexts.trust.presence import ExpireVisitPresence
from beamwright.contexts.trust.visit import Visit
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.errors import DomainError
from beamwright.kernel.seams import Leases

from .call import Call
from .service import Service

log = structlog.get_logger("beamwright.schedules")

LEASE = "schedules"
INTERVAL = 60.0


async def run_schedules(service: Service, leases: Leases, holder: UUID) -> None:
    """Every minute, in one process at a time; being a second one by accident does no harm."""
    while True:
        if await leases.take(LEASE, holder, 2 * INTERVAL):
            await expire_presences(service)
        await asyncio.sleep(INTERVAL)


async def expire_presences(service: Service) -> None:
    """Close every presence that has been open longer than the installation allows."""
    limit = service.installation.visit_presence_limit
    for visit in service.authority.current.states("Visit", Visit).values():
        for entry in visit.presence:
            if entry.open and service.now() - entry.opened_at > limit:
                command = ExpireVisitPresence(visit_id=visit.id, actor_id=entry.actor_id)
                try:
                    await service.call(command, scheduler_call())
                except DomainError as refusal:
                    log.info("presence_not_expired", visit_id=str(visit.id), code=type(refusal).__name__)


def scheduler_call() -> Call:
    return Call(
        caller=Caller(principal_id=wellknown.SCHEDULER, kind="service_account"),
        surface_id=wellknown.IN_PROCESS_SURFACE,
        conduit_id=wellknown.SERVICE_CONDUIT,
        correlation_id=uuid4().hex,
    )
