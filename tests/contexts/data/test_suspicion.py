"""Marking datasets suspect and clearing them: which causes there are, and what is refused."""

from uuid import UUID

import pytest

from beamwright.contexts.data.dataset import (
    DatasetCannotClearSuspicionError,
    DatasetCannotMarkSuspectError,
    DatasetMarkedSuspect,
    DatasetSuspicionCleared,
    InvalidDatasetReasonError,
    SuspectCauseKind,
)
from beamwright.contexts.data.dataset_suspicion import (
    ClearDatasetSuspicion,
    DatasetAlreadySuspectError,
    InvalidDatasetSuspicionError,
    MarkDatasetSuspect,
)
from beamwright.kernel.observing import TriggerSource
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import replace
from tests.contexts.data.examples import DATASET, DISCARDED, PARENT, REPORT, cause, dataset, marked
from tests.rules import NOW, OCCASION, PRINCIPAL, outcome

AS_ACCOUNT = replace(OCCASION, principal_kind=ActorKind.SERVICE_ACCOUNT)


def mark(kind: str = "OperatorReport", id: UUID | None = None, reason: str = " doubt ") -> MarkDatasetSuspect:
    return MarkDatasetSuspect(
        dataset_id=DATASET, cause_kind=SuspectCauseKind(kind), cause_id=id, reason=reason
    )


def clear(
    kind: str = "OperatorReport", id: UUID | None = None, reason: str = " checked "
) -> ClearDatasetSuspicion:
    return ClearDatasetSuspicion(
        dataset_id=DATASET, cause_kind=SuspectCauseKind(kind), cause_id=id, reason=reason
    )


def test_a_person_reports_a_doubt() -> None:
    assert outcome(mark(), dataset()) == [
        DatasetMarkedSuspect(
            dataset_id=DATASET,
            occurred_at=NOW,
            cause=REPORT,
            reason="doubt",
            trigger=TriggerSource.OPERATOR,
            marked_by=PRINCIPAL,
        )
    ]


def test_what_the_service_marks_by_itself_says_so() -> None:
    event = mark("DatasetRetracted", PARENT).decide(dataset(), AS_ACCOUNT)
    assert (event.trigger, event.cause) == (TriggerSource.AUTO, cause("DatasetRetracted", PARENT))


@pytest.mark.parametrize("kind", SuspectCauseKind)
def test_every_cause_but_a_report_names_what_it_comes_from(kind: SuspectCauseKind) -> None:
    wrong = PARENT if kind is SuspectCauseKind.OPERATOR_REPORT else None
    right = None if wrong else PARENT
    assert outcome(mark(kind, wrong), dataset()) == InvalidDatasetSuspicionError
    assert not isinstance(outcome(mark(kind, right), dataset()), type)


def test_a_cause_is_marked_once() -> None:
    assert outcome(mark(), dataset(marked())) == DatasetAlreadySuspectError
    other = cause("DatasetSuspect", PARENT)
    assert not isinstance(outcome(mark("DatasetSuspect", DATASET), dataset(marked(other))), type)


def test_refusals_of_a_mark_come_in_the_agreed_order() -> None:
    gone = dataset(marked(), DISCARDED)
    assert outcome(mark(id=PARENT, reason=" "), gone) == InvalidDatasetSuspicionError
    assert outcome(mark(reason=" "), gone) == InvalidDatasetReasonError
    assert outcome(mark(), gone) == DatasetCannotMarkSuspectError


def test_a_cause_is_cleared_with_a_reason() -> None:
    other = cause("DatasetSuspect", PARENT)
    assert outcome(clear("DatasetSuspect", PARENT), dataset(marked(), marked(other))) == [
        DatasetSuspicionCleared(
            dataset_id=DATASET, occurred_at=NOW, cause=other, reason="checked", cleared_by=PRINCIPAL
        )
    ]


@pytest.mark.parametrize("command", [clear(), clear("DatasetRetracted"), clear("DatasetSuspect", DATASET)])
def test_a_cause_that_is_not_there_is_not_cleared(command: ClearDatasetSuspicion) -> None:
    suspect = dataset(marked(cause("DatasetSuspect", PARENT)))
    assert outcome(command, suspect) == DatasetCannotClearSuspicionError


def test_clearing_needs_a_reason_first() -> None:
    assert outcome(clear(reason=" "), dataset(DISCARDED)) == InvalidDatasetReasonError
