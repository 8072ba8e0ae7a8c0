"""Processes die at the worst moments: a program is started at most once, and its end is known if it can be."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from beamwright.adapters.compute import local_process
from beamwright.adapters.compute.local_process import LOST, SUPERVISOR
from beamwright.kernel.compute import ComputeNotAvailableError, ComputeStatus
from beamwright.kernel.value import encode
from tests.adapters.compute.bench import COUNT, LocalBench, until

type Scenario = Callable[[LocalBench], Coroutine[Any, Any, None]]

# A service that kills itself before or after it has launched the supervisor.
DOOMED = """
import asyncio, os, signal, sys
from pathlib import Path
import msgspec
from beamwright.adapters.compute.local_process import LocalProcessCompute
from beamwright.kernel.compute import ComputeJob

class Doomed(LocalProcessCompute):
    def _launch(self, folder):
        if {launches}:
            super()._launch(folder)
        os.kill(os.getpid(), signal.SIGKILL)

port = Doomed(Path(sys.argv[1]), [sys.executable], [])
asyncio.run(port.submit(msgspec.json.decode(sys.argv[3], type=ComputeJob), sys.argv[2]))
"""
# A supervisor that kills itself before or after it has written one of its files.
MORTAL = """
import os, signal, sys
sys.path.insert(0, {folder!r})
import supervisor
from pathlib import Path

written = supervisor.write

def write(folder, name, text):
    if {after} or name != {name!r}:
        written(folder, name, text)
    if name == {name!r}:
        os.kill(os.getpid(), signal.SIGKILL)

supervisor.write = write
sys.exit(supervisor.main(Path(sys.argv[1])))
"""


@pytest.fixture
def bench(tmp_path: Path) -> LocalBench:
    return LocalBench(tmp_path)


def mortal(bench: LocalBench, patch: pytest.MonkeyPatch, name: str, *, after: bool) -> None:
    """From now on supervisors die when they write this file."""
    script = bench.folder / "mortal.py"
    script.write_text(MORTAL.format(folder=str(SUPERVISOR.parent), name=name, after=after))
    patch.setattr(local_process, "SUPERVISOR", script)


def killed_service(bench: LocalBench, key: str, script: str, *, launches: bool) -> None:
    job = encode(bench.program(script)).decode()
    command = [sys.executable, "-c", DOOMED.format(launches=launches), str(bench.root), key, job]
    assert subprocess.run(command, timeout=60).returncode == -signal.SIGKILL


def numbered(bench: LocalBench) -> tuple[Path, str]:
    """A program that notes its own number and its supervisor's, and goes on."""
    note = bench.folder / "pids"
    script = COUNT + (
        f"import os, time; open({str(note)!r} + '.new', 'w').write(f'{{os.getpid()}} {{os.getppid()}}'); "
        f"os.rename({str(note)!r} + '.new', {str(note)!r}); time.sleep(600)"
    )
    return note, script


def alive(pid: int) -> bool:
    """Neither gone nor a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def test_a_service_killed_between_reservation_and_start_leaves_a_job_that_its_successor_starts(
    bench: LocalBench,
) -> None:
    key = bench.key()
    killed_service(bench, key, COUNT, launches=False)

    async def told() -> None:
        assert await bench.port.find(key) is None
        job_id = await bench.port.submit(bench.job("succeeds"), key)
        assert await bench.port.await_end(job_id) is ComputeStatus.SUCCEEDED

    asyncio.run(told())
    assert bench.runs() == 1


def test_a_service_killed_after_the_start_leaves_a_job_that_its_successor_only_awaits(
    bench: LocalBench,
) -> None:
    key = bench.key()
    killed_service(bench, key, COUNT + "import time; time.sleep(0.5)", launches=True)

    async def told() -> None:
        found = await bench.port.find(key)
        assert found is not None and found == await bench.port.submit(bench.job("succeeds"), key)
        assert await bench.port.await_end(found) is ComputeStatus.SUCCEEDED

    asyncio.run(told())
    assert bench.runs() == 1


def test_a_job_that_ended_while_nobody_looked_is_known(bench: LocalBench) -> None:
    key = bench.key()
    killed_service(bench, key, COUNT + "sys.stderr.write('no beam'); sys.exit(7)", launches=True)

    async def told() -> None:
        await until(lambda: any(bench.root.glob("*/end.json")))
        found = await bench.service().find(key)
        assert found is not None and await bench.service().await_end(found) is ComputeStatus.FAILED
        assert await bench.service().failure(found) == "exit code 7: no beam"

    asyncio.run(told())


def test_two_services_on_one_folder_start_a_job_once(bench: LocalBench) -> None:
    async def told() -> None:
        key, job = bench.key(), bench.job("succeeds")
        services = [bench.service() for _ in range(4)]
        ids = await asyncio.gather(*(service.submit(job, key) for service in services))
        ends = await asyncio.gather(*(service.await_end(ids[0]) for service in services))
        assert set(ends) == {ComputeStatus.SUCCEEDED}

    asyncio.run(told())
    assert bench.runs() == 1


def test_a_supervisor_killed_before_it_began_is_replaced(
    bench: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told() -> None:
        key, job = bench.key(), bench.job("succeeds")
        with monkeypatch.context() as patch:
            mortal(bench, patch, "begun", after=False)
            with pytest.raises(ComputeNotAvailableError):
                await bench.port.submit(job, key)
        assert await bench.port.find(key) is None
        job_id = await bench.port.submit(job, key)
        assert await bench.port.await_end(job_id) is ComputeStatus.SUCCEEDED

    asyncio.run(told())
    assert bench.runs() == 1


def test_a_supervisor_killed_just_after_it_began_loses_the_job_and_nobody_starts_it_again(
    bench: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told() -> None:
        key, job = bench.key(), bench.job("succeeds")
        with monkeypatch.context() as patch:
            mortal(bench, patch, "begun", after=True)
            with pytest.raises(ComputeNotAvailableError):
                await bench.port.submit(job, key)
        job_id = await bench.port.submit(job, key)
        assert await bench.port.await_end(job_id) is ComputeStatus.FAILED
        assert await bench.port.failure(job_id) == LOST

    asyncio.run(told())
    assert bench.runs() == 0


def test_a_supervisor_killed_before_it_told_the_end_loses_the_job_and_nobody_starts_it_again(
    bench: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told() -> None:
        key, job = bench.key(), bench.job("succeeds")
        with monkeypatch.context() as patch:
            mortal(bench, patch, "end.json", after=False)
            job_id = await bench.port.submit(job, key)
            assert await bench.port.await_end(job_id) is ComputeStatus.FAILED
        assert await bench.port.submit(job, key) == job_id
        assert await bench.service().failure(job_id) == LOST

    asyncio.run(told())
    assert bench.runs() == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the program goes on, and is awaited")
def test_a_supervisor_killed_while_the_program_runs_takes_it_along(bench: LocalBench) -> None:
    note, script = numbered(bench)

    async def told() -> None:
        key, job = bench.key(), bench.program(script)
        job_id = await bench.port.submit(job, key)
        await until(note.exists)
        program, supervisor = map(int, note.read_text().split())
        os.kill(supervisor, signal.SIGKILL)
        async with asyncio.timeout(20):
            assert await bench.port.await_end(job_id) is ComputeStatus.FAILED
        assert await bench.port.failure(job_id) == LOST
        assert not alive(program)
        assert await bench.port.submit(job, key) == job_id

    asyncio.run(told())
    assert bench.runs() == 1


def test_a_supervisor_that_is_told_to_stop_ends_the_program_and_says_so(bench: LocalBench) -> None:
    note, script = numbered(bench)

    async def told() -> None:
        job_id = await bench.port.submit(bench.program(script), bench.key())
        await until(note.exists)
        program, supervisor = map(int, note.read_text().split())
        os.kill(supervisor, signal.SIGTERM)
        assert await bench.port.await_end(job_id) is ComputeStatus.FAILED
        assert "told to stop" in await bench.port.failure(job_id) and not alive(program)

    asyncio.run(told())


def test_a_job_is_withdrawn_between_its_reservation_and_its_start(
    bench: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that slept through the end of its lease wakes up, and launches what is withdrawn."""

    async def told() -> None:
        key, job = bench.key(), bench.job("succeeds")
        sleeper = bench.service()
        launch = sleeper._launch  # type: ignore[reportPrivateUsage]

        def launch_late(folder: Path) -> None:
            asyncio.run(bench.service().withdraw(key))
            launch(folder)

        monkeypatch.setattr(sleeper, "_launch", launch_late)
        job_id = await sleeper.submit(job, key)
        assert await bench.port.await_end(job_id) is ComputeStatus.CANCELLED

    asyncio.run(told())
    assert bench.runs() == 0


def test_a_number_that_another_process_has_by_now_is_never_asked(bench: LocalBench) -> None:
    """Who lives is told by a lock: a folder that claims a beginning, and no lock, is a job that is lost."""

    async def told() -> None:
        key = bench.key()
        killed_service(bench, key, COUNT, launches=False)
        [folder] = [path.parent for path in bench.root.glob("*/job.json")]
        (folder / "begun").write_text(str(os.getpid()))
        assert await bench.port.await_end(folder.name) is ComputeStatus.FAILED
        assert (await bench.port.failure(folder.name), bench.runs()) == (LOST, 0)

    asyncio.run(told())


def test_a_supervisor_that_comes_late_finds_the_right_to_start_taken(bench: LocalBench) -> None:
    """Its service looked before another began the job, and launches it after that one is dead."""
    killed_service(bench, bench.key(), COUNT, launches=False)
    [folder] = [path.parent for path in bench.root.glob("*/job.json")]
    (folder / "begun").touch()
    late = subprocess.run([sys.executable, "-I", "-S", str(SUPERVISOR), str(folder)], timeout=30)
    assert late.returncode == 0
    assert asyncio.run(bench.port.await_end(folder.name)) is ComputeStatus.FAILED
    assert bench.runs() == 0
