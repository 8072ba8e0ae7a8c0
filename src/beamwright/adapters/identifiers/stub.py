"""Identifiers under the prefixes kept for tests: they look real and resolve nowhere."""

from collections.abc import Mapping
from typing import Any

from beamwright.kernel.identifiers import MintedIdentifier, PersistentIdentifierScheme

PREFIXES: Mapping[PersistentIdentifierScheme, str] = {
    PersistentIdentifierScheme.DOI: "10.5072",
    PersistentIdentifierScheme.HANDLE: "20.500.12345",
}


class StubMinter:
    """Never fails, and tells nobody."""

    async def mint(
        self, scheme: PersistentIdentifierScheme, suffix: str, record: dict[str, Any]
    ) -> MintedIdentifier:
        return MintedIdentifier(value=f"{PREFIXES[scheme]}/{suffix}", authority="stub")

    async def tombstone(self, scheme: PersistentIdentifierScheme, value: str, reason: str) -> None: ...

    async def aclose(self) -> None: ...
