"""Making a plan: every part of a file compared with the service, in the order in which parts name each other."""

from msgspec import UNSET

from .asset_plan import AssetPlanner
from .calls import Calls
from .catalogue_plan import (
    plan_enclosures,
    plan_facility,
    plan_families,
    plan_models,
    plan_supplies,
)
from .checking import AssetAt, FacilitySource
from .document import FaultyFileError
from .live import Live
from .plan import Draft, Plan


def make_plan(source: FacilitySource, calls: Calls, reason: str) -> Plan:
    """What is to be done; names that nobody knows are faults of the file, and then there is no plan."""
    draft = Draft(source, Live(calls, source.facility.code), reason)
    plan_facility(draft)
    plan_families(draft)
    plan_models(draft)
    plan_enclosures(draft)
    assets = AssetPlanner(draft)
    assets.plan()
    plan_supplies(draft, _places(source, assets), assets.ids)
    if draft.faults:
        raise FaultyFileError(draft.faults)
    return draft.plan()


def _places(source: FacilitySource, assets: AssetPlanner) -> dict[int, AssetAt | str]:
    """The asset that each supply is within, by the supply's number."""
    places: dict[int, AssetAt | str] = {}
    for number, entry in enumerate(source.supplies):
        if entry.within is not UNSET:
            asset = assets.names.check_asset(entry.within, ("supplies", number, "within"))
            places |= {} if asset is None else {number: asset}
    return places
