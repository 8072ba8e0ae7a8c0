"""Reads of visits: the views add whether a visit is overdue, and whether it holds its surface."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from beamwright.kernel.aggregate import Filter, Test
from beamwright.kernel.operation import World
from beamwright.kernel.value import Time, Value

from .surface import surfaces
from .visit import Visit, visits

type Short = Annotated[str, Meta(max_length=200)]


class VisitExtras(Value):
    """What a visit's view shows beyond its state, as of now."""

    overdue: bool
    controls_surface: bool


async def visit_extras(world: World, states: Sequence[Visit]) -> list[VisitExtras]:
    found = await world.load_all(surfaces, sorted({visit.surface_id for visit in states}))
    by_id = {surface.id: surface for surface in found}
    return [
        VisitExtras(
            overdue=(due := due_at(visit)) is not None and due < world.now,
            controls_surface=by_id[visit.surface_id].held_by(visit.id),
        )
        for visit in states
    ]


def due_at(visit: Visit) -> datetime | None:
    """When the visit should be over, unless it is."""
    return None if visit.ended else visit.planned_end_at


# Given both, external_scheme and external_value find visits that have the scheme and have the value.
visits.reads(
    "/visits",
    filters=(
        "status",
        "type",
        "facility_code",
        "surface_id",
        "code",
        "parent_id",
        Filter(name="member_id", type=UUID, of=lambda visit: sorted(visit.members), test=Test.CONTAINS),
        "policy_id",
        Filter(
            name="external_scheme",
            type=Short,
            of=lambda visit: sorted(visit.external_refs),
            test=Test.CONTAINS,
        ),
        Filter(
            name="external_value",
            type=Short,
            of=lambda visit: sorted({ref.value for ref in visit.external_refs.values()}),
            test=Test.CONTAINS,
        ),
        Filter(name="planned_from", type=Time, of=lambda visit: visit.planned_end_at, test=Test.AT_LEAST),
        Filter(name="planned_until", type=Time, of=lambda visit: visit.planned_start_at, test=Test.BEFORE),
        Filter(name="overdue", type=bool, of=due_at, test=Test.PASSED),
    ),
    sorts=("planned_start_at", "created_at", "code"),
    text=("code", "title"),
    extras=(VisitExtras, visit_extras),
)
