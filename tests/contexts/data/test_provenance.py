"""Provenance: how far a walk goes, and what it does not tell."""

import asyncio
from collections.abc import Collection
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.data import dataset_provenance
from beamwright.contexts.data.dataset import Dataset
from beamwright.contexts.data.dataset_provenance import (
    DatasetProvenance,
    GetDatasetProvenance,
    ProvenanceDirection,
)
from beamwright.kernel.event import Belonging
from tests.contexts.calibration.examples import R1, R2, appended, calibration
from tests.contexts.data.examples import dataset
from tests.contexts.run.examples import RUN, run
from tests.contexts.subject.examples import SUBJECT, subject

HIDDEN = "elsewhere"


def id(number: int) -> UUID:
    return UUID(int=2000 + number)


class Records:
    """What there is, and a caller who reads all but what is elsewhere."""

    def __init__(self, *known: Dataset, **others: Any) -> None:
        self.datasets = {each.id: each for each in known}
        self.others = others

    async def load(self, aggregate: Any, id: UUID) -> Dataset:
        return self.datasets[id]

    async def look_up(
        self, name: str, ids: Collection[UUID] | None = None, *, most: int | None = None, **filters: Any
    ) -> list[Any]:
        if name != "Dataset":
            return [self.others[name]]
        if ids is not None:
            return [self.datasets[id] for id in ids]
        children = (each for each in self.datasets.values() if each.derived_from & filters["derived_from"])
        return sorted(children, key=lambda each: each.id)[:most]

    def reach(self, operation_name: str) -> "Records":
        return self

    def holds(self, object: Belonging, *, reading: bool) -> bool:
        return object.facility_code != HIDDEN

    def walk(self, root: int, direction: str = "up", depth: int = 10) -> DatasetProvenance:
        world: Any = self
        query = GetDatasetProvenance(
            dataset_id=id(root), direction=ProvenanceDirection(direction), depth=depth
        )
        return asyncio.run(query.answer(world))


def made(number: int, *parents: int, **changes: Any) -> Dataset:
    return dataset(dataset_id=id(number), derived_from=frozenset(map(id, parents)), **changes)


def depths(graph: DatasetProvenance) -> dict[int, int]:
    return {node.id.int - 2000: node.depth for node in graph.nodes}


DIAMOND = Records(made(0), made(1, 0), made(2, 0), made(3, 1, 2, 0), made(4))


def test_each_node_stands_at_its_shortest_distance() -> None:
    graph = DIAMOND.walk(3)
    assert depths(graph) == {3: 0, 0: 1, 1: 1, 2: 1}
    assert len(graph.edges) == 5 and not graph.truncated


def test_the_way_down_tells_of_every_edge_between_what_it_shows() -> None:
    graph = DIAMOND.walk(0, "down")
    assert depths(graph) == {0: 0, 1: 1, 2: 1, 3: 1}
    assert len(graph.edges) == 5 and not graph.truncated


def test_both_ways_do_not_turn_aside() -> None:
    graph = DIAMOND.walk(1, "both")
    assert depths(graph) == {1: 0, 0: 1, 3: 1}
    assert len(graph.edges) == 3


def test_datasets_tell_their_intent_and_whether_they_are_suspect() -> None:
    [node] = DIAMOND.walk(4).nodes
    assert (node.label, node.status, node.intent, node.suspect) == ("Scan 7", "Registered", "Trial", False)


def test_a_walk_does_not_go_on_behind_what_is_hidden() -> None:
    records = Records(made(0), made(1, 0, facility_code=HIDDEN), made(2, 1), made(3, 2))
    up, down = records.walk(3), records.walk(0, "down")
    assert (depths(up), up.hidden_count, len(up.edges)) == ({3: 0, 2: 1}, 1, 1)
    assert (depths(down), down.hidden_count, down.edges) == ({0: 0}, 1, [])


@pytest.mark.parametrize(("place", "shown"), [("aps", 5), (HIDDEN, 1)])
def test_what_a_hidden_run_used_is_not_told(place: str, shown: int) -> None:
    records = Records(
        made(0, producing_run_id=RUN, subject_id=SUBJECT, used_calibration_ids=frozenset({R1, R2})),
        Run=run(facility_code=place),
        Subject=subject(),
        Calibration=calibration(appended(R1), appended(R2)),
    )
    graph = records.walk(0)
    assert (len(graph.nodes), graph.hidden_count) == (shown, 0 if shown > 1 else 1)
    assert len(graph.edges) == shown - 1


def test_a_revision_is_called_by_its_quantity() -> None:
    records = Records(
        made(0, producing_run_id=RUN, used_calibration_ids=frozenset({R1})),
        Run=run(),
        Calibration=calibration(appended(R1), appended(R2)),
    )
    revision = records.walk(0).nodes[-1]
    assert (revision.id, revision.label, revision.status) == (R1, "rotation_center", "Provisional")
    assert (revision.intent, revision.suspect, revision.depth) == (None, None, 2)


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize(("most", "truncated"), [(6, False), (5, True), (1, True)])
def test_no_more_nodes_are_shown_than_agreed(
    monkeypatch: pytest.MonkeyPatch, direction: str, most: int, truncated: bool
) -> None:
    monkeypatch.setattr(dataset_provenance, "MOST_NODES", most)
    fan = [made(number, 0) for number in range(1, 6)]
    gather = made(0, *range(1, 6))
    up = Records(gather, *(made(number) for number in range(1, 6)))
    records = up if direction == "up" else Records(made(0), *fan)
    graph = records.walk(0, direction)
    assert (len(graph.nodes), graph.truncated) == (most, truncated)


@pytest.mark.parametrize(("direction", "root"), [("up", 3), ("down", 0)])
@pytest.mark.parametrize(("depth", "truncated"), [(1, True), (2, True), (3, False), (50, False)])
def test_a_walk_says_whether_there_is_more_beyond_its_depth(
    direction: str, root: int, depth: int, truncated: bool
) -> None:
    chain = Records(made(0), made(1, 0), made(2, 1), made(3, 2))
    graph = chain.walk(root, direction, depth)
    assert (len(graph.nodes), graph.truncated) == (min(depth, 3) + 1, truncated)
