"""The compute seam: how the service has a program run somewhere, and learns how that ended."""

from enum import StrEnum
from typing import Annotated, Any, Protocol

from msgspec import Meta

from .control import Measurement
from .value import Value

# Where no program may run at all; whatever is reserved there is rejected by whoever finds it.
NOWHERE = "nowhere"
SHA256 = r"^[0-9a-f]{64}$"


def place_of(job_key: str) -> str:
    """The place that runs the job, and the only one that may."""
    return job_key.partition("/")[0]


type Bytes = Annotated[
    int, Meta(ge=1, le=1 << 50, extra_json_schema={"unit": {"system": "udunits", "code": "byte"}})
]
type Count = Annotated[int, Meta(ge=0, le=1024)]
type Cores = Annotated[int, Meta(ge=1, le=4096)]
type Sha256 = Annotated[str, Meta(extra_json_schema={"pattern": SHA256})]


class ComputeStatus(StrEnum):
    """How a job ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    TIMED_OUT = "TimedOut"


class ChecksumAlgorithm(StrEnum):
    """The digest of one file, or of the sorted list of a folder's files with theirs."""

    SHA256 = "sha256"
    SHA256_TREE = "sha256-tree"


class Checksum(Value):
    algorithm: ChecksumAlgorithm
    value: Sha256


class ArtifactRef(Value):
    """What a job has made: where it is, and by which content it is known."""

    uri: str
    checksum: Checksum
    byte_size: int
    media_type: str | None = None
    conforms_to: tuple[str, ...] = ()
    # How many files, where it is a folder.
    entry_count: int | None = None


class ComputeResources(Value):
    """What a job asks for."""

    cpus: Cores | None = None
    system_memory: Bytes | None = None
    gpu_count: Count = 0
    gpu_memory: Bytes | None = None


class ComputeJob(Value):
    """A program with its arguments: a vector, never a line for a shell."""

    command: tuple[str, ...]
    input_uris: tuple[str, ...] = ()
    output_uri: str | None = None
    parameters: dict[str, Any] = {}
    resources: ComputeResources = ComputeResources()
    environment: dict[str, str] = {}
    # After so many seconds it is killed.
    within: float = 86_400.0


class ComputeError(Exception):
    """The substrate did not do what it was asked; every adapter raises one of the classes below."""


class ComputeSubmitRejectedError(ComputeError):
    """The substrate does not run this job, and would not tomorrow."""


class ComputeNotAvailableError(ComputeError):
    """The substrate does not answer, or has not begun yet; ask again."""


class ComputeTimeoutError(ComputeError):
    """The job was killed when its time was over."""


class ComputeJobFailedError(ComputeError):
    """The job failed or was cancelled, so it has no result."""


class ArtifactNotFoundError(ComputeError):
    """The job succeeded, but what it was to make is not there, or not readable."""


class MeasurementNotFoundError(ComputeError):
    """The job succeeded, but left no measurements that can be read."""


class ComputePort(Protocol):
    """One place where programs run. A job is known by its key, and runs at most once, whatever is lost meanwhile."""

    @property
    def place(self) -> str:
        """Names the place; a key begins with it, so that no other place runs the job as well."""
        ...

    @property
    def simulated(self) -> bool: ...

    async def submit(self, job: ComputeJob, job_key: str) -> str:
        """The id of the job of this key, which is started unless it was before."""
        ...

    async def find(self, job_key: str) -> str | None:
        """The id of the job of this key, if it was ever started."""
        ...

    async def await_end(self, job_id: str) -> ComputeStatus: ...

    async def failure(self, job_id: str) -> str:
        """Why a job that has ended did not succeed, in words."""
        ...

    async def cancel(self, job_id: str) -> None:
        """Have it end soon; what has ended stays as it is."""
        ...

    async def withdraw(self, job_key: str) -> str:
        """Cancel the job of this key, or keep it from ever beginning; its id."""
        ...

    async def fetch_artifact(self, job_id: str) -> ArtifactRef: ...
    async def fetch_measurements(self, job_id: str) -> list[Measurement]: ...
    async def aclose(self) -> None: ...
