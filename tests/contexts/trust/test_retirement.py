"""Retirement: what is in use stays, and somebody must be able to administer afterwards."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.trust.conduit import ConduitRetired, InvalidConduitReasonError
from beamwright.contexts.trust.retirement import (
    ConduitInUse,
    ConduitInUseError,
    RetireConduit,
    RetireSurface,
    RetireZone,
    SurfaceInUse,
    SurfaceInUseError,
    ZoneInUse,
    ZoneInUseError,
)
from beamwright.contexts.trust.surface import (
    ControlBasis,
    ControlReleaseCause,
    InvalidSurfaceReasonError,
    Surface,
    SurfaceCannotRetireError,
    SurfaceControlReleased,
    SurfaceControlTaken,
    SurfaceRetired,
    surfaces,
)
from beamwright.contexts.trust.zone import InvalidZoneReasonError, ZoneDefined, ZoneRetired, zones
from beamwright.kernel.authority import LastAdministratorError
from beamwright.kernel.event import Event
from beamwright.kernel.roles import VisitStatus
from tests.contexts.trust.examples import (
    ANN,
    CONDUIT,
    IN_PROCESS_DEFINED,
    OTHER_VISIT,
    SURFACE,
    VISIT,
    ZONE,
    SmallWorld,
    check_columns,
    conduit,
    surface,
    visit,
)
from tests.rules import NOW, OCCASION, given, outcome

ZONE_DEFINED = ZoneDefined(zone_id=ZONE, occurred_at=NOW, name="Clients")
ZONE_RETIRED = ZoneRetired(zone_id=ZONE, occurred_at=NOW, reason="merged")
CONDUIT_RETIRED = ConduitRetired(conduit_id=CONDUIT, occurred_at=NOW, reason="merged")
SURFACE_RETIRED = SurfaceRetired(surface_id=SURFACE, occurred_at=NOW, reason="merged")
TAKEN = SurfaceControlTaken(
    surface_id=SURFACE,
    occurred_at=NOW,
    visit_id=VISIT,
    actor_id=ANN,
    from_visit_id=None,
    basis=ControlBasis.FREE,
)
ZONE_STATE = given(zones, ZONE_DEFINED)
RETIRE_ZONE = RetireZone(zone_id=ZONE, reason="merged")
RETIRE_CONDUIT = RetireConduit(conduit_id=CONDUIT, reason="merged")
RETIRE_SURFACE = RetireSurface(surface_id=SURFACE, reason="merged")


class Authority:
    """An authority that knows who could administer after a surface is gone."""

    def __init__(self, *administrators: UUID) -> None:
        self.left = frozenset(administrators)
        self.asked: list[Event] = []

    def administrators(self, after: Sequence[Event], now: object) -> frozenset[UUID]:
        self.asked = list(after)
        return self.left


def used(state: Surface, *others: Any, authority: Any = None) -> SurfaceInUse:
    return SurfaceInUse(surface=state, visits=others, authority=authority or Authority(ANN))


def test_a_zone_without_active_conduits_retires() -> None:
    seen = ZoneInUse(zone=ZONE_STATE, conduits=(conduit(CONDUIT_RETIRED),))
    assert outcome(RETIRE_ZONE, seen) == [ZONE_RETIRED]


def test_a_zone_stays_while_an_active_conduit_begins_or_ends_there() -> None:
    seen = ZoneInUse(zone=ZONE_STATE, conduits=(conduit(), conduit()))
    with pytest.raises(ZoneInUseError) as refused:
        RETIRE_ZONE.decide(seen, OCCASION)
    assert refused.value.context["conduit_ids"] == [str(CONDUIT)]


def test_a_zone_finds_the_conduits_of_both_ends() -> None:
    world: Any = SmallWorld(ZONE_STATE, conduit())
    assert asyncio.run(RETIRE_ZONE.gather(world)).conduits == (conduit(), conduit())


def test_a_retired_zone_is_refused_before_its_use() -> None:
    check_columns(
        """
                retire
        Active  Retired
        Retired -
        """,
        zones,
        {"Active": [ZONE_DEFINED], "Retired": [ZONE_DEFINED, ZONE_RETIRED]},
        {"retire": (RETIRE_ZONE, lambda zone: ZoneInUse(zone=zone))},
    )


def test_a_conduit_without_active_surfaces_retires() -> None:
    seen = ConduitInUse(conduit=conduit(), surfaces=(surface(SURFACE_RETIRED),))
    assert outcome(RETIRE_CONDUIT, seen) == [CONDUIT_RETIRED]


def test_a_conduit_stays_while_an_active_surface_uses_it() -> None:
    assert (
        outcome(RETIRE_CONDUIT, ConduitInUse(conduit=conduit(), surfaces=(surface(),))) == ConduitInUseError
    )


def test_a_conduit_finds_its_surfaces() -> None:
    world: Any = SmallWorld(conduit(), surface())
    assert asyncio.run(RETIRE_CONDUIT.gather(world)).surfaces == (surface(),)


def test_a_surface_whose_visits_have_ended_retires() -> None:
    assert outcome(RETIRE_SURFACE, used(surface(), visit(VisitStatus.COMPLETED))) == [SURFACE_RETIRED]


@pytest.mark.parametrize(
    "status", [VisitStatus.PLANNED, VisitStatus.ARRIVED, VisitStatus.IN_PROGRESS, VisitStatus.ON_HOLD]
)
def test_a_surface_stays_while_a_visit_on_it_has_not_ended(status: VisitStatus) -> None:
    assert outcome(RETIRE_SURFACE, used(surface(), visit(status))) == SurfaceInUseError


def test_a_surface_finds_the_visits_on_it_that_have_not_ended() -> None:
    over = visit(VisitStatus.COMPLETED, OTHER_VISIT)
    world: Any = SmallWorld(surface(), visit(VisitStatus.ON_HOLD), over)
    assert asyncio.run(RETIRE_SURFACE.gather(world)).visits == (visit(VisitStatus.ON_HOLD),)


def test_the_in_process_surface_does_not_retire() -> None:
    assert outcome(RETIRE_SURFACE, used(given(surfaces, IN_PROCESS_DEFINED))) == SurfaceCannotRetireError


def test_retiring_a_held_surface_releases_its_control() -> None:
    assert outcome(RETIRE_SURFACE, used(surface(TAKEN))) == [
        SURFACE_RETIRED,
        SurfaceControlReleased(
            surface_id=SURFACE,
            occurred_at=NOW,
            visit_id=VISIT,
            actor_id=ANN,
            cause=ControlReleaseCause.SURFACE_RETIRED,
        ),
    ]


def test_the_last_door_of_an_administrator_stays() -> None:
    authority = Authority()
    assert outcome(RETIRE_SURFACE, used(surface(), authority=authority)) == LastAdministratorError
    assert authority.asked == [SURFACE_RETIRED]


def test_use_is_refused_before_lock_out() -> None:
    assert outcome(RETIRE_SURFACE, used(surface(), visit(), authority=Authority())) == SurfaceInUseError


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (RetireZone(zone_id=ZONE, reason=" "), ZoneInUse(zone=ZONE_STATE), InvalidZoneReasonError),
        (
            RetireConduit(conduit_id=CONDUIT, reason=" "),
            ConduitInUse(conduit=conduit()),
            InvalidConduitReasonError,
        ),
        (RetireSurface(surface_id=SURFACE, reason=" "), used(surface()), InvalidSurfaceReasonError),
    ],
)
def test_retirement_needs_a_reason(command: Any, seen: Any, refusal: type) -> None:
    assert outcome(command, seen) == refusal
