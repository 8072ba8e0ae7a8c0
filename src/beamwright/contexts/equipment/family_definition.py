"""Defining families and the roles they present: a family can do all that its roles require."""

from collections.abc import Sequence
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.declared_schema import Schema, checked_schema
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value
from beamwright.kernel.versions import VersionTag, check_tag_unused, checked_tag

from .family import (
    LIFECYCLE,
    Family,
    FamilyCannotAddRoleError,
    FamilyDefined,
    FamilyName,
    FamilyRoleAdded,
    FamilyRoleAlreadyPresentError,
    FamilyRoleNotSatisfiedError,
    FamilyVersioned,
    FamilyVersionTagTakenError,
    InvalidFamilyNameError,
    InvalidFamilySettingsSchemaError,
    InvalidFamilyVersionTagError,
    check_editable,
    families,
    schema_differs,
)
from .role import Role, check_roles_usable, roles
from .values import Affordance


class FamilyWithRoles(Value):
    """A family and the roles that it presents, or is to present."""

    family: Family
    roles: tuple[Role, ...] = ()


@families.operation("POST /families", creates=True)
class DefineFamily(Command[tuple[Role, ...]]):
    """Define a device class: what its assets can do, how they are set, and which roles they may fill."""

    name: FamilyName
    affordances: frozenset[Affordance]
    settings_schema: Schema | None = None
    presented_role_ids: frozenset[UUID] = frozenset()

    async def gather(self, world: World) -> tuple[Role, ...]:
        return tuple(await world.load_all(roles, sorted(self.presented_role_ids)))

    def decide(self, presented: tuple[Role, ...], occasion: Occasion) -> FamilyDefined:
        name = text.name(self.name, InvalidFamilyNameError)
        schema = checked_settings_schema(self.settings_schema)
        check_roles_usable(presented)
        check_roles_satisfied(self.affordances, presented)
        return FamilyDefined(
            family_id=occasion.new_id,
            occurred_at=occasion.now,
            name=name,
            affordances=self.affordances,
            settings_schema=schema,
            settings_schema_version=0 if schema is None else 1,
            presented_role_ids=self.presented_role_ids,
        )


@families.operation("POST /families/{family_id}/version")
class VersionFamily(Command[FamilyWithRoles]):
    """Give a family a new version: its affordances anew and, where given, another settings schema, units included."""

    family_id: UUID
    version_tag: VersionTag
    affordances: frozenset[Affordance]
    settings_schema: Schema | None = None

    async def gather(self, world: World) -> FamilyWithRoles:
        family = await world.load(families, self.family_id)
        presented = await world.load_all(roles, sorted(family.presented_role_ids))
        return FamilyWithRoles(family=family, roles=tuple(presented))

    def decide(self, seen: FamilyWithRoles, occasion: Occasion) -> FamilyVersioned:
        family = seen.family
        tag = checked_tag(self.version_tag, InvalidFamilyVersionTagError)
        given = checked_settings_schema(self.settings_schema)
        LIFECYCLE.check(FamilyVersioned, family.status, family.id)
        check_tag_unused(family.version_tags, tag, family.id, FamilyVersionTagTakenError)
        check_roles_satisfied(self.affordances, seen.roles)
        schema = family.settings_schema if given is None else given
        return FamilyVersioned(
            family_id=family.id,
            occurred_at=occasion.now,
            version_tag=tag,
            affordances=self.affordances,
            settings_schema=schema,
            settings_schema_version=family.settings_schema_version
            + schema_differs(family.settings_schema, schema),
        )


@families.operation("POST /families/{family_id}/roles/add")
class AddFamilyRole(Command[FamilyWithRoles]):
    """Let a family present a role that its affordances cover."""

    family_id: UUID
    role_id: UUID

    async def gather(self, world: World) -> FamilyWithRoles:
        family = await world.load(families, self.family_id)
        return FamilyWithRoles(family=family, roles=(await world.load(roles, self.role_id),))

    def decide(self, seen: FamilyWithRoles, occasion: Occasion) -> FamilyRoleAdded:
        family = seen.family
        check_editable(family, FamilyCannotAddRoleError)
        if self.role_id in family.presented_role_ids:
            raise FamilyRoleAlreadyPresentError(
                f"Family {family.name} presents role {self.role_id} already.",
                family_id=str(family.id),
                role_id=str(self.role_id),
            )
        check_roles_usable(seen.roles)
        check_roles_satisfied(family.affordances, seen.roles)
        return FamilyRoleAdded(family_id=family.id, occurred_at=occasion.now, role_id=self.role_id)


def checked_settings_schema(schema: Schema | None) -> Schema | None:
    return None if schema is None else checked_schema(schema, InvalidFamilySettingsSchemaError)


def check_roles_satisfied(affordances: frozenset[Affordance], presented: Sequence[Role]) -> None:
    """Gate: a family that presents a role can do what the role requires."""
    for role in sorted(presented, key=lambda role: role.id):
        missing = sorted(role.required_affordances - affordances)
        if missing:
            raise FamilyRoleNotSatisfiedError(
                f"Role {role.name} requires {', '.join(missing)}, which the affordances lack.",
                role_id=str(role.id),
                missing_affordances=missing,
            )
