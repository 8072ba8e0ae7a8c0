"""A backup as a file: a zip of one text file per table, with a manifest that says what must be in them."""

import fcntl
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import IO
from uuid import UUID

import msgspec

FORMAT = "beamwright-backup"
VERSION = 1
MANIFEST = "manifest.json"
ISSUER_KEY = "issuer.key"
CHUNK = 1 << 20
# The quickest: it is the disk and the database that a backup should wait for.
LEVEL = 1

UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    ValueError,
    OverflowError,
    RuntimeError,
    OSError,
)

# Told how many bytes of how many were looked at.
type Progress = Callable[[int, int], None]


class BackupFileError(Exception):
    """The file cannot be written, or is not a whole backup that this version understands."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one member of the file must be."""

    name: str
    columns: tuple[str, ...]
    rows: int
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What the backup is of, and where it ends."""

    format: str
    version: int
    backup_id: UUID
    # The backup that this one continues: it holds the events since, and everything beside the log.
    after: UUID | None
    made_by: str
    schema: str
    facility: str
    taken_at: datetime
    last_transaction_id: int
    last_position: int
    last_event_id: UUID | None
    unfinished: tuple[int, ...]
    parts: tuple[Part, ...]
    issuer_key: bool


class _Said(msgspec.Struct):
    """As much as every version of the format says of itself."""

    format: str
    version: int


class BackupWriter:
    """Writes the members one after the other, and the manifest at the end."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.parts: list[Part] = []

    @contextmanager
    def part(self, name: str) -> "Generator[PartWriter]":
        with self._archive.open(_member(name), "w", force_zip64=True) as file:
            yield PartWriter(file)

    def note(self, name: str, columns: tuple[str, ...], written: "PartWriter") -> None:
        digest = written.digest.hexdigest()
        part = Part(name=name, columns=columns, rows=written.rows, bytes=written.bytes, sha256=digest)
        self.parts.append(part)

    def issuer_key(self, pem: bytes) -> None:
        self._archive.writestr(ISSUER_KEY, pem)

    def finish(self, manifest: Manifest, *, issuer_key: bool) -> None:
        manifest = msgspec.structs.replace(manifest, issuer_key=issuer_key)
        self._archive.writestr(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))


class PartWriter:
    """A member while it is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = sha256()
        self.rows = 0
        self.bytes = 0

    async def write(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self.digest.update(chunk)
        # In the text format of COPY a line feed ends a row and stands nowhere else.
        self.rows += chunk.count(b"\n")
        self.bytes += len(chunk)


@contextmanager
def new_backup(path: Path) -> Generator[BackupWriter]:
    """A file that appears under its name when it is whole, and that nobody else can read."""
    if path.exists():
        raise BackupFileError(f"{path} exists already. A backup overwrites nothing; choose another name.")
    draft = path.with_name(f"{path.name}.unfinished")
    try:
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise BackupFileError(f"{draft} cannot be written: {error.strerror}.") from error
    with open(descriptor, "r+b") as file:
        _own(file, draft)
        try:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
                yield BackupWriter(archive)
            file.flush()
            os.fsync(file.fileno())
            _publish(draft, path)
        except ConnectionError:
            # Of the database, not of the file.
            raise
        except OSError as error:
            raise BackupFileError(f"{path} cannot be written: {error.strerror or error}.") from error
        finally:
            draft.unlink(missing_ok=True)


def _own(file: IO[bytes], draft: Path) -> None:
    """Whatever an interrupted backup left under this name is written over; one that still runs is left alone."""
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BackupFileError(f"{draft} is being written by another backup.") from None
    os.fchmod(file.fileno(), 0o600)
    file.truncate(0)


def _publish(draft: Path, path: Path) -> None:
    if path.exists():
        raise BackupFileError(f"{path} came to be meanwhile. A backup overwrites nothing.")
    draft.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class BackupReader:
    """A backup that was opened; `check` says whether all of it is as it was written."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._archive = archive

    def check(self, told: Callable[[int], None]) -> None:
        """Read every member to its end before anything is believed."""
        for part in self.manifest.parts:
            digest = sha256()
            for chunk in self.chunks(part.name):
                digest.update(chunk)
                told(len(chunk))
            if digest.hexdigest() != part.sha256:
                raise damaged(self.path, f"{part.name} is not what was written")
        if self.manifest.issuer_key:
            self.issuer_key()

    def part(self, name: str) -> Part | None:
        return next((part for part in self.manifest.parts if part.name == name), None)

    def chunks(self, name: str) -> Iterator[bytes]:
        with _readable(self.path), self._archive.open(_member(name)) as file:
            while chunk := file.read(CHUNK):
                yield chunk

    def issuer_key(self) -> bytes:
        with _readable(self.path):
            return self._archive.read(ISSUER_KEY)


@contextmanager
def opened_backup(path: Path) -> Generator[BackupReader]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise BackupFileError(f"{path} cannot be read: {error.strerror}.") from error
    with file:
        if not zipfile.is_zipfile(file):
            raise BackupFileError(f"{path} is not a backup of Beamwright, or it was cut short.")
        with _readable(path):
            archive = zipfile.ZipFile(file)
        with archive:
            yield BackupReader(path, archive, read_manifest(path, archive))


def read_manifest(path: Path, archive: zipfile.ZipFile) -> Manifest:
    if MANIFEST not in archive.namelist():
        raise BackupFileError(f"{path} is not a backup of Beamwright: it holds no {MANIFEST}.")
    with _readable(path):
        text = archive.read(MANIFEST)
        said = msgspec.json.decode(text, type=_Said)
        if said.format != FORMAT:
            raise BackupFileError(f"{path} is not a backup of Beamwright, but {said.format!r}.")
        if said.version > VERSION:
            raise BackupFileError(
                f"{path} has version {said.version} of the format, and this Beamwright reads up to {VERSION}. "
                "Restore it with the version that made it."
            )
        return msgspec.json.decode(text, type=Manifest)


def check_chain(backups: list[BackupReader]) -> None:
    """The first stands alone, and each other continues the one before it."""
    if backups[0].manifest.after is not None:
        raise BackupFileError(
            f"{backups[0].path} only continues another backup. Name that one before it, in the order they were made."
        )
    for before, backup in pairwise(backups):
        if backup.manifest.after != before.manifest.backup_id:
            raise BackupFileError(f"{backup.path} does not continue {before.path}.")


def check_all(backups: list[BackupReader], progress: Progress) -> None:
    total = sum(part.bytes for backup in backups for part in backup.manifest.parts)
    done = 0

    def told(more: int) -> None:
        nonlocal done
        done += more
        progress(done, total)

    for backup in backups:
        backup.check(told)


def damaged(path: Path, why: str) -> BackupFileError:
    return BackupFileError(f"{path} is damaged: {why}. Nothing was restored from it; use another copy.")


@contextmanager
def _readable(path: Path) -> Generator[None]:
    """Whatever a file that is cut short, changed or foreign makes the readers raise is one refusal."""
    try:
        yield
    except msgspec.MsgspecError as error:
        raise damaged(path, f"its manifest cannot be read ({_one_line(error)})") from error
    except UNREADABLE as error:
        raise damaged(path, _one_line(error)) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:200] or type(error).__name__


def _member(name: str) -> str:
    return f"{name}.copy"


def keep_private(path: Path, content: bytes) -> None:
    """Write a secret so that nobody else can read it at any time."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        with suppress(OSError):
            os.fsync(file.fileno())
