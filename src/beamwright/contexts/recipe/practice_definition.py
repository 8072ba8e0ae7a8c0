"""Defining practices: a method bound to a site, to families, or to both."""

from uuid import UUID

from msgspec import UNSET, UnsetType

from beamwright.contexts.equipment.family import Family, check_families_usable, families
from beamwright.contexts.federation.coverage import load_facility
from beamwright.contexts.federation.facility import FacilityCode
from beamwright.kernel import text
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value, patched
from beamwright.kernel.versions import VersionTag, check_tag_unused, checked_tag

from .method import Method, MethodStatus, methods
from .practice import (
    LIFECYCLE,
    InvalidPracticeBindingError,
    InvalidPracticeFamilyIdsError,
    InvalidPracticeNameError,
    InvalidPracticeVersionTagError,
    Practice,
    PracticeBoundMethodDeprecatedError,
    PracticeDefined,
    PracticeVersioned,
    PracticeVersionTagTakenError,
    practices,
)

MOST_FAMILIES = 50


class PracticeGrounds(Value):
    """What a new practice is bound to."""

    method: Method
    facility_code: str | None = None
    families: tuple[Family, ...] = ()


@practices.operation("POST /practices", creates=True)
class DefinePractice(Command[PracticeGrounds]):
    """Bind a method to a site, to families of devices, or to both."""

    name: text.Name
    method_id: UUID
    facility_code: FacilityCode | None = None
    family_ids: frozenset[UUID] = frozenset()

    async def gather(self, world: World) -> PracticeGrounds:
        method = await world.load(methods, self.method_id)
        facility = None if self.facility_code is None else await load_facility(world, self.facility_code)
        return PracticeGrounds(
            method=method,
            facility_code=facility and facility.code,
            families=tuple(await world.load_all(families, sorted(self.family_ids))),
        )

    def decide(self, seen: PracticeGrounds, occasion: Occasion) -> PracticeDefined:
        name = text.name(self.name, InvalidPracticeNameError)
        check_bound(seen.facility_code, self.family_ids)
        if seen.method.status is MethodStatus.DEPRECATED:
            raise PracticeBoundMethodDeprecatedError(
                f"Method {seen.method.name} is deprecated; choose another.", method_id=str(seen.method.id)
            )
        check_families_usable(seen.families)
        return PracticeDefined(
            practice_id=occasion.new_id,
            occurred_at=occasion.now,
            name=name,
            method_id=seen.method.id,
            facility_code=seen.facility_code,
            family_ids=self.family_ids,
        )


class PracticeRevision(Value):
    """A practice, and the families that its next version names."""

    practice: Practice
    families: tuple[Family, ...] = ()


@practices.operation("POST /practices/{practice_id}/version")
class VersionPractice(Command[PracticeRevision]):
    """Give a practice a new version and, where given, other families."""

    practice_id: UUID
    version_tag: VersionTag
    family_ids: frozenset[UUID] | UnsetType = UNSET

    async def gather(self, world: World) -> PracticeRevision:
        practice = await world.load(practices, self.practice_id)
        named = patched(self.family_ids, practice.family_ids)
        return PracticeRevision(
            practice=practice, families=tuple(await world.load_all(families, sorted(named)))
        )

    def decide(self, seen: PracticeRevision, occasion: Occasion) -> PracticeVersioned:
        practice = seen.practice
        tag = checked_tag(self.version_tag, InvalidPracticeVersionTagError)
        family_ids = patched(self.family_ids, practice.family_ids)
        check_bound(practice.facility_code, family_ids)
        LIFECYCLE.check(PracticeVersioned, practice.status, practice.id)
        check_tag_unused(practice.version_tags, tag, practice.id, PracticeVersionTagTakenError)
        check_families_usable(family for family in seen.families if family.id not in practice.family_ids)
        return PracticeVersioned(
            practice_id=practice.id, occurred_at=occasion.now, version_tag=tag, family_ids=family_ids
        )


def check_bound(facility_code: str | None, family_ids: frozenset[UUID]) -> None:
    """Gate: a practice is of a site or of families, and of not too many."""
    if len(family_ids) > MOST_FAMILIES:
        raise InvalidPracticeFamilyIdsError(
            f"A practice names at most {MOST_FAMILIES} families, not {len(family_ids)}.", most=MOST_FAMILIES
        )
    if facility_code is None and not family_ids:
        raise InvalidPracticeBindingError("Name a site, at least one family, or both.")
