"""Would it start, would it resume: every refusal that is due, not only the first."""

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from beamwright.kernel.errors import DomainError
from beamwright.kernel.operation import Query, World
from beamwright.kernel.value import Time, Value

from .gate import GateNotice, Judgement, gate_failures, gate_notices, judge
from .gate_errors import RUN_GATE
from .preparation import RunOrder, load_preparation
from .resume import check_releases, load_run_gate, releasable
from .run import STATUS, Parameters, Run, RunResumed, runs
from .run_reads import hold_reasons
from .start_rules import AFTER_GATE, BEFORE_GATE


class ReadinessFailure(Value):
    """One refusal that is due."""

    code: str
    detail: str
    context: dict[str, Any]


class RunReadiness(Value):
    """Whether a run would start or resume now, and all that stands against it."""

    ready: bool
    failures: list[ReadinessFailure]
    notices: list[GateNotice]
    cautions: list[UUID]
    effective_parameters: Parameters
    as_of: Time


@runs.operation("POST /runs/check-readiness")
class CheckRunReadiness(RunOrder, Query[RunReadiness]):
    """Tell everything that a start with this request would be refused for; nothing is recorded."""

    async def answer(self, world: World) -> RunReadiness:
        seen = await load_preparation(world, self)
        judged = judge(seen.gate, world.now)
        before = refusals(lambda rule=rule: rule(self, seen, judged) for rule in BEFORE_GATE)
        after = refusals(lambda rule=rule: rule(self, seen, judged) for rule in AFTER_GATE)
        failures = [*before, *_gate_refusals(judged), *after]
        parameters = seen.effective_parameters(self.override_parameters)
        return _readiness(judged, failures, gate_notices(seen.gate), parameters)


@runs.operation("GET /runs/{run_id}/readiness")
class GetRunReadiness(Query[RunReadiness]):
    """Tell everything that a resume of this run would be refused for; nothing is recorded."""

    run_id: UUID

    async def answer(self, world: World) -> RunReadiness:
        run = await world.load(runs, self.run_id)
        gate = await load_run_gate(world, run)
        released = releasable(run, None, world.caller.principal_id)
        own = refusals(
            (
                lambda: STATUS.check(RunResumed, run.status, run.id),
                lambda: check_releases(run, released) if run.hold_claims else None,
            )
        )
        judged = judge(gate, world.now)
        notices = [*await _remaining(world, run, released), *gate_notices(gate)]
        return _readiness(judged, [*own, *_gate_refusals(judged)], notices, run.effective_parameters)


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


def _gate_refusals(judged: Judgement) -> list[ReadinessFailure]:
    return [
        ReadinessFailure(code=each.code, detail=each.detail, context=each.context)
        for each in gate_failures(judged, RUN_GATE)
    ]


async def _remaining(world: World, run: Run, released: frozenset[UUID]) -> list[GateNotice]:
    """A resume that releases some concerns leaves the run held by the others."""
    if not released:
        return []
    names = await world.profiles.names({claim.held_by for claim in run.hold_claims.values()})
    return [
        GateNotice(
            code="HoldClaimRemains",
            detail=f"{each.held_by_name} holds the run, too: {each.reason}",
            context={"claim_id": str(each.claim_id), "cause": each.cause, "held_by": str(each.held_by)},
        )
        for each in hold_reasons(run, names)
        if each.claim_id not in released
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
