"""Marks that a restore lost are told from those that it kept."""

from datetime import UTC, datetime

import pytest

from beamwright.kernel.epochs import END_OF_TRANSACTION, ConsistencyTokenLostError, Epoch, check_kept
from beamwright.kernel.store import BEGINNING, Mark

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
# Restored twice: first from a backup that ended in transaction 100 while 90, 91 and 95 were under way.
FIRST = Epoch(1000, Mark(100, 50), frozenset({90, 91, 95}), NOON)
SECOND = Epoch(5000, Mark(1040, 80), frozenset(), NOON)
EPOCHS = [SECOND, FIRST]


@pytest.mark.parametrize(
    "mark",
    [
        BEGINNING,
        Mark(1, 1),
        Mark(89, 40),
        Mark(92, 44),
        Mark(100, 50),
        Mark(1000, 51),
        Mark(1040, 80),
        Mark(5000, 81),
    ],
)
def test_what_a_backup_held_is_honoured(mark: Mark) -> None:
    check_kept(mark, EPOCHS)


@pytest.mark.parametrize(
    ("mark", "resumed"),
    [
        (Mark(90, 41), Mark(89, END_OF_TRANSACTION)),
        (Mark(91, 42), Mark(89, END_OF_TRANSACTION)),
        (Mark(95, 46), Mark(94, END_OF_TRANSACTION)),
        (Mark(101, 51), Mark(100, 50)),
        (Mark(999, 70), Mark(100, 50)),
        (Mark(1041, 81), Mark(1040, 80)),
        (Mark(4999, 99), Mark(1040, 80)),
    ],
)
def test_what_a_backup_did_not_hold_is_refused_with_the_place_to_go_on(mark: Mark, resumed: Mark) -> None:
    with pytest.raises(ConsistencyTokenLostError) as refused:
        check_kept(mark, EPOCHS)
    assert refused.value.context == {"restored_at": NOON.isoformat(), "resume_after": resumed.token()}
    check_kept(resumed, EPOCHS)


def test_nothing_is_lost_where_nothing_was_restored() -> None:
    check_kept(Mark(10**18, 1), [])
