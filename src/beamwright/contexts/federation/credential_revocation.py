"""Revoking a credential, unless a seal depends on it."""

from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .credential import (
    LIFECYCLE,
    Credential,
    CredentialRevoked,
    InvalidCredentialReasonError,
    credentials,
)
from .seal import Seal, seals


class CredentialInUseError(ConflictError):
    """A seal is signed with this credential, or delegated by it."""


class CredentialWithSeal(Value):
    """A credential, and the seal of its facility."""

    credential: Credential
    seal: Seal | None = None


@credentials.operation("POST /federation/credentials/{credential_id}/revoke")
class RevokeCredential(Command[CredentialWithSeal]):
    """End a credential for good: no key of it signs or verifies any more, not even what it signed before."""

    credential_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> CredentialWithSeal:
        credential = await world.load(credentials, self.credential_id)
        found = await world.load_known(seals, [credential.facility_id])
        return CredentialWithSeal(credential=credential, seal=found.get(credential.facility_id))

    def decide(self, seen: CredentialWithSeal, occasion: Occasion) -> CredentialRevoked:
        reason, credential = text.reason(self.reason, InvalidCredentialReasonError), seen.credential
        LIFECYCLE.check(CredentialRevoked, credential.status, credential.id)
        check_not_in_use(credential, seen.seal)
        return CredentialRevoked(credential_id=credential.id, occurred_at=occasion.now, reason=reason)


def check_not_in_use(credential: Credential, seal: Seal | None) -> None:
    """Gate: a seal keeps the key that it is signed with, and the root that vouches for it."""
    if seal and credential.id in (seal.online_credential_id, seal.offline_credential_id):
        raise CredentialInUseError(
            f"The seal of facility {seal.facility_id} depends on this credential; rotate its key instead.",
            facility_id=str(seal.facility_id),
            purpose=credential.purpose,
        )
