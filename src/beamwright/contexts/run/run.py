"""Run: one execution of a plan: what was asked, what was allowed and why, and how it ended."""

from datetime import datetime
from enum import StrEnum
from typing import Any, assert_never
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.compute import ArtifactRef, ComputeResources, ComputeStatus
from beamwright.kernel.erasable import ErasableText
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.external_refs import GivenRef, assigned
from beamwright.kernel.holds import Concern, held_by_a_person, latest_reason, without
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.value import Time, Value, replace

from .logbook_entry import LogbookEntry, LogbookEntryKind, LogbookFormat, LogbookReference
from .values import ActuationKind, GateEvidence, merged_actuation

type Parameters = dict[str, Any]


class RunStatus(StrEnum):
    RUNNING = "Running"
    HELD = "Held"
    COMPLETED = "Completed"
    ABORTED = "Aborted"
    STOPPED = "Stopped"
    TRUNCATED = "Truncated"


RUNNING, HELD, COMPLETED, ABORTED, STOPPED, TRUNCATED = RunStatus
OPEN = frozenset({RUNNING, HELD})


class RunOutcome(StrEnum):
    IN_PROGRESS = "InProgress"
    SUCCEEDED = "Succeeded"
    ENDED_EARLY = "EndedEarly"
    FAILED = "Failed"


OUTCOMES = {
    RUNNING: RunOutcome.IN_PROGRESS,
    HELD: RunOutcome.IN_PROGRESS,
    COMPLETED: RunOutcome.SUCCEEDED,
    STOPPED: RunOutcome.ENDED_EARLY,
    ABORTED: RunOutcome.FAILED,
    TRUNCATED: RunOutcome.FAILED,
}


class HoldCause(StrEnum):
    OPERATOR = "Operator"
    SUPERVISOR = "Supervisor"


class RunNotFoundError(NotFoundError):
    """There is no such run."""


class InvalidRunHoldReasonError(InvalidError):
    """The reason of the hold is blank or too long."""


class InvalidRunAbortReasonError(InvalidError):
    """The reason of the abort is blank or too long."""


class InvalidRunStopReasonError(InvalidError):
    """The reason of the stop is blank or too long."""


class InvalidRunTruncateReasonError(InvalidError):
    """The reason of the truncation is blank or too long."""


class InvalidRunInterruptedAtError(InvalidError):
    """The run was interrupted neither before it started nor in the future."""


class InvalidRunAdjustReasonError(InvalidError):
    """The reason of the adjustment is blank or too long."""


class InvalidRunAdjustPatchError(InvalidError):
    """An adjustment changes at least one parameter."""


class InvalidRunNoteError(InvalidError):
    """The note is blank or too long."""


class InvalidRunParametersError(InvalidError):
    """The parameters break the schema that the method declares."""


class InvalidRunExternalRefsError(InvalidError):
    """An external reference's scheme, value or authority is malformed, or there are too many."""


class RunExternalRefAlreadyAssignedError(ConflictError):
    """The run has another value of this scheme already."""


class RunCannotHoldError(CannotTransitionError):
    """The run has ended, or this principal holds it already."""


class RunCannotResumeError(CannotTransitionError):
    """Only a held run resumes."""


class RunCannotCompleteError(CannotTransitionError):
    """Only a running run without an open conduct completes."""


class RunCannotAbortError(CannotTransitionError):
    """The run has ended."""


class RunCannotStopError(CannotTransitionError):
    """The run has ended."""


class RunCannotTruncateError(CannotTransitionError):
    """The run has ended."""


class RunCannotAdjustError(CannotTransitionError):
    """The run has ended."""


class RunCannotConductError(CannotTransitionError):
    """Only a running run without an open conduct takes a compute job."""


class HoldClaim(Concern):
    """One principal's concern, which keeps the run held."""

    cause: HoldCause


class OpenConduct(Value):
    """A compute job under way as the run's work."""

    conduct_id: UUID
    job_key: str
    started_at: Time


class RunConduct(Value):
    """A compute job as the run's work: what was asked for, and how it ended; `succeeded` is null until then."""

    conduct_id: UUID
    command: tuple[str, ...]
    input_uris: tuple[str, ...]
    output_uri: str | None
    resources: ComputeResources | None
    # The run's when it began; an adjustment does not reach a job that is under way.
    parameters: Parameters
    job_key: str
    started_at: Time
    started_by: UUID | None = None
    ended_at: Time | None = None
    succeeded: bool | None = None
    job_id: str | None = None
    job_status: ComputeStatus | None = None
    artifact: ArtifactRef | None = None
    failure: text.Reason | None = None
    actuation_kind: ActuationKind | None = None


class RunFact(Event):
    run_id: UUID


class RunStarted(RunFact):
    name: str
    plan_id: UUID
    plan_stream_version: int
    plan_content_hash: str
    practice_id: UUID
    method_id: UUID
    method_stream_version: int
    capability_id: UUID
    facility_code: str
    asset_ids: frozenset[UUID]
    started_by: UUID
    visit_id: UUID | None = None
    subject_id: UUID | None = None
    raid: str | None = None
    override_parameters: Parameters = {}
    effective_parameters: Parameters = {}
    parameters_schema_version: int = 0
    pinned_calibration_ids: frozenset[UUID] = frozenset()
    external_refs: dict[str, GivenRef] = {}
    trigger_note: str | None = None
    gate_evidence: GateEvidence = GateEvidence()
    shown_caution_ids: frozenset[UUID] = frozenset()
    decided_by_decision_id: UUID | None = None


class RunHeld(RunFact):
    claim_id: UUID
    cause: HoldCause
    held_by: UUID
    reason: str
    decided_by_decision_id: UUID | None = None


class RunHoldClaimReleased(RunFact):
    claim_id: UUID
    cause: HoldCause
    released_by: UUID
    note: str | None = None


class RunResumed(RunFact):
    released_claim_ids: frozenset[UUID]
    resumed_by: UUID
    note: str | None = None
    gate_evidence: GateEvidence = GateEvidence()
    shown_caution_ids: frozenset[UUID] = frozenset()
    decided_by_decision_id: UUID | None = None


class RunCompleted(RunFact):
    ended_by: UUID
    note: str | None = None


class RunEndedForReason(RunFact):
    """What every end tells that somebody called for."""

    reason: str
    ended_by: UUID
    decided_by_decision_id: UUID | None = None


class RunAborted(RunEndedForReason):
    """Something was wrong."""


class RunStopped(RunEndedForReason):
    """An orderly early end; the data are valid."""


class RunTruncated(RunEndedForReason):
    """It had died; `interrupted_at` is the best guess of when."""

    interrupted_at: datetime | None = None


class RunAdjusted(RunFact):
    parameters_patch: Parameters
    effective_parameters: Parameters
    parameters_schema_version: int
    reason: str
    adjusted_by: UUID
    decided_by_decision_id: UUID | None = None


class RunExternalRefAssigned(RunFact):
    scheme: str
    value: str
    authority: str | None = None


class RunAddedToCampaign(RunFact):
    campaign_id: UUID


class RunRemovedFromCampaign(RunFact):
    campaign_id: UUID
    reason: str


class RunLogbookEntryAppended(RunFact):
    entry_id: UUID
    author_id: UUID
    kind: LogbookEntryKind
    text: ErasableText
    format: LogbookFormat = LogbookFormat.PLAIN
    tags: frozenset[str] = frozenset()
    references: tuple[LogbookReference, ...] = ()
    corrects_entry_id: UUID | None = None
    decision_id: UUID | None = None


class RunLogbookEntryRedacted(RunFact):
    entry_id: UUID
    reason: str
    redacted_by: UUID


class RunConductStarted(RunFact):
    conduct_id: UUID
    command: tuple[str, ...]
    input_uris: tuple[str, ...]
    output_uri: str | None
    resources: ComputeResources | None
    job_key: str
    started_by: UUID | None = None


class RunConductEnded(RunFact):
    conduct_id: UUID
    succeeded: bool
    job_status: ComputeStatus
    job_id: str | None = None
    artifact: ArtifactRef | None = None
    failure: str | None = None
    actuation_kind: ActuationKind | None = None


class RunActuationObserved(RunFact):
    procedure_id: UUID
    actuation_kind: ActuationKind


class DecisionDebriefRequested(RunFact):
    """A debriefer's lease on the end of a run: audit only, it changes nothing."""

    debriefer_agent_id: UUID
    debriefer_kind: str
    terminal_event_id: UUID


type RunEnd = RunCompleted | RunAborted | RunStopped | RunTruncated
type RunEvent = (
    RunStarted
    | RunHeld
    | RunHoldClaimReleased
    | RunResumed
    | RunCompleted
    | RunAborted
    | RunStopped
    | RunTruncated
    | RunAdjusted
    | RunExternalRefAssigned
    | RunAddedToCampaign
    | RunRemovedFromCampaign
    | RunLogbookEntryAppended
    | RunLogbookEntryRedacted
    | RunConductStarted
    | RunConductEnded
    | RunActuationObserved
    | DecisionDebriefRequested
)

STATUS = StateMachine[RunStatus](
    {
        RunHeld: move(OPEN, HELD, RunCannotHoldError),
        RunResumed: move({HELD}, RUNNING, RunCannotResumeError),
        RunCompleted: move({RUNNING}, COMPLETED, RunCannotCompleteError),
        RunAborted: move(OPEN, ABORTED, RunCannotAbortError),
        RunStopped: move(OPEN, STOPPED, RunCannotStopError),
        RunTruncated: move(OPEN, TRUNCATED, RunCannotTruncateError),
    }
)


class Run(Value):
    id: UUID
    name: str
    plan_id: UUID
    plan_stream_version: int
    plan_content_hash: str
    practice_id: UUID
    method_id: UUID
    method_stream_version: int
    capability_id: UUID
    facility_code: str
    visit_id: UUID | None
    subject_id: UUID | None
    asset_ids: frozenset[UUID]
    raid: str | None
    status: RunStatus = RUNNING
    status_reason: text.Reason | None = None
    hold_claims: dict[UUID, HoldClaim] = {}
    override_parameters: Parameters
    effective_parameters: Parameters
    parameters_schema_version: int
    adjustment_count: int = 0
    last_adjusted_at: Time | None = None
    last_adjusted_by: UUID | None = None
    pinned_calibration_ids: frozenset[UUID]
    campaign_id: UUID | None = None
    external_refs: dict[str, ExternalRef]
    trigger_note: text.ShortNote | None
    shown_caution_ids: frozenset[UUID]
    gate_evidence: GateEvidence
    actuation_kind: ActuationKind | None = None
    conduct: OpenConduct | None = None
    conducts: dict[UUID, RunConduct] = {}
    logbook: dict[UUID, LogbookEntry] = {}
    started_at: Time
    started_by: UUID
    running_since: Time | None
    interrupted_at: Time | None = None
    ended_at: Time | None = None
    ended_by: UUID | None = None
    recorded: bool = False

    @property
    def open(self) -> bool:
        return self.status in OPEN

    @property
    def outcome(self) -> RunOutcome:
        return OUTCOMES[self.status]

    def duration(self, now: datetime) -> float:
        """Seconds from the start to the end: the true one where it is known, or now."""
        end = self.interrupted_at or self.ended_at or now
        return max(0.0, (end - self.started_at).total_seconds())


def hold_cause(principal_kind: str) -> HoldCause:
    """People hold as operators, agents and service accounts as supervisors."""
    return HoldCause.OPERATOR if held_by_a_person(principal_kind) else HoldCause.SUPERVISOR


def evolve(run: Run | None, event: RunEvent) -> Run:
    match event:
        case RunStarted():
            return _started(event)
        case _ if run is None:
            raise ValueError(event)
        case RunHeld() | RunHoldClaimReleased() | RunResumed():
            return _held_or_resumed(run, event)
        case RunCompleted() | RunAborted() | RunStopped() | RunTruncated():
            return _ended(run, event)
        case RunAdjusted():
            return _adjusted(run, event)
        case RunExternalRefAssigned():
            ref = assigned(GivenRef(value=event.value, authority=event.authority), event.occurred_at)
            return replace(run, external_refs=run.external_refs | {event.scheme: ref})
        case RunAddedToCampaign():
            return replace(run, campaign_id=event.campaign_id)
        case RunRemovedFromCampaign():
            return replace(run, campaign_id=None)
        case RunLogbookEntryAppended() | RunLogbookEntryRedacted():
            return _logged(run, event)
        case RunConductStarted() | RunConductEnded():
            return _conducted(run, event)
        case RunActuationObserved():
            return replace(run, actuation_kind=merged_actuation(run.actuation_kind, event.actuation_kind))
        case DecisionDebriefRequested():
            return run
        case _:
            assert_never(event)


def _started(event: RunStarted) -> Run:
    return Run(
        id=event.run_id,
        name=event.name,
        plan_id=event.plan_id,
        plan_stream_version=event.plan_stream_version,
        plan_content_hash=event.plan_content_hash,
        practice_id=event.practice_id,
        method_id=event.method_id,
        method_stream_version=event.method_stream_version,
        capability_id=event.capability_id,
        facility_code=event.facility_code,
        visit_id=event.visit_id,
        subject_id=event.subject_id,
        asset_ids=event.asset_ids,
        raid=event.raid,
        override_parameters=event.override_parameters,
        effective_parameters=event.effective_parameters,
        parameters_schema_version=event.parameters_schema_version,
        pinned_calibration_ids=event.pinned_calibration_ids,
        external_refs={
            scheme: assigned(ref, event.occurred_at) for scheme, ref in event.external_refs.items()
        },
        trigger_note=event.trigger_note,
        shown_caution_ids=event.shown_caution_ids,
        gate_evidence=event.gate_evidence,
        started_at=event.occurred_at,
        started_by=event.started_by,
        running_since=event.occurred_at,
    )


def _held_or_resumed(run: Run, event: RunHeld | RunHoldClaimReleased | RunResumed) -> Run:
    match event:
        case RunHeld():
            claim = HoldClaim(
                cause=event.cause, held_by=event.held_by, reason=event.reason, held_at=event.occurred_at
            )
            return replace(
                run,
                status=STATUS.after(event),
                status_reason=event.reason,
                hold_claims=run.hold_claims | {event.claim_id: claim},
                running_since=None,
            )
        case RunHoldClaimReleased():
            claims = without(run.hold_claims, {event.claim_id})
            return replace(run, hold_claims=claims, status_reason=latest_reason(claims))
        case RunResumed():
            return replace(
                run,
                status=STATUS.after(event),
                status_reason=None,
                hold_claims={},
                running_since=event.occurred_at,
                gate_evidence=event.gate_evidence,
                shown_caution_ids=event.shown_caution_ids,
            )
        case _:
            assert_never(event)


def _ended(run: Run, event: RunEnd) -> Run:
    return replace(
        run,
        status=STATUS.after(event),
        status_reason=event.note if isinstance(event, RunCompleted) else event.reason,
        hold_claims={},
        running_since=None,
        interrupted_at=event.interrupted_at if isinstance(event, RunTruncated) else None,
        ended_at=event.occurred_at,
        ended_by=event.ended_by,
    )


def _adjusted(run: Run, event: RunAdjusted) -> Run:
    return replace(
        run,
        effective_parameters=event.effective_parameters,
        parameters_schema_version=event.parameters_schema_version,
        adjustment_count=run.adjustment_count + 1,
        last_adjusted_at=event.occurred_at,
        last_adjusted_by=event.adjusted_by,
    )


def _logged(run: Run, event: RunLogbookEntryAppended | RunLogbookEntryRedacted) -> Run:
    match event:
        case RunLogbookEntryAppended():
            entry = LogbookEntry(
                author_id=event.author_id,
                kind=event.kind,
                text=event.text,
                format=event.format,
                tags=event.tags,
                references=event.references,
                corrects_entry_id=event.corrects_entry_id,
                decision_id=event.decision_id,
                written_at=event.occurred_at,
            )
        case RunLogbookEntryRedacted():
            entry = replace(run.logbook[event.entry_id], redacted=True)
        case _:
            assert_never(event)
    return replace(run, logbook=run.logbook | {event.entry_id: entry})


def _conducted(run: Run, event: RunConductStarted | RunConductEnded) -> Run:
    match event:
        case RunConductStarted():
            opened = OpenConduct(
                conduct_id=event.conduct_id, job_key=event.job_key, started_at=event.occurred_at
            )
            conduct = RunConduct(
                conduct_id=event.conduct_id,
                command=event.command,
                input_uris=event.input_uris,
                output_uri=event.output_uri,
                resources=event.resources,
                parameters=run.effective_parameters,
                job_key=event.job_key,
                started_at=event.occurred_at,
                started_by=event.started_by,
            )
            return replace(run, conduct=opened, conducts=run.conducts | {event.conduct_id: conduct})
        case RunConductEnded():
            ended = replace(
                run.conducts[event.conduct_id],
                ended_at=event.occurred_at,
                succeeded=event.succeeded,
                job_id=event.job_id,
                job_status=event.job_status,
                artifact=event.artifact,
                failure=event.failure,
                actuation_kind=event.actuation_kind,
            )
            return replace(
                run,
                conduct=None,
                conducts=run.conducts | {event.conduct_id: ended},
                actuation_kind=merged_actuation(run.actuation_kind, event.actuation_kind),
            )
        case _:
            assert_never(event)


runs = Aggregate[Run, RunEvent](
    "Run",
    events=RunEvent,
    evolve=evolve,
    missing=RunNotFoundError,
    belongs=lambda run: Belonging(
        facility_code=run.facility_code,
        visit_ids=frozenset() if run.visit_id is None else frozenset({run.visit_id}),
        owner_id=run.started_by,
    ),
)
