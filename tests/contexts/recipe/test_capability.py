"""Capability: its rules and status grid."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import pytest

from beamwright.contexts.equipment.values import Affordance
from beamwright.contexts.recipe.capability import (
    Capability,
    CapabilityCannotDeprecateError,
    CapabilityCodeTakenError,
    CapabilityDefined,
    CapabilityDeprecated,
    CapabilityReplacementInvalidError,
    CapabilityStatus,
    CapabilitySuggestedRolesUpdated,
    CapabilityVersioned,
    CapabilityVersionTagTakenError,
    ExecutorShape,
    InvalidCapabilityCodeError,
    InvalidCapabilityDeprecationReasonError,
    InvalidCapabilityDescriptionError,
    InvalidCapabilityNameError,
    InvalidCapabilityParametersSchemaError,
    InvalidCapabilitySuggestedRoleIdsError,
    InvalidCapabilityVersionTagError,
    InvalidExecutorShapesError,
    capabilities,
)
from beamwright.contexts.recipe.capability_definition import (
    CapabilityWithReplacement,
    DefineCapability,
    DeprecateCapability,
    UpdateCapabilitySuggestedRoles,
    VersionCapability,
)
from beamwright.contexts.recipe.capability_reads import judged_recipe
from beamwright.contexts.recipe.parameters_schema import every_schema
from beamwright.kernel.operation import Command
from beamwright.kernel.value import Value, replace
from beamwright.kernel.versions import Deprecation, DeprecationReason, TaggedVersion
from tests.contexts.recipe.schemas import MALFORMED, closed, energy
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, OCCASION, given, outcome

CAPABILITY, OTHER, ROLE = UUID(int=2), UUID(int=3), UUID(int=4)
IMAGING = frozenset({Affordance.IMAGEABLE})
BOTH = frozenset({ExecutorShape.METHOD, ExecutorShape.PROCEDURE})

DEFINED = CapabilityDefined(
    capability_id=CAPABILITY,
    occurred_at=NOW,
    code="beamwright.capability.tomography",
    name="Tomography",
    description=None,
    required_affordances=IMAGING,
    executor_shapes=BOTH,
    parameters_schema=None,
    parameters_schema_version=0,
)
DECLARED = replace(DEFINED, parameters_schema=energy(), parameters_schema_version=1)
VERSIONED = CapabilityVersioned(
    capability_id=CAPABILITY,
    occurred_at=NOW,
    version_tag="2",
    description=None,
    required_affordances=IMAGING,
    executor_shapes=BOTH,
    parameters_schema=None,
    parameters_schema_version=0,
)
DEPRECATED = CapabilityDeprecated(
    capability_id=CAPABILITY,
    occurred_at=NOW,
    reason_kind=DeprecationReason.SUPERSEDED,
    reason="split in two",
    replaced_by_capability_id=OTHER,
)
SUGGESTED = CapabilitySuggestedRolesUpdated(
    capability_id=CAPABILITY, occurred_at=NOW, suggested_role_ids=frozenset({ROLE})
)

DEFINE = DefineCapability(
    code="beamwright.capability.tomography",
    name="Tomography",
    required_affordances=IMAGING,
    executor_shapes=BOTH,
)
VERSION = VersionCapability(capability_id=CAPABILITY, version_tag="2")
DEPRECATE = DeprecateCapability(
    capability_id=CAPABILITY, reason_kind=DeprecationReason.SUPERSEDED, reason="split in two"
)
REPLACE = replace(DEPRECATE, replaced_by_capability_id=OTHER)
SUGGEST = UpdateCapabilitySuggestedRoles(capability_id=CAPABILITY, suggested_role_ids=frozenset({ROLE}))

IN_USE: Capability = given(capabilities, DEFINED)
RETIRED: Capability = given(capabilities, DEFINED, DEPRECATED)
SUCCESSOR = replace(IN_USE, id=OTHER)


def with_replacement(
    capability: Capability, replacement: Capability | None = None
) -> CapabilityWithReplacement:
    return CapabilityWithReplacement(capability=capability, replacement=replacement)


def test_define_without_a_schema_has_schema_version_zero() -> None:
    command = replace(DEFINE, code=" beamwright.capability.tomography ", name=" Tomography ")
    assert outcome(command, None) == [replace(DEFINED, capability_id=NEW_ID)]


def test_define_with_a_schema_has_schema_version_one() -> None:
    got = outcome(replace(DEFINE, parameters_schema=energy()), None)
    assert got == [replace(DECLARED, capability_id=NEW_ID)]


def test_a_capability_may_need_no_affordance() -> None:
    got = outcome(replace(DEFINE, required_affordances=frozenset()), None)
    assert got == [replace(DEFINED, capability_id=NEW_ID, required_affordances=frozenset())]


@pytest.mark.parametrize(
    "code",
    [
        "beamwright.capability.a",
        "beamwright.capability.2d_scan.fly-scan",
        "beamwright.capability." + "x" * 178,
    ],
)
def test_a_code_is_dotted_and_lower_case(code: str) -> None:
    got = outcome(replace(DEFINE, code=code), None)
    assert got == [replace(DEFINED, capability_id=NEW_ID, code=code)]


@pytest.mark.parametrize(
    "code",
    [
        "",
        "tomography",
        "beamwright.capability.",
        "beamwright.capability.Tomography",
        "beamwright.capability.a..b",
        "beamwright.capability._a",
        "beamwright.capability.a b",
        "beamwright.capability." + "x" * 179,
    ],
)
def test_another_code_is_refused(code: str) -> None:
    assert outcome(replace(DEFINE, code=code), None) == InvalidCapabilityCodeError


NO_SHAPE: frozenset[ExecutorShape] = frozenset()


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (replace(DEFINE, code="x", name=" "), InvalidCapabilityCodeError),
        (replace(DEFINE, name=" ", description=" "), InvalidCapabilityNameError),
        (replace(DEFINE, name="x" * 201), InvalidCapabilityNameError),
        (replace(DEFINE, description=" ", executor_shapes=NO_SHAPE), InvalidCapabilityDescriptionError),
        (replace(DEFINE, description="x" * 2001), InvalidCapabilityDescriptionError),
        (
            replace(DEFINE, executor_shapes=NO_SHAPE, parameters_schema=MALFORMED),
            InvalidExecutorShapesError,
        ),
        (replace(DEFINE, parameters_schema=MALFORMED), InvalidCapabilityParametersSchemaError),
    ],
)
def test_define_refuses_in_order(command: DefineCapability, refusal: type) -> None:
    assert outcome(command, None) == refusal


def test_an_object_within_the_schema_must_be_closed_too() -> None:
    nested: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    with pytest.raises(InvalidCapabilityParametersSchemaError) as refused:
        replace(DEFINE, parameters_schema=closed(window=nested)).decide(None, OCCASION)
    assert refused.value.context == {"path": "/properties/window", "keyword": "unevaluatedProperties"}


def test_an_empty_schema_is_declared_and_open() -> None:
    got = outcome(replace(DEFINE, parameters_schema={}), None)
    assert got == [replace(DEFINED, capability_id=NEW_ID, parameters_schema={}, parameters_schema_version=1)]


FORBIDDEN: list[dict[str, Any]] = [
    closed(energy={"$ref": "#"}),
    closed(energy={"oneOf": []}),
    closed() | {"allOf": []},
    closed() | {"if": {}},
    closed() | {"$schema": "http://json-schema.org/draft-07/schema#"},
    closed(backend={"type": "string"}),
]


@pytest.mark.parametrize("schema", FORBIDDEN)
def test_what_a_schema_may_not_contain(schema: dict[str, Any]) -> None:
    got = outcome(replace(DEFINE, parameters_schema=schema), None)
    assert got == InvalidCapabilityParametersSchemaError


@pytest.mark.parametrize(
    ("given_shape", "read"),
    [
        ("METHOD", ExecutorShape.METHOD),
        ("Method", ExecutorShape.METHOD),
        ("PROCEDURE", ExecutorShape.PROCEDURE),
        ("Procedure", ExecutorShape.PROCEDURE),
    ],
)
def test_executor_shapes_are_read_in_two_spellings(given_shape: str, read: ExecutorShape) -> None:
    body = msgspec.json.encode(
        {
            "code": DEFINE.code,
            "name": DEFINE.name,
            "required_affordances": [],
            "executor_shapes": [given_shape],
        }
    )
    assert msgspec.json.decode(body, type=DefineCapability).executor_shapes == {read}


def test_executor_shapes_are_written_in_capitals() -> None:
    assert msgspec.json.encode(ExecutorShape("Method")) == b'"METHOD"'


def test_an_unknown_executor_shape_is_no_shape() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'["method"]', type=list[ExecutorShape])


def test_the_code_is_claimed_for_ever() -> None:
    claims = [*capabilities.claims(IN_USE), *capabilities.claims(RETIRED)]
    assert [(claim.kind, claim.key, claim.taken) for claim in claims] == 2 * [
        ("capability-code", "beamwright.capability.tomography", CapabilityCodeTakenError)
    ]


def test_a_code_is_searched_by_its_parts() -> None:
    capability = replace(IN_USE, code="beamwright.capability.tomography.fly-scan")
    assert capability.code_words == "tomography fly-scan"


def test_version_keeps_what_is_absent() -> None:
    history = replace(DECLARED, description="Turns and takes.")
    got = outcome(VERSION, given(capabilities, history))
    kept = replace(VERSIONED, description="Turns and takes.", parameters_schema=energy())
    assert got == [replace(kept, parameters_schema_version=1)]


def test_version_replaces_what_is_present() -> None:
    command = replace(
        VERSION,
        description=" Fly scan. ",
        required_affordances=frozenset({Affordance.ROTATABLE}),
        executor_shapes=frozenset({ExecutorShape.PROCEDURE}),
        parameters_schema={},
    )
    assert outcome(command, given(capabilities, DECLARED)) == [
        replace(
            VERSIONED,
            description="Fly scan.",
            required_affordances=frozenset({Affordance.ROTATABLE}),
            executor_shapes=frozenset({ExecutorShape.PROCEDURE}),
            parameters_schema={},
            parameters_schema_version=2,
        )
    ]


def test_version_may_drop_the_description() -> None:
    capability = given(capabilities, replace(DEFINED, description="Turns and takes."))
    assert outcome(replace(VERSION, description=None), capability) == [VERSIONED]


def test_version_may_change_a_unit() -> None:
    changed = energy(unit={"system": "udunits", "code": "eV"})
    got = outcome(replace(VERSION, parameters_schema=changed), given(capabilities, DECLARED))
    assert got == [replace(VERSIONED, parameters_schema=changed, parameters_schema_version=2)]


def test_version_with_the_same_schema_keeps_the_number() -> None:
    got = outcome(replace(VERSION, parameters_schema=energy()), given(capabilities, DECLARED))
    assert got == [replace(VERSIONED, parameters_schema=energy(), parameters_schema_version=1)]


@pytest.mark.parametrize(
    ("command", "capability", "refusal"),
    [
        (
            replace(VERSION, description=" ", executor_shapes=NO_SHAPE),
            RETIRED,
            InvalidCapabilityDescriptionError,
        ),
        (
            replace(VERSION, executor_shapes=NO_SHAPE, parameters_schema=MALFORMED),
            RETIRED,
            InvalidExecutorShapesError,
        ),
        (
            replace(VERSION, version_tag="initial", parameters_schema=MALFORMED),
            RETIRED,
            InvalidCapabilityParametersSchemaError,
        ),
        (replace(VERSION, parameters_schema=None), IN_USE, InvalidCapabilityParametersSchemaError),
        (replace(VERSION, version_tag="initial"), RETIRED, InvalidCapabilityVersionTagError),
        (VERSION, given(capabilities, DEFINED, VERSIONED), CapabilityVersionTagTakenError),
    ],
)
def test_version_refuses_in_order(command: VersionCapability, capability: Capability, refusal: type) -> None:
    assert outcome(command, capability) == refusal


def test_version_tags_are_kept_with_their_stream_version() -> None:
    capability = given(capabilities, DEFINED, SUGGESTED, VERSIONED, replace(VERSIONED, version_tag="3"))
    assert capability.version_tag == "3"
    assert capability.version_tags == (
        TaggedVersion(version_tag="2", stream_version=3),
        TaggedVersion(version_tag="3", stream_version=4),
    )


def test_every_numbered_schema_stays_readable() -> None:
    later = NOW + timedelta(days=1)
    versioned = replace(VERSIONED, parameters_schema={}, parameters_schema_version=2, occurred_at=later)
    items = every_schema(given(capabilities, DECLARED, versioned)).items
    assert [(each.parameters_schema_version, each.parameters_schema, each.since) for each in items] == [
        (1, energy(), NOW),
        (2, {}, later),
    ]


def test_deprecate_without_a_replacement() -> None:
    got = outcome(DEPRECATE, with_replacement(IN_USE))
    assert got == [replace(DEPRECATED, replaced_by_capability_id=None)]


def test_deprecate_with_a_replacement() -> None:
    assert outcome(REPLACE, with_replacement(IN_USE, SUCCESSOR)) == [DEPRECATED]


@pytest.mark.parametrize(
    ("command", "capability", "replacement", "refusal"),
    [
        (replace(REPLACE, reason=" "), RETIRED, IN_USE, InvalidCapabilityDeprecationReasonError),
        (replace(REPLACE, reason="x" * 501), IN_USE, SUCCESSOR, InvalidCapabilityDeprecationReasonError),
        (REPLACE, RETIRED, RETIRED, CapabilityCannotDeprecateError),
        (REPLACE, IN_USE, IN_USE, CapabilityReplacementInvalidError),
        (REPLACE, IN_USE, replace(RETIRED, id=OTHER), CapabilityReplacementInvalidError),
    ],
)
def test_deprecate_refuses_in_order(
    command: DeprecateCapability, capability: Capability, replacement: Capability, refusal: type
) -> None:
    assert outcome(command, with_replacement(capability, replacement)) == refusal


def test_deprecation_is_kept_with_its_reason_and_replacement() -> None:
    assert RETIRED.deprecation == Deprecation(reason_kind=DeprecationReason.SUPERSEDED, reason="split in two")
    assert RETIRED.replaced_by_capability_id == OTHER


def test_suggested_roles_are_replaced_whole() -> None:
    assert outcome(SUGGEST, IN_USE) == [SUGGESTED]
    assert given(capabilities, DEFINED, SUGGESTED).suggested_role_ids == {ROLE}


def test_the_same_suggested_roles_are_a_no_op() -> None:
    assert outcome(SUGGEST, given(capabilities, DEFINED, SUGGESTED)) == []


def test_a_capability_suggests_32_roles_at_most() -> None:
    many = replace(SUGGEST, suggested_role_ids=frozenset(UUID(int=number) for number in range(33)))
    assert outcome(many, RETIRED) == InvalidCapabilitySuggestedRoleIdsError


class Ref(Value, rename={"name": "__binding__"}):
    name: str


def recipe(*steps: Any, closing: Any = ()) -> Any:
    """What the reads see of a recipe."""
    return SimpleNamespace(
        id=UUID(int=9), name="Scan", status="Defined", steps=steps, closing_steps=list(closing)
    )


@pytest.mark.parametrize(
    ("schema", "unknown"), [(None, ["energy", "speed"]), ({}, []), (energy(), ["speed"])]
)
def test_a_recipe_is_judged_by_the_bindings_it_uses(
    schema: dict[str, Any] | None, unknown: list[str]
) -> None:
    steps = ({"value": {"__binding__": "energy"}}, {"params": {"deep": [{"__binding__": "speed"}]}})
    assert judged_recipe(recipe(*steps), schema).unknown_binding_names == unknown


def test_bindings_of_closing_steps_count_too() -> None:
    got = judged_recipe(recipe(closing=[{"value": Ref(name="speed")}]), energy())
    assert got.unknown_binding_names == ["speed"]


REACH = {"Defined": [DEFINED], "Versioned": [DEFINED, VERSIONED], "Deprecated": [DEFINED, DEPRECATED]}
OWN_STREAM: dict[str, Command[Any]] = {
    "version": replace(VERSION, version_tag="3"),
    "update-suggested-roles": SUGGEST,
}

GRID = """
             version      update-suggested-roles
Defined      Versioned    Defined
Versioned    Versioned    Versioned
Deprecated   -            -
"""

GRID_OF_DEPRECATION = """
             deprecate
Defined      Deprecated
Versioned    Deprecated
Deprecated   -
"""


def status(capability: Capability) -> CapabilityStatus:
    return capability.status


def test_status_grid() -> None:
    check_grid(GRID, capabilities, status=status, reach=REACH, verbs=OWN_STREAM)


def test_status_grid_of_deprecation() -> None:
    check_grid(
        GRID_OF_DEPRECATION,
        capabilities,
        status=status,
        reach=REACH,
        verbs={"deprecate": REPLACE},
        seen=lambda capability: with_replacement(capability, SUCCESSOR),
    )
