"""One request's view of the world: remembers the version of every stream it read, and guards its reach."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import msgspec

from beamwright.kernel.aggregate import (
    Aggregate,
    Filter,
    History,
    HistoryRequest,
    ListRequest,
    Page,
    RecordedEvent,
    Test,
)
from beamwright.kernel.authority import (
    Authority,
    AuthzReason,
    AuthzResult,
    Caller,
    Reach,
)
from beamwright.kernel.cursor import InvalidCursorError, decode_cursor
from beamwright.kernel.delivery import Delivery
from beamwright.kernel.entries import EntryTables
from beamwright.kernel.errors import (
    AuthorizationDeniedError,
    DomainError,
    InvalidObjectTypeError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.log_digest import LogDigest, SignedDigest
from beamwright.kernel.observations import Observations
from beamwright.kernel.observing import Contacts
from beamwright.kernel.operation import Command, Installation, Operation, Query
from beamwright.kernel.profiles import Profiles
from beamwright.kernel.secret_store import Signer, redacted, secrets_of
from beamwright.kernel.store import Mark, Stored, StreamName
from beamwright.kernel.trees import Branch, Node, Subtree, SubtreeRequest
from beamwright.kernel.value import Value

from .call import Call
from .feed import read_feed
from .folding import Loaded, folded
from .naming import named_ids

if TYPE_CHECKING:
    from .service import Service

ACTOR = "Actor"


class UnitOfWork:
    """Implements `World` for one request."""

    def __init__(
        self,
        service: "Service",
        operation: Operation,
        request: Command[Any] | Query[Any],
        call: Call,
        authority: Authority,
        granted: AuthzResult,
        now: datetime,
    ) -> None:
        self._service = service
        self._call = call
        self.granted = granted
        self._request = request
        self._named: frozenset[UUID] | None = None
        self.operation = operation
        self._authority = authority
        # Whether the decision is based on the authority itself, and not only allowed by it.
        self.consulted = False
        self.now = now
        self.new_id = call.new_id or service.new_id()
        self.loaded: dict[StreamName, Loaded] = {}
        self.absent: set[StreamName] = set()
        self.searched: dict[str, Mark] = {}

    @property
    def installation(self) -> Installation:
        return self._service.installation

    @property
    def caller(self) -> Caller:
        return self._call.caller

    @property
    def surface_id(self) -> UUID:
        return self._call.surface_id

    @property
    def authority(self) -> Authority:
        self.consulted = True
        return self._authority

    @property
    def epoch(self) -> int:
        return self._authority.epoch

    @property
    def profiles(self) -> Profiles:
        return self._service.profiles

    @property
    def observations(self) -> Observations:
        return self._service.observations

    @property
    def entries(self) -> EntryTables:
        return self._service.entries

    @property
    def signer(self) -> Signer:
        return self._service.signer

    @property
    def correlation_id(self) -> str:
        return self._call.correlation_id

    @property
    def operations(self) -> Mapping[str, Operation]:
        return self._service.registry.operations

    def told(self, state: Any) -> dict[str, Any]:
        """What the command tells of the state that follows, beyond the usual receipt."""
        telling: Callable[[Any], Value] | None = getattr(self._request, "told", None)
        return {} if telling is None else msgspec.structs.asdict(telling(state))

    async def load[S: Value, E: Event](self, aggregate: Aggregate[S, E], id: UUID) -> S:
        return (await self.load_all(aggregate, [id]))[0]

    async def load_all[S: Value, E: Event](
        self, aggregate: Aggregate[S, E], ids: Collection[UUID]
    ) -> Sequence[S]:
        await self._read([(aggregate.name, id) for id in ids])
        found: list[S] = []
        missing: list[NotFoundError] = []
        for id in ids:
            try:
                found.append(self._reached(aggregate, id))
            except NotFoundError as error:
                missing.append(error)
        if missing:
            hidden = next((error.__cause__ for error in missing if error.__cause__), None)
            raise aggregate.missing.all_of(aggregate.name, missing) from hidden
        return found

    async def load_known[S: Value, E: Event](
        self, aggregate: Aggregate[S, E], ids: Collection[UUID]
    ) -> Mapping[UUID, S]:
        await self._read([(aggregate.name, id) for id in ids])
        self.absent |= {(aggregate.name, id) for id in ids if (aggregate.name, id) not in self.loaded}
        return {id: self._reached(aggregate, id) for id in ids if (aggregate.name, id) in self.loaded}

    def version(self, aggregate: Aggregate[Any, Any], id: UUID) -> int:
        return self.loaded[aggregate.name, id].version

    async def load_claimed[S: Value, E: Event](self, aggregate: Aggregate[S, E], kind: str, key: str) -> S:
        holder = await self._service.store.claim_holder(kind, key)
        if holder is None:
            raise aggregate.missing.of(aggregate.name, key)
        await self._read([holder])
        state: S = self.loaded[holder].state
        if not self._readable(aggregate, holder[1], state):
            raise aggregate.missing.of(aggregate.name, key)
        return state

    async def find[S: Value, E: Event](self, aggregate: Aggregate[S, E], **filters: Any) -> Sequence[S]:
        ids, mark, _ = await self._service.matching(aggregate, filters)
        self.searched[aggregate.name] = min(mark, self.searched.get(aggregate.name, mark))
        await self._read([(aggregate.name, id) for id in ids])
        states: list[S] = [self.loaded[aggregate.name, id].state for id in ids]
        return [state for state in states if _matches(aggregate.listing.filters, filters, state)]

    async def look_up(
        self,
        aggregate_name: str,
        ids: Collection[UUID] | None = None,
        *,
        most: int | None = None,
        **filters: Any,
    ) -> Sequence[Any] | None:
        service, aggregate = self._service, self._service.registry.aggregates.get(aggregate_name)
        if aggregate is None:
            return None
        if ids is None:
            ids = (await service.matching(aggregate, filters)).ids[:most]
        found = await service.folding.load([(aggregate_name, id) for id in dict.fromkeys(ids)])
        return [loaded.state for loaded in found.values()]

    async def contacts(self, aggregate_name: str, ids: Collection[UUID]) -> Contacts:
        return await self._service.contacts.contacts(aggregate_name, ids)

    async def texts(self, ids: Collection[UUID]) -> Mapping[UUID, str]:
        return await self._service.texts.texts(ids)

    async def tally(
        self, aggregate: Aggregate[Any, Any], *by: str, **within: Collection[Any]
    ) -> Mapping[tuple[Any, ...], int]:
        return await self._service.lists.tally(aggregate, by, self.granted.reach, within)

    async def subtree(
        self, aggregate: Aggregate[Any, Any], root_id: UUID, request: SubtreeRequest
    ) -> Subtree:
        await self.load(aggregate, root_id)
        await self.caught_up(aggregate, request.consistent_with)
        branch = Branch(
            root_id=root_id,
            max_depth=request.max_depth,
            limit=request.limit,
            after=_cursor_id(request.cursor),
            hidden=request.hidden(),
        )
        found, depths = await self._service.lists.subtree(aggregate, branch, self.granted.reach)
        decoder = self._service.state_decoder(aggregate)
        views = await self.views(aggregate, [(decoder.decode(row.state), row) for row in found.rows])
        nodes = [Node(depth=depth, view=view) for depth, view in zip(depths, views, strict=True)]
        return Subtree(nodes=nodes, next_cursor=found.next_cursor, as_of=found.mark.token())

    async def height(self, aggregate: Aggregate[Any, Any], root_id: UUID) -> int:
        service = self._service
        if (unseen := await service.lists.unseen(aggregate)) is not None:
            await service.readers.caught_up(aggregate.snake, unseen)
        return await service.lists.height(aggregate, root_id)

    async def belonging(self, aggregate_name: str, id: UUID) -> Belonging:
        aggregate = self._service.registry.aggregates.get(aggregate_name)
        if aggregate is None:
            known = sorted(self._service.registry.aggregates)
            raise InvalidObjectTypeError(f"object_type must be one of {', '.join(known)}.", known=known)
        return self._service.belonging(aggregate, await self.load(aggregate, id))

    def reach(self, operation_name: str) -> Reach:
        call = self._call
        return self._authority.authorize(
            call.caller, operation_name, call.conduit_id, call.surface_id, self.now
        ).reach

    async def view(
        self, aggregate: Aggregate[Any, Any], id: UUID, version: int | None, at: datetime | None
    ) -> Any:
        state = await self.load(aggregate, id)
        stream = self.loaded[aggregate.name, id].stream
        if version is not None or at is not None:
            # Reach is judged by what the object is today; only then is its past shown.
            past = await self._service.store.read_until((aggregate.name, id), version, at)
            if past is None:
                raise aggregate.missing.of(aggregate.name, id)
            stream, state = past, folded(aggregate, past)
        [view] = await self.views(aggregate, [(state, stream)])
        return view

    async def views(self, aggregate: Aggregate[Any, Any], rows: Sequence[tuple[Any, Any]]) -> list[Any]:
        """States with their envelope, as the aggregate's view shows them; names are joined here and only here."""
        states = [state for state, _ in rows]
        extras: Sequence[Any] = (
            await aggregate.extras(self, states) if aggregate.extras else [None] * len(rows)
        )
        names = await self.profiles.names({row.created_by for _, row in rows})
        shown = [redacted(state, secrets_of(aggregate.state)) for state in states]
        return [
            aggregate.view(
                **{field: getattr(state, field) for field in aggregate.shown},
                **(msgspec.structs.asdict(extra) if extra is not None else {}),
                version=row.version,
                created_at=row.created_at,
                updated_at=row.updated_at,
                created_by=row.created_by,
                created_by_name=names[row.created_by],
            )
            for state, (_, row), extra in zip(shown, rows, extras, strict=True)
        ]

    async def page(self, aggregate: Aggregate[Any, Any], request: ListRequest) -> Page:
        await self.caught_up(aggregate, request.consistent_with)
        found = await self._service.lists.page(aggregate, request, self.granted.reach, self.now)
        decoder = self._service.state_decoder(aggregate)
        rows = [(decoder.decode(row.state), row) for row in found.rows]
        items = await self.views(aggregate, rows)
        return Page(items=items, next_cursor=found.next_cursor, as_of=found.mark.token())

    async def caught_up(self, aggregate: Aggregate[Any, Any], token: str | None) -> None:
        if token is not None:
            mark = await self._service.store.place(token)
            await self._service.readers.caught_up(aggregate.snake, mark)

    async def history(self, aggregate: Aggregate[Any, Any], request: HistoryRequest) -> History:
        id: UUID = getattr(request, aggregate.id_field)
        await self.load(aggregate, id)
        events = await self._service.store.read_events(
            (aggregate.name, id), request.after_version, request.limit
        )
        names = await self.profiles.names({event.principal_id for event in events})
        last = self.loaded[aggregate.name, id]
        more = bool(events) and events[-1].version < last.version
        return History(
            items=[recorded(event, self.shown_payload(event), names[event.principal_id]) for event in events],
            next_version=events[-1].version if more else None,
            as_of=last.stream.mark.token(),
        )

    async def events[S: Value, E: Event](self, aggregate: Aggregate[S, E], id: UUID) -> Sequence[E]:
        await self.load(aggregate, id)
        # What was loaded may know no more than the state.
        name, version = (aggregate.name, id), self.version(aggregate, id)
        stream = await self._service.store.read_until(name, version, None)
        assert stream is not None, name
        return [aggregate.current(event) for event in aggregate.stream_decoder.decode(stream.events)]

    async def log_digest(self, begun: LogDigest) -> LogDigest:
        return await self._service.log_digests.since(begun)

    async def disagreeing(self, signed: Iterable[SignedDigest]) -> Sequence[SignedDigest]:
        return await self._service.log_digests.disagreeing(signed)

    def shown_payload(self, event: Stored) -> dict[str, Any]:
        """An event's own fields as they leave the service: without what is secret."""
        payload: dict[str, Any] = msgspec.json.decode(event.tagged)
        del payload["event_type"]
        return redacted(payload, self._service.registry.secrets.get(event.event_type, {}))

    async def verdicts(self, request: Any) -> tuple[Sequence[Any], str | None]:
        return await self._service.verdicts.log.page(request)

    async def deliveries(self, statement_ids: Collection[UUID]) -> Mapping[UUID, Delivery]:
        return await self._service.deliveries.of(statement_ids)

    async def identifier_requests(self, request: Any) -> tuple[Sequence[Any], str | None]:
        found, next_cursor = await self._service.outbox.page(request)
        visible = await self.visible({(each.aggregate, each.id) for each in found})
        return [each for each in found if (each.aggregate, each.id) in visible], next_cursor

    async def feed(self, request: Any) -> Any:
        return await read_feed(self, self._service.store, request)

    async def visible(self, names: Collection[StreamName]) -> set[StreamName]:
        """The streams among `names` whose single read the caller is granted."""
        by_type: dict[str, list[StreamName]] = {}
        for name in names:
            by_type.setdefault(name[0], []).append(name)
        seen: set[StreamName] = set()
        for type, group in by_type.items():
            aggregate = self._service.registry.aggregates[type]
            if self.reach(f"get_{aggregate.snake}").everything:
                seen.update(group)
                continue
            await self._read(group)
            seen.update(n for n in group if self._readable(aggregate, n[1], self.loaded[n].state))
        return seen

    async def _read(self, names: Sequence[StreamName]) -> None:
        wanted = [name for name in dict.fromkeys(names) if name not in self.loaded]
        if not wanted:
            return
        for name, loaded in (await self._service.folding.load(wanted)).items():
            # Of two reads at once the first counts: a rule may have seen it already.
            self.loaded.setdefault(name, loaded)

    def _reached[S: Value, E: Event](self, aggregate: Aggregate[S, E], id: UUID) -> S:
        """The state, unless the request names it and it lies outside the caller's reach."""
        found = self.loaded.get((aggregate.name, id))
        if found is None:
            raise aggregate.missing.of(aggregate.name, id)
        state = cast(S, found.state)
        if self.operation.target == aggregate.name and id == self.target_id:
            self._check_target(aggregate, id, state)
            return state
        if self._named is None:
            self._named = named_ids(self._request)
        if id in self._named and not self._readable(aggregate, id, state):
            denial = self.out_of_reach(self._service.belonging(aggregate, state))
            raise aggregate.missing.of(aggregate.name, id) from denial
        return state

    @property
    def target_id(self) -> UUID | None:
        """The object that the path names."""
        if self.operation.target is None:
            return None
        return getattr(self._request, self.operation.path_fields[0])

    def _check_target(self, aggregate: Aggregate[Any, Any], id: UUID, state: Any) -> None:
        belonging = self._service.belonging(aggregate, state)
        if self.granted.reach.holds(belonging, reading=self.operation.reads) or self._is_caller(
            aggregate, id
        ):
            return
        denial = self.out_of_reach(belonging)
        if not self._readable(aggregate, id, state):
            # The caller is told of no such object, the verdict log why.
            raise aggregate.missing.of(aggregate.name, id) from denial
        raise denial

    def out_of_reach(self, belonging: Belonging) -> DomainError:
        return denied(
            self.operation,
            self._call,
            AuthzReason.OUT_OF_REACH,
            self.granted.reach.determining(belonging),
        )

    def _readable(self, aggregate: Aggregate[Any, Any], id: UUID, state: Any) -> bool:
        if self._is_caller(aggregate, id):
            return True
        reach = self.reach(f"get_{aggregate.snake}")
        return reach.holds(self._service.belonging(aggregate, state), reading=True)

    def _is_caller(self, aggregate: Aggregate[Any, Any], id: UUID) -> bool:
        """The caller is always within its own reach, as far as reading goes."""
        return self.operation.reads and aggregate.name == ACTOR and id == self.caller.principal_id


def _cursor_id(cursor: str | None) -> UUID | None:
    if cursor is None:
        return None
    try:
        return UUID(decode_cursor(cursor, 1)[0])
    except ValueError:
        raise InvalidCursorError("Use the next_cursor of a page of the same subtree, or none.") from None


def denied(
    operation: Operation,
    call: Call,
    reason: AuthzReason,
    policies: Collection[UUID],
    context: Mapping[str, Any] | None = None,
) -> AuthorizationDeniedError:
    """The refusal of a call, with what decided it."""
    return AuthorizationDeniedError(
        f"{operation.name} is not allowed here: {reason}. Ask an administrator for a grant that covers it.",
        command_name=operation.name,
        surface_id=str(call.surface_id),
        conduit_id=str(call.conduit_id),
        reason=str(reason),
        determining_policies=[str(policy) for policy in policies],
        **(context or {}),
    )


def recorded(event: Stored, payload: dict[str, Any], name: str) -> RecordedEvent:
    return RecordedEvent(
        event_id=event.event_id,
        version=event.version,
        event_type=event.event_type,
        schema_version=event.schema_version,
        payload=payload,
        principal_id=event.principal_id,
        principal_name=name,
        command_name=event.command_name,
        surface_id=event.surface_id,
        correlation_id=event.correlation_id,
        causation_id=event.causation_id,
        occurred_at=event.occurred_at,
        recorded_at=event.recorded_at,
    )


def _matches(filters: Sequence[Filter[Any]], given: Mapping[str, Any], state: Any) -> bool:
    by_name = {each.name: each for each in filters}
    return all(_passes(by_name[name].test, by_name[name].of(state), value) for name, value in given.items())


def _passes(test: Test, column: Any, value: Any) -> bool:
    match test:
        case Test.EQUALS:
            return column == value
        case Test.CONTAINS:
            return value in column
        case Test.ONE_OF:
            return column in value
        case Test.NONE_OF:
            return column not in value
        case Test.CONTAINS_ANY:
            return any(each in column for each in value)
        case Test.COVERS:
            return not column or column[0] <= value < column[1]
        case Test.AT_LEAST:
            return column is not None and column >= value
        case Test.BEFORE:
            return column is not None and column < value
        case _:
            raise TypeError(f"a rule cannot search by {test}")
