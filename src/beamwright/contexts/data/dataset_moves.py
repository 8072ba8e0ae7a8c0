"""How far a dataset is trusted: promoted for production, retracted again, and discarded."""

from collections.abc import Sequence
from uuid import UUID

from beamwright.contexts.operation.procedure import Procedure, ProcedureStatus
from beamwright.contexts.run.run import Run, RunStatus, runs
from beamwright.contexts.run.values import ActuationKind, merged_actuation
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .dataset import (
    INTENT,
    PRODUCTION,
    STATUS,
    Dataset,
    DatasetCommand,
    DatasetDemoted,
    DatasetDiscarded,
    DatasetPromoted,
    InvalidDatasetReasonError,
    datasets,
)
from .dataset_registration import load_procedure

# How a run ended whose data are valid.
SOUND = frozenset({RunStatus.COMPLETED, RunStatus.STOPPED})


class DatasetSuspectError(ConflictError):
    """Something that the dataset came from, or the dataset itself, is in doubt."""


class DatasetRunNotCompletedError(ConflictError):
    """The producing run has not completed, nor was it stopped in good order."""


class DatasetProcedureNotCompletedError(ConflictError):
    """The producing procedure has not completed."""


class DatasetActuationNotPhysicalError(ConflictError):
    """What produced the dataset was simulated, in part at least, or nobody knows."""


class DatasetParentNotProductionError(ConflictError):
    """The dataset is derived from others that are not in production."""


class DatasetAndSources(Value):
    """A dataset with what made it and what it is derived from, as they are now."""

    dataset: Dataset
    run: Run | None = None
    procedure: Procedure | None = None
    parents: tuple[Dataset, ...] = ()

    @property
    def actuation_kind(self) -> ActuationKind | None:
        producers = (self.run, self.procedure)
        return merged_actuation(*(each.actuation_kind for each in producers if each is not None))


@datasets.operation("POST /datasets/{dataset_id}/promote")
class PromoteDataset(Command[DatasetAndSources]):
    """Promote a trial dataset to production: what made it is sound, and all it is derived from is in production."""

    dataset_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> DatasetAndSources:
        dataset = await world.load(datasets, self.dataset_id)
        run_id = dataset.producing_run_id
        return DatasetAndSources(
            dataset=dataset,
            run=None if run_id is None else await world.load(runs, run_id),
            procedure=await load_procedure(world, dataset.producing_procedure_id),
            parents=tuple(await world.load_all(datasets, sorted(dataset.derived_from))),
        )

    def decide(self, seen: DatasetAndSources, occasion: Occasion) -> DatasetPromoted:
        dataset, reason = seen.dataset, text.reason(self.reason, InvalidDatasetReasonError)
        STATUS.check(DatasetPromoted, dataset.status, dataset.id)
        INTENT.check(DatasetPromoted, dataset.intent, dataset.id)
        check_not_suspect(dataset)
        check_ended_well(seen)
        check_physical(seen)
        check_parents_in_production(seen.parents)
        return DatasetPromoted(
            dataset_id=dataset.id,
            occurred_at=occasion.now,
            reason=reason,
            producing_run_status=seen.run and seen.run.status,
            actuation_kind=seen.actuation_kind,
            promoted_by=occasion.principal_id,
        )


@datasets.operation("POST /datasets/{dataset_id}/demote")
class DemoteDataset(DatasetCommand):
    """Retract a dataset that is in production; whatever is derived from it becomes suspect by itself."""

    reason: text.Reason

    def decide(self, dataset: Dataset, occasion: Occasion) -> DatasetDemoted:
        reason = text.reason(self.reason, InvalidDatasetReasonError)
        INTENT.check(DatasetDemoted, dataset.intent, dataset.id)
        return DatasetDemoted(
            dataset_id=dataset.id,
            occurred_at=occasion.now,
            reason=reason,
            demoted_by=occasion.principal_id,
        )


@datasets.operation("POST /datasets/{dataset_id}/discard")
class DiscardDataset(DatasetCommand):
    """Record that a dataset is not kept any more, for good; whatever is derived from it becomes suspect by itself."""

    reason: text.Reason

    def decide(self, dataset: Dataset, occasion: Occasion) -> DatasetDiscarded:
        reason = text.reason(self.reason, InvalidDatasetReasonError)
        STATUS.check(DatasetDiscarded, dataset.status, dataset.id)
        return DatasetDiscarded(
            dataset_id=dataset.id,
            occurred_at=occasion.now,
            reason=reason,
            discarded_by=occasion.principal_id,
        )


def check_not_suspect(dataset: Dataset) -> None:
    """Gate: a person has looked at every doubt."""
    if dataset.suspect:
        causes = [
            {"kind": cause.kind, "id": None if cause.id is None else str(cause.id)}
            for cause in dataset.suspect_causes
        ]
        told = ", ".join(f"{cause['kind']} {cause['id'] or ''}".strip() for cause in causes)
        raise DatasetSuspectError(
            f"{dataset.name} is suspect: {told}. Look into it, and clear each cause with a reason first.",
            dataset_id=str(dataset.id),
            causes=causes,
        )


def check_ended_well(seen: DatasetAndSources) -> None:
    """Gate: what made the dataset is over, and ended in good order."""
    run, procedure = seen.run, seen.procedure
    if run is not None and run.status not in SOUND:
        raise DatasetRunNotCompletedError(
            f"{run.name} is {run.status}; only data of a run that is Completed or Stopped are promoted.",
            run_id=str(run.id),
            status=run.status,
        )
    if procedure is not None and procedure.status is not ProcedureStatus.COMPLETED:
        raise DatasetProcedureNotCompletedError(
            f"{procedure.name} is {procedure.status}; only data of a Completed procedure are promoted.",
            procedure_id=str(procedure.id),
            status=procedure.status,
        )


def check_physical(seen: DatasetAndSources) -> None:
    """Gate: production data come from real equipment; of a procedure that must be known."""
    unknown = seen.procedure is not None and seen.procedure.actuation_kind is None
    if unknown or seen.actuation_kind not in (None, ActuationKind.PHYSICAL):
        told = "unknown" if unknown else str(seen.actuation_kind)
        raise DatasetActuationNotPhysicalError(
            f"How {seen.dataset.name} was produced is {told}; only what is Physical is promoted.",
            dataset_id=str(seen.dataset.id),
            actuation_kind=None if unknown else seen.actuation_kind,
        )


def check_parents_in_production(parents: Sequence[Dataset]) -> None:
    """Gate: nothing is more trusted than what it is derived from."""
    if others := [parent for parent in parents if parent.intent is not PRODUCTION]:
        told = ", ".join(f"{parent.name} ({parent.id}) is {parent.intent}" for parent in others[:5])
        raise DatasetParentNotProductionError(
            f"Promote what it is derived from first, or register it anew from other data: {told}.",
            parents=[
                {"dataset_id": str(parent.id), "intent": parent.intent, "status": parent.status}
                for parent in others
            ],
        )
