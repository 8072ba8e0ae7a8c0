"""Programs of this machine: what may be run, what it is given, and what is taken of what it made."""

import asyncio
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from beamwright.adapters.compute.local_process import LocalProcessCompute
from beamwright.adapters.compute.registry import build_compute
from beamwright.kernel.compute import (
    NOWHERE,
    ArtifactNotFoundError,
    ChecksumAlgorithm,
    ComputeJob,
    ComputeStatus,
    ComputeSubmitRejectedError,
    MeasurementNotFoundError,
)
from tests.adapters.compute.bench import COUNT, LocalBench, until


@pytest.fixture
def bench(tmp_path: Path) -> LocalBench:
    return LocalBench(tmp_path)


def ended(bench: LocalBench, job: ComputeJob) -> tuple[str, ComputeStatus]:
    async def told() -> tuple[str, ComputeStatus]:
        job_id = await bench.port.submit(job, bench.key())
        return job_id, await bench.port.await_end(job_id)

    return asyncio.run(told())


def rejected(port: LocalProcessCompute, job: ComputeJob, key: str | None = None) -> str:
    with pytest.raises(ComputeSubmitRejectedError) as refusal:
        asyncio.run(port.submit(job, key or f"{port.place}/x"))
    return str(refusal.value)


def test_only_what_is_allowed_is_run(bench: LocalBench) -> None:
    assert "COMPUTE_ALLOWED_COMMANDS" in rejected(bench.service(), ComputeJob(command=("/bin/sh", "-c", "x")))
    # A name that leads to an allowed program is not the name that is allowed.
    link = bench.folder / "python"
    link.symlink_to(sys.executable)
    assert "COMPUTE_ALLOWED_COMMANDS" in rejected(bench.service(), ComputeJob(command=(str(link),)))


def test_nothing_is_run_and_nothing_is_written_where_nothing_is_allowed(tmp_path: Path) -> None:
    port = LocalProcessCompute(tmp_path / "compute", [], [])
    assert "is empty" in rejected(port, ComputeJob(command=("true",)))
    assert port.place == NOWHERE and not (tmp_path / "compute").exists()


def test_a_job_of_another_place_is_not_run_here(bench: LocalBench) -> None:
    assert "belongs to elsewhere" in rejected(bench.service(), bench.job("succeeds"), "elsewhere/x")


def test_a_place_is_its_folder(bench: LocalBench, tmp_path: Path) -> None:
    other = LocalProcessCompute(tmp_path / "other", [sys.executable], [])
    named = LocalProcessCompute(tmp_path / "other", [sys.executable], [], "cluster-1")
    assert bench.port.place == bench.service().place != other.place
    assert named.place == "cluster-1"


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/passwd",
        "{root}/../secret",
        "{root}/%2e%2e/secret",
        "{root}x/file",
        "{root}/link/file",
        "file://elsewhere{path}/file",
        "https://example.org/file",
        "{root}/%ff",
    ],
)
def test_uris_lie_under_the_roots(bench: LocalBench, uri: str) -> None:
    """Climbing, a longer name and a link that leads out are all outside."""
    root = bench.output.parent
    (root / "link").symlink_to(bench.folder)
    given = uri.format(root=root.as_uri(), path=root)
    for job in (ComputeJob(command=(sys.executable,), input_uris=(given,)),) * 2:
        assert given in rejected(bench.service(), job)
    assert rejected(bench.service(), ComputeJob(command=(sys.executable,), output_uri=given))


def test_a_root_may_be_elsewhere_but_what_is_made_must_be_here(tmp_path: Path) -> None:
    port = LocalProcessCompute(tmp_path / "compute", [sys.executable], ["s3://scans/2026/"])
    job = ComputeJob(command=(sys.executable, "-c", ""), input_uris=("s3://scans/2026/a.h5",))

    async def told() -> None:
        job_id = await port.submit(job, f"{port.place}/1")
        assert await port.await_end(job_id) is ComputeStatus.SUCCEEDED

    asyncio.run(told())
    assert rejected(port, ComputeJob(command=(sys.executable,), input_uris=("s3://scans/2025/a.h5",)))
    assert "cannot be checked" in rejected(
        port, ComputeJob(command=(sys.executable,), output_uri="s3://scans/2026/b.h5")
    )


def test_no_shell_reads_the_arguments(bench: LocalBench) -> None:
    script = f"import sys; open({str(bench.output)!r}, 'w').write(sys.argv[1])"
    words = f"$(touch {bench.folder}/a); touch {bench.folder}/b | `touch {bench.folder}/c` *"
    _, status = ended(bench, ComputeJob(command=(sys.executable, "-c", script, words)))
    assert status is ComputeStatus.SUCCEEDED and bench.output.read_text() == words
    assert not any((bench.folder / name).exists() for name in "abc")


def test_the_services_secrets_are_not_the_programs(
    bench: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATACITE_PASSWORD", "hunter2")
    script = f"import os; open({str(bench.output)!r}, 'w').write(repr(dict(os.environ)))"
    ended(bench, ComputeJob(command=(sys.executable, "-c", script), environment={"THREADS": "4"}))
    found = bench.output.read_text()
    assert "hunter2" not in found and "'THREADS': '4'" in found and "PATH" in found


def test_parameters_lie_in_the_working_folder(bench: LocalBench) -> None:
    script = f"open({str(bench.output)!r}, 'w').write(open('parameters.json').read())"
    ended(bench, bench.program(script))
    assert bench.output.read_text() == '{"angles":1800}'


def test_a_failure_is_told_by_the_last_300_characters(bench: LocalBench) -> None:
    job_id, _ = ended(bench, bench.program("import sys; sys.exit('a' * 1000 + 'ü' * 300)"))
    assert asyncio.run(bench.port.failure(job_id)) == "exit code 1: " + "ü" * 300


def test_a_program_that_cannot_be_started_fails(bench: LocalBench) -> None:
    port = LocalProcessCompute(bench.root, ["no-such-program"], [])

    async def told() -> None:
        job_id = await port.submit(ComputeJob(command=("no-such-program",)), f"{port.place}/1")
        assert await port.await_end(job_id) is ComputeStatus.FAILED
        assert "cannot be started" in await port.failure(job_id)

    asyncio.run(told())


def test_a_program_killed_by_a_signal_says_which(bench: LocalBench) -> None:
    job_id, status = ended(bench, bench.program("import os; os.kill(os.getpid(), 9)"))
    assert (status, asyncio.run(bench.port.failure(job_id))) == (ComputeStatus.FAILED, "killed by signal 9")


def test_what_a_program_started_ends_with_it(bench: LocalBench) -> None:
    """Also where the program itself ignores the first, polite signal."""
    script = COUNT + (
        "import signal, subprocess, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
        "open(sys.argv[2], 'w').write(str(child.pid)); time.sleep(600)"
    )

    async def told() -> int:
        job_id = await bench.port.submit(bench.program(script), bench.key())
        await until(lambda: bench.output.exists() and bench.output.read_text() != "")
        await bench.port.cancel(job_id)
        assert await bench.port.await_end(job_id) is ComputeStatus.CANCELLED
        return int(bench.output.read_text())

    child = asyncio.run(told())
    stat = Path(f"/proc/{child}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_folder_is_known_by_all_its_files(bench: LocalBench) -> None:
    files = {"b/2.raw": b"two", "a.raw": b"one", "b/ä.raw": b""}
    for name, content in files.items():
        path = bench.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    job_id, _ = ended(bench, bench.program("", output=True))
    made = asyncio.run(bench.port.fetch_artifact(job_id))
    lines = [f"{sha256(files[n]).hexdigest()} {len(files[n])} {n}\n" for n in ("a.raw", "b/2.raw", "b/ä.raw")]
    assert made.checksum.algorithm is ChecksumAlgorithm.SHA256_TREE
    assert made.checksum.value == sha256("".join(lines).encode()).hexdigest()
    assert (made.byte_size, made.entry_count) == (6, 3)


def test_a_folder_with_a_link_has_no_digest(bench: LocalBench) -> None:
    bench.output.mkdir()
    (bench.output / "link").symlink_to("/etc/passwd")
    job_id, _ = ended(bench, bench.program("", output=True))
    with pytest.raises(ArtifactNotFoundError, match="link"):
        asyncio.run(bench.port.fetch_artifact(job_id))


def test_measurements_that_make_no_sense_are_not_found(bench: LocalBench) -> None:
    job_id, _ = ended(bench, bench.program("open('measurements.json', 'w').write('{}')"))
    with pytest.raises(MeasurementNotFoundError, match="not a list"):
        asyncio.run(bench.port.fetch_measurements(job_id))


def test_the_operator_chooses_the_substrate(tmp_path: Path) -> None:
    def chosen(name: str) -> bool:
        return build_compute(name, root=tmp_path, allowed_commands=[], uri_roots=[]).simulated

    assert chosen("memory") and not chosen("local_process")
    with pytest.raises(ValueError, match="COMPUTE_SUBSTRATE"):
        chosen("abacus")
