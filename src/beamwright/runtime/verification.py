"""Verification: whether streams, claims, answers, lists and profiles agree with the log they come from."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from beamwright.contexts.access.actor import Actor
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.log_digest import DigestComparison
from beamwright.kernel.registry import Registry
from beamwright.kernel.store import BEGINNING, Mark, Stored
from beamwright.kernel.value import Value

from .signed_pointers import signed_pointers

MOST_KEPT = 20
STEP = 500

# Told how many events are done, and how many there are.
type Progress = Callable[[int, int], None]
type ClaimKey = tuple[str, str]
type Login = tuple[UUID, str]


class Check(StrEnum):
    """What is verified; the value is the sentence that must hold."""

    VERSIONS = "the versions of every stream begin at 1 and have no hole"
    ORDER = "the events of every stream lie in the log in the order of their versions"
    EVENTS = "every event decodes, and every stream folds"
    CLAIMS = "the claims held are those of the folded states"
    ANSWERS = "every answer kept for an idempotency key refers to a stored event"
    LISTS = "every row of a list is the fold of its stream up to the list's bookmark"
    PROFILES = "profiles and logins are those of the actors that are not forgotten"
    AUTHORITY = "the authority's epoch is its newest event"
    POINTERS = "every pointer of the own seal is as it was signed, and so is the log that it covers"


class Finding(Value):
    """One thing that is not as it must be."""

    check: Check
    subject: str
    detail: str


class Point(NamedTuple):
    """A stream folded as far as a list has read."""

    state: Any
    version: int
    created_at: datetime
    updated_at: datetime
    created_by: UUID


class ListedRow(NamedTuple):
    """A row of a list; values are compared by column."""

    id: UUID
    values: Mapping[str, Any]


class Generation(Protocol):
    """One generation of a list."""

    @property
    def name(self) -> str: ...
    @property
    def mark(self) -> Mark: ...
    def rows(self) -> AsyncIterator[ListedRow]:
        """By id."""
        ...

    def expected(self, point: Point) -> ListedRow: ...


class KeptAnswer(NamedTuple):
    """An answer that refers to an event, and whether there is such an event."""

    key: str
    known: bool


class Records(Protocol):
    """The whole store in one snapshot. Whatever belongs to streams comes in the order of their ids."""

    async def sizes(self) -> Mapping[str, int]:
        """How many events each stream type has that the log or a claim names."""
        ...

    def events(self, stream_type: str) -> AsyncIterator[Stored]:
        """By stream, then by version."""
        ...

    def in_order(self, until: Mark) -> AsyncIterator[Stored]:
        """Every event up to a mark, in reading order."""
        ...

    def claims(self, stream_type: str) -> AsyncIterator[tuple[UUID, ClaimKey]]: ...
    def answers(self) -> AsyncIterator[KeptAnswer]: ...
    async def lists(self, aggregate: Aggregate[Any, Any]) -> Sequence[Generation]: ...
    def profiles(self) -> AsyncIterator[tuple[UUID, None]]: ...
    def identities(self) -> AsyncIterator[tuple[UUID, Login]]:
        """The id and the issuer of each login, with its actor's id."""
        ...

    async def epoch(self) -> int: ...


class Report:
    """What was looked at, and what was found; of many findings the first are kept."""

    def __init__(self) -> None:
        self.looked_at = dict.fromkeys(Check, 0)
        self.found = dict.fromkeys(Check, 0)
        self.findings: list[Finding] = []

    @property
    def clean(self) -> bool:
        return not any(self.found.values())

    def look(self, check: Check, number: int = 1) -> None:
        self.looked_at[check] += number

    def find(self, check: Check, subject: str, detail: str) -> None:
        self.found[check] += 1
        if self.found[check] <= MOST_KEPT:
            self.findings.append(Finding(check=check, subject=subject, detail=detail))


async def verify(records: Records, registry: Registry, progress: Progress) -> Report:
    """Walk the whole log once, stream by stream, beside everything that is derived from it."""
    report = Report()
    newest_authority = 0
    sizes = await records.sizes()
    total = sum(sizes.values())

    def tell() -> None:
        progress(report.looked_at[Check.EVENTS], total)

    for stream_type in sorted(sizes.keys() | registry.aggregates.keys()):
        aggregate = registry.aggregates.get(stream_type)
        if aggregate is None:
            await _unknown_type(records, report, stream_type, sizes[stream_type])
            continue
        walk = Walk(records, report, aggregate)
        await walk.run(await records.lists(aggregate), tell)
        if aggregate.authority:
            newest_authority = max(newest_authority, walk.newest)
    await _answers(records, report)
    report.look(Check.AUTHORITY)
    epoch = await records.epoch()
    if epoch != newest_authority:
        report.find(Check.AUTHORITY, f"epoch {epoch}", f"the newest event lies at {newest_authority}")
    await _pointers(records, report)
    return report


async def _pointers(records: Records, report: Report) -> None:
    """The own seal's pointers against their signatures, and against the log read once more in its order."""
    pointers = await signed_pointers(records.events)
    report.look(Check.POINTERS, len(pointers.events))
    for number in pointers.forged:
        report.find(Check.POINTERS, f"pointer {number}", "is not what a key of the seal has signed")
    comparison = DigestComparison(pointers.digests)
    if pointers.digests:
        async for stored in records.in_order(max(each.mark for each in pointers.digests)):
            comparison.take(stored)
    for signed in comparison.finish():
        detail = f"the log up to {signed.mark.token()} is not the one that was signed; see what was altered, removed "
        report.find(
            Check.POINTERS, f"pointer {signed.number}", f"{detail}or put there since the pointer before"
        )


async def _unknown_type(records: Records, report: Report, stream_type: str, size: int) -> None:
    report.look(Check.EVENTS, size)
    if size:
        report.find(Check.EVENTS, stream_type, f"no aggregate has this name, and the log holds {size} events")
    async for id, (kind, key) in records.claims(stream_type):
        report.find(Check.CLAIMS, f"{stream_type}/{id}", f"{kind} “{key}” is held by an unknown aggregate")


async def _answers(records: Records, report: Report) -> None:
    async for answer in records.answers():
        report.look(Check.ANSWERS)
        if not answer.known:
            report.find(Check.ANSWERS, answer.key, "the answer refers to an event that is not in the log")


class Stream:
    """One stream while it is folded."""

    def __init__(self, first: Stored, generations: Sequence[Generation]) -> None:
        self.id = first.stream_id
        self.name = f"{first.stream_type}/{first.stream_id}"
        self.created_at = self.updated_at = first.occurred_at
        self.created_by = first.principal_id
        self.version = 0
        self.mark = BEGINNING
        self.state: Any = None
        self.broken = False
        # The stream as far as each list has read it.
        self.points: list[Point | None] = [None] * len(generations)


class Walk:
    """All streams of one aggregate, each beside its claims, list rows and profile."""

    def __init__(self, records: Records, report: Report, aggregate: Aggregate[Any, Any]) -> None:
        self._records = records
        self._report = report
        self._aggregate = aggregate
        self.newest = 0

    async def run(self, generations: Sequence[Generation], tell: Callable[[], None]) -> None:
        companions = self._companions(generations)
        stream: Stream | None = None
        async for stored in self._records.events(self._aggregate.name):
            if stream is None or stream.id != stored.stream_id:
                await self._finish(stream, companions)
                stream = Stream(stored, generations)
            self._take(stream, stored, generations)
            if self._report.looked_at[Check.EVENTS] % STEP == 0:
                tell()
        await self._finish(stream, companions)
        for companion in companions:
            await companion.finish()
        tell()

    def _companions(self, generations: Sequence[Generation]) -> "list[Companion[Any]]":
        found: list[Companion[Any]] = [Claims(self._report, self._records, self._aggregate)]
        found += [Listed(self._report, number, each) for number, each in enumerate(generations)]
        if self._aggregate.state is Actor:
            found += [
                Profiles(self._report, self._records.profiles()),
                Logins(self._report, self._records.identities()),
            ]
        return found

    async def _finish(self, stream: Stream | None, companions: "Sequence[Companion[Any]]") -> None:
        if stream is not None:
            self._report.look(Check.VERSIONS)
            self._report.look(Check.ORDER)
            for companion in companions:
                await companion.compare(stream)

    def _take(self, stream: Stream, stored: Stored, generations: Sequence[Generation]) -> None:
        self._check_place(stream, stored)
        stream.version, stream.mark = stored.version, stored.mark
        self.newest = max(self.newest, stored.mark.position)
        # Where a clock was set back, the object was still changed no earlier than before.
        stream.updated_at = max(stream.updated_at, stored.occurred_at)
        self._fold(stream, stored)
        point = Point(stream.state, stream.version, stream.created_at, stream.updated_at, stream.created_by)
        for number, generation in enumerate(generations):
            if stored.mark <= generation.mark:
                stream.points[number] = point

    def _check_place(self, stream: Stream, stored: Stored) -> None:
        if stored.version != stream.version + 1:
            after = f"version {stream.version}" if stream.version else "nothing"
            self._report.find(Check.VERSIONS, stream.name, f"version {stored.version} comes after {after}")
        before, mark = stream.mark, stored.mark
        if mark.position <= before.position or mark.transaction_id < before.transaction_id:
            detail = (
                f"version {stored.version} lies at {mark.token()}, the version before at {before.token()}"
            )
            self._report.find(Check.ORDER, stream.name, detail)

    def _fold(self, stream: Stream, stored: Stored) -> None:
        """Whatever an old event makes today's code raise is a finding; the rest of its stream is only decoded."""
        self._report.look(Check.EVENTS)
        aggregate, doing = self._aggregate, "decoded"
        try:
            event = aggregate.current(aggregate.decoder.decode(stored.tagged))
            if getattr(event, aggregate.id_field) != stream.id:
                raise ValueError(f"{aggregate.id_field} names another stream")
            if not stream.broken:
                doing = "folded"
                stream.state = aggregate.evolve(stream.state, event)
        except Exception as error:  # noqa: BLE001 - see above
            stream.broken = True
            text = f"version {stored.version}, {stored.event_type}, cannot be {doing}: {_one_line(error)}"
            self._report.find(Check.EVENTS, stream.name, text)


class Companion[R](ABC):
    """Rows that every stream must agree with, in the order of the streams' ids."""

    def __init__(self, report: Report, rows: AsyncIterator[tuple[UUID, R]]) -> None:
        self._report = report
        self._rows = rows
        self._next: tuple[UUID, R] | None = None
        self._begun = False

    async def compare(self, stream: Stream) -> None:
        """Compare the stream with its rows; rows that come before belong to no stream."""
        await self._pass(stream.id)
        own: list[R] = []
        while self._next is not None and self._next[0] == stream.id:
            own.append(self._next[1])
            await self._step()
        if not stream.broken:
            self._compare(stream, own)

    async def finish(self) -> None:
        """Whatever is left belongs to no stream."""
        await self._pass(None)

    async def _pass(self, id: UUID | None) -> None:
        if not self._begun:
            self._begun = True
            await self._step()
        while self._next is not None and (id is None or self._next[0] < id):
            self._stray(*self._next)
            await self._step()

    async def _step(self) -> None:
        self._next = await anext(self._rows, None)

    @abstractmethod
    def _compare(self, stream: Stream, rows: list[R]) -> None:
        """Report where the rows differ from what the stream says they are."""

    @abstractmethod
    def _stray(self, id: UUID, row: R) -> None:
        """Report a row whose stream does not exist."""


class Claims(Companion[ClaimKey]):
    """The claims of each state against those held."""

    def __init__(self, report: Report, records: Records, aggregate: Aggregate[Any, Any]) -> None:
        super().__init__(report, records.claims(aggregate.name))
        self._aggregate = aggregate

    def _compare(self, stream: Stream, rows: list[ClaimKey]) -> None:
        held = set(rows)
        due = {(claim.kind, claim.key) for claim in self._aggregate.claims(stream.state)}
        self._report.look(Check.CLAIMS, len(due | held))
        for kind, key in sorted(due - held):
            self._report.find(Check.CLAIMS, stream.name, f"{kind} “{key}” is claimed and not held")
        for kind, key in sorted(held - due):
            self._report.find(Check.CLAIMS, stream.name, f"{kind} “{key}” is held and not claimed")

    def _stray(self, id: UUID, row: ClaimKey) -> None:
        kind, key = row
        self._report.look(Check.CLAIMS)
        detail = f"{kind} “{key}” is held by a stream that does not exist"
        self._report.find(Check.CLAIMS, f"{self._aggregate.name}/{id}", detail)


class Listed(Companion[Mapping[str, Any]]):
    """The rows of one list against the streams as far as the list has read them."""

    def __init__(self, report: Report, number: int, generation: Generation) -> None:
        super().__init__(report, generation.rows())
        self._number = number
        self._generation = generation

    def _compare(self, stream: Stream, rows: list[Mapping[str, Any]]) -> None:
        point = stream.points[self._number]
        self._report.look(Check.LISTS, int(bool(rows or point)))
        if point is None and rows:
            self._find(stream.name, "has a row, and none of its events lie before the bookmark")
        elif point is not None and not rows:
            self._find(stream.name, "has no row")
        elif point is not None:
            due = self._generation.expected(point).values
            wrong = sorted(column for column in due if due[column] != rows[0][column])
            if wrong:
                self._find(stream.name, f"at version {point.version} differs in {', '.join(wrong)}")

    def _stray(self, id: UUID, row: Mapping[str, Any]) -> None:
        self._report.look(Check.LISTS)
        self._find(str(id), "has a row and no stream")

    def _find(self, subject: str, detail: str) -> None:
        self._report.find(Check.LISTS, subject, f"list {self._generation.name}: {detail}")


class Profiles(Companion[None]):
    """The profile of each actor: kept until it is forgotten, and then gone."""

    def _compare(self, stream: Stream, rows: list[None]) -> None:
        self._report.look(Check.PROFILES)
        actor: Actor = stream.state
        if actor.forgotten and rows:
            self._report.find(Check.PROFILES, stream.name, "is forgotten and still has a profile")
        if not actor.forgotten and not rows:
            self._report.find(Check.PROFILES, stream.name, "has no profile")

    def _stray(self, id: UUID, row: None) -> None:
        self._report.find(Check.PROFILES, f"Actor/{id}", "has a profile and no stream")


class Logins(Companion[Login]):
    """The logins of each actor, by id and issuer: nobody comes in by a login that the log does not know."""

    def _compare(self, stream: Stream, rows: list[Login]) -> None:
        actor: Actor = stream.state
        kept = set(rows)
        if actor.forgotten and kept:
            self._report.find(Check.PROFILES, stream.name, "is forgotten and still has a login")
            return
        linked = set(actor.identities.items())
        for login in sorted(linked - kept):
            self._find(stream.name, login, "is linked and not kept")
        for login in sorted(kept - linked):
            self._find(stream.name, login, "is kept and not linked")

    def _stray(self, id: UUID, row: Login) -> None:
        self._find(f"Actor/{id}", row, "is kept for an actor that has no stream")

    def _find(self, subject: str, login: Login, detail: str) -> None:
        self._report.find(Check.PROFILES, subject, f"login {login[0]} of {login[1]} {detail}")


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
