"""Answers that are files: their bytes are streamed where they can be, and fetched by address elsewhere."""

from collections.abc import AsyncIterator

from .value import Value


class Download(Value):
    """A file that grows while it is sent."""

    media_type: str
    filename: str
    content: AsyncIterator[bytes]


class DownloadAddress(Value):
    """Where the file is fetched, with the same bearer token: not every surface can carry its bytes."""

    url: str
    media_type: str
    filename: str
