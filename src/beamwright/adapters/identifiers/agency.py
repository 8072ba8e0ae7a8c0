"""Asking a registration agency over HTTP: what its answers mean, and how much of them is kept."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import msgspec

from beamwright.kernel.identifiers import (
    IdentifierRefusedError,
    IdentifierUnavailableError,
    PersistentIdentifierScheme,
)
from beamwright.kernel.tokens import check_address
from beamwright.kernel.value import Value, encode

TIMEOUT = timedelta(seconds=30)
MOST_READ = 1 << 16
MOST_TOLD = 400
# A request that took too long, and too many of them, are no verdict on the record.
COME_BACK = (408, 425, 429)


class AgencyAccount(Value):
    """Where an agency is reached, the prefix it gave, and who asks."""

    url: str
    prefix: str
    user: str
    password: str


class _Fault(Value):
    title: str = ""


class _Answer(Value):
    """The parts of a JSON answer that say what is wrong, at DataCite and at a Handle server."""

    errors: list[_Fault] = []
    message: str = ""


class Agency:
    """One client of one agency."""

    def __init__(self, url: str, auth: httpx.BasicAuth, content_type: str, timeout: timedelta) -> None:
        check_address(url)
        self._url = url.rstrip("/")
        self._auth = auth
        self._headers = {"content-type": content_type, "accept": content_type}
        self._timeout = timeout
        self._client = httpx.AsyncClient(timeout=timeout.total_seconds())

    async def put(self, path: str, body: Any, **parameters: str) -> None:
        """Write one record; the raised class says whether another try can help."""
        try:
            async with (
                asyncio.timeout(self._timeout.total_seconds()),
                self._client.stream(
                    "PUT",
                    f"{self._url}/{path}",
                    params=parameters,
                    content=encode(body),
                    auth=self._auth,
                    headers=self._headers,
                    follow_redirects=False,
                ) as answer,
            ):
                _judge(answer.status_code, await _read(answer))
        except (TimeoutError, httpx.HTTPError, httpx.StreamError) as error:
            raise IdentifierUnavailableError(f"{type(error).__name__} {error}".strip()) from error

    async def aclose(self) -> None:
        await self._client.aclose()


def check_scheme(given: PersistentIdentifierScheme, served: PersistentIdentifierScheme, agency: str) -> None:
    if given is not served:
        raise IdentifierRefusedError(
            f"{agency} gives out {served} identifiers only. Request one of these, or set IDENTIFIER_MINTER."
        )


async def _read(answer: httpx.Response) -> bytes:
    body = bytearray()
    async for chunk in answer.aiter_bytes():
        body += chunk
        if len(body) > MOST_READ:
            break
    return bytes(body[:MOST_READ])


def _judge(status: int, body: bytes) -> None:
    if status in (200, 201):
        return
    told = f"{status} {told_by(body)}".strip()
    if 400 <= status < 500 and status not in COME_BACK:
        raise IdentifierRefusedError(told)
    raise IdentifierUnavailableError(told)


def told_by(body: bytes) -> str:
    """What an agency says of a refusal, in one bounded line of printable text."""
    text = body.decode(errors="replace")
    try:
        answer = msgspec.json.decode(body, type=_Answer)
        text = "; ".join(fault.title for fault in answer.errors) or answer.message or text
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= MOST_TOLD else f"{line[: MOST_TOLD - 1]}…"
