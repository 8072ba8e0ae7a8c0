"""Plan: a practice bound to concrete assets and a window, with default parameters, wires and roles."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, assert_never
from uuid import UUID

import msgspec

from beamwright.contexts.equipment.values import Short
from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.content_hash import content_hash
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, Value, replace
from beamwright.kernel.versions import (
    Counted,
    Deprecation,
    DeprecationReason,
    TaggedVersion,
    counted,
    tagged,
)

MEDIA_TYPE = "application/vnd.beamwright.plan+json"


class PlanStatus(StrEnum):
    DEFINED = "Defined"
    VERSIONED = "Versioned"
    DEPRECATED = "Deprecated"


class PlanNotFoundError(NotFoundError):
    """There is no such plan."""


class InvalidPlanWindowError(InvalidError):
    """A window has a start and a later end, or a plan has no window."""


class InvalidPlanDeprecationReasonError(InvalidError):
    """The reason is blank or too long."""


class PlanVersionTagTakenError(ConflictError):
    """The version tag already names a version of the plan."""


class PlanCannotVersionError(CannotTransitionError):
    """A deprecated plan is not versioned any more."""


class PlanCannotDeprecateError(CannotTransitionError):
    """The plan is deprecated already."""


class PlanCannotUpdateWindowError(CannotTransitionError):
    """A deprecated plan keeps its window."""


class Wire(Value):
    """A signal from a port of one asset to a port of another, or of the same."""

    source_asset_id: UUID
    source_port_name: Short
    target_asset_id: UUID
    target_port_name: Short


class PlanContent(Value):
    """What the content hash is taken of."""

    name: str
    practice_id: UUID
    method_id: UUID
    asset_ids: frozenset[UUID]
    default_parameters: dict[str, Any]
    window_start: Time | None
    window_end: Time | None
    wires: tuple[Wire, ...] = ()
    role_bindings: dict[str, UUID] = {}


class PlanFact(Event):
    plan_id: UUID


class PlanDefined(PlanFact):
    name: str
    practice_id: UUID
    method_id: UUID
    capability_id: UUID
    facility_code: str
    asset_ids: frozenset[UUID]
    default_parameters: dict[str, Any]
    parameters_schema_version: int
    window_start: Time | None
    window_end: Time | None
    content_hash: str
    # The families of each asset as they were seen.
    asset_family_ids: dict[UUID, frozenset[UUID]]


class PlanVersioned(PlanFact):
    version_tag: str
    content_hash: str


class PlanDeprecated(PlanFact):
    reason_kind: DeprecationReason
    reason: str


class PlanDefaultParametersUpdated(PlanFact):
    default_parameters: dict[str, Any]
    parameters_schema_version: int
    content_hash: str


class PlanWindowUpdated(PlanFact):
    window_start: Time | None
    window_end: Time | None
    content_hash: str


class PlanWireAdded(PlanFact):
    wire: Wire
    content_hash: str


class PlanWireRemoved(PlanFact):
    wire: Wire
    content_hash: str


class PlanRoleBound(PlanFact):
    role_name: str
    asset_id: UUID
    content_hash: str


class PlanRoleUnbound(PlanFact):
    role_name: str
    content_hash: str


type PlanEvent = (
    PlanDefined
    | PlanVersioned
    | PlanDeprecated
    | PlanDefaultParametersUpdated
    | PlanWindowUpdated
    | PlanWireAdded
    | PlanWireRemoved
    | PlanRoleBound
    | PlanRoleUnbound
)

EDITABLE = frozenset({PlanStatus.DEFINED, PlanStatus.VERSIONED})

LIFECYCLE = StateMachine[PlanStatus](
    {
        PlanVersioned: move(EDITABLE, PlanStatus.VERSIONED, PlanCannotVersionError),
        PlanDeprecated: move(EDITABLE, PlanStatus.DEPRECATED, PlanCannotDeprecateError),
    }
)


class Plan(Counted):
    id: UUID
    name: str
    practice_id: UUID
    method_id: UUID
    capability_id: UUID
    facility_code: str
    asset_ids: frozenset[UUID]
    default_parameters: dict[str, Any]
    # The number of the method's schema that the defaults were checked against.
    parameters_schema_version: int
    window_start: Time | None
    window_end: Time | None
    content_hash: str
    # In order of source and target.
    wires: tuple[Wire, ...] = ()
    role_bindings: dict[str, UUID] = {}
    status: PlanStatus = PlanStatus.DEFINED
    version_tag: str | None = None
    version_tags: tuple[TaggedVersion, ...] = ()
    versioned_content_hash: str | None = None
    deprecation: Deprecation | None = None

    @property
    def modified(self) -> bool:
        """Whether the content was edited since the last version; a plan never versioned has none to differ from."""
        return self.versioned_content_hash not in (None, self.content_hash)

    @property
    def content(self) -> PlanContent:
        return PlanContent(
            name=self.name,
            practice_id=self.practice_id,
            method_id=self.method_id,
            asset_ids=self.asset_ids,
            default_parameters=self.default_parameters,
            window_start=self.window_start,
            window_end=self.window_end,
            wires=self.wires,
            role_bindings=self.role_bindings,
        )


def plan_hash(content: PlanContent) -> str:
    return content_hash(MEDIA_TYPE, content)


def sorted_wires(wires: Iterable[Wire]) -> tuple[Wire, ...]:
    return tuple(sorted(wires, key=msgspec.structs.astuple))


@counted
def evolve(plan: Plan | None, event: PlanEvent) -> Plan:
    match event:
        case PlanDefined():
            return _defined(event)
        case _ if plan is None:
            raise ValueError(event)
        case PlanVersioned():
            return replace(
                plan,
                status=LIFECYCLE.after(event),
                version_tag=event.version_tag,
                version_tags=tagged(plan.version_tags, event.version_tag, plan),
                content_hash=event.content_hash,
                versioned_content_hash=event.content_hash,
            )
        case PlanDeprecated():
            return replace(
                plan,
                status=LIFECYCLE.after(event),
                deprecation=Deprecation(reason_kind=event.reason_kind, reason=event.reason),
            )
        case _:
            return replace(_edited(plan, event), content_hash=event.content_hash)


def _defined(event: PlanDefined) -> Plan:
    return Plan(
        id=event.plan_id,
        name=event.name,
        practice_id=event.practice_id,
        method_id=event.method_id,
        capability_id=event.capability_id,
        facility_code=event.facility_code,
        asset_ids=event.asset_ids,
        default_parameters=event.default_parameters,
        parameters_schema_version=event.parameters_schema_version,
        window_start=event.window_start,
        window_end=event.window_end,
        content_hash=event.content_hash,
    )


def _edited(
    plan: Plan,
    event: PlanDefaultParametersUpdated
    | PlanWindowUpdated
    | PlanWireAdded
    | PlanWireRemoved
    | PlanRoleBound
    | PlanRoleUnbound,
) -> Plan:
    match event:
        case PlanDefaultParametersUpdated():
            return replace(
                plan,
                default_parameters=event.default_parameters,
                parameters_schema_version=event.parameters_schema_version,
            )
        case PlanWindowUpdated():
            return replace(plan, window_start=event.window_start, window_end=event.window_end)
        case PlanWireAdded():
            return replace(plan, wires=sorted_wires([*plan.wires, event.wire]))
        case PlanWireRemoved():
            return replace(plan, wires=tuple(wire for wire in plan.wires if wire != event.wire))
        case PlanRoleBound():
            return replace(plan, role_bindings=plan.role_bindings | {event.role_name: event.asset_id})
        case PlanRoleUnbound():
            kept = {name: id for name, id in plan.role_bindings.items() if name != event.role_name}
            return replace(plan, role_bindings=kept)
        case _:
            assert_never(event)


class PlanExtras(Value):
    """What a view shows beyond the state."""

    modified: bool


async def plan_extras(world: World, states: Sequence[Plan]) -> list[PlanExtras]:
    return [PlanExtras(modified=plan.modified) for plan in states]


plans = Aggregate[Plan, PlanEvent](
    "Plan",
    events=PlanEvent,
    evolve=evolve,
    missing=PlanNotFoundError,
    belongs=lambda plan: Belonging(facility_code=plan.facility_code),
)
plans.reads(
    "/plans",
    filters=(
        "status",
        "practice_id",
        "method_id",
        "capability_id",
        "facility_code",
        Filter(name="asset_id", type=UUID, of=lambda plan: sorted(plan.asset_ids), test=Test.CONTAINS),
        Filter(name="modified", type=bool, of=lambda plan: plan.modified),
        Filter(
            name="window_covers",
            type=Time,
            of=lambda plan: (plan.window_start, plan.window_end) if plan.window_start else (),
            test=Test.COVERS,
        ),
    ),
    sorts=("created_at", "updated_at", "name", "window_start"),
    text=("name",),
    extras=(PlanExtras, plan_extras),
)


def check_editable(plan: Plan, refusal: type[CannotTransitionError]) -> None:
    """Gate: a deprecated plan stays as it is."""
    if plan.status not in EDITABLE:
        raise refusal.of(plan.id, plan.status, EDITABLE)


type Window = tuple[datetime, datetime] | tuple[None, None]


def checked_window(start: datetime | None, end: datetime | None) -> Window:
    """The window in UTC, as its hash is to be the same wherever it was typed."""
    if start is None and end is None:
        return None, None
    if start is None or end is None:
        raise InvalidPlanWindowError("Give the window's start and its end, or neither.")
    if end <= start:
        raise InvalidPlanWindowError("The window must end after it starts.")
    try:
        return start.astimezone(UTC), end.astimezone(UTC)
    except OverflowError:
        raise InvalidPlanWindowError("The window lies beyond the years 1 to 9999 of UTC.") from None


@plans.operation("POST /plans/{plan_id}/deprecate")
class DeprecatePlan(Command[Plan]):
    """Deprecate a plan: its runs go on, and no new one starts."""

    plan_id: UUID
    reason_kind: DeprecationReason
    reason: text.Reason

    async def gather(self, world: World) -> Plan:
        return await world.load(plans, self.plan_id)

    def decide(self, plan: Plan, occasion: Occasion) -> PlanDeprecated:
        reason = text.reason(self.reason, InvalidPlanDeprecationReasonError)
        LIFECYCLE.check(PlanDeprecated, plan.status, plan.id)
        return PlanDeprecated(
            plan_id=plan.id, occurred_at=occasion.now, reason_kind=self.reason_kind, reason=reason
        )


@plans.operation("POST /plans/{plan_id}/update-window")
class UpdatePlanWindow(Command[Plan]):
    """Say when runs of a plan may start and resume; without times, that they always may."""

    plan_id: UUID
    window_start: Time | None = None
    window_end: Time | None = None

    async def gather(self, world: World) -> Plan:
        return await world.load(plans, self.plan_id)

    def decide(self, plan: Plan, occasion: Occasion) -> list[PlanWindowUpdated]:
        start, end = checked_window(self.window_start, self.window_end)
        check_editable(plan, PlanCannotUpdateWindowError)
        if (start, end) == (plan.window_start, plan.window_end):
            return []
        return [
            PlanWindowUpdated(
                plan_id=plan.id,
                occurred_at=occasion.now,
                window_start=start,
                window_end=end,
                content_hash=plan_hash(replace(plan.content, window_start=start, window_end=end)),
            )
        ]
