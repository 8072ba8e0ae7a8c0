"""The log on PostgreSQL: append-only for everyone, and no reader skips a transaction that commits late."""

import asyncio
from uuid import UUID

import asyncpg
import pytest
from tests.adapters.test_store_contract import write

from beamwright.adapters.postgres import store as store_module
from beamwright.adapters.postgres.database import Database, UnsafeDatabaseError
from beamwright.adapters.postgres.store import PostgresEventStore
from beamwright.app import new_id
from beamwright.kernel.errors import DatabaseUnavailableError
from beamwright.kernel.store import LogFilter

INSERT = """INSERT INTO events (event_id, stream_type, stream_id, version, event_type, payload, principal_id,
    command_name, surface_id, correlation_id, occurred_at)
    VALUES ($1, 'Zone', $1, 1, 'ZoneDefined', '{"a":1}', $1, 'c', $1, 'c', now()) RETURNING position"""


def test_a_lower_position_of_a_newer_transaction_is_not_skipped(dsn: str) -> None:
    """Position 1 commits after position 2: a reader that goes by position alone would lose it."""

    async def check() -> None:
        database = await Database.open(dsn)
        store = PostgresEventStore(database)
        start = await store.horizon()
        late, early = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
        slow = late.transaction()
        await slow.start()
        first, second = new_id(), new_id()
        # The older transaction takes its id now, and its position only after the newer one has committed.
        await late.execute("SELECT pg_current_xact_id()")
        newer = await early.fetchval(INSERT, second)
        assert await store.read_log(start, 10) == [], "nothing may be read past a running transaction"
        older = await late.fetchval(INSERT, first)
        assert older > newer
        await slow.commit()
        assert [e.stream_id for e in await store.read_log(start, 10)] == [first, second]
        await late.close()
        await early.close()
        await database.close()

    asyncio.run(check())


def test_a_newer_transaction_that_commits_first_with_the_higher_position_waits(dsn: str) -> None:
    async def check() -> None:
        database = await Database.open(dsn)
        store = PostgresEventStore(database)
        start = await store.horizon()
        slow_connection = await asyncpg.connect(dsn)
        slow = slow_connection.transaction()
        await slow.start()
        held = new_id()
        await slow_connection.fetchval(INSERT, held)
        seen: list[UUID] = []
        committed = [new_id() for _ in range(3)]
        mark = start
        for id in committed:
            await store.append(write(id))
            for event in await store.read_log(mark, 10):
                seen.append(event.stream_id)
                mark = event.mark
        assert seen == []
        await slow.commit()
        seen += [event.stream_id for event in await store.read_log(mark, 10)]
        assert seen == [held, *committed]
        await slow_connection.close()
        await database.close()

    asyncio.run(check())


@pytest.mark.parametrize(
    "statement", ["UPDATE events SET payload = '{}'", "DELETE FROM events", "TRUNCATE events"]
)
def test_the_log_is_append_only_even_for_its_owner(dsn: str, statement: str) -> None:
    async def check() -> None:
        owner = await asyncpg.connect(dsn)
        with pytest.raises(asyncpg.RestrictViolationError):
            await owner.execute(statement)
        await owner.execute("SET ROLE beamwright_service")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await owner.execute(statement)
        await owner.close()

    asyncio.run(check())


def test_profiles_are_closed_to_other_statements_of_the_service(dsn: str) -> None:
    async def check() -> None:
        connection = await asyncpg.connect(dsn)
        assert await connection.fetchval("SELECT count(*) FROM actor_profile") > 0
        await connection.execute("SET ROLE beamwright_service")
        assert await connection.fetchval("SELECT count(*) FROM actor_profile") == 0
        await connection.close()

    asyncio.run(check())


def test_a_database_that_could_lose_commits_is_refused(dsn: str) -> None:
    async def check() -> None:
        owner = await asyncpg.connect(dsn)
        name = await owner.fetchval("SELECT current_database()")
        await owner.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        await owner.close()
        with pytest.raises(UnsafeDatabaseError, match="synchronous_commit"):
            await Database.open(dsn)

    asyncio.run(check())


def test_a_failing_command_does_not_fail_its_neighbours(dsn: str) -> None:
    async def check() -> None:
        database = await Database.open(dsn)
        store = PostgresEventStore(database)
        good = [new_id() for _ in range(20)]
        bad = write(new_id())
        bad = bad._replace(events=[bad.events[0]._replace(payload="not json")])
        results = await asyncio.gather(
            *(store.append(write(id)) for id in good[:10]),
            store.append(bad),
            *(store.append(write(id)) for id in good[10:]),
            return_exceptions=True,
        )
        failed = [result for result in results if isinstance(result, Exception)]
        assert [type(error) for error in failed] == [asyncpg.InvalidTextRepresentationError]
        assert len(await store.read([("Zone", id) for id in good])) == 20
        await database.close()

    asyncio.run(check())


def test_a_terminated_connection_is_an_outage_not_a_crash(dsn: str) -> None:
    async def check() -> None:
        database = await Database.open(dsn)
        store = PostgresEventStore(database)
        owner = await asyncpg.connect(dsn)
        await owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        outcomes: list[object] = []
        for _ in range(10):
            try:
                outcomes.append(await store.append(write(new_id())))
            except DatabaseUnavailableError as error:
                outcomes.append(error)
        assert not isinstance(outcomes[-1], Exception), "it recovers by itself"
        await owner.close()
        await database.close()

    asyncio.run(check())


def test_a_search_for_what_is_rare_ends_early_and_goes_on_where_it_ended(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MOST_SEARCHED", 3)

    async def check() -> None:
        database = await Database.open(dsn)
        store = PostgresEventStore(database)
        mark = await store.horizon()
        ids = [new_id() for _ in range(7)]
        for id in ids:
            await store.append(write(id))
        searches: list[tuple[int, bool]] = []
        more = True
        while more:
            events, mark, more = await store.search_log(mark, 9, LogFilter(event_types=("Nothing",)))
            searches.append((len(events), more))
        assert searches == [(0, True), (0, True), (0, False)] and mark == await store.horizon()
        await database.close()

    asyncio.run(check())
