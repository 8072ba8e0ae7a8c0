"""Random walks over the real service: how they call it, and what must hold wherever they went."""

import asyncio
import os
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from beamwright.app import App
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.errors import ConcurrencyError, DomainError
from beamwright.kernel.store import Stream
from beamwright.maintenance import verify_database
from beamwright.runtime.call import Call
from beamwright.settings import Settings
from tests.live import Cluster
from tests.runtime.test_projector import ADMINISTRATOR, drain

PAGE = 7


class Folded(NamedTuple):
    """One stream: the state it folds to, and what its envelope says."""

    state: Any
    stream: Stream


type Folds = Mapping[UUID, Folded]


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

    def __init_subclass__(cls) -> None:
        known = {name: value.step for name, value in vars(cls).items() if hasattr(value, "step")}
        if known:
            names = [name for name, (weight, _) in known.items() for _ in range(weight)]

            def steps(name: str) -> st.SearchStrategy[Step]:
                return st.builds(Step, st.just(name), known[name][1])

            def take(self: Walk, step: Step) -> None:
                getattr(self, step.method)(**step.arguments)

            cls.take = rule(step=st.sampled_from(names).flatmap(steps))(take)  # type: ignore[attr-defined]

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.dsn = cluster.database()
        self.app = self.run(App.open(Settings(data=cluster.data), self.dsn))
        self.run(self.app.projector.prepare())
        self.run(self.furnish())

    async def furnish(self) -> None:
        """What is there before the first step."""

    async def examine(self) -> None:
        """What must hold after the last step, beyond lists and verification."""

    def teardown(self) -> None:
        try:
            self.run(self._conclude())
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
        """As `attempt`, with lists that have caught up."""
        self.run(drain(self.app))
        return self.run(self.attempt(request, call))

    def call(self, request: Any, call: Call = ADMINISTRATOR) -> Any:
        """The answer, or None where the rules refuse."""
        answer = self.outcome(request, call)
        return None if isinstance(answer, type) else answer

    def at_once(self, *requests: Any) -> list[Any]:
        """The outcomes of several calls that run into one another."""
        return self.run(self._at_once(requests))

    async def _at_once(self, requests: Iterable[Any]) -> list[Any]:
        await drain(self.app)
        running = asyncio.gather(*(self.attempt(request) for request in requests))
        while not running.done():
            # Whoever lost a race looks at the lists again, so they must go on.
            await drain(self.app)
            await asyncio.sleep(0.001)
        return running.result()


def walk(machine: type[Walk], cluster: Cluster, *, examples: int, steps: int) -> None:
    """Take so many walks of so many steps; WALK_EXAMPLES asks for another number of them.

    Each is drawn afresh: the usual backend makes most of so few out of the first, by repeating parts of it.
    """
    run_state_machine_as_test(
        partial(machine, cluster),
        settings=settings(
            max_examples=int(os.environ.get("WALK_EXAMPLES", examples)),
            stateful_step_count=steps,
            deadline=None,
            backend="hypothesis-urandom",
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


async def folds(app: App, aggregate: Aggregate[Any, Any]) -> Folds:
    """Every stream of an aggregate, by what the log says."""
    rows = await app.database.fetch(
        "SELECT stream_id FROM events WHERE stream_type = $1 AND version = 1", aggregate.name
    )
    streams = await app.store.read([(aggregate.name, row[0]) for row in rows])
    return {name[1]: Folded(folded(aggregate, stream), stream) for name, stream in streams.items()}


def folded(aggregate: Aggregate[Any, Any], stream: Stream) -> Any:
    return aggregate.fold(aggregate.stream_decoder.decode(stream.events))


async def check_list(app: App, aggregate: Aggregate[Any, Any], expected: Folds) -> None:
    """The list shows every fold, and each of its filters exactly those that pass it."""
    rows = {view.id: view for view in await listed(app, aggregate)}
    assert rows.keys() == expected.keys()
    for id, (state, stream) in expected.items():
        shown = {field: getattr(rows[id], field) for field in aggregate.shown}
        assert shown == {field: getattr(state, field) for field in aggregate.shown}
        envelope = (stream.version, stream.created_at, stream.updated_at, stream.created_by)
        row = rows[id]
        assert (row.version, row.created_at, row.updated_at, row.created_by) == envelope
    for filter in aggregate.listing.filters:
        for value in some_values(filter, [each.state for each in expected.values()]):
            found = {view.id for view in await listed(app, aggregate, **{filter.name: value})}
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
    elif filter.test is not Test.EQUALS:
        return []
    return sorted({column for column in columns if column is not None}, key=str)[:3]


def passes(filter: Filter[Any], state: Any, value: Any) -> bool:
    column = filter.of(state)
    return value in column if filter.test is Test.CONTAINS else column == value
