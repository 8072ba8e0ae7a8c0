"""The compute substrate that the operator chose."""

from collections.abc import Collection
from pathlib import Path

from beamwright.kernel.compute import ComputePort

from .local_process import LocalProcessCompute
from .memory import MemoryCompute


def build_compute(
    name: str,
    *,
    root: Path,
    allowed_commands: Collection[str],
    uri_roots: Collection[str],
    place: str = "",
) -> ComputePort:
    """`local_process` or `memory`."""
    match name:
        case "local_process":
            return LocalProcessCompute(root, allowed_commands, uri_roots, place)
        case "memory":
            return MemoryCompute()
        case _:
            raise ValueError(f"COMPUTE_SUBSTRATE is {name!r}; it must be local_process or memory.")
