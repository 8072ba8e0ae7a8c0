"""Carries one request through authorize, gather, decide, append. The only path to the event store."""

import asyncio
import random
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import datetime
from hashlib import blake2b
from typing import Any, cast
from uuid import UUID

import msgspec

from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.authority import Authority, AuthzResult
from beamwright.kernel.delivery import Deliveries
from beamwright.kernel.entries import EntryTables
from beamwright.kernel.erasable import Texts
from beamwright.kernel.errors import (
    ConcurrencyError,
    ConflictError,
    DeniedError,
    DomainError,
    IdempotencyInProgressError,
    IdempotencyKeyReusedError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from beamwright.kernel.event import (
    Belonging,
    Beside,
    Claim,
    Event,
)
from beamwright.kernel.observations import Observations
from beamwright.kernel.observing import ContactBook
from beamwright.kernel.operation import (
    Command,
    Composite,
    Installation,
    Occasion,
    Operation,
    Query,
    Tracked,
)
from beamwright.kernel.outbox import Outbox
from beamwright.kernel.problem import problem
from beamwright.kernel.profiles import LoginTakenError, Profiles
from beamwright.kernel.registry import Registry
from beamwright.kernel.seams import Clock, Lists, NewId
from beamwright.kernel.secret_store import Signer
from beamwright.kernel.store import (
    AnsweredBeforeError,
    Append,
    ClaimTakenError,
    EpochMovedError,
    EventStore,
    IdempotencyKey,
    LostRaceError,
    Matched,
    StoredAnswer,
)
from beamwright.kernel.times import beyond_utc
from beamwright.kernel.value import encode, replace

from .authority import AuthorityKeeper
from .call import Call, Outcome
from .folding import Folding
from .log_digests import LogDigests
from .readers import Readers
from .shapes import shape_error, strange_times
from .verdicts import Verdicts
from .work import UnitOfWork, denied
from .writing import Writer

ATTEMPTS = 8
# A moved epoch is no conflict: somebody else got on, and this call is authorized and decided again.
MOST_MOVES = 64
LOOK_EVERY = 0.1
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
        contacts: ContactBook,
        texts: Texts,
        observations: Observations,
        entries: EntryTables,
        signer: Signer,
        outbox: Outbox,
        deliveries: Deliveries,
        installation: Installation,
        now: Clock,
        new_id: NewId,
    ) -> None:
        self.registry = registry
        self.store = store
        self.folding = Folding(registry, store)
        self.lists = lists
        self.profiles = profiles
        self.authority = authority
        self.verdicts = verdicts
        self.readers = readers
        self.contacts = contacts
        self.texts = texts
        self.observations = observations
        self.entries = entries
        self.signer = signer
        self.outbox = outbox
        self.deliveries = deliveries
        self.installation = installation
        self.now = now
        self.new_id = new_id
        self._running: set[IdempotencyKey] = set()
        self._line = asyncio.Lock()
        self.log_digests = LogDigests(store)
        self.writer = Writer(registry, new_id)
        self._state_decoders = {
            name: msgspec.json.Decoder(aggregate.state) for name, aggregate in registry.aggregates.items()
        }

    async def matching(self, aggregate: Aggregate[Any, Any], filters: Mapping[str, Any]) -> Matched:
        """What a list matches, with all that was acknowledged of its aggregate before.

        Only events of this aggregate are waited for: whatever else happens changes nothing of the answer.
        """
        found = await self.lists.matching(aggregate, filters)
        if found.unseen is not None:
            await self.readers.caught_up(aggregate.snake, found.unseen)
            found = await self.lists.matching(aggregate, filters)
        return found

    async def call(self, request: Command[Any] | Query[Any], call: Call) -> Outcome:
        """Run any operation. REST, MCP, CLI and workers all end here."""
        operation = self.registry.by_request[type(request)]
        authority, now = self.authority.current, self.now()
        granted = self.authorize(operation, request, call, authority, now)
        refused = False
        try:
            if isinstance(request, Query):
                return await self._answer(operation, request, call, granted, authority, now)
            if call.idempotency_key is None:
                outcome = await self._execute(operation, request, call, granted, authority, None)
            else:
                outcome = await self._execute_once(operation, request, call, granted, authority)
            if isinstance(request, Tracked) and not outcome.replayed:
                return await self._followed(
                    operation, cast("Tracked[Any, Any]", request), call, granted, outcome
                )
            return outcome
        except DomainError as refusal:
            refused = denial_in(refusal) is not None
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
        except DomainError as refusal:
            if denial := denial_in(refusal):
                self.verdicts.out_of_reach(operation, query, call, now, denial)
            raise
        return Outcome(status=200, body=answer, version=getattr(answer, "version", None))

    def authorize(
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
        if isinstance(command, Composite):
            return await self._conduct(
                operation, cast("Composite[Any]", command), call, granted, authority, key
            )
        # Each change of the authority undoes all others that are under way: one after the other, from the first
        # attempt on, or whoever came last would overtake all that wait.
        line = self._line if self.registry.aggregates[operation.aggregate].authority else nullcontext()
        lost = moved = 0
        async with line:
            while lost < ATTEMPTS and moved < MOST_MOVES:
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
                    granted = self.authorize(operation, command, call, authority, self.now())
                except (LostRaceError, LoginTakenError):
                    lost += 1
                    if call.expected_version is not None:
                        break
                except DomainError as refusal:
                    if denial := denial_in(refusal):
                        self.verdicts.out_of_reach(operation, command, call, now, denial)
                    await self._keep_refusal(refusal, call, operation, key)
                    raise
        raise ConcurrencyError("Another call changed the same objects first. Read them again and retry.")

    async def _conduct(
        self,
        operation: Operation,
        command: Composite[Any],
        call: Call,
        granted: AuthzResult,
        authority: Authority,
        key: tuple[IdempotencyKey, bytes] | None,
    ) -> Outcome:
        """Carry out a composite; its parts commit one by one, its answer is kept for a repeat."""

        async def issue(part: Command[Any]) -> Any:
            return (await self.call(part, replace(call, idempotency_key=None, expected_version=None))).body

        for _ in range(ATTEMPTS):
            work = UnitOfWork(self, operation, command, call, authority, granted, self.now())
            try:
                body = await command.conduct(work, issue)
            except LostRaceError:
                continue
            except DomainError as refusal:
                if denial := denial_in(refusal):
                    self.verdicts.out_of_reach(operation, command, call, work.now, denial)
                await self._keep_refusal(refusal, call, operation, key)
                raise
            break
        else:
            raise ConcurrencyError("Another call changed the same objects first. Retry.")
        if key is not None:
            answer = StoredAnswer(key[1], 200, encode(body).decode(), None)
            append = Append(envelope=self.writer.envelope(operation, call), idempotency=(key[0], answer))
            await self.store.append(append)
        return Outcome(status=200, body=body)

    async def _followed(
        self,
        operation: Operation,
        command: Tracked[Any, Any],
        call: Call,
        granted: AuthzResult,
        outcome: Outcome,
    ) -> Outcome:
        """The answer once what was started has ended, or as it is when the caller's patience is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + command.wait
        while loop.time() < until:
            await asyncio.sleep(min(LOOK_EVERY, until - loop.time()))
            work = UnitOfWork(self, operation, command, call, self.authority.current, granted, self.now())
            try:
                told = await command.ended(work, outcome.body)
            except UnavailableError:
                # It was accepted, and must not look refused.
                break
            if told is not None:
                body = msgspec.structs.replace(outcome.body, **msgspec.structs.asdict(told))
                return replace(outcome, status=200, body=body)
        return outcome

    async def _attempt(
        self, work: UnitOfWork, command: Command[Any], call: Call, key: tuple[IdempotencyKey, bytes] | None
    ) -> Outcome:
        seen = await command.gather(work)
        if work.consulted and await self.store.authority_epoch() != work.epoch:
            raise EpochMovedError
        self._check_expected_version(work, call)
        events, beside = self.decided(command, seen, work, call)
        written = self.writer.written(work, events)
        outcome = self.writer.receipt(work, events, written)
        if events or beside or key is not None:
            append = self.writer.append(work, call, events, beside, written, key, outcome)
            try:
                mark = await self.store.append(append)
            except ClaimTakenError as taken:
                raise taken_by_another(taken.claim) from None
            if append.bumps_epoch:
                await self.authority.refresh()
            if events:
                self.readers.wake()
                return replace(outcome, body=replace(outcome.body, as_of=mark.token()))
        return outcome

    def decided(
        self, command: Command[Any], seen: Any, work: UnitOfWork, call: Call
    ) -> tuple[list[Event], list[Beside]]:
        """What the rule decides on this occasion, facts apart from what is written beside them."""
        caller = call.caller
        occasion = Occasion(
            now=work.now,
            principal_id=caller.principal_id,
            principal_kind=caller.kind,
            new_id=work.new_id,
        )
        decided = command.decide(seen, occasion)
        records = [decided] if isinstance(decided, Event) else decided
        events = [record for record in records if isinstance(record, Event)]
        return events, [record for record in records if isinstance(record, Beside)]

    def _check_expected_version(self, work: UnitOfWork, call: Call) -> None:
        if call.expected_version is None:
            return
        primary = self.writer.primary(work, ())
        current = work.loaded[primary].version if primary in work.loaded else 0
        if current != call.expected_version:
            raise ConcurrencyError(
                f"You expected version {call.expected_version}, but it is at {current}. Read it again.",
                expected=call.expected_version,
                current=current,
            )

    async def _keep_refusal(
        self, refusal: DomainError, call: Call, operation: Operation, key: tuple[IdempotencyKey, bytes] | None
    ) -> None:
        """A refusal by the rules replays too; one by the door, a lost race or an outage does not."""
        rules = isinstance(refusal, InvalidError | NotFoundError | ConflictError)
        if key is None or not rules or isinstance(refusal, ConcurrencyError):
            return
        body = encode(problem(refusal, call.correlation_id)).decode()
        answer = StoredAnswer(key[1], refusal.status, body, None)
        append = Append(envelope=self.writer.envelope(operation, call), idempotency=(key[0], answer))
        # Either may fail in its turn. Answered before: the first call was recorded while this one looked, and this one
        # was refused only because of it. Database away: a refusal that is not kept might be another one next time.
        await self.store.append(append)

    def _replay(self, operation: Operation, stored: StoredAnswer, request_hash: bytes) -> Outcome:
        if stored.request_hash != request_hash:
            raise IdempotencyKeyReusedError("Use a new idempotency key for a new request.")
        text = stored.body
        if stored.status >= 400:
            return Outcome(status=stored.status, body=msgspec.Raw(text), replayed=True)
        if stored.mark is not None:
            text = text.replace(UNKNOWN_YET, f'"as_of":"{stored.mark.token()}"', 1)
        if issubclass(operation.request, Composite):
            return Outcome(status=stored.status, body=msgspec.Raw(text), replayed=True)
        receipt: dict[str, Any] = msgspec.json.decode(text)
        return Outcome(
            status=stored.status,
            body=msgspec.Raw(text),
            version=receipt["version"],
            object_id=UUID(receipt[operation.id_field]),
            replayed=True,
            location=operation.location(receipt),
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
        if places := list(beyond_utc(request)):
            raise strange_times(operation, places)
        return request


def denial_in(refusal: DomainError) -> DeniedError | None:
    """The denial that a refusal is, or that it hides behind a “not found”."""
    hidden = refusal.__cause__
    if isinstance(refusal, DeniedError):
        return refusal
    return hidden if isinstance(hidden, DeniedError) else None


def taken_by_another(claim: Claim) -> DomainError:
    return claim.taken(f"“{claim.key}” is taken already. Choose another.", kind=claim.kind, key=claim.key)
