"""Secrets in HashiCorp Vault, by the HTTP API of its key-value engine, version 2."""

import asyncio
import re
from datetime import timedelta
from urllib.parse import quote

import httpx
import msgspec

from beamwright.kernel.secret_store import SecretStoreUnavailableError
from beamwright.kernel.tokens import check_address
from beamwright.kernel.value import Value

TIMEOUT = timedelta(seconds=5)
MOST_OCTETS = 1 << 16
FIELD = "value"


class VaultAccount(Value):
    """Where Vault answers, the token that it knows us by, and the mount of the key-value engine."""

    url: str = ""
    token: str = ""
    mount: str = "secret"
    namespace: str = ""


class _Version(Value):
    data: dict[str, str] | None = None


class _Answer(Value):
    data: _Version


class VaultSecrets:
    """`vault:<path>` or `vault:<path>#<field>`; the field is `value` unless it is said."""

    def __init__(self, account: VaultAccount, timeout: timedelta = TIMEOUT) -> None:
        check_address(account.url)
        self._root = f"{account.url.rstrip('/')}/v1/{_path(account.mount)}/data"
        self._headers = {"x-vault-token": account.token, "x-vault-request": "true"}
        if account.namespace:
            self._headers["x-vault-namespace"] = account.namespace
        self._timeout = timeout
        self._client = httpx.AsyncClient(timeout=timeout.total_seconds())

    async def read(self, secret_ref: str) -> bytes:
        path, _, field = secret_ref.removeprefix("vault:").partition("#")
        found = await self._fields(_path(path))
        if not found.get(field or FIELD):
            raise _unavailable("the secret has no such field")
        return found[field or FIELD].encode()

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _fields(self, path: str) -> dict[str, str]:
        try:
            async with (
                asyncio.timeout(self._timeout.total_seconds()),
                self._client.stream("GET", f"{self._root}/{path}", headers=self._headers) as answer,
            ):
                if answer.status_code != 200:
                    raise _unavailable(f"status {answer.status_code}")
                body = b""
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > MOST_OCTETS:
                        raise _unavailable("the answer is too large")
        except (TimeoutError, httpx.HTTPError, httpx.StreamError) as error:
            raise _unavailable(type(error).__name__) from None
        try:
            return msgspec.json.decode(body, type=_Answer).data.data or {}
        except msgspec.DecodeError:
            # The cause would quote what was read.
            raise _unavailable("the answer is none of the key-value engine's") from None


def _path(given: str) -> str:
    """A path that stays below its mount."""
    segments = given.strip("/").split("/")
    if not all(re.fullmatch(r"[^\x00-\x20]+", each) and each not in (".", "..") for each in segments):
        raise _unavailable("the path of the secret is malformed")
    return "/".join(quote(each, safe="") for each in segments)


def _unavailable(why: str) -> SecretStoreUnavailableError:
    return SecretStoreUnavailableError(f"Vault does not give out the secret: {why}.", scheme="vault")
