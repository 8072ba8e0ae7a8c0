"""What the tests of datasets share: one dataset, how far it can be trusted, and what it came from."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from beamwright.contexts.data.dataset import (
    Dataset,
    DatasetDemoted,
    DatasetDiscarded,
    DatasetMarkedSuspect,
    DatasetPromoted,
    DatasetRegistered,
    DatasetRole,
    DatasetSuspicionCleared,
    SuspectCause,
    SuspectCauseKind,
    datasets,
)
from beamwright.contexts.data.values import Encoding
from beamwright.kernel.compute import Checksum, ChecksumAlgorithm
from beamwright.kernel.event import Event
from beamwright.kernel.observing import TriggerSource
from beamwright.kernel.value import replace
from tests.rules import NOW, PRINCIPAL, given

DATASET, PARENT, OTHER, VISIT = (UUID(int=n) for n in range(1001, 1005))
SHA256 = Checksum(algorithm=ChecksumAlgorithm.SHA256, value="0a" * 32)
HDF5 = Encoding(media_type="application/x-hdf5")

REGISTERED = DatasetRegistered(
    dataset_id=DATASET,
    occurred_at=NOW,
    name="Scan 7",
    description=None,
    keywords=frozenset(),
    role=DatasetRole.MEASUREMENT,
    uri="https://store.example/scan-7.h5",
    checksum=SHA256,
    encoding=HDF5,
    byte_size=1024,
    file_count=1,
    facility_code="aps",
    visit_id=None,
    producing_run_id=None,
    producing_procedure_id=None,
    subject_id=None,
    derived_from=frozenset(),
    used_calibration_ids=frozenset(),
    license=None,
    suspect_causes=(),
    registered_by=PRINCIPAL,
)
PROMOTED = DatasetPromoted(
    dataset_id=DATASET,
    occurred_at=NOW,
    reason="good",
    producing_run_status=None,
    actuation_kind=None,
    promoted_by=PRINCIPAL,
)
DEMOTED = DatasetDemoted(dataset_id=DATASET, occurred_at=NOW, reason="wrong", demoted_by=PRINCIPAL)
DISCARDED = DatasetDiscarded(dataset_id=DATASET, occurred_at=NOW, reason="old", discarded_by=PRINCIPAL)
REPORT = SuspectCause(kind=SuspectCauseKind.OPERATOR_REPORT)

STATUSES: Mapping[str, Sequence[Event]] = {"Registered": [REGISTERED], "Discarded": [REGISTERED, DISCARDED]}
INTENTS: Mapping[str, Sequence[Event]] = {
    "Trial": [REGISTERED],
    "Production": [REGISTERED, PROMOTED],
    "Retracted": [REGISTERED, PROMOTED, DEMOTED],
}


def dataset(*events: Event, **changes: Any) -> Dataset:
    """The dataset after `events`, with other first facts where told."""
    return given(datasets, replace(REGISTERED, **changes), *events)


def cause(kind: str, id: UUID | None = None) -> SuspectCause:
    return SuspectCause(kind=SuspectCauseKind(kind), id=id)


def marked(cause: SuspectCause = REPORT, dataset_id: UUID = DATASET) -> DatasetMarkedSuspect:
    return DatasetMarkedSuspect(
        dataset_id=dataset_id,
        occurred_at=NOW,
        cause=cause,
        reason="doubt",
        trigger=TriggerSource.OPERATOR,
        marked_by=PRINCIPAL,
    )


def cleared(cause: SuspectCause = REPORT, dataset_id: UUID = DATASET) -> DatasetSuspicionCleared:
    return DatasetSuspicionCleared(
        dataset_id=dataset_id, occurred_at=NOW, cause=cause, reason="checked", cleared_by=PRINCIPAL
    )
