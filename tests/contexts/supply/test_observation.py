"""Observing supplies: who may, what a monitor may report, and what is written."""

from datetime import datetime, timedelta

import pytest

from beamwright.contexts.supply.supply import (
    InvalidSupplyReasonError,
    SupplyCannotDegradeError,
    SupplyCannotMarkRecoveringError,
    SupplyCannotObserveError,
    SupplyMarkedUnavailable,
    SupplyStatus,
    SupplyStatusSourceAssigned,
    supplies,
)
from beamwright.contexts.supply.supply_observation import (
    InvalidSupplyObservedAtError,
    ObservedSupply,
    ObserveSupplyStatus,
    SupplyMonitorTargetNotPermittedError,
    SupplyMonitorTriggerRequiredError,
    SupplyObservationOutdatedError,
    SupplySourceMismatchError,
)
from beamwright.kernel.event import Event
from beamwright.kernel.observing import Contact, InvalidMonitorRefError, MonitorRef, SourceHeard
from beamwright.kernel.operation import Occasion
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import replace
from tests.contexts.supply.examples import (
    AS_MONITOR,
    DEREGISTERED,
    MARKED_AVAILABLE,
    REACH,
    REGISTERED,
    SOURCE_Y,
    SUPPLY,
    WATCHED,
    X,
    Y,
    observed,
)
from tests.rules import NOW, given, outcome

BEAM_LOST = ObserveSupplyStatus(
    supply_id=SUPPLY,
    observed_status=SupplyStatus.UNAVAILABLE,
    monitor_ref=X,
    observed_at=NOW,
    reason=" r ",
)
FUTURE = NOW + timedelta(seconds=61)
ASSIGNED_Y = SupplyStatusSourceAssigned(supply_id=SUPPLY, occurred_at=NOW, status_source=SOURCE_Y, reason="r")


def seen(*history: Event, last: datetime | None = None) -> ObservedSupply:
    """The supply after `history`, its source last heard with the time `last`."""
    contact = Contact(connected=True, last_contact_at=NOW, last_observed_at=last) if last else None
    return ObservedSupply(supply=given(supplies, *history), contact=contact)


def heard(at: datetime | None = NOW, ref: MonitorRef = X, *, connected: bool = True) -> SourceHeard:
    return SourceHeard(
        aggregate="Supply", id=SUPPLY, monitor_ref=ref, heard_at=NOW, observed_at=at, connected=connected
    )


def test_a_monitor_driven_change_uses_the_same_event_with_its_source() -> None:
    assert outcome(BEAM_LOST, seen(WATCHED, MARKED_AVAILABLE), AS_MONITOR) == [
        observed(SupplyMarkedUnavailable, SupplyStatus.AVAILABLE),
        heard(),
    ]


# `.` renews contact and appends nothing; `not permitted` and the verb's own class refuse.
GRID = """
                Unknown        Available      Degraded     Unavailable      Recovering       Decommissioned
Unknown         .              NotPermitted   Degraded     Unavailable      MarkRecovering   NotPermitted
Available       NotPermitted   .              Degraded     Unavailable      MarkRecovering   NotPermitted
Degraded        NotPermitted   NotPermitted   .            Unavailable      MarkRecovering   NotPermitted
Unavailable     NotPermitted   NotPermitted   Degrade      .                Recovering       NotPermitted
Recovering      NotPermitted   NotPermitted   Degraded     Unavailable      .                NotPermitted
Decommissioned  Observe        Observe        Observe      Observe          Observe          Observe
"""
REFUSALS = {
    "NotPermitted": SupplyMonitorTargetNotPermittedError,
    "MarkRecovering": SupplyCannotMarkRecoveringError,
    "Degrade": SupplyCannotDegradeError,
    "Observe": SupplyCannotObserveError,
}
HEADER, *ROWS = [line.split() for line in GRID.strip().splitlines()]
CELLS = [(row[0], target, cell) for row in ROWS for target, cell in zip(HEADER, row[1:], strict=True)]


@pytest.mark.parametrize(("start", "target", "expected"), CELLS)
def test_a_monitor_only_takes_away_or_announces(start: str, target: str, expected: str) -> None:
    command = replace(BEAM_LOST, observed_status=SupplyStatus(target))
    got = outcome(command, seen(WATCHED, *REACH[start]), AS_MONITOR)
    if expected in REFUSALS:
        assert got == REFUSALS[expected]
        return
    assert not isinstance(got, type) and got[-1] == heard()
    events = [each for each in got if isinstance(each, Event)]
    assert bool(events) is (expected != ".")
    assert given(supplies, WATCHED, *REACH[start], *events).status == target


def test_a_report_without_source_time_is_contact_all_the_same() -> None:
    command = replace(BEAM_LOST, observed_at=None)
    got = outcome(command, seen(WATCHED, MARKED_AVAILABLE), AS_MONITOR)
    assert got == [observed(SupplyMarkedUnavailable, SupplyStatus.AVAILABLE, None), heard(None)]


def test_an_unknown_without_source_time_says_that_contact_was_lost() -> None:
    command = replace(BEAM_LOST, observed_status=SupplyStatus.UNKNOWN, observed_at=None)
    assert outcome(command, seen(WATCHED), AS_MONITOR) == [heard(None, connected=False)]


@pytest.mark.parametrize("kind", [ActorKind.HUMAN, ActorKind.AGENT])
def test_neither_people_nor_agents_observe(kind: ActorKind) -> None:
    got = outcome(BEAM_LOST, seen(WATCHED, MARKED_AVAILABLE), replace(AS_MONITOR, principal_kind=kind))
    assert got == SupplyMonitorTriggerRequiredError


def test_another_source_than_the_assigned_one_is_not_believed() -> None:
    assert outcome(BEAM_LOST, seen(WATCHED, ASSIGNED_Y), AS_MONITOR) == SupplySourceMismatchError


def test_without_an_assigned_source_any_monitor_may_push() -> None:
    got = outcome(replace(BEAM_LOST, monitor_ref=Y), seen(REGISTERED), AS_MONITOR)
    assert got == [observed(SupplyMarkedUnavailable, SupplyStatus.UNKNOWN, ref=Y), heard(ref=Y)]


def test_an_earlier_source_time_is_outdated() -> None:
    later = seen(WATCHED, MARKED_AVAILABLE, last=NOW + timedelta(seconds=1))
    assert outcome(BEAM_LOST, later, AS_MONITOR) == SupplyObservationOutdatedError


def test_the_same_source_time_is_not_outdated() -> None:
    got = outcome(BEAM_LOST, seen(WATCHED, MARKED_AVAILABLE, last=NOW), AS_MONITOR)
    assert not isinstance(got, type)


def test_a_source_clock_may_be_a_minute_ahead_and_no_more() -> None:
    minute = replace(BEAM_LOST, observed_at=NOW + timedelta(seconds=60))
    assert not isinstance(outcome(minute, seen(WATCHED), AS_MONITOR), type)
    future = replace(BEAM_LOST, observed_at=FUTURE)
    assert outcome(future, seen(WATCHED), AS_MONITOR) == InvalidSupplyObservedAtError


BAD_REF = MonitorRef(source_kind="Channel Access", source_id="a")
AS_PERSON = replace(AS_MONITOR, principal_kind=ActorKind.HUMAN)
PROMOTED = replace(BEAM_LOST, observed_status=SupplyStatus.AVAILABLE)


@pytest.mark.parametrize(
    ("command", "occasion", "refusal"),
    [
        (replace(PROMOTED, monitor_ref=BAD_REF), AS_PERSON, InvalidMonitorRefError),
        (replace(PROMOTED, observed_at=FUTURE), AS_PERSON, InvalidSupplyObservedAtError),
        (replace(PROMOTED, reason=" "), AS_PERSON, InvalidSupplyReasonError),
        (PROMOTED, AS_PERSON, SupplyMonitorTriggerRequiredError),
        (PROMOTED, AS_MONITOR, SupplyCannotObserveError),
    ],
)
def test_values_are_refused_before_the_caller_and_the_caller_before_the_state(
    command: ObserveSupplyStatus, occasion: Occasion, refusal: type
) -> None:
    everything_wrong = seen(WATCHED, ASSIGNED_Y, DEREGISTERED, last=FUTURE)
    assert outcome(command, everything_wrong, occasion) == refusal


def test_the_source_is_judged_before_its_time_and_its_time_before_the_target() -> None:
    assert outcome(PROMOTED, seen(WATCHED, ASSIGNED_Y, last=FUTURE), AS_MONITOR) == SupplySourceMismatchError
    assert outcome(PROMOTED, seen(WATCHED, last=FUTURE), AS_MONITOR) == SupplyObservationOutdatedError
