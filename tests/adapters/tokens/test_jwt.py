"""Signed access tokens: what is accepted, and every way to be refused."""

import asyncio
import hashlib
import hmac
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from beamwright.adapters.tokens.jwt import JwtVerifier, StaticKeySet, read_keys
from beamwright.kernel.tokens import DEFAULT_ALGORITHMS, InvalidTokenError, VerifiedToken
from tests.adapters.tokens.provider import (
    AUDIENCE,
    EC_KEY,
    ED_KEY,
    ISSUER,
    KEYS,
    NOW,
    RSA_KEY,
    Clock,
    SigningKey,
    base64url,
    claims,
    key_set,
    refused,
)

EVERY_KEY = StaticKeySet(read_keys(key_set(*KEYS)))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def verify(token: str, *keys: SigningKey) -> VerifiedToken:
    known = StaticKeySet(read_keys(key_set(*keys))) if keys else EVERY_KEY
    return asyncio.run(JwtVerifier(ISSUER, known, DEFAULT_ALGORITHMS, Clock()).verify(token))


def verify_or_refuse(token: str) -> None:
    """Any exception but a refusal fails the test."""
    with suppress(InvalidTokenError):
        verify(token)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.algorithm)
def test_a_token_of_the_issuer_is_vouched_for(key: SigningKey) -> None:
    assert verify(key.sign(claims())) == VerifiedToken(
        issuer=ISSUER,
        subject="ada",
        audiences=frozenset({AUDIENCE}),
        scopes=frozenset({"beamwright:get_*", "openid"}),
        expires_at=NOW + timedelta(minutes=10),
        client_id="scan-client",
        kept_for=timedelta(seconds=30),
    )


def test_all_audiences_are_returned() -> None:
    assert verify(ED_KEY.sign(claims(aud=["a", "b"]))).audiences == {"a", "b"}


def test_a_token_without_scope_has_none() -> None:
    assert verify(ED_KEY.sign(claims(scope=None))).scopes == frozenset()


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "application/at+jwt", "Application/AT+jwt"])
def test_typ_is_read_without_regard_to_case(typ: str) -> None:
    assert verify(ED_KEY.sign(claims(), typ=typ)).subject == "ada"


@pytest.mark.parametrize("typ", [None, "JWT", "at", "at+jwt ", "dpop+jwt", "logout+jwt", 7, ["at+jwt"]])
def test_another_typ_is_refused(typ: object) -> None:
    with refused("typ"):
        verify(ED_KEY.sign(claims(), typ=typ))


@pytest.mark.parametrize("name", ["iss", "aud", "sub", "client_id", "exp", "iat"])
def test_every_required_claim_is_demanded(name: str) -> None:
    with refused(name):
        verify(ED_KEY.sign(claims(**{name: None})))
    with refused(name):
        verify(ED_KEY.sign(claims() | {name: None}))


@pytest.mark.parametrize("aud", [[], "", [""], ["a", ""], [1], ["a", None], [["a"]], {"a": 1}, 7, True])
def test_an_audience_of_another_shape_is_refused(aud: object) -> None:
    with refused("aud"):
        verify(ED_KEY.sign(claims(aud=aud)))


@pytest.mark.parametrize("sub", ["", "a" * 256, "a\nb", "a\x00", "\x7f", "a\u202eb", 7, ["ada"]])
def test_a_subject_of_another_shape_is_refused(sub: object) -> None:
    with refused("sub"):
        verify(ED_KEY.sign(claims(sub=sub)))


def test_the_longest_subject_is_accepted() -> None:
    assert verify(ED_KEY.sign(claims(sub="é" * 255))).subject == "é" * 255


@pytest.mark.parametrize("scope", [["openid"], 7, {"a": "b"}])
def test_a_scope_of_another_shape_is_refused_rather_than_ignored(scope: object) -> None:
    with refused("scope"):
        verify(ED_KEY.sign(claims(scope=scope)))


@pytest.mark.parametrize("issuer", [ISSUER + "/", ISSUER.upper(), "", "https://other.example", 7])
def test_another_issuer_is_refused(issuer: object) -> None:
    with refused("iss"):
        verify(ED_KEY.sign(claims(iss=issuer)))


@pytest.mark.parametrize(
    ("changes", "accepted"),
    [
        ({"exp": -59}, True),
        ({"exp": -60}, False),
        ({"exp": -3600}, False),
        ({"iat": 60}, True),
        ({"iat": 61}, False),
        ({"nbf": 60}, True),
        ({"nbf": 60.5}, False),
        ({"nbf": -3600}, True),
    ],
)
def test_times_have_a_minute_of_leeway(changes: dict[str, float], accepted: bool) -> None:
    moments = {name: NOW.timestamp() + seconds for name, seconds in changes.items()}
    token = ED_KEY.sign(claims(**moments))
    if accepted:
        assert verify(token).subject == "ada"
    else:
        with refused("token"):
            verify(token)


@pytest.mark.parametrize("name", ["exp", "iat", "nbf"])
@pytest.mark.parametrize(
    "number", ["1e400", "-1", "9" * 400, "253402300800", "NaN", "Infinity", '"1"', "true", "[1]"]
)
def test_a_time_that_is_no_time_is_refused(name: str, number: str) -> None:
    payload = json.dumps(claims() | {name: "here"}).replace('"here"', number).encode()
    with refused("unacceptable content"):
        verify(ED_KEY.sign(payload))


def test_the_last_second_of_time_is_accepted() -> None:
    assert verify(ED_KEY.sign(claims(exp=253402300799))).expires_at == datetime(
        9999, 12, 31, 23, 59, 59, tzinfo=UTC
    )


@pytest.mark.parametrize(
    "algorithm", ["none", "None", "NONE", "HS256", "HS512", "RS1", "", "PS256", "ES256K"]
)
def test_an_algorithm_outside_the_list_is_refused(algorithm: str) -> None:
    with refused("algorithm"):
        verify(ED_KEY.sign(claims(), alg=algorithm))


def test_an_unsigned_token_is_refused() -> None:
    head = base64url(b'{"typ":"at+jwt","alg":"none"}')
    with refused("algorithm"):
        verify(f"{head}.{base64url(json.dumps(claims()).encode())}.")


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.algorithm)
def test_the_public_key_is_never_a_shared_secret(key: SigningKey) -> None:
    pem = key.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for secret in (pem, json.dumps(key.jwk).encode()):
        head = base64url(json.dumps({"typ": "at+jwt", "alg": "HS256", "kid": key.kid}).encode())
        signed = f"{head}.{base64url(json.dumps(claims()).encode())}"
        signature = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
        with refused("algorithm"):
            verify(f"{signed}.{base64url(signature)}")


def test_a_key_of_another_type_never_verifies() -> None:
    for signer in KEYS:
        for named in KEYS:
            if signer is not named:
                with refused("no key"):
                    verify(signer.sign(claims(), kid=named.kid))
                with refused("no key"):
                    verify(signer.sign(claims(), alg=named.algorithm, kid=signer.kid))


def test_a_key_that_names_its_algorithm_serves_no_other() -> None:
    pss = SigningKey("PS256", "pss")
    pss.jwk["alg"] = "PS256"
    with refused("no key"):
        verify(pss.sign(claims(), alg="RS256"), pss)


def test_the_signature_must_be_of_the_named_key() -> None:
    stranger = SigningKey("EdDSA", ED_KEY.kid)
    with refused("signature"):
        verify(stranger.sign(claims()))


def test_a_changed_payload_is_refused() -> None:
    head, _, signature = ED_KEY.sign(claims()).split(".")
    with refused("signature"):
        verify(f"{head}.{base64url(json.dumps(claims(sub='eve')).encode())}.{signature}")


def test_keys_that_the_token_brings_along_are_ignored() -> None:
    stranger = SigningKey("EdDSA", "mine")
    brought = {"jwk": stranger.jwk, "jku": "https://evil.example/keys", "x5u": "https://evil.example/x"}
    with refused("no key"):
        verify(stranger.sign(claims(), **brought))


def test_a_token_without_kid_is_accepted_when_one_key_fits() -> None:
    assert verify(ED_KEY.sign(claims(), kid=None)).subject == "ada"


def test_a_token_without_kid_is_refused_when_several_keys_fit() -> None:
    second = SigningKey("EdDSA", "ed-2")
    with refused("several"):
        verify(second.sign(claims(), kid=None), ED_KEY, second)


@pytest.mark.parametrize(
    "crit", [b'["b64"]', b'["x"]', b"[]", b"null", b'["x"],"crit":null', b'["b64","b64"]']
)
def test_critical_extensions_are_refused(crit: bytes) -> None:
    head = b'{"typ":"at+jwt","alg":"EdDSA","kid":"ed-1","b64":true,"crit":' + crit + b"}"
    with refused("critical"):
        verify(ED_KEY.sign_raw(head, json.dumps(claims()).encode()))


def test_an_unencoded_payload_is_refused() -> None:
    with refused():
        verify(ED_KEY.sign(claims(), b64=False))


@pytest.mark.parametrize("kid", [7, ["ed-1"], {"a": 1}, "", "ed-1 ", "../../etc/passwd", "\x00"])
def test_a_hostile_kid_is_refused(kid: object) -> None:
    with refused():
        verify(ED_KEY.sign(claims(), kid=kid))


def test_a_token_may_have_8192_characters_and_no_more() -> None:
    short = ED_KEY.sign(claims(filler=""))
    longest = ED_KEY.sign(claims(filler="a" * ((8192 - len(short)) * 3 // 4)))
    assert 8189 <= len(longest) <= 8192
    assert verify(longest).subject == "ada"
    with refused("8192"):
        verify(ED_KEY.sign(claims(filler="a" * 8192)))


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "a" * 8192,
        "." * 8192,
        "é.é.é",
        "\ud800.a.b",
        "e30.e30.",
        "e30.e30.e30",
        "W10.W10.W10",
    ],
)
def test_a_token_of_another_form_is_refused(token: str) -> None:
    with refused():
        verify(token)


@pytest.mark.parametrize("around", ["{}=", "{}==", "{}.x", " {}", "{}\n", "{}!", "Bearer {}"])
def test_text_around_a_good_token_is_refused(around: str) -> None:
    with refused():
        verify(around.format(ED_KEY.sign(claims())))


@pytest.mark.parametrize(
    "payload", [b"", b"null", b"[]", b'"x"', b"\xff", b"{", b"[" * 5000, b'{"sub":' * 800]
)
def test_a_payload_that_is_no_object_is_refused(payload: bytes) -> None:
    with refused():
        verify(ED_KEY.sign(payload))


@pytest.mark.parametrize(
    "header", [b"", b"null", b"[]", b"\xff", b"[" * 5000, b'{"alg":' * 800, b'{"alg":"EdDSA"}']
)
def test_a_header_that_is_no_header_is_refused(header: bytes) -> None:
    with refused():
        verify(ED_KEY.sign_raw(header, json.dumps(claims()).encode()))


@given(name=st.sampled_from(sorted(claims() | {"nbf": 0})), value=JSON)
def test_no_claim_causes_anything_but_a_refusal(name: str, value: object) -> None:
    verify_or_refuse(ED_KEY.sign(claims() | {name: value}))


@given(name=st.sampled_from(["typ", "alg", "kid", "crit", "b64", "zip", "cty", "jwk"]), value=JSON)
def test_no_header_causes_anything_but_a_refusal(name: str, value: object) -> None:
    verify_or_refuse(ED_KEY.sign(claims(), **{name: value}))


@given(st.text() | st.text(alphabet="eyJhbGciOiJ.-_="))
def test_no_text_causes_anything_but_a_refusal(token: str) -> None:
    with refused():
        verify(token)


@given(st.binary(), st.binary())
def test_no_octets_cause_anything_but_a_refusal(header: bytes, payload: bytes) -> None:
    with refused():
        verify(ED_KEY.sign_raw(header, payload))
    with refused():
        verify(ED_KEY.sign(payload))


@pytest.mark.parametrize("algorithms", [(), ("none",), ("RS256", "HS256"), ("HS512",), ("rs256",)])
def test_a_verifier_is_not_built_with_unsafe_algorithms(algorithms: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="algorithm"):
        JwtVerifier(ISSUER, EVERY_KEY, algorithms, Clock())


def weak_rsa() -> dict[str, Any]:
    return RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 1024).public_key(), as_dict=True)


def private_rsa() -> dict[str, Any]:
    return RSAAlgorithm.to_jwk(RSA_KEY.private, as_dict=True) | {"key_ops": ["verify"]}


def other_curve() -> dict[str, Any]:
    return ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256K1()).public_key(), as_dict=True)


@pytest.mark.parametrize(
    "jwk",
    [
        {},
        {"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"},
        {"kty": "oct", "k": "c2VjcmV0", "alg": "RS256"},
        {"kty": ["RSA"]},
        ED_KEY.jwk | {"alg": ["EdDSA"]},
        ED_KEY.jwk | {"alg": "HS256"},
        ED_KEY.jwk | {"alg": "none"},
        ED_KEY.jwk | {"kid": 7},
        ED_KEY.jwk | {"use": "enc"},
        ED_KEY.jwk | {"key_ops": ["sign"]},
        ED_KEY.jwk | {"x": 7},
        ED_KEY.jwk | {"x": "AAAA"},
        ED_KEY.jwk | {"crv": "Ed448"},
        EC_KEY.jwk | {"crv": "P-384"},
        EC_KEY.jwk | {"y": EC_KEY.jwk["x"]},
        RSA_KEY.jwk | {"n": "", "e": ""},
        RSA_KEY.jwk | {"e": "AA"},
        private_rsa(),
        weak_rsa(),
        other_curve(),
    ],
)
def test_a_key_of_no_use_is_left_out_of_the_set(jwk: dict[str, Any]) -> None:
    keys = read_keys(json.dumps({"keys": [jwk, EC_KEY.jwk]}).encode())
    assert [key.key_id for key in keys] == ["ec-1"]


@given(
    st.fixed_dictionaries(
        {"kty": st.sampled_from(["RSA", "EC", "OKP", "oct"])},
        optional=dict.fromkeys(["crv", "n", "e", "x", "y", "alg", "kid"], JSON),
    )
)
def test_no_key_causes_anything_but_its_omission(jwk: dict[str, Any]) -> None:
    assert read_keys(json.dumps({"keys": [jwk]}).encode()) == ()
