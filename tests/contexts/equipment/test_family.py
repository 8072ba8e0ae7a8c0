"""Family: its rules and status grid."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.family import (
    DeprecateFamily,
    Family,
    FamilyDefined,
    FamilyDeprecated,
    FamilyDeprecatedError,
    FamilyRoleAdded,
    FamilyRoleAlreadyPresentError,
    FamilyRoleNotPresentError,
    FamilyRoleNotSatisfiedError,
    FamilyRoleRemoved,
    FamilySettingsSchemaUpdated,
    FamilySettingsUnitChangedError,
    FamilyStatus,
    FamilyVersioned,
    FamilyVersionTagTakenError,
    InvalidFamilyNameError,
    InvalidFamilyReasonError,
    InvalidFamilySettingsSchemaError,
    InvalidFamilyVersionTagError,
    RemoveFamilyRole,
    UpdateFamilySettingsSchema,
    check_families_usable,
    families,
)
from beamwright.contexts.equipment.family_definition import (
    AddFamilyRole,
    DefineFamily,
    FamilyWithRoles,
    VersionFamily,
)
from beamwright.contexts.equipment.role import Role, RoleDeprecatedError, RoleStatus
from beamwright.contexts.equipment.values import Affordance
from beamwright.kernel.operation import Command
from beamwright.kernel.value import replace
from beamwright.kernel.versions import TaggedVersion
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, OCCASION, given, outcome

FAMILY = UUID(int=2)
DETECTOR = Role(
    id=UUID(int=3),
    name="Detector",
    description="Yields frames.",
    required_affordances=frozenset({Affordance.IMAGEABLE}),
    optional_affordances=frozenset(),
    produces=frozenset(),
    consumes=frozenset(),
)
GONE = replace(DETECTOR, id=UUID(int=4), status=RoleStatus.DEPRECATED)
IMAGING = frozenset({Affordance.IMAGEABLE, Affordance.TRIGGERABLE})
POINTING = frozenset({Affordance.TRIGGERABLE})


def schema(code: str = "um", /, **more: Any) -> dict[str, Any]:
    """A closed schema of one property `thickness`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"thickness": {"type": "number", "unit": {"system": "udunits", "code": code}} | more},
        "additionalProperties": False,
        "unevaluatedProperties": False,
    }


BAD_SCHEMA = {"type": "object"}
DEFINED = FamilyDefined(
    family_id=FAMILY,
    occurred_at=NOW,
    name="Camera",
    affordances=IMAGING,
    settings_schema=None,
    settings_schema_version=0,
    presented_role_ids=frozenset(),
)
DECLARED = replace(DEFINED, settings_schema=schema(), settings_schema_version=1)
PRESENTING = replace(DEFINED, presented_role_ids=frozenset({DETECTOR.id}))
VERSIONED = FamilyVersioned(
    family_id=FAMILY,
    occurred_at=NOW,
    version_tag="2",
    affordances=IMAGING,
    settings_schema=None,
    settings_schema_version=0,
)
DEPRECATED = FamilyDeprecated(family_id=FAMILY, occurred_at=NOW, reason="split in two")

DEFINE = DefineFamily(name="Camera", affordances=IMAGING)
VERSION = VersionFamily(family_id=FAMILY, version_tag="2", affordances=IMAGING)
ADD_ROLE = AddFamilyRole(family_id=FAMILY, role_id=DETECTOR.id)


def update(settings_schema: dict[str, Any]) -> UpdateFamilySettingsSchema:
    return UpdateFamilySettingsSchema(family_id=FAMILY, settings_schema=settings_schema)


def updated(settings_schema: dict[str, Any], number: int) -> FamilySettingsSchemaUpdated:
    return FamilySettingsSchemaUpdated(
        family_id=FAMILY,
        occurred_at=NOW,
        settings_schema=settings_schema,
        settings_schema_version=number,
    )


def with_roles(family: Family, *roles: Role) -> FamilyWithRoles:
    return FamilyWithRoles(family=family, roles=roles)


def test_define_without_a_schema_has_schema_version_zero() -> None:
    assert outcome(replace(DEFINE, name=" Camera "), ()) == [replace(DEFINED, family_id=NEW_ID)]


def test_define_with_a_schema_has_schema_version_one() -> None:
    got = outcome(replace(DEFINE, settings_schema=schema()), ())
    assert got == [replace(DECLARED, family_id=NEW_ID)]


def test_an_empty_schema_is_declared_and_open() -> None:
    family = given(families, replace(DECLARED, settings_schema={}))
    assert (family.settings_schema, family.settings_schema_version) == ({}, 1)


def test_a_family_may_afford_nothing() -> None:
    got = outcome(replace(DEFINE, affordances=frozenset()), ())
    assert got == [replace(DEFINED, family_id=NEW_ID, affordances=frozenset())]


def test_define_presents_roles_that_are_covered() -> None:
    got = outcome(replace(DEFINE, presented_role_ids=frozenset({DETECTOR.id})), (DETECTOR,))
    assert got == [replace(PRESENTING, family_id=NEW_ID)]


@pytest.mark.parametrize(
    ("command", "roles", "refusal"),
    [
        (replace(DEFINE, name=" "), (), InvalidFamilyNameError),
        (replace(DEFINE, name="x" * 201), (), InvalidFamilyNameError),
        (replace(DEFINE, settings_schema=BAD_SCHEMA), (), InvalidFamilySettingsSchemaError),
        (replace(DEFINE, name=" ", settings_schema=BAD_SCHEMA), (GONE,), InvalidFamilyNameError),
        (replace(DEFINE, settings_schema=BAD_SCHEMA), (GONE,), InvalidFamilySettingsSchemaError),
        (DEFINE, (GONE,), RoleDeprecatedError),
        (replace(DEFINE, affordances=POINTING), (GONE,), RoleDeprecatedError),
        (replace(DEFINE, affordances=POINTING), (DETECTOR,), FamilyRoleNotSatisfiedError),
    ],
)
def test_define_refuses_in_order(command: DefineFamily, roles: tuple[Role, ...], refusal: type) -> None:
    assert outcome(command, roles) == refusal


def test_a_role_that_is_not_covered_says_what_is_missing() -> None:
    with pytest.raises(FamilyRoleNotSatisfiedError) as refused:
        replace(DEFINE, affordances=POINTING).decide((DETECTOR,), OCCASION)
    assert refused.value.context["missing_affordances"] == ["Imageable"]


def test_version_without_a_schema_keeps_schema_and_number() -> None:
    got = outcome(VERSION, with_roles(given(families, DECLARED)))
    assert got == [replace(VERSIONED, settings_schema=schema(), settings_schema_version=1)]


def test_version_with_the_same_schema_keeps_the_number() -> None:
    got = outcome(replace(VERSION, settings_schema=schema()), with_roles(given(families, DECLARED)))
    assert got == [replace(VERSIONED, settings_schema=schema(), settings_schema_version=1)]


def test_version_may_change_a_unit() -> None:
    got = outcome(replace(VERSION, settings_schema=schema("mm")), with_roles(given(families, DECLARED)))
    assert got == [replace(VERSIONED, settings_schema=schema("mm"), settings_schema_version=2)]


def test_version_may_declare_the_first_schema() -> None:
    got = outcome(replace(VERSION, settings_schema={}), with_roles(given(families, DEFINED)))
    assert got == [replace(VERSIONED, settings_schema={}, settings_schema_version=1)]


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (
            replace(VERSION, version_tag="initial"),
            with_roles(given(families, DEFINED)),
            InvalidFamilyVersionTagError,
        ),
        (
            replace(VERSION, version_tag="-1", settings_schema=BAD_SCHEMA),
            with_roles(given(families, DEFINED)),
            InvalidFamilyVersionTagError,
        ),
        (
            replace(VERSION, settings_schema=BAD_SCHEMA),
            with_roles(given(families, DEFINED, DEPRECATED)),
            InvalidFamilySettingsSchemaError,
        ),
        (
            replace(VERSION, affordances=POINTING),
            with_roles(given(families, PRESENTING, VERSIONED), DETECTOR),
            FamilyVersionTagTakenError,
        ),
        (
            replace(VERSION, affordances=POINTING),
            with_roles(given(families, PRESENTING), DETECTOR),
            FamilyRoleNotSatisfiedError,
        ),
    ],
)
def test_version_refuses_in_order(command: VersionFamily, seen: FamilyWithRoles, refusal: type) -> None:
    assert outcome(command, seen) == refusal


def test_version_keeps_a_role_that_was_deprecated_since() -> None:
    seen = with_roles(given(families, PRESENTING), replace(DETECTOR, status=RoleStatus.DEPRECATED))
    assert outcome(VERSION, seen) == [VERSIONED]


def test_version_tags_are_kept_with_their_stream_version() -> None:
    family = given(families, DEFINED, updated({}, 1), VERSIONED, replace(VERSIONED, version_tag="3"))
    assert family.version_tag == "3"
    assert family.version_tags == (
        TaggedVersion(version_tag="2", stream_version=3),
        TaggedVersion(version_tag="3", stream_version=4),
    )


def test_update_declares_the_first_schema() -> None:
    assert outcome(update(schema()), given(families, DEFINED)) == [updated(schema(), 1)]


def test_update_raises_the_number() -> None:
    wider = schema(maximum=10)
    assert outcome(update(wider), given(families, DECLARED)) == [updated(wider, 2)]


def test_update_with_the_same_schema_is_a_no_op() -> None:
    assert outcome(update(schema()), given(families, DECLARED)) == []


def test_update_tells_true_from_one() -> None:
    family = given(families, replace(DECLARED, settings_schema=schema(enum=[1])))
    assert outcome(update(schema(enum=[True])), family) == [updated(schema(enum=[True]), 2)]


def test_update_may_change_the_label_of_a_unit() -> None:
    labelled = schema(unit={"system": "udunits", "code": "um", "label": "µm"})
    assert outcome(update(labelled), given(families, DECLARED)) == [updated(labelled, 2)]


@pytest.mark.parametrize(
    "changed", [schema("mm"), schema(unit={"system": "ucum", "code": "um"})], ids=["code", "system"]
)
def test_update_may_not_change_a_unit(changed: dict[str, Any]) -> None:
    assert outcome(update(changed), given(families, DECLARED)) == FamilySettingsUnitChangedError


def test_update_refuses_a_bad_schema_whatever_the_status() -> None:
    family = given(families, DEFINED, DEPRECATED)
    assert outcome(update(BAD_SCHEMA), family) == InvalidFamilySettingsSchemaError


def test_every_numbered_schema_is_kept() -> None:
    later = NOW + timedelta(days=1)
    version = replace(VERSIONED, settings_schema=schema("mm"), settings_schema_version=2, occurred_at=later)
    family = given(families, DECLARED, version)
    assert [(each.schema_version, each.schema, each.since) for each in family.settings_schemas] == [
        (1, schema("um"), NOW),
        (2, schema("mm"), later),
    ]


def test_a_version_without_a_new_schema_adds_no_numbered_schema() -> None:
    family = given(
        families, DECLARED, replace(VERSIONED, settings_schema=schema(), settings_schema_version=1)
    )
    assert [each.schema_version for each in family.settings_schemas] == [1]


def test_deprecate_needs_a_reason() -> None:
    command = DeprecateFamily(family_id=FAMILY, reason=" ")
    assert outcome(command, given(families, DEFINED)) == InvalidFamilyReasonError


def test_deprecation_is_dated() -> None:
    assert given(families, DEFINED, DEPRECATED).deprecated_at == NOW


def test_add_role() -> None:
    got = outcome(ADD_ROLE, with_roles(given(families, DEFINED), DETECTOR))
    assert got == [FamilyRoleAdded(family_id=FAMILY, occurred_at=NOW, role_id=DETECTOR.id)]


@pytest.mark.parametrize(
    ("family", "role", "refusal"),
    [
        (given(families, PRESENTING), GONE, FamilyRoleAlreadyPresentError),
        (given(families, replace(DEFINED, affordances=POINTING)), GONE, RoleDeprecatedError),
        (given(families, replace(DEFINED, affordances=POINTING)), DETECTOR, FamilyRoleNotSatisfiedError),
    ],
)
def test_add_role_refuses_in_order(family: Family, role: Role, refusal: type) -> None:
    assert outcome(ADD_ROLE, with_roles(family, role)) == refusal


def test_remove_role() -> None:
    command = RemoveFamilyRole(family_id=FAMILY, role_id=DETECTOR.id)
    got = outcome(command, given(families, PRESENTING))
    assert got == [FamilyRoleRemoved(family_id=FAMILY, occurred_at=NOW, role_id=DETECTOR.id)]


def test_remove_role_refuses_a_role_that_is_not_presented() -> None:
    command = RemoveFamilyRole(family_id=FAMILY, role_id=DETECTOR.id)
    assert outcome(command, given(families, DEFINED)) == FamilyRoleNotPresentError


def test_presented_roles_follow_what_is_added_and_removed() -> None:
    added = FamilyRoleAdded(family_id=FAMILY, occurred_at=NOW, role_id=DETECTOR.id)
    removed = FamilyRoleRemoved(family_id=FAMILY, occurred_at=NOW, role_id=DETECTOR.id)
    assert given(families, DEFINED, added).presented_role_ids == {DETECTOR.id}
    assert given(families, DEFINED, added, removed).presented_role_ids == frozenset()


def test_the_name_is_claimed_until_deprecated() -> None:
    claims = families.claims(given(families, DEFINED))
    assert [(claim.kind, claim.key) for claim in claims] == [("family-name", "camera")]
    assert families.claims(given(families, DEFINED, DEPRECATED)) == []


def test_a_deprecated_family_is_not_joined() -> None:
    check_families_usable([given(families, DEFINED)])
    with pytest.raises(FamilyDeprecatedError) as refused:
        check_families_usable([given(families, DEFINED, DEPRECATED)])
    assert refused.value.context == {"family_ids": [str(FAMILY)]}


REACH = {
    "Defined": [PRESENTING],
    "Versioned": [PRESENTING, VERSIONED],
    "Deprecated": [PRESENTING, DEPRECATED],
}
OWN_STREAM: dict[str, Command[Any]] = {
    "deprecate": DeprecateFamily(family_id=FAMILY, reason="unused"),
    "update-settings-schema": update({}),
    "remove-role": RemoveFamilyRole(family_id=FAMILY, role_id=DETECTOR.id),
}
WITH_ROLES: dict[str, Command[Any]] = {
    "version": replace(VERSION, version_tag="3"),
    "add-role": replace(ADD_ROLE, role_id=UUID(int=9)),
}

GRID = """
             deprecate    update-settings-schema   remove-role
Defined      Deprecated   Defined                  Defined
Versioned    Deprecated   Versioned                Versioned
Deprecated   -            -                        -
"""

GRID_WITH_ROLES = """
             version     add-role
Defined      Versioned   Defined
Versioned    Versioned   Versioned
Deprecated   -           -
"""


def status(family: Family) -> FamilyStatus:
    return family.status


def test_status_grid() -> None:
    check_grid(GRID, families, status=status, reach=REACH, verbs=OWN_STREAM)


def test_status_grid_of_the_verbs_that_see_roles() -> None:
    check_grid(
        GRID_WITH_ROLES,
        families,
        status=status,
        reach=REACH,
        verbs=WITH_ROLES,
        seen=lambda family: with_roles(family, DETECTOR),
    )
