"""Dataset: its two grids, what doubts it carries, and where it belongs."""

from beamwright.contexts.data.dataset import Dataset, datasets
from beamwright.contexts.data.dataset_moves import (
    DatasetAndSources,
    DemoteDataset,
    DiscardDataset,
    PromoteDataset,
)
from beamwright.contexts.data.dataset_registration import DescribeDataset
from beamwright.contexts.data.dataset_suspicion import ClearDatasetSuspicion, MarkDatasetSuspect
from tests.contexts.data.examples import (
    DATASET,
    INTENTS,
    OTHER,
    PARENT,
    PROMOTED,
    REGISTERED,
    REPORT,
    STATUSES,
    VISIT,
    cause,
    cleared,
    dataset,
    marked,
)
from tests.grids import check_grid
from tests.rules import PRINCIPAL

DISCARDS = {"discard": DiscardDataset(dataset_id=DATASET, reason="old")}
DEMOTES = {"demote": DemoteDataset(dataset_id=DATASET, reason="wrong")}
PROMOTES = {"promote": PromoteDataset(dataset_id=DATASET, reason="good")}


def status(state: Dataset) -> str:
    return state.status


def intent(state: Dataset) -> str:
    return state.intent


def alone(state: Dataset) -> DatasetAndSources:
    return DatasetAndSources(dataset=state)


def test_status_grid() -> None:
    check_grid(
        """
                    describe    mark-suspect  discard    demote
        Registered  Registered  Registered    Discarded  Registered
        Discarded   -           -             -          Discarded
        """,
        datasets,
        status=status,
        # Whether it is kept makes no difference to a retraction.
        reach={name: [REGISTERED, PROMOTED, *events[1:]] for name, events in STATUSES.items()},
        verbs=DISCARDS
        | DEMOTES
        | {
            "describe": DescribeDataset(dataset_id=DATASET, name="Scan 8"),
            "mark-suspect": MarkDatasetSuspect(dataset_id=DATASET, cause_kind=REPORT.kind, reason="r"),
        },
    )


def test_status_grid_of_clearing() -> None:
    check_grid(
        """
                    clear-suspicion
        Registered  Registered
        Discarded   -
        """,
        datasets,
        status=status,
        reach={name: [REGISTERED, marked(), *events[1:]] for name, events in STATUSES.items()},
        verbs={
            "clear-suspicion": ClearDatasetSuspicion(dataset_id=DATASET, cause_kind=REPORT.kind, reason="r")
        },
    )


def test_status_grid_of_promoting() -> None:
    check_grid(
        """
                    promote
        Registered  Registered
        Discarded   -
        """,
        datasets,
        status=status,
        reach=STATUSES,
        verbs=PROMOTES,
        seen=alone,
    )


def test_intent_grid() -> None:
    check_grid(
        """
                    demote     discard
        Trial       -          Trial
        Production  Retracted  Production
        Retracted   -          Retracted
        """,
        datasets,
        status=intent,
        reach=INTENTS,
        verbs=DEMOTES | DISCARDS,
    )


def test_intent_grid_of_promoting() -> None:
    check_grid(
        """
                    promote
        Trial       Production
        Production  -
        Retracted   -
        """,
        datasets,
        status=intent,
        reach=INTENTS,
        verbs=PROMOTES,
        seen=alone,
    )


def test_causes_are_kept_in_order_and_once() -> None:
    retracted, discarded = cause("DatasetRetracted", PARENT), cause("DatasetDiscarded", OTHER)
    suspect = dataset(marked(), marked(retracted), marked(discarded), marked())
    assert suspect.suspect_causes == (discarded, retracted, REPORT) and suspect.suspect


def test_a_dataset_is_suspect_until_the_last_cause_is_cleared() -> None:
    retracted = cause("DatasetRetracted", PARENT)
    one_left = dataset(marked(), marked(retracted), cleared(retracted))
    assert (one_left.suspect_causes, one_left.suspect) == ((REPORT,), True)
    assert not dataset(marked(), cleared()).suspect


def test_a_dataset_belongs_to_its_facility_visit_and_creator() -> None:
    belonging = datasets.belongs(dataset(visit_id=VISIT))
    assert (belonging.facility_code, belonging.visit_ids, belonging.owner_id) == ("aps", {VISIT}, PRINCIPAL)
    assert datasets.belongs(dataset()).visit_ids == frozenset()


def test_a_dataset_is_found_by_its_words() -> None:
    told = dataset(description="Cracks.", keywords=frozenset({"steel", "fatigue"}))
    assert told.words == "Scan 7 Cracks. fatigue steel"
