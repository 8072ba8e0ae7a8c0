"""Surface: its rules, its status grid, and the fold of its control."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.trust.conduit import ConduitNotFoundError, ConduitRetired
from beamwright.contexts.trust.doors import (
    CONTROLLED_BY_DEFAULT,
    DefineSurface,
    Doorway,
    ExistingDoorway,
    SurfaceConduitRetiredError,
    UpdateSurface,
)
from beamwright.contexts.trust.retirement import RetireSurface, SurfaceInUse
from beamwright.contexts.trust.surface import (
    ControlBasis,
    ControlReleaseCause,
    ControlRequest,
    InvalidSurfaceAudienceError,
    InvalidSurfaceControlledOperationsError,
    InvalidSurfaceNameError,
    SurfaceCannotUpdateError,
    SurfaceControlGiven,
    SurfaceControlRefused,
    SurfaceControlReleased,
    SurfaceControlRequested,
    SurfaceControlSeized,
    SurfaceControlTaken,
    SurfaceDefined,
    SurfaceHolder,
    SurfaceKind,
    SurfaceRetired,
    SurfaceUpdated,
    surfaces,
)
from beamwright.contexts.trust.zone import DefineZone
from beamwright.kernel.event import Event
from beamwright.kernel.operation import Operation
from tests.contexts.trust.examples import (
    ANN,
    BEN,
    CONDUIT,
    IN_PROCESS_DEFINED,
    OTHER_VISIT,
    SURFACE,
    SURFACE_DEFINED,
    VISIT,
    SmallWorld,
    check_columns,
    conduit,
    surface,
)
from tests.rules import NEW_ID, NOW, given, outcome

RETIRED = SurfaceRetired(surface_id=SURFACE, occurred_at=NOW, reason="moved")
CONDUIT_RETIRED = ConduitRetired(conduit_id=CONDUIT, occurred_at=NOW, reason="rebuilt")


def define(
    name: str = "Console",
    audience: str = "urn:console",
    controlled_operations: frozenset[str] = CONTROLLED_BY_DEFAULT,
) -> DefineSurface:
    return DefineSurface(
        name=name,
        kind=SurfaceKind.HTTP,
        conduit_id=CONDUIT,
        audience=audience,
        controlled_operations=controlled_operations,
    )


def operation(context: str, name: str) -> Operation:
    return Operation(
        name=name,
        method="POST",
        path=f"/{name}",
        path_fields=(),
        reads=False,
        context=context,
        aggregate="Run",
        target=None,
        id_field="run_id",
        request=DefineZone,
        response=None,
        permission=name,
    )


OPERATIONS = (
    operation("run", "start_run"),
    operation("run", "resume_run"),
    operation("run", "hold_run"),
    operation("run", "stop_run"),
    operation("run", "abort_run"),
    operation("run", "truncate_run"),
    operation("trust", "release_surface_control"),
    *(each for each in surfaces.operations if each.name == "list_surfaces"),
)
DOORWAY = Doorway(conduit=conduit(), operations=OPERATIONS)


def existing(*events: Event) -> ExistingDoorway:
    return ExistingDoorway(conduit=conduit(), operations=OPERATIONS, surface=surface(*events))


def test_define_opens_a_door_that_is_not_exclusive() -> None:
    assert outcome(define(name=" Console "), DOORWAY) == [
        SurfaceDefined(
            surface_id=NEW_ID,
            occurred_at=NOW,
            name="Console",
            kind=SurfaceKind.HTTP,
            conduit_id=CONDUIT,
            audience="urn:console",
            exclusive=False,
            controlled_operations=CONTROLLED_BY_DEFAULT,
        )
    ]


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (define(name=" ", audience=" "), InvalidSurfaceNameError),
        (define(audience=" "), InvalidSurfaceAudienceError),
        (define(audience=""), InvalidSurfaceAudienceError),
        (define(audience="x" * 201), InvalidSurfaceAudienceError),
        (define(controlled_operations=frozenset({"Run!"})), InvalidSurfaceControlledOperationsError),
    ],
)
def test_define_refuses_bad_values(command: DefineSurface, refusal: type) -> None:
    assert outcome(command, DOORWAY) == refusal


@pytest.mark.parametrize(
    "pattern",
    [
        *("*:*", "run:*", "*_run", "@reads", "trust:@commands", "trust:list_*"),
        *("hold_*", "run:stop_run", "run:ab*", "truncate_run", "release_*"),
    ],
)
def test_reading_and_winding_down_never_need_control(pattern: str) -> None:
    command = define(controlled_operations=frozenset({"run:start_run", pattern}))
    assert outcome(command, DOORWAY) == InvalidSurfaceControlledOperationsError


@pytest.mark.parametrize("pattern", ["run:start_run", " start_* ", "operation:conduct_*"])
def test_other_operations_may_need_control(pattern: str) -> None:
    got: Any = outcome(define(controlled_operations=frozenset({pattern})), DOORWAY)
    assert got[0].controlled_operations == {pattern.strip()}


def test_at_most_a_hundred_patterns() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    patterns = [f"run:do_{a}{b}" for a in letters for b in letters]
    full, over = frozenset(patterns[:100]), frozenset(patterns[:101])
    assert isinstance(outcome(define(controlled_operations=full), DOORWAY), list)
    assert outcome(define(controlled_operations=over), DOORWAY) == InvalidSurfaceControlledOperationsError


def test_define_refuses_a_retired_conduit() -> None:
    assert outcome(define(), Doorway(conduit=conduit(CONDUIT_RETIRED))) == SurfaceConduitRetiredError


def test_define_refuses_values_before_an_unknown_conduit() -> None:
    world: Any = SmallWorld()
    with pytest.raises(InvalidSurfaceNameError):
        asyncio.run(define(name=" ").gather(world))
    with pytest.raises(ConduitNotFoundError):
        asyncio.run(define().gather(world))


def test_update_keeps_what_is_absent() -> None:
    assert outcome(UpdateSurface(surface_id=SURFACE, exclusive=False), existing()) == [
        SurfaceUpdated(
            surface_id=SURFACE,
            occurred_at=NOW,
            name="HTTP",
            conduit_id=CONDUIT,
            audience="urn:beamwright:http",
            exclusive=False,
            controlled_operations=frozenset({"run:start_run"}),
        )
    ]


def test_update_that_changes_nothing_is_a_no_op() -> None:
    assert outcome(UpdateSurface(surface_id=SURFACE, name=" HTTP", exclusive=True), existing()) == []


def test_update_looks_at_the_conduit_it_moves_to() -> None:
    other = UUID(int=77)
    with pytest.raises(ConduitNotFoundError):
        world: Any = SmallWorld(surface(), conduit())
        asyncio.run(UpdateSurface(surface_id=SURFACE, conduit_id=other).gather(world))


def test_update_refuses_a_retired_conduit() -> None:
    doorway = ExistingDoorway(conduit=conduit(CONDUIT_RETIRED), surface=surface())
    assert outcome(UpdateSurface(surface_id=SURFACE, name="Other"), doorway) == SurfaceConduitRetiredError


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (UpdateSurface(surface_id=SURFACE, name=" "), InvalidSurfaceNameError),
        (UpdateSurface(surface_id=SURFACE, audience=""), InvalidSurfaceAudienceError),
        (
            UpdateSurface(surface_id=SURFACE, controlled_operations=frozenset({"hold_run"})),
            InvalidSurfaceControlledOperationsError,
        ),
    ],
)
def test_update_refuses_bad_values_before_the_status(command: UpdateSurface, refusal: type) -> None:
    assert outcome(command, existing(RETIRED)) == refusal


def test_the_in_process_surface_is_not_updated() -> None:
    doorway = ExistingDoorway(conduit=conduit(), surface=given(surfaces, IN_PROCESS_DEFINED))
    assert outcome(UpdateSurface(surface_id=SURFACE, name="Other"), doorway) == SurfaceCannotUpdateError


def test_audience_is_claimed_until_retired() -> None:
    assert [claim.key for claim in surfaces.claims(surface())] == ["urn:beamwright:http"]
    assert surfaces.claims(surface(RETIRED)) == []


def test_the_in_process_surface_claims_nothing() -> None:
    assert surfaces.claims(given(surfaces, IN_PROCESS_DEFINED)) == []


REQUESTED = SurfaceControlRequested(
    surface_id=SURFACE,
    occurred_at=NOW,
    visit_id=OTHER_VISIT,
    actor_id=BEN,
    expires_at=NOW + timedelta(seconds=30),
)
TAKEN = SurfaceControlTaken(
    surface_id=SURFACE,
    occurred_at=NOW,
    visit_id=VISIT,
    actor_id=ANN,
    from_visit_id=None,
    basis=ControlBasis.FREE,
)
GIVEN = SurfaceControlGiven(
    surface_id=SURFACE, occurred_at=NOW, from_visit_id=VISIT, visit_id=OTHER_VISIT, actor_id=BEN
)
REFUSED = SurfaceControlRefused(surface_id=SURFACE, occurred_at=NOW, visit_id=OTHER_VISIT, reason="not yet")
RELEASED = SurfaceControlReleased(
    surface_id=SURFACE,
    occurred_at=NOW,
    visit_id=VISIT,
    actor_id=ANN,
    cause=ControlReleaseCause.RELEASED,
)
SEIZED = SurfaceControlSeized(
    surface_id=SURFACE,
    occurred_at=NOW,
    visit_id=OTHER_VISIT,
    actor_id=BEN,
    from_visit_id=VISIT,
    reason="safety",
)
BY_ANN = SurfaceHolder(visit_id=VISIT, actor_id=ANN, since_at=NOW)
BY_BEN = SurfaceHolder(visit_id=OTHER_VISIT, actor_id=BEN, since_at=NOW)


def test_a_request_stands_beside_the_holder() -> None:
    got = surface(TAKEN, REQUESTED)
    assert got.holder == BY_ANN
    assert got.control_request == ControlRequest(
        visit_id=OTHER_VISIT, actor_id=BEN, requested_at=NOW, expires_at=NOW + timedelta(seconds=30)
    )


@pytest.mark.parametrize(
    ("settled", "holder"),
    [([TAKEN], BY_ANN), ([GIVEN], BY_BEN), ([SEIZED], BY_BEN), ([RELEASED], None), ([REFUSED], BY_ANN)],
)
def test_whatever_settles_control_clears_the_request(
    settled: Sequence[Event], holder: SurfaceHolder | None
) -> None:
    got = surface(TAKEN, REQUESTED, *settled)
    assert (got.holder, got.control_request) == (holder, None)


@pytest.mark.parametrize(
    ("seconds", "lapsed", "counts"),
    [(29.9, False, True), (30, True, True), (329.9, True, True), (330, True, False)],
)
def test_a_request_lapses_and_is_dropped_five_minutes_later(
    seconds: float, lapsed: bool, counts: bool
) -> None:
    now = NOW + timedelta(seconds=seconds)
    request = surface(TAKEN, REQUESTED).control_request
    assert request is not None and request.lapsed(now) is lapsed
    assert (surface(TAKEN, REQUESTED).request_at(now) is not None) is counts


GRID = """
          update  retire
Active    Active  Retired
Retired   -       -
"""


class Administered:
    """An authority under which somebody can always administer."""

    def administrators(self, after: Sequence[Event], now: object) -> frozenset[UUID]:
        return frozenset({ANN})


def test_status_grid() -> None:
    authority: Any = Administered()
    check_columns(
        GRID,
        surfaces,
        {"Active": [SURFACE_DEFINED], "Retired": [SURFACE_DEFINED, RETIRED]},
        {
            "update": (
                UpdateSurface(surface_id=SURFACE, name="Other"),
                lambda state: ExistingDoorway(conduit=conduit(), surface=state),
            ),
            "retire": (
                RetireSurface(surface_id=SURFACE, reason="moved"),
                lambda state: SurfaceInUse(surface=state, authority=authority),
            ),
        },
    )
