"""What makes assets a realisation of an assembly: slots filled, families right, wires joined."""

from collections.abc import Mapping, Sequence
from itertools import product
from unicodedata import normalize
from uuid import UUID

import msgspec

from beamwright.kernel.errors import ConflictError

from .assembly import SlotCardinality, TemplateSlot, TemplateWire
from .asset import IN_SERVICE, Asset
from .fixture import SlotAssetBinding
from .values import PortDirection

# Which assets each slot holds; slots that hold none are absent.
type Bound = Mapping[str, Sequence[Asset]]


class FixtureAssetBoundTwiceError(ConflictError):
    """An asset is bound to two slots."""


class FixtureAssetNotAttachableError(ConflictError):
    """Only an asset that is active or in maintenance becomes part of a fixture."""


class AssetAlreadyAttachedToFixtureError(ConflictError):
    """The asset is part of another fixture."""


class FixtureAssetNotInstalledError(ConflictError):
    """An asset of a fixture is installed in a mount."""


class FixtureAssetFacilityMismatchError(ConflictError):
    """The assets belong to more than one facility."""


class FixtureMappingIncompleteError(ConflictError):
    """A slot is unknown, or holds fewer or more assets than its cardinality admits."""


class FixtureAssetFamilyMismatchError(ConflictError):
    """The asset has none of the families that its slot takes."""


class FixtureWireNotSatisfiedError(ConflictError):
    """Two assets lack the ports, or the common signal type, that a wire between their slots needs."""


def bound_assets(bindings: Sequence[SlotAssetBinding], assets: Sequence[Asset]) -> Bound:
    """The assets of each slot, in the order of the bindings."""
    by_id = {asset.id: asset for asset in assets}
    held: dict[str, list[Asset]] = {}
    for binding in bindings:
        held.setdefault(binding.slot_name, []).append(by_id[binding.asset_id])
    return held


def check_bound_once(bindings: Sequence[SlotAssetBinding]) -> None:
    """Gate: an asset is in one slot."""
    seen: set[UUID] = set()
    for binding in bindings:
        if binding.asset_id in seen:
            raise FixtureAssetBoundTwiceError(
                f"Asset {binding.asset_id} is bound more than once; an asset fills one slot.",
                asset_id=str(binding.asset_id),
            )
        seen.add(binding.asset_id)


def check_attachable(assets: Sequence[Asset]) -> None:
    """Gate: every asset is in service, free, and stands in a mount."""
    for asset in assets:
        if asset.lifecycle not in IN_SERVICE:
            raise FixtureAssetNotAttachableError(
                f"Asset {asset.name} is {asset.lifecycle}; a fixture takes assets that are Active or in"
                " Maintenance.",
                asset_id=str(asset.id),
                lifecycle=asset.lifecycle,
            )
    for asset in assets:
        if asset.fixture_id is not None:
            raise AssetAlreadyAttachedToFixtureError(
                f"Asset {asset.name} is part of another fixture; retire that one first.",
                asset_id=str(asset.id),
                fixture_id=str(asset.fixture_id),
            )
    for asset in assets:
        if asset.mount_id is None:
            raise FixtureAssetNotInstalledError(
                f"Asset {asset.name} is in no mount; install it first.", asset_id=str(asset.id)
            )


def common_facility(assets: Sequence[Asset]) -> str:
    """The one facility that all assets belong to."""
    codes = sorted({asset.scope_facility_code for asset in assets})
    if len(codes) > 1:
        raise FixtureAssetFacilityMismatchError(
            f"The assets of a fixture belong to one facility, not to {', '.join(codes)}.",
            facility_codes=codes,
        )
    return codes[0]


def check_slots_filled(slots: Sequence[TemplateSlot], bound: Bound) -> None:
    """Gate: only known slots are filled, and each with as many assets as it takes."""
    unknown = sorted(bound.keys() - {slot.slot_name for slot in slots})
    if unknown:
        raise FixtureMappingIncompleteError(
            f"The assembly has no slots named {', '.join(unknown)}.", slot_names=unknown
        )
    wrong = [slot for slot in slots if not admits(slot.cardinality, len(bound.get(slot.slot_name, ())))]
    if wrong:
        said = ", ".join(f"{slot.slot_name} takes {slot.cardinality}" for slot in wrong)
        raise FixtureMappingIncompleteError(
            f"Slots hold too few or too many assets: {said}.",
            slot_names=sorted(slot.slot_name for slot in wrong),
        )


def admits(cardinality: SlotCardinality, count: int) -> bool:
    """Whether a slot may hold `count` assets."""
    match cardinality:
        case SlotCardinality.EXACTLY_1:
            return count == 1
        case SlotCardinality.ZERO_OR_ONE:
            return count <= 1
        case SlotCardinality.ONE_OR_MORE:
            return count >= 1
        case SlotCardinality.ZERO_OR_MORE:
            return True


def check_asset_families(slots: Sequence[TemplateSlot], bound: Bound) -> None:
    """Gate: an asset has one of the families that its slot takes."""
    for slot in slots:
        for asset in bound.get(slot.slot_name, ()):
            if asset.family_ids.isdisjoint(slot.required_family_ids):
                raise FixtureAssetFamilyMismatchError(
                    f"Asset {asset.name} has none of the families that slot {slot.slot_name} takes.",
                    asset_id=str(asset.id),
                    slot_name=slot.slot_name,
                    required_family_ids=sorted(map(str, slot.required_family_ids)),
                )


def check_wires_joined(wires: Sequence[TemplateWire], bound: Bound) -> None:
    """Gate: any two assets that a wire is to join can be joined; an empty slot has nothing to join."""
    for wire in wires:
        sources, targets = bound.get(wire.source_slot_name, ()), bound.get(wire.target_slot_name, ())
        # A port carries one signal type: whoever joins the first of the other side joins all of it.
        for source, target in (*product(sources[:1], targets), *product(sources, targets[:1])):
            if not joins(wire, source, target):
                raise FixtureWireNotSatisfiedError(
                    f"{source.name} needs an Output port {wire.source_port_name} and {target.name} an Input"
                    f" port {wire.target_port_name} of the same signal type.",
                    wire=msgspec.to_builtins(wire),
                    source_asset_id=str(source.id),
                    target_asset_id=str(target.id),
                )


def joins(wire: TemplateWire, source: Asset, target: Asset) -> bool:
    """Whether the wire's signal leaves `source` and enters `target`."""
    leaving = signal_types(source, PortDirection.OUTPUT, wire.source_port_name)
    entering = signal_types(target, PortDirection.INPUT, wire.target_port_name)
    return not leaving.isdisjoint(entering)


def signal_types(asset: Asset, direction: PortDirection, port_name: str) -> frozenset[str]:
    """What passes a port of this name; wires keep their names in NFC, ports as they were typed."""
    return frozenset(
        port.signal_type
        for port in asset.ports
        if port.direction is direction and normalize("NFC", port.name) == port_name
    )
