"""What every HTTP surface does at the door: correlation, body limits, and refusals as problem documents."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import structlog

from beamwright.kernel.errors import (
    DeniedError,
    DomainError,
    InvalidError,
    ShapeError,
    UnauthenticatedError,
)
from beamwright.kernel.problem import Problem, problem
from beamwright.runtime.arrival import MissingTokenError
from beamwright.settings import LOOPBACK, Settings

log = structlog.get_logger("beamwright.door")

CORRELATION_HEADER = "x-correlation-id"
_CORRELATION = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_VISIBLE = re.compile(r"[\x21-\x7e]{1,255}")
_ETAG = re.compile(r'(?:W/)?"?(\d{1,9})"?')


class MalformedRequestError(InvalidError):
    """The request cannot be read."""


class InvalidIdempotencyKeyError(InvalidError):
    """The idempotency key is not 1 to 255 visible characters."""


class InvalidExpectedVersionError(InvalidError):
    """If-Match does not hold a version."""


class UnknownRouteError(DomainError):
    """There is nothing at this address."""

    status = 404


class MethodNotAllowedError(DomainError):
    """This address does not take this method."""

    status = 405


class BodyTooSlowError(DomainError):
    """The request body did not arrive in time."""

    status = 408


class BodyTooLargeError(DomainError):
    """The request body is larger than the service accepts."""

    status = 413


class HeadTooLargeError(DomainError):
    """The address and headers of the request are larger than the service accepts."""

    status = 431


class UnexpectedError(DomainError):
    """Something went wrong inside the service."""

    status = 500


class MisdirectedRequestError(DomainError):
    """The request was meant for another host."""

    status = 421


class ForeignOriginError(DeniedError):
    """A page of another origin sent the request."""


def correlation_id(given: str | None) -> str:
    """The client's own id when it is usable, a new one otherwise."""
    return given if given is not None and _CORRELATION.fullmatch(given) else uuid4().hex


def idempotency_key(given: str | None) -> str | None:
    if given is not None and not _VISIBLE.fullmatch(given):
        raise InvalidIdempotencyKeyError("Idempotency-Key must be 1 to 255 visible ASCII characters.")
    return given


def expected_version(given: str | None) -> int | None:
    if given is None or given.strip() == "*":
        return None
    match = _ETAG.fullmatch(given.strip())
    if match is None:
        raise InvalidExpectedVersionError('If-Match must be the ETag of the object, for example "3".')
    return int(match[1])


# Where two differ, whoever stands in front of the service may have believed the other one.
_ONCE = frozenset({b"authorization", b"content-type", b"idempotency-key", b"if-match", b"mcp-session-id"})


def check_once(headers: Iterable[tuple[bytes, bytes]]) -> None:
    deciding = [name for name, _ in headers if name in _ONCE]
    if len(deciding) > len(set(deciding)):
        raise MalformedRequestError("A header of the request is given more than once.")


async def read_body(stream: AsyncIterator[bytes], most: int, seconds: float) -> bytes:
    """The whole body, counted as it comes: the length that a client states is not believed."""
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in stream:
                size += len(chunk)
                if size > most:
                    raise BodyTooLargeError(f"The body must not exceed {most} bytes.", most=most)
                chunks.append(chunk)
    except TimeoutError:
        raise BodyTooSlowError(f"The body must arrive within {seconds:g} seconds.") from None
    return b"".join(chunks)


def refusal(error: Exception, correlation: str) -> Problem:
    """The problem document of any exception; only our own errors say more than their correlation id."""
    if isinstance(error, DomainError):
        return problem(error, correlation)
    log.error("unexpected_error", correlation_id=correlation, exc_info=error)
    hidden = UnexpectedError(f"Report this to the operator of the service with the id {correlation}.")
    return problem(hidden, correlation)


def refusal_headers(error: Exception, base_url: str) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    if isinstance(error, DomainError) and error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if isinstance(error, UnauthenticatedError):
        headers["www-authenticate"] = challenge(error, base_url)
    return headers


def challenge(error: UnauthenticatedError, base_url: str) -> str:
    """The challenge of RFC 6750 with the resource metadata of RFC 9728."""
    parts = ['realm="beamwright"']
    if not isinstance(error, MissingTokenError):
        parts += ['error="invalid_token"', 'error_description="The access token is not valid here"']
    parts.append(f'resource_metadata="{base_url}/.well-known/oauth-protected-resource"')
    return "Bearer " + ", ".join(parts)


_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def check_no_nul(encoded: bytes) -> None:
    """No text of ours may hold a NUL: the database cannot store it."""
    if b"\\u0000" in encoded and _NUL.search(encoded):
        raise ShapeError("Text must not contain the NUL character.")


def nested_too_deep() -> MalformedRequestError:
    return MalformedRequestError("The JSON is nested too deeply.")


type Json = dict[str, Any]


def check_source(
    settings: Settings,
    listening: tuple[str, int | None] | None,
    hosts: Sequence[str],
    origins: Sequence[str],
) -> None:
    """No page of another origin, and none that has a name rebound to this address, may speak to the service."""
    allowed = allowed_origins(settings, listening)
    meant = {plain(f"{scheme}://{host}") for host in hosts for scheme in ("http", "https")}
    if len(hosts) != 1 or meant.isdisjoint(allowed):
        raise MisdirectedRequestError(f"Reach the service at {settings.base_url}.")
    if not allowed.issuperset(map(plain, origins)):
        raise ForeignOriginError(f"Only pages of {settings.base_url} may call.")


def allowed_origins(settings: Settings, listening: tuple[str, int | None] | None) -> set[str]:
    """The public address, and the names of this machine while only this machine can connect."""
    public = urlsplit(settings.base_url)
    origins = {f"{public.scheme}://{public.netloc}"}
    if settings.host in LOOPBACK and listening is not None:
        origins |= {f"http://{name}:{listening[1]}" for name in ("127.0.0.1", "localhost", "[::1]")}
    return set(map(plain, origins))


def plain(origin: str) -> str:
    """An origin in one spelling: in small letters, without the port that its scheme implies."""
    scheme, _, place = origin.lower().partition("://")
    return f"{scheme}://{place.removesuffix(':443' if scheme == 'https' else ':80')}"
