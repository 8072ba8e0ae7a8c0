"""What happens to subjects by itself: runs measure them, and assets that are decommissioned lose them."""

from beamwright.contexts.equipment.asset import AssetDecommissioned, assets
from beamwright.contexts.run.run import RunCompleted, RunStopped, runs
from beamwright.contexts.subject.subject import SubjectCannotDismountError, subjects
from beamwright.contexts.subject.subject_mounting import (
    DismountSubject,
    MeasureSubject,
    SubjectInOpenRunError,
)
from beamwright.kernel.errors import (
    ConcurrencyError,
    ConflictError,
    IdempotencyInProgressError,
    NotFoundError,
)

from .reactions import Reacting, Reaction

# What these say of a command may be otherwise a moment later.
PASSING = (ConcurrencyError, IdempotencyInProgressError)


async def measure(event: RunCompleted | RunStopped, at: Reacting) -> None:
    """Record that the run measured its subject; where the rules refuse, somebody was there before."""
    run = await at.load(runs, event.run_id)
    if run is None or run.subject_id is None:
        return
    try:
        await at.issue(MeasureSubject(subject_id=run.subject_id, run_id=run.id))
    except PASSING:
        raise
    except (ConflictError, NotFoundError):
        return


async def dismount(event: AssetDecommissioned, at: Reacting) -> None:
    """Take off whatever is mounted on the asset; what an open run uses is tried again later."""
    asset = await at.load(assets, event.asset_id)
    name = asset.name if asset is not None else "The asset"
    blocked: SubjectInOpenRunError | None = None
    for subject in await at.find(subjects, mounted_on_asset_id=event.asset_id):
        reason = f"{name} ({event.asset_id}) was decommissioned."
        try:
            await at.issue(DismountSubject(subject_id=subject.id, reason=reason))
        except SubjectCannotDismountError:
            continue
        except SubjectInOpenRunError as refusal:
            blocked = refusal
    if blocked is not None:
        raise blocked


SUBJECT_REACTIONS = (
    Reaction(name="subject_measurer", events=frozenset({RunCompleted, RunStopped}), handle=measure),
    Reaction(name="subject_dismounter", events=frozenset({AssetDecommissioned}), handle=dismount),
)
