"""Enclosure: registration, sources, decommissioning, and its status grid."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from beamwright.contexts.enclosure.enclosure import (
    DecommissionEnclosure,
    EnclosureLifecycle,
    EnclosurePermitSourceAssigned,
    EnclosureRegistered,
    InvalidEnclosureNameError,
    InvalidEnclosureReasonError,
    InvalidPermitSourceError,
    PermitSource,
    PermitStatus,
    enclosures,
)
from beamwright.contexts.enclosure.enclosure_observation import (
    AssignEnclosurePermitSource,
    ObservedEnclosure,
    ObserveEnclosureStatus,
)
from beamwright.contexts.enclosure.enclosure_registration import (
    EnclosureFacilityNotActiveError,
    RegisterEnclosure,
)
from beamwright.contexts.federation.facility import Facility, FacilityKind, FacilityStatus
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.observing import SourceForgotten
from beamwright.kernel.value import replace
from tests.contexts.enclosure.examples import (
    AS_MONITOR,
    ASSIGNED_Y,
    DECOMMISSIONED,
    ENCLOSURE,
    PERMITTED,
    REGISTERED,
    SOURCE_X,
    SOURCE_Y,
    WATCHED,
    X,
)
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, given, outcome

APS = Facility(
    id=ENCLOSURE,
    code="aps",
    display_name="APS",
    kind=FacilityKind.SITE,
    parent_id=None,
    base_url=None,
    peer_actor_id=None,
)


def test_a_new_enclosure_is_active_and_its_permit_unknown() -> None:
    got = outcome(RegisterEnclosure(name=" Station A ", facility_code="aps", permit_source=SOURCE_X), APS)
    assert got == [
        EnclosureRegistered(
            enclosure_id=NEW_ID,
            occurred_at=NOW,
            name="Station A",
            facility_code="aps",
            permit_source=SOURCE_X,
        )
    ]
    enclosure = given(enclosures, REGISTERED)
    assert (enclosure.lifecycle, enclosure.permit_status, enclosure.permit_since) == (
        EnclosureLifecycle.ACTIVE,
        PermitStatus.UNKNOWN,
        NOW,
    )


@pytest.mark.parametrize("name", [" ", "x" * 201, "a\x00b"])
def test_register_refuses_a_bad_name(name: str) -> None:
    assert outcome(RegisterEnclosure(name=name, facility_code="aps"), APS) == InvalidEnclosureNameError


@pytest.mark.parametrize(
    "facility",
    [
        replace(APS, status=FacilityStatus.DECOMMISSIONED),
        replace(APS, kind=FacilityKind.PEER),
    ],
)
def test_register_needs_a_facility_in_use(facility: Facility) -> None:
    got = outcome(RegisterEnclosure(name="A", facility_code="aps"), facility)
    assert got == EnclosureFacilityNotActiveError


def test_register_refuses_values_before_the_facility() -> None:
    peer = replace(APS, kind=FacilityKind.PEER)
    assert outcome(RegisterEnclosure(name=" ", facility_code="aps"), peer) == InvalidEnclosureNameError


@pytest.mark.parametrize(
    "source",
    [
        PermitSource(source_kind="Channel Access", source_id="a"),
        PermitSource(source_kind="push", source_id=" "),
        PermitSource(source_kind="push", source_id="x" * 201),
        PermitSource(source_kind="push", source_id="a", permitted_value=0),
        PermitSource(source_kind="push", source_id="a", permitted_value="OK", not_permitted_value="OK"),
        PermitSource(source_kind="push", source_id="a", permitted_value=""),
        PermitSource(source_kind="push", source_id="a", permitted_value="x" * 201),
        PermitSource(source_kind="push", source_id="a", permitted_value=2**53 + 1),
    ],
)
def test_a_malformed_source_is_refused(source: PermitSource) -> None:
    register = RegisterEnclosure(name="A", facility_code="aps", permit_source=source)
    assign = AssignEnclosurePermitSource(enclosure_id=ENCLOSURE, permit_source=source, reason="r")
    assert outcome(register, APS) == InvalidPermitSourceError
    assert outcome(assign, given(enclosures, REGISTERED)) == InvalidPermitSourceError


def test_text_and_number_are_different_values() -> None:
    source = PermitSource(source_kind="push", source_id="a", permitted_value="0", not_permitted_value=0)
    got = outcome(RegisterEnclosure(name="A", facility_code="aps", permit_source=source), APS)
    assert not isinstance(got, type)


def test_name_is_claimed_within_its_facility_until_decommissioned() -> None:
    [claim] = enclosures.claims(given(enclosures, REGISTERED))
    assert (claim.kind, claim.key) == ("enclosure-name", "aps/station a")
    assert enclosures.claims(given(enclosures, REGISTERED, DECOMMISSIONED)) == []


def test_an_enclosure_belongs_to_its_facility() -> None:
    assert enclosures.belongs(given(enclosures, REGISTERED)) == Belonging(facility_code="aps")


def test_another_source_makes_the_permit_unknown_and_forgets_the_contact() -> None:
    command = AssignEnclosurePermitSource(
        enclosure_id=ENCLOSURE, permit_source=SOURCE_Y, reason=" new interlock "
    )
    got = outcome(command, given(enclosures, WATCHED, PERMITTED))
    assert got == [ASSIGNED_Y, SourceForgotten(aggregate="Enclosure", id=ENCLOSURE)]
    enclosure = given(enclosures, WATCHED, PERMITTED, ASSIGNED_Y)
    assert (enclosure.permit_status, enclosure.permit_reason) == (PermitStatus.UNKNOWN, "new interlock")
    assert (enclosure.observed_at, enclosure.permit_source) == (None, SOURCE_Y)


def test_a_cleared_source_makes_the_permit_unknown() -> None:
    cleared = EnclosurePermitSourceAssigned(
        enclosure_id=ENCLOSURE, occurred_at=NOW, permit_source=None, reason="r"
    )
    enclosure = given(enclosures, WATCHED, PERMITTED, cleared)
    assert (enclosure.permit_status, enclosure.permit_source) == (PermitStatus.UNKNOWN, None)


def test_a_source_assigned_to_an_unknown_permit_is_no_change_of_it() -> None:
    later = replace(ASSIGNED_Y, occurred_at=NOW + timedelta(hours=1))
    enclosure = given(enclosures, WATCHED, later)
    assert (enclosure.permit_since, enclosure.permit_reason) == (NOW, None)


def test_assigning_the_same_source_is_a_no_op() -> None:
    command = AssignEnclosurePermitSource(enclosure_id=ENCLOSURE, permit_source=SOURCE_X, reason="r")
    assert outcome(command, given(enclosures, WATCHED, PERMITTED)) == []


def test_decommissioning_keeps_the_permit_as_audit() -> None:
    enclosure = given(enclosures, WATCHED, PERMITTED, DECOMMISSIONED)
    assert (enclosure.permit_status, enclosure.decommissioned_at) == (PermitStatus.PERMITTED, NOW)


@pytest.mark.parametrize(
    "command",
    [
        AssignEnclosurePermitSource(enclosure_id=ENCLOSURE, reason=" "),
        DecommissionEnclosure(enclosure_id=ENCLOSURE, reason=" "),
    ],
)
def test_a_reason_is_needed(command: AssignEnclosurePermitSource | DecommissionEnclosure) -> None:
    assert outcome(command, given(enclosures, WATCHED)) == InvalidEnclosureReasonError


LIFECYCLE_GRID = """
                  assign-permit-source   decommission
Active            Active                 Decommissioned
Decommissioned    -                      -
"""


def test_lifecycle_grid() -> None:
    check_grid(
        LIFECYCLE_GRID,
        enclosures,
        status=lambda enclosure: enclosure.lifecycle,
        reach={"Active": [REGISTERED], "Decommissioned": [REGISTERED, DECOMMISSIONED]},
        verbs={
            "assign-permit-source": AssignEnclosurePermitSource(
                enclosure_id=ENCLOSURE, permit_source=SOURCE_Y, reason="r"
            ),
            "decommission": DecommissionEnclosure(enclosure_id=ENCLOSURE, reason="r"),
        },
    )


@pytest.mark.parametrize("history", [[REGISTERED], [REGISTERED, PERMITTED]])
@pytest.mark.parametrize("status", list(PermitStatus))
def test_observation_leads_from_any_permit_to_any_other_while_active(
    history: Sequence[Event], status: PermitStatus
) -> None:
    command = ObserveEnclosureStatus(
        enclosure_id=ENCLOSURE, observed_status=status, monitor_ref=X, observed_at=NOW, reason="r"
    )
    seen = ObservedEnclosure(enclosure=given(enclosures, *history), contact=None)
    got = outcome(command, seen, AS_MONITOR)
    assert not isinstance(got, type)
    events = [each for each in got if isinstance(each, Event)]
    assert given(enclosures, *history, *events).permit_status == status
