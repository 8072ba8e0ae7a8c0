"""Verification of signed access tokens (RFC 9068) against the key set of their issuer."""

import asyncio
import logging
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from beamwright.kernel.tokens import (
    MAXIMUM_TOKEN_LENGTH,
    Clock,
    InvalidTokenError,
    ProviderUnavailableError,
    VerifiedToken,
    check_address,
    check_algorithms,
)
from beamwright.kernel.value import Value

if TYPE_CHECKING:
    import httpx

# A signature is checked once in a while, not with every call.
KEPT = timedelta(seconds=30)
LEEWAY = timedelta(seconds=60)
PROVIDER_TIMEOUT = timedelta(seconds=5)
MAXIMUM_ANSWER_SIZE = 256 * 1024
KEYS_KEPT = timedelta(minutes=10)
KEYS_REFRESH_INTERVAL = timedelta(minutes=1)
# Whoever has a key already waits no longer for a newer set.
PATIENCE_WITH_KEYS = timedelta(seconds=1)
COMPACT_FORM = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")

# Uncompressed, so that the bound on an answer's size is also the bound on the memory it takes.
_REQUEST_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
_ACCESS_TOKEN_TYPES = ("at+jwt", "application/at+jwt")
_RSA_KEY_SIZES = range(2048, 8192 + 1)
_FITTING_ALGORITHMS = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}

_logger = logging.getLogger(__name__)
_signatures = jwt.PyJWS(options={"verify_signature": True, "enforce_minimum_key_length": True})

# Seconds since 1970 up to the last second a datetime can hold.
NumericDate = Annotated[float, msgspec.Meta(ge=0, le=253_402_300_799)]
NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]


class KeySet(Protocol):
    """The public keys of one issuer."""

    async def find(self, algorithm: str, kid: str | None) -> jwt.PyJWK:
        """The one key that fits; `InvalidTokenError` when none or several do."""
        ...


class _Header(Value):
    alg: str
    typ: str
    kid: str | None = None
    crit: object = msgspec.UNSET


class _Claims(Value):
    iss: str
    sub: str
    aud: str | list[str]
    client_id: NonEmpty
    exp: NumericDate
    iat: NumericDate
    nbf: NumericDate | None = None
    scope: str | None = None


class JwtVerifier:
    """Vouches for the signed access tokens of one issuer."""

    def __init__(
        self,
        issuer: str,
        keys: KeySet,
        algorithms: Sequence[str],
        clock: Clock,
        leeway: timedelta = LEEWAY,
    ) -> None:
        check_algorithms(algorithms)
        self._issuer = issuer
        self._keys = keys
        self._algorithms = tuple(algorithms)
        self._clock = clock
        self._leeway = leeway

    async def verify(self, token: str) -> VerifiedToken:
        header = self._read_header(token)
        key = await self._keys.find(header.alg, header.kid)
        claims = self._read_claims(token, key)
        self._check_times(claims)
        return VerifiedToken(
            issuer=self._issuer,
            subject=subject_of(claims.sub),
            audiences=audiences_of(claims.aud),
            scopes=scopes_of(claims.scope),
            expires_at=instant_of(claims.exp),
            client_id=claims.client_id,
            kept_for=KEPT,
        )

    def _read_header(self, token: str) -> _Header:
        check_text(token)
        if not COMPACT_FORM.fullmatch(token):
            raise InvalidTokenError("the token is not three base64url parts")
        header = read_part(token.partition(".")[0], _Header)
        if header.typ.lower() not in _ACCESS_TOKEN_TYPES:
            raise InvalidTokenError("the header's typ is not at+jwt")
        if header.alg not in self._algorithms:
            raise InvalidTokenError(f"algorithm {header.alg[:20]!r} is not accepted from this issuer")
        if header.crit is not msgspec.UNSET:
            raise InvalidTokenError("the header demands critical extensions, and none is supported")
        return header

    def _read_claims(self, token: str, key: jwt.PyJWK) -> _Claims:
        try:
            payload: bytes = _signatures.decode(token, key, self._algorithms)
        except jwt.PyJWTError as error:
            raise InvalidTokenError(f"the signature does not hold: {error}") from error
        claims = read_json(payload, _Claims)
        if claims.iss != self._issuer:
            raise InvalidTokenError("iss is not the issuer whose key signed the token")
        return claims

    def _check_times(self, claims: _Claims) -> None:
        now = self._clock()
        if instant_of(claims.exp) <= now - self._leeway:
            raise InvalidTokenError("the token has expired")
        if instant_of(claims.iat) > now + self._leeway:
            raise InvalidTokenError("the token was issued in the future")
        if claims.nbf is not None and instant_of(claims.nbf) > now + self._leeway:
            raise InvalidTokenError("the token is not valid yet")


class StaticKeySet:
    """Keys that are known when the process starts."""

    def __init__(self, keys: Iterable[jwt.PyJWK]) -> None:
        self._keys = tuple(keys)

    async def find(self, algorithm: str, kid: str | None) -> jwt.PyJWK:
        return _only(_fitting(self._keys, algorithm, kid))


class RemoteKeySet:
    """Keys that the issuer publishes and rotates; old ones outlive a refresh that fails."""

    def __init__(
        self, url: str, client: "httpx.AsyncClient", clock: Clock, timeout: timedelta = PROVIDER_TIMEOUT
    ) -> None:
        check_address(url)
        self._url = url
        self._client = client
        self._clock = clock
        self._timeout = timeout
        self._keys: tuple[jwt.PyJWK, ...] = ()
        self._loaded_at: datetime | None = None
        self._asked_at: datetime | None = None
        self._answered = False
        self._flights: Flights[None] = Flights()

    async def find(self, algorithm: str, kid: str | None) -> jwt.PyJWK:
        found = _fitting(self._keys, algorithm, kid)
        if (not found or self._is_outdated()) and self._may_ask():
            await self._ask(None if not found else PATIENCE_WITH_KEYS.total_seconds())
            found = _fitting(self._keys, algorithm, kid)
        if not found and not self._answered:
            raise ProviderUnavailableError(f"the key set {self._url} cannot be read")
        return _only(found)

    async def _ask(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._flights.join(self._url, self._refresh)
        except TimeoutError:
            return

    def _is_outdated(self) -> bool:
        return not is_within(KEYS_KEPT, self._loaded_at, self._clock())

    def _may_ask(self) -> bool:
        pause = KEYS_REFRESH_INTERVAL if self._loaded_at else ProviderUnavailableError.retry_after
        return not is_within(pause, self._asked_at, self._clock())

    async def _refresh(self) -> None:
        try:
            self._keys = read_keys(await exchange(self._client, "GET", self._url, self._timeout))
            self._loaded_at = self._clock()
            self._answered = True
            if not self._keys:
                _logger.warning("The key set %s holds no usable key; its tokens are refused.", self._url)
        except ProviderUnavailableError as error:
            self._answered = False
            _logger.warning("The key set %s could not be refreshed: %s", self._url, error)
        # Noted after the answer: whoever comes before it joins this request instead of being refused.
        self._asked_at = self._clock()


class _KeySetDocument(Value):
    keys: list[dict[str, Any]]


class _KeyDescription(Value):
    kty: str
    crv: str | None = None
    kid: str | None = None
    alg: str | None = None
    use: str | None = None
    key_ops: list[str] | None = None
    d: object = msgspec.UNSET


def read_keys(document: bytes) -> tuple[jwt.PyJWK, ...]:
    """Every key of a JWK set once for each algorithm it fits; keys of no use here are left out."""
    try:
        described = msgspec.json.decode(document, type=_KeySetDocument).keys
    except (ValueError, RecursionError) as error:
        raise ProviderUnavailableError(f"answered with no key set: {error}") from error
    return tuple(key for jwk in described for key in _usable_keys(jwk))


def _usable_keys(jwk: dict[str, Any]) -> list[jwt.PyJWK]:
    try:
        algorithms = _algorithms_for(msgspec.convert(jwk, _KeyDescription))
        keys = [jwt.PyJWK(jwk, algorithm) for algorithm in algorithms]
    except (msgspec.ValidationError, jwt.PyJWTError, UnsupportedAlgorithm):
        return []
    return [key for key in keys if _is_strong(key)]


def _algorithms_for(key: _KeyDescription) -> Sequence[str]:
    fitting = _FITTING_ALGORITHMS.get((key.kty, key.crv), ())
    verifies = key.use in (None, "sig") and (key.key_ops is None or "verify" in key.key_ops)
    if not verifies or key.d is not msgspec.UNSET:
        return ()
    return [algorithm for algorithm in fitting if key.alg in (None, algorithm)]


def _is_strong(key: jwt.PyJWK) -> bool:
    return not isinstance(key.key, RSAPublicKey) or key.key.key_size in _RSA_KEY_SIZES


def _fitting(keys: Iterable[jwt.PyJWK], algorithm: str, kid: str | None) -> list[jwt.PyJWK]:
    return [key for key in keys if key.algorithm_name == algorithm and kid in (None, key.key_id)]


def _only(keys: Sequence[jwt.PyJWK]) -> jwt.PyJWK:
    if not keys:
        raise InvalidTokenError("no key of the issuer fits the token's kid and algorithm")
    if len(keys) > 1:
        raise InvalidTokenError("several keys of the issuer fit; the token must name one by kid")
    return keys[0]


def check_text(token: str) -> None:
    if len(token) > MAXIMUM_TOKEN_LENGTH or not token.isascii():
        raise InvalidTokenError(f"the token is not ASCII of at most {MAXIMUM_TOKEN_LENGTH} characters")


def read_part[T](part: str, shape: type[T]) -> T:
    """The JSON of a token's part; whoever sent the token may have written anything into it."""
    try:
        decoded = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError as error:
        raise InvalidTokenError("a part of the token is not base64url") from error
    return read_json(decoded, shape)


def read_json[T](text: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=shape)
    except (ValueError, RecursionError) as error:
        raise InvalidTokenError(f"unacceptable content: {error}") from error


def subject_of(subject: str | None) -> str:
    if not subject or len(subject) > 255 or not subject.isprintable():
        raise InvalidTokenError("sub must have 1 to 255 printable characters")
    return subject


def audiences_of(audience: str | Sequence[str] | None) -> frozenset[str]:
    audiences = frozenset([audience] if isinstance(audience, str) else audience or ())
    if not audiences or "" in audiences:
        raise InvalidTokenError("aud names no audience")
    return audiences


def scopes_of(scope: str | None) -> frozenset[str]:
    return frozenset((scope or "").split(" ")) - {""}


def instant_of(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def is_within(period: timedelta, since: datetime | None, now: datetime) -> bool:
    """False also before `since`, so that a clock set back cannot stretch the period."""
    return since is not None and timedelta(0) <= now - since < period


class Flights[T]:
    """Questions under way: who asks the same meanwhile gets the same answer."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    async def join(self, question: Hashable, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task = self._tasks.get(question)
        if task is None:
            task = self._tasks[question] = asyncio.create_task(ask())
            task.add_done_callback(partial(self._land, question))
        # A caller that goes away must not take the answer from the others.
        return await asyncio.shield(task)

    def _land(self, question: Hashable, task: asyncio.Task[T]) -> None:
        del self._tasks[question]
        # Looked at here, since every caller may be gone and asyncio would report it as lost.
        _ = task.cancelled() or task.exception()


async def exchange(
    client: "httpx.AsyncClient",
    method: str,
    url: str,
    time_limit: timedelta,
    form: dict[str, str] | None = None,
    auth: "httpx.BasicAuth | None" = None,
) -> bytes:
    """The body of the provider's answer, or `ProviderUnavailableError` within `time_limit`."""
    import httpx  # Dear to import, and the built-in issuer never asks anyone.

    try:
        async with (
            asyncio.timeout(time_limit.total_seconds()),
            client.stream(
                method, url, data=form, auth=auth, headers=_REQUEST_HEADERS, follow_redirects=False
            ) as answer,
        ):
            return await _read_answer(answer)
    except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        raise ProviderUnavailableError(f"{type(error).__name__} {error}".strip()) from error


async def _read_answer(answer: "httpx.Response") -> bytes:
    if answer.status_code != 200:
        raise ProviderUnavailableError(f"answered with status {answer.status_code}")
    body = bytearray()
    async for chunk in answer.aiter_raw():
        body += chunk
        if len(body) > MAXIMUM_ANSWER_SIZE:
            raise ProviderUnavailableError(f"answered with more than {MAXIMUM_ANSWER_SIZE} bytes")
    return bytes(body)
