"""What a token verifier vouches for, how it refuses, and which identity providers may be configured."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

from beamwright.kernel.value import Value

type Clock = Callable[[], datetime]

LOCAL_ISSUER = "urn:beamwright:local"
MAXIMUM_TOKEN_LENGTH = 8192
DEFAULT_ALGORITHMS = ("RS256", "ES256", "EdDSA")
SIGNATURE_ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)


class InvalidTokenError(Exception):
    """The token proves nothing; `reason` is for the log, never for the caller."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ProviderUnavailableError(Exception):
    """The identity provider could not be asked, so the token is neither good nor bad."""

    retry_after: ClassVar[timedelta] = timedelta(seconds=5)


class VerifiedToken(Value):
    """A login that its issuer vouches for, before it is looked up among the actors."""

    issuer: str
    subject: str
    audiences: frozenset[str]
    scopes: frozenset[str]
    expires_at: datetime | None
    client_id: str | None
    # How long it may be believed without asking again; the introspection verifier remembers by itself.
    kept_for: timedelta = timedelta()


class TokenVerifier(Protocol):
    """Raises `InvalidTokenError` or `ProviderUnavailableError` for a token it does not vouch for."""

    async def verify(self, token: str) -> VerifiedToken: ...


class ProviderSettings(Value):
    """One identity provider: its issuer, and either its key set or its introspection endpoint."""

    issuer: str
    jwks_url: str | None = None
    introspection_url: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    algorithms: tuple[str, ...] = DEFAULT_ALGORITHMS

    # The generated representations would carry the client secret into logs and tracebacks.
    def __repr__(self) -> str:
        return f"ProviderSettings(issuer={self.issuer!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("issuer", self.issuer)]


def check_providers(providers: Sequence[ProviderSettings]) -> None:
    """Raises `ValueError` with a sentence for the operator at the first fault."""
    for provider in providers:
        try:
            _check_provider(provider)
        except ValueError as error:
            raise ValueError(f"Identity provider {provider.issuer!r}: {error}") from None
    _check_together(providers)


def check_algorithms(algorithms: Sequence[str]) -> None:
    """Refuses every algorithm whose verifying key would also sign, and `none`."""
    if not algorithms:
        raise ValueError("name at least one signature algorithm.")
    for algorithm in algorithms:
        if algorithm not in SIGNATURE_ALGORITHMS:
            allowed = ", ".join(sorted(SIGNATURE_ALGORITHMS))
            raise ValueError(f"algorithm {algorithm!r} is not allowed; choose from {allowed}.")


def check_address(url: str) -> None:
    """Tokens and keys travel over https, or never leave the machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise ValueError("its address is not a valid URL.") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("its address must not carry credentials; use client_id and client_secret.")
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))):
        raise ValueError(f"address {url!r} must begin with https:// (http:// only for a loopback host).")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _check_provider(provider: ProviderSettings) -> None:
    _check_issuer(provider.issuer)
    match provider.jwks_url, provider.introspection_url:
        case str(url), None:
            check_address(url)
            check_algorithms(provider.algorithms)
        case None, str(url):
            check_address(url)
            if not provider.client_id or not provider.client_secret:
                raise ValueError("introspection needs client_id and client_secret.")
        case _:
            raise ValueError("give either jwks_url or introspection_url, not both and not neither.")


def _check_issuer(issuer: str) -> None:
    if issuer == LOCAL_ISSUER:
        raise ValueError("this issuer is reserved for the built-in issuer.")
    if len(issuer) > 500 or not issuer.startswith(("https://", "urn:")):
        raise ValueError(
            "the issuer must begin with https:// or urn: and have at most 500 characters,"
            " or no login of it can be linked to an actor."
        )


def _check_together(providers: Sequence[ProviderSettings]) -> None:
    issuers = [provider.issuer for provider in providers]
    for issuer in issuers:
        if issuers.count(issuer) > 1:
            raise ValueError(f"Identity provider {issuer!r} is configured more than once.")
    if sum(provider.introspection_url is not None for provider in providers) > 1:
        raise ValueError(
            "More than one identity provider uses introspection_url; an opaque token does not say"
            " which of them to ask, so configure exactly one."
        )
