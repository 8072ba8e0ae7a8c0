"""Defining and versioning plans: a practice over assets that offer what it needs."""

from typing import Any
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, Value
from beamwright.kernel.versions import VersionTag, check_tag_unused, checked_tag

from .binding import Binding, Candidates, find_candidates, load_binding
from .capability import CapabilityStatus
from .method import Method, MethodStatus, check_parameters_within
from .plan import (
    LIFECYCLE,
    Plan,
    PlanContent,
    PlanDefined,
    PlanVersioned,
    PlanVersionTagTakenError,
    checked_window,
    plan_hash,
    plans,
)
from .plan_parameters import check_default_parameters, check_none_stale, stale_defaults
from .plan_roles import unbound_roles
from .practice import PracticeStatus, practices

MOST_ASSETS = 200


class InvalidPlanNameError(InvalidError):
    """The plan's name is blank or too long."""


class PlanAssetsRequiredError(InvalidError):
    """A plan binds at least one asset."""


class InvalidPlanAssetIdsError(InvalidError):
    """A plan binds too many assets."""


class InvalidPlanVersionTagError(InvalidError):
    """The version tag is malformed, or is “initial”."""


class PlanBoundPracticeDeprecatedError(ConflictError):
    """A deprecated practice takes no plan, and no new version of one."""


class PlanBoundMethodDeprecatedError(ConflictError):
    """The practice's method is deprecated."""


class PlanBoundCapabilityDeprecatedError(ConflictError):
    """The method's capability is deprecated."""


class PlanAssetDecommissionedError(ConflictError):
    """A plan does not bind decommissioned assets."""


class PlanAssetsSpanFacilitiesError(ConflictError):
    """The assets belong to more than one facility."""


class PlanFacilityMismatchError(ConflictError):
    """The practice is of a site that does not cover the assets' facility."""


class PlanFamiliesNotSatisfiedError(ConflictError):
    """The assets lack families that the method or the practice needs."""


class PlanAssembliesNotSatisfiedError(ConflictError):
    """No fixture of the assets realises an assembly that the method needs."""


class PlanAffordancesNotSatisfiedError(ConflictError):
    """The families of the assets do not offer what the capability requires."""


class PlanRequiredRolesNotBoundError(ConflictError):
    """A role that the method requires, and that is not optional, is bound to no asset."""


class PlanGrounds(Value):
    """The binding of a new plan, and who could do what its assets cannot."""

    binding: Binding
    candidates: tuple[Candidates, ...] = ()


@plans.operation("POST /plans", creates=True)
class DefinePlan(Command[PlanGrounds]):
    """Bind a practice to assets, with default parameters and, where given, a window for its runs."""

    name: text.Name
    practice_id: UUID
    asset_ids: frozenset[UUID]
    default_parameters: dict[str, Any] = {}
    window_start: Time | None = None
    window_end: Time | None = None

    async def gather(self, world: World) -> PlanGrounds:
        practice = await world.load(practices, self.practice_id)
        binding = await load_binding(world, practice, self.asset_ids)
        return PlanGrounds(binding=binding, candidates=await find_candidates(world, binding))

    def decide(self, seen: PlanGrounds, occasion: Occasion) -> PlanDefined:
        binding, method = seen.binding, seen.binding.method
        content = self.checked(method)
        check_bindable(seen)
        return PlanDefined(
            plan_id=occasion.new_id,
            occurred_at=occasion.now,
            name=content.name,
            practice_id=content.practice_id,
            method_id=method.id,
            capability_id=binding.capability.id,
            facility_code=binding.facility_codes[0],
            asset_ids=content.asset_ids,
            default_parameters=content.default_parameters,
            parameters_schema_version=method.parameters_schema_version,
            window_start=content.window_start,
            window_end=content.window_end,
            content_hash=plan_hash(content),
            asset_family_ids={asset.id: asset.family_ids for asset in binding.assets},
        )

    def checked(self, method: Method) -> PlanContent:
        """The plan's content, or the first refusal of a value."""
        name = text.name(self.name, InvalidPlanNameError)
        check_asset_count(self.asset_ids)
        start, end = checked_window(self.window_start, self.window_end)
        check_default_parameters(method.parameters_schema, self.default_parameters)
        return PlanContent(
            name=name,
            practice_id=self.practice_id,
            method_id=method.id,
            asset_ids=self.asset_ids,
            default_parameters=self.default_parameters,
            window_start=start,
            window_end=end,
        )


class PlanRevision(Value):
    """A plan, and what it is bound to today."""

    plan: Plan
    grounds: PlanGrounds


@plans.operation("POST /plans/{plan_id}/version")
class VersionPlan(Command[PlanRevision]):
    """Give a plan's present content a version, after checking that its binding still holds."""

    plan_id: UUID
    version_tag: VersionTag

    async def gather(self, world: World) -> PlanRevision:
        plan = await world.load(plans, self.plan_id)
        practice = await world.load(practices, plan.practice_id)
        binding = await load_binding(world, practice, plan.asset_ids)
        grounds = PlanGrounds(binding=binding, candidates=await find_candidates(world, binding))
        return PlanRevision(plan=plan, grounds=grounds)

    def decide(self, seen: PlanRevision, occasion: Occasion) -> PlanVersioned:
        plan, binding = seen.plan, seen.grounds.binding
        tag = checked_tag(self.version_tag, InvalidPlanVersionTagError)
        LIFECYCLE.check(PlanVersioned, plan.status, plan.id)
        check_tag_unused(plan.version_tags, tag, plan.id, PlanVersionTagTakenError)
        check_bindable(seen.grounds)
        check_parameters_within(binding.method.parameters_schema, binding.capability.parameters_schema)
        check_roles_bound(plan, binding.method)
        check_none_stale(stale_defaults(plan, binding.method))
        return PlanVersioned(
            plan_id=plan.id,
            occurred_at=occasion.now,
            version_tag=tag,
            content_hash=plan_hash(plan.content),
        )


def check_asset_count(asset_ids: frozenset[UUID]) -> None:
    if not asset_ids:
        raise PlanAssetsRequiredError("Name the assets that the plan is bound to.")
    if len(asset_ids) > MOST_ASSETS:
        raise InvalidPlanAssetIdsError(
            f"A plan binds at most {MOST_ASSETS} assets, not {len(asset_ids)}.", most=MOST_ASSETS
        )


def check_bindable(grounds: PlanGrounds) -> None:
    """Gate: what the plan is bound to is in use, in one place, and offers all that is needed."""
    check_in_use(grounds.binding)
    check_one_facility(grounds.binding)
    check_satisfied(grounds.binding, grounds.candidates)


def check_in_use(binding: Binding) -> None:
    """Gate: nothing above the plan is deprecated, and no asset decommissioned."""
    practice, method, capability = binding.practice, binding.method, binding.capability
    if practice.status is PracticeStatus.DEPRECATED:
        raise PlanBoundPracticeDeprecatedError(
            f"Practice {practice.name} is deprecated; choose another.", practice_id=str(practice.id)
        )
    if method.status is MethodStatus.DEPRECATED:
        raise PlanBoundMethodDeprecatedError(
            f"Method {method.name} is deprecated; choose a practice of another.", method_id=str(method.id)
        )
    if capability.status is CapabilityStatus.DEPRECATED:
        raise PlanBoundCapabilityDeprecatedError(
            f"Capability {capability.code} is deprecated; choose a practice of another.",
            capability_id=str(capability.id),
        )
    gone = [asset for asset in binding.assets if asset.decommissioned]
    if gone:
        raise PlanAssetDecommissionedError(
            f"Decommissioned assets are not bound: {', '.join(asset.name for asset in gone)}.",
            asset_ids=sorted(str(asset.id) for asset in gone),
        )


def check_one_facility(binding: Binding) -> None:
    """Gate: the assets are of one facility, which the practice's site covers."""
    own, site = ", ".join(binding.facility_codes), binding.practice.facility_code
    if len(binding.facility_codes) > 1:
        raise PlanAssetsSpanFacilitiesError(
            f"The assets of a plan belong to one facility, not to {own}.",
            facility_codes=list(binding.facility_codes),
        )
    if site is not None and site not in binding.covering_facility_codes:
        raise PlanFacilityMismatchError(
            f"Practice {binding.practice.name} is of {site}, which does not cover {own}.",
            practice_facility_code=site,
            facility_code=own,
        )


def check_satisfied(binding: Binding, candidates: tuple[Candidates, ...]) -> None:
    """Gate: the assets together offer the families, assemblies and affordances that are needed."""
    if missing := [str(id) for id in binding.missing_family_ids]:
        raise PlanFamiliesNotSatisfiedError(
            f"No asset of the plan has the families {', '.join(missing)}.", missing_family_ids=missing
        )
    if missing := [str(id) for id in binding.missing_assembly_ids]:
        raise PlanAssembliesNotSatisfiedError(
            f"No asset of the plan is part of a registered fixture of the assemblies {', '.join(missing)}.",
            missing_assembly_ids=missing,
        )
    if missing := list(binding.missing_affordances):
        raise PlanAffordancesNotSatisfiedError(
            f"Nothing among the assets is {', '.join(missing)}; bind an asset that is.",
            missing_affordances=missing,
            candidates=list(candidates),
        )


def check_roles_bound(plan: Plan, method: Method) -> None:
    """Gate: every part of the method is taken."""
    if unbound := unbound_roles(plan, method):
        raise PlanRequiredRolesNotBoundError(
            f"Bind the roles {', '.join(unbound)} first, with bind_plan_role.", role_names=unbound
        )
