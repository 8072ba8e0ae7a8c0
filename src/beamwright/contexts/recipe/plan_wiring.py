"""The wires of a plan: which port of which asset its signals leave and enter."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never
from uuid import UUID

import msgspec

from beamwright.contexts.equipment.asset import Asset, assets
from beamwright.contexts.equipment.asset_values import AssetPort
from beamwright.contexts.equipment.partition_rule import (
    AffineRule,
    AggregationRule,
    CompositePartitionRule,
    LookupTableRule,
    PartitionRule,
    SolverReferenceRule,
)
from beamwright.contexts.equipment.values import PortDirection, Short
from beamwright.kernel import text
from beamwright.kernel.errors import CannotTransitionError, ConflictError, InvalidError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, replace

from .method import Method, methods
from .plan import (
    Plan,
    PlanWireAdded,
    PlanWireRemoved,
    Wire,
    check_editable,
    plan_hash,
    plans,
    sorted_wires,
)
from .plan_roles import check_agreement, strangers

MOST_WIRES = 500


class InvalidWireError(InvalidError):
    """A port's name is blank or too long, or there are too many wires."""


class PlanCannotAddWireError(CannotTransitionError):
    """A deprecated plan takes no further wire."""


class PlanCannotRemoveWireError(CannotTransitionError):
    """A deprecated plan keeps its wires."""


class PlanWireAlreadyExistsError(ConflictError):
    """The plan has this wire already."""


class PlanWireNotPresentError(ConflictError):
    """The plan has no such wire."""


class PlanWireTargetAlreadyConnectedError(ConflictError):
    """Another wire ends at this port; only a virtual axis takes several."""


class PlanWireSelfLoopError(ConflictError):
    """A wire does not lead from a port to itself."""


class PlanWireAssetNotBoundError(ConflictError):
    """A wire leads between the plan's own assets."""


class PlanWirePortNotFoundError(ConflictError):
    """The asset has no port of this name."""


class PlanWireDirectionMismatchError(ConflictError):
    """A wire leads from an Output port to an Input port."""


class PlanWireSignalTypeMismatchError(ConflictError):
    """The two ports carry different signal types."""


class PlanPseudoAxisOutputCardinalityError(ConflictError):
    """A virtual axis that is wired has exactly one Output port."""


class PlanPseudoAxisArityMismatchError(ConflictError):
    """More wires lead into a virtual axis than its partition rule has constituents."""


class PlanPseudoAxisFanoutSignalTypeMismatchError(ConflictError):
    """The wires into a virtual axis carry different signal types."""


class PlanWiring(Value):
    """A plan with its method, and the assets at both ends of a wire and of others to the same target."""

    plan: Plan
    method: Method
    assets: Mapping[UUID, Asset]


class WireCommand[Seen](Command[Seen], forbid_unknown_fields=True):
    """A command that names a wire of a plan."""

    plan_id: UUID
    source_asset_id: UUID
    source_port_name: Short
    target_asset_id: UUID
    target_port_name: Short

    def wire(self) -> Wire:
        """The wire with its names trimmed."""
        return Wire(
            source_asset_id=self.source_asset_id,
            source_port_name=text.trimmed(self.source_port_name, 100, InvalidWireError, "port's name"),
            target_asset_id=self.target_asset_id,
            target_port_name=text.trimmed(self.target_port_name, 100, InvalidWireError, "port's name"),
        )


@plans.operation("POST /plans/{plan_id}/wires/add")
class AddPlanWire(WireCommand[PlanWiring]):
    """Lead a signal from an Output port of one asset of a plan to an Input port of another."""

    async def gather(self, world: World) -> PlanWiring:
        plan = await world.load(plans, self.plan_id)
        joined = [wire.source_asset_id for wire in plan.wires if wire.target_asset_id == self.target_asset_id]
        ids = sorted({self.source_asset_id, self.target_asset_id, *joined})
        found = await world.load_all(assets, ids)
        return PlanWiring(
            plan=plan,
            method=await world.load(methods, plan.method_id),
            assets={asset.id: asset for asset in found},
        )

    def decide(self, seen: PlanWiring, occasion: Occasion) -> PlanWireAdded:
        plan, wire = seen.plan, self.wire()
        check_few_wires(plan)
        check_editable(plan, PlanCannotAddWireError)
        check_target_free(plan, wire, seen.assets)
        check_joined(plan, wire, seen.assets)
        check_axis(plan, wire, seen.assets)
        for required in seen.method.required_roles:
            if required.role_name in plan.role_bindings:
                check_agreement(required, plan.role_bindings[required.role_name], [wire])
        wires = sorted_wires([*plan.wires, wire])
        return PlanWireAdded(
            plan_id=plan.id,
            occurred_at=occasion.now,
            wire=wire,
            content_hash=plan_hash(replace(plan.content, wires=wires)),
        )


@plans.operation("POST /plans/{plan_id}/wires/remove")
class RemovePlanWire(WireCommand[Plan]):
    """Take a wire out of a plan."""

    async def gather(self, world: World) -> Plan:
        return await world.load(plans, self.plan_id)

    def decide(self, plan: Plan, occasion: Occasion) -> PlanWireRemoved:
        wire = self.wire()
        check_editable(plan, PlanCannotRemoveWireError)
        if wire not in plan.wires:
            raise PlanWireNotPresentError("The plan has no such wire.", wire=shown(wire))
        kept = tuple(each for each in plan.wires if each != wire)
        return PlanWireRemoved(
            plan_id=plan.id,
            occurred_at=occasion.now,
            wire=wire,
            content_hash=plan_hash(replace(plan.content, wires=kept)),
        )


def shown(wire: Wire) -> dict[str, Any]:
    return msgspec.to_builtins(wire)


def check_few_wires(plan: Plan) -> None:
    if len(plan.wires) >= MOST_WIRES:
        raise InvalidWireError(f"A plan has at most {MOST_WIRES} wires.", most=MOST_WIRES)


def check_target_free(plan: Plan, wire: Wire, by_id: Mapping[UUID, Asset]) -> None:
    """Gate: a wire is there once, and its target takes no other one."""
    if wire in plan.wires:
        raise PlanWireAlreadyExistsError("The plan has this wire already.", wire=shown(wire))
    if by_id[wire.target_asset_id].partition_rule is not None:
        return
    for other in plan.wires:
        if target(other) == target(wire):
            raise PlanWireTargetAlreadyConnectedError(
                f"Another wire ends at {wire.target_port_name}; remove that one first.", wire=shown(other)
            )


def check_joined(plan: Plan, wire: Wire, by_id: Mapping[UUID, Asset]) -> None:
    """Gate: the wire leads between two different ports of the plan's assets that fit each other."""
    if source(wire) == target(wire):
        raise PlanWireSelfLoopError("A wire does not lead from a port to itself.", wire=shown(wire))
    strange = sorted(str(id) for id in {wire.source_asset_id, wire.target_asset_id} - plan.asset_ids)
    if strange:
        raise PlanWireAssetNotBoundError(
            f"These assets are not the plan's: {', '.join(strange)}.", asset_ids=strange
        )
    leaves = port_of(by_id[wire.source_asset_id], wire.source_port_name)
    enters = port_of(by_id[wire.target_asset_id], wire.target_port_name)
    if (leaves.direction, enters.direction) != (PortDirection.OUTPUT, PortDirection.INPUT):
        raise PlanWireDirectionMismatchError(
            f"{leaves.name} is {leaves.direction} and {enters.name} is {enters.direction}; a wire leads from"
            " Output to Input.",
            wire=shown(wire),
        )
    if leaves.signal_type != enters.signal_type:
        raise PlanWireSignalTypeMismatchError(
            f"{leaves.name} carries {leaves.signal_type}, {enters.name} takes {enters.signal_type}.",
            wire=shown(wire),
            source_signal_type=leaves.signal_type,
            target_signal_type=enters.signal_type,
        )


def check_axis(plan: Plan, wire: Wire, by_id: Mapping[UUID, Asset]) -> None:
    """Gate: a virtual axis is made of as many like axes as its rule has constituents, and is one axis itself."""
    axis = by_id[wire.target_asset_id]
    if axis.partition_rule is None:
        return
    outputs = [port.name for port in axis.ports if port.direction is PortDirection.OUTPUT]
    if len(outputs) != 1:
        raise PlanPseudoAxisOutputCardinalityError(
            f"Virtual axis {axis.name} needs exactly one Output port, not {len(outputs)}.",
            asset_id=str(axis.id),
            port_names=outputs,
        )
    incoming, most = constituents([*plan.wires, wire], axis.id), constituent_count(axis.partition_rule)
    if most is not None and len(incoming) > most:
        raise PlanPseudoAxisArityMismatchError(
            f"The rule of {axis.name} has {most} constituents; remove another wire first.",
            asset_id=str(axis.id),
            constituent_count=most,
        )
    carried = {type for each in incoming if (type := signal_type_of(each, by_id)) is not None}
    if len(carried) > 1:
        raise PlanPseudoAxisFanoutSignalTypeMismatchError(
            f"The axes that make up {axis.name} carry different signals: {', '.join(sorted(carried))}.",
            asset_id=str(axis.id),
            signal_types=sorted(carried),
        )


def port_of(asset: Asset, port_name: str) -> AssetPort:
    port = find_port(asset, port_name)
    if port is None:
        raise PlanWirePortNotFoundError(
            f"Asset {asset.name} has no port {port_name}.",
            asset_id=str(asset.id),
            port_names=[each.name for each in asset.ports],
        )
    return port


def find_port(asset: Asset, port_name: str) -> AssetPort | None:
    return next((port for port in asset.ports if port.name == port_name), None)


def signal_type_of(wire: Wire, by_id: Mapping[UUID, Asset]) -> str | None:
    """What a wire carries; nothing when its port is gone."""
    port = find_port(by_id[wire.source_asset_id], wire.source_port_name)
    return None if port is None else port.signal_type


def source(wire: Wire) -> tuple[UUID, str]:
    return wire.source_asset_id, wire.source_port_name


def target(wire: Wire) -> tuple[UUID, str]:
    return wire.target_asset_id, wire.target_port_name


def constituents(wires: Iterable[Wire], axis_id: UUID) -> list[Wire]:
    """The wires into a virtual axis in the order of its constituents, which are their sources."""
    incoming = (wire for wire in wires if wire.target_asset_id == axis_id)
    return sorted(incoming, key=lambda wire: (wire.target_port_name, wire.source_asset_id))


def constituent_count(rule: PartitionRule) -> int | None:
    """How many axes a rule is made of; a solver elsewhere does not say."""
    match rule:
        case AffineRule() | LookupTableRule():
            return 1
        case AggregationRule() | CompositePartitionRule():
            return rule.constituent_count
        case SolverReferenceRule():
            return None
        case _:
            assert_never(rule)


def broken_wires(plan: Plan, method: Method, bound: Sequence[Asset]) -> list[Wire]:
    """The wires that today's assets and roles no longer allow."""
    by_id = {asset.id: asset for asset in bound}
    strange = {
        wire
        for required in method.required_roles
        if (asset_id := plan.role_bindings.get(required.role_name))
        for wire in strangers(required, asset_id, plan.wires)
    }
    return [wire for wire in plan.wires if wire in strange or not _holds(plan, wire, by_id)]


def _holds(plan: Plan, wire: Wire, by_id: Mapping[UUID, Asset]) -> bool:
    others = replace(plan, wires=tuple(each for each in plan.wires if each != wire))
    try:
        check_target_free(others, wire, by_id)
        check_joined(others, wire, by_id)
        check_axis(others, wire, by_id)
    except ConflictError:
        return False
    return True
