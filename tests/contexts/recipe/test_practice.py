"""Practice: its rules and status grid."""

from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.family import Family, FamilyDeprecatedError, FamilyStatus
from beamwright.contexts.recipe.method import ExecutionPattern, Method, MethodStatus
from beamwright.contexts.recipe.practice import (
    DeprecatePractice,
    InvalidPracticeBindingError,
    InvalidPracticeDeprecationReasonError,
    InvalidPracticeFamilyIdsError,
    InvalidPracticeNameError,
    InvalidPracticeVersionTagError,
    Practice,
    PracticeBoundMethodDeprecatedError,
    PracticeDefined,
    PracticeDeprecated,
    PracticeStatus,
    PracticeVersioned,
    PracticeVersionTagTakenError,
    practices,
)
from beamwright.contexts.recipe.practice_definition import (
    DefinePractice,
    PracticeGrounds,
    PracticeRevision,
    VersionPractice,
)
from beamwright.kernel.event import Belonging
from beamwright.kernel.value import replace
from beamwright.kernel.versions import Deprecation, DeprecationReason, TaggedVersion
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, given, outcome

PRACTICE, METHOD = UUID(int=2), UUID(int=3)
CAMERA = Family(id=UUID(int=4), name="Camera", affordances=frozenset(), presented_role_ids=frozenset())
STAGE = replace(CAMERA, id=UUID(int=5), name="Stage")
GONE = replace(CAMERA, id=UUID(int=6), name="Plate", status=FamilyStatus.DEPRECATED)
TECHNIQUE = Method(
    id=METHOD,
    name="Fly scan",
    capability_id=UUID(int=7),
    needed_family_ids=frozenset(),
    needed_supplies=frozenset(),
    needed_assembly_ids=frozenset(),
    execution_pattern=ExecutionPattern.BATCH,
    monotone_quality=False,
    resumable_from_checkpoint=False,
    content_hash="",
)
OLD_TECHNIQUE = replace(TECHNIQUE, status=MethodStatus.DEPRECATED)


def ids(*families: Family) -> frozenset[UUID]:
    return frozenset(family.id for family in families)


DEFINED = PracticeDefined(
    practice_id=PRACTICE,
    occurred_at=NOW,
    name="Fly scan at 2-BM",
    method_id=METHOD,
    facility_code="aps",
    family_ids=ids(CAMERA),
)
VERSIONED = PracticeVersioned(practice_id=PRACTICE, occurred_at=NOW, version_tag="2", family_ids=ids(CAMERA))
DEPRECATED = PracticeDeprecated(
    practice_id=PRACTICE, occurred_at=NOW, reason_kind=DeprecationReason.OBSOLETE, reason="unused"
)

DEFINE = DefinePractice(
    name="Fly scan at 2-BM", method_id=METHOD, facility_code="aps", family_ids=ids(CAMERA)
)
VERSION = VersionPractice(practice_id=PRACTICE, version_tag="2")
DEPRECATE = DeprecatePractice(practice_id=PRACTICE, reason_kind=DeprecationReason.OBSOLETE, reason="unused")

NOWHERE: frozenset[UUID] = frozenset()
TOO_MANY = frozenset(UUID(int=number) for number in range(51))
AT_SITE = PracticeGrounds(method=TECHNIQUE, facility_code="aps", families=(CAMERA,))
ANYWHERE = replace(AT_SITE, facility_code=None)


def revising(*families: Family, history: Any = (DEFINED,)) -> PracticeRevision:
    return PracticeRevision(practice=given(practices, *history), families=families)


def test_define_at_a_site_and_on_families() -> None:
    got = outcome(replace(DEFINE, name=" Fly scan at 2-BM "), AT_SITE)
    assert got == [replace(DEFINED, practice_id=NEW_ID)]


def test_define_at_a_site_alone() -> None:
    got = outcome(replace(DEFINE, family_ids=NOWHERE), replace(AT_SITE, families=()))
    assert got == [replace(DEFINED, practice_id=NEW_ID, family_ids=NOWHERE)]


def test_define_on_families_alone() -> None:
    got = outcome(replace(DEFINE, facility_code=None), ANYWHERE)
    assert got == [replace(DEFINED, practice_id=NEW_ID, facility_code=None)]


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (replace(DEFINE, name=" ", family_ids=NOWHERE), ANYWHERE, InvalidPracticeNameError),
        (replace(DEFINE, name="x" * 201), AT_SITE, InvalidPracticeNameError),
        (replace(DEFINE, family_ids=TOO_MANY), AT_SITE, InvalidPracticeFamilyIdsError),
        (
            replace(DEFINE, family_ids=NOWHERE),
            replace(ANYWHERE, method=OLD_TECHNIQUE),
            InvalidPracticeBindingError,
        ),
        (
            DEFINE,
            replace(AT_SITE, method=OLD_TECHNIQUE, families=(GONE,)),
            PracticeBoundMethodDeprecatedError,
        ),
        (DEFINE, replace(AT_SITE, families=(GONE,)), FamilyDeprecatedError),
    ],
)
def test_define_refuses_in_order(command: DefinePractice, seen: PracticeGrounds, refusal: type) -> None:
    assert outcome(command, seen) == refusal


def test_version_keeps_the_families() -> None:
    assert outcome(VERSION, revising(CAMERA)) == [VERSIONED]


def test_version_replaces_the_families() -> None:
    got = outcome(replace(VERSION, family_ids=ids(STAGE)), revising(STAGE))
    assert got == [replace(VERSIONED, family_ids=ids(STAGE))]


def test_version_may_drop_the_families_of_a_site() -> None:
    got = outcome(replace(VERSION, family_ids=NOWHERE), revising())
    assert got == [replace(VERSIONED, family_ids=NOWHERE)]


def test_version_keeps_a_family_that_was_deprecated_since() -> None:
    seen = revising(replace(CAMERA, status=FamilyStatus.DEPRECATED))
    assert outcome(VERSION, seen) == [VERSIONED]


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (
            replace(VERSION, version_tag="initial", family_ids=NOWHERE),
            revising(history=(replace(DEFINED, facility_code=None),)),
            InvalidPracticeVersionTagError,
        ),
        (
            replace(VERSION, family_ids=NOWHERE),
            revising(history=(replace(DEFINED, facility_code=None), DEPRECATED)),
            InvalidPracticeBindingError,
        ),
        (replace(VERSION, family_ids=TOO_MANY), revising(), InvalidPracticeFamilyIdsError),
        (
            replace(VERSION, family_ids=ids(GONE)),
            revising(GONE, history=(DEFINED, VERSIONED)),
            PracticeVersionTagTakenError,
        ),
        (replace(VERSION, family_ids=ids(GONE)), revising(GONE), FamilyDeprecatedError),
    ],
)
def test_version_refuses_in_order(command: VersionPractice, seen: PracticeRevision, refusal: type) -> None:
    assert outcome(command, seen) == refusal


def test_version_tags_are_kept_with_their_stream_version() -> None:
    practice = given(practices, DEFINED, VERSIONED)
    assert practice.version_tag == "2"
    assert practice.version_tags == (TaggedVersion(version_tag="2", stream_version=2),)


def test_deprecate_needs_a_reason() -> None:
    practice = given(practices, DEFINED, DEPRECATED)
    assert outcome(replace(DEPRECATE, reason=" "), practice) == InvalidPracticeDeprecationReasonError


def test_deprecation_is_kept_with_its_reason() -> None:
    practice = given(practices, DEFINED, DEPRECATED)
    assert practice.deprecation == Deprecation(reason_kind=DeprecationReason.OBSOLETE, reason="unused")


def test_a_practice_belongs_to_its_site() -> None:
    assert practices.belongs(given(practices, DEFINED)) == Belonging(facility_code="aps")


def test_a_practice_without_a_site_is_installation_wide() -> None:
    assert practices.belongs(given(practices, replace(DEFINED, facility_code=None))).installation_wide


REACH = {"Defined": [DEFINED], "Versioned": [DEFINED, VERSIONED], "Deprecated": [DEFINED, DEPRECATED]}

GRID = """
             deprecate
Defined      Deprecated
Versioned    Deprecated
Deprecated   -
"""

GRID_OF_VERSIONS = """
             version
Defined      Versioned
Versioned    Versioned
Deprecated   -
"""


def status(practice: Practice) -> PracticeStatus:
    return practice.status


def test_status_grid() -> None:
    check_grid(GRID, practices, status=status, reach=REACH, verbs={"deprecate": DEPRECATE})


def test_status_grid_of_versions() -> None:
    check_grid(
        GRID_OF_VERSIONS,
        practices,
        status=status,
        reach=REACH,
        verbs={"version": replace(VERSION, version_tag="3")},
        seen=lambda practice: PracticeRevision(practice=practice, families=(CAMERA,)),
    )
