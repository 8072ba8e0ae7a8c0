"""The DataCite record of a subject, as an IGSN asks for it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from beamwright.contexts.equipment.pidinst_reads import landing_page
from beamwright.contexts.equipment.pidinst_records import (
    KERNEL_4,
    DataCiteAlternateIdentifier,
    DataCiteContributor,
    DataCiteDescription,
    DataCiteNameIdentifier,
    DataCiteRelatedIdentifier,
)
from beamwright.contexts.federation.facility import Facility
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Query, World
from beamwright.kernel.profiles import DELETED_USER, Profile
from beamwright.kernel.value import Value, encode

from .citation import Citation, Creator
from .subject import IGSN, ParentRelation, Subject, subjects
from .subject_reads import children_within_reach

ROR = "ROR"
SPDX = "https://spdx.org/licenses/"


class SubjectNotCitableError(ConflictError):
    """No identifier was asked for, so nobody is known to be the creator."""


class CitedAffiliation(Value, rename="camel", omit_defaults=True):
    name: text.Personal
    affiliation_identifier: str | None = None
    affiliation_identifier_scheme: str | None = None


class CitedCreator(Value, rename="camel", omit_defaults=True):
    name: text.Personal
    name_type: str
    name_identifiers: tuple[DataCiteNameIdentifier, ...] = ()
    affiliation: tuple[CitedAffiliation, ...] = ()


class CitedTitle(Value, rename="camel", omit_defaults=True):
    title: str
    title_type: str | None = None


class CitedPublisher(Value, rename="camel", omit_defaults=True):
    name: str
    publisher_identifier: str | None = None
    publisher_identifier_scheme: str | None = None


class CitedTypes(Value, rename="camel"):
    resource_type_general: str
    resource_type: str


class CitedKeyword(Value):
    subject: str


class CitedDate(Value, rename="camel", omit_defaults=True):
    date: str
    date_type: str
    date_information: str | None = None


class CitedRights(Value, rename="camel"):
    rights_identifier: str
    rights_identifier_scheme: str
    rights_uri: str


class SubjectDataCiteRecord(
    Value, rename="camel", omit_defaults=True, tag_field="schemaVersion", tag=KERNEL_4
):
    """A subject as DataCite 4 describes it; what is empty is left out."""

    doi: str | None = None
    url: str
    creators: tuple[CitedCreator, ...]
    titles: tuple[CitedTitle, ...]
    publisher: CitedPublisher
    publication_year: str
    types: CitedTypes
    subjects: tuple[CitedKeyword, ...] = ()
    contributors: tuple[DataCiteContributor, ...]
    dates: tuple[CitedDate, ...]
    related_identifiers: tuple[DataCiteRelatedIdentifier, ...] = ()
    alternate_identifiers: tuple[DataCiteAlternateIdentifier, ...]
    descriptions: tuple[DataCiteDescription, ...] = ()
    rights_list: tuple[CitedRights, ...] = ()


class SubjectSurroundings(Value):
    """What a subject's record names besides the subject."""

    facility: Facility
    profiles: Mapping[UUID, Profile]
    parent: Subject | None
    children: tuple[Subject, ...]
    pages: Mapping[UUID, str]


@subjects.operation("GET /subjects/{subject_id}/datacite")
class GetSubjectDatacite(Query[SubjectDataCiteRecord]):
    """Read the record of a subject as DataCite writes it."""

    subject_id: UUID

    async def answer(self, world: World) -> SubjectDataCiteRecord:
        subject = await world.load(subjects, self.subject_id)
        citation = subject.citation
        if citation is None:
            raise SubjectNotCitableError(
                "Ask for a persistent identifier first: that names the creators.", subject_id=str(subject.id)
            )
        return datacite(subject, citation, await surroundings(world, subject, citation))


async def surroundings(world: World, subject: Subject, citation: Citation) -> SubjectSurroundings:
    found = [await world.profiles.profile(creator.actor_id) for creator in citation.creators]
    # Whoever may read the subject may know where it is handled.
    places: list[Facility] = list(await world.look_up("Facility", code=subject.facility_code) or [])
    parent = None if subject.parent_id is None else await world.load(subjects, subject.parent_id)
    children = tuple(sorted(await children_within_reach(world, [subject.id]), key=lambda child: child.id))
    described = [subject, *children, *([parent] if parent is not None else [])]
    return SubjectSurroundings(
        facility=places[0],
        profiles={profile.actor_id: profile for profile in found if profile is not None},
        parent=parent,
        children=children,
        pages={each.id: landing_page(world.installation, "subjects", each.id) for each in described},
    )


def datacite(subject: Subject, citation: Citation, near: SubjectSurroundings) -> SubjectDataCiteRecord:
    identifier, ror = subject.external_refs.get(IGSN), _ror(near.facility)
    return SubjectDataCiteRecord(
        doi=None if identifier is None else identifier.value,
        url=near.pages[subject.id],
        creators=tuple(_creators(citation, near)),
        titles=tuple(_titles(subject)),
        publisher=CitedPublisher(
            name=near.facility.display_name,
            publisher_identifier=ror,
            publisher_identifier_scheme=None if ror is None else ROR,
        ),
        publication_year=f"{citation.publication_year:04d}",
        types=CitedTypes(resource_type_general="PhysicalObject", resource_type=subject.kind),
        subjects=tuple(CitedKeyword(subject=each) for each in _keywords(subject)),
        contributors=(_host(near.facility, ror),),
        dates=tuple(_dates(subject)),
        related_identifiers=tuple(_related(subject, near)),
        alternate_identifiers=tuple(_alternate(subject)),
        descriptions=tuple(_descriptions(subject)),
        rights_list=_rights(citation.license),
    )


def for_agency(record: SubjectDataCiteRecord) -> dict[str, Any]:
    """What a registration agency gets."""
    return msgspec.json.decode(encode(record))


def _ror(facility: Facility) -> str | None:
    ref = facility.external_refs.get("ror")
    return None if ref is None else f"https://ror.org/{ref.value.removeprefix('https://ror.org/')}"


def _creators(citation: Citation, near: SubjectSurroundings) -> Iterable[CitedCreator]:
    """The people who are credited; where none of them is known any more, the facility."""
    if not near.profiles:
        yield CitedCreator(name=near.facility.display_name, name_type="Organizational")
        return
    for creator in citation.creators:
        yield _creator(creator, near.profiles.get(creator.actor_id))


def _creator(creator: Creator, profile: Profile | None) -> CitedCreator:
    orcid = profile.external_refs.get("orcid") if profile is not None else None
    return CitedCreator(
        name=DELETED_USER if profile is None else profile.name,
        name_type="Personal",
        name_identifiers=()
        if orcid is None
        else (
            DataCiteNameIdentifier(
                name_identifier=f"https://orcid.org/{orcid.value}", name_identifier_scheme="ORCID"
            ),
        ),
        affiliation=tuple(
            CitedAffiliation(
                name=each.name,
                affiliation_identifier=each.ror,
                affiliation_identifier_scheme=None if each.ror is None else ROR,
            )
            for each in creator.affiliations
        ),
    )


def _host(facility: Facility, ror: str | None) -> DataCiteContributor:
    named = () if ror is None else (DataCiteNameIdentifier(name_identifier=ror, name_identifier_scheme=ROR),)
    return DataCiteContributor(
        name=facility.display_name,
        name_type="Organizational",
        contributor_type="HostingInstitution",
        name_identifiers=named,
    )


def _titles(subject: Subject) -> Iterable[CitedTitle]:
    yield CitedTitle(title=subject.name)
    if subject.composition is not None:
        yield CitedTitle(title=subject.composition, title_type="Subtitle")


def _keywords(subject: Subject) -> Sequence[str]:
    return [*sorted(subject.keywords), *(hazard.text for hazard in subject.hazards)]


def _dates(subject: Subject) -> Iterable[CitedDate]:
    yield CitedDate(date=subject.registered_at.date().isoformat(), date_type="Created")
    if subject.discarded_at is not None:
        day = subject.discarded_at.date().isoformat()
        yield CitedDate(date=day, date_type="Other", date_information="Discarded")


def _related(subject: Subject, near: SubjectSurroundings) -> Iterable[DataCiteRelatedIdentifier]:
    if near.parent is not None:
        member = subject.parent_relation is ParentRelation.MEMBER
        yield _relation(near.parent, "IsPartOf" if member else "IsDerivedFrom", near.pages)
    for child in near.children:
        member = child.parent_relation is ParentRelation.MEMBER
        yield _relation(child, "HasPart" if member else "IsSourceOf", near.pages)


def _relation(other: Subject, relation: str, pages: Mapping[UUID, str]) -> DataCiteRelatedIdentifier:
    identifier = other.external_refs.get(IGSN)
    return DataCiteRelatedIdentifier(
        related_identifier=pages[other.id] if identifier is None else identifier.value,
        related_identifier_type="URL" if identifier is None else IGSN,
        relation_type=relation,
    )


def _alternate(subject: Subject) -> Iterable[DataCiteAlternateIdentifier]:
    yield DataCiteAlternateIdentifier(alternate_identifier=str(subject.id), alternate_identifier_type="UUID")
    for scheme, ref in sorted(subject.external_refs.items()):
        if scheme != IGSN:
            yield DataCiteAlternateIdentifier(
                alternate_identifier=ref.value, alternate_identifier_type=scheme
            )


def _descriptions(subject: Subject) -> Iterable[DataCiteDescription]:
    if subject.description is not None:
        yield DataCiteDescription(description=subject.description, description_type="Abstract")
    if subject.composition is not None:
        yield DataCiteDescription(description=subject.composition, description_type="TechnicalInfo")


def _rights(license: str | None) -> tuple[CitedRights, ...]:
    if license is None:
        return ()
    return (
        CitedRights(
            rights_identifier=license, rights_identifier_scheme="SPDX", rights_uri=f"{SPDX}{license}.html"
        ),
    )
