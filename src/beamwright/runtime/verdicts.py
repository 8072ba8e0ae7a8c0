"""The verdict log: which calls were allowed or denied, buffered and written in bulk."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from beamwright.kernel.authority import AuthzDecision, AuthzReason, AuthzResult
from beamwright.kernel.errors import DomainError, UnavailableError
from beamwright.kernel.operation import Operation
from beamwright.kernel.seams import NewId, Verdict, VerdictLog

from .call import Call

MOST_BUFFERED = 500
MOST_KEPT = 50_000


class Verdicts:
    """Collects what the conduits' levels keep; a crash loses at most the last second."""

    def __init__(self, log: VerdictLog, new_id: NewId, level: Callable[[UUID], str]) -> None:
        self.log = log
        self._new_id = new_id
        self._level = level
        self._buffer: list[Verdict] = []
        self._full = asyncio.Event()
        self.lost = 0

    def record(
        self, operation: Operation, request: Any, call: Call, result: AuthzResult, now: datetime
    ) -> None:
        level = self._level(call.conduit_id)
        if result.allowed and (level == "Denials" or (level == "Commands" and operation.reads)):
            return
        self._keep(operation, request, call, now, result.decision, result.reason, result.determining_policies)

    def out_of_reach(
        self, operation: Operation, request: Any, call: Call, now: datetime, refusal: DomainError
    ) -> None:
        """A call that was allowed in general but not on this object."""
        policies = tuple(UUID(policy) for policy in refusal.context.get("determining_policies", ()))
        self._keep(operation, request, call, now, AuthzDecision.DENY, AuthzReason.OUT_OF_REACH, policies)

    def _keep(
        self,
        operation: Operation,
        request: Any,
        call: Call,
        now: datetime,
        decision: AuthzDecision,
        reason: AuthzReason,
        policies: tuple[UUID, ...],
    ) -> None:
        object_id = getattr(request, operation.path_fields[0]) if operation.target else None
        self._buffer.append(
            Verdict(
                verdict_id=self._new_id(),
                occurred_at=now,
                conduit_id=call.conduit_id,
                surface_id=call.surface_id,
                principal_id=call.caller.principal_id,
                command_name=operation.name,
                decision=decision,
                reason=reason,
                determining_policies=policies,
                object_type=operation.target,
                object_id=object_id,
                correlation_id=call.correlation_id,
            )
        )
        if len(self._buffer) >= MOST_BUFFERED:
            self._full.set()

    async def flush(self) -> None:
        """Write what is buffered; what cannot be written is kept for the next time, within bounds."""
        batch, self._buffer = self._buffer, []
        self._full.clear()
        if not batch:
            return
        try:
            await self.log.write(batch)
        except UnavailableError:
            kept = (batch + self._buffer)[-MOST_KEPT:]
            self.lost += len(batch) + len(self._buffer) - len(kept)
            self._buffer = kept
            raise

    async def run(self) -> None:
        """Flush each second, or when enough has come, for ever."""
        while True:
            try:
                async with asyncio.timeout(1.0):
                    await self._full.wait()
            except TimeoutError:
                pass
            try:
                await self.flush()
            except UnavailableError:
                await asyncio.sleep(1.0)
