"""Defining, versioning and deprecating capabilities, and the roles that they suggest."""

from uuid import UUID

from msgspec import UNSET, UnsetType

from beamwright.contexts.equipment.role import roles
from beamwright.contexts.equipment.values import Affordance
from beamwright.kernel import text
from beamwright.kernel.declared_schema import Schema, checked_schema
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, patched
from beamwright.kernel.versions import (
    DeprecationReason,
    VersionTag,
    check_tag_unused,
    checked_tag,
)

from .capability import (
    CODE,
    LIFECYCLE,
    MOST_CODE,
    MOST_SUGGESTED_ROLES,
    Capability,
    CapabilityCannotUpdateSuggestedRolesError,
    CapabilityCode,
    CapabilityDefined,
    CapabilityDeprecated,
    CapabilityReplacementInvalidError,
    CapabilityStatus,
    CapabilitySuggestedRolesUpdated,
    CapabilityVersioned,
    CapabilityVersionTagTakenError,
    ExecutorShape,
    InvalidCapabilityCodeError,
    InvalidCapabilityDeprecationReasonError,
    InvalidCapabilityDescriptionError,
    InvalidCapabilityNameError,
    InvalidCapabilityParametersSchemaError,
    InvalidCapabilitySuggestedRoleIdsError,
    InvalidCapabilityVersionTagError,
    InvalidExecutorShapesError,
    capabilities,
    check_editable,
)
from .parameters_schema import declared, number_of


@capabilities.operation("POST /capabilities", creates=True)
class DefineCapability(Command[None]):
    """Define a kind of operation: what it needs of devices, which parameters it takes and what may realise it."""

    code: CapabilityCode
    name: text.Name
    required_affordances: frozenset[Affordance]
    executor_shapes: frozenset[ExecutorShape]
    description: text.Description | None = None
    parameters_schema: Schema | None = None

    async def gather(self, world: World) -> None: ...

    def decide(self, seen: None, occasion: Occasion) -> CapabilityDefined:
        code = checked_code(self.code)
        name = text.name(self.name, InvalidCapabilityNameError)
        description = text.description(self.description, InvalidCapabilityDescriptionError)
        check_shapes(self.executor_shapes)
        schema = self.parameters_schema
        if schema is not None:
            checked_schema(schema, InvalidCapabilityParametersSchemaError)
        return CapabilityDefined(
            capability_id=occasion.new_id,
            occurred_at=occasion.now,
            code=code,
            name=name,
            description=description,
            required_affordances=self.required_affordances,
            executor_shapes=self.executor_shapes,
            parameters_schema=schema,
            parameters_schema_version=0 if schema is None else 1,
        )


@capabilities.operation("POST /capabilities/{capability_id}/version")
class VersionCapability(Command[Capability]):
    """Give a capability a new version: what is given replaces what was, units included, and the rest stays."""

    capability_id: UUID
    version_tag: VersionTag
    description: text.Description | UnsetType | None = UNSET
    required_affordances: frozenset[Affordance] | UnsetType = UNSET
    executor_shapes: frozenset[ExecutorShape] | UnsetType = UNSET
    parameters_schema: Schema | UnsetType | None = UNSET

    async def gather(self, world: World) -> Capability:
        return await world.load(capabilities, self.capability_id)

    def decide(self, capability: Capability, occasion: Occasion) -> CapabilityVersioned:
        description = text.description(
            patched(self.description, capability.description), InvalidCapabilityDescriptionError
        )
        shapes = patched(self.executor_shapes, capability.executor_shapes)
        check_shapes(shapes)
        schema = capability.parameters_schema
        if self.parameters_schema is not UNSET:
            schema = declared(self.parameters_schema, InvalidCapabilityParametersSchemaError)
        tag = checked_tag(self.version_tag, InvalidCapabilityVersionTagError)
        LIFECYCLE.check(CapabilityVersioned, capability.status, capability.id)
        check_tag_unused(capability.version_tags, tag, capability.id, CapabilityVersionTagTakenError)
        return CapabilityVersioned(
            capability_id=capability.id,
            occurred_at=occasion.now,
            version_tag=tag,
            description=description,
            required_affordances=patched(self.required_affordances, capability.required_affordances),
            executor_shapes=shapes,
            parameters_schema=schema,
            parameters_schema_version=number_of(capability, schema),
        )


class CapabilityWithReplacement(Value):
    """A capability, and the one that is to be used instead."""

    capability: Capability
    replacement: Capability | None = None


@capabilities.operation("POST /capabilities/{capability_id}/deprecate")
class DeprecateCapability(Command[CapabilityWithReplacement]):
    """Deprecate a capability: what realises it stays, and nothing is bound to it any more."""

    capability_id: UUID
    reason_kind: DeprecationReason
    reason: text.Reason
    replaced_by_capability_id: UUID | None = None

    async def gather(self, world: World) -> CapabilityWithReplacement:
        capability = await world.load(capabilities, self.capability_id)
        if self.replaced_by_capability_id is None:
            return CapabilityWithReplacement(capability=capability)
        replacement = await world.load(capabilities, self.replaced_by_capability_id)
        return CapabilityWithReplacement(capability=capability, replacement=replacement)

    def decide(self, seen: CapabilityWithReplacement, occasion: Occasion) -> CapabilityDeprecated:
        capability = seen.capability
        reason = text.reason(self.reason, InvalidCapabilityDeprecationReasonError)
        LIFECYCLE.check(CapabilityDeprecated, capability.status, capability.id)
        if seen.replacement:
            check_replacement(capability, seen.replacement)
        return CapabilityDeprecated(
            capability_id=capability.id,
            occurred_at=occasion.now,
            reason_kind=self.reason_kind,
            reason=reason,
            replaced_by_capability_id=self.replaced_by_capability_id,
        )


@capabilities.operation("POST /capabilities/{capability_id}/update-suggested-roles")
class UpdateCapabilitySuggestedRoles(Command[Capability]):
    """Suggest the roles that methods of a capability usually ask for; this binds nobody."""

    capability_id: UUID
    suggested_role_ids: frozenset[UUID]

    async def gather(self, world: World) -> Capability:
        capability = await world.load(capabilities, self.capability_id)
        await world.load_all(roles, sorted(self.suggested_role_ids))
        return capability

    def decide(self, capability: Capability, occasion: Occasion) -> list[CapabilitySuggestedRolesUpdated]:
        if len(self.suggested_role_ids) > MOST_SUGGESTED_ROLES:
            raise InvalidCapabilitySuggestedRoleIdsError(
                f"A capability suggests at most {MOST_SUGGESTED_ROLES} roles, not {len(self.suggested_role_ids)}.",
                most=MOST_SUGGESTED_ROLES,
            )
        check_editable(capability, CapabilityCannotUpdateSuggestedRolesError)
        if self.suggested_role_ids == capability.suggested_role_ids:
            return []
        return [
            CapabilitySuggestedRolesUpdated(
                capability_id=capability.id,
                occurred_at=occasion.now,
                suggested_role_ids=self.suggested_role_ids,
            )
        ]


def checked_code(value: str) -> str:
    code = text.trimmed(value, MOST_CODE, InvalidCapabilityCodeError, "code")
    return text.code(code, CODE, InvalidCapabilityCodeError)


def check_shapes(shapes: frozenset[ExecutorShape]) -> None:
    """Gate: something may realise the capability."""
    if not shapes:
        raise InvalidExecutorShapesError(f"Name at least one of {', '.join(ExecutorShape)}.")


def check_replacement(capability: Capability, replacement: Capability) -> None:
    """Gate: what is to be used instead is another capability, and in use."""
    if replacement.id == capability.id or replacement.status is CapabilityStatus.DEPRECATED:
        raise CapabilityReplacementInvalidError(
            f"{replacement.code} cannot replace {capability.code}: name another capability that is not deprecated.",
            capability_id=str(capability.id),
            replaced_by_capability_id=str(replacement.id),
        )
