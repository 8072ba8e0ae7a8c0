"""The gate: every row from both sides, their order, and that all failures are told."""

from collections.abc import Callable
from itertools import combinations
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.enclosure.enclosure import EnclosureLifecycle, PermitStatus
from beamwright.contexts.equipment.asset import Asset, AssetCondition, AssetLifecycle
from beamwright.contexts.run.gate import (
    CHECKS,
    GateRow,
    GateScope,
    check_gate,
    gate_evidence,
    gate_failures,
    gate_notices,
    judge,
)
from beamwright.contexts.run.gate_errors import (
    RUN_GATE,
    RunAssetFaultedError,
    RunAssetNotActiveError,
    RunAssetScopeUnresolvedError,
    RunClearanceCoverageMismatchError,
    RunEnclosureCoverageMismatchError,
    RunOutsidePlanWindowError,
    RunPlanAssetDecommissionedError,
    RunRequiresActiveClearanceError,
    RunRequiresAvailableSupplyError,
    RunRequiresPermittedEnclosureError,
    RunSubjectNotMountedError,
    RunSupplyCoverageMismatchError,
    RunVisitNotOpenError,
)
from beamwright.contexts.run.values import GateEvidence, RelianceOn
from beamwright.contexts.safety.clearance import ClearanceStatus
from beamwright.contexts.safety.gate import ClearanceGateMode
from beamwright.contexts.subject.subject import subjects
from beamwright.contexts.supply.supply import SupplyStatus
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.observing import Contact
from beamwright.kernel.roles import VisitStatus
from beamwright.kernel.value import replace
from tests.contexts.recipe.plan_examples import CAMERA, STAGE, THE_CAMERA, THE_STAGE
from tests.contexts.run.examples import (
    ASSETS,
    BEAM,
    FORM,
    HEARD,
    HUTCH,
    MINUTE,
    ON_RUN,
    ON_STAGE,
    ON_SUBJECT,
    ON_UNIT,
    ON_VISIT,
    OPEN_GATE,
    OTHER_HUTCH,
    UNIT,
    VACUUM,
    clearance,
    enclosure,
    gate,
    run,
    supply,
    unit,
)
from tests.contexts.subject.examples import REACH as SUBJECT_REACH
from tests.contexts.supply.examples import SOURCE_Y
from tests.contexts.trust.examples import visit
from tests.rules import NOW, given

type Spoil = Callable[[GateScope], GateScope]


def codes(scope: GateScope) -> list[str]:
    return [failure.code for failure in gate_failures(judge(scope, NOW), RUN_GATE)]


def rows(scope: GateScope) -> list[int]:
    return [failure.row for failure in gate_failures(judge(scope, NOW), RUN_GATE)]


def with_asset(asset: Asset, **changes: Any) -> dict[UUID, Asset]:
    return ASSETS | {asset.id: replace(asset, **changes)}


def spoilt(scope: GateScope, asset: Asset, **changes: Any) -> GateScope:
    assets = scope.assets | {asset.id: replace(scope.assets[asset.id], **changes)}
    return replace(scope, assets=assets)


# How each row is broken, and nothing else with it where that can be.
SPOIL: dict[int, Spoil] = {
    1: lambda scope: replace(scope, missing_asset_ids=frozenset({UUID(int=77)})),
    2: lambda scope: spoilt(scope, THE_CAMERA, lifecycle=AssetLifecycle.DECOMMISSIONED),
    3: lambda scope: spoilt(scope, THE_STAGE, lifecycle=AssetLifecycle.MAINTENANCE),
    4: lambda scope: spoilt(scope, THE_STAGE, condition=AssetCondition.FAULTED),
    5: lambda scope: replace(scope, subject=given(subjects, *SUBJECT_REACH["Received"])),
    6: lambda scope: replace(scope, window_end=NOW),
    7: lambda scope: replace(scope, visit=visit(VisitStatus.ON_HOLD)),
    9: lambda scope: replace(scope, needed_supplies=scope.needed_supplies | {"cryogen"}),
    10: lambda scope: replace(
        scope,
        needed_supplies=scope.needed_supplies | {"vacuum"},
        supplies=(*scope.supplies, supply(VACUUM, "vacuum", SupplyStatus.DEGRADED)),
    ),
    11: lambda scope: replace(scope, contacts={}),
    14: lambda scope: replace(scope, clearances=(clearance(ON_UNIT, ON_SUBJECT, valid_until=NOW),)),
}
EXPECTED = {
    1: RunAssetScopeUnresolvedError,
    2: RunPlanAssetDecommissionedError,
    3: RunAssetNotActiveError,
    4: RunAssetFaultedError,
    5: RunSubjectNotMountedError,
    6: RunOutsidePlanWindowError,
    7: RunVisitNotOpenError,
    9: RunRequiresAvailableSupplyError,
    10: RunSupplyCoverageMismatchError,
    11: RunRequiresPermittedEnclosureError,
    14: RunClearanceCoverageMismatchError,
}


def test_an_open_gate_lets_through() -> None:
    check_gate(judge(OPEN_GATE, NOW), RUN_GATE)


def test_every_row_has_a_check_and_a_run_meets_all_but_that_of_its_parent() -> None:
    assert set(CHECKS) == set(GateRow)
    assert set(GateRow) - set(RUN_GATE) == {GateRow.PARENT_RUN_RUNNING}


@pytest.mark.parametrize("row", SPOIL)
def test_each_row_refuses_with_its_own_class(row: int) -> None:
    with pytest.raises(EXPECTED[row]) as refusal:
        check_gate(judge(SPOIL[row](OPEN_GATE), NOW), RUN_GATE)
    assert refusal.value.detail
    first = refusal.value.context["failures"][0]
    assert first["row"] == row
    assert first["items"]


@pytest.mark.parametrize("row", SPOIL)
def test_a_broken_row_breaks_no_other(row: int) -> None:
    # What is decommissioned is not Active either.
    assert rows(SPOIL[row](OPEN_GATE)) == ([2, 3] if row == 2 else [row])


@pytest.mark.parametrize("first", SPOIL)
def test_the_first_failing_row_is_raised_and_all_of_them_are_told(first: int) -> None:
    scope, broken = OPEN_GATE, [row for row in SPOIL if row >= first]
    for row in broken:
        scope = SPOIL[row](scope)
    with pytest.raises(EXPECTED[first]) as refusal:
        check_gate(judge(scope, NOW), RUN_GATE)
    told = refusal.value.context["failures"]
    assert [failure["row"] for failure in told] == broken
    assert all({"code", "detail", "row", "items"} == failure.keys() for failure in told)


@pytest.mark.parametrize("pair", list(combinations(SPOIL, 2)), ids=str)
def test_of_any_two_broken_rows_the_smaller_is_raised(pair: tuple[int, int]) -> None:
    with pytest.raises(EXPECTED[pair[0]]):
        check_gate(judge(SPOIL[pair[0]](SPOIL[pair[1]](OPEN_GATE)), NOW), RUN_GATE)


def test_a_row_without_a_class_does_not_apply() -> None:
    held = gate(parent_run=run(), needed_supplies=frozenset({"cryogen"}))
    assert gate_failures(judge(held, NOW), {GateRow.ASSETS_EXIST: ConflictError}) == []


def test_a_parent_run_must_be_running() -> None:
    errors = {GateRow.PARENT_RUN_RUNNING: ConflictError}
    assert gate_failures(judge(gate(parent_run=run()), NOW), errors) == []
    ended = replace(run(), status=run().status.ABORTED)
    assert [each.row for each in gate_failures(judge(gate(parent_run=ended), NOW), errors)] == [8]


# Rows 2 to 4: only what the work is bound to must be fit; what is above it may be under maintenance.


@pytest.mark.parametrize(
    ("lifecycle", "expected"),
    [
        (AssetLifecycle.COMMISSIONED, [3]),
        (AssetLifecycle.ACTIVE, []),
        (AssetLifecycle.MAINTENANCE, [3]),
        (AssetLifecycle.DECOMMISSIONED, [2, 3]),
    ],
)
def test_a_bound_asset_must_be_active(lifecycle: AssetLifecycle, expected: list[int]) -> None:
    assert rows(gate(assets=with_asset(THE_CAMERA, lifecycle=lifecycle))) == expected
    assert rows(gate(assets=with_asset(unit(), lifecycle=lifecycle))) == []


@pytest.mark.parametrize("condition", AssetCondition)
def test_a_bound_asset_must_not_be_faulted(condition: AssetCondition) -> None:
    scope = gate(assets=with_asset(THE_CAMERA, condition=condition))
    assert rows(scope) == ([4] if condition is AssetCondition.FAULTED else [])


def test_a_degraded_asset_is_a_notice() -> None:
    scope = gate(assets=with_asset(THE_CAMERA, condition=AssetCondition.DEGRADED, condition_reason="dust"))
    [notice] = gate_notices(scope)
    assert (notice.code, notice.context["asset_id"]) == ("AssetDegraded", str(CAMERA))
    assert gate_notices(OPEN_GATE) == []


@pytest.mark.parametrize(
    ("status", "passes"),
    [
        ("Received", False),
        ("Mounted", True),
        ("Measured", True),
        ("Removed", False),
        ("Returned", False),
        ("Stored", False),
        ("Discarded", False),
    ],
)
def test_the_subject_must_be_mounted_or_measured(status: str, passes: bool) -> None:
    subject = given(subjects, *SUBJECT_REACH[status])
    place = subject.mounted_on_asset_id
    here = replace(subject, mounted_on_asset_id=STAGE) if place else subject
    assert (rows(gate(subject=here)) == []) is passes


def test_the_subject_must_be_on_an_asset_of_the_scope() -> None:
    assert rows(gate(subject=replace(ON_STAGE, mounted_on_asset_id=UUID(int=99)))) == [5]
    assert rows(gate(subject=replace(ON_STAGE, mounted_on_asset_id=UNIT))) == []


def test_a_subject_that_does_not_exist_fails() -> None:
    assert rows(gate(subject=None)) == [5]


def test_work_without_subject_needs_none() -> None:
    assert rows(gate(subject_id=None, subject=None)) == []


@pytest.mark.parametrize(
    ("start", "end", "passes"),
    [
        (NOW, NOW + MINUTE, True),
        (NOW - MINUTE, NOW, False),
        (NOW + MINUTE, NOW + 2 * MINUTE, False),
        (None, None, True),
    ],
    ids=["at its start", "at its end", "before it", "no window"],
)
def test_now_must_be_inside_the_plans_window(start: Any, end: Any, passes: bool) -> None:
    assert rows(gate(window_start=start, window_end=end)) == ([] if passes else [6])


@pytest.mark.parametrize("status", VisitStatus)
def test_the_visit_must_have_arrived_and_not_be_on_hold(status: VisitStatus) -> None:
    open = status in (VisitStatus.ARRIVED, VisitStatus.IN_PROGRESS)
    assert rows(gate(visit=visit(status))) == ([] if open else [7])


def test_a_visit_that_does_not_exist_fails_and_none_is_needed() -> None:
    assert rows(gate(visit=None)) == [7]
    assert rows(gate(visit=None, work=replace(OPEN_GATE.work, visit_id=None))) == []


# Rows 9 and 10: the supplies.


def of_supplies(*supplies: Any, **changes: Any) -> list[int]:
    return rows(gate(supplies=supplies, **changes))


@pytest.mark.parametrize("status", SupplyStatus)
def test_only_an_available_supply_serves(status: SupplyStatus) -> None:
    missing = 9 if status is SupplyStatus.DECOMMISSIONED else 10
    assert of_supplies(supply(status=status)) == ([] if status is SupplyStatus.AVAILABLE else [missing])


def test_a_supply_of_an_unrelated_facility_does_not_count() -> None:
    assert of_supplies(supply(facility_code="elsewhere")) == [9]


def test_a_supply_inside_an_asset_of_the_scope_counts_and_inside_another_does_not() -> None:
    assert of_supplies(supply(containing_asset_id=UNIT)) == []
    assert of_supplies(supply(containing_asset_id=UUID(int=99))) == [9]


def test_one_available_supply_of_a_kind_is_enough() -> None:
    down = supply(VACUUM, status=SupplyStatus.UNAVAILABLE)
    assert of_supplies(supply(), down, versions={BEAM: 2, VACUUM: 1, HUTCH: 3, FORM: 5}) == []


@pytest.mark.parametrize(
    ("contact", "passes"),
    [
        (HEARD, True),
        (replace(HEARD, last_contact_at=NOW - MINUTE), True),
        (replace(HEARD, last_contact_at=NOW - 2 * MINUTE), False),
        (replace(HEARD, connected=False), False),
        (None, False),
    ],
    ids=["heard", "just fresh", "stale", "disconnected", "never heard"],
)
def test_a_watched_supply_must_be_fresh(contact: Contact | None, passes: bool) -> None:
    contacts = {HUTCH: HEARD} | ({BEAM: contact} if contact else {})
    assert of_supplies(supply(status_source=SOURCE_Y), contacts=contacts) == ([] if passes else [10])


def test_no_needed_kind_asks_for_no_supply() -> None:
    assert of_supplies(needed_supplies=frozenset()) == []


def test_failing_kinds_are_told_in_order_each_with_its_supplies() -> None:
    kinds = frozenset({"photon_beam", "cryogen", "argon"})
    scope = gate(needed_supplies=kinds, supplies=(supply(status=SupplyStatus.DEGRADED),))
    in_scope, available = gate_failures(judge(scope, NOW), RUN_GATE)
    assert [item.about["kind"] for item in in_scope.items] == ["argon", "cryogen"]
    assert available.items[0].about["supplies"][0]["status"] == "Degraded"
    assert "restore_supply" in available.detail


# Rows 11 and 12: the enclosures.

PERMITTED = enclosure()
PASSING = {HUTCH: PERMITTED}
BOTH = {HUTCH: HEARD, OTHER_HUTCH: HEARD}


@pytest.mark.parametrize(
    "found",
    [
        {HUTCH: enclosure(status=PermitStatus.UNKNOWN)},
        {HUTCH: enclosure(status=PermitStatus.NOT_PERMITTED)},
        {HUTCH: enclosure(lifecycle=EnclosureLifecycle.DECOMMISSIONED)},
        {},
    ],
    ids=["Unknown", "NotPermitted", "Decommissioned", "missing"],
)
def test_what_is_not_permitted_and_active_fails(found: Any) -> None:
    assert codes(gate(enclosures=found)) == ["RunRequiresPermittedEnclosureError"]


@pytest.mark.parametrize(
    ("contact", "passes"),
    [
        (replace(HEARD, last_contact_at=NOW - MINUTE), True),
        (replace(HEARD, last_contact_at=NOW - 2 * MINUTE), False),
        (replace(HEARD, connected=False), False),
    ],
    ids=["fresh", "stale", "disconnected"],
)
def test_a_permit_that_nobody_confirms_is_none(contact: Contact, passes: bool) -> None:
    assert rows(gate(contacts={HUTCH: contact})) == ([] if passes else [11])


def test_no_enclosure_anywhere_passes() -> None:
    assert rows(gate(assets=ASSETS | {UNIT: unit(located_in_enclosure_id=None)}, enclosures={})) == []


def two_hutches(second: PermitStatus) -> GateScope:
    return gate(
        assets=with_asset(THE_CAMERA, located_in_enclosure_id=OTHER_HUTCH),
        enclosures={HUTCH: PERMITTED, OTHER_HUTCH: enclosure(OTHER_HUTCH, second)},
        contacts=BOTH,
    )


def test_every_enclosure_must_be_permitted() -> None:
    [failure] = gate_failures(judge(two_hutches(PermitStatus.UNKNOWN), NOW), RUN_GATE)
    assert failure.error is RunEnclosureCoverageMismatchError
    [item] = failure.items
    assert (item.about["enclosure_id"], item.about["permit_status"]) == (str(OTHER_HUTCH), "Unknown")
    assert rows(two_hutches(PermitStatus.PERMITTED)) == []


def test_when_all_enclosures_fail_the_other_class_is_raised() -> None:
    scope = two_hutches(PermitStatus.UNKNOWN)
    scope = replace(scope, enclosures=scope.enclosures | {HUTCH: enclosure(status=PermitStatus.UNKNOWN)})
    [failure] = gate_failures(judge(scope, NOW), RUN_GATE)
    assert failure.error is RunRequiresPermittedEnclosureError
    assert len(failure.items) == 2


# Rows 13 and 14: the clearances.

BOUND, REQUIRED, OFF = ClearanceGateMode
EXPIRED = clearance(ON_UNIT, ON_SUBJECT, status=ClearanceStatus.EXPIRED)


@pytest.mark.parametrize(
    ("mode", "clearances", "expected"),
    [
        (BOUND, (), []),
        (REQUIRED, (), [13]),
        (OFF, (), []),
        (BOUND, (EXPIRED,), [14]),
        (REQUIRED, (EXPIRED,), [14]),
        (OFF, (EXPIRED,), []),
        (BOUND, (clearance(ON_UNIT),), []),
        (REQUIRED, (clearance(ON_UNIT),), [14]),
        (REQUIRED, (clearance(ON_UNIT, ON_SUBJECT),), []),
        (REQUIRED, (clearance(ON_RUN),), []),
        (REQUIRED, (clearance(ON_VISIT),), []),
        (BOUND, (clearance(ON_UNIT, valid_from=NOW + MINUTE),), [14]),
        (BOUND, (clearance(ON_UNIT, valid_from=NOW),), []),
        (BOUND, (clearance(ON_UNIT, valid_until=NOW),), [14]),
        (BOUND, (clearance(ON_UNIT, valid_until=NOW + MINUTE),), []),
    ],
)
def test_clearances(mode: ClearanceGateMode, clearances: Any, expected: list[int]) -> None:
    assert rows(gate(clearance_gate=mode, clearances=clearances)) == expected


def test_none_bound_where_one_is_required_has_its_own_class() -> None:
    with pytest.raises(RunRequiresActiveClearanceError):
        check_gate(judge(gate(clearance_gate=REQUIRED, clearances=()), NOW), RUN_GATE)


def test_a_near_miss_is_told_with_its_window() -> None:
    lapsed = clearance(ON_UNIT, valid_until=NOW)
    [failure] = gate_failures(judge(gate(clearances=(lapsed,)), NOW), RUN_GATE)
    assert failure.items[0].about["near"][0]["clearance_id"] == str(FORM)
    assert NOW.isoformat() in failure.detail


def test_a_gate_that_is_off_is_a_notice() -> None:
    assert [notice.code for notice in gate_notices(gate(clearance_gate=OFF))] == ["ClearanceGateOff"]


# What the work relies on.


def test_evidence_names_what_was_relied_on_at_the_version_that_was_seen() -> None:
    assert gate_evidence(judge(OPEN_GATE, NOW)) == GateEvidence(
        supplies=(RelianceOn(id=BEAM, version=2),),
        enclosures=(RelianceOn(id=HUTCH, version=3),),
        clearances=(RelianceOn(id=FORM, version=5),),
    )


def test_evidence_leaves_out_what_does_not_serve() -> None:
    down = supply(VACUUM, status=SupplyStatus.UNAVAILABLE)
    other = supply(UUID(int=600), "cryogen")
    scope = gate(supplies=(supply(), down, other), clearances=(EXPIRED,), clearance_gate=OFF)
    evidence = gate_evidence(judge(scope, NOW))
    assert [each.id for each in evidence.supplies] == [BEAM]
    assert evidence.clearances == ()
