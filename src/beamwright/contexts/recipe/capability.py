"""Capability: a kind of operation, what it needs and takes, independent of equipment."""

from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.equipment.values import Affordance
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.declared_schema import Schema
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.value import replace
from beamwright.kernel.versions import (
    Deprecation,
    DeprecationReason,
    TaggedVersion,
    counted,
    tagged,
)

from .parameters_schema import Parametrised, with_schema

CODE = r"^beamwright\.capability\.[a-z0-9][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)*$"
MOST_CODE = 200
MOST_SUGGESTED_ROLES = 32

type CapabilityCode = Annotated[str, Meta(extra_json_schema={"pattern": CODE, "maxLength": MOST_CODE})]


class CapabilityStatus(StrEnum):
    DEFINED = "Defined"
    VERSIONED = "Versioned"
    DEPRECATED = "Deprecated"


class ExecutorShape(StrEnum):
    """What may realise a capability; `Method` and `Procedure` are read too."""

    METHOD = "METHOD"
    PROCEDURE = "PROCEDURE"

    @classmethod
    def _missing_(cls, value: object) -> "ExecutorShape | None":
        return {"Method": cls.METHOD, "Procedure": cls.PROCEDURE}.get(str(value))


class CapabilityNotFoundError(NotFoundError):
    """There is no such capability."""


class InvalidCapabilityCodeError(InvalidError):
    """The capability's code is malformed or too long."""


class InvalidCapabilityNameError(InvalidError):
    """The capability's name is blank or too long."""


class InvalidCapabilityDescriptionError(InvalidError):
    """The capability's description is blank or too long."""


class InvalidExecutorShapesError(InvalidError):
    """A capability names at least one executor shape."""


class InvalidCapabilityParametersSchemaError(InvalidError):
    """The parameters schema is not an acceptable declared schema, or would be removed."""


class InvalidCapabilityVersionTagError(InvalidError):
    """The version tag is malformed, or is “initial”."""


class InvalidCapabilityDeprecationReasonError(InvalidError):
    """The reason is blank or too long."""


class InvalidCapabilitySuggestedRoleIdsError(InvalidError):
    """A capability suggests too many roles."""


class CapabilityCodeTakenError(ConflictError):
    """The code names another capability, for ever."""


class CapabilityVersionTagTakenError(ConflictError):
    """The version tag already names a version of the capability."""


class CapabilityReplacementInvalidError(ConflictError):
    """A capability is replaced by another one that is not deprecated."""


class CapabilityCannotVersionError(CannotTransitionError):
    """A deprecated capability is not versioned any more."""


class CapabilityCannotDeprecateError(CannotTransitionError):
    """The capability is deprecated already."""


class CapabilityCannotUpdateSuggestedRolesError(CannotTransitionError):
    """A deprecated capability keeps its suggested roles."""


class CapabilityFact(Event):
    capability_id: UUID


class CapabilityDefined(CapabilityFact):
    code: str
    name: str
    description: str | None
    required_affordances: frozenset[Affordance]
    executor_shapes: frozenset[ExecutorShape]
    parameters_schema: Schema | None
    parameters_schema_version: int


class CapabilityVersioned(CapabilityFact):
    version_tag: str
    description: str | None
    required_affordances: frozenset[Affordance]
    executor_shapes: frozenset[ExecutorShape]
    parameters_schema: Schema | None
    parameters_schema_version: int


class CapabilityDeprecated(CapabilityFact):
    reason_kind: DeprecationReason
    reason: str
    replaced_by_capability_id: UUID | None


class CapabilitySuggestedRolesUpdated(CapabilityFact):
    suggested_role_ids: frozenset[UUID]


type CapabilityEvent = (
    CapabilityDefined | CapabilityVersioned | CapabilityDeprecated | CapabilitySuggestedRolesUpdated
)

EDITABLE = frozenset({CapabilityStatus.DEFINED, CapabilityStatus.VERSIONED})

LIFECYCLE = StateMachine[CapabilityStatus](
    {
        CapabilityVersioned: move(EDITABLE, CapabilityStatus.VERSIONED, CapabilityCannotVersionError),
        CapabilityDeprecated: move(EDITABLE, CapabilityStatus.DEPRECATED, CapabilityCannotDeprecateError),
    }
)


class Capability(Parametrised):
    code: str
    description: str | None
    required_affordances: frozenset[Affordance]
    executor_shapes: frozenset[ExecutorShape]
    suggested_role_ids: frozenset[UUID] = frozenset()
    status: CapabilityStatus = CapabilityStatus.DEFINED
    version_tag: str | None = None
    version_tags: tuple[TaggedVersion, ...] = ()
    deprecation: Deprecation | None = None
    replaced_by_capability_id: UUID | None = None

    @property
    def code_words(self) -> str:
        """The parts of the code that tell capabilities apart: a search takes a dotted text for one word."""
        return self.code.removeprefix("beamwright.capability.").replace(".", " ")


@counted
def evolve(capability: Capability | None, event: CapabilityEvent) -> Capability:
    match event:
        case CapabilityDefined():
            defined = Capability(
                id=event.capability_id,
                code=event.code,
                name=event.name,
                description=event.description,
                required_affordances=event.required_affordances,
                executor_shapes=event.executor_shapes,
            )
            return with_schema(
                defined, event.parameters_schema, event.parameters_schema_version, event.occurred_at
            )
        case _ if capability is None:
            raise ValueError(event)
        case CapabilityVersioned():
            versioned = replace(
                capability,
                description=event.description,
                required_affordances=event.required_affordances,
                executor_shapes=event.executor_shapes,
                status=LIFECYCLE.after(event),
                version_tag=event.version_tag,
                version_tags=tagged(capability.version_tags, event.version_tag, capability),
            )
            return with_schema(
                versioned, event.parameters_schema, event.parameters_schema_version, event.occurred_at
            )
        case CapabilityDeprecated():
            return replace(
                capability,
                status=LIFECYCLE.after(event),
                deprecation=Deprecation(reason_kind=event.reason_kind, reason=event.reason),
                replaced_by_capability_id=event.replaced_by_capability_id,
            )
        case CapabilitySuggestedRolesUpdated():
            return replace(capability, suggested_role_ids=event.suggested_role_ids)
        case _:
            assert_never(event)


def claims(capability: Capability) -> list[Claim]:
    """A code names one capability for ever."""
    return [Claim(kind="capability-code", key=capability.code, taken=CapabilityCodeTakenError)]


capabilities = Aggregate[Capability, CapabilityEvent](
    "Capability",
    plural="capabilities",
    events=CapabilityEvent,
    evolve=evolve,
    missing=CapabilityNotFoundError,
    belongs=lambda capability: Belonging.nowhere,
    claims=claims,
)
capabilities.reads(
    "/capabilities",
    filters=(
        Filter(
            name="status",
            type=frozenset[CapabilityStatus],
            of=lambda capability: capability.status,
            test=Test.ONE_OF,
        ),
        "code",
        Filter(
            name="executor_shape",
            type=ExecutorShape,
            of=lambda capability: sorted(capability.executor_shapes),
            test=Test.CONTAINS,
        ),
        Filter(
            name="affordance",
            type=Affordance,
            of=lambda capability: sorted(capability.required_affordances),
            test=Test.CONTAINS,
        ),
        Filter(
            name="role_id",
            type=UUID,
            of=lambda capability: sorted(capability.suggested_role_ids),
            test=Test.CONTAINS,
        ),
    ),
    sorts=("created_at", "updated_at", "name", "code"),
    text=("name", "code", "code_words", "description"),
)


def check_editable(capability: Capability, refusal: type[CannotTransitionError]) -> None:
    """Gate: a deprecated capability stays as it is."""
    if capability.status not in EDITABLE:
        raise refusal.of(capability.id, capability.status, EDITABLE)
