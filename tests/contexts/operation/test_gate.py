"""The same gate for a procedure: its own refusals, and fewer demands, because it serves maintenance too."""

from itertools import combinations

import pytest

from beamwright.contexts.enclosure.enclosure import PermitStatus
from beamwright.contexts.operation.gate_errors import PROCEDURE_GATE
from beamwright.contexts.run.gate import GateRow, check_gate, gate_failures, judge
from beamwright.contexts.safety.gate import ClearanceGateMode
from beamwright.contexts.safety.values import BindingKind
from beamwright.kernel.value import replace
from tests.contexts.run.examples import OPEN_GATE, run
from tests.contexts.run.test_gate import SPOIL, Spoil, two_hutches
from tests.rules import NOW

PROCEDURE = replace(OPEN_GATE, work=replace(OPEN_GATE.work, kind=BindingKind.PROCEDURE), parent_run=run())
HELD = replace(run(), status=run().status.HELD)
NAMES = {
    1: "ProcedureAssetScopeUnresolvedError",
    2: "ProcedureTargetAssetDecommissionedError",
    7: "ProcedureVisitNotOpenError",
    8: "ProcedureParentRunNotRunningError",
    9: "ProcedureRequiresAvailableSupplyError",
    10: "ProcedureSupplyCoverageMismatchError",
    11: "ProcedureRequiresPermittedEnclosureError",
    12: "ProcedureEnclosureCoverageMismatchError",
    13: "ProcedureRequiresActiveClearanceError",
    14: "ProcedureClearanceCoverageMismatchError",
}
BROKEN: dict[int, Spoil] = {row: spoil for row, spoil in SPOIL.items() if row in NAMES} | {
    8: lambda scope: replace(scope, parent_run=HELD)
}


def test_the_gate_demands_of_a_procedure_what_the_catalogue_says() -> None:
    assert {int(row): error.__name__ for row, error in PROCEDURE_GATE.items()} == NAMES
    check_gate(judge(PROCEDURE, NOW), PROCEDURE_GATE)
    check_gate(judge(replace(PROCEDURE, parent_run=None), NOW), PROCEDURE_GATE)


@pytest.mark.parametrize("row", sorted(BROKEN))
def test_each_row_refuses_with_its_own_class(row: int) -> None:
    [failure] = gate_failures(judge(BROKEN[row](PROCEDURE), NOW), PROCEDURE_GATE)
    assert (failure.row, failure.code) == (row, NAMES[row])
    assert failure.detail and failure.items


@pytest.mark.parametrize("row", [3, 4, 5, 6])
def test_maintenance_passes_where_a_run_does_not(row: int) -> None:
    assert GateRow(row) not in PROCEDURE_GATE
    check_gate(judge(SPOIL[row](PROCEDURE), NOW), PROCEDURE_GATE)


def test_one_of_two_enclosures_is_not_enough() -> None:
    [failure] = gate_failures(judge(two_hutches(PermitStatus.UNKNOWN), NOW), PROCEDURE_GATE)
    assert failure.code == NAMES[12]


def test_where_clearances_are_required_one_must_be_bound() -> None:
    bare = replace(PROCEDURE, clearances=(), clearance_gate=ClearanceGateMode.REQUIRED)
    failures = gate_failures(judge(bare, NOW), PROCEDURE_GATE)
    assert [failure.code for failure in failures] == [NAMES[13]]


@pytest.mark.parametrize("pair", list(combinations(sorted(BROKEN), 2)), ids=str)
def test_of_two_broken_rows_the_smaller_is_raised_and_both_are_told(pair: tuple[int, int]) -> None:
    scope = BROKEN[pair[0]](BROKEN[pair[1]](PROCEDURE))
    with pytest.raises(PROCEDURE_GATE[GateRow(pair[0])]) as refusal:
        check_gate(judge(scope, NOW), PROCEDURE_GATE)
    assert [failure["row"] for failure in refusal.value.context["failures"]] == list(pair)
