"""Permissions: what the authorization seam would answer, asked without calling."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from beamwright.contexts.access.actor import Actor, actors
from beamwright.kernel.authority import (
    AuthzDecision,
    AuthzReason,
    AuthzResult,
    Caller,
    Candidate,
    Reach,
)
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.event import Belonging
from beamwright.kernel.operation import Operation, Query, World
from beamwright.kernel.value import Time, Value, replace
from beamwright.kernel.wellknown import HTTP_SURFACE

from .policy import GrantScope, Policy, named_operation, policies
from .surface import Surface, surfaces


class InvalidAuthorizationObjectError(InvalidError):
    """An object is named by its type and its id together."""


class AuthorizationEvaluation(Value):
    """What the authorization seam would answer, and which grants make it so."""

    decision: AuthzDecision
    reason: AuthzReason
    determining_policies: tuple[UUID, ...]
    grant_ids: tuple[UUID, ...]


class Evaluation(Query[AuthorizationEvaluation]):
    """A question to the authorization seam: who, what, through which door, on which object, and when."""

    principal_id: UUID
    command_name: str
    surface_id: UUID
    conduit_id: UUID | None = None
    object_type: str | None = None
    object_id: UUID | None = None
    at: Time | None = None

    async def evaluated(self, world: World, policy_id: UUID | None) -> AuthorizationEvaluation:
        """The answer of one policy alone, or that of the whole authority."""
        caller = caller_as(await world.load(actors, self.principal_id))
        surface = await world.load(surfaces, self.surface_id)
        operation = named_operation(self.command_name, world.operations)
        call = caller, operation.name, self.conduit_id or surface.conduit_id, surface.id, self.at or world.now
        if policy_id is None:
            result = world.authority.authorize(*call)
        else:
            result = world.authority.evaluate_policy(policy_id, *call)
        return evaluation(await self.narrowed(world, operation, result))

    async def narrowed(self, world: World, operation: Operation, result: AuthzResult) -> AuthzResult:
        """The answer for the object, when one is named."""
        if self.object_type is None and self.object_id is None:
            return result
        if self.object_type is None or self.object_id is None:
            raise InvalidAuthorizationObjectError("Give object_type and object_id together, or neither.")
        object = await world.belonging(self.object_type, self.object_id)
        return narrowed(result, object, reading=operation.reads)


def narrowed(result: AuthzResult, object: Belonging, *, reading: bool) -> AuthzResult:
    """What `result` means for one object: the policies and grants whose scope holds for it."""
    open_to_readers = reading and object.installation_wide and not result.reach.deny
    if not result.allowed or open_to_readers:
        return result
    held = [each for each in (*result.reach.allow, *result.reach.deny) if each.span.holds(object)]
    about_object = replace(
        result,
        determining_policies=result.reach.determining(object),
        grant_ids=tuple(sorted(candidate.grant_id for candidate in held)),
    )
    if result.reach.holds(object, reading=reading):
        return about_object
    return replace(about_object, decision=AuthzDecision.DENY, reason=AuthzReason.OUT_OF_REACH, reach=Reach())


def evaluation(result: AuthzResult) -> AuthorizationEvaluation:
    return AuthorizationEvaluation(
        decision=result.decision,
        reason=result.reason,
        determining_policies=result.determining_policies,
        grant_ids=result.grant_ids,
    )


def caller_as(actor: Actor) -> Caller:
    """A call by this actor with a token that narrows nothing."""
    return Caller(principal_id=actor.id, kind=actor.kind)


@policies.operation("GET /policies/{policy_id}/evaluate")
class EvaluatePolicy(Evaluation):
    """Ask what one policy alone says of a call."""

    policy_id: UUID

    async def answer(self, world: World) -> AuthorizationEvaluation:
        await world.load(policies, self.policy_id)
        return await self.evaluated(world, self.policy_id)


@policies.operation("GET /authorization/evaluate")
class EvaluateAuthorization(Evaluation):
    """Ask what authorization would answer to a call, without making it."""

    async def answer(self, world: World) -> AuthorizationEvaluation:
        return await self.evaluated(world, None)


class Permission(Value):
    """One operation: whether a principal may call it, why, and on which objects."""

    operation: str
    context: str
    command: bool
    decision: AuthzDecision
    reason: AuthzReason
    determining_policies: tuple[UUID, ...]
    scopes: tuple[GrantScope, ...]
    approval_required: bool = False


class PermissionList(Value):
    """Every operation, sorted by name."""

    items: list[Permission]


@policies.operation("GET /permissions")
class ListPermissions(Query[PermissionList]):
    """List what the caller may call through a surface."""

    surface_id: UUID | None = None

    async def answer(self, world: World) -> PermissionList:
        surface = await world.load(surfaces, self.surface_id or world.surface_id)
        return permissions(world, world.caller, surface)


@policies.operation("GET /actors/{actor_id}/permissions")
class ListPermissionsOfOthers(Query[PermissionList]):
    """List what another actor may call through a surface."""

    actor_id: UUID
    surface_id: UUID | None = None

    async def answer(self, world: World) -> PermissionList:
        actor = await world.load(actors, self.actor_id)
        surface = await world.load(surfaces, self.surface_id or HTTP_SURFACE)
        return permissions(world, caller_as(actor), surface)


def permissions(world: World, caller: Caller, surface: Surface) -> PermissionList:
    """The answer of the authorization seam for each operation."""
    return PermissionList(
        items=[
            permission(world, operation, caller, surface, world.now)
            for _, operation in sorted(world.operations.items())
        ]
    )


def permission(
    world: World, operation: Operation, caller: Caller, surface: Surface, now: datetime
) -> Permission:
    result = world.authority.authorize(caller, operation.permission, surface.conduit_id, surface.id, now)
    return Permission(
        operation=operation.name,
        context=operation.context,
        command=not operation.reads,
        decision=result.decision,
        reason=result.reason,
        determining_policies=result.determining_policies,
        scopes=scopes(world, result.reach.allow),
    )


def scopes(world: World, candidates: Iterable[Candidate]) -> tuple[GrantScope, ...]:
    """The scopes of the grants that allow, each once."""
    found: list[GrantScope] = []
    for candidate in candidates:
        policy = world.authority.state("Policy", candidate.policy_id, Policy)
        scope = policy and policy.grants[candidate.grant_id].scope
        if scope and scope not in found:
            found.append(scope)
    return tuple(found)
