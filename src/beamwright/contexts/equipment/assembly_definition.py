"""Defining assemblies: what a blueprint names must exist, fit together and cover the roles it presents."""

from collections.abc import Iterable
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.content_hash import content_hash
from beamwright.kernel.declared_schema import Schema, checked_schema
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, replace
from beamwright.kernel.versions import VersionTag, check_tag_unused, checked_tag

from .assembly import (
    LIFECYCLE,
    Assembly,
    AssemblyCannotAddRoleError,
    AssemblyCannotRemoveRoleError,
    AssemblyContent,
    AssemblyDefined,
    AssemblyRoleAdded,
    AssemblyRoleRemoved,
    AssemblyVersioned,
    AssemblyVersionTagTakenError,
    InvalidAssemblyNameError,
    InvalidAssemblyVersionTagError,
    InvalidParameterOverridesSchemaError,
    SubAssemblyLink,
    TemplateSlot,
    TemplateWire,
    assemblies,
    check_editable,
    named_families,
)
from .blueprint import (
    AssemblyParts,
    AssemblyRoleNotSatisfiedError,
    check_blueprint,
    check_roles_covered,
    check_schema_kept,
    checked_links,
    checked_slots,
    checked_wires,
)
from .family import Family, families
from .role import Role, check_roles_usable, roles
from .values import Drawing, checked_drawing

MEDIA_TYPE = "application/vnd.beamwright.assembly+json"


class AssemblyRoleAlreadyPresentError(ConflictError):
    """The assembly presents this role already."""


class AssemblyRoleNotPresentError(ConflictError):
    """The assembly does not present this role."""


class AssemblyBlueprint[Seen](Command[Seen], forbid_unknown_fields=True):
    """The fields that defining and versioning an assembly share."""

    name: text.Name
    presented_role_ids: frozenset[UUID] = frozenset()
    required_slots: tuple[TemplateSlot, ...] = ()
    required_wires: tuple[TemplateWire, ...] = ()
    required_sub_assemblies: tuple[SubAssemblyLink, ...] = ()
    parameter_overrides_schema: Schema | None = None
    drawing: Drawing | None = None

    async def parts(self, world: World) -> AssemblyParts:
        own = await world.load_all(families, sorted(named_families(self.required_slots)))
        presented = await world.load_all(roles, sorted(self.presented_role_ids))
        children = await load_children(world, self.required_sub_assemblies)
        further = {id for child in children for id in child.family_ids} - {family.id for family in own}
        within = await world.load_all(families, sorted(further))
        return AssemblyParts(families=(*own, *within), roles=tuple(presented), children=children)

    def checked(self) -> tuple[AssemblyContent, Drawing | None]:
        """The content with its text trimmed and its sets in order, and the drawing; or the first refusal."""
        name = text.name(self.name, InvalidAssemblyNameError)
        slots = checked_slots(self.required_slots)
        wires = checked_wires(self.required_wires)
        links = checked_links(self.required_sub_assemblies)
        drawing = checked_drawing(self.drawing)
        schema = self.parameter_overrides_schema
        if schema is not None:
            checked_schema(schema, InvalidParameterOverridesSchemaError)
        content = AssemblyContent(
            name=name,
            presented_role_ids=self.presented_role_ids,
            required_slots=slots,
            required_wires=wires,
            required_sub_assemblies=links,
            parameter_overrides_schema=schema,
        )
        return content, drawing


@assemblies.operation("POST /assemblies", creates=True)
class DefineAssembly(AssemblyBlueprint[AssemblyParts]):
    """Define a blueprint: its slots, the wires between them and the blueprints within it."""

    version_tag: VersionTag | None = None

    async def gather(self, world: World) -> AssemblyParts:
        return await self.parts(world)

    def decide(self, parts: AssemblyParts, occasion: Occasion) -> AssemblyDefined:
        content, drawing = self.checked()
        tag = (
            None
            if self.version_tag is None
            else checked_tag(self.version_tag, InvalidAssemblyVersionTagError)
        )
        check_blueprint(occasion.new_id, content, parts)
        return AssemblyDefined(
            assembly_id=occasion.new_id,
            occurred_at=occasion.now,
            name=content.name,
            presented_role_ids=content.presented_role_ids,
            required_slots=content.required_slots,
            required_wires=content.required_wires,
            required_sub_assemblies=content.required_sub_assemblies,
            parameter_overrides_schema=content.parameter_overrides_schema,
            drawing=drawing,
            version_tag=tag,
            content_hash=assembly_hash(content),
        )


class AssemblyRevision(Value):
    """An assembly, and what its next version names."""

    assembly: Assembly
    parts: AssemblyParts = AssemblyParts()


@assemblies.operation("POST /assemblies/{assembly_id}/version")
class VersionAssembly(AssemblyBlueprint[AssemblyRevision]):
    """Give an assembly a new version, which replaces all of its content; its fixtures stay as they are."""

    assembly_id: UUID
    version_tag: VersionTag

    async def gather(self, world: World) -> AssemblyRevision:
        assembly = await world.load(assemblies, self.assembly_id)
        return AssemblyRevision(assembly=assembly, parts=await self.parts(world))

    def decide(self, seen: AssemblyRevision, occasion: Occasion) -> AssemblyVersioned:
        assembly = seen.assembly
        content, drawing = self.checked()
        check_schema_kept(assembly, content)
        tag = checked_tag(self.version_tag, InvalidAssemblyVersionTagError)
        LIFECYCLE.check(AssemblyVersioned, assembly.status, assembly.id)
        check_tag_unused(assembly.version_tags, tag, assembly.id, AssemblyVersionTagTakenError)
        check_blueprint(assembly.id, content, seen.parts)
        return AssemblyVersioned(
            assembly_id=assembly.id,
            occurred_at=occasion.now,
            name=content.name,
            presented_role_ids=content.presented_role_ids,
            required_slots=content.required_slots,
            required_wires=content.required_wires,
            required_sub_assemblies=content.required_sub_assemblies,
            parameter_overrides_schema=content.parameter_overrides_schema,
            drawing=drawing,
            version_tag=tag,
            content_hash=assembly_hash(content),
            previous_content_hash=assembly.content_hash,
        )


class AssemblyWithRole(Value):
    """An assembly, a role that it is to present, and the families of all its slots."""

    assembly: Assembly
    role: Role
    families: tuple[Family, ...] = ()


@assemblies.operation("POST /assemblies/{assembly_id}/roles/add")
class AddAssemblyRole(Command[AssemblyWithRole]):
    """Let an assembly present a role that the families of its slots cover."""

    assembly_id: UUID
    role_id: UUID

    async def gather(self, world: World) -> AssemblyWithRole:
        assembly = await world.load(assemblies, self.assembly_id)
        role = await world.load(roles, self.role_id)
        children = await load_children(world, assembly.required_sub_assemblies)
        named = {id for each in (assembly, *children) for id in each.family_ids}
        return AssemblyWithRole(
            assembly=assembly, role=role, families=tuple(await world.load_all(families, sorted(named)))
        )

    def decide(self, seen: AssemblyWithRole, occasion: Occasion) -> AssemblyRoleAdded:
        assembly = seen.assembly
        check_editable(assembly, AssemblyCannotAddRoleError)
        if self.role_id in assembly.presented_role_ids:
            raise AssemblyRoleAlreadyPresentError(
                f"Assembly {assembly.name} presents role {self.role_id} already.",
                assembly_id=str(assembly.id),
                role_id=str(self.role_id),
            )
        check_roles_usable([seen.role])
        check_roles_covered([seen.role], seen.families, AssemblyRoleNotSatisfiedError)
        role_ids = assembly.presented_role_ids | {self.role_id}
        return AssemblyRoleAdded(
            assembly_id=assembly.id,
            occurred_at=occasion.now,
            role_id=self.role_id,
            content_hash=assembly_hash(replace(assembly.content, presented_role_ids=role_ids)),
            previous_content_hash=assembly.content_hash,
        )


@assemblies.operation("POST /assemblies/{assembly_id}/roles/remove")
class RemoveAssemblyRole(Command[Assembly]):
    """Stop an assembly from presenting a role."""

    assembly_id: UUID
    role_id: UUID

    async def gather(self, world: World) -> Assembly:
        return await world.load(assemblies, self.assembly_id)

    def decide(self, assembly: Assembly, occasion: Occasion) -> AssemblyRoleRemoved:
        check_editable(assembly, AssemblyCannotRemoveRoleError)
        if self.role_id not in assembly.presented_role_ids:
            raise AssemblyRoleNotPresentError(
                f"Assembly {assembly.name} does not present role {self.role_id}.",
                assembly_id=str(assembly.id),
                role_id=str(self.role_id),
            )
        role_ids = assembly.presented_role_ids - {self.role_id}
        return AssemblyRoleRemoved(
            assembly_id=assembly.id,
            occurred_at=occasion.now,
            role_id=self.role_id,
            content_hash=assembly_hash(replace(assembly.content, presented_role_ids=role_ids)),
            previous_content_hash=assembly.content_hash,
        )


async def load_children(world: World, links: Iterable[SubAssemblyLink]) -> tuple[Assembly, ...]:
    """The distinct sub-assemblies that links name."""
    return tuple(await world.load_all(assemblies, sorted({link.sub_assembly_id for link in links})))


def assembly_hash(content: AssemblyContent) -> str:
    """The hash that links and fixtures pin; drawing, status and tags do not count."""
    return content_hash(MEDIA_TYPE, content)
