"""Revisions: what may be appended, who verifies it, and what is withdrawn."""

import hashlib
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest

from beamwright.contexts.calibration.calibration import (
    CalibrationCannotAppendRevisionError,
    CalibrationRevisionCannotVerifyError,
    CalibrationRevisionCannotWithdrawError,
    CalibrationRevisionNotFoundError,
    CalibrationRevisionStatus,
    CalibrationRevisionVerified,
    CalibrationRevisionWithdrawn,
    CalibrationSource,
    CalibrationSourceKind,
    Covariance,
    InvalidCalibrationReasonError,
    UncertaintyBasis,
    UncertaintyKind,
)
from beamwright.contexts.calibration.calibration_definition import InvalidCalibrationOperatingPointError
from beamwright.contexts.calibration.calibration_reads import (
    CalibrationNotLookupValuedError,
    lookup_table,
    parsed,
)
from beamwright.contexts.calibration.revision_list import ListCalibrationRevisions
from beamwright.contexts.calibration.revisions import (
    AppendCalibrationRevision,
    CalibrationAndQuantity,
    CalibrationArtifactMismatchError,
    CalibrationRevisionVerifierNotIndependentError,
    CalibrationSupersededRevisionError,
    InvalidCalibrationNoteError,
    InvalidCalibrationSourceError,
    InvalidCalibrationUncertaintyError,
    InvalidCalibrationValidityError,
    InvalidCalibrationValueError,
    VerifyCalibrationRevision,
    WithdrawCalibrationRevision,
)
from beamwright.contexts.federation.artifact import Artifact, ArtifactStatus
from beamwright.contexts.federation.permit import ArtifactKind
from beamwright.kernel.cursor import InvalidCursorError
from beamwright.kernel.event import Event
from beamwright.kernel.value import replace
from tests.contexts.calibration.examples import (
    ASSERTED,
    CALIBRATION,
    POINT,
    R1,
    R2,
    R3,
    RETIRED,
    TARGET,
    VERIFIER,
    appended,
    calibration,
    day,
    quantity,
    verified,
    withdrawn,
)
from tests.contexts.federation.exchange import accepted
from tests.rules import NEW_ID, NOW, OCCASION, PRINCIPAL, outcome

APPEND = AppendCalibrationRevision(calibration_id=CALIBRATION, value={"center": 1024.5}, source=ASSERTED)
AS_VERIFIER = replace(OCCASION, principal_id=VERIFIER)


def seen(
    *events: Event, code: str = "rotation_center", artifact: Artifact | None = None
) -> CalibrationAndQuantity:
    return CalibrationAndQuantity(
        calibration=calibration(*events), quantity=quantity(code), artifact=artifact
    )


def test_a_revision_is_provisional_and_valid_from_now_on() -> None:
    event = APPEND.decide(seen(), OCCASION)
    assert (event.revision_id, event.valid_from, event.established_by) == (NEW_ID, NOW, PRINCIPAL)
    assert calibration(event).revision(NEW_ID).status is CalibrationRevisionStatus.PROVISIONAL


def test_the_receipt_names_the_new_revision() -> None:
    state = calibration(appended(R1), appended(R2, supersedes_revision_id=R1))
    assert APPEND.told(state).revision_id == R2


def test_the_content_hash_is_that_of_the_canonical_content() -> None:
    event = replace(APPEND, value={"center": 1e3}).decide(seen(), OCCASION)
    content = (
        f'{{"calibration_id":"{CALIBRATION}","operating_point":{{"energy":25,"optics_config":"10x"}},'
        f'"quantity":"rotation_center","quantity_version":1,"revision_id":"{NEW_ID}",'
        '"source":{"id":null,"kind":"Asserted"},"supersedes_revision_id":null,'
        f'"target_id":"{TARGET}","uncertainty_basis":null,"valid_from":"2026-01-01T00:00:00Z",'
        '"valid_until":null,"value":{"center":1000}}'
    )
    assert event.content_hash == hashlib.sha256(content.encode()).hexdigest()


def test_the_content_hash_does_not_change_with_the_status() -> None:
    event = APPEND.decide(seen(), OCCASION)
    hashes = {
        calibration(event, *later).revision(NEW_ID).content_hash
        for later in ([], [verified(NEW_ID)], [verified(NEW_ID), withdrawn(NEW_ID)])
    }
    assert hashes == {event.content_hash}


@pytest.mark.parametrize(
    "value", [{}, {"center": "x"}, {"center": 1, "more": 1}, {"center": 1, "uncertainty": -1}]
)
def test_a_value_meets_the_quantitys_schema(value: dict[str, Any]) -> None:
    assert outcome(replace(APPEND, value=value), seen()) == InvalidCalibrationValueError


def test_a_bad_value_is_refused_with_the_path_of_the_fault() -> None:
    curve = replace(APPEND, value={"points": [{"energy": 10, "position": 1}, {"energy": 20}]})
    with pytest.raises(InvalidCalibrationValueError) as refusal:
        curve.decide(seen(code="energy_position_curve"), OCCASION)
    assert refusal.value.context["violations"][0]["path"] == "/points/1/position"


@pytest.mark.parametrize(
    ("kind", "id"),
    [
        (CalibrationSourceKind.MEASURED, None),
        (CalibrationSourceKind.COMPUTED, None),
        (CalibrationSourceKind.IMPORTED, None),
        (CalibrationSourceKind.ASSERTED, R1),
    ],
)
def test_a_source_has_an_id_unless_it_is_asserted(kind: CalibrationSourceKind, id: UUID | None) -> None:
    command = replace(APPEND, source=CalibrationSource(kind=kind, id=id))
    assert outcome(command, seen()) == InvalidCalibrationSourceError


def basis(
    kind: UncertaintyKind = UncertaintyKind.STANDARD,
    factor: float | None = None,
    covariance: Covariance | None = None,
) -> UncertaintyBasis:
    return UncertaintyBasis(kind=kind, coverage_factor=factor, covariance=covariance)


def covariance(fields: str, *rows: Sequence[float]) -> UncertaintyBasis:
    return basis(covariance=Covariance(fields=tuple(fields), matrix=tuple(tuple(row) for row in rows)))


@pytest.mark.parametrize(
    "wrong",
    [
        basis(factor=2),
        basis(UncertaintyKind.EXPANDED),
        basis(UncertaintyKind.EXPANDED, 0),
        basis(UncertaintyKind.EXPANDED, 10.1),
        covariance(""),
        covariance("ab", [1, 0]),
        covariance("ab", [1], [0, 1]),
        covariance("ab", [1, 2], [3, 1]),
        covariance("aa", [1, 0], [0, 1]),
        covariance(" ", [1]),
        covariance("a", [float("inf")]),
        covariance("".join(chr(97 + n) for n in range(33)), *[[0.0] * 33] * 33),
    ],
)
def test_an_uncertainty_says_what_it_means(wrong: UncertaintyBasis) -> None:
    assert outcome(replace(APPEND, uncertainty_basis=wrong), seen()) == InvalidCalibrationUncertaintyError


@pytest.mark.parametrize(
    "right",
    [basis(), basis(UncertaintyKind.EXPANDED, 10), covariance("ab", [1, 2], [2, 1]), covariance("a", [1])],
)
def test_an_uncertainty_that_fits_is_kept(right: UncertaintyBasis) -> None:
    event = replace(APPEND, uncertainty_basis=right).decide(seen(), OCCASION)
    assert event.uncertainty_basis == right


@pytest.mark.parametrize("until", [day(-1), NOW])
def test_a_validity_ends_after_it_begins(until: Any) -> None:
    assert outcome(replace(APPEND, valid_until=until), seen()) == InvalidCalibrationValidityError


@pytest.mark.parametrize(
    "history",
    [
        [],
        [appended(R1), withdrawn(R1)],
        [appended(R1), appended(R2, supersedes_revision_id=R1)],
    ],
)
def test_what_is_superseded_is_here_and_stands(history: list[Event]) -> None:
    command = replace(APPEND, supersedes_revision_id=R1)
    assert outcome(command, seen(*history)) == CalibrationSupersededRevisionError


def artifact(**changes: Any) -> Artifact:
    content = {"quantity": "rotation_center", "operating_point": POINT, "value": {"center": 1024.5}}
    return replace(accepted(content=content), **changes)


IMPORT = replace(APPEND, source=CalibrationSource(kind=CalibrationSourceKind.IMPORTED, id=R3))


def test_what_an_accepted_artifact_tells_is_imported() -> None:
    assert not isinstance(outcome(IMPORT, seen(artifact=artifact())), type)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": ArtifactStatus.QUARANTINED},
        {"artifact_kind": ArtifactKind.RECIPE},
        {"content": None},
        {"content": {"quantity": "rotation_center", "operating_point": POINT, "value": {"center": 1}}},
        {"content": {"quantity": "magnification", "operating_point": POINT, "value": {"center": 1024.5}}},
        {"content": {"quantity": "rotation_center", "operating_point": {}, "value": {"center": 1024.5}}},
    ],
)
def test_an_artifact_that_tells_something_else_is_not_imported(changes: dict[str, Any]) -> None:
    assert outcome(IMPORT, seen(artifact=artifact(**changes))) == CalibrationArtifactMismatchError


def test_refusals_of_a_revision_come_in_their_order() -> None:
    wrong = AppendCalibrationRevision(
        calibration_id=CALIBRATION,
        value={},
        source=CalibrationSource(kind=CalibrationSourceKind.ASSERTED, id=R1),
        uncertainty_basis=basis(factor=2),
        valid_until=day(-1),
        supersedes_revision_id=R1,
    )
    mends: list[tuple[dict[str, Any], type]] = [
        ({}, InvalidCalibrationValueError),
        ({"value": {"center": 1}}, InvalidCalibrationSourceError),
        ({"source": ASSERTED}, InvalidCalibrationUncertaintyError),
        ({"uncertainty_basis": None}, InvalidCalibrationValidityError),
        ({"valid_until": None}, CalibrationCannotAppendRevisionError),
    ]
    for mend, refusal in mends:
        wrong = replace(wrong, **mend)
        assert outcome(wrong, seen(RETIRED)) == refusal
    assert (
        outcome(wrong, seen(artifact=artifact(status=ArtifactStatus.REJECTED)))
        == CalibrationSupersededRevisionError
    )


VERIFY = VerifyCalibrationRevision(calibration_id=CALIBRATION, revision_id=R1, note=" repeated ")
WITHDRAW = WithdrawCalibrationRevision(calibration_id=CALIBRATION, revision_id=R1, reason=" wrong ")


def test_a_second_person_verifies() -> None:
    assert outcome(VERIFY, calibration(appended(R1)), AS_VERIFIER) == [
        CalibrationRevisionVerified(
            calibration_id=CALIBRATION,
            occurred_at=NOW,
            revision_id=R1,
            note="repeated",
            verified_by=VERIFIER,
        )
    ]


def test_whoever_established_a_revision_does_not_verify_it() -> None:
    refusal = outcome(VERIFY, calibration(appended(R1)))
    assert refusal == CalibrationRevisionVerifierNotIndependentError


def test_that_a_revision_is_verified_comes_before_who_verifies() -> None:
    assert outcome(VERIFY, calibration(appended(R1), verified(R1))) == CalibrationRevisionCannotVerifyError


def test_withdrawing_tells_why() -> None:
    assert outcome(WITHDRAW, calibration(appended(R1))) == [
        CalibrationRevisionWithdrawn(
            calibration_id=CALIBRATION,
            occurred_at=NOW,
            revision_id=R1,
            reason="wrong",
            withdrawn_by=PRINCIPAL,
        )
    ]


HISTORIES: dict[str, list[Event]] = {
    "Provisional": [appended(R1)],
    "Verified": [appended(R1), verified(R1)],
    "Withdrawn": [appended(R1), withdrawn(R1)],
}


@pytest.mark.parametrize(
    ("start", "verify", "withdraw"),
    [
        ("Provisional", "Verified", "Withdrawn"),
        ("Verified", CalibrationRevisionCannotVerifyError, "Withdrawn"),
        ("Withdrawn", CalibrationRevisionCannotVerifyError, CalibrationRevisionCannotWithdrawError),
    ],
)
def test_status_grid_of_revisions(start: str, verify: Any, withdraw: Any) -> None:
    history = HISTORIES[start]
    for command, expected in ((VERIFY, verify), (WITHDRAW, withdraw)):
        got = outcome(command, calibration(*history), AS_VERIFIER)
        after = got if isinstance(got, type) else calibration(*history, *got).revision(R1).status
        assert after == expected


@pytest.mark.parametrize("command", [VERIFY, WITHDRAW])
def test_a_revision_of_another_calibration_is_not_found(command: Any) -> None:
    assert outcome(command, calibration(appended(R2))) == CalibrationRevisionNotFoundError


def test_text_is_not_blank() -> None:
    state = calibration(appended(R1))
    assert outcome(replace(VERIFY, note=" "), state, AS_VERIFIER) == InvalidCalibrationNoteError
    assert outcome(replace(WITHDRAW, reason=" "), state) == InvalidCalibrationReasonError


def table(code: str, value: dict[str, Any]) -> Any:
    revision = calibration(appended(R1, value=value)).revision(R1)
    return lookup_table(quantity(code).at_version(1), revision)


def test_a_curve_is_looked_up_by_its_column() -> None:
    points = [{"energy": 10, "position": 1.5}, {"energy": 20, "position": 2.5}]
    found = table("energy_position_curve", {"points": points})
    assert found.points == [(10, 1.5), (20, 2.5)]
    assert (found.x_unit.code, found.y_unit.code) == ("keV", "mm")


def test_a_changer_is_looked_up_by_its_slot() -> None:
    points = [{"name": "Si", "angle": 0}, {"name": "Ge", "angle": 90}]
    found = table("index_angle_table", {"points": points})
    assert (found.points, found.x_unit, found.y_unit.code) == ([(0, 0), (1, 90)], None, "degree")


def test_a_single_number_is_no_table() -> None:
    with pytest.raises(CalibrationNotLookupValuedError):
        table("rotation_center", {"center": 1})


def test_an_operating_point_is_asked_for_as_json() -> None:
    assert parsed('{"energy": 25}') == {"energy": 25}
    for wrong in ("25", "{", "null"):
        with pytest.raises(InvalidCalibrationOperatingPointError):
            parsed(wrong)


# The list of revisions.

LISTED = calibration(
    appended(R1, day(0), occurred_at=day(0)),
    appended(R2, day(2), occurred_at=day(1), valid_until=day(3)),
    verified(R2),
    appended(
        R3,
        day(1),
        occurred_at=day(2),
        established_by=VERIFIER,
        source=CalibrationSource(kind=CalibrationSourceKind.COMPUTED, id=TARGET),
    ),
)


def listed(**asked: Any) -> list[UUID]:
    request = ListCalibrationRevisions(**asked)
    return [revision.revision_id for _, revision in request.ordered(request.matching([LISTED]))]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, [R3, R2, R1]),
        ({"sort": "established_at"}, [R1, R2, R3]),
        ({"sort": "valid_from"}, [R1, R3, R2]),
        ({"sort": "-valid_from"}, [R2, R3, R1]),
        ({"status": CalibrationRevisionStatus.VERIFIED}, [R2]),
        ({"source_kind": CalibrationSourceKind.COMPUTED}, [R3]),
        ({"source_id": TARGET}, [R3]),
        ({"established_by": PRINCIPAL}, [R2, R1]),
        ({"established_from": day(1)}, [R3, R2]),
        ({"established_until": day(1)}, [R1]),
        ({"valid_at": day(3)}, [R3, R1]),
        ({"target_id": R1}, []),
        ({"quantity": "magnification"}, []),
    ],
)
def test_revisions_are_found_by_each_filter(asked: dict[str, Any], found: list[UUID]) -> None:
    assert listed(**asked) == found


@pytest.mark.parametrize("sort", ["established_at", "-established_at", "valid_from", "-valid_from"])
def test_pages_follow_each_other_without_gap(sort: Any) -> None:
    request = ListCalibrationRevisions(sort=sort)
    rows = request.ordered(request.matching([LISTED]))
    for number, row in enumerate(rows, 1):
        assert list(request.beyond(rows, request.cursor_after(row))) == rows[number:]


def test_a_cursor_of_another_order_or_no_cursor_at_all_is_refused() -> None:
    request = ListCalibrationRevisions()
    rows = request.ordered(request.matching([LISTED]))
    for wrong in (ListCalibrationRevisions(sort="valid_from").cursor_after(rows[0]), "!", "e30"):
        with pytest.raises(InvalidCursorError):
            request.beyond(rows, wrong)


def test_a_revision_survives_storage() -> None:
    event = replace(APPEND, uncertainty_basis=covariance("a", [1])).decide(seen(), OCCASION)
    assert msgspec.json.decode(msgspec.json.encode(event), type=type(event)) == event
