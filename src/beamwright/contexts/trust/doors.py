"""Doors into the installation: conduits between zones, and the surfaces that open onto them."""

from collections.abc import Collection
from uuid import UUID

from msgspec import UNSET, UnsetType

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, Operation, World
from beamwright.kernel.pattern import Pattern, parse_pattern
from beamwright.kernel.value import Value, patched

from .conduit import (
    Conduit,
    ConduitDefined,
    ConduitStatus,
    InvalidConduitNameError,
    VerdictLevel,
    conduits,
)
from .surface import (
    LIFECYCLE,
    InvalidSurfaceAudienceError,
    InvalidSurfaceControlledOperationsError,
    InvalidSurfaceNameError,
    Surface,
    SurfaceCannotUpdateError,
    SurfaceDefined,
    SurfaceKind,
    SurfaceUpdated,
    check_from_outside,
    surfaces,
)
from .zone import Zone, ZoneStatus, zones

CONTROLLED_BY_DEFAULT = frozenset(
    {
        "run:start_run",
        "run:resume_run",
        "run:adjust_run",
        "run:conduct_run",
        "operation:start_procedure",
        "operation:resume_procedure",
        "operation:start_iteration",
        "operation:conduct_*",
    }
)
MOST_PATTERNS = 100
# Winding down must be open to whoever may do it, whoever holds the controls.
WINDING_DOWN = ("hold_", "stop_", "abort_", "truncate_", "release_")


class ConduitZoneRetiredError(ConflictError):
    """A conduit joins zones that are in use; this one is retired."""


class SurfaceConduitRetiredError(ConflictError):
    """A surface opens onto a conduit that is in use; this one is retired."""


@conduits.operation("POST /conduits", creates=True)
class DefineConduit(Command[tuple[Zone, Zone]]):
    """Define a governed path from one zone to another, or within one."""

    name: text.Name
    source_zone_id: UUID
    target_zone_id: UUID
    verdict_level: VerdictLevel = VerdictLevel.COMMANDS

    async def gather(self, world: World) -> tuple[Zone, Zone]:
        self.checked()
        source = await world.load(zones, self.source_zone_id)
        return source, await world.load(zones, self.target_zone_id)

    def checked(self) -> str:
        return text.name(self.name, InvalidConduitNameError)

    def decide(self, ends: tuple[Zone, Zone], occasion: Occasion) -> ConduitDefined:
        name = self.checked()
        check_zones(ends)
        return ConduitDefined(
            conduit_id=occasion.new_id,
            occurred_at=occasion.now,
            name=name,
            source_zone_id=self.source_zone_id,
            target_zone_id=self.target_zone_id,
            verdict_level=self.verdict_level,
        )


def check_zones(ends: tuple[Zone, Zone]) -> None:
    """Gate: both zones are active."""
    retired = sorted({str(zone.id) for zone in ends if zone.status is ZoneStatus.RETIRED})
    if retired:
        raise ConduitZoneRetiredError(
            "A conduit cannot begin or end in a retired zone; name an active one.", zone_ids=retired
        )


class SurfaceValues(Value):
    """The values of a surface that a request may give, checked."""

    name: str
    audience: str | None
    controlled_operations: frozenset[str]


def surface_values(
    name: str, audience: str | None, patterns: Collection[str], operations: Collection[Operation]
) -> SurfaceValues:
    return SurfaceValues(
        name=text.name(name, InvalidSurfaceNameError),
        audience=None if audience is None else text.name(audience, InvalidSurfaceAudienceError, "audience"),
        controlled_operations=controlled_operations(patterns, operations),
    )


def controlled_operations(patterns: Collection[str], operations: Collection[Operation]) -> frozenset[str]:
    """`patterns` trimmed, unless one is malformed or would keep somebody from reading or winding down."""
    given = frozenset(pattern.strip() for pattern in patterns)
    if len(given) > MOST_PATTERNS:
        raise InvalidSurfaceControlledOperationsError(
            f"A surface has at most {MOST_PATTERNS} controlled patterns.", most=MOST_PATTERNS
        )
    parsed = {each: parse_pattern(each) for each in given}
    if malformed := sorted(each for each, pattern in parsed.items() if pattern is None):
        raise InvalidSurfaceControlledOperationsError(
            "Write each pattern as name or context:name.", patterns=malformed
        )
    uncontrollable = [operation for operation in operations if operation.reads or winds_down(operation)]
    if caught := sorted(each for each, pattern in parsed.items() if _matches(pattern, uncontrollable)):
        raise InvalidSurfaceControlledOperationsError(
            "Reading and winding down never need control; narrow these patterns.", patterns=caught
        )
    return given


def winds_down(operation: Operation) -> bool:
    return operation.name.startswith(WINDING_DOWN)


def _matches(pattern: Pattern | None, operations: Collection[Operation]) -> bool:
    return pattern is not None and any(
        pattern.matches(each.context, each.name, each.reads) for each in operations
    )


def check_conduit(conduit: Conduit) -> None:
    """Gate: the conduit of a surface is active."""
    if conduit.status is ConduitStatus.RETIRED:
        raise SurfaceConduitRetiredError(
            "A surface cannot use a retired conduit; name an active one.", conduit_id=str(conduit.id)
        )


class Doorway(Value):
    """What a new surface must see: its conduit, and the operations its patterns may catch."""

    conduit: Conduit
    operations: tuple[Operation, ...] = ()


@surfaces.operation("POST /surfaces", creates=True)
class DefineSurface(Command[Doorway]):
    """Define a door through which calls arrive, selected by its token audience."""

    name: text.Name
    kind: SurfaceKind
    conduit_id: UUID
    audience: text.Name
    exclusive: bool = False
    controlled_operations: frozenset[str] = CONTROLLED_BY_DEFAULT

    async def gather(self, world: World) -> Doorway:
        operations = tuple(world.operations.values())
        self.checked(operations)
        return Doorway(conduit=await world.load(conduits, self.conduit_id), operations=operations)

    def checked(self, operations: Collection[Operation]) -> SurfaceValues:
        return surface_values(self.name, self.audience, self.controlled_operations, operations)

    def decide(self, doorway: Doorway, occasion: Occasion) -> SurfaceDefined:
        values = self.checked(doorway.operations)
        check_conduit(doorway.conduit)
        return SurfaceDefined(
            surface_id=occasion.new_id,
            occurred_at=occasion.now,
            name=values.name,
            kind=self.kind,
            conduit_id=self.conduit_id,
            audience=values.audience,
            exclusive=self.exclusive,
            controlled_operations=values.controlled_operations,
        )


class ExistingDoorway(Doorway):
    """What a change of a surface must see."""

    surface: Surface


@surfaces.operation("POST /surfaces/{surface_id}/update")
class UpdateSurface(Command[ExistingDoorway]):
    """Change a surface's name, conduit, audience, exclusiveness or controlled operations."""

    surface_id: UUID
    name: text.Name | UnsetType = UNSET
    conduit_id: UUID | UnsetType = UNSET
    audience: text.Name | UnsetType = UNSET
    exclusive: bool | UnsetType = UNSET
    controlled_operations: frozenset[str] | UnsetType = UNSET

    async def gather(self, world: World) -> ExistingDoorway:
        surface = await world.load(surfaces, self.surface_id)
        operations = tuple(world.operations.values())
        self.checked(surface, operations)
        conduit = await world.load(conduits, patched(self.conduit_id, surface.conduit_id))
        return ExistingDoorway(surface=surface, conduit=conduit, operations=operations)

    def checked(self, surface: Surface, operations: Collection[Operation]) -> SurfaceValues:
        return surface_values(
            patched(self.name, surface.name),
            patched(self.audience, surface.audience),
            patched(self.controlled_operations, surface.controlled_operations),
            operations,
        )

    def decide(self, doorway: ExistingDoorway, occasion: Occasion) -> list[SurfaceUpdated]:
        surface = doorway.surface
        values = self.checked(surface, doorway.operations)
        check_conduit(doorway.conduit)
        LIFECYCLE.check(SurfaceUpdated, surface.status, surface.id)
        check_from_outside(surface, SurfaceCannotUpdateError)
        updated = SurfaceUpdated(
            surface_id=surface.id,
            occurred_at=occasion.now,
            name=values.name,
            conduit_id=doorway.conduit.id,
            audience=values.audience,
            exclusive=patched(self.exclusive, surface.exclusive),
            controlled_operations=values.controlled_operations,
        )
        return [] if surfaces.evolve(surface, updated) == surface else [updated]
