"""Control of a surface: who may take it, hand it over, give it up and seize it."""

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.trust.control import (
    ControlDesk,
    GiveSurfaceControl,
    InvalidSurfaceControlTimeoutError,
    RefuseSurfaceControl,
    ReleaseSurfaceControl,
    RequestSurfaceControl,
    SeizeSurfaceControl,
    TakeSurfaceControl,
    VisitCannotGiveControlError,
    VisitCannotRefuseControlError,
    VisitCannotReleaseControlError,
    VisitCannotRequestControlError,
    VisitCannotSeizeControlError,
    VisitCannotTakeControlError,
)
from beamwright.contexts.trust.control_reads import (
    GetSurfaceControl,
    SurfaceControl,
    SurfaceControlHolder,
    SurfaceControlRequest,
)
from beamwright.contexts.trust.surface import (
    ControlBasis,
    ControlReleaseCause,
    Surface,
    SurfaceControlGiven,
    SurfaceControlRefused,
    SurfaceControlReleased,
    SurfaceControlRequested,
    SurfaceControlSeized,
    SurfaceControlTaken,
    SurfaceRetired,
    surfaces,
)
from beamwright.contexts.trust.visit import InvalidVisitReasonError, Visit, visits
from beamwright.kernel.errors import DomainError
from beamwright.kernel.roles import VisitStatus
from beamwright.kernel.value import replace
from tests.contexts.trust.examples import (
    ANN,
    BEN,
    OTHER_VISIT,
    SURFACE,
    VISIT,
    SmallWorld,
    entered,
    surface,
    visit,
)
from tests.rules import NOW, OCCASION, outcome

PARENT = UUID(int=32)
TAKE = TakeSurfaceControl(visit_id=VISIT)
RELEASE = ReleaseSurfaceControl(visit_id=VISIT)
REQUEST = RequestSurfaceControl(visit_id=VISIT)
GIVE = GiveSurfaceControl(visit_id=VISIT)
REFUSE = RefuseSurfaceControl(visit_id=VISIT, reason="not yet")
SEIZE = SeizeSurfaceControl(visit_id=VISIT, reason="safety")
RETIRED = SurfaceRetired(surface_id=SURFACE, occurred_at=NOW, reason="moved")


def present(status: VisitStatus = VisitStatus.IN_PROGRESS) -> Visit:
    """The visit, with Ann there."""
    return visits.evolve(visit(status), entered(ANN))


def taken(
    visit_id: UUID, actor_id: UUID, basis: ControlBasis = ControlBasis.FREE, from_id: UUID | None = None
) -> SurfaceControlTaken:
    return SurfaceControlTaken(
        surface_id=SURFACE,
        occurred_at=NOW,
        visit_id=visit_id,
        actor_id=actor_id,
        from_visit_id=from_id,
        basis=basis,
    )


def requested(visit_id: UUID, actor_id: UUID = BEN) -> SurfaceControlRequested:
    return SurfaceControlRequested(
        surface_id=SURFACE,
        occurred_at=NOW,
        visit_id=visit_id,
        actor_id=actor_id,
        expires_at=NOW + timedelta(seconds=30),
    )


FREE = surface()
OWN = surface(taken(VISIT, ANN))
COLLEAGUE = surface(taken(VISIT, BEN))
OTHER = surface(taken(OTHER_VISIT, BEN))
ASKED = surface(taken(VISIT, ANN), requested(OTHER_VISIT))
ASKING = surface(taken(OTHER_VISIT, BEN), requested(VISIT, ANN))


def desk(surface: Surface, visit: Visit | None = None, **more: Any) -> ControlDesk:
    return ControlDesk(visit=visit or present(), surface=surface, **more)


def after(seconds: float) -> Any:
    """The occasion of a call so many seconds later."""
    return replace(OCCASION, now=NOW + timedelta(seconds=seconds))


def obstacle(command: Any, seen: ControlDesk, seconds: float = 0) -> tuple[type[DomainError], str]:
    """How the command is refused: the class, and the reason in its context."""
    with pytest.raises(DomainError) as refused:
        command.decide(seen, after(seconds))
    return type(refused.value), refused.value.context["reason"]


TAKINGS = [
    (desk(FREE), ControlBasis.FREE, None),
    (desk(COLLEAGUE), ControlBasis.SAME_VISIT, VISIT),
    (desk(surface(taken(PARENT, BEN)), ancestor_ids=frozenset({PARENT})), ControlBasis.ANCESTOR, PARENT),
    (desk(surface(taken(PARENT, ANN)), ancestor_ids=frozenset({PARENT})), ControlBasis.ANCESTOR, PARENT),
    (desk(FREE, present(VisitStatus.ARRIVED)), ControlBasis.FREE, None),
]


@pytest.mark.parametrize(("seen", "basis", "from_id"), TAKINGS)
def test_take_names_its_basis(seen: ControlDesk, basis: ControlBasis, from_id: UUID | None) -> None:
    assert outcome(TAKE, seen) == [taken(VISIT, ANN, basis, from_id)]


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        *(
            (desk(OWN, visit(status)), "StatusNotEligible")
            for status in VisitStatus
            if status.value not in ("Arrived", "InProgress")
        ),
        (desk(OWN, visit()), "NotPresent"),
        (desk(surface(taken(VISIT, ANN), RETIRED)), "SurfaceRetired"),
        (desk(OWN), "AlreadyHeld"),
        (desk(OTHER), "HeldByOther"),
        (desk(surface(taken(OTHER_VISIT, ANN))), "HeldByOther"),
    ],
)
def test_take_is_refused_in_order(seen: ControlDesk, reason: str) -> None:
    assert obstacle(TAKE, seen) == (VisitCannotTakeControlError, reason)


def test_take_is_refused_on_hold_even_to_who_is_present() -> None:
    assert obstacle(TAKE, desk(FREE, present(VisitStatus.ON_HOLD)))[1] == "StatusNotEligible"


def test_a_refusal_names_the_holder() -> None:
    with pytest.raises(VisitCannotTakeControlError) as refused:
        TAKE.decide(desk(OTHER), OCCASION)
    assert refused.value.context["holder_visit_id"] == str(OTHER_VISIT)


@pytest.mark.parametrize("seconds", [0, 29.9, 330])
def test_an_own_request_gives_nothing_before_it_lapsed_or_after_it_was_dropped(seconds: float) -> None:
    assert obstacle(TAKE, desk(ASKING), seconds)[1] == "HeldByOther"


@pytest.mark.parametrize("seconds", [30, 329.9])
def test_an_own_request_that_lapsed_entitles_to_take(seconds: float) -> None:
    got: Any = outcome(TAKE, desk(ASKING), after(seconds))
    assert (got[0].basis, got[0].from_visit_id) == (ControlBasis.LAPSED, OTHER_VISIT)


def test_the_lapsed_request_of_another_visit_gives_nothing() -> None:
    seen = desk(surface(taken(OTHER_VISIT, BEN), requested(PARENT)))
    assert obstacle(TAKE, seen, 31)[1] == "HeldByOther"


def test_a_refused_request_gives_nothing_when_it_would_have_lapsed() -> None:
    no = SurfaceControlRefused(surface_id=SURFACE, occurred_at=NOW, visit_id=VISIT, reason="not yet")
    seen = desk(surface(taken(OTHER_VISIT, BEN), requested(VISIT, ANN), no))
    assert obstacle(TAKE, seen, 31)[1] == "HeldByOther"


def test_a_free_surface_is_not_reserved_by_a_request() -> None:
    free = SurfaceControlReleased(
        surface_id=SURFACE,
        occurred_at=NOW,
        visit_id=OTHER_VISIT,
        actor_id=BEN,
        cause=ControlReleaseCause.RELEASED,
    )
    seen = desk(surface(taken(OTHER_VISIT, BEN), requested(PARENT), free))
    assert outcome(TAKE, seen) == [taken(VISIT, ANN)]


def test_take_sees_every_ancestor() -> None:
    grandparent = visit(id=UUID(int=33))
    parent = visit(id=PARENT, parent_id=grandparent.id)
    child = visit(parent_id=PARENT)
    world: Any = SmallWorld(child, parent, grandparent, FREE)
    assert asyncio.run(TAKE.gather(world)) == ControlDesk(
        visit=child, surface=FREE, ancestor_ids=frozenset({PARENT, grandparent.id})
    )


@pytest.mark.parametrize(("seen", "actor_id"), [(desk(OWN), ANN), (desk(COLLEAGUE, visit()), BEN)])
def test_release_frees_what_the_visit_holds(seen: ControlDesk, actor_id: UUID) -> None:
    assert outcome(RELEASE, seen) == [
        SurfaceControlReleased(
            surface_id=SURFACE,
            occurred_at=NOW,
            visit_id=VISIT,
            actor_id=actor_id,
            cause=ControlReleaseCause.RELEASED,
        )
    ]


@pytest.mark.parametrize("held", [FREE, OTHER])
def test_release_needs_the_holder(held: Surface) -> None:
    assert obstacle(RELEASE, desk(held)) == (VisitCannotReleaseControlError, "NotHolder")


def test_request_waits_for_an_answer() -> None:
    assert outcome(REQUEST, desk(OTHER)) == [requested(VISIT, ANN)]


@pytest.mark.parametrize("timeout", [5, 600])
def test_request_waits_as_long_as_asked(timeout: int) -> None:
    got: Any = outcome(RequestSurfaceControl(visit_id=VISIT, timeout=timeout), desk(OTHER))
    assert got[0].expires_at == NOW + timedelta(seconds=timeout)


@pytest.mark.parametrize("timeout", [-1, 4, 601])
def test_request_refuses_a_timeout_out_of_bounds_first(timeout: int) -> None:
    command = RequestSurfaceControl(visit_id=VISIT, timeout=timeout)
    assert outcome(command, desk(FREE, visit(VisitStatus.VOIDED))) == InvalidSurfaceControlTimeoutError


PENDING = surface(taken(OTHER_VISIT, BEN), requested(PARENT))


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (desk(FREE, visit(VisitStatus.ON_HOLD)), "StatusNotEligible"),
        (desk(FREE, visit()), "NotPresent"),
        (desk(FREE), "NotHeld"),
        (desk(ASKED), "AlreadyHeld"),
        (desk(COLLEAGUE), "AlreadyHeld"),
        (desk(PENDING), "RequestPending"),
    ],
)
def test_request_is_refused_in_order(seen: ControlDesk, reason: str) -> None:
    assert obstacle(REQUEST, seen) == (VisitCannotRequestControlError, reason)


def test_a_lapsed_request_is_pending_until_it_is_dropped() -> None:
    assert obstacle(REQUEST, desk(PENDING), 329.9)[1] == "RequestPending"
    assert isinstance(outcome(REQUEST, desk(PENDING), after(330)), list)


def test_a_visit_may_renew_its_own_request() -> None:
    got: Any = outcome(REQUEST, desk(ASKING), after(10))
    assert got[0].expires_at == NOW + timedelta(seconds=40)


REQUESTER = visit(id=OTHER_VISIT)


@pytest.mark.parametrize("seconds", [10, 31])
def test_give_hands_over_to_the_requester(seconds: float) -> None:
    occasion = after(seconds)
    assert outcome(GIVE, desk(ASKED, requester=REQUESTER), occasion) == [
        SurfaceControlGiven(
            surface_id=SURFACE,
            occurred_at=occasion.now,
            from_visit_id=VISIT,
            visit_id=OTHER_VISIT,
            actor_id=BEN,
        )
    ]


def test_a_colleague_of_the_holder_may_give() -> None:
    asked = surfaces.evolve(COLLEAGUE, requested(OTHER_VISIT))
    assert isinstance(outcome(GIVE, desk(asked, requester=REQUESTER)), list)


@pytest.mark.parametrize(
    ("seen", "seconds", "reason"),
    [
        (desk(FREE, visit()), 0, "NotHolder"),
        (desk(ASKED, visit()), 330, "NotPresent"),
        (desk(OWN), 0, "NoRequest"),
        (desk(ASKED, requester=visit(VisitStatus.ON_HOLD, OTHER_VISIT)), 330, "NoRequest"),
        (desk(ASKED, requester=visit(VisitStatus.ON_HOLD, OTHER_VISIT)), 0, "RequesterNotEligible"),
        (desk(ASKED, requester=visit(VisitStatus.ABORTED, OTHER_VISIT)), 0, "RequesterNotEligible"),
    ],
)
def test_give_is_refused_in_order(seen: ControlDesk, seconds: float, reason: str) -> None:
    assert obstacle(GIVE, seen, seconds) == (VisitCannotGiveControlError, reason)


@pytest.mark.parametrize(("held", "requester"), [(ASKED, REQUESTER), (OWN, None)])
def test_give_sees_the_visit_that_asks(held: Surface, requester: Visit | None) -> None:
    world: Any = SmallWorld(visit(), REQUESTER, held)
    assert asyncio.run(GIVE.gather(world)).requester == requester


def test_refuse_answers_the_requester() -> None:
    assert outcome(REFUSE, desk(ASKED)) == [
        SurfaceControlRefused(surface_id=SURFACE, occurred_at=NOW, visit_id=OTHER_VISIT, reason="not yet")
    ]


@pytest.mark.parametrize(
    ("seen", "seconds", "reason"),
    [
        (desk(OTHER, visit()), 0, "NotHolder"),
        (desk(OWN, visit()), 0, "NotPresent"),
        (desk(OWN), 0, "NoRequest"),
        (desk(ASKED), 30, "NoRequest"),
    ],
)
def test_refuse_is_refused_in_order(seen: ControlDesk, seconds: float, reason: str) -> None:
    assert obstacle(REFUSE, seen, seconds) == (VisitCannotRefuseControlError, reason)


def test_seize_takes_from_another_visit() -> None:
    assert outcome(SEIZE, desk(OTHER)) == [
        SurfaceControlSeized(
            surface_id=SURFACE,
            occurred_at=NOW,
            visit_id=VISIT,
            actor_id=ANN,
            from_visit_id=OTHER_VISIT,
            reason="safety",
        )
    ]


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (desk(FREE, visit(VisitStatus.PLANNED)), "StatusNotEligible"),
        (desk(FREE, visit()), "NotPresent"),
        (desk(FREE), "NotHeld"),
        (desk(OWN), "AlreadyHeld"),
    ],
)
def test_seize_is_refused_in_order(seen: ControlDesk, reason: str) -> None:
    assert obstacle(SEIZE, seen) == (VisitCannotSeizeControlError, reason)


@pytest.mark.parametrize(
    "command",
    [
        RefuseSurfaceControl(visit_id=VISIT, reason=" "),
        SeizeSurfaceControl(visit_id=VISIT, reason=" "),
    ],
)
def test_refusing_and_seizing_need_a_reason(command: Any) -> None:
    assert outcome(command, desk(FREE)) == InvalidVisitReasonError


def control(held: Surface, now: datetime, *visits: Visit) -> SurfaceControl:
    world: Any = SmallWorld(held, *visits, now=now)
    return asyncio.run(GetSurfaceControl(surface_id=SURFACE).answer(world))


def test_the_control_of_a_free_surface_is_nobodys() -> None:
    assert control(FREE, NOW) == SurfaceControl(
        surface_id=SURFACE,
        exclusive=True,
        holder=None,
        control_request=None,
        controlled_operations=frozenset({"run:start_run"}),
    )


def test_the_control_shows_holder_and_requester() -> None:
    got = control(ASKED, NOW, present(), REQUESTER)
    assert got.holder == SurfaceControlHolder(
        visit_id=VISIT, visit_code="cm12345-30", actor_id=ANN, name="actor 1", since_at=NOW, present=True
    )
    assert got.control_request == SurfaceControlRequest(
        visit_id=OTHER_VISIT,
        visit_code="cm12345-31",
        actor_id=BEN,
        name="actor 12",
        requested_at=NOW,
        expires_at=NOW + timedelta(seconds=30),
        lapsed=False,
    )


def test_the_control_shows_that_the_holder_is_away_and_the_request_lapsed() -> None:
    got = control(ASKED, NOW + timedelta(seconds=30), visit(), REQUESTER)
    assert got.holder is not None and not got.holder.present
    assert got.control_request is not None and got.control_request.lapsed


def test_the_control_does_not_show_a_dropped_request() -> None:
    assert control(ASKED, NOW + timedelta(seconds=330), visit(), REQUESTER).control_request is None
