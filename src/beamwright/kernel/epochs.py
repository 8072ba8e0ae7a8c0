"""Epochs of the log, and the tokens that a restore made void."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from .errors import ConflictError
from .store import Mark

END_OF_TRANSACTION = 2**63 - 1


class ConsistencyTokenLostError(ConflictError):
    """The token was given out for something that was lost when the service was restored."""


class Epoch(NamedTuple):
    """A stretch of the log that one database cluster numbers; every one but the first begins with a restore."""

    first_transaction_id: int
    # The end of what was restored: between it and the first transaction lies what was lost.
    last: Mark
    # Transactions before that end which are lost too: they were under way when the backup was taken.
    unfinished: frozenset[int]
    began_at: datetime

    def resumed(self, mark: Mark) -> Mark | None:
        """For a lost mark, the place before it where a reader of the log goes on without a gap or a repetition."""
        if self.last < mark and mark.transaction_id < self.first_transaction_id:
            return self.last
        transaction_id = mark.transaction_id
        if transaction_id not in self.unfinished:
            return None
        while transaction_id in self.unfinished:
            transaction_id -= 1
        return Mark(transaction_id, END_OF_TRANSACTION)


def check_kept(mark: Mark, epochs: Sequence[Epoch]) -> None:
    """Refuse a mark of something that no longer is in the log."""
    for epoch in epochs:
        resumed = epoch.resumed(mark)
        if resumed is not None:
            raise ConsistencyTokenLostError(
                f"The service was restored at {epoch.began_at:%Y-%m-%d %H:%M} UTC from a backup that does not hold "
                f"what this token was given out for. Read again what you keep, and drop the token. To follow the "
                f"feed, go on after {resumed.token()}: whatever you have of later events did not survive.",
                restored_at=epoch.began_at.isoformat(),
                resume_after=resumed.token(),
            )
