"""What a decision writes: versions, claims and the receipt, put together for one append."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from beamwright.kernel.event import Beside, Claim, Event, EventType, event_type, payload
from beamwright.kernel.operation import Operation
from beamwright.kernel.registry import Registry
from beamwright.kernel.seams import NewId
from beamwright.kernel.store import (
    Append,
    Envelope,
    IdempotencyKey,
    NewEvent,
    StoredAnswer,
    StreamName,
)
from beamwright.kernel.value import encode, replace

from .call import Call, Outcome
from .folding import Loaded
from .work import UnitOfWork

# Per stream: the version before, the state after, and its events.
type Written = Mapping[StreamName, tuple[int, Any, list[Event]]]


class Writer:
    """Turns decided events into an append. Folding them proves that they fold."""

    def __init__(self, registry: Registry, new_id: NewId) -> None:
        self.registry = registry
        self.new_id = new_id
        self._event_types: Mapping[type[Event], EventType] = {e: event_type(e) for e in registry.owner}

    def primary(self, work: UnitOfWork, events: Iterable[Event]) -> StreamName | None:
        """The stream that the receipt speaks of: of the operation's own aggregate, named by path, event or load."""
        operation = work.operation
        if not operation.creates and operation.target == operation.aggregate and work.target_id is not None:
            return operation.aggregate, work.target_id
        for event in events:
            owner = self.registry.owner[type(event)]
            if owner.name == operation.aggregate:
                return owner.name, getattr(event, owner.id_field)
        return next((name for name in work.loaded if name[0] == operation.aggregate), None)

    def written(self, work: UnitOfWork, events: Sequence[Event]) -> Written:
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

    def _check_creations(self, work: UnitOfWork, written: Written) -> None:
        """What a command creates must lie within the reach that the command was granted."""
        if not work.operation.creates:
            return
        for (name, _), (version, state, _) in written.items():
            if version == 0 and name == work.operation.aggregate:
                aggregate = self.registry.aggregates[name]
                belonging = aggregate.belongs(state)
                if not belonging.installation_wide and belonging.owner_id is None:
                    belonging = replace(belonging, owner_id=work.caller.principal_id)
                if not work.granted.reach.holds(belonging, reading=False):
                    raise work.out_of_reach(belonging)

    def receipt(
        self,
        work: UnitOfWork,
        events: Sequence[Event],
        written: Written,
    ) -> Outcome:
        operation = work.operation
        primary = self.primary(work, events)
        assert primary is not None, operation.name
        loaded: Loaded | None = work.loaded.get(primary)
        version = loaded.version if loaded else 0
        if primary in written:
            version = written[primary][0] + len(written[primary][2])
        aggregate = self.registry.aggregates[primary[0]]
        state: Any = written[primary][1] if primary in written else loaded and loaded.state
        told = work.told(state)
        fields: dict[str, Any] = {
            aggregate.id_field: primary[1],
            "version": version,
            "as_of": loaded.stream.mark.token() if loaded and not events else "",
            "events": [self._event_types[type(event)].name for event in events],
            **told,
        }
        body = (operation.response if told else aggregate.receipt)(**fields)
        return Outcome(
            status=operation.success,
            body=body,
            version=version,
            object_id=primary[1],
            location=operation.location(fields),
        )

    def append(
        self,
        work: UnitOfWork,
        call: Call,
        events: Sequence[Event],
        beside: Sequence[Beside],
        written: Written,
        key: tuple[IdempotencyKey, bytes] | None,
        outcome: Outcome,
    ) -> Append:
        claimed, released = self._claims(work, written)
        seen = dict.fromkeys(work.absent, 0) | {name: each.version for name, each in work.loaded.items()}
        seen |= {name: version for name, (version, _, _) in written.items()}
        answer = None
        if key is not None:
            answer = (key[0], StoredAnswer(key[1], outcome.status, encode(outcome.body).decode(), None))
        return Append(
            envelope=self.envelope(work.operation, call),
            events=self._new_events(written, events),
            seen=seen if events or beside else {},
            searched=work.searched if events else {},
            claimed=claimed,
            released=released,
            beside=beside,
            epoch=work.epoch if events else None,
            idempotency=answer,
        )

    def envelope(self, operation: Operation, call: Call) -> Envelope:
        return Envelope(
            call.caller.principal_id, operation.name, call.surface_id, call.correlation_id, call.causation_id
        )

    def _new_events(self, written: Written, events: Sequence[Event]) -> list[NewEvent]:
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
        self, work: UnitOfWork, written: Written
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
