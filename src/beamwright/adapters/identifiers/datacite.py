"""DOIs of DataCite, by its REST API."""

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx

from beamwright.kernel.identifiers import MintedIdentifier, PersistentIdentifierScheme

from .agency import TIMEOUT, Agency, AgencyAccount, check_scheme

AUTHORITY = "DataCite"


class DataCiteMinter:
    """Writes each record under its DOI: the first time registers it, later ones update it."""

    def __init__(self, account: AgencyAccount, timeout: timedelta = TIMEOUT) -> None:
        self._prefix = account.prefix
        auth = httpx.BasicAuth(account.user, account.password)
        self._agency = Agency(account.url, auth, "application/vnd.api+json", timeout)

    async def mint(
        self, scheme: PersistentIdentifierScheme, suffix: str, record: dict[str, Any]
    ) -> MintedIdentifier:
        check_scheme(scheme, PersistentIdentifierScheme.DOI, AUTHORITY)
        doi = f"{self._prefix}/{suffix}"
        await self._put(doi, record | {"doi": doi, "event": "publish"})
        return MintedIdentifier(value=doi, authority=AUTHORITY)

    async def tombstone(self, scheme: PersistentIdentifierScheme, value: str, reason: str) -> None:
        """A DOI never goes away: it is no longer found, and says why."""
        check_scheme(scheme, PersistentIdentifierScheme.DOI, AUTHORITY)
        why = {"description": reason, "descriptionType": "Other"}
        await self._put(value, {"event": "hide", "descriptions": [why]})

    async def aclose(self) -> None:
        await self._agency.aclose()

    async def _put(self, doi: str, attributes: dict[str, Any]) -> None:
        body = {"data": {"id": doi, "type": "dois", "attributes": attributes}}
        await self._agency.put(f"dois/{quote(doi)}", body)
