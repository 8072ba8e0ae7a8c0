"""Role: its rules and status grid."""

from uuid import UUID

import pytest

from beamwright.contexts.equipment.role import (
    DefineRole,
    DeprecateRole,
    InvalidRoleAffordancesError,
    InvalidRoleDescriptionError,
    InvalidRoleNameError,
    InvalidRoleReasonError,
    RoleDefined,
    RoleDeprecated,
    RoleDeprecatedError,
    check_roles_usable,
    roles,
)
from beamwright.contexts.equipment.values import Affordance, InvalidSignalTypeError
from beamwright.kernel.value import replace
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, given, outcome

ROLE = UUID(int=2)
DEFINED = RoleDefined(
    role_id=ROLE,
    occurred_at=NOW,
    name="Detector",
    description="Yields frames.",
    required_affordances=frozenset({Affordance.IMAGEABLE}),
    optional_affordances=frozenset({Affordance.COOLABLE}),
    produces=frozenset({"Image"}),
    consumes=frozenset({"TriggerIn"}),
)
DEPRECATED = RoleDeprecated(role_id=ROLE, occurred_at=NOW, reason="split in two")
DEFINE = DefineRole(
    name="Detector",
    description="Yields frames.",
    required_affordances=frozenset({Affordance.IMAGEABLE}),
    optional_affordances=frozenset({Affordance.COOLABLE}),
    produces=frozenset({"Image"}),
    consumes=frozenset({"TriggerIn"}),
)


def test_define_trims_its_text() -> None:
    untrimmed = replace(
        DEFINE, name=" Detector ", description="Yields frames. ", produces=frozenset({" Image"})
    )
    assert outcome(untrimmed, None) == [replace(DEFINED, role_id=NEW_ID)]


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (replace(DEFINE, name=" "), InvalidRoleNameError),
        (replace(DEFINE, name="x" * 201), InvalidRoleNameError),
        (replace(DEFINE, description=" "), InvalidRoleDescriptionError),
        (replace(DEFINE, description="x" * 2001), InvalidRoleDescriptionError),
        (replace(DEFINE, produces=frozenset({" "})), InvalidSignalTypeError),
        (replace(DEFINE, consumes=frozenset({"x" * 51})), InvalidSignalTypeError),
        (replace(DEFINE, consumes=frozenset(str(n) for n in range(51))), InvalidSignalTypeError),
    ],
)
def test_define_refuses_bad_values(command: DefineRole, refusal: type) -> None:
    assert outcome(command, None) == refusal


def test_an_affordance_is_not_both_required_and_optional() -> None:
    overlapping = replace(DEFINE, optional_affordances=DEFINE.required_affordances)
    assert outcome(overlapping, None) == InvalidRoleAffordancesError


def test_a_role_may_require_nothing() -> None:
    got = outcome(replace(DEFINE, required_affordances=frozenset()), None)
    assert got == [replace(DEFINED, role_id=NEW_ID, required_affordances=frozenset())]


def test_deprecate_needs_a_reason() -> None:
    assert outcome(DeprecateRole(role_id=ROLE, reason=" "), given(roles, DEFINED)) == InvalidRoleReasonError


def test_the_name_is_claimed_in_any_case_and_composition() -> None:
    named = replace(DEFINED, name="E\u0301TAGE")
    assert [(claim.kind, claim.key) for claim in roles.claims(given(roles, named))] == [
        ("role-name", "\u00e9tage")
    ]


def test_deprecation_releases_the_name() -> None:
    assert roles.claims(given(roles, DEFINED, DEPRECATED)) == []


def test_a_deprecated_role_is_not_usable() -> None:
    check_roles_usable([given(roles, DEFINED)])
    with pytest.raises(RoleDeprecatedError) as refused:
        check_roles_usable([given(roles, DEFINED, DEPRECATED)])
    assert refused.value.context == {"role_ids": [str(ROLE)]}


GRID = """
             deprecate
Defined      Deprecated
Deprecated   -
"""


def test_status_grid() -> None:
    check_grid(
        GRID,
        roles,
        status=lambda role: role.status,
        reach={"Defined": [DEFINED], "Deprecated": [DEFINED, DEPRECATED]},
        verbs={"deprecate": DeprecateRole(role_id=ROLE, reason="unused")},
    )
