"""The starter catalogue: roles and families that most facilities need, kept as data and given as ordinary commands."""

from importlib.resources import files
from uuid import UUID

import msgspec

from beamwright.kernel.declared_schema import Schema
from beamwright.kernel.value import Value
from beamwright.kernel.wellknown import PSEUDO_AXIS_FAMILY, seeded_family, seeded_role

from .family_definition import DefineFamily
from .role import DefineRole
from .values import Affordance


class StarterRole(Value, forbid_unknown_fields=True):
    """One entry of `starter/roles.json`."""

    number: int
    name: str
    description: str
    required_affordances: frozenset[Affordance]
    optional_affordances: frozenset[Affordance]
    produces: frozenset[str]
    consumes: frozenset[str]

    def command(self) -> DefineRole:
        return DefineRole(
            name=self.name,
            description=self.description,
            required_affordances=self.required_affordances,
            optional_affordances=self.optional_affordances,
            produces=self.produces,
            consumes=self.consumes,
        )


class StarterFamily(Value, forbid_unknown_fields=True):
    """One entry of `starter/families.json`; `roles` are names of starter roles."""

    number: int
    name: str
    affordances: frozenset[Affordance]
    roles: frozenset[str]
    settings_schema: Schema | None

    def command(self, role_ids: dict[str, UUID]) -> DefineFamily:
        return DefineFamily(
            name=self.name,
            affordances=self.affordances,
            settings_schema=self.settings_schema,
            presented_role_ids=frozenset(role_ids[role] for role in self.roles),
        )


def starter_commands(seed_families: bool) -> list[tuple[UUID, DefineRole | DefineFamily]]:
    """What the first start defines and under which ids, roles first; the PseudoAxis family is never left out."""
    roles = _entries("roles.json", StarterRole)
    role_ids = {role.name: seeded_role(role.number) for role in roles}
    families = [
        (id, family.command(role_ids))
        for family in _entries("families.json", StarterFamily)
        if (id := seeded_family(family.number)) == PSEUDO_AXIS_FAMILY or seed_families
    ]
    return [*((role_ids[role.name], role.command()) for role in roles), *families]


def _entries[T: Value](file: str, entry: type[T]) -> list[T]:
    text = (files(__package__) / "starter" / file).read_bytes()
    return msgspec.json.decode(text, type=list[entry])
