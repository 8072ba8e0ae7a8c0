"""The event store in memory: for tests of pure runtime behaviour, held to the same contract as PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile

from beamwright.kernel.epochs import Epoch
from beamwright.kernel.event import Beside
from beamwright.kernel.store import (
    WHOLE,
    AnsweredBeforeError,
    Append,
    ClaimTakenError,
    EpochMovedError,
    IdempotencyKey,
    LogFilter,
    LostRaceError,
    Mark,
    NewEvent,
    Searched,
    Stored,
    StoredAnswer,
    Stream,
    StreamName,
)


class MemoryEventStore:
    """A list of events; every append is its own transaction."""

    def __init__(self) -> None:
        self.log: list[Stored] = []
        self.beside: list[Beside] = []
        self._streams: dict[StreamName, list[Stored]] = {}
        self._claims: dict[tuple[str, str], StreamName] = {}
        self._answers: dict[IdempotencyKey, StoredAnswer] = {}
        self._transaction = 0
        self._epoch = 0

    async def read(
        self, names: Sequence[StreamName], after: Mapping[StreamName, int] = WHOLE
    ) -> Mapping[StreamName, Stream]:
        found = {name: self._streams.get(name, [])[after.get(name, 0) :] for name in names}
        return {name: _stream(events) for name, events in found.items() if events}

    async def read_until(self, name: StreamName, version: int | None, at: datetime | None) -> Stream | None:
        stream = self._streams.get(name, [])[:version]
        events = list(stream if at is None else takewhile(lambda event: event.occurred_at <= at, stream))
        return _stream(events) if events else None

    async def read_events(self, name: StreamName, after_version: int, limit: int) -> Sequence[Stored]:
        return [event for event in self._streams.get(name, []) if event.version > after_version][:limit]

    async def read_log(self, after: Mark, limit: int) -> Sequence[Stored]:
        return [event for event in self.log if event.mark > after][:limit]

    async def search_log(self, after: Mark, limit: int, wanted: LogFilter) -> Searched:
        ahead = [event for event in self.log if event.mark > after]
        events = [
            event
            for event in ahead
            if (not wanted.stream_types or event.stream_type in wanted.stream_types)
            and (not wanted.event_types or event.event_type in wanted.event_types)
        ][:limit]
        full = len(events) == limit
        return Searched(events, (events if full else ahead)[-1].mark if ahead else after, full)

    async def horizon(self) -> Mark:
        return self.log[-1].mark if self.log else Mark(0, 0)

    async def newest(self) -> Mark:
        return await self.horizon()

    async def place(self, token: str) -> Mark:
        return Mark.parse(token)

    async def epochs(self) -> Sequence[Epoch]:
        return ()

    async def read_authority(self, after_position: int, stream_types: Sequence[str]) -> Sequence[Stored]:
        return [e for e in self.log if e.mark.position > after_position and e.stream_type in stream_types]

    async def authority_epoch(self) -> int:
        return self._epoch

    async def answer(self, key: IdempotencyKey) -> StoredAnswer | None:
        return self._answers.get(key)

    async def claim_holder(self, kind: str, key: str) -> StreamName | None:
        return self._claims.get((kind, key))

    async def append(self, append: Append) -> Mark:
        self._verify(append)
        self._transaction += 1
        for claim in append.released:
            self._claims.pop((claim.kind, claim.key), None)
        for claim, name in append.claimed:
            self._claims[claim.kind, claim.key] = name
        for event in append.events:
            self._insert(event, append)
        self.beside += append.beside
        mark = Mark(self._transaction, len(self.log) if append.events else 0)
        if append.idempotency is not None:
            key, answer = append.idempotency
            self._answers[key] = answer._replace(mark=mark if append.events else None)
        return mark

    def _verify(self, append: Append) -> None:
        if append.epoch is not None and append.epoch != self._epoch:
            raise EpochMovedError
        if any(len(self._streams.get(name, [])) != version for name, version in append.seen.items()):
            raise LostRaceError
        for stream_type, mark in append.searched.items():
            if any(event.stream_type == stream_type and event.mark > mark for event in self.log):
                raise LostRaceError
        if append.idempotency is not None and append.idempotency[0] in self._answers:
            raise AnsweredBeforeError
        for claim, _ in append.claimed:
            if (claim.kind, claim.key) in self._claims:
                raise ClaimTakenError(claim)

    def _insert(self, event: NewEvent, append: Append) -> None:
        tag = event.event_type + (f"#{event.schema_version}" if event.schema_version > 1 else "")
        stored = Stored(
            mark=Mark(self._transaction, len(self.log) + 1),
            event_id=event.event_id,
            stream_type=event.stream_type,
            stream_id=event.stream_id,
            version=event.version,
            event_type=event.event_type,
            schema_version=event.schema_version,
            tagged=f'{{"event_type":"{tag}",{event.payload[1:]}',
            principal_id=append.envelope.principal_id,
            command_name=append.envelope.command_name,
            surface_id=append.envelope.surface_id,
            correlation_id=append.envelope.correlation_id,
            causation_id=append.envelope.causation_id,
            occurred_at=event.occurred_at,
            recorded_at=datetime.now(UTC),
        )
        self.log.append(stored)
        if event.bumps_epoch:
            self._epoch = stored.mark.position
        self._streams.setdefault((event.stream_type, event.stream_id), []).append(stored)


def _stream(events: Sequence[Stored]) -> Stream:
    first, last = events[0], events[-1]
    text = "[" + ",".join(event.tagged for event in events) + "]"
    updated_at = max(event.occurred_at for event in events)
    return Stream(last.version, text, last.mark, first.occurred_at, first.principal_id, updated_at)
