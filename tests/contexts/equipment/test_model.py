"""Model: its rules and status grid."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.family import Family, FamilyDeprecatedError, FamilyStatus
from beamwright.contexts.equipment.model import (
    DeprecateModel,
    InvalidDeclaredFamiliesError,
    InvalidModelNameError,
    InvalidModelReasonError,
    InvalidModelVersionTagError,
    InvalidPartNumberError,
    Model,
    ModelDefined,
    ModelDeprecated,
    ModelDeprecatedError,
    ModelFamilyAdded,
    ModelFamilyAlreadyPresentError,
    ModelFamilyNotPresentError,
    ModelFamilyRemoved,
    ModelFamilyRequiredError,
    ModelVersioned,
    ModelVersionTagTakenError,
    RemoveModelFamily,
    check_model_usable,
    models,
)
from beamwright.contexts.equipment.model_definition import (
    AddModelFamily,
    DefineModel,
    ModelWithFamilies,
    VersionModel,
)
from beamwright.contexts.equipment.values import (
    InvalidManufacturerError,
    Manufacturer,
    ManufacturerIdentifierType,
)
from beamwright.kernel.operation import Command
from beamwright.kernel.value import replace
from beamwright.kernel.versions import TaggedVersion
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, given, outcome

MODEL = UUID(int=2)
LATER = NOW + timedelta(days=1)
ACME = Manufacturer(
    name="Acme Optics", identifier="https://ror.org/0", identifier_type=ManufacturerIdentifierType.ROR
)
CAMERA = Family(id=UUID(int=3), name="Camera", affordances=frozenset(), presented_role_ids=frozenset[UUID]())
OBJECTIVE = replace(CAMERA, id=UUID(int=4), name="Objective")
DEFINED = ModelDefined(
    model_id=MODEL,
    occurred_at=NOW,
    name="Orca",
    manufacturer=ACME,
    part_number="C-11",
    declared_family_ids=frozenset({CAMERA.id}),
    version_tag=None,
)
VERSIONED = ModelVersioned(
    model_id=MODEL,
    occurred_at=NOW,
    name="Orca",
    manufacturer=ACME,
    part_number="C-11",
    declared_family_ids=frozenset({CAMERA.id}),
    version_tag="2",
)
DEPRECATED = ModelDeprecated(model_id=MODEL, occurred_at=NOW, reason="no longer sold")
ADDED = ModelFamilyAdded(model_id=MODEL, occurred_at=LATER, family_id=OBJECTIVE.id)
REMOVED = ModelFamilyRemoved(model_id=MODEL, occurred_at=LATER, family_id=OBJECTIVE.id)

DEFINE = DefineModel(
    name="Orca",
    manufacturer=ACME,
    part_number="C-11",
    declared_family_ids=frozenset({CAMERA.id}),
)
VERSION = VersionModel(
    model_id=MODEL,
    name="Orca",
    manufacturer=ACME,
    part_number="C-11",
    declared_family_ids=frozenset({CAMERA.id}),
    version_tag="2",
)
ADD = AddModelFamily(model_id=MODEL, family_id=OBJECTIVE.id)
REMOVE = RemoveModelFamily(model_id=MODEL, family_id=OBJECTIVE.id)
MANY = frozenset(UUID(int=100 + n) for n in range(51))


def gone(family: Family) -> Family:
    return replace(family, status=FamilyStatus.DEPRECATED)


def with_families(model: Model, *families: Family) -> ModelWithFamilies:
    return ModelWithFamilies(model=model, families=families)


def test_define_trims_its_text() -> None:
    untrimmed = replace(
        DEFINE, name=" Orca ", part_number=" C-11 ", manufacturer=replace(ACME, name=" Acme Optics ")
    )
    assert outcome(untrimmed, (CAMERA,)) == [replace(DEFINED, model_id=NEW_ID)]


def test_define_may_name_the_first_version() -> None:
    defined = replace(DEFINED, version_tag="1")
    assert outcome(replace(DEFINE, version_tag="1"), (CAMERA,)) == [replace(defined, model_id=NEW_ID)]
    assert given(models, defined).version_tags == (TaggedVersion(version_tag="1", stream_version=1),)


BAD_VALUES: list[tuple[dict[str, Any], type]] = [
    ({"name": " "}, InvalidModelNameError),
    ({"name": "x" * 201}, InvalidModelNameError),
    ({"manufacturer": Manufacturer(name=" ")}, InvalidManufacturerError),
    ({"manufacturer": Manufacturer(name="Acme", identifier="0")}, InvalidManufacturerError),
    ({"part_number": " "}, InvalidPartNumberError),
    ({"part_number": "x" * 101}, InvalidPartNumberError),
    ({"declared_family_ids": frozenset[UUID]()}, InvalidDeclaredFamiliesError),
    ({"declared_family_ids": MANY}, InvalidDeclaredFamiliesError),
    ({"version_tag": "initial"}, InvalidModelVersionTagError),
]


@pytest.mark.parametrize(("changes", "refusal"), BAD_VALUES)
def test_define_refuses_bad_values_before_a_deprecated_family(changes: dict[str, Any], refusal: type) -> None:
    assert outcome(replace(DEFINE, **changes), (gone(CAMERA),)) == refusal


@pytest.mark.parametrize(("changes", "refusal"), BAD_VALUES)
def test_version_refuses_bad_values_whatever_the_status(changes: dict[str, Any], refusal: type) -> None:
    seen = with_families(given(models, DEFINED, DEPRECATED), CAMERA)
    assert outcome(replace(VERSION, **changes), seen) == refusal


def test_define_refuses_a_deprecated_family() -> None:
    assert outcome(DEFINE, (gone(CAMERA),)) == FamilyDeprecatedError


def test_version_replaces_all() -> None:
    version = replace(VERSION, name="Orca II", part_number="C-12", declared_family_ids={OBJECTIVE.id})
    got = outcome(version, with_families(given(models, DEFINED), OBJECTIVE))
    assert got == [
        replace(
            VERSIONED,
            name="Orca II",
            part_number="C-12",
            declared_family_ids=frozenset({OBJECTIVE.id}),
        )
    ]


def test_version_tag_is_used_once_and_refused_before_families() -> None:
    version = replace(VERSION, declared_family_ids=frozenset({OBJECTIVE.id}))
    seen = with_families(given(models, DEFINED, VERSIONED), gone(OBJECTIVE))
    assert outcome(version, seen) == ModelVersionTagTakenError


def test_version_keeps_a_family_that_was_deprecated_since() -> None:
    assert outcome(VERSION, with_families(given(models, DEFINED), gone(CAMERA))) == [VERSIONED]


def test_version_refuses_a_further_family_that_is_deprecated() -> None:
    version = replace(VERSION, declared_family_ids=frozenset({CAMERA.id, OBJECTIVE.id}))
    seen = with_families(given(models, DEFINED), CAMERA, gone(OBJECTIVE))
    assert outcome(version, seen) == FamilyDeprecatedError


def test_version_tags_are_kept_with_their_stream_version() -> None:
    model = given(models, replace(DEFINED, version_tag="1"), ADDED, VERSIONED)
    assert model.version_tag == "2"
    assert model.version_tags == (
        TaggedVersion(version_tag="1", stream_version=1),
        TaggedVersion(version_tag="2", stream_version=3),
    )


def test_deprecate_needs_a_reason() -> None:
    command = DeprecateModel(model_id=MODEL, reason=" ")
    assert outcome(command, given(models, DEFINED)) == InvalidModelReasonError


def test_deprecation_is_dated() -> None:
    assert given(models, DEFINED, DEPRECATED).deprecated_at == NOW


def test_add_family() -> None:
    got = outcome(ADD, with_families(given(models, DEFINED), OBJECTIVE))
    assert got == [replace(ADDED, occurred_at=NOW)]


def test_add_family_refuses_one_that_is_declared_even_when_deprecated() -> None:
    seen = with_families(given(models, DEFINED, ADDED), gone(OBJECTIVE))
    assert outcome(ADD, seen) == ModelFamilyAlreadyPresentError


def test_add_family_refuses_a_deprecated_one() -> None:
    assert outcome(ADD, with_families(given(models, DEFINED), gone(OBJECTIVE))) == FamilyDeprecatedError


def test_add_family_refuses_more_than_fifty() -> None:
    full = given(models, replace(DEFINED, declared_family_ids=MANY - {min(MANY)}))
    assert outcome(ADD, with_families(full, OBJECTIVE)) == InvalidDeclaredFamiliesError


def test_remove_family() -> None:
    assert outcome(REMOVE, given(models, DEFINED, ADDED)) == [replace(REMOVED, occurred_at=NOW)]


def test_remove_family_refuses_one_that_is_not_declared() -> None:
    assert outcome(REMOVE, given(models, DEFINED)) == ModelFamilyNotPresentError


def test_remove_family_refuses_the_last_one() -> None:
    command = replace(REMOVE, family_id=CAMERA.id)
    assert outcome(command, given(models, DEFINED)) == ModelFamilyRequiredError


@pytest.mark.parametrize(
    ("history", "changed_at"),
    [
        ([DEFINED], NOW),
        ([DEFINED, ADDED], LATER),
        ([DEFINED, replace(VERSIONED, occurred_at=LATER)], NOW),
        (
            [DEFINED, replace(VERSIONED, occurred_at=LATER, declared_family_ids=frozenset({OBJECTIVE.id}))],
            LATER,
        ),
    ],
)
def test_the_time_of_the_families_moves_with_them_alone(history: list[Any], changed_at: Any) -> None:
    assert given(models, *history).families_changed_at == changed_at


def keys(*history: Any) -> list[tuple[str, str]]:
    return [(claim.kind, claim.key) for claim in models.claims(given(models, *history))]


def test_the_part_is_claimed_by_manufacturer_in_any_case_and_number_as_written() -> None:
    assert keys(DEFINED) == [("model-part", "acme optics\nC-11")]


def test_a_version_swaps_the_claim() -> None:
    assert keys(DEFINED, replace(VERSIONED, part_number="c-11")) == [("model-part", "acme optics\nc-11")]


def test_deprecation_releases_the_claim() -> None:
    assert keys(DEFINED, DEPRECATED) == []


def test_an_unknown_part_number_claims_nothing() -> None:
    assert keys(replace(DEFINED, part_number="Unknown-Pending-Confirmation")) == []


def test_a_deprecated_model_is_not_usable() -> None:
    check_model_usable(given(models, DEFINED))
    with pytest.raises(ModelDeprecatedError):
        check_model_usable(given(models, DEFINED, DEPRECATED))


REACH = {
    "Defined": [DEFINED, ADDED],
    "Versioned": [DEFINED, VERSIONED, ADDED],
    "Deprecated": [DEFINED, ADDED, DEPRECATED],
}
OWN_STREAM: dict[str, Command[Any]] = {
    "deprecate": DeprecateModel(model_id=MODEL, reason="unused"),
    "remove-family": REMOVE,
}
WITH_FAMILIES: dict[str, Command[Any]] = {
    "version": replace(VERSION, version_tag="3"),
    "add-family": replace(ADD, family_id=UUID(int=9)),
}

GRID = """
             deprecate    remove-family
Defined      Deprecated   Defined
Versioned    Deprecated   Versioned
Deprecated   -            -
"""

GRID_WITH_FAMILIES = """
             version     add-family
Defined      Versioned   Defined
Versioned    Versioned   Versioned
Deprecated   -           -
"""


def test_status_grid() -> None:
    check_grid(GRID, models, status=lambda model: model.status, reach=REACH, verbs=OWN_STREAM)


def test_status_grid_of_the_verbs_that_see_families() -> None:
    check_grid(
        GRID_WITH_FAMILIES,
        models,
        status=lambda model: model.status,
        reach=REACH,
        verbs=WITH_FAMILIES,
        seen=lambda model: with_families(model, CAMERA),
    )
