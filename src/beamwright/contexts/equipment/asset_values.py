"""What an asset is described by: its ports, its other identifiers and the organisations that own it."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.value import Value

from .values import PortDirection, Short, SignalType

type OwnerText = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 255})]
type OwnerIdentifierType = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 64, "examples": ["ROR"]})
]


class InvalidAssetPortError(InvalidError):
    """The port's name or signal type is blank or too long, or there are too many ports."""


class InvalidAlternateIdentifierError(InvalidError):
    """The identifier is blank or too long, or there are too many."""


class InvalidAssetOwnerError(InvalidError):
    """The owner's text is blank or too long, its identifier comes without a type, or there are too many."""


class AssetPort(Value):
    """Where a signal enters or leaves an asset; a two-way device has two ports."""

    name: Short
    direction: PortDirection
    signal_type: SignalType


class AlternateIdentifierKind(StrEnum):
    """`CONTROLSYS_PV`: a process variable of the control system."""

    SERIAL_NUMBER = "SerialNumber"
    INVENTORY_NUMBER = "InventoryNumber"
    CONTROLSYS_PV = "CONTROLSYS_PV"
    OTHER = "Other"


class AlternateIdentifier(Value):
    """What others call the asset."""

    kind: AlternateIdentifierKind
    value: text.Name

    @property
    def text(self) -> str:
        return f"{self.kind}:{self.value}"


class AssetOwner(Value):
    """An organisation that owns the asset; its contact's address is kept in that actor's profile."""

    name: OwnerText
    identifier: OwnerText | None = None
    identifier_type: OwnerIdentifierType | None = None
    contact_actor_id: UUID | None = None


def checked_port(port: AssetPort) -> AssetPort:
    return AssetPort(
        name=text.trimmed(port.name, 100, InvalidAssetPortError, "port's name"),
        direction=port.direction,
        signal_type=text.trimmed(port.signal_type, 50, InvalidAssetPortError, "signal type"),
    )


def checked_alternate_identifier(identifier: AlternateIdentifier) -> AlternateIdentifier:
    value = text.trimmed(identifier.value, 200, InvalidAlternateIdentifierError, "identifier")
    return AlternateIdentifier(kind=identifier.kind, value=value)


def checked_owner(owner: AssetOwner) -> AssetOwner:
    if (owner.identifier is None) != (owner.identifier_type is None):
        raise InvalidAssetOwnerError("Give the owner's identifier and its type together, or neither.")
    return AssetOwner(
        name=text.trimmed(owner.name, 255, InvalidAssetOwnerError, "owner's name"),
        identifier=_optional(owner.identifier, 255, "owner's identifier"),
        identifier_type=_optional(owner.identifier_type, 64, "type of the owner's identifier"),
        contact_actor_id=owner.contact_actor_id,
    )


def sorted_ports(ports: Iterable[AssetPort]) -> tuple[AssetPort, ...]:
    return tuple(sorted(ports, key=lambda port: port.name))


def sorted_identifiers(identifiers: Iterable[AlternateIdentifier]) -> tuple[AlternateIdentifier, ...]:
    return tuple(sorted(identifiers, key=lambda identifier: identifier.text))


def sorted_owners(owners: Iterable[AssetOwner]) -> tuple[AssetOwner, ...]:
    return tuple(sorted(owners, key=lambda owner: text.folded(owner.name)))


def _optional(value: str | None, most: int, what: str) -> str | None:
    return None if value is None else text.trimmed(value, most, InvalidAssetOwnerError, what)
