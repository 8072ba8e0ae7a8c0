"""The identity providers of the installation, and the choice among them for a token."""

from collections.abc import Mapping, Sequence

import httpx

from beamwright.adapters.tokens.builtin import BuiltInIssuer
from beamwright.adapters.tokens.introspection import IntrospectionVerifier
from beamwright.adapters.tokens.jwt import (
    COMPACT_FORM,
    JwtVerifier,
    RemoteKeySet,
    check_text,
    read_part,
)
from beamwright.kernel.tokens import (
    LOCAL_ISSUER,
    Clock,
    InvalidTokenError,
    ProviderSettings,
    TokenVerifier,
    VerifiedToken,
    check_providers,
)
from beamwright.kernel.value import Value


class _AnyObject(Value):
    """A JSON object, whatever it holds."""


class _Claims(Value):
    iss: str


class ProviderRegistry:
    """Hands a token to the verifier of the issuer it claims, which alone decides whether that is true."""

    def __init__(self, verifiers: Mapping[str, TokenVerifier], opaque: TokenVerifier | None) -> None:
        self._verifiers = dict(verifiers)
        self._opaque = opaque

    async def verify(self, token: str) -> VerifiedToken:
        check_text(token)
        verifier = self._verifier_by_issuer(token) if _is_jwt(token) else self._opaque
        if verifier is None:
            raise InvalidTokenError("the token is opaque and no provider is configured for introspection")
        return await verifier.verify(token)

    def _verifier_by_issuer(self, token: str) -> TokenVerifier:
        issuer = read_part(token.split(".")[1], _Claims).iss
        verifier = self._verifiers.get(issuer)
        if verifier is None:
            raise InvalidTokenError(f"issuer {issuer[:200]!r} is not configured")
        return verifier


def build(
    providers: Sequence[ProviderSettings],
    builtin: BuiltInIssuer | None,
    client: httpx.AsyncClient,
    clock: Clock,
) -> ProviderRegistry:
    """The registry of all configured providers; `ValueError` tells the operator what is wrong with them."""
    check_providers(providers)
    verifiers = {provider.issuer: _verifier(provider, client, clock) for provider in providers}
    opaque = next((verifiers[provider.issuer] for provider in providers if provider.introspection_url), None)
    if builtin is not None:
        verifiers[LOCAL_ISSUER] = builtin.verifier(clock)
    return ProviderRegistry(verifiers, opaque)


def _verifier(provider: ProviderSettings, client: httpx.AsyncClient, clock: Clock) -> TokenVerifier:
    match provider:
        case ProviderSettings(jwks_url=str(url)):
            keys = RemoteKeySet(url, client, clock)
            return JwtVerifier(provider.issuer, keys, provider.algorithms, clock)
        case ProviderSettings(introspection_url=str(url), client_id=str(name), client_secret=str(secret)):
            return IntrospectionVerifier(provider.issuer, url, name, secret, client, clock)
        case _:
            raise ValueError(f"Identity provider {provider.issuer!r} has no way to verify a token.")


def _is_jwt(token: str) -> bool:
    if not COMPACT_FORM.fullmatch(token):
        return False
    try:
        read_part(token.split(".")[0], _AnyObject)
    except InvalidTokenError:
        return False
    return True
