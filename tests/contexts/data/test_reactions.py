"""How doubt spreads by itself: to every descendant, whatever was registered, cleared or discarded meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.calibration.calibration import CalibrationRevisionWithdrawn
from beamwright.contexts.data.dataset import Dataset, SuspectCause, datasets
from beamwright.contexts.data.dataset_registration import DatasetOrigin, born_with
from beamwright.contexts.data.dataset_suspicion import MarkDatasetSuspect
from beamwright.kernel.errors import ConcurrencyError, DomainError, IdempotencyInProgressError
from beamwright.kernel.event import Event
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import replace
from beamwright.runtime.dataset_reactions import DATASET_REACTIONS
from tests.contexts.calibration.examples import R1
from tests.contexts.calibration.examples import withdrawn as withdrawn_revision
from tests.contexts.data.examples import (
    DEMOTED,
    DISCARDED,
    PROMOTED,
    REGISTERED,
    REPORT,
    cause,
    cleared,
    marked,
)
from tests.rules import OCCASION, given

[PROPAGATOR] = DATASET_REACTIONS
A, B, C, D, E = (UUID(int=n) for n in range(1101, 1106))
AS_REACTOR = replace(OCCASION, principal_kind=ActorKind.SERVICE_ACCOUNT)


class Line:
    """Datasets in memory, found and changed as the service finds and changes them."""

    def __init__(self) -> None:
        self.streams: dict[UUID, list[Any]] = {}
        self.issued: list[Any] = []
        self.troubles: list[DomainError] = []
        self.before_mark: Callable[[UUID], None] = lambda id: None
        self.after_mark: Callable[[UUID], None] = lambda id: None

    def register(self, id: UUID, *parents: UUID, uses: UUID | None = None) -> None:
        """As `register_dataset` does: with what its parents carry now."""
        inherited = tuple(
            born_with(DatasetOrigin(facility_code="aps", parents=tuple(map(self.state, parents))), ())
        )
        used = frozenset({uses} if uses else ())
        event = replace(
            REGISTERED,
            dataset_id=id,
            derived_from=frozenset(parents),
            used_calibration_ids=used,
            suspect_causes=inherited,
        )
        self.streams[id] = [event]

    def happened(self, id: UUID, *events: Any) -> None:
        self.streams[id] += [replace(event, dataset_id=id) for event in events]

    def state(self, id: UUID) -> Dataset:
        return given(datasets, *self.streams[id])

    def causes(self, id: UUID) -> set[SuspectCause]:
        return set(self.state(id).suspect_causes)

    async def load(self, aggregate: Any, id: UUID) -> Dataset:
        return self.state(id)

    async def find(self, aggregate: Any, **filters: Any) -> list[Dataset]:
        found = [self.state(id) for id in self.streams]
        if "used_calibration_id" in filters:
            return [each for each in found if filters["used_calibration_id"] in each.used_calibration_ids]
        return [each for each in found if each.derived_from & filters["derived_from"]]

    async def issue(self, command: Any) -> None:
        self.issued.append(command)
        if self.troubles:
            raise self.troubles.pop(0)
        self.before_mark(command.dataset_id)
        self.streams[command.dataset_id].append(command.decide(self.state(command.dataset_id), AS_REACTOR))
        self.after_mark(command.dataset_id)

    def react(self, event: Event) -> None:
        fake: Any = self
        asyncio.run(PROPAGATOR.handle(event, fake))


@pytest.fixture
def line() -> Line:
    """B is derived from A, C from B, D from both, and E from something else."""
    line = Line()
    line.register(A)
    line.register(B, A)
    line.register(C, B)
    line.register(D, A, C)
    line.register(E)
    return line


@pytest.mark.parametrize(("event", "kind"), [(DEMOTED, "DatasetRetracted"), (DISCARDED, "DatasetDiscarded")])
def test_every_descendant_is_marked_once(line: Line, event: Any, kind: str) -> None:
    line.happened(A, PROMOTED, event)
    line.react(replace(event, dataset_id=A))
    assert [command.dataset_id for command in line.issued] == [B, D, C]
    assert all(line.causes(id) == {cause(kind, A)} for id in (B, C, D))
    assert not line.causes(A) and not line.causes(E)


def test_seeing_an_event_again_changes_nothing(line: Line) -> None:
    line.happened(A, PROMOTED, DEMOTED)
    for _ in range(2):
        line.react(replace(DEMOTED, dataset_id=A))
    assert len(line.streams[B]) == 2


def test_a_discarded_descendant_is_passed_over_but_not_what_is_derived_from_it(line: Line) -> None:
    line.happened(B, DISCARDED)
    line.happened(A, PROMOTED, DEMOTED)
    line.react(replace(DEMOTED, dataset_id=A))
    assert (line.causes(B), line.causes(C)) == (set(), {cause("DatasetRetracted", A)})


def test_a_descendant_that_carries_the_cause_does_not_hide_others(line: Line) -> None:
    line.happened(B, marked(cause("DatasetRetracted", A)))
    line.happened(A, PROMOTED, DEMOTED)
    line.react(replace(DEMOTED, dataset_id=A))
    assert line.causes(C) == {cause("DatasetRetracted", A)}


def test_a_report_reaches_descendants_as_their_ancestors(line: Line) -> None:
    line.happened(A, marked())
    line.react(marked(dataset_id=A))
    assert all(line.causes(id) == {cause("DatasetSuspect", A)} for id in (B, C, D))
    line.happened(A, cleared())
    line.react(cleared(dataset_id=A))
    assert not any(line.causes(id) for id in (B, C, D))


@pytest.mark.parametrize("event", [marked, cleared])
def test_other_causes_do_not_spread_by_themselves(line: Line, event: Any) -> None:
    line.happened(A, marked(cause("DatasetSuspect", E)))
    line.react(event(cause("DatasetSuspect", E), A))
    assert line.issued == []


def test_a_report_that_was_cleared_before_its_turn_is_not_spread(line: Line) -> None:
    line.happened(A, marked(), cleared())
    line.react(cleared(dataset_id=A))
    line.react(marked(dataset_id=A))
    assert not any(line.causes(id) for id in (B, C, D))


def test_a_report_that_was_made_again_is_not_cleared_below(line: Line) -> None:
    line.happened(A, marked(), cleared(), marked())
    line.react(marked(dataset_id=A))
    line.react(cleared(dataset_id=A))
    assert line.causes(A) == {REPORT} and line.causes(C) == {cause("DatasetSuspect", A)}


def withdrawn() -> CalibrationRevisionWithdrawn:
    return withdrawn_revision(R1)


def test_a_withdrawn_revision_reaches_its_users_and_what_is_derived_from_them(line: Line) -> None:
    line.register(UUID(int=1), uses=R1)
    line.register(UUID(int=2), UUID(int=1), uses=R1)
    line.register(UUID(int=3), UUID(int=2))
    line.react(withdrawn())
    expected = {cause("CalibrationRevisionWithdrawn", R1)}
    assert all(line.causes(UUID(int=n)) == expected for n in (1, 2, 3)) and not line.causes(A)


@pytest.mark.parametrize("trouble", [ConcurrencyError("again"), IdempotencyInProgressError("wait")])
def test_a_lost_race_is_left_to_another_attempt(line: Line, trouble: DomainError) -> None:
    line.happened(A, PROMOTED, DEMOTED)
    line.troubles = [trouble]
    with pytest.raises(type(trouble)):
        line.react(replace(DEMOTED, dataset_id=A))
    line.react(replace(DEMOTED, dataset_id=A))
    assert all(line.causes(id) == {cause("DatasetRetracted", A)} for id in (B, C, D))


def test_what_is_registered_before_its_parent_is_marked_is_found(line: Line) -> None:
    def child(id: UUID) -> None:
        if id == C:
            line.register(UUID(int=9), C)

    line.before_mark = child
    line.happened(A, PROMOTED, DEMOTED)
    line.react(replace(DEMOTED, dataset_id=A))
    assert line.causes(UUID(int=9)) == {cause("DatasetRetracted", A)}


def test_what_is_registered_after_its_parent_was_marked_has_inherited(line: Line) -> None:
    def child(id: UUID) -> None:
        if id == B:
            line.register(UUID(int=9), B)

    line.after_mark = child
    line.happened(A, PROMOTED, DEMOTED)
    line.react(replace(DEMOTED, dataset_id=A))
    assert len(line.streams[UUID(int=9)]) == 1
    assert line.causes(UUID(int=9)) == {cause("DatasetRetracted", A)}


def test_what_inherits_while_its_parent_is_cleared_is_cleared_too(line: Line) -> None:
    line.happened(A, marked())
    line.react(marked(dataset_id=A))
    line.happened(A, cleared())
    line.register(UUID(int=9), B)
    line.react(cleared(dataset_id=A))
    assert line.causes(UUID(int=9)) == set()


def test_a_mark_says_what_happened(line: Line) -> None:
    line.happened(A, DISCARDED)
    line.react(replace(DISCARDED, dataset_id=A))
    [first, *_] = line.issued
    assert isinstance(first, MarkDatasetSuspect) and first.reason == f"Dataset {A} was discarded."
