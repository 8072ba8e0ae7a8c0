"""Conducting a run: what becomes of parameters, what is refused in which order, and how the end ends the run."""

from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.enclosure.enclosure import PermitStatus
from beamwright.contexts.recipe.launch import (
    LaunchArg,
    LaunchArgStyle,
    LaunchSpec,
    MissingLaunchParameterError,
    UnsafeLaunchUriError,
)
from beamwright.contexts.run.conduct import (
    ConductRun,
    ConductScope,
    EndRunConduct,
    InvalidRunConductError,
    RunConductAlreadyEndedError,
    RunConductNotFoundError,
    viewed,
)
from beamwright.contexts.run.gate_errors import RunRequiresPermittedEnclosureError
from beamwright.contexts.run.run import (
    Run,
    RunAborted,
    RunAdjusted,
    RunCannotConductError,
    RunCompleted,
    RunConductEnded,
    RunConductStarted,
    RunResumed,
    RunStatus,
    runs,
)
from beamwright.contexts.run.values import ActuationKind
from beamwright.kernel.compute import (
    ArtifactRef,
    Checksum,
    ChecksumAlgorithm,
    ComputeResources,
    ComputeStatus,
)
from beamwright.kernel.event import Event
from tests.contexts.run.examples import (
    ABORTED,
    CLAIM,
    HELD,
    HUTCH,
    OPEN_GATE,
    REACH,
    RUN,
    enclosure,
    gate,
    run,
)
from tests.rules import NEW_ID, NOW, PRINCIPAL, given, outcome

CLOSED_GATE = gate(enclosures={HUTCH: enclosure(status=PermitStatus.NOT_PERMITTED)})
RECONSTRUCT = LaunchSpec(
    base_command=("reconstruct", "--quiet"),
    args=(
        LaunchArg(name="angles", flag="--angles", required=True),
        LaunchArg(name="fast", flag="--fast", style=LaunchArgStyle.FLAG_ONLY),
        LaunchArg(name="filter", position=0),
    ),
    input_arg="--in",
    output_arg="--out",
)
PARAMETERS = {"angles": 1800, "fast": True, "filter": "ramp"}
RAW, OUTPUT = "file:///data/raw.h5", "file:///data/volume.h5"
CONDUCT = UUID(int=601)
STARTED = RunConductStarted(
    run_id=RUN,
    occurred_at=NOW,
    conduct_id=CONDUCT,
    command=("reconstruct",),
    input_uris=(),
    output_uri=OUTPUT,
    resources=None,
    job_key=f"here/{CONDUCT}",
    started_by=PRINCIPAL,
)
ARTIFACT = ArtifactRef(
    uri=OUTPUT, checksum=Checksum(algorithm=ChecksumAlgorithm.SHA256, value="0" * 64), byte_size=3
)


def scope(state: Run | None = None, spec: LaunchSpec | None = RECONSTRUCT, **changes: Any) -> ConductScope:
    """A run of a method that says how it is launched, with nothing against it."""
    told: dict[str, Any] = {"gate": OPEN_GATE, "place": "here"} | changes
    return ConductScope(run=state or run(effective_parameters=PARAMETERS), launch_spec=spec, **told)


def conduct(seen: ConductScope, **fields: Any) -> Any:
    return outcome(ConductRun(run_id=RUN, **fields), seen)


def ended(*events: Event, status: ComputeStatus = ComputeStatus.SUCCEEDED, **fields: Any) -> Any:
    """What the end of the job decides, after these events of the run."""
    command = EndRunConduct(run_id=RUN, conduct_id=CONDUCT, job_status=status, **fields)
    return outcome(command, run(STARTED, *events))


# The reservation


def test_the_reservation_holds_the_whole_job() -> None:
    wanted = ComputeResources(cpus=8, system_memory=64 << 30)
    assert conduct(scope(), input_uris=(RAW,), output_uri=OUTPUT, resources=wanted) == [
        RunConductStarted(
            run_id=RUN,
            occurred_at=NOW,
            conduct_id=NEW_ID,
            command=(
                *("reconstruct", "--quiet", "--angles", "1800", "--fast", "ramp"),
                *("--in", RAW, "--out", OUTPUT),
            ),
            input_uris=(RAW,),
            output_uri=OUTPUT,
            resources=wanted,
            job_key=f"here/{NEW_ID}",
            started_by=PRINCIPAL,
        )
    ]


def test_a_command_of_ones_own_is_taken_where_it_is_allowed() -> None:
    [event] = conduct(scope(spec=None, allow_raw=True), command=("tar", "-c", "x"))
    assert event.command == ("tar", "-c", "x")


def test_a_method_that_says_how_it_is_launched_takes_no_command() -> None:
    assert conduct(scope(allow_raw=True), command=("tar",)) is InvalidRunConductError


@pytest.mark.parametrize("command", [None, (), ("tar",)])
def test_a_method_without_a_launch_needs_the_setting(command: Any) -> None:
    assert conduct(scope(spec=None), command=command) is InvalidRunConductError


@pytest.mark.parametrize(
    "command", [None, (), ("",), ("tar", ""), ("tar", "a\0b"), ("tar", "a\nb"), ("x",) * 257, ("x" * 2049,)]
)
def test_a_bad_command_is_refused(command: Any) -> None:
    assert conduct(scope(spec=None, allow_raw=True), command=command) is InvalidRunConductError


@pytest.mark.parametrize("value", ["a\0b", "a\nb", "--output=/etc/passwd", "-rf", "x" * 2049])
@pytest.mark.parametrize("name", ["angles", "filter"])
def test_no_text_parameter_is_read_as_an_option_or_ends_early(name: str, value: str) -> None:
    seen = scope(run(effective_parameters=PARAMETERS | {name: value}))
    assert conduct(seen) is InvalidRunConductError


def test_a_negative_number_is_a_number() -> None:
    [event] = conduct(scope(run(effective_parameters=PARAMETERS | {"filter": -1.5})))
    assert "-1.5" in event.command


def test_so_many_inputs_and_no_more() -> None:
    assert not isinstance(conduct(scope(), input_uris=(RAW,) * 512), type)
    assert conduct(scope(), input_uris=(RAW,) * 513) is InvalidRunConductError


@pytest.mark.parametrize(
    "uri",
    [
        "ftp://x/y",
        "/etc/passwd",
        "--help",
        "file:///a\nb",
        "https://user:secret@x/y",
        "https://x/y?X-Amz-Signature=secret",
        "s3://bucket/key#part",
        "file:///" + "x" * 2048,
    ],
)
@pytest.mark.parametrize("spec", [RECONSTRUCT, None])
def test_an_unsafe_uri_is_refused_with_and_without_a_launch(uri: str, spec: LaunchSpec | None) -> None:
    command = ("tar",) if spec is None else None
    seen = scope(spec=spec, allow_raw=True)
    assert conduct(seen, command=command, input_uris=(RAW, uri)) is UnsafeLaunchUriError
    assert conduct(seen, command=command, output_uri=uri) is UnsafeLaunchUriError


def test_a_refused_secret_is_not_repeated() -> None:
    with pytest.raises(UnsafeLaunchUriError) as refusal:
        ConductRun(run_id=RUN, input_uris=("https://user:hunter2@x/y",)).vector(scope())
    assert "hunter2" not in f"{refusal.value.detail} {refusal.value.context}"


@pytest.mark.parametrize("status", sorted(REACH))
def test_only_a_running_run_is_conducted(status: str) -> None:
    state = given(runs, *REACH[status])
    result = conduct(scope(state, spec=None, allow_raw=True), command=("tar",))
    assert (result is RunCannotConductError) == (status != "Running")


def test_one_job_at_a_time() -> None:
    assert conduct(scope(run(STARTED, effective_parameters=PARAMETERS))) is RunCannotConductError


def test_the_gate_is_passed() -> None:
    assert conduct(scope(gate=CLOSED_GATE)) is RunRequiresPermittedEnclosureError


def test_refusals_come_in_order() -> None:
    bad: dict[str, Any] = {"input_uris": ("ftp://x",)}
    state = run(HELD, effective_parameters={"fast": True})
    seen = scope(state, gate=CLOSED_GATE)
    assert conduct(seen, command=("tar",), **bad) is InvalidRunConductError
    assert conduct(seen, **bad) is MissingLaunchParameterError
    complete = scope(run(HELD, effective_parameters=PARAMETERS), gate=CLOSED_GATE)
    assert conduct(complete, **bad) is UnsafeLaunchUriError
    assert conduct(complete) is RunCannotConductError
    assert conduct(scope(gate=CLOSED_GATE)) is RunRequiresPermittedEnclosureError


def test_the_receipt_tells_the_conduct() -> None:
    told = ConductRun(run_id=RUN).told(run(STARTED))
    assert (told.conduct_id, told.conduct.command, told.conduct.succeeded) == (
        CONDUCT,
        ("reconstruct",),
        None,
    )


def test_an_adjustment_does_not_reach_a_job_that_is_under_way() -> None:
    adjusted = RunAdjusted(
        run_id=RUN,
        occurred_at=NOW,
        parameters_patch={"angles": 900},
        effective_parameters={"angles": 900},
        parameters_schema_version=0,
        reason="too slow",
        adjusted_by=PRINCIPAL,
    )
    state = run(STARTED, adjusted, effective_parameters=PARAMETERS)
    assert viewed(state, state.conducts[CONDUCT]).parameters == PARAMETERS


# The end


def test_a_job_that_succeeds_completes_the_run() -> None:
    result = ended(job_id="j", artifact=ARTIFACT, actuation_kind=ActuationKind.PHYSICAL)
    assert result == [
        RunConductEnded(
            run_id=RUN,
            occurred_at=NOW,
            conduct_id=CONDUCT,
            succeeded=True,
            job_status=ComputeStatus.SUCCEEDED,
            job_id="j",
            artifact=ARTIFACT,
            actuation_kind=ActuationKind.PHYSICAL,
        ),
        RunCompleted(run_id=RUN, occurred_at=NOW, ended_by=PRINCIPAL),
    ]
    after = run(STARTED, *result)
    assert (after.status, after.conduct, after.actuation_kind) == (
        RunStatus.COMPLETED,
        None,
        ActuationKind.PHYSICAL,
    )


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (ComputeStatus.FAILED, "failed: exit code 3: no such file"),
        (ComputeStatus.TIMED_OUT, "took too long: exit code 3: no such file"),
        (ComputeStatus.CANCELLED, "was cancelled: exit code 3: no such file"),
        (ComputeStatus.SUCCEEDED, "left no result: exit code 3: no such file"),
    ],
)
def test_a_job_without_a_result_aborts_the_run_and_the_reason_says_why(
    status: ComputeStatus, says: str
) -> None:
    told, aborted = ended(status=status, failure="exit code 3:\n  no such file")
    assert not told.succeeded and told.job_status is status
    assert isinstance(aborted, RunAborted) and aborted.reason == f"The compute job {says}"


def test_a_long_failure_keeps_its_beginning_and_its_end() -> None:
    told, aborted = ended(status=ComputeStatus.FAILED, failure="exit code 1: " + "x" * 600 + " the matter")
    for words in (told.failure, aborted.reason):
        assert len(words) <= 500 and "exit code 1" in words and words.endswith("the matter")


@pytest.mark.parametrize("status", [*ComputeStatus])
def test_a_run_that_is_held_is_not_ended_by_its_job(status: ComputeStatus) -> None:
    [event] = ended(HELD, status=status)
    assert isinstance(event, RunConductEnded)
    after = run(STARTED, HELD, event)
    assert (after.status, after.conduct) == (RunStatus.HELD, None)


def test_a_run_that_has_ended_stays_as_it_ended() -> None:
    [event] = ended(ABORTED, status=ComputeStatus.CANCELLED)
    after = run(STARTED, ABORTED, event)
    assert (after.status, after.status_reason, after.conduct) == (RunStatus.ABORTED, "collision", None)


def test_an_end_is_recorded_once() -> None:
    [first] = ended(HELD)
    assert ended(HELD, first) is RunConductAlreadyEndedError


def test_the_end_of_an_earlier_conduct_does_not_end_the_one_that_is_open() -> None:
    [first] = ended(HELD)
    resumed = RunResumed(
        run_id=RUN, occurred_at=NOW, released_claim_ids=frozenset({CLAIM}), resumed_by=PRINCIPAL
    )
    second = RunConductStarted(
        run_id=RUN,
        occurred_at=NOW,
        conduct_id=UUID(int=602),
        command=("again",),
        input_uris=(),
        output_uri=None,
        resources=None,
        job_key="here/602",
    )
    assert ended(HELD, first, resumed, second) is RunConductAlreadyEndedError


def test_there_is_no_end_without_a_beginning() -> None:
    command = EndRunConduct(run_id=RUN, conduct_id=UUID(int=9), job_status=ComputeStatus.SUCCEEDED)
    assert outcome(command, run(STARTED)) is RunConductNotFoundError
