"""The coverage gate of safety.md and rows 13 and 14 of run.md, as tables."""

from datetime import timedelta
from uuid import UUID

import pytest

from beamwright.contexts.safety.clearance import Clearance, ClearanceStatus
from beamwright.contexts.safety.gate import (
    ClearanceFailure,
    ClearanceGateMode,
    ClearedWork,
    NeededClearance,
    binding_keys,
    clearance_gate,
    coverage_advice,
)
from beamwright.contexts.safety.values import Binding, BindingKind
from tests.contexts.safety.examples import (
    ASSET,
    CLEARANCE,
    ROOT,
    RUN,
    SUBJECT,
    VISIT,
    bound,
    clearance,
    in_force,
)
from tests.rules import NOW

BOUND, REQUIRED, OFF = ClearanceGateMode
NONE_BOUND, NOT_COVERED = ClearanceFailure
SECOND = timedelta(seconds=1)
WORK = ClearedWork(kind=BindingKind.RUN, id=RUN, visit_id=VISIT)
THE_ASSET = NeededClearance(kind=BindingKind.ASSET, id=ASSET, ancestor_ids=(ROOT,))
THE_SUBJECT = NeededClearance(kind=BindingKind.SUBJECT, id=SUBJECT)
EXTERNAL = Binding(kind=BindingKind.EXTERNAL, scheme="esaf", value="77")

ON_ASSET = in_force(bindings=(bound(),))
ON_ROOT = in_force(bindings=(bound(id=ROOT),))
ON_SUBJECT = in_force(bindings=(bound(BindingKind.SUBJECT, SUBJECT),))
ON_RUN = in_force(bindings=(bound(BindingKind.RUN, RUN),))
ON_VISIT = in_force(bindings=(bound(BindingKind.VISIT, VISIT),))
LAPSED = in_force(bindings=(bound(id=ROOT),), valid_until=NOW - SECOND)
DRAFT = clearance(bindings=(bound(),))
ELSEWHERE = in_force(bindings=(bound(id=UUID(int=99)), EXTERNAL))


@pytest.mark.parametrize(
    ("found", "bound_mode", "required_mode"),
    [
        ([], None, NONE_BOUND),
        ([ELSEWHERE], None, NONE_BOUND),
        ([ON_ASSET, ON_SUBJECT], None, None),
        ([ON_ROOT, ON_SUBJECT], None, None),
        ([ON_RUN], None, None),
        ([ON_VISIT], None, None),
        # Cover for the assets does not cover the subject, and the other way round.
        ([ON_ROOT], None, NOT_COVERED),
        ([ON_SUBJECT], None, NOT_COVERED),
        # Once one is bound, one in force is demanded.
        ([DRAFT], NOT_COVERED, NOT_COVERED),
        ([LAPSED], NOT_COVERED, NOT_COVERED),
        ([LAPSED, ON_SUBJECT], NOT_COVERED, NOT_COVERED),
        ([LAPSED, DRAFT, ON_ASSET, ON_SUBJECT], None, None),
    ],
)
def test_the_gate_of_an_asset_and_a_subject(
    found: list[Clearance], bound_mode: ClearanceFailure | None, required_mode: ClearanceFailure | None
) -> None:
    needed = [THE_ASSET, THE_SUBJECT]
    assert clearance_gate(WORK, needed, found, NOW, BOUND).failure is bound_mode
    assert clearance_gate(WORK, needed, found, NOW, REQUIRED).failure is required_mode
    assert clearance_gate(WORK, needed, found, NOW, OFF).failure is None


def test_nothing_needed_passes() -> None:
    assert clearance_gate(WORK, [], [], NOW, REQUIRED).failure is None


def test_a_run_not_yet_started_is_bound_by_its_visit_only() -> None:
    assert ClearedWork(kind=BindingKind.RUN, visit_id=VISIT).keys == {f"Visit:{VISIT}"}
    assert ClearedWork(kind=BindingKind.RUN).keys == frozenset()


def test_a_clearance_on_a_subject_covers_neither_parent_nor_aliquot() -> None:
    aliquot = NeededClearance(kind=BindingKind.SUBJECT, id=UUID(int=98))
    assert clearance_gate(WORK, [aliquot], [ON_SUBJECT], NOW, REQUIRED).failure is NONE_BOUND


def test_an_id_of_another_kind_is_another_thing() -> None:
    run_with_the_assets_id = in_force(bindings=(bound(BindingKind.SUBJECT, ASSET),))
    verdict = clearance_gate(WORK, [THE_ASSET], [run_with_the_assets_id], NOW, REQUIRED)
    assert verdict.failure is NONE_BOUND


@pytest.mark.parametrize("status", sorted(set(ClearanceStatus) - {ClearanceStatus.ACTIVE}))
def test_only_an_active_clearance_covers(status: ClearanceStatus) -> None:
    verdict = clearance_gate(WORK, [THE_ASSET], [clearance(status=status)], NOW)
    assert (verdict.failure, verdict.uncovered[0].near[0].status) == (NOT_COVERED, status)


@pytest.mark.parametrize(
    ("begin", "end", "covers"),
    [
        (None, None, True),
        (0, None, True),
        (1, None, False),
        (None, 1, True),
        (None, 0, False),
        (-2, -1, False),
        (-1, 1, True),
    ],
)
def test_a_window_holds_from_its_beginning_until_before_its_end(
    begin: int | None, end: int | None, covers: bool
) -> None:
    window = [None if each is None else NOW + each * SECOND for each in (begin, end)]
    active = in_force(valid_from=window[0], valid_until=window[1])
    assert active.in_force(NOW) is covers


def test_the_verdict_names_what_covers_and_what_nearly_does() -> None:
    verdict = clearance_gate(WORK, [THE_SUBJECT, THE_ASSET], [LAPSED, ON_SUBJECT], NOW)
    asset, subject = verdict.needed
    assert (asset.id, asset.covered_by, asset.near[0].valid_until) == (ASSET, (), NOW - SECOND)
    assert (subject.id, subject.covered_by, subject.near) == (SUBJECT, (CLEARANCE,), ())
    assert (verdict.uncovered, verdict.relied_on) == ((asset,), (CLEARANCE,))


def test_the_search_asks_for_the_things_their_ancestors_the_work_and_its_visit() -> None:
    assert binding_keys(WORK, [THE_ASSET, THE_SUBJECT]) == {
        f"Asset:{ASSET}",
        f"Asset:{ROOT}",
        f"Subject:{SUBJECT}",
        f"Run:{RUN}",
        f"Visit:{VISIT}",
    }


def test_the_way_out_says_what_is_bound() -> None:
    [uncovered] = clearance_gate(WORK, [THE_ASSET], [LAPSED], NOW).uncovered
    assert f"{CLEARANCE} Active" in coverage_advice(uncovered)
    [unbound] = clearance_gate(WORK, [THE_ASSET], [], NOW, REQUIRED).uncovered
    assert "register_clearance" in coverage_advice(unbound)
