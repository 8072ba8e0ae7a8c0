"""Conducting a run: one compute job as its work, reserved in the log before anything is started."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from beamwright.contexts.recipe.launch import (
    LaunchSpec,
    argument_vector,
    check_uri,
    has_control,
)
from beamwright.contexts.recipe.method import methods
from beamwright.kernel import text
from beamwright.kernel.compute import ArtifactRef, ComputeResources, ComputeStatus
from beamwright.kernel.errors import ConflictError, InvalidError, NotFoundError
from beamwright.kernel.event import Event
from beamwright.kernel.operation import Occasion, Query, Tracked, World
from beamwright.kernel.value import Time, Value

from .gate import GateScope, check_gate, judge
from .gate_errors import RUN_GATE
from .resume import load_run_gate
from .run import (
    RUNNING,
    Parameters,
    Run,
    RunAborted,
    RunCannotConductError,
    RunCompleted,
    RunConduct,
    RunConductEnded,
    RunConductStarted,
    runs,
)
from .run_moves import RunCommand
from .values import ActuationKind

MOST_TOKENS = 256
MOST_TOKEN = 2048
MOST_URIS = 512
MOST_FAILURE = 500


class InvalidRunConductError(InvalidError):
    """A command is given where the method has one, missing where it has none, or has a token that no program takes."""


class RunConductNotFoundError(NotFoundError):
    """The run has no such conduct."""


class RunConductAlreadyEndedError(ConflictError):
    """How the conduct ended is recorded already."""


class RunConductView(Value):
    """A compute job as the run's work: what was asked for, and how it ended; `succeeded` is null until then."""

    run_id: UUID
    conduct_id: UUID
    command: tuple[str, ...]
    input_uris: tuple[str, ...]
    output_uri: str | None
    resources: ComputeResources | None
    parameters: Parameters
    job_key: str
    started_at: Time
    started_by: UUID | None
    ended_at: Time | None
    succeeded: bool | None
    job_id: str | None
    job_status: ComputeStatus | None
    artifact: ArtifactRef | None
    failure: text.Reason | None
    actuation_kind: ActuationKind | None


class NewRunConduct(Value):
    """What a receipt tells of a conduct."""

    conduct_id: UUID
    conduct: RunConductView


class ConductScope(Value):
    """A run, how its method is launched, and what the gate looks at."""

    run: Run
    launch_spec: LaunchSpec | None
    gate: GateScope
    allow_raw: bool = False
    place: str


@runs.operation("POST /runs/{run_id}/conduct", tracks="/runs/{run_id}/conducts/{conduct_id}")
class ConductRun(Tracked[ConductScope, NewRunConduct]):
    """Have a compute job do a run's work; the run completes or aborts when the job ends.

    Where the method has a launch specification, the command is made from it and the run's parameters.
    """

    run_id: UUID
    command: tuple[str, ...] | None = None
    input_uris: tuple[str, ...] = ()
    output_uri: str | None = None
    resources: ComputeResources | None = None

    async def gather(self, world: World) -> ConductScope:
        run = await world.load(runs, self.run_id)
        # The specification may have changed since; the run follows the method that it pinned.
        method = await world.view(methods, run.method_id, run.method_stream_version, None)
        return ConductScope(
            run=run,
            launch_spec=method.launch_spec,
            gate=await load_run_gate(world, run),
            allow_raw=world.installation.allow_raw_conduct,
            place=world.installation.compute_place,
        )

    def decide(self, seen: ConductScope, occasion: Occasion) -> RunConductStarted:
        run = seen.run
        command = self.vector(seen)
        check_conductable(run)
        check_gate(judge(seen.gate, occasion.now), RUN_GATE)
        return RunConductStarted(
            run_id=run.id,
            occurred_at=occasion.now,
            conduct_id=occasion.new_id,
            command=command,
            input_uris=self.input_uris,
            output_uri=self.output_uri,
            resources=self.resources,
            job_key=f"{seen.place}/{occasion.new_id}",
            started_by=occasion.principal_id,
        )

    def vector(self, seen: ConductScope) -> tuple[str, ...]:
        """The arguments: of the launch specification, or as they are given where that is allowed."""
        self._check_command(seen)
        spec, parameters = seen.launch_spec, seen.run.effective_parameters
        if spec is not None:
            check_tokens(values_as_given(spec, parameters), as_value=True)
            return argument_vector(spec, parameters, self.input_uris, self.output_uri)
        command = self.command or ()
        check_tokens(command)
        for uri in (*self.input_uris, *filter(None, [self.output_uri])):
            check_uri(uri)
        return command

    def _check_command(self, seen: ConductScope) -> None:
        if seen.launch_spec is not None and self.command is not None:
            raise InvalidRunConductError(
                "The method says how it is launched: leave the command out, and adjust the run's parameters."
            )
        if seen.launch_spec is None and not seen.allow_raw:
            raise InvalidRunConductError(
                "The method had no launch_spec when the run began: give it one with update_method_launch_spec and"
                " start another run. A command of your own needs the setting ALLOW_RAW_CONDUCT.",
                method_id=str(seen.run.method_id),
            )
        if seen.launch_spec is None and not 1 <= len(self.command or ()) <= MOST_TOKENS:
            raise InvalidRunConductError(f"Give a command of 1 to {MOST_TOKENS} tokens.", most=MOST_TOKENS)
        if len(self.input_uris) > MOST_URIS:
            raise InvalidRunConductError(f"Give at most {MOST_URIS} input_uris.", most=MOST_URIS)

    def told(self, run: Run) -> NewRunConduct:
        conduct = next(reversed(run.conducts.values()))
        return NewRunConduct(conduct_id=conduct.conduct_id, conduct=viewed(run, conduct))

    async def ended(self, world: World, receipt: NewRunConduct) -> NewRunConduct | None:
        run = await world.load(runs, self.run_id)
        conduct = run.conducts[receipt.conduct_id]
        if conduct.ended_at is None:
            return None
        return NewRunConduct(conduct_id=conduct.conduct_id, conduct=viewed(run, conduct))


def values_as_given(spec: LaunchSpec, parameters: Parameters) -> list[str]:
    """The parameters that become arguments letter by letter; others are written as JSON, which is always harmless."""
    values = (parameters.get(arg.name) for arg in spec.args)
    return [value for value in values if isinstance(value, str)]


def check_tokens(tokens: Iterable[str], *, as_value: bool = False) -> None:
    """Gate: no argument breaks a log or ends early, and no value is read as an option."""
    for position, token in enumerate(tokens):
        if len(token) > MOST_TOKEN or has_control(token) or (not token and not as_value):
            raise InvalidRunConductError(
                f"An argument has 1 to {MOST_TOKEN} characters, none of them a control character.",
                position=position,
            )
        if as_value and token.startswith("-"):
            raise InvalidRunConductError(
                "A text parameter that begins with “-” would be read as an option.", position=position
            )


def check_conductable(run: Run) -> None:
    """Gate: one job at a time, while the run is under way."""
    if run.status is not RUNNING:
        raise RunCannotConductError.of(run.id, run.status, {RUNNING})
    if run.conduct is not None:
        raise RunCannotConductError(
            "A compute job is under way; the run ends with it.",
            id=str(run.id),
            current=run.status,
            allowed=[RUNNING],
            conduct_id=str(run.conduct.conduct_id),
        )


@runs.operation("POST /runs/{run_id}/conducts/{conduct_id}/end")
class EndRunConduct(RunCommand):
    """Record how the compute job of a run ended, which ends the run too unless it is held; the service's own."""

    conduct_id: UUID
    job_status: ComputeStatus
    job_id: str | None = None
    artifact: ArtifactRef | None = None
    failure: text.Reason | None = None
    actuation_kind: ActuationKind | None = None

    async def gather(self, world: World) -> Run:
        run = await world.load(runs, self.run_id)
        conduct_of(run, self.conduct_id)
        return run

    def decide(self, run: Run, occasion: Occasion) -> list[Event]:
        if conduct_of(run, self.conduct_id).ended_at is not None:
            raise RunConductAlreadyEndedError(
                "The job's end is recorded once; read it with get_run_conduct.",
                run_id=str(run.id),
                conduct_id=str(self.conduct_id),
            )
        succeeded = self.job_status is ComputeStatus.SUCCEEDED and self.failure is None
        ended = RunConductEnded(
            run_id=run.id,
            occurred_at=occasion.now,
            conduct_id=self.conduct_id,
            succeeded=succeeded,
            job_status=self.job_status,
            job_id=self.job_id,
            artifact=self.artifact,
            failure=None if self.failure is None else line(self.failure),
            actuation_kind=self.actuation_kind,
        )
        if run.status is not RUNNING:
            return [ended]
        return [ended, self._run_ended(run, occasion, succeeded)]

    def _run_ended(self, run: Run, occasion: Occasion, succeeded: bool) -> Event:
        if succeeded:
            return RunCompleted(run_id=run.id, occurred_at=occasion.now, ended_by=occasion.principal_id)
        return RunAborted(
            run_id=run.id,
            occurred_at=occasion.now,
            reason=line(f"The compute job {HOW[self.job_status]}: {self.failure or 'it did not say why'}"),
            ended_by=occasion.principal_id,
        )


HOW = {
    ComputeStatus.SUCCEEDED: "left no result",
    ComputeStatus.FAILED: "failed",
    ComputeStatus.CANCELLED: "was cancelled",
    ComputeStatus.TIMED_OUT: "took too long",
}


def line(words: str) -> str:
    """One printable line that fits a reason, with the end of what was said, where programs tell the matter."""
    told = " ".join("".join(each if each.isprintable() else " " for each in words).split())
    return told if len(told) <= MOST_FAILURE else f"{told[:150]} … {told[-(MOST_FAILURE - 153) :]}"


class RunConducts(Value):
    """The compute jobs of a run, oldest first."""

    items: list[RunConductView]


@runs.operation("GET /runs/{run_id}/conducts/{conduct_id}")
class GetRunConduct(Query[RunConductView]):
    """Read one compute job of a run: what was asked for, whether it goes on, and how it ended."""

    run_id: UUID
    conduct_id: UUID

    async def answer(self, world: World) -> RunConductView:
        run = await world.load(runs, self.run_id)
        return viewed(run, conduct_of(run, self.conduct_id))


@runs.operation("GET /runs/{run_id}/conducts")
class ListRunConducts(Query[RunConducts]):
    """List the compute jobs of a run, oldest first."""

    run_id: UUID

    async def answer(self, world: World) -> RunConducts:
        run = await world.load(runs, self.run_id)
        return RunConducts(items=[viewed(run, conduct) for conduct in in_order(run)])


def in_order(run: Run) -> Sequence[RunConduct]:
    return sorted(run.conducts.values(), key=lambda each: (each.started_at, each.conduct_id))


def conduct_of(run: Run, conduct_id: UUID) -> RunConduct:
    if conduct_id not in run.conducts:
        raise RunConductNotFoundError.of("Conduct", conduct_id)
    return run.conducts[conduct_id]


def viewed(run: Run, conduct: RunConduct) -> RunConductView:
    return RunConductView(
        run_id=run.id,
        conduct_id=conduct.conduct_id,
        command=conduct.command,
        input_uris=conduct.input_uris,
        output_uri=conduct.output_uri,
        resources=conduct.resources,
        parameters=conduct.parameters,
        job_key=conduct.job_key,
        started_at=conduct.started_at,
        started_by=conduct.started_by,
        ended_at=conduct.ended_at,
        succeeded=conduct.succeeded,
        job_id=conduct.job_id,
        job_status=conduct.job_status,
        artifact=conduct.artifact,
        failure=conduct.failure,
        actuation_kind=conduct.actuation_kind,
    )
