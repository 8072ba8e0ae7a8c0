"""How much room the disk of the embedded database has left."""

import os
import time
from pathlib import Path

from beamwright.kernel.errors import StorageFullError

# Four files of PostgreSQL's own log, which it must be able to write to go on at all.
RESERVE = 64 << 20
MEGABYTE = 1 << 20
# After a refusal by the database itself, whose disk we cannot see.
REMEMBERED = 15.0


class Room:
    """Refuses what would be recorded while the disk is nearly full, so that what was recorded can be read."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._refused_at: float | None = None

    def check(self) -> None:
        if self._folder is not None and self._left(self._folder) < RESERVE:
            raise full()

    def refused(self) -> None:
        """The database has found its disk full."""
        self._refused_at = time.monotonic()

    def recorded(self) -> None:
        self._refused_at = None

    @property
    def trouble(self) -> str | None:
        """What to tell an operator, while there is something to tell."""
        left = None if self._folder is None else self._left(self._folder)
        if left is not None and left < RESERVE:
            return f"the disk of the data folder is full but for {left // MEGABYTE} MB; commands are refused"
        if self._refused_at is not None and time.monotonic() - self._refused_at < REMEMBERED:
            return "the disk of the database is full; commands are refused"
        return None

    @staticmethod
    def _left(folder: Path) -> int:
        status = os.statvfs(folder)
        return status.f_bavail * status.f_frsize


def full() -> StorageFullError:
    return StorageFullError(
        "The disk of the database is full, so nothing can be recorded. Reads go on. Make room on it, then try again."
    )
