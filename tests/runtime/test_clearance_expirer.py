"""The clearance expirer: the end of a clearance and the decision that says so, both or neither, and once."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import asyncpg
import pytest

from beamwright.adapters.postgres.appender import stream_lock
from beamwright.contexts.safety.clearance import (
    ClearanceCannotExpireError,
    ClearanceNotDueError,
    ClearanceRequiresHumanError,
    ClearanceStatus,
    clearances,
)
from beamwright.contexts.safety.clearance_drafting import RegisterClearance, SubmitClearance
from beamwright.contexts.safety.clearance_lifecycle import ActivateClearance, ExpireClearance
from beamwright.contexts.safety.clearance_review import ApproveClearance, StartClearanceReview
from beamwright.contexts.safety.values import Binding, BindingKind
from beamwright.contexts.trust.granting import DefinePolicy, GrantDraft, GrantScopeDraft, PrincipalsDraft
from beamwright.contexts.trust.policy import GrantEffect, GrantScopeKind
from beamwright.kernel import wellknown
from beamwright.kernel.errors import DatabaseUnavailableError, DomainError
from beamwright.runtime.clearance_expirer import REASON, expirer_call
from tests.live import Cluster
from tests.runtime.clearance_bench import Bench, Home, on_bench

EXPIRED = ClearanceStatus.EXPIRED
ROUNDS = 12
APPENDING = "datname = current_database() AND state = 'active' AND query LIKE 'SELECT outcomes%'"


@pytest.fixture
def home(cluster: Cluster, dsn: str) -> Home:
    return Home(cluster.data, dsn)


def checked(home: Home, check: Callable[[Bench], Awaitable[None]]) -> None:
    asyncio.run(on_bench(home, check))


def test_a_due_clearance_is_ended_with_its_decision(home: Home) -> None:
    async def check(bench: Bench) -> None:
        [due] = await bench.due(1)
        assert await bench.expirer().expire_due() == 1
        [expiry] = (await bench.app.store.read_events(("Clearance", due), 0, 20))[-1:]
        event = clearances.decoder.decode(expiry.tagged)
        [decision_id] = await bench.decided(due)
        assert (event.trigger, event.reason, event.decided_by_decision_id) == ("Auto", REASON, decision_id)
        assert expiry.principal_id == wellknown.CLEARANCE_EXPIRER
        decision = await bench.ask("get_decision", decision_id=decision_id)
        assert (decision.record, decision.choice) == ("ClearanceExpiryDecision", "Expire")
        assert set(decision.inputs) == {"clearance_id", "valid_until"}
        assert [concern.key for concern in decision.concerns] == [f"Clearance:{due}"]
        assert (decision.facility_code, decision.confidence) == ("home", None)

    checked(home, check)


def test_what_is_not_due_stays_in_force(home: Home) -> None:
    async def check(bench: Bench) -> None:
        endless = await bench.active()
        later = await bench.active(valid_until=bench.clock() + timedelta(hours=1))
        await bench.listed()
        assert await bench.expirer().expire_due() == 0
        assert {(await bench.state(id)).status for id in (endless, later)} == {ClearanceStatus.ACTIVE}

    checked(home, check)


def test_more_than_a_page_is_ended_in_one_tick(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beamwright.runtime.clearance_expirer.BATCH", 2)

    async def check(bench: Bench) -> None:
        due = await bench.due(5)
        assert await bench.expirer().expire_due() == 5
        assert {(await bench.state(id)).status for id in due} == {EXPIRED}

    checked(home, check)


def test_killed_before_it_commits_neither_is_there_and_the_next_tick_completes(home: Home) -> None:
    """Somebody else holds the stream, so the append waits inside the database until its backend is ended."""

    async def check(bench: Bench) -> None:
        [due] = await bench.due(1)
        other = await asyncpg.connect(home.dsn)
        await other.execute("SELECT pg_advisory_lock($1)", stream_lock(("Clearance", due)))
        tick = asyncio.create_task(bench.expirer().expire_due())
        waiting = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {APPENDING} AND wait_event_type = 'Lock'"
        while not await other.fetch(waiting):
            await asyncio.sleep(0.01)
        with pytest.raises(DatabaseUnavailableError):
            await tick
        await other.close()
        assert ((await bench.state(due)).status, await bench.decided(due)) == (ClearanceStatus.ACTIVE, [])
        assert await bench.expirer().expire_due() == 1
        assert ((await bench.state(due)).status, len(await bench.decided(due))) == (EXPIRED, 1)

    checked(home, check)


def test_killed_at_any_moment_both_are_there_or_neither(home: Home) -> None:
    async def check(bench: Bench) -> None:
        due = await bench.due(ROUNDS)
        killer = await asyncpg.connect(home.dsn)
        for number in range(ROUNDS):
            tick = asyncio.create_task(bench.expirer().expire_due())
            await asyncio.sleep(0.002 * number)
            await killer.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {APPENDING}")
            tick.cancel()
            await asyncio.gather(tick, return_exceptions=True)
            for id in due:
                # One snapshot for both: an append that was sent may still arrive.
                told = await killer.fetch(
                    "SELECT event_type FROM events WHERE event_type IN ('ClearanceExpired', 'DecisionRegistered')"
                    " AND payload::text LIKE $1",
                    f"%{id}%",
                )
                assert sorted(row["event_type"] for row in told) in (
                    [],
                    ["ClearanceExpired", "DecisionRegistered"],
                )
        await killer.close()
        await bench.listed()
        await bench.expirer().expire_due()
        for id in due:
            assert ((await bench.state(id)).status, len(await bench.decided(id))) == (EXPIRED, 1)

    checked(home, check)


def test_two_expirers_at_once_write_one(home: Home) -> None:
    async def check(bench: Bench) -> None:
        async def beside(rival: Bench) -> None:
            due = await bench.due(ROUNDS)
            rival.clock.ahead = bench.clock.ahead
            ended = await asyncio.gather(bench.expirer().expire_due(), rival.expirer().expire_due())
            assert sum(ended) == ROUNDS
            for id in due:
                assert ((await bench.state(id)).status, len(await bench.decided(id))) == (EXPIRED, 1)

        await on_bench(home, beside)

    checked(home, check)


def test_an_operator_who_is_faster_leaves_no_decision(home: Home) -> None:
    async def check(bench: Bench) -> None:
        async def by_hand(id: UUID) -> bool:
            try:
                await bench.issue(ExpireClearance(clearance_id=id, reason="done"))
            except ClearanceCannotExpireError:
                return False
            return True

        due = await bench.due(ROUNDS)
        _, *won = await asyncio.gather(bench.expirer().expire_due(), *map(by_hand, due))
        for id, by_person in zip(due, won, strict=True):
            assert len(await bench.decided(id)) == (0 if by_person else 1)
            types = [
                event.event_type for event in await bench.app.store.read_events(("Clearance", id), 0, 20)
            ]
            assert types.count("ClearanceExpired") == 1

    checked(home, check)


def test_the_worker_ticks_while_it_holds_the_lease_and_only_then(home: Home) -> None:
    async def check(bench: Bench) -> None:
        tick = timedelta(milliseconds=50)
        first, second = bench.expirer(tick), bench.expirer(timedelta(hours=1))
        running = [asyncio.create_task(first.run())]
        await asyncio.sleep(0.05)
        running.append(asyncio.create_task(second.run()))
        [due] = await bench.due(1)
        while (await bench.state(due)).status is not EXPIRED:
            await asyncio.sleep(0.02)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await first.stop()
        assert len(await bench.decided(due)) == 1

    checked(home, check)


def test_an_agent_granted_everything_neither_approves_nor_ends_before_the_time(home: Home) -> None:
    async def check(bench: Bench) -> None:
        await bench.issue(
            DefinePolicy(
                name="everything for the agent",
                principals=PrincipalsDraft(actor_ids=frozenset({wellknown.CLEARANCE_EXPIRER})),
                grants=(
                    GrantDraft(
                        effect=GrantEffect.ALLOW,
                        operations=frozenset({"*:*"}),
                        surface_ids=frozenset({wellknown.IN_PROCESS_SURFACE}),
                        scope=GrantScopeDraft(kind=GrantScopeKind.EVERYTHING),
                    ),
                ),
            )
        )
        agent = expirer_call()
        binding = Binding(kind=BindingKind.ASSET, id=await bench.asset())
        command = RegisterClearance(
            template_id=wellknown.GENERAL_CLEARANCE_TEMPLATE, title="By an agent", bindings=(binding,)
        )
        drafted = (await bench.issue(command, agent)).clearance_id
        await bench.issue(SubmitClearance(clearance_id=drafted), agent)
        await bench.issue(StartClearanceReview(clearance_id=drafted), agent)
        in_force = await bench.active(valid_until=bench.clock() + timedelta(hours=1))

        async def refusal(
            command: ApproveClearance | ActivateClearance | ExpireClearance,
        ) -> type[DomainError]:
            with pytest.raises(DomainError) as refused:
                await bench.issue(command, agent)
            return type(refused.value)

        assert await refusal(ApproveClearance(clearance_id=drafted)) is ClearanceRequiresHumanError
        assert await refusal(ActivateClearance(clearance_id=drafted)) is ClearanceRequiresHumanError
        early = ExpireClearance(clearance_id=in_force, reason="too early")
        assert await refusal(early) is ClearanceNotDueError

    checked(home, check)
