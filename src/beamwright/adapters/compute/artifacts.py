"""What a job has made, as it lies on the disk: one file, or a folder of files, with its digest."""

import unicodedata
from collections.abc import Iterator
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path

from beamwright.kernel.compute import ArtifactNotFoundError, ArtifactRef, Checksum, ChecksumAlgorithm

BLOCK = 8 << 20
MOST_ENTRIES = 1_000_000


def artifact_of(uri: str, path: Path) -> ArtifactRef:
    try:
        if path.is_dir():
            return _folder(uri, path)
        if path.is_file():
            checksum = Checksum(algorithm=ChecksumAlgorithm.SHA256, value=_digest(path))
            size = path.stat().st_size
            return ArtifactRef(
                uri=uri, checksum=checksum, byte_size=size, media_type=guess_type(path.name)[0]
            )
    except OSError as error:
        raise ArtifactNotFoundError(f"{uri} cannot be read: {error.strerror}.") from error
    raise ArtifactNotFoundError(f"The job left nothing at {uri}.")


def _folder(uri: str, root: Path) -> ArtifactRef:
    """For each file a line of digest, size and path, sorted by path: the digest of all lines."""
    entries = [(_relative(root, path), _digest(path), path.stat().st_size) for path in _files(uri, root)]
    whole = sha256()
    for name, digest, size in sorted(entries):
        whole.update(f"{digest} {size} ".encode() + name + b"\n")
    return ArtifactRef(
        uri=uri,
        checksum=Checksum(algorithm=ChecksumAlgorithm.SHA256_TREE, value=whole.hexdigest()),
        byte_size=sum(size for _, _, size in entries),
        entry_count=len(entries),
    )


def _files(uri: str, root: Path) -> Iterator[Path]:
    for number, path in enumerate(root.rglob("*")):
        if number >= MOST_ENTRIES:
            raise ArtifactNotFoundError(f"{uri} has more than {MOST_ENTRIES} entries.")
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise ArtifactNotFoundError(f"{uri} holds a link or a device, which no digest can stand for.")
        if path.is_file():
            yield path


def _relative(root: Path, path: Path) -> bytes:
    return unicodedata.normalize("NFC", path.relative_to(root).as_posix()).encode()


def _digest(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
