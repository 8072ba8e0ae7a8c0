"""What an operation is: a typed request that knows its route, and how to be decided or answered."""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Protocol,
    TypeAliasType,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from msgspec import Meta

from .authority import Authority, Caller, Reach
from .compute import NOWHERE
from .entries import EntryTables
from .event import Belonging, Beside, Event
from .identifiers import PersistentIdentifierScheme
from .observations import Observations
from .observing import Contacts
from .profiles import Profiles
from .roles import ActorKind
from .secret_store import Signer
from .value import Value

if TYPE_CHECKING:
    from .aggregate import Aggregate, History, HistoryRequest, ListRequest, Page
    from .delivery import Delivery
    from .log_digest import LogDigest, SignedDigest
    from .trees import Subtree, SubtreeRequest


class Occasion(Value):
    """What a decision may use but not invent: the time, the caller, and ids for what it creates."""

    now: datetime
    principal_id: UUID
    principal_kind: str = ActorKind.HUMAN
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
    # How long a replaced key still verifies what it has signed before.
    federation_key_overlap: timedelta = timedelta(days=7)
    # How long a signed pointer may be believed.
    seal_validity: timedelta = timedelta(days=7)
    # What was issued before is no longer taken in.
    artifact_max_age: timedelta = timedelta(days=30)
    base_url: str = "http://127.0.0.1:8000"
    enclosure_stale_after: timedelta = timedelta(seconds=60)
    supply_stale_after: timedelta = timedelta(seconds=60)
    persistent_identifier_scheme: PersistentIdentifierScheme = PersistentIdentifierScheme.DOI
    landing_page_template: str = "{base_url}/console/{resource}/{id}"
    facility_publisher: str | None = None
    # `bound`: what a clearance was ever bound to needs one in force; `required`: everything does; `off`.
    clearance_gate: str = "bound"
    allow_raw_conduct: bool = False
    # Where the compute jobs that are reserved here run.
    compute_place: str = NOWHERE


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
    def new_id(self) -> UUID:
        """The id of what the command creates, for a statement that is signed before it is decided."""
        ...

    @property
    def authority(self) -> Authority: ...
    @property
    def profiles(self) -> Profiles: ...
    @property
    def observations(self) -> Observations: ...
    @property
    def entries(self) -> EntryTables: ...
    @property
    def signer(self) -> Signer: ...
    @property
    def correlation_id(self) -> str: ...
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

    async def load_known[S: Value, E: Event](
        self, aggregate: "Aggregate[S, E]", ids: Collection[UUID]
    ) -> Mapping[UUID, S]:
        """Those of several states that exist; that the others do not is verified too."""
        ...

    def version(self, aggregate: "Aggregate[Any, Any]", id: UUID) -> int:
        """The version at which a loaded stream was seen, which the append verifies."""
        ...

    async def load_claimed[S: Value, E: Event](self, aggregate: "Aggregate[S, E]", kind: str, key: str) -> S:
        """The state of the stream that holds a claim, for objects that others name by code."""
        ...

    async def find[S: Value, E: Event](self, aggregate: "Aggregate[S, E]", **filters: Any) -> Sequence[S]:
        """Every object that the list's filters match, folded; the append verifies that none came since."""
        ...

    async def look_up(
        self,
        aggregate_name: str,
        ids: Collection[UUID] | None = None,
        *,
        most: int | None = None,
        **filters: Any,
    ) -> Sequence[Any] | None:
        """States of another context, by ids or list filters: unguarded, for advice and for what may not exist yet.

        None where this installation has no such aggregate; unknown ids are left out. Of what filters match, no more
        than `most` are read, the oldest.
        """
        ...

    async def contacts(self, aggregate_name: str, ids: Collection[UUID]) -> Contacts:
        """When the sources of observed objects were last heard."""
        ...

    async def texts(self, ids: Collection[UUID]) -> Mapping[UUID, str]:
        """The words of erasable texts; what was erased is absent."""
        ...

    async def tally(
        self, aggregate: "Aggregate[Any, Any]", *by: str, **within: Collection[Any]
    ) -> Mapping[tuple[Any, ...], int]:
        """How many objects within the caller's reach share each combination of the named filters' values.

        `within` limits this to those whose filter has one of the given values.
        """
        ...

    async def subtree(
        self, aggregate: "Aggregate[Any, Any]", root_id: UUID, request: "SubtreeRequest"
    ) -> "Subtree":
        """A page of an object and what is below it, depth first, siblings by name."""
        ...

    async def height(self, aggregate: "Aggregate[Any, Any]", root_id: UUID) -> int:
        """How many levels are below an object; unguarded."""
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

    async def events[S: Value, E: Event](self, aggregate: "Aggregate[S, E]", id: UUID) -> Sequence[E]:
        """Every event of one stream in order, guarded and reached for like its state."""
        ...

    async def log_digest(self, begun: "LogDigest") -> "LogDigest":
        """The digest of all that readers of the log may see now, going on from one that is known."""
        ...

    async def disagreeing(self, signed: Iterable["SignedDigest"]) -> Sequence["SignedDigest"]:
        """Those of several signed digests that the log, read from its beginning, does not bear out."""
        ...

    async def verdicts(self, request: Any) -> tuple[Sequence[Any], str | None]: ...
    async def deliveries(self, statement_ids: Collection[UUID]) -> Mapping[UUID, "Delivery"]:
        """How far statements have come to the peers they are for; what is sent to nobody is absent."""
        ...

    async def identifier_requests(self, request: Any) -> tuple[Sequence[Any], str | None]: ...
    async def feed(self, request: Any) -> Any: ...


type Decided = Event | Sequence[Event | Beside]


class Command[Seen](Value, forbid_unknown_fields=True):
    """A request to change something, and the pure rule that grants or refuses it.

    One with a method `told(self, state)` tells more in its receipt: the fields of the record which that makes of
    the state that follows, such as the id of what was added.
    """

    async def gather(self, world: World) -> Seen:
        """Load everything the decision must see."""
        raise NotImplementedError

    def decide(self, seen: Seen, occasion: Occasion, /) -> Decided:
        """Return the facts that follow, or raise a DomainError. No I/O, no clock, no ids."""
        raise NotImplementedError


type Wait = Annotated[
    float, Meta(ge=0, le=60, extra_json_schema={"unit": {"system": "udunits", "code": "s"}})
]


class Tracked[Seen, Told: Value](Command[Seen], forbid_unknown_fields=True):
    """A command that starts what goes on by itself: answered 202, or 200 if that ends within `wait` seconds."""

    wait: Wait = 0.0

    def told(self, state: Any, /) -> Told:
        """What was started, as the receipt tells it."""
        raise NotImplementedError

    async def ended(self, world: World, receipt: Any) -> Told | None:
        """What is told of it once it has ended; None while it goes on."""
        raise NotImplementedError


type Issue = Callable[[Command[Any]], Awaitable[Any]]


class Composite[Answer](Command[None], forbid_unknown_fields=True):
    """A request that issues commands of others, each authorized and appended on its own, and sums them up."""

    async def conduct(self, world: World, issue: Issue) -> Answer:
        """Issue what follows; a refused command raises here, and undoes none of those before it."""
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
    # Body types besides JSON, each with the field that it fills; the others then travel in the address.
    body_types: tuple[tuple[str, str], ...] = ()
    # What the answer can be when it is a file.
    media_types: tuple[str, ...] = ()
    # Where a client finds what the command has started, from fields of the receipt.
    tracks: str | None = None

    @property
    def success(self) -> int:
        """The status of an answer that is no refusal."""
        return 201 if self.creates else 202 if self.tracks else 200

    def location(self, receipt: Mapping[str, Any]) -> str | None:
        """The address of what the command has started, by the fields of its receipt."""
        return None if self.tracks is None else self.tracks.format_map(receipt)

    @property
    def bodies(self) -> Mapping[str, str]:
        return dict(self.body_types)

    @property
    def in_address(self) -> bool:
        """Whether its fields travel in the address; a query with a large body is asked by POST."""
        return self.method == "GET"

    @property
    def repeatable(self) -> frozenset[str]:
        """The fields that take several values, and so may be repeated in an address."""
        return _repeatable(self.request)

    @property
    def summary(self) -> str:
        return (self.request.__doc__ or "").strip().splitlines()[0]

    @property
    def has_rule(self) -> bool:
        """Whether the request says how it is decided or answered."""
        rules = {"answer"} if self.reads else {"decide", "conduct"}
        written = (base for base in self.request.__mro__ if base not in (Query, Command, Composite))
        return any(rules & vars(base).keys() for base in written)


@cache
def _repeatable(request: type[Value]) -> frozenset[str]:
    hints = get_type_hints(request)
    return frozenset(name for name in request.__struct_fields__ if _several(hints[name]))


def _several(hint: Any) -> bool:
    if isinstance(hint, TypeAliasType):
        return _several(hint.__value__)
    if get_origin(hint) in (list, tuple, set, frozenset):
        return True
    return any(_several(member) for member in get_args(hint)) if get_origin(hint) is not dict else False


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
