"""Other installations over HTTPS."""

import httpx
import msgspec

from beamwright.kernel.delivery import PeerAnswer, PeerUnreachableError
from beamwright.kernel.problem import Problem

SECONDS = 30.0
# More of an answer than a problem document needs is nobody's business here.
MOST_OCTETS = 64 * 1024


class HttpPeers:
    """Posts with a bearer token, and follows no redirect: the token is for this address alone."""

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None

    @property
    def client(self) -> httpx.AsyncClient:
        """Made when it is first needed: reading the certificates takes a while."""
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=SECONDS, follow_redirects=False)
        return self._client

    @client.setter
    def client(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def post(self, url: str, token: str, body: bytes) -> PeerAnswer:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        try:
            async with self.client.stream("POST", url, content=body, headers=headers) as response:
                return _answer(response.status_code, await _beginning(response))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise PeerUnreachableError(f"{type(error).__name__}: {error}") from None

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()


async def _beginning(response: httpx.Response) -> bytes:
    body = b""
    async for part in response.aiter_bytes():
        body += part
        if len(body) > MOST_OCTETS:
            break
    return body


def _answer(status: int, body: bytes) -> PeerAnswer:
    try:
        problem = msgspec.json.decode(body, type=Problem) if status >= 400 else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = None
    if problem is None:
        return PeerAnswer(status=status)
    return PeerAnswer(status=status, code=problem.code, detail=problem.detail)
