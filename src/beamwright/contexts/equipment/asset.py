"""Asset: one piece of equipment, or a virtual axis, in a tree of equipment."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.errors import CannotTransitionError, InvalidError, NotFoundError
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.identifiers import PersistentIdentifierRequest, PersistentIdentifierScheme
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, World
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.value import Time, Value, replace

from .asset_values import (
    AlternateIdentifier,
    AssetOwner,
    AssetPort,
    sorted_identifiers,
    sorted_owners,
    sorted_ports,
)
from .identifiers import identifier_claims
from .partition_rule import PartitionRule
from .values import Drawing

type AssetName = Annotated[
    str,
    Meta(
        description=(
            "One word of the domain for the role (a hexapod, not a product); a qualifier only once there is a"
            " second one. Never deployment, vendor, part number, process variable, controller handle, serial number"
            " or firmware version."
        ),
        extra_json_schema={"minLength": 1, "maxLength": 200},
    ),
]


class AssetTier(StrEnum):
    """`Unit`: a whole instrument; `Component`: a part of one; `Device`: what is driven or read."""

    UNIT = "Unit"
    COMPONENT = "Component"
    DEVICE = "Device"


class AssetLifecycle(StrEnum):
    """Whether the asset may be assigned to work."""

    COMMISSIONED = "Commissioned"
    ACTIVE = "Active"
    MAINTENANCE = "Maintenance"
    DECOMMISSIONED = "Decommissioned"


class AssetCondition(StrEnum):
    """How well the asset works, whatever its lifecycle."""

    NOMINAL = "Nominal"
    DEGRADED = "Degraded"
    FAULTED = "Faulted"


class AssetNotFoundError(NotFoundError):
    """There is no such asset."""


class InvalidAssetNameError(InvalidError):
    """The asset's name is blank or too long."""


class InvalidAssetReasonError(InvalidError):
    """The reason is blank or too long."""


class AssetCannotActivateError(CannotTransitionError):
    """Only a commissioned asset is activated."""


class AssetCannotEnterMaintenanceError(CannotTransitionError):
    """Only an active asset enters maintenance."""


class AssetCannotExitMaintenanceError(CannotTransitionError):
    """The asset is not in maintenance."""


class AssetCannotDecommissionError(CannotTransitionError):
    """The asset is decommissioned already."""


class AssetFact(Event):
    asset_id: UUID


class AssetRegistered(AssetFact):
    name: str
    tier: AssetTier
    parent_id: UUID | None
    facility_code: str | None
    scope_facility_code: str
    family_ids: frozenset[UUID] = frozenset()
    settings: dict[str, Any] = {}
    settings_schema_versions: dict[UUID, int] = {}
    ports: tuple[AssetPort, ...] = ()
    model_id: UUID | None = None
    drawing: Drawing | None = None
    controller_id: UUID | None = None
    located_in_enclosure_id: UUID | None = None
    alternate_identifiers: tuple[AlternateIdentifier, ...] = ()
    owners: tuple[AssetOwner, ...] = ()


class AssetRenamed(AssetFact):
    name: str


class AssetActivated(AssetFact): ...


class AssetMaintenanceEntered(AssetFact):
    reason: str


class AssetMaintenanceExited(AssetFact): ...


class AssetDecommissioned(AssetFact):
    reason: str


class AssetRelocated(AssetFact):
    from_parent_id: UUID
    to_parent_id: UUID
    reason: str


class AssetPlaced(AssetFact):
    from_enclosure_id: UUID | None
    to_enclosure_id: UUID | None
    reason: str


class AssetDegraded(AssetFact):
    from_condition: AssetCondition
    reason: str


class AssetFaulted(AssetFact):
    from_condition: AssetCondition
    reason: str


class AssetRestored(AssetFact):
    from_condition: AssetCondition
    reason: str


class AssetFamilyAdded(AssetFact):
    family_id: UUID
    settings_schema_versions: dict[UUID, int]


class AssetFamilyRemoved(AssetFact):
    family_id: UUID
    settings_schema_versions: dict[UUID, int]


class AssetSettingsUpdated(AssetFact):
    settings: dict[str, Any]
    settings_schema_versions: dict[UUID, int]


class AssetPartitionRuleUpdated(AssetFact):
    partition_rule: PartitionRule | None


class AssetModelAssigned(AssetFact):
    model_id: UUID | None


class AssetControllerAssigned(AssetFact):
    controller_id: UUID | None


class AssetDrawingAssigned(AssetFact):
    drawing: Drawing | None


class AssetPortAdded(AssetFact):
    port: AssetPort


class AssetPortRemoved(AssetFact):
    port_name: str


class AssetAlternateIdentifierAdded(AssetFact):
    alternate_identifier: AlternateIdentifier


class AssetAlternateIdentifierRemoved(AssetFact):
    alternate_identifier: AlternateIdentifier


class AssetOwnerAdded(AssetFact):
    owner: AssetOwner


class AssetOwnerRemoved(AssetFact):
    owner_name: str


class AssetPersistentIdentifierRequested(AssetFact):
    scheme: PersistentIdentifierScheme
    suffix: str


class AssetPersistentIdentifierAssigned(AssetFact):
    scheme: PersistentIdentifierScheme
    value: str
    authority: str


class AssetPersistentIdentifierFailed(AssetFact):
    scheme: PersistentIdentifierScheme
    reason: str


class AssetInstalledInMount(AssetFact):
    mount_id: UUID


class AssetUninstalledFromMount(AssetFact):
    mount_id: UUID


class AssetAttachedToFixture(AssetFact):
    fixture_id: UUID
    slot_name: str


class AssetDetachedFromFixture(AssetFact):
    fixture_id: UUID


type AssetLifecycleEvent = (
    AssetActivated | AssetMaintenanceEntered | AssetMaintenanceExited | AssetDecommissioned
)
type AssetConditionEvent = AssetDegraded | AssetFaulted | AssetRestored
type AssetDescriptionEvent = (
    AssetRenamed
    | AssetDrawingAssigned
    | AssetPortAdded
    | AssetPortRemoved
    | AssetAlternateIdentifierAdded
    | AssetAlternateIdentifierRemoved
    | AssetOwnerAdded
    | AssetOwnerRemoved
)
type AssetBindingEvent = (
    AssetRelocated
    | AssetPlaced
    | AssetModelAssigned
    | AssetControllerAssigned
    | AssetInstalledInMount
    | AssetUninstalledFromMount
    | AssetAttachedToFixture
    | AssetDetachedFromFixture
)
type AssetSettingsEvent = (
    AssetFamilyAdded | AssetFamilyRemoved | AssetSettingsUpdated | AssetPartitionRuleUpdated
)
type AssetIdentifierEvent = (
    AssetPersistentIdentifierRequested | AssetPersistentIdentifierAssigned | AssetPersistentIdentifierFailed
)
type AssetEvent = (
    AssetRegistered
    | AssetActivated
    | AssetMaintenanceEntered
    | AssetMaintenanceExited
    | AssetDecommissioned
    | AssetDegraded
    | AssetFaulted
    | AssetRestored
    | AssetRenamed
    | AssetDrawingAssigned
    | AssetPortAdded
    | AssetPortRemoved
    | AssetAlternateIdentifierAdded
    | AssetAlternateIdentifierRemoved
    | AssetOwnerAdded
    | AssetOwnerRemoved
    | AssetRelocated
    | AssetPlaced
    | AssetModelAssigned
    | AssetControllerAssigned
    | AssetInstalledInMount
    | AssetUninstalledFromMount
    | AssetAttachedToFixture
    | AssetDetachedFromFixture
    | AssetFamilyAdded
    | AssetFamilyRemoved
    | AssetSettingsUpdated
    | AssetPartitionRuleUpdated
    | AssetPersistentIdentifierRequested
    | AssetPersistentIdentifierAssigned
    | AssetPersistentIdentifierFailed
)

COMMISSIONED, ACTIVE, MAINTENANCE, DECOMMISSIONED = AssetLifecycle
IN_USE = frozenset({COMMISSIONED, ACTIVE, MAINTENANCE})
IN_SERVICE = frozenset({ACTIVE, MAINTENANCE})

LIFECYCLE = StateMachine[AssetLifecycle](
    {
        AssetActivated: move({COMMISSIONED}, ACTIVE, AssetCannotActivateError),
        AssetMaintenanceEntered: move({ACTIVE}, MAINTENANCE, AssetCannotEnterMaintenanceError),
        AssetMaintenanceExited: move({MAINTENANCE}, ACTIVE, AssetCannotExitMaintenanceError),
        AssetDecommissioned: move(IN_USE, DECOMMISSIONED, AssetCannotDecommissionError),
    }
)

CONDITIONS: Mapping[type[AssetFact], AssetCondition] = {
    AssetDegraded: AssetCondition.DEGRADED,
    AssetFaulted: AssetCondition.FAULTED,
    AssetRestored: AssetCondition.NOMINAL,
}


class Asset(Value):
    id: UUID
    name: str
    tier: AssetTier
    parent_id: UUID | None
    facility_code: str | None
    scope_facility_code: str
    lifecycle: AssetLifecycle = AssetLifecycle.COMMISSIONED
    condition: AssetCondition = AssetCondition.NOMINAL
    condition_reason: text.Reason | None = None
    condition_since: Time
    family_ids: frozenset[UUID] = frozenset()
    settings: dict[str, Any] = {}
    settings_schema_versions: dict[UUID, int] = {}
    ports: tuple[AssetPort, ...] = ()
    model_id: UUID | None = None
    drawing: Drawing | None = None
    controller_id: UUID | None = None
    located_in_enclosure_id: UUID | None = None
    alternate_identifiers: tuple[AlternateIdentifier, ...] = ()
    owners: tuple[AssetOwner, ...] = ()
    partition_rule: PartitionRule | None = None
    mount_id: UUID | None = None
    fixture_id: UUID | None = None
    external_refs: dict[str, ExternalRef] = {}
    persistent_identifier_request: PersistentIdentifierRequest | None = None
    commissioned_at: Time
    decommissioned_at: Time | None = None

    @property
    def decommissioned(self) -> bool:
        return self.lifecycle is AssetLifecycle.DECOMMISSIONED

    @property
    def words(self) -> str:
        """What the list is searched by."""
        numbers = [identifier.value for identifier in self.alternate_identifiers]
        serial_number = self.settings.get("serial_number", "")
        return " ".join([self.name, *numbers, *(owner.name for owner in self.owners), str(serial_number)])


def evolve(asset: Asset | None, event: AssetEvent) -> Asset:
    match event:
        case AssetRegistered():
            return registered(event)
        case _ if asset is None:
            raise ValueError(event)
        case AssetActivated() | AssetMaintenanceEntered() | AssetMaintenanceExited() | AssetDecommissioned():
            ended = event.occurred_at if isinstance(event, AssetDecommissioned) else None
            return replace(asset, lifecycle=LIFECYCLE.after(event), decommissioned_at=ended)
        case AssetDegraded() | AssetFaulted() | AssetRestored():
            return replace(
                asset,
                condition=CONDITIONS[type(event)],
                condition_reason=event.reason,
                condition_since=event.occurred_at,
            )
        case AssetFamilyAdded() | AssetFamilyRemoved() | AssetSettingsUpdated() | AssetPartitionRuleUpdated():
            return configured(asset, event)
        case (
            AssetPersistentIdentifierRequested()
            | AssetPersistentIdentifierAssigned()
            | AssetPersistentIdentifierFailed()
        ):
            return identified(asset, event)
        case (
            AssetRelocated()
            | AssetPlaced()
            | AssetModelAssigned()
            | AssetControllerAssigned()
            | AssetInstalledInMount()
            | AssetUninstalledFromMount()
            | AssetAttachedToFixture()
            | AssetDetachedFromFixture()
        ):
            return bound(asset, event)
        case _:
            return described(asset, event)


def registered(event: AssetRegistered) -> Asset:
    return Asset(
        id=event.asset_id,
        name=event.name,
        tier=event.tier,
        parent_id=event.parent_id,
        facility_code=event.facility_code,
        scope_facility_code=event.scope_facility_code,
        condition_since=event.occurred_at,
        family_ids=event.family_ids,
        settings=event.settings,
        settings_schema_versions=event.settings_schema_versions,
        ports=sorted_ports(event.ports),
        model_id=event.model_id,
        drawing=event.drawing,
        controller_id=event.controller_id,
        located_in_enclosure_id=event.located_in_enclosure_id,
        alternate_identifiers=sorted_identifiers(event.alternate_identifiers),
        owners=sorted_owners(event.owners),
        commissioned_at=event.occurred_at,
    )


def configured(asset: Asset, event: AssetSettingsEvent) -> Asset:
    match event:
        case AssetFamilyAdded():
            families, versions = asset.family_ids | {event.family_id}, event.settings_schema_versions
            return replace(asset, family_ids=families, settings_schema_versions=versions)
        case AssetFamilyRemoved():
            families, versions = asset.family_ids - {event.family_id}, event.settings_schema_versions
            return replace(asset, family_ids=families, settings_schema_versions=versions)
        case AssetSettingsUpdated():
            versions = event.settings_schema_versions
            return replace(asset, settings=event.settings, settings_schema_versions=versions)
        case AssetPartitionRuleUpdated():
            return replace(asset, partition_rule=event.partition_rule)
        case _:
            assert_never(event)


def bound(asset: Asset, event: AssetBindingEvent) -> Asset:
    match event:
        case AssetRelocated():
            return replace(asset, parent_id=event.to_parent_id)
        case AssetPlaced():
            return replace(asset, located_in_enclosure_id=event.to_enclosure_id)
        case AssetModelAssigned():
            return replace(asset, model_id=event.model_id)
        case AssetControllerAssigned():
            return replace(asset, controller_id=event.controller_id)
        case AssetInstalledInMount():
            return replace(asset, mount_id=event.mount_id)
        case AssetUninstalledFromMount():
            return replace(asset, mount_id=None)
        case AssetAttachedToFixture():
            return replace(asset, fixture_id=event.fixture_id)
        case AssetDetachedFromFixture():
            return replace(asset, fixture_id=None)
        case _:
            assert_never(event)


def described(asset: Asset, event: AssetDescriptionEvent) -> Asset:
    match event:
        case AssetRenamed():
            return replace(asset, name=event.name)
        case AssetDrawingAssigned():
            return replace(asset, drawing=event.drawing)
        case AssetPortAdded():
            return replace(asset, ports=sorted_ports([*asset.ports, event.port]))
        case AssetPortRemoved():
            kept = (port for port in asset.ports if port.name != event.port_name)
            return replace(asset, ports=tuple(kept))
        case AssetAlternateIdentifierAdded():
            identifiers = sorted_identifiers([*asset.alternate_identifiers, event.alternate_identifier])
            return replace(asset, alternate_identifiers=identifiers)
        case AssetAlternateIdentifierRemoved():
            others = (each for each in asset.alternate_identifiers if each != event.alternate_identifier)
            return replace(asset, alternate_identifiers=tuple(others))
        case AssetOwnerAdded():
            return replace(asset, owners=sorted_owners([*asset.owners, event.owner]))
        case AssetOwnerRemoved():
            owners = (owner for owner in asset.owners if owner.name != event.owner_name)
            return replace(asset, owners=tuple(owners))
        case _:
            assert_never(event)


def identified(asset: Asset, event: AssetIdentifierEvent) -> Asset:
    match event:
        case AssetPersistentIdentifierRequested():
            request = PersistentIdentifierRequest(
                scheme=event.scheme, suffix=event.suffix, requested_at=event.occurred_at
            )
            return replace(asset, persistent_identifier_request=request)
        case AssetPersistentIdentifierAssigned():
            ref = ExternalRef(value=event.value, authority=event.authority, assigned_at=event.occurred_at)
            refs = asset.external_refs | {str(event.scheme): ref}
            return replace(asset, external_refs=refs, persistent_identifier_request=None)
        case AssetPersistentIdentifierFailed():
            return replace(asset, persistent_identifier_request=None)
        case _:
            assert_never(event)


def claims(asset: Asset) -> list[Claim]:
    """A persistent identifier is never given up."""
    return list(identifier_claims(asset.external_refs))


assets = Aggregate[Asset, AssetEvent](
    "Asset",
    events=AssetEvent,
    evolve=evolve,
    missing=AssetNotFoundError,
    belongs=lambda asset: Belonging(facility_code=asset.scope_facility_code),
    claims=claims,
)
assets.reads(
    "/assets",
    filters=(
        "tier",
        "lifecycle",
        "condition",
        "parent_id",
        Filter[Asset](name="facility_code", type=str, of=lambda asset: asset.scope_facility_code),
        Filter[Asset](name="family_id", type=UUID, of=lambda asset: asset.family_ids, test=Test.CONTAINS),
        "model_id",
        "controller_id",
        "located_in_enclosure_id",
        "mount_id",
        "fixture_id",
        Filter[Asset](
            name="alternate_identifier",
            type=str,
            of=lambda asset: [identifier.text for identifier in asset.alternate_identifiers],
            test=Test.CONTAINS,
        ),
        Filter[Asset](name="identified", type=bool, of=lambda asset: bool(asset.external_refs)),
        Filter[Asset](name="virtual", type=bool, of=lambda asset: asset.partition_rule is not None),
    ),
    sorts=("name", "created_at", "updated_at", "commissioned_at"),
    text=("words",),
)
assets.lists_within(
    "GET /assets/{asset_id}/children",
    "ListAssetChildren",
    "parent_id",
    "List what is directly below an asset, filtered, searched and sorted.",
    "asset_id",
)


def check_in_use(asset: Asset, refusal: type[CannotTransitionError]) -> None:
    """Gate: a decommissioned asset is not changed any more."""
    if asset.decommissioned:
        raise refusal.of(asset.id, asset.lifecycle, IN_USE)


class AssetCommand(Command[Asset]):
    """A command that sees the asset it is about and nothing else."""

    asset_id: UUID

    async def gather(self, world: World) -> Asset:
        return await world.load(assets, self.asset_id)
