"""Lets reads wait for the read models, whichever process feeds them."""

import asyncio
from collections.abc import Awaitable, Callable

from beamwright.kernel.errors import ReadModelBehindError
from beamwright.kernel.store import BEGINNING, Mark


class Readers:
    """Knows how far the read models are; the projector of this process tells it, or a poll does."""

    def __init__(self, poll: Callable[[], Awaitable[Mark]], *, patience: float = 5.0) -> None:
        self._poll = poll
        self._patience = patience
        self._changed = asyncio.Event()
        self.appended = asyncio.Event()
        self.mark = BEGINNING

    def wake(self) -> None:
        """Something was appended in this process."""
        self.appended.set()

    def advance(self, mark: Mark) -> None:
        """The read models have seen everything up to `mark`."""
        if mark > self.mark:
            self.mark = mark
            self._changed.set()
            self._changed = asyncio.Event()

    async def caught_up(self, mark: Mark) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await self._wait(mark)
        except TimeoutError:
            raise ReadModelBehindError(
                "The lists have not caught up with that append yet; ask again, or read the object by id."
            ) from None

    async def _wait(self, mark: Mark) -> None:
        while self.mark < mark:
            try:
                async with asyncio.timeout(0.02):
                    await self._changed.wait()
            except TimeoutError:
                self.advance(await self._poll())
