"""Reads of procedures: the views say in one call whether a procedure ran, how it ended and why."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from beamwright.contexts.run.run_reads import Seconds, names_of
from beamwright.kernel import text
from beamwright.kernel.aggregate import Filter, Test
from beamwright.kernel.holds import oldest_first
from beamwright.kernel.operation import World
from beamwright.kernel.value import Time, Value

from .procedure import Procedure, ProcedureHoldCause, ProcedureStatus, procedures


class ProcedureHoldReason(Value):
    """Why a procedure is held, and by whom."""

    claim_id: UUID
    cause: ProcedureHoldCause
    held_by: UUID
    held_by_name: str
    reason: text.Reason


class ProcedureExtras(Value):
    """What a procedure's view shows beyond its state, as of now; its steps have a read of their own."""

    hold_reasons: list[ProcedureHoldReason]
    duration: Seconds | None
    parent_run_name: str | None
    recipe_name: str | None
    step_count: int
    closing_step_count: int


async def procedure_extras(world: World, states: Sequence[Procedure]) -> list[ProcedureExtras]:
    holders = {claim.held_by for procedure in states for claim in procedure.hold_claims.values()}
    names = await world.profiles.names(holders)
    run_names = await names_of(world, "Run", {each.parent_run_id for each in states if each.parent_run_id})
    recipe_names = await names_of(world, "Recipe", {each.recipe_id for each in states if each.recipe_id})
    return [
        ProcedureExtras(
            hold_reasons=_hold_reasons(each, names),
            duration=each.duration(world.now),
            parent_run_name=None if each.parent_run_id is None else run_names.get(each.parent_run_id),
            recipe_name=None if each.recipe_id is None else recipe_names.get(each.recipe_id),
            step_count=len(each.steps),
            closing_step_count=len(each.closing_steps),
        )
        for each in states
    ]


def _hold_reasons(procedure: Procedure, names: Mapping[UUID, str]) -> list[ProcedureHoldReason]:
    """The concerns that hold a procedure, oldest first."""
    return [
        ProcedureHoldReason(
            claim_id=claim_id,
            cause=claim.cause,
            held_by=claim.held_by,
            held_by_name=names[claim.held_by],
            reason=claim.reason,
        )
        for claim_id, claim in oldest_first(procedure.hold_claims)
    ]


procedures.reads(
    "/procedures",
    filters=(
        Filter[Procedure](
            name="status",
            type=frozenset[ProcedureStatus],
            of=lambda procedure: procedure.status,
            test=Test.ONE_OF,
        ),
        "kind",
        "parent_run_id",
        "capability_id",
        "recipe_id",
        Filter[Procedure](
            name="target_asset_id",
            type=UUID,
            of=lambda procedure: sorted(procedure.target_asset_ids),
            test=Test.CONTAINS,
        ),
        "facility_code",
        "visit_id",
        "actuation_kind",
        Filter[Procedure](
            name="started_from", type=Time, of=lambda procedure: procedure.started_at, test=Test.AT_LEAST
        ),
        Filter[Procedure](
            name="started_until", type=Time, of=lambda procedure: procedure.started_at, test=Test.BEFORE
        ),
    ),
    sorts=("created_at", "started_at", "ended_at", "updated_at", "name"),
    text=("name", "kind"),
    extras=(ProcedureExtras, procedure_extras),
    hidden=("steps", "closing_steps"),
)
