"""The roles that a method requires: what must be there, without naming the asset."""

from uuid import UUID

from beamwright.contexts.equipment.family import Family, check_families_usable, families
from beamwright.contexts.equipment.role import Role, check_roles_usable, roles
from beamwright.kernel import text
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, replace

from .method import (
    InvalidPortRequirementError,
    InvalidRoleRequirementError,
    Method,
    MethodCannotAddRequiredRoleError,
    MethodCannotRemoveRequiredRoleError,
    MethodRequiredRoleAdded,
    MethodRequiredRoleRemoved,
    MethodRoleNameAlreadyDeclaredError,
    MethodRoleNameNotDeclaredError,
    PortRequirement,
    RoleName,
    RoleRequirement,
    check_editable,
    method_hash,
    methods,
    sorted_roles,
)

MOST_ROLES = 50
MOST_PORTS = 20


class MethodWithRole(Value):
    """A method, and the role or the family that it is to ask for."""

    method: Method
    roles: tuple[Role, ...] = ()
    families: tuple[Family, ...] = ()


@methods.operation("POST /methods/{method_id}/required-roles/add")
class AddMethodRequiredRole(Command[MethodWithRole]):
    """Let a method require a part: an asset that presents a role, or one of a family."""

    method_id: UUID
    role_name: RoleName
    role_id: UUID | None = None
    family_id: UUID | None = None
    required_ports: tuple[PortRequirement, ...] = ()
    optional: bool = False

    async def gather(self, world: World) -> MethodWithRole:
        method = await world.load(methods, self.method_id)
        return MethodWithRole(
            method=method,
            roles=() if self.role_id is None else (await world.load(roles, self.role_id),),
            families=() if self.family_id is None else (await world.load(families, self.family_id),),
        )

    def decide(self, seen: MethodWithRole, occasion: Occasion) -> MethodRequiredRoleAdded:
        method, required = seen.method, self.checked()
        check_editable(method, MethodCannotAddRequiredRoleError)
        if method.required_role(required.role_name):
            raise MethodRoleNameAlreadyDeclaredError(
                f"Method {method.name} requires {required.role_name} already.",
                method_id=str(method.id),
                role_name=required.role_name,
            )
        check_roles_usable(seen.roles)
        check_families_usable(seen.families)
        after = sorted_roles([*method.required_roles, required])
        check_few_roles(after)
        return MethodRequiredRoleAdded(
            method_id=method.id,
            occurred_at=occasion.now,
            required_role=required,
            content_hash=method_hash(replace(method.content, required_roles=after)),
        )

    def checked(self) -> RoleRequirement:
        """The requirement with its text trimmed and its ports in order, or the first refusal."""
        role_name = text.trimmed(self.role_name, 50, InvalidRoleRequirementError, "role name")
        if (self.role_id is None) == (self.family_id is None):
            raise InvalidRoleRequirementError("Ask for a role or for a family, and not for both.")
        if len(self.required_ports) > MOST_PORTS:
            raise InvalidRoleRequirementError(
                f"A role requires at most {MOST_PORTS} ports, not {len(self.required_ports)}.",
                most=MOST_PORTS,
            )
        ports = {checked_port(port) for port in self.required_ports}
        return RoleRequirement(
            role_name=role_name,
            role_id=self.role_id,
            family_id=self.family_id,
            required_ports=tuple(sorted(ports, key=_port_order)),
            optional=self.optional,
        )


@methods.operation("POST /methods/{method_id}/required-roles/remove")
class RemoveMethodRequiredRole(Command[Method]):
    """Stop a method from requiring a part."""

    method_id: UUID
    role_name: RoleName

    async def gather(self, world: World) -> Method:
        return await world.load(methods, self.method_id)

    def decide(self, method: Method, occasion: Occasion) -> MethodRequiredRoleRemoved:
        role_name = self.role_name.strip()
        check_editable(method, MethodCannotRemoveRequiredRoleError)
        if not method.required_role(role_name):
            raise MethodRoleNameNotDeclaredError(
                f"Method {method.name} requires no {role_name[:50]!r}.",
                method_id=str(method.id),
                role_names=[role.role_name for role in method.required_roles],
            )
        kept = tuple(role for role in method.required_roles if role.role_name != role_name)
        return MethodRequiredRoleRemoved(
            method_id=method.id,
            occurred_at=occasion.now,
            role_name=role_name,
            content_hash=method_hash(replace(method.content, required_roles=kept)),
        )


def checked_port(port: PortRequirement) -> PortRequirement:
    return PortRequirement(
        port_name=text.trimmed(port.port_name, 100, InvalidPortRequirementError, "port name"),
        direction=port.direction,
        signal_type=text.trimmed(port.signal_type, 50, InvalidPortRequirementError, "signal type"),
    )


def check_few_roles(required: tuple[RoleRequirement, ...]) -> None:
    if len(required) > MOST_ROLES:
        raise InvalidRoleRequirementError(f"A method requires at most {MOST_ROLES} roles.", most=MOST_ROLES)


def _port_order(port: PortRequirement) -> tuple[str, str, str]:
    return port.port_name, port.direction, port.signal_type
