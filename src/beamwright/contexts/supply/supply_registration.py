"""Registering supplies: for a facility and those it covers, or for one asset and what is below it."""

from collections.abc import Sequence
from uuid import UUID

from beamwright.contexts.equipment.asset import Asset, assets
from beamwright.contexts.federation.coverage import (
    check_bindable,
    covers,
    load_chain,
    load_facility,
)
from beamwright.contexts.federation.facility import Facility, FacilityCode
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .supply import (
    StatusSource,
    SupplyKind,
    SupplyRegistered,
    checked_status_source,
    supplies,
)


class InvalidSupplyKindError(InvalidError):
    """The supply's kind is blank or too long."""


class InvalidSupplyNameError(InvalidError):
    """The supply's name is blank or too long."""


class SupplyFacilityNotActiveError(ConflictError):
    """The facility is decommissioned, or is a Peer, which has no supplies here."""


class SupplyContainingAssetDecommissionedError(ConflictError):
    """The asset that the supply is to serve is decommissioned."""


class SupplyFacilityMismatchError(ConflictError):
    """The supply's facility does not cover the facility of the asset that it is to serve."""


class SupplyPlace(Value):
    """The facility of a new supply; the asset that contains it, and that one's facilities, nearest first."""

    facility: Facility
    asset: Asset | None = None
    asset_chain: tuple[Facility, ...] = ()


@supplies.operation("POST /supplies", creates=True)
class RegisterSupply(Command[SupplyPlace]):
    """Register a continuous resource; its status is Unknown until it is declared or observed."""

    kind: SupplyKind
    name: text.Name
    facility_code: FacilityCode
    containing_asset_id: UUID | None = None
    status_source: StatusSource | None = None

    async def gather(self, world: World) -> SupplyPlace:
        facility = await load_facility(world, self.facility_code)
        if self.containing_asset_id is None:
            return SupplyPlace(facility=facility)
        asset = await world.load(assets, self.containing_asset_id)
        if asset.scope_facility_code == facility.code:
            return SupplyPlace(facility=facility, asset=asset, asset_chain=(facility,))
        chain = await load_chain(world, asset.scope_facility_code)
        return SupplyPlace(facility=facility, asset=asset, asset_chain=chain)

    def decide(self, place: SupplyPlace, occasion: Occasion) -> SupplyRegistered:
        kind = text.trimmed(self.kind, 50, InvalidSupplyKindError, "kind")
        name = text.name(self.name, InvalidSupplyNameError)
        source = checked_status_source(self.status_source)
        check_bindable(place.facility, SupplyFacilityNotActiveError)
        if place.asset is not None:
            check_containing_asset(place.facility, place.asset, place.asset_chain)
        return SupplyRegistered(
            supply_id=occasion.new_id,
            occurred_at=occasion.now,
            kind=kind,
            name=name,
            facility_code=place.facility.code,
            containing_asset_id=self.containing_asset_id,
            status_source=source,
        )


def check_containing_asset(facility: Facility, asset: Asset, chain: Sequence[Facility]) -> None:
    """Gate: the asset is in use, and within what the facility covers."""
    if asset.decommissioned:
        raise SupplyContainingAssetDecommissionedError(
            f"{asset.name} is Decommissioned; choose another asset, or none.", asset_id=str(asset.id)
        )
    if not covers(facility.code, chain):
        raise SupplyFacilityMismatchError(
            f"{asset.name} is at {asset.scope_facility_code}, which {facility.code} does not cover.",
            asset_id=str(asset.id),
            facility_code=facility.code,
            scope_facility_code=asset.scope_facility_code,
        )
