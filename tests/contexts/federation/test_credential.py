"""Credential: its keys and who may have which, rotation, the end, and its status grid."""

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.adapters.secrets.memory import MemorySecrets, public_key
from beamwright.adapters.secrets.signer import StoredKeySigner
from beamwright.contexts.federation.credential import (
    AbortCredentialRotation,
    CompleteCredentialRotation,
    Credential,
    CredentialCannotCompleteRotationError,
    CredentialCannotStartRotationError,
    CredentialInRotation,
    CredentialNotFoundError,
    CredentialPurpose,
    CredentialRegistered,
    CredentialRevoked,
    CredentialRotationAborted,
    CredentialRotationCompleted,
    CredentialRotationStarted,
    CredentialStatus,
    CredentialTripleTakenError,
    InvalidCredentialAudienceError,
    InvalidCredentialExpiryError,
    InvalidCredentialKeyError,
    InvalidCredentialReasonError,
    InvalidCredentialSecretRefError,
    Key,
    RetiredKey,
    credential_extras,
    credentials,
    usable_key,
    verifying_key,
)
from beamwright.contexts.federation.credential_registration import (
    CredentialFacilityNotActiveError,
    CredentialKeyMismatchError,
    CredentialPlace,
    CredentialPurposeMismatchError,
    CredentialWithProbe,
    Probe,
    RegisterCredential,
    StartCredentialRotation,
)
from beamwright.contexts.federation.credential_revocation import (
    CredentialInUseError,
    CredentialWithSeal,
    RevokeCredential,
)
from beamwright.contexts.federation.facility import (
    Facility,
    FacilityKind,
    FacilityNotFoundError,
    FacilityStatus,
)
from beamwright.contexts.federation.seal import Seal
from beamwright.kernel.errors import DomainError
from beamwright.kernel.event import Belonging
from beamwright.kernel.operation import Installation
from beamwright.kernel.secret_store import SecretStoreUnavailableError
from beamwright.kernel.signing import key_id
from beamwright.kernel.value import replace
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, given, outcome

CREDENTIAL, HOME, PEER, OTHER_SITE, AREA = (UUID(int=number) for number in (10, 11, 12, 13, 14))
DAY = timedelta(days=1)


def place(id: UUID, code: str, kind: FacilityKind) -> Facility:
    return Facility(
        id=id, code=code, display_name=code, kind=kind, parent_id=None, base_url=None, peer_actor_id=None
    )


THE_HOME = place(HOME, "home", FacilityKind.SITE)
THE_PEER = place(PEER, "peer", FacilityKind.PEER)
THE_OTHER_SITE = place(OTHER_SITE, "other", FacilityKind.SITE)
THE_AREA = place(AREA, "area", FacilityKind.AREA)

REF, NEXT_REF = "env:A", "env:B"
PUBLIC, NEXT_PUBLIC = public_key(REF), public_key(NEXT_REF)

REGISTERED = CredentialRegistered(
    credential_id=CREDENTIAL,
    occurred_at=NOW,
    facility_id=HOME,
    site_code="home",
    audience="urn:peer",
    purpose=CredentialPurpose.SIGNING,
    key_id=key_id(PUBLIC),
    public_key=PUBLIC,
    secret_ref=REF,
)
PENDING = Key(key_id=key_id(NEXT_PUBLIC), public_key=NEXT_PUBLIC, secret_ref=NEXT_REF, since_at=NOW)
STARTED = CredentialRotationStarted(credential_id=CREDENTIAL, occurred_at=NOW, pending=PENDING)
COMPLETED = CredentialRotationCompleted(
    credential_id=CREDENTIAL, occurred_at=NOW, key_id=PENDING.key_id, retired_until_at=NOW + 7 * DAY
)
ABORTED = CredentialRotationAborted(credential_id=CREDENTIAL, occurred_at=NOW, reason="lost")
REVOKED = CredentialRevoked(credential_id=CREDENTIAL, occurred_at=NOW, reason="stolen")

THE_CREDENTIAL: Credential = given(credentials, REGISTERED)
ROTATING: Credential = given(credentials, REGISTERED, STARTED)
ROTATED: Credential = given(credentials, REGISTERED, STARTED, replace(COMPLETED, occurred_at=NOW + DAY))
GONE: Credential = given(credentials, REGISTERED, REVOKED)

REGISTER = RegisterCredential(
    facility_id=HOME,
    audience="urn:peer",
    purpose=CredentialPurpose.SIGNING,
    public_key=PUBLIC,
    secret_ref=REF,
)
OF_PEER = replace(
    REGISTER, facility_id=PEER, purpose=CredentialPurpose.VERIFICATION, public_key=PUBLIC, secret_ref=None
)


def signed(secret_ref: str, octets: bytes = b"probe") -> Probe:
    signature = asyncio.run(StoredKeySigner(MemorySecrets()).sign(secret_ref, octets))
    return Probe(octets=octets, signature=signature)


def at(facility: Facility, **more: Any) -> CredentialPlace:
    return CredentialPlace(facility=facility, self_facility_code="home", **{"probe": signed(REF)} | more)


class World:
    """What `gather` asks, answered from memory."""

    installation = Installation(self_facility_code="home")
    now = NOW

    def __init__(self, *states: Any, holder: Credential | None = None) -> None:
        self.states = {state.id: state for state in states}
        self.holder = holder
        self.secrets = MemorySecrets()
        self.signer = StoredKeySigner(self.secrets)

    async def load(self, aggregate: Any, id: UUID) -> Any:
        if id not in self.states:
            raise aggregate.missing.of(aggregate.name, id)
        return self.states[id]

    async def load_known(self, aggregate: Any, ids: Any) -> dict[UUID, Any]:
        return {id: self.states[id] for id in ids if isinstance(self.states.get(id), aggregate.state)}

    async def load_claimed(self, aggregate: Any, kind: str, key: str) -> Any:
        assert (kind, key) == ("credential-triple", f"{HOME}/urn:peer/Signing")
        if self.holder is None:
            raise aggregate.missing.of(aggregate.name, key)
        return self.holder


def gathered(command: Any, world: Any) -> Any:
    """What the command sees, or the class of its refusal."""
    try:
        return asyncio.run(command.gather(world))
    except DomainError as error:
        return type(error)


# --- register ---


def test_register_records_the_key_and_where_its_private_part_is() -> None:
    command = replace(REGISTER, audience=" urn:peer ", public_key=f" {PUBLIC} ", secret_ref=f" {REF} ")
    assert outcome(command, at(THE_HOME)) == [replace(REGISTERED, credential_id=NEW_ID)]


def test_the_key_id_is_always_computed() -> None:
    assert "key_id" not in RegisterCredential.__struct_fields__
    assert THE_CREDENTIAL.current.key_id == key_id(PUBLIC)


@pytest.mark.parametrize("audience", ["", "peer", "urn:", "urn:a b", "1:x", "urn:é", "urn:" + "x" * 197])
def test_an_audience_is_a_uri(audience: str) -> None:
    assert outcome(replace(REGISTER, audience=audience), at(THE_HOME)) == InvalidCredentialAudienceError


@pytest.mark.parametrize("key", ["", "x", PUBLIC[:-1], "A" * 43])
def test_a_public_key_is_a_sound_one(key: str) -> None:
    assert outcome(replace(REGISTER, public_key=key), at(THE_HOME)) == InvalidCredentialKeyError


@pytest.mark.parametrize("secret_ref", ["", "hush", "env:", "http://x"])
def test_a_secret_ref_names_a_store(secret_ref: str) -> None:
    command = replace(REGISTER, secret_ref=secret_ref)
    assert outcome(command, at(THE_HOME)) == InvalidCredentialSecretRefError


@pytest.mark.parametrize("ahead", [timedelta(0), -DAY])
def test_an_expiry_lies_ahead(ahead: timedelta) -> None:
    assert outcome(replace(REGISTER, expires_at=NOW + ahead), at(THE_HOME)) == InvalidCredentialExpiryError


# What each purpose needs at the own Site and at a Peer: the public key, and the secret (`-`: no such credential).
PURPOSES = """
                   own-key   own-secret  peer-key  peer-secret
Signing            required  required    -         -
Verification       -         -           required  refused
Authentication     optional  required    -         -
SealOnlineSigning  required  required    required  refused
SealOfflineRoot    required  refused     required  refused
"""
ROWS = [line.split() for line in PURPOSES.strip().splitlines()[1:]]


@pytest.mark.parametrize(("purpose", "own_key", "own_secret", "peer_key", "peer_secret"), ROWS)
def test_each_purpose_has_its_parts(
    purpose: str, own_key: str, own_secret: str, peer_key: str, peer_secret: str
) -> None:
    for facility, key, secret in ((THE_HOME, own_key, own_secret), (THE_PEER, peer_key, peer_secret)):
        for with_key in (True, False):
            for with_secret in (True, False):
                command = RegisterCredential(
                    facility_id=facility.id,
                    audience="urn:peer",
                    purpose=CredentialPurpose(purpose),
                    public_key=PUBLIC if with_key else None,
                    secret_ref=REF if with_secret else None,
                )
                got = outcome(command, at(facility))
                wrong_key = key == "required" and not with_key
                wrong_secret = (secret == "required") != with_secret
                where = (purpose, facility.code, with_key, with_secret)
                if key == "-":
                    assert isinstance(got, type), where
                elif wrong_key:
                    assert got == InvalidCredentialKeyError, where
                elif wrong_secret:
                    assert got == InvalidCredentialSecretRefError, where
                else:
                    assert not isinstance(got, type), (where, got)


@pytest.mark.parametrize(
    ("purpose", "facility", "secret_ref"),
    [
        (CredentialPurpose.SIGNING, THE_PEER, REF),
        (CredentialPurpose.SIGNING, THE_OTHER_SITE, REF),
        (CredentialPurpose.SIGNING, THE_AREA, REF),
        (CredentialPurpose.VERIFICATION, THE_HOME, None),
        (CredentialPurpose.AUTHENTICATION, THE_PEER, REF),
        (CredentialPurpose.SEAL_ONLINE_SIGNING, THE_OTHER_SITE, REF),
        (CredentialPurpose.SEAL_ONLINE_SIGNING, THE_AREA, None),
        (CredentialPurpose.SEAL_OFFLINE_ROOT, THE_AREA, None),
    ],
)
def test_a_purpose_fits_the_facility(
    purpose: CredentialPurpose, facility: Facility, secret_ref: str | None
) -> None:
    command = replace(REGISTER, facility_id=facility.id, purpose=purpose, secret_ref=secret_ref)
    assert outcome(command, at(facility)) == CredentialPurposeMismatchError


@pytest.mark.parametrize("probe", [signed(NEXT_REF), Probe(octets=b"probe", signature=b""), None])
def test_the_secret_must_belong_to_the_public_key(probe: Probe | None) -> None:
    assert outcome(REGISTER, at(THE_HOME, probe=probe)) == CredentialKeyMismatchError


def test_a_secret_without_public_key_is_not_probed() -> None:
    command = replace(REGISTER, purpose=CredentialPurpose.AUTHENTICATION, public_key=None)
    [event] = outcome(command, at(THE_HOME, probe=None))
    assert (event.key_id, event.secret_ref) == (None, REF)


CLOSED_PEER = replace(THE_PEER, status=FacilityStatus.DECOMMISSIONED)
CLOSED_HOME = replace(THE_HOME, status=FacilityStatus.DECOMMISSIONED)
BAD = RegisterCredential(
    facility_id=HOME,
    audience="x",
    purpose=CredentialPurpose.SIGNING,
    public_key="x",
    secret_ref="x",
    expires_at=NOW,
)


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (BAD, at(CLOSED_HOME), InvalidCredentialAudienceError),
        (replace(BAD, audience="urn:x"), at(CLOSED_HOME), InvalidCredentialKeyError),
        (replace(REGISTER, secret_ref="x", expires_at=NOW), at(CLOSED_HOME), InvalidCredentialSecretRefError),
        (replace(REGISTER, expires_at=NOW), at(CLOSED_HOME), InvalidCredentialExpiryError),
        (replace(REGISTER, facility_id=PEER), at(CLOSED_PEER), CredentialFacilityNotActiveError),
        (
            replace(REGISTER, facility_id=PEER),
            at(THE_PEER, holder=THE_CREDENTIAL),
            CredentialPurposeMismatchError,
        ),
        (REGISTER, at(THE_HOME, holder=THE_CREDENTIAL, probe=None), CredentialTripleTakenError),
        (REGISTER, at(THE_HOME, probe=None), CredentialKeyMismatchError),
    ],
)
def test_register_refuses_in_order(
    command: RegisterCredential, seen: CredentialPlace, refusal: type[DomainError]
) -> None:
    assert outcome(command, seen) == refusal


def test_register_has_the_secret_sign_a_fresh_probe() -> None:
    one, other = gathered(REGISTER, World(THE_HOME)), gathered(REGISTER, World(THE_HOME))
    assert outcome(REGISTER, one) == [replace(REGISTERED, credential_id=NEW_ID)]
    assert one.probe.octets != other.probe.octets
    assert one.probe.octets.startswith(b"DSSEv1 40 application/vnd.beamwright.probe.v1+json 32 ")


def test_a_secret_that_is_no_key_does_not_match() -> None:
    world = World(THE_HOME)
    world.secrets.kept[REF] = b"password"
    assert outcome(REGISTER, gathered(REGISTER, world)) == CredentialKeyMismatchError


def test_an_outage_of_the_secret_store_is_the_last_refusal() -> None:
    def refused(command: RegisterCredential, world: World) -> Any:
        world.secrets.reachable = False
        return gathered(command, world)

    assert refused(BAD, World()) == InvalidCredentialAudienceError
    assert refused(REGISTER, World()) == FacilityNotFoundError
    assert refused(REGISTER, World(CLOSED_HOME)) == CredentialFacilityNotActiveError
    assert refused(REGISTER, World(THE_HOME, holder=THE_CREDENTIAL)) == CredentialTripleTakenError
    assert refused(REGISTER, World(THE_HOME)) == SecretStoreUnavailableError


def test_nothing_of_a_secret_ref_is_printed() -> None:
    told = f"{REGISTER} {REGISTERED} {STARTED} {THE_CREDENTIAL} {ROTATED} {START}"
    assert REF not in told and NEXT_REF not in told


# --- rotation ---

START = StartCredentialRotation(credential_id=CREDENTIAL, public_key=NEXT_PUBLIC, secret_ref=NEXT_REF)


def rotating(credential: Credential, facility: Facility = THE_HOME, **more: Any) -> CredentialWithProbe:
    return CredentialWithProbe(
        credential=credential,
        facility=facility,
        self_facility_code="home",
        **{"probe": signed(NEXT_REF)} | more,
    )


def test_a_rotation_announces_the_next_key() -> None:
    assert outcome(START, rotating(THE_CREDENTIAL)) == [STARTED]
    assert (ROTATING.current.key_id, ROTATING.pending) == (key_id(PUBLIC), PENDING)


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (replace(START, public_key="x", secret_ref="x"), rotating(GONE), InvalidCredentialKeyError),
        (replace(START, public_key=None), rotating(GONE), InvalidCredentialKeyError),
        (replace(START, secret_ref=None), rotating(GONE), InvalidCredentialSecretRefError),
        (replace(START, expires_at=NOW), rotating(GONE), InvalidCredentialExpiryError),
        (START, rotating(GONE, probe=None), CredentialCannotStartRotationError),
        (START, rotating(ROTATING), CredentialCannotStartRotationError),
        (
            replace(START, public_key=PUBLIC),
            rotating(THE_CREDENTIAL, probe=None),
            CredentialCannotStartRotationError,
        ),
        (START, rotating(THE_CREDENTIAL, probe=signed(REF)), CredentialKeyMismatchError),
    ],
)
def test_start_rotation_refuses_in_order(
    command: StartCredentialRotation, seen: CredentialWithProbe, refusal: type[DomainError]
) -> None:
    assert outcome(command, seen) == refusal


TOKEN = given(
    credentials,
    replace(REGISTERED, purpose=CredentialPurpose.AUTHENTICATION, key_id=None, public_key=None),
)


def test_a_secret_without_public_key_rotates_to_another_reference() -> None:
    command = replace(START, public_key=None)
    [event] = outcome(command, rotating(TOKEN, probe=None))
    assert event.pending == Key(secret_ref=NEXT_REF, since_at=NOW)
    same = replace(command, secret_ref=REF)
    assert outcome(same, rotating(TOKEN, probe=None)) == CredentialCannotStartRotationError


PEER_ONLINE = given(
    credentials,
    replace(REGISTERED, facility_id=PEER, purpose=CredentialPurpose.SEAL_ONLINE_SIGNING, secret_ref=None),
)


def test_the_online_key_of_a_peer_rotates_without_secret() -> None:
    assert outcome(START, rotating(PEER_ONLINE, THE_PEER)) == InvalidCredentialSecretRefError
    [event] = outcome(replace(START, secret_ref=None), rotating(PEER_ONLINE, THE_PEER, probe=None))
    assert event.pending.secret_ref is None


def test_start_rotation_has_the_new_secret_sign() -> None:
    assert outcome(START, gathered(START, World(THE_HOME, THE_CREDENTIAL))) == [STARTED]
    assert gathered(START, World(THE_HOME)) == CredentialNotFoundError


def in_rotation(credential: Credential) -> CredentialInRotation:
    return CredentialInRotation(credential=credential, overlap=7 * DAY)


COMPLETE = CompleteCredentialRotation(credential_id=CREDENTIAL)


def test_completing_retires_the_old_key_for_the_overlap() -> None:
    assert outcome(COMPLETE, in_rotation(ROTATING)) == [COMPLETED]
    assert (ROTATED.current, ROTATED.pending) == (replace(PENDING, since_at=NOW + DAY), None)
    old = THE_CREDENTIAL.current
    assert ROTATED.retired == (
        RetiredKey(
            key_id=old.key_id,
            public_key=old.public_key,
            secret_ref=old.secret_ref,
            since_at=NOW,
            until_at=NOW + 7 * DAY,
        ),
    )


def test_the_overlap_is_the_installations() -> None:
    world: Any = World(ROTATING)
    world.installation = Installation(federation_key_overlap=3 * DAY)
    [event] = outcome(COMPLETE, gathered(COMPLETE, world))
    assert event.retired_until_at == NOW + 3 * DAY


@pytest.mark.parametrize(
    "purpose", [CredentialPurpose.SEAL_ONLINE_SIGNING, CredentialPurpose.SEAL_OFFLINE_ROOT]
)
def test_only_the_seal_completes_the_rotation_of_its_keys(purpose: CredentialPurpose) -> None:
    credential = given(credentials, replace(REGISTERED, purpose=purpose), STARTED)
    assert outcome(COMPLETE, in_rotation(credential)) == CredentialCannotCompleteRotationError


def test_an_aborted_rotation_leaves_the_current_key() -> None:
    command = AbortCredentialRotation(credential_id=CREDENTIAL, reason=" lost ")
    assert outcome(command, ROTATING) == [ABORTED]
    assert given(credentials, REGISTERED, STARTED, ABORTED) == THE_CREDENTIAL
    assert outcome(replace(command, reason=" "), THE_CREDENTIAL) == InvalidCredentialReasonError


def test_the_newest_retired_key_comes_first() -> None:
    back = replace(PENDING, key_id="third")
    twice = given(credentials, REGISTERED, STARTED, COMPLETED, replace(STARTED, pending=back), COMPLETED)
    assert [key.key_id for key in twice.retired] == [key_id(NEXT_PUBLIC), key_id(PUBLIC)]


def test_a_credential_is_found_by_every_key_that_it_had() -> None:
    assert ROTATING.key_ids == [key_id(PUBLIC), key_id(NEXT_PUBLIC)]
    assert ROTATED.key_ids == [key_id(NEXT_PUBLIC), key_id(PUBLIC)]
    assert TOKEN.key_ids == []


# --- which key may be used ---

EXPIRING = given(credentials, replace(REGISTERED, expires_at=NOW + DAY))


@pytest.mark.parametrize(
    ("credential", "now", "usable"),
    [
        (THE_CREDENTIAL, NOW, True),
        (ROTATING, NOW, True),
        (GONE, NOW, False),
        (EXPIRING, NOW + DAY - timedelta(microseconds=1), True),
        (EXPIRING, NOW + DAY, False),
    ],
)
def test_the_current_key_is_usable_until_it_expires_or_is_revoked(
    credential: Credential, now: datetime, usable: bool
) -> None:
    assert usable_key(credential, now) == (credential.current if usable else None)


OLD, NEW = key_id(PUBLIC), key_id(NEXT_PUBLIC)
REPLACED_AT, UNTIL = NOW + DAY, NOW + 7 * DAY
MOMENT = timedelta(microseconds=1)
ROTATED_TWICE: Credential = given(
    credentials,
    REGISTERED,
    STARTED,
    replace(COMPLETED, occurred_at=REPLACED_AT, retired_until_at=UNTIL),
    replace(STARTED, pending=replace(PENDING, key_id="third")),
    replace(COMPLETED, occurred_at=NOW + 3 * DAY, retired_until_at=NOW + 9 * DAY),
)


@pytest.mark.parametrize(
    ("credential", "id", "stated_at", "now", "verifies"),
    [
        (THE_CREDENTIAL, OLD, NOW, NOW, True),
        (THE_CREDENTIAL, NEW, NOW, NOW, False),
        (EXPIRING, OLD, NOW, NOW + DAY, False),
        (GONE, OLD, NOW, NOW, False),
        (ROTATING, OLD, NOW, NOW, True),
        (ROTATING, NEW, NOW, NOW, True),
        (ROTATED, NEW, NOW + DAY, NOW + DAY, True),
        (ROTATED, OLD, REPLACED_AT, UNTIL, True),
        (ROTATED, OLD, REPLACED_AT + MOMENT, UNTIL, False),
        (ROTATED, OLD, REPLACED_AT, UNTIL + MOMENT, False),
        (ROTATED_TWICE, OLD, REPLACED_AT, NOW + 4 * DAY, True),
        (ROTATED_TWICE, OLD, NOW + 2 * DAY, NOW + 4 * DAY, False),
        (ROTATED_TWICE, NEW, NOW + 3 * DAY, NOW + 9 * DAY, True),
        (ROTATED_TWICE, NEW, NOW + 3 * DAY + MOMENT, NOW + 9 * DAY, False),
    ],
)
def test_a_key_verifies_what_it_signed_in_its_time(
    credential: Credential, id: str, stated_at: datetime, now: datetime, verifies: bool
) -> None:
    found = verifying_key(credential, id, stated_at, now)
    assert (found is not None and found.key_id == id) == verifies


def test_revoking_ends_the_pending_and_the_retired_keys_too() -> None:
    for credential in (
        given(credentials, REGISTERED, STARTED, REVOKED),
        given(credentials, REGISTERED, STARTED, COMPLETED, REVOKED),
    ):
        assert not any(verifying_key(credential, id, NOW, NOW) for id in (OLD, NEW))


def test_a_retired_key_vouches_for_nothing_that_it_signed_after_its_expiry() -> None:
    credential = given(credentials, replace(REGISTERED, expires_at=NOW + DAY / 2), STARTED, COMPLETED)
    credential = replace(credential, current=replace(credential.current, since_at=NOW + DAY))
    assert verifying_key(credential, OLD, NOW, NOW + DAY) is not None
    assert verifying_key(credential, OLD, NOW + DAY / 2, NOW + DAY) is None


# --- revoke ---

REVOKE = RevokeCredential(credential_id=CREDENTIAL, reason=" stolen ")
OTHER = UUID(int=99)


def sealed(online: UUID, offline: UUID) -> Seal:
    return Seal(facility_id=HOME, online_credential_id=online, offline_credential_id=offline)


def test_a_revoked_credential_verifies_nothing() -> None:
    assert outcome(REVOKE, CredentialWithSeal(credential=ROTATING)) == [REVOKED]
    assert usable_key(GONE, NOW) is None


def test_revoke_refuses_in_order() -> None:
    used = CredentialWithSeal(credential=GONE, seal=sealed(CREDENTIAL, OTHER))
    assert outcome(replace(REVOKE, reason=""), used) == InvalidCredentialReasonError
    assert outcome(REVOKE, used).__name__ == "CredentialCannotRevokeError"


@pytest.mark.parametrize("seal", [sealed(CREDENTIAL, OTHER), sealed(OTHER, CREDENTIAL)])
def test_what_a_seal_depends_on_is_not_revoked(seal: Seal) -> None:
    seen = gathered(REVOKE, World(THE_CREDENTIAL, seal))
    assert seen.seal == seal and outcome(REVOKE, seen) == CredentialInUseError


def test_what_a_seal_does_not_depend_on_is() -> None:
    seen = gathered(REVOKE, World(THE_CREDENTIAL, sealed(OTHER, UUID(int=98))))
    assert outcome(REVOKE, seen) == [REVOKED]
    assert gathered(REVOKE, World(THE_CREDENTIAL)).seal is None


# --- claims, belonging, view ---


def test_the_triple_is_claimed_until_it_is_revoked() -> None:
    [claim] = credentials.claims(ROTATING)
    assert (claim.kind, claim.key) == ("credential-triple", f"{HOME}/urn:peer/Signing")
    assert claim.taken is CredentialTripleTakenError
    assert list(credentials.claims(GONE)) == []


def test_a_peers_credential_belongs_to_the_own_site_too() -> None:
    peers = given(credentials, replace(REGISTERED, facility_id=PEER))
    assert credentials.belongs(peers) == Belonging(facility_code="home")


def test_a_view_tells_the_scheme_and_whether_the_key_is_too_old() -> None:
    extras = asyncio.run(credential_extras(World(), [EXPIRING, PEER_ONLINE]))  # type: ignore[arg-type]
    assert [(each.secret_scheme, each.expired) for each in extras] == [("env", False), (None, False)]
    late: Any = World()
    late.now = NOW + DAY
    assert asyncio.run(credential_extras(late, [EXPIRING]))[0].expired


# --- status ---

GRID = """
          start-rotation  complete-rotation  abort-rotation  revoke
Active    Rotating        -                  -               Revoked
Rotating  -               Active             Active          Revoked
Revoked   -               -                  -               -
"""


class Seeing:
    """A command that is shown more than the credential."""

    def __init__(self, command: Any, seen: Any) -> None:
        self.command = command
        self.seen = seen

    def decide(self, credential: Credential, occasion: Any) -> Any:
        return self.command.decide(self.seen(credential), occasion)


def test_status_grid() -> None:
    check_grid(
        GRID,
        credentials,
        status=lambda credential: credential.status,
        reach={
            CredentialStatus.ACTIVE: [REGISTERED],
            CredentialStatus.ROTATING: [REGISTERED, STARTED],
            CredentialStatus.REVOKED: [REGISTERED, REVOKED],
        },
        verbs={
            "start-rotation": Seeing(START, rotating),
            "complete-rotation": Seeing(COMPLETE, in_rotation),
            "abort-rotation": AbortCredentialRotation(credential_id=CREDENTIAL, reason="lost"),
            "revoke": Seeing(REVOKE, lambda credential: CredentialWithSeal(credential=credential)),
        },
    )
