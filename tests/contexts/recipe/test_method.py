"""Method: its rules and status grid."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.family import Family, FamilyDeprecatedError, FamilyStatus
from beamwright.contexts.equipment.role import Role, RoleDeprecatedError, RoleStatus
from beamwright.contexts.equipment.values import PortDirection
from beamwright.contexts.recipe.capability import Capability, CapabilityStatus, ExecutorShape
from beamwright.contexts.recipe.capability_reads import judged_method
from beamwright.contexts.recipe.launch import (
    InvalidLaunchSpecError,
    LaunchArg,
    LaunchArgStyle,
    LaunchSpec,
)
from beamwright.contexts.recipe.method import (
    DeprecateMethod,
    ExecutionPattern,
    InvalidMethodDeprecationReasonError,
    InvalidMethodIterativeStoppingFieldError,
    InvalidMethodMonotoneQualityError,
    InvalidMethodNameError,
    InvalidMethodNeededAssemblyIdsError,
    InvalidMethodNeededFamilyIdsError,
    InvalidMethodNeededSuppliesError,
    InvalidMethodParametersSchemaError,
    InvalidMethodVersionTagError,
    InvalidPortRequirementError,
    InvalidRoleRequirementError,
    Method,
    MethodBoundCapabilityDeprecatedError,
    MethodCannotUpdateLaunchSpecError,
    MethodCannotVersionError,
    MethodCapabilityExecutorMismatchError,
    MethodContent,
    MethodDefined,
    MethodDeprecated,
    MethodLaunchArgNotBooleanError,
    MethodLaunchArgUnknownParameterError,
    MethodLaunchSpecUpdated,
    MethodParametersDropLaunchArgError,
    MethodParametersNotSubsetError,
    MethodParametersSchemaUpdated,
    MethodParametersUnitChangedError,
    MethodRequiredRoleAdded,
    MethodRequiredRoleRemoved,
    MethodRoleNameAlreadyDeclaredError,
    MethodRoleNameNotDeclaredError,
    MethodStatus,
    MethodVersioned,
    MethodVersionTagTakenError,
    PortRequirement,
    RoleRequirement,
    UpdateMethodLaunchSpec,
    method_hash,
    methods,
)
from beamwright.contexts.recipe.method_definition import (
    DefineMethod,
    MethodGrounds,
    MethodWithCapability,
    UpdateMethodParametersSchema,
    VersionMethod,
)
from beamwright.contexts.recipe.method_roles import (
    AddMethodRequiredRole,
    MethodWithRole,
    RemoveMethodRequiredRole,
)
from beamwright.contexts.recipe.parameters_schema import every_schema
from beamwright.kernel.errors import DomainError
from beamwright.kernel.event import Event
from beamwright.kernel.operation import Command
from beamwright.kernel.value import replace
from beamwright.kernel.versions import Deprecation, DeprecationReason, TaggedVersion
from tests.contexts.recipe.schemas import MALFORMED, closed, energy
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, OCCASION, given, outcome

METHOD, CAPABILITY, ASSEMBLY = UUID(int=2), UUID(int=3), UUID(int=4)
ELECTRONVOLT = {"system": "udunits", "code": "eV"}

OPEN = Capability(
    id=CAPABILITY,
    code="beamwright.capability.tomography",
    name="Tomography",
    description=None,
    required_affordances=frozenset(),
    executor_shapes=frozenset({ExecutorShape.METHOD}),
)
BOUNDED = replace(OPEN, parameters_schema=energy(minimum=5, maximum=40), parameters_schema_version=1)
WITHDRAWN = replace(OPEN, status=CapabilityStatus.DEPRECATED)
BY_PROCEDURE = replace(OPEN, executor_shapes=frozenset({ExecutorShape.PROCEDURE}))
CAMERA = Family(id=UUID(int=5), name="Camera", affordances=frozenset(), presented_role_ids=frozenset())
OLD_CAMERA = replace(CAMERA, status=FamilyStatus.DEPRECATED)
DETECTOR = Role(
    id=UUID(int=6),
    name="Detector",
    description="Yields frames.",
    required_affordances=frozenset(),
    optional_affordances=frozenset(),
    produces=frozenset(),
    consumes=frozenset(),
)
OLD_DETECTOR = replace(DETECTOR, status=RoleStatus.DEPRECATED)

CONTENT = MethodContent(
    name="Fly scan",
    capability_id=CAPABILITY,
    needed_family_ids=frozenset({CAMERA.id}),
    needed_supplies=frozenset({"photon_beam"}),
    needed_assembly_ids=frozenset({ASSEMBLY}),
    execution_pattern=ExecutionPattern.BATCH,
    monotone_quality=False,
    resumable_from_checkpoint=True,
    parameters_schema=None,
)


def defined(content: MethodContent = CONTENT) -> MethodDefined:
    return MethodDefined(
        method_id=METHOD,
        occurred_at=NOW,
        name=content.name,
        capability_id=content.capability_id,
        execution_pattern=content.execution_pattern,
        needed_family_ids=content.needed_family_ids,
        needed_supplies=content.needed_supplies,
        needed_assembly_ids=content.needed_assembly_ids,
        monotone_quality=content.monotone_quality,
        resumable_from_checkpoint=content.resumable_from_checkpoint,
        parameters_schema=content.parameters_schema,
        parameters_schema_version=0 if content.parameters_schema is None else 1,
        content_hash=method_hash(content),
    )


def versioned(content: MethodContent = CONTENT, number: int = 0) -> MethodVersioned:
    return MethodVersioned(
        method_id=METHOD,
        occurred_at=NOW,
        version_tag="2",
        parameters_schema=content.parameters_schema,
        parameters_schema_version=number,
        content_hash=method_hash(content),
    )


def schema_updated(schema: dict[str, Any], number: int) -> MethodParametersSchemaUpdated:
    return MethodParametersSchemaUpdated(
        method_id=METHOD,
        occurred_at=NOW,
        parameters_schema=schema,
        parameters_schema_version=number,
        content_hash=method_hash(replace(CONTENT, parameters_schema=schema)),
    )


def launching(spec: LaunchSpec | None, content: MethodContent = CONTENT) -> MethodLaunchSpecUpdated:
    return MethodLaunchSpecUpdated(
        method_id=METHOD,
        occurred_at=NOW,
        launch_spec=spec,
        content_hash=method_hash(replace(content, launch_spec=spec)),
    )


DEFINED, VERSIONED = defined(), versioned()
WITH_ENERGY = replace(CONTENT, parameters_schema=energy())
DECLARED = defined(WITH_ENERGY)
ITERATING = replace(DECLARED, execution_pattern=ExecutionPattern.ITERATIVE)
DEPRECATED = MethodDeprecated(
    method_id=METHOD, occurred_at=NOW, reason_kind=DeprecationReason.DEFECTIVE, reason="drifts"
)

PASSING_ENERGY = LaunchSpec(base_command=("scan",), args=(LaunchArg(name="energy", flag="--energy"),))
PASSING_A_FLAG = LaunchSpec(
    base_command=("scan",),
    args=(LaunchArg(name="energy", flag="--energy", style=LaunchArgStyle.FLAG_ONLY),),
)
NO_COMMAND = LaunchSpec(base_command=())

DEFINE = DefineMethod(
    name="Fly scan",
    capability_id=CAPABILITY,
    execution_pattern=ExecutionPattern.BATCH,
    needed_family_ids=frozenset({CAMERA.id}),
    needed_supplies=frozenset({"photon_beam"}),
    needed_assembly_ids=frozenset({ASSEMBLY}),
    resumable_from_checkpoint=True,
)
ITERATE = replace(DEFINE, execution_pattern=ExecutionPattern.ITERATIVE)
VERSION = VersionMethod(method_id=METHOD, version_tag="2")
DEPRECATE = DeprecateMethod(method_id=METHOD, reason_kind=DeprecationReason.DEFECTIVE, reason="drifts")
LAUNCH = UpdateMethodLaunchSpec(method_id=METHOD, launch_spec=PASSING_ENERGY)

GROUNDS = MethodGrounds(capability=OPEN, families=(CAMERA,))


def update(schema: dict[str, Any] | None) -> UpdateMethodParametersSchema:
    return UpdateMethodParametersSchema(method_id=METHOD, parameters_schema=schema)


def of(capability: Capability, *history: Event) -> MethodWithCapability:
    return MethodWithCapability(method=given(methods, *history), capability=capability)


def refusal_of(command: Command[Any], seen: Any) -> DomainError:
    with pytest.raises(DomainError) as refused:
        command.decide(seen, OCCASION)
    return refused.value


def test_define_without_a_schema_has_schema_version_zero() -> None:
    command = replace(DEFINE, name=" Fly scan ", needed_supplies=frozenset({" photon_beam "}))
    assert outcome(command, GROUNDS) == [replace(DEFINED, method_id=NEW_ID)]


def test_define_with_a_schema_has_schema_version_one() -> None:
    got = outcome(replace(DEFINE, parameters_schema=energy()), GROUNDS)
    assert got == [replace(DECLARED, method_id=NEW_ID)]


TOO_MANY = frozenset(UUID(int=number) for number in range(51))


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (replace(DEFINE, name=" ", needed_family_ids=TOO_MANY), InvalidMethodNameError),
        (replace(DEFINE, name="x" * 201), InvalidMethodNameError),
        (
            replace(DEFINE, needed_family_ids=TOO_MANY, needed_supplies=frozenset({" "})),
            InvalidMethodNeededFamilyIdsError,
        ),
        (replace(DEFINE, needed_assembly_ids=TOO_MANY), InvalidMethodNeededAssemblyIdsError),
        (
            replace(DEFINE, needed_supplies=frozenset({" "}), monotone_quality=True),
            InvalidMethodNeededSuppliesError,
        ),
        (replace(DEFINE, needed_supplies=frozenset({"x" * 51})), InvalidMethodNeededSuppliesError),
        (
            replace(DEFINE, needed_supplies=frozenset(str(number) for number in range(21))),
            InvalidMethodNeededSuppliesError,
        ),
        (
            replace(DEFINE, monotone_quality=True, parameters_schema=MALFORMED),
            InvalidMethodMonotoneQualityError,
        ),
        (replace(ITERATE, parameters_schema=MALFORMED), InvalidMethodParametersSchemaError),
        (replace(ITERATE, parameters_schema=energy()), InvalidMethodIterativeStoppingFieldError),
    ],
)
def test_define_refuses_values_in_order(command: DefineMethod, refusal: type) -> None:
    seen = MethodGrounds(capability=WITHDRAWN, families=(OLD_CAMERA,))
    assert outcome(command, seen) == refusal


@pytest.mark.parametrize(
    ("capability", "family", "refusal"),
    [
        (
            replace(BY_PROCEDURE, status=CapabilityStatus.DEPRECATED),
            OLD_CAMERA,
            MethodBoundCapabilityDeprecatedError,
        ),
        (BY_PROCEDURE, OLD_CAMERA, MethodCapabilityExecutorMismatchError),
        (BOUNDED, OLD_CAMERA, FamilyDeprecatedError),
        (BOUNDED, CAMERA, MethodParametersNotSubsetError),
    ],
)
def test_define_refuses_what_it_is_bound_to_in_order(
    capability: Capability, family: Family, refusal: type
) -> None:
    seen = MethodGrounds(capability=capability, families=(family,))
    assert outcome(replace(DEFINE, parameters_schema={}), seen) == refusal


def test_only_an_iterative_method_may_be_monotone() -> None:
    got = outcome(replace(ITERATE, monotone_quality=True), GROUNDS)
    assert not isinstance(got, type)


@pytest.mark.parametrize(
    "name",
    [
        *("max_iter", "num_iter", "nsteps", "n_trials", "max_epochs", "max_steps"),
        *("tol", "rtol", "atol", "ftol", "xtol"),
    ],
)
def test_an_iterative_method_declares_when_to_stop(name: str) -> None:
    schema = closed(**{name: {"type": "number"}})
    got = outcome(replace(ITERATE, parameters_schema=schema), GROUNDS)
    assert not isinstance(got, type)


@pytest.mark.parametrize("schema", [None, {}])
def test_without_a_closed_schema_an_iterative_method_need_not_say_when_to_stop(
    schema: dict[str, Any] | None,
) -> None:
    got = outcome(replace(ITERATE, parameters_schema=schema), GROUNDS)
    assert not isinstance(got, type)


def test_a_bound_that_the_capability_states_must_be_stated() -> None:
    command = replace(DEFINE, parameters_schema=energy(maximum=30))
    refusal = refusal_of(command, replace(GROUNDS, capability=BOUNDED))
    assert type(refusal) is MethodParametersNotSubsetError
    assert refusal.context == {"path": "/properties/energy", "keyword": "minimum", "inner": None, "outer": 5}


@pytest.mark.parametrize("kind", ["number", "integer"])
def test_tighter_parameters_are_accepted(kind: str) -> None:
    command = replace(DEFINE, parameters_schema=energy(type=kind, minimum=10, maximum=30))
    assert not isinstance(outcome(command, replace(GROUNDS, capability=BOUNDED)), type)


def test_parameters_in_another_unit_are_refused() -> None:
    command = replace(DEFINE, parameters_schema=energy(minimum=10, maximum=30, unit=ELECTRONVOLT))
    refusal = refusal_of(command, replace(GROUNDS, capability=BOUNDED))
    assert (type(refusal), refusal.context["keyword"]) == (MethodParametersNotSubsetError, "unit")


def test_a_method_without_parameters_fits_any_capability() -> None:
    got = outcome(DEFINE, replace(GROUNDS, capability=BOUNDED))
    assert got == [replace(DEFINED, method_id=NEW_ID)]


def test_a_capability_that_was_narrowed_meanwhile_decides_anew() -> None:
    command = replace(DEFINE, parameters_schema=energy(minimum=5, maximum=40))
    narrowed = replace(BOUNDED, parameters_schema=energy(minimum=5, maximum=20))
    assert not isinstance(outcome(command, replace(GROUNDS, capability=BOUNDED)), type)
    assert outcome(command, replace(GROUNDS, capability=narrowed)) == MethodParametersNotSubsetError


def test_a_dependent_method_says_where_it_goes_beyond_the_capability() -> None:
    judged = judged_method(given(methods, DECLARED), BOUNDED.parameters_schema)
    assert not judged.subset
    assert judged.first_difference and judged.first_difference.keyword == "minimum"


@pytest.mark.parametrize("schema", [None, {}])
def test_a_dependent_method_fits_a_capability_without_constraint(schema: Any) -> None:
    judged = judged_method(given(methods, DECLARED), schema)
    assert (judged.subset, judged.first_difference) == (True, None)


def test_version_keeps_schema_and_number() -> None:
    assert outcome(VERSION, of(OPEN, DECLARED)) == [versioned(WITH_ENERGY, 1)]


def test_version_may_declare_the_first_schema() -> None:
    got = outcome(replace(VERSION, parameters_schema={}), of(OPEN, DEFINED))
    assert got == [versioned(replace(CONTENT, parameters_schema={}), 1)]


def test_version_may_change_a_unit() -> None:
    changed = energy(unit=ELECTRONVOLT)
    got = outcome(replace(VERSION, parameters_schema=changed), of(OPEN, DECLARED))
    assert got == [versioned(replace(CONTENT, parameters_schema=changed), 2)]


def test_a_deprecated_capability_does_not_stop_a_version() -> None:
    assert outcome(VERSION, of(WITHDRAWN, DEFINED)) == [VERSIONED]


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (
            replace(VERSION, version_tag="-", parameters_schema=MALFORMED),
            of(OPEN, DEFINED, DEPRECATED),
            InvalidMethodVersionTagError,
        ),
        (
            replace(VERSION, parameters_schema=MALFORMED),
            of(OPEN, ITERATING, DEPRECATED),
            InvalidMethodParametersSchemaError,
        ),
        (
            replace(VERSION, parameters_schema=None),
            of(OPEN, DEFINED),
            InvalidMethodParametersSchemaError,
        ),
        (
            replace(VERSION, parameters_schema=energy()),
            of(OPEN, ITERATING, DEPRECATED),
            InvalidMethodIterativeStoppingFieldError,
        ),
        (VERSION, of(BOUNDED, DECLARED, VERSIONED, DEPRECATED), MethodCannotVersionError),
        (VERSION, of(BOUNDED, DECLARED, VERSIONED), MethodVersionTagTakenError),
        (VERSION, of(BOUNDED, DECLARED, launching(PASSING_ENERGY)), MethodParametersNotSubsetError),
        (
            replace(VERSION, parameters_schema=closed()),
            of(OPEN, DECLARED, launching(PASSING_ENERGY)),
            MethodParametersDropLaunchArgError,
        ),
    ],
)
def test_version_refuses_in_order(command: VersionMethod, seen: MethodWithCapability, refusal: type) -> None:
    assert outcome(command, seen) == refusal


def test_version_tags_are_kept_with_their_stream_version() -> None:
    method = given(methods, DEFINED, VERSIONED)
    assert method.version_tag == "2"
    assert method.version_tags == (TaggedVersion(version_tag="2", stream_version=2),)


def test_update_declares_the_first_schema() -> None:
    assert outcome(update(energy()), of(OPEN, DEFINED)) == [schema_updated(energy(), 1)]


def test_update_raises_the_number() -> None:
    bounded = energy(minimum=1)
    assert outcome(update(bounded), of(OPEN, DECLARED)) == [schema_updated(bounded, 2)]


def test_update_with_the_same_schema_is_a_no_op() -> None:
    assert outcome(update(energy()), of(BOUNDED, DECLARED)) == []


@pytest.mark.parametrize(
    ("schema", "seen", "refusal"),
    [
        (MALFORMED, of(OPEN, ITERATING, DEPRECATED), InvalidMethodParametersSchemaError),
        (None, of(OPEN, DEFINED), InvalidMethodParametersSchemaError),
        (energy(), of(OPEN, ITERATING, DEPRECATED), InvalidMethodIterativeStoppingFieldError),
        (energy(unit=ELECTRONVOLT), of(BOUNDED, DECLARED), MethodParametersUnitChangedError),
        (
            closed(exposure={"type": "number"}),
            of(BOUNDED, DECLARED, launching(PASSING_ENERGY)),
            MethodParametersNotSubsetError,
        ),
        (closed(), of(OPEN, DECLARED, launching(PASSING_ENERGY)), MethodParametersDropLaunchArgError),
    ],
)
def test_update_refuses_in_order(
    schema: dict[str, Any] | None, seen: MethodWithCapability, refusal: type
) -> None:
    assert outcome(update(schema), seen) == refusal


def test_a_flag_alone_keeps_its_boolean() -> None:
    boolean = replace(CONTENT, parameters_schema=closed(energy={"type": "boolean"}))
    seen = of(OPEN, defined(boolean), launching(PASSING_A_FLAG, boolean))
    changed = closed(energy={"type": "integer"})
    assert outcome(update(changed), seen) == MethodParametersDropLaunchArgError


def test_every_numbered_schema_stays_readable() -> None:
    later = NOW + timedelta(days=1)
    items = every_schema(given(methods, DECLARED, replace(schema_updated({}, 2), occurred_at=later))).items
    assert [(each.parameters_schema_version, each.parameters_schema, each.since) for each in items] == [
        (1, energy(), NOW),
        (2, {}, later),
    ]


def test_launch_spec_is_set() -> None:
    got = outcome(LAUNCH, given(methods, DECLARED))
    assert got == [launching(PASSING_ENERGY, WITH_ENERGY)]


def test_launch_spec_is_removed_with_null() -> None:
    method = given(methods, DECLARED, launching(PASSING_ENERGY, WITH_ENERGY))
    assert outcome(replace(LAUNCH, launch_spec=None), method) == [launching(None, WITH_ENERGY)]


def test_the_same_launch_spec_is_a_no_op() -> None:
    assert outcome(LAUNCH, given(methods, DECLARED, launching(PASSING_ENERGY, WITH_ENERGY))) == []


def test_an_open_schema_takes_any_launch_argument() -> None:
    method = given(methods, defined(replace(CONTENT, parameters_schema={})))
    assert not isinstance(outcome(replace(LAUNCH, launch_spec=PASSING_A_FLAG), method), type)


@pytest.mark.parametrize(
    ("spec", "method", "refusal"),
    [
        (NO_COMMAND, given(methods, DEFINED, DEPRECATED), InvalidLaunchSpecError),
        (PASSING_ENERGY, given(methods, DEFINED, DEPRECATED), MethodCannotUpdateLaunchSpecError),
        (PASSING_A_FLAG, given(methods, DEFINED), MethodLaunchArgUnknownParameterError),
        (PASSING_A_FLAG, given(methods, DECLARED), MethodLaunchArgNotBooleanError),
    ],
)
def test_launch_spec_refuses_in_order(spec: LaunchSpec, method: Method, refusal: type) -> None:
    assert outcome(replace(LAUNCH, launch_spec=spec), method) == refusal


TRIGGER = PortRequirement(port_name="trigger", direction=PortDirection.INPUT, signal_type="TTL")
FRAMES = PortRequirement(port_name="frames", direction=PortDirection.OUTPUT, signal_type="Image")
EYE = RoleRequirement(role_name="eye", role_id=DETECTOR.id, required_ports=(FRAMES, TRIGGER))
SPARE = RoleRequirement(role_name="a spare", family_id=CAMERA.id, optional=True)
ADD_EYE = AddMethodRequiredRole(
    method_id=METHOD, role_name=" eye ", role_id=DETECTOR.id, required_ports=(TRIGGER, FRAMES, TRIGGER)
)
ADD_SPARE = AddMethodRequiredRole(method_id=METHOD, role_name="a spare", family_id=CAMERA.id, optional=True)
REMOVE = RemoveMethodRequiredRole(method_id=METHOD, role_name="eye")


def added(requirement: RoleRequirement, *after: RoleRequirement) -> MethodRequiredRoleAdded:
    """`requirement` added, after which the method requires `after`."""
    return MethodRequiredRoleAdded(
        method_id=METHOD,
        occurred_at=NOW,
        required_role=requirement,
        content_hash=method_hash(replace(CONTENT, required_roles=after)),
    )


REQUIRING = [DEFINED, added(EYE, EYE)]


def with_role(*history: Event, role: Role = DETECTOR) -> MethodWithRole:
    return MethodWithRole(method=given(methods, *history), roles=(role,))


def test_add_a_role_with_its_ports_in_order() -> None:
    assert outcome(ADD_EYE, with_role(DEFINED)) == [added(EYE, EYE)]


def test_roles_are_kept_by_name() -> None:
    seen = MethodWithRole(method=given(methods, *REQUIRING), families=(CAMERA,))
    assert outcome(ADD_SPARE, seen) == [added(SPARE, SPARE, EYE)]
    assert given(methods, *REQUIRING, added(SPARE, SPARE, EYE)).required_roles == (SPARE, EYE)


BLANK_PORT = (replace(TRIGGER, port_name=" "),)


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (replace(ADD_EYE, role_name=" ", required_ports=BLANK_PORT), InvalidRoleRequirementError),
        (replace(ADD_EYE, role_name="x" * 51), InvalidRoleRequirementError),
        (replace(ADD_EYE, role_id=None, required_ports=BLANK_PORT), InvalidRoleRequirementError),
        (replace(ADD_EYE, family_id=CAMERA.id), InvalidRoleRequirementError),
        (replace(ADD_EYE, required_ports=(TRIGGER,) * 21), InvalidRoleRequirementError),
        (replace(ADD_EYE, required_ports=BLANK_PORT), InvalidPortRequirementError),
        (
            replace(ADD_EYE, required_ports=(replace(TRIGGER, signal_type="x" * 51),)),
            InvalidPortRequirementError,
        ),
    ],
)
def test_add_role_refuses_values_in_order(command: AddMethodRequiredRole, refusal: type) -> None:
    assert outcome(command, with_role(*REQUIRING, DEPRECATED, role=OLD_DETECTOR)) == refusal


def test_a_role_name_is_declared_once() -> None:
    got = outcome(ADD_EYE, with_role(*REQUIRING, role=OLD_DETECTOR))
    assert got == MethodRoleNameAlreadyDeclaredError


def test_a_deprecated_role_is_not_required_anew() -> None:
    assert outcome(ADD_EYE, with_role(DEFINED, role=OLD_DETECTOR)) == RoleDeprecatedError


def test_a_deprecated_family_is_not_required_anew() -> None:
    seen = MethodWithRole(method=given(methods, DEFINED), families=(OLD_CAMERA,))
    assert outcome(ADD_SPARE, seen) == FamilyDeprecatedError


def test_a_method_requires_50_roles_at_most() -> None:
    roles = tuple(replace(EYE, role_name=f"eye {number}") for number in range(50))
    seen = with_role(DEFINED)
    full = replace(seen, method=replace(seen.method, required_roles=roles))
    assert outcome(ADD_EYE, full) == InvalidRoleRequirementError


def test_remove_a_role() -> None:
    method = given(methods, *REQUIRING)
    removed = MethodRequiredRoleRemoved(
        method_id=METHOD, occurred_at=NOW, role_name="eye", content_hash=method_hash(CONTENT)
    )
    assert outcome(REMOVE, method) == [removed]
    assert given(methods, *REQUIRING, removed).required_roles == ()


def test_remove_refuses_a_role_that_is_not_required() -> None:
    assert outcome(REMOVE, given(methods, DEFINED)) == MethodRoleNameNotDeclaredError


def test_deprecate_needs_a_reason() -> None:
    method = given(methods, DEFINED, DEPRECATED)
    assert outcome(replace(DEPRECATE, reason=" "), method) == InvalidMethodDeprecationReasonError


def test_deprecation_is_kept_with_its_reason() -> None:
    method = given(methods, DEFINED, DEPRECATED)
    assert method.deprecation == Deprecation(reason_kind=DeprecationReason.DEFECTIVE, reason="drifts")


@pytest.mark.parametrize(
    "history",
    [
        [DEFINED],
        [DECLARED, versioned(WITH_ENERGY, 1)],
        [DEFINED, schema_updated(energy(), 1)],
        [DEFINED, launching(LaunchSpec(base_command=("scan",)))],
        REQUIRING,
    ],
)
def test_the_hash_is_that_of_the_whole_content(history: list[Event]) -> None:
    method = given(methods, *history)
    assert method.content_hash == method_hash(method.content)


def test_a_method_that_was_never_versioned_is_not_modified() -> None:
    assert not given(methods, *REQUIRING).modified


def test_an_edit_after_a_version_is_a_modification() -> None:
    method = given(methods, DEFINED, VERSIONED, added(EYE, EYE))
    assert method.modified
    assert method.versioned_content_hash == method_hash(CONTENT)


def test_an_edit_undone_is_no_modification() -> None:
    undone = launching(LaunchSpec(base_command=("scan",))), launching(None)
    assert not given(methods, DEFINED, VERSIONED, *undone).modified


REACH = {
    "Defined": REQUIRING,
    "Versioned": [*REQUIRING, VERSIONED],
    "Deprecated": [*REQUIRING, DEPRECATED],
}
OWN_STREAM: dict[str, Command[Any]] = {
    "deprecate": DEPRECATE,
    "update-launch-spec": replace(LAUNCH, launch_spec=LaunchSpec(base_command=("scan",))),
    "remove-required-role": REMOVE,
}
WITH_CAPABILITY: dict[str, Command[Any]] = {
    "version": replace(VERSION, version_tag="3"),
    "update-parameters-schema": update({}),
}

GRID = """
             deprecate    update-launch-spec   remove-required-role
Defined      Deprecated   Defined              Defined
Versioned    Deprecated   Versioned            Versioned
Deprecated   -            -                    -
"""

GRID_WITH_CAPABILITY = """
             version      update-parameters-schema
Defined      Versioned    Defined
Versioned    Versioned    Versioned
Deprecated   -            -
"""

GRID_WITH_ROLE = """
             add-required-role
Defined      Defined
Versioned    Versioned
Deprecated   -
"""


def status(method: Method) -> MethodStatus:
    return method.status


def test_status_grid() -> None:
    check_grid(GRID, methods, status=status, reach=REACH, verbs=OWN_STREAM)


def test_status_grid_of_the_verbs_that_see_the_capability() -> None:
    check_grid(
        GRID_WITH_CAPABILITY,
        methods,
        status=status,
        reach=REACH,
        verbs=WITH_CAPABILITY,
        seen=lambda method: MethodWithCapability(method=method, capability=OPEN),
    )


def test_status_grid_of_the_verb_that_sees_a_role() -> None:
    check_grid(
        GRID_WITH_ROLE,
        methods,
        status=status,
        reach=REACH,
        verbs={"add-required-role": ADD_SPARE},
        seen=lambda method: MethodWithRole(method=method, families=(CAMERA,)),
    )
