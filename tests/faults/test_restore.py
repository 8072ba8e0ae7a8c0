"""Backups taken under load and restored into other clusters: nothing skipped, nothing repeated, no token misread."""

import asyncio
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import asyncpg
import httpx
import msgspec
import pytest

from beamwright.adapters.backup_file import Manifest
from beamwright.adapters.postgres.appender import call, locks
from beamwright.adapters.postgres.database import Database
from beamwright.adapters.postgres.embedded import EmbeddedPostgres
from beamwright.adapters.postgres.kept_tables import KEPT, NOT_KEPT
from beamwright.adapters.postgres.migrate import RESTORING, UnfinishedRestoreError, migrate
from beamwright.adapters.postgres.store import PostgresEventStore
from beamwright.adapters.tokens.builtin import BuiltInIssuer
from beamwright.app import App, new_id
from beamwright.kernel import wellknown
from beamwright.kernel.epochs import END_OF_TRANSACTION
from beamwright.kernel.store import BEGINNING, Append, Envelope, Mark, NewEvent
from beamwright.maintenance import NotPossibleError
from beamwright.settings import Settings
from tests.faults.form import record, seeded, sized
from tests.faults.restoring import (
    Elsewhere,
    Load,
    Receipt,
    brought_back,
    burn,
    define,
    execute,
    fetch,
    findings,
    follow,
    ids,
    lists,
    log,
    rebuild,
    run,
    saved,
    whole,
)
from tests.live import HTTP_AUDIENCE, Cluster, serving
from tests.running import start_procedure, start_run

EVENTS = sized(short=60, long=5000)
KILLS = sized(short=1, long=15)


class Saved(NamedTuple):
    """A backup that was taken while writers wrote, and what they were told before and after it."""

    path: Path
    manifest: Manifest
    log: list[tuple[Mark, UUID]]
    receipts: list[Receipt]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    # Not tmp_path: the embedded server runs as another account, and pytest closes the parents of that one.
    with tempfile.TemporaryDirectory(prefix="beamwright-restore-", ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture(scope="module")
def elsewhere(folder: Path) -> Iterator[Elsewhere]:
    elsewhere = Elsewhere(folder / "elsewhere")
    yield elsewhere
    elsewhere.stop()


@pytest.fixture(scope="module")
def backup(cluster: Cluster, folder: Path) -> Saved:
    dsn, path = cluster.database(), folder / "loaded.backup"
    burn(cluster.admin_dsn, 5000)
    with serving(cluster, dsn) as server:
        with Load(server).running() as load:
            load.wait_for(EVENTS)
            # Every table is written while what belongs to it changes.
            manifest = saved(dsn, path, told=lambda what, done, total: load.wait_for(5))
            load.wait_for(EVENTS)
        return Saved(path, manifest, log(dsn), load.receipts)


@pytest.fixture(scope="module", params=["fewer", "more"])
def restored(request: pytest.FixtureRequest, backup: Saved, cluster: Cluster, elsewhere: Elsewhere) -> str:
    """The backup where fewer transactions were counted than in the log, and where more were."""
    last = backup.manifest.last_transaction_id
    if request.param == "fewer":
        dsn = elsewhere.database()
        assert elsewhere.counter() < last
    else:
        dsn = cluster.empty_database()
        [[counter]] = run(fetch(dsn, "SELECT pg_current_xact_id()::text::bigint"))
        assert counter > last
    brought_back(dsn, backup.path)
    return dsn


def rows(manifest: Manifest) -> int:
    """How many events the backup holds."""
    return next(part.rows for part in manifest.parts if part.name == "events")


def kept(saved: Saved, dsn: str) -> list[tuple[Mark, UUID]]:
    """The log as the backup has it: what was committed before, in the order in which readers read it."""
    there = {id for _, id in log(dsn)}
    return [each for each in saved.log if each[1] in there]


def test_every_place_in_the_log_is_the_same_after_a_restore(backup: Saved, restored: str) -> None:
    assert log(restored) == kept(backup, restored)
    # Some of the calls are repeated with their keys, and record nothing.
    assert EVENTS // 2 <= len(log(restored)) == rows(backup.manifest) < len(backup.log)


def test_no_list_and_no_reader_skips_or_repeats_after_a_restore(
    cluster: Cluster, backup: Saved, restored: str
) -> None:
    seed, dice = seeded()
    assert findings(restored) == []
    before = log(restored)
    with serving(cluster, restored) as server, server.client() as client:
        tokens = [mark.token() for mark, _ in dice.sample(before, 5)] + [before[-1][0].token()]
        for number in range(20):
            last = define(client, f"after {number}", uuid4().hex)
        page = client.get(
            "/zones", params={"consistent_with": last.json()["as_of"], "q": "after", "limit": 200}
        )
        assert len(page.json()["items"]) == 20, f"seed {seed}"
        now = [id for _, id in log(restored)]
        assert now[: len(before)] == [id for _, id in before] and len(now) == len(before) + 20
        assert ids(follow(client)) == now
        for token in tokens:
            seen = sum(mark <= Mark.parse(token) for mark, _ in before)
            assert ids(follow(client, token)) == now[seen:], f"seed {seed}, token {token}"
    served = lists(restored)
    rebuild(restored)
    assert lists(restored) == served
    assert findings(restored) == []
    record("restore", seed=seed, events=len(before), lost=len(backup.log) - len(before), cursors=len(tokens))


def test_tokens_of_before_are_honoured_or_refused_with_what_to_do(
    cluster: Cluster, backup: Saved, restored: str
) -> None:
    there = {mark for mark, _ in log(restored)}
    known = [receipt for receipt in backup.receipts if receipt.mark in there][-20:]
    lost = [receipt for receipt in backup.receipts if receipt.mark not in there][:20]
    assert known and lost
    with serving(cluster, restored) as server, server.client() as client:
        define(client, f"new {uuid4()}", uuid4().hex)
        for receipt in known:
            as_of = receipt.body["as_of"]
            assert client.get("/zones", params={"consistent_with": as_of}).status_code == 200
            assert client.get("/events", params={"after": as_of}).status_code == 200
        for receipt in lost:
            as_of = receipt.body["as_of"]
            for path, name in (("/zones", "consistent_with"), ("/events", "after")):
                refused = client.get(path, params={name: as_of})
                assert refused.status_code == 409, refused.text
                assert refused.json()["code"] == "ConsistencyTokenLostError"
            followed = client.get("/events", headers={"accept": "text/event-stream", "last-event-id": as_of})
            assert followed.json()["code"] == "ConsistencyTokenLostError"
            after = Mark.parse(refused.json()["context"]["resume_after"])
            assert ids(follow(client, after.token())) == [
                id for mark, id in log(restored) if mark > receipt.mark
            ]


def test_idempotency_keys_of_before_replay_after_a_restore(
    cluster: Cluster, backup: Saved, restored: str
) -> None:
    there = {mark for mark, _ in log(restored)}
    known = [receipt for receipt in backup.receipts if receipt.mark in there][-10:]
    lost = [receipt for receipt in backup.receipts if receipt.mark not in there][:10]
    with serving(cluster, restored) as server, server.client() as client:
        for receipt in known:
            again = define(client, receipt.name, receipt.key)
            assert again.headers["idempotency-replayed"] == "true" and again.json() == receipt.body
        for receipt in lost:
            again = define(client, receipt.name, receipt.key)
            assert again.status_code == 201 and "idempotency-replayed" not in again.headers


def test_every_table_is_kept_or_said_to_be_not(dsn: str) -> None:
    tables = (
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
    )
    found = {row[0] for row in run(fetch(dsn, f"{tables} AND NOT relispartition"))}
    assert found == {table.name for table in KEPT} | NOT_KEPT


def test_transaction_that_was_under_way_is_lost_and_its_token_refused(
    cluster: Cluster, elsewhere: Elsewhere, folder: Path
) -> None:
    dsn, other, path = cluster.database(), elsewhere.database(), folder / "under-way.backup"

    async def interleaved(app: App) -> Mark:
        slow = await asyncpg.connect(dsn, server_settings={"role": "beamwright_service"})
        running = slow.transaction()
        await running.start()
        append = zone()
        number = await slow.fetchval("SELECT pg_current_xact_id()")
        quick = await app.store.append(zone())
        assert quick.transaction_id > number
        await asyncio.to_thread(saved, dsn, path)
        row = await call(slow, [append], locks(append))
        await running.commit()
        await slow.close()
        return Mark(row["transaction"], row["positions"][0])

    with serving(cluster, dsn) as server:
        lost = server.run(interleaved)
    late = saved(dsn, folder / "and-since.backup", after=path)
    brought_back(other, path)
    assert len(log(dsn)) == len(log(other)) + rows(late)
    assert lost not in [mark for mark, _ in log(other)] and lost < log(other)[-1][0]
    with serving(cluster, other) as server, server.client() as client:
        refused = client.get("/zones", params={"consistent_with": lost.token()})
        assert refused.json()["code"] == "ConsistencyTokenLostError"
        resumed = Mark.parse(refused.json()["context"]["resume_after"])
        assert resumed == Mark(lost.transaction_id - 1, END_OF_TRANSACTION)
        assert ids(follow(client, resumed.token())) == [id for mark, id in log(other) if mark > lost]


def zone() -> Append:
    id = new_id()
    at = "2026-01-01T00:00:00Z"
    payload = msgspec.json.encode({"occurred_at": at, "zone_id": id, "name": id.hex, "description": None})
    event = NewEvent(new_id(), "Zone", id, 1, "ZoneDefined", 1, payload.decode(), datetime.fromisoformat(at))
    envelope = Envelope(wellknown.ADMINISTRATOR, "define_zone", wellknown.HTTP_SURFACE, "test")
    return Append(envelope, [event], {("Zone", id): 0})


def test_restore_of_a_restore_knows_the_tokens_of_both_histories(
    cluster: Cluster, elsewhere: Elsewhere, backup: Saved, folder: Path
) -> None:
    first, again = elsewhere.database(), cluster.empty_database()
    brought_back(first, backup.path)
    with serving(cluster, first) as server, server.client() as client:
        kept = define(client, f"kept {uuid4()}", uuid4().hex).json()["as_of"]
        saved(first, folder / "second.backup")
        lost = define(client, f"lost {uuid4()}", uuid4().hex).json()["as_of"]
    brought_back(again, folder / "second.backup")
    with serving(cluster, again) as server, server.client() as client:
        answers = [
            client.get("/events", params={"after": token}).status_code
            for token in (backup.receipts[0].body["as_of"], kept, lost, backup.receipts[-1].body["as_of"])
        ]
    assert answers == [200, 200, 409, 409]


def test_older_backup_comes_back_with_the_later_log_and_ada_stays_forgotten(
    cluster: Cluster, elsewhere: Elsewhere, folder: Path
) -> None:
    dsn, other = cluster.database(), elsewhere.database()
    early, late = folder / "early.backup", folder / "late.backup"
    with serving(cluster, dsn) as server, server.client() as client:
        ada = server.newcomer(name="Ada")
        saved(dsn, early)
        client.post(f"/actors/{ada}/forget", json={}).raise_for_status()
        bert = server.newcomer(name="Bert")
        observe(client, server.run(lambda app: start_run(app, server.clock())), server.clock())
        driven = server.run(lambda app: start_procedure(app, server.clock()))
        drive(client, driven, server.clock())
    manifest = saved(dsn, late, after=early)
    assert rows(manifest) < len(log(dsn)) / 2
    brought_back(other, early, late)
    assert log(other) == log(dsn)
    for table in KEPT:
        if table.name not in ("log_epochs", "projections"):
            assert whole(other, table.name) == whole(dsn, table.name), table.name
    assert whole(other, "entries_run_observations") and whole(other, "run_channels")
    assert whole(other, "entries_procedure_activities") and whole(other, "entries_procedure_outcomes")
    assert whole(other, "erasable_texts") and whole(other, "conduit_verdicts")
    followed = "SELECT name, transaction_id, position FROM projections WHERE version = '1' ORDER BY name"
    assert run(fetch(other, followed)) == run(fetch(dsn, followed)) != []
    assert findings(other) == []
    with serving(cluster, other) as server, server.client() as client:
        assert client.get(f"/actors/{ada}/profile").json()["code"] == "ActorProfileNotFoundError"
        assert client.get(f"/actors/{bert}/profile").json()["name"] == "Bert"
        act(client, driven, server.clock())
        numbers = [
            row["row_number"] for row in client.get(f"/procedures/{driven}/activities").json()["items"]
        ]
        assert numbers == sorted(set(numbers)) and len(numbers) == 2, "a number is given out once"


def drive(client: httpx.Client, procedure_id: UUID, at: datetime) -> None:
    """An activity and an outcome of a procedure's first pass."""
    procedure = f"/procedures/{procedure_id}"
    client.post(f"{procedure}/iterations/start", json={"iteration_index": 1}).raise_for_status()
    act(client, procedure_id, at)
    row = {"event_id": str(new_id()), "iteration_index": 1, "point": {"x": 1e300}, "succeeded": True}
    body = {"entries": [row | {"sampled_at": at.isoformat()}]}
    client.post(f"{procedure}/outcomes/append", json=body).raise_for_status()


def act(client: httpx.Client, procedure_id: UUID, at: datetime) -> None:
    row = {"event_id": str(new_id()), "step_kind": "Check", "payload": {"message": "too\twarm\n\\N"}}
    body = {"entries": [row | {"sampled_at": at.isoformat()}]}
    client.post(f"/procedures/{procedure_id}/activities/append", json=body).raise_for_status()


def observe(client: httpx.Client, run_id: UUID, at: datetime) -> None:
    """A sample and a note of a run."""
    row = {"event_id": str(new_id()), "channel_name": "i0", "value": 1.5, "sampling_procedure": "Monitor"}
    body = {"source_id": "scope", "entries": [row | {"sampled_at": at.isoformat()}]}
    client.post(f"/runs/{run_id}/observations/append", json=body).raise_for_status()
    client.post(f"/runs/{run_id}/logbook/append", json={"text": "beam was low"}).raise_for_status()


def test_rows_that_the_log_says_are_erased_do_not_come_back(
    cluster: Cluster, elsewhere: Elsewhere, folder: Path
) -> None:
    """The rows beside the log are of before the erasure, as in a copy that somebody put together from two."""
    dsn, other, path = cluster.database(), elsewhere.database(), folder / "mixed.backup"
    personal = ("actor_profile", "actor_identity", "erasable_texts")
    with serving(cluster, dsn) as server, server.client() as client:
        ada, leo = server.newcomer(name="Ada"), server.newcomer(name="Leo")
        run_id = server.run(lambda app: start_run(app, server.clock()))
        append = f"/runs/{run_id}/logbook/append"
        kept, entry = (client.post(append, json={"text": words}).json()["entry_id"] for words in ("a", "b"))
        with_rows = {table: f"CREATE TABLE old.{table} AS TABLE {table}" for table in personal}
        run(execute(dsn, "SET beamwright.profiles = 'open'", "CREATE SCHEMA old", *with_rows.values()))
        [login] = client.get(f"/actors/{leo}/profile").json()["identities"]
        client.post(f"/actors/{ada}/forget", json={}).raise_for_status()
        unlink = {"identity_id": login["identity_id"], "reason": "Departed"}
        client.post(f"/actors/{leo}/identities/unlink", json=unlink).raise_for_status()
        redact = {"entry_id": entry, "reason": "names a person"}
        client.post(f"/runs/{run_id}/logbook/redact", json=redact).raise_for_status()
        expected = {table: whole(dsn, table) for table in personal}
    refill = [f"TRUNCATE {table}; INSERT INTO {table} TABLE old.{table}" for table in personal]
    run(execute(dsn, "SET beamwright.profiles = 'open'", *refill, "DROP SCHEMA old CASCADE"))
    saved(dsn, path)
    brought_back(other, path)
    assert {table: whole(other, table) for table in personal} == expected
    assert findings(other) == [] and kept


def patiently(client: httpx.Client, path: str, **asked: str) -> dict[str, Any]:
    """As a client does that is told to come back: the lease of a projector may have been copied along."""
    for _ in range(5):
        answer = client.get(path, params=asked)
        if answer.status_code != 503:
            break
    return answer.json()


def test_log_that_another_tool_copied_into_another_cluster_goes_on_in_a_new_epoch(
    cluster: Cluster, elsewhere: Elsewhere
) -> None:
    dsn, other = cluster.database(), elsewhere.database()
    admin = other.replace("keeper@", "postgres@")
    burn(cluster.admin_dsn, elsewhere.counter() + 1000)
    with serving(cluster, dsn) as server, server.client() as client:
        kept = define(client, "kept", uuid4().hex).json()["as_of"]
        dump = subprocess.run([elsewhere.bin / "pg_dump", dsn], capture_output=True, check=True).stdout
        before = log(dsn)
        lost = define(client, "lost", uuid4().hex).json()["as_of"]
    subprocess.run([elsewhere.bin / "psql", "-q", "-v", "ON_ERROR_STOP=1", admin], input=dump, check=True)
    assert elsewhere.counter() < before[-1][0].transaction_id
    with serving(cluster, admin) as server, server.client() as client:
        token = define(client, "new", uuid4().hex).json()["as_of"]
        assert patiently(client, "/zones", consistent_with=token, q="new")["items"]
        assert ids(follow(client)) == [id for _, id in before] + [log(admin)[-1][1]]
        assert ids(follow(client, kept)) == [log(admin)[-1][1]]
        assert client.get("/events", params={"after": lost}).status_code == 409
    assert findings(admin) == []


def test_installation_of_the_schema_before_epochs_goes_on_where_it_was(elsewhere: Elsewhere) -> None:
    dsn = elsewhere.database()

    async def upgraded() -> None:
        await migrate(dsn, "0003")
        database = await Database.open(dsn)
        old = await PostgresEventStore(database).append(zone())
        await database.close()
        assert await migrate(dsn)
        database = await Database.open(dsn)
        store = PostgresEventStore(database)
        new = await store.append(zone())
        assert old < new and new.transaction_id - old.transaction_id < 1000
        assert [each.mark for each in await store.read_log(BEGINNING, 10)] == [old, new]
        assert await store.place(old.token()) == old
        await database.close()

    run(upgraded())


def test_restore_overwrites_nothing(dsn: str, backup: Saved) -> None:
    before = log(dsn)
    with pytest.raises(NotPossibleError, match="There is an installation in this database already"):
        brought_back(dsn, backup.path)
    assert log(dsn) == before


def test_backup_is_private_and_overwrites_nothing(dsn: str, folder: Path) -> None:
    path = folder / "private.backup"
    leftover = path.with_name("private.backup.unfinished")
    leftover.write_text("of a backup that was killed")
    saved(dsn, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and not leftover.exists()
    content = path.read_bytes()
    with pytest.raises(NotPossibleError, match="exists already"):
        saved(dsn, path)
    assert path.read_bytes() == content


def test_continuation_is_refused_without_or_with_the_wrong_beginning(
    cluster: Cluster, backup: Saved, folder: Path
) -> None:
    dsn = cluster.database()
    first, second = folder / "first.backup", folder / "continued.backup"
    saved(dsn, first)
    saved(dsn, second, after=first)
    with pytest.raises(NotPossibleError, match="only continues another backup"):
        brought_back(None, second)
    with pytest.raises(NotPossibleError, match="does not continue"):
        brought_back(None, backup.path, second)
    with pytest.raises(NotPossibleError, match="not of this log"):
        saved(dsn, folder / "third.backup", after=backup.path)
    assert not (folder / "third.backup").exists()


def test_restore_that_was_killed_says_so_and_can_be_repeated(elsewhere: Elsewhere, backup: Saved) -> None:
    seed, dice = seeded()
    unfinished = 0
    for number in range(KILLS):
        dsn = elsewhere.database()
        kill_restore(dsn, backup.path, dice.uniform(0, 4) if number else 0)
        try:
            run(migrate(dsn))
        except UnfinishedRestoreError:
            unfinished += 1
            with pytest.raises(UnfinishedRestoreError, match="did not finish"):
                findings(dsn)
            brought_back(dsn, backup.path)
        assert findings(dsn) == [] and log(dsn) == kept(backup, dsn), f"seed {seed}"
    assert unfinished
    record("killed restores", seed=seed, kills=KILLS, unfinished=unfinished)


def kill_restore(dsn: str, path: Path, after: float) -> None:
    """Kill the command so many seconds after it began to write."""
    where = ["--data", str(path.parent / "killed"), "--database-url", dsn]
    process = subprocess.Popen([sys.executable, "-m", "beamwright", "restore", str(path), *where])
    for _ in range(6000):
        [[begun]] = run(fetch(dsn, "SELECT to_regclass('restore_unfinished') IS NOT NULL"))
        if begun:
            break
        time.sleep(0.01)
    time.sleep(after)
    process.kill()
    process.wait(20)


def test_embedded_restore_brings_the_issuers_key_when_it_was_asked_for(
    cluster: Cluster, dsn: str, folder: Path
) -> None:
    path, data = folder / "with-key.backup", folder / "embedded"
    saved(dsn, path, issuer_key=True, data=cluster.data)
    bearer = BuiltInIssuer(cluster.data).mint(
        str(wellknown.ADMINISTRATOR), [HTTP_AUDIENCE], timedelta(hours=1)
    )
    brought_back(None, path, data=data)
    assert stat.S_IMODE((data / "issuer.key").stat().st_mode) == 0o600
    embedded = EmbeddedPostgres(data)
    try:
        with serving(cluster, embedded.start(), data=data) as server, server.client(None) as client:
            assert client.get("/zones", headers={"authorization": f"Bearer {bearer}"}).status_code == 200
        with serving(cluster, data=folder / "no-key") as server, server.client(None) as client:
            refused = client.get("/zones", headers={"authorization": f"Bearer {bearer}"})
            assert refused.status_code == 401 and "invalid_token" in refused.headers["www-authenticate"]
    finally:
        embedded.stop()


def test_folder_whose_restore_was_killed_before_it_had_a_database_says_so(dsn: str, folder: Path) -> None:
    (folder / RESTORING).touch()
    with pytest.raises(UnfinishedRestoreError):
        run(App.open(Settings(data=folder), dsn, folder=folder))
    (folder / RESTORING).unlink()
