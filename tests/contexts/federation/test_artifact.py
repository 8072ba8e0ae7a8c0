"""Artifacts: from which status which move leads where, what they claim and whose they are."""

from uuid import UUID

import pytest

from beamwright.contexts.federation.artifact import (
    Artifact,
    ArtifactAccepted,
    ArtifactRejected,
    ArtifactReplayedError,
    ArtifactStatus,
    ArtifactWithdrawn,
    InvalidArtifactReasonError,
    RejectArtifact,
    StageResult,
    VerificationStage,
    artifacts,
)
from beamwright.contexts.federation.credential import CredentialPurpose
from beamwright.contexts.federation.permit import PermitDirection
from beamwright.contexts.federation.publishing import ArtifactAndSeal, WithdrawArtifact
from beamwright.contexts.federation.receiving import (
    AcceptArtifact,
    ArtifactInQuestion,
    Grounds,
    VerifyArtifact,
)
from beamwright.kernel.event import Belonging, Claim
from beamwright.kernel.operation import Command
from tests.contexts.federation.exchange import (
    ARTIFACT,
    PASSED,
    credential,
    peer,
    permit,
    published,
    received,
    seal,
)
from tests.grids import check_grid
from tests.rules import NOW, given, outcome

WITHDRAWN = ArtifactWithdrawn(artifact_id=ARTIFACT, occurred_at=NOW, reason="wrong")
ACCEPTED = ArtifactAccepted(artifact_id=ARTIFACT, occurred_at=NOW)
REJECTED = ArtifactRejected(artifact_id=ARTIFACT, occurred_at=NOW, reason="not ours")
REACH = {
    "Published": (published(),),
    "Withdrawn": (published(), WITHDRAWN),
    "Quarantined": (received(),),
    "Accepted": (received(), ACCEPTED),
    "Rejected": (received(), REJECTED),
}


def in_question(artifact: Artifact) -> ArtifactInQuestion:
    """Nothing stands against it, and its permit leaves the last word to a person or not."""
    believed = credential(CredentialPurpose.VERIFICATION)
    grounds = Grounds(peer=peer(), permit=permit(PermitDirection.INBOUND), allowed=(believed,), seal=None)
    return ArtifactInQuestion(artifact=artifact, credential=believed, grounds=grounds)


def test_status_grid_of_the_issuer_and_of_the_person() -> None:
    check_grid(
        """
                     reject
        Published    -
        Withdrawn    -
        Quarantined  Rejected
        Accepted     -
        Rejected     -
        """,
        artifacts,
        status=lambda artifact: artifact.status,
        reach=REACH,
        verbs={"reject": RejectArtifact(artifact_id=ARTIFACT, reason="not ours")},
    )


def test_status_grid_of_withdrawal() -> None:
    check_grid(
        """
                     withdraw
        Published    Withdrawn
        Withdrawn    -
        Quarantined  -
        Accepted     -
        Rejected     -
        """,
        artifacts,
        status=lambda artifact: artifact.status,
        reach=REACH,
        verbs={"withdraw": WithdrawArtifact(artifact_id=ARTIFACT, reason="wrong")},
        seen=lambda artifact: ArtifactAndSeal(artifact=artifact, seal=seal()),
    )


def test_status_grid_of_verification() -> None:
    check_grid(
        """
                     verify    accept
        Published    -         -
        Withdrawn    -         -
        Quarantined  Accepted  Accepted
        Accepted     -         -
        Rejected     -         -
        """,
        artifacts,
        status=lambda artifact: artifact.status,
        reach=REACH,
        verbs={
            "verify": VerifyArtifact(artifact_id=ARTIFACT),
            "accept": AcceptArtifact(artifact_id=ARTIFACT),
        },
        seen=in_question,
    )


@pytest.mark.parametrize(
    "command",
    [
        RejectArtifact(artifact_id=ARTIFACT, reason=" "),
        RejectArtifact(artifact_id=ARTIFACT, reason="x" * 501),
    ],
)
def test_a_rejection_has_a_reason(command: Command[Artifact]) -> None:
    assert outcome(command, given(artifacts, received())) == InvalidArtifactReasonError


def test_a_nonce_is_taken_for_ever_by_whoever_issued_it() -> None:
    for history in REACH.values():
        artifact = given(artifacts, *history)
        issuer = "home" if artifact.direction is PermitDirection.OUTBOUND else "there"
        claim = Claim(kind="artifact-nonce", key=f"{issuer}/{artifact.nonce}", taken=ArtifactReplayedError)
        assert artifacts.claims(artifact) == [claim]


def test_an_artifact_is_the_own_sites_and_its_peers() -> None:
    account = UUID(int=5)
    belonging = Belonging(facility_code="home", owner_id=account)
    for event in (published(peer_actor_id=account), received(peer_actor_id=account)):
        assert artifacts.belongs(given(artifacts, event)) == belonging


def test_the_failed_stages_are_found() -> None:
    stages = PASSED | {VerificationStage.TIER: StageResult.FAILED, VerificationStage.KIND: StageResult.FAILED}
    artifact = given(artifacts, received(stages=stages))
    assert artifact.failed_stages == [VerificationStage.KIND, VerificationStage.TIER]
    assert artifact.status is ArtifactStatus.QUARANTINED
