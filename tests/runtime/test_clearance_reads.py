"""Reads of clearances on the real service: filters, amendments, coverage and the work that relies on one."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.decision.decision import (
    DecisionAlreadyOverriddenError,
    DecisionConcern,
    DecisionOverrideKind,
    InvalidDecisionConcernsError,
    RegisterDecision,
)
from beamwright.contexts.equipment.asset import AssetNotFoundError
from beamwright.contexts.safety.clearance import (
    ClearanceAmendmentOpenError,
    ClearanceExternalRefTakenError,
    ClearanceStatus,
)
from beamwright.contexts.safety.clearance_drafting import AmendClearance, RegisterClearance
from beamwright.contexts.safety.clearance_lifecycle import ActivateClearance, AssignClearanceExternalRef
from beamwright.contexts.safety.clearance_reads import (
    GetClearanceCoverage,
    InvalidClearanceCoverageQuestionError,
    ListClearances,
    ListClearanceWork,
)
from beamwright.contexts.safety.clearance_template import (
    ClearanceTemplateAlreadyExistsError,
    WithdrawClearanceTemplate,
)
from beamwright.contexts.safety.clearance_template_definition import DefineClearanceTemplate
from beamwright.contexts.safety.values import Binding, BindingKind
from beamwright.kernel import wellknown
from tests.live import Cluster
from tests.runtime.clearance_bench import Bench, Home, on_bench

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def home(cluster: Cluster) -> Home:
    return Home(cluster.data, cluster.database())


def checked(home: Home, check: Callable[[Bench], Awaitable[None]]) -> None:
    asyncio.run(on_bench(home, check))


async def listed(bench: Bench, **filters: Any) -> set[UUID]:
    await bench.listed()
    return {each.id for each in (await bench.issue(ListClearances(**filters))).items}


def test_clearances_are_found_by_what_they_bind_and_when_they_hold(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id, now = await bench.asset(), bench.clock()
        endless = await bench.active(asset_id)
        windowed = await bench.active(asset_id, valid_from=now + HOUR, valid_until=now + 2 * HOUR)
        binds = frozenset({f"Asset:{asset_id}"})
        assert await listed(bench, binds=binds) == {endless, windowed}
        assert await listed(bench, binds=binds, in_force_at=now) == {endless}
        assert await listed(bench, binds=binds, in_force_at=now + HOUR) == {endless, windowed}
        assert await listed(bench, binds=binds, in_force_at=now + 2 * HOUR) == {endless}
        assert await listed(bench, binds=binds, valid_until_before=now + 3 * HOUR) == {windowed}
        assert await listed(bench, binds=binds, status=frozenset({ClearanceStatus.EXPIRED})) == set()
        assert await listed(bench, binds=binds, created_until=now) == set()

    checked(home, check)


def test_a_list_by_valid_until_shows_those_without_an_end_too(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id, now = await bench.asset(), bench.clock()
        made = [await bench.active(asset_id, until) for until in (None, now + HOUR, None, now + 2 * HOUR)]
        await bench.listed()
        seen: list[UUID] = []
        cursor = None
        while True:
            binds = frozenset({f"Asset:{asset_id}"})
            page = await bench.issue(ListClearances(binds=binds, sort="valid_until", limit=1, cursor=cursor))
            seen += [each.id for each in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert (seen[:2], set(seen)) == ([made[1], made[3]], set(made))

    checked(home, check)


def test_an_amendment_takes_its_parent_s_place_in_one_append(home: Home) -> None:
    async def check(bench: Bench) -> None:
        parent = await bench.active()
        await bench.issue(AmendClearance(clearance_id=parent, title="Wider"))
        [child] = await listed(bench, parent_id=frozenset({parent}))
        assert (await bench.ask("get_clearance", clearance_id=parent)).open_amendment_id == child
        with pytest.raises(ClearanceAmendmentOpenError) as refused:
            await bench.issue(AmendClearance(clearance_id=parent))
        assert refused.value.context["open_amendment_id"] == str(child)
        await bench.approve(child)
        await bench.issue(ActivateClearance(clearance_id=child))
        assert (await bench.state(parent)).status is ClearanceStatus.SUPERSEDED
        shown = await bench.ask("get_clearance", clearance_id=child)
        assert (shown.in_force, shown.open_amendment_id) == (True, None)
        marks = [
            (await bench.app.store.read_events(("Clearance", id), 0, 20))[-1].mark.transaction_id
            for id in (parent, child)
        ]
        assert marks[0] == marks[1]

    checked(home, check)


def test_a_number_names_one_clearance(home: Home) -> None:
    async def check(bench: Bench) -> None:
        first, second = await bench.active(), await bench.active()
        number = AssignClearanceExternalRef(
            clearance_id=first, scheme="esaf", value="1234", authority="User office"
        )
        await bench.issue(number)
        with pytest.raises(ClearanceExternalRefTakenError):
            await bench.issue(
                AssignClearanceExternalRef(
                    clearance_id=second, scheme="esaf", value="1234", authority="User office"
                )
            )
        assert await listed(bench, external_scheme="esaf", external_value="1234") == {first}

    checked(home, check)


def test_coverage_follows_the_tree_and_names_what_is_near(home: Home) -> None:
    async def check(bench: Bench) -> None:
        root = await bench.asset()
        part = await bench.asset(parent_id=root)
        lapsed = await bench.active(part, valid_until=bench.clock() + HOUR)
        at = bench.clock() + 2 * HOUR
        question = GetClearanceCoverage(asset_ids=frozenset({part}), at=at)
        await bench.listed()
        before = await bench.issue(question)
        assert (before.covered, before.needed[0].near[0].clearance_id) == (False, lapsed)
        on_root = await bench.active(root)
        after = await bench.issue(question)
        assert (after.covered, after.needed[0].covered_by) == (True, (on_root,))
        assert (await bench.issue(GetClearanceCoverage())).covered
        with pytest.raises(AssetNotFoundError):
            await bench.issue(GetClearanceCoverage(asset_ids=frozenset({UUID(int=1)})))
        with pytest.raises(InvalidClearanceCoverageQuestionError):
            await bench.issue(GetClearanceCoverage(run_id=root, subject_id=root))
        assert (await bench.issue(ListClearanceWork(clearance_id=on_root))).items == []

    checked(home, check)


def test_a_bound_thing_exists(home: Home) -> None:
    async def check(bench: Bench) -> None:
        nothing = Binding(kind=BindingKind.ASSET, id=UUID(int=1))
        template = wellknown.GENERAL_CLEARANCE_TEMPLATE
        with pytest.raises(AssetNotFoundError):
            await bench.issue(RegisterClearance(template_id=template, title="x", bindings=(nothing,)))

    checked(home, check)


def test_a_code_is_free_again_once_its_template_is_withdrawn(home: Home) -> None:
    async def check(bench: Bench) -> None:
        define = DefineClearanceTemplate(code="laser", title="Laser work")
        first = (await bench.issue(define)).template_id
        with pytest.raises(ClearanceTemplateAlreadyExistsError):
            await bench.issue(DefineClearanceTemplate(code="LASER", title="Laser work"))
        await bench.issue(WithdrawClearanceTemplate(template_id=first, reason="old"))
        assert (await bench.issue(define)).template_id != first

    checked(home, check)


def test_one_of_two_corrections_at_once_wins(home: Home) -> None:
    async def check(bench: Bench) -> None:
        first = (await bench.issue(RegisterDecision(context="RunStop", choice="stop"))).decision_id
        correct = RegisterDecision(
            context="RunStop",
            choice="go on",
            parent_id=first,
            override_kind=DecisionOverrideKind.CORRECTION,
        )
        answers = await asyncio.gather(bench.issue(correct), bench.issue(correct), return_exceptions=True)
        [lost] = [each for each in answers if isinstance(each, DecisionAlreadyOverriddenError)]
        [won] = [each.decision_id for each in answers if not isinstance(each, BaseException)]
        assert lost.context["overridden_by_decision_id"] == str(won)
        chain = await bench.ask("get_decision_chain", decision_id=first)
        assert (chain.current_decision_id, [each.decision_id for each in chain.descendants]) == (won, [won])
        [above] = (await bench.ask("get_decision_chain", decision_id=won)).ancestors
        assert (above.decision_id, above.current) == (first, False)

    checked(home, check)


def test_decisions_are_found_by_what_they_concern_and_by_their_record(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id = await bench.asset()
        about = DecisionConcern(kind="Asset", id=asset_id)
        made = (
            await bench.issue(RegisterDecision(context="RunAbort", choice="abort", concerns=(about,)))
        ).decision_id
        await bench.listed()
        for filters in ({"concern": {about.key}}, {"context": {"RunAbortDecision"}, "concern": {about.key}}):
            given = {name: frozenset(values) for name, values in filters.items()}
            assert [each.id for each in (await bench.ask("list_decisions", **given)).items] == [made]
        concerning: dict[str, Any] = {"concern": frozenset({about.key})}
        for excluded, left in (({"hold"}, [made]), ({"abort", "hold"}, [])):
            page = await bench.ask("list_decisions", exclude_choice=frozenset(excluded), **concerning)
            assert [each.id for each in page.items] == left
        nowhere = frozenset({about.key})
        assert (await bench.ask("list_decisions", concern=nowhere, current=False)).items == []
        teapot = DecisionConcern(kind="Teapot", id=asset_id)
        with pytest.raises(InvalidDecisionConcernsError):
            await bench.issue(RegisterDecision(context="RunAbort", choice="abort", concerns=(teapot,)))

    checked(home, check)
