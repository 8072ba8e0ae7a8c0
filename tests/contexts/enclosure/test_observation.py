"""Observing enclosures: who may, from which source, in which order of time, and what is written."""

from datetime import datetime, timedelta

import pytest

from beamwright.contexts.enclosure.enclosure import (
    EnclosureCannotObserveError,
    InvalidEnclosureReasonError,
    PermitStatus,
    enclosures,
)
from beamwright.contexts.enclosure.enclosure_observation import (
    EnclosureMonitorTriggerRequiredError,
    EnclosureObservationOutdatedError,
    EnclosureSourceMismatchError,
    InvalidEnclosureObservedAtError,
    ObservedEnclosure,
    ObserveEnclosureStatus,
)
from beamwright.kernel.event import Event
from beamwright.kernel.observing import Contact, InvalidMonitorRefError, MonitorRef, SourceHeard
from beamwright.kernel.operation import Occasion
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import replace
from tests.contexts.enclosure.examples import (
    AS_MONITOR,
    ASSIGNED_Y,
    DECOMMISSIONED,
    ENCLOSURE,
    PERMITTED,
    REGISTERED,
    WATCHED,
    X,
    Y,
    observed,
)
from tests.rules import NOW, given, outcome

PERMIT = ObserveEnclosureStatus(
    enclosure_id=ENCLOSURE,
    observed_status=PermitStatus.PERMITTED,
    monitor_ref=X,
    observed_at=NOW,
    reason=" source reported 1 ",
)
LOST = replace(PERMIT, observed_status=PermitStatus.UNKNOWN, observed_at=None, reason="contact lost")
FUTURE = NOW + timedelta(seconds=61)


def seen(*history: Event, last: datetime | None = None) -> ObservedEnclosure:
    """The enclosure after `history`, its source last heard with the time `last`."""
    contact = Contact(connected=True, last_contact_at=NOW, last_observed_at=last) if last else None
    return ObservedEnclosure(enclosure=given(enclosures, *history), contact=contact)


def heard(at: datetime | None, ref: MonitorRef = X) -> SourceHeard:
    return SourceHeard(
        aggregate="Enclosure",
        id=ENCLOSURE,
        monitor_ref=ref,
        heard_at=NOW,
        observed_at=at,
        connected=at is not None,
    )


def test_a_changed_status_is_recorded_with_its_source_and_renews_contact() -> None:
    assert outcome(PERMIT, seen(WATCHED), AS_MONITOR) == [PERMITTED, heard(NOW)]


def test_the_fold_keeps_what_stands_behind_the_status() -> None:
    enclosure = given(enclosures, WATCHED, PERMITTED)
    assert (enclosure.permit_status, enclosure.permit_reason) == (PermitStatus.PERMITTED, "source reported 1")
    assert (enclosure.permit_since, enclosure.observed_at, enclosure.last_monitor_ref) == (NOW, NOW, X)


def test_the_same_status_appends_nothing_and_renews_contact() -> None:
    assert outcome(PERMIT, seen(WATCHED, PERMITTED, last=NOW), AS_MONITOR) == [heard(NOW)]


def test_an_unknown_without_source_time_says_that_contact_was_lost() -> None:
    lost = observed(PermitStatus.UNKNOWN, PermitStatus.PERMITTED, None, reason="contact lost")
    assert outcome(LOST, seen(WATCHED, PERMITTED, last=NOW), AS_MONITOR) == [lost, heard(None)]
    assert given(enclosures, WATCHED, PERMITTED, lost).observed_at is None


def test_an_unknown_with_source_time_is_contact() -> None:
    command = replace(LOST, observed_at=NOW)
    assert outcome(command, seen(WATCHED), AS_MONITOR) == [heard(NOW)]


def test_only_unknown_needs_no_source_time() -> None:
    command = replace(PERMIT, observed_at=None)
    assert outcome(command, seen(WATCHED), AS_MONITOR) == InvalidEnclosureObservedAtError


def test_a_source_clock_may_be_a_minute_ahead_and_no_more() -> None:
    minute = replace(PERMIT, observed_at=NOW + timedelta(seconds=60))
    assert not isinstance(outcome(minute, seen(WATCHED), AS_MONITOR), type)
    assert outcome(replace(PERMIT, observed_at=FUTURE), seen(WATCHED), AS_MONITOR) == (
        InvalidEnclosureObservedAtError
    )


@pytest.mark.parametrize("kind", [ActorKind.HUMAN, ActorKind.AGENT])
def test_neither_people_nor_agents_report_a_permit(kind: ActorKind) -> None:
    got = outcome(PERMIT, seen(WATCHED), replace(AS_MONITOR, principal_kind=kind))
    assert got == EnclosureMonitorTriggerRequiredError


@pytest.mark.parametrize("status", list(PermitStatus))
def test_a_decommissioned_enclosure_is_observed_no_more(status: PermitStatus) -> None:
    command = replace(PERMIT, observed_status=status)
    assert outcome(command, seen(WATCHED, DECOMMISSIONED), AS_MONITOR) == EnclosureCannotObserveError


def test_another_source_than_the_assigned_one_is_not_believed() -> None:
    assert outcome(PERMIT, seen(WATCHED, PERMITTED, ASSIGNED_Y), AS_MONITOR) == EnclosureSourceMismatchError


def test_without_an_assigned_source_any_monitor_may_push() -> None:
    command = replace(PERMIT, monitor_ref=Y)
    got = outcome(command, seen(REGISTERED), AS_MONITOR)
    assert got == [observed(PermitStatus.PERMITTED, ref=Y), heard(NOW, Y)]


@pytest.mark.parametrize("status", list(PermitStatus))
def test_an_earlier_source_time_is_outdated_whatever_its_status(status: PermitStatus) -> None:
    command = replace(PERMIT, observed_status=status)
    seen_later = seen(WATCHED, PERMITTED, last=NOW + timedelta(seconds=1))
    assert outcome(command, seen_later, AS_MONITOR) == EnclosureObservationOutdatedError


def test_an_old_source_time_is_believed_again_after_contact_was_lost() -> None:
    lost = observed(PermitStatus.UNKNOWN, PermitStatus.PERMITTED, None)
    hours_ago = replace(PERMIT, observed_at=NOW - timedelta(hours=5))
    again = replace(seen(WATCHED, PERMITTED, lost), contact=Contact(connected=False, last_contact_at=NOW))
    assert outcome(hours_ago, again, AS_MONITOR) == [
        observed(PermitStatus.PERMITTED, at=NOW - timedelta(hours=5)),
        heard(NOW - timedelta(hours=5)),
    ]


BAD_REF = replace(PERMIT, monitor_ref=MonitorRef(source_kind="Channel Access", source_id="a"))
ORDER = [
    (BAD_REF, AS_MONITOR, InvalidMonitorRefError),
    (replace(PERMIT, observed_at=FUTURE), AS_MONITOR, InvalidEnclosureObservedAtError),
    (replace(PERMIT, reason=" "), AS_MONITOR, InvalidEnclosureReasonError),
    (
        PERMIT,
        replace(AS_MONITOR, principal_kind=ActorKind.HUMAN),
        EnclosureMonitorTriggerRequiredError,
    ),
    (PERMIT, AS_MONITOR, EnclosureCannotObserveError),
]


@pytest.mark.parametrize(("command", "occasion", "refusal"), ORDER)
def test_values_are_refused_before_the_caller_and_the_caller_before_the_state(
    command: ObserveEnclosureStatus, occasion: Occasion, refusal: type
) -> None:
    everything_wrong = seen(WATCHED, ASSIGNED_Y, DECOMMISSIONED, last=FUTURE)
    assert outcome(command, everything_wrong, occasion) == refusal


def test_the_source_is_judged_before_its_time() -> None:
    assert outcome(PERMIT, seen(WATCHED, ASSIGNED_Y, last=FUTURE), AS_MONITOR) == EnclosureSourceMismatchError
