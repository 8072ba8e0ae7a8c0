"""Verification finds every kind of disagreement, and finds none where there is none."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest

import beamwright.contexts
from beamwright.contexts.access.actor import (
    ActorIdentityLinked,
    ActorIdentityUnlinked,
    ActorProfileForgotten,
    ActorRegistered,
    IdentityUnlinkReason,
)
from beamwright.contexts.federation.credential import CredentialPurpose, CredentialRegistered, triple
from beamwright.contexts.federation.seal import SealPointerSigned
from beamwright.contexts.trust.zone import ZoneDefined, ZoneRetired, ZoneUpdated
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.event import Event, event_type
from beamwright.kernel.log_digest import EMPTY, advanced
from beamwright.kernel.registry import discover
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.store import Mark, Stored
from beamwright.kernel.value import encode, replace
from beamwright.maintenance import verify_database
from beamwright.runtime.verification import (
    MOST_KEPT,
    Check,
    ClaimKey,
    Generation,
    KeptAnswer,
    ListedRow,
    Login,
    Point,
    Report,
    verify,
)
from tests.contexts.federation.seal_examples import (
    BEGUN,
    OFFLINE_ID,
    ONLINE,
    ROOT,
    Pair,
    pointer,
    pointer_signed,
    registered,
)
from tests.contexts.federation.seal_examples import STRANGER as OTHER_KEY

REGISTRY = discover(beamwright.contexts)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ZONE, OTHER, STRANGER, ACTOR, LOGIN = (UUID(int=number) for number in range(1, 6))
NAMED = ("zone-name", "hutch")

DEFINED = ZoneDefined(zone_id=ZONE, occurred_at=NOON, name="Hutch")
RENAMED = ZoneUpdated(zone_id=ZONE, occurred_at=NOON + timedelta(hours=1), name="Gallery")
RETIRED = ZoneRetired(zone_id=ZONE, occurred_at=NOON, reason="moved")
REGISTERED = ActorRegistered(actor_id=ACTOR, occurred_at=NOON, kind=ActorKind.HUMAN)
LINKED = ActorIdentityLinked(actor_id=ACTOR, occurred_at=NOON, identity_id=LOGIN, issuer="urn:here")
UNLINKED = ActorIdentityUnlinked(
    actor_id=ACTOR, occurred_at=NOON, identity_id=LOGIN, reason=IdentityUnlinkReason.FORGOTTEN
)
FORGOTTEN = ActorProfileForgotten(actor_id=ACTOR, occurred_at=NOON)


class ZoneList:
    """A list of zones that keeps their version and name."""

    name = "zone"

    def __init__(self, mark: Mark, rows: Mapping[UUID, tuple[int, str]]) -> None:
        self.mark = mark
        self._rows = rows

    async def rows(self) -> AsyncIterator[ListedRow]:
        for id, (version, name) in sorted(self._rows.items()):
            yield ListedRow(id, {"version": version, "name": name})

    def expected(self, point: Point) -> ListedRow:
        return ListedRow(point.state.id, {"version": point.version, "name": point.state.name})


class Store:
    """A store in memory; streams are written in order unless a test says where an event lies."""

    def __init__(self) -> None:
        self.log: list[Stored] = []
        self.held: list[tuple[str, UUID, ClaimKey]] = []
        self.kept: list[KeptAnswer] = []
        self.zone_lists: list[ZoneList] = []
        self.profiled: set[UUID] = set()
        self.logins: list[tuple[UUID, Login]] = []
        self.newest: int | None = None

    def write(self, *events: Event, version: int | None = None, mark: Mark | None = None) -> "Store":
        for event in events:
            aggregate = REGISTRY.owner[type(event)]
            id = getattr(event, aggregate.id_field)
            head = max((each.version for each in self.log if each.stream_id == id), default=0)
            self.put(aggregate.name, id, version or head + 1, encode(event).decode(), mark)
        return self

    def put(self, stream_type: str, id: UUID, version: int, tagged: str, mark: Mark | None = None) -> "Store":
        position = len(self.log) + 1
        kind = event_type(ZoneDefined).name
        fixed = (kind, 1, tagged, STRANGER, "a_command", STRANGER, "correlation", None, NOON, NOON)
        at = mark or Mark(100 + position, position)
        self.log.append(Stored(at, UUID(int=position), stream_type, id, version, *fixed))
        return self

    async def sizes(self) -> Mapping[str, int]:
        types = [each.stream_type for each in self.log] + [type for type, _, _ in self.held]
        return {type: sum(each.stream_type == type for each in self.log) for type in types}

    async def events(self, stream_type: str) -> AsyncIterator[Stored]:
        for stored in sorted(self.log, key=lambda each: (each.stream_id, each.version)):
            if stored.stream_type == stream_type:
                yield stored

    async def in_order(self, until: Mark) -> AsyncIterator[Stored]:
        for stored in sorted(self.log, key=lambda each: each.mark):
            if stored.mark <= until:
                yield stored

    async def claims(self, stream_type: str) -> AsyncIterator[tuple[UUID, ClaimKey]]:
        for type, id, key in sorted(self.held):
            if type == stream_type:
                yield id, key

    async def answers(self) -> AsyncIterator[KeptAnswer]:
        for answer in self.kept:
            yield answer

    async def lists(self, aggregate: Aggregate[Any, Any]) -> Sequence[Generation]:
        return self.zone_lists if aggregate.name == "Zone" else []

    async def profiles(self) -> AsyncIterator[tuple[UUID, None]]:
        for id in sorted(self.profiled):
            yield id, None

    async def identities(self) -> AsyncIterator[tuple[UUID, Login]]:
        for actor_id, login in sorted(self.logins):
            yield actor_id, login

    async def epoch(self) -> int:
        if self.newest is not None:
            return self.newest
        authority = [each for each in self.log if REGISTRY.aggregates[each.stream_type].authority]
        return max((each.mark.position for each in authority), default=0)


@pytest.fixture
def store() -> Store:
    return Store()


def verified(store: Store) -> Report:
    return asyncio.run(verify(store, REGISTRY, lambda done, total: None))


def found(store: Store, check: Check) -> list[tuple[str, str]]:
    """What one check found; nothing else may find anything."""
    report = verified(store)
    assert {finding.check for finding in report.findings} <= {check}
    return [(finding.subject, finding.detail) for finding in report.findings]


def details(store: Store, check: Check) -> list[str]:
    return [detail for _, detail in found(store, check)]


def with_zone(store: Store, *more: Event) -> Store:
    store.held = [("Zone", ZONE, NAMED)]
    return store.write(DEFINED, *more)


def with_actor(store: Store, *more: Event) -> Store:
    store.profiled = {ACTOR}
    return store.write(REGISTERED, *more)


def with_pointers(store: Store, *events: Event, by: Pair = ONLINE) -> Store:
    """The own seal, with a pointer after its beginning and one after these events."""
    root = registered(CredentialPurpose.SEAL_OFFLINE_ROOT, ROOT)
    store.held.append(("Credential", OFFLINE_ID, credential_claim(root)))
    store.write(root, BEGUN)
    sign(store, 1)
    store.write(*events)
    return sign(store, 2, by)


def credential_claim(event: CredentialRegistered) -> ClaimKey:
    return "credential-triple", triple(event.facility_id, event.audience, event.purpose)


def sign(store: Store, number: int, by: Pair = ONLINE) -> Store:
    log = advanced(EMPTY, sorted(store.log, key=lambda each: each.mark))
    said = pointer(number, log_position=log.mark.token(), log_digest=log.digest)
    return store.write(pointer_signed(said, by))


def alter(store: Store, number: int, **changes: Any) -> None:
    store.log[number] = store.log[number]._replace(**changes)


def test_store_that_agrees_is_clean(store: Store) -> None:
    with_pointers(with_actor(with_zone(store), LINKED))
    store.logins = [(ACTOR, (LOGIN, "urn:here"))]
    store.zone_lists = [ZoneList(Mark(200, 9), {ZONE: (1, "Hutch")})]
    store.kept = [KeptAnswer("key", True)]
    report = verified(store)
    assert report.clean
    assert all(report.looked_at.values())


def test_empty_store_is_clean(store: Store) -> None:
    assert verified(store).clean


def test_hole_in_versions(store: Store) -> None:
    with_zone(store).write(DEFINED, version=3)
    assert found(store, Check.VERSIONS) == [(f"Zone/{ZONE}", "version 3 comes after version 1")]


def test_stream_that_does_not_begin_at_1(store: Store) -> None:
    store.held = [("Zone", ZONE, NAMED)]
    store.write(DEFINED, version=2)
    assert details(store, Check.VERSIONS) == ["version 2 comes after nothing"]


@pytest.mark.parametrize("mark", [Mark(102, 1), Mark(99, 7)], ids=["position", "transaction"])
def test_version_that_lies_before_its_predecessor(store: Store, mark: Mark) -> None:
    with_zone(store).write(DEFINED, mark=mark)
    [(subject, detail)] = found(store, Check.ORDER)
    assert (subject, detail) == (
        f"Zone/{ZONE}",
        f"version 2 lies at {mark.token()}, the version before at 65.1",
    )


def test_event_of_an_unknown_class(store: Store) -> None:
    store.put("Zone", ZONE, 1, '{"event_type":"ZonePainted"}')
    [detail] = details(store, Check.EVENTS)
    assert "cannot be decoded" in detail and "ZonePainted" in detail


def test_event_that_lacks_a_field(store: Store) -> None:
    store.put("Zone", ZONE, 1, '{"event_type":"ZoneDefined","name":"x","occurred_at":"2026-03-01T12:00:00Z"}')
    assert "missing required field `zone_id`" in details(store, Check.EVENTS)[0]


def test_event_in_a_stream_that_is_not_its_own(store: Store) -> None:
    store.put("Zone", OTHER, 1, encode(DEFINED).decode())
    assert "zone_id names another stream" in details(store, Check.EVENTS)[0]


def test_stream_that_does_not_fold_is_found_once_and_not_compared(store: Store) -> None:
    store.zone_lists = [ZoneList(Mark(200, 9), {})]
    store.write(RENAMED, DEFINED)
    [detail] = details(store, Check.EVENTS)
    assert "version 1, ZoneDefined, cannot be folded: ValueError" in detail


def test_stream_type_without_aggregate(store: Store) -> None:
    store.put("Castle", ZONE, 1, "{}").newest = 0
    assert found(store, Check.EVENTS) == [
        ("Castle", "no aggregate has this name, and the log holds 1 events")
    ]


def test_claim_that_is_not_held(store: Store) -> None:
    store.write(DEFINED)
    assert found(store, Check.CLAIMS) == [(f"Zone/{ZONE}", "zone-name “hutch” is claimed and not held")]


def test_claim_that_was_not_released(store: Store) -> None:
    with_zone(store, RETIRED)
    assert details(store, Check.CLAIMS) == ["zone-name “hutch” is held and not claimed"]


@pytest.mark.parametrize("id", [UUID(int=0), STRANGER], ids=["before", "after"])
def test_claim_of_no_stream(store: Store, id: UUID) -> None:
    with_zone(store).held.append(("Zone", id, ("zone-name", "attic")))
    assert found(store, Check.CLAIMS) == [
        (f"Zone/{id}", "zone-name “attic” is held by a stream that does not exist")
    ]


def test_claim_of_an_unknown_aggregate(store: Store) -> None:
    store.held = [("Castle", ZONE, NAMED)]
    assert details(store, Check.CLAIMS) == ["zone-name “hutch” is held by an unknown aggregate"]


def test_two_streams_that_claim_the_same(store: Store) -> None:
    with_zone(store).write(ZoneDefined(zone_id=OTHER, occurred_at=NOON, name="Hutch"))
    assert found(store, Check.CLAIMS) == [(f"Zone/{OTHER}", "zone-name “hutch” is claimed and not held")]


def test_answer_for_an_event_that_is_not_there(store: Store) -> None:
    store.kept = [KeptAnswer("known", True), KeptAnswer("lost", False)]
    assert found(store, Check.ANSWERS) == [("lost", "the answer refers to an event that is not in the log")]


def test_list_behind_the_log_is_compared_at_its_bookmark(store: Store) -> None:
    with_zone(store, RETIRED)
    store.held = []
    store.zone_lists = [ZoneList(Mark(101, 1), {ZONE: (1, "Hutch")})]
    assert verified(store).clean


@pytest.mark.parametrize(
    ("rows", "detail"),
    [
        ({}, "list zone: has no row"),
        ({ZONE: (1, "Attic")}, "list zone: at version 1 differs in name"),
        ({ZONE: (2, "Attic")}, "list zone: at version 1 differs in name, version"),
        ({ZONE: (1, "Hutch"), STRANGER: (1, "Attic")}, "list zone: has a row and no stream"),
    ],
)
def test_list_that_differs_from_the_fold(
    store: Store, rows: Mapping[UUID, tuple[int, str]], detail: str
) -> None:
    with_zone(store).zone_lists = [ZoneList(Mark(200, 9), rows)]
    assert details(store, Check.LISTS) == [detail]


def test_row_ahead_of_its_bookmark(store: Store) -> None:
    with_zone(store).zone_lists = [ZoneList(Mark(0, 0), {ZONE: (1, "Hutch")})]
    assert details(store, Check.LISTS) == [
        "list zone: has a row, and none of its events lie before the bookmark"
    ]


def test_every_generation_of_a_list_is_compared(store: Store) -> None:
    good, building = ZoneList(Mark(200, 9), {ZONE: (1, "Hutch")}), ZoneList(Mark(0, 0), {})
    with_zone(store).zone_lists = [good, building, ZoneList(Mark(200, 9), {})]
    assert details(store, Check.LISTS) == ["list zone: has no row"]


def test_forgotten_actor_keeps_no_profile_and_no_login(store: Store) -> None:
    with_actor(store, LINKED, UNLINKED, FORGOTTEN).logins = [(ACTOR, (LOGIN, "urn:here"))]
    assert details(store, Check.PROFILES) == [
        "is forgotten and still has a profile",
        "is forgotten and still has a login",
    ]


def test_forgotten_actor_without_profile_is_clean(store: Store) -> None:
    with_actor(store, FORGOTTEN).profiled = set()
    assert verified(store).clean


def test_actor_without_profile(store: Store) -> None:
    with_actor(store).profiled = set()
    assert found(store, Check.PROFILES) == [(f"Actor/{ACTOR}", "has no profile")]


def test_profile_and_login_without_actor(store: Store) -> None:
    store.profiled, store.logins = {STRANGER}, [(STRANGER, (LOGIN, "urn:here"))]
    assert details(store, Check.PROFILES) == [
        "has a profile and no stream",
        f"login {LOGIN} of urn:here is kept for an actor that has no stream",
    ]


@pytest.mark.parametrize(
    ("logins", "expected"),
    [
        ([], [f"login {LOGIN} of urn:here is linked and not kept"]),
        (
            [(ACTOR, (LOGIN, "urn:there"))],
            [
                f"login {LOGIN} of urn:here is linked and not kept",
                f"login {LOGIN} of urn:there is kept and not linked",
            ],
        ),
    ],
)
def test_logins_are_those_linked(
    store: Store, logins: list[tuple[UUID, Login]], expected: Iterable[str]
) -> None:
    with_actor(store, LINKED).logins = logins
    assert details(store, Check.PROFILES) == expected


def test_epoch_that_is_not_the_newest_event(store: Store) -> None:
    with_actor(store).newest = 7
    assert found(store, Check.AUTHORITY) == [("epoch 7", "the newest event lies at 1")]


def test_an_altered_event_is_found_by_the_first_pointer_after_it(store: Store) -> None:
    with_pointers(with_zone(store), RETIRED)
    store.held = [each for each in store.held if each[0] != "Zone"]
    sign(store.write(REGISTERED), 3).profiled = {ACTOR}
    assert verified(store).clean
    alter(store, 4, correlation_id="other")
    [(subject, detail)] = found(store, Check.POINTERS)
    assert subject == "pointer 2" and "is not the one that was signed" in detail


def test_a_pointer_that_another_key_signed_is_found(store: Store) -> None:
    with_pointers(store, by=OTHER_KEY)
    assert found(store, Check.POINTERS) == [("pointer 2", "is not what a key of the seal has signed")]


def test_a_pointer_made_to_fit_an_altered_log_is_not_as_it_was_signed(store: Store) -> None:
    with_pointers(store)
    alter(store, 0, correlation_id="other")
    log = advanced(EMPTY, store.log[:2])
    first = store.log[2]
    signed = msgspec.json.decode(first.tagged, type=SealPointerSigned)
    alter(store, 2, tagged=encode(replace(signed, log_digest=log.digest)).decode())
    subjects = [subject for subject, _ in found(store, Check.POINTERS)]
    assert subjects == ["pointer 1", "pointer 2"]


def test_pointers_are_held_against_the_root_of_their_own_seal(store: Store) -> None:
    other = registered(CredentialPurpose.SEAL_OFFLINE_ROOT, OTHER_KEY)
    other = replace(other, credential_id=UUID(int=900), audience="urn:test:elsewhere")
    store.held.append(("Credential", UUID(int=900), credential_claim(other)))
    assert verified(with_pointers(store.write(other))).clean


def test_a_root_that_was_put_in_its_place_vouches_for_nothing(store: Store) -> None:
    with_pointers(store)
    false = registered(CredentialPurpose.SEAL_OFFLINE_ROOT, OTHER_KEY)
    alter(store, 0, tagged=encode(false).decode())
    assert "pointer 1" in [subject for subject, _ in found(store, Check.POINTERS)]


def test_many_findings_are_counted_and_the_first_kept(store: Store) -> None:
    store.kept = [KeptAnswer(str(number), False) for number in range(50)]
    report = verified(store)
    assert report.found[Check.ANSWERS] == 50
    assert [finding.subject for finding in report.findings] == [str(n) for n in range(MOST_KEPT)]


def test_progress_ends_with_everything_done(store: Store) -> None:
    told: list[tuple[int, int]] = []
    asyncio.run(verify(with_zone(store, RENAMED), REGISTRY, lambda *both: told.append(both)))
    assert told[-1] == (2, 2)


SEEDED_ZONE = "01900000-0000-7000-8000-00a000000401"
FREE = "ALTER TABLE events DISABLE TRIGGER events_append_only"


async def damage(dsn: str, *statements: str) -> Report:
    """The report on a database whose superuser did this to it."""
    connection = await asyncpg.connect(dsn, server_settings={"beamwright.profiles": "open"})
    try:
        tables = await connection.fetch("SELECT name, version FROM projections")
        lists = {row["name"]: f"lists.{row['name']}_{row['version']}" for row in tables}
        for statement in statements:
            await connection.execute(statement.format(**lists))
    finally:
        await connection.close()
    return await verify_database(dsn, lambda done, total: None)


def test_fresh_installation_is_clean(dsn: str) -> None:
    report = asyncio.run(verify_database(dsn, lambda done, total: None))
    assert report.clean, report.findings
    assert report.looked_at[Check.LISTS] == report.looked_at[Check.VERSIONS]


@pytest.mark.parametrize(
    ("check", "statements", "said"),
    [
        (
            Check.VERSIONS,
            [FREE, f"UPDATE events SET version = 2 WHERE stream_id = '{SEEDED_ZONE}'"],
            "version 2 comes after nothing",
        ),
        (
            Check.EVENTS,
            [FREE, f"UPDATE events SET event_type = 'ZonePainted' WHERE stream_id = '{SEEDED_ZONE}'"],
            "ZonePainted",
        ),
        (Check.CLAIMS, ["DELETE FROM claims WHERE kind = 'zone-name' AND key = 'clients'"], "clients"),
        (
            Check.CLAIMS,
            ["INSERT INTO claims VALUES ('zone-name', 'attic', 'Zone', gen_random_uuid())"],
            "“attic” is held by a stream that does not exist",
        ),
        (
            Check.ANSWERS,
            [
                "INSERT INTO idempotency SELECT gen_random_uuid(), gen_random_uuid(), 'a-key', '', 200, '', "
                "'5'::xid8, max(position) FROM events"
            ],
            "not in the log",
        ),
        (Check.LISTS, ["DELETE FROM {zone}"], "has no row"),
        (Check.LISTS, ["UPDATE {zone} SET version = version + 1"], "differs in version"),
        (Check.LISTS, ["UPDATE {zone} SET state = replace(state, 'Active', 'Retired')"], "differs in state"),
        (Check.LISTS, ["UPDATE {zone} SET f_status = 'Retired'"], "differs in f_status"),
        (Check.LISTS, ["UPDATE {zone} SET s_name = NULL"], "differs in s_name"),
        (Check.LISTS, ["UPDATE {zone} SET words_text = ''"], "differs in words"),
        (Check.LISTS, ["UPDATE {actor} SET owner_id = NULL"], "differs in owner_id"),
        (Check.LISTS, ["UPDATE {zone} SET created_by = gen_random_uuid()"], "differs in created_by"),
        (Check.LISTS, ["UPDATE {zone} SET visit_ids = ARRAY[gen_random_uuid()]"], "differs in visit_ids"),
        (
            Check.LISTS,
            [
                "INSERT INTO {zone} (id, version, state, created_at, updated_at, created_by, visit_ids, words_text) "
                "VALUES (gen_random_uuid(), 1, '{{}}', now(), now(), gen_random_uuid(), '{{}}', '')"
            ],
            "has a row and no stream",
        ),
        (Check.PROFILES, ["DELETE FROM actor_profile"], "has no profile"),
        (Check.PROFILES, ["DELETE FROM actor_identity"], "is linked and not kept"),
        (Check.AUTHORITY, ["UPDATE authority SET epoch = epoch + 1"], "the newest event lies at"),
    ],
)
def test_damaged_database(dsn: str, check: Check, statements: list[str], said: str) -> None:
    report = asyncio.run(damage(dsn, *statements))
    assert any(finding.check is check and said in finding.detail for finding in report.findings)
