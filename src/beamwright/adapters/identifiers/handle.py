"""Handles of a Handle.Net server, by its REST API."""

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx

from beamwright.kernel.identifiers import (
    IdentifierRefusedError,
    MintedIdentifier,
    PersistentIdentifierScheme,
)

from .agency import TIMEOUT, Agency, AgencyAccount, check_scheme

AUTHORITY = "Handle.Net"
URL_INDEX, DESCRIPTION_INDEX, ADMINISTRATOR_INDEX = 1, 2, 100
# Everything but creating and deleting prefixes: the bits of the Handle protocol, highest first.
PERMISSIONS = "011111110011"


class HandleMinter:
    """Writes a handle that leads to the record's landing page and is administered by its prefix."""

    def __init__(self, account: AgencyAccount, timeout: timedelta = TIMEOUT) -> None:
        self._prefix = account.prefix
        # A user is written `300:prefix/name`; its colon would end the name in basic authentication.
        auth = httpx.BasicAuth(quote(account.user, safe=""), quote(account.password, safe=""))
        self._agency = Agency(account.url, auth, "application/json", timeout)

    async def mint(
        self, scheme: PersistentIdentifierScheme, suffix: str, record: dict[str, Any]
    ) -> MintedIdentifier:
        check_scheme(scheme, PersistentIdentifierScheme.HANDLE, AUTHORITY)
        if "url" not in record:
            raise IdentifierRefusedError("The record names no landing page for the handle to lead to.")
        handle = f"{self._prefix}/{suffix}"
        values = [_text(URL_INDEX, "URL", record["url"]), self._administrator()]
        await self._agency.put(f"api/handles/{quote(handle)}", {"values": values}, overwrite="true")
        return MintedIdentifier(value=handle, authority=AUTHORITY)

    async def tombstone(self, scheme: PersistentIdentifierScheme, value: str, reason: str) -> None:
        """The handle still leads to its page, and says that it is withdrawn."""
        check_scheme(scheme, PersistentIdentifierScheme.HANDLE, AUTHORITY)
        why = {"values": [_text(DESCRIPTION_INDEX, "DESC", f"Withdrawn: {reason}")]}
        index = str(DESCRIPTION_INDEX)
        await self._agency.put(f"api/handles/{quote(value)}", why, overwrite="true", index=index)

    async def aclose(self) -> None:
        await self._agency.aclose()

    def _administrator(self) -> dict[str, Any]:
        group = {"handle": f"0.NA/{self._prefix}", "index": 200, "permissions": PERMISSIONS}
        return {
            "index": ADMINISTRATOR_INDEX,
            "type": "HS_ADMIN",
            "data": {"format": "admin", "value": group},
        }


def _text(index: int, type: str, value: str) -> dict[str, Any]:
    return {"index": index, "type": type, "data": {"format": "string", "value": value}}
