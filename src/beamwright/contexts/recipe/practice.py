"""Practice: a method at a site, on a set of families, or both."""

from enum import StrEnum
from typing import assert_never
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import replace
from beamwright.kernel.versions import (
    Counted,
    Deprecation,
    DeprecationReason,
    TaggedVersion,
    counted,
    tagged,
)


class PracticeStatus(StrEnum):
    DEFINED = "Defined"
    VERSIONED = "Versioned"
    DEPRECATED = "Deprecated"


class PracticeNotFoundError(NotFoundError):
    """There is no such practice."""


class InvalidPracticeNameError(InvalidError):
    """The practice's name is blank or too long."""


class InvalidPracticeFamilyIdsError(InvalidError):
    """A practice names too many families."""


class InvalidPracticeBindingError(InvalidError):
    """A practice names a site or at least one family."""


class InvalidPracticeVersionTagError(InvalidError):
    """The version tag is malformed, or is “initial”."""


class InvalidPracticeDeprecationReasonError(InvalidError):
    """The reason is blank or too long."""


class PracticeBoundMethodDeprecatedError(ConflictError):
    """A deprecated method takes no new practice."""


class PracticeVersionTagTakenError(ConflictError):
    """The version tag already names a version of the practice."""


class PracticeCannotVersionError(CannotTransitionError):
    """A deprecated practice is not versioned any more."""


class PracticeCannotDeprecateError(CannotTransitionError):
    """The practice is deprecated already."""


class PracticeFact(Event):
    practice_id: UUID


class PracticeDefined(PracticeFact):
    name: str
    method_id: UUID
    facility_code: str | None
    family_ids: frozenset[UUID]


class PracticeVersioned(PracticeFact):
    version_tag: str
    family_ids: frozenset[UUID]


class PracticeDeprecated(PracticeFact):
    reason_kind: DeprecationReason
    reason: str


type PracticeEvent = PracticeDefined | PracticeVersioned | PracticeDeprecated

_EDITABLE = frozenset({PracticeStatus.DEFINED, PracticeStatus.VERSIONED})

LIFECYCLE = StateMachine[PracticeStatus](
    {
        PracticeVersioned: move(_EDITABLE, PracticeStatus.VERSIONED, PracticeCannotVersionError),
        PracticeDeprecated: move(_EDITABLE, PracticeStatus.DEPRECATED, PracticeCannotDeprecateError),
    }
)


class Practice(Counted):
    id: UUID
    name: str
    method_id: UUID
    facility_code: str | None
    family_ids: frozenset[UUID]
    status: PracticeStatus = PracticeStatus.DEFINED
    version_tag: str | None = None
    version_tags: tuple[TaggedVersion, ...] = ()
    deprecation: Deprecation | None = None


@counted
def evolve(practice: Practice | None, event: PracticeEvent) -> Practice:
    match event:
        case PracticeDefined():
            return Practice(
                id=event.practice_id,
                name=event.name,
                method_id=event.method_id,
                facility_code=event.facility_code,
                family_ids=event.family_ids,
            )
        case _ if practice is None:
            raise ValueError(event)
        case PracticeVersioned():
            return replace(
                practice,
                family_ids=event.family_ids,
                status=LIFECYCLE.after(event),
                version_tag=event.version_tag,
                version_tags=tagged(practice.version_tags, event.version_tag, practice),
            )
        case PracticeDeprecated():
            return replace(
                practice,
                status=LIFECYCLE.after(event),
                deprecation=Deprecation(reason_kind=event.reason_kind, reason=event.reason),
            )
        case _:
            assert_never(event)


practices = Aggregate[Practice, PracticeEvent](
    "Practice",
    events=PracticeEvent,
    evolve=evolve,
    missing=PracticeNotFoundError,
    belongs=lambda practice: Belonging(facility_code=practice.facility_code),
)
practices.reads(
    "/practices",
    filters=(
        "status",
        "method_id",
        "facility_code",
        Filter(
            name="family_id", type=UUID, of=lambda practice: sorted(practice.family_ids), test=Test.CONTAINS
        ),
    ),
    sorts=("created_at", "updated_at", "name"),
    text=("name",),
)


@practices.operation("POST /practices/{practice_id}/deprecate")
class DeprecatePractice(Command[Practice]):
    """Deprecate a practice: its plans stay, and no new one is bound to it."""

    practice_id: UUID
    reason_kind: DeprecationReason
    reason: text.Reason

    async def gather(self, world: World) -> Practice:
        return await world.load(practices, self.practice_id)

    def decide(self, practice: Practice, occasion: Occasion) -> PracticeDeprecated:
        reason = text.reason(self.reason, InvalidPracticeDeprecationReasonError)
        LIFECYCLE.check(PracticeDeprecated, practice.status, practice.id)
        return PracticeDeprecated(
            practice_id=practice.id, occurred_at=occasion.now, reason_kind=self.reason_kind, reason=reason
        )
