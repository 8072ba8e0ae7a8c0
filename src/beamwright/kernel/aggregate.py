"""An aggregate: its stream, its fold, its claims, where it belongs, and the operations declared on it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAliasType, get_args, get_type_hints
from uuid import UUID

import msgspec
from msgspec import Meta

from .download import Download, DownloadAddress
from .errors import NotFoundError
from .event import Belonging, Claim, Event
from .operation import Command, Operation, Query, World, snake
from .value import Time, Value, ValueMeta

type Version = Annotated[int, Meta(ge=1, le=2**31 - 1)]
type Limit = Annotated[int, Meta(ge=1, le=200)]
type Cursor = Annotated[str, Meta(max_length=1000)]
type SearchText = Annotated[str, Meta(min_length=1, max_length=200)]


class Test(StrEnum):
    """How a list filter compares its column with the given value."""

    EQUALS = "="
    CONTAINS = "contains"
    # The filter takes several values: the column is one or none of them, or (a list) contains one of them.
    ONE_OF = "one of"
    NONE_OF = "none of"
    CONTAINS_ANY = "contains any"
    # The column is a beginning and an end, or nothing, which has neither; the value lies within.
    COVERS = "covers"
    AT_LEAST = ">="
    BEFORE = "<"
    PASSED = "passed"
    AHEAD = "ahead"
    MATCHED_BY = "matched by"


class Filter[S: Value](Value):
    """One filter of a list: the parameter, its type, and the column it is tested against."""

    name: str
    type: Any
    of: Callable[[S], Any]
    test: Test = Test.EQUALS
    # Turns the given value into the texts that a MATCHED_BY column's LIKE patterns are tried on.
    texts: Callable[[Any], Sequence[str]] = lambda value: [value]


class Listing[S: Value](Value):
    """What a list can be filtered, sorted and searched by."""

    filters: tuple[Filter[S], ...] = ()
    sorts: tuple[str, ...] = ("created_at",)
    text: tuple[str, ...] = ()


class ListRequest(Query[Any]):
    """Base of every list request."""

    limit: Limit = 50
    cursor: Cursor | None = None
    consistent_with: Cursor | None = None


class HistoryRequest(Query[Any]):
    """Base of every history request."""

    limit: Limit = 50
    after_version: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0


class Page(Value):
    """One page of a list, newest first unless sorted otherwise."""

    items: list[Any]
    next_cursor: str | None
    as_of: str


class RecordedEvent(Value):
    """One event of a stream with its envelope."""

    event_id: UUID
    version: int
    event_type: str
    schema_version: int
    payload: dict[str, Any]
    principal_id: UUID
    principal_name: str
    command_name: str
    surface_id: UUID
    correlation_id: str
    causation_id: UUID | None
    occurred_at: Time
    recorded_at: Time


class History(Value):
    """The events of one stream in order; `next_version` is where the next page begins."""

    items: list[RecordedEvent]
    next_version: int | None
    as_of: str


class Nothing(Value):
    """No fields beyond the state's own."""


type Extras[S] = Callable[[World, Sequence[S]], Any]


class Aggregate[S: Value, E: Event]:
    """A consistency boundary. Everything the kernel must know of one kind of stream is said here, once."""

    def __init__(
        self,
        name: str,
        *,
        events: TypeAliasType,
        evolve: Callable[[S | None, E], S],
        missing: type[NotFoundError],
        belongs: Callable[[S], Belonging],
        claims: Callable[[S], Iterable[Claim]] = lambda state: (),
        upcasters: Mapping[type[Event], Callable[[Any], E]] | None = None,
        plural: str | None = None,
        id_field: str | None = None,
        authority: bool = False,
        fold_version: int = 1,
    ) -> None:
        self.name = name
        self.snake = snake(name)
        self.plural = plural or f"{self.snake}s"
        self.id_field = id_field or f"{self.snake}_id"
        members: Any = events.__value__
        self.event_classes: tuple[type[E], ...] = get_args(members) or (members,)
        self.evolve = evolve
        self.missing = missing
        self.belongs = belongs
        self.claims = claims
        self.upcasters: Mapping[type[Event], Callable[[Any], E]] = upcasters or {}
        self.authority = authority
        self.fold_version = fold_version
        self.state: type[S] = get_type_hints(evolve)["return"]
        self.operations: list[Operation] = []
        self.listing: Listing[S] = Listing()
        self.extras: Callable[[World, Sequence[S]], Any] | None = None
        self.view: type[Any] = self.state
        self.page: type[Any] = Page
        self.shown: tuple[str, ...] = self.state.__struct_fields__
        self._receipt_fields: list[tuple[str, Any]] = [
            (self.id_field, UUID),
            ("version", int),
            ("as_of", str),
            ("events", list[str]),
        ]
        self.receipt = msgspec.defstruct(f"{name}Receipt", self._receipt_fields, frozen=True)
        known = _union((*self.event_classes, *self.upcasters))
        self.decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(known)
        self.stream_decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[known])

    def current(self, event: Any) -> E:
        """`event` in today's form."""
        upcast = self.upcasters.get(event.__class__)
        return upcast(event) if upcast else event

    def fold(self, events: Iterable[Any], state: S | None = None) -> S | None:
        """The state after `events`, from nothing or from an earlier state."""
        evolve = self.evolve
        if self.upcasters:
            events = map(self.current, events)
        for event in events:
            state = evolve(state, event)
        return state

    def operation[R: Command[Any] | Query[Any]](
        self,
        route: str,
        *,
        name: str | None = None,
        creates: bool = False,
        permission: str | None = None,
        response: Any = None,
        bodies: Mapping[str, str] | None = None,
        media_types: Sequence[str] = (),
        tracks: str | None = None,
    ) -> Callable[[type[R]], type[R]]:
        """Declare an operation at `route`, for example "POST /runs/{run_id}/hold".

        `bodies` are further body types, each with the field of bytes that it fills; `media_types` those of a
        `Download` that is the answer; `tracks` is where what a `Tracked` command starts is found.
        """
        method, path = route.split()

        def declare(request: type[R]) -> type[R]:
            public_name = name or snake(request.__name__)
            reads = issubclass(request, Query)
            answering: Any = request.answer if reads else getattr(request, "conduct", None)
            operation = Operation(
                name=public_name,
                method=method,
                path=path,
                path_fields=tuple(re.findall(r"{(\w+)}", path)),
                context=request.__module__.split(".")[2],
                aggregate=self.name,
                target=None,
                id_field=self.id_field,
                request=request,
                response=_response(response, answering, self._receipt(request)),
                reads=reads,
                creates=creates,
                permission=permission or public_name,
                body_types=tuple((bodies or {}).items()),
                media_types=tuple(media_types),
                tracks=tracks,
            )
            unknown = set(operation.path_fields) - set(request.__struct_fields__)
            if unknown or not operation.summary or not operation.has_rule:
                raise TypeError(f"{request.__name__}: bad path fields {unknown}, docstring or rule")
            self.operations.append(operation)
            return request

        return declare

    def _receipt(self, request: type[Any]) -> Any:
        """What a command answers: the aggregate's receipt, and what it tells besides."""
        telling = getattr(request, "told", None)
        if telling is None:
            return self.receipt
        told = msgspec.structs.fields(get_type_hints(telling)["return"])
        return msgspec.defstruct(
            f"{request.__name__}Receipt",
            [*self._receipt_fields, *((field.name, field.type) for field in told)],
            frozen=True,
        )

    def reads(
        self,
        path: str,
        *,
        filters: Sequence[str | Filter[S]] = (),
        sorts: Sequence[str] = ("created_at",),
        text: Sequence[str] = (),
        extras: tuple[type[Value], Callable[[World, Sequence[S]], Any]] | None = None,
        context: str | None = None,
        lists: bool = True,
        hidden: Sequence[str] = (),
    ) -> None:
        """Declare the reads every aggregate has: get (with as-of), list and history.

        `extras` names what a view shows beyond the state, worked out at read time for a page of states;
        `hidden` are fields of the state that have reads of their own.
        """
        hints = get_type_hints(self.state, include_extras=True)
        # A state that counts its events says what the envelope's `version` says.
        unseen = {"stream_version", *hidden}
        self.shown = tuple(field for field in self.state.__struct_fields__ if field not in unseen)
        full = tuple(
            Filter[S](name=each, type=_required(hints[each]), of=_attribute(each))
            if isinstance(each, str)
            else each
            for each in filters
        )
        self.listing = Listing(filters=full, sorts=tuple(sorts), text=tuple(text))
        extra_fields = msgspec.structs.fields(extras[0]) if extras else ()
        self.extras = extras[1] if extras else None
        self.view = msgspec.defstruct(
            f"{self.name}View",
            [(field, hints[field]) for field in self.shown]
            + [(field.name, field.type) for field in extra_fields]
            + [
                ("version", int),
                ("created_at", Time),
                ("updated_at", Time),
                ("created_by", UUID),
                ("created_by_name", str),
            ],
            frozen=True,
            kw_only=True,
        )
        module = self.evolve.__module__
        for route, request, permission in self._read_requests(path, lists=lists):
            request.__module__ = context or module
            self.operation(route, permission=permission)(request)

    def _read_requests(self, path: str, *, lists: bool) -> Iterable[tuple[str, type[Query[Any]], str | None]]:
        one = f"{path}/{{{self.id_field}}}"
        words = self.snake.replace("_", " ")
        yield f"GET {one}", self._get_request(f"Read one {words}, now or as it was."), None
        if lists:
            plural = self.plural.replace("_", " ")
            yield f"GET {path}", self._list_request(f"List {plural}, filtered, searched and sorted."), None
        history = self._history_request(f"Read the events of one {words} in order.")
        yield f"GET {one}/events", history, f"get_{self.snake}"

    def lists_within(
        self,
        route: str,
        name: str,
        filter: str,
        summary: str,
        id_field: str,
        owner: "Aggregate[Any, Any] | None" = None,
    ) -> None:
        """Declare the list again, of those objects whose `filter` is the object that the path names.

        `owner` is what that object is, where it is not one of these.
        """
        listing = self.listing
        self.listing = Listing(
            filters=tuple(each for each in listing.filters if each.name != filter),
            sorts=listing.sorts,
            text=listing.text,
        )
        request = self._list_request(summary, name, [(id_field, UUID)], filter, owner)
        self.listing = listing
        request.__module__ = (owner or self).evolve.__module__
        self.operation(route)(request)

    def _get_request(self, summary: str) -> type[Query[Any]]:
        id_field, aggregate = self.id_field, self

        async def answer(self: Any, world: World) -> Any:
            return await world.view(aggregate, getattr(self, id_field), self.as_of_version, self.as_of)

        return self._request(
            f"Get{self.name}",
            Query,
            [(id_field, UUID), ("as_of_version", Version | None, None), ("as_of", Time | None, None)],
            answer,
            self.view,
            summary,
        )

    def _list_request(
        self,
        summary: str,
        name: str | None = None,
        within: Sequence[Any] = (),
        fixed: str | None = None,
        owner: "Aggregate[Any, Any] | None" = None,
    ) -> type[Query[Any]]:
        aggregate = self
        directions = tuple(f"{sign}{key}" for key in self.listing.sorts for sign in ("", "-"))
        default = "-created_at" if "created_at" in self.listing.sorts else directions[0]
        fields: list[Any] = [*within, *((each.name, each.type | None, None) for each in self.listing.filters)]
        if self.listing.text:
            fields.append(("q", SearchText | None, None))
        fields.append(("sort", Literal[directions], default))

        async def answer(self: Any, world: World) -> Any:
            if fixed is not None:
                await world.load(owner or aggregate, getattr(self, fixed))
            return await world.page(aggregate, self)

        if fixed is None:
            self.page = msgspec.defstruct(
                f"{self.name}Page",
                [("items", list[self.view]), ("next_cursor", str | None), ("as_of", str)],
                frozen=True,
            )
        plural = "".join(word.title() for word in self.plural.split("_"))
        name = name or f"List{plural}"
        request = self._request(name, ListRequest, fields, answer, self.page, summary)
        if fixed is not None and fixed != within[0][0]:
            setattr(request, fixed, property(_attribute(within[0][0])))
        return request

    def _history_request(self, summary: str) -> type[Query[Any]]:
        aggregate = self

        async def answer(self: Any, world: World) -> Any:
            return await world.history(aggregate, self)

        name = f"Get{self.name}History"
        return self._request(name, HistoryRequest, [(self.id_field, UUID)], answer, History, summary)

    def _request(
        self, name: str, base: type, fields: list[Any], answer: Any, response: Any, summary: str
    ) -> type[Query[Any]]:
        """A request class as if it had been written out by hand."""
        answer.__annotations__ = {"world": World, "return": response}
        namespace: dict[str, Any] = {"answer": answer, "__doc__": summary, "__annotations__": {}}
        for field, hint, *default in fields:
            namespace["__annotations__"][field] = hint
            if default:
                namespace[field] = default[0]
        request: Any = ValueMeta(name, (base,), namespace, forbid_unknown_fields=True)
        return request


def _response(given: Any, answering: Any, receipt: Any) -> Any:
    if given is not None or answering is None:
        return given or receipt
    declared = get_type_hints(answering)["return"]
    return DownloadAddress if declared is Download else declared


def _union(members: tuple[type, ...]) -> Any:
    union: Any = members[0]
    for member in members[1:]:
        union = union | member
    return union


def _attribute(name: str) -> Callable[[Any], Any]:
    return lambda state: getattr(state, name)


def _required(hint: Any) -> Any:
    """A filter's type: the field's own without its None."""
    members = [member for member in get_args(hint) if member is not type(None)]
    return members[0] if type(None) in get_args(hint) and len(members) == 1 else hint
