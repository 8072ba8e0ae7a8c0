"""Defining methods and their parameters: whatever a method accepts, its capability accepts."""

from uuid import UUID

from msgspec import UNSET, UnsetType

from beamwright.contexts.equipment.assembly import assemblies
from beamwright.contexts.equipment.family import Family, check_families_usable, families
from beamwright.kernel import text
from beamwright.kernel.declared_schema import Schema, checked_schema, unit_changes
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, replace
from beamwright.kernel.versions import VersionTag, check_tag_unused, checked_tag

from .capability import Capability, CapabilityStatus, ExecutorShape, capabilities
from .method import (
    LIFECYCLE,
    ExecutionPattern,
    InvalidMethodIterativeStoppingFieldError,
    InvalidMethodMonotoneQualityError,
    InvalidMethodNameError,
    InvalidMethodNeededAssemblyIdsError,
    InvalidMethodNeededFamilyIdsError,
    InvalidMethodNeededSuppliesError,
    InvalidMethodParametersSchemaError,
    InvalidMethodVersionTagError,
    Method,
    MethodBoundCapabilityDeprecatedError,
    MethodCannotUpdateParametersSchemaError,
    MethodCapabilityExecutorMismatchError,
    MethodContent,
    MethodDefined,
    MethodParametersSchemaUpdated,
    MethodParametersUnitChangedError,
    MethodVersioned,
    MethodVersionTagTakenError,
    NeededSupply,
    check_editable,
    check_launch_args_kept,
    check_parameters_within,
    method_hash,
    methods,
)
from .parameters_schema import declared, number_of, schema_differs

MOST_FAMILIES = 50
MOST_SUPPLIES = 20
MOST_ASSEMBLIES = 20

# An Iterative method stops for one of these: how long it may go on, or what is good enough.
BUDGETS = frozenset({"max_iter", "num_iter", "nsteps", "n_trials", "max_epochs", "max_steps"})
TOLERANCES = frozenset({"tol", "rtol", "atol", "ftol", "xtol"})


class MethodGrounds(Value):
    """What a new method is bound to."""

    capability: Capability
    families: tuple[Family, ...] = ()


@methods.operation("POST /methods", creates=True)
class DefineMethod(Command[MethodGrounds]):
    """Define a technique: what an experiment of this kind needs, and the parameters it takes."""

    name: text.Name
    capability_id: UUID
    execution_pattern: ExecutionPattern
    needed_family_ids: frozenset[UUID] = frozenset()
    needed_supplies: frozenset[NeededSupply] = frozenset()
    needed_assembly_ids: frozenset[UUID] = frozenset()
    monotone_quality: bool = False
    resumable_from_checkpoint: bool = False
    parameters_schema: Schema | None = None

    async def gather(self, world: World) -> MethodGrounds:
        capability = await world.load(capabilities, self.capability_id)
        needed = await world.load_all(families, sorted(self.needed_family_ids))
        await world.load_all(assemblies, sorted(self.needed_assembly_ids))
        return MethodGrounds(capability=capability, families=tuple(needed))

    def decide(self, seen: MethodGrounds, occasion: Occasion) -> MethodDefined:
        content = self.checked()
        check_capability(seen.capability)
        check_families_usable(seen.families)
        check_parameters_within(content.parameters_schema, seen.capability.parameters_schema)
        return MethodDefined(
            method_id=occasion.new_id,
            occurred_at=occasion.now,
            name=content.name,
            capability_id=content.capability_id,
            execution_pattern=content.execution_pattern,
            needed_family_ids=content.needed_family_ids,
            needed_supplies=content.needed_supplies,
            needed_assembly_ids=content.needed_assembly_ids,
            monotone_quality=content.monotone_quality,
            resumable_from_checkpoint=content.resumable_from_checkpoint,
            parameters_schema=content.parameters_schema,
            parameters_schema_version=0 if content.parameters_schema is None else 1,
            content_hash=method_hash(content),
        )

    def checked(self) -> MethodContent:
        """The content with its text trimmed, or the first refusal."""
        name = text.name(self.name, InvalidMethodNameError)
        check_few_needed(self.needed_family_ids, self.needed_assembly_ids)
        supplies = checked_supplies(self.needed_supplies)
        if self.monotone_quality and self.execution_pattern is not ExecutionPattern.ITERATIVE:
            raise InvalidMethodMonotoneQualityError(
                f"Quality grows monotonously in an Iterative method only, not in a {self.execution_pattern} one."
            )
        schema = self.parameters_schema
        if schema is not None:
            checked_schema(schema, InvalidMethodParametersSchemaError)
            check_stops(self.execution_pattern, schema)
        return MethodContent(
            name=name,
            capability_id=self.capability_id,
            needed_family_ids=self.needed_family_ids,
            needed_supplies=supplies,
            needed_assembly_ids=self.needed_assembly_ids,
            execution_pattern=self.execution_pattern,
            monotone_quality=self.monotone_quality,
            resumable_from_checkpoint=self.resumable_from_checkpoint,
            parameters_schema=schema,
        )


class MethodWithCapability(Value):
    """A method and the capability that it realises."""

    method: Method
    capability: Capability


async def load_with_capability(world: World, method_id: UUID) -> MethodWithCapability:
    method = await world.load(methods, method_id)
    return MethodWithCapability(
        method=method, capability=await world.load(capabilities, method.capability_id)
    )


@methods.operation("POST /methods/{method_id}/version")
class VersionMethod(Command[MethodWithCapability]):
    """Give a method's content a new version and, where given, another parameters schema, units included."""

    method_id: UUID
    version_tag: VersionTag
    parameters_schema: Schema | UnsetType | None = UNSET

    async def gather(self, world: World) -> MethodWithCapability:
        return await load_with_capability(world, self.method_id)

    def decide(self, seen: MethodWithCapability, occasion: Occasion) -> MethodVersioned:
        method = seen.method
        tag = checked_tag(self.version_tag, InvalidMethodVersionTagError)
        schema = method.parameters_schema
        if self.parameters_schema is not UNSET:
            schema = declared(self.parameters_schema, InvalidMethodParametersSchemaError)
            check_stops(method.execution_pattern, schema)
        LIFECYCLE.check(MethodVersioned, method.status, method.id)
        check_tag_unused(method.version_tags, tag, method.id, MethodVersionTagTakenError)
        check_parameters_within(schema, seen.capability.parameters_schema)
        check_launch_args_kept(method.launch_spec, schema)
        return MethodVersioned(
            method_id=method.id,
            occurred_at=occasion.now,
            version_tag=tag,
            parameters_schema=schema,
            parameters_schema_version=number_of(method, schema),
            content_hash=method_hash(replace(method.content, parameters_schema=schema)),
        )


@methods.operation("POST /methods/{method_id}/update-parameters-schema")
class UpdateMethodParametersSchema(Command[MethodWithCapability]):
    """Declare which parameters a method takes, or replace the declaration without changing a unit."""

    method_id: UUID
    parameters_schema: Schema | None

    async def gather(self, world: World) -> MethodWithCapability:
        return await load_with_capability(world, self.method_id)

    def decide(self, seen: MethodWithCapability, occasion: Occasion) -> list[MethodParametersSchemaUpdated]:
        method = seen.method
        schema = declared(self.parameters_schema, InvalidMethodParametersSchemaError)
        check_stops(method.execution_pattern, schema)
        check_editable(method, MethodCannotUpdateParametersSchemaError)
        if not schema_differs(method.parameters_schema, schema):
            return []
        check_units_kept(method, schema)
        check_parameters_within(schema, seen.capability.parameters_schema)
        check_launch_args_kept(method.launch_spec, schema)
        return [
            MethodParametersSchemaUpdated(
                method_id=method.id,
                occurred_at=occasion.now,
                parameters_schema=schema,
                parameters_schema_version=number_of(method, schema),
                content_hash=method_hash(replace(method.content, parameters_schema=schema)),
            )
        ]


def check_few_needed(family_ids: frozenset[UUID], assembly_ids: frozenset[UUID]) -> None:
    if len(family_ids) > MOST_FAMILIES:
        raise InvalidMethodNeededFamilyIdsError(
            f"A method needs at most {MOST_FAMILIES} families, not {len(family_ids)}.", most=MOST_FAMILIES
        )
    if len(assembly_ids) > MOST_ASSEMBLIES:
        raise InvalidMethodNeededAssemblyIdsError(
            f"A method needs at most {MOST_ASSEMBLIES} assemblies, not {len(assembly_ids)}.",
            most=MOST_ASSEMBLIES,
        )


def checked_supplies(kinds: frozenset[str]) -> frozenset[str]:
    """The trimmed kinds of supplies, or the first refusal."""
    if len(kinds) > MOST_SUPPLIES:
        raise InvalidMethodNeededSuppliesError(
            f"A method needs at most {MOST_SUPPLIES} kinds of supplies, not {len(kinds)}.", most=MOST_SUPPLIES
        )
    return frozenset(
        text.trimmed(kind, 50, InvalidMethodNeededSuppliesError, "kind of supply") for kind in sorted(kinds)
    )


def check_stops(pattern: ExecutionPattern, schema: Schema) -> None:
    """Gate: what iterates under a closed schema has a parameter that ends it."""
    if pattern is not ExecutionPattern.ITERATIVE or schema == {}:
        return
    stopping = BUDGETS | TOLERANCES
    if stopping.isdisjoint(schema.get("properties", {})):
        raise InvalidMethodIterativeStoppingFieldError(
            f"An Iterative method declares when to stop: one of {', '.join(sorted(stopping))}.",
            stopping_fields=sorted(stopping),
        )


def check_capability(capability: Capability) -> None:
    """Gate: the capability is in use and realised by methods."""
    if capability.status is CapabilityStatus.DEPRECATED:
        raise MethodBoundCapabilityDeprecatedError(
            f"Capability {capability.code} is deprecated; choose another.",
            capability_id=str(capability.id),
            replaced_by_capability_id=capability.replaced_by_capability_id
            and str(capability.replaced_by_capability_id),
        )
    if ExecutorShape.METHOD not in capability.executor_shapes:
        raise MethodCapabilityExecutorMismatchError(
            f"Capability {capability.code} is realised by {', '.join(sorted(capability.executor_shapes))} only.",
            capability_id=str(capability.id),
            executor_shapes=sorted(capability.executor_shapes),
        )


def check_units_kept(method: Method, schema: Schema) -> None:
    """Gate: a parameter that existed before keeps its unit."""
    changes = unit_changes(method.parameters_schema, schema)
    if changes:
        paths = ", ".join(change.path for change in changes)
        raise MethodParametersUnitChangedError(
            f"The unit of {paths} would change; that is a new meaning of stored numbers: use version_method.",
            method_id=str(method.id),
            changes=changes,
        )
