"""An installation with its lists fed, a clock to move, and clearances on the general template."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from beamwright.app import App
from beamwright.contexts.equipment.asset import AssetTier
from beamwright.contexts.equipment.asset_registration import RegisterAsset
from beamwright.contexts.safety.clearance import Clearance, ReviewDecision, clearances
from beamwright.contexts.safety.clearance_drafting import RegisterClearance, SubmitClearance
from beamwright.contexts.safety.clearance_lifecycle import ActivateClearance
from beamwright.contexts.safety.clearance_review import (
    AppendClearanceReviewStep,
    ApproveClearance,
    StartClearanceReview,
)
from beamwright.contexts.safety.clearance_template_definition import starter_templates
from beamwright.contexts.safety.values import Binding, BindingKind
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.operation import Command, Query
from beamwright.runtime.call import Call
from beamwright.runtime.catalogue import install
from beamwright.runtime.clearance_expirer import ClearanceExpirer
from beamwright.runtime.workers import Workers
from beamwright.settings import Settings
from tests.live import Clock

ADMINISTRATOR = Call(
    caller=Caller(principal_id=wellknown.ADMINISTRATOR, kind="human"),
    surface_id=wellknown.HTTP_SURFACE,
    conduit_id=wellknown.CLIENTS_CONDUIT,
    correlation_id="test",
)


class Home(NamedTuple):
    """Where the installation of a test module is kept."""

    data: Path
    dsn: str


class Bench:
    """One running process of the installation."""

    def __init__(self, app: App, clock: Clock) -> None:
        self.app = app
        self.clock = clock

    async def issue(self, command: Command[Any] | Query[Any], call: Call = ADMINISTRATOR) -> Any:
        return (await self.app.service.call(command, call)).body

    async def ask(self, operation: str, **fields: Any) -> Any:
        return await self.issue(self.app.service.registry.operations[operation].request(**fields))

    async def asset(self, **fields: Any) -> UUID:
        tier = AssetTier.DEVICE if "parent_id" in fields else AssetTier.UNIT
        place: dict[str, Any] = {} if "parent_id" in fields else {"facility_code": "home"}
        command = RegisterAsset(name=uuid4().hex, tier=tier, **place | fields)
        return (await self.issue(command)).asset_id

    async def active(
        self, asset_id: UUID | None = None, valid_until: datetime | None = None, **fields: Any
    ) -> UUID:
        """A clearance in force on an asset."""
        binding = Binding(kind=BindingKind.ASSET, id=asset_id or await self.asset())
        registered = await self.issue(
            RegisterClearance(
                template_id=wellknown.GENERAL_CLEARANCE_TEMPLATE,
                title=uuid4().hex,
                bindings=(binding,),
                valid_until=valid_until,
                **fields,
            )
        )
        await self.approve(registered.clearance_id)
        await self.issue(ActivateClearance(clearance_id=registered.clearance_id))
        return registered.clearance_id

    async def approve(self, clearance_id: UUID) -> None:
        await self.issue(SubmitClearance(clearance_id=clearance_id))
        await self.issue(StartClearanceReview(clearance_id=clearance_id))
        said = ReviewDecision.APPROVED
        await self.issue(AppendClearanceReviewStep(clearance_id=clearance_id, role="safety", decision=said))
        await self.issue(ApproveClearance(clearance_id=clearance_id))

    async def due(self, count: int) -> list[UUID]:
        """Clearances in force whose time is over by the time they are listed."""
        until = self.clock() + timedelta(hours=1)
        asset_id = await self.asset()
        made = await asyncio.gather(*(self.active(asset_id, until) for _ in range(count)))
        self.clock.ahead += timedelta(hours=2)
        await self.listed()
        return made

    async def listed(self) -> None:
        """The lists have seen everything so far."""
        horizon = await self.app.store.horizon()
        for name in ("clearance", "decision"):
            await self.app.readers.caught_up(name, horizon)

    def expirer(self, tick: timedelta = timedelta(minutes=5)) -> ClearanceExpirer:
        return ClearanceExpirer(self.app.service, self.app.leases, uuid4(), tick)

    async def state(self, clearance_id: UUID) -> Clearance:
        name = (clearances.name, clearance_id)
        stream = (await self.app.store.read([name]))[name]
        state = clearances.fold(clearances.stream_decoder.decode(stream.events))
        assert state is not None
        return state

    async def decided(self, clearance_id: UUID) -> list[UUID]:
        """The decisions in the log that are about a clearance."""
        rows = await self.app.database.fetch(
            "SELECT stream_id FROM events WHERE event_type = 'DecisionRegistered' AND payload::text LIKE $1",
            f"%{clearance_id}%",
        )
        return [row["stream_id"] for row in rows]


async def on_bench(home: Home, check: Callable[[Bench], Awaitable[None]]) -> None:
    clock, feeding = Clock(), Workers()
    app = await App.open(Settings(data=home.data), home.dsn, clock)
    feeding.start("projector", app.projector.run)
    try:
        await install(app.service, wellknown.CATALOGUE_SEEDER, starter_templates("home"))
        await check(Bench(app, clock))
    finally:
        await feeding.stop()
        await app.close()
