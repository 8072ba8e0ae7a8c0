"""Reads of a seal: the pages of its ledger, and what verification finds."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.federation.credential import credentials
from beamwright.contexts.federation.seal import (
    NOTHING,
    LedgerEntry,
    SealEvent,
    SealLedgerExtended,
    SealPointerFact,
    SealPointerSigned,
    extended,
    pointer_hash,
    seals,
)
from beamwright.contexts.federation.seal_reads import (
    MOST_EVENTS,
    SKIPPED,
    ListSealLedger,
    SealCheck,
    SealCheckResult,
    VerifySeal,
    checked_chain,
    checked_ledger,
    checked_signatures,
    online_keys,
    root_keys,
)
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.log_digest import SignedDigest
from beamwright.kernel.store import Mark
from beamwright.kernel.value import replace
from tests.contexts.federation.seal_examples import (
    ARTIFACT,
    BEGUN,
    CONTENT_HASH,
    LOG,
    NEXT_ONLINE,
    ONLINE,
    PEER,
    PEERS,
    ROOT,
    SITE,
    STRANGER,
    Pair,
    initialized,
    key_statement,
    offline,
    pointer,
    pointer_received,
    pointer_signed,
    seal,
    signed,
)
from tests.rules import NOW, given

PASSED = SealCheck(result=SealCheckResult.PASSED)


def failed(number: int) -> SealCheck:
    return SealCheck(result=SealCheckResult.FAILED, first_bad_number=number)


def ledger(*entries: LedgerEntry) -> list[SealLedgerExtended]:
    grown: list[SealLedgerExtended] = []
    for entry in entries:
        grown.append(extended(seal(*grown), entry, ARTIFACT, CONTENT_HASH, NOW))
    return grown


ENTRIES = ledger(LedgerEntry.PUBLISHED, LedgerEntry.PUBLISHED, LedgerEntry.WITHDRAWN)


class Reading:
    """A world of one seal and its log."""

    now = NOW

    def __init__(self, events: Sequence[SealEvent], disagreeing: Sequence[int] = ()) -> None:
        self._events = events
        self._disagreeing = disagreeing
        self.asked: list[SignedDigest] = []

    async def load(self, aggregate: Aggregate[Any, Any], id: UUID) -> Any:
        return offline() if aggregate is credentials else given(seals, *self._events)

    async def events(self, aggregate: Aggregate[Any, Any], id: UUID) -> Any:
        return self._events

    async def disagreeing(self, signed: Iterable[SignedDigest]) -> Any:
        self.asked = list(signed)
        return [each for each in self.asked if each.number in self._disagreeing]


def page(**asked: int) -> Any:
    query: Any = ListSealLedger(facility_id=SITE, **asked)
    return asyncio.run(query.answer(Reading([BEGUN, *ENTRIES])))


def test_the_ledger_is_read_in_pages_oldest_first() -> None:
    first = page(limit=2)
    assert [line.ledger_number for line in first.items] == [1, 2]
    assert first.next_after == 2
    rest = page(limit=2, after=first.next_after)
    assert [(line.ledger_number, line.entry) for line in rest.items] == [(3, LedgerEntry.WITHDRAWN)]
    assert (rest.next_after, rest.ledger_length, rest.ledger_head) == (None, 3, ENTRIES[-1].ledger_head)


def test_beyond_the_end_of_the_ledger_there_is_nothing() -> None:
    assert (page(after=3).items, page(after=3).next_after) == ([], None)


def chain(*numbers: int, by: Pair = ONLINE, **changes: Any) -> list[SealPointerSigned]:
    """Pointers that follow one another."""
    made: list[SealPointerSigned] = []
    for number in numbers:
        before = pointer_hash(made[-1].envelope) if made else None
        made.append(pointer_signed(pointer(number, previous_pointer_hash=before, **changes), by))
    return made


KEYS = online_keys([BEGUN], root_keys(offline()))


def test_pointers_are_checked_by_the_keys_that_the_root_has_vouched_for() -> None:
    assert {ONLINE.key_id: ONLINE.public_key} == KEYS
    assert checked_signatures(chain(1, 2), KEYS) == PASSED
    assert checked_signatures([*chain(1), *chain(2, by=STRANGER)], KEYS) == failed(2)
    assert checked_signatures([], KEYS) == SKIPPED


def test_a_key_that_another_than_the_root_announced_is_no_key() -> None:
    forged = initialized(envelope=signed(key_statement(), STRANGER))
    assert online_keys([forged], root_keys(offline())) == {}
    tampered = initialized(envelope=replace(BEGUN.envelope, payload="e30="))
    assert online_keys([tampered], root_keys(offline())) == {}


def test_the_name_of_a_key_is_not_its_signature() -> None:
    [good], [other] = chain(1), chain(2)
    forged = replace(good, envelope=replace(good.envelope, signatures=other.envelope.signatures))
    assert checked_signatures([forged], KEYS) == failed(1)
    later = signed(key_statement(issued_at=NOW + timedelta(days=1)), ROOT)
    claimed = initialized(envelope=replace(BEGUN.envelope, signatures=later.signatures))
    assert online_keys([claimed], root_keys(offline())) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"log_digest": CONTENT_HASH},
        {"log_position": "7b.8"},
        {"sequence_number": 3},
        {"head_hash": CONTENT_HASH},
        {"ledger_length": 1},
        {"valid_until": NOW},
        {"previous_pointer_hash": CONTENT_HASH},
        {"key_id": NEXT_ONLINE.key_id},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_pointer_whose_record_was_altered_is_not_as_it_was_signed(change: dict[str, Any]) -> None:
    [good] = chain(2)
    altered: SealPointerFact = replace(good, **change)
    assert checked_signatures([altered], KEYS) == failed(altered.sequence_number)


def test_own_pointers_are_linked_even_where_a_number_was_skipped() -> None:
    assert checked_chain(chain(1, 2, 9), foreign=False) == PASSED
    first, second = chain(1), pointer_signed(pointer(9))
    assert checked_chain([*first, second], foreign=False) == failed(9)
    assert checked_chain([*chain(2), *chain(1)], foreign=False) == failed(1)
    again = pointer_signed(pointer(1, previous_pointer_hash=pointer_hash(first[0].envelope)))
    assert checked_chain([*first, again], foreign=False) == failed(1)
    assert checked_chain([], foreign=False) == SKIPPED


def test_of_a_peers_pointers_some_may_be_missing() -> None:
    assert checked_chain([*chain(4), pointer_signed(pointer(9))], foreign=True) == PASSED
    assert checked_chain([*chain(8), pointer_signed(pointer(9))], foreign=True) == failed(9)


def test_each_head_of_the_ledger_is_worked_out_again() -> None:
    first, second, third = ENTRIES
    assert checked_ledger([BEGUN, *ENTRIES]) == PASSED
    assert checked_ledger([BEGUN, first, replace(second, content_hash="00" * 32), third]) == failed(2)
    assert checked_ledger([BEGUN, first, third]) == failed(2)
    assert checked_ledger([BEGUN, first, replace(second, content_hash="no hash"), third]) == failed(2)
    assert checked_ledger([BEGUN, first, replace(second, entry=LedgerEntry.WITHDRAWN)]) == failed(2)


def test_each_pointer_has_the_head_of_its_time() -> None:
    first = ENTRIES[0]
    good = pointer_signed(pointer(1, head_hash=first.ledger_head, ledger_length=1))
    assert checked_ledger([BEGUN, first, good]) == PASSED
    early = pointer_signed(pointer(1, head_hash=NOTHING, ledger_length=0))
    assert checked_ledger([BEGUN, first, early]) == failed(1)


def verified(reading: Reading, facility_id: UUID = SITE) -> Any:
    query: Any = VerifySeal(facility_id=facility_id)
    return asyncio.run(query.answer(reading))


def test_a_seal_that_is_sound_passes() -> None:
    reading = Reading([BEGUN, *chain(1, 2)])
    answer = verified(reading)
    assert (answer.signature, answer.chain, answer.ledger, answer.log) == (PASSED,) * 4
    assert reading.asked == [SignedDigest(number, Mark(0x7B, 7), LOG) for number in (1, 2)]


def test_the_log_is_held_against_every_pointer() -> None:
    assert verified(Reading([BEGUN, *chain(1, 2, 3)], disagreeing=[3, 2])).log == failed(2)


def test_a_pointer_that_names_no_place_in_the_log_fails() -> None:
    lost = replace(chain(1)[0], log_position="nowhere")
    assert verified(Reading([BEGUN, lost])).log == failed(1)


def test_a_log_too_long_for_a_call_is_left_to_the_command_line() -> None:
    far = Mark(500, MOST_EVENTS + 1).token()
    assert verified(Reading([BEGUN, *chain(1, log_position=far)])).log == SKIPPED


def test_of_a_peers_seal_there_is_no_ledger_and_no_log_here() -> None:
    theirs = pointer_received(pointer(4, facility_code="north"))
    answer = verified(Reading([PEERS, theirs]), PEER)
    assert (answer.ledger, answer.log, answer.chain) == (SKIPPED, SKIPPED, PASSED)


def test_a_new_seal_has_no_pointer_to_check() -> None:
    answer = verified(Reading([BEGUN]))
    assert (answer.signature, answer.chain, answer.log) == (SKIPPED,) * 3
