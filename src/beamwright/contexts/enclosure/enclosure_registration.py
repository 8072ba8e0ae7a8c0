"""Registering enclosures: each belongs to a facility in use."""

from beamwright.contexts.federation.coverage import check_bindable, load_facility
from beamwright.contexts.federation.facility import Facility, FacilityCode
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World

from .enclosure import (
    EnclosureRegistered,
    InvalidEnclosureNameError,
    PermitSource,
    checked_permit_source,
    enclosures,
)


class EnclosureFacilityNotActiveError(ConflictError):
    """The facility is decommissioned, or is a Peer, which has no enclosures here."""


@enclosures.operation("POST /enclosures", creates=True)
class RegisterEnclosure(Command[Facility]):
    """Register an interlock-gated volume; its permit is Unknown until it is observed."""

    name: text.Name
    facility_code: FacilityCode
    permit_source: PermitSource | None = None

    async def gather(self, world: World) -> Facility:
        return await load_facility(world, self.facility_code)

    def decide(self, facility: Facility, occasion: Occasion) -> EnclosureRegistered:
        name = text.name(self.name, InvalidEnclosureNameError)
        source = checked_permit_source(self.permit_source)
        check_bindable(facility, EnclosureFacilityNotActiveError)
        return EnclosureRegistered(
            enclosure_id=occasion.new_id,
            occurred_at=occasion.now,
            name=name,
            facility_code=facility.code,
            permit_source=source,
        )
