"""Several commands of one caller as one append: acting and recording why are one."""

from collections.abc import Callable, Sequence
from typing import Any

from beamwright.kernel.errors import ConcurrencyError
from beamwright.kernel.event import Beside, Event
from beamwright.kernel.operation import Command
from beamwright.kernel.store import (
    BEGINNING,
    ClaimTakenError,
    EpochMovedError,
    LostRaceError,
    Mark,
    Stream,
    StreamName,
)

from .call import Call
from .folding import Loaded
from .service import ATTEMPTS, Service, taken_by_another
from .work import UnitOfWork

# The next command, given the receipts of those before it.
type Part = Callable[[Sequence[Any]], Command[Any]]


async def together(service: Service, parts: Sequence[Part], call: Call) -> list[Any]:
    """The receipts of the parts: each is authorized by its own name and sees what the earlier ones decided.

    One refusal refuses all. The events carry the name of the last part, which the others explain.
    """
    for _ in range(ATTEMPTS):
        try:
            return await Batch(service, call).run(parts)
        except EpochMovedError:
            await service.authority.refresh()
        except LostRaceError:
            continue
    raise ConcurrencyError("Another call changed the same objects first. Read them again and retry.")


class Batch:
    """One attempt."""

    def __init__(self, service: Service, call: Call) -> None:
        self._service = service
        self._call = call
        # Streams as the store has them, and as the parts so far leave them.
        self._stored: dict[StreamName, Loaded] = {}
        self._loaded: dict[StreamName, Loaded] = {}
        self._absent: set[StreamName] = set()
        self._searched: dict[str, Mark] = {}
        self._created: set[StreamName] = set()
        self._events: list[Event] = []
        self._beside: list[Beside] = []

    async def run(self, parts: Sequence[Part]) -> list[Any]:
        service, receipts, work = self._service, list[Any](), None
        for part in parts:
            work, receipt = await self._decide(part(receipts))
            receipts.append(receipt)
        assert work is not None, "a batch has at least one part"
        work.loaded = self._stored
        written = service.writer.written(work, self._events)
        outcome = service.writer.receipt(work, self._events, written)
        append = service.writer.append(work, self._call, self._events, self._beside, written, None, outcome)
        try:
            await service.store.append(append)
        except ClaimTakenError as taken:
            raise taken_by_another(taken.claim) from None
        if append.bumps_epoch:
            await service.authority.refresh()
        service.readers.wake()
        return receipts

    async def _decide(self, command: Command[Any]) -> tuple[UnitOfWork, Any]:
        service, call = self._service, self._call
        operation, authority, now = (
            service.registry.by_request[type(command)],
            service.authority.current,
            service.now(),
        )
        granted = service.authorize(operation, command, call, authority, now)
        work = UnitOfWork(service, operation, command, call, authority, granted, now)
        work.loaded, work.absent, work.searched = self._loaded, self._absent, self._searched
        seen = await command.gather(work)
        for name in self._loaded.keys() - self._created:
            self._stored.setdefault(name, self._loaded[name])
        events, beside = service.decided(command, seen, work, call)
        written = service.writer.written(work, events)
        receipt = service.writer.receipt(work, events, written).body
        for name, (version, state, new) in written.items():
            before = self._loaded.get(name)
            stream = (
                before.stream if before else Stream(0, "[]", BEGINNING, now, call.caller.principal_id, now)
            )
            self._loaded[name] = Loaded(version + len(new), state, stream)
            if before is None:
                self._created.add(name)
        self._events += events
        self._beside += beside
        service.verdicts.record(operation, command, call, granted, now)
        return work, receipt
