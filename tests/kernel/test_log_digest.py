"""The digest of the log: nothing of an event can be changed, moved or left out without changing it."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given as given_any
from hypothesis import strategies as st

from beamwright.kernel.content_hash import canonical, canonical_json
from beamwright.kernel.log_digest import (
    EMPTY,
    Covered,
    DigestComparison,
    LogDigest,
    SignedDigest,
    advanced,
    covered,
)
from beamwright.kernel.store import Mark, Stored

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PAYLOAD = '{"event_type":"ZoneDefined","name": "Hutch", "size": 1.50, "zone_id": "z"}'
FIRST = Stored(
    Mark(10, 1),
    UUID(int=1),
    "Zone",
    UUID(int=2),
    1,
    "ZoneDefined",
    1,
    PAYLOAD,
    UUID(int=3),
    "define_zone",
    UUID(int=4),
    "correlated",
    None,
    NOON,
    NOON,
)


def event(number: int, **changes: Any) -> Stored:
    return FIRST._replace(mark=Mark(10 + number, number), event_id=UUID(int=number), **changes)


LOG = [event(number) for number in range(1, 7)]


def digest(*events: Stored) -> str:
    return advanced(EMPTY, events).digest


def test_an_event_is_covered_in_canonical_form() -> None:
    assert covered(FIRST) == (
        b'{"causation_id":null,"command_name":"define_zone","correlation_id":"correlated",'
        b'"event_id":"00000000-0000-0000-0000-000000000001","event_type":"ZoneDefined",'
        b'"occurred_at":"2026-03-01T12:00:00Z","payload":{"name":"Hutch","size":1.5,"zone_id":"z"},'
        b'"principal_id":"00000000-0000-0000-0000-000000000003","schema_version":1,'
        b'"stream_id":"00000000-0000-0000-0000-000000000002","stream_type":"Zone",'
        b'"surface_id":"00000000-0000-0000-0000-000000000004","version":1}'
    )


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.integers(10**15, 10**19)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.0, -0.0, 1e21, 1e-7, 5e-324, 1.5, 123456789.125, 1e16])
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given_any(st.dictionaries(st.text(max_size=4), JSON, max_size=5), st.text(max_size=8))
def test_the_form_is_canonical_whatever_the_payload(payload: dict[str, Any], correlation: str) -> None:
    """However quickly it is made."""
    text = json.dumps(payload, ensure_ascii=False)[1:]
    stored = FIRST._replace(tagged=f'{{"event_type":"ZoneDefined",{text}', correlation_id=correlation)
    fields = {field: getattr(stored, field) for field in Covered.__struct_fields__ if field != "payload"}
    assert covered(stored) == canonical(fields | {"payload": payload})


@pytest.mark.parametrize(
    "text",
    [
        '{"n": 9007199254740993}',
        '{"n":-9007199254740993}',
        '{"n":[1, 12345678901234567890]}',
        '{"n":[18446744073709551617]}',
        '{"n":9007199254740993}',
        '{"a": "e\u0301"}',
        '{"\ufb33": 1, "\U0001f600": 2}',
        '{"b": "\\u0001", "a": "e\u0301"}',
        '{"a": 1.0, "b": 1e21, "c": -0.0, "d": 0.1, "e": 100000000000000000000.0}',
    ],
)
def test_the_quick_form_of_a_text_is_the_careful_one(text: str) -> None:
    assert canonical_json(text) == canonical(json.loads(text))


def test_each_digest_is_the_hash_of_the_one_before_and_the_event() -> None:
    first = hashlib.sha256(bytes(32) + covered(LOG[0])).digest()
    second = hashlib.sha256(first + covered(LOG[1])).hexdigest()
    assert advanced(EMPTY, LOG[:2]) == LogDigest(LOG[1].mark, second)


def test_it_does_not_matter_where_one_stops_on_the_way() -> None:
    assert advanced(advanced(EMPTY, LOG[:3]), LOG[3:]) == advanced(EMPTY, LOG)
    assert advanced(EMPTY, []) == EMPTY


@pytest.mark.parametrize(
    "change",
    [
        {"event_id": UUID(int=9)},
        {"stream_type": "Conduit"},
        {"stream_id": UUID(int=9)},
        {"version": 2},
        {"event_type": "ZoneUpdated"},
        {"schema_version": 2},
        {"tagged": PAYLOAD.replace("Hutch", "Attic")},
        {"tagged": PAYLOAD.replace("1.50", "1.51")},
        {"tagged": PAYLOAD.replace('"name"', '"event_type": "x", "name"')},
        {"principal_id": UUID(int=9)},
        {"command_name": "update_zone"},
        {"surface_id": UUID(int=9)},
        {"correlation_id": "other"},
        {"causation_id": UUID(int=9)},
        {"occurred_at": NOON + timedelta(microseconds=1)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_change_of_an_event_changes_the_digest(change: dict[str, Any]) -> None:
    assert digest(FIRST._replace(**change)) != digest(FIRST)


def test_the_form_of_the_payload_and_the_place_in_the_table_do_not_matter() -> None:
    same = '{"event_type":"ZoneDefined","zone_id":"z","size":1.5,"name":"Hutch"}'
    assert digest(FIRST._replace(tagged=same, mark=Mark(99, 99), recorded_at=NOON + timedelta(1))) == digest(
        FIRST
    )


def test_order_matters() -> None:
    assert digest(LOG[1], LOG[0]) != digest(LOG[0], LOG[1])


def pointer(number: int, events: int) -> SignedDigest:
    return SignedDigest(number, LOG[events - 1].mark, digest(*LOG[:events]))


POINTERS = [pointer(1, 2), pointer(2, 4), pointer(3, 5)]


def wrong(log: list[Stored], pointers: list[SignedDigest] = POINTERS) -> list[int]:
    comparison = DigestComparison(pointers)
    for stored in log:
        comparison.take(stored)
    return [each.number for each in comparison.finish()]


def test_a_log_as_it_was_signed_agrees() -> None:
    assert wrong(LOG) == []
    assert wrong(LOG, list(reversed(POINTERS))) == []
    assert wrong([], []) == []


@pytest.mark.parametrize(("altered", "number"), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3)])
def test_an_altered_event_is_laid_at_the_first_pointer_after_it(altered: int, number: int) -> None:
    log = list(LOG)
    log[altered] = log[altered]._replace(correlation_id="other")
    assert wrong(log) == [number]


@pytest.mark.parametrize(("removed", "number"), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3)])
def test_a_removed_event_is_laid_at_the_first_pointer_after_it(removed: int, number: int) -> None:
    assert wrong(LOG[:removed] + LOG[removed + 1 :]) == [number]


def test_events_that_changed_places_are_found() -> None:
    swapped = [*LOG[:2], LOG[3]._replace(mark=LOG[2].mark), LOG[2]._replace(mark=LOG[3].mark), *LOG[4:]]
    assert wrong(swapped) == [2]


def test_an_event_put_in_between_is_found() -> None:
    late = event(9)._replace(mark=Mark(11, 9))
    assert wrong([LOG[0], late, *LOG[1:]]) == [1]


def test_what_comes_after_the_last_pointer_is_nobodys_yet() -> None:
    assert wrong([*LOG[:5], LOG[5]._replace(correlation_id="other")]) == []


def test_a_log_that_ends_too_early_is_found() -> None:
    assert wrong(LOG[:3]) == [2, 3]


def test_two_places_are_found_each_by_itself() -> None:
    log = [LOG[0]._replace(version=7), *LOG[1:4], LOG[4]._replace(version=7)]
    assert wrong(log) == [1, 3]


def test_a_digest_that_is_none_is_wrong() -> None:
    assert wrong(LOG, [POINTERS[0], POINTERS[1]._replace(digest="none"), POINTERS[2]]) == [2]


def test_a_comparison_is_done_when_nothing_waits() -> None:
    comparison = DigestComparison([POINTERS[0]])
    for stored in LOG[:2]:
        comparison.take(stored)
    assert not comparison.done
    comparison.take(LOG[2])
    assert comparison.done
