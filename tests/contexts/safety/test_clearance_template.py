"""Clearance template: its rules, its versions and its status grid."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.federation.facility import Facility, FacilityKind, FacilityStatus
from beamwright.contexts.safety.clearance_template import (
    ActivateClearanceTemplate,
    ClearanceTemplateDeprecated,
    ClearanceTemplateFacilityDecommissionedError,
    ClearanceTemplateStatus,
    ClearanceTemplateUnitChangedError,
    ClearanceTemplateVersioned,
    ClearanceTemplateVersionNotFoundError,
    ClearanceTemplateWithdrawn,
    DeprecateClearanceTemplate,
    GetClearanceTemplate,
    InvalidClearanceTemplateBindingsError,
    InvalidClearanceTemplateCodeError,
    InvalidClearanceTemplateDescriptionError,
    InvalidClearanceTemplateExternalRefError,
    InvalidClearanceTemplateFormSchemaError,
    InvalidClearanceTemplateReasonError,
    InvalidClearanceTemplateRolesError,
    InvalidClearanceTemplateTitleError,
    InvalidClearanceTemplateValidityError,
    WithdrawClearanceTemplate,
    clearance_templates,
)
from beamwright.contexts.safety.clearance_template_definition import (
    DefineClearanceTemplate,
    VersionClearanceTemplate,
    starter_templates,
)
from beamwright.contexts.safety.values import BindingKind
from beamwright.kernel.external_refs import GivenRef
from beamwright.kernel.value import replace
from beamwright.kernel.wellknown import GENERAL_CLEARANCE_TEMPLATE
from tests.contexts.safety.examples import (
    ACTIVATED_TEMPLATE,
    DEFINED_TEMPLATE,
    OFFICER,
    SCHEMA,
    TEMPLATE,
    by,
    template,
)
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, given, outcome

HOME = Facility(
    id=UUID(int=3),
    code="home",
    display_name="Home",
    kind=FacilityKind.SITE,
    parent_id=None,
    base_url=None,
    peer_actor_id=None,
)
DEFINE = DefineClearanceTemplate(code="Beam", title="Beam work", reviewer_roles=("radiation", "chemistry"))
VERSION = VersionClearanceTemplate(
    template_id=TEMPLATE,
    title="Beam work, revised",
    reviewer_roles=("radiation",),
    binding_kinds=frozenset({BindingKind.ASSET}),
    declared_kinds=frozenset({BindingKind.ASSET}),
    separated_duties=False,
)
VERSIONED = ClearanceTemplateVersioned(
    template_id=TEMPLATE,
    occurred_at=NOW,
    template_version=2,
    title="Beam work, revised",
    description=None,
    form_schema=None,
    reviewer_roles=("radiation",),
    binding_kinds=frozenset({BindingKind.ASSET}),
    declared_kinds=frozenset({BindingKind.ASSET}),
    valid_for=None,
    separated_duties=False,
    versioned_by=OFFICER,
)
DEPRECATED = ClearanceTemplateDeprecated(
    template_id=TEMPLATE, occurred_at=NOW, reason="new form", deprecated_by=OFFICER
)
WITHDRAWN = ClearanceTemplateWithdrawn(
    template_id=TEMPLATE, occurred_at=NOW, reason="wrong form", withdrawn_by=OFFICER
)


def test_a_template_begins_as_a_draft_of_its_facility() -> None:
    got = outcome(replace(DEFINE, code=" Beam ", title=" Beam work "), HOME, by(OFFICER))
    assert got == [replace(DEFINED_TEMPLATE, template_id=NEW_ID)]
    assert given(clearance_templates, DEFINED_TEMPLATE).status is ClearanceTemplateStatus.DRAFT


BAD_FORMS: list[tuple[dict[str, Any], type]] = [
    ({"title": " "}, InvalidClearanceTemplateTitleError),
    ({"description": "x" * 5001}, InvalidClearanceTemplateDescriptionError),
    ({"form_schema": {"type": "array"}}, InvalidClearanceTemplateFormSchemaError),
    ({"reviewer_roles": ("a", " a ")}, InvalidClearanceTemplateRolesError),
    ({"reviewer_roles": ("",)}, InvalidClearanceTemplateRolesError),
    ({"reviewer_roles": ("x" * 51,)}, InvalidClearanceTemplateRolesError),
    ({"reviewer_roles": tuple(map(str, range(11)))}, InvalidClearanceTemplateRolesError),
    ({"binding_kinds": frozenset()}, InvalidClearanceTemplateBindingsError),
    (
        {
            "binding_kinds": frozenset({BindingKind.RUN}),
            "declared_kinds": frozenset({BindingKind.ASSET}),
        },
        InvalidClearanceTemplateBindingsError,
    ),
    ({"valid_for": timedelta(hours=23)}, InvalidClearanceTemplateValidityError),
    ({"valid_for": timedelta(days=1831)}, InvalidClearanceTemplateValidityError),
]


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"code": "-beam"}, InvalidClearanceTemplateCodeError),
        ({"code": "b" * 51}, InvalidClearanceTemplateCodeError),
        *BAD_FORMS,
        ({"external_refs": {"Form": GivenRef(value="7")}}, InvalidClearanceTemplateExternalRefError),
    ],
)
def test_define_refuses_each_bad_value_with_its_own_class(fields: dict[str, Any], refusal: type) -> None:
    assert outcome(replace(DEFINE, **fields), HOME) == refusal


@pytest.mark.parametrize(("fields", "refusal"), BAD_FORMS)
def test_version_refuses_what_define_refuses(fields: dict[str, Any], refusal: type) -> None:
    assert outcome(replace(VERSION, **fields), template()) == refusal


def test_a_template_needs_a_facility_in_use() -> None:
    closed = replace(HOME, status=FacilityStatus.DECOMMISSIONED)
    assert outcome(DEFINE, closed) == ClearanceTemplateFacilityDecommissionedError


def test_a_version_replaces_all_and_keeps_the_earlier_one_readable() -> None:
    assert outcome(VERSION, template(), by(OFFICER)) == [VERSIONED]
    now = given(clearance_templates, DEFINED_TEMPLATE, ACTIVATED_TEMPLATE, VERSIONED)
    assert (now.template_version, now.title, now.status) == (2, "Beam work, revised", "Active")
    assert now.form(1).reviewer_roles == ("radiation", "chemistry")
    assert now.form(2).reviewer_roles == ("radiation",)


def test_an_unknown_version_is_not_found() -> None:
    with pytest.raises(ClearanceTemplateVersionNotFoundError):
        template().form(2)


def test_a_read_of_a_version_shows_what_was_asked_then() -> None:
    now = given(clearance_templates, DEFINED_TEMPLATE, VERSIONED)

    class Shelf:
        async def load(self, aggregate: object, id: UUID) -> Any:
            return now

        async def view(self, aggregate: object, id: UUID, version: object, at: object) -> Any:
            return now

    world: Any = Shelf()
    shown = asyncio.run(GetClearanceTemplate(template_id=TEMPLATE, template_version=1).answer(world))
    assert (shown.template_version, shown.title) == (1, "Beam work")


def test_a_field_keeps_its_unit_from_version_to_version() -> None:
    other: Any = {**SCHEMA, "properties": {**SCHEMA["properties"]}}
    other["properties"]["energy"] = {"type": "number", "unit": {"system": "ucum", "code": "eV"}}
    before = template(form_schema=SCHEMA)
    assert outcome(replace(VERSION, form_schema=other), before) == ClearanceTemplateUnitChangedError
    assert not isinstance(outcome(replace(VERSION, form_schema=SCHEMA), before), type)
    assert not isinstance(outcome(VERSION, before), type)


def test_a_code_is_claimed_at_its_facility_until_withdrawn() -> None:
    assert [claim.key for claim in clearance_templates.claims(template())] == ["home/beam"]
    deprecated = given(clearance_templates, DEFINED_TEMPLATE, ACTIVATED_TEMPLATE, DEPRECATED)
    assert clearance_templates.claims(deprecated)
    assert clearance_templates.claims(given(clearance_templates, DEFINED_TEMPLATE, WITHDRAWN)) == []


def test_reasons_are_not_blank() -> None:
    for verb in (DeprecateClearanceTemplate, WithdrawClearanceTemplate):
        refused = outcome(verb(template_id=TEMPLATE, reason=" "), template())
        assert refused == InvalidClearanceTemplateReasonError


def test_the_first_template_is_finished_by_one_person_and_activated() -> None:
    [(id, general), (again, activation)] = starter_templates("home")
    assert id == again == GENERAL_CLEARANCE_TEMPLATE
    assert isinstance(general, DefineClearanceTemplate) and isinstance(activation, ActivateClearanceTemplate)
    assert (general.code, general.reviewer_roles, general.separated_duties) == ("general", (), False)
    assert not isinstance(outcome(general, HOME), type)


GRID = """
             activate   version      deprecate    withdraw
Draft        Active     Draft        -            Withdrawn
Active       -          Active       Deprecated   Withdrawn
Deprecated   -          -            -            Withdrawn
Withdrawn    -          -            -            -
"""


def test_status_grid() -> None:
    check_grid(
        GRID,
        clearance_templates,
        status=lambda template: template.status,
        reach={
            "Draft": [DEFINED_TEMPLATE],
            "Active": [DEFINED_TEMPLATE, ACTIVATED_TEMPLATE],
            "Deprecated": [DEFINED_TEMPLATE, ACTIVATED_TEMPLATE, DEPRECATED],
            "Withdrawn": [DEFINED_TEMPLATE, WITHDRAWN],
        },
        verbs={
            "activate": ActivateClearanceTemplate(template_id=TEMPLATE),
            "version": VERSION,
            "deprecate": DeprecateClearanceTemplate(template_id=TEMPLATE, reason="new form"),
            "withdraw": WithdrawClearanceTemplate(template_id=TEMPLATE, reason="wrong form"),
        },
    )
