"""Secrets that exist in this process only, for tests: each reference has a key of its own."""

import base64
import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beamwright.kernel.secret_store import SecretStoreUnavailableError


class MemorySecrets:
    """Answers every reference: with what was put there, or with a key that follows from the reference itself."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.reachable = True

    async def read(self, secret_ref: str) -> bytes:
        if not self.reachable:
            raise SecretStoreUnavailableError("The secret store in memory was taken away.", scheme="memory")
        return self.kept.get(secret_ref) or base64.urlsafe_b64encode(seed(secret_ref))

    async def aclose(self) -> None:
        return None


def seed(secret_ref: str) -> bytes:
    """The private key of a reference that nothing was put for. Anybody can work it out."""
    return hashlib.sha256(b"beamwright test key " + secret_ref.encode()).digest()


def public_key(secret_ref: str) -> str:
    """The public part of that key, as a credential takes it."""
    octets = Ed25519PrivateKey.from_private_bytes(seed(secret_ref)).public_key().public_bytes_raw()
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()
