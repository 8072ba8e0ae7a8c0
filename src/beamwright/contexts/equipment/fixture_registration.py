"""Registering and retiring fixtures: the fixture and all of its assets change in one append."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.declared_values import check_values
from beamwright.kernel.errors import CannotTransitionError, ConflictError, InvalidError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .assembly import EDITABLE, Assembly, AssemblyStatus, assemblies
from .assembly_definition import load_children
from .asset import Asset, AssetAttachedToFixture, AssetDetachedFromFixture, assets
from .blueprint import check_pins, check_roles_covered, label
from .family import Family, families
from .fixture import (
    LIFECYCLE,
    Fixture,
    FixtureRegistered,
    FixtureRetired,
    InvalidFixtureReasonError,
    InvalidFixtureSlotAssetBindingsError,
    SlotAssetBinding,
    fixtures,
)
from .fixture_rules import (
    bound_assets,
    check_asset_families,
    check_attachable,
    check_bound_once,
    check_slots_filled,
    check_wires_joined,
    common_facility,
)
from .role import Role, roles

MOST_BINDINGS = 200


class InvalidFixtureParameterOverridesError(InvalidError):
    """The parameter overrides do not meet the assembly's schema, or there is none."""


class AssemblyCannotInstantiateError(CannotTransitionError):
    """The assembly, or a sub-assembly, is deprecated."""


class FixtureRoleNotSatisfiedError(ConflictError):
    """The families of the bound assets do not cover what a presented role requires."""


class FixtureParts(Value):
    """The assembly that a fixture realises with its sub-assemblies and roles, and the assets with their families."""

    assembly: Assembly
    assets: tuple[Asset, ...]
    children: tuple[Assembly, ...] = ()
    families: tuple[Family, ...] = ()
    roles: tuple[Role, ...] = ()


@fixtures.operation("POST /fixtures", creates=True)
class RegisterFixture(Command[FixtureParts]):
    """Register installed assets as one realisation of an assembly."""

    assembly_id: UUID
    slot_asset_bindings: tuple[SlotAssetBinding, ...]
    parameter_overrides: dict[str, Any] = {}

    async def gather(self, world: World) -> FixtureParts:
        assembly = await world.load(assemblies, self.assembly_id)
        bound = await world.load_all(
            assets, sorted({binding.asset_id for binding in self.slot_asset_bindings})
        )
        carried = {family_id for asset in bound for family_id in asset.family_ids}
        return FixtureParts(
            assembly=assembly,
            assets=tuple(bound),
            children=await load_children(world, assembly.required_sub_assemblies),
            families=tuple(await world.load_all(families, sorted(carried))),
            roles=tuple(await world.load_all(roles, sorted(assembly.presented_role_ids))),
        )

    def decide(
        self, parts: FixtureParts, occasion: Occasion
    ) -> list[FixtureRegistered | AssetAttachedToFixture]:
        bindings, assembly = checked_bindings(self.slot_asset_bindings), parts.assembly
        check_instantiable(assembly, parts.children)
        check_pins(assembly.required_sub_assemblies, parts.children)
        check_bound_once(bindings)
        check_attachable(parts.assets)
        facility_code = common_facility(parts.assets)
        check_realised(bindings, parts)
        check_values(
            assembly.parameter_overrides_schema,
            self.parameter_overrides,
            InvalidFixtureParameterOverridesError,
            declare_with="version_assembly",
        )
        fixture_id, now = occasion.new_id, occasion.now
        registered = FixtureRegistered(
            fixture_id=fixture_id,
            occurred_at=now,
            assembly_id=assembly.id,
            assembly_content_hash=assembly.content_hash,
            facility_code=facility_code,
            slot_asset_bindings=bindings,
            parameter_overrides=self.parameter_overrides,
        )
        attached = [
            AssetAttachedToFixture(
                asset_id=each.asset_id, occurred_at=now, fixture_id=fixture_id, slot_name=each.slot_name
            )
            for each in bindings
        ]
        return [registered, *attached]


@fixtures.operation("POST /fixtures/{fixture_id}/retire")
class RetireFixture(Command[Fixture]):
    """Retire a fixture: its assets are free for others."""

    fixture_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Fixture:
        fixture = await world.load(fixtures, self.fixture_id)
        await world.load_all(assets, fixture.asset_ids)
        return fixture

    def decide(self, fixture: Fixture, occasion: Occasion) -> list[FixtureRetired | AssetDetachedFromFixture]:
        reason = text.reason(self.reason, InvalidFixtureReasonError)
        LIFECYCLE.check(FixtureRetired, fixture.status, fixture.id)
        retired = FixtureRetired(fixture_id=fixture.id, occurred_at=occasion.now, reason=reason)
        detached = [
            AssetDetachedFromFixture(asset_id=each.asset_id, occurred_at=occasion.now, fixture_id=fixture.id)
            for each in fixture.slot_asset_bindings
        ]
        return [retired, *detached]


def checked_bindings(bindings: Sequence[SlotAssetBinding]) -> tuple[SlotAssetBinding, ...]:
    """The bindings by slot, then by asset."""
    if not 1 <= len(bindings) <= MOST_BINDINGS:
        raise InvalidFixtureSlotAssetBindingsError(
            f"A fixture binds 1 to {MOST_BINDINGS} assets, not {len(bindings)}.", most=MOST_BINDINGS
        )
    found = [
        SlotAssetBinding(
            slot_name=label(binding.slot_name, InvalidFixtureSlotAssetBindingsError, "slot's name"),
            asset_id=binding.asset_id,
        )
        for binding in bindings
    ]
    return tuple(sorted(found, key=lambda binding: (binding.slot_name, binding.asset_id)))


def check_instantiable(assembly: Assembly, children: Sequence[Assembly]) -> None:
    """Gate: nothing new is built to a blueprint that is deprecated."""
    for each in (assembly, *children):
        if each.status is AssemblyStatus.DEPRECATED:
            raise AssemblyCannotInstantiateError.of(each.id, each.status, EDITABLE)


def check_realised(bindings: Sequence[SlotAssetBinding], parts: FixtureParts) -> None:
    """Gate: the bound assets are what the assembly and its sub-assemblies ask for, slot by slot and wire by wire."""
    blueprints = (parts.assembly, *parts.children)
    slots = [slot for each in blueprints for slot in each.required_slots]
    wires = [wire for each in blueprints for wire in each.required_wires]
    bound = bound_assets(bindings, parts.assets)
    check_slots_filled(slots, bound)
    check_asset_families(slots, bound)
    check_wires_joined(wires, bound)
    check_roles_covered(parts.roles, parts.families, FixtureRoleNotSatisfiedError)
