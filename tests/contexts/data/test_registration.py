"""Registering and describing datasets: what is taken, what is refused and in which order, what is inherited."""

from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.data.dataset import (
    DatasetDescribed,
    DatasetRegistered,
    DatasetRole,
)
from beamwright.contexts.data.dataset_registration import (
    DatasetCalibrationsNotPinnedError,
    DatasetFacilityMismatchError,
    DatasetOrigin,
    DatasetParentDiscardedError,
    DatasetProducerMismatchError,
    DatasetSubjectMismatchError,
    DescribeDataset,
    InvalidDatasetByteSizeError,
    InvalidDatasetChecksumError,
    InvalidDatasetDescriptionError,
    InvalidDatasetEncodingError,
    InvalidDatasetFileCountError,
    InvalidDatasetKeywordsError,
    InvalidDatasetLicenseError,
    InvalidDatasetNameError,
    InvalidDatasetUriError,
    InvalidDerivedFromError,
    InvalidUsedCalibrationsError,
    RegisterDataset,
)
from beamwright.contexts.data.values import Encoding
from beamwright.kernel.compute import Checksum, ChecksumAlgorithm
from beamwright.kernel.value import replace
from tests.contexts.calibration.examples import R1, R2, R3, appended, calibration, withdrawn
from tests.contexts.data.examples import (
    DATASET,
    DEMOTED,
    DISCARDED,
    HDF5,
    OTHER,
    PARENT,
    PROMOTED,
    SHA256,
    VISIT,
    cause,
    dataset,
    marked,
)
from tests.contexts.operation.examples import PROCEDURE
from tests.contexts.operation.examples import procedure as the_procedure
from tests.contexts.run.examples import RUN, run
from tests.rules import NEW_ID, NOW, OCCASION, PRINCIPAL, outcome

SUBJECT = UUID(int=1010)
HERE = DatasetOrigin(facility_code="aps")
TREE = Checksum(algorithm=ChecksumAlgorithm.SHA256_TREE, value="0" * 64)
COMMAND = RegisterDataset(
    name="Scan 7", uri="https://store.example/scan-7.h5", checksum=SHA256, byte_size=1024, encoding=HDF5
)


def register(**fields: Any) -> RegisterDataset:
    return replace(COMMAND, **fields)


def registered(command: RegisterDataset, origin: DatasetOrigin = HERE) -> DatasetRegistered:
    return command.decide(origin, OCCASION)


def of_run(**changes: Any) -> DatasetOrigin:
    """The origin of what a run produced."""
    producer = run(**changes)
    return DatasetOrigin(producer=producer, run=producer, facility_code=producer.facility_code)


def of_procedure(**changes: Any) -> DatasetOrigin:
    """The origin of what a phase of a run produced."""
    phase = the_procedure(**changes)
    return DatasetOrigin(
        producer=phase,
        procedure=phase,
        run=run(pinned_calibration_ids=frozenset({R1})),
        facility_code=phase.facility_code,
    )


# What is taken


def test_a_dataset_begins_as_a_trial_measurement_of_whoever_registers_it() -> None:
    event = registered(register(name=" Scan 7 "))
    assert (event.dataset_id, event.name, event.role) == (NEW_ID, "Scan 7", DatasetRole.MEASUREMENT)
    assert (event.facility_code, event.registered_by, event.suspect_causes) == ("aps", PRINCIPAL, ())


def test_what_is_derived_is_processed_unless_said_otherwise() -> None:
    origin = replace(HERE, parents=(dataset(dataset_id=PARENT),))
    command = register(derived_from=frozenset({PARENT}))
    assert registered(command, origin).role is DatasetRole.PROCESSED
    assert registered(replace(command, role=DatasetRole.FLAT), origin).role is DatasetRole.FLAT


def test_a_folder_has_many_files_and_may_be_empty() -> None:
    event = registered(register(checksum=TREE, file_count=1801, byte_size=0))
    assert (event.file_count, event.byte_size) == (1801, 0)


def test_a_dataset_belongs_where_its_run_belongs() -> None:
    origin = of_run(facility_code="beamline", visit_id=VISIT, subject_id=SUBJECT)
    event = registered(register(producing_run_id=RUN), origin)
    assert (event.facility_code, event.visit_id, event.subject_id) == ("beamline", VISIT, SUBJECT)


def test_a_run_without_visit_or_subject_leaves_them_to_the_request() -> None:
    event = registered(register(producing_run_id=RUN, visit_id=VISIT, subject_id=SUBJECT), of_run())
    assert (event.visit_id, event.subject_id) == (VISIT, SUBJECT)


def test_the_run_of_a_procedure_is_the_one_that_it_is_a_phase_of() -> None:
    origin = replace(of_procedure(facility_code="hutch"), run=run(subject_id=SUBJECT))
    event = registered(register(producing_procedure_id=PROCEDURE), origin)
    assert (event.facility_code, event.subject_id, event.producing_run_id) == ("hutch", SUBJECT, None)
    used = register(producing_procedure_id=PROCEDURE, used_calibration_ids=frozenset({R1}))
    assert registered(used, of_procedure()).used_calibration_ids == {R1}


# What is refused


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"name": " "}, InvalidDatasetNameError),
        ({"name": "x" * 201}, InvalidDatasetNameError),
        ({"uri": "scan.h5"}, InvalidDatasetUriError),
        ({"checksum": replace(SHA256, value="0A" * 32)}, InvalidDatasetChecksumError),
        ({"byte_size": -1}, InvalidDatasetByteSizeError),
        ({"byte_size": 2**63}, InvalidDatasetByteSizeError),
        ({"encoding": Encoding(media_type="hdf5")}, InvalidDatasetEncodingError),
        ({"file_count": 0, "checksum": TREE}, InvalidDatasetFileCountError),
        ({"file_count": 2**63, "checksum": TREE}, InvalidDatasetFileCountError),
        ({"file_count": 2}, InvalidDatasetFileCountError),
        ({"description": " "}, InvalidDatasetDescriptionError),
        ({"description": "x" * 5001}, InvalidDatasetDescriptionError),
        ({"keywords": frozenset({"x" * 101})}, InvalidDatasetKeywordsError),
        ({"keywords": frozenset(str(n) for n in range(33))}, InvalidDatasetKeywordsError),
        ({"license": "CC BY 4.0"}, InvalidDatasetLicenseError),
        ({"derived_from": frozenset(UUID(int=n) for n in range(257))}, InvalidDerivedFromError),
        ({"used_calibration_ids": frozenset(UUID(int=n) for n in range(65))}, InvalidUsedCalibrationsError),
    ],
)
def test_register_refuses_bad_values(fields: dict[str, Any], refusal: type) -> None:
    assert outcome(register(**fields), HERE) == refusal


def test_values_are_refused_in_the_order_of_their_fields() -> None:
    wrong: dict[str, Any] = {
        "name": (" ", InvalidDatasetNameError),
        "uri": ("x", InvalidDatasetUriError),
        "checksum": (replace(SHA256, value=""), InvalidDatasetChecksumError),
        "byte_size": (-1, InvalidDatasetByteSizeError),
        "encoding": (Encoding(media_type=""), InvalidDatasetEncodingError),
        "file_count": (0, InvalidDatasetFileCountError),
        "description": (" ", InvalidDatasetDescriptionError),
        "keywords": (frozenset({" "}), InvalidDatasetKeywordsError),
        "license": (" ", InvalidDatasetLicenseError),
        "derived_from": (frozenset(UUID(int=n) for n in range(257)), InvalidDerivedFromError),
        "used_calibration_ids": (
            frozenset(UUID(int=n) for n in range(65)),
            InvalidUsedCalibrationsError,
        ),
    }
    command = register(**{field: value for field, (value, _) in wrong.items()})
    for field, (_, refusal) in wrong.items():
        assert outcome(command, of_run()) == refusal
        command = replace(command, **{field: getattr(COMMAND, field)})


@pytest.mark.parametrize(
    ("origin", "visit_id"),
    [
        (replace(of_run(), facility_code="esrf"), None),
        (of_run(visit_id=VISIT), OTHER),
        (replace(of_procedure(), facility_code="esrf"), None),
    ],
)
def test_a_dataset_does_not_belong_elsewhere_than_its_producer(
    origin: DatasetOrigin, visit_id: UUID | None
) -> None:
    assert outcome(register(visit_id=visit_id), origin) == DatasetFacilityMismatchError


def test_who_repeats_where_the_producer_belongs_is_not_refused() -> None:
    origin = replace(of_run(visit_id=VISIT), facility_code="aps")
    assert registered(register(producing_run_id=RUN, visit_id=VISIT), origin).visit_id == VISIT


@pytest.mark.parametrize("parent_run_id", [OTHER, None])
def test_run_and_procedure_belong_together(parent_run_id: UUID | None) -> None:
    origin = replace(of_run(), procedure=the_procedure(parent_run_id=parent_run_id))
    command = register(producing_run_id=RUN, producing_procedure_id=PROCEDURE)
    assert outcome(command, origin) == DatasetProducerMismatchError
    together = replace(of_run(), procedure=the_procedure(parent_run_id=RUN))
    assert registered(command, together).producing_procedure_id == PROCEDURE


def test_data_of_a_run_are_about_its_subject() -> None:
    command = register(producing_run_id=RUN, subject_id=OTHER)
    assert outcome(command, of_run(subject_id=SUBJECT)) == DatasetSubjectMismatchError


def test_nothing_is_derived_from_what_is_discarded() -> None:
    gone = dataset(replace(DISCARDED, dataset_id=PARENT), dataset_id=PARENT)
    with pytest.raises(DatasetParentDiscardedError) as refused:
        registered(register(derived_from=frozenset({PARENT})), replace(HERE, parents=(gone, dataset())))
    assert refused.value.context == {"dataset_ids": [str(PARENT)]}


@pytest.mark.parametrize("origin", [HERE, of_run(pinned_calibration_ids=frozenset({R1, R2}))])
def test_only_what_the_run_pinned_was_used(origin: DatasetOrigin) -> None:
    with pytest.raises(DatasetCalibrationsNotPinnedError) as refused:
        registered(register(used_calibration_ids=frozenset({R1, R3})), origin)
    assert refused.value.context["revision_ids"][-1] == str(R3)
    assert len(refused.value.context["revision_ids"]) == (2 if origin is HERE else 1)


def test_refusals_by_the_state_come_in_the_agreed_order() -> None:
    gone = dataset(DISCARDED)
    everything = replace(
        of_run(subject_id=SUBJECT),
        procedure=the_procedure(parent_run_id=OTHER),
        parents=(gone,),
        facility_code="esrf",
    )
    command = register(
        producing_run_id=RUN,
        producing_procedure_id=PROCEDURE,
        subject_id=OTHER,
        derived_from=frozenset({DATASET}),
        used_calibration_ids=frozenset({R1}),
    )
    here = replace(everything, facility_code="aps")
    together = replace(here, procedure=None)
    same_subject = replace(command, subject_id=None)
    kept = replace(together, parents=(dataset(),))
    assert outcome(command, everything) == DatasetFacilityMismatchError
    assert outcome(command, here) == DatasetProducerMismatchError
    assert outcome(command, together) == DatasetSubjectMismatchError
    assert outcome(same_subject, together) == DatasetParentDiscardedError
    assert outcome(same_subject, kept) == DatasetCalibrationsNotPinnedError


# What is inherited


def test_a_child_is_born_with_what_is_wrong_with_its_parents() -> None:
    retracted = dataset(
        replace(PROMOTED, dataset_id=PARENT), replace(DEMOTED, dataset_id=PARENT), dataset_id=PARENT
    )
    withdrawn_above = cause("CalibrationRevisionWithdrawn", R1)
    suspect = dataset(marked(dataset_id=OTHER), marked(withdrawn_above, OTHER), dataset_id=OTHER)
    origin = replace(HERE, parents=(retracted, suspect, dataset()))
    event = registered(register(derived_from=frozenset({PARENT, OTHER, DATASET})), origin)
    assert event.suspect_causes == (
        withdrawn_above,
        cause("DatasetRetracted", PARENT),
        cause("DatasetSuspect", OTHER),
    )


def test_a_cause_that_two_parents_share_is_inherited_once() -> None:
    shared = cause("DatasetDiscarded", UUID(int=7))
    parents = tuple(dataset(marked(shared, id), dataset_id=id) for id in (PARENT, OTHER))
    command = register(derived_from=frozenset({PARENT, OTHER}))
    assert registered(command, replace(HERE, parents=parents)).suspect_causes == (shared,)


def test_who_uses_a_withdrawn_revision_is_born_with_it() -> None:
    origin = replace(
        of_run(pinned_calibration_ids=frozenset({R1, R2, R3})),
        calibrations=(calibration(appended(R1), appended(R2), appended(R3), withdrawn(R1), withdrawn(R3)),),
    )
    event = registered(register(producing_run_id=RUN, used_calibration_ids=frozenset({R1, R2})), origin)
    assert event.suspect_causes == (cause("CalibrationRevisionWithdrawn", R1),)


# Describing


def test_describe_keeps_what_is_absent_and_clears_what_is_null() -> None:
    before = dataset(description="cracks", license="CC0-1.0")
    got = outcome(DescribeDataset(dataset_id=DATASET, description=None, role=DatasetRole.DARK), before)
    assert got == [
        DatasetDescribed(
            dataset_id=DATASET,
            occurred_at=NOW,
            name="Scan 7",
            description=None,
            keywords=frozenset(),
            role=DatasetRole.DARK,
            license="CC0-1.0",
            described_by=PRINCIPAL,
        )
    ]


def test_describe_that_changes_nothing_is_a_no_op() -> None:
    assert outcome(DescribeDataset(dataset_id=DATASET, name=" Scan 7 "), dataset()) == []


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"name": " "}, InvalidDatasetNameError),
        ({"description": "x" * 5001}, InvalidDatasetDescriptionError),
        ({"keywords": frozenset({" "})}, InvalidDatasetKeywordsError),
        ({"license": "x y"}, InvalidDatasetLicenseError),
    ],
)
def test_describe_refuses_bad_values_first(fields: dict[str, Any], refusal: type) -> None:
    assert outcome(DescribeDataset(dataset_id=DATASET, **fields), dataset(DISCARDED)) == refusal
