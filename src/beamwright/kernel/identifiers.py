"""The identifier seam: how a record gets a persistent identifier from whoever gives them out."""

from enum import StrEnum
from typing import Any, Protocol

from .value import Time, Value


class PersistentIdentifierScheme(StrEnum):
    DOI = "DOI"
    HANDLE = "Handle"


class PersistentIdentifierRequest(Value):
    """A request that waits for its identifier."""

    scheme: PersistentIdentifierScheme
    suffix: str
    requested_at: Time


class MintedIdentifier(Value):
    """An identifier without scheme prefix, and the authority that gave it out."""

    value: str
    authority: str


class IdentifierRefusedError(Exception):
    """The authority refused for good; asking again with the same record would not help."""


class IdentifierUnavailableError(Exception):
    """The authority did not answer, or asked to come back later."""


class IdentifierMinter(Protocol):
    """An upsert: the same suffix gives the same identifier, so a lost answer does no harm."""

    async def mint(
        self, scheme: PersistentIdentifierScheme, suffix: str, record: dict[str, Any]
    ) -> MintedIdentifier: ...

    async def tombstone(self, scheme: PersistentIdentifierScheme, value: str, reason: str) -> None: ...

    async def aclose(self) -> None: ...
