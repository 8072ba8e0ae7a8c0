"""When the own seal's pointer is due."""

from datetime import timedelta

import pytest

from beamwright.kernel.epochs import Epoch
from beamwright.kernel.store import Mark
from beamwright.runtime.sealer import due, outdates
from tests.contexts.federation.seal_examples import pointer, pointer_signed, seal
from tests.rules import NOW

HOUR = timedelta(hours=1)
POINTER = seal(pointer_signed(pointer(1, signed_at=NOW, ledger_length=3))).pointer


def test_a_seal_without_a_pointer_is_due() -> None:
    assert due(None, 0, NOW, HOUR)


def test_a_ledger_that_grew_is_due_at_once() -> None:
    assert due(POINTER, 4, NOW, HOUR)
    assert not due(POINTER, 3, NOW, HOUR)


@pytest.mark.parametrize(("later", "is_due"), [(59, False), (60, True), (600, True), (-1, True)])
def test_a_pointer_is_due_when_the_interval_is_over_or_a_clock_was_set_back(later: int, is_due: bool) -> None:
    assert due(POINTER, 3, NOW + timedelta(minutes=later), HOUR) is is_due


EPOCH = Epoch(0x7C, Mark(0x70, 5), frozenset(), NOW)


def test_a_pointer_from_before_a_restore_is_not_followed_by_itself() -> None:
    assert outdates(EPOCH, POINTER, NOW)
    since = seal(pointer_signed(pointer(1, log_position=Mark(0x7C, 9).token()))).pointer
    assert not outdates(EPOCH, since, NOW - HOUR)


def test_a_seal_that_was_begun_before_a_restore_may_have_lost_its_first_pointer() -> None:
    assert outdates(EPOCH, None, NOW - HOUR)
    assert not outdates(EPOCH, None, NOW + HOUR)
