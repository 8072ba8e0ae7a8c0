"""Registering, describing and declaring the hazards of subjects."""

from typing import Any

import pytest

from beamwright.contexts.federation.facility import FacilityKind, FacilityStatus
from beamwright.contexts.subject.subject import (
    Hazard,
    InvalidSubjectLocationError,
    InvalidSubjectReasonError,
    ParentRelation,
    SubjectDescribed,
    SubjectHazardsDeclared,
    SubjectKind,
    SubjectRegistered,
)
from beamwright.contexts.subject.subject_registration import (
    DeclareSubjectHazards,
    DescribeSubject,
    InvalidSubjectCompositionError,
    InvalidSubjectDescriptionError,
    InvalidSubjectHazardsError,
    InvalidSubjectKeywordsError,
    InvalidSubjectNameError,
    InvalidSubjectParentError,
    RegisterSubject,
    SubjectFacilityDecommissionedError,
    SubjectOrigin,
    SubjectParentFacilityMismatchError,
)
from beamwright.kernel.value import replace
from tests.contexts.equipment.asset_examples import facility
from tests.contexts.subject.examples import KEEPER, OTHER, SUBJECT, VISIT, subject
from tests.rules import NEW_ID, NOW, OCCASION, PRINCIPAL, outcome

HERE = SubjectOrigin(facility=facility("aps"))
TOXIC = Hazard(scheme="GHS", code="GHS06")
CORROSIVE = Hazard(scheme="GHS", code="GHS05")


def register(**fields: Any) -> RegisterSubject:
    return RegisterSubject(**{"name": "Basalt"} | fields)


def registered(command: RegisterSubject, origin: SubjectOrigin = HERE) -> SubjectRegistered:
    return command.decide(origin, OCCASION)


def test_whoever_registers_a_subject_owns_and_holds_it() -> None:
    event = registered(register(name=" Basalt "))
    assert (event.subject_id, event.name, event.facility_code) == (NEW_ID, "Basalt", "aps")
    assert event.owner_id == event.custodian_id == event.registered_by == PRINCIPAL


def test_a_subject_of_somebody_else_is_held_by_whoever_registers_it() -> None:
    event = registered(register(owner_id=KEEPER))
    assert (event.owner_id, event.custodian_id) == (KEEPER, PRINCIPAL)


def test_hazards_are_kept_in_order_and_once() -> None:
    event = registered(register(hazards=(TOXIC, CORROSIVE, replace(TOXIC, code=" GHS06 "))))
    assert event.hazards == (CORROSIVE, TOXIC)


def test_keywords_are_trimmed() -> None:
    assert registered(register(keywords=frozenset({" rock ", "rock"}))).keywords == {"rock"}


def test_a_section_names_what_it_was_cut_from() -> None:
    origin = replace(HERE, parent=subject())
    event = registered(register(parent_id=SUBJECT, parent_relation=ParentRelation.SECTION), origin)
    assert (event.parent_id, event.parent_relation) == (SUBJECT, ParentRelation.SECTION)


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"name": " "}, InvalidSubjectNameError),
        ({"name": "x" * 201}, InvalidSubjectNameError),
        ({"description": " "}, InvalidSubjectDescriptionError),
        ({"description": "x" * 5001}, InvalidSubjectDescriptionError),
        ({"composition": "x" * 501}, InvalidSubjectCompositionError),
        ({"keywords": frozenset({"x" * 101})}, InvalidSubjectKeywordsError),
        ({"keywords": frozenset(str(n) for n in range(33))}, InvalidSubjectKeywordsError),
        ({"parent_id": OTHER}, InvalidSubjectParentError),
        ({"parent_relation": ParentRelation.ALIQUOT}, InvalidSubjectParentError),
        ({"hazards": (Hazard(scheme=" ", code="x"),)}, InvalidSubjectHazardsError),
        ({"hazards": tuple(Hazard(scheme="x", code=str(n)) for n in range(33))}, InvalidSubjectHazardsError),
        ({"location": " "}, InvalidSubjectLocationError),
        ({"location": "x" * 201}, InvalidSubjectLocationError),
    ],
)
def test_register_refuses_bad_values(fields: dict[str, Any], refusal: type) -> None:
    assert outcome(register(**fields), HERE) == refusal


@pytest.mark.parametrize("changed", [{"status": FacilityStatus.DECOMMISSIONED}, {"kind": FacilityKind.PEER}])
def test_register_needs_a_facility_in_use(changed: dict[str, Any]) -> None:
    origin = SubjectOrigin(facility=replace(facility("aps"), **changed))
    assert outcome(register(), origin) == SubjectFacilityDecommissionedError


def test_register_needs_a_parent_of_a_related_facility() -> None:
    origin = replace(HERE, parent=subject(facility_code="elsewhere"), related=False)
    command = register(parent_id=SUBJECT, parent_relation=ParentRelation.ALIQUOT)
    assert outcome(command, origin) == SubjectParentFacilityMismatchError


def test_values_come_before_the_facility_and_that_before_the_parent() -> None:
    gone = replace(facility("aps"), status=FacilityStatus.DECOMMISSIONED)
    origin = SubjectOrigin(facility=gone, parent=subject(), related=False)
    command = register(parent_id=SUBJECT, parent_relation=ParentRelation.ALIQUOT)
    assert outcome(replace(command, location=" "), origin) == InvalidSubjectLocationError
    assert outcome(command, origin) == SubjectFacilityDecommissionedError


def test_describe_keeps_what_is_absent_and_clears_what_is_null() -> None:
    before = subject(description="grey", composition="SiO2")
    got = outcome(DescribeSubject(subject_id=SUBJECT, description=None, visit_id=VISIT), before)
    assert got == [
        SubjectDescribed(
            subject_id=SUBJECT,
            occurred_at=NOW,
            name="Basalt",
            kind=SubjectKind.SAMPLE,
            description=None,
            composition="SiO2",
            keywords=frozenset(),
            visit_id=VISIT,
            owner_id=PRINCIPAL,
            described_by=PRINCIPAL,
        )
    ]


def test_describe_that_changes_nothing_is_a_no_op() -> None:
    assert outcome(DescribeSubject(subject_id=SUBJECT, name=" Basalt "), subject()) == []


def test_describe_refuses_bad_values() -> None:
    assert outcome(DescribeSubject(subject_id=SUBJECT, name=" "), subject()) == InvalidSubjectNameError


def test_hazards_are_replaced_with_a_reason() -> None:
    command = DeclareSubjectHazards(subject_id=SUBJECT, hazards=(TOXIC,), reason=" analysed ")
    assert outcome(command, subject(hazards=(CORROSIVE,))) == [
        SubjectHazardsDeclared(
            subject_id=SUBJECT,
            occurred_at=NOW,
            hazards=(TOXIC,),
            reason="analysed",
            declared_by=PRINCIPAL,
        )
    ]


def test_declaring_the_same_hazards_again_is_a_no_op() -> None:
    command = DeclareSubjectHazards(subject_id=SUBJECT, hazards=(TOXIC, CORROSIVE), reason="again")
    assert outcome(command, subject(hazards=(CORROSIVE, TOXIC))) == []


def test_declaring_hazards_needs_a_reason() -> None:
    command = DeclareSubjectHazards(subject_id=SUBJECT, hazards=(TOXIC,), reason=" ")
    assert outcome(command, subject()) == InvalidSubjectReasonError


def test_a_hazard_is_found_by_scheme_and_code() -> None:
    assert TOXIC.text == "GHS:GHS06"
