"""The clearance expirer: an agent that ends clearances whose time is over, each with the decision that says so."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import structlog

from beamwright.contexts.decision.decision import DecisionConcern, RegisterDecision
from beamwright.contexts.safety.clearance import ClearanceCannotExpireError, ClearanceStatus
from beamwright.contexts.safety.clearance_lifecycle import ExpireClearance
from beamwright.contexts.safety.clearance_reads import ListClearances
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.errors import (
    ConcurrencyError,
    DomainError,
    NotFoundError,
    UnavailableError,
)
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.seams import Leases

from .batches import together
from .call import Call
from .service import Service

log = structlog.get_logger("beamwright.clearance_expirer")

LEASE = "ClearanceExpirer"
BATCH = 100
# At first start the lists may still be on their way, and a tick is long.
RETRY = timedelta(seconds=5)
LONGEST_LEASE = timedelta(minutes=10)
LOST_RACES = (NotFoundError, ClearanceCannotExpireError, ConcurrencyError)
REASON = "valid_until passed"


class ClearanceExpirer:
    """Ticks in one process at a time; being a second one by accident does no harm."""

    def __init__(self, service: Service, leases: Leases, holder: UUID, tick: timedelta) -> None:
        self._service = service
        self._leases = leases
        self._holder = holder
        self._tick = tick

    async def run(self) -> None:
        """Expire what is due, every tick, for ever."""
        lease = min(2 * self._tick, LONGEST_LEASE).total_seconds()
        while True:
            pause = self._tick
            try:
                if await self._leases.take(LEASE, self._holder, lease):
                    await self.expire_due()
            except DomainError as refusal:
                log.warning("clearance_expirer_waits", code=type(refusal).__name__, reason=refusal.detail)
                pause = min(self._tick, RETRY)
            await asyncio.sleep(pause.total_seconds())

    async def stop(self) -> None:
        await self._leases.release(LEASE, self._holder)

    async def expire_due(self) -> int:
        """Expire every clearance whose time is over, oldest first; how many this call ended."""
        now, expired, cursor = self._service.now(), 0, None
        while True:
            due = ListClearances(
                status=frozenset({ClearanceStatus.ACTIVE}),
                # The filter means “before”.
                valid_until_before=now + timedelta(microseconds=1),
                sort="valid_until",
                limit=BATCH,
                cursor=cursor,
            )
            page = (await self._service.call(due, expirer_call())).body
            for clearance in page.items:
                expired += await self._expire(clearance.id, clearance.valid_until)
            cursor = page.next_cursor
            if cursor is None:
                return expired

    async def _expire(self, clearance_id: UUID, valid_until: datetime) -> bool:
        """One append: the decision and what it did, or neither."""

        def decide(_: Sequence[Any]) -> RegisterDecision:
            return RegisterDecision(
                context="ClearanceExpiry",
                choice="Expire",
                concerns=(DecisionConcern(kind="Clearance", id=clearance_id),),
                rule="agent:ClearanceExpirer:v1",
                inputs=msgspec.to_builtins({"clearance_id": clearance_id, "valid_until": valid_until}),
            )

        def expire(receipts: Sequence[Any]) -> ExpireClearance:
            return ExpireClearance(
                clearance_id=clearance_id,
                reason=REASON,
                decided_by_decision_id=receipts[0].decision_id,
            )

        try:
            await together(self._service, [decide, expire], expirer_call())
        except LOST_RACES as refusal:
            log.info("clearance_expired_elsewhere", id=str(clearance_id), code=type(refusal).__name__)
            return False
        except UnavailableError:
            raise
        except DomainError as refusal:
            # One that cannot be expired must not keep the others in force.
            log.warning("clearance_not_expired", id=str(clearance_id), code=type(refusal).__name__)
            return False
        return True


def expirer_call() -> Call:
    return Call(
        caller=Caller(principal_id=wellknown.CLEARANCE_EXPIRER, kind=ActorKind.AGENT),
        surface_id=wellknown.IN_PROCESS_SURFACE,
        conduit_id=wellknown.SERVICE_CONDUIT,
        correlation_id=uuid4().hex,
    )
