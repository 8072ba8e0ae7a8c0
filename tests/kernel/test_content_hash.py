"""Canonical JSON and content hashes: the vectors of RFC 8785 and DSSE, and that only meaning counts."""

import hashlib
import json
import struct
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from unicodedata import normalize
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamwright.kernel.content_hash import canonical, content_hash
from beamwright.kernel.value import Value

# Appendix B of RFC 8785: the bits of a double, and its text.
DOUBLES = """
0000000000000000 0
8000000000000000 0
0000000000000001 5e-324
8000000000000001 -5e-324
7fefffffffffffff 1.7976931348623157e+308
ffefffffffffffff -1.7976931348623157e+308
4340000000000000 9007199254740992
c340000000000000 -9007199254740992
4430000000000000 295147905179352830000
44b52d02c7e14af5 9.999999999999997e+22
44b52d02c7e14af6 1e+23
44b52d02c7e14af7 1.0000000000000001e+23
444b1ae4d6e2ef4e 999999999999999700000
444b1ae4d6e2ef4f 999999999999999900000
444b1ae4d6e2ef50 1e+21
3eb0c6f7a0b5ed8c 9.999999999999997e-7
3eb0c6f7a0b5ed8d 0.000001
41b3de4355555553 333333333.3333332
41b3de4355555554 333333333.33333325
41b3de4355555555 333333333.3333333
41b3de4355555556 333333333.3333334
41b3de4355555557 333333333.33333343
becbf647612f3696 -0.0000033333333333333333
43143ff3c1cb0959 1424953923781206.2
"""


@pytest.mark.parametrize(("bits", "text"), [line.split() for line in DOUBLES.strip().splitlines()])
def test_a_double_is_written_as_ecmascript_does(bits: str, text: str) -> None:
    assert canonical(struct.unpack(">d", bytes.fromhex(bits))[0]).decode() == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (4.50, "4.5"),
        (2e-3, "0.002"),
        (1e-7, "1e-7"),
        (1e21, "1e+21"),
        (10**21, "1e+21"),
        (333333333.33333329, "333333333.3333333"),
        (-0.0, "0"),
        (20.0, "20"),
        (295147905179352830000, "295147905179352830000"),
        (2**53 + 1, "9007199254740992"),
        (10**400, "1" + "0" * 400),
    ],
)
def test_a_number_is_written_by_its_value(number: float, text: str) -> None:
    assert canonical(number).decode() == text


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_json_number_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="not a JSON number"):
        canonical({"a": [number]})


def test_text_is_escaped_as_the_standard_does() -> None:
    sample = '€$\x0f\nA\'B"\\\\"/\x7f\u2028\b\t\f\r'
    assert canonical(sample).decode() == '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/\x7f\u2028\\b\\t\\f\\r"'


def test_keys_are_sorted_by_utf16_code_units() -> None:
    sample = {"€": 1, "\r": 2, "～": 3, "1": 4, "😀": 5, "\x80": 6, "ö": 7}
    assert list(json.loads(canonical(sample))) == ["\r", "1", "\x80", "ö", "€", "😀", "～"]


def test_text_and_keys_are_normalised() -> None:
    assert canonical({"e\u0301": "A\u030a"}) == canonical({"é": "Å"}) == '{"é":"Å"}'.encode()


def test_keys_that_normalise_to_one_are_both_kept() -> None:
    assert canonical({"e\u0301": 1, "é": 2}) != canonical({"é": 2})


class Mode(StrEnum):
    FAST = "Fast"


class Step(Value, tag_field="kind", tag="Step"):
    """A record of a tagged union."""

    name: str
    members: frozenset[UUID] = frozenset()
    mode: Mode = Mode.FAST


def test_records_ids_times_and_sets_become_plain_json() -> None:
    ids = frozenset(UUID(int=number) for number in range(9))
    plain = {
        "kind": "Step",
        "name": "n",
        "mode": "Fast",
        "members": sorted(str(each) for each in ids),
    }
    assert canonical(Step(name="n", members=ids)) == canonical(plain)
    assert canonical(datetime(2026, 1, 2, tzinfo=UTC)) == b'"2026-01-02T00:00:00Z"'
    assert canonical({UUID(int=1): 1}) == b'{"00000000-0000-0000-0000-000000000001":1}'


def test_sets_are_sorted_by_the_canonical_form_of_their_members() -> None:
    assert canonical(frozenset({10, 9, 1})) == b"[1,10,9]"
    assert canonical({Step(name="b"), Step(name="a")}) == canonical([Step(name="a"), Step(name="b")])


def test_the_hash_is_over_the_pre_authentication_encoding() -> None:
    body = b'{"a":1}'
    encoding = b"DSSEv1 38 application/vnd.beamwright.method+json 7 " + body
    assert (
        content_hash("application/vnd.beamwright.method+json", {"a": 1})
        == hashlib.sha256(encoding).hexdigest()
    )


def test_the_media_type_tells_equal_bodies_apart() -> None:
    assert content_hash("application/a+json", {}) != content_hash("application/b+json", {})


doubles = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | doubles | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@settings(deadline=None)
@given(number=doubles)
def test_a_double_reads_back_as_itself(number: float) -> None:
    assert float(canonical(number)) == number


def nfc(value: Any) -> Any:
    match value:
        case str():
            return normalize("NFC", value)
        case list():
            return [nfc(each) for each in value]
        case dict():
            return {nfc(key): nfc(each) for key, each in value.items()}
        case _:
            return value


@settings(deadline=None)
@given(value=values)
def test_canonical_json_says_the_same_and_is_its_own_canonical_form(value: Any) -> None:
    text = canonical(nfc(value))
    read = json.loads(text, parse_int=float)
    assert read == nfc(value)
    assert canonical(read) == text


@settings(deadline=None)
@given(value=st.dictionaries(st.text(), values, max_size=6), shuffle=st.randoms())
def test_the_order_of_keys_does_not_count(value: dict[str, Any], shuffle: Any) -> None:
    keys = list(value)
    shuffle.shuffle(keys)
    assert content_hash("a/b", {key: value[key] for key in keys}) == content_hash("a/b", value)
