"""Permissions: asking the authorization seam without calling."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.access.actor import (
    ActorNotFoundError,
)
from beamwright.contexts.trust.authorization import Snapshot
from beamwright.contexts.trust.permissions import (
    EvaluateAuthorization,
    EvaluatePolicy,
    InvalidAuthorizationObjectError,
    ListPermissions,
    ListPermissionsOfOthers,
)
from beamwright.contexts.trust.policy import (
    GrantScope,
    GrantScopeKind,
    InvalidPolicyOperationError,
)
from beamwright.contexts.trust.surface import (
    SurfaceNotFoundError,
)
from beamwright.kernel.authority import AuthzReason, Caller
from beamwright.kernel.event import Belonging
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.wellknown import HTTP_SURFACE
from tests.contexts.trust.examples import SmallWorld
from tests.contexts.trust.premises import (
    ANN,
    ANN_MAY,
    BEN,
    LATER,
    NOWHERE,
    OPERATIONS,
    STOP_DENIED,
    A,
    B,
    at,
    authority,
    grant,
    policy,
)


class AskingWorld(SmallWorld):
    """A world with a real authority, and one run at a facility."""

    def __init__(self, snapshot: Snapshot, caller: UUID = ANN) -> None:
        super().__init__(*(state for states in snapshot.folded.values() for state in states.values()))
        self.authority: Any = snapshot
        self.operations = OPERATIONS
        self.caller = Caller(principal_id=caller, kind="human")
        self.surface_id = HTTP_SURFACE

    async def belonging(self, aggregate_name: str, id: UUID) -> Belonging:
        return {"Run": at("hutch"), "Policy": NOWHERE}[aggregate_name]


def answer(request: Any, snapshot: Snapshot) -> Any:
    world: Any = AskingWorld(snapshot)
    return asyncio.run(request.answer(world))


def evaluate(name: str = "stop_run", **fields: Any) -> EvaluateAuthorization:
    return EvaluateAuthorization(principal_id=ANN, command_name=name, surface_id=HTTP_SURFACE, **fields)


def test_evaluation_says_what_the_seam_would_say() -> None:
    found = answer(evaluate(), authority(ANN_MAY, STOP_DENIED))
    assert (found.reason, found.determining_policies) == (AuthzReason.GRANTED, (A,))


def test_evaluation_of_an_object_names_every_policy_whose_scope_holds() -> None:
    found = answer(evaluate(object_type="Run", object_id=A), authority(ANN_MAY, STOP_DENIED))
    assert (found.reason, found.determining_policies) == (AuthzReason.OUT_OF_REACH, (A, B))
    assert found.grant_ids == (UUID(int=501), UUID(int=502))


def test_evaluation_of_an_object_leaves_out_scopes_that_do_not_hold() -> None:
    abroad = grant(GrantScopeKind.FACILITY, facility_codes=["away"], number=2)
    snapshot = authority(ANN_MAY, policy(abroad, id=B, actor_ids=[ANN]))
    found = answer(evaluate(object_type="Run", object_id=A), snapshot)
    assert (found.reason, found.determining_policies) == (AuthzReason.GRANTED, (A,))


def test_reading_what_belongs_to_nothing_is_determined_by_every_grant() -> None:
    snapshot = authority(policy(grant(GrantScopeKind.OWNER), actor_ids=[ANN]))
    found = answer(evaluate("list_policies", object_type="Policy", object_id=A), snapshot)
    assert (found.reason, found.determining_policies) == (AuthzReason.GRANTED, (A,))


def test_evaluation_can_be_asked_for_another_time() -> None:
    snapshot = authority(policy(grant(until_at=LATER), actor_ids=[ANN]))
    reasons = [answer(evaluate(at=moment), snapshot).reason for moment in (None, LATER)]
    assert reasons == [AuthzReason.GRANTED, AuthzReason.NO_GRANT]


def test_evaluation_of_one_policy() -> None:
    request = EvaluatePolicy(policy_id=B, principal_id=ANN, command_name="start_run", surface_id=HTTP_SURFACE)
    assert answer(request, authority(ANN_MAY, STOP_DENIED)).reason is AuthzReason.NO_GRANT


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        (evaluate("fly_away"), InvalidPolicyOperationError),
        (evaluate(object_type="Run"), InvalidAuthorizationObjectError),
        (
            EvaluateAuthorization(principal_id=A, command_name="stop_run", surface_id=HTTP_SURFACE),
            ActorNotFoundError,
        ),
        (
            EvaluateAuthorization(principal_id=ANN, command_name="stop_run", surface_id=A),
            SurfaceNotFoundError,
        ),
    ],
)
def test_evaluation_refuses(request_: Any, refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        answer(request_, authority(ANN_MAY))


def test_permissions_are_listed_by_operation_with_their_scopes() -> None:
    own = policy(
        grant(GrantScopeKind.OWNER, operations=["access:*"], number=2), id=B, kinds=[ActorKind.HUMAN]
    )
    listed = answer(ListPermissions(), authority(own)).items
    assert [each.operation for each in listed] == sorted(OPERATIONS)
    [found] = [each for each in listed if each.operation == "get_actor"]
    assert (found.context, found.command, found.reason) == ("access", False, AuthzReason.GRANTED)
    assert (found.determining_policies, found.approval_required) == ((B,), False)
    assert found.scopes == (GrantScope(kind=GrantScopeKind.OWNER),)


def test_permissions_of_another_actor() -> None:
    snapshot = authority(policy(grant(operations=["run:@reads"]), actor_ids=[BEN]))
    listed = answer(ListPermissionsOfOthers(actor_id=BEN), snapshot).items
    assert [each.operation for each in listed if each.decision == "Allow"] == ["get_run", "list_runs"]


def test_permissions_of_an_unknown_actor() -> None:
    with pytest.raises(ActorNotFoundError):
        answer(ListPermissionsOfOthers(actor_id=A), authority())
