"""Carries one request through authorize, gather, decide, append. The only path to the event store."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from datetime import datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID

import msgspec

from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.authority import Authority, AuthzResult
from beamwright.kernel.errors import (
    ConcurrencyError,
    ConflictError,
    DeniedError,
    DomainError,
    IdempotencyInProgressError,
    IdempotencyKeyReusedError,
    InvalidError,
    NotFoundError,
    ShapeError,
    UnavailableError,
)
from beamwright.kernel.event import (
    Belonging,
    Beside,
    Claim,
    Event,
    EventType,
    event_type,
    payload,
)
from beamwright.kernel.operation import (
    Command,
    Installation,
    Occasion,
    Operation,
    Query,
)
from beamwright.kernel.problem import problem
from beamwright.kernel.profiles import LoginTakenError, Profiles
from beamwright.kernel.registry import Registry
from beamwright.kernel.seams import Clock, Lists, NewId
from beamwright.kernel.store import (
    AnsweredBeforeError,
    Append,
    ClaimTakenError,
    Envelope,
    EpochMovedError,
    EventStore,
    IdempotencyKey,
    LostRaceError,
    NewEvent,
    StoredAnswer,
    StreamName,
)
from beamwright.kernel.value import encode, replace

from .authority import AuthorityKeeper
from .call import Call, Outcome
from .readers import Readers
from .verdicts import Verdicts
from .work import Loaded, UnitOfWork, denied

ATTEMPTS = 8
# A moved epoch is no conflict: somebody else got on, and this call is authorized and decided again.
MOST_MOVES = 64
# The mark of an append is known only to the transaction that stores the answer with it.
UNKNOWN_YET = '"as_of":""'


class Service:
    """Every surface, worker and agent calls operations here and nowhere else."""

    def __init__(
        self,
        registry: Registry,
        *,
        store: EventStore,
        lists: Lists,
        profiles: Profiles,
        authority: AuthorityKeeper,
        verdicts: Verdicts,
        readers: Readers,
        installation: Installation,
        now: Clock,
        new_id: NewId,
    ) -> None:
        self.registry = registry
        self.store = store
        self.lists = lists
        self.profiles = profiles
        self.authority = authority
        self.verdicts = verdicts
        self.readers = readers
        self.installation = installation
        self.now = now
        self.new_id = new_id
        self._running: set[IdempotencyKey] = set()
        self._line = asyncio.Lock()
        self._event_types: Mapping[type[Event], EventType] = {e: event_type(e) for e in registry.owner}
        self._state_decoders = {
            name: msgspec.json.Decoder(aggregate.state) for name, aggregate in registry.aggregates.items()
        }

    async def call(self, request: Command[Any] | Query[Any], call: Call) -> Outcome:
        """Run any operation. REST, MCP, CLI and workers all end here."""
        operation = self.registry.by_request[type(request)]
        authority, now = self.authority.current, self.now()
        granted = self._authorize(operation, request, call, authority, now)
        refused = False
        try:
            if isinstance(request, Query):
                return await self._answer(operation, request, call, granted, authority, now)
            if call.idempotency_key is None:
                return await self._execute(operation, request, call, granted, authority, None)
            return await self._execute_once(operation, request, call, granted, authority)
        except DeniedError:
            refused = True
            raise
        finally:
            # One verdict for each call: the denial was recorded where it was found.
            if not refused:
                self.verdicts.record(operation, request, call, granted, now)

    async def _answer(
        self,
        operation: Operation,
        query: Query[Any],
        call: Call,
        granted: AuthzResult,
        authority: Authority,
        now: datetime,
    ) -> Outcome:
        work = UnitOfWork(self, operation, query, call, authority, granted, now)
        try:
            answer = await query.answer(work)
        except DeniedError as refusal:
            self.verdicts.out_of_reach(operation, query, call, now, refusal)
            raise
        return Outcome(status=200, body=answer, version=getattr(answer, "version", None))

    def _authorize(
        self, operation: Operation, request: Any, call: Call, authority: Authority, now: datetime
    ) -> AuthzResult:
        granted = authority.authorize(
            call.caller, operation.permission, call.conduit_id, call.surface_id, now
        )
        if not granted.allowed:
            self.verdicts.record(operation, request, call, granted, now)
            raise denied(operation, call, granted.reason, granted.determining_policies, granted.context)
        return granted

    async def _execute_once(
        self,
        operation: Operation,
        command: Command[Any],
        call: Call,
        granted: AuthzResult,
        authority: Authority,
    ) -> Outcome:
        """Answer a repeated idempotency key with what the first call answered."""
        assert call.idempotency_key is not None
        key = IdempotencyKey(call.surface_id, call.caller.principal_id, call.idempotency_key)
        request_hash = blake2b(operation.name.encode() + encode(command), digest_size=16).digest()
        if key in self._running:
            raise IdempotencyInProgressError(
                "The first call with this key is still running; ask again shortly."
            )
        self._running.add(key)
        try:
            stored = await self.store.answer(key)
            if stored is not None:
                return self._replay(operation, stored, request_hash)
            return await self._execute(operation, command, call, granted, authority, (key, request_hash))
        except AnsweredBeforeError:
            stored = await self.store.answer(key)
            if stored is None:
                raise ConcurrencyError("The first call with this key is being recorded; retry.") from None
            return self._replay(operation, stored, request_hash)
        finally:
            self._running.discard(key)

    async def _execute(
        self,
        operation: Operation,
        command: Command[Any],
        call: Call,
        granted: AuthzResult,
        authority: Authority,
        key: tuple[IdempotencyKey, bytes] | None,
    ) -> Outcome:
        """Decide and append; start over when something that was seen has changed meanwhile."""
        line = self._line if self.registry.aggregates[operation.aggregate].authority else nullcontext()
        lost = moved = 0
        async with AsyncExitStack() as held:
            while lost < ATTEMPTS and moved < MOST_MOVES:
                if lost + moved == 1:
                    # Each change of the authority undoes all others that are under way: one after the other.
                    await held.enter_async_context(line)
                if lost > 1:
                    # Spread the losers of a crowded stream apart.
                    await asyncio.sleep(random.random() * 0.002 * 2**lost)  # noqa: S311 - no secret
                now = self.now()
                work = UnitOfWork(self, operation, command, call, authority, granted, now)
                try:
                    return await self._attempt(work, command, call, key)
                except EpochMovedError:
                    moved += 1
                    authority = await self.authority.refresh()
                    granted = self._authorize(operation, command, call, authority, self.now())
                except (LostRaceError, LoginTakenError):
                    lost += 1
                    if call.expected_version is not None:
                        break
                except DomainError as refusal:
                    if isinstance(refusal, DeniedError):
                        self.verdicts.out_of_reach(operation, command, call, now, refusal)
                    await self._keep_refusal(refusal, call, operation, key)
                    raise
        raise ConcurrencyError("Another call changed the same objects first. Read them again and retry.")

    async def _attempt(
        self, work: UnitOfWork, command: Command[Any], call: Call, key: tuple[IdempotencyKey, bytes] | None
    ) -> Outcome:
        seen = await command.gather(work)
        if work.consulted and await self.store.authority_epoch() != work.epoch:
            raise EpochMovedError
        self._check_expected_version(work, call)
        occasion = Occasion(now=work.now, principal_id=call.caller.principal_id, new_id=self.new_id())
        decided = command.decide(seen, occasion)
        records = [decided] if isinstance(decided, Event) else decided
        events = [record for record in records if isinstance(record, Event)]
        beside = [record for record in records if isinstance(record, Beside)]
        written = self._written(work, events)
        outcome = self._receipt(work, events, written)
        if events or beside or key is not None:
            append = self._append(work, call, events, beside, written, key, outcome)
            try:
                mark = await self.store.append(append)
            except ClaimTakenError as taken:
                raise _taken(taken.claim) from None
            if append.bumps_epoch:
                await self.authority.refresh()
            if events:
                self.readers.wake()
                return replace(outcome, body=replace(outcome.body, as_of=mark.token()))
        return outcome

    def _check_expected_version(self, work: UnitOfWork, call: Call) -> None:
        if call.expected_version is None:
            return
        primary = self._primary(work, ())
        current = work.loaded[primary].version if primary in work.loaded else 0
        if current != call.expected_version:
            raise ConcurrencyError(
                f"You expected version {call.expected_version}, but it is at {current}. Read it again.",
                expected=call.expected_version,
                current=current,
            )

    def _primary(self, work: UnitOfWork, events: Iterable[Event]) -> StreamName | None:
        """The stream that the receipt speaks of: of the operation's own aggregate, named by path, event or load."""
        operation = work.operation
        if operation.target == operation.aggregate and work.target_id is not None:
            return operation.aggregate, work.target_id
        for event in events:
            owner = self.registry.owner[type(event)]
            if owner.name == operation.aggregate:
                return owner.name, getattr(event, owner.id_field)
        return next((name for name in work.loaded if name[0] == operation.aggregate), None)

    def _written(
        self, work: UnitOfWork, events: Sequence[Event]
    ) -> dict[StreamName, tuple[int, Any, list[Event]]]:
        """Per stream: the version before, the state after, and its events. Folding proves that they fold."""
        written: dict[StreamName, tuple[int, Any, list[Event]]] = {}
        for event in events:
            aggregate = self.registry.owner[type(event)]
            name = (aggregate.name, getattr(event, aggregate.id_field))
            before = work.loaded.get(name)
            version, state, sofar = written.get(name) or (
                before.version if before else 0,
                before.state if before else None,
                [],
            )
            written[name] = (version, aggregate.evolve(state, event), [*sofar, event])
        self._check_creations(work, written)
        return written

    def _check_creations(
        self, work: UnitOfWork, written: Mapping[StreamName, tuple[int, Any, list[Event]]]
    ) -> None:
        """What a command creates must lie within the reach that the command was granted."""
        if not work.operation.creates:
            return
        for (name, _), (version, state, _) in written.items():
            if version == 0 and name == work.operation.aggregate:
                aggregate = self.registry.aggregates[name]
                belonging = self.belonging(aggregate, state)
                if not belonging.installation_wide and belonging.owner_id is None:
                    belonging = replace(belonging, owner_id=work.caller.principal_id)
                if not work.granted.reach.holds(belonging, reading=False):
                    raise work.out_of_reach(belonging)

    def _receipt(
        self,
        work: UnitOfWork,
        events: Sequence[Event],
        written: Mapping[StreamName, tuple[int, Any, list[Event]]],
    ) -> Outcome:
        operation = work.operation
        primary = self._primary(work, events)
        assert primary is not None, operation.name
        loaded: Loaded | None = work.loaded.get(primary)
        version = loaded.version if loaded else 0
        if primary in written:
            version = written[primary][0] + len(written[primary][2])
        aggregate = self.registry.aggregates[primary[0]]
        body = aggregate.receipt(
            **{aggregate.id_field: primary[1]},
            version=version,
            as_of=loaded.stream.mark.token() if loaded and not events else "",
            events=[self._event_types[type(event)].name for event in events],
        )
        status = 201 if operation.creates else 200
        return Outcome(status=status, body=body, version=version, object_id=primary[1])

    def _append(
        self,
        work: UnitOfWork,
        call: Call,
        events: Sequence[Event],
        beside: Sequence[Beside],
        written: Mapping[StreamName, tuple[int, Any, list[Event]]],
        key: tuple[IdempotencyKey, bytes] | None,
        outcome: Outcome,
    ) -> Append:
        claimed, released = self._claims(work, written)
        seen = {name: loaded.version for name, loaded in work.loaded.items()}
        seen |= {name: version for name, (version, _, _) in written.items()}
        answer = None
        if key is not None:
            answer = (key[0], StoredAnswer(key[1], outcome.status, encode(outcome.body).decode(), None))
        return Append(
            envelope=self._envelope(work.operation, call),
            events=self._new_events(written, events),
            seen=seen if events else {},
            searched=work.searched if events else {},
            claimed=claimed,
            released=released,
            beside=beside,
            epoch=work.epoch if events else None,
            idempotency=answer,
        )

    def _envelope(self, operation: Operation, call: Call) -> Envelope:
        return Envelope(
            call.caller.principal_id, operation.name, call.surface_id, call.correlation_id, call.causation_id
        )

    def _new_events(
        self, written: Mapping[StreamName, tuple[int, Any, list[Event]]], events: Sequence[Event]
    ) -> list[NewEvent]:
        """In the order decided, each with the next version of its stream."""
        next_version = {name: version for name, (version, _, _) in written.items()}
        rows: list[NewEvent] = []
        for event in events:
            aggregate = self.registry.owner[type(event)]
            name = (aggregate.name, getattr(event, aggregate.id_field))
            next_version[name] += 1
            kind = self._event_types[type(event)]
            rows.append(
                NewEvent(
                    self.new_id(),
                    *name,
                    next_version[name],
                    kind.name,
                    kind.schema_version,
                    payload(event).decode(),
                    event.occurred_at,
                    aggregate.authority,
                )
            )
        return rows

    def _claims(
        self, work: UnitOfWork, written: Mapping[StreamName, tuple[int, Any, list[Event]]]
    ) -> tuple[list[tuple[Claim, StreamName]], list[Claim]]:
        """The difference between what the streams claimed before and claim after."""
        claimed: list[tuple[Claim, StreamName]] = []
        released: list[Claim] = []
        for name, (_, after, _) in written.items():
            claims: Callable[[Any], Iterable[Claim]] = self.registry.aggregates[name[0]].claims
            before = set(claims(work.loaded[name].state)) if name in work.loaded else set[Claim]()
            now = set(claims(after))
            claimed += [(claim, name) for claim in sorted(now - before, key=lambda c: (c.kind, c.key))]
            released += sorted(before - now, key=lambda c: (c.kind, c.key))
        return claimed, released

    async def _keep_refusal(
        self, refusal: DomainError, call: Call, operation: Operation, key: tuple[IdempotencyKey, bytes] | None
    ) -> None:
        """A refusal by the rules replays too; one by the door, a lost race or an outage does not."""
        rules = isinstance(refusal, InvalidError | NotFoundError | ConflictError)
        if key is None or not rules or isinstance(refusal, ConcurrencyError):
            return
        body = encode(problem(refusal, call.correlation_id)).decode()
        answer = StoredAnswer(key[1], refusal.status, body, None)
        append = Append(envelope=self._envelope(operation, call), idempotency=(key[0], answer))
        try:
            await self.store.append(append)
        except (AnsweredBeforeError, UnavailableError):
            return

    def _replay(self, operation: Operation, stored: StoredAnswer, request_hash: bytes) -> Outcome:
        if stored.request_hash != request_hash:
            raise IdempotencyKeyReusedError("Use a new idempotency key for a new request.")
        text = stored.body
        if stored.status >= 400:
            return Outcome(status=stored.status, body=msgspec.Raw(text), replayed=True)
        if stored.mark is not None:
            text = text.replace(UNKNOWN_YET, f'"as_of":"{stored.mark.token()}"', 1)
        receipt: dict[str, Any] = msgspec.json.decode(text)
        return Outcome(
            status=stored.status,
            body=msgspec.Raw(text),
            version=receipt["version"],
            object_id=UUID(receipt[operation.id_field]),
            replayed=True,
        )

    def belonging(self, aggregate: Aggregate[Any, Any], state: Any) -> Belonging:
        belonging: Belonging = aggregate.belongs(state)
        return belonging

    def state_decoder(self, aggregate: Aggregate[Any, Any]) -> msgspec.json.Decoder[Any]:
        return self._state_decoders[aggregate.name]

    def decode(self, operation: Operation, given: Mapping[str, Any], *, strict: bool) -> Any:
        """The typed request, or a refusal that names each wrong place."""
        try:
            request = msgspec.convert(given, operation.request, strict=strict)
        except msgspec.ValidationError as error:
            raise shape_error(operation, given, error, strict=strict) from None
        return request


def _taken(claim: Claim) -> DomainError:
    return claim.taken(f"“{claim.key}” is taken already. Choose another.", kind=claim.kind, key=claim.key)


def shape_error(
    operation: Operation, given: Mapping[str, Any], error: Exception, *, strict: bool
) -> ShapeError:
    """Every field is tried on its own, so that one answer names all that is wrong."""
    from beamwright.kernel.problem import Fault

    fields = {field.encode_name: field for field in msgspec.structs.fields(operation.request)}
    faults = [Fault(path=f"$.{name}", message="unknown field") for name in given if name not in fields]
    for name, field in fields.items():
        if name not in given:
            if field.required:
                faults.append(Fault(path=f"$.{name}", message="required field is missing"))
            continue
        try:
            msgspec.convert(given[name], field.type, strict=strict)
        except msgspec.ValidationError as fault:
            message, _, place = str(fault).partition(" - at `$")
            faults.append(Fault(path=f"$.{name}{place.removesuffix('`')}", message=message))
    faults = faults or [Fault(path="$", message=str(error))]
    places = ", ".join(fault.path for fault in faults)
    return ShapeError(f"The request does not fit {operation.name}; see faults at {places}.", faults=faults)
