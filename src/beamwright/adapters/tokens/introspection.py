"""Verification of opaque tokens by asking the provider that issued them (RFC 7662)."""

import logging
import re
from collections import OrderedDict
from datetime import datetime, timedelta
from hashlib import sha256
from urllib.parse import quote_plus

import httpx
import msgspec

from beamwright.adapters.tokens.jwt import (
    PROVIDER_TIMEOUT,
    Flights,
    NumericDate,
    audiences_of,
    check_text,
    exchange,
    instant_of,
    is_within,
    read_json,
    scopes_of,
    subject_of,
)
from beamwright.kernel.tokens import (
    Clock,
    InvalidTokenError,
    ProviderUnavailableError,
    VerifiedToken,
    check_address,
)
from beamwright.kernel.value import Value

ACCEPTED_KEPT = timedelta(seconds=30)
REFUSED_KEPT = timedelta(seconds=5)
MAXIMUM_VERDICTS = 1024
# Of a provider that hangs, no more than this wait for an answer; it must not take the connections of the others.
MAXIMUM_QUESTIONS = 64

_BEARER_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_logger = logging.getLogger(__name__)


class _Activity(Value):
    active: bool


class _Introspection(Value):
    iss: str | None = None
    sub: str | None = None
    aud: str | list[str] | None = None
    exp: NumericDate | None = None
    scope: str | None = None
    client_id: str | None = None


class _Verdict(Value):
    token: VerifiedToken | None
    refusal: str = ""
    since: datetime

    def holds(self, now: datetime) -> bool:
        if self.token is None:
            return is_within(REFUSED_KEPT, self.since, now)
        return is_within(ACCEPTED_KEPT, self.since, now) and not _has_expired(self.token, now)


class IntrospectionVerifier:
    """Vouches for the tokens that one provider calls active, and remembers its word for a moment."""

    def __init__(
        self,
        issuer: str,
        url: str,
        client_id: str,
        client_secret: str,
        client: httpx.AsyncClient,
        clock: Clock,
        timeout: timedelta = PROVIDER_TIMEOUT,
    ) -> None:
        check_address(url)
        self._issuer = issuer
        self._url = url
        # RFC 6749, 2.3.1: both are form-encoded before they become a user name and a password.
        self._auth = httpx.BasicAuth(quote_plus(client_id), quote_plus(client_secret))
        self._client = client
        self._clock = clock
        self._timeout = timeout
        self._verdicts: OrderedDict[bytes, _Verdict] = OrderedDict()
        self._flights: Flights[_Verdict] = Flights()

    async def verify(self, token: str) -> VerifiedToken:
        check_text(token)
        if not _BEARER_TOKEN.fullmatch(token):
            raise InvalidTokenError("the token has characters that no bearer token has")
        digest = sha256(token.encode()).digest()
        verdict = self._recall(digest)
        if verdict is None:
            if len(self._flights) >= MAXIMUM_QUESTIONS:
                raise ProviderUnavailableError("too many questions await an answer")
            verdict = await self._flights.join(digest, lambda: self._ask(token, digest))
        if verdict.token is None:
            raise InvalidTokenError(verdict.refusal)
        return verdict.token

    def _recall(self, digest: bytes) -> _Verdict | None:
        verdict = self._verdicts.get(digest)
        if verdict is None or not verdict.holds(self._clock()):
            return None
        self._verdicts.move_to_end(digest)
        return verdict

    async def _ask(self, token: str, digest: bytes) -> _Verdict:
        # Counted from the question: the answer may describe any moment after it.
        asked_at = self._clock()
        verdict = self._judge(await self._introspect(token), asked_at)
        self._verdicts[digest] = verdict
        self._verdicts.move_to_end(digest)
        if len(self._verdicts) > MAXIMUM_VERDICTS:
            self._verdicts.popitem(last=False)
        return verdict

    async def _introspect(self, token: str) -> bytes | None:
        """What the provider says about an active token; None when it is not active."""
        form = {"token": token, "token_type_hint": "access_token"}
        try:
            body = await exchange(self._client, "POST", self._url, self._timeout, form, self._auth)
            return body if _is_active(body) else None
        except ProviderUnavailableError as error:
            _logger.warning("The introspection endpoint %s cannot be used: %s", self._url, error)
            raise

    def _judge(self, body: bytes | None, asked_at: datetime) -> _Verdict:
        try:
            return _Verdict(token=self._accept(body), since=asked_at)
        except InvalidTokenError as error:
            return _Verdict(token=None, refusal=error.reason, since=asked_at)

    def _accept(self, body: bytes | None) -> VerifiedToken:
        if body is None:
            raise InvalidTokenError("the provider does not call the token active")
        claims = read_json(body, _Introspection)
        if claims.iss not in (None, self._issuer):
            raise InvalidTokenError("iss is not the issuer whose provider was asked")
        token = VerifiedToken(
            issuer=self._issuer,
            subject=subject_of(claims.sub),
            audiences=audiences_of(claims.aud),
            scopes=scopes_of(claims.scope),
            expires_at=None if claims.exp is None else instant_of(claims.exp),
            client_id=claims.client_id,
        )
        if _has_expired(token, self._clock()):
            raise InvalidTokenError("the token has expired")
        return token


def _is_active(body: bytes) -> bool:
    try:
        return msgspec.json.decode(body, type=_Activity).active
    except (ValueError, RecursionError) as error:
        raise ProviderUnavailableError(f"answered with no introspection result: {error}") from error


def _has_expired(token: VerifiedToken, now: datetime) -> bool:
    return token.expires_at is not None and token.expires_at <= now
