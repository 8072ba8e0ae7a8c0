"""Who holds the controls of a surface, and who asks for them."""

from datetime import datetime
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.operation import Query, World
from beamwright.kernel.value import Value

from .surface import surfaces
from .visit import visits


class SurfaceControlHolder(Value):
    """The visit that holds control, and through whom; `present` says whether that actor is there."""

    visit_id: UUID
    visit_code: str
    actor_id: UUID
    name: text.Personal
    since_at: datetime
    present: bool


class SurfaceControlRequest(Value):
    """The pending request for control; once `lapsed`, its visit may take control."""

    visit_id: UUID
    visit_code: str
    actor_id: UUID
    name: text.Personal
    requested_at: datetime
    expires_at: datetime
    lapsed: bool


class SurfaceControl(Value):
    """The control of a surface at this moment."""

    surface_id: UUID
    exclusive: bool
    holder: SurfaceControlHolder | None
    control_request: SurfaceControlRequest | None
    controlled_operations: frozenset[str]


@surfaces.operation("GET /surfaces/{surface_id}/control")
class GetSurfaceControl(Query[SurfaceControl]):
    """Read who holds control of a surface and who asks for it."""

    surface_id: UUID

    async def answer(self, world: World) -> SurfaceControl:
        surface = await world.load(surfaces, self.surface_id)
        held, asked = surface.holder, surface.request_at(world.now)
        named = [each for each in (held, asked) if each is not None]
        names = await world.profiles.names({each.actor_id for each in named})
        loaded = await world.load_all(visits, sorted({each.visit_id for each in named}))
        by_id = {visit.id: visit for visit in loaded}
        return SurfaceControl(
            surface_id=surface.id,
            exclusive=surface.exclusive,
            holder=held
            and SurfaceControlHolder(
                visit_id=held.visit_id,
                visit_code=by_id[held.visit_id].code,
                actor_id=held.actor_id,
                name=names[held.actor_id],
                since_at=held.since_at,
                present=by_id[held.visit_id].open_presence(held.actor_id) is not None,
            ),
            control_request=asked
            and SurfaceControlRequest(
                visit_id=asked.visit_id,
                visit_code=by_id[asked.visit_id].code,
                actor_id=asked.actor_id,
                name=names[asked.actor_id],
                requested_at=asked.requested_at,
                expires_at=asked.expires_at,
                lapsed=asked.lapsed(world.now),
            ),
            controlled_operations=surface.controlled_operations,
        )
