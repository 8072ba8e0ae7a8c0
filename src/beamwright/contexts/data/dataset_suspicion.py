"""Doubts about datasets: marked with their cause, and cleared by a person who has looked into them."""

from uuid import UUID

from beamwright.contexts.calibration.calibration_reads import load_revision
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.observing import trigger
from beamwright.kernel.operation import Occasion, World

from .dataset import (
    STATUS,
    Dataset,
    DatasetCannotClearSuspicionError,
    DatasetCommand,
    DatasetMarkedSuspect,
    DatasetSuspicionCleared,
    InvalidDatasetReasonError,
    SuspectCause,
    SuspectCauseKind,
    datasets,
)


class InvalidDatasetSuspicionError(InvalidError):
    """A cause of this kind needs an id, or has none."""


class DatasetAlreadySuspectError(ConflictError):
    """The dataset carries this cause already."""


class SuspicionCommand(DatasetCommand):
    """A command about one cause of suspicion."""

    cause_kind: SuspectCauseKind
    cause_id: UUID | None = None
    reason: text.Reason

    @property
    def cause(self) -> SuspectCause:
        return SuspectCause(kind=self.cause_kind, id=self.cause_id)


@datasets.operation("POST /datasets/{dataset_id}/suspicion/mark")
class MarkDatasetSuspect(SuspicionCommand):
    """Mark a dataset as suspect; until the cause is cleared, it cannot be promoted."""

    async def gather(self, world: World) -> Dataset:
        dataset = await world.load(datasets, self.dataset_id)
        await load_cause(world, self.cause)
        return dataset

    def decide(self, dataset: Dataset, occasion: Occasion) -> DatasetMarkedSuspect:
        check_cause(self.cause)
        reason = text.reason(self.reason, InvalidDatasetReasonError)
        STATUS.check(DatasetMarkedSuspect, dataset.status, dataset.id)
        if self.cause in dataset.suspect_causes:
            raise DatasetAlreadySuspectError(
                f"{dataset.name} is marked with this cause already.",
                dataset_id=str(dataset.id),
                cause_kind=self.cause_kind,
            )
        return DatasetMarkedSuspect(
            dataset_id=dataset.id,
            occurred_at=occasion.now,
            cause=self.cause,
            reason=reason,
            trigger=trigger(occasion.principal_kind),
            marked_by=occasion.principal_id,
        )


@datasets.operation("POST /datasets/{dataset_id}/suspicion/clear")
class ClearDatasetSuspicion(SuspicionCommand):
    """Clear one cause of suspicion, with the reason why the dataset can be trusted all the same."""

    def decide(self, dataset: Dataset, occasion: Occasion) -> DatasetSuspicionCleared:
        reason = text.reason(self.reason, InvalidDatasetReasonError)
        STATUS.check(DatasetSuspicionCleared, dataset.status, dataset.id)
        if self.cause not in dataset.suspect_causes:
            raise DatasetCannotClearSuspicionError(
                f"{dataset.name} does not carry this cause; read suspect_causes and give one of them.",
                dataset_id=str(dataset.id),
                cause_kind=self.cause_kind,
            )
        return DatasetSuspicionCleared(
            dataset_id=dataset.id,
            occurred_at=occasion.now,
            cause=self.cause,
            reason=reason,
            cleared_by=occasion.principal_id,
        )


async def load_cause(world: World, cause: SuspectCause) -> None:
    """Refuse an ancestor or a revision that does not exist within the caller's reach."""
    if cause.id is None or cause.kind is SuspectCauseKind.OPERATOR_REPORT:
        return
    if cause.kind is SuspectCauseKind.CALIBRATION_REVISION_WITHDRAWN:
        await load_revision(world, cause.id)
    else:
        await world.load(datasets, cause.id)


def check_cause(cause: SuspectCause) -> None:
    reported = cause.kind is SuspectCauseKind.OPERATOR_REPORT
    if reported != (cause.id is None):
        what = "has no cause_id" if reported else "names its dataset or calibration revision as cause_id"
        raise InvalidDatasetSuspicionError(f"A cause {cause.kind} {what}.", cause_kind=cause.kind)
