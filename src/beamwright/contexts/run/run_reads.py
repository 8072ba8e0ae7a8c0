"""Reads of runs: the views say in one call whether a run goes on, how it ended and why."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.calibration.calibration import Calibration, CalibrationRevisionStatus
from beamwright.kernel import text
from beamwright.kernel.aggregate import Filter, Test
from beamwright.kernel.holds import oldest_first
from beamwright.kernel.operation import World
from beamwright.kernel.value import Time, Value

from .run import HoldCause, Run, RunOutcome, RunStatus, runs

type Short = Annotated[str, Meta(max_length=200)]
type Seconds = Annotated[float, Meta(extra_json_schema={"unit": {"system": "udunits", "code": "s"}})]


class HoldReason(Value):
    """Why a run is held, and by whom."""

    claim_id: UUID
    cause: HoldCause
    held_by: UUID
    held_by_name: str
    reason: text.Reason


class PinnedCalibration(Value):
    """A calibration revision that a run pinned, as it is today."""

    revision_id: UUID
    calibration_id: UUID
    quantity: str
    status: CalibrationRevisionStatus


class RunExtras(Value):
    """What a run's view shows beyond its state, as of now."""

    outcome: RunOutcome
    hold_reasons: list[HoldReason]
    duration: Seconds
    plan_name: str | None
    subject_name: str | None
    pinned_calibrations: list[PinnedCalibration]
    observation_count: int
    logbook_entry_count: int


async def run_extras(world: World, states: Sequence[Run]) -> list[RunExtras]:
    holders = {claim.held_by for run in states for claim in run.hold_claims.values()}
    names = await world.profiles.names(holders)
    plan_names = await names_of(world, "Plan", {run.plan_id for run in states})
    subject_names = await names_of(world, "Subject", {run.subject_id for run in states if run.subject_id})
    pinned = await _pinned(world, frozenset(id for run in states for id in run.pinned_calibration_ids))
    counts = await world.observations.counts([run.id for run in states])
    return [
        RunExtras(
            outcome=run.outcome,
            hold_reasons=hold_reasons(run, names),
            duration=run.duration(world.now),
            plan_name=plan_names.get(run.plan_id),
            subject_name=None if run.subject_id is None else subject_names.get(run.subject_id),
            pinned_calibrations=[pinned[id] for id in sorted(run.pinned_calibration_ids) if id in pinned],
            observation_count=counts.get(run.id, 0),
            logbook_entry_count=len(run.logbook),
        )
        for run in states
    ]


def hold_reasons(run: Run, names: Mapping[UUID, str]) -> list[HoldReason]:
    """The concerns that hold a run, oldest first."""
    return [
        HoldReason(
            claim_id=claim_id,
            cause=claim.cause,
            held_by=claim.held_by,
            held_by_name=names[claim.held_by],
            reason=claim.reason,
        )
        for claim_id, claim in oldest_first(run.hold_claims)
    ]


async def names_of(world: World, aggregate_name: str, ids: set[UUID]) -> dict[UUID, str]:
    found: Sequence[Any] = await world.look_up(aggregate_name, ids) or () if ids else ()
    return {each.id: each.name for each in found}


async def _pinned(world: World, revision_ids: frozenset[UUID]) -> dict[UUID, PinnedCalibration]:
    if not revision_ids:
        return {}
    found: Sequence[Calibration] = await world.look_up("Calibration", revision_id=revision_ids) or ()
    return {
        revision.revision_id: PinnedCalibration(
            revision_id=revision.revision_id,
            calibration_id=calibration.id,
            quantity=calibration.quantity,
            status=revision.status,
        )
        for calibration in found
        for revision in calibration.revisions
    }


# Given both, external_scheme and external_value find runs that have the scheme and have the value.
runs.reads(
    "/runs",
    filters=(
        Filter[Run](name="status", type=frozenset[RunStatus], of=lambda run: run.status, test=Test.ONE_OF),
        Filter[Run](name="outcome", type=RunOutcome, of=lambda run: run.outcome),
        "plan_id",
        "practice_id",
        "method_id",
        "capability_id",
        "subject_id",
        "campaign_id",
        "visit_id",
        "facility_code",
        Filter[Run](name="asset_id", type=UUID, of=lambda run: sorted(run.asset_ids), test=Test.CONTAINS),
        Filter[Run](
            name="calibration_id",
            type=UUID,
            of=lambda run: sorted(run.pinned_calibration_ids),
            test=Test.CONTAINS,
        ),
        Filter[Run](
            name="external_scheme", type=Short, of=lambda run: sorted(run.external_refs), test=Test.CONTAINS
        ),
        Filter[Run](
            name="external_value",
            type=Short,
            of=lambda run: sorted({ref.value for ref in run.external_refs.values()}),
            test=Test.CONTAINS,
        ),
        "actuation_kind",
        "recorded",
        Filter[Run](name="started_from", type=Time, of=lambda run: run.started_at, test=Test.AT_LEAST),
        Filter[Run](name="started_until", type=Time, of=lambda run: run.started_at, test=Test.BEFORE),
    ),
    sorts=("created_at", "started_at", "ended_at", "updated_at", "name"),
    text=("name",),
    extras=(RunExtras, run_extras),
    hidden=("conducts",),
)
