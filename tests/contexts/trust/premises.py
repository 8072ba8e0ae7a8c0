"""A small installation that the tests of authorization share: actors, doors, facilities, grants."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from beamwright.contexts.access.actor import (
    ActorRegistered,
    RegisterActor,
)
from beamwright.contexts.federation.facility import FacilityKind, FacilityRegistered
from beamwright.contexts.trust.authorization import Snapshot
from beamwright.contexts.trust.conduit import ConduitDefined, VerdictLevel
from beamwright.contexts.trust.policy import (
    Grant,
    GrantEffect,
    GrantScope,
    GrantScopeKind,
    ListPolicies,
    PolicyDefined,
    Principals,
)
from beamwright.contexts.trust.surface import (
    SurfaceDefined,
    SurfaceKind,
)
from beamwright.contexts.trust.visit import (
    VisitArrived,
    VisitRegistered,
    VisitStarted,
    VisitType,
)
from beamwright.kernel.authority import Authority, AuthzResult, Caller
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.operation import Installation, Operation
from beamwright.kernel.roles import ActorKind, VisitRole, VisitStatus
from beamwright.kernel.wellknown import HTTP_SURFACE, IN_PROCESS_SURFACE
from tests.rules import NOW

ANN, BEN, EVE, ROBOT, STRANGER = (UUID(int=number) for number in range(101, 106))
CONDUIT, HALL, HOME, HUTCH, AWAY = (UUID(int=number) for number in range(201, 206))
VISIT, PART, OTHER_VISIT = (UUID(int=number) for number in range(301, 304))
A, B = UUID(int=401), UUID(int=402)
ISSUER = "https://login.example.org"
LATER = NOW + timedelta(hours=1)


def operation(context: str, name: str) -> Operation:
    reads = name.startswith(("get_", "list_"))
    return Operation(
        name=name,
        method="GET" if reads else "POST",
        path=f"/{name}",
        path_fields=(),
        reads=reads,
        context=context,
        aggregate="Thing",
        target=None,
        id_field="thing_id",
        request=ListPolicies if reads else RegisterActor,
        response=None,
        permission=name,
    )


OPERATIONS: Mapping[str, Operation] = {
    name: operation(context, name)
    for context, names in {
        "run": ("start_run", "stop_run", "get_run", "list_runs"),
        "trust": ("add_grant", "revoke_grant", "add_policy_principal", "resume_policy", "list_policies"),
        "access": ("reactivate_actor", "get_actor", "update_actor_profile"),
    }.items()
    for name in names
}


def actor(id: UUID, kind: ActorKind = ActorKind.HUMAN) -> ActorRegistered:
    return ActorRegistered(actor_id=id, occurred_at=NOW, kind=kind)


def conduit(id: UUID) -> ConduitDefined:
    return ConduitDefined(
        conduit_id=id,
        occurred_at=NOW,
        name="conduit",
        source_zone_id=A,
        target_zone_id=A,
        verdict_level=VerdictLevel.COMMANDS,
    )


def surface(id: UUID, kind: SurfaceKind | None, exclusive: bool = False) -> SurfaceDefined:
    return SurfaceDefined(
        surface_id=id,
        occurred_at=NOW,
        name="door",
        kind=kind,
        conduit_id=CONDUIT,
        audience=None,
        exclusive=exclusive,
        controlled_operations=frozenset({"run:start_*"}),
    )


def facility(id: UUID, code: str, parent_id: UUID | None = None) -> FacilityRegistered:
    return FacilityRegistered(
        facility_id=id,
        occurred_at=NOW,
        code=code,
        display_name=code,
        kind=FacilityKind.AREA if parent_id else FacilityKind.SITE,
        parent_id=parent_id,
    )


PREMISES: list[Event] = [
    *(actor(id) for id in (ANN, BEN, EVE)),
    actor(ROBOT, ActorKind.AGENT),
    actor(STRANGER, ActorKind.SERVICE_ACCOUNT),
    conduit(CONDUIT),
    surface(HTTP_SURFACE, SurfaceKind.HTTP),
    surface(IN_PROCESS_SURFACE, None),
    facility(HOME, "home"),
    facility(HALL, "hall", HOME),
    facility(HUTCH, "hutch", HALL),
    facility(AWAY, "away"),
]


def authority(*events: Event, laptop: bool = False) -> Snapshot:
    installation = Installation(issuers=frozenset({ISSUER}), laptop=laptop)
    return Snapshot({}, OPERATIONS, installation, 1).after([*PREMISES, *events])


def grant(
    kind: GrantScopeKind = GrantScopeKind.EVERYTHING,
    *,
    operations: Collection[str] = ("*:*",),
    effect: GrantEffect = GrantEffect.ALLOW,
    number: int = 1,
    facility_codes: Collection[str] = (),
    visit_ids: Collection[UUID] = (),
    visit_statuses: Collection[VisitStatus] = (),
    **fields: Any,
) -> Grant:
    scope = GrantScope(
        kind=kind,
        facility_codes=frozenset(facility_codes),
        visit_ids=frozenset(visit_ids),
        visit_statuses=frozenset(visit_statuses),
    )
    return Grant(
        grant_id=UUID(int=500 + number),
        effect=effect,
        operations=frozenset(operations),
        scope=scope,
        **fields,
    )


def policy(
    *grants: Grant,
    id: UUID = A,
    actor_ids: Collection[UUID] = (),
    kinds: Collection[ActorKind] = (),
    roles: Collection[VisitRole] = (),
) -> PolicyDefined:
    principals = Principals(
        actor_ids=frozenset(actor_ids), kinds=frozenset(kinds), visit_roles=frozenset(roles)
    )
    return PolicyDefined(
        policy_id=id, occurred_at=NOW, name=f"policy {id.int}", principals=principals, grants=grants
    )


def visit(
    id: UUID = VISIT,
    members: Mapping[UUID, VisitRole] | None = None,
    *,
    parent_id: UUID | None = None,
    policy_id: UUID | None = None,
    facility_code: str = "hall",
) -> VisitRegistered:
    return VisitRegistered(
        visit_id=id,
        occurred_at=NOW,
        code=str(id.int),
        title="Bread",
        facility_code=facility_code,
        surface_id=HTTP_SURFACE,
        policy_id=policy_id,
        type=VisitType.USER,
        planned_start_at=NOW,
        planned_end_at=LATER,
        parent_id=parent_id,
        members=dict(members or {}),
        external_refs={},
    )


def started(id: UUID = VISIT) -> list[Event]:
    return [VisitArrived(visit_id=id, occurred_at=NOW), VisitStarted(visit_id=id, occurred_at=NOW)]


def ask(
    snapshot: Authority,
    principal_id: UUID = ANN,
    name: str = "start_run",
    *,
    surface_id: UUID = HTTP_SURFACE,
    conduit_id: UUID = CONDUIT,
    scopes: Collection[str] = (),
    now: datetime = NOW,
) -> AuthzResult:
    caller = Caller(principal_id=principal_id, kind="human", scopes=frozenset(scopes))
    return snapshot.authorize(caller, name, conduit_id, surface_id, now)


def at(code: str, *visit_ids: UUID) -> Belonging:
    """Where an object of a facility, and of visits, belongs."""
    return Belonging(facility_code=code, visit_ids=frozenset(visit_ids))


ANN_MAY = policy(grant(), actor_ids=[ANN])
STOP_DENIED = policy(
    grant(
        GrantScopeKind.FACILITY,
        facility_codes=["home"],
        operations=["run:stop_run"],
        effect=GrantEffect.DENY,
        number=2,
    ),
    id=B,
    kinds=[ActorKind.HUMAN],
)
NOWHERE = Belonging.nowhere
