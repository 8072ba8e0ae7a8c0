"""Digests of the log, worked out in batches from the last one that was signed."""

from collections.abc import Iterable, Sequence

from beamwright.kernel.log_digest import DigestComparison, LogDigest, SignedDigest, advanced
from beamwright.kernel.store import BEGINNING, EventStore

BATCH = 500


class LogDigests:
    """Remembers how far it came, so that a lost race does not go the whole way again."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._begun: LogDigest | None = None
        self._reached: LogDigest | None = None

    async def since(self, begun: LogDigest) -> LogDigest:
        """The digest of all that readers may see now, going on from one that is known."""
        reached = self._reached if self._begun == begun and self._reached is not None else begun
        horizon = await self._store.horizon()
        while reached.mark < horizon:
            events = await self._store.read_log(reached.mark, BATCH)
            reached = advanced(reached, (stored for stored in events if stored.mark <= horizon))
            # Kept at every step: a caller who gives up has not worked in vain.
            self._begun, self._reached = begun, reached
            if len(events) < BATCH:
                break
        return reached

    async def disagreeing(self, signed: Iterable[SignedDigest]) -> Sequence[SignedDigest]:
        """Those of several signed digests that the log, read from its beginning, does not bear out."""
        comparison, mark = DigestComparison(signed), BEGINNING
        while not comparison.done and (events := await self._store.read_log(mark, BATCH)):
            for stored in events:
                comparison.take(stored)
            mark = events[-1].mark
        return comparison.finish()
