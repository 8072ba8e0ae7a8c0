"""Signed statements: canonical bytes, DSSE envelopes, and Ed25519 as strictly as it can be checked."""

import base64
import binascii
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, cast
from unicodedata import normalize

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Meta

from . import content_hash
from .errors import InvalidError
from .value import Value, encode

type PublicKey = Annotated[
    str, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_-]{43}$", "x-key-type": "Ed25519"})
]
type KeyId = Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_-]{43}$"})]

MOST_OCTETS = 1 << 20
_EXACT = 1 << 53

# RFC 8032: the field, the curve's constant, and the order of the base point.
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_L = 2**252 + 27742317777372353535851937790883648493
# The y of every point whose order divides eight: such a key makes one signature fit many statements.
_Y_OF_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset({0, 1, _P - 1, _Y_OF_ORDER_8, _P - _Y_OF_ORDER_8})


class EnvelopeSignature(Value, forbid_unknown_fields=True):
    """One signature, and the thumbprint of the key that made it."""

    keyid: str
    sig: str

    @property
    def octets(self) -> bytes:
        return base64.b64decode(self.sig)


class Envelope(Value, forbid_unknown_fields=True):
    """A DSSE envelope: the octets of a statement, what they are, and who signed them."""

    payload: str
    payloadType: str
    signatures: tuple[EnvelopeSignature, ...]


class Opened(NamedTuple):
    """What an envelope of the right form says, and the octets that were signed."""

    payload: dict[str, Any]
    pae: bytes


def canonical(value: Any) -> bytes:
    """The octets of `value` that are hashed and signed; ValueError for what two readers could read differently."""
    _check_exact(value)
    return content_hash.canonical(value)


def hashed(octets: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(octets).hexdigest()


def payload_type(name: str) -> str:
    return f"application/vnd.beamwright.{name}.v1+json"


def pae(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding of DSSE v1: what a signature is made over."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def statement(name: str, payload: Mapping[str, Any]) -> bytes:
    """What is signed to state `payload`."""
    return pae(payload_type(name), canonical(payload))


def enclosed(name: str, payload: Mapping[str, Any], signatures: Sequence[tuple[str, bytes]]) -> Envelope:
    """The envelope of a statement with its signatures, each with its key id."""
    return Envelope(
        payload=base64.b64encode(canonical(payload)).decode(),
        payloadType=payload_type(name),
        signatures=tuple(
            EnvelopeSignature(keyid=key_id, sig=base64.b64encode(signature).decode())
            for key_id, signature in signatures
        ),
    )


def opened(envelope: Envelope, name: str, signatures: int, refusal: type[InvalidError]) -> Opened:
    """The statement `name` in an envelope with so many signatures, none of them verified yet; or `refusal`."""
    if len(encode(envelope)) > MOST_OCTETS:
        raise refusal(f"The envelope is larger than {MOST_OCTETS} octets.", most=MOST_OCTETS)
    if envelope.payloadType != payload_type(name):
        raise refusal(f"The envelope does not hold a {payload_type(name)}.", expected=payload_type(name))
    if len(envelope.signatures) != signatures:
        raise refusal(
            f"The envelope must have {signatures} signature{'s' * (signatures != 1)}.",
            expected=signatures,
            actual=len(envelope.signatures),
        )
    for signature in envelope.signatures:
        if len(_octets(signature.sig, refusal, "signature")) != 64:
            raise refusal("A signature must be the base64 of 64 octets.")
    payload = _octets(envelope.payload, refusal, "payload")
    return Opened(_read(payload, refusal), pae(envelope.payloadType, payload))


def key_id(public_key: str) -> str:
    """The RFC 7638 thumbprint of an Ed25519 key as a JWK (RFC 8037)."""
    members = {"crv": "Ed25519", "kty": "OKP", "x": public_key}
    return _base64url(hashlib.sha256(content_hash.canonical(members)).digest())


def checked_public_key(text: str, refusal: type[InvalidError]) -> str:
    """The base64url of a key that lies on the curve and is not of small order, or `refusal`."""
    public_key = text.strip()
    if _key_octets(public_key) is None:
        raise refusal(
            "The public key must be the base64url, without padding, of a sound Ed25519 key's 32 octets."
        )
    return public_key


def verifies(public_key: str, signature: bytes, octets: bytes) -> bool:
    """Whether the signature over `octets` was made with this key. Strict: canonical S, no small-order key."""
    key = _key_octets(public_key)
    if key is None or len(signature) != 64 or int.from_bytes(signature[32:], "little") >= _L:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, octets)
    except InvalidSignature:
        return False
    return True


def _key_octets(public_key: str) -> bytes | None:
    """The key, unless it is malformed, not canonical, not on the curve or of small order."""
    try:
        octets = base64.b64decode(f"{public_key}=", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(octets) != 32 or _base64url(octets) != public_key:
        return None
    y = int.from_bytes(octets, "little") & ((1 << 255) - 1)
    sound = y < _P and y not in _SMALL_ORDER and _on_curve(y)
    return octets if sound else None


def _on_curve(y: int) -> bool:
    """Whether some x satisfies -x² + y² = 1 + dx²y²: then (y² - 1) / (dy² + 1) is a square."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    return pow(square, (_P - 1) // 2, _P) == 1


def _base64url(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def _octets(text: str, refusal: type[InvalidError], what: str) -> bytes:
    """What `text` is the one base64 of."""
    try:
        octets = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        octets = None
    if octets is None or base64.b64encode(octets).decode() != text:
        raise refusal(f"The {what} must be standard base64 with padding.")
    return octets


def _read(payload: bytes, refusal: type[InvalidError]) -> dict[str, Any]:
    """The object that these octets are the canonical form of."""
    try:
        value = json.loads(payload.decode(), parse_int=_number, parse_constant=_no_number)
        same = isinstance(value, dict) and canonical(value) == payload
    except (ValueError, RecursionError):
        same, value = False, None
    if not same:
        raise refusal("The payload must be a JSON object in its canonical form (RFC 8785, NFC).")
    return cast(dict[str, Any], value)


def _number(digits: str) -> int | float:
    """Beyond 2^53, digits are a double that was written in full: RFC 8785 does so below 10^21."""
    number = int(digits) if len(digits) <= 17 else float(digits)
    return number if abs(number) <= _EXACT else float(number)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _check_exact(value: Any) -> None:
    """Refuse integers that a double does not hold, and names that are one after normalization."""
    match value:
        case bool() | str() | None:
            return
        case int():
            if abs(value) > _EXACT:
                raise ValueError(f"{value} is beyond 2^53")
        case float():
            if not math.isfinite(value):
                raise ValueError(f"{value} is not a JSON number")
        case dict():
            members = cast(dict[Any, Any], value)
            names = {normalize("NFC", each) if isinstance(each, str) else each for each in members}
            if len(names) < len(members):
                raise ValueError("two names are the same after normalization")
            _check_all(members.values())
        case list() | tuple() | set() | frozenset():
            _check_all(cast(Iterable[Any], value))
        case msgspec.Struct():
            _check_all(getattr(value, field) for field in value.__struct_fields__)
        case _:
            return


def _check_all(values: Iterable[Any]) -> None:
    for each in values:
        _check_exact(each)
