"""Publishing revisions: verified ones, once under a permit, and what stands against it in order."""

from datetime import timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from beamwright.contexts.calibration.calibration import (
    CalibrationPublication,
    CalibrationRevisionCannotPublishError,
    CalibrationRevisionNotFoundError,
    CalibrationRevisionPublished,
)
from beamwright.contexts.calibration.revision_list import ListCalibrationRevisions
from beamwright.contexts.calibration.revision_publishing import (
    CalibrationRevisionAlreadyPublishedError,
    PublishCalibrationRevision,
    RevisionPublication,
    rendered,
)
from beamwright.contexts.federation.artifact import ArtifactPublished
from beamwright.contexts.federation.permit import ArtifactTier, PermitDirection, PermitSuspended
from beamwright.contexts.federation.publishing import (
    ArtifactPermitNotInForceError,
    InvalidArtifactExpiryError,
)
from beamwright.contexts.federation.seal import SealLedgerExtended
from beamwright.kernel.event import Event
from beamwright.kernel.operation import World
from beamwright.kernel.value import replace
from tests.contexts.calibration.examples import (
    CALIBRATION,
    POINT,
    R1,
    R2,
    appended,
    calibration,
    day,
    verified,
    withdrawn,
)
from tests.contexts.federation.exchange import ARTIFACT, PEER, PERMIT, accepted, permit
from tests.contexts.federation.test_publishing import PUBLISH, publication, sign
from tests.rules import NEW_ID, NOW, PRINCIPAL, outcome

COMMAND = PublishCalibrationRevision(
    calibration_id=CALIBRATION, revision_id=R1, permit_id=PERMIT, tier=ArtifactTier.STABLE
)
STANDING = (accepted(),)
SUSPENDED = permit(
    PermitDirection.OUTBOUND, PermitSuspended(permit_id=PERMIT, occurred_at=NOW, reason="wait")
)


class Versions:
    """As much of a world as rendering needs."""

    def version(self, *_: object) -> int:
        return 7


def seen(*events: Event, standing: Any = (), **changes: Any) -> RevisionPublication:
    return RevisionPublication(
        calibration=calibration(*events), standing=standing, publication=publication(**changes)
    )


PUBLISHED = CalibrationRevisionPublished(
    calibration_id=CALIBRATION,
    occurred_at=NOW,
    revision_id=R1,
    permit_id=PERMIT,
    peer_facility_id=PEER,
    artifact_id=ARTIFACT,
    published_by=PRINCIPAL,
)


def test_a_publication_is_recorded_on_three_streams() -> None:
    shown = replace(seen(appended(R1), verified(R1)), publication=sign(publication(), PUBLISH))
    events = outcome(COMMAND, shown)
    assert not isinstance(events, type)
    own, artifact, entry = events
    assert own == replace(PUBLISHED, artifact_id=NEW_ID)
    assert isinstance(artifact, ArtifactPublished) and isinstance(entry, SealLedgerExtended)
    assert {artifact.artifact_id, entry.artifact_id} == {NEW_ID}


@pytest.mark.parametrize("history", [(), (withdrawn(R1),), (verified(R1), withdrawn(R1))])
def test_only_a_verified_revision_is_published(history: tuple[Event, ...]) -> None:
    assert outcome(COMMAND, seen(appended(R1), *history)) is CalibrationRevisionCannotPublishError


def test_refusals_come_in_their_order() -> None:
    late = replace(COMMAND, expires_at=NOW)
    provisional = seen(appended(R1), standing=STANDING, permit=SUSPENDED)
    assert outcome(replace(late, revision_id=R2), provisional) is InvalidArtifactExpiryError
    assert outcome(late, provisional) is InvalidArtifactExpiryError
    assert outcome(COMMAND, provisional) is CalibrationRevisionCannotPublishError
    trusted = seen(appended(R1), verified(R1), standing=STANDING, permit=SUSPENDED)
    assert outcome(COMMAND, trusted) is CalibrationRevisionAlreadyPublishedError
    assert outcome(COMMAND, replace(trusted, standing=())) is ArtifactPermitNotInForceError


def test_another_calibrations_revision_is_not_found() -> None:
    assert outcome(replace(COMMAND, revision_id=R2), seen(appended(R1))) is CalibrationRevisionNotFoundError


def test_publications_are_kept_by_permit() -> None:
    other = UUID(int=77)
    again = replace(PUBLISHED, artifact_id=UUID(int=78))
    elsewhere = replace(PUBLISHED, permit_id=other, peer_facility_id=UUID(int=79))
    state = calibration(appended(R1), verified(R1), PUBLISHED, again, elsewhere)
    assert state.revision(R1).publications == {
        PERMIT: CalibrationPublication(peer_facility_id=PEER, artifact_id=UUID(int=78)),
        other: CalibrationPublication(peer_facility_id=UUID(int=79), artifact_id=ARTIFACT),
    }
    assert state.revision(R1).status == "Verified"


def test_revisions_are_found_by_the_peer_they_went_to() -> None:
    state = calibration(appended(R1), verified(R1), PUBLISHED, appended(R2))
    found = ListCalibrationRevisions(published_to=PEER).matching([state])
    assert [revision.revision_id for _, revision in found] == [R1]
    assert ListCalibrationRevisions(published_to=ARTIFACT).matching([state]) == []


def test_a_peer_is_told_what_holds_and_until_when() -> None:
    state = calibration(appended(R1, valid_until=day(3), content_hash="f" * 64), verified(R1))
    exported = rendered(cast(World, Versions()), state, R1)
    assert exported.content == {
        "calibration_id": str(CALIBRATION),
        "revision_id": str(R1),
        "content_hash": "f" * 64,
        "source_facility_code": "aps",
        "quantity": "rotation_center",
        "operating_point": POINT,
        "value": {"center": 1024.5},
        "uncertainty_basis": None,
        "valid_from": "2026-01-01T00:00:00Z",
        "valid_until": (NOW + timedelta(days=3)).isoformat().replace("+00:00", "Z"),
    }
    assert (exported.source.type, exported.source.id, exported.source.version) == (
        "CalibrationRevision",
        R1,
        7,
    )
    assert exported.trouble is None


def test_what_is_not_verified_says_so() -> None:
    assert "Provisional" in str(rendered(cast(World, Versions()), calibration(appended(R1)), R1).trouble)
