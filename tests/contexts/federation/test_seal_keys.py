"""The keys of a seal: how it begins, how either key is rotated, and what the offline machine signs."""

import asyncio
import base64
from typing import Any
from uuid import UUID

import msgspec
import pytest

from beamwright.contexts.federation.credential import (
    CredentialPurpose,
    CredentialRevoked,
    CredentialRotationCompleted,
    credentials,
)
from beamwright.contexts.federation.facility import FacilityKind, FacilityStatus, facilities
from beamwright.contexts.federation.seal import (
    InvalidSealEnvelopeError,
    SealAlreadyInitializedError,
    SealCannotRotateOfflineRootError,
    SealCannotRotateOnlineKeyError,
    SealFacilityNotEligibleError,
    SealInitialized,
    SealIssuerMismatchError,
    SealKeyCollisionError,
    SealKeyNotUsableError,
    SealKeyPurposeMismatchError,
    SealNoPendingKeyError,
    SealNotFoundError,
    SealOfflineRootRotated,
    SealOnlineKeyRotated,
    SealRootNotAnchoredError,
    SealRotationNumberError,
    SealSignatureInvalidError,
    SealStatus,
    seals,
)
from beamwright.contexts.federation.seal_keys import (
    GetSealKeyStatement,
    InitializeSeal,
    RotateSealOfflineRoot,
    RotateSealOnlineKey,
    SealBeginnings,
    SealKeyRole,
    SealKeyStatementView,
    SealRotation,
)
from beamwright.contexts.federation.seal_statements import (
    SealKeyStatement,
    SealRootStatement,
    octets,
    opened,
)
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.errors import DomainError
from beamwright.kernel.signing import Envelope, enclosed, payload_type
from beamwright.kernel.value import replace
from tests.contexts.federation.seal_examples import (
    ACCOUNT,
    DAY,
    HOME,
    NEXT_ONLINE,
    NEXT_ROOT,
    NORTH,
    OFFLINE_ID,
    ONLINE,
    ONLINE_ID,
    PEER,
    ROOT,
    SITE,
    STRANGER,
    Pair,
    facility,
    key_statement,
    next_key_statement,
    offline,
    online,
    pending,
    root_statement,
    seal,
    signed,
)
from tests.rules import NOW, outcome

BEGINNINGS = SealBeginnings(
    facility=HOME, seal=None, online=online(), offline=offline(), self_facility_code="home"
)


FIRST = signed(key_statement(), ROOT)


def initializing(envelope: Envelope = FIRST) -> InitializeSeal:
    return InitializeSeal(
        facility_id=SITE, online_credential_id=ONLINE_ID, offline_credential_id=OFFLINE_ID, envelope=envelope
    )


def revoked(id: UUID) -> CredentialRevoked:
    return CredentialRevoked(credential_id=id, occurred_at=NOW, reason="lost")


def test_a_seal_begins_with_the_roots_statement_of_the_first_online_key() -> None:
    command = initializing()
    assert outcome(command, BEGINNINGS) == [
        SealInitialized(
            facility_id=SITE,
            occurred_at=NOW,
            online_credential_id=ONLINE_ID,
            offline_credential_id=OFFLINE_ID,
            key_id=ONLINE.key_id,
            envelope=command.envelope,
        )
    ]


def test_a_peers_seal_is_foreign_and_belongs_to_its_account() -> None:
    command = initializing(signed(key_statement(facility_code="north"), ROOT))
    seen = replace(BEGINNINGS, facility=NORTH, online=online(owner=PEER), offline=offline(owner=PEER))
    events: Any = outcome(command, seen)
    [event] = events
    assert (event.foreign, event.peer_actor_id) == (True, ACCOUNT)


@pytest.mark.parametrize(
    "envelope",
    [
        signed(key_statement(rotation_number=1), ROOT),
        signed(key_statement(previous_key_id=STRANGER.key_id), ROOT),
        signed(key_statement(key_id=STRANGER.key_id), ROOT),
        signed(root_statement(), ROOT, NEXT_ROOT),
        signed(key_statement(), ROOT, NEXT_ROOT),
        replace(signed(key_statement(), ROOT), payload="e30="),
        enclosed("seal-key", {"facility_code": "home"}, [(ROOT.key_id, bytes(64))]),
    ],
    ids=["later number", "previous key", "not the thumbprint", "root", "two signatures", "empty", "lacking"],
)
def test_an_envelope_that_is_no_first_statement_is_refused_first(envelope: Envelope) -> None:
    assert outcome(initializing(envelope), replace(BEGINNINGS, seal=seal())) is InvalidSealEnvelopeError


def test_a_facility_has_one_seal() -> None:
    area = replace(BEGINNINGS, seal=seal(), facility=facility(FacilityKind.AREA))
    assert outcome(initializing(), area) is SealAlreadyInitializedError


@pytest.mark.parametrize(
    "place",
    [
        facility(FacilityKind.AREA),
        facility(code="other"),
        facility(status=FacilityStatus.DECOMMISSIONED),
        facility(FacilityKind.PEER, status=FacilityStatus.DECOMMISSIONED),
    ],
    ids=["area", "other site", "decommissioned", "decommissioned peer"],
)
def test_only_the_own_site_and_active_peers_have_seals(place: Any) -> None:
    same_key = replace(BEGINNINGS, facility=place, offline=offline(pair=ONLINE))
    assert outcome(initializing(), same_key) is SealFacilityNotEligibleError


def test_online_key_and_root_differ() -> None:
    seen = replace(BEGINNINGS, offline=replace(offline(pair=ONLINE), purpose=CredentialPurpose.SIGNING))
    assert outcome(initializing(), seen) is SealKeyCollisionError


@pytest.mark.parametrize(
    "change",
    [
        {"online": replace(online(), purpose=CredentialPurpose.SIGNING)},
        {"offline": replace(offline(), purpose=CredentialPurpose.SEAL_ONLINE_SIGNING)},
        {"online": online(owner=PEER)},
        {"offline": offline(owner=PEER)},
    ],
    ids=["online purpose", "offline purpose", "online facility", "offline facility"],
)
def test_both_credentials_are_the_facilitys_and_for_their_purpose(change: dict[str, Any]) -> None:
    unanchored = replace(HOME, trust_anchor_credential_ids=frozenset[UUID]())
    seen = replace(BEGINNINGS, facility=unanchored, **change)
    assert outcome(initializing(), seen) is SealKeyPurposeMismatchError


def test_the_root_is_a_trust_anchor() -> None:
    unanchored = replace(HOME, trust_anchor_credential_ids=frozenset({ONLINE_ID}))
    seen = replace(BEGINNINGS, facility=unanchored, online=online(revoked(ONLINE_ID)))
    assert outcome(initializing(), seen) is SealRootNotAnchoredError


def test_the_statement_is_about_the_facility() -> None:
    command = initializing(signed(key_statement(facility_code="north"), ROOT))
    assert outcome(command, BEGINNINGS) is SealIssuerMismatchError


@pytest.mark.parametrize(
    "change",
    [
        {"online": online(revoked(ONLINE_ID))},
        {"offline": offline(revoked(OFFLINE_ID))},
        {"online": online(pair=STRANGER)},
        {"online": replace(online(), current=ONLINE.key(expires_at=NOW))},
    ],
    ids=["online revoked", "root revoked", "another key", "expired"],
)
def test_both_keys_are_usable_and_the_statement_names_the_current_one(change: dict[str, Any]) -> None:
    command = initializing(signed(key_statement(), STRANGER))
    assert outcome(command, replace(BEGINNINGS, **change)) is SealKeyNotUsableError


@pytest.mark.parametrize("signer", [ONLINE, STRANGER], ids=["online", "stranger"])
def test_only_the_root_vouches_for_the_first_key(signer: Pair) -> None:
    assert outcome(initializing(signed(key_statement(), signer)), BEGINNINGS) is SealSignatureInvalidError


def test_a_signature_of_the_root_over_something_else_vouches_for_nothing() -> None:
    other = ROOT.sign(octets(key_statement(issued_at=NOW + DAY)))
    statement = key_statement()
    told = {field: getattr(statement, field) for field in statement.__struct_fields__}
    forged = enclosed("seal-key", told, [(ROOT.key_id, other)])
    assert outcome(initializing(forged), BEGINNINGS) is SealSignatureInvalidError


ROTATING = online(pending(ONLINE_ID, NEXT_ONLINE))
ROTATION = SealRotation(seal=seal(), facility=HOME, online=ROTATING, offline=offline(), overlap=7 * DAY)
VOUCHED = signed(next_key_statement(), ROOT)


def rotating(envelope: Envelope = VOUCHED) -> RotateSealOnlineKey:
    return RotateSealOnlineKey(facility_id=SITE, envelope=envelope)


def test_the_online_key_is_rotated_with_its_credential_in_one_decision() -> None:
    assert outcome(rotating(), ROTATION) == [
        SealOnlineKeyRotated(
            facility_id=SITE,
            occurred_at=NOW,
            rotation_number=1,
            key_id=NEXT_ONLINE.key_id,
            previous_key_id=ONLINE.key_id,
            signed_by_offline_root=True,
            envelope=VOUCHED,
        ),
        CredentialRotationCompleted(
            credential_id=ONLINE_ID,
            occurred_at=NOW,
            key_id=NEXT_ONLINE.key_id,
            retired_until_at=NOW + 7 * DAY,
        ),
    ]


def test_keys_are_rotated_while_republishing_too() -> None:
    republishing = replace(ROTATION, seal=replace(seal(), status=SealStatus.REPUBLISHING))
    assert isinstance(outcome(rotating(), republishing), list)


@pytest.mark.parametrize(
    ("online_credential", "envelope"),
    [
        (online(), VOUCHED),
        (online(pending(ONLINE_ID, STRANGER)), VOUCHED),
        (online(pending(ONLINE_ID, NEXT_ONLINE), revoked(ONLINE_ID)), VOUCHED),
    ],
    ids=["not rotating", "another pending key", "revoked"],
)
def test_the_online_key_follows_its_credential(online_credential: Any, envelope: Envelope) -> None:
    seen = replace(ROTATION, online=online_credential)
    assert outcome(rotating(envelope), seen) is SealCannotRotateOnlineKeyError


@pytest.mark.parametrize(
    "change",
    [{"rotation_number": 2}, {"rotation_number": 0}, {"previous_key_id": STRANGER.key_id}],
    ids=["skips one", "repeats", "another predecessor"],
)
def test_the_statement_follows_the_key_in_use(change: dict[str, Any]) -> None:
    envelope = signed(next_key_statement(**change), STRANGER)
    assert outcome(rotating(envelope), ROTATION) is SealRotationNumberError


@pytest.mark.parametrize("signer", [ONLINE, NEXT_ONLINE, STRANGER], ids=["old online", "itself", "stranger"])
def test_only_the_root_rotates_the_online_key(signer: Pair) -> None:
    assert outcome(rotating(signed(next_key_statement(), signer)), ROTATION) is SealSignatureInvalidError


def test_a_root_that_is_only_pending_rotates_nothing() -> None:
    seen = replace(ROTATION, offline=offline(pending(OFFLINE_ID, STRANGER)))
    assert outcome(rotating(signed(next_key_statement(), STRANGER)), seen) is SealSignatureInvalidError


def test_an_expired_root_rotates_nothing() -> None:
    seen = replace(ROTATION, offline=replace(offline(), current=ROOT.key(expires_at=NOW)))
    assert outcome(rotating(), seen) is SealSignatureInvalidError


def test_a_statement_of_another_facility_rotates_nothing() -> None:
    elsewhere = signed(next_key_statement(facility_code="north"), ROOT)
    assert outcome(rotating(elsewhere), ROTATION) is SealIssuerMismatchError


def test_the_root_never_becomes_the_online_key() -> None:
    statement = next_key_statement(key_id=ROOT.key_id, public_key=ROOT.public_key)
    seen = replace(ROTATION, online=online(pending(ONLINE_ID, ROOT)))
    assert outcome(rotating(signed(statement, ROOT)), seen) is SealKeyCollisionError


def test_a_key_does_not_follow_itself() -> None:
    itself = next_key_statement(key_id=ONLINE.key_id, public_key=ONLINE.public_key)
    assert outcome(rotating(signed(itself, ROOT)), ROTATION) is InvalidSealEnvelopeError


ROOT_ROTATION = replace(ROTATION, online=online(), offline=offline(pending(OFFLINE_ID, NEXT_ROOT)))
BOTH = signed(root_statement(), ROOT, NEXT_ROOT)


def rotating_root(envelope: Envelope = BOTH) -> RotateSealOfflineRoot:
    return RotateSealOfflineRoot(facility_id=SITE, envelope=envelope)


def test_the_root_is_rotated_by_the_old_one_and_the_new_one() -> None:
    assert outcome(rotating_root(), ROOT_ROTATION) == [
        SealOfflineRootRotated(
            facility_id=SITE,
            occurred_at=NOW,
            root_number=1,
            key_id=NEXT_ROOT.key_id,
            previous_key_id=ROOT.key_id,
            envelope=BOTH,
        ),
        CredentialRotationCompleted(
            credential_id=OFFLINE_ID, occurred_at=NOW, key_id=NEXT_ROOT.key_id, retired_until_at=NOW + 7 * DAY
        ),
    ]


def test_the_order_of_the_two_signatures_does_not_matter() -> None:
    assert isinstance(outcome(rotating_root(signed(root_statement(), NEXT_ROOT, ROOT)), ROOT_ROTATION), list)


@pytest.mark.parametrize(
    "signers",
    [(ROOT, ROOT), (NEXT_ROOT, NEXT_ROOT), (ROOT, STRANGER), (STRANGER, NEXT_ROOT), (ONLINE, NEXT_ROOT)],
    ids=["old twice", "new twice", "new missing", "old missing", "online"],
)
def test_both_roots_have_to_sign(signers: tuple[Pair, ...]) -> None:
    envelope = signed(root_statement(), *signers)
    assert outcome(rotating_root(envelope), ROOT_ROTATION) is SealSignatureInvalidError


@pytest.mark.parametrize("forged", [0, 1], ids=["of the old", "of the new"])
def test_each_signature_is_verified(forged: int) -> None:
    signatures = list(BOTH.signatures)
    signatures[forged] = replace(signatures[forged], sig=base64.b64encode(bytes(64)).decode())
    envelope = replace(BOTH, signatures=tuple(signatures))
    assert outcome(rotating_root(envelope), ROOT_ROTATION) is SealSignatureInvalidError


def test_one_signature_is_no_root_statement() -> None:
    assert outcome(rotating_root(signed(root_statement(), ROOT)), ROOT_ROTATION) is InvalidSealEnvelopeError


def test_the_root_follows_its_credential() -> None:
    resting = replace(ROOT_ROTATION, offline=offline())
    assert outcome(rotating_root(), resting) is SealCannotRotateOfflineRootError
    other = replace(ROOT_ROTATION, offline=offline(pending(OFFLINE_ID, STRANGER)))
    assert outcome(rotating_root(), other) is SealCannotRotateOfflineRootError


def test_roots_are_counted_without_a_gap() -> None:
    envelope = signed(root_statement(root_number=2), ROOT, NEXT_ROOT)
    assert outcome(rotating_root(envelope), ROOT_ROTATION) is SealRotationNumberError


def test_the_online_key_never_becomes_the_root() -> None:
    statement = root_statement(key_id=ONLINE.key_id, public_key=ONLINE.public_key)
    seen = replace(ROOT_ROTATION, offline=offline(pending(OFFLINE_ID, ONLINE)))
    assert outcome(rotating_root(signed(statement, ROOT, ONLINE)), seen) is SealKeyCollisionError


class Reading:
    """A world of these states, in which one online credential can be found."""

    now = NOW

    def __init__(self, *states: tuple[Aggregate[Any, Any], Any]) -> None:
        self._states = {(aggregate.name, state.id): state for aggregate, state in states}

    async def load(self, aggregate: Aggregate[Any, Any], id: UUID) -> Any:
        return self._states[aggregate.name, id]

    async def load_known(self, aggregate: Aggregate[Any, Any], ids: list[UUID]) -> Any:
        return {id: self._states[aggregate.name, id] for id in ids if (aggregate.name, id) in self._states}

    async def find(self, aggregate: Aggregate[Any, Any], **filters: Any) -> Any:
        states = [state for (name, _), state in self._states.items() if name == aggregate.name]
        return [s for s in states if all(getattr(s, field) == value for field, value in filters.items())]


def asked(key: SealKeyRole, *states: tuple[Aggregate[Any, Any], Any]) -> Any:
    query: Any = GetSealKeyStatement(facility_id=SITE, key=key)
    try:
        return asyncio.run(query.answer(Reading(*states)))
    except DomainError as refusal:
        return type(refusal)


def signed_offline(view: SealKeyStatementView, *pairs: Pair) -> Envelope:
    """What the offline machine makes of the octets that were carried to it."""
    pae = base64.b64decode(view.pae_base64)
    signatures = [{"keyid": p.key_id, "sig": base64.b64encode(p.sign(pae)).decode()} for p in pairs]
    made = {"payload": view.payload, "payloadType": view.payload_type, "signatures": signatures}
    return msgspec.convert(made, Envelope)


def test_the_statement_of_the_first_key_can_be_signed_offline_as_it_is() -> None:
    view = asked(SealKeyRole.ONLINE, (facilities, HOME), (credentials, online()))
    assert view.payload_type == payload_type("seal-key")
    assert isinstance(outcome(initializing(signed_offline(view, ROOT)), BEGINNINGS), list)


def test_the_statement_of_a_pending_online_key_rotates_it() -> None:
    states = ((facilities, HOME), (seals, seal()), (credentials, ROTATING))
    envelope = signed_offline(asked(SealKeyRole.ONLINE, *states), ROOT)
    assert opened(envelope, SealKeyStatement).statement == next_key_statement()
    assert isinstance(outcome(rotating(envelope), ROTATION), list)


def test_the_statement_of_a_pending_root_rotates_it() -> None:
    states = ((facilities, HOME), (seals, seal()), (credentials, ROOT_ROTATION.offline))
    envelope = signed_offline(asked(SealKeyRole.ROOT, *states), ROOT, NEXT_ROOT)
    assert opened(envelope, SealRootStatement).statement == root_statement()
    assert isinstance(outcome(rotating_root(envelope), ROOT_ROTATION), list)


def test_there_is_no_statement_without_a_key_that_waits() -> None:
    resting = ((facilities, HOME), (seals, seal()), (credentials, online()), (credentials, offline()))
    assert asked(SealKeyRole.ONLINE, *resting) is SealNoPendingKeyError
    assert asked(SealKeyRole.ROOT, *resting) is SealNoPendingKeyError
    assert asked(SealKeyRole.ROOT, (facilities, HOME), (credentials, offline())) is SealNoPendingKeyError
    assert asked(SealKeyRole.ONLINE, (facilities, HOME)) is SealNoPendingKeyError


def test_two_first_keys_are_none() -> None:
    second = replace(online(pair=STRANGER), id=ACCOUNT)
    states = ((facilities, HOME), (credentials, online()), (credentials, second))
    assert asked(SealKeyRole.ONLINE, *states) is SealNoPendingKeyError


def test_an_unknown_facility_has_no_seal() -> None:
    assert asked(SealKeyRole.ONLINE) is SealNotFoundError
