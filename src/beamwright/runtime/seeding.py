"""First start: the own facility, surfaces, zones, conduits, accounts and ready-made policies."""

from collections.abc import Sequence
from typing import Any

import structlog

from beamwright.contexts.trust.policy import (
    Policy,
    PolicyGrantAdded,
    PolicyResumed,
    PolicyStatus,
    PolicySuspended,
    policies,
)
from beamwright.contexts.trust.ready_made import ready_made_policies
from beamwright.contexts.trust.seeds import SeedStream, seed, seeded_grants
from beamwright.kernel import wellknown
from beamwright.kernel.event import Beside, Claim, Event, event_type, payload
from beamwright.kernel.store import (
    Append,
    ClaimTakenError,
    Envelope,
    LostRaceError,
    NewEvent,
    StreamName,
)

from .service import Service

log = structlog.get_logger("beamwright.seeding")

CORRELATION = "seed-installation"


async def seed_installation(service: Service, *, builtin_issuer: bool) -> None:
    """Idempotent: a stream that exists is left alone, but for grants that are new in this version.

    The only appends that no policy authorized.
    """
    await service.authority.refresh()
    streams = seed(
        service.now(),
        service.installation,
        service.registry.operations,
        service.new_id,
        builtin_issuer,
    )
    missing = await _missing(service, streams)
    # The first start writes everything at once; later ones add what is new, each for itself.
    first = not service.authority.current.states("Policy", Policy)
    for streams in [missing] if first and missing else [[stream] for stream in missing]:
        try:
            await service.store.append(_append(service, streams))
        except (LostRaceError, ClaimTakenError) as error:
            log.info("seed_left_out", streams=[str(stream.id) for stream in streams], error=str(error))
    if missing:
        await service.authority.refresh()
    await _complete_policies(service)
    await _set_laptop_policy(service)


async def _missing(service: Service, streams: Sequence[SeedStream]) -> list[SeedStream]:
    found = await service.store.read([(stream.aggregate, stream.id) for stream in streams])
    own_site = await service.store.claim_holder("facility-code", service.installation.self_facility_code)
    return [
        stream
        for stream in streams
        if (stream.aggregate, stream.id) not in found
        and not (stream.aggregate == "Facility" and own_site is not None)
    ]


def _append(service: Service, streams: Sequence[SeedStream]) -> Append:
    events: list[NewEvent] = []
    claimed: list[tuple[Claim, StreamName]] = []
    beside: list[Beside] = []
    for stream in streams:
        facts = [record for record in stream.records if isinstance(record, Event)]
        beside += [record for record in stream.records if isinstance(record, Beside)]
        name = (stream.aggregate, stream.id)
        aggregate = service.registry.aggregates[stream.aggregate]
        state: Any = aggregate.fold(facts)
        claimed += [(claim, name) for claim in aggregate.claims(state)]
        events += [_new_event(service, name, version, fact) for version, fact in enumerate(facts, 1)]
    return Append(
        envelope=_envelope(),
        events=events,
        seen={(stream.aggregate, stream.id): 0 for stream in streams},
        claimed=claimed,
        beside=beside,
    )


def _new_event(service: Service, name: StreamName, version: int, event: Event) -> NewEvent:
    kind = event_type(type(event))
    bumps = service.registry.aggregates[name[0]].authority
    row = (*name, version, kind.name, kind.schema_version, payload(event).decode(), event.occurred_at, bumps)
    return NewEvent(service.new_id(), *row)


def _envelope() -> Envelope:
    return Envelope(wellknown.SEEDER, "seed_installation", wellknown.IN_PROCESS_SURFACE, CORRELATION)


async def _set_laptop_policy(service: Service) -> None:
    """The laptop policy holds exactly while the service accepts calls without a token."""
    policy = service.authority.current.state("Policy", wellknown.LAPTOP_POLICY, Policy)
    wanted = PolicyStatus.ACTIVE if service.installation.laptop else PolicyStatus.SUSPENDED
    if policy is None or policy.status in (wanted, PolicyStatus.REVOKED):
        return
    now = service.now()
    event: Event = (
        PolicyResumed(policy_id=policy.id, occurred_at=now)
        if service.installation.laptop
        else PolicySuspended(policy_id=policy.id, occurred_at=now, reason="calls need a token")
    )
    name = ("Policy", policy.id)
    await _record(service, name, (await service.store.read([name]))[name].version, [event])


async def _complete_policies(service: Service) -> None:
    """Grant what ready-made policies of an older version could not: its operations did not exist."""
    known = {
        ("Policy", policy.id): policy
        for policy in ready_made_policies(service.installation.self_facility_code)
    }
    for name, stream in (await service.store.read(list(known))).items():
        now = service.now()
        history = [policies.current(event) for event in policies.stream_decoder.decode(stream.events)]
        policy = policies.fold(history)
        grants = seeded_grants(known[name], history, service.registry.operations, service.new_id)
        if grants and policy is not None and policy.status is not PolicyStatus.REVOKED:
            added = [PolicyGrantAdded(policy_id=name[1], occurred_at=now, grant=grant) for grant in grants]
            await _record(service, name, stream.version, added)
            new = sorted(text for grant in grants for text in grant.operations)
            log.info("ready_made_policy_completed", policy=known[name].name, operations=new)


async def _record(service: Service, name: StreamName, version: int, events: Sequence[Event]) -> None:
    new = [_new_event(service, name, version + number, event) for number, event in enumerate(events, 1)]
    try:
        await service.store.append(Append(envelope=_envelope(), events=new, seen={name: version}))
    except LostRaceError:
        log.info("policy_set_elsewhere", policy=str(name[1]))
    await service.authority.refresh()
