"""Reads the lock file: each package with its version, the hashes of its files, and who asked for it."""

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

LOCK = Path("requirements.lock")
ROOT = "beamwright"

# Some packages name their licence in words only, and some are not installed on this platform.
BY_WORDS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
ELSEWHERE = {
    "colorama": "BSD-3-Clause",
    "httpx2-jsfetch": "BSD-3-Clause",
    "pywin32": "PSF-2.0",
    "rich-click": "MIT",
    "tzdata": "Apache-2.0",
    "uvloop": "MIT OR Apache-2.0",
}
ALLOWED = {
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "PSF-2.0",
    "PostgreSQL",
}


class Package(NamedTuple):
    """A package as it is pinned."""

    name: str
    version: str
    # Where it is installed at all, as an environment marker; empty means everywhere.
    marker: str
    hashes: tuple[str, ...]
    # The packages that asked for it.
    via: tuple[str, ...]

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"

    @property
    def licence(self) -> str:
        """As an SPDX expression."""
        if self.name in ELSEWHERE:
            return ELSEWHERE[self.name]
        known = metadata.metadata(self.name)
        words = [
            each.rsplit(" :: ", 1)[-1] for each in known.get_all("Classifier") or () if "License ::" in each
        ]
        expression = known.get("License-Expression") or " OR ".join(BY_WORDS[word] for word in words)
        return expression or str(known.get("License"))

    @property
    def allowed(self) -> bool:
        """Whether everyone may use and pass on the service with it."""
        return set(re.split(r" OR | AND ", self.licence)) <= ALLOWED


def packages(lock: Path = LOCK) -> Iterator[Package]:
    for block in re.split(r"\n(?=\S)", lock.read_text()):
        head = re.match(r"([\w.-]+)(?:\[[^]]*])?==([^ ;\\]+)(?: ; ([^\\]+?))? \\", block)
        assert head is not None, f"This is not a pinned package: {block[:80]}"
        hashes = tuple(re.findall(r"--hash=sha256:(\w+)", block))
        _, _, comment = block.partition("# via")
        via = tuple(sorted(re.findall(r"[a-z][\w.-]*", comment.replace("(pyproject.toml)", ""))))
        yield Package(head[1], head[2], head[3] or "", hashes, via)
