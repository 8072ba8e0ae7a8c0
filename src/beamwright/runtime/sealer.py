"""The sealer: signs the own seal's pointer when the ledger grew, and often enough that it stays fresh."""

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog

from beamwright.contexts.federation.facility import Facility, FacilityKind
from beamwright.contexts.federation.seal import SealPointer, SealStatus
from beamwright.contexts.federation.seal_pointers import SignSealPointer
from beamwright.kernel.epochs import Epoch
from beamwright.kernel.errors import DomainError
from beamwright.kernel.seams import Leases
from beamwright.kernel.store import Mark

from .schedules import scheduler_call
from .service import Service

log = structlog.get_logger("beamwright.sealer")

LEASE = "sealer"
LEASE_SECONDS = 120.0
TICK = timedelta(seconds=5)
# A key that cannot be used, or a secret store that is away, is not mended in seconds.
RETRY = timedelta(seconds=60)


class Sealer:
    """Ticks in one process at a time; a second one by accident signs a pointer more, which does no harm."""

    def __init__(self, service: Service, leases: Leases, holder: UUID, interval: timedelta) -> None:
        self._service = service
        self._leases = leases
        self._holder = holder
        self._interval = interval
        # The list follows the log: what it shows from before the last signature is not news.
        self._signed_version = 0

    async def run(self) -> None:
        """Sign what is due, every tick, for ever."""
        while True:
            pause = TICK
            try:
                if await self._leases.take(LEASE, self._holder, LEASE_SECONDS):
                    await self.sign_due()
            except DomainError as refusal:
                log.warning("seal_not_signed", code=type(refusal).__name__, reason=refusal.detail)
                pause = RETRY
            await asyncio.sleep(min(pause, self._interval).total_seconds())

    async def stop(self) -> None:
        await self._leases.release(LEASE, self._holder)

    async def sign_due(self) -> bool:
        """Sign the own seal's pointer if it is due; whether it was."""
        seal = await self._own_seal()
        if seal is None or seal.version < self._signed_version or not self._due(seal):
            return False
        epochs = await self._service.store.epochs()
        if any(outdates(epoch, seal.pointer, seal.created_at) for epoch in epochs):
            log.warning("seal_awaits_republishing", why="restored: peers may have seen later pointers")
            return False
        outcome = await self._service.call(SignSealPointer(facility_id=seal.facility_id), scheduler_call())
        self._signed_version = outcome.body.version
        return True

    async def _own_seal(self) -> Any:
        """The view of the own seal as the list has it: its stream grows with every signature."""
        own, cursor = self._own_site(), None
        request: Any = self._service.registry.operations["list_seals"].request
        while own is not None:
            query = request(status=SealStatus.LIVE, limit=200, cursor=cursor)
            page = (await self._service.call(query, scheduler_call())).body
            found = next((seal for seal in page.items if seal.facility_id == own), None)
            cursor = page.next_cursor
            if found is not None or cursor is None:
                return found
        return None

    def _own_site(self) -> UUID | None:
        code = self._service.installation.self_facility_code
        sites = self._service.authority.current.states("Facility", Facility).values()
        return next((each.id for each in sites if each.code == code and each.kind is FacilityKind.SITE), None)

    def _due(self, seal: Any) -> bool:
        return due(seal.pointer, seal.ledger_length, self._service.now(), self._interval)


def due(pointer: SealPointer | None, ledger_length: int, now: datetime, interval: timedelta) -> bool:
    """Whether there is news, or the last pointer is old; one from the future means that a clock was set back."""
    if pointer is None or ledger_length > pointer.ledger_length:
        return True
    return not timedelta() <= now - pointer.signed_at < interval


def outdates(epoch: Epoch, pointer: SealPointer | None, created_at: datetime) -> bool:
    """Whether the log was restored since: what was signed after the backup is lost here, and known to peers."""
    if pointer is None:
        return epoch.began_at > created_at
    return Mark.parse(pointer.log_position).transaction_id < epoch.first_transaction_id
