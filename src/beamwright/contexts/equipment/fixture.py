"""Fixture: one realisation of an assembly, a frozen list of which asset is in which slot."""

from enum import StrEnum
from typing import Any, assert_never
from uuid import UUID

from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.errors import CannotTransitionError, InvalidError, NotFoundError
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.identifiers import PersistentIdentifierRequest, PersistentIdentifierScheme
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.value import Time, Value, replace

from .identifiers import identifier_claims
from .values import Short


class FixtureStatus(StrEnum):
    REGISTERED = "Registered"
    RETIRED = "Retired"


class FixtureNotFoundError(NotFoundError):
    """There is no such fixture."""


class InvalidFixtureSlotAssetBindingsError(InvalidError):
    """A fixture binds 1 to 200 assets, each to a slot whose name is not blank."""


class InvalidFixtureReasonError(InvalidError):
    """The reason is blank or too long."""


class FixtureCannotRetireError(CannotTransitionError):
    """The fixture is retired already."""


class SlotAssetBinding(Value):
    """An asset in a slot of the assembly or of one of its sub-assemblies."""

    slot_name: Short
    asset_id: UUID


class FixtureFact(Event):
    fixture_id: UUID


class FixtureRegistered(FixtureFact):
    assembly_id: UUID
    assembly_content_hash: str
    facility_code: str
    slot_asset_bindings: tuple[SlotAssetBinding, ...]
    parameter_overrides: dict[str, Any]


class FixtureRetired(FixtureFact):
    reason: str


class FixturePersistentIdentifierRequested(FixtureFact):
    scheme: PersistentIdentifierScheme
    suffix: str


class FixturePersistentIdentifierAssigned(FixtureFact):
    scheme: PersistentIdentifierScheme
    value: str
    authority: str


class FixturePersistentIdentifierFailed(FixtureFact):
    scheme: PersistentIdentifierScheme
    reason: str


type FixtureEvent = (
    FixtureRegistered
    | FixtureRetired
    | FixturePersistentIdentifierRequested
    | FixturePersistentIdentifierAssigned
    | FixturePersistentIdentifierFailed
)

LIFECYCLE = StateMachine[FixtureStatus](
    {FixtureRetired: move({FixtureStatus.REGISTERED}, FixtureStatus.RETIRED, FixtureCannotRetireError)}
)


class Fixture(Value):
    id: UUID
    assembly_id: UUID
    assembly_content_hash: str
    facility_code: str
    slot_asset_bindings: tuple[SlotAssetBinding, ...]
    parameter_overrides: dict[str, Any]
    status: FixtureStatus = FixtureStatus.REGISTERED
    external_refs: dict[str, ExternalRef] = {}
    persistent_identifier_request: PersistentIdentifierRequest | None = None
    retired_at: Time | None = None

    @property
    def asset_ids(self) -> list[UUID]:
        return sorted(binding.asset_id for binding in self.slot_asset_bindings)


def evolve(fixture: Fixture | None, event: FixtureEvent) -> Fixture:
    match event:
        case FixtureRegistered():
            return Fixture(
                id=event.fixture_id,
                assembly_id=event.assembly_id,
                assembly_content_hash=event.assembly_content_hash,
                facility_code=event.facility_code,
                slot_asset_bindings=event.slot_asset_bindings,
                parameter_overrides=event.parameter_overrides,
            )
        case _ if fixture is None:
            raise ValueError(event)
        case FixtureRetired():
            return replace(fixture, status=LIFECYCLE.after(event), retired_at=event.occurred_at)
        case FixturePersistentIdentifierRequested():
            request = PersistentIdentifierRequest(
                scheme=event.scheme, suffix=event.suffix, requested_at=event.occurred_at
            )
            return replace(fixture, persistent_identifier_request=request)
        case FixturePersistentIdentifierAssigned():
            ref = ExternalRef(value=event.value, authority=event.authority, assigned_at=event.occurred_at)
            return replace(
                fixture, external_refs={event.scheme.value: ref}, persistent_identifier_request=None
            )
        case FixturePersistentIdentifierFailed():
            return replace(fixture, persistent_identifier_request=None)
        case _:
            assert_never(event)


fixtures = Aggregate[Fixture, FixtureEvent](
    "Fixture",
    events=FixtureEvent,
    evolve=evolve,
    missing=FixtureNotFoundError,
    belongs=lambda fixture: Belonging(facility_code=fixture.facility_code),
    claims=lambda fixture: identifier_claims(fixture.external_refs),
)
fixtures.reads(
    "/fixtures",
    filters=(
        "assembly_id",
        Filter(name="asset_id", type=UUID, of=lambda fixture: fixture.asset_ids, test=Test.CONTAINS),
        "facility_code",
        "status",
        "assembly_content_hash",
        Filter(name="identified", type=bool, of=lambda fixture: bool(fixture.external_refs)),
    ),
)
