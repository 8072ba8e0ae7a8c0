"""What every compute substrate promises."""

import asyncio
from collections.abc import Callable, Coroutine
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from beamwright.kernel.compute import (
    ArtifactNotFoundError,
    ChecksumAlgorithm,
    ComputeJobFailedError,
    ComputeNotAvailableError,
    ComputeStatus,
    ComputeTimeoutError,
    MeasurementNotFoundError,
)
from tests.adapters.compute.bench import CONTENT, READING, Bench, LocalBench, MemoryBench

type Scenario = Callable[[Bench], Coroutine[Any, Any, None]]


def on_both(scenario: Scenario) -> Any:
    """A test of the scenario on each substrate."""

    @pytest.mark.parametrize("kind", [LocalBench, MemoryBench], ids=["local process", "memory"])
    def test(tmp_path: Path, kind: type[LocalBench] | type[MemoryBench]) -> None:
        async def told() -> None:
            bench = kind(tmp_path)
            await scenario(bench)
            await bench.port.aclose()

        asyncio.run(told())

    return test


@on_both
async def test_a_job_that_succeeds_says_so(bench: Bench) -> None:
    job_id = await bench.port.submit(bench.job("succeeds"), bench.key())
    assert await bench.port.await_end(job_id) is ComputeStatus.SUCCEEDED


@on_both
async def test_the_same_key_answers_the_same_job(bench: Bench) -> None:
    key, job = bench.key(), bench.job("succeeds")
    first = await bench.port.submit(job, key)
    assert await bench.port.submit(job, key) == first
    await bench.port.await_end(first)
    assert await bench.port.submit(job, key) == first
    assert (await bench.port.await_end(first), bench.runs()) == (ComputeStatus.SUCCEEDED, 1)


@on_both
async def test_of_many_submissions_at_once_one_starts(bench: Bench) -> None:
    key, job = bench.key(), bench.job("succeeds")
    ids = await asyncio.gather(*(bench.port.submit(job, key) for _ in range(6)))
    await bench.port.await_end(ids[0])
    assert len(set(ids)) == 1 and bench.runs() == 1


@on_both
async def test_another_key_is_another_job(bench: Bench) -> None:
    ids = [await bench.port.submit(bench.job("succeeds"), bench.key()) for _ in range(2)]
    for job_id in ids:
        await bench.port.await_end(job_id)
    assert len(set(ids)) == bench.runs() == 2


@on_both
async def test_a_job_is_found_by_its_key_once_it_has_begun(bench: Bench) -> None:
    key = bench.key()
    assert await bench.port.find(key) is None
    job_id = await bench.port.submit(bench.job("endless"), key)
    assert await bench.port.find(key) == job_id
    await bench.port.cancel(job_id)
    await bench.port.await_end(job_id)
    assert await bench.port.find(key) == job_id


@on_both
async def test_a_failure_is_told_in_the_programs_own_words(bench: Bench) -> None:
    job_id = await bench.port.submit(bench.job("fails"), bench.key())
    assert await bench.port.await_end(job_id) is ComputeStatus.FAILED
    assert await bench.port.failure(job_id) == "exit code 3: no such angle"


@on_both
async def test_a_job_that_takes_too_long_is_killed(bench: Bench) -> None:
    job_id = await bench.port.submit(bench.job("slow"), bench.key())
    assert await bench.port.await_end(job_id) is ComputeStatus.TIMED_OUT
    assert await bench.port.failure(job_id) == "killed after 0.3 s"
    with pytest.raises(ComputeTimeoutError):
        await bench.port.fetch_measurements(job_id)


@on_both
async def test_a_job_that_is_cancelled_ends(bench: Bench) -> None:
    job_id = await bench.port.submit(bench.job("endless"), bench.key())
    await bench.port.cancel(job_id)
    assert await bench.port.await_end(job_id) is ComputeStatus.CANCELLED
    with pytest.raises(ComputeJobFailedError):
        await bench.port.fetch_measurements(job_id)


@on_both
async def test_what_has_ended_cannot_be_cancelled(bench: Bench) -> None:
    job_id = await bench.port.submit(bench.job("succeeds"), bench.key())
    await bench.port.await_end(job_id)
    await bench.port.cancel(job_id)
    assert await bench.port.await_end(job_id) is ComputeStatus.SUCCEEDED


@on_both
async def test_what_is_withdrawn_ends(bench: Bench) -> None:
    key = bench.key()
    job_id = await bench.port.submit(bench.job("endless"), key)
    assert await bench.port.withdraw(key) == job_id
    assert await bench.port.await_end(job_id) is ComputeStatus.CANCELLED


@on_both
async def test_what_is_withdrawn_before_it_began_never_begins(bench: Bench) -> None:
    key = bench.key()
    job_id = await bench.port.withdraw(key)
    assert await bench.port.submit(bench.job("succeeds"), key) == job_id
    assert await bench.port.await_end(job_id) is ComputeStatus.CANCELLED
    assert bench.runs() == 0


@on_both
async def test_an_artifact_is_known_by_its_content(bench: Bench) -> None:
    job = bench.job("makes", output=True)
    job_id = await bench.port.submit(job, bench.key())
    made = await bench.port.fetch_artifact(job_id)
    assert (made.uri, made.byte_size) == (job.output_uri, len(CONTENT))
    assert made.checksum.algorithm is ChecksumAlgorithm.SHA256
    assert made.checksum.value == sha256(CONTENT).hexdigest()


@on_both
async def test_an_artifact_that_is_not_there_is_not_found(bench: Bench) -> None:
    job_id = await bench.port.submit(bench.job("succeeds", output=True), bench.key())
    with pytest.raises(ArtifactNotFoundError):
        await bench.port.fetch_artifact(job_id)


@on_both
async def test_measurements_are_what_the_program_left(bench: Bench) -> None:
    job_id = await bench.port.submit(bench.job("measures"), bench.key())
    assert await bench.port.fetch_measurements(job_id) == [READING]


@on_both
async def test_no_measurements_are_not_none(bench: Bench) -> None:
    job_id = await bench.port.submit(bench.job("succeeds"), bench.key())
    with pytest.raises(MeasurementNotFoundError):
        await bench.port.fetch_measurements(job_id)


@on_both
async def test_a_failed_job_has_no_result(bench: Bench) -> None:
    job_id = await bench.port.submit(bench.job("fails"), bench.key())
    with pytest.raises(ComputeJobFailedError, match="no such angle"):
        await bench.port.fetch_artifact(job_id)


@on_both
async def test_a_job_that_nobody_knows_is_not_awaited(bench: Bench) -> None:
    with pytest.raises(ComputeNotAvailableError):
        await bench.port.await_end("unheard-of")
