"""Whether a permit gives anything now: its peer is there, its time is not over, and a key can be used."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .credential import Credential, credentials, usable_key
from .facility import Facility, FacilityStatus, facilities
from .permit import (
    LIFECYCLE,
    FederationPermitStatus,
    Permit,
    PermitActivated,
    PermitResumed,
    expired,
    permits,
)


class PermitPeerNotActiveError(ConflictError):
    """The permit's peer is decommissioned."""


class PermitExpiredError(ConflictError):
    """The permit's time is over."""


class PermitCredentialNotUsableError(ConflictError):
    """No credential that the permit allows has a key that can be used now."""


class PermitScope(Value):
    """A permit, its peer, and the credentials that it allows."""

    permit: Permit
    peer: Facility
    credentials: tuple[Credential, ...]


async def load_scope(world: World, permit_id: UUID) -> PermitScope:
    """A permit and all that its gate looks at."""
    permit = await world.load(permits, permit_id)
    return PermitScope(
        permit=permit,
        peer=await world.load(facilities, permit.peer_facility_id),
        credentials=tuple(await world.load_all(credentials, sorted(permit.allowed_credential_ids))),
    )


def check_permit_gate(
    permit: Permit, peer: Facility, credentials: Sequence[Credential], now: datetime
) -> None:
    """Gate: what a permit needs besides its status, to be in force."""
    if peer.status is not FacilityStatus.ACTIVE:
        raise PermitPeerNotActiveError(
            f"The peer {peer.code} is {peer.status}; nothing is exchanged with it any more.",
            peer_facility_id=str(peer.id),
            status=peer.status,
        )
    if expired(permit, now):
        raise PermitExpiredError(
            f"The permit expired at {permit.expires_at}; amend its expiry first.",
            permit_id=str(permit.id),
            expires_at=str(permit.expires_at),
        )
    allowed = [each for each in credentials if each.id in permit.allowed_credential_ids]
    if not any(usable_key(credential, now) for credential in allowed):
        raise PermitCredentialNotUsableError(
            "Every allowed credential is revoked or expired; rotate one, or amend the permit to allow another.",
            permit_id=str(permit.id),
            credential_ids=sorted(str(id) for id in permit.allowed_credential_ids),
        )


def in_force(permit: Permit, peer: Facility, credentials: Sequence[Credential], now: datetime) -> bool:
    """Whether artifacts may flow under this permit now; tested again at every use."""
    if permit.status is not FederationPermitStatus.ACTIVE:
        return False
    try:
        check_permit_gate(permit, peer, credentials, now)
    except ConflictError:
        return False
    return True


@permits.operation("POST /federation/permits/{permit_id}/activate")
class ActivatePermit(Command[PermitScope]):
    """Let artifacts flow under a permit."""

    permit_id: UUID

    async def gather(self, world: World) -> PermitScope:
        return await load_scope(world, self.permit_id)

    def decide(self, seen: PermitScope, occasion: Occasion) -> PermitActivated:
        permit = seen.permit
        LIFECYCLE.check(PermitActivated, permit.status, permit.id)
        check_permit_gate(permit, seen.peer, seen.credentials, occasion.now)
        return PermitActivated(permit_id=permit.id, occurred_at=occasion.now)


@permits.operation("POST /federation/permits/{permit_id}/resume")
class ResumePermit(Command[PermitScope]):
    """Let artifacts flow again under a permit that was suspended."""

    permit_id: UUID

    async def gather(self, world: World) -> PermitScope:
        return await load_scope(world, self.permit_id)

    def decide(self, seen: PermitScope, occasion: Occasion) -> PermitResumed:
        permit = seen.permit
        LIFECYCLE.check(PermitResumed, permit.status, permit.id)
        check_permit_gate(permit, seen.peer, seen.credentials, occasion.now)
        return PermitResumed(permit_id=permit.id, occurred_at=occasion.now)
