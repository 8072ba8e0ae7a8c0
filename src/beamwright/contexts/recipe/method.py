"""Method: a portable technique, and the families, supplies, roles and parameters that it needs."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.equipment.values import PortDirection, Short, SignalType
from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.content_hash import content_hash
from beamwright.kernel.declared_schema import Schema
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, Query, World
from beamwright.kernel.schema_subset import first_difference
from beamwright.kernel.value import Value, replace
from beamwright.kernel.versions import (
    Deprecation,
    DeprecationReason,
    TaggedVersion,
    counted,
    tagged,
)

from .launch import LaunchSpec, checked_launch_spec, not_boolean, unknown_parameters
from .parameters_schema import ParametersSchemas, Parametrised, every_schema, with_schema

MEDIA_TYPE = "application/vnd.beamwright.method+json"

type RoleName = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 50})]
type NeededSupply = Annotated[
    str,
    Meta(
        description="A kind of supply, spelled exactly as the supplies are.",
        extra_json_schema={"minLength": 1, "maxLength": 50},
    ),
]


class MethodStatus(StrEnum):
    DEFINED = "Defined"
    VERSIONED = "Versioned"
    DEPRECATED = "Deprecated"


class ExecutionPattern(StrEnum):
    BATCH = "Batch"
    ITERATIVE = "Iterative"
    STREAMING = "Streaming"


class MethodNotFoundError(NotFoundError):
    """There is no such method."""


class InvalidMethodNameError(InvalidError):
    """The method's name is blank or too long."""


class InvalidMethodNeededFamilyIdsError(InvalidError):
    """A method needs too many families."""


class InvalidMethodNeededSuppliesError(InvalidError):
    """A kind of supply is blank or too long, or there are too many."""


class InvalidMethodNeededAssemblyIdsError(InvalidError):
    """A method needs too many assemblies."""


class InvalidMethodMonotoneQualityError(InvalidError):
    """Only an Iterative method grows monotonously in quality."""


class InvalidMethodParametersSchemaError(InvalidError):
    """The parameters schema is not an acceptable declared schema, or would be removed."""


class InvalidMethodIterativeStoppingFieldError(InvalidError):
    """An Iterative method's parameters say neither how long to iterate nor when it is good enough."""


class InvalidMethodVersionTagError(InvalidError):
    """The version tag is malformed, or is “initial”."""


class InvalidMethodDeprecationReasonError(InvalidError):
    """The reason is blank or too long."""


class InvalidRoleRequirementError(InvalidError):
    """The role's name is malformed, it asks not for exactly one of a role and a family, or there are too many."""


class InvalidPortRequirementError(InvalidError):
    """A required port's name or signal type is blank or too long."""


class MethodBoundCapabilityDeprecatedError(ConflictError):
    """A deprecated capability takes no new method."""


class MethodCapabilityExecutorMismatchError(ConflictError):
    """The capability is not realised by methods."""


class MethodParametersNotSubsetError(ConflictError):
    """The method's parameters admit what the capability's do not."""


class MethodParametersUnitChangedError(ConflictError):
    """A unit gives stored numbers their meaning: only a new version of the method changes it."""


class MethodParametersDropLaunchArgError(ConflictError):
    """The schema no longer declares a parameter as a launch argument needs it."""


class MethodVersionTagTakenError(ConflictError):
    """The version tag already names a version of the method."""


class MethodLaunchArgUnknownParameterError(ConflictError):
    """A launch argument names a parameter that the schema does not declare."""


class MethodLaunchArgNotBooleanError(ConflictError):
    """A FlagOnly launch argument names a parameter that is not boolean."""


class MethodRoleNameAlreadyDeclaredError(ConflictError):
    """The method requires a role of this name already."""


class MethodRoleNameNotDeclaredError(ConflictError):
    """The method requires no role of this name."""


class MethodCannotVersionError(CannotTransitionError):
    """A deprecated method is not versioned any more."""


class MethodCannotDeprecateError(CannotTransitionError):
    """The method is deprecated already."""


class MethodCannotUpdateParametersSchemaError(CannotTransitionError):
    """A deprecated method keeps its parameters schema."""


class MethodCannotUpdateLaunchSpecError(CannotTransitionError):
    """A deprecated method keeps its launch specification."""


class MethodCannotAddRequiredRoleError(CannotTransitionError):
    """A deprecated method takes no further role."""


class MethodCannotRemoveRequiredRoleError(CannotTransitionError):
    """A deprecated method keeps its roles."""


class PortRequirement(Value):
    """A port that whatever fills a role must have."""

    port_name: Short
    direction: PortDirection
    signal_type: SignalType


class RoleRequirement(Value):
    """A part to be filled by an asset that presents a role, or that is of a family."""

    role_name: RoleName
    role_id: UUID | None = None
    family_id: UUID | None = None
    required_ports: tuple[PortRequirement, ...] = ()
    optional: bool = False


class MethodContent(Value):
    """What the content hash is taken of."""

    name: str
    capability_id: UUID
    needed_family_ids: frozenset[UUID]
    needed_supplies: frozenset[str]
    needed_assembly_ids: frozenset[UUID]
    execution_pattern: ExecutionPattern
    monotone_quality: bool
    resumable_from_checkpoint: bool
    parameters_schema: Schema | None
    launch_spec: LaunchSpec | None = None
    required_roles: tuple[RoleRequirement, ...] = ()


class MethodFact(Event):
    method_id: UUID


class MethodDefined(MethodFact):
    name: str
    capability_id: UUID
    execution_pattern: ExecutionPattern
    needed_family_ids: frozenset[UUID]
    needed_supplies: frozenset[str]
    needed_assembly_ids: frozenset[UUID]
    monotone_quality: bool
    resumable_from_checkpoint: bool
    parameters_schema: Schema | None
    parameters_schema_version: int
    content_hash: str


class MethodVersioned(MethodFact):
    version_tag: str
    parameters_schema: Schema | None
    parameters_schema_version: int
    content_hash: str


class MethodDeprecated(MethodFact):
    reason_kind: DeprecationReason
    reason: str


class MethodParametersSchemaUpdated(MethodFact):
    parameters_schema: Schema
    parameters_schema_version: int
    content_hash: str


class MethodLaunchSpecUpdated(MethodFact):
    launch_spec: LaunchSpec | None
    content_hash: str


class MethodRequiredRoleAdded(MethodFact):
    required_role: RoleRequirement
    content_hash: str


class MethodRequiredRoleRemoved(MethodFact):
    role_name: str
    content_hash: str


type MethodEvent = (
    MethodDefined
    | MethodVersioned
    | MethodDeprecated
    | MethodParametersSchemaUpdated
    | MethodLaunchSpecUpdated
    | MethodRequiredRoleAdded
    | MethodRequiredRoleRemoved
)

EDITABLE = frozenset({MethodStatus.DEFINED, MethodStatus.VERSIONED})

LIFECYCLE = StateMachine[MethodStatus](
    {
        MethodVersioned: move(EDITABLE, MethodStatus.VERSIONED, MethodCannotVersionError),
        MethodDeprecated: move(EDITABLE, MethodStatus.DEPRECATED, MethodCannotDeprecateError),
    }
)


class Method(Parametrised):
    capability_id: UUID
    needed_family_ids: frozenset[UUID]
    needed_supplies: frozenset[str]
    needed_assembly_ids: frozenset[UUID]
    execution_pattern: ExecutionPattern
    monotone_quality: bool
    resumable_from_checkpoint: bool
    content_hash: str
    # Sorted by role name.
    required_roles: tuple[RoleRequirement, ...] = ()
    launch_spec: LaunchSpec | None = None
    status: MethodStatus = MethodStatus.DEFINED
    version_tag: str | None = None
    version_tags: tuple[TaggedVersion, ...] = ()
    versioned_content_hash: str | None = None
    deprecation: Deprecation | None = None

    @property
    def modified(self) -> bool:
        """Whether the content was edited since the last version; a method never versioned has none to differ from."""
        return self.versioned_content_hash not in (None, self.content_hash)

    @property
    def content(self) -> MethodContent:
        return MethodContent(
            name=self.name,
            capability_id=self.capability_id,
            needed_family_ids=self.needed_family_ids,
            needed_supplies=self.needed_supplies,
            needed_assembly_ids=self.needed_assembly_ids,
            execution_pattern=self.execution_pattern,
            monotone_quality=self.monotone_quality,
            resumable_from_checkpoint=self.resumable_from_checkpoint,
            parameters_schema=self.parameters_schema,
            launch_spec=self.launch_spec,
            required_roles=self.required_roles,
        )

    def required_role(self, role_name: str) -> RoleRequirement | None:
        """The role that the method requires under this name."""
        return next((each for each in self.required_roles if each.role_name == role_name), None)


def method_hash(content: MethodContent) -> str:
    return content_hash(MEDIA_TYPE, content)


def sorted_roles(roles: Sequence[RoleRequirement]) -> tuple[RoleRequirement, ...]:
    return tuple(sorted(roles, key=lambda role: role.role_name))


@counted
def evolve(method: Method | None, event: MethodEvent) -> Method:
    match event:
        case MethodDefined():
            return _defined(event)
        case _ if method is None:
            raise ValueError(event)
        case MethodVersioned():
            versioned = replace(
                method,
                status=LIFECYCLE.after(event),
                version_tag=event.version_tag,
                version_tags=tagged(method.version_tags, event.version_tag, method),
                content_hash=event.content_hash,
                versioned_content_hash=event.content_hash,
            )
            return with_schema(
                versioned, event.parameters_schema, event.parameters_schema_version, event.occurred_at
            )
        case MethodParametersSchemaUpdated():
            updated = replace(method, content_hash=event.content_hash)
            return with_schema(
                updated, event.parameters_schema, event.parameters_schema_version, event.occurred_at
            )
        case MethodLaunchSpecUpdated():
            return replace(method, launch_spec=event.launch_spec, content_hash=event.content_hash)
        case MethodRequiredRoleAdded():
            roles = sorted_roles([*method.required_roles, event.required_role])
            return replace(method, required_roles=roles, content_hash=event.content_hash)
        case MethodRequiredRoleRemoved():
            kept = tuple(role for role in method.required_roles if role.role_name != event.role_name)
            return replace(method, required_roles=kept, content_hash=event.content_hash)
        case MethodDeprecated():
            return replace(
                method,
                status=LIFECYCLE.after(event),
                deprecation=Deprecation(reason_kind=event.reason_kind, reason=event.reason),
            )
        case _:
            assert_never(event)


def _defined(event: MethodDefined) -> Method:
    method = Method(
        id=event.method_id,
        name=event.name,
        capability_id=event.capability_id,
        needed_family_ids=event.needed_family_ids,
        needed_supplies=event.needed_supplies,
        needed_assembly_ids=event.needed_assembly_ids,
        execution_pattern=event.execution_pattern,
        monotone_quality=event.monotone_quality,
        resumable_from_checkpoint=event.resumable_from_checkpoint,
        content_hash=event.content_hash,
    )
    return with_schema(method, event.parameters_schema, event.parameters_schema_version, event.occurred_at)


class MethodExtras(Value):
    """What a view shows beyond the state."""

    modified: bool


async def method_extras(world: World, states: Sequence[Method]) -> list[MethodExtras]:
    return [MethodExtras(modified=method.modified) for method in states]


methods = Aggregate[Method, MethodEvent](
    "Method",
    events=MethodEvent,
    evolve=evolve,
    missing=MethodNotFoundError,
    belongs=lambda method: Belonging.nowhere,
)
methods.reads(
    "/methods",
    filters=(
        "status",
        "capability_id",
        Filter(
            name="family_id",
            type=UUID,
            of=lambda method: sorted(method.needed_family_ids),
            test=Test.CONTAINS,
        ),
        Filter(
            name="supply_kind",
            type=NeededSupply,
            of=lambda method: sorted(method.needed_supplies),
            test=Test.CONTAINS,
        ),
        "execution_pattern",
        Filter(name="modified", type=bool, of=lambda method: method.modified),
    ),
    sorts=("created_at", "updated_at", "name"),
    text=("name",),
    extras=(MethodExtras, method_extras),
)


def check_editable(method: Method, refusal: type[CannotTransitionError]) -> None:
    """Gate: a deprecated method stays as it is."""
    if method.status not in EDITABLE:
        raise refusal.of(method.id, method.status, EDITABLE)


def check_parameters_within(inner: Schema | None, outer: Schema | None) -> None:
    """Gate: what a method's schema accepts, its capability's schema accepts, in the same units."""
    difference = None if inner is None or outer is None else first_difference(inner, outer)
    if difference:
        raise MethodParametersNotSubsetError(
            f"At {difference.path or 'the root'} the method's parameters go beyond the capability's: check"
            f" `{difference.keyword}`.",
            path=difference.path,
            keyword=difference.keyword,
            inner=difference.inner,
            outer=difference.outer,
        )


def check_launch_args(spec: LaunchSpec, schema: Schema | None) -> None:
    """Gate: each launch argument is a declared parameter, and a boolean one where only its flag is passed."""
    if unknown := unknown_parameters(spec, schema):
        raise MethodLaunchArgUnknownParameterError(
            f"The method's parameters schema does not declare {', '.join(unknown)}.", parameters=unknown
        )
    if others := not_boolean(spec, schema):
        raise MethodLaunchArgNotBooleanError(
            f"FlagOnly passes true or false: declare {', '.join(others)} as boolean, or pass the value.",
            parameters=others,
        )


def check_launch_args_kept(spec: LaunchSpec | None, schema: Schema | None) -> None:
    """Gate: a new schema leaves the launch arguments their parameters."""
    lost = [] if spec is None else sorted({*unknown_parameters(spec, schema), *not_boolean(spec, schema)})
    if lost:
        raise MethodParametersDropLaunchArgError(
            f"The launch specification passes {', '.join(lost)}, which the schema would drop or change:"
            " change it first with update_method_launch_spec.",
            parameters=lost,
        )


@methods.operation("POST /methods/{method_id}/deprecate")
class DeprecateMethod(Command[Method]):
    """Deprecate a method: what is bound to it stays, and nothing is bound to it any more."""

    method_id: UUID
    reason_kind: DeprecationReason
    reason: text.Reason

    async def gather(self, world: World) -> Method:
        return await world.load(methods, self.method_id)

    def decide(self, method: Method, occasion: Occasion) -> MethodDeprecated:
        reason = text.reason(self.reason, InvalidMethodDeprecationReasonError)
        LIFECYCLE.check(MethodDeprecated, method.status, method.id)
        return MethodDeprecated(
            method_id=method.id, occurred_at=occasion.now, reason_kind=self.reason_kind, reason=reason
        )


@methods.operation("POST /methods/{method_id}/update-launch-spec")
class UpdateMethodLaunchSpec(Command[Method]):
    """Say how a method's parameters become an argument vector, or with null that they do not."""

    method_id: UUID
    launch_spec: LaunchSpec | None

    async def gather(self, world: World) -> Method:
        return await world.load(methods, self.method_id)

    def decide(self, method: Method, occasion: Occasion) -> list[MethodLaunchSpecUpdated]:
        spec = None if self.launch_spec is None else checked_launch_spec(self.launch_spec)
        check_editable(method, MethodCannotUpdateLaunchSpecError)
        if spec == method.launch_spec:
            return []
        if spec:
            check_launch_args(spec, method.parameters_schema)
        return [
            MethodLaunchSpecUpdated(
                method_id=method.id,
                occurred_at=occasion.now,
                launch_spec=spec,
                content_hash=method_hash(replace(method.content, launch_spec=spec)),
            )
        ]


@methods.operation("GET /methods/{method_id}/parameters-schemas")
class ListMethodSchemas(Query[ParametersSchemas]):
    """List every parameters schema that a method ever had, by number."""

    method_id: UUID

    async def answer(self, world: World) -> ParametersSchemas:
        return every_schema(await world.load(methods, self.method_id))
