"""Would it start, would it resume: every refusal that is due, not only the first."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from beamwright.kernel.errors import DomainError
from beamwright.kernel.holds import Concern, check_releases, oldest_first, releasable, without
from beamwright.kernel.operation import Query, World
from beamwright.kernel.value import Time, Value

from .gate import GateErrors, GateNotice, Judgement, gate_failures, gate_notices, judge
from .gate_errors import RUN_GATE
from .preparation import RunOrder, load_preparation
from .resume import RunHoldClaimsRemainError, load_run_gate
from .run import STATUS, Parameters, RunResumed, runs
from .start_rules import AFTER_GATE, BEFORE_GATE


class ReadinessFailure(Value):
    """One refusal that is due."""

    code: str
    detail: str
    context: dict[str, Any]


class Readiness(Value):
    """Whether work would start or resume now, and all that stands against it."""

    ready: bool
    failures: list[ReadinessFailure]
    notices: list[GateNotice]
    cautions: list[UUID]
    as_of: Time


class RunReadiness(Readiness):
    """Whether a run would start or resume now, and with which parameters."""

    effective_parameters: Parameters


@runs.operation("POST /runs/check-readiness")
class CheckRunReadiness(RunOrder, Query[RunReadiness]):
    """Tell everything that a start with this request would be refused for; nothing is recorded."""

    async def answer(self, world: World) -> RunReadiness:
        seen = await load_preparation(world, self)
        judged = judge(seen.gate, world.now)
        before = refusals(lambda rule=rule: rule(self, seen, judged) for rule in BEFORE_GATE)
        after = refusals(lambda rule=rule: rule(self, seen, judged) for rule in AFTER_GATE)
        failures = [*before, *gate_refusals(judged, RUN_GATE), *after]
        parameters = seen.effective_parameters(self.override_parameters)
        return _readiness(judged, failures, gate_notices(seen.gate), parameters)


@runs.operation("GET /runs/{run_id}/readiness")
class GetRunReadiness(Query[RunReadiness]):
    """Tell everything that a resume of this run would be refused for; nothing is recorded."""

    run_id: UUID

    async def answer(self, world: World) -> RunReadiness:
        run = await world.load(runs, self.run_id)
        gate = await load_run_gate(world, run)
        released = releasable(run.hold_claims, None, world.caller.principal_id)
        own = refusals(
            (
                lambda: STATUS.check(RunResumed, run.status, run.id),
                lambda: (
                    check_releases(released, run.hold_claims, "run", RunHoldClaimsRemainError)
                    if run.hold_claims
                    else None
                ),
            )
        )
        judged = judge(gate, world.now)
        notices = [*await remaining_holds(world, run.hold_claims, released, "run"), *gate_notices(gate)]
        return _readiness(judged, [*own, *gate_refusals(judged, RUN_GATE)], notices, run.effective_parameters)


def refusals(rules: Iterable[Callable[[], object]]) -> list[ReadinessFailure]:
    """What each of the rules refuses, if it does."""
    found: list[ReadinessFailure] = []
    for rule in rules:
        try:
            rule()
        except DomainError as refusal:
            found.append(
                ReadinessFailure(code=type(refusal).__name__, detail=refusal.detail, context=refusal.context)
            )
    return found


def gate_refusals(judged: Judgement, errors: GateErrors) -> list[ReadinessFailure]:
    return [
        ReadinessFailure(code=each.code, detail=each.detail, context=each.context)
        for each in gate_failures(judged, errors)
    ]


async def remaining_holds(
    world: World, claims: Mapping[UUID, Concern], released: frozenset[UUID], what: str
) -> list[GateNotice]:
    """A resume that releases some concerns leaves the work held by the others."""
    if not released:
        return []
    kept = oldest_first(without(claims, released))
    names = await world.profiles.names({claim.held_by for _, claim in kept})
    return [
        GateNotice(
            code="HoldClaimRemains",
            detail=f"{names[claim.held_by]} holds the {what}, too: {claim.reason}",
            context={"claim_id": str(claim_id), "cause": claim.cause, "held_by": str(claim.held_by)},
        )
        for claim_id, claim in kept
    ]


def _readiness(
    judged: Judgement, failures: list[ReadinessFailure], notices: list[GateNotice], parameters: Parameters
) -> RunReadiness:
    return RunReadiness(
        ready=not failures,
        failures=failures,
        notices=notices,
        cautions=sorted(judged.scope.caution_ids),
        effective_parameters=parameters,
        as_of=judged.now,
    )
