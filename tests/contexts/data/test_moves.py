"""Promoting, demoting and discarding: what has to be in order first, and in which order it is asked."""

from typing import Any

import pytest

from beamwright.contexts.data.dataset import (
    Dataset,
    DatasetCannotPromoteError,
    DatasetDemoted,
    DatasetDiscarded,
    DatasetPromoted,
    InvalidDatasetReasonError,
)
from beamwright.contexts.data.dataset_moves import (
    DatasetActuationNotPhysicalError,
    DatasetAndSources,
    DatasetParentNotProductionError,
    DatasetProcedureNotCompletedError,
    DatasetRunNotCompletedError,
    DatasetSuspectError,
    DemoteDataset,
    DiscardDataset,
    PromoteDataset,
)
from beamwright.contexts.operation.procedure import Procedure
from beamwright.contexts.run.run import Run, runs
from beamwright.contexts.run.values import ActuationKind
from beamwright.kernel.value import replace
from tests.contexts.data.examples import (
    DATASET,
    DEMOTED,
    DISCARDED,
    OTHER,
    PARENT,
    PROMOTED,
    cause,
    dataset,
    marked,
)
from tests.contexts.operation.examples import COMPLETED as PROCEDURE_COMPLETED
from tests.contexts.operation.examples import STARTED as PROCEDURE_STARTED
from tests.contexts.operation.examples import procedure
from tests.contexts.run.examples import COMPLETED, REACH, run
from tests.rules import NOW, OCCASION, PRINCIPAL, given, outcome

PROMOTE = PromoteDataset(dataset_id=DATASET, reason=" good ")
PHYSICAL, SIMULATED, HYBRID = ActuationKind


def seen(**fields: Any) -> DatasetAndSources:
    return DatasetAndSources(**{"dataset": dataset()} | fields)


def finished(actuation_kind: ActuationKind | None = PHYSICAL) -> Procedure:
    return replace(procedure(PROCEDURE_STARTED, PROCEDURE_COMPLETED), actuation_kind=actuation_kind)


def completed(actuation_kind: ActuationKind | None = None) -> Run:
    return replace(run(COMPLETED), actuation_kind=actuation_kind)


def parent(*events: Any) -> Dataset:
    return dataset(*(replace(event, dataset_id=PARENT) for event in events), dataset_id=PARENT, name="Raw")


def test_a_dataset_without_a_producer_is_promoted_by_word() -> None:
    assert outcome(PROMOTE, seen()) == [
        DatasetPromoted(
            dataset_id=DATASET,
            occurred_at=NOW,
            reason="good",
            producing_run_status=None,
            actuation_kind=None,
            promoted_by=PRINCIPAL,
        )
    ]


@pytest.mark.parametrize(
    ("sources", "status", "kind"),
    [
        ({"run": completed()}, "Completed", None),
        ({"run": completed(PHYSICAL)}, "Completed", PHYSICAL),
        ({"run": given(runs, *REACH["Stopped"])}, "Stopped", None),
        ({"procedure": finished()}, None, PHYSICAL),
        ({"run": completed(), "procedure": finished()}, "Completed", PHYSICAL),
    ],
)
def test_a_promotion_tells_how_the_producer_ended(
    sources: dict[str, Any], status: str | None, kind: ActuationKind | None
) -> None:
    event = PROMOTE.decide(seen(**sources), OCCASION)
    assert (event.producing_run_status, event.actuation_kind) == (status, kind)


@pytest.mark.parametrize("status", ["Running", "Held", "Aborted", "Truncated"])
def test_the_run_ended_in_good_order(status: str) -> None:
    assert outcome(PROMOTE, seen(run=given(runs, *REACH[status]))) == DatasetRunNotCompletedError


def test_the_procedure_is_completed() -> None:
    started = replace(procedure(PROCEDURE_STARTED), actuation_kind=PHYSICAL)
    assert outcome(PROMOTE, seen(procedure=started)) == DatasetProcedureNotCompletedError


@pytest.mark.parametrize(
    "sources",
    [
        {"run": completed(SIMULATED)},
        {"run": completed(HYBRID)},
        {"procedure": finished(SIMULATED)},
        {"procedure": finished(HYBRID)},
        {"procedure": finished(None)},
        {"run": completed(PHYSICAL), "procedure": finished(None)},
        {"run": completed(PHYSICAL), "procedure": finished(SIMULATED)},
    ],
)
def test_what_was_simulated_or_is_not_known_is_not_promoted(sources: dict[str, Any]) -> None:
    assert outcome(PROMOTE, seen(**sources)) == DatasetActuationNotPhysicalError


def test_a_suspect_dataset_is_not_promoted() -> None:
    doubtful = dataset(marked(cause("DatasetRetracted", PARENT)), marked())
    with pytest.raises(DatasetSuspectError) as refused:
        PROMOTE.decide(seen(dataset=doubtful), OCCASION)
    assert refused.value.context["causes"] == [
        {"kind": "DatasetRetracted", "id": str(PARENT)},
        {"kind": "OperatorReport", "id": None},
    ]
    assert f"DatasetRetracted {PARENT}, OperatorReport." in refused.value.detail


def test_every_parent_that_is_not_in_production_is_listed() -> None:
    retracted = parent(PROMOTED, DEMOTED, DISCARDED)
    parents = (retracted, dataset(dataset_id=OTHER), dataset(PROMOTED))
    with pytest.raises(DatasetParentNotProductionError) as refused:
        PROMOTE.decide(seen(parents=parents), OCCASION)
    assert refused.value.context["parents"] == [
        {"dataset_id": str(PARENT), "intent": "Retracted", "status": "Discarded"},
        {"dataset_id": str(OTHER), "intent": "Trial", "status": "Registered"},
    ]


def test_a_discarded_parent_that_was_in_production_does_not_stand_in_the_way() -> None:
    event = PROMOTE.decide(seen(parents=(parent(PROMOTED, DISCARDED),)), OCCASION)
    assert event.dataset_id == DATASET


def test_refusals_come_in_the_agreed_order() -> None:
    everything = seen(
        dataset=dataset(marked(), PROMOTED),
        run=run(),
        procedure=replace(procedure(), actuation_kind=SIMULATED),
        parents=(parent(),),
    )
    on_trial = replace(everything, dataset=dataset(marked()))
    trusted = replace(everything, dataset=dataset())
    ended = replace(trusted, run=completed())
    over = replace(ended, procedure=finished(SIMULATED))
    real = replace(over, procedure=finished())
    assert outcome(replace(PROMOTE, reason=" "), everything) == InvalidDatasetReasonError
    assert outcome(PROMOTE, everything) == DatasetCannotPromoteError
    assert outcome(PROMOTE, on_trial) == DatasetSuspectError
    assert outcome(PROMOTE, trusted) == DatasetRunNotCompletedError
    assert outcome(PROMOTE, ended) == DatasetProcedureNotCompletedError
    assert outcome(PROMOTE, over) == DatasetActuationNotPhysicalError
    assert outcome(PROMOTE, real) == DatasetParentNotProductionError


def test_demoting_and_discarding_keep_their_reasons() -> None:
    demote, discard = (
        DemoteDataset(dataset_id=DATASET, reason=" wrong "),
        DiscardDataset(dataset_id=DATASET, reason=" old "),
    )
    assert outcome(demote, dataset(PROMOTED)) == [
        DatasetDemoted(dataset_id=DATASET, occurred_at=NOW, reason="wrong", demoted_by=PRINCIPAL)
    ]
    assert outcome(discard, dataset()) == [
        DatasetDiscarded(dataset_id=DATASET, occurred_at=NOW, reason="old", discarded_by=PRINCIPAL)
    ]


@pytest.mark.parametrize("reason", [" ", "x" * 501])
def test_every_move_needs_a_reason(reason: str) -> None:
    for command in (DemoteDataset, DiscardDataset):
        assert outcome(command(dataset_id=DATASET, reason=reason), dataset(DISCARDED)) == (
            InvalidDatasetReasonError
        )
