"""What a visit depends on, and the gates it must pass to be registered, arrive, start and resume."""

from uuid import UUID

from beamwright.contexts.federation.facility import (
    Facility,
    FacilityKind,
    FacilityStatus,
    facilities,
)
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import World
from beamwright.kernel.value import Value

from .policy import Policy, PolicyStatus, policies
from .surface import Surface, SurfaceStatus, surfaces
from .visit import Visit, visits


class VisitFacilityNotActiveError(ConflictError):
    """The visit's facility is decommissioned, or another installation's."""


class VisitSurfaceNotActiveError(ConflictError):
    """The visit's surface is retired, or nothing arrives on it from outside."""


class VisitPolicyNotActiveError(ConflictError):
    """The visit's policy is suspended or revoked."""


class VisitParentEndedError(ConflictError):
    """The visit's parent has ended."""


class VisitSurroundings(Value):
    """What a visit depends on."""

    facility: Facility
    surface: Surface
    policy: Policy | None = None
    parent: Visit | None = None


async def surroundings(
    world: World, facility_code: str, surface_id: UUID, policy_id: UUID | None, parent_id: UUID | None
) -> VisitSurroundings:
    return VisitSurroundings(
        facility=await world.load_claimed(facilities, "facility-code", facility_code),
        surface=await world.load(surfaces, surface_id),
        policy=None if policy_id is None else await world.load(policies, policy_id),
        parent=None if parent_id is None else await world.load(visits, parent_id),
    )


def check_facility(facility: Facility) -> None:
    """Gate: the facility is in use, and ours."""
    if facility.status is not FacilityStatus.ACTIVE or facility.kind is FacilityKind.PEER:
        raise VisitFacilityNotActiveError(
            f"Facility {facility.code} is a {facility.status} {facility.kind}; "
            "a visit needs an active facility of this installation.",
            facility_code=facility.code,
            kind=facility.kind.value,
            current=facility.status.value,
        )


def check_surface(surface: Surface) -> None:
    """Gate: people can reach the surface."""
    if surface.status is not SurfaceStatus.ACTIVE or surface.in_process:
        raise VisitSurfaceNotActiveError(
            "A visit needs an active surface that calls arrive on from outside.",
            surface_id=str(surface.id),
            current=surface.status.value,
        )


def check_policy(policy: Policy | None) -> None:
    """Gate: the visit's own policy counts."""
    if policy is not None and policy.status is not PolicyStatus.ACTIVE:
        raise VisitPolicyNotActiveError(
            f"The visit's policy is {policy.status}; resume it, or register the visit with another.",
            policy_id=str(policy.id),
            current=policy.status.value,
        )


def check_parent(parent: Visit | None) -> None:
    """Gate: the visit that this one is part of goes on."""
    if parent is not None and parent.ended:
        raise VisitParentEndedError(
            f"The parent visit {parent.code} is {parent.status}.",
            parent_id=str(parent.id),
            current=parent.status.value,
        )


def check_gates(around: VisitSurroundings) -> None:
    """The gates of every arrival, start and resumption."""
    check_facility(around.facility)
    check_surface(around.surface)
    check_policy(around.policy)
    check_parent(around.parent)
