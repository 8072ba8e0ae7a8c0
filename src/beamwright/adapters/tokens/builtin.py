"""The issuer that comes with the installation: one Ed25519 key in the data directory."""

import os
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from beamwright.adapters.tokens.jwt import (
    JwtVerifier,
    StaticKeySet,
    audiences_of,
    read_keys,
    subject_of,
)
from beamwright.kernel.tokens import LOCAL_ISSUER, Clock, InvalidTokenError

KEY_FILE = "issuer.key"
CLIENT_ID = "beamwright-cli"


class IssuerKeyError(Exception):
    """The key file of the built-in issuer cannot be trusted."""


class BuiltInIssuer:
    """Mints tokens on this machine; they are verified as those of any other issuer."""

    def __init__(self, directory: Path) -> None:
        self._key = _load_or_create(directory / KEY_FILE)
        self._public = _public_members(self._key)
        self._kid = _thumbprint(self._public)

    def mint(
        self,
        subject: str,
        audiences: Sequence[str],
        lifetime: timedelta,
        scopes: Sequence[str] = (),
        now: datetime | None = None,
    ) -> str:
        """An access token (RFC 9068) that `verifier` accepts until it expires."""
        _check_mintable(subject, audiences, lifetime)
        issued_at = now or datetime.now(UTC)
        claims = {
            "iss": LOCAL_ISSUER,
            "sub": subject,
            "aud": list(audiences),
            "client_id": CLIENT_ID,
            "iat": int(issued_at.timestamp()),
            "exp": int((issued_at + lifetime).timestamp()),
            "jti": uuid4().hex,
        }
        if scopes:
            claims["scope"] = " ".join(scopes)
        return jwt.encode(claims, self._key, "EdDSA", headers={"typ": "at+jwt", "kid": self._kid})

    def verifier(self, clock: Clock) -> JwtVerifier:
        document = msgspec.json.encode({"keys": [self._public | {"kid": self._kid, "use": "sig"}]})
        return JwtVerifier(LOCAL_ISSUER, StaticKeySet(read_keys(document)), ("EdDSA",), clock)


def _check_mintable(subject: str, audiences: Sequence[str], lifetime: timedelta) -> None:
    if isinstance(audiences, str):
        raise ValueError("audiences is a sequence of audiences, not one string")
    try:
        subject_of(subject)
        audiences_of(audiences)
    except InvalidTokenError as error:
        raise ValueError(error.reason) from None
    if lifetime <= timedelta(0):
        raise ValueError("the lifetime of a token must be positive")


def _load_or_create(path: Path) -> Ed25519PrivateKey:
    try:
        return _load(path)
    except FileNotFoundError:
        _create(path)
        return _load(path)


def _create(path: Path) -> None:
    """Of several processes that try at once one succeeds, and all use its key."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{uuid4().hex}")
    try:
        with open(draft, "xb", opener=_open_private) as file:
            file.write(_new_pem())
            file.flush()
            os.fsync(file.fileno())
        # A link appears whole or not at all, so nobody reads a key that is half written.
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _new_pem() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _load(path: Path) -> Ed25519PrivateKey:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise IssuerKeyError(
                f"{path} is open to other users. Delete it to have a new key made (tokens minted so far"
                f" become invalid), or run `chmod 600 {path}` if nobody can have read it."
            )
        pem = file.read()
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise IssuerKeyError(f"{path} is not a private key; delete it to have a new one made.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise IssuerKeyError(f"{path} is not an Ed25519 key; delete it to have a new one made.")
    return key


def _public_members(key: Ed25519PrivateKey) -> dict[str, str]:
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return {"crv": "Ed25519", "kty": "OKP", "x": _base64url(raw)}


def _thumbprint(members: dict[str, str]) -> str:
    """RFC 7638: the hash of the required members alone, sorted, without white space."""
    return _base64url(sha256(msgspec.json.encode(members, order="sorted")).digest())


def _base64url(octets: bytes) -> str:
    return urlsafe_b64encode(octets).rstrip(b"=").decode()
