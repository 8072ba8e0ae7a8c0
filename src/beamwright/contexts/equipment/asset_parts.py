"""What an asset is described by, one by one: its drawing, ports, other identifiers and owners."""

from collections.abc import Sequence

from beamwright.kernel import text
from beamwright.kernel.errors import CannotTransitionError, ConflictError
from beamwright.kernel.operation import Occasion

from .asset import (
    Asset,
    AssetAlternateIdentifierAdded,
    AssetAlternateIdentifierRemoved,
    AssetCommand,
    AssetDrawingAssigned,
    AssetOwnerRemoved,
    AssetPortAdded,
    AssetPortRemoved,
    assets,
    check_in_use,
)
from .asset_values import (
    AlternateIdentifier,
    AlternateIdentifierKind,
    AssetOwner,
    AssetPort,
    InvalidAlternateIdentifierError,
    InvalidAssetOwnerError,
    InvalidAssetPortError,
    OwnerText,
    checked_alternate_identifier,
    checked_owner,
    checked_port,
)
from .values import Drawing, PortDirection, Short, SignalType, checked_drawing

MOST_PORTS = 200
MOST_ALTERNATE_IDENTIFIERS = 50
MOST_OWNERS = 20


class AssetCannotAssignDrawingError(CannotTransitionError):
    """A decommissioned asset keeps its drawing."""


class AssetCannotAddPortError(CannotTransitionError):
    """A decommissioned asset keeps its ports."""


class AssetCannotRemovePortError(CannotTransitionError):
    """A decommissioned asset keeps its ports."""


class AssetPortAlreadyPresentError(ConflictError):
    """The asset has a port of this name, or it is named twice."""


class AssetPortNotPresentError(ConflictError):
    """The asset has no port of this name."""


class AssetCannotAddAlternateIdentifierError(CannotTransitionError):
    """A decommissioned asset keeps its alternate identifiers."""


class AssetCannotRemoveAlternateIdentifierError(CannotTransitionError):
    """A decommissioned asset keeps its alternate identifiers."""


class AssetAlternateIdentifierAlreadyPresentError(ConflictError):
    """The asset has this alternate identifier, or it is named twice."""


class AssetAlternateIdentifierNotPresentError(ConflictError):
    """The asset has no such alternate identifier."""


class AssetOwnerAlreadyPresentError(ConflictError):
    """The asset has an owner of this name, or it is named twice."""


class AssetCannotRemoveOwnerError(CannotTransitionError):
    """A decommissioned asset keeps its owners."""


class AssetOwnerNotPresentError(ConflictError):
    """The asset has no owner of this name."""


@assets.operation("POST /assets/{asset_id}/assign-drawing")
class AssignAssetDrawing(AssetCommand):
    """Say where the drawing of an asset is kept; null takes it back."""

    drawing: Drawing | None = None

    def decide(self, asset: Asset, occasion: Occasion) -> list[AssetDrawingAssigned]:
        drawing = checked_drawing(self.drawing)
        check_in_use(asset, AssetCannotAssignDrawingError)
        if drawing == asset.drawing:
            return []
        return [AssetDrawingAssigned(asset_id=asset.id, occurred_at=occasion.now, drawing=drawing)]


@assets.operation("POST /assets/{asset_id}/ports/add")
class AddAssetPort(AssetCommand):
    """Add a port to an asset."""

    name: Short
    direction: PortDirection
    signal_type: SignalType

    def decide(self, asset: Asset, occasion: Occasion) -> AssetPortAdded:
        port = AssetPort(name=self.name, direction=self.direction, signal_type=self.signal_type)
        *_, port = checked_ports([*asset.ports, port])
        check_in_use(asset, AssetCannotAddPortError)
        check_ports_distinct([*asset.ports, port])
        return AssetPortAdded(asset_id=asset.id, occurred_at=occasion.now, port=port)


@assets.operation("POST /assets/{asset_id}/ports/remove")
class RemoveAssetPort(AssetCommand):
    """Remove a port from an asset."""

    name: Short

    def decide(self, asset: Asset, occasion: Occasion) -> AssetPortRemoved:
        name = self.name.strip()
        check_in_use(asset, AssetCannotRemovePortError)
        if name not in {port.name for port in asset.ports}:
            raise AssetPortNotPresentError(
                f"The asset has no port “{name}”.", asset_id=str(asset.id), name=name
            )
        return AssetPortRemoved(asset_id=asset.id, occurred_at=occasion.now, port_name=name)


@assets.operation("POST /assets/{asset_id}/alternate-identifiers/add")
class AddAssetAlternateIdentifier(AssetCommand):
    """Record what else an asset is called: a serial or inventory number, a process variable."""

    kind: AlternateIdentifierKind
    value: text.Name

    def decide(self, asset: Asset, occasion: Occasion) -> AssetAlternateIdentifierAdded:
        identifier = AlternateIdentifier(kind=self.kind, value=self.value)
        *_, identifier = checked_alternate_identifiers([*asset.alternate_identifiers, identifier])
        check_in_use(asset, AssetCannotAddAlternateIdentifierError)
        check_alternate_identifiers_distinct([*asset.alternate_identifiers, identifier])
        return AssetAlternateIdentifierAdded(
            asset_id=asset.id, occurred_at=occasion.now, alternate_identifier=identifier
        )


@assets.operation("POST /assets/{asset_id}/alternate-identifiers/remove")
class RemoveAssetAlternateIdentifier(AssetCommand):
    """Remove one of the names that others have for an asset."""

    kind: AlternateIdentifierKind
    value: text.Name

    def decide(self, asset: Asset, occasion: Occasion) -> AssetAlternateIdentifierRemoved:
        identifier = AlternateIdentifier(kind=self.kind, value=self.value.strip())
        check_in_use(asset, AssetCannotRemoveAlternateIdentifierError)
        if identifier not in asset.alternate_identifiers:
            raise AssetAlternateIdentifierNotPresentError(
                f"The asset has no identifier {identifier.text}.",
                asset_id=str(asset.id),
                kind=identifier.kind,
                value=identifier.value,
            )
        return AssetAlternateIdentifierRemoved(
            asset_id=asset.id, occurred_at=occasion.now, alternate_identifier=identifier
        )


@assets.operation("POST /assets/{asset_id}/owners/remove")
class RemoveAssetOwner(AssetCommand):
    """Remove an organisation from the owners of an asset."""

    owner_name: OwnerText

    def decide(self, asset: Asset, occasion: Occasion) -> AssetOwnerRemoved:
        wanted = text.folded(self.owner_name.strip())
        check_in_use(asset, AssetCannotRemoveOwnerError)
        for owner in asset.owners:
            if text.folded(owner.name) == wanted:
                return AssetOwnerRemoved(asset_id=asset.id, occurred_at=occasion.now, owner_name=owner.name)
        raise AssetOwnerNotPresentError(
            f"The asset has no owner “{self.owner_name.strip()}”.",
            asset_id=str(asset.id),
            owner_name=self.owner_name.strip(),
        )


def checked_ports(ports: Sequence[AssetPort]) -> tuple[AssetPort, ...]:
    if len(ports) > MOST_PORTS:
        raise InvalidAssetPortError(f"An asset has at most {MOST_PORTS} ports.", most=MOST_PORTS)
    return tuple(checked_port(port) for port in ports)


def check_ports_distinct(ports: Sequence[AssetPort]) -> None:
    """Gate: wires name a port by its name."""
    name = _repeated([port.name for port in ports])
    if name is not None:
        raise AssetPortAlreadyPresentError(
            f"Port “{name}” is there already; a two-way device names its two ports apart.",
            name=name,
        )


def checked_alternate_identifiers(
    identifiers: Sequence[AlternateIdentifier],
) -> tuple[AlternateIdentifier, ...]:
    if len(identifiers) > MOST_ALTERNATE_IDENTIFIERS:
        raise InvalidAlternateIdentifierError(
            f"An asset has at most {MOST_ALTERNATE_IDENTIFIERS} alternate identifiers.",
            most=MOST_ALTERNATE_IDENTIFIERS,
        )
    return tuple(checked_alternate_identifier(identifier) for identifier in identifiers)


def check_alternate_identifiers_distinct(identifiers: Sequence[AlternateIdentifier]) -> None:
    """Gate: a kind and value is recorded once per asset; two assets may share it."""
    repeated = _repeated([identifier.text for identifier in identifiers])
    if repeated is not None:
        raise AssetAlternateIdentifierAlreadyPresentError(
            f"{repeated} is recorded already.", alternate_identifier=repeated
        )


def checked_owners(owners: Sequence[AssetOwner]) -> tuple[AssetOwner, ...]:
    if len(owners) > MOST_OWNERS:
        raise InvalidAssetOwnerError(f"An asset has at most {MOST_OWNERS} owners.", most=MOST_OWNERS)
    return tuple(checked_owner(owner) for owner in owners)


def check_owners_distinct(owners: Sequence[AssetOwner]) -> None:
    """Gate: an organisation owns an asset once, however its name is written."""
    repeated = _repeated([text.folded(owner.name) for owner in owners])
    if repeated is not None:
        name = next(owner.name for owner in owners if text.folded(owner.name) == repeated)
        raise AssetOwnerAlreadyPresentError(f"{name} is an owner already.", owner_name=name)


def _repeated(keys: Sequence[str]) -> str | None:
    """The first key that comes again."""
    return next((key for number, key in enumerate(keys) if key in keys[:number]), None)
