"""Supply: its status grid, what a change tells, its sources and its claim."""

from datetime import timedelta
from uuid import UUID

import pytest

from beamwright.contexts.supply.supply import (
    DegradeSupply,
    DeregisterSupply,
    InvalidStatusSourceError,
    InvalidSupplyReasonError,
    MarkSupplyAvailable,
    MarkSupplyRecovering,
    MarkSupplyUnavailable,
    RestoreSupply,
    StatusSource,
    SupplyDegraded,
    SupplyMarkedAvailable,
    SupplyRestored,
    SupplyStatus,
    SupplyStatusSourceAssigned,
    checked_status_source,
    supplies,
)
from beamwright.contexts.supply.supply_observation import AssignSupplyStatusSource
from beamwright.kernel.event import Belonging
from beamwright.kernel.observing import SourceForgotten, TriggerSource
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.units import Unit, UnitSystem
from beamwright.kernel.value import replace
from tests.contexts.supply.examples import (
    DEGRADED,
    DEREGISTERED,
    MARKED_AVAILABLE,
    REACH,
    REGISTERED,
    SOURCE_X,
    SOURCE_Y,
    SUPPLY,
    WATCHED,
    declared,
    observed,
)
from tests.grids import check_grid
from tests.rules import NOW, OCCASION, PRINCIPAL, given, outcome

GRID = """
                mark-available degrade   mark-unavailable mark-recovering restore    deregister
Unknown         Available      Degraded  Unavailable      -               -          Decommissioned
Available       -              Degraded  Unavailable      -               -          Decommissioned
Degraded        -              -         Unavailable      -               Available  Decommissioned
Unavailable     -              -         -                Recovering      -          Decommissioned
Recovering      -              Degraded  Unavailable      -               Available  Decommissioned
Decommissioned  -              -         -                -               -          -
"""


def test_status_grid() -> None:
    check_grid(
        GRID,
        supplies,
        status=lambda supply: supply.status,
        reach={status: [REGISTERED, *history] for status, history in REACH.items()},
        verbs={
            "mark-available": MarkSupplyAvailable(supply_id=SUPPLY, reason="r"),
            "degrade": DegradeSupply(supply_id=SUPPLY, reason="r"),
            "mark-unavailable": MarkSupplyUnavailable(supply_id=SUPPLY, reason="r"),
            "mark-recovering": MarkSupplyRecovering(supply_id=SUPPLY, reason="r"),
            "restore": RestoreSupply(supply_id=SUPPLY, reason="r"),
            "deregister": DeregisterSupply(supply_id=SUPPLY, reason="r"),
        },
    )


ASSIGN_GRID = """
                assign-status-source
Unknown         Unknown
Available       Available
Degraded        Degraded
Unavailable     Unavailable
Recovering      Recovering
Decommissioned  -
"""


def test_assigning_a_source_leaves_the_status() -> None:
    check_grid(
        ASSIGN_GRID,
        supplies,
        status=lambda supply: supply.status,
        reach={status: [REGISTERED, *history] for status, history in REACH.items()},
        verbs={
            "assign-status-source": AssignSupplyStatusSource(
                supply_id=SUPPLY, status_source=SOURCE_X, reason="r"
            )
        },
    )


@pytest.mark.parametrize(
    ("kind", "trigger"),
    [
        (ActorKind.HUMAN, TriggerSource.OPERATOR),
        (ActorKind.AGENT, TriggerSource.AUTO),
        (ActorKind.SERVICE_ACCOUNT, TriggerSource.AUTO),
    ],
)
def test_a_change_tells_who_declared_it(kind: ActorKind, trigger: TriggerSource) -> None:
    command = MarkSupplyAvailable(supply_id=SUPPLY, reason=" r ")
    got = outcome(command, given(supplies, REGISTERED), replace(OCCASION, principal_kind=kind))
    assert got == [declared(SupplyMarkedAvailable, SupplyStatus.UNKNOWN, trigger)]


def test_a_change_tells_the_status_that_it_left() -> None:
    got = outcome(
        RestoreSupply(supply_id=SUPPLY, reason="r"), given(supplies, REGISTERED, MARKED_AVAILABLE, DEGRADED)
    )
    assert got == [declared(SupplyRestored, SupplyStatus.DEGRADED)]


def test_the_fold_keeps_what_stands_behind_the_status() -> None:
    later = replace(DEGRADED, occurred_at=NOW + timedelta(hours=1), reason="leak")
    supply = given(supplies, REGISTERED, MARKED_AVAILABLE, later)
    assert (supply.status_reason, supply.status_since) == ("leak", later.occurred_at)
    assert (supply.last_trigger, supply.last_triggered_by) == (TriggerSource.OPERATOR, PRINCIPAL)


def test_a_source_time_stays_until_the_next_monitor_driven_change() -> None:
    seen = observed(SupplyDegraded, SupplyStatus.AVAILABLE, NOW)
    supply = given(
        supplies, REGISTERED, MARKED_AVAILABLE, seen, declared(SupplyRestored, SupplyStatus.DEGRADED)
    )
    assert supply.observed_at == NOW


@pytest.mark.parametrize(
    "verb",
    [
        MarkSupplyAvailable,
        DegradeSupply,
        MarkSupplyUnavailable,
        MarkSupplyRecovering,
        RestoreSupply,
        DeregisterSupply,
        AssignSupplyStatusSource,
    ],
)
def test_every_move_needs_a_reason_before_its_state_is_judged(verb: type) -> None:
    command = verb(supply_id=SUPPLY, reason=" ")
    assert outcome(command, given(supplies, REGISTERED, DEREGISTERED)) == InvalidSupplyReasonError


def test_a_deregistered_supply_says_when() -> None:
    assert given(supplies, REGISTERED, DEREGISTERED).deregistered_at == NOW


def test_address_is_claimed_until_deregistered() -> None:
    [claim] = supplies.claims(given(supplies, REGISTERED))
    assert (claim.kind, claim.key) == ("supply-address", "aps\n-\nphoton_beam\nstorage ring")
    assert supplies.claims(given(supplies, REGISTERED, DEREGISTERED)) == []


def test_the_containing_asset_is_part_of_the_address() -> None:
    inside = replace(REGISTERED, containing_asset_id=UUID(int=9))
    [claim] = supplies.claims(given(supplies, inside))
    assert claim.key == f"aps\n{UUID(int=9)}\nphoton_beam\nstorage ring"


def test_a_supply_belongs_to_its_facility() -> None:
    assert supplies.belongs(given(supplies, REGISTERED)) == Belonging(facility_code="aps")


def test_another_source_forgets_the_contact() -> None:
    command = AssignSupplyStatusSource(supply_id=SUPPLY, status_source=SOURCE_Y, reason="r")
    assigned = SupplyStatusSourceAssigned(
        supply_id=SUPPLY, occurred_at=NOW, status_source=SOURCE_Y, reason="r"
    )
    assert outcome(command, given(supplies, WATCHED)) == [
        assigned,
        SourceForgotten(aggregate="Supply", id=SUPPLY),
    ]
    assert given(supplies, WATCHED, assigned).status_source == SOURCE_Y


def test_assigning_the_same_source_is_a_no_op() -> None:
    command = AssignSupplyStatusSource(supply_id=SUPPLY, status_source=SOURCE_X, reason="r")
    assert outcome(command, given(supplies, WATCHED)) == []


MILLIAMPERE = Unit(system=UnitSystem.UDUNITS, code="mA")


@pytest.mark.parametrize(
    "source",
    [
        replace(SOURCE_X, source_kind="Channel Access"),
        replace(SOURCE_X, source_id=" "),
        replace(SOURCE_X, unavailable_below=11),
        replace(SOURCE_X, recovering_above=91),
        replace(SOURCE_X, recovering_above=None, degraded_below=1),
        replace(SOURCE_X, degraded_below=float("inf")),
        replace(SOURCE_X, unavailable_below=float("nan")),
        replace(SOURCE_X, unit=None),
        replace(SOURCE_X, unit=Unit(system=UnitSystem.UDUNITS, code="")),
        replace(SOURCE_X, unit=Unit(system=UnitSystem.UDUNITS, code="no such unit!")),
    ],
)
def test_a_malformed_source_is_refused(source: StatusSource) -> None:
    command = AssignSupplyStatusSource(supply_id=SUPPLY, status_source=source, reason="r")
    assert outcome(command, given(supplies, REGISTERED)) == InvalidStatusSourceError


@pytest.mark.parametrize(
    "source",
    [
        SOURCE_X,
        SOURCE_Y,
        replace(SOURCE_Y, unit=MILLIAMPERE),
        replace(SOURCE_X, unavailable_below=10, degraded_below=10),
        replace(SOURCE_X, recovering_above=None),
        replace(SOURCE_X, unavailable_below=None, recovering_above=None),
    ],
)
def test_thresholds_may_be_left_out_or_equal(source: StatusSource) -> None:
    assert checked_status_source(source) == source
