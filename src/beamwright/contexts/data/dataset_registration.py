"""Registering datasets with what they came from, and describing them."""

from collections.abc import Collection, Iterable
from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from beamwright.contexts.calibration.calibration import (
    Calibration,
    CalibrationRevisionStatus,
    calibrations,
)
from beamwright.contexts.federation.coverage import load_facility
from beamwright.contexts.federation.facility import FacilityCode
from beamwright.contexts.operation.procedure import Procedure, procedures
from beamwright.contexts.run.run import Run, runs
from beamwright.contexts.subject.citation import License, checked_license
from beamwright.contexts.subject.subject import subjects
from beamwright.contexts.trust.visit import visits
from beamwright.kernel import text
from beamwright.kernel.compute import Checksum, ChecksumAlgorithm
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, patched

from .dataset import (
    DISCARDED,
    RETRACTED,
    STATUS,
    Dataset,
    DatasetCommand,
    DatasetDescribed,
    DatasetDescription,
    DatasetKeyword,
    DatasetRegistered,
    DatasetRole,
    SuspectCause,
    SuspectCauseKind,
    datasets,
    in_order,
)
from .values import (
    MOST_BYTES,
    MOST_FILES,
    ByteSize,
    DataUri,
    Encoding,
    FileCount,
    checked_checksum,
    checked_encoding,
    checked_uri,
)

MOST_KEYWORDS = 32
MOST_PARENTS = 256
MOST_CALIBRATIONS = 64

type ParentIds = Annotated[frozenset[UUID], Meta(extra_json_schema={"maxItems": MOST_PARENTS})]
type CalibrationRevisionIds = Annotated[
    frozenset[UUID], Meta(extra_json_schema={"maxItems": MOST_CALIBRATIONS})
]


class InvalidDatasetNameError(InvalidError):
    """The dataset's name is blank or too long."""


class InvalidDatasetUriError(InvalidError):
    """The location is no absolute URI, names a user, or is of a scheme that holds no data."""


class InvalidDatasetChecksumError(InvalidError):
    """The checksum is not written as 64 lowercase hexadecimal digits."""


class InvalidDatasetByteSizeError(InvalidError):
    """The size in bytes is negative or too large."""


class InvalidDatasetEncodingError(InvalidError):
    """The media type or a profile is malformed, or there are too many profiles."""


class InvalidDatasetFileCountError(InvalidError):
    """There is at least one file, and exactly one with a checksum of one file."""


class InvalidDatasetDescriptionError(InvalidError):
    """The dataset's description is blank or too long."""


class InvalidDatasetKeywordsError(InvalidError):
    """A keyword is blank or too long, or there are too many."""


class InvalidDatasetLicenseError(InvalidError):
    """The license is not written as an SPDX id."""


class InvalidDerivedFromError(InvalidError):
    """The dataset is derived from too many others."""


class InvalidUsedCalibrationsError(InvalidError):
    """The dataset used too many calibration revisions."""


class DatasetFacilityMismatchError(ConflictError):
    """What produced the dataset belongs to another facility or visit."""


class DatasetProducerMismatchError(ConflictError):
    """The producing procedure is no phase of the producing run."""


class DatasetSubjectMismatchError(ConflictError):
    """The run is about another subject."""


class DatasetParentDiscardedError(ConflictError):
    """Nothing is derived from a discarded dataset."""


class DatasetCalibrationsNotPinnedError(ConflictError):
    """The run did not pin these calibration revisions."""


class DatasetOrigin(Value):
    """What a new dataset comes from, as it is now.

    `run` is the one that is named as producer, or that the named procedure is a phase of; `facility_code` is the one
    that the request names, or else the producer's, or else the own one.
    """

    producer: Run | Procedure | None = None
    run: Run | None = None
    procedure: Procedure | None = None
    parents: tuple[Dataset, ...] = ()
    calibrations: tuple[Calibration, ...] = ()
    facility_code: str

    def visit_id(self, given: UUID | None) -> UUID | None:
        return (self.producer and self.producer.visit_id) or given

    def subject_id(self, given: UUID | None) -> UUID | None:
        return given or (self.run and self.run.subject_id)


@datasets.operation("POST /datasets", creates=True)
class RegisterDataset(Command[DatasetOrigin]):
    """Register a dataset: what it is, how to verify it, and what it came from. The bytes stay where they are."""

    name: text.Name
    uri: DataUri
    checksum: Checksum
    byte_size: ByteSize
    encoding: Encoding
    file_count: FileCount = 1
    description: DatasetDescription | None = None
    keywords: frozenset[DatasetKeyword] = frozenset()
    role: DatasetRole | None = None
    license: License | None = None
    facility_code: FacilityCode | None = None
    visit_id: UUID | None = None
    producing_run_id: UUID | None = None
    producing_procedure_id: UUID | None = None
    subject_id: UUID | None = None
    derived_from: ParentIds = frozenset()
    used_calibration_ids: CalibrationRevisionIds = frozenset()

    async def gather(self, world: World) -> DatasetOrigin:
        run = None if self.producing_run_id is None else await world.load(runs, self.producing_run_id)
        procedure = await load_procedure(world, self.producing_procedure_id)
        producer = run or procedure
        if self.subject_id is not None:
            await world.load(subjects, self.subject_id)
        parents = await load_parents(world, self.derived_from)
        own = world.installation.self_facility_code if producer is None else producer.facility_code
        facility = await load_facility(world, self.facility_code or own)
        if self.visit_id is not None:
            await world.load(visits, self.visit_id)
        if run is None and procedure is not None and procedure.parent_run_id is not None:
            run = await world.load(runs, procedure.parent_run_id)
        return DatasetOrigin(
            producer=producer,
            run=run,
            procedure=procedure,
            parents=parents,
            calibrations=await load_calibrations(world, self.used_calibration_ids & pinned(run)),
            facility_code=facility.code,
        )

    def decide(self, origin: DatasetOrigin, occasion: Occasion) -> DatasetRegistered:
        registered = DatasetRegistered(
            dataset_id=occasion.new_id,
            occurred_at=occasion.now,
            name=text.name(self.name, InvalidDatasetNameError),
            uri=checked_uri(self.uri, InvalidDatasetUriError),
            checksum=checked_checksum(self.checksum, InvalidDatasetChecksumError),
            byte_size=checked_byte_size(self.byte_size),
            encoding=checked_encoding(self.encoding, InvalidDatasetEncodingError),
            file_count=checked_file_count(self.file_count, self.checksum.algorithm),
            description=checked_description(self.description),
            keywords=checked_keywords(self.keywords),
            role=self.role or (DatasetRole.PROCESSED if self.derived_from else DatasetRole.MEASUREMENT),
            license=checked_license(self.license, InvalidDatasetLicenseError),
            facility_code=origin.facility_code,
            visit_id=origin.visit_id(self.visit_id),
            producing_run_id=self.producing_run_id,
            producing_procedure_id=self.producing_procedure_id,
            subject_id=origin.subject_id(self.subject_id),
            derived_from=checked_derived_from(self.derived_from),
            used_calibration_ids=checked_used_calibrations(self.used_calibration_ids),
            suspect_causes=in_order(born_with(origin, self.used_calibration_ids)),
            registered_by=occasion.principal_id,
        )
        check_place(origin, self.visit_id)
        check_phase(origin, self.producing_run_id)
        check_subject(origin.run, self.subject_id)
        check_parents_kept(origin.parents)
        check_pinned(origin.run, self.used_calibration_ids)
        return registered


@datasets.operation("POST /datasets/{dataset_id}/describe")
class DescribeDataset(DatasetCommand):
    """Change what is said of a dataset; what is absent stays, null clears."""

    name: text.Name | UnsetType = UNSET
    description: DatasetDescription | UnsetType | None = UNSET
    keywords: frozenset[DatasetKeyword] | UnsetType = UNSET
    role: DatasetRole | UnsetType = UNSET
    license: License | UnsetType | None = UNSET

    def decide(self, dataset: Dataset, occasion: Occasion) -> list[DatasetDescribed]:
        described = DatasetDescribed(
            dataset_id=dataset.id,
            occurred_at=occasion.now,
            name=text.name(patched(self.name, dataset.name), InvalidDatasetNameError),
            description=checked_description(patched(self.description, dataset.description)),
            keywords=checked_keywords(patched(self.keywords, dataset.keywords)),
            role=patched(self.role, dataset.role),
            license=checked_license(patched(self.license, dataset.license), InvalidDatasetLicenseError),
            described_by=occasion.principal_id,
        )
        STATUS.check(DatasetDescribed, dataset.status, dataset.id)
        return [] if datasets.evolve(dataset, described) == dataset else [described]


async def load_procedure(world: World, id: UUID | None) -> Procedure | None:
    return None if id is None else await world.load(procedures, id)


async def load_parents(world: World, ids: Collection[UUID]) -> tuple[Dataset, ...]:
    """The datasets that one is derived from; too many are refused without being read."""
    return () if len(ids) > MOST_PARENTS else tuple(await world.load_all(datasets, sorted(ids)))


async def load_calibrations(world: World, revision_ids: frozenset[UUID]) -> tuple[Calibration, ...]:
    """The calibrations of some revisions, guarded: whoever withdraws one meanwhile is seen, or sees the dataset."""
    if not revision_ids:
        return ()
    found: Iterable[Calibration] = await world.look_up("Calibration", revision_id=revision_ids) or ()
    return tuple(await world.load_all(calibrations, sorted(each.id for each in found)))


def pinned(run: Run | None) -> frozenset[UUID]:
    """Without a run nothing is pinned."""
    return frozenset() if run is None else run.pinned_calibration_ids


def born_with(origin: DatasetOrigin, used_calibration_ids: Collection[UUID]) -> Iterable[SuspectCause]:
    """What makes a dataset suspect from the first: its parents' trouble, and revisions that are withdrawn."""
    for parent in origin.parents:
        if parent.intent is RETRACTED:
            yield SuspectCause(kind=SuspectCauseKind.DATASET_RETRACTED, id=parent.id)
        for cause in parent.suspect_causes:
            own_report = cause.kind is SuspectCauseKind.OPERATOR_REPORT
            yield SuspectCause(kind=SuspectCauseKind.DATASET_SUSPECT, id=parent.id) if own_report else cause
    for calibration in origin.calibrations:
        for revision in calibration.revisions:
            withdrawn = revision.status is CalibrationRevisionStatus.WITHDRAWN
            if withdrawn and revision.revision_id in used_calibration_ids:
                yield SuspectCause(
                    kind=SuspectCauseKind.CALIBRATION_REVISION_WITHDRAWN, id=revision.revision_id
                )


def checked_byte_size(byte_size: int) -> int:
    if not 0 <= byte_size <= MOST_BYTES:
        raise InvalidDatasetByteSizeError(f"byte_size is 0 to {MOST_BYTES}.", most=MOST_BYTES)
    return byte_size


def checked_file_count(file_count: int, algorithm: ChecksumAlgorithm) -> int:
    if not 1 <= file_count <= MOST_FILES:
        raise InvalidDatasetFileCountError(f"file_count is 1 to {MOST_FILES}.", most=MOST_FILES)
    if algorithm is ChecksumAlgorithm.SHA256 and file_count > 1:
        raise InvalidDatasetFileCountError(
            "A sha256 checksum is that of one file; give a sha256-tree of several.", algorithm=algorithm
        )
    return file_count


def checked_description(value: str | None) -> str | None:
    if value is None:
        return None
    return text.trimmed(value, 5000, InvalidDatasetDescriptionError, "description", prose=True)


def checked_keywords(keywords: Collection[str]) -> frozenset[str]:
    if len(keywords) > MOST_KEYWORDS:
        raise InvalidDatasetKeywordsError(
            f"A dataset has at most {MOST_KEYWORDS} keywords, not {len(keywords)}.", most=MOST_KEYWORDS
        )
    return frozenset(text.trimmed(each, 100, InvalidDatasetKeywordsError, "keyword") for each in keywords)


def checked_derived_from(ids: frozenset[UUID]) -> frozenset[UUID]:
    if len(ids) > MOST_PARENTS:
        raise InvalidDerivedFromError(
            f"A dataset is derived from at most {MOST_PARENTS} others, not {len(ids)}.", most=MOST_PARENTS
        )
    return ids


def checked_used_calibrations(ids: frozenset[UUID]) -> frozenset[UUID]:
    if len(ids) > MOST_CALIBRATIONS:
        raise InvalidUsedCalibrationsError(
            f"A dataset used at most {MOST_CALIBRATIONS} calibration revisions, not {len(ids)}.",
            most=MOST_CALIBRATIONS,
        )
    return ids


def check_place(origin: DatasetOrigin, visit_id: UUID | None) -> None:
    """Gate: a dataset belongs where what produced it belongs."""
    producer = origin.producer
    if producer is None:
        return
    elsewhere = origin.facility_code != producer.facility_code
    if elsewhere or (visit_id is not None and visit_id != origin.visit_id(visit_id)):
        visit = "" if producer.visit_id is None else f", visit {producer.visit_id}"
        raise DatasetFacilityMismatchError(
            f"{producer.name} belongs to facility {producer.facility_code}{visit}; leave facility_code and visit_id"
            " out, or give the same.",
            facility_code=producer.facility_code,
            visit_id=None if producer.visit_id is None else str(producer.visit_id),
        )


def check_phase(origin: DatasetOrigin, producing_run_id: UUID | None) -> None:
    """Gate: a run and a procedure that produced one dataset belong together."""
    procedure = origin.procedure
    if producing_run_id is None or procedure is None or procedure.parent_run_id == producing_run_id:
        return
    raise DatasetProducerMismatchError(
        f"{procedure.name} is no phase of run {producing_run_id}; name the run that it is part of, or only one"
        " of both.",
        procedure_id=str(procedure.id),
        parent_run_id=None if procedure.parent_run_id is None else str(procedure.parent_run_id),
    )


def check_subject(run: Run | None, subject_id: UUID | None) -> None:
    """Gate: data of a run are about what the run is about."""
    if run is None or None in (run.subject_id, subject_id) or run.subject_id == subject_id:
        return
    raise DatasetSubjectMismatchError(
        f"{run.name} is about subject {run.subject_id}; leave subject_id out, or give that one.",
        run_id=str(run.id),
        subject_id=str(run.subject_id),
    )


def check_parents_kept(parents: Iterable[Dataset]) -> None:
    """Gate: what is discarded cannot have been read."""
    if discarded := sorted(str(parent.id) for parent in parents if parent.status is DISCARDED):
        raise DatasetParentDiscardedError(
            f"Discarded already: {', '.join(discarded)}.", dataset_ids=discarded
        )


def check_pinned(run: Run | None, used: Collection[UUID]) -> None:
    """Gate: a dataset used only what its run has pinned."""
    if unpinned := sorted(str(id) for id in frozenset(used) - pinned(run)):
        who = "There is no run that pinned" if run is None else f"{run.name} did not pin"
        raise DatasetCalibrationsNotPinnedError(f"{who} {', '.join(unpinned)}.", revision_ids=unpinned)
