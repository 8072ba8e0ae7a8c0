"""Assembly: a reusable blueprint of named slots, the wires between them and one level of sub-blueprints."""

from collections.abc import Iterable
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.declared_schema import Schema
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, replace
from beamwright.kernel.versions import Counted, TaggedVersion, counted, tagged

from .values import Drawing, Short


class AssemblyStatus(StrEnum):
    DEFINED = "Defined"
    VERSIONED = "Versioned"
    DEPRECATED = "Deprecated"


class SlotCardinality(StrEnum):
    """How many assets a slot takes."""

    EXACTLY_1 = "Exactly1"
    ZERO_OR_ONE = "ZeroOrOne"
    ONE_OR_MORE = "OneOrMore"
    ZERO_OR_MORE = "ZeroOrMore"


class AssemblyNotFoundError(NotFoundError):
    """There is no such assembly."""


class InvalidAssemblyNameError(InvalidError):
    """The assembly's name is blank or too long."""


class InvalidTemplateSlotError(InvalidError):
    """A slot's name is blank or too long, it names no family or more than 20, or there are too many slots."""


class InvalidTemplateWireError(InvalidError):
    """A wire's slot or port name is blank or too long, it joins a port to itself, or there are too many wires."""


class InvalidSubAssemblyLinkError(InvalidError):
    """A link's name is blank or too long, its content hash is no SHA-256, or there are too many links."""


class InvalidParameterOverridesSchemaError(InvalidError):
    """The parameter overrides schema is not an accepted schema, or would be removed."""


class InvalidAssemblyVersionTagError(InvalidError):
    """The version tag is malformed, or is “initial”."""


class InvalidAssemblyReasonError(InvalidError):
    """The reason is blank or too long."""


class AssemblyVersionTagTakenError(ConflictError):
    """The version tag already names a version of the assembly."""


class AssemblyCannotVersionError(CannotTransitionError):
    """A deprecated assembly is not versioned any more."""


class AssemblyCannotDeprecateError(CannotTransitionError):
    """The assembly is deprecated already."""


class AssemblyCannotAddRoleError(CannotTransitionError):
    """A deprecated assembly presents no further role."""


class AssemblyCannotRemoveRoleError(CannotTransitionError):
    """A deprecated assembly keeps its roles."""


class TemplateSlot(Value):
    """A place for assets of one of the families."""

    slot_name: Short
    required_family_ids: frozenset[UUID]
    cardinality: SlotCardinality


class TemplateWire(Value):
    """A signal from an Output port of one slot's assets to an Input port of another's."""

    source_slot_name: Short
    source_port_name: Short
    target_slot_name: Short
    target_port_name: Short


class SubAssemblyLink(Value):
    """A blueprint within this one, pinned to one content."""

    slot_name: Short
    sub_assembly_id: UUID
    content_hash: str


class AssemblyContent(Value):
    """What the content hash is taken of."""

    name: str
    presented_role_ids: frozenset[UUID]
    required_slots: tuple[TemplateSlot, ...]
    required_wires: tuple[TemplateWire, ...]
    required_sub_assemblies: tuple[SubAssemblyLink, ...]
    parameter_overrides_schema: Schema | None


class AssemblyFact(Event):
    assembly_id: UUID


class AssemblyDefined(AssemblyFact):
    name: str
    presented_role_ids: frozenset[UUID]
    required_slots: tuple[TemplateSlot, ...]
    required_wires: tuple[TemplateWire, ...]
    required_sub_assemblies: tuple[SubAssemblyLink, ...]
    parameter_overrides_schema: Schema | None
    drawing: Drawing | None
    version_tag: str | None
    content_hash: str


class AssemblyVersioned(AssemblyFact):
    name: str
    presented_role_ids: frozenset[UUID]
    required_slots: tuple[TemplateSlot, ...]
    required_wires: tuple[TemplateWire, ...]
    required_sub_assemblies: tuple[SubAssemblyLink, ...]
    parameter_overrides_schema: Schema | None
    drawing: Drawing | None
    version_tag: str
    content_hash: str
    previous_content_hash: str


class AssemblyDeprecated(AssemblyFact):
    reason: str


class AssemblyRoleAdded(AssemblyFact):
    role_id: UUID
    content_hash: str
    previous_content_hash: str


class AssemblyRoleRemoved(AssemblyFact):
    role_id: UUID
    content_hash: str
    previous_content_hash: str


type AssemblyEvent = (
    AssemblyDefined | AssemblyVersioned | AssemblyDeprecated | AssemblyRoleAdded | AssemblyRoleRemoved
)

EDITABLE = frozenset({AssemblyStatus.DEFINED, AssemblyStatus.VERSIONED})

LIFECYCLE = StateMachine[AssemblyStatus](
    {
        AssemblyVersioned: move(EDITABLE, AssemblyStatus.VERSIONED, AssemblyCannotVersionError),
        AssemblyDeprecated: move(EDITABLE, AssemblyStatus.DEPRECATED, AssemblyCannotDeprecateError),
    }
)


class Assembly(Counted):
    id: UUID
    name: str
    presented_role_ids: frozenset[UUID]
    required_slots: tuple[TemplateSlot, ...]
    required_wires: tuple[TemplateWire, ...]
    required_sub_assemblies: tuple[SubAssemblyLink, ...]
    parameter_overrides_schema: Schema | None
    drawing: Drawing | None
    content_hash: str
    status: AssemblyStatus = AssemblyStatus.DEFINED
    version_tag: str | None = None
    version_tags: tuple[TaggedVersion, ...] = ()

    @property
    def family_ids(self) -> frozenset[UUID]:
        """Every family that a slot names."""
        return named_families(self.required_slots)

    @property
    def content(self) -> AssemblyContent:
        return AssemblyContent(
            name=self.name,
            presented_role_ids=self.presented_role_ids,
            required_slots=self.required_slots,
            required_wires=self.required_wires,
            required_sub_assemblies=self.required_sub_assemblies,
            parameter_overrides_schema=self.parameter_overrides_schema,
        )


def named_families(slots: Iterable[TemplateSlot]) -> frozenset[UUID]:
    return frozenset(family_id for slot in slots for family_id in slot.required_family_ids)


def check_editable(assembly: Assembly, refusal: type[CannotTransitionError]) -> None:
    """Gate: a deprecated assembly stays as it is."""
    if assembly.status not in EDITABLE:
        raise refusal.of(assembly.id, assembly.status, EDITABLE)


@counted
def evolve(assembly: Assembly | None, event: AssemblyEvent) -> Assembly:
    match event:
        case AssemblyDefined():
            return Assembly(
                id=event.assembly_id,
                name=event.name,
                presented_role_ids=event.presented_role_ids,
                required_slots=event.required_slots,
                required_wires=event.required_wires,
                required_sub_assemblies=event.required_sub_assemblies,
                parameter_overrides_schema=event.parameter_overrides_schema,
                drawing=event.drawing,
                content_hash=event.content_hash,
                version_tag=event.version_tag,
                version_tags=tagged((), event.version_tag, assembly),
            )
        case _ if assembly is None:
            raise ValueError(event)
        case AssemblyVersioned():
            return replace(
                assembly,
                name=event.name,
                presented_role_ids=event.presented_role_ids,
                required_slots=event.required_slots,
                required_wires=event.required_wires,
                required_sub_assemblies=event.required_sub_assemblies,
                parameter_overrides_schema=event.parameter_overrides_schema,
                drawing=event.drawing,
                content_hash=event.content_hash,
                status=LIFECYCLE.after(event),
                version_tag=event.version_tag,
                version_tags=tagged(assembly.version_tags, event.version_tag, assembly),
            )
        case AssemblyRoleAdded():
            role_ids = assembly.presented_role_ids | {event.role_id}
            return replace(assembly, presented_role_ids=role_ids, content_hash=event.content_hash)
        case AssemblyRoleRemoved():
            role_ids = assembly.presented_role_ids - {event.role_id}
            return replace(assembly, presented_role_ids=role_ids, content_hash=event.content_hash)
        case AssemblyDeprecated():
            return replace(assembly, status=LIFECYCLE.after(event))
        case _:
            assert_never(event)


assemblies = Aggregate[Assembly, AssemblyEvent](
    "Assembly",
    plural="assemblies",
    events=AssemblyEvent,
    evolve=evolve,
    missing=AssemblyNotFoundError,
    belongs=lambda assembly: Belonging.nowhere,
)
assemblies.reads(
    "/assemblies",
    filters=(
        "status",
        Filter(
            name="family_id",
            type=UUID,
            of=lambda assembly: sorted(assembly.family_ids),
            test=Test.CONTAINS,
        ),
        Filter(
            name="role_id",
            type=UUID,
            of=lambda assembly: sorted(assembly.presented_role_ids),
            test=Test.CONTAINS,
        ),
        "content_hash",
    ),
    sorts=("name", "created_at"),
    text=("name",),
)


@assemblies.operation("POST /assemblies/{assembly_id}/deprecate")
class DeprecateAssembly(Command[Assembly]):
    """Deprecate an assembly: its fixtures stay, and no new one is registered."""

    assembly_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Assembly:
        return await world.load(assemblies, self.assembly_id)

    def decide(self, assembly: Assembly, occasion: Occasion) -> AssemblyDeprecated:
        reason = text.reason(self.reason, InvalidAssemblyReasonError)
        LIFECYCLE.check(AssemblyDeprecated, assembly.status, assembly.id)
        return AssemblyDeprecated(assembly_id=assembly.id, occurred_at=occasion.now, reason=reason)
