"""What a practice needs of the assets that it is bound to, and what of that they offer."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from uuid import UUID

from beamwright.contexts.equipment.assembly import Assembly, assemblies
from beamwright.contexts.equipment.asset import Asset, AssetCondition, AssetLifecycle, assets
from beamwright.contexts.equipment.family import Family, families
from beamwright.contexts.equipment.fixture import Fixture, FixtureStatus, fixtures
from beamwright.contexts.equipment.role import Role, roles
from beamwright.contexts.equipment.values import Affordance
from beamwright.contexts.federation.coverage import load_chain
from beamwright.kernel.event import Belonging
from beamwright.kernel.operation import World
from beamwright.kernel.value import Value

from .capability import Capability, capabilities
from .method import Method, PortRequirement, RoleRequirement, methods
from .practice import Practice

MOST_CANDIDATES = 50


class BindingStatus(StrEnum):
    """The first thing that is missing."""

    MISSING_FAMILIES = "MissingFamilies"
    MISSING_ASSEMBLIES = "MissingAssemblies"
    MISSING_AFFORDANCES = "MissingAffordances"
    SATISFIED = "Satisfied"


class Equipment(Value, dict=True):
    """Assets with their families, their fixtures and what those realise, and the roles to be filled."""

    assets: tuple[Asset, ...]
    families: tuple[Family, ...] = ()
    fixtures: tuple[Fixture, ...] = ()
    assemblies: tuple[Assembly, ...] = ()
    roles: tuple[Role, ...] = ()

    @property
    def facility_codes(self) -> tuple[str, ...]:
        """The facilities that the assets belong to."""
        return tuple(sorted({asset.scope_facility_code for asset in self.assets}))

    @cached_property
    def _families(self) -> Mapping[UUID, Family]:
        return {family.id: family for family in self.families}

    @cached_property
    def _assemblies(self) -> Mapping[UUID, Assembly]:
        return {assembly.id: assembly for assembly in self.assemblies}

    @cached_property
    def _roles(self) -> Mapping[UUID, Role]:
        return {role.id: role for role in self.roles}

    @cached_property
    def realised(self) -> Mapping[UUID, UUID]:
        """The assembly of each Registered fixture."""
        registered = (each for each in self.fixtures if each.status is FixtureStatus.REGISTERED)
        return {fixture.id: fixture.assembly_id for fixture in registered}

    def families_of(self, asset: Asset) -> list[Family]:
        return [self._families[id] for id in sorted(asset.family_ids) if id in self._families]

    def affordances_of(self, asset: Asset) -> frozenset[Affordance]:
        return frozenset(each for family in self.families_of(asset) for each in family.affordances)

    def presents(self, asset: Asset, role_id: UUID) -> bool:
        """Role satisfaction: by a family that covers the role, or by the fixture that the asset is part of."""
        role = self._roles.get(role_id)
        if role is None:
            return False
        by_family = any(
            role.id in family.presented_role_ids and role.required_affordances <= family.affordances
            for family in self.families_of(asset)
        )
        return by_family or self._presented_by_fixture(asset, role)

    def _presented_by_fixture(self, asset: Asset, role: Role) -> bool:
        assembly_id = None if asset.fixture_id is None else self.realised.get(asset.fixture_id)
        assembly = None if assembly_id is None else self._assemblies.get(assembly_id)
        return assembly is not None and role.id in assembly.presented_role_ids

    def fills(self, asset: Asset, required: RoleRequirement) -> bool:
        """Whether an asset can take a part that a method requires."""
        if required.family_id is not None and required.family_id not in asset.family_ids:
            return False
        if required.role_id is not None and not self.presents(asset, required.role_id):
            return False
        return not missing_ports(asset, required)


def missing_ports(asset: Asset, required: RoleRequirement) -> list[PortRequirement]:
    """The ports that a part requires and the asset does not have."""
    present = {(port.name, port.direction, port.signal_type) for port in asset.ports}
    return [
        port
        for port in required.required_ports
        if (port.port_name, port.direction, port.signal_type) not in present
    ]


class Binding(Value):
    """A practice, its method and capability, and the equipment that is to carry it, all as they are today."""

    practice: Practice
    method: Method
    capability: Capability
    equipment: Equipment
    # The facility of the assets and those that cover it, where a rule depends on them.
    covering_facility_codes: frozenset[str] = frozenset()

    @property
    def assets(self) -> tuple[Asset, ...]:
        return self.equipment.assets

    @property
    def facility_codes(self) -> tuple[str, ...]:
        return self.equipment.facility_codes

    @property
    def needed_family_ids(self) -> frozenset[UUID]:
        return self.method.needed_family_ids | self.practice.family_ids

    @property
    def missing_family_ids(self) -> list[UUID]:
        carried = {id for asset in self.assets for id in asset.family_ids}
        return sorted(self.needed_family_ids - carried)

    @property
    def missing_assembly_ids(self) -> list[UUID]:
        """Needed assemblies that no Registered fixture of an asset realises."""
        return sorted(self.method.needed_assembly_ids - set(self.equipment.realised.values()))

    @property
    def missing_affordances(self) -> list[Affordance]:
        offered = {each for asset in self.assets for each in self.equipment.affordances_of(asset)}
        return sorted(self.capability.required_affordances - offered)

    @property
    def status(self) -> BindingStatus:
        if self.missing_family_ids:
            return BindingStatus.MISSING_FAMILIES
        if self.missing_assembly_ids:
            return BindingStatus.MISSING_ASSEMBLIES
        if self.missing_affordances:
            return BindingStatus.MISSING_AFFORDANCES
        return BindingStatus.SATISFIED


class Candidates(Value):
    """Assets of the facility that can do what is missing."""

    affordance: Affordance
    asset_ids: tuple[UUID, ...]


class BoundAsset(Value):
    """An asset of a binding, and what it can do."""

    asset_id: UUID
    name: str
    lifecycle: AssetLifecycle
    condition: AssetCondition
    family_ids: tuple[UUID, ...]
    affordances: tuple[Affordance, ...]


class FillableRole(Value):
    """A part that the method requires, and the assets that can take it."""

    role_name: str
    role_id: UUID | None
    family_id: UUID | None
    required_ports: tuple[PortRequirement, ...]
    optional: bool
    able_asset_ids: tuple[UUID, ...]


class BindingView(Value):
    """A practice over a set of assets: what it needs, what they offer and what is missing."""

    practice_id: UUID
    method_id: UUID
    capability_id: UUID
    needed_family_ids: tuple[UUID, ...]
    required_affordances: tuple[Affordance, ...]
    assets: tuple[BoundAsset, ...]
    missing_family_ids: tuple[UUID, ...]
    missing_assembly_ids: tuple[UUID, ...]
    missing_affordances: tuple[Affordance, ...]
    candidates: tuple[Candidates, ...]
    required_roles: tuple[FillableRole, ...]
    binding_status: BindingStatus


def binding_view(binding: Binding, candidates: Sequence[Candidates] = ()) -> BindingView:
    equipment = binding.equipment
    return BindingView(
        practice_id=binding.practice.id,
        method_id=binding.method.id,
        capability_id=binding.capability.id,
        needed_family_ids=tuple(sorted(binding.needed_family_ids)),
        required_affordances=tuple(sorted(binding.capability.required_affordances)),
        assets=tuple(_bound(equipment, asset) for asset in binding.assets),
        missing_family_ids=tuple(binding.missing_family_ids),
        missing_assembly_ids=tuple(binding.missing_assembly_ids),
        missing_affordances=tuple(binding.missing_affordances),
        candidates=tuple(candidates),
        required_roles=tuple(_fillable(equipment, each) for each in binding.method.required_roles),
        binding_status=binding.status,
    )


def _bound(equipment: Equipment, asset: Asset) -> BoundAsset:
    return BoundAsset(
        asset_id=asset.id,
        name=asset.name,
        lifecycle=asset.lifecycle,
        condition=asset.condition,
        family_ids=tuple(sorted(asset.family_ids)),
        affordances=tuple(sorted(equipment.affordances_of(asset))),
    )


def _fillable(equipment: Equipment, required: RoleRequirement) -> FillableRole:
    able = (asset.id for asset in equipment.assets if equipment.fills(asset, required))
    return FillableRole(
        role_name=required.role_name,
        role_id=required.role_id,
        family_id=required.family_id,
        required_ports=required.required_ports,
        optional=required.optional,
        able_asset_ids=tuple(sorted(able)),
    )


async def load_binding(world: World, practice: Practice, asset_ids: Collection[UUID]) -> Binding:
    """A practice over these assets; every stream is loaded, hence guarded."""
    method = await world.load(methods, practice.method_id)
    capability = await world.load(capabilities, method.capability_id)
    role_ids = {each.role_id for each in method.required_roles if each.role_id is not None}
    equipment = await load_equipment(world, asset_ids, role_ids)
    return Binding(
        practice=practice,
        method=method,
        capability=capability,
        equipment=equipment,
        covering_facility_codes=await _covering(world, practice, equipment.facility_codes),
    )


async def load_equipment(world: World, asset_ids: Iterable[UUID], role_ids: Iterable[UUID]) -> Equipment:
    """Assets, and all that says what they can do."""
    bound = await world.load_all(assets, sorted(asset_ids))
    carried = {id for asset in bound for id in asset.family_ids}
    attached = {asset.fixture_id for asset in bound if asset.fixture_id is not None}
    known = await world.load_all(families, sorted(carried))
    joined = await world.load_all(fixtures, sorted(attached))
    realised = {fixture.assembly_id for fixture in joined if fixture.status is FixtureStatus.REGISTERED}
    return Equipment(
        assets=tuple(bound),
        families=tuple(known),
        fixtures=tuple(joined),
        assemblies=tuple(await world.load_all(assemblies, sorted(realised))),
        roles=tuple(await world.load_all(roles, sorted(role_ids))),
    )


async def _covering(world: World, practice: Practice, codes: Sequence[str]) -> frozenset[str]:
    """The facilities over the assets' own, asked for only where the practice is of another one."""
    if practice.facility_code is None or len(codes) != 1 or practice.facility_code == codes[0]:
        return frozenset(codes)
    return frozenset(facility.code for facility in await load_chain(world, codes[0]))


async def find_candidates(world: World, binding: Binding) -> tuple[Candidates, ...]:
    """Who could do what is missing: advice that decides nothing, within what the caller may list."""
    return tuple(
        [
            Candidates(affordance=each, asset_ids=await _able_to(world, each, binding.facility_codes))
            for each in binding.missing_affordances
        ]
    )


async def _able_to(world: World, affordance: Affordance, codes: Sequence[str]) -> tuple[UUID, ...]:
    reach, found = world.reach("list_assets"), set[UUID]()
    for family in await world.look_up("Family", affordance=affordance) or ():
        for code in codes:
            if not reach.holds(Belonging(facility_code=code), reading=True):
                continue
            able: Sequence[Asset] = (
                await world.look_up("Asset", family_id=family.id, facility_code=code) or ()
            )
            found.update(asset.id for asset in able if not asset.decommissioned)
    return tuple(sorted(found)[:MOST_CANDIDATES])
