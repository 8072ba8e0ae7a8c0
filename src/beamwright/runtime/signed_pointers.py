"""The pointers that the own seal has signed, as the whole store holds them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from beamwright.contexts.federation.credential import credentials
from beamwright.contexts.federation.seal import (
    SealInitialized,
    SealOnlineKeyRotated,
    SealPointerSigned,
    seals,
)
from beamwright.contexts.federation.seal_reads import online_keys, root_keys, signed_digests
from beamwright.contexts.federation.seal_statements import as_signed
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.log_digest import SignedDigest
from beamwright.kernel.store import Stored

# The events of a stream type, by stream, then by version.
type Events = Callable[[str], AsyncIterator[Stored]]
type SealRecord = SealInitialized | SealOnlineKeyRotated | SealPointerSigned


class SignedPointers(NamedTuple):
    """Pointers, what they say of the log, and the numbers of those whose signature does not hold."""

    events: Sequence[SealPointerSigned]
    digests: Sequence[SignedDigest]
    forged: Sequence[int]


async def signed_pointers(events: Events) -> SignedPointers:
    """What cannot be decoded is left to the check of events."""
    found: list[SealPointerSigned] = []
    forged: set[int] = set()
    digests: list[SignedDigest] = []
    for records in (await _by_stream(events)).values():
        pointers = [event for event in records if isinstance(event, SealPointerSigned)]
        if pointers:
            keys = await _keys(events, records)
            forged |= {event.sequence_number for event in pointers if not as_signed(event, keys)}
            signed, unreadable = signed_digests(pointers)
            forged.update(unreadable)
            digests += signed
            found += pointers
    return SignedPointers(found, digests, sorted(forged))


async def _by_stream(events: Events) -> Mapping[UUID, list[SealRecord]]:
    records: dict[UUID, list[SealRecord]] = {}
    async for stored in events(seals.name):
        event = _decoded(seals, stored)
        if isinstance(event, SealInitialized | SealOnlineKeyRotated | SealPointerSigned):
            records.setdefault(stored.stream_id, []).append(event)
    return records


async def _keys(events: Events, records: Sequence[SealRecord]) -> Mapping[str, str]:
    """The online keys that a root of the seal has vouched for."""
    roots = {each.offline_credential_id for each in records if isinstance(each, SealInitialized)}
    state: Any = None
    async for stored in events(credentials.name):
        event = _decoded(credentials, stored)
        if stored.stream_id in roots and event is not None:
            state = credentials.fold([event], state)
    return online_keys(records, root_keys(state)) if state is not None else {}


def _decoded(aggregate: Aggregate[Any, Any], stored: Stored) -> Any:
    try:
        return aggregate.current(aggregate.decoder.decode(stored.tagged))
    except (msgspec.DecodeError, ValueError):
        return None
