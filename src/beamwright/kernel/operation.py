"""What an operation is: a typed request that knows its route, and how to be decided or answered."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from .authority import Authority, Caller, Reach
from .event import Belonging, Beside, Event
from .profiles import Profiles
from .value import Value

if TYPE_CHECKING:
    from .aggregate import Aggregate, History, HistoryRequest, ListRequest, Page


class Occasion(Value):
    """What a decision may use but not invent: the time, the caller, and ids for what it creates."""

    now: datetime
    principal_id: UUID
    new_id: UUID

    def fresh_id(self, number: int) -> UUID:
        """A further new id, the same for the same number; still a valid UUIDv7."""
        return UUID(int=self.new_id.int + 1 + number)


class Installation(Value):
    """What the operator configured that rules depend on."""

    self_facility_code: str = "home"
    issuers: frozenset[str] = frozenset()
    laptop: bool = False
    visit_presence_limit: timedelta = timedelta(days=1)


class World(Protocol):
    """Read access offered to `gather` and `answer`.

    Every stream loaded here is verified unchanged when the decision is appended. An object that the request
    names is within the caller's reach, or not found; what a rule loads on its own account is not checked.
    """

    @property
    def installation(self) -> Installation: ...
    @property
    def caller(self) -> Caller: ...
    @property
    def surface_id(self) -> UUID: ...
    @property
    def now(self) -> datetime: ...
    @property
    def authority(self) -> Authority: ...
    @property
    def profiles(self) -> Profiles: ...
    @property
    def operations(self) -> Mapping[str, "Operation"]: ...

    async def load[S: Value, E: Event](self, aggregate: "Aggregate[S, E]", id: UUID) -> S:
        """The folded state of one stream, or the aggregate's own not-found error."""
        ...

    async def load_all[S: Value, E: Event](
        self, aggregate: "Aggregate[S, E]", ids: Collection[UUID]
    ) -> Sequence[S]:
        """Several states in one round trip, in the order of the ids."""
        ...

    async def load_claimed[S: Value, E: Event](self, aggregate: "Aggregate[S, E]", kind: str, key: str) -> S:
        """The state of the stream that holds a claim, for objects that others name by code."""
        ...

    async def find[S: Value, E: Event](self, aggregate: "Aggregate[S, E]", **filters: Any) -> Sequence[S]:
        """Every object that the list's filters match, folded; the append verifies that none came since."""
        ...

    async def belonging(self, aggregate_name: str, id: UUID) -> Belonging:
        """Where an object of the named aggregate belongs; an unknown aggregate is refused."""
        ...

    def reach(self, operation_name: str) -> Reach:
        """How far the caller's grants of another operation reach."""
        ...

    async def view(
        self, aggregate: "Aggregate[Any, Any]", id: UUID, version: int | None, at: datetime | None
    ) -> Any: ...
    async def page(self, aggregate: "Aggregate[Any, Any]", request: "ListRequest") -> "Page": ...
    async def history(self, aggregate: "Aggregate[Any, Any]", request: "HistoryRequest") -> "History": ...
    async def caught_up(self, aggregate: "Aggregate[Any, Any]", token: str | None) -> None:
        """Wait, bounded, until the aggregate's list has seen the append that gave out this token."""
        ...

    async def verdicts(self, request: Any) -> tuple[Sequence[Any], str | None]: ...
    async def feed(self, request: Any) -> Any: ...


type Decided = Event | Sequence[Event | Beside]


class Command[Seen](Value, forbid_unknown_fields=True):
    """A request to change something, and the pure rule that grants or refuses it."""

    async def gather(self, world: World) -> Seen:
        """Load everything the decision must see."""
        raise NotImplementedError

    def decide(self, seen: Seen, occasion: Occasion, /) -> Decided:
        """Return the facts that follow, or raise a DomainError. No I/O, no clock, no ids."""
        raise NotImplementedError


class Query[Answer](Value, forbid_unknown_fields=True):
    """A request to read."""

    async def answer(self, world: World) -> Answer:
        raise NotImplementedError


class Operation(Value):
    """One entry of the registry: all that a surface needs to expose a command or query."""

    name: str
    method: str
    path: str
    path_fields: tuple[str, ...]
    context: str
    aggregate: str
    # The aggregate whose id the path names: the object that the call is about.
    target: str | None
    id_field: str
    request: type[Command[Any]] | type[Query[Any]]
    response: Any
    reads: bool
    creates: bool = False
    # The operation whose grant this one needs: history follows the single read.
    permission: str

    @property
    def summary(self) -> str:
        return (self.request.__doc__ or "").strip().splitlines()[0]

    @property
    def has_rule(self) -> bool:
        """Whether the request says how it is decided or answered."""
        rule = "answer" if self.reads else "decide"
        return any(rule in vars(base) for base in self.request.__mro__ if base not in (Query, Command))


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
