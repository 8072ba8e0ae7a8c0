"""Secrets: what refers to one, and that the reference is shown to nobody."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from beamwright.app import registry
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.secret_store import (
    SecretRef,
    checked_secret_ref,
    discreet,
    redacted,
    scheme,
    secrets_of,
)
from beamwright.kernel.value import Value, encode


class Lock(Value):
    name: str
    secret_ref: SecretRef | None = None

    __repr__ = discreet


class House(Value):
    id: UUID
    front: Lock
    back: Lock | None = None
    others: tuple[Lock, ...] = ()
    by_name: dict[str, Lock] = {}
    spare_refs: list[SecretRef] = []


class Shed(Value):
    name: str


class Malformed(InvalidError):
    """What the tests are refused with."""


LOCK = Lock(name="L", secret_ref="env:HUSH")
HOUSE = House(
    id=UUID(int=1),
    front=LOCK,
    others=(LOCK, Lock(name="M")),
    by_name={"x": LOCK},
    spare_refs=["file:/hush"],
)


def test_the_marked_places_are_found_wherever_they_are() -> None:
    assert secrets_of(House) == {
        "front": {"secret_ref": None},
        "back": {"secret_ref": None},
        "others": {"secret_ref": None},
        "by_name": {"*": {"secret_ref": None}},
        "spare_refs": None,
    }
    assert secrets_of(Shed) == {}


def test_a_record_is_shown_without_its_secrets() -> None:
    shown = redacted(HOUSE, secrets_of(House))
    assert b"hush" not in encode(shown).lower()
    assert (shown.front.secret_ref, shown.front.name) == ("<redacted>", "L")
    assert (shown.back, shown.others[1].secret_ref) == (None, None)


def test_its_decoded_form_is_shown_alike() -> None:
    payload: dict[str, Any] = msgspec.json.decode(encode(HOUSE))
    shown = msgspec.json.decode(encode(redacted(HOUSE, secrets_of(House))))
    assert redacted(payload, secrets_of(House)) == shown


def test_a_record_with_a_secret_is_printed_without_it() -> None:
    assert "HUSH" not in f"{HOUSE.front} {HOUSE.others}" and "<redacted>" in repr(LOCK)


def test_the_secrets_of_every_state_and_event_can_be_told() -> None:
    found = registry()
    assert "CredentialRegistered" in found.secrets
    assert "Credential" in {name for name, each in found.aggregates.items() if secrets_of(each.state)}


@pytest.mark.parametrize("text", ["env:A", " file:/x/y ", "vault:kv/home#key", "env:" + "x" * 500])
def test_a_reference_names_where_the_secret_is(text: str) -> None:
    assert checked_secret_ref(text, Malformed) == text.strip()


@pytest.mark.parametrize(
    "text", ["", "env:", "env: ", "HUSH", "http:x", "env:a b", "ENV:A", "env:" + "x" * 501]
)
def test_what_is_no_reference_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(Malformed) as refused:
        checked_secret_ref(text, Malformed)
    assert "HUSH" not in f"{refused.value.detail} {refused.value.context}"


def test_the_scheme_is_all_that_is_shown() -> None:
    assert scheme("vault:kv/home#key") == "vault"
