"""Taking a facility out of use, when nothing of it is in use any more."""

from collections.abc import Sequence
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .credential import Credential, CredentialStatus, credentials
from .facility import (
    LIFECYCLE,
    Facility,
    FacilityDecommissioned,
    FacilityStatus,
    InvalidFacilityReasonError,
    facilities,
)
from .permit import FederationPermitStatus, Permit, permits


class FacilityIsOwnSiteError(ConflictError):
    """The Site that this installation is configured to be cannot be decommissioned."""


class FacilityHasActiveChildrenError(ConflictError):
    """Areas of the facility are still active."""


class FacilityInUseError(ConflictError):
    """Credentials or permits of the facility are not revoked."""


class FacilityPlace(Value):
    """A facility, what is part of it, its credentials and permits, and the code of the own Site."""

    facility: Facility
    children: tuple[Facility, ...]
    credentials: tuple[Credential, ...] = ()
    permits: tuple[Permit, ...] = ()
    self_facility_code: str


@facilities.operation("POST /federation/facilities/{facility_id}/decommission")
class DecommissionFacility(Command[FacilityPlace]):
    """Take a facility out of use for good."""

    facility_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> FacilityPlace:
        return FacilityPlace(
            facility=await world.load(facilities, self.facility_id),
            children=tuple(await world.find(facilities, parent_id=self.facility_id)),
            credentials=tuple(await world.find(credentials, facility_id=self.facility_id)),
            permits=tuple(await world.find(permits, peer_facility_id=self.facility_id)),
            self_facility_code=world.installation.self_facility_code,
        )

    def decide(self, place: FacilityPlace, occasion: Occasion) -> FacilityDecommissioned:
        reason, facility = text.reason(self.reason, InvalidFacilityReasonError), place.facility
        LIFECYCLE.check(FacilityDecommissioned, facility.status, facility.id)
        check_not_own_site(facility, place.self_facility_code)
        check_no_active_children(place.children)
        check_nothing_in_use(place.credentials, place.permits)
        return FacilityDecommissioned(facility_id=facility.id, occurred_at=occasion.now, reason=reason)


def check_not_own_site(facility: Facility, self_facility_code: str) -> None:
    """Gate: the installation keeps the Site that it is."""
    if facility.code == self_facility_code:
        raise FacilityIsOwnSiteError(
            f"{facility.code} is this installation's own Site (SELF_FACILITY_CODE) and stays.",
            facility_id=str(facility.id),
            code=facility.code,
        )


def check_no_active_children(children: Sequence[Facility]) -> None:
    """Gate: nothing that is a part of the facility may be in use."""
    active = [child for child in children if child.status is FacilityStatus.ACTIVE]
    if active:
        codes = sorted(child.code for child in active)
        raise FacilityHasActiveChildrenError(
            f"Decommission its areas first: {', '.join(codes)}.",
            facility_ids=sorted(str(child.id) for child in active),
            codes=codes,
        )


def check_nothing_in_use(credentials: Sequence[Credential], permits: Sequence[Permit]) -> None:
    """Gate: no key of the facility is believed, and nothing flows to or from it."""
    keys = [each for each in credentials if each.status is not CredentialStatus.REVOKED]
    grants = [each for each in permits if each.status is not FederationPermitStatus.REVOKED]
    if keys or grants:
        raise FacilityInUseError(
            "Revoke its credentials and permits first.",
            credential_ids=sorted(str(each.id) for each in keys),
            permit_ids=sorted(str(each.id) for each in grants),
        )
