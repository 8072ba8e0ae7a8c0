"""Examples that the tests of doors, visits and control share, and a small world to gather them from."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

# Declares what visits are found by.
import beamwright.contexts.trust.visit_reads  # noqa: F401
from beamwright.contexts.federation.facility import (
    Facility,
    FacilityKind,
    FacilityRegistered,
    facilities,
)
from beamwright.contexts.trust.conduit import Conduit, ConduitDefined, VerdictLevel, conduits
from beamwright.contexts.trust.surface import Surface, SurfaceDefined, SurfaceKind, surfaces
from beamwright.contexts.trust.visit import (
    PresenceMode,
    Visit,
    VisitAborted,
    VisitArrived,
    VisitCancelled,
    VisitCompleted,
    VisitHeld,
    VisitPresenceOpened,
    VisitRegistered,
    VisitStarted,
    VisitType,
    VisitVoided,
    visits,
)
from beamwright.contexts.trust.visit_gates import VisitSurroundings
from beamwright.kernel.authority import Candidate, Reach, Span
from beamwright.kernel.event import Event
from beamwright.kernel.operation import Command, Installation
from beamwright.kernel.roles import VisitRole, VisitStatus
from tests.grids import check_grid
from tests.rules import NOW, PRINCIPAL, given

ANN = PRINCIPAL
BEN = UUID(int=12)
ZONE = UUID(int=20)
CONDUIT = UUID(int=21)
SURFACE = UUID(int=22)
FACILITY = UUID(int=23)
VISIT = UUID(int=30)
OTHER_VISIT = UUID(int=31)
TOMORROW = NOW + timedelta(days=1)

CONDUIT_DEFINED = ConduitDefined(
    conduit_id=CONDUIT,
    occurred_at=NOW,
    name="Clients to service",
    source_zone_id=ZONE,
    target_zone_id=ZONE,
    verdict_level=VerdictLevel.COMMANDS,
)
SURFACE_DEFINED = SurfaceDefined(
    surface_id=SURFACE,
    occurred_at=NOW,
    name="HTTP",
    kind=SurfaceKind.HTTP,
    conduit_id=CONDUIT,
    audience="urn:beamwright:http",
    exclusive=True,
    controlled_operations=frozenset({"run:start_run"}),
)
IN_PROCESS_DEFINED = SurfaceDefined(
    surface_id=SURFACE,
    occurred_at=NOW,
    name="In process",
    kind=None,
    conduit_id=CONDUIT,
    audience=None,
    exclusive=False,
    controlled_operations=frozenset(),
)


def registered(visit_id: UUID = VISIT, *, parent_id: UUID | None = None) -> VisitRegistered:
    """A planned visit with Ann as its lead and Ben as a member."""
    return VisitRegistered(
        visit_id=visit_id,
        occurred_at=NOW,
        code=f"cm12345-{visit_id.int}",
        title="Bread",
        facility_code="home",
        surface_id=SURFACE,
        policy_id=None,
        type=VisitType.USER,
        planned_start_at=NOW,
        planned_end_at=TOMORROW,
        parent_id=parent_id,
        members={ANN: VisitRole.LEAD, BEN: VisitRole.MEMBER},
        external_refs={},
    )


def arrived(visit_id: UUID = VISIT) -> VisitArrived:
    return VisitArrived(visit_id=visit_id, occurred_at=NOW)


def started(visit_id: UUID = VISIT) -> VisitStarted:
    return VisitStarted(visit_id=visit_id, occurred_at=NOW)


def held(visit_id: UUID = VISIT) -> VisitHeld:
    return VisitHeld(visit_id=visit_id, occurred_at=NOW, reason="beam is off")


def completed(visit_id: UUID = VISIT) -> VisitCompleted:
    return VisitCompleted(visit_id=visit_id, occurred_at=NOW)


def entered(actor_id: UUID, visit_id: UUID = VISIT, at: datetime = NOW) -> VisitPresenceOpened:
    return VisitPresenceOpened(
        visit_id=visit_id, occurred_at=at, actor_id=actor_id, mode=PresenceMode.PHYSICAL
    )


def history(status: VisitStatus, visit_id: UUID = VISIT, parent_id: UUID | None = None) -> list[Event]:
    """What happened to a visit of this status."""
    planned = [registered(visit_id, parent_id=parent_id)]
    running = [*planned, arrived(visit_id), started(visit_id)]
    over: dict[str, Any] = {"visit_id": visit_id, "occurred_at": NOW}
    return {
        VisitStatus.PLANNED: [*planned],
        VisitStatus.ARRIVED: [*planned, arrived(visit_id)],
        VisitStatus.IN_PROGRESS: [*running],
        VisitStatus.ON_HOLD: [*running, held(visit_id)],
        VisitStatus.COMPLETED: [*running, completed(visit_id)],
        VisitStatus.CANCELLED: [*planned, VisitCancelled(**over, reason="ill")],
        VisitStatus.ABORTED: [*running, VisitAborted(**over, reason="flood")],
        VisitStatus.VOIDED: [*planned, VisitVoided(**over, reason="twice")],
    }[status]


def visit(
    status: VisitStatus = VisitStatus.IN_PROGRESS, id: UUID = VISIT, parent_id: UUID | None = None
) -> Visit:
    return given(visits, *history(status, id, parent_id))


def surface(*events: Event) -> Surface:
    return given(surfaces, SURFACE_DEFINED, *events)


def conduit(*events: Event) -> Conduit:
    return given(conduits, CONDUIT_DEFINED, *events)


def facility(kind: FacilityKind = FacilityKind.SITE, *events: Event) -> Facility:
    first = FacilityRegistered(
        facility_id=FACILITY, occurred_at=NOW, code="home", display_name="Home", kind=kind
    )
    return given(facilities, first, *events)


def around() -> VisitSurroundings:
    """Surroundings that let every visit pass."""
    return VisitSurroundings(facility=facility(), surface=surface())


class SmallWorld:
    """A world of a few states: enough to gather and to answer without a store."""

    def __init__(self, *states: Any, now: datetime = NOW, reach: Reach | None = None) -> None:
        self.of = {(type(state), state.id): state for state in states}
        self.now = now
        self.installation = Installation()
        self.operations: Mapping[str, Any] = {}
        self.authority = self.profiles = self
        self.reached = reach or Reach(
            allow=(Candidate(policy_id=ANN, grant_id=ANN, span=Span(everything=True)),)
        )

    async def load(self, aggregate: Any, id: UUID) -> Any:
        if (aggregate.state, id) not in self.of:
            raise aggregate.missing.of(aggregate.name, id)
        return self.of[aggregate.state, id]

    async def load_all(self, aggregate: Any, ids: Collection[UUID]) -> Sequence[Any]:
        return [await self.load(aggregate, id) for id in ids]

    async def load_claimed(self, aggregate: Any, kind: str, key: str) -> Any:
        for state in self.states(aggregate.name, aggregate.state).values():
            if any((claim.kind, claim.key) == (kind, key) for claim in aggregate.claims(state)):
                return state
        raise aggregate.missing.of(aggregate.name, key)

    async def find(self, aggregate: Any, **filters: Any) -> Sequence[Any]:
        tests = [(each.of, filters[each.name]) for each in aggregate.listing.filters if each.name in filters]
        assert len(tests) == len(filters)
        found = self.states(aggregate.name, aggregate.state).values()
        return [state for state in found if all(of(state) == wanted for of, wanted in tests)]

    def states(self, aggregate: str, type: Any) -> Mapping[UUID, Any]:
        return {id: state for (kind, id), state in self.of.items() if kind is type}

    async def names(self, actor_ids: Collection[UUID]) -> Mapping[UUID, str]:
        return {id: f"actor {id.int}" for id in actor_ids}

    def reach(self, operation_name: str) -> Reach:
        return self.reached


def check_columns(
    grid: str,
    aggregate: Any,
    histories: Mapping[str, Sequence[Event]],
    verbs: Mapping[str, tuple[Command[Any], Callable[[Any], Any]]],
) -> None:
    """Check a status grid whose verbs see different things: each verb with what it sees of a state."""
    header, *rows = [line.split() for line in grid.strip().splitlines()]
    assert set(header) == set(verbs)
    for at, verb in enumerate(header, start=1):
        command, seen = verbs[verb]
        check_grid(
            "\n".join([verb, *(f"{row[0]} {row[at]}" for row in rows)]),
            aggregate,
            status=lambda state: state.status,
            reach=histories,
            verbs={verb: command},
            seen=seen,
        )
