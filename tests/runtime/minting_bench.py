"""An installation with assets and fixtures to identify, and a minter to run step by step."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from beamwright.adapters.identifiers.stub import StubMinter
from beamwright.app import App
from beamwright.contexts.equipment.assembly import SlotCardinality, TemplateSlot
from beamwright.contexts.equipment.assembly_definition import DefineAssembly
from beamwright.contexts.equipment.asset import AssetTier
from beamwright.contexts.equipment.asset_assignments import ActivateAsset
from beamwright.contexts.equipment.asset_identifiers import (
    AssignAssetPersistentIdentifier,
    RequestAssetPersistentIdentifier,
)
from beamwright.contexts.equipment.asset_registration import RegisterAsset
from beamwright.contexts.equipment.asset_values import (
    AssetOwner,
)
from beamwright.contexts.equipment.family_definition import DefineFamily
from beamwright.contexts.equipment.fixture import SlotAssetBinding
from beamwright.contexts.equipment.fixture_registration import RegisterFixture
from beamwright.contexts.equipment.frame_registration import RegisterFrame
from beamwright.contexts.equipment.identifier_requests import ListIdentifierRequests
from beamwright.contexts.equipment.installation import InstallAsset
from beamwright.contexts.equipment.minting import IDENTIFIABLE
from beamwright.contexts.equipment.model_definition import DefineModel
from beamwright.contexts.equipment.mount_registration import RegisterMount
from beamwright.contexts.equipment.values import Affordance, Manufacturer, Placement, ReferenceSurface
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.identifiers import (
    IdentifierMinter,
    MintedIdentifier,
    PersistentIdentifierScheme,
)
from beamwright.kernel.operation import Command, Query
from beamwright.kernel.outbox import IdentifierRequest, OutboxState
from beamwright.runtime.call import Call
from beamwright.runtime.identifiers import IdentifierMinting
from beamwright.settings import Settings
from tests.live import Clock

DOI, HANDLE = PersistentIdentifierScheme
PENDING, DONE, FAILED = OutboxState
ADMINISTRATOR = Call(
    caller=Caller(principal_id=wellknown.ADMINISTRATOR, kind="human"),
    surface_id=wellknown.HTTP_SURFACE,
    conduit_id=wellknown.CLIENTS_CONDUIT,
    correlation_id="test",
)


class Agency(StubMinter):
    """Remembers what it was asked, and raises what it was told to, one trouble for each call."""

    def __init__(self) -> None:
        self.minted: list[str] = []
        self.records: list[dict[str, Any]] = []
        self.tombstoned: list[str] = []
        self.troubles: list[BaseException] = []
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def mint(
        self, scheme: PersistentIdentifierScheme, suffix: str, record: dict[str, Any]
    ) -> MintedIdentifier:
        self.minted.append(suffix)
        self.records.append(record)
        if self.meanwhile is not None:
            await self.meanwhile()
        if self.troubles:
            raise self.troubles.pop(0)
        return await super().mint(scheme, suffix, record)

    async def tombstone(self, scheme: PersistentIdentifierScheme, value: str, reason: str) -> None:
        self.tombstoned.append(value)


class Bench:
    """An installation with its lists fed, a clock to move, and one minter to run step by step."""

    def __init__(self, app: App, clock: Clock) -> None:
        self.app = app
        self.clock = clock
        self.agency = Agency()

    async def issue(self, command: Command[Any] | Query[Any], call: Call = ADMINISTRATOR) -> Any:
        return (await self.app.service.call(command, call)).body

    async def asset(self, **fields: Any) -> UUID:
        family = await self.issue(
            DefineFamily(name=uuid4().hex, affordances=frozenset({Affordance.IMAGEABLE}), settings_schema={})
        )
        model = await self.issue(
            DefineModel(
                name="Oryx",
                manufacturer=Manufacturer(name="Optics Works"),
                part_number=uuid4().hex,
                declared_family_ids=frozenset({family.family_id}),
            )
        )
        given = {
            "name": "Camera",
            "tier": AssetTier.DEVICE,
            "facility_code": None if "parent_id" in fields else "home",
            "family_ids": frozenset({family.family_id}),
            "model_id": model.model_id,
            "owners": (AssetOwner(name="Photon Source"),),
        }
        return (await self.issue(RegisterAsset(**given | fields))).asset_id

    async def requested(self, **fields: Any) -> UUID:
        asset_id = await self.asset(**fields)
        await self.issue(RequestAssetPersistentIdentifier(asset_id=asset_id))
        return asset_id

    async def installed(self, asset_id: UUID) -> UUID:
        await self.issue(ActivateAsset(asset_id=asset_id))
        frame_id = (await self.issue(RegisterFrame(name="Hall", facility_code="home"))).frame_id
        origin = dict.fromkeys(Placement.__struct_fields__[2:], 0.0)
        placement = Placement(
            parent_frame_id=frame_id, reference_surface=ReferenceSurface.OPTIC_CENTER, **origin
        )
        mount = await self.issue(
            RegisterMount(slot_code=uuid4().hex, facility_code="home", placement=placement)
        )
        await self.issue(InstallAsset(mount_id=mount.mount_id, asset_id=asset_id))
        return mount.mount_id

    async def fixture(self, asset_id: UUID) -> UUID:
        request = self.app.service.registry.operations["get_asset"].request(asset_id=asset_id)
        slot = TemplateSlot(
            slot_name="camera",
            required_family_ids=(await self.issue(request)).family_ids,
            cardinality=SlotCardinality.EXACTLY_1,
        )
        assembly = await self.issue(DefineAssembly(name="Tomograph", required_slots=(slot,)))
        bound = (SlotAssetBinding(slot_name="camera", asset_id=asset_id),)
        command = RegisterFixture(assembly_id=assembly.assembly_id, slot_asset_bindings=bound)
        return (await self.issue(command)).fixture_id

    def minting(self, minter: IdentifierMinter | None = None) -> IdentifierMinting:
        app = self.app
        return IdentifierMinting(
            app.service, app.outbox, minter or self.agency, app.leases, app.holder, IDENTIFIABLE
        )

    async def work(self, minter: IdentifierMinter | None = None) -> None:
        """A minter that has just started: it reads the log, and works off what is due."""
        minting = self.minting(minter)
        await minting.enqueue()
        while await minting.work():
            pass

    async def rows(self, asset_id: UUID) -> list[IdentifierRequest]:
        page = await self.issue(ListIdentifierRequests(limit=200))
        return [row for row in page.items if row.id == asset_id]

    async def row(self, asset_id: UUID) -> IdentifierRequest:
        [row] = await self.rows(asset_id)
        return row

    async def events(self, asset_id: UUID) -> list[str]:
        found = await self.app.store.read_events(("Asset", asset_id), 1, 100)
        return [event.event_type.removeprefix("AssetPersistentIdentifier") for event in found]

    async def refs(self, asset_id: UUID) -> dict[str, str]:
        request = self.app.service.registry.operations["get_asset"].request(asset_id=asset_id)
        return {scheme: ref.value for scheme, ref in (await self.issue(request)).external_refs.items()}


class Home(NamedTuple):
    """Where the installation of this module is kept."""

    data: Path
    dsn: str


def typed_in(asset_id: UUID) -> AssignAssetPersistentIdentifier:
    """An identifier that somebody got elsewhere."""
    value = f"10.5072/elsewhere-{asset_id}"
    return AssignAssetPersistentIdentifier(asset_id=asset_id, scheme=DOI, value=value, authority="me")


def on_bench(home: Home, check: Callable[[Bench], Awaitable[None]]) -> None:
    """Check with an empty outbox, and nothing left to read in the log."""

    async def run() -> None:
        clock = Clock()
        app = await App.open(Settings(data=home.data), home.dsn, clock)
        feeding = asyncio.create_task(app.projector.run())
        try:
            await app.database.execute("DELETE FROM identifier_outbox")
            await app.outbox.enqueue([], await app.store.horizon())
            await check(Bench(app, clock))
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            await app.close()

    asyncio.run(run())
