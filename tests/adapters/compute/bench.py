"""Both substrates behind one form: the same jobs, as seeded ends or as real programs that leave traces."""

import asyncio
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from beamwright.adapters.compute.local_process import LocalProcessCompute
from beamwright.adapters.compute.memory import MemoryCompute, SeededEnd
from beamwright.kernel.compute import (
    ArtifactRef,
    Checksum,
    ChecksumAlgorithm,
    ComputeJob,
    ComputePort,
    ComputeStatus,
)
from beamwright.kernel.control import Measurement

CONTENT = b"a volume"
READING = Measurement(value=1.5, name="centre", unit="px")
COUNT = "import sys; open(sys.argv[1], 'a').write('once\\n'); "
PROGRAMS = {
    "succeeds": COUNT,
    "fails": COUNT + "sys.stderr.write('no such angle'); sys.exit(3)",
    "endless": COUNT + "import time; time.sleep(600)",
    "slow": COUNT + "import time; time.sleep(600)",
    "makes": COUNT + f"open(sys.argv[2], 'wb').write({CONTENT!r})",
    "measures": COUNT
    + """open('measurements.json', 'w').write('[{"value": 1.5, "name": "centre", "unit": "px"}]')""",
}
ENDS = {
    "fails": SeededEnd(status=ComputeStatus.FAILED, failure="exit code 3: no such angle"),
    "endless": SeededEnd(status=None),
    "slow": SeededEnd(status=ComputeStatus.TIMED_OUT, failure="killed after 0.3 s"),
    "measures": SeededEnd(measurements=(READING,)),
}


class Bench(Protocol):
    """One substrate, and jobs for it."""

    port: ComputePort

    def key(self) -> str: ...
    def job(self, kind: str, *, output: bool = False) -> ComputeJob: ...
    def runs(self) -> int:
        """How often a program was started."""
        ...


class MemoryBench(Bench):
    def __init__(self, folder: Path) -> None:
        self.output_uri = (folder / "volume").as_uri()
        checksum = Checksum(algorithm=ChecksumAlgorithm.SHA256, value=sha256(CONTENT).hexdigest())
        made = ArtifactRef(uri=self.output_uri, checksum=checksum, byte_size=len(CONTENT))
        self.port = self.memory = MemoryCompute(
            ENDS | {"makes": SeededEnd(artifact=made), "succeeds": SeededEnd()}
        )

    def key(self) -> str:
        return f"memory/{uuid4()}"

    def job(self, kind: str, *, output: bool = False) -> ComputeJob:
        return ComputeJob(command=(kind,), output_uri=self.output_uri if output else None)

    def runs(self) -> int:
        return len(self.memory.started)


class LocalBench(Bench):
    """Every program notes its start in a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "compute"
        self.traces = folder / "traces"
        self.output = folder / "out" / "volume"
        self.output.parent.mkdir()
        self.port = self.service()

    def service(self) -> LocalProcessCompute:
        """A service on the same folder, which knows nothing of any other."""
        return LocalProcessCompute(self.root, [sys.executable], [self.output.parent.as_uri()])

    def key(self) -> str:
        return f"{self.port.place}/{uuid4()}"

    def job(self, kind: str, *, output: bool = False) -> ComputeJob:
        return self.program(PROGRAMS[kind], output=output, within=0.3 if kind == "slow" else 60.0)

    def program(self, script: str, *, output: bool = False, within: float = 60.0) -> ComputeJob:
        return ComputeJob(
            command=(sys.executable, "-c", script, str(self.traces), str(self.output)),
            output_uri=self.output.as_uri() if output else None,
            parameters={"angles": 1800},
            within=within,
        )

    def runs(self) -> int:
        return self.traces.read_text().count("once") if self.traces.exists() else 0

    async def started(self, runs: int = 1) -> None:
        await until(lambda: self.runs() >= runs)


async def until(holds: Callable[[], bool], within: float = 20.0) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        await asyncio.sleep(0.02)
