"""Random walks over equipment: the tree, the bays and the fixtures stay whole, and every read says what the log says."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from hypothesis import strategies as st
from hypothesis.stateful import invariant

from beamwright.contexts.enclosure.enclosure import DecommissionEnclosure, enclosures
from beamwright.contexts.enclosure.enclosure_registration import RegisterEnclosure
from beamwright.contexts.equipment.assembly import SlotCardinality, TemplateSlot
from beamwright.contexts.equipment.assembly_definition import DefineAssembly
from beamwright.contexts.equipment.asset import ACTIVE, IN_SERVICE, Asset, AssetTier, assets
from beamwright.contexts.equipment.asset_assignments import ActivateAsset, AssignAssetController
from beamwright.contexts.equipment.asset_drift import ListAssetDrift
from beamwright.contexts.equipment.asset_identifiers import AssignAssetPersistentIdentifier
from beamwright.contexts.equipment.asset_moves import (
    DegradeAsset,
    EnterAssetMaintenance,
    ExitAssetMaintenance,
    FaultAsset,
    RenameAsset,
    RestoreAsset,
)
from beamwright.contexts.equipment.asset_registration import RegisterAsset
from beamwright.contexts.equipment.asset_settings import (
    AddAssetFamily,
    RemoveAssetFamily,
    UpdateAssetSettings,
)
from beamwright.contexts.equipment.asset_tree import (
    DecommissionAsset,
    ListAssetAncestors,
    ListAssetSubtree,
    PlaceAsset,
    RelocateAsset,
)
from beamwright.contexts.equipment.drift import AssetDriftKind
from beamwright.contexts.equipment.family import UpdateFamilySettingsSchema, families
from beamwright.contexts.equipment.family_definition import DefineFamily, VersionFamily
from beamwright.contexts.equipment.fixture import Fixture, FixtureStatus, SlotAssetBinding, fixtures
from beamwright.contexts.equipment.fixture_registration import RegisterFixture, RetireFixture
from beamwright.contexts.equipment.frame_registration import RegisterFrame
from beamwright.contexts.equipment.installation import InstallAsset, UninstallAsset
from beamwright.contexts.equipment.mount import DecommissionMount, Mount, MountStatus, mounts
from beamwright.contexts.equipment.mount_registration import RegisterMount
from beamwright.contexts.equipment.values import Placement, ReferenceSurface
from beamwright.contexts.federation.facility import FacilityKind, facilities
from beamwright.contexts.federation.registration import RegisterFacility
from beamwright.kernel import wellknown
from beamwright.kernel.identifiers import PersistentIdentifierScheme
from beamwright.kernel.trees import MOST_LEVELS
from tests.acceptance.things import ORIGIN, number, schema
from tests.live import Cluster
from tests.walks import Folds, Walk, all_folds, folds, pages, step, walk

CAMERA, STAGE = wellknown.seeded_family(4), wellknown.seeded_family(2)
HOME, AREA, ELSEWHERE = FACILITIES = ("home", "area", "elsewhere")
UNRELATED = ({HOME, ELSEWHERE}, {AREA, ELSEWHERE})

# Which of those that there are: what is drawn must not depend on who won a race.
SOME = st.integers(0, 1023)
NAMES = st.sampled_from(["alpha", "Alpha", "alpha beta", "älpha", "beta"])
PLACES = st.sampled_from(FACILITIES)
FAMILIES = st.sampled_from(["camera", "stage", "film"])
PATCHES = st.sampled_from(
    [
        {},
        {"serial_number": "A-17"},
        {"serial_number": None},
        {"pixel_size": 3.45, "travel": None},
        {"pixel_size": None, "travel": 20},
        {"thickness": 5},
        {"thickness": None},
        {"gain": 2},
    ]
)
IDENTIFIERS = st.sampled_from(["10.5072/one", "10.5072/ONE", "10.5072/two", "one"])
# What an asset does by itself, or with another.
MOVES: Sequence[Callable[[UUID, UUID], Any]] = [
    lambda id, _: ActivateAsset(asset_id=id),
    lambda id, _: EnterAssetMaintenance(asset_id=id, reason="walk"),
    lambda id, _: ExitAssetMaintenance(asset_id=id),
    lambda id, _: DegradeAsset(asset_id=id, reason="walk"),
    lambda id, _: FaultAsset(asset_id=id, reason="walk"),
    lambda id, _: RestoreAsset(asset_id=id, reason="walk"),
    lambda id, other: AssignAssetController(asset_id=id, controller_id=other),
]
FOLDED = (assets, mounts, fixtures, enclosures)
LISTED = (*FOLDED, families, facilities)
OUT_OF_USE = (
    AssetDriftKind.PARENT_DECOMMISSIONED,
    AssetDriftKind.CONTROLLER_DECOMMISSIONED,
    AssetDriftKind.ENCLOSURE_DECOMMISSIONED,
)


def chosen[S](number: int, known: Mapping[UUID, S], wanted: Callable[[S], bool]) -> UUID:
    """One of those that a call may well succeed with; now and then one of all."""
    likely = [id for id, state in known.items() if wanted(state)]
    among = [*known] if number % 4 == 3 or not likely else likely
    return among[number // 4 % len(among)]


class Equipment:
    """The folds of all streams of equipment at one moment."""

    def __init__(self, by_name: Mapping[str, Folds]) -> None:
        self.by_name = by_name
        self.assets: dict[UUID, Asset] = self._states("Asset")
        self.mounts: dict[UUID, Mount] = self._states("Mount")
        self.fixtures: dict[UUID, Fixture] = self._states("Fixture")
        self.enclosures: dict[UUID, Any] = self._states("Enclosure")

    def _states(self, name: str) -> dict[UUID, Any]:
        """Oldest first."""
        streams = sorted(self.by_name[name].items(), key=lambda item: item[1].stream.created_at)
        return {id: each.state for id, each in streams}

    def above(self, asset: Asset) -> list[Asset]:
        """The ancestors of an asset, nearest first; a cycle or a missing parent is a fault."""
        found: list[Asset] = []
        while asset.parent_id is not None:
            assert asset.parent_id in self.assets, "a parent exists"
            asset = self.assets[asset.parent_id]
            assert asset not in found, "nothing stands below itself"
            found.append(asset)
        return found

    def children(self, asset_id: UUID) -> list[Asset]:
        """In the order of the subtree: by name as bytes, then by id."""
        below = [asset for asset in self.assets.values() if asset.parent_id == asset_id]
        return sorted(below, key=lambda asset: f"{asset.name}\x01{asset.id}".encode())

    def subtree(self, asset_id: UUID, deepest: int, depth: int = 0) -> Iterator[tuple[int, Asset]]:
        yield depth, self.assets[asset_id]
        for child in self.children(asset_id) if depth < deepest else ():
            yield from self.subtree(child.id, deepest, depth + 1)

    def ended(self) -> dict[tuple[str, UUID], int]:
        """The versions of what is out of use for good."""
        over = {
            "Asset": lambda asset: asset.decommissioned,
            "Mount": lambda mount: mount.status is MountStatus.DECOMMISSIONED,
            "Fixture": lambda fixture: fixture.status is FixtureStatus.RETIRED,
        }
        return {
            (name, id): each.stream.version
            for name, is_over in over.items()
            for id, each in self.by_name[name].items()
            if is_over(each.state)
        }

    def check_tree(self) -> None:
        for asset in self.assets.values():
            root = (asset, *self.above(asset))[-1]
            assert (asset.parent_id is None) == (asset.facility_code is not None), "a root has a facility"
            assert asset.scope_facility_code == root.facility_code, "and all below it are of the same"
            if asset.decommissioned:
                assert all(child.decommissioned for child in self.children(asset.id))

    def check_assets(self) -> None:
        for asset in self.assets.values():
            if asset.lifecycle in IN_SERVICE:
                assert asset.family_ids, "what is in service is of some family"
            assert asset.settings_schema_versions.keys() <= asset.family_ids
            assert bool(asset.settings_schema_versions) == bool(asset.settings)
            if asset.located_in_enclosure_id is not None:
                enclosure = self.enclosures[asset.located_in_enclosure_id]
                assert {enclosure.facility_code, asset.scope_facility_code} not in UNRELATED

    def check_mounts(self) -> None:
        held = {m.installed_asset_id: m.id for m in self.mounts.values() if m.installed_asset_id is not None}
        assert held == {asset.id: asset.mount_id for asset in self.assets.values() if asset.mount_id}
        for mount in self.mounts.values():
            parent = None if mount.parent_id is None else self.mounts[mount.parent_id]
            if mount.status is MountStatus.DECOMMISSIONED:
                assert mount.installed_asset_id is None
            elif parent is not None:
                assert parent.status is MountStatus.ACTIVE
            if mount.installed_asset_id is not None:
                asset = self.assets[mount.installed_asset_id]
                assert asset.lifecycle in IN_SERVICE
                assert {mount.facility_code, asset.scope_facility_code} not in UNRELATED

    def check_fixtures(self) -> None:
        standing = [each for each in self.fixtures.values() if each.status is FixtureStatus.REGISTERED]
        bound = [(id, fixture.id) for fixture in standing for id in fixture.asset_ids]
        assert sorted(bound) == sorted((a.id, a.fixture_id) for a in self.assets.values() if a.fixture_id)
        for fixture in standing:
            for asset in (self.assets[id] for id in fixture.asset_ids):
                assert asset.mount_id is not None, "what is part of a fixture stays installed"
                assert asset.scope_facility_code == fixture.facility_code

    def out_of_use(self) -> set[tuple[UUID, AssetDriftKind]]:
        """The drift that follows from what assets stand in or under, or are driven by."""
        found: set[tuple[UUID, AssetDriftKind]] = set()
        for asset in self.assets.values():
            around = (asset.parent_id, asset.controller_id, asset.located_in_enclosure_id)
            for kind, id in zip(OUT_OF_USE, around, strict=True):
                what = self.assets.get(id) or self.enclosures.get(id) if id is not None else None
                if what is not None and what.decommissioned_at and not asset.decommissioned:
                    found.add((asset.id, kind))
        return found


class AssetWalk(Walk):
    """Assets, mounts and fixtures of three facilities, registered, moved, bound and taken out of use."""

    listed = LISTED
    now: Equipment

    def __init__(self, cluster: Cluster) -> None:
        self.ended: dict[tuple[str, UUID], int] = {}
        self.enclosures: dict[str, UUID] = {}
        self.frames: dict[str, UUID] = {}
        super().__init__(cluster)

    async def furnish(self) -> None:
        [home] = await folds(self.app, facilities)
        area = RegisterFacility(code=AREA, display_name="Area", kind=FacilityKind.AREA, parent_id=home)
        await self.do(area)
        await self.do(RegisterFacility(code=ELSEWHERE, display_name="Elsewhere", kind=FacilityKind.SITE))
        film = DefineFamily(name="Film", affordances=frozenset(), settings_schema=self.film("um"))
        self.families = {"camera": CAMERA, "stage": STAGE, "film": (await self.do(film)).family_id}
        self.assemblies = [
            await self.assembly(eye=SlotCardinality.EXACTLY_1),
            await self.assembly(eye=SlotCardinality.EXACTLY_1, other=SlotCardinality.ZERO_OR_MORE),
        ]
        for code in FACILITIES:
            made = await self.do(RegisterEnclosure(name=code, facility_code=code))
            self.enclosures[code] = made.enclosure_id
            self.frames[code] = (await self.do(RegisterFrame(name=code, facility_code=code))).frame_id
            await self.stock(code)

    async def stock(self, facility_code: str) -> None:
        """A small tree, and three bays of which two are taken."""
        unit = await self.do(RegisterAsset(name="unit", tier=AssetTier.UNIT, facility_code=facility_code))
        arm = await self.device(unit.asset_id, "arm", CAMERA)
        eye = await self.device(arm, "alpha", CAMERA)
        await self.device(unit.asset_id, "beta", CAMERA, STAGE)
        film = await self.device(unit.asset_id, "film", self.families["film"])
        await self.do(UpdateAssetSettings(asset_id=film, settings_patch={"thickness": 5}))
        for slot, asset_id in (("one", arm), ("two", eye), ("three", None)):
            mount_id = (await self.do(self.mount(facility_code, slot))).mount_id
            if asset_id is not None:
                await self.do(InstallAsset(mount_id=mount_id, asset_id=asset_id))

    async def device(self, parent_id: UUID, name: str, *family_ids: UUID) -> UUID:
        """An asset in service."""
        families = frozenset(family_ids)
        made = await self.do(
            RegisterAsset(name=name, tier=AssetTier.DEVICE, parent_id=parent_id, family_ids=families)
        )
        await self.do(ActivateAsset(asset_id=made.asset_id))
        return made.asset_id

    async def assembly(self, **slots: SlotCardinality) -> UUID:
        camera = frozenset({CAMERA})
        required = tuple(
            TemplateSlot(slot_name=name, required_family_ids=camera, cardinality=cardinality)
            for name, cardinality in slots.items()
        )
        return (await self.do(DefineAssembly(name="Station", required_slots=required))).assembly_id

    def film(self, unit: str) -> dict[str, Any]:
        return schema(thickness=number(unit), serial_number={"type": "string"})

    def mount(self, facility_code: str, slot_code: str, parent_id: UUID | None = None) -> RegisterMount:
        placement = Placement(
            parent_frame_id=self.frames[facility_code],
            reference_surface=ReferenceSurface.MOUNTING_FACE,
            **ORIGIN,
        )
        return RegisterMount(
            slot_code=slot_code, facility_code=facility_code, parent_id=parent_id, placement=placement
        )

    def asset_id(
        self, number: int, wanted: Callable[[Asset], bool] = lambda asset: not asset.decommissioned
    ) -> UUID:
        return chosen(number, self.now.assets, wanted)

    def mount_id(self, number: int, *, occupied: bool | None = None) -> UUID:
        def wanted(mount: Mount) -> bool:
            fits = occupied is None or (mount.installed_asset_id is not None) is occupied
            return fits and mount.status is MountStatus.ACTIVE

        return chosen(number, self.now.mounts, wanted)

    def enclosure_id(self, place: str | None) -> UUID | None:
        return None if place is None else self.enclosures[place]

    @step(2, name=NAMES, parent=st.none() | SOME, of=st.frozensets(FAMILIES), values=PATCHES, place=PLACES)
    def register(
        self, name: str, parent: int | None, of: frozenset[str], values: dict[str, Any], place: str
    ) -> None:
        """The root of a tree at a place, or what is below another asset and stands at that place."""
        self.call(
            RegisterAsset(
                name=name,
                tier=AssetTier.DEVICE,
                parent_id=None if parent is None else self.asset_id(parent),
                facility_code=place if parent is None else None,
                family_ids=frozenset(self.families[each] for each in of),
                settings=values,
                located_in_enclosure_id=self.enclosure_id(place),
            )
        )

    @step(4, asset=SOME, parent=SOME)
    def relocate(self, asset: int, parent: int) -> None:
        id, to = self.relocation(asset, parent)
        self.call(RelocateAsset(asset_id=id, to_parent_id=to, reason="walk"))

    def relocation(self, asset: int, parent: int) -> tuple[UUID, UUID]:
        """What can be moved, as a rule, and where to."""
        id = self.asset_id(asset, lambda asset: asset.parent_id is not None and not asset.decommissioned)
        code = self.now.assets[id].scope_facility_code
        return id, self.asset_id(parent, lambda asset: asset.scope_facility_code == code)

    @step(3, one=SOME, other=SOME, places=st.tuples(SOME, SOME), overtaken=st.booleans())
    def relocate_each_below_the_other(
        self, one: int, other: int, places: tuple[int, int], overtaken: bool
    ) -> None:
        """Of two opposite relocations one happens at most."""
        assets = self.relocation(one, other)
        below = [[each.id for _, each in self.now.subtree(id, MOST_LEVELS)] for id in reversed(assets)]
        targets = [ids[number % len(ids)] for ids, number in zip(below, places, strict=True)]
        requests = [
            RelocateAsset(asset_id=id, to_parent_id=to, reason="walk")
            for id, to in zip(assets, targets, strict=True)
        ]
        outcomes = self.at_once(*requests, overtaken=overtaken)
        moved = [each for each in outcomes if not isinstance(each, type) and each.events]
        assert len(moved) <= 1

    @step(2, asset=SOME)
    def decommission(self, asset: int) -> None:
        bare = {asset.id for asset in self.now.assets.values() if not self.now.children(asset.id)}
        self.call(
            DecommissionAsset(asset_id=self.asset_id(asset, lambda asset: asset.id in bare), reason="walk")
        )

    @step(2, asset=SOME, place=st.none() | PLACES)
    def place(self, asset: int, place: str | None) -> None:
        id, where = self.asset_id(asset), self.enclosure_id(place)
        self.call(PlaceAsset(asset_id=id, located_in_enclosure_id=where, reason="walk"))

    @step(place=PLACES)
    def replace_enclosure(self, place: str) -> None:
        """Take an enclosure out of use with whatever stands in it."""
        self.call(DecommissionEnclosure(enclosure_id=self.enclosures[place], reason="walk"))
        made = self.call(RegisterEnclosure(name=place, facility_code=place))
        self.enclosures[place] = made.enclosure_id

    @step(
        3,
        asset=SOME,
        family=FAMILIES,
        values=PATCHES,
        unit=st.sampled_from(["um", "mm"]),
        verb=st.integers(0, 4),
    )
    def configure(self, asset: int, family: str, values: dict[str, Any], unit: str, verb: int) -> None:
        """Change the families and the settings of an asset, or what a family makes of them."""
        id, family_id = self.asset_id(asset), self.families[family]
        requests = [
            AddAssetFamily(asset_id=id, family_id=family_id, settings_patch=values),
            RemoveAssetFamily(asset_id=id, family_id=family_id, settings_patch=values),
            UpdateAssetSettings(asset_id=id, settings_patch=values),
            UpdateFamilySettingsSchema(family_id=self.families["film"], settings_schema=self.film(unit)),
            VersionFamily(
                family_id=self.families["film"],
                version_tag=f"v{uuid4().hex}",
                affordances=frozenset(),
                settings_schema=self.film(unit),
            ),
        ]
        self.call(requests[verb])

    @step(2, asset=SOME, other=SOME, move=st.sampled_from(MOVES))
    def move(self, asset: int, other: int, move: Callable[[UUID, UUID], Any]) -> None:
        self.call(move(self.asset_id(asset), self.asset_id(other)))

    @step(
        2,
        asset=SOME,
        name=NAMES,
        value=st.none() | IDENTIFIERS,
        scheme=st.sampled_from(PersistentIdentifierScheme),
    )
    def name(self, asset: int, name: str, value: str | None, scheme: PersistentIdentifierScheme) -> None:
        id = self.asset_id(asset)
        self.call(RenameAsset(asset_id=id, name=name))
        if value is not None:
            self.call(
                AssignAssetPersistentIdentifier(asset_id=id, scheme=scheme, value=value, authority="walk")
            )

    @step(2, place=PLACES, slot=NAMES, parent=st.none() | SOME)
    def register_mount(self, place: str, slot: str, parent: int | None) -> None:
        self.call(self.mount(place, slot, None if parent is None else self.mount_id(parent)))

    @step(mount=SOME)
    def decommission_mount(self, mount: int) -> None:
        self.call(DecommissionMount(mount_id=self.mount_id(mount, occupied=False), reason="walk"))

    @step(4, mount=SOME, asset=SOME)
    def install(self, mount: int, asset: int) -> None:
        mount_id = self.mount_id(mount, occupied=False)
        code = self.now.mounts[mount_id].facility_code
        id = self.asset_id(asset, lambda each: (each.scope_facility_code, each.lifecycle) == (code, ACTIVE))
        self.call(InstallAsset(mount_id=mount_id, asset_id=id))

    @step(2, mount=SOME)
    def uninstall(self, mount: int) -> None:
        self.call(UninstallAsset(mount_id=self.mount_id(mount, occupied=True), reason="walk"))

    @step(3, first=SOME, others=st.lists(SOME, max_size=2), assembly=st.integers(0, 1))
    def register_fixture(self, first: int, others: list[int], assembly: int) -> None:
        """Whatever is in some mounts, of one facility as a rule, becomes one thing."""
        free = {a.mount_id for a in self.now.assets.values() if a.mount_id and a.fixture_id is None}
        leading = chosen(first, self.now.mounts, lambda mount: mount.id in free)
        code = self.now.mounts[leading].facility_code

        def beside(mount: Mount) -> bool:
            return mount.id in free - {leading} and mount.facility_code == code

        mount_ids = {leading, *(chosen(other, self.now.mounts, beside) for other in others)}
        self.call(self.fixture(mount_ids, assembly))

    def fixture(self, mount_ids: Iterable[UUID], assembly: int) -> RegisterFixture:
        held = [self.now.mounts[id].installed_asset_id for id in sorted(mount_ids)]
        bindings = tuple(
            SlotAssetBinding(slot_name=slot, asset_id=id)
            for slot, id in zip(["eye", "other", "other"], filter(None, held), strict=False)
        )
        return RegisterFixture(assembly_id=self.assemblies[assembly], slot_asset_bindings=bindings)

    @step(2, fixture=SOME)
    def retire_fixture(self, fixture: int) -> None:
        if self.now.fixtures:
            id = chosen(fixture, self.now.fixtures, lambda fixture: fixture.retired_at is None)
            self.call(RetireFixture(fixture_id=id, reason="walk"))

    @step(
        3,
        asset=SOME,
        other=SOME,
        mount=SOME,
        second=SOME,
        verbs=st.lists(st.integers(0, 8), min_size=2, max_size=3, unique=True),
        overtaken=st.booleans(),
    )
    def run_into_one_another(
        self, asset: int, other: int, mount: int, second: int, verbs: list[int], overtaken: bool
    ) -> None:
        """Calls about the same asset and mount, all at once; what they leave is whole."""
        id, mount_id, second_id = self.asset_id(asset), self.mount_id(mount), self.mount_id(second)
        requests = [
            InstallAsset(mount_id=mount_id, asset_id=id),
            InstallAsset(mount_id=second_id, asset_id=id),
            UninstallAsset(mount_id=mount_id, reason="walk"),
            self.fixture({mount_id, second_id}, 1),
            DecommissionMount(mount_id=mount_id, reason="walk"),
            DecommissionAsset(asset_id=id, reason="walk"),
            RegisterAsset(name="beta", tier=AssetTier.DEVICE, parent_id=id),
            RelocateAsset(asset_id=self.asset_id(other), to_parent_id=id, reason="walk"),
            RenameAsset(asset_id=id, name="gamma"),
        ]
        self.at_once(*(requests[number] for number in verbs), overtaken=overtaken)

    @step(2, asset=SOME, deepest=st.integers(1, 3), limit=st.integers(1, 5), everything=st.booleans())
    def read_tree(self, asset: int, deepest: int, limit: int, everything: bool) -> None:
        """What is above and, page by page, below an asset is what the folds say."""
        now, parents = self.now, {each.parent_id for each in self.now.assets.values()}
        id = self.asset_id(asset, lambda asset: asset.id in parents)
        above = self.call(ListAssetAncestors(asset_id=id)).items
        assert [each.asset_id for each in reversed(above)] == [each.id for each in now.above(now.assets[id])]
        request = partial(
            ListAssetSubtree, asset_id=id, max_depth=deepest, limit=limit, include_decommissioned=everything
        )
        read = [(node.depth, node.id) for node in self.run(pages(self.app, request))]
        due = now.subtree(id, deepest)
        assert read == [(depth, each.id) for depth, each in due if everything or not each.decommissioned]

    @invariant()
    def equipment_is_whole(self) -> None:
        self.now = self.run(self.look())
        self.now.check_tree()
        self.now.check_assets()
        self.now.check_mounts()
        self.now.check_fixtures()
        ended = self.now.ended()
        assert self.ended.items() <= ended.items(), "what is out of use is not changed any more"
        self.ended = ended

    async def look(self) -> Equipment:
        return Equipment(await all_folds(self.app, *FOLDED))

    async def examine(self) -> None:
        now = await self.look()
        drift = {
            (row.asset_id, row.kind)
            for kind in OUT_OF_USE
            for row in (await self.do(ListAssetDrift(kind=kind, limit=200))).items
        }
        assert drift == now.out_of_use()
        for mount in now.mounts.values():
            key = f"{mount.facility_code}/{mount.slot_code}"
            holder = await self.app.store.claim_holder("mount-slot", key)
            assert (holder == ("Mount", mount.id)) == (mount.status is MountStatus.ACTIVE)


def test_equipment_stays_whole_whatever_is_called(cluster: Cluster) -> None:
    walk(AssetWalk, cluster, examples=6, steps=80)
