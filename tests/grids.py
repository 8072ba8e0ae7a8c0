"""Status grids: the whole state machine of an aggregate as a table a person can read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.errors import CannotTransitionError
from beamwright.kernel.event import Event
from beamwright.kernel.operation import Command
from tests.rules import given, outcome


def check_grid(
    grid: str,
    aggregate: Aggregate[Any, Any],
    *,
    status: Callable[[Any], str],
    reach: Mapping[str, Sequence[Event]],
    verbs: Mapping[str, Command[Any]],
    seen: Callable[[Any], Any] = lambda state: state,
) -> None:
    """Each cell is the status after the verb, or `-` where `<Aggregate>Cannot<Verb>Error` is due."""
    header, *rows = [line.split() for line in grid.strip().splitlines()]
    assert set(header) == set(verbs)
    assert {row[0] for row in rows} == set(reach)
    for start, *cells in rows:
        for verb, expected in zip(header, cells, strict=True):
            got = outcome(verbs[verb], seen(given(aggregate, *reach[start])))
            where = f"{verb} from {start}"
            if expected == "-":
                assert isinstance(got, type) and issubclass(got, CannotTransitionError), f"{where}: {got}"
                assert got.__name__ == f"{aggregate.name}Cannot{verb.title().replace('-', '')}Error", where
            else:
                assert not isinstance(got, type), f"{where}: {got}"
                events = [event for event in got if type(event) in aggregate.event_classes]
                assert status(given(aggregate, *reach[start], *events)) == expected, where
