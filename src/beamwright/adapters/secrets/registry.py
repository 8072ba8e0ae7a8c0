"""The secret store that the operator chose: by the scheme of each reference, or one in memory."""

import os
from pathlib import Path

from beamwright.kernel.secret_store import SecretStore, SecretStoreUnavailableError, scheme

from .env import EnvironmentSecrets
from .file import FileSecrets
from .memory import MemorySecrets
from .vault import VaultAccount, VaultSecrets


class SecretSources:
    """Each reference is read where its scheme says."""

    def __init__(self, environment_prefix: str, folder: Path, vault: VaultAccount) -> None:
        self._vault = VaultSecrets(vault) if vault.url else None
        self._sources: dict[str, SecretStore] = {
            "env": EnvironmentSecrets(os.environ, environment_prefix),
            "file": FileSecrets(folder),
        }
        if self._vault is not None:
            self._sources["vault"] = self._vault

    async def read(self, secret_ref: str) -> bytes:
        source = self._sources.get(scheme(secret_ref))
        if source is None:
            raise SecretStoreUnavailableError(
                "No Vault is configured (VAULT_ADDR), so nothing can be read there.", scheme="vault"
            )
        return await source.read(secret_ref)

    async def aclose(self) -> None:
        if self._vault is not None:
            await self._vault.aclose()


def build_secrets(
    name: str, *, environment_prefix: str, folder: Path, vault: VaultAccount
) -> SecretSources | MemorySecrets:
    """`sources`, or `memory` for tests; `ValueError` tells the operator what is wrong."""
    match name:
        case "sources":
            return SecretSources(environment_prefix, folder, vault)
        case "memory":
            return MemorySecrets()
        case _:
            raise ValueError(f"SECRET_STORE is {name!r}; it must be sources or memory.")
