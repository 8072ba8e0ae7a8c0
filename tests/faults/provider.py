"""An identity provider outside the installation, on loopback: its keys, its key set, and how often it was asked."""

import asyncio
import json
import threading
from collections.abc import Coroutine
from typing import Any, Self

from tests.adapters.tokens.provider import EC_KEY, ED_KEY, ISSUER, RSA_KEY, Provider


class Outside:
    """The provider in a loop of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.provider = self._do(self._made())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self.provider.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _made(self) -> Provider:
        provider = Provider(RSA_KEY, EC_KEY, ED_KEY)
        await provider.start()
        return provider

    def _do[T](self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def settings(self) -> str:
        return json.dumps([{"issuer": ISSUER, "jwks_url": self.provider.keys_url}])

    @property
    def asked(self) -> int:
        return len(self.provider.requests)
