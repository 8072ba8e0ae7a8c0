"""Random walks over datasets: doubt reaches exactly those that came from what failed, whatever happens meanwhile."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from beamwright.contexts.data.dataset import (
    DISCARDED,
    RETRACTED,
    Dataset,
    SuspectCause,
    SuspectCauseKind,
    datasets,
)
from beamwright.contexts.data.dataset_moves import DemoteDataset, DiscardDataset, PromoteDataset
from beamwright.contexts.data.dataset_provenance import GetDatasetProvenance, ProvenanceDirection
from beamwright.contexts.data.dataset_registration import DescribeDataset, RegisterDataset
from beamwright.contexts.data.dataset_suspicion import ClearDatasetSuspicion, MarkDatasetSuspect
from beamwright.contexts.data.values import Encoding
from beamwright.kernel.compute import Checksum, ChecksumAlgorithm
from beamwright.runtime.dataset_reactions import DATASET_REACTIONS
from tests.live import Cluster
from tests.runtime.test_projector import drain
from tests.walks import Walk, check_list, folds, step, walk

[PROPAGATOR] = DATASET_REACTIONS
REPORT = SuspectCauseKind.OPERATOR_REPORT
MOVES: Mapping[str, Any] = {
    "promote": lambda id: PromoteDataset(dataset_id=id, reason="walk"),
    "demote": lambda id: DemoteDataset(dataset_id=id, reason="walk"),
    "discard": lambda id: DiscardDataset(dataset_id=id, reason="walk"),
    "describe": lambda id: DescribeDataset(dataset_id=id, keywords=frozenset({"walk"})),
    "report": lambda id: MarkDatasetSuspect(dataset_id=id, cause_kind=REPORT, reason="walk"),
    "clear": lambda id: ClearDatasetSuspicion(dataset_id=id, cause_kind=REPORT, reason="walk"),
}
SOME = st.integers(0, 1023)
PARENTS = st.lists(SOME, min_size=1, max_size=3)
VERBS = st.sampled_from([*MOVES, "demote", "report", "clear"])
# The oldest have the most descendants.
ELDERS = 6


class DatasetWalk(Walk):
    """A family of datasets that grows while its members are promoted, retracted, reported and discarded."""

    listed = (datasets,)

    def __init__(self, cluster: Cluster) -> None:
        self.ids: list[UUID] = []
        super().__init__(cluster)

    async def furnish(self) -> None:
        for _ in range(ELDERS):
            self.ids.append((await self.do(self.born([]))).dataset_id)

    def id(self, number: int) -> UUID:
        return self.ids[number % len(self.ids)]

    def elder(self, number: int, verb: str) -> UUID:
        """One that the verb may well succeed with."""
        id = self.ids[number % ELDERS]
        if verb == "demote":
            self.call(MOVES["promote"](id))
        return id

    def born(self, parents: list[int]) -> RegisterDataset:
        return RegisterDataset(
            name="Scan",
            uri="https://store.example/scan.h5",
            checksum=Checksum(algorithm=ChecksumAlgorithm.SHA256, value="0" * 64),
            byte_size=1,
            encoding=Encoding(media_type="application/x-hdf5"),
            derived_from=frozenset(map(self.id, parents)),
        )

    def known(self, *answers: Any) -> None:
        self.ids += [
            answer.dataset_id for answer in answers if getattr(answer, "events", []) == ["DatasetRegistered"]
        ]

    @step(3, parents=PARENTS)
    def register(self, parents: list[int]) -> None:
        self.known(self.call(self.born(parents)))

    @step(3, dataset=SOME, verb=VERBS)
    def move(self, dataset: int, verb: str) -> None:
        self.call(MOVES[verb](self.elder(dataset, verb)))

    @step(3, dataset=SOME, verb=VERBS, overtaken=st.booleans())
    def register_while_something_moves(self, dataset: int, verb: str, overtaken: bool) -> None:
        id = self.elder(dataset, verb)
        command = self.born([self.ids.index(id)])
        self.known(*self.at_once(command, MOVES[verb](id), overtaken=overtaken))

    @step(3, dataset=SOME, verb=VERBS, parents=st.lists(PARENTS, min_size=8, max_size=8))
    def register_while_doubt_spreads(self, dataset: int, verb: str, parents: list[list[int]]) -> None:
        self.call(MOVES[verb](self.elder(dataset, verb)))
        commands = [self.born(each) for each in parents]

        async def one_after_the_other() -> list[Any]:
            return [await self.attempt(command) for command in commands]

        async def together() -> list[Any]:
            return (await asyncio.gather(self.react(), one_after_the_other()))[1]

        self.known(*self.run(self.followed(together())))

    async def react(self) -> None:
        self.clock.ahead += timedelta(minutes=5)
        while await self.app.reactions.react(PROPAGATOR):
            pass

    async def examine(self) -> None:
        await self.followed(self.react())
        await drain(self.app)
        states = {id: each.state for id, each in (await folds(self.app, datasets)).items()}
        await check_list(self.app, datasets, await folds(self.app, datasets))
        for dataset in states.values():
            above = ancestors(dataset, states)
            if dataset.status is not DISCARDED:
                expected = {cause for each in above.values() for cause in failures(each)}
                told = {cause for cause in dataset.suspect_causes if cause.id is not None}
                assert told == expected, dataset.id
            for direction in (ProvenanceDirection.UP, ProvenanceDirection.DOWN):
                query = GetDatasetProvenance(dataset_id=dataset.id, direction=direction, depth=50)
                graph = await self.do(query)
                up = direction is ProvenanceDirection.UP
                related = above if up else descendants(dataset, states)
                assert {node.id for node in graph.nodes} == {dataset.id, *related} and not graph.truncated


def ancestors(dataset: Dataset, states: Mapping[UUID, Dataset]) -> dict[UUID, Dataset]:
    found: dict[UUID, Dataset] = {}
    waiting = [*dataset.derived_from]
    while waiting:
        id = waiting.pop()
        if id not in found:
            found[id] = states[id]
            waiting += states[id].derived_from
    return found


def descendants(dataset: Dataset, states: Mapping[UUID, Dataset]) -> set[UUID]:
    return {id for id, each in states.items() if dataset.id in ancestors(each, states)}


def failures(dataset: Dataset) -> set[SuspectCause]:
    """What a dataset gives to all that is derived from it."""
    kinds = {
        SuspectCauseKind.DATASET_RETRACTED: dataset.intent is RETRACTED,
        SuspectCauseKind.DATASET_DISCARDED: dataset.status is DISCARDED,
        SuspectCauseKind.DATASET_SUSPECT: SuspectCause(kind=REPORT) in dataset.suspect_causes,
    }
    return {SuspectCause(kind=kind, id=dataset.id) for kind, holds in kinds.items() if holds}


def test_doubt_reaches_exactly_what_came_from_what_failed(cluster: Cluster) -> None:
    walk(DatasetWalk, cluster, examples=3, steps=40)
