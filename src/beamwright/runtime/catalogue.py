"""Seeds that are ordinary commands: the starter catalogue is defined by its own account, once, ever."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

import structlog

from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.errors import ConflictError, DomainError
from beamwright.kernel.operation import Command

from .call import Call
from .service import Service

log = structlog.get_logger("beamwright.catalogue")

type Seed = tuple[UUID, Command[Any]]


async def install(service: Service, account: UUID, seeds: Sequence[Seed]) -> Mapping[str, int]:
    """Define what is missing, with its fixed id; a stream that exists is left alone. Counts per aggregate."""
    owners = {type(command): service.registry.by_request[type(command)].aggregate for _, command in seeds}
    known = await service.store.read([(owners[type(command)], id) for id, command in seeds])
    done = {name[1]: stream.version for name, stream in known.items()}
    missing: list[Seed] = []
    for id, command in seeds:
        # Several commands on one stream are its first events.
        if done.get(id, 0) > 0:
            done[id] -= 1
        else:
            missing.append((id, command))
    counts: dict[str, int] = {}
    # One kind after the other, since later ones name earlier ones; each kind at once.
    for kind, group in groupby(missing, key=lambda seed: type(seed[1])):
        made = await asyncio.gather(*(_define(service, account, *seed) for seed in group))
        counts[owners[kind]] = counts.get(owners[kind], 0) + sum(made)
    return counts


async def _define(service: Service, account: UUID, id: UUID, command: Command[Any]) -> bool:
    try:
        await service.call(command, account_call(account, f"seed-{id}", new_id=id))
    except ConflictError as refusal:
        # Another process was first, or the facility uses the name for something of its own.
        log.info("seed_left_out", id=str(id), code=type(refusal).__name__)
        return False
    except DomainError as refusal:
        log.warning("seed_refused", id=str(id), code=type(refusal).__name__, detail=refusal.detail)
        return False
    return True


def account_call(
    account: UUID, correlation_id: str, *, new_id: UUID | None = None, idempotency_key: str | None = None
) -> Call:
    """How one of the service's own accounts calls: inside the service, through the same door as everyone."""
    return Call(
        caller=Caller(principal_id=account, kind="service_account"),
        surface_id=wellknown.IN_PROCESS_SURFACE,
        conduit_id=wellknown.SERVICE_CONDUIT,
        correlation_id=correlation_id,
        idempotency_key=idempotency_key,
        new_id=new_id,
    )
