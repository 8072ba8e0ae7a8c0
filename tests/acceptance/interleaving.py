"""What happens between the decision of a command and its append, made to happen exactly there."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from beamwright.kernel.store import Append, Mark
from tests.acceptance.stage import Person
from tests.live import LiveServer


class Meanwhile:
    """Lets another call in, once, after a command was decided and before it is written."""

    def __init__(self, server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server
        self.monkeypatch = monkeypatch
        self.answers: list[httpx.Response] = []

    def within(self, command: str, by: Person, path: str, **body: Any) -> None:
        """The next append of `command` waits until `by` has posted this."""
        store: Any = self.server.app.store
        append: Callable[[Append], Any] = store.append

        async def held_up(asked: Append) -> Mark:
            if asked.envelope.command_name == command and not self.answers:
                headers = {"authorization": by.client.headers["authorization"]}
                async with httpx.AsyncClient(base_url=self.server.url, headers=headers, timeout=30) as client:
                    self.answers.append(await client.post(path, json=body))
            return await append(asked)

        self.monkeypatch.setattr(store, "append", held_up)
