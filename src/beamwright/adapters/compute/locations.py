"""Which URIs a job may be handed: those below roots that the operator named."""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from beamwright.kernel.compute import ComputeSubmitRejectedError

LOCAL_HOSTS = ("", "localhost")


class Location(NamedTuple):
    """A URI in the one form that can be compared; a file's is where its links lead."""

    scheme: str
    host: str
    segments: tuple[str, ...]

    def below(self, other: "Location") -> bool:
        return self[:2] == other[:2] and self.segments[: len(other.segments)] == other.segments


class UriRoots:
    """The places that jobs may read and write."""

    def __init__(self, roots: Collection[str]) -> None:
        self._roots = [location(root) for root in roots]

    def check(self, uri: str) -> None:
        """Judged at each submission, because links may have changed."""
        found = location(uri)
        if not any(found.below(root) for root in self._roots):
            raise ComputeSubmitRejectedError(f"{uri[:200]!r} lies under none of COMPUTE_URI_ROOTS.")


def location(uri: str) -> Location:
    """Where a URI leads; one that climbs, or that is no plain address, is rejected."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname or "", parts.port
        path = unquote(parts.path, errors="strict")
    except ValueError:
        raise ComputeSubmitRejectedError(f"{uri[:200]!r} is not a URI.") from None
    if "\0" in path or ".." in path.split("/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise ComputeSubmitRejectedError(f"{uri[:200]!r} must be a plain address without “..”.")
    scheme = parts.scheme.lower()
    if scheme == "file":
        if host not in LOCAL_HOSTS or not path.startswith("/"):
            raise ComputeSubmitRejectedError(f"{uri[:200]!r} names no file of this machine.")
        return Location(scheme, "", Path(path).resolve().parts)
    named = f"{host}:{port}" if port is not None else host
    return Location(scheme, named, tuple(segment for segment in path.split("/") if segment))


def local_path(uri: str) -> Path:
    """The file that a URI names; what a process of this machine makes must be one."""
    found = location(uri)
    if found.scheme != "file":
        raise ComputeSubmitRejectedError(
            f"{uri[:200]!r} is no file of this machine, so it cannot be checked."
        )
    return Path(*found.segments)
