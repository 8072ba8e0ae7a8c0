"""Subjects on equipment: mounted on an asset, measured there, taken off and out of the experiment."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.equipment.asset import Asset, AssetCondition, AssetLifecycle, assets
from beamwright.contexts.federation.coverage import related
from beamwright.contexts.run.run import OPEN, Run, RunNotFoundError
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.observing import trigger
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .subject import (
    HANDLING,
    InvalidSubjectReasonError,
    Subject,
    SubjectDismounted,
    SubjectMeasured,
    SubjectMounted,
    SubjectMountTargetOccupiedError,
    SubjectNotFoundError,
    SubjectRemoved,
    place_key,
    subjects,
)

type Position = Annotated[
    str,
    Meta(
        description="a slot of a changer or holder",
        extra_json_schema={"minLength": 1, "maxLength": 50},
    ),
]


class InvalidSubjectPositionError(InvalidError):
    """The position is blank or too long."""


class SubjectMountTargetUnavailableError(ConflictError):
    """The asset is not in use."""


class SubjectMountTargetFaultedError(ConflictError):
    """The asset does not work."""


class SubjectMountFacilityMismatchError(ConflictError):
    """The asset's facility neither covers the subject's nor is covered by it."""


class SubjectMeasureRunMismatchError(ConflictError):
    """The run is not about this subject."""


class SubjectAlreadyMeasuredByRunError(ConflictError):
    """The run has measured this subject already."""


class SubjectInOpenRunError(ConflictError):
    """A run that is not over is about this subject."""


class SubjectAndTarget(Value):
    """A subject, the asset it is to be mounted on, and what is there already as far as the caller may know."""

    subject: Subject
    asset: Asset
    related: bool = True
    occupant: Subject | None = None


@subjects.operation("POST /subjects/{subject_id}/mount")
class MountSubject(Command[SubjectAndTarget]):
    """Mount a subject on an asset, or at a position of a changer or holder."""

    subject_id: UUID
    asset_id: UUID
    position: Position | None = None
    reason: text.Reason

    async def gather(self, world: World) -> SubjectAndTarget:
        subject = await world.load(subjects, self.subject_id)
        asset = await world.load(assets, self.asset_id)
        return SubjectAndTarget(
            subject=subject,
            asset=asset,
            related=await related(world, subject.facility_code, asset.scope_facility_code),
            occupant=await occupant(world, place_key(asset.id, self.checked_position())),
        )

    def checked_position(self) -> str | None:
        if self.position is None:
            return None
        return text.trimmed(self.position, 50, InvalidSubjectPositionError, "position")

    def decide(self, seen: SubjectAndTarget, occasion: Occasion) -> SubjectMounted:
        subject, position = seen.subject, self.checked_position()
        reason = text.reason(self.reason, InvalidSubjectReasonError)
        HANDLING.check(SubjectMounted, subject.status, subject.id)
        check_target(seen)
        return SubjectMounted(
            subject_id=subject.id,
            occurred_at=occasion.now,
            asset_id=seen.asset.id,
            position=position,
            reason=reason,
            mounted_by=occasion.principal_id,
        )


async def occupant(world: World, place: str) -> Subject | None:
    """Who is at a place; a subject outside the caller's reach is refused by its claim, unnamed."""
    try:
        return await world.load_claimed(subjects, "subject-place", place)
    except SubjectNotFoundError:
        return None


def check_target(seen: SubjectAndTarget) -> None:
    """Gate: the asset is in use and works, is near enough, and its place is free."""
    asset, subject = seen.asset, seen.subject
    if asset.lifecycle is not AssetLifecycle.ACTIVE:
        raise SubjectMountTargetUnavailableError(
            f"{asset.name} is {asset.lifecycle}; mount on an Active asset.",
            asset_id=str(asset.id),
            lifecycle=asset.lifecycle,
        )
    if asset.condition is AssetCondition.FAULTED:
        raise SubjectMountTargetFaultedError(
            f"{asset.name} is Faulted; restore it first, or choose another.", asset_id=str(asset.id)
        )
    if not seen.related:
        raise SubjectMountFacilityMismatchError(
            f"{asset.name} is at {asset.scope_facility_code}, which has nothing to do with {subject.facility_code}.",
            asset_id=str(asset.id),
            scope_facility_code=asset.scope_facility_code,
            facility_code=subject.facility_code,
        )
    if seen.occupant is not None:
        raise SubjectMountTargetOccupiedError(
            f"{seen.occupant.name} is mounted there; dismount it first, or give another position.",
            asset_id=str(asset.id),
            subject_id=str(seen.occupant.id),
            position=seen.occupant.position,
        )


class SubjectAndRun(Value):
    """A subject, and the subject of the run that measured it."""

    subject: Subject
    run_subject_id: UUID | None = None


@subjects.operation("POST /subjects/{subject_id}/measure")
class MeasureSubject(Command[SubjectAndRun]):
    """Record that a mounted subject was measured, by which run if there was one."""

    subject_id: UUID
    run_id: UUID | None = None

    async def gather(self, world: World) -> SubjectAndRun:
        subject = await world.load(subjects, self.subject_id)
        if self.run_id is None:
            return SubjectAndRun(subject=subject)
        found: Sequence[Run] | None = await world.look_up("Run", [self.run_id])
        if not found:
            raise RunNotFoundError.of("Run", self.run_id)
        return SubjectAndRun(subject=subject, run_subject_id=found[0].subject_id)

    def decide(self, seen: SubjectAndRun, occasion: Occasion) -> SubjectMeasured:
        subject = seen.subject
        HANDLING.check(SubjectMeasured, subject.status, subject.id)
        assert subject.mounted_on_asset_id is not None, "whatever is measured is mounted"
        if self.run_id is not None:
            check_run(subject, self.run_id, seen.run_subject_id)
        return SubjectMeasured(
            subject_id=subject.id,
            occurred_at=occasion.now,
            asset_id=subject.mounted_on_asset_id,
            run_id=self.run_id,
            measured_by=occasion.principal_id,
        )


def check_run(subject: Subject, run_id: UUID, run_subject_id: UUID | None) -> None:
    """Gate: the run is about the subject, and has not been counted yet."""
    if run_subject_id != subject.id:
        raise SubjectMeasureRunMismatchError(
            f"Run {run_id} is not about {subject.name}.", run_id=str(run_id), subject_id=str(subject.id)
        )
    if run_id in subject.measured_run_ids:
        raise SubjectAlreadyMeasuredByRunError(
            f"Run {run_id} has measured {subject.name} already.",
            run_id=str(run_id),
            subject_id=str(subject.id),
        )


class SubjectAtWork(Value):
    """A subject, and the runs about it that are not over."""

    subject: Subject
    open_run_ids: tuple[UUID, ...] = ()


class LeavingCommand(Command[SubjectAtWork]):
    """A command that takes a subject off its asset, which no open run may be using."""

    subject_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> SubjectAtWork:
        subject = await world.load(subjects, self.subject_id)
        runs = await world.look_up("Run", subject_id=subject.id)
        return SubjectAtWork(subject=subject, open_run_ids=open_run_ids(runs or ()))


def open_run_ids(runs: Sequence[Run]) -> tuple[UUID, ...]:
    return tuple(sorted(run.id for run in runs if run.status in OPEN))


@subjects.operation("POST /subjects/{subject_id}/dismount")
class DismountSubject(LeavingCommand):
    """Take a subject off its asset; it can be mounted again."""

    def decide(self, seen: SubjectAtWork, occasion: Occasion) -> SubjectDismounted:
        reason = text.reason(self.reason, InvalidSubjectReasonError)
        HANDLING.check(SubjectDismounted, seen.subject.status, seen.subject.id)
        check_no_open_run(seen)
        return dismounted(seen.subject, reason, occasion)


@subjects.operation("POST /subjects/{subject_id}/remove")
class RemoveSubject(LeavingCommand):
    """Take a subject out of the experiment, off its asset where it is mounted; it is returned, stored or discarded next."""

    def decide(self, seen: SubjectAtWork, occasion: Occasion) -> list[SubjectDismounted | SubjectRemoved]:
        reason, subject = text.reason(self.reason, InvalidSubjectReasonError), seen.subject
        HANDLING.check(SubjectRemoved, subject.status, subject.id)
        check_no_open_run(seen)
        removed = SubjectRemoved(
            subject_id=subject.id,
            occurred_at=occasion.now,
            reason=reason,
            removed_by=occasion.principal_id,
        )
        return [dismounted(subject, reason, occasion), removed] if subject.mounted else [removed]


def dismounted(subject: Subject, reason: str, occasion: Occasion) -> SubjectDismounted:
    assert subject.mounted_on_asset_id is not None, "whatever is dismounted was mounted"
    return SubjectDismounted(
        subject_id=subject.id,
        occurred_at=occasion.now,
        from_asset_id=subject.mounted_on_asset_id,
        position=subject.position,
        reason=reason,
        trigger=trigger(occasion.principal_kind),
        dismounted_by=occasion.principal_id,
    )


def check_no_open_run(seen: SubjectAtWork) -> None:
    """Gate: nobody takes away what a run is measuring."""
    if seen.open_run_ids:
        ids = [str(id) for id in seen.open_run_ids]
        raise SubjectInOpenRunError(
            f"End the run first: {', '.join(ids)}.", subject_id=str(seen.subject.id), run_ids=ids
        )
