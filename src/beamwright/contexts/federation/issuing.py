"""Whose statements are whose: facilities by their codes whoever asks, and which peer a caller speaks for."""

from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import World

from .facility import Facility, FacilityKind, FacilityNotFoundError, FacilityStatus, facilities


async def facility_of(world: World, code: str) -> Facility:
    """The facility of a code that no request names: a peer's account delivers without reading facilities."""
    found = await world.find(facilities, code=code)
    if not found:
        raise FacilityNotFoundError.of("Facility", code)
    return found[0]


async def own_site(world: World) -> Facility:
    return await facility_of(world, world.installation.self_facility_code)


async def load_issuer(world: World, code: str, mismatch: type[ConflictError]) -> Facility:
    """The Active Peer that a statement is of; a peer's own account brings no other's."""
    peer = await facility_of(world, code)
    if peer.kind is not FacilityKind.PEER or peer.status is not FacilityStatus.ACTIVE:
        raise FacilityNotFoundError.of("Active Peer", code)
    speaker = spoken_for(world)
    if speaker is not None and speaker.id != peer.id:
        raise mismatch(
            f"You are the account of {speaker.code}, and this is a statement of {peer.code}.",
            issuer_facility_code=peer.code,
            peer_facility_code=speaker.code,
        )
    return peer


def spoken_for(world: World) -> Facility | None:
    """The peer whose account the caller is, if it is one; it was perhaps another's before."""
    principal = world.caller.principal_id
    known = world.authority.states("Facility", Facility).values()
    mine = sorted(
        (each for each in known if each.peer_actor_id == principal),
        key=lambda each: each.status is not FacilityStatus.ACTIVE,
    )
    return mine[0] if mine else None
