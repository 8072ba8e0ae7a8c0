"""Signing: the vectors of RFC 8032, RFC 8037 and DSSE, strictness, and envelopes that say one thing only."""

import base64
import hashlib
import json
from typing import Any
from unicodedata import normalize

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from beamwright.kernel import signing
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.signing import Envelope, EnvelopeSignature
from beamwright.kernel.value import replace


class Malformed(InvalidError):
    """What the tests are refused with."""


def url64(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


# RFC 8032, 7.1: secret key, public key, message, signature.
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0"
        "595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eae"
        "b4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9"
        "716ed28dc027beceea1ec40a",
    ),
]
VECTORS = [tuple(bytes.fromhex(part) for part in line) for line in RFC_8032]

KEY = Ed25519PrivateKey.from_private_bytes(VECTORS[0][0])
PUBLIC = url64(VECTORS[0][1])
L = 2**252 + 27742317777372353535851937790883648493
P = 2**255 - 19


# --- keys and signatures ---


@pytest.mark.parametrize(("secret", "public", "message", "signature"), VECTORS)
def test_the_vectors_of_rfc_8032_verify(
    secret: bytes, public: bytes, message: bytes, signature: bytes
) -> None:
    assert Ed25519PrivateKey.from_private_bytes(secret).sign(message) == signature
    assert signing.verifies(url64(public), signature, message)


@pytest.mark.parametrize(("secret", "public", "message", "signature"), VECTORS)
def test_no_changed_bit_verifies(secret: bytes, public: bytes, message: bytes, signature: bytes) -> None:
    changed = [
        signature[:at] + bytes([signature[at] ^ (1 << bit)]) + signature[at + 1 :]
        for at in range(64)
        for bit in range(8)
    ]
    assert not any(signing.verifies(url64(public), each, message) for each in changed)
    assert not signing.verifies(url64(public), signature, message + b"\0")


def test_a_signature_whose_s_is_not_reduced_does_not_verify() -> None:
    _, public, message, signature = VECTORS[2]
    s = int.from_bytes(signature[32:], "little") + L
    assert not signing.verifies(url64(public), signature[:32] + s.to_bytes(32, "little"), message)


@pytest.mark.parametrize("length", [0, 63, 65, 128])
def test_a_signature_of_another_length_does_not_verify(length: int) -> None:
    assert not signing.verifies(PUBLIC, bytes(length), b"")


def test_the_thumbprint_is_that_of_rfc_8037() -> None:
    assert signing.key_id("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo") == (
        "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    )


def test_a_public_key_is_trimmed() -> None:
    assert signing.checked_public_key(f" {PUBLIC}\n", Malformed) == PUBLIC


D = -121665 * pow(121666, -1, P) % P
type Point = tuple[int, int]


def plus(one: Point, other: Point) -> Point:
    """The sum of two points of the curve, as RFC 8032 defines it."""
    (a, b), (c, d) = one, other
    cross = D * a * b * c * d
    return (a * d + c * b) * pow(1 + cross, -1, P) % P, (b * d + a * c) * pow(1 - cross, -1, P) % P


def times(number: int, point: Point) -> Point:
    found = (0, 1)
    for _ in range(number):
        found = plus(found, point)
    return found


def encoded(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def of_order_eight() -> Point:
    """A generator of the small subgroup, found by taking a point out of the large one."""
    y = 2
    while True:
        y += 1
        square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
        if pow(square, (P - 1) // 2, P) != 1:
            continue
        x = pow(square, (P + 3) // 8, P)
        x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
        point, factor, found = (x, y), L, (0, 1)
        while factor:
            found = plus(found, point) if factor & 1 else found
            point, factor = plus(point, point), factor >> 1
        if times(4, found) != (0, 1):
            return found


SMALL_ORDER = [encoded(times(number, of_order_eight())) for number in range(8)]


def test_the_small_subgroup_has_eight_points() -> None:
    assert len(set(SMALL_ORDER)) == 8


@pytest.mark.parametrize("octets", SMALL_ORDER, ids=bytes.hex)
def test_a_key_of_small_order_is_refused(octets: bytes) -> None:
    with pytest.raises(Malformed):
        signing.checked_public_key(url64(octets), Malformed)


def test_a_key_of_small_order_would_vouch_for_anything() -> None:
    forged = encoded((0, 1)) + bytes(32)
    Ed25519PublicKey.from_public_bytes(encoded((0, 1))).verify(forged, b"never signed")
    assert not signing.verifies(url64(encoded((0, 1))), forged, b"never signed")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        PUBLIC[:-1],
        f"{PUBLIC}=",
        f"{PUBLIC}A",
        PUBLIC.replace("_", "/"),
        # The two last bits of the text are beyond the 32 octets.
        PUBLIC[:-1] + "p",
        PUBLIC[:10] + " " + PUBLIC[11:],
        # Not canonical: the y of a sound point, and 1, written with p more.
        url64((P + 1).to_bytes(32, "little")),
        url64((P + 3).to_bytes(32, "little")),
        # No x belongs to this y.
        url64((2).to_bytes(32, "little")),
        "é" * 43,
    ],
)
def test_what_is_no_sound_key_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        signing.checked_public_key(text, Malformed)
    assert not signing.verifies(text, KEY.sign(b""), b"")


@settings(max_examples=50)
@given(st.binary(min_size=32, max_size=32), st.binary(max_size=100))
def test_every_key_that_the_library_makes_is_sound(seed: bytes, message: bytes) -> None:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public = url64(key.public_key().public_bytes_raw())
    assert signing.checked_public_key(public, Malformed) == public
    assert signing.verifies(public, key.sign(message), message)


# --- canonical bytes ---

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"])).map(lambda name: normalize("NFC", name)),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def turned(value: Any) -> Any:
    """The same, with the keys the other way round and the text decomposed."""
    match value:
        case dict():
            return {normalize("NFD", key): turned(value[key]) for key in reversed(list(value))}
        case list():
            return [turned(each) for each in value]
        case str():
            return normalize("NFD", value)
        case _:
            return value


@given(JSON)
def test_canonical_bytes_do_not_depend_on_order_or_composition(value: Any) -> None:
    assert signing.canonical(turned(value)) == signing.canonical(value)


@given(st.dictionaries(st.sampled_from("abc"), JSON))
def test_what_was_read_back_has_the_same_canonical_bytes(value: dict[str, Any]) -> None:
    envelope = signing.enclosed("artifact", value, [("k", bytes(64))])
    payload, pae = signing.opened(envelope, "artifact", 1, Malformed)
    assert signing.canonical(payload) == signing.canonical(value)
    assert pae == signing.statement("artifact", value)


def test_canonical_bytes_are_those_of_rfc_8785() -> None:
    # The example of its section 3.2.2 and 3.2.3.
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": '€$\u000f\nA\'B"\\\\"/',
        "literals": [None, True, False],
    }
    assert signing.canonical(value).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


@pytest.mark.parametrize(
    "value",
    [
        2**53 + 1,
        -(2**53) - 1,
        {"a": [{"b": 2**60}]},
        float("nan"),
        [float("inf")],
        {"\u00e9": 1, "e\u0301": 2},
        {"a": "\ud800"},
        {"a": {2**53 + 1}},
    ],
)
def test_what_readers_could_read_differently_is_not_signed(value: Any) -> None:
    with pytest.raises(ValueError):
        signing.canonical(value)


def test_sets_are_sorted_lists() -> None:
    assert signing.canonical({"a": frozenset({"e\u0301", "f", "b"})}) == '{"a":["b","f","é"]}'.encode()


# --- envelopes ---


def test_the_encoding_is_that_of_dsse() -> None:
    assert signing.pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_lengths_are_counted_in_octets() -> None:
    assert signing.pae("é", "ü".encode()) == "DSSEv1 2 é 2 ü".encode()


PAYLOAD = {"facility_code": "home", "ledger_number": 7, "content": {"b": [1.5, None], "a": "é"}}


def sealed(octets: bytes, *signatures: bytes) -> Envelope:
    """An envelope of any octets."""
    return Envelope(
        payload=base64.b64encode(octets).decode(),
        payloadType="application/vnd.beamwright.artifact.v1+json",
        signatures=tuple(
            EnvelopeSignature(keyid="k", sig=base64.b64encode(each).decode())
            for each in signatures or (bytes(64),)
        ),
    )


def test_an_envelope_verifies_with_a_plain_library() -> None:
    signature = KEY.sign(signing.statement("artifact", PAYLOAD))
    envelope = signing.enclosed("artifact", PAYLOAD, [(signing.key_id(PUBLIC), signature)])
    body = base64.b64decode(envelope.payload)
    kind = "application/vnd.beamwright.artifact.v1+json"
    signed = f"DSSEv1 {len(kind)} {kind} {len(body)} ".encode() + body
    KEY.public_key().verify(base64.b64decode(envelope.signatures[0].sig), signed)
    assert (envelope.payloadType, json.loads(body)) == (kind, PAYLOAD)
    assert envelope.signatures[0].keyid == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    assert signing.hashed(body) == hashlib.sha256(body).hexdigest()


def test_an_opened_envelope_tells_what_was_signed() -> None:
    envelope = signing.enclosed("artifact", PAYLOAD, [("k", bytes(64))])
    payload, pae = signing.opened(envelope, "artifact", 1, Malformed)
    assert (payload, pae) == (PAYLOAD, signing.statement("artifact", PAYLOAD))


def test_one_changed_bit_of_the_payload_opens_and_does_not_verify() -> None:
    signature = KEY.sign(signing.statement("artifact", PAYLOAD))
    octets = signing.canonical(PAYLOAD).replace(b"home", b"homd")
    _, pae = signing.opened(sealed(octets, signature), "artifact", 1, Malformed)
    assert not signing.verifies(PUBLIC, signature, pae)


ENVELOPE = signing.enclosed("artifact", PAYLOAD, [("k", bytes(64))])
SIGNATURE = ENVELOPE.signatures[0]


@pytest.mark.parametrize(
    "envelope",
    [
        replace(ENVELOPE, payloadType="application/vnd.beamwright.seal-key.v1+json"),
        replace(ENVELOPE, payloadType="application/vnd.beamwright.artifact.v2+json"),
        replace(ENVELOPE, signatures=()),
        replace(ENVELOPE, signatures=(SIGNATURE, SIGNATURE)),
        replace(ENVELOPE, signatures=(replace(SIGNATURE, sig="AAAA"),)),
        replace(ENVELOPE, signatures=(replace(SIGNATURE, sig=SIGNATURE.sig.rstrip("=")),)),
        replace(ENVELOPE, signatures=(replace(SIGNATURE, sig=SIGNATURE.sig[:-3] + "B=="),)),
        replace(ENVELOPE, payload=f"{ENVELOPE.payload}\n"),
        replace(ENVELOPE, payload="e30"),
        replace(ENVELOPE, payload="e31="),
        replace(ENVELOPE, payload="é"),
        replace(ENVELOPE, payload=base64.urlsafe_b64encode(b'{"a":"??>"}').decode()),
        sealed(json.dumps(PAYLOAD).encode()),
        sealed(signing.canonical({"a": "x" * (1 << 20)})),
    ],
)
def test_a_malformed_envelope_is_refused(envelope: Envelope) -> None:
    with pytest.raises(Malformed):
        signing.opened(envelope, "artifact", 1, Malformed)


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"[]",
        b"null",
        b'{"a":1} ',
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":1.0}',
        b'{"a":1e2}',
        b'{"a":-0}',
        b'{"a":01}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":9007199254740993}',
        b'{"a":1152921504606846976}',
        b'{"a":' + b"9" * 400 + b"}",
        b'{"a":"\\u00e9"}',
        b'{"a":"\\ud800"}',
        '{"a":"e\u0301"}'.encode(),
        '{"e\u0301":1}'.encode(),
        b'{"a":"\xff"}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":"\\/"}',
        b'{"a":' * 100_000,
        b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ],
    ids=lambda octets: repr(octets[:24]),
)
def test_a_payload_that_is_not_its_own_canonical_form_is_refused(octets: bytes) -> None:
    with pytest.raises(Malformed):
        signing.opened(sealed(octets), "artifact", 1, Malformed)


def test_a_double_that_is_written_in_full_is_read_as_it_was_signed() -> None:
    octets = signing.canonical({"flux": 1e20})
    assert octets == b'{"flux":100000000000000000000}'
    assert signing.opened(sealed(octets), "artifact", 1, Malformed).payload == {"flux": 1e20}


def test_a_root_statement_has_two_signatures() -> None:
    envelope = signing.enclosed("seal-root", {}, [("old", bytes(64)), ("new", bytes(64))])
    assert signing.opened(envelope, "seal-root", 2, Malformed).payload == {}
