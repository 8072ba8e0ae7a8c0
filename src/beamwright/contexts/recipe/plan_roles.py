"""The roles of a plan: which asset takes which part that the method requires."""

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

import msgspec

from beamwright.contexts.equipment.asset import Asset
from beamwright.contexts.equipment.values import PortDirection
from beamwright.kernel.errors import CannotTransitionError, ConflictError, InvalidError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, replace

from .binding import Equipment, load_equipment, missing_ports
from .method import Method, RoleName, RoleRequirement, methods
from .plan import Plan, PlanRoleBound, PlanRoleUnbound, Wire, check_editable, plan_hash, plans

MOST_ROLES = 50


class InvalidPlanRoleBindingsError(InvalidError):
    """A plan binds too many roles."""


class PlanCannotBindRoleError(CannotTransitionError):
    """A deprecated plan binds no further role."""


class PlanCannotUnbindRoleError(CannotTransitionError):
    """A deprecated plan keeps its roles."""


class PlanRoleAssetNotBoundError(ConflictError):
    """The asset is not one of the plan's."""


class PlanRoleAlreadyBoundError(ConflictError):
    """The role is bound to an asset already."""


class PlanRoleNotBoundError(ConflictError):
    """The role is bound to no asset."""


class PlanRoleNameNotDeclaredError(ConflictError):
    """The plan's method requires no role of this name."""


class PlanRoleFamilyMismatchError(ConflictError):
    """The asset is not of the family that the role asks for."""


class PlanRoleAssetCannotPresentError(ConflictError):
    """The asset does not present the role, neither by a family nor by its fixture."""


class PlanRolePortCoverageNotSatisfiedError(ConflictError):
    """The asset lacks ports that the role requires."""


class PlanWireRoleEndpointMismatchError(ConflictError):
    """A wire uses the port of a bound role at another asset."""


class PlanCasting(Value):
    """A plan, its method, and the asset that is to take a part."""

    plan: Plan
    method: Method
    asset: Asset
    equipment: Equipment


@plans.operation("POST /plans/{plan_id}/role-bindings/bind")
class BindPlanRole(Command[PlanCasting]):
    """Let an asset of a plan take a part that the method requires."""

    plan_id: UUID
    role_name: RoleName
    asset_id: UUID

    async def gather(self, world: World) -> PlanCasting:
        plan = await world.load(plans, self.plan_id)
        method = await world.load(methods, plan.method_id)
        required = method.required_role(self.role_name.strip())
        role_ids = [] if required is None or required.role_id is None else [required.role_id]
        equipment = await load_equipment(world, [self.asset_id], role_ids)
        return PlanCasting(plan=plan, method=method, asset=equipment.assets[0], equipment=equipment)

    def decide(self, seen: PlanCasting, occasion: Occasion) -> PlanRoleBound:
        plan, asset, role_name = seen.plan, seen.asset, self.role_name.strip()
        check_editable(plan, PlanCannotBindRoleError)
        check_asset_bound(plan, asset)
        check_role_free(plan, role_name)
        required = declared_role(seen.method, role_name)
        check_fills(required, asset, seen.equipment)
        check_agreement(required, asset.id, plan.wires)
        bindings = plan.role_bindings | {role_name: asset.id}
        check_few_roles(bindings)
        return PlanRoleBound(
            plan_id=plan.id,
            occurred_at=occasion.now,
            role_name=role_name,
            asset_id=asset.id,
            content_hash=plan_hash(replace(plan.content, role_bindings=bindings)),
        )


@plans.operation("POST /plans/{plan_id}/role-bindings/unbind")
class UnbindPlanRole(Command[Plan]):
    """Take an asset of a plan out of its part."""

    plan_id: UUID
    role_name: RoleName

    async def gather(self, world: World) -> Plan:
        return await world.load(plans, self.plan_id)

    def decide(self, plan: Plan, occasion: Occasion) -> PlanRoleUnbound:
        role_name = self.role_name.strip()
        check_editable(plan, PlanCannotUnbindRoleError)
        if role_name not in plan.role_bindings:
            raise PlanRoleNotBoundError(
                f"The plan binds no role {role_name[:50]!r}.", role_names=sorted(plan.role_bindings)
            )
        kept = {name: id for name, id in plan.role_bindings.items() if name != role_name}
        return PlanRoleUnbound(
            plan_id=plan.id,
            occurred_at=occasion.now,
            role_name=role_name,
            content_hash=plan_hash(replace(plan.content, role_bindings=kept)),
        )


def check_asset_bound(plan: Plan, asset: Asset) -> None:
    """Gate: parts are taken by the plan's own assets."""
    if asset.id not in plan.asset_ids:
        raise PlanRoleAssetNotBoundError(
            f"Asset {asset.name} is not one of the plan's.", asset_id=str(asset.id)
        )


def check_role_free(plan: Plan, role_name: str) -> None:
    """Gate: a part is taken once."""
    if role_name in plan.role_bindings:
        raise PlanRoleAlreadyBoundError(
            f"Role {role_name} is bound already; unbind it first with unbind_plan_role.",
            role_name=role_name,
            asset_id=str(plan.role_bindings[role_name]),
        )


def check_few_roles(bindings: Mapping[str, UUID]) -> None:
    if len(bindings) > MOST_ROLES:
        raise InvalidPlanRoleBindingsError(f"A plan binds at most {MOST_ROLES} roles.", most=MOST_ROLES)


def declared_role(method: Method, role_name: str) -> RoleRequirement:
    """What the method requires under a name."""
    required = method.required_role(role_name)
    if required is None:
        raise PlanRoleNameNotDeclaredError(
            f"Method {method.name} requires no role {role_name[:50]!r}.",
            method_id=str(method.id),
            role_names=[each.role_name for each in method.required_roles],
        )
    return required


def check_fills(required: RoleRequirement, asset: Asset, equipment: Equipment) -> None:
    """Gate: the asset is of the family, or presents the role, and has the ports."""
    where = {"role_name": required.role_name, "asset_id": str(asset.id)}
    if required.family_id is not None and required.family_id not in asset.family_ids:
        raise PlanRoleFamilyMismatchError(
            f"Asset {asset.name} is not of the family that {required.role_name} asks for.",
            family_id=str(required.family_id),
            **where,
        )
    if required.role_id is not None and not equipment.presents(asset, required.role_id):
        raise PlanRoleAssetCannotPresentError(
            f"Asset {asset.name} does not present the role that {required.role_name} asks for.",
            role_id=str(required.role_id),
            **where,
        )
    if lacking := missing_ports(asset, required):
        raise PlanRolePortCoverageNotSatisfiedError(
            f"Asset {asset.name} lacks ports: {', '.join(port.port_name for port in lacking)}.",
            missing_ports=msgspec.to_builtins(lacking),
            **where,
        )


def strangers(required: RoleRequirement, asset_id: UUID, wires: Iterable[Wire]) -> Iterator[Wire]:
    """The wires that use a port of a role at another asset than the one that takes it."""
    leaving = {port.port_name for port in required.required_ports if port.direction is PortDirection.OUTPUT}
    entering = {port.port_name for port in required.required_ports if port.direction is PortDirection.INPUT}
    for wire in wires:
        from_stranger = wire.source_port_name in leaving and wire.source_asset_id != asset_id
        to_stranger = wire.target_port_name in entering and wire.target_asset_id != asset_id
        if from_stranger or to_stranger:
            yield wire


def check_agreement(required: RoleRequirement, asset_id: UUID, wires: Iterable[Wire]) -> None:
    """Gate: the ports of a role are wired at the asset that takes it."""
    for wire in strangers(required, asset_id, wires):
        raise PlanWireRoleEndpointMismatchError(
            f"Role {required.role_name} is asset {asset_id}, and a wire uses its port at another asset.",
            role_name=required.role_name,
            asset_id=str(asset_id),
            wire=msgspec.to_builtins(wire),
        )


def unbound_roles(plan: Plan, method: Method) -> list[str]:
    """The roles that the method requires, that are not optional, and that no asset takes."""
    return [
        required.role_name
        for required in method.required_roles
        if not required.optional and required.role_name not in plan.role_bindings
    ]


def unfilled_roles(plan: Plan, method: Method, equipment: Equipment) -> list[str]:
    """The roles that no asset takes though one must, and those that their asset cannot fill today."""
    by_id = {asset.id: asset for asset in equipment.assets}
    unfit = [
        required.role_name
        for required in method.required_roles
        if (asset_id := plan.role_bindings.get(required.role_name))
        if not (asset_id in by_id and equipment.fills(by_id[asset_id], required))
    ]
    return sorted([*unbound_roles(plan, method), *unfit])
