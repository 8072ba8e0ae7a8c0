"""The choice among identity providers, and what an operator may configure."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamwright.adapters.tokens.builtin import BuiltInIssuer
from beamwright.adapters.tokens.registry import ProviderRegistry, build
from beamwright.kernel.tokens import LOCAL_ISSUER, ProviderSettings, VerifiedToken, check_providers
from tests.adapters.tokens.provider import (
    ED_KEY,
    ISSUER,
    NOW,
    RSA_KEY,
    Clock,
    Provider,
    against_provider,
    base64url,
    claims,
    refused,
)

OPAQUE_ISSUER = "https://opaque.facility.example"


class Recorder:
    """A verifier that vouches for everything and says who was asked."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer

    async def verify(self, token: str) -> VerifiedToken:
        return VerifiedToken(
            issuer=self.issuer,
            subject="ada",
            audiences=frozenset({"a"}),
            scopes=frozenset(),
            expires_at=None,
            client_id=None,
        )


def chosen(token: str, opaque: bool = True) -> str:
    verifiers = {ISSUER: Recorder(ISSUER), OPAQUE_ISSUER: Recorder(OPAQUE_ISSUER)}
    registry = ProviderRegistry(verifiers, verifiers[OPAQUE_ISSUER] if opaque else None)
    return asyncio.run(registry.verify(token)).issuer


def test_the_claimed_issuer_chooses_the_verifier() -> None:
    assert chosen(ED_KEY.sign(claims())) == ISSUER
    assert chosen(ED_KEY.sign(claims(iss=OPAQUE_ISSUER))) == OPAQUE_ISSUER


@pytest.mark.parametrize(
    "token",
    ["opaque", "a.b.c", "v2.local.AAAA", "a.b.c.d.e", "e30.e30", "e30.a.b.c.d", "W10.e30.AAAA", "YQ=="],
)
def test_a_token_of_another_form_goes_to_introspection(token: str) -> None:
    assert chosen(token) == OPAQUE_ISSUER
    with refused("opaque"):
        chosen(token, opaque=False)


@pytest.mark.parametrize("issuer", ["https://evil.example", "", ISSUER + "/", "x" * 4000])
def test_an_unknown_issuer_is_refused_and_asked_of_nobody(issuer: str) -> None:
    with refused("not configured"):
        chosen(ED_KEY.sign(claims(iss=issuer)))


@pytest.mark.parametrize(
    "payload", [b"{}", b'{"iss":null}', b'{"iss":7}', b'{"iss":["a"]}', b"[]", b"\xff", b"[" * 4000]
)
def test_a_signed_token_that_claims_no_issuer_is_refused(payload: bytes) -> None:
    with refused():
        chosen(ED_KEY.sign(payload))


def test_an_oversized_token_is_refused() -> None:
    with refused("8192"):
        chosen("a" * 8193)


@given(st.text() | st.binary().map(lambda octets: f"e30.{base64url(octets)}.AAAA"))
def test_no_text_causes_anything_but_a_refusal(token: str) -> None:
    verifiers = {ISSUER: Recorder(ISSUER)}
    with refused():
        asyncio.run(ProviderRegistry(verifiers, None).verify(token))


def play(
    scenario: Callable[[Provider, ProviderRegistry, BuiltInIssuer], Awaitable[None]], directory: Path
) -> None:
    async def with_registry(provider: Provider) -> None:
        builtin = BuiltInIssuer(directory)
        settings = [
            ProviderSettings(issuer=ISSUER, jwks_url=provider.keys_url),
            ProviderSettings(
                issuer=OPAQUE_ISSUER,
                introspection_url=provider.introspection_url,
                client_id="beamwright",
                client_secret="s3cret",
            ),
        ]
        async with httpx.AsyncClient() as client:
            await scenario(provider, build(settings, builtin, client, Clock()), builtin)

    against_provider(with_registry, ED_KEY)


def test_every_configured_provider_is_reached(tmp_path: Path) -> None:
    async def scenario(provider: Provider, registry: ProviderRegistry, builtin: BuiltInIssuer) -> None:
        signed_elsewhere = RSA_KEY.sign(claims(iss=OPAQUE_ISSUER))
        provider.tokens["opaque"] = {"active": True} | claims(iss=OPAQUE_ISSUER)
        provider.tokens[signed_elsewhere] = {"active": True} | claims(iss=None)
        local = builtin.mint("administrator", ["a"], timedelta(hours=1), now=NOW)
        assert (await registry.verify(ED_KEY.sign(claims()))).issuer == ISSUER
        assert (await registry.verify("opaque")).issuer == OPAQUE_ISSUER
        assert (await registry.verify(signed_elsewhere)).issuer == OPAQUE_ISSUER
        assert (await registry.verify(local)).issuer == LOCAL_ISSUER

    play(scenario, tmp_path)


def test_one_provider_cannot_speak_for_another(tmp_path: Path) -> None:
    async def scenario(provider: Provider, registry: ProviderRegistry, builtin: BuiltInIssuer) -> None:
        provider.tokens["foreign"] = {"active": True} | claims(iss=ISSUER)
        with refused("iss"):
            await registry.verify("foreign")
        with refused("no key"):
            await registry.verify(ED_KEY.sign(claims(iss=LOCAL_ISSUER)))
        local = builtin.mint("administrator", ["a"], timedelta(hours=1), now=NOW)
        head, _, signature = local.split(".")
        forged = base64url(json.dumps(claims()).encode())
        with refused("no key"):
            await registry.verify(f"{head}.{forged}.{signature}")

    play(scenario, tmp_path)


def test_without_the_built_in_issuer_its_tokens_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        token = BuiltInIssuer(tmp_path).mint("administrator", ["a"], timedelta(hours=1), now=NOW)
        async with httpx.AsyncClient() as client:
            with refused("not configured"):
                await build([], None, client, Clock()).verify(token)

    asyncio.run(scenario())


def keyed(**changes: Any) -> ProviderSettings:
    usual: dict[str, Any] = {"issuer": ISSUER, "jwks_url": "https://login.example/keys"}
    return ProviderSettings(**(usual | changes))


def asked(**changes: Any) -> ProviderSettings:
    usual: dict[str, Any] = {
        "issuer": OPAQUE_ISSUER,
        "introspection_url": "https://login.example/ask",
        "client_id": "a",
        "client_secret": "b",
    }
    return ProviderSettings(**(usual | changes))


@pytest.mark.parametrize(
    "providers",
    [
        [],
        [keyed(), asked()],
        [keyed(algorithms=("ES384", "PS256"))],
        [keyed(jwks_url="http://localhost:8080/keys")],
        [keyed(jwks_url="http://127.0.0.9/keys")],
        [keyed(jwks_url="http://[::1]:8080/keys")],
        [keyed(issuer="urn:facility:login")],
    ],
)
def test_sound_settings_pass(providers: list[ProviderSettings]) -> None:
    check_providers(providers)


@pytest.mark.parametrize(
    ("providers", "sentence"),
    [
        ([keyed(jwks_url=None)], "either jwks_url or introspection_url"),
        ([keyed(introspection_url="https://login.example/ask")], "either jwks_url or introspection_url"),
        ([keyed(jwks_url="http://login.example/keys")], "https://"),
        ([keyed(jwks_url="http://localhost.evil.example/keys")], "https://"),
        ([keyed(jwks_url="http://localhost@evil.example/keys")], "credentials"),
        ([keyed(jwks_url="https://[::1/keys")], "not a valid URL"),
        ([keyed(jwks_url="")], "https://"),
        ([asked(introspection_url="http://10.0.0.1/ask")], "https://"),
        ([asked(client_id=None)], "client_id and client_secret"),
        ([asked(client_secret="")], "client_id and client_secret"),
        ([keyed(algorithms=("RS256", "HS256"))], "'HS256' is not allowed"),
        ([keyed(algorithms=("none",))], "'none' is not allowed"),
        ([keyed(algorithms=())], "at least one"),
        ([keyed(), keyed()], "more than once"),
        ([asked(), asked(issuer="urn:second")], "exactly one"),
        ([keyed(issuer=LOCAL_ISSUER)], "reserved"),
        ([keyed(issuer="login")], "must begin with https:// or urn:"),
        ([keyed(issuer="")], "must begin with https:// or urn:"),
    ],
)
def test_unsound_settings_are_refused_with_a_sentence(
    providers: list[ProviderSettings], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        build(providers, None, httpx.AsyncClient(), Clock())


def test_the_client_secret_is_not_shown() -> None:
    settings = asked(client_secret="s3cret")
    assert "s3cret" not in f"{settings!r} {settings} {settings.__rich_repr__()}"
