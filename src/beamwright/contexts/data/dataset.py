"""Dataset: one data product: what it is, how to verify it, what made it, and how far it is trusted."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.run.values import ActuationKind
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.compute import Checksum
from beamwright.kernel.errors import (
    CannotTransitionError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.observing import TriggerSource
from beamwright.kernel.operation import Command, World
from beamwright.kernel.value import Time, Value, replace

from .values import ByteSize, Encoding

type DatasetDescription = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 5000})]
type DatasetKeyword = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 100})]


class DatasetStatus(StrEnum):
    """Whether the record still stands for data that are kept."""

    REGISTERED = "Registered"
    DISCARDED = "Discarded"


class DatasetIntent(StrEnum):
    """How far a dataset is meant to be relied on, whatever became of its bytes."""

    TRIAL = "Trial"
    PRODUCTION = "Production"
    RETRACTED = "Retracted"


class DatasetRole(StrEnum):
    """What a dataset is good for."""

    MEASUREMENT = "Measurement"
    DARK = "Dark"
    FLAT = "Flat"
    REFERENCE = "Reference"
    CALIBRATION = "Calibration"
    PROCESSED = "Processed"
    SIMULATED = "Simulated"
    AUXILIARY = "Auxiliary"


class SuspectCauseKind(StrEnum):
    """Why a dataset is suspect: something that it came from, or somebody's word."""

    DATASET_RETRACTED = "DatasetRetracted"
    DATASET_DISCARDED = "DatasetDiscarded"
    DATASET_SUSPECT = "DatasetSuspect"
    CALIBRATION_REVISION_WITHDRAWN = "CalibrationRevisionWithdrawn"
    OPERATOR_REPORT = "OperatorReport"


class DatasetNotFoundError(NotFoundError):
    """There is no such dataset."""


class InvalidDatasetReasonError(InvalidError):
    """The reason is blank or too long."""


class DatasetCannotDescribeError(CannotTransitionError):
    """A discarded dataset is not described any more."""


class DatasetCannotPromoteError(CannotTransitionError):
    """Only a trial dataset that is not discarded is promoted."""


class DatasetCannotDemoteError(CannotTransitionError):
    """Only a production dataset is demoted."""


class DatasetCannotDiscardError(CannotTransitionError):
    """The dataset is discarded already."""


class DatasetCannotMarkSuspectError(CannotTransitionError):
    """A discarded dataset is not marked any more."""


class DatasetCannotClearSuspicionError(CannotTransitionError):
    """The dataset does not carry this cause, or is discarded."""


class SuspectCause(Value):
    """One cause of suspicion: the ancestor or calibration revision it comes from, or nobody's but a person's word."""

    kind: SuspectCauseKind
    id: UUID | None = None


class DatasetFact(Event):
    dataset_id: UUID


class DatasetRegistered(DatasetFact):
    name: str
    description: str | None
    keywords: frozenset[str]
    role: DatasetRole
    uri: str
    checksum: Checksum
    encoding: Encoding
    byte_size: int
    file_count: int
    facility_code: str
    visit_id: UUID | None
    producing_run_id: UUID | None
    producing_procedure_id: UUID | None
    subject_id: UUID | None
    derived_from: frozenset[UUID]
    used_calibration_ids: frozenset[UUID]
    license: str | None
    suspect_causes: tuple[SuspectCause, ...]
    registered_by: UUID


class DatasetDescribed(DatasetFact):
    name: str
    description: str | None
    keywords: frozenset[str]
    role: DatasetRole
    license: str | None
    described_by: UUID


class DatasetPromoted(DatasetFact):
    reason: str
    producing_run_status: str | None
    actuation_kind: ActuationKind | None
    promoted_by: UUID


class DatasetDemoted(DatasetFact):
    reason: str
    demoted_by: UUID


class DatasetDiscarded(DatasetFact):
    reason: str
    discarded_by: UUID


class DatasetMarkedSuspect(DatasetFact):
    cause: SuspectCause
    reason: str
    trigger: TriggerSource
    marked_by: UUID


class DatasetSuspicionCleared(DatasetFact):
    cause: SuspectCause
    reason: str
    cleared_by: UUID


type DatasetEvent = (
    DatasetRegistered
    | DatasetDescribed
    | DatasetPromoted
    | DatasetDemoted
    | DatasetDiscarded
    | DatasetMarkedSuspect
    | DatasetSuspicionCleared
)

REGISTERED, DISCARDED = DatasetStatus
TRIAL, PRODUCTION, RETRACTED = DatasetIntent

STATUS = StateMachine[DatasetStatus](
    {
        DatasetDescribed: move({REGISTERED}, REGISTERED, DatasetCannotDescribeError),
        DatasetPromoted: move({REGISTERED}, REGISTERED, DatasetCannotPromoteError),
        DatasetDiscarded: move({REGISTERED}, DISCARDED, DatasetCannotDiscardError),
        DatasetMarkedSuspect: move({REGISTERED}, REGISTERED, DatasetCannotMarkSuspectError),
        DatasetSuspicionCleared: move({REGISTERED}, REGISTERED, DatasetCannotClearSuspicionError),
    }
)
INTENT = StateMachine[DatasetIntent](
    {
        DatasetPromoted: move({TRIAL}, PRODUCTION, DatasetCannotPromoteError),
        DatasetDemoted: move({PRODUCTION}, RETRACTED, DatasetCannotDemoteError),
    }
)


class Dataset(Value):
    id: UUID
    name: str
    description: str | None
    keywords: frozenset[str]
    role: DatasetRole
    uri: str
    checksum: Checksum
    encoding: Encoding
    byte_size: ByteSize
    file_count: int
    facility_code: str
    visit_id: UUID | None
    producing_run_id: UUID | None
    producing_procedure_id: UUID | None
    subject_id: UUID | None
    derived_from: frozenset[UUID]
    used_calibration_ids: frozenset[UUID]
    license: str | None
    status: DatasetStatus = REGISTERED
    intent: DatasetIntent = TRIAL
    suspect_causes: tuple[SuspectCause, ...]
    registered_at: Time
    registered_by: UUID

    @property
    def suspect(self) -> bool:
        return bool(self.suspect_causes)

    @property
    def words(self) -> str:
        """What the list is searched by."""
        told = (self.name, self.description, *sorted(self.keywords))
        return " ".join(each for each in told if each)


def evolve(dataset: Dataset | None, event: DatasetEvent) -> Dataset:
    match event:
        case DatasetRegistered():
            return registered(event)
        case _ if dataset is None:
            raise ValueError(event)
        case DatasetDescribed():
            return replace(
                dataset,
                name=event.name,
                description=event.description,
                keywords=event.keywords,
                role=event.role,
                license=event.license,
            )
        case DatasetPromoted() | DatasetDemoted():
            return replace(dataset, intent=INTENT.after(event))
        case DatasetDiscarded():
            return replace(dataset, status=STATUS.after(event))
        case DatasetMarkedSuspect():
            return replace(dataset, suspect_causes=in_order({*dataset.suspect_causes, event.cause}))
        case DatasetSuspicionCleared():
            return replace(dataset, suspect_causes=in_order({*dataset.suspect_causes} - {event.cause}))
        case _:
            assert_never(event)


def registered(event: DatasetRegistered) -> Dataset:
    return Dataset(
        id=event.dataset_id,
        name=event.name,
        description=event.description,
        keywords=event.keywords,
        role=event.role,
        uri=event.uri,
        checksum=event.checksum,
        encoding=event.encoding,
        byte_size=event.byte_size,
        file_count=event.file_count,
        facility_code=event.facility_code,
        visit_id=event.visit_id,
        producing_run_id=event.producing_run_id,
        producing_procedure_id=event.producing_procedure_id,
        subject_id=event.subject_id,
        derived_from=event.derived_from,
        used_calibration_ids=event.used_calibration_ids,
        license=event.license,
        suspect_causes=event.suspect_causes,
        registered_at=event.occurred_at,
        registered_by=event.registered_by,
    )


def in_order(causes: Iterable[SuspectCause]) -> tuple[SuspectCause, ...]:
    """Each cause once, by kind and id."""
    return tuple(sorted(set(causes), key=lambda cause: (cause.kind, str(cause.id))))


datasets = Aggregate[Dataset, DatasetEvent](
    "Dataset",
    events=DatasetEvent,
    evolve=evolve,
    missing=DatasetNotFoundError,
    belongs=lambda dataset: Belonging(
        facility_code=dataset.facility_code,
        visit_ids=frozenset() if dataset.visit_id is None else frozenset({dataset.visit_id}),
        owner_id=dataset.registered_by,
    ),
)


class DatasetCommand(Command[Dataset]):
    """A command that sees the dataset it is about and nothing else."""

    dataset_id: UUID

    async def gather(self, world: World) -> Dataset:
        return await world.load(datasets, self.dataset_id)
