"""Registering subjects, describing them, and declaring what is hazardous about them."""

from collections.abc import Collection, Iterable
from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from beamwright.contexts.access.actor import actors
from beamwright.contexts.federation.coverage import check_bindable, load_facility, related
from beamwright.contexts.federation.facility import Facility, FacilityCode
from beamwright.contexts.trust.visit import visits
from beamwright.kernel import text
from beamwright.kernel.errors import CannotTransitionError, ConflictError, InvalidError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, patched

from .subject import (
    Hazard,
    InvalidSubjectReasonError,
    Location,
    ParentRelation,
    Subject,
    SubjectCommand,
    SubjectDescribed,
    SubjectHazardsDeclared,
    SubjectKind,
    SubjectRegistered,
    check_kept,
    checked_location,
    subjects,
)

MOST_KEYWORDS = 32
MOST_HAZARDS = 32

type SubjectDescription = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 5000})]
type Composition = Annotated[
    str,
    Meta(description="formula or material", extra_json_schema={"minLength": 1, "maxLength": 500}),
]
type Keyword = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 100})]


class InvalidSubjectNameError(InvalidError):
    """The subject's name is blank or too long."""


class InvalidSubjectDescriptionError(InvalidError):
    """The subject's description is blank or too long."""


class InvalidSubjectCompositionError(InvalidError):
    """The subject's composition is blank or too long."""


class InvalidSubjectKeywordsError(InvalidError):
    """A keyword is blank or too long, or there are too many."""


class InvalidSubjectParentError(InvalidError):
    """A parent is named together with its relation, or not at all."""


class InvalidSubjectHazardsError(InvalidError):
    """A hazard's scheme or code is blank or too long, or there are too many."""


class SubjectFacilityDecommissionedError(ConflictError):
    """The facility is decommissioned, or is a Peer, where nothing is handled by us."""


class SubjectParentFacilityMismatchError(ConflictError):
    """The parent's facility neither covers the subject's nor is covered by it."""


class SubjectCannotDescribeError(CannotTransitionError):
    """A discarded subject is not described any more."""


class SubjectCannotDeclareHazardsError(CannotTransitionError):
    """A discarded subject keeps its hazards."""


class SubjectOrigin(Value):
    """The facility of a new subject, and whether it has to do with that of the subject it is made out of."""

    facility: Facility
    parent: Subject | None = None
    related: bool = True


@subjects.operation("POST /subjects", creates=True)
class RegisterSubject(Command[SubjectOrigin]):
    """Register a subject: a sample or anything else that is measured, now held by whoever registers it."""

    name: text.Name
    kind: SubjectKind = SubjectKind.SAMPLE
    description: SubjectDescription | None = None
    composition: Composition | None = None
    keywords: frozenset[Keyword] = frozenset()
    facility_code: FacilityCode | None = None
    visit_id: UUID | None = None
    owner_id: UUID | None = None
    parent_id: UUID | None = None
    parent_relation: ParentRelation | None = None
    hazards: tuple[Hazard, ...] = ()
    location: Location | None = None

    async def gather(self, world: World) -> SubjectOrigin:
        facility = await load_facility(world, self.facility_code or world.installation.self_facility_code)
        await load_named(world, self.visit_id, self.owner_id)
        if self.parent_id is None:
            return SubjectOrigin(facility=facility)
        parent = await world.load(subjects, self.parent_id)
        near = await related(world, facility.code, parent.facility_code)
        return SubjectOrigin(facility=facility, parent=parent, related=near)

    def decide(self, origin: SubjectOrigin, occasion: Occasion) -> SubjectRegistered:
        name = text.name(self.name, InvalidSubjectNameError)
        description, composition = (
            checked_description(self.description),
            checked_composition(self.composition),
        )
        keywords = checked_keywords(self.keywords)
        check_parent_pair(self.parent_id, self.parent_relation)
        hazards = checked_hazards(self.hazards)
        location = None if self.location is None else checked_location(self.location)
        check_bindable(origin.facility, SubjectFacilityDecommissionedError)
        check_parent_near(origin)
        return SubjectRegistered(
            subject_id=occasion.new_id,
            occurred_at=occasion.now,
            name=name,
            kind=self.kind,
            description=description,
            composition=composition,
            keywords=keywords,
            facility_code=origin.facility.code,
            visit_id=self.visit_id,
            owner_id=self.owner_id or occasion.principal_id,
            parent_id=self.parent_id,
            parent_relation=self.parent_relation,
            hazards=hazards,
            location=location,
            custodian_id=occasion.principal_id,
            registered_by=occasion.principal_id,
        )


@subjects.operation("POST /subjects/{subject_id}/describe")
class DescribeSubject(Command[Subject]):
    """Change what is said of a subject; what is absent stays, null clears."""

    subject_id: UUID
    name: text.Name | UnsetType = UNSET
    kind: SubjectKind | UnsetType = UNSET
    description: SubjectDescription | UnsetType | None = UNSET
    composition: Composition | UnsetType | None = UNSET
    keywords: frozenset[Keyword] | UnsetType = UNSET
    owner_id: UUID | UnsetType | None = UNSET
    visit_id: UUID | UnsetType | None = UNSET

    async def gather(self, world: World) -> Subject:
        subject = await world.load(subjects, self.subject_id)
        await load_named(world, patched(self.visit_id, None), patched(self.owner_id, None))
        return subject

    def decide(self, subject: Subject, occasion: Occasion) -> list[SubjectDescribed]:
        described = SubjectDescribed(
            subject_id=subject.id,
            occurred_at=occasion.now,
            name=text.name(patched(self.name, subject.name), InvalidSubjectNameError),
            kind=patched(self.kind, subject.kind),
            description=checked_description(patched(self.description, subject.description)),
            composition=checked_composition(patched(self.composition, subject.composition)),
            keywords=checked_keywords(patched(self.keywords, subject.keywords)),
            visit_id=patched(self.visit_id, subject.visit_id),
            owner_id=patched(self.owner_id, subject.owner_id),
            described_by=occasion.principal_id,
        )
        check_kept(subject, SubjectCannotDescribeError)
        return [] if subjects.evolve(subject, described) == subject else [described]


@subjects.operation("POST /subjects/{subject_id}/declare-hazards")
class DeclareSubjectHazards(SubjectCommand):
    """Declare all hazards of a subject anew; they inform reviewers and block nothing by themselves."""

    hazards: tuple[Hazard, ...]
    reason: text.Reason

    def decide(self, subject: Subject, occasion: Occasion) -> list[SubjectHazardsDeclared]:
        hazards = checked_hazards(self.hazards)
        reason = text.reason(self.reason, InvalidSubjectReasonError)
        check_kept(subject, SubjectCannotDeclareHazardsError)
        if hazards == subject.hazards:
            return []
        return [
            SubjectHazardsDeclared(
                subject_id=subject.id,
                occurred_at=occasion.now,
                hazards=hazards,
                reason=reason,
                declared_by=occasion.principal_id,
            )
        ]


async def load_named(world: World, visit_id: UUID | None, actor_id: UUID | None) -> None:
    """Refuse a visit or an actor that does not exist within the caller's reach."""
    if visit_id is not None:
        await world.load(visits, visit_id)
    if actor_id is not None:
        await world.load(actors, actor_id)


def checked_description(value: str | None) -> str | None:
    if value is None:
        return None
    return text.trimmed(value, 5000, InvalidSubjectDescriptionError, "description", prose=True)


def checked_composition(value: str | None) -> str | None:
    return None if value is None else text.trimmed(value, 500, InvalidSubjectCompositionError, "composition")


def checked_keywords(keywords: Collection[str]) -> frozenset[str]:
    if len(keywords) > MOST_KEYWORDS:
        raise InvalidSubjectKeywordsError(
            f"A subject has at most {MOST_KEYWORDS} keywords, not {len(keywords)}.", most=MOST_KEYWORDS
        )
    return frozenset(text.trimmed(each, 100, InvalidSubjectKeywordsError, "keyword") for each in keywords)


def checked_hazards(hazards: Iterable[Hazard]) -> tuple[Hazard, ...]:
    """The hazards with their text trimmed, each once, in order."""
    refusal = InvalidSubjectHazardsError
    distinct = {
        Hazard(
            scheme=text.trimmed(hazard.scheme, 50, refusal, "hazard scheme"),
            code=text.trimmed(hazard.code, 100, refusal, "hazard code"),
        )
        for hazard in hazards
    }
    if len(distinct) > MOST_HAZARDS:
        raise refusal(
            f"A subject has at most {MOST_HAZARDS} hazards, not {len(distinct)}.", most=MOST_HAZARDS
        )
    return tuple(sorted(distinct, key=lambda hazard: (hazard.scheme, hazard.code)))


def check_parent_pair(parent_id: UUID | None, relation: ParentRelation | None) -> None:
    if (parent_id is None) != (relation is None):
        raise InvalidSubjectParentError("Give parent_id and parent_relation together, or neither.")


def check_parent_near(origin: SubjectOrigin) -> None:
    """Gate: a subject is made out of another where that one is, or in a part of that place."""
    if origin.parent is not None and not origin.related:
        raise SubjectParentFacilityMismatchError(
            f"{origin.parent.name} is at {origin.parent.facility_code}, which has nothing to do with"
            f" {origin.facility.code}.",
            parent_id=str(origin.parent.id),
            parent_facility_code=origin.parent.facility_code,
            facility_code=origin.facility.code,
        )
