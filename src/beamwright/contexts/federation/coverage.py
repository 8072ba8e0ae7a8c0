"""Which facility covers which: what a place offers reaches the places that are part of it."""

from collections.abc import Sequence

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import World

from .facility import (
    CODE,
    Facility,
    FacilityKind,
    FacilityStatus,
    InvalidFacilityCodeError,
    facilities,
)
from .registration import lineage


async def load_facility(world: World, code: str) -> Facility:
    """The facility of a code as it was typed."""
    code = text.code(code, CODE, InvalidFacilityCodeError, "facility code")
    return await world.load_claimed(facilities, "facility-code", code)


async def load_chain(world: World, code: str) -> tuple[Facility, ...]:
    """The facility of a code and every facility that covers it, nearest first."""
    facility = await load_facility(world, code)
    return (facility, *await lineage(world, facility.parent_id))


def covers(code: str, chain: Sequence[Facility]) -> bool:
    """Whether the facility of `code` is the first of `chain` or an ancestor of it."""
    return any(facility.code == code for facility in chain)


async def related(world: World, one: str, other: str) -> bool:
    """Whether one of two facilities covers the other; the streams walked are loaded, hence guarded."""
    if one == other:
        return True
    return covers(one, await load_chain(world, other)) or covers(other, await load_chain(world, one))


def check_bindable(facility: Facility, refusal: type[ConflictError]) -> None:
    """Gate: what is registered here belongs to a Site or Area in use."""
    if facility.status is not FacilityStatus.ACTIVE or facility.kind is FacilityKind.PEER:
        raise refusal(
            f"Facility {facility.code} is a {facility.kind} and {facility.status}; choose an Active Site or Area.",
            facility_code=facility.code,
            kind=facility.kind,
            status=facility.status,
        )
