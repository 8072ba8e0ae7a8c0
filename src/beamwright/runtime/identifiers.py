"""The identifier minter: turns requests in the log into identifiers of a registration agency, whatever happens."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import structlog

from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.errors import (
    ConcurrencyError,
    ConflictError,
    DomainError,
    IdempotencyInProgressError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import event_type
from beamwright.kernel.identifiers import (
    IdentifierMinter,
    IdentifierRefusedError,
    MintedIdentifier,
    PersistentIdentifierScheme,
)
from beamwright.kernel.operation import Command
from beamwright.kernel.outbox import (
    Identifiable,
    IdentifierRequest,
    Outbox,
    OutboxPurpose,
    OutboxState,
)
from beamwright.kernel.problem import Problem
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.seams import Leases
from beamwright.kernel.store import LogFilter, Mark, Stored, StreamName

from .call import Call
from .outbox_worker import OutboxWorker, line
from .service import Service

log = structlog.get_logger("beamwright.identifiers")

LEASE = "identifier-minter"
BETWEEN_REFRESHES = timedelta(minutes=1)
# What these say of a command may be otherwise a moment later.
PASSING = (ConcurrencyError, IdempotencyInProgressError)
REFUSALS = (InvalidError, NotFoundError, ConflictError)


class IdentifierMinting(OutboxWorker[IdentifierRequest]):
    """Reads requests from the log into the outbox, and works it off; one process at a time, by a lease."""

    def __init__(
        self,
        service: Service,
        outbox: Outbox,
        minter: IdentifierMinter,
        leases: Leases,
        holder: UUID,
        table: Sequence[Identifiable],
    ) -> None:
        asking = {event for kind in table for event in {*kind.requested, *kind.refreshed}}
        wanted = LogFilter(event_types=sorted(event_type(event).name for event in asking))
        super().__init__(service, outbox, leases, holder, LEASE, wanted)
        self._outbox = outbox
        self._minter = minter
        self._kinds = {kind.aggregate.name: kind for kind in table}

    async def stop(self) -> None:
        await super().stop()
        await self._minter.aclose()

    async def take_up(self, events: Sequence[Stored], reached: Mark) -> None:
        await self._outbox.enqueue(await self._asked_for(events), reached)

    def about(self, request: IdentifierRequest) -> dict[str, str]:
        return {"aggregate": request.aggregate, "id": str(request.id)}

    async def _asked_for(self, events: Sequence[Stored]) -> list[IdentifierRequest]:
        if not events:
            return []
        now = self._service.now()
        states = await self._states({(event.stream_type, event.stream_id) for event in events})
        rows = [self._row(event, states[event.stream_type, event.stream_id], now) for event in events]
        return [row for row in rows if row is not None]

    def _row(self, stored: Stored, state: Any, now: datetime) -> IdentifierRequest | None:
        """A row for an event that asks for an identifier, or that changes a record we have given one."""
        kind = self._kinds[stored.stream_type]
        [event] = kind.aggregate.stream_decoder.decode(f"[{stored.tagged}]")
        suffix = str(stored.stream_id)
        if type(event) in kind.requested:
            scheme, purpose, due = kind.requested[type(event)](event), OutboxPurpose.MINT, now
        else:
            ours = _given_by_us(state, suffix)
            if ours is None:
                return None
            scheme, purpose, due = ours, OutboxPurpose.REFRESH, now + BETWEEN_REFRESHES
        return IdentifierRequest(
            request_event_id=stored.event_id,
            aggregate=stored.stream_type,
            id=stored.stream_id,
            scheme=scheme,
            suffix=suffix,
            purpose=purpose,
            next_attempt_at=due,
            requested_at=stored.occurred_at,
        )

    async def serve(self, request: IdentifierRequest) -> None:
        kind = self._kinds[request.aggregate]
        minting = request.purpose is OutboxPurpose.MINT
        over = await self._over(kind, request) if minting and request.attempts == 1 else None
        if over is not None:
            # Nothing was minted yet, so there is nothing to take back.
            await self._outbox.finish(request, over, "Nothing asks for it any more.")
            return
        try:
            answer = (await self._service.call(kind.read(request.id), self._call(request))).body
            minted = await self._minter.mint(request.scheme, request.suffix, kind.record(answer))
        except REFUSALS as refusal:
            await self._fail(kind, request, _told(refusal))
        except IdentifierRefusedError as refusal:
            await self._fail(kind, request, str(refusal))
        else:
            await (self._assign(kind, request, minted) if minting else self._settle(request, minted))

    async def _over(self, kind: Identifiable, request: IdentifierRequest) -> OutboxState | None:
        """How the request ended without us, if it did."""
        state = await self._state(request)
        if request.scheme in state.external_refs:
            return OutboxState.DONE
        return OutboxState.FAILED if kind.pending(state) is None else None

    async def _assign(self, kind: Identifiable, request: IdentifierRequest, minted: MintedIdentifier) -> None:
        command = kind.assign(request.id, request.scheme, minted)
        refusal = await self._command(command, self._call(request, str(request.request_event_id)))
        if refusal is None:
            await self._outbox.finish(request, OutboxState.DONE)
            return
        state = await self._state(request)
        if kind.pending(state) is request.scheme and request.scheme not in state.external_refs:
            await self._fail(kind, request, refusal)
        else:
            await self._settle(request, minted)

    async def _settle(self, request: IdentifierRequest, minted: MintedIdentifier) -> None:
        """Whatever the object is called by now: another identifier than that must not stay in the world."""
        ref = (await self._state(request)).external_refs.get(request.scheme)
        trouble: str | None = None
        if ref is None or ref.value != minted.value:
            instead = f"is {request.scheme} {ref.value}" if ref is not None else "asks for it no more"
            reason = f"Given out in error: {request.aggregate} {request.id} {instead}."
            try:
                await self._minter.tombstone(request.scheme, minted.value, reason)
            except IdentifierRefusedError as refusal:
                trouble = line(f"{minted.value} could not be taken back: {refusal}")
        await self._outbox.finish(request, OutboxState.DONE, trouble)

    async def _fail(self, kind: Identifiable, request: IdentifierRequest, told: str) -> None:
        """A new request is allowed afterwards; a refresh that failed leaves the identifier as it is."""
        told = line(told)
        if request.purpose is OutboxPurpose.MINT:
            call = self._call(request, f"{request.request_event_id}:fail")
            refusal = await self._command(kind.fail(request.id, told), call)
            if refusal is not None:
                log.info("identifier_failure_not_recorded", id=str(request.id), refusal=refusal)
        await self._outbox.finish(request, OutboxState.FAILED, told)

    async def _command(self, command: Command[Any], call: Call) -> str | None:
        """Why the rules refused the command, now or when it was first tried; None when they did not."""
        try:
            outcome = await self._service.call(command, call)
        except PASSING:
            raise
        except REFUSALS as refusal:
            return _told(refusal)
        if outcome.status < 400:
            return None
        problem = msgspec.json.decode(outcome.body, type=Problem)
        return f"{problem.code}: {problem.detail}"

    async def _state(self, request: IdentifierRequest) -> Any:
        return (await self._states([(request.aggregate, request.id)]))[request.aggregate, request.id]

    async def _states(self, names: Collection[StreamName]) -> Mapping[StreamName, Any]:
        folded: dict[StreamName, Any] = {}
        for name, stream in (await self._service.store.read(sorted(names))).items():
            aggregate = self._kinds[name[0]].aggregate
            folded[name] = aggregate.fold(aggregate.stream_decoder.decode(stream.events))
        return folded

    def _call(self, request: IdentifierRequest, idempotency_key: str | None = None) -> Call:
        return Call(
            caller=Caller(principal_id=wellknown.IDENTIFIER_MINTER, kind=ActorKind.SERVICE_ACCOUNT),
            surface_id=wellknown.IN_PROCESS_SURFACE,
            conduit_id=wellknown.SERVICE_CONDUIT,
            correlation_id=uuid4().hex,
            causation_id=request.request_event_id,
            idempotency_key=idempotency_key,
        )


def _given_by_us(state: Any, suffix: str) -> PersistentIdentifierScheme | None:
    """The scheme of the identifier that was minted here; one that was typed in has its record elsewhere."""
    for scheme in PersistentIdentifierScheme:
        ref: ExternalRef | None = state.external_refs.get(scheme)
        if ref is not None and ref.value.endswith(f"/{suffix}"):
            return scheme
    return None


def _told(refusal: DomainError) -> str:
    return f"{type(refusal).__name__}: {refusal.detail}"
