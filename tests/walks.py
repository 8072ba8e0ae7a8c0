"""Random walks over the real service: how they call it, and what must hold wherever they went."""

import asyncio
import os
import sys
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from random import Random, SystemRandom
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from hypothesis import HealthCheck, Phase, assume, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from beamwright.app import App
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.errors import ConcurrencyError, DomainError
from beamwright.kernel.store import Append, Mark, Stream
from beamwright.maintenance import verify_database
from beamwright.runtime.call import Call
from beamwright.settings import Settings
from tests.live import Clock, Cluster
from tests.runtime.test_projector import ADMINISTRATOR, drain

PAGE = 7


class Folded(NamedTuple):
    """One stream: the state it folds to, and what its envelope says."""

    state: Any
    stream: Stream


type Folds = Mapping[UUID, Folded]
# A request, and who makes it.
type Asked = tuple[Any, Call]


class Step(NamedTuple):
    """One call of a method of a walk, as a failing walk prints it."""

    method: str
    arguments: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.method}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


def step[F](weight: int = 1, **arguments: st.SearchStrategy[Any]) -> Callable[[F], F]:
    """A method that a walk may call next, so many times as often as one of weight 1.

    A `rule` by itself is left out of half of all walks, and drawn from bundles whose size a race may decide. A
    short form of a few walks needs every step in each of them, and draws that mean the same whoever wins.
    """

    def mark(method: F) -> F:
        method.step = (weight, st.fixed_dictionaries(arguments))  # type: ignore[attr-defined]
        return method

    return mark


class Walk(RuleBasedStateMachine):
    """Operations of a service on a database of its own, called in any order."""

    # Whose lists are compared with the folds of their streams, state for state.
    listed: ClassVar[tuple[Aggregate[Any, Any], ...]] = ()
    # Settings other than the usual ones.
    configured: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        known = {name: value.step for name, value in vars(cls).items() if hasattr(value, "step")}
        if known:
            names = [name for name, (weight, _) in known.items() for _ in range(weight)]

            def steps(name: str) -> st.SearchStrategy[Step]:
                return st.builds(Step, st.just(name), known[name][1])

            def go(self: Walk, step: Step) -> None:
                getattr(self, step.method)(**step.arguments)

            cls.go = rule(step=st.sampled_from(names).flatmap(steps))(go)  # type: ignore[attr-defined]

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.cluster = cluster
        self.loop = asyncio.new_event_loop()
        self.clock = Clock()

    @initialize(number=st.integers(0, 1023))
    def open(self, number: int) -> None:
        # The simplest of all walks is always tried, and takes the first step over and over.
        assume(number > 0)
        self.dsn = self.cluster.database()
        configured = Settings(data=self.cluster.data, **self.configured)
        self.app = self.run(App.open(configured, self.dsn, self.clock))
        self.run(self.app.projector.prepare())
        self.run(self.followed(self.furnish()))

    async def furnish(self) -> None:
        """What is there before the first step."""

    async def examine(self) -> None:
        """What must hold after the last step, beyond lists and verification."""

    def teardown(self) -> None:
        try:
            # What a failed step left would only fail once more, and hide the first.
            if sys.exception() is None:
                self.run(self._conclude())
            elif hasattr(self, "app"):
                self.run(self.app.close())
        finally:
            self.loop.close()

    async def _conclude(self) -> None:
        try:
            await drain(self.app)
            for aggregate in self.listed:
                await check_list(self.app, aggregate, await folds(self.app, aggregate))
            await self.examine()
        finally:
            await self.app.close()
        report = await verify_database(self.dsn, lambda *_: None)
        assert report.clean, report.findings

    def run[T](self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def do(self, request: Any, call: Call = ADMINISTRATOR) -> Any:
        """The answer."""
        return (await self.app.service.call(request, call)).body

    async def attempt(self, request: Any, call: Call = ADMINISTRATOR) -> Any:
        """The answer, or the class of the refusal by the rules; anything else is a fault."""
        try:
            return await self.do(request, call)
        except DomainError as refusal:
            assert refusal.status in (400, 404, 409), refusal
            assert not isinstance(refusal, ConcurrencyError), "so few callers never tire one another out"
            return type(refusal)

    def outcome(self, request: Any, call: Call = ADMINISTRATOR) -> Any:
        """As `attempt`, with lists that follow the log."""
        return self.run(self.followed(self.attempt(request, call)))

    def call(self, request: Any, call: Call = ADMINISTRATOR) -> Any:
        """The answer, or None where the rules refuse."""
        answer = self.outcome(request, call)
        return None if isinstance(answer, type) else answer

    def at_once(
        self, *requests: Any, calls: Sequence[Call] | None = None, overtaken: bool = False
    ) -> list[Any]:
        """The outcomes of several calls that run into one another as it happens.

        Or `overtaken`: the first has decided, but not appended yet, when the others come and go.
        """
        asked = list(zip(requests, calls or [ADMINISTRATOR] * len(requests), strict=True))
        return self.run(self.followed(self._overtaken(asked) if overtaken else self._together(asked)))

    async def followed[T](self, work: Coroutine[Any, Any, T]) -> T:
        """The outcome of some work; before and meanwhile the lists follow the log, since some calls wait for them."""
        await drain(self.app)
        running = asyncio.create_task(work)
        while not (await asyncio.wait([running], timeout=0.01))[0]:
            await drain(self.app)
        return running.result()

    async def _together(self, asked: Sequence[Asked]) -> list[Any]:
        return await asyncio.gather(*(self.attempt(request, call) for request, call in asked))

    async def _overtaken(self, asked: Sequence[Asked]) -> list[Any]:
        store: Any = self.app.store
        append, (first, *others), passed = store.append, asked, list[Any]()

        async def overtake() -> None:
            store.append = append
            passed.extend([await self.attempt(request, call) for request, call in others])

        async def late(asked: Append) -> Mark:
            await overtake()
            return await append(asked)

        store.append = late
        answer = await self.attempt(*first)
        if store.append is late:
            # It was refused: nothing of it is left to overtake.
            await overtake()
        return [answer, *passed]


class Dice(HypothesisProvider):
    """Draws every walk afresh from one seed: the usual provider makes most of so few by repeating parts of the first."""

    random: ClassVar[Random]

    def __init__(self, data: ConjectureData | None) -> None:
        super().__init__(data)
        self._random = self.random


AVAILABLE_PROVIDERS["dice"] = f"{Dice.__module__}.{Dice.__name__}"


def walk(machine: type[Walk], cluster: Cluster, *, examples: int, steps: int) -> None:
    """Take so many walks of so many steps.

    WALK_EXAMPLES asks for another number of walks, WALK_SEED for the same ones again, and WALK_SHRINK for a short
    one that fails, which takes minutes to find.
    """
    seed = int(os.environ.get("WALK_SEED") or SystemRandom().randrange(10**9))
    print(f"WALK_SEED={seed} takes these walks again.")
    Dice.random = Random(seed)
    run_state_machine_as_test(
        partial(machine, cluster),
        settings=settings(
            max_examples=int(os.environ.get("WALK_EXAMPLES") or examples),
            stateful_step_count=steps,
            phases=[Phase.generate, *([Phase.shrink] if os.environ.get("WALK_SHRINK") else [])],
            deadline=None,
            backend="dice",
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


async def folds(app: App, aggregate: Aggregate[Any, Any]) -> Folds:
    """Every stream of an aggregate, by what the log says."""
    return (await all_folds(app, aggregate))[aggregate.name]


async def all_folds(app: App, *aggregates: Aggregate[Any, Any]) -> Mapping[str, Folds]:
    """Every stream of some aggregates, by name."""
    by_name = {aggregate.name: aggregate for aggregate in aggregates}
    rows = await app.database.fetch(
        "SELECT stream_type, stream_id FROM events WHERE stream_type = ANY ($1) AND version = 1", [*by_name]
    )
    found: dict[str, dict[UUID, Folded]] = {name: {} for name in by_name}
    for (name, id), stream in (await app.store.read([(row[0], row[1]) for row in rows])).items():
        found[name][id] = Folded(folded(by_name[name], stream), stream)
    return found


def folded(aggregate: Aggregate[Any, Any], stream: Stream) -> Any:
    return aggregate.fold(aggregate.stream_decoder.decode(stream.events))


async def check_list(app: App, aggregate: Aggregate[Any, Any], expected: Folds, **everything: Any) -> None:
    """The list shows every fold, and each of its filters exactly those that pass it.

    `everything` is what a list must be asked for that does not show all by itself.
    """
    rows = {view.id: view for view in await listed(app, aggregate, **everything)}
    assert rows.keys() == expected.keys()
    for id, (state, stream) in expected.items():
        shown = {field: getattr(rows[id], field) for field in aggregate.shown}
        assert shown == {field: getattr(state, field) for field in aggregate.shown}
        envelope = (stream.version, stream.created_at, stream.updated_at, stream.created_by)
        row = rows[id]
        assert (row.version, row.created_at, row.updated_at, row.created_by) == envelope
    for filter in aggregate.listing.filters:
        for value in some_values(filter, [each.state for each in expected.values()]):
            asked = everything | {filter.name: value}
            found = {view.id for view in await listed(app, aggregate, **asked)}
            due = {id for id, each in expected.items() if passes(filter, each.state, value)}
            assert found == due, (aggregate.name, filter.name, value)


async def listed(app: App, aggregate: Aggregate[Any, Any], **filters: Any) -> list[Any]:
    """All pages of a list."""
    request = app.service.registry.operations[f"list_{aggregate.plural}"].request
    return await pages(app, partial(request, limit=PAGE, **filters))


async def pages(app: App, request: Any) -> list[Any]:
    """The items of every page, in order, none twice."""
    items: list[Any] = []
    cursor = None
    while True:
        page = (await app.service.call(request(cursor=cursor), ADMINISTRATOR)).body
        items += page.items
        cursor = page.next_cursor
        if cursor is None:
            assert len({item.id for item in items}) == len(items)
            return items


def some_values(filter: Filter[Any], states: Collection[Any]) -> list[Any]:
    """Up to three values that a filter is worth asking for."""
    columns = [filter.of(state) for state in states]
    if filter.test is Test.CONTAINS:
        columns = [value for column in columns for value in column]
    elif filter.test not in (Test.EQUALS, Test.ONE_OF, Test.NONE_OF, Test.AT_LEAST, Test.BEFORE):
        return []
    found = sorted({column for column in columns if column is not None}, key=str)[:3]
    several = filter.test in (Test.ONE_OF, Test.NONE_OF)
    return [frozenset({value}) for value in found] if several else found


def passes(filter: Filter[Any], state: Any, value: Any) -> bool:
    column = filter.of(state)
    match filter.test:
        case Test.CONTAINS:
            return value in column
        case Test.ONE_OF:
            return column in value
        case Test.NONE_OF:
            return column not in value
        case Test.AT_LEAST:
            return column is not None and column >= value
        case Test.BEFORE:
            return column is not None and column < value
        case _:
            return column == value
