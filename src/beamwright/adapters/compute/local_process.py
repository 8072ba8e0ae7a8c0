"""Jobs as processes of this machine: no shell, an allowlist, and a folder for each that outlives the service."""

import asyncio
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import msgspec

from beamwright.kernel.compute import (
    NOWHERE,
    ArtifactNotFoundError,
    ArtifactRef,
    ComputeJob,
    ComputeJobFailedError,
    ComputeNotAvailableError,
    ComputeStatus,
    ComputeSubmitRejectedError,
    ComputeTimeoutError,
    MeasurementNotFoundError,
    place_of,
)
from beamwright.kernel.control import Measurement
from beamwright.kernel.value import Value, encode

from .artifacts import artifact_of
from .locations import UriRoots, local_path
from .supervisor import HELD, write

SUPERVISOR = Path(__file__).with_name("supervisor.py")
LAUNCH_WITHIN = 30.0
LOOK_EVERY = 0.2
MOST_MEASUREMENTS = 64 << 20
LOST = "its supervisor was killed or the machine stopped, so how it ended is not known"


class Standing(StrEnum):
    """How far a job has come, as its folder tells."""

    NOT_BEGUN = "not begun"
    ALIVE = "alive"
    ENDED = "ended"


class JobEnd(Value):
    """What the supervisor wrote."""

    status: ComputeStatus
    failure: str | None = None
    exit_code: int | None = None


class LocalProcessCompute:
    """Starts programs, each under a supervisor that is nobody's child.

    A service may be killed at any moment: its successor finds in the job's folder whether the program has begun,
    lives or has ended. What has begun is never begun again.
    """

    simulated = False

    def __init__(
        self,
        root: Path,
        allowed_commands: Collection[str],
        uri_roots: Collection[str],
        place: str = "",
    ) -> None:
        self._root = root.absolute()
        self._allowed = frozenset(allowed_commands)
        self._uri_roots = UriRoots(uri_roots)
        self.place = place or (_place(self._root) if self._allowed else NOWHERE)

    async def submit(self, job: ComputeJob, job_key: str) -> str:
        self._check(job, job_key)
        return await asyncio.to_thread(self._submit, job, job_key)

    async def find(self, job_key: str) -> str | None:
        job_id = _id(job_key)
        folder = self._root / job_id
        begun = (folder / "begun").exists() or (folder / "end.json").exists()
        return job_id if begun else None

    async def await_end(self, job_id: str) -> ComputeStatus:
        folder = self._folder(job_id)
        # Another process ends the job and cannot wake us.
        while (standing := await asyncio.to_thread(_standing, folder)) is Standing.ALIVE:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_EVERY)
        if standing is Standing.NOT_BEGUN:
            raise ComputeNotAvailableError("The job has not begun; submit it again.")
        return _end(folder).status

    async def failure(self, job_id: str) -> str:
        await self.await_end(job_id)
        return _end(self._folder(job_id)).failure or ""

    async def cancel(self, job_id: str) -> None:
        await asyncio.to_thread(_cancel, self._folder(job_id))

    async def withdraw(self, job_key: str) -> str:
        """Leaves its mark even where nothing is known: a service that was just about to start the job finds it."""
        job_id = _id(job_key)
        folder = self._root / job_id
        await asyncio.to_thread(_cancel, folder)
        return job_id

    async def fetch_artifact(self, job_id: str) -> ArtifactRef:
        folder = await self._succeeded(job_id)
        job = msgspec.json.decode((folder / "job.json").read_bytes(), type=ComputeJob)
        if job.output_uri is None:
            raise ArtifactNotFoundError("The job was given no output_uri.")
        return await asyncio.to_thread(artifact_of, job.output_uri, local_path(job.output_uri))

    async def fetch_measurements(self, job_id: str) -> list[Measurement]:
        folder = await self._succeeded(job_id)
        return await asyncio.to_thread(_measurements, folder / "work" / "measurements.json")

    async def aclose(self) -> None:
        """Jobs go on; whoever comes next finds them."""

    def _check(self, job: ComputeJob, job_key: str) -> None:
        if place_of(job_key) != self.place:
            raise ComputeSubmitRejectedError(
                f"The job belongs to {place_of(job_key)}, and this is {self.place}."
            )
        if not self._allowed:
            raise ComputeSubmitRejectedError("No program may be run here: COMPUTE_ALLOWED_COMMANDS is empty.")
        if job.command[0] not in self._allowed:
            raise ComputeSubmitRejectedError(
                f"{job.command[0]!r} is not among COMPUTE_ALLOWED_COMMANDS, which names what may be run."
            )
        for uri in job.input_uris:
            self._uri_roots.check(uri)
        if job.output_uri is not None:
            self._uri_roots.check(job.output_uri)
            local_path(job.output_uri)

    def _submit(self, job: ComputeJob, job_key: str) -> str:
        job_id = _id(job_key)
        folder = self._root / job_id
        try:
            self._prepare(folder, job)
            if _standing(folder) is Standing.NOT_BEGUN:
                self._launch(folder)
        except OSError as error:
            raise ComputeNotAvailableError(f"The job's folder cannot be used: {error}.") from error
        return job_id

    def _prepare(self, folder: Path, job: ComputeJob) -> None:
        """What the job is; the first to write this decides, and nothing has begun before it is there."""
        (folder / "work").mkdir(mode=0o700, parents=True, exist_ok=True)
        if (folder / "job.json").exists():
            return
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder / "work"),
            "LANG": "C.UTF-8",
        }
        described = msgspec.structs.replace(job, environment=environment | job.environment)
        write(folder / "work", "parameters.json", encode(job.parameters).decode())
        write(folder, "job.json", encode(described).decode())

    def _launch(self, folder: Path) -> None:
        """Returns when the supervisor holds the lock on its own account; a second one finds that and leaves."""
        try:
            launched = subprocess.run(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", str(SUPERVISOR), str(folder)],
                env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                timeout=LAUNCH_WITHIN,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ComputeNotAvailableError("The supervisor did not start in time.") from error
        if launched.returncode not in (0, HELD):
            raise ComputeNotAvailableError(f"The supervisor ended with {launched.returncode}.")

    def _folder(self, job_id: str) -> Path:
        folder = self._root / job_id
        if Path(job_id).name != job_id or not folder.is_dir():
            raise ComputeNotAvailableError("There is no such job here.")
        return folder

    async def _succeeded(self, job_id: str) -> Path:
        status = await self.await_end(job_id)
        if status is ComputeStatus.TIMED_OUT:
            raise ComputeTimeoutError(await self.failure(job_id))
        if status is not ComputeStatus.SUCCEEDED:
            raise ComputeJobFailedError(await self.failure(job_id))
        return self._folder(job_id)


def _place(root: Path) -> str:
    """The name of this folder, given at its first use: of two services that share it, both have the same."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    chosen = root / f".place.{uuid4().hex}"
    chosen.write_text(uuid4().hex)
    with suppress(FileExistsError):
        os.link(chosen, root / "place")
    chosen.unlink()
    return (root / "place").read_text()


def _id(job_key: str) -> str:
    """A key can be long and hold anything; a folder's name cannot."""
    return sha256(job_key.encode()).hexdigest()[:40]


def _standing(folder: Path) -> Standing:
    """What has begun and is neither alive nor ended is lost: it is ended here, so that everybody sees the same."""
    if (folder / "end.json").exists():
        return Standing.ENDED

    def judged() -> Standing:
        if (folder / "end.json").exists():
            return Standing.ENDED
        if not (folder / "begun").exists():
            return Standing.NOT_BEGUN
        _write_end(folder, JobEnd(status=ComputeStatus.FAILED, failure=LOST))
        return Standing.ENDED

    return _locked(folder, judged) or Standing.ALIVE


def _cancel(folder: Path) -> None:
    """Tell the supervisor; where there is none, the job is ended here, before or instead of its beginning."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / "end.json").exists():
        return
    # First the wish, then the look: a supervisor that begins in between finds the wish.
    write(folder, "cancel", "")

    def withdrawn() -> bool:
        if not (folder / "end.json").exists():
            begun = (folder / "begun").exists()
            failure = LOST if begun else "cancelled before it began"
            status = ComputeStatus.FAILED if begun else ComputeStatus.CANCELLED
            _write_end(folder, JobEnd(status=status, failure=failure))
        return True

    _locked(folder, withdrawn)


def _locked[T](folder: Path, work: Callable[[], T]) -> T | None:
    """`work` done while nobody else can begin or end the job, or None when a supervisor or the program lives."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    else:
        return work()
    finally:
        os.close(lock)


def _end(folder: Path) -> JobEnd:
    return msgspec.json.decode((folder / "end.json").read_bytes(), type=JobEnd)


def _write_end(folder: Path, end: JobEnd) -> None:
    write(folder, "end.json", encode(end).decode())


def _measurements(path: Path) -> list[Measurement]:
    try:
        if path.stat().st_size > MOST_MEASUREMENTS:
            raise MeasurementNotFoundError(f"measurements.json is larger than {MOST_MEASUREMENTS} bytes.")
        found: Sequence[Measurement] = msgspec.json.decode(path.read_bytes(), type=list[Measurement])
    except OSError:
        raise MeasurementNotFoundError("The job left no measurements.json.") from None
    except msgspec.DecodeError as error:
        raise MeasurementNotFoundError(f"measurements.json is not a list of measurements: {error}.") from None
    return list(found)
