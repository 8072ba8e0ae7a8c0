"""Signs with private keys that a secret store holds: as PEM (PKCS #8), or as the base64 of their 32 octets."""

import base64
import binascii

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from beamwright.kernel.secret_store import SecretStore, UnusableSecretError


class StoredKeySigner:
    """Reads the key for each signature, so that one that was taken away signs nothing more."""

    def __init__(self, store: SecretStore) -> None:
        self._store = store

    async def sign(self, secret_ref: str, octets: bytes) -> bytes:
        return private_key(await self._store.read(secret_ref)).sign(octets)


def private_key(secret: bytes) -> Ed25519PrivateKey:
    """The key in a secret; a refusal says nothing of what was found instead."""
    found = _pem(secret) if secret.lstrip().startswith(b"-----BEGIN ") else _raw(secret.strip())
    if found is None:
        raise UnusableSecretError(
            "The secret must be an Ed25519 private key: PEM (PKCS #8), or the base64 of its 32 octets."
        )
    return found


def _pem(secret: bytes) -> Ed25519PrivateKey | None:
    try:
        key = load_pem_private_key(secret.strip(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, Ed25519PrivateKey) else None


def _raw(secret: bytes) -> Ed25519PrivateKey | None:
    plain = secret.translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
    try:
        octets = base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return None
    return Ed25519PrivateKey.from_private_bytes(octets) if len(octets) == 32 else None
