"""Plan: its rules, its content hash and its status grids."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.asset import AssetLifecycle
from beamwright.contexts.equipment.values import Affordance
from beamwright.contexts.recipe.binding import Binding, Candidates
from beamwright.contexts.recipe.capability import CapabilityStatus
from beamwright.contexts.recipe.method import (
    Method,
    MethodParametersNotSubsetError,
    MethodStatus,
    RoleRequirement,
)
from beamwright.contexts.recipe.plan import (
    DeprecatePlan,
    InvalidPlanDeprecationReasonError,
    InvalidPlanWindowError,
    Plan,
    PlanCannotUpdateWindowError,
    PlanDefaultParametersUpdated,
    PlanRoleBound,
    PlanStatus,
    PlanVersionTagTakenError,
    PlanWindowUpdated,
    PlanWireAdded,
    UpdatePlanWindow,
    plan_hash,
    plans,
)
from beamwright.contexts.recipe.plan_definition import (
    DefinePlan,
    InvalidPlanAssetIdsError,
    InvalidPlanNameError,
    InvalidPlanVersionTagError,
    PlanAffordancesNotSatisfiedError,
    PlanAssembliesNotSatisfiedError,
    PlanAssetDecommissionedError,
    PlanAssetsRequiredError,
    PlanAssetsSpanFacilitiesError,
    PlanBoundCapabilityDeprecatedError,
    PlanBoundMethodDeprecatedError,
    PlanBoundPracticeDeprecatedError,
    PlanFacilityMismatchError,
    PlanFamiliesNotSatisfiedError,
    PlanGrounds,
    PlanRequiredRolesNotBoundError,
    PlanRevision,
    VersionPlan,
)
from beamwright.contexts.recipe.plan_parameters import (
    InvalidPlanDefaultParametersError,
    PlanCannotUpdateDefaultParametersError,
    PlanDefaultParametersStaleError,
    PlanWithMethod,
    UpdatePlanDefaultParameters,
)
from beamwright.contexts.recipe.practice import PracticeStatus
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.value import replace
from beamwright.kernel.versions import Deprecation, DeprecationReason, TaggedVersion
from tests.contexts.recipe.plan_examples import (
    AT_APS,
    BINDING,
    CAMERA,
    CAMERAS,
    DEFINED,
    DEPRECATED,
    EQUIPMENT,
    FLY_SCAN,
    PLAN,
    PRACTICE,
    REACH,
    STAGE,
    STAGE_FAMILY,
    STAGES,
    THE_CAMERA,
    THE_STAGE,
    TOMOGRAPHY,
    VERSIONED,
    WIRE,
    declaring,
    plan,
    requiring,
)
from tests.contexts.recipe.schemas import closed, energy
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, OCCASION, given, outcome

DEFINE = DefinePlan(name="Tomography in March", practice_id=PRACTICE, asset_ids=frozenset({CAMERA, STAGE}))
VERSION = VersionPlan(plan_id=PLAN, version_tag="2")
DEPRECATE = DeprecatePlan(plan_id=PLAN, reason_kind=DeprecationReason.OBSOLETE, reason="unused")
PATCH = UpdatePlanDefaultParameters(plan_id=PLAN, default_parameters_patch={"energy": 25})
START, END = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 8, tzinfo=UTC)
WINDOW = UpdatePlanWindow(plan_id=PLAN, window_start=START, window_end=END)

SATISFIED = PlanGrounds(binding=BINDING)
OUTDATED: Binding = replace(
    BINDING,
    practice=replace(AT_APS, status=PracticeStatus.DEPRECATED),
    method=replace(FLY_SCAN, status=MethodStatus.DEPRECATED),
    capability=replace(TOMOGRAPHY, status=CapabilityStatus.DEPRECATED),
)
SOLD = replace(THE_CAMERA, lifecycle=AssetLifecycle.DECOMMISSIONED)
ABROAD = replace(THE_STAGE, scope_facility_code="esrf")
# Nothing is as it should be; each row of a table of refusals mends what stands above it.
WORST: Binding = replace(
    BINDING,
    practice=replace(AT_APS, facility_code="esrf", family_ids=frozenset({UUID(int=99)})),
    method=replace(FLY_SCAN, needed_assembly_ids=frozenset({UUID(int=98)})),
    capability=replace(
        TOMOGRAPHY, required_affordances=TOMOGRAPHY.required_affordances | {Affordance.TRIGGERABLE}
    ),
    equipment=replace(EQUIPMENT, assets=(SOLD, ABROAD)),
)
IN_USE: Binding = replace(WORST, equipment=replace(EQUIPMENT, assets=(THE_CAMERA, ABROAD)))
TOGETHER: Binding = replace(WORST, equipment=EQUIPMENT)
COVERED: Binding = replace(TOGETHER, covering_facility_codes=frozenset({"aps", "esrf"}))
OF_FAMILIES: Binding = replace(COVERED, practice=AT_APS)
ASSEMBLED: Binding = replace(OF_FAMILIES, method=FLY_SCAN)

BINDINGS = [
    (OUTDATED, PlanBoundPracticeDeprecatedError),
    (replace(OUTDATED, practice=AT_APS), PlanBoundMethodDeprecatedError),
    (replace(OUTDATED, practice=AT_APS, method=FLY_SCAN), PlanBoundCapabilityDeprecatedError),
    (WORST, PlanAssetDecommissionedError),
    (IN_USE, PlanAssetsSpanFacilitiesError),
    (TOGETHER, PlanFacilityMismatchError),
    (COVERED, PlanFamiliesNotSatisfiedError),
    (OF_FAMILIES, PlanAssembliesNotSatisfiedError),
    (ASSEMBLED, PlanAffordancesNotSatisfiedError),
]


def test_define_a_plan() -> None:
    got = outcome(replace(DEFINE, name=" Tomography in March "), SATISFIED)
    assert got == [replace(DEFINED, plan_id=NEW_ID, content_hash=plan_hash(plan().content))]


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (replace(DEFINE, name=" ", asset_ids=frozenset()), InvalidPlanNameError),
        (replace(DEFINE, asset_ids=frozenset(), window_start=START), PlanAssetsRequiredError),
        (
            replace(DEFINE, asset_ids=frozenset(UUID(int=number) for number in range(201))),
            InvalidPlanAssetIdsError,
        ),
        (replace(DEFINE, window_start=START, default_parameters={"a": 1}), InvalidPlanWindowError),
        (replace(DEFINE, default_parameters={"a": 1}), InvalidPlanDefaultParametersError),
    ],
)
def test_define_refuses_values_before_anything_else(command: DefinePlan, refusal: type) -> None:
    assert outcome(command, PlanGrounds(binding=OUTDATED)) == refusal


@pytest.mark.parametrize(("binding", "refusal"), BINDINGS)
def test_define_refuses_a_binding_in_order(binding: Binding, refusal: type) -> None:
    assert outcome(DEFINE, PlanGrounds(binding=binding)) == refusal


def test_all_decommissioned_assets_are_listed() -> None:
    gone = replace(THE_STAGE, lifecycle=AssetLifecycle.DECOMMISSIONED)
    both = replace(BINDING, equipment=replace(EQUIPMENT, assets=(SOLD, gone)))
    with pytest.raises(PlanAssetDecommissionedError) as refused:
        DEFINE.decide(PlanGrounds(binding=both), OCCASION)
    assert refused.value.context["asset_ids"] == [str(CAMERA), str(STAGE)]


def test_an_asset_in_maintenance_can_be_bound() -> None:
    idle = replace(THE_CAMERA, lifecycle=AssetLifecycle.MAINTENANCE)
    grounds = PlanGrounds(binding=replace(BINDING, equipment=replace(EQUIPMENT, assets=(idle, THE_STAGE))))
    assert not isinstance(outcome(DEFINE, grounds), type)


def test_a_practice_of_a_site_reaches_the_facilities_that_it_covers() -> None:
    binding = replace(
        BINDING,
        practice=replace(AT_APS, facility_code="argonne"),
        covering_facility_codes=frozenset({"aps", "argonne"}),
    )
    assert not isinstance(outcome(DEFINE, PlanGrounds(binding=binding)), type)


def test_a_practice_without_a_site_fits_any_facility() -> None:
    binding = replace(
        BINDING, practice=replace(AT_APS, facility_code=None), covering_facility_codes=frozenset()
    )
    assert not isinstance(outcome(DEFINE, PlanGrounds(binding=binding)), type)


def test_a_missing_affordance_is_refused_with_candidates_until_a_family_gains_it() -> None:
    candidates = (Candidates(affordance=Affordance.TRIGGERABLE, asset_ids=(UUID(int=81),)),)
    with pytest.raises(PlanAffordancesNotSatisfiedError) as refused:
        DEFINE.decide(PlanGrounds(binding=ASSEMBLED, candidates=candidates), OCCASION)
    assert refused.value.context["missing_affordances"] == ["Triggerable"]
    assert refused.value.context["candidates"] == list(candidates)
    grown = replace(CAMERAS, affordances=CAMERAS.affordances | {Affordance.TRIGGERABLE})
    versioned = replace(ASSEMBLED, equipment=replace(EQUIPMENT, families=(grown, STAGES)))
    assert not isinstance(outcome(DEFINE, PlanGrounds(binding=versioned)), type)


def defaults(values: dict[str, Any], method: Method) -> Any:
    binding = replace(BINDING, method=method)
    return outcome(replace(DEFINE, default_parameters=values), PlanGrounds(binding=binding))


def test_defaults_without_a_schema_are_refused_with_advice() -> None:
    with pytest.raises(InvalidPlanDefaultParametersError, match=r"\{\} for no constraint"):
        replace(DEFINE, default_parameters={"energy": 20}).decide(SATISFIED, OCCASION)


def test_defaults_under_an_open_schema_are_accepted() -> None:
    (defined,) = defaults({"energy": 20}, declaring({}))
    assert (defined.default_parameters, defined.parameters_schema_version) == ({"energy": 20}, 1)


NEEDS_ENERGY = closed(energy={"type": "number"}, exposure={"type": "number"}) | {"required": ["energy"]}


def test_no_defaults_are_accepted_whatever_is_required() -> None:
    assert not isinstance(defaults({}, declaring(NEEDS_ENERGY)), type)


def test_some_defaults_need_all_that_is_required() -> None:
    grounds = PlanGrounds(binding=replace(BINDING, method=declaring(NEEDS_ENERGY)))
    with pytest.raises(InvalidPlanDefaultParametersError) as refused:
        replace(DEFINE, default_parameters={"exposure": 0.1}).decide(grounds, OCCASION)
    first = refused.value.context["violations"][0]
    assert (first["path"], first["keyword"]) == ("/energy", "required")


@pytest.mark.parametrize(
    ("start", "end"),
    [(START, None), (None, END), (END, START), (START, START)],
)
def test_a_window_has_a_start_and_a_later_end(start: datetime | None, end: datetime | None) -> None:
    got = outcome(replace(WINDOW, window_start=start, window_end=end), plan())
    assert got == InvalidPlanWindowError


def test_a_window_beyond_the_years_of_utc_is_refused() -> None:
    early = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    assert outcome(replace(WINDOW, window_start=early), plan()) == InvalidPlanWindowError


def windowed(**times: datetime | None) -> PlanWindowUpdated:
    content = replace(plan().content, **times)
    return PlanWindowUpdated(
        plan_id=PLAN,
        occurred_at=NOW,
        window_start=content.window_start,
        window_end=content.window_end,
        content_hash=plan_hash(content),
    )


WINDOWED = windowed(window_start=START, window_end=END)


def test_a_window_is_kept_in_utc() -> None:
    chicago = timezone(timedelta(hours=-6))
    typed = replace(WINDOW, window_start=START.astimezone(chicago), window_end=END.astimezone(chicago))
    (got,) = typed.decide(plan(), OCCASION)
    assert got == WINDOWED
    assert got.window_start is not None and got.window_start.tzinfo is UTC


def test_the_same_window_again_is_no_event() -> None:
    assert outcome(WINDOW, plan(WINDOWED)) == []


def test_a_window_is_taken_away() -> None:
    got = outcome(UpdatePlanWindow(plan_id=PLAN), plan(WINDOWED))
    assert got == [windowed(window_start=None, window_end=None)]


def stated(values: dict[str, Any], number: int) -> PlanDefaultParametersUpdated:
    return PlanDefaultParametersUpdated(
        plan_id=PLAN,
        occurred_at=NOW,
        default_parameters=values,
        parameters_schema_version=number,
        content_hash=plan_hash(replace(plan().content, default_parameters=values)),
    )


def patching(*schemas: dict[str, Any], after: tuple[Event, ...] = ()) -> PlanWithMethod:
    return PlanWithMethod(plan=plan(*after), method=declaring(*schemas))


def patch(**values: Any) -> UpdatePlanDefaultParameters:
    return replace(PATCH, default_parameters_patch=values)


TWO = closed(energy={"type": "number"}, exposure={"type": "number"})


def test_a_patch_changes_what_it_names() -> None:
    seen = patching(TWO, after=(stated({"energy": 20, "exposure": 1}, 1),))
    assert outcome(patch(energy=25, exposure=None), seen) == [stated({"energy": 25}, 1)]


def test_a_patch_that_changes_nothing_is_no_event() -> None:
    seen = patching(TWO, after=(stated({"energy": 20}, 1),))
    assert outcome(patch(energy=20, exposure=None), seen) == []


def test_a_patch_records_a_newer_schema_though_the_values_stay() -> None:
    seen = patching(TWO, closed(energy={"type": "number"}), after=(stated({"energy": 20}, 1),))
    assert outcome(patch(energy=20), seen) == [stated({"energy": 20}, 2)]


def test_true_is_not_one() -> None:
    seen = patching({}, after=(stated({"flag": 1}, 1),))
    assert outcome(patch(flag=True), seen) == [stated({"flag": True}, 1)]


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (patch(energy="high"), patching(TWO, after=(DEPRECATED,)), InvalidPlanDefaultParametersError),
        (patch(energy=1), patching(TWO, after=(DEPRECATED,)), PlanCannotUpdateDefaultParametersError),
    ],
)
def test_a_patch_is_refused_in_order(
    command: UpdatePlanDefaultParameters, seen: PlanWithMethod, refusal: type
) -> None:
    assert outcome(command, seen) == refusal


def exposed(code: str) -> dict[str, Any]:
    unit = {"system": "udunits", "code": code}
    return closed(energy={"type": "number"}, exposure={"type": "number", "unit": unit})


STALE = patching(exposed("ms"), exposed("s"), after=(stated({"exposure": 100}, 1),))


def test_a_default_in_a_unit_that_changed_must_be_restated() -> None:
    with pytest.raises(PlanDefaultParametersStaleError) as refused:
        patch(energy=25).decide(STALE, OCCASION)
    (stale,) = refused.value.context["stale"]
    assert (stale.path, stale.was.code, stale.now.code) == ("/exposure", "ms", "s")


def test_a_restated_default_is_accepted() -> None:
    assert outcome(patch(energy=25, exposure=0.1), STALE) == [stated({"exposure": 0.1, "energy": 25}, 2)]


def test_a_stale_default_restated_with_the_same_number_is_fresh() -> None:
    assert outcome(patch(exposure=100), STALE) == [stated({"exposure": 100}, 2)]


def test_a_stale_default_may_be_deleted() -> None:
    assert outcome(patch(exposure=None), STALE) == [stated({}, 2)]


def revising(*history: Event, binding: Binding = BINDING) -> PlanRevision:
    return PlanRevision(plan=plan(*history), grounds=PlanGrounds(binding=binding))


def test_version_fixes_the_present_content() -> None:
    assert outcome(VERSION, revising()) == [replace(VERSIONED, content_hash=plan_hash(plan().content))]


@pytest.mark.parametrize(
    ("tag", "seen", "refusal"),
    [
        ("initial", revising(DEPRECATED), InvalidPlanVersionTagError),
        ("2", revising(VERSIONED, binding=OUTDATED), PlanVersionTagTakenError),
        *(("2", revising(binding=binding), refusal) for binding, refusal in BINDINGS),
        (
            "2",
            revising(
                binding=replace(
                    BINDING,
                    method=requiring(
                        RoleRequirement(role_name="rotation", family_id=STAGE_FAMILY),
                        method=declaring(energy()),
                    ),
                    capability=replace(TOMOGRAPHY, parameters_schema=energy(minimum=5)),
                )
            ),
            MethodParametersNotSubsetError,
        ),
        (
            "2",
            revising(
                stated({"exposure": 100}, 1),
                binding=replace(
                    BINDING,
                    method=requiring(
                        RoleRequirement(role_name="rotation", family_id=STAGE_FAMILY), method=STALE.method
                    ),
                ),
            ),
            PlanRequiredRolesNotBoundError,
        ),
        (
            "2",
            revising(stated({"exposure": 100}, 1), binding=replace(BINDING, method=STALE.method)),
            PlanDefaultParametersStaleError,
        ),
    ],
)
def test_version_refuses_in_order(tag: str, seen: PlanRevision, refusal: type) -> None:
    assert outcome(replace(VERSION, version_tag=tag), seen) == refusal


def test_an_optional_role_may_stay_unbound() -> None:
    optional = RoleRequirement(role_name="rotation", family_id=STAGE_FAMILY, optional=True)
    seen = revising(binding=replace(BINDING, method=requiring(optional)))
    assert not isinstance(outcome(VERSION, seen), type)


def test_a_bound_role_lets_a_plan_be_versioned() -> None:
    required = RoleRequirement(role_name="rotation", family_id=STAGE_FAMILY)
    bound = PlanRoleBound(
        plan_id=PLAN, occurred_at=NOW, role_name="rotation", asset_id=STAGE, content_hash="3" * 64
    )
    seen = revising(bound, binding=replace(BINDING, method=requiring(required)))
    assert not isinstance(outcome(VERSION, seen), type)


WIRED = PlanWireAdded(plan_id=PLAN, occurred_at=NOW, wire=WIRE, content_hash="3" * 64)


def test_an_edit_after_a_version_leaves_the_versions_hash() -> None:
    edited = plan(VERSIONED, WIRED)
    assert edited.modified
    assert edited.versioned_content_hash == VERSIONED.content_hash


def test_a_plan_that_was_never_versioned_is_not_modified() -> None:
    assert not plan(WIRED).modified


def test_a_plan_as_it_was_versioned_is_not_modified() -> None:
    assert not plan(WIRED, VERSIONED).modified


@pytest.mark.parametrize(
    "edited",
    [
        plan(WIRED),
        plan(WINDOWED),
        plan(stated({"energy": 1}, 1)),
        plan(asset_ids=frozenset({CAMERA})),
        plan(name="Another"),
    ],
)
def test_every_part_of_the_content_counts_in_its_hash(edited: Plan) -> None:
    assert plan_hash(edited.content) != plan_hash(plan().content)


def test_tags_are_kept_with_their_stream_version() -> None:
    assert plan(WIRED, VERSIONED).version_tags == (TaggedVersion(version_tag="2", stream_version=3),)


def test_deprecate_needs_a_reason() -> None:
    got = outcome(replace(DEPRECATE, reason=" "), plan(DEPRECATED))
    assert got == InvalidPlanDeprecationReasonError


def test_deprecation_is_kept_with_its_reason() -> None:
    assert plan(DEPRECATED).deprecation == Deprecation(
        reason_kind=DeprecationReason.OBSOLETE, reason="unused"
    )


def test_a_plan_belongs_to_the_facility_of_its_assets() -> None:
    assert plans.belongs(given(plans, DEFINED)) == Belonging(facility_code="aps")


GRID = """
             deprecate    update-window
Defined      Deprecated   Defined
Versioned    Deprecated   Versioned
Deprecated   -            -
"""

GRID_OF_VERSIONS = """
             version
Defined      Versioned
Versioned    Versioned
Deprecated   -
"""

GRID_OF_PARAMETERS = """
             update-default-parameters
Defined      Defined
Versioned    Versioned
Deprecated   -
"""


def status(state: Plan) -> PlanStatus:
    return state.status


def test_status_grid() -> None:
    verbs = {"deprecate": DEPRECATE, "update-window": WINDOW}
    check_grid(GRID, plans, status=status, reach=REACH, verbs=verbs)
    assert outcome(WINDOW, plan(DEPRECATED)) == PlanCannotUpdateWindowError


def test_status_grid_of_versions() -> None:
    check_grid(
        GRID_OF_VERSIONS,
        plans,
        status=status,
        reach=REACH,
        verbs={"version": replace(VERSION, version_tag="3")},
        seen=lambda state: PlanRevision(plan=state, grounds=SATISFIED),
    )


def test_status_grid_of_parameters() -> None:
    check_grid(
        GRID_OF_PARAMETERS,
        plans,
        status=status,
        reach=REACH,
        verbs={"update-default-parameters": PATCH},
        seen=lambda state: PlanWithMethod(plan=state, method=declaring({})),
    )
