"""Digests of the log are worked out in batches, never beyond the horizon, and never twice the same way."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from beamwright.kernel.log_digest import EMPTY, LogDigest, SignedDigest, advanced
from beamwright.kernel.store import Mark, Stored
from beamwright.runtime import log_digests
from beamwright.runtime.log_digests import LogDigests
from tests.kernel.test_log_digest import event

LOG = [event(number) for number in range(1, 11)]


class Log:
    """A log of which readers see a part."""

    def __init__(self, seen: int) -> None:
        self.seen = seen
        self.asked: list[Mark] = []

    async def horizon(self) -> Mark:
        return LOG[self.seen - 1].mark if self.seen else Mark(0, 0)

    async def read_log(self, after: Mark, limit: int) -> Sequence[Stored]:
        self.asked.append(after)
        # What was committed since the horizon was asked for may already come along.
        return [stored for stored in LOG[: self.seen + 1] if stored.mark > after][:limit]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_digests, "BATCH", 3)


def since(digests: LogDigests, begun: LogDigest = EMPTY) -> LogDigest:
    return asyncio.run(digests.since(begun))


def made(log: Log) -> LogDigests:
    store: Any = log
    return LogDigests(store)


def of(events: int) -> LogDigest:
    return advanced(EMPTY, LOG[:events])


@pytest.mark.parametrize("seen", range(10))
def test_the_digest_ends_with_the_horizon(seen: int) -> None:
    assert since(made(Log(seen))) == of(seen)


def test_it_goes_on_from_what_was_signed() -> None:
    log = Log(8)
    assert since(made(log), of(5)) == of(8)
    assert min(log.asked) == LOG[4].mark


def test_a_second_attempt_goes_on_where_the_first_came() -> None:
    log = Log(7)
    digests = made(log)
    since(digests)
    log.asked, log.seen = [], 9
    assert since(digests) == of(9)
    assert log.asked == [LOG[6].mark]


def test_another_beginning_is_another_chain() -> None:
    digests = made(Log(7))
    since(digests)
    altered = LogDigest(LOG[1].mark, "ab" * 32)
    assert since(digests, altered) == advanced(altered, LOG[2:7])


def test_every_signed_digest_is_held_against_the_log_from_its_beginning() -> None:
    signed = [SignedDigest(number, *of(events)) for number, events in ((1, 2), (2, 5), (3, 7))]
    false = [signed[0], signed[1]._replace(digest="ab" * 32), signed[2]]
    digests = made(Log(8))
    assert asyncio.run(digests.disagreeing(signed)) == []
    assert [each.number for each in asyncio.run(digests.disagreeing(false))] == [2, 3]
