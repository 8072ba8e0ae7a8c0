"""Secrets in files that nobody else can read."""

import os
import stat
from pathlib import Path

from beamwright.kernel.secret_store import SecretStoreUnavailableError

MOST_OCTETS = 1 << 16


class FileSecrets:
    """`file:<path>` below one folder; the file is ours alone (mode 0600), or it is no secret."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self, secret_ref: str) -> bytes:
        return self._read(secret_ref.removeprefix("file:"))

    def _read(self, path: str) -> bytes:
        # What links lead to counts: a link out of the folder leads out of it.
        folder = self._folder.resolve()
        try:
            place = (folder / path).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            raise self._absent() from None
        if not place.is_relative_to(folder):
            raise self._absent()
        try:
            return _private(place)
        except OSError:
            raise self._absent() from None

    def _absent(self) -> SecretStoreUnavailableError:
        return SecretStoreUnavailableError(
            "There is no such file in the service's folder of secrets (SECRETS_FOLDER), or it is not readable.",
            scheme="file",
        )


def _private(place: Path) -> bytes:
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o177 or found.st_uid != os.geteuid():
            raise SecretStoreUnavailableError(
                "A file with a secret must belong to the service's account and have mode 0600.", scheme="file"
            )
        return file.read(MOST_OCTETS)
