"""Trust anchors: the root keys that are believed for a facility's seal."""

from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .credential import Credential, CredentialPurpose, CredentialStatus, credentials
from .facility import (
    LIFECYCLE,
    Facility,
    FacilityCannotAddTrustAnchorError,
    FacilityKind,
    FacilityTrustAnchorAdded,
    FacilityTrustAnchorRemoved,
    InvalidFacilityReasonError,
    facilities,
)
from .seal import Seal, seals

MOST_ANCHORS = 4


class FacilityTrustAnchorAlreadyPresentError(ConflictError):
    """The credential is a trust anchor of the facility already."""


class FacilityTrustAnchorMismatchError(ConflictError):
    """The credential is another facility's, is no offline root, or is not Active."""


class FacilityTrustAnchorNotPresentError(ConflictError):
    """The credential is no trust anchor of the facility."""


class FacilityTrustAnchorInUseError(ConflictError):
    """The facility's seal has this credential as its offline root."""


class FacilityWithRoot(Value):
    """A facility, the root that is to be believed, and the code of the own Site."""

    facility: Facility
    credential: Credential
    self_facility_code: str


@facilities.operation("POST /federation/facilities/{facility_id}/trust-anchors/add")
class AddFacilityTrustAnchor(Command[FacilityWithRoot]):
    """Believe a root key for the seal of the own Site or of a Peer."""

    facility_id: UUID
    credential_id: UUID

    async def gather(self, world: World) -> FacilityWithRoot:
        return FacilityWithRoot(
            facility=await world.load(facilities, self.facility_id),
            credential=await world.load(credentials, self.credential_id),
            self_facility_code=world.installation.self_facility_code,
        )

    def decide(self, seen: FacilityWithRoot, occasion: Occasion) -> FacilityTrustAnchorAdded:
        facility = seen.facility
        LIFECYCLE.check(FacilityTrustAnchorAdded, facility.status, facility.id)
        check_can_have_anchor(facility, seen.self_facility_code)
        check_anchor_absent(facility, self.credential_id)
        check_root(facility, seen.credential)
        return FacilityTrustAnchorAdded(
            facility_id=facility.id, occurred_at=occasion.now, credential_id=self.credential_id
        )


class FacilityWithSeal(Value):
    """A facility and its seal."""

    facility: Facility
    seal: Seal | None = None


@facilities.operation("POST /federation/facilities/{facility_id}/trust-anchors/remove")
class RemoveFacilityTrustAnchor(Command[FacilityWithSeal]):
    """Stop believing a root key for a facility's seal."""

    facility_id: UUID
    credential_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> FacilityWithSeal:
        facility = await world.load(facilities, self.facility_id)
        found = await world.load_known(seals, [facility.id])
        return FacilityWithSeal(facility=facility, seal=found.get(facility.id))

    def decide(self, seen: FacilityWithSeal, occasion: Occasion) -> FacilityTrustAnchorRemoved:
        reason, facility = text.reason(self.reason, InvalidFacilityReasonError), seen.facility
        LIFECYCLE.check(FacilityTrustAnchorRemoved, facility.status, facility.id)
        if self.credential_id not in facility.trust_anchor_credential_ids:
            raise FacilityTrustAnchorNotPresentError(
                f"Credential {self.credential_id} is no trust anchor of {facility.code}.",
                credential_id=str(self.credential_id),
            )
        if seen.seal is not None and seen.seal.offline_credential_id == self.credential_id:
            raise FacilityTrustAnchorInUseError(
                f"The seal of {facility.code} has this root; it is rotated, not removed.",
                credential_id=str(self.credential_id),
            )
        return FacilityTrustAnchorRemoved(
            facility_id=facility.id,
            occurred_at=occasion.now,
            credential_id=self.credential_id,
            reason=reason,
        )


def check_can_have_anchor(facility: Facility, self_facility_code: str) -> None:
    """Gate: the own Site and Peers have seals, and few roots."""
    if facility.kind is not FacilityKind.PEER and facility.code != self_facility_code:
        raise FacilityCannotAddTrustAnchorError(
            f"{facility.code} is a {facility.kind}; only the own Site and Peers have seals.",
            facility_id=str(facility.id),
            kind=facility.kind,
        )
    if len(facility.trust_anchor_credential_ids) >= MOST_ANCHORS:
        raise FacilityCannotAddTrustAnchorError(
            f"{facility.code} has {MOST_ANCHORS} trust anchors already; remove one first.",
            facility_id=str(facility.id),
            most=MOST_ANCHORS,
        )


def check_anchor_absent(facility: Facility, credential_id: UUID) -> None:
    if credential_id in facility.trust_anchor_credential_ids:
        raise FacilityTrustAnchorAlreadyPresentError(
            f"Credential {credential_id} is a trust anchor of {facility.code} already.",
            credential_id=str(credential_id),
        )


def check_root(facility: Facility, credential: Credential) -> None:
    """Gate: what is believed for a facility is its own root, in use."""
    fits = (
        credential.facility_id == facility.id
        and credential.purpose is CredentialPurpose.SEAL_OFFLINE_ROOT
        and credential.status is CredentialStatus.ACTIVE
    )
    if not fits:
        raise FacilityTrustAnchorMismatchError(
            f"Choose an Active SealOfflineRoot credential of {facility.code}.",
            credential_id=str(credential.id),
            facility_id=str(credential.facility_id),
            purpose=credential.purpose,
            status=credential.status,
        )
