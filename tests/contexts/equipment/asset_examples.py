"""Assets, families and models that several tests of assets begin with."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from beamwright.contexts.equipment.asset import (
    Asset,
    AssetActivated,
    AssetDecommissioned,
    AssetMaintenanceEntered,
    AssetRegistered,
    AssetTier,
    assets,
)
from beamwright.contexts.equipment.family import Family, FamilyDefined, FamilyDeprecated, families
from beamwright.contexts.equipment.model import Model, ModelDefined, ModelDeprecated, models
from beamwright.contexts.equipment.values import Manufacturer
from beamwright.contexts.federation.facility import Facility, FacilityKind, FacilityRegistered, facilities
from beamwright.kernel.declared_schema import DIALECT
from beamwright.kernel.event import Event
from beamwright.kernel.operation import Command
from beamwright.kernel.value import replace
from tests.grids import check_grid
from tests.rules import NOW, given

ROOT, STAGE, AXIS, OTHER, MODEL, ROTARY, LINEAR, CAMERA_FAMILY = (UUID(int=n) for n in range(701, 709))
SITE = UUID(int=710)

REGISTERED = AssetRegistered(
    asset_id=STAGE,
    occurred_at=NOW,
    name="Stage",
    tier=AssetTier.DEVICE,
    parent_id=ROOT,
    facility_code=None,
    scope_facility_code="aps",
)
ACTIVATED = AssetActivated(asset_id=STAGE, occurred_at=NOW)
MAINTENANCE = AssetMaintenanceEntered(asset_id=STAGE, occurred_at=NOW, reason="grease")
DECOMMISSIONED = AssetDecommissioned(asset_id=STAGE, occurred_at=NOW, reason="worn out")

LIFECYCLES: Mapping[str, Sequence[Event]] = {
    "Commissioned": [],
    "Active": [ACTIVATED],
    "Maintenance": [ACTIVATED, MAINTENANCE],
    "Decommissioned": [DECOMMISSIONED],
}


def asset(*events: Event, **changes: Any) -> Asset:
    """A stage below the root, with other first facts where told."""
    return given(assets, replace(REGISTERED, **changes), *events)


def root(code: str = "aps", id: UUID = ROOT) -> Asset:
    return asset(
        asset_id=id, name="Microtomography", parent_id=None, facility_code=code, scope_facility_code=code
    )


def below(parent: Asset, id: UUID, **changes: Any) -> Asset:
    return asset(
        asset_id=id,
        name=f"asset {id.int}",
        parent_id=parent.id,
        scope_facility_code=parent.scope_facility_code,
        **changes,
    )


def family(id: UUID, schema: dict[str, Any] | None = None, *, deprecated: bool = False) -> Family:
    defined = FamilyDefined(
        family_id=id,
        occurred_at=NOW,
        name=f"family {id.int}",
        affordances=frozenset(),
        settings_schema=schema,
        settings_schema_version=0 if schema is None else 1,
        presented_role_ids=frozenset(),
    )
    end = FamilyDeprecated(family_id=id, occurred_at=NOW, reason="old")
    return given(families, defined, *([end] if deprecated else []))


def model(*family_ids: UUID, deprecated: bool = False) -> Model:
    defined = ModelDefined(
        model_id=MODEL,
        occurred_at=NOW,
        name="ABRS-150",
        manufacturer=Manufacturer(name="Acme"),
        part_number="ABRS-150",
        declared_family_ids=frozenset(family_ids),
        version_tag=None,
    )
    end = ModelDeprecated(model_id=MODEL, occurred_at=NOW, reason="old")
    return given(models, defined, *([end] if deprecated else []))


def facility(code: str, id: UUID = SITE, parent_id: UUID | None = None) -> Facility:
    kind = FacilityKind.AREA if parent_id else FacilityKind.SITE
    first = FacilityRegistered(
        facility_id=id, occurred_at=NOW, code=code, display_name=code, kind=kind, parent_id=parent_id
    )
    return given(facilities, first)


def closed(**properties: dict[str, Any]) -> dict[str, Any]:
    """A declared schema of these properties."""
    return {
        "$schema": DIALECT,
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "unevaluatedProperties": False,
    }


def length(code: str, **more: Any) -> dict[str, Any]:
    return {"type": "number", "unit": {"system": "udunits", "code": code}, **more}


def check_lifecycles(
    grid: str,
    command: Command[Any],
    seen: Callable[[Asset], Any] = lambda state: state,
    first: AssetRegistered = REGISTERED,
) -> None:
    """A grid of one verb over the lifecycle."""
    header = grid.split()[0]
    check_grid(
        grid,
        assets,
        status=lambda state: state.lifecycle,
        reach={name: [first, *events] for name, events in LIFECYCLES.items()},
        verbs={header: command},
        seen=seen,
    )


def stays(verb: str) -> str:
    """The grid of a verb that a decommissioned asset refuses and that moves no lifecycle."""
    return f"""
                   {verb}
    Commissioned   Commissioned
    Active         Active
    Maintenance    Maintenance
    Decommissioned -
    """
