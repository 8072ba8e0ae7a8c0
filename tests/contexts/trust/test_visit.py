"""Visit: its rules, gates and status grid."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from beamwright.contexts.access.actor import Actor, ActorNotFoundError
from beamwright.contexts.federation.facility import (
    FacilityDecommissioned,
    FacilityKind,
    FacilityNotFoundError,
)
from beamwright.contexts.trust.policy import Policy, PolicyNotFoundError, PolicyStatus, Principals
from beamwright.contexts.trust.presence import (
    DismissVisitMember,
)
from beamwright.contexts.trust.surface import (
    ControlBasis,
    ControlReleaseCause,
    SurfaceControlReleased,
    SurfaceControlTaken,
    SurfaceNotFoundError,
    SurfaceRetired,
    surfaces,
)
from beamwright.contexts.trust.visit import (
    AssignVisitExternalRef,
    HoldVisit,
    InvalidVisitCodeError,
    InvalidVisitExternalRefError,
    InvalidVisitMembersError,
    InvalidVisitPlannedPeriodError,
    InvalidVisitReasonError,
    InvalidVisitTitleError,
    RemoveVisitMember,
    RescheduleVisit,
    Visit,
    VisitCannotRemoveMemberError,
    VisitCompleted,
    VisitExternalRefAssigned,
    VisitMemberAdded,
    VisitMemberNotPresentError,
    VisitMemberRemoved,
    VisitNotFoundError,
    VisitPresenceClosed,
    VisitRegistered,
    VisitRescheduled,
    VisitResumed,
    VisitType,
    visits,
)
from beamwright.contexts.trust.visit_gates import (
    VisitFacilityNotActiveError,
    VisitParentEndedError,
    VisitPolicyNotActiveError,
    VisitSurfaceNotActiveError,
    VisitSurroundings,
)
from beamwright.contexts.trust.visit_moves import (
    AbortVisit,
    CancelVisit,
    CompleteVisit,
    EndingVisit,
    GatedVisit,
    RecordVisitArrival,
    ResumeVisit,
    StartVisit,
    VisitHasActiveChildrenError,
    VoidVisit,
)
from beamwright.contexts.trust.visit_reads import VisitExtras, due_at, visit_extras
from beamwright.contexts.trust.visit_registration import (
    AddVisitMember,
    NewExternalRef,
    RegisterVisit,
    VisitCannotAddMemberError,
    VisitMemberAlreadyPresentError,
    VisitParentMismatchedSurfaceError,
)
from beamwright.kernel.event import Belonging
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.roles import ActorKind, VisitRole, VisitStatus
from beamwright.kernel.value import replace
from tests.contexts.trust.examples import (
    ANN,
    BEN,
    FACILITY,
    IN_PROCESS_DEFINED,
    OTHER_VISIT,
    SURFACE,
    TOMORROW,
    VISIT,
    SmallWorld,
    around,
    check_columns,
    completed,
    entered,
    facility,
    history,
    surface,
    visit,
)
from tests.rules import NEW_ID, NOW, given, outcome

EVE = UUID(int=13)
POLICY = UUID(int=40)
LATER = NOW + timedelta(hours=1)
ENDED = [VisitStatus.COMPLETED, VisitStatus.CANCELLED, VisitStatus.ABORTED, VisitStatus.VOIDED]
RETIRED = SurfaceRetired(surface_id=SURFACE, occurred_at=NOW, reason="moved")
REGISTER = RegisterVisit(
    code="cm12345-1",
    title=" Bread ",
    facility_code="home",
    surface_id=SURFACE,
    type=VisitType.USER,
    planned_start_at=NOW,
    planned_end_at=TOMORROW,
    members={ANN: VisitRole.LEAD},
    external_refs={"proposal": NewExternalRef(value="MX-1", authority="User office")},
)


def policy(status: PolicyStatus = PolicyStatus.ACTIVE) -> Policy:
    return Policy(id=POLICY, name="P", description=None, principals=Principals(), grants={}, status=status)


def test_register_plans_a_visit() -> None:
    assert outcome(REGISTER, around()) == [
        VisitRegistered(
            visit_id=NEW_ID,
            occurred_at=NOW,
            code="cm12345-1",
            title="Bread",
            facility_code="home",
            surface_id=SURFACE,
            policy_id=None,
            type=VisitType.USER,
            planned_start_at=NOW,
            planned_end_at=TOMORROW,
            parent_id=None,
            members={ANN: VisitRole.LEAD},
            external_refs={"proposal": ExternalRef(value="MX-1", authority="User office", assigned_at=NOW)},
        )
    ]


CROWD = {UUID(int=1000 + n): VisitRole.MEMBER for n in range(201)}


def refs(scheme: str = "proposal", value: str = "MX-1", authority: str = "Office") -> Any:
    return {scheme: NewExternalRef(value=value, authority=authority)}


BAD_VALUES = [
    (replace(REGISTER, code="-1", title=" "), InvalidVisitCodeError),
    (replace(REGISTER, code="x" * 51), InvalidVisitCodeError),
    (replace(REGISTER, title=" ", planned_end_at=NOW), InvalidVisitTitleError),
    (replace(REGISTER, planned_end_at=NOW, members=CROWD), InvalidVisitPlannedPeriodError),
    (replace(REGISTER, members=CROWD, external_refs=refs("No!")), InvalidVisitMembersError),
    (replace(REGISTER, external_refs=refs("No!")), InvalidVisitExternalRefError),
    (replace(REGISTER, external_refs=refs(value=" ")), InvalidVisitExternalRefError),
    (replace(REGISTER, external_refs=refs(value="Proposal:MX-1")), InvalidVisitExternalRefError),
    (replace(REGISTER, external_refs=refs(authority="x" * 201)), InvalidVisitExternalRefError),
    (
        replace(REGISTER, external_refs={f"s-{n}": refs()["proposal"] for n in range(21)}),
        InvalidVisitExternalRefError,
    ),
]


@pytest.mark.parametrize(("command", "refusal"), BAD_VALUES)
def test_register_refuses_bad_values_in_order(command: RegisterVisit, refusal: type) -> None:
    assert outcome(command, around()) == refusal


@pytest.mark.parametrize(("command", "refusal"), BAD_VALUES)
def test_register_refuses_bad_values_before_it_looks_anything_up(
    command: RegisterVisit, refusal: type[Exception]
) -> None:
    world: Any = SmallWorld()
    with pytest.raises(refusal):
        asyncio.run(command.gather(world))


def test_register_accepts_two_hundred_members() -> None:
    assert isinstance(outcome(replace(REGISTER, members=dict(list(CROWD.items())[:200])), around()), list)


EVERYTHING_NAMED = replace(REGISTER, policy_id=POLICY, parent_id=OTHER_VISIT)
REFERENCES = [facility(), surface(), policy(), visit(id=OTHER_VISIT), Actor(id=ANN, kind=ActorKind.HUMAN)]


@pytest.mark.parametrize(
    ("known", "refusal"),
    [
        (0, FacilityNotFoundError),
        (1, SurfaceNotFoundError),
        (2, PolicyNotFoundError),
        (3, VisitNotFoundError),
        (4, ActorNotFoundError),
    ],
)
def test_register_looks_up_what_it_names_in_order(known: int, refusal: type[Exception]) -> None:
    world: Any = SmallWorld(*REFERENCES[:known])
    with pytest.raises(refusal):
        asyncio.run(EVERYTHING_NAMED.gather(world))


def test_register_sees_all_that_it_names() -> None:
    world: Any = SmallWorld(*REFERENCES)
    assert asyncio.run(EVERYTHING_NAMED.gather(world)) == VisitSurroundings(
        facility=facility(), surface=surface(), policy=policy(), parent=visit(id=OTHER_VISIT)
    )


DECOMMISSIONED = facility(
    FacilityKind.AREA, FacilityDecommissioned(facility_id=FACILITY, occurred_at=NOW, reason="closed")
)
ELSEWHERE = replace(visit(id=OTHER_VISIT), surface_id=UUID(int=99))
ENDED_ELSEWHERE = replace(ELSEWHERE, status=VisitStatus.ABORTED)
GATES: list[tuple[VisitSurroundings, type]] = [
    (replace(around(), facility=DECOMMISSIONED, surface=surface(RETIRED)), VisitFacilityNotActiveError),
    (replace(around(), facility=facility(FacilityKind.PEER)), VisitFacilityNotActiveError),
    (
        replace(around(), surface=surface(RETIRED), policy=policy(PolicyStatus.REVOKED)),
        VisitSurfaceNotActiveError,
    ),
    (replace(around(), surface=given(surfaces, IN_PROCESS_DEFINED)), VisitSurfaceNotActiveError),
    (
        replace(around(), policy=policy(PolicyStatus.SUSPENDED), parent=ENDED_ELSEWHERE),
        VisitPolicyNotActiveError,
    ),
    (replace(around(), policy=policy(PolicyStatus.REVOKED)), VisitPolicyNotActiveError),
    *((replace(around(), parent=visit(status, OTHER_VISIT)), VisitParentEndedError) for status in ENDED),
]


@pytest.mark.parametrize(("seen", "refusal"), GATES)
def test_register_is_gated_in_order(seen: VisitSurroundings, refusal: type) -> None:
    assert outcome(REGISTER, seen) == refusal


@pytest.mark.parametrize("parent", [ELSEWHERE, ENDED_ELSEWHERE])
def test_register_refuses_a_parent_on_another_surface_before_one_that_ended(parent: Visit) -> None:
    assert outcome(REGISTER, replace(around(), parent=parent)) == VisitParentMismatchedSurfaceError


@pytest.mark.parametrize("kind", [FacilityKind.SITE, FacilityKind.AREA])
def test_register_is_let_through_by_an_active_site_or_area(kind: FacilityKind) -> None:
    seen = VisitSurroundings(
        facility=facility(kind), surface=surface(), policy=policy(), parent=visit(id=OTHER_VISIT)
    )
    assert isinstance(outcome(EVERYTHING_NAMED, seen), list)


@pytest.mark.parametrize(("seen", "refusal"), GATES)
@pytest.mark.parametrize(
    ("command", "status"),
    [
        (RecordVisitArrival(visit_id=VISIT), VisitStatus.PLANNED),
        (StartVisit(visit_id=VISIT), VisitStatus.ARRIVED),
        (ResumeVisit(visit_id=VISIT), VisitStatus.ON_HOLD),
    ],
)
def test_arrival_start_and_resumption_are_gated(
    command: Any, status: VisitStatus, seen: VisitSurroundings, refusal: type
) -> None:
    assert outcome(command, GatedVisit(visit=visit(status), around=seen)) == refusal


def test_the_status_is_refused_before_the_gates() -> None:
    shut = replace(around(), facility=DECOMMISSIONED)
    got: Any = outcome(StartVisit(visit_id=VISIT), GatedVisit(visit=visit(), around=shut))
    assert got.__name__ == "VisitCannotStartError"


def test_a_gated_move_sees_what_the_visit_depends_on() -> None:
    child = replace(visit(parent_id=OTHER_VISIT), policy_id=POLICY)
    world: Any = SmallWorld(child, *REFERENCES)
    seen = asyncio.run(ResumeVisit(visit_id=VISIT).gather(world))
    assert seen.around == VisitSurroundings(
        facility=facility(), surface=surface(), policy=policy(), parent=visit(id=OTHER_VISIT)
    )


GRID = """
            record-arrival  start       hold    resume      complete   cancel     abort    void    reschedule
Planned     Arrived         -           -       -           -          Cancelled  -        Voided  Planned
Arrived     -               InProgress  -       -           -          Cancelled  -        Voided  Arrived
InProgress  -               -           OnHold  -           Completed  -          Aborted  Voided  InProgress
OnHold      -               -           -       InProgress  Completed  -          Aborted  Voided  OnHold
Completed   -               -           -       -           -          -          -        -       -
Cancelled   -               -           -       -           -          -          -        -       -
Aborted     -               -           -       -           -          -          -        -       -
Voided      -               -           -       -           -          -          -        -       -
"""


def itself(state: Visit) -> Visit:
    return state


def gated(state: Visit) -> GatedVisit:
    return GatedVisit(visit=state, around=around())


def ending(state: Visit) -> EndingVisit:
    return EndingVisit(visit=state, surface=surface())


RESCHEDULE = RescheduleVisit(
    visit_id=VISIT, planned_start_at=LATER, planned_end_at=TOMORROW, reason="beam is late"
)


def test_status_grid() -> None:
    check_columns(
        GRID,
        visits,
        {status.value: history(status) for status in VisitStatus},
        {
            "record-arrival": (RecordVisitArrival(visit_id=VISIT), gated),
            "start": (StartVisit(visit_id=VISIT), gated),
            "hold": (HoldVisit(visit_id=VISIT, reason="beam is off"), itself),
            "resume": (ResumeVisit(visit_id=VISIT), gated),
            "complete": (CompleteVisit(visit_id=VISIT), ending),
            "cancel": (CancelVisit(visit_id=VISIT, reason="ill"), ending),
            "abort": (AbortVisit(visit_id=VISIT, reason="flood"), ending),
            "void": (VoidVisit(visit_id=VISIT, reason="twice"), ending),
            "reschedule": (RESCHEDULE, itself),
        },
    )


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        (HoldVisit(visit_id=VISIT, reason=" "), visit()),
        (replace(RESCHEDULE, reason=" "), visit()),
        (CancelVisit(visit_id=VISIT, reason=" "), ending(visit())),
        (AbortVisit(visit_id=VISIT, reason="x" * 501), ending(visit())),
        (VoidVisit(visit_id=VISIT, reason=" "), ending(visit())),
        (RemoveVisitMember(visit_id=VISIT, actor_id=EVE, reason=" "), visit()),
        (DismissVisitMember(visit_id=VISIT, actor_id=EVE, reason=" "), visit()),
    ],
)
def test_a_reason_is_needed_before_anything_else(command: Any, seen: Any) -> None:
    assert outcome(command, seen) == InvalidVisitReasonError


def test_reschedule_moves_the_planned_period() -> None:
    assert outcome(RESCHEDULE, visit()) == [
        VisitRescheduled(
            visit_id=VISIT,
            occurred_at=NOW,
            planned_start_at=LATER,
            planned_end_at=TOMORROW,
            reason="beam is late",
        )
    ]


def test_reschedule_to_the_same_period_is_a_no_op() -> None:
    assert outcome(replace(RESCHEDULE, planned_start_at=NOW), visit()) == []


def test_reschedule_refuses_an_end_before_the_start() -> None:
    got = outcome(replace(RESCHEDULE, planned_end_at=LATER), visit(VisitStatus.VOIDED))
    assert got == InvalidVisitPlannedPeriodError


def test_the_last_reason_is_kept_until_the_next_move() -> None:
    assert visit(VisitStatus.ON_HOLD).last_status_reason == "beam is off"
    resumed = given(visits, *history(VisitStatus.ON_HOLD), VisitResumed(visit_id=VISIT, occurred_at=NOW))
    assert resumed.last_status_reason is None


def test_the_times_of_a_visit_come_from_its_events() -> None:
    done = visit(VisitStatus.COMPLETED)
    assert (done.arrived_at, done.started_at, done.ended_at) == (NOW, NOW, NOW)
    assert visit(VisitStatus.PLANNED).arrived_at is None


def test_complete_waits_for_the_visits_within() -> None:
    seen = EndingVisit(visit=visit(), surface=surface(), children=(visit(VisitStatus.PLANNED, OTHER_VISIT),))
    assert outcome(CompleteVisit(visit_id=VISIT), seen) == VisitHasActiveChildrenError


def test_complete_finds_the_visits_within() -> None:
    child = visit(VisitStatus.CANCELLED, OTHER_VISIT, VISIT)
    world: Any = SmallWorld(visit(), surface(), child)
    seen = asyncio.run(CompleteVisit(visit_id=VISIT).gather(world))
    assert seen.children == (child,)
    assert outcome(CompleteVisit(visit_id=VISIT), seen) == [completed()]


def taken(visit_id: UUID = VISIT, actor_id: UUID = ANN) -> SurfaceControlTaken:
    return SurfaceControlTaken(
        surface_id=SURFACE,
        occurred_at=NOW,
        visit_id=visit_id,
        actor_id=actor_id,
        from_visit_id=None,
        basis=ControlBasis.FREE,
    )


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (CompleteVisit(visit_id=VISIT), VisitStatus.IN_PROGRESS),
        (CancelVisit(visit_id=VISIT, reason="ill"), VisitStatus.ARRIVED),
        (AbortVisit(visit_id=VISIT, reason="flood"), VisitStatus.ON_HOLD),
        (VoidVisit(visit_id=VISIT, reason="twice"), VisitStatus.ARRIVED),
    ],
)
def test_an_end_releases_the_control_that_the_visit_holds(command: Any, status: VisitStatus) -> None:
    got: Any = outcome(command, EndingVisit(visit=visit(status), surface=surface(taken(actor_id=BEN))))
    assert got[1:] == [
        SurfaceControlReleased(
            surface_id=SURFACE,
            occurred_at=NOW,
            visit_id=VISIT,
            actor_id=BEN,
            cause=ControlReleaseCause.VISIT_ENDED,
        )
    ]


def test_an_end_leaves_the_control_of_another_visit() -> None:
    seen = EndingVisit(visit=visit(), surface=surface(taken(OTHER_VISIT)))
    assert outcome(CompleteVisit(visit_id=VISIT), seen) == [completed()]


def test_an_end_closes_every_open_presence() -> None:
    left = VisitPresenceClosed(visit_id=VISIT, occurred_at=NOW, actor_id=ANN)
    over = VisitCompleted(visit_id=VISIT, occurred_at=LATER)
    done = given(
        visits, *history(VisitStatus.IN_PROGRESS), entered(ANN), left, entered(ANN), entered(BEN), over
    )
    assert [entry.closed_at for entry in done.presence] == [NOW, LATER, LATER]


def test_add_makes_a_member() -> None:
    got = outcome(AddVisitMember(visit_id=VISIT, actor_id=EVE, role=VisitRole.SUPPORT), visit())
    added = VisitMemberAdded(visit_id=VISIT, occurred_at=NOW, actor_id=EVE, role=VisitRole.SUPPORT)
    assert got == [added]
    assert visits.evolve(visit(), added).members[EVE] is VisitRole.SUPPORT


def test_add_refuses_who_is_a_member_already() -> None:
    command = AddVisitMember(visit_id=VISIT, actor_id=BEN, role=VisitRole.LEAD)
    assert outcome(command, visit()) == VisitMemberAlreadyPresentError


@pytest.mark.parametrize("status", ENDED)
def test_add_refuses_a_visit_that_ended(status: VisitStatus) -> None:
    command = AddVisitMember(visit_id=VISIT, actor_id=BEN, role=VisitRole.LEAD)
    assert outcome(command, visit(status)) == VisitCannotAddMemberError


def test_add_refuses_the_member_after_the_two_hundredth() -> None:
    full = replace(visit(), members=dict(list(CROWD.items())[:200]))
    command = AddVisitMember(visit_id=VISIT, actor_id=EVE, role=VisitRole.MEMBER)
    assert outcome(command, full) == VisitCannotAddMemberError


def test_add_refuses_an_unknown_actor() -> None:
    world: Any = SmallWorld(visit(VisitStatus.VOIDED))
    with pytest.raises(ActorNotFoundError):
        asyncio.run(AddVisitMember(visit_id=VISIT, actor_id=EVE, role=VisitRole.LEAD).gather(world))


def test_remove_takes_a_member_out_and_closes_its_presence() -> None:
    present = given(visits, *history(VisitStatus.IN_PROGRESS), entered(BEN), entered(ANN))
    got: Any = outcome(RemoveVisitMember(visit_id=VISIT, actor_id=BEN, reason="left"), present)
    assert got == [VisitMemberRemoved(visit_id=VISIT, occurred_at=NOW, actor_id=BEN, reason="left")]
    after = visits.evolve(present, got[0])
    assert (set(after.members), after.open_presence(BEN)) == ({ANN}, None)
    assert after.open_presence(ANN) is not None


def test_remove_refuses_who_is_no_member() -> None:
    command = RemoveVisitMember(visit_id=VISIT, actor_id=EVE, reason="left")
    assert outcome(command, visit()) == VisitMemberNotPresentError


@pytest.mark.parametrize("status", ENDED)
def test_remove_refuses_a_visit_that_ended(status: VisitStatus) -> None:
    command = RemoveVisitMember(visit_id=VISIT, actor_id=EVE, reason="left")
    assert outcome(command, visit(status)) == VisitCannotRemoveMemberError


ASSIGN = AssignVisitExternalRef(visit_id=VISIT, scheme="proposal", value=" MX-1 ", authority="Office")
ASSIGNED = VisitExternalRefAssigned(
    visit_id=VISIT, occurred_at=NOW, scheme="proposal", value="MX-1", authority="Office"
)


@pytest.mark.parametrize("status", list(VisitStatus))
def test_an_external_reference_is_assigned_in_any_status(status: VisitStatus) -> None:
    assert outcome(ASSIGN, visit(status)) == [ASSIGNED]


def test_assigning_the_same_reference_again_is_a_no_op() -> None:
    assert outcome(ASSIGN, visits.evolve(visit(), ASSIGNED)) == []


def test_another_value_replaces_the_reference() -> None:
    after = visits.evolve(visit(), ASSIGNED)
    assert outcome(replace(ASSIGN, value="MX-2"), after) == [replace(ASSIGNED, value="MX-2")]


@pytest.mark.parametrize(
    "command", [replace(ASSIGN, scheme="A b"), replace(ASSIGN, value=" "), replace(ASSIGN, authority=" ")]
)
def test_a_malformed_reference_is_refused(command: AssignVisitExternalRef) -> None:
    assert outcome(command, visit()) == InvalidVisitExternalRefError


def test_a_code_is_claimed_for_ever_within_its_facility() -> None:
    assert [claim.key for claim in visits.claims(visit())] == ["home/cm12345-30"]
    assert visits.claims(visit(VisitStatus.VOIDED)) == visits.claims(visit())


def test_a_visit_belongs_to_its_facility_and_itself() -> None:
    assert visits.belongs(visit()) == Belonging(facility_code="home", visit_ids=frozenset({VISIT}))


def test_a_registered_visit_survives_storage() -> None:
    event = history(VisitStatus.PLANNED)[0]
    assert visits.decoder.decode(msgspec.json.encode(event)) == event


@pytest.mark.parametrize(
    ("status", "after", "overdue"),
    [
        (VisitStatus.IN_PROGRESS, timedelta(0), False),
        (VisitStatus.IN_PROGRESS, timedelta(seconds=1), True),
        (VisitStatus.COMPLETED, timedelta(seconds=1), False),
    ],
)
def test_a_visit_is_overdue_past_its_planned_end(
    status: VisitStatus, after: timedelta, overdue: bool
) -> None:
    world: Any = SmallWorld(surface(), now=TOMORROW + after)
    got = asyncio.run(visit_extras(world, [visit(status)]))
    assert got == [VisitExtras(overdue=overdue, controls_surface=False)]


def test_a_view_says_which_visit_controls_the_surface() -> None:
    world: Any = SmallWorld(surface(taken()))
    got = asyncio.run(visit_extras(world, [visit(), visit(id=OTHER_VISIT)]))
    assert [each.controls_surface for each in got] == [True, False]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("member_id", [ANN, BEN]),
        ("external_scheme", ["proposal"]),
        ("external_value", ["MX-1"]),
        ("planned_from", TOMORROW),
        ("planned_until", NOW),
        ("overdue", TOMORROW),
    ],
)
def test_visits_are_filtered_by(name: str, column: object) -> None:
    of: Mapping[str, Any] = {each.name: each.of for each in visits.listing.filters}
    assert of[name](visits.evolve(visit(), ASSIGNED)) == column


def test_a_visit_that_ended_is_never_due() -> None:
    assert [due_at(visit(status)) for status in ENDED] == [None] * 4
