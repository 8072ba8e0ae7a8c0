"""Seals of served installations: what is believed, what is refused, and what an altered log betrays."""

import asyncio
import base64
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beamwright.adapters.secrets.memory import public_key, seed
from beamwright.contexts.federation.seal_statements import SealKeyStatement
from beamwright.kernel.signing import key_id
from beamwright.kernel.store import Mark
from beamwright.kernel.value import replace
from beamwright.maintenance import verify_database
from beamwright.preservation import make_backup, restore_backup
from beamwright.runtime.verification import Check, Report
from beamwright.settings import Settings
from tests.acceptance.sealing import (
    CREDENTIALS,
    SEALS,
    Peer,
    Sealed,
    json,
    offline,
    own_seal,
    peer,
)
from tests.acceptance.stage import Stage, at_once, denial, done, refusal
from tests.contexts.federation.seal_examples import (
    NEXT_ROOT,
    ONLINE,
    ROOT,
    STRANGER,
    Pair,
    signed,
)
from tests.live import Cluster, serving

CODE = "east"
FIRST_KEY = "env:BEAMWRIGHT_SEAL_1"
REFS = [FIRST_KEY, "env:BEAMWRIGHT_SEAL_2"]


class FromSeed(Pair):
    """A key pair of the secret store in memory."""

    def __init__(self, secret_ref: str) -> None:
        super().__init__(1)
        self._private = Ed25519PrivateKey.from_private_bytes(seed(secret_ref))
        self.public_key = public_key(secret_ref)
        self.key_id = key_id(self.public_key)


@pytest.fixture(scope="module")
def east(cluster: Cluster) -> Iterator[Sealed]:
    """An installation that signs."""
    with (
        serving(cluster, self_facility_code=CODE, secret_store="memory") as server,
        Stage(server) as stage,
    ):
        yield own_seal(stage, CODE, ROOT, FIRST_KEY)


@pytest.fixture(scope="module")
def west(stage: Stage) -> Peer:
    """A Peer of another installation, whose keys the tests have."""
    return peer(stage, ROOT, ONLINE)


def events_of(sealed: Sealed) -> list[dict[str, Any]]:
    return done(sealed.admin.get(f"{sealed.path}/events", limit=200))["items"]


def test_a_replayed_or_forked_pointer_is_refused_and_the_same_again_is_no_news(stage: Stage) -> None:
    west = peer(stage, ROOT, ONLINE)
    sixth, seventh = west.pointer(6), west.pointer(7)
    assert west.deliver(west.signed(seventh)).status_code == 200
    before = len(events_of(west))
    assert refusal(west.deliver(west.signed(sixth))) == (409, "SealPointerReplayedError")
    again = west.deliver(west.signed(seventh))
    assert (again.status_code, again.json()["events"]) == (200, [])
    assert refusal(west.point(7, head_hash="ee" * 32)) == (409, "SealPointerForkedError")
    assert (len(events_of(west)), west.view()["sequence_number"]) == (before, 7)


def test_of_many_who_deliver_one_pointer_one_is_recorded(stage: Stage) -> None:
    west = peer(stage, ROOT, ONLINE)
    envelope = west.signed(west.pointer(3))
    answers = at_once(*[lambda: west.deliver(envelope)] * 8)
    assert {answer.status_code for answer in answers} == {200}
    assert [event["event_type"] for event in events_of(west)] == ["SealInitialized", "SealPointerReceived"]


def pending(east: Sealed) -> SealKeyStatement:
    """The statement of the pending key, as it is to be signed."""
    return msgspec.json.decode(base64.b64decode(east.statement()["payload"]), type=SealKeyStatement)


def test_only_the_anchored_roots_next_statement_rotates_the_online_key(east: Sealed) -> None:
    old = east.sign()["key_id"]
    east.start_rotation(f"env:BEAMWRIGHT_{uuid4().hex}")
    statement = pending(east)
    ref = next(ref for ref in REFS if key_id(public_key(ref)) == old)
    by_old_key = json(signed(statement, FromSeed(ref)))
    assert refusal(east.rotate(by_old_key)) == (409, "SealSignatureInvalidError")
    assert refusal(east.rotate(json(signed(statement, STRANGER)))) == (409, "SealSignatureInvalidError")
    skipping = json(signed(later(statement), ROOT))
    assert refusal(east.rotate(skipping)) == (409, "SealRotationNumberError")
    told = east.rotate(offline(east.statement(), ROOT), signed_by_offline_root=True)
    assert told.status_code == 422
    assert east.sign()["key_id"] == old
    done(east.admin.post(f"{CREDENTIALS}/{east.online}/rotation/abort", reason="only a test"))


def later(statement: SealKeyStatement) -> SealKeyStatement:
    return replace(statement, rotation_number=statement.rotation_number + 1)


def test_a_rotation_stands_in_one_transaction_and_peers_follow_the_statement(
    east: Sealed, stage: Stage
) -> None:
    first = events_of(east)[0]["payload"]["envelope"]
    there = peer(stage, ROOT, FromSeed(FIRST_KEY), code=CODE, envelope=first)
    assert there.deliver(east.sign()["envelope"]).status_code == 200
    key = east.start_rotation(REFS[1])
    statement = offline(east.statement(), ROOT)
    done(east.rotate(statement))
    rows = east.stage.rows(
        "SELECT array_agg(event_type ORDER BY position) FROM events WHERE transaction_id = ("
        "SELECT transaction_id FROM events WHERE event_type = 'SealOnlineKeyRotated')"
    )
    assert rows[0][0] == ["SealOnlineKeyRotated", "CredentialRotationCompleted"]
    rotated = next(each for each in events_of(east) if each["event_type"] == "SealOnlineKeyRotated")
    assert rotated["payload"]["signed_by_offline_root"] is True
    pointer = east.sign()
    assert pointer["key_id"] == key_id(key)
    assert refusal(there.deliver(pointer["envelope"])) == (409, "SealKeyUnknownError")
    done(there.deliver(statement))
    assert there.deliver(pointer["envelope"]).status_code == 200
    assert there.view()["pointer"]["envelope"] == pointer["envelope"]
    credential = done(stage.admin.get(f"{CREDENTIALS}/{there.online}"))
    assert (credential["status"], credential["current"]["key_id"]) == ("Active", key_id(key))


def test_the_root_is_rotated_by_both_and_only_the_new_one_vouches_then(stage: Stage) -> None:
    west = peer(stage, ROOT, ONLINE)
    path = f"{CREDENTIALS}/{west.root}/rotation/start"
    done(stage.admin.post(path, public_key=NEXT_ROOT.public_key))
    view = west.statement("root")
    rotate = f"{west.path}/offline-root/rotate"
    alone = stage.admin.post(rotate, envelope=offline(view, ROOT))
    assert refusal(alone) == (400, "InvalidSealEnvelopeError")
    twice = stage.admin.post(rotate, envelope=offline(view, NEXT_ROOT, NEXT_ROOT))
    assert refusal(twice) == (409, "SealSignatureInvalidError")
    done(stage.admin.post(rotate, envelope=offline(view, ROOT, NEXT_ROOT)))
    assert west.view()["root_number"] == 1
    assert refusal(stage.admin.get(f"{west.path}/online-key/statement", key="root")) == (
        409,
        "SealNoPendingKeyError",
    )


def test_a_peers_account_delivers_only_what_that_peer_signed(stage: Stage) -> None:
    west, south = peer(stage, ROOT, ONLINE), peer(stage, ROOT, ONLINE)
    assert refusal(south.point(1, by=west.account)) == (409, "SealIssuerMismatchError")
    assert south.point(1).status_code == 200
    unknown = west.deliver(west.signed(west.pointer(1, facility_code="nowhere")))
    assert refusal(unknown) == (404, "FacilityNotFoundError")
    ours = west.deliver(west.signed(west.pointer(1, facility_code="home")))
    assert refusal(ours) == (404, "FacilityNotFoundError")


def test_a_deactivated_account_delivers_nothing(stage: Stage) -> None:
    west = peer(stage, ROOT, ONLINE)
    assert west.point(1).status_code == 200
    done(stage.admin.post(f"/actors/{west.account.id}/deactivate", reason="Compromised"))
    assert denial(west.point(2)) == (403, "ActorInactive")


def test_a_peers_account_reads_its_own_seal_and_ours_and_no_other(stage: Stage, west: Peer) -> None:
    south = peer(stage, ROOT, ONLINE)
    assert west.account.get(west.path).status_code == 200
    assert refusal(west.account.get(south.path)) == (404, "SealNotFoundError")
    listed = done(
        west.account.get(SEALS, consistent_with=done(stage.admin.get(f"{south.path}/events"))["as_of"])
    )
    assert [item["facility_id"] for item in listed["items"]] == [west.facility_id]


def test_everybody_who_reads_seals_reads_the_own_one(east: Sealed) -> None:
    there = peer(east.stage, ROOT, ONLINE)
    assert done(there.account.get(east.path))["facility_id"] == east.facility_id
    assert done(there.account.get(f"{east.path}/ledger"))["items"] == []


def test_pointers_follow_one_another_and_everything_is_verified(east: Sealed) -> None:
    first = east.sign()
    second = east.sign()
    last = events_of(east)[-1]["payload"]
    assert last["previous_pointer_hash"] == first["pointer_hash"]
    assert second["log_position"] != first["log_position"]
    checks = done(east.admin.get(f"{east.path}/verification"))
    assert {name: check["result"] for name, check in checks.items()} == {
        "signature": "Passed",
        "chain": "Passed",
        "ledger": "Passed",
        "log": "Passed",
    }


def test_concurrent_signers_make_one_chain(east: Sealed) -> None:
    at_once(*[lambda: east.admin.post(f"{east.path}/pointer/sign")] * 6)
    assert done(east.admin.get(f"{east.path}/verification"))["chain"]["result"] == "Passed"


def test_a_secret_store_that_is_away_is_told_and_nothing_is_signed(east: Sealed) -> None:
    before = east.view()["sequence_number"]
    secrets: Any = east.stage.server.app.secrets
    secrets.reachable = False
    try:
        answer = east.admin.post(f"{east.path}/pointer/sign")
    finally:
        secrets.reachable = True
    assert refusal(answer) == (503, "SecretStoreUnavailableError")
    assert answer.headers["retry-after"]
    assert east.view()["sequence_number"] == before


def test_republishing_signs_nothing_and_ends_above_all_that_was_seen(east: Sealed) -> None:
    number = east.sign() and east.view()["sequence_number"]
    done(east.admin.post(f"{east.path}/republishing/start", reason="restored from a backup"))
    assert refusal(east.admin.post(f"{east.path}/pointer/sign")) == (409, "SealCannotSignPointerError")
    complete = f"{east.path}/republishing/complete"
    low = east.admin.post(complete, sequence_floor=number - 1)
    assert refusal(low) == (400, "InvalidSealSequenceFloorError")
    done(east.admin.post(complete, sequence_floor=number + 100))
    view = east.view()
    assert (view["status"], view["sequence_number"], view["fresh"]) == ("Live", number + 101, True)


def test_the_scheduler_signs_when_the_pointer_is_old(east: Sealed) -> None:
    server = east.stage.server
    number = east.sign() and east.view()["sequence_number"]
    listed(east)
    assert server.run(lambda app: app.sealer.sign_due()) is False
    server.clock.ahead = timedelta(minutes=61)
    try:
        # The worker of the server may come first.
        server.run(lambda app: app.sealer.sign_due())
    finally:
        server.clock.ahead = timedelta()
    last = events_of(east)[-1]
    assert (last["command_name"], last["principal_name"]) == ("sign_seal_pointer", "Scheduler")
    assert east.view()["sequence_number"] > number


def listed(east: Sealed, **filters: Any) -> list[str]:
    """The seals that the list shows, once it has seen all of this one."""
    as_of = done(east.admin.get(f"{east.path}/events"))["as_of"]
    return [
        each["facility_id"] for each in done(east.admin.get(SEALS, consistent_with=as_of, **filters))["items"]
    ]


def test_a_seal_that_nobody_signs_is_no_longer_fresh(stage: Stage, west: Peer) -> None:
    now = stage.server.clock()
    west.point(500, valid_until=now + timedelta(minutes=10))
    assert west.facility_id in listed(west, fresh=True)
    stage.server.clock.ahead = timedelta(minutes=11)
    try:
        assert west.facility_id not in listed(west, fresh=True)
        assert west.facility_id in listed(west, fresh=False)
        assert west.view()["fresh"] is False
    finally:
        stage.server.clock.ahead = timedelta()


def verified(east: Sealed) -> Report:
    return asyncio.run(verify_database(east.stage.server.dsn, lambda done, total: None))


def as_owner(east: Sealed, sql: str, *arguments: Any) -> None:
    """What the database's owner does behind the service's back."""

    async def run() -> None:
        connection = await asyncpg.connect(east.stage.server.dsn)
        try:
            async with connection.transaction():
                await connection.execute("ALTER TABLE events DISABLE TRIGGER events_append_only")
                await connection.execute(sql, *arguments)
                await connection.execute("ALTER TABLE events ENABLE TRIGGER events_append_only")
        finally:
            await connection.close()

    asyncio.run(run())


def test_an_altered_event_is_found_by_the_first_pointer_after_it(east: Sealed) -> None:
    east.sign()
    zone = done(east.admin.post("/zones", name=uuid4().hex))["zone_id"]
    [row] = east.stage.rows("SELECT event_id, payload::text FROM events WHERE stream_id = $1", UUID(zone))
    east.sign()
    number = east.view()["sequence_number"]
    done(east.admin.post("/zones", name=uuid4().hex))
    east.sign()
    assert verified(east).clean
    alter = "UPDATE events SET correlation_id = correlation_id || 'x' WHERE event_id = $1"
    as_owner(east, alter, row[0])
    report = verified(east)
    named = [finding.subject for finding in report.findings if finding.check is Check.POINTERS]
    assert named == [f"pointer {number}"]
    checks = done(east.admin.get(f"{east.path}/verification"))
    assert checks["log"] == {"result": "Failed", "first_bad_number": number}
    as_owner(east, "UPDATE events SET correlation_id = left(correlation_id, -1) WHERE event_id = $1", row[0])
    assert verified(east).clean


def told(*_: object) -> None:
    """Nobody watches the progress."""


def test_a_restored_installation_signs_nothing_until_it_is_above_what_peers_have_seen(
    cluster: Cluster, east: Sealed, tmp_path: Path
) -> None:
    east.sign()
    path, dsn = tmp_path / "backup.zip", cluster.empty_database()
    make_backup(east.stage.server.dsn, east.stage.server.settings, path, None, False, told)
    lost = east.sign() and east.view()["sequence_number"]
    target = Settings(data=tmp_path, database_url=dsn, self_facility_code=CODE)
    restore_backup([path], target, told)
    with (
        serving(cluster, dsn=dsn, self_facility_code=CODE, secret_store="memory") as server,
        Stage(server) as stage,
    ):
        restored = Sealed(stage, east.facility_id, east.online, east.root)
        server.clock.ahead = timedelta(hours=2)
        assert server.run(lambda app: app.sealer.sign_due()) is False
        server.clock.ahead = timedelta()
        assert restored.view()["sequence_number"] == lost - 1
        done(restored.admin.post(f"{restored.path}/republishing/start", reason="restored from a backup"))
        done(restored.admin.post(f"{restored.path}/republishing/complete", sequence_floor=lost))
        pointer = restored.view()["pointer"]
        assert Mark.parse(pointer["log_position"]).transaction_id > 2**53
        restored.sign()
        assert done(restored.admin.get(f"{restored.path}/verification"))["log"]["result"] == "Passed"
        assert verified(restored).clean
