"""Seeds: what an installation is born with, so that somebody can come in and make the rest."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from beamwright.contexts.access.actor import ActorLogin, ActorRegistered
from beamwright.contexts.federation.facility import FacilityKind, FacilityRegistered
from beamwright.kernel.event import Beside, Event
from beamwright.kernel.operation import Installation, Operation
from beamwright.kernel.profiles import Profile
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import Value
from beamwright.kernel.wellknown import (
    ADMINISTRATOR,
    BUILT_IN_ISSUER,
    CATALOGUE_SEEDER,
    CLEARANCE_EXPIRER,
    CLIENTS_CONDUIT,
    CLIENTS_ZONE,
    HTTP_SURFACE,
    IDENTIFIER_MINTER,
    IN_PROCESS_SURFACE,
    LOCAL_OPERATOR,
    MCP_STDIO_SURFACE,
    MCP_SURFACE,
    MONITOR,
    REACTOR,
    RUN_CONDUCTOR,
    SCHEDULER,
    SEEDER,
    SERVICE_CONDUIT,
    SERVICE_ZONE,
)

from .conduit import ConduitDefined, VerdictLevel
from .doors import CONTROLLED_BY_DEFAULT
from .policy import Grant, PolicyDefined, PolicyGrantAdded, PolicySuspended, matched
from .ready_made import SeedGrant, SeedPolicy, ready_made_policies
from .surface import SurfaceDefined, SurfaceKind
from .zone import ZoneDefined


class SeedStream(Value):
    """The first records of one stream, with what is written beside them."""

    aggregate: str
    id: UUID
    records: tuple[Event | Beside, ...]


def seed(
    occasion_now: datetime,
    installation: Installation,
    operations: Mapping[str, Operation],
    new_id: Callable[[], UUID],
    builtin_issuer: bool,
) -> list[SeedStream]:
    """Everything the first start records, each stream after those that it names."""
    return [
        *actor_streams(occasion_now, new_id, builtin_issuer),
        *door_streams(occasion_now),
        own_site(occasion_now, installation, new_id()),
        *(
            policy_stream(policy, occasion_now, operations, new_id)
            for policy in ready_made_policies(installation.self_facility_code)
        ),
    ]


def actor_streams(now: datetime, new_id: Callable[[], UUID], builtin_issuer: bool) -> list[SeedStream]:
    login = ActorLogin(issuer=BUILT_IN_ISSUER, subject=str(ADMINISTRATOR))
    linked = login.linked(ADMINISTRATOR, new_id(), now) if builtin_issuer else []
    return [
        actor_stream(LOCAL_OPERATOR, ActorKind.HUMAN, "Local operator", now),
        actor_stream(ADMINISTRATOR, ActorKind.HUMAN, "Administrator", now, linked),
        actor_stream(SEEDER, ActorKind.SERVICE_ACCOUNT, "Seeder", now),
        actor_stream(MONITOR, ActorKind.SERVICE_ACCOUNT, "Monitor", now),
        actor_stream(SCHEDULER, ActorKind.SERVICE_ACCOUNT, "Scheduler", now),
        actor_stream(REACTOR, ActorKind.SERVICE_ACCOUNT, "Reactor", now),
        actor_stream(RUN_CONDUCTOR, ActorKind.SERVICE_ACCOUNT, "Run conductor", now),
        actor_stream(CLEARANCE_EXPIRER, ActorKind.AGENT, "ClearanceExpirer", now),
        actor_stream(CATALOGUE_SEEDER, ActorKind.SERVICE_ACCOUNT, "Catalogue seeder", now),
        actor_stream(IDENTIFIER_MINTER, ActorKind.SERVICE_ACCOUNT, "Identifier minter", now),
    ]


def actor_stream(
    id: UUID, kind: ActorKind, name: str, now: datetime, linked: Sequence[Event | Beside] = ()
) -> SeedStream:
    registered = ActorRegistered(actor_id=id, occurred_at=now, kind=kind)
    profile = Profile(actor_id=id, name=name, created_at=now, updated_at=now)
    return SeedStream(aggregate="Actor", id=id, records=(registered, profile, *linked))


def door_streams(now: datetime) -> list[SeedStream]:
    """Zones, the conduits between them, and the surfaces that open onto these."""
    return [
        zone_stream(CLIENTS_ZONE, "Clients", now),
        zone_stream(SERVICE_ZONE, "Service", now),
        conduit_stream(CLIENTS_CONDUIT, "Clients to service", CLIENTS_ZONE, now),
        conduit_stream(SERVICE_CONDUIT, "Within service", SERVICE_ZONE, now),
        surface_stream(HTTP_SURFACE, "HTTP", SurfaceKind.HTTP, "urn:beamwright:http", now),
        surface_stream(
            MCP_STDIO_SURFACE, "MCP stdio", SurfaceKind.MCP_STDIO, "urn:beamwright:mcp-stdio", now
        ),
        surface_stream(MCP_SURFACE, "MCP", SurfaceKind.MCP_STREAMABLE_HTTP, "urn:beamwright:mcp", now),
        surface_stream(IN_PROCESS_SURFACE, "In-process", None, None, now),
    ]


def zone_stream(id: UUID, name: str, now: datetime) -> SeedStream:
    return SeedStream(aggregate="Zone", id=id, records=(ZoneDefined(zone_id=id, occurred_at=now, name=name),))


def conduit_stream(id: UUID, name: str, source_zone_id: UUID, now: datetime) -> SeedStream:
    defined = ConduitDefined(
        conduit_id=id,
        occurred_at=now,
        name=name,
        source_zone_id=source_zone_id,
        target_zone_id=SERVICE_ZONE,
        verdict_level=VerdictLevel.COMMANDS,
    )
    return SeedStream(aggregate="Conduit", id=id, records=(defined,))


def surface_stream(
    id: UUID, name: str, kind: SurfaceKind | None, audience: str | None, now: datetime
) -> SeedStream:
    defined = SurfaceDefined(
        surface_id=id,
        occurred_at=now,
        name=name,
        kind=kind,
        conduit_id=SERVICE_CONDUIT if kind is None else CLIENTS_CONDUIT,
        audience=audience,
        exclusive=False,
        controlled_operations=CONTROLLED_BY_DEFAULT,
    )
    return SeedStream(aggregate="Surface", id=id, records=(defined,))


def own_site(now: datetime, installation: Installation, id: UUID) -> SeedStream:
    code = installation.self_facility_code
    registered = FacilityRegistered(
        facility_id=id, occurred_at=now, code=code, display_name=code, kind=FacilityKind.SITE
    )
    return SeedStream(aggregate="Facility", id=id, records=(registered,))


def policy_stream(
    policy: SeedPolicy, now: datetime, operations: Mapping[str, Operation], new_id: Callable[[], UUID]
) -> SeedStream:
    """A policy with the patterns that match something, and the grants that have such a pattern."""
    grants = seeded_grants(policy, (), operations, new_id)
    defined = PolicyDefined(
        policy_id=policy.id,
        occurred_at=now,
        name=policy.name,
        description=policy.description,
        principals=policy.principals,
        grants=tuple(grants),
    )
    records: list[Event] = [defined]
    if policy.suspended:
        records.append(PolicySuspended(policy_id=policy.id, occurred_at=now, reason=policy.suspended))
    return SeedStream(aggregate="Policy", id=policy.id, records=tuple(records))


def seeded_grants(
    policy: SeedPolicy,
    history: Iterable[Event],
    operations: Mapping[str, Operation],
    new_id: Callable[[], UUID],
) -> list[Grant]:
    """What a ready-made policy has to grant and never did: what its installation had no operations for.

    Whatever was granted once stands in the history, so that what somebody has revoked is not granted again.
    """
    told = [grant for event in history for grant in granted(event)]
    had = {(terms(grant), text) for grant in told for text in grant.operations}
    return [
        Grant(
            grant_id=new_id(),
            effect=grant.effect,
            principals=grant.principals,
            operations=patterns,
            surface_ids=grant.surface_ids,
            scope=grant.scope,
        )
        for grant in policy.grants
        if (
            patterns := frozenset(
                text
                for text in grant.patterns
                if matched(text, operations) and (terms(grant), text) not in had
            )
        )
    ]


def granted(event: Event) -> Sequence[Grant]:
    match event:
        case PolicyDefined():
            return event.grants
        case PolicyGrantAdded():
            return [event.grant]
        case _:
            return []


def terms(grant: Grant | SeedGrant) -> tuple[object, ...]:
    """For whom, through which door and on what a grant is."""
    return grant.effect, grant.principals, grant.surface_ids, grant.scope
