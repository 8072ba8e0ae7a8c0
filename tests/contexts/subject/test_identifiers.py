"""Persistent identifiers of subjects, and the record that they are cited by."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.identifiers import InvalidPersistentIdentifierError
from beamwright.contexts.subject.citation import (
    Affiliation,
    Citation,
    Creator,
    IdentifierStatus,
    InvalidLicenseError,
    InvalidPublicationYearError,
)
from beamwright.contexts.subject.minting import IDENTIFIABLE_SUBJECTS
from beamwright.contexts.subject.subject import (
    Hazard,
    InvalidSubjectReasonError,
    ParentRelation,
    Subject,
    SubjectKind,
    SubjectPersistentIdentifierAssigned,
    SubjectPersistentIdentifierFailed,
    SubjectPersistentIdentifierRequested,
    SubjectPersistentIdentifierTombstoned,
)
from beamwright.contexts.subject.subject_datacite import SubjectSurroundings, datacite, for_agency
from beamwright.contexts.subject.subject_identifiers import (
    AssignSubjectPersistentIdentifier,
    FailSubjectPersistentIdentifier,
    InvalidSubjectCreatorsError,
    RequestSubjectPersistentIdentifier,
    SubjectCannotFailPersistentIdentifierError,
    SubjectCannotRequestPersistentIdentifierError,
    SubjectCannotTombstonePersistentIdentifierError,
    SubjectPersistentIdentifierAlreadyAssignedError,
    SubjectPersistentIdentifierAlreadyRequestedError,
    TombstoneSubjectPersistentIdentifier,
)
from beamwright.kernel.event import Event
from beamwright.kernel.identifiers import MintedIdentifier, PersistentIdentifierScheme
from beamwright.kernel.profiles import DELETED_USER, ExternalRef, Profile
from beamwright.kernel.value import replace
from tests.contexts.equipment.asset_examples import facility
from tests.contexts.subject.examples import DISCARDED, KEEPER, OTHER, REMOVED, SUBJECT, subject
from tests.rules import NOW, OCCASION, PRINCIPAL, outcome

CREATOR = Creator(actor_id=KEEPER, affiliations=(Affiliation(name="APS", ror="https://ror.org/05gvnxz63"),))
REQUEST = RequestSubjectPersistentIdentifier(subject_id=SUBJECT, creators=(CREATOR,), license="CC-BY-4.0")
REQUESTED = REQUEST.decide(subject(), OCCASION)
ASSIGN = AssignSubjectPersistentIdentifier(
    subject_id=SUBJECT, scheme="IGSN", value="10.5072/abc", authority="stub"
)
[ASSIGNED] = ASSIGN.decide(subject(REQUESTED), OCCASION)
FAIL = FailSubjectPersistentIdentifier(subject_id=SUBJECT, reason="refused")
TOMBSTONE = TombstoneSubjectPersistentIdentifier(subject_id=SUBJECT, reason="gone")
FAILED = FAIL.decide(subject(REQUESTED), OCCASION)
TOMBSTONED = TOMBSTONE.decide(subject(ASSIGNED), OCCASION)


def test_a_request_says_how_the_subject_is_cited() -> None:
    assert (
        SubjectPersistentIdentifierRequested(
            subject_id=SUBJECT,
            occurred_at=NOW,
            scheme="IGSN",
            suffix=str(SUBJECT),
            creators=(CREATOR,),
            publication_year=2026,
            license="CC-BY-4.0",
            requested_by=PRINCIPAL,
        )
        == REQUESTED
    )


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"creators": ()}, InvalidSubjectCreatorsError),
        ({"creators": (CREATOR, CREATOR)}, InvalidSubjectCreatorsError),
        ({"creators": tuple(Creator(actor_id=UUID(int=n)) for n in range(101))}, InvalidSubjectCreatorsError),
        (
            {"creators": (replace(CREATOR, affiliations=CREATOR.affiliations * 6),)},
            InvalidSubjectCreatorsError,
        ),
        (
            {"creators": (replace(CREATOR, affiliations=(Affiliation(name="x", ror="05gvnxz63"),)),)},
            InvalidSubjectCreatorsError,
        ),
        ({"publication_year": 1899}, InvalidPublicationYearError),
        ({"publication_year": 2032}, InvalidPublicationYearError),
        ({"license": "as you like"}, InvalidLicenseError),
    ],
)
def test_request_refuses_bad_values(changes: dict[str, Any], refusal: type) -> None:
    assert outcome(replace(REQUEST, **changes), subject()) == refusal


@pytest.mark.parametrize(
    ("state", "refusal"),
    [
        (subject(REMOVED, DISCARDED), SubjectCannotRequestPersistentIdentifierError),
        (subject(kind=SubjectKind.COMPUTED), SubjectCannotRequestPersistentIdentifierError),
        (subject(ASSIGNED, TOMBSTONED), SubjectCannotRequestPersistentIdentifierError),
        (subject(ASSIGNED), SubjectPersistentIdentifierAlreadyAssignedError),
        (subject(REQUESTED), SubjectPersistentIdentifierAlreadyRequestedError),
    ],
)
def test_an_igsn_is_asked_for_once_and_for_what_is_there(state: Subject, refusal: type) -> None:
    assert outcome(REQUEST, state) == refusal


def test_after_a_failure_another_request_is_allowed() -> None:
    assert not isinstance(outcome(REQUEST, subject(REQUESTED, FAILED)), type)


def test_an_identifier_is_assigned_with_or_without_a_request() -> None:
    expected = SubjectPersistentIdentifierAssigned(
        subject_id=SUBJECT,
        occurred_at=NOW,
        scheme="IGSN",
        value="10.5072/abc",
        authority="stub",
        assigned_by=PRINCIPAL,
    )
    assert outcome(ASSIGN, subject()) == outcome(ASSIGN, subject(REQUESTED)) == [expected]


def test_assigning_the_same_value_again_is_a_no_op_and_another_is_refused() -> None:
    assert outcome(ASSIGN, subject(ASSIGNED)) == []
    other = replace(ASSIGN, value="10.5072/xyz")
    assert outcome(other, subject(ASSIGNED)) == SubjectPersistentIdentifierAlreadyAssignedError


@pytest.mark.parametrize(
    "changes",
    [
        {"value": "doi:10.5072/abc"},
        {"value": "https://doi.org/10.5072/abc"},
        {"value": "abc"},
        {"value": " "},
        {"authority": " "},
        {"scheme": "no scheme"},
        {"scheme": "lims", "value": "https://lims.example/42"},
    ],
)
def test_an_identifier_is_written_bare(changes: dict[str, str]) -> None:
    assert outcome(replace(ASSIGN, **changes), subject()) == InvalidPersistentIdentifierError


def test_a_plain_link_is_whatever_the_other_system_uses() -> None:
    assert not isinstance(outcome(replace(ASSIGN, scheme="lims", value="42"), subject()), type)


HISTORIES: dict[str, Sequence[Event]] = {
    "NotRequested": [],
    "Requested": [REQUESTED],
    "Assigned": [ASSIGNED],
    "Failed": [REQUESTED, FAILED],
    "Tombstoned": [ASSIGNED, TOMBSTONED],
}


@pytest.mark.parametrize("status", IdentifierStatus)
def test_only_a_pending_request_fails_and_only_an_identifier_is_withdrawn(status: IdentifierStatus) -> None:
    state = subject(*HISTORIES[status])
    failed, withdrawn = outcome(FAIL, state), outcome(TOMBSTONE, state)
    assert (failed == SubjectCannotFailPersistentIdentifierError) == (status != "Requested")
    assert (withdrawn == SubjectCannotTombstonePersistentIdentifierError) == (status != "Assigned")


def test_failing_and_withdrawing_say_why() -> None:
    assert isinstance(FAILED, SubjectPersistentIdentifierFailed) and FAILED.reason == "refused"
    assert isinstance(TOMBSTONED, SubjectPersistentIdentifierTombstoned) and TOMBSTONED.reason == "gone"
    assert outcome(replace(FAIL, reason=" "), subject(REQUESTED)) == InvalidSubjectReasonError
    assert outcome(replace(TOMBSTONE, reason=" "), subject(ASSIGNED)) == InvalidSubjectReasonError


def ref(value: str) -> ExternalRef:
    return ExternalRef(value=value, authority="x", assigned_at=NOW)


ADA = Profile(
    actor_id=KEEPER,
    name="Ada",
    external_refs={"orcid": ref("0000-0002-1825-0097")},
    created_at=NOW,
    updated_at=NOW,
)
HERE = SubjectSurroundings(
    facility=replace(facility("aps"), external_refs={"ror": ref("05gvnxz63")}),
    profiles={KEEPER: ADA},
    parent=None,
    children=(),
    pages={SUBJECT: "https://x/subjects/1", OTHER: "https://x/subjects/2"},
)


def record(near: SubjectSurroundings = HERE, *events: Event, **changes: Any) -> dict[str, Any]:
    state = subject(REQUESTED, *events, **changes)
    assert isinstance(state.citation, Citation)
    return for_agency(datacite(state, state.citation, near))


def test_the_record_names_what_datacite_asks_for() -> None:
    found = record(composition="SiO2", description="A rock", keywords=frozenset({"rock"}))
    assert found == {
        "schemaVersion": "http://datacite.org/schema/kernel-4",
        "url": "https://x/subjects/1",
        "creators": [
            {
                "name": "Ada",
                "nameType": "Personal",
                "nameIdentifiers": [
                    {
                        "nameIdentifier": "https://orcid.org/0000-0002-1825-0097",
                        "nameIdentifierScheme": "ORCID",
                    }
                ],
                "affiliation": [
                    {
                        "name": "APS",
                        "affiliationIdentifier": "https://ror.org/05gvnxz63",
                        "affiliationIdentifierScheme": "ROR",
                    }
                ],
            }
        ],
        "titles": [{"title": "Basalt"}, {"title": "SiO2", "titleType": "Subtitle"}],
        "publisher": {
            "name": "aps",
            "publisherIdentifier": "https://ror.org/05gvnxz63",
            "publisherIdentifierScheme": "ROR",
        },
        "publicationYear": "2026",
        "types": {"resourceTypeGeneral": "PhysicalObject", "resourceType": "Sample"},
        "subjects": [{"subject": "rock"}],
        "contributors": [
            {
                "name": "aps",
                "nameType": "Organizational",
                "contributorType": "HostingInstitution",
                "nameIdentifiers": [
                    {"nameIdentifier": "https://ror.org/05gvnxz63", "nameIdentifierScheme": "ROR"}
                ],
            }
        ],
        "dates": [{"date": "2026-01-01", "dateType": "Created"}],
        "alternateIdentifiers": [{"alternateIdentifier": str(SUBJECT), "alternateIdentifierType": "UUID"}],
        "descriptions": [
            {"description": "A rock", "descriptionType": "Abstract"},
            {"description": "SiO2", "descriptionType": "TechnicalInfo"},
        ],
        "rightsList": [
            {
                "rightsIdentifier": "CC-BY-4.0",
                "rightsIdentifierScheme": "SPDX",
                "rightsUri": "https://spdx.org/licenses/CC-BY-4.0.html",
            }
        ],
    }


def test_owner_and_custodian_are_not_exported() -> None:
    assert str(PRINCIPAL) not in str(record())


def test_hazards_are_among_the_subjects() -> None:
    found = record(hazards=(Hazard(scheme="GHS", code="GHS06"),))
    assert found["subjects"] == [{"subject": "GHS:GHS06"}]


def test_a_discard_is_dated() -> None:
    found = record(HERE, REMOVED, DISCARDED)
    assert {"date": "2026-01-01", "dateType": "Other", "dateInformation": "Discarded"} in found["dates"]


def test_a_forgotten_creator_is_named_as_such_and_the_facility_stands_in_for_all() -> None:
    two = replace(REQUESTED, creators=(CREATOR, Creator(actor_id=OTHER)))
    citation = subject(two).citation
    assert citation is not None
    names = [each.name for each in datacite(subject(two), citation, HERE).creators]
    assert names == ["Ada", DELETED_USER]
    assert record(replace(HERE, profiles={}))["creators"] == [{"name": "aps", "nameType": "Organizational"}]


@pytest.mark.parametrize(
    ("relation", "up", "down"),
    [
        (ParentRelation.ALIQUOT, "IsDerivedFrom", "IsSourceOf"),
        (ParentRelation.SECTION, "IsDerivedFrom", "IsSourceOf"),
        (ParentRelation.FRAGMENT, "IsDerivedFrom", "IsSourceOf"),
        (ParentRelation.DERIVATIVE, "IsDerivedFrom", "IsSourceOf"),
        (ParentRelation.MEMBER, "IsPartOf", "HasPart"),
    ],
)
def test_parents_and_children_are_related(relation: ParentRelation, up: str, down: str) -> None:
    parent = subject(subject_id=OTHER)
    above = record(replace(HERE, parent=parent), parent_id=OTHER, parent_relation=relation)
    below = record(
        replace(HERE, children=(subject(subject_id=OTHER, parent_id=SUBJECT, parent_relation=relation),))
    )
    page = {"relatedIdentifier": "https://x/subjects/2", "relatedIdentifierType": "URL"}
    assert above["relatedIdentifiers"] == [page | {"relationType": up}]
    assert below["relatedIdentifiers"] == [page | {"relationType": down}]


def test_what_has_an_igsn_is_related_by_it() -> None:
    parent = subject(replace(ASSIGNED, subject_id=OTHER), subject_id=OTHER)
    found = record(replace(HERE, parent=parent), parent_id=OTHER, parent_relation=ParentRelation.MEMBER)
    assert found["relatedIdentifiers"][0]["relatedIdentifier"] == "10.5072/abc"
    assert found["relatedIdentifiers"][0]["relatedIdentifierType"] == "IGSN"


def test_other_references_are_alternate_identifiers_and_the_igsn_is_the_identifier() -> None:
    found = record(HERE, ASSIGNED, replace(ASSIGNED, scheme="lims", value="42"))
    assert found["doi"] == "10.5072/abc"
    assert {"alternateIdentifier": "42", "alternateIdentifierType": "lims"} in found["alternateIdentifiers"]


def test_the_minter_assigns_what_was_minted_as_igsn() -> None:
    kind = IDENTIFIABLE_SUBJECTS
    minted = MintedIdentifier(value="10.5072/abc", authority="stub")
    assert kind.pending(subject(REQUESTED)) is PersistentIdentifierScheme.DOI
    assert kind.pending(subject(ASSIGNED)) is None
    assert kind.assign(SUBJECT, PersistentIdentifierScheme.DOI, minted) == ASSIGN
