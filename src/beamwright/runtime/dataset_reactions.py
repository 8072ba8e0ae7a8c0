"""What becomes suspect by itself: all that is derived from a dataset, or used a calibration revision, that failed."""

from collections.abc import Awaitable, Callable, Iterable
from uuid import UUID

from beamwright.contexts.calibration.calibration import CalibrationRevisionWithdrawn
from beamwright.contexts.data.dataset import (
    DatasetCannotClearSuspicionError,
    DatasetCannotMarkSuspectError,
    DatasetDemoted,
    DatasetDiscarded,
    DatasetMarkedSuspect,
    DatasetSuspicionCleared,
    SuspectCause,
    SuspectCauseKind,
    datasets,
)
from beamwright.contexts.data.dataset_suspicion import (
    ClearDatasetSuspicion,
    DatasetAlreadySuspectError,
    MarkDatasetSuspect,
)

from .reactions import Reacting, Reaction

REPORT = SuspectCause(kind=SuspectCauseKind.OPERATOR_REPORT)


async def retracted(event: DatasetDemoted | DatasetDiscarded, at: Reacting) -> None:
    """Mark whatever is derived from a dataset that was retracted or discarded."""
    if isinstance(event, DatasetDemoted):
        kind, what = SuspectCauseKind.DATASET_RETRACTED, "retracted"
    else:
        kind, what = SuspectCauseKind.DATASET_DISCARDED, "discarded"
    cause = SuspectCause(kind=kind, id=event.dataset_id)
    await below(at, [event.dataset_id], marking(at, cause, f"Dataset {event.dataset_id} was {what}."))


async def reported(event: DatasetMarkedSuspect | DatasetSuspicionCleared, at: Reacting) -> None:
    """Let whatever is derived from a dataset follow a report on it, as long as the report stands or is withdrawn.

    An event that had to wait may come after a later one; what the dataset says today decides.
    """
    if event.cause != REPORT:
        return
    dataset = await at.load(datasets, event.dataset_id)
    stands = dataset is not None and REPORT in dataset.suspect_causes
    cause = SuspectCause(kind=SuspectCauseKind.DATASET_SUSPECT, id=event.dataset_id)
    if isinstance(event, DatasetMarkedSuspect) and stands:
        await below(at, [event.dataset_id], marking(at, cause, f"Dataset {event.dataset_id} is suspect."))
    elif isinstance(event, DatasetSuspicionCleared) and not stands:
        reason = f"Dataset {event.dataset_id} is not suspect any more."
        await below(at, [event.dataset_id], clearing(at, cause, reason))


async def withdrawn(event: CalibrationRevisionWithdrawn, at: Reacting) -> None:
    """Mark every dataset that used a withdrawn revision, and whatever is derived from it."""
    cause = SuspectCause(kind=SuspectCauseKind.CALIBRATION_REVISION_WITHDRAWN, id=event.revision_id)
    mark = marking(at, cause, f"Calibration revision {event.revision_id} was withdrawn.")
    users = sorted(user.id for user in await at.find(datasets, used_calibration_id=event.revision_id))
    for user in users:
        await mark(user)
    await below(at, users, mark)


type Change = Callable[[UUID], Awaitable[None]]


async def below(at: Reacting, ids: Iterable[UUID], change: Change) -> None:
    """Change all that is derived from some datasets, each before what is derived from it is searched.

    So one that is registered meanwhile has inherited the change from its parents, or is found.
    """
    met = level = frozenset(ids)
    while level:
        children = await at.find(datasets, derived_from=level)
        level = frozenset(child.id for child in children) - met
        met |= level
        for id in sorted(level):
            await change(id)


def marking(at: Reacting, cause: SuspectCause, reason: str) -> Change:
    async def mark(id: UUID) -> None:
        command = MarkDatasetSuspect(dataset_id=id, cause_kind=cause.kind, cause_id=cause.id, reason=reason)
        try:
            await at.issue(command)
        except (DatasetAlreadySuspectError, DatasetCannotMarkSuspectError):
            return

    return mark


def clearing(at: Reacting, cause: SuspectCause, reason: str) -> Change:
    async def clear(id: UUID) -> None:
        command = ClearDatasetSuspicion(
            dataset_id=id, cause_kind=cause.kind, cause_id=cause.id, reason=reason
        )
        try:
            await at.issue(command)
        except DatasetCannotClearSuspicionError:
            return

    return clear


async def propagate(
    event: DatasetDemoted
    | DatasetDiscarded
    | DatasetMarkedSuspect
    | DatasetSuspicionCleared
    | CalibrationRevisionWithdrawn,
    at: Reacting,
) -> None:
    match event:
        case DatasetDemoted() | DatasetDiscarded():
            await retracted(event, at)
        case DatasetMarkedSuspect() | DatasetSuspicionCleared():
            await reported(event, at)
        case CalibrationRevisionWithdrawn():
            await withdrawn(event, at)


DATASET_REACTIONS = (
    Reaction(
        name="retraction_propagator",
        events=frozenset(
            {
                DatasetDemoted,
                DatasetDiscarded,
                DatasetMarkedSuspect,
                DatasetSuspicionCleared,
                CalibrationRevisionWithdrawn,
            }
        ),
        handle=propagate,
    ),
)
