"""What follows by itself for peers: what a withdrawn revision was published as is withdrawn too."""

from beamwright.contexts.calibration.calibration import CalibrationRevisionWithdrawn
from beamwright.contexts.federation.artifact import (
    ArtifactCannotWithdrawError,
    ArtifactStatus,
    artifacts,
)
from beamwright.contexts.federation.publishing import ArtifactSealNotLiveError, WithdrawArtifact

from .reactions import Reacting, Reaction


async def withdraw(event: CalibrationRevisionWithdrawn, at: Reacting) -> None:
    """Withdraw every artifact of the revision; while the seal is not Live, this is tried again later."""
    blocked: ArtifactSealNotLiveError | None = None
    reason = f"Calibration revision {event.revision_id} was withdrawn."
    for artifact in await at.find(artifacts, source_id=event.revision_id, status=ArtifactStatus.PUBLISHED):
        try:
            await at.issue(WithdrawArtifact(artifact_id=artifact.id, reason=reason))
        except ArtifactCannotWithdrawError:
            continue
        except ArtifactSealNotLiveError as refusal:
            blocked = refusal
    if blocked is not None:
        raise blocked


CALIBRATION_REACTIONS = (
    Reaction(name="artifact_withdrawer", events=frozenset({CalibrationRevisionWithdrawn}), handle=withdraw),
)
