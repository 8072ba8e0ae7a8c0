"""Lets reads wait for the read models, whichever process feeds them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from beamwright.kernel.errors import ReadModelBehindError
from beamwright.kernel.store import BEGINNING, Mark


class Readers:
    """Knows how far each list is; the projector of this process tells it, or a poll does."""

    def __init__(self, poll: Callable[[], Awaitable[Mapping[str, Mark]]], *, patience: float = 5.0) -> None:
        self._poll = poll
        self._patience = patience
        self._changed = asyncio.Event()
        self._marks: dict[str, Mark] = {}
        self.appended = asyncio.Event()

    def wake(self) -> None:
        """Something was appended in this process."""
        self.appended.set()

    def advance(self, marks: Mapping[str, Mark]) -> None:
        """Each list has seen everything up to its mark."""
        if marks != self._marks:
            self._marks = dict(marks)
            self._changed.set()
            self._changed = asyncio.Event()

    async def caught_up(self, name: str, mark: Mark) -> None:
        """Wait, bounded, until the list has seen the append at `mark`."""
        try:
            async with asyncio.timeout(self._patience):
                await self._wait(name, mark)
        except TimeoutError:
            raise ReadModelBehindError(
                "The list has not caught up with that append yet; ask again, or read the object by id."
            ) from None

    async def _wait(self, name: str, mark: Mark) -> None:
        while self._marks.get(name, BEGINNING) < mark:
            try:
                async with asyncio.timeout(0.02):
                    await self._changed.wait()
            except TimeoutError:
                self.advance(await self._poll())
