"""The integration view: everything that a control layer or an agent needs to know of one asset, in one read."""

from collections.abc import Awaitable, Sequence
from typing import Any
from uuid import UUID

from beamwright.contexts.enclosure.enclosure import Enclosure, EnclosureLifecycle, PermitStatus
from beamwright.kernel import text
from beamwright.kernel.erasable import REDACTED, ErasableText
from beamwright.kernel.errors import ReadModelBehindError
from beamwright.kernel.observing import fresh
from beamwright.kernel.operation import Query, World
from beamwright.kernel.trees import MOST_LEVELS
from beamwright.kernel.value import Value

from .asset import Asset, AssetCondition, AssetLifecycle, AssetTier, assets
from .asset_drift import Neighbourhood
from .asset_tree import AssetAncestor, ancestor_view
from .asset_values import AssetPort
from .drift import AssetDrift, AssetNeighbours, drift_of
from .family import Family, FamilyStatus
from .model import Model, ModelStatus
from .values import Affordance, Manufacturer


class IntegratedFamily(Value):
    """A family that the asset belongs to."""

    family_id: UUID
    name: str
    status: FamilyStatus
    affordances: frozenset[Affordance]
    presented_role_ids: frozenset[UUID]
    settings_schema_version: int


class IntegratedModel(Value):
    """The model that the asset is of."""

    model_id: UUID
    name: str
    manufacturer: Manufacturer
    part_number: str
    status: ModelStatus


class IntegratedEnclosure(Value):
    """The enclosure that the asset stands in, and whether its permit is confirmed."""

    enclosure_id: UUID
    name: str
    permit_status: PermitStatus
    lifecycle: EnclosureLifecycle
    fresh: bool


class IntegratedMount(Value):
    """The mount that the asset is installed in."""

    mount_id: UUID
    slot_code: str


class IntegratedFixture(Value):
    """The fixture that the asset is part of."""

    fixture_id: UUID
    assembly_id: UUID


class IntegratedController(Value):
    """The asset that drives this one."""

    asset_id: UUID
    name: str


class ActiveCaution(Value):
    """A caution in force on the asset, or on one above it that passes its cautions on."""

    caution_id: UUID
    category: str
    severity: str
    text: text.Note
    target_asset_id: UUID


class ApplicableCapability(Value):
    """A capability that the asset's affordances cover."""

    capability_id: UUID
    code: str
    name: str
    status: str


class AssetIntegrationView(Value):
    """One asset with all that surrounds it; `incomplete` names the parts that could not be read."""

    asset_id: UUID
    name: str
    tier: AssetTier
    lifecycle: AssetLifecycle
    condition: AssetCondition
    scope_facility_code: str
    ancestors: list[AssetAncestor]
    families: list[IntegratedFamily]
    affordances: frozenset[Affordance]
    ports: tuple[AssetPort, ...]
    settings: dict[str, Any]
    settings_schema_versions: dict[UUID, int]
    model: IntegratedModel | None
    enclosure: IntegratedEnclosure | None
    mount: IntegratedMount | None
    fixture: IntegratedFixture | None
    controller: IntegratedController | None
    active_cautions: list[ActiveCaution]
    applicable_capabilities: list[ApplicableCapability]
    drift: list[AssetDrift]
    incomplete: list[str]


@assets.operation("GET /assets/{asset_id}/integration-view")
class GetAssetIntegrationView(Query[AssetIntegrationView]):
    """Read one asset with its ancestors, families, bindings, cautions, capabilities and drift.

    The view is answered even where a part of it cannot be read; `incomplete` then names the part.
    """

    asset_id: UUID

    async def answer(self, world: World) -> AssetIntegrationView:
        asset = await world.load(assets, self.asset_id)
        return await Integration(world, asset).view()


class Integration:
    """Puts the view of one asset together, and notes what could not be read."""

    def __init__(self, world: World, asset: Asset) -> None:
        self.world = world
        self.asset = asset
        self.incomplete: set[str] = set()

    async def view(self) -> AssetIntegrationView:
        asset = self.asset
        [beside] = await Neighbourhood(self.world).around([asset])
        self._note_missing(beside)
        above = await self.ancestors()
        affordances = frozenset(each for family in beside.families for each in family.affordances)
        return AssetIntegrationView(
            asset_id=asset.id,
            name=asset.name,
            tier=asset.tier,
            lifecycle=asset.lifecycle,
            condition=asset.condition,
            scope_facility_code=asset.scope_facility_code,
            ancestors=[ancestor_view(each) for each in reversed(above)],
            families=[integrated_family(family) for family in beside.families],
            affordances=affordances,
            ports=asset.ports,
            settings=asset.settings,
            settings_schema_versions=asset.settings_schema_versions,
            model=integrated_model(beside.model),
            enclosure=await self.enclosure(beside.enclosure),
            mount=await self.mount(),
            fixture=await self.fixture(),
            controller=integrated_controller(beside.controller),
            active_cautions=await self.cautions(above),
            applicable_capabilities=await self.capabilities(affordances),
            drift=drift_of(asset, beside),
            incomplete=sorted(self.incomplete),
        )

    def _note_missing(self, beside: AssetNeighbours) -> None:
        asset = self.asset
        parts = {
            "families": len(beside.families) < len(asset.family_ids),
            "model": asset.model_id is not None and beside.model is None,
            "controller": asset.controller_id is not None and beside.controller is None,
            "enclosure": asset.located_in_enclosure_id is not None and beside.enclosure is None,
        }
        self.incomplete |= {part for part, missing in parts.items() if missing}

    async def ancestors(self) -> list[Asset]:
        """The parent and all above it, nearest first, as far as they can be found."""
        found: list[Asset] = []
        above = self.asset.parent_id
        while above is not None and len(found) < MOST_LEVELS:
            states = await self.world.look_up("Asset", [above])
            if not states:
                self.incomplete.add("ancestors")
                break
            found.append(states[0])
            above = found[-1].parent_id
        return found

    async def enclosure(self, enclosure: Enclosure | None) -> IntegratedEnclosure | None:
        if enclosure is None:
            return None
        contacts = await self.world.contacts("Enclosure", [enclosure.id])
        limit = self.world.installation.enclosure_stale_after
        return IntegratedEnclosure(
            enclosure_id=enclosure.id,
            name=enclosure.name,
            permit_status=enclosure.permit_status,
            lifecycle=enclosure.lifecycle,
            fresh=fresh(contacts.get(enclosure.id), self.world.now, limit),
        )

    async def mount(self) -> IntegratedMount | None:
        mount = await self._bound("Mount", self.asset.mount_id)
        return None if mount is None else IntegratedMount(mount_id=mount.id, slot_code=mount.slot_code)

    async def fixture(self) -> IntegratedFixture | None:
        fixture = await self._bound("Fixture", self.asset.fixture_id)
        if fixture is None:
            return None
        return IntegratedFixture(fixture_id=fixture.id, assembly_id=fixture.assembly_id)

    async def _bound(self, aggregate_name: str, id: UUID | None) -> Any:
        if id is None:
            return None
        found = await self.world.look_up(aggregate_name, [id])
        if not found:
            self.incomplete.add(aggregate_name.lower())
            return None
        return found[0]

    async def cautions(self, above: Sequence[Asset]) -> list[ActiveCaution]:
        """Those in force on the asset itself, and those that an ancestor passes on."""
        part, found = "active_cautions", list[Any]()
        for target in (self.asset, *above):
            looked_up = self.world.look_up("Caution", target_id=target.id)
            found += [each for each in await self._read(part, looked_up) if self._in_force(each, target)]
        words = await self._words([each.text for each in found])
        return [
            ActiveCaution(
                caution_id=each.id,
                category=str(each.category),
                severity=str(each.severity),
                text=said,
                target_asset_id=each.target.id,
            )
            for each, said in zip(found, words, strict=True)
        ]

    def _in_force(self, caution: Any, target: Asset) -> bool:
        expires_at = caution.expires_at
        return (
            caution.target.kind == "Asset"
            and caution.status == "Active"
            and (expires_at is None or expires_at > self.world.now)
            and (target is self.asset or caution.propagate_to_children)
        )

    async def _words(self, texts: Sequence[str | ErasableText]) -> list[str]:
        """Texts, of which those that can be erased are kept elsewhere."""
        kept = await self.world.texts([each.text_id for each in texts if isinstance(each, ErasableText)])
        return [
            kept.get(each.text_id, REDACTED) if isinstance(each, ErasableText) else each for each in texts
        ]

    async def capabilities(self, affordances: frozenset[Affordance]) -> list[ApplicableCapability]:
        found = await self._read("applicable_capabilities", self.world.look_up("Capability"))
        return [
            ApplicableCapability(
                capability_id=each.id, code=each.code, name=each.name, status=str(each.status)
            )
            for each in sorted(found, key=lambda each: each.code)
            if each.status != "Deprecated" and each.required_affordances <= affordances
        ]

    async def _read(self, part: str, looked_up: Awaitable[Sequence[Any] | None]) -> Sequence[Any]:
        """What another context knows; a part that is not there, or not up to date, is named as incomplete."""
        try:
            found = await looked_up
        except ReadModelBehindError:
            found = None
        if found is None:
            self.incomplete.add(part)
        return found or ()


def integrated_family(family: Family) -> IntegratedFamily:
    return IntegratedFamily(
        family_id=family.id,
        name=family.name,
        status=family.status,
        affordances=family.affordances,
        presented_role_ids=family.presented_role_ids,
        settings_schema_version=family.settings_schema_version,
    )


def integrated_model(model: Model | None) -> IntegratedModel | None:
    if model is None:
        return None
    return IntegratedModel(
        model_id=model.id,
        name=model.name,
        manufacturer=model.manufacturer,
        part_number=model.part_number,
        status=model.status,
    )


def integrated_controller(controller: Asset | None) -> IntegratedController | None:
    return None if controller is None else IntegratedController(asset_id=controller.id, name=controller.name)
