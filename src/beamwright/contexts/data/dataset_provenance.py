"""Provenance: what a dataset came from and what came from it, as far as the caller may know."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta

from beamwright.contexts.calibration.calibration import Calibration, calibrations
from beamwright.contexts.operation.procedure import procedures
from beamwright.contexts.run.run import runs
from beamwright.contexts.subject.subject import subjects
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.operation import Query, World
from beamwright.kernel.value import Value

from .dataset import Dataset, DatasetIntent, datasets

MOST_NODES = 2000

type ProvenanceDepth = Annotated[int, Meta(ge=1, le=50)]


class ProvenanceDirection(StrEnum):
    """To what a dataset came from, to what came from it, or both."""

    UP = "up"
    DOWN = "down"
    BOTH = "both"


class ProvenanceKind(StrEnum):
    """What a node of the graph is."""

    DATASET = "Dataset"
    RUN = "Run"
    PROCEDURE = "Procedure"
    SUBJECT = "Subject"
    CALIBRATION_REVISION = "CalibrationRevision"


class ProvenanceRelation(StrEnum):
    """How two nodes are related, in the words of PROV."""

    WAS_DERIVED_FROM = "wasDerivedFrom"
    WAS_GENERATED_BY = "wasGeneratedBy"
    USED = "used"


class ProvenanceNode(Value):
    """Something on the way, so many steps from the dataset asked about; intent and suspicion only datasets have."""

    id: UUID
    kind: ProvenanceKind
    label: str
    status: str
    intent: DatasetIntent | None = None
    suspect: bool | None = None
    depth: int


class ProvenanceEdge(Value):
    """A relation between two nodes that are both shown."""

    source: UUID = msgspec.field(name="from")
    target: UUID = msgspec.field(name="to")
    relation: ProvenanceRelation


class DatasetProvenance(Value):
    """The graph around a dataset; `truncated` says that there is more, farther away or beyond the most that is shown."""

    root: UUID
    nodes: list[ProvenanceNode]
    edges: list[ProvenanceEdge]
    truncated: bool
    hidden_count: int


@datasets.operation("GET /datasets/{dataset_id}/provenance")
class GetDatasetProvenance(Query[DatasetProvenance]):
    """Read what a dataset came from, what came from it, or both."""

    dataset_id: UUID
    direction: ProvenanceDirection = ProvenanceDirection.UP
    depth: ProvenanceDepth = 10

    async def answer(self, world: World) -> DatasetProvenance:
        walk = Walk(world, await world.load(datasets, self.dataset_id), self.depth)
        if self.direction is not ProvenanceDirection.DOWN:
            await walk.up()
        if self.direction is not ProvenanceDirection.UP:
            await walk.down()
        return walk.graph()


class Place(NamedTuple):
    """A node by its name."""

    kind: ProvenanceKind
    id: UUID


class Link(NamedTuple):
    """An edge that a dataset tells of, whether its ends are shown or not."""

    source: Place
    target: Place
    relation: ProvenanceRelation


class Met(NamedTuple):
    """What was found at a place, and whether the caller may read it."""

    place: Place
    label: str
    status: str
    readable: bool
    dataset: Dataset | None = None


class Walk:
    """Goes from level to level, never beyond what the caller may not read."""

    def __init__(self, world: World, root: Dataset, depth: int) -> None:
        self._world = world
        self._root = root
        self._depth = depth
        self._nodes: dict[Place, ProvenanceNode] = {}
        self._hidden: set[Place] = set()
        self._links: set[Link] = set()
        self._truncated = False
        here = Place(ProvenanceKind.DATASET, root.id)
        self._show([Met(here, root.name, root.status, readable=True, dataset=root)], 0)

    async def up(self) -> None:
        """To what each dataset tells that it came from."""
        self._links.update(origins(self._root))
        for depth in range(1, self._depth + 1):
            level = self._ahead()
            if not level:
                return
            met = await found(self._world, level[: self._room])
            self._truncated |= len(level) > self._room
            for dataset in self._show(met, depth):
                self._links.update(origins(dataset))
        self._truncated |= bool(self._ahead())

    async def down(self) -> None:
        """To the datasets that tell that they came from these."""
        level = {self._root.id}
        for depth in range(1, self._depth + 2):
            children = await self._children(level)
            self._truncated |= len(children) > self._room or (depth > self._depth and bool(children))
            if depth > self._depth:
                return
            new = self._show(children[: self._room], depth)
            self._links.update(link for dataset in new for link in derivations(dataset))
            level = {dataset.id for dataset in new}
            if not level:
                return

    def graph(self) -> DatasetProvenance:
        """All that was met, what is nearest to the dataset first."""
        nodes = sorted(self._nodes.values(), key=lambda node: (node.depth, node.kind, node.id))
        order = {node.id: number for number, node in enumerate(nodes)}
        edges = [
            ProvenanceEdge(source=link.source.id, target=link.target.id, relation=link.relation)
            for link in self._links
            if {link.source, link.target} <= self._nodes.keys()
        ]
        return DatasetProvenance(
            root=self._root.id,
            nodes=nodes,
            edges=sorted(edges, key=lambda edge: (order[edge.source], order[edge.target])),
            truncated=self._truncated,
            hidden_count=len(self._hidden),
        )

    @property
    def _room(self) -> int:
        return MOST_NODES - len(self._nodes)

    def _new(self, place: Place) -> bool:
        return place not in self._nodes and place not in self._hidden

    def _ahead(self) -> list[Place]:
        """What the nodes shown so far point to and nobody has met yet."""
        targets = {link.target for link in self._links if link.source in self._nodes}
        return sorted(filter(self._new, targets))

    async def _children(self, ids: Iterable[UUID]) -> list[Met]:
        found = await self._world.look_up("Dataset", derived_from=frozenset(ids), most=MOST_NODES + 1) or ()
        self._truncated |= len(found) > MOST_NODES
        met = readable(self._world, ProvenanceKind.DATASET, found)
        return [each for each in met if self._new(each.place)]

    def _show(self, met: Sequence[Met], depth: int) -> list[Dataset]:
        """Take in what was met; the datasets among it that are shown."""
        for each in met:
            if not each.readable:
                self._hidden.add(each.place)
                continue
            self._nodes[each.place] = ProvenanceNode(
                id=each.place.id,
                kind=each.place.kind,
                label=each.label,
                status=each.status,
                intent=each.dataset and each.dataset.intent,
                suspect=None if each.dataset is None else each.dataset.suspect,
                depth=depth,
            )
        return [each.dataset for each in met if each.readable and each.dataset is not None]


def derivations(dataset: Dataset) -> Iterable[Link]:
    here = Place(ProvenanceKind.DATASET, dataset.id)
    for id in dataset.derived_from:
        parent = Place(ProvenanceKind.DATASET, id)
        yield Link(here, parent, ProvenanceRelation.WAS_DERIVED_FROM)


def origins(dataset: Dataset) -> Iterable[Link]:
    """All that a dataset tells of where it came from; what was used, its first producer used."""
    yield from derivations(dataset)
    here = Place(ProvenanceKind.DATASET, dataset.id)
    producers = [
        Place(kind, id)
        for kind, id in (
            (ProvenanceKind.RUN, dataset.producing_run_id),
            (ProvenanceKind.PROCEDURE, dataset.producing_procedure_id),
        )
        if id is not None
    ]
    for producer in producers:
        yield Link(here, producer, ProvenanceRelation.WAS_GENERATED_BY)
    for producer in producers[:1]:
        if dataset.subject_id is not None:
            subject = Place(ProvenanceKind.SUBJECT, dataset.subject_id)
            yield Link(producer, subject, ProvenanceRelation.USED)
        for id in dataset.used_calibration_ids:
            revision = Place(ProvenanceKind.CALIBRATION_REVISION, id)
            yield Link(producer, revision, ProvenanceRelation.USED)


AGGREGATES: dict[ProvenanceKind, Aggregate[Any, Any]] = {
    ProvenanceKind.DATASET: datasets,
    ProvenanceKind.RUN: runs,
    ProvenanceKind.PROCEDURE: procedures,
    ProvenanceKind.SUBJECT: subjects,
}


async def found(world: World, places: Iterable[Place]) -> list[Met]:
    """What is at some places, read at once for each kind."""
    by_kind: dict[ProvenanceKind, list[UUID]] = {}
    for place in places:
        by_kind.setdefault(place.kind, []).append(place.id)
    met: list[Met] = []
    for kind, ids in by_kind.items():
        if kind is ProvenanceKind.CALIBRATION_REVISION:
            met += await found_revisions(world, frozenset(ids))
        else:
            met += readable(world, kind, await world.look_up(AGGREGATES[kind].name, ids) or ())
    return met


def readable(world: World, kind: ProvenanceKind, states: Iterable[Any]) -> list[Met]:
    """Some objects of one kind, and which of them the caller's single read reaches."""
    aggregate = AGGREGATES[kind]
    reach = world.reach(f"get_{aggregate.snake}")
    return [
        Met(
            Place(kind, state.id),
            state.name,
            state.status,
            reach.holds(aggregate.belongs(state), reading=True),
            state if isinstance(state, Dataset) else None,
        )
        for state in states
    ]


async def found_revisions(world: World, ids: frozenset[UUID]) -> list[Met]:
    """Calibration revisions by the quantity that they are of; each is read with its calibration."""
    known: Iterable[Calibration] = await world.look_up("Calibration", revision_id=ids) or ()
    reach = world.reach("get_calibration")
    return [
        Met(
            Place(ProvenanceKind.CALIBRATION_REVISION, revision.revision_id),
            calibration.quantity,
            revision.status,
            reach.holds(calibrations.belongs(calibration), reading=True),
        )
        for calibration in known
        for revision in calibration.revisions
        if revision.revision_id in ids
    ]
