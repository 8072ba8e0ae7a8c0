"""Jobs that only seem to run: each ends as it was seeded. For tests, and for rehearsals without hardware."""

import asyncio
from collections.abc import Mapping
from hashlib import sha256

from beamwright.kernel.compute import (
    ArtifactNotFoundError,
    ArtifactRef,
    Checksum,
    ChecksumAlgorithm,
    ComputeJob,
    ComputeJobFailedError,
    ComputeNotAvailableError,
    ComputeStatus,
    ComputeTimeoutError,
    MeasurementNotFoundError,
)
from beamwright.kernel.control import Measurement
from beamwright.kernel.value import Value


class SeededEnd(Value):
    """How every job of one program ends; without a status it goes on until somebody cancels it."""

    status: ComputeStatus | None = ComputeStatus.SUCCEEDED
    failure: str = ""
    artifact: ArtifactRef | None = None
    measurements: tuple[Measurement, ...] = ()


def _nothing(job: ComputeJob) -> ArtifactRef | None:
    """The output of a program that nobody seeded: it is there, and empty."""
    if job.output_uri is None:
        return None
    digest = Checksum(algorithm=ChecksumAlgorithm.SHA256, value=sha256().hexdigest())
    return ArtifactRef(uri=job.output_uri, checksum=digest, byte_size=0)


class MemoryCompute:
    """Forgets everything with the process; nothing that it did was real."""

    place = "memory"
    simulated = True

    def __init__(self, ends: Mapping[str, SeededEnd] | None = None) -> None:
        self.ends = dict(ends or {})
        self.started: list[str] = []
        self._jobs: dict[str, asyncio.Future[ComputeStatus]] = {}
        self._seeded: dict[str, SeededEnd] = {}

    async def submit(self, job: ComputeJob, job_key: str) -> str:
        if job_key not in self._jobs:
            self.started.append(job_key)
            self._open(job_key, self.ends.get(job.command[0]) or SeededEnd(artifact=_nothing(job)))
        return job_key

    def _open(self, job_key: str, end: SeededEnd) -> None:
        self._seeded[job_key] = end
        self._jobs[job_key] = asyncio.get_running_loop().create_future()
        self.finish(job_key, end.status)

    def finish(self, job_id: str, status: ComputeStatus | None) -> None:
        """End a job that goes on."""
        if status is not None and not self._jobs[job_id].done():
            self._jobs[job_id].set_result(status)

    async def find(self, job_key: str) -> str | None:
        return job_key if job_key in self._jobs else None

    async def await_end(self, job_id: str) -> ComputeStatus:
        if job_id not in self._jobs:
            raise ComputeNotAvailableError("There is no such job here.")
        return await asyncio.shield(self._jobs[job_id])

    async def failure(self, job_id: str) -> str:
        status = await self.await_end(job_id)
        return self._seeded[job_id].failure or f"it was seeded to end {status}"

    async def cancel(self, job_id: str) -> None:
        if job_id in self._jobs:
            self.finish(job_id, ComputeStatus.CANCELLED)

    async def withdraw(self, job_key: str) -> str:
        if job_key not in self._jobs:
            self._open(job_key, SeededEnd(status=ComputeStatus.CANCELLED))
        await self.cancel(job_key)
        return job_key

    async def fetch_artifact(self, job_id: str) -> ArtifactRef:
        artifact = (await self._succeeded(job_id)).artifact
        if artifact is None:
            raise ArtifactNotFoundError("No artifact was seeded.")
        return artifact

    async def fetch_measurements(self, job_id: str) -> list[Measurement]:
        measurements = (await self._succeeded(job_id)).measurements
        if not measurements:
            raise MeasurementNotFoundError("No measurements were seeded.")
        return list(measurements)

    async def _succeeded(self, job_id: str) -> SeededEnd:
        match await self.await_end(job_id):
            case ComputeStatus.SUCCEEDED:
                return self._seeded[job_id]
            case ComputeStatus.TIMED_OUT:
                raise ComputeTimeoutError(await self.failure(job_id))
            case _:
                raise ComputeJobFailedError(await self.failure(job_id))

    async def aclose(self) -> None:
        for job in self._jobs.values():
            job.cancel()
