"""Campaign: a declared container of runs (a series, a sweep, a coordinated block)."""

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.external_refs import (
    MOST,
    GivenRef,
    Scheme,
    assigned,
    checked_ref,
)
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.value import Time, Value, patched, replace

MOST_TAGS = 32

type CampaignTag = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 50})]


class CampaignStatus(StrEnum):
    PLANNED = "Planned"
    ACTIVE = "Active"
    HELD = "Held"
    CLOSED = "Closed"
    ABANDONED = "Abandoned"


PLANNED, ACTIVE, HELD, CLOSED, ABANDONED = CampaignStatus
OPEN = frozenset({PLANNED, ACTIVE, HELD})


class CampaignIntent(StrEnum):
    SERIES = "Series"
    SWEEP = "Sweep"
    COORDINATION = "Coordination"
    BLOCK = "Block"


class CampaignNotFoundError(NotFoundError):
    """There is no such campaign."""


class InvalidCampaignDescriptionError(InvalidError):
    """The campaign's description is blank or too long."""


class InvalidCampaignTagError(InvalidError):
    """A tag is blank or too long, or there are too many."""


class InvalidCampaignExternalRefsError(InvalidError):
    """An external reference's scheme, value or authority is malformed, or there are too many."""


class InvalidCampaignHoldReasonError(InvalidError):
    """The reason of the hold is blank or too long."""


class InvalidCampaignAbandonReasonError(InvalidError):
    """The reason for abandoning is blank or too long."""


class InvalidCampaignNoteError(InvalidError):
    """The note is blank or too long."""


class CampaignExternalRefAlreadyAssignedError(ConflictError):
    """The campaign has another value of this scheme already."""


class CampaignCannotStartError(CannotTransitionError):
    """Only a planned campaign starts."""


class CampaignCannotHoldError(CannotTransitionError):
    """Only an active campaign is held."""


class CampaignCannotResumeError(CannotTransitionError):
    """Only a held campaign resumes."""


class CampaignCannotCloseError(CannotTransitionError):
    """The campaign has not started, or has ended."""


class CampaignCannotAbandonError(CannotTransitionError):
    """The campaign has ended."""


class CampaignCannotUpdateDescriptionError(CannotTransitionError):
    """The campaign has ended."""


class CampaignCannotReassignError(CannotTransitionError):
    """The campaign has ended."""


class CampaignCannotAddRunError(CannotTransitionError):
    """The campaign has ended."""


class CampaignCannotRemoveRunError(CannotTransitionError):
    """The campaign has ended, and its runs stay with it."""


class CampaignFact(Event):
    campaign_id: UUID


class CampaignRegistered(CampaignFact):
    name: str
    intent: CampaignIntent
    lead_actor_id: UUID
    facility_code: str
    visit_id: UUID | None = None
    subject_id: UUID | None = None
    description: str | None = None
    tags: frozenset[str] = frozenset()
    external_refs: dict[str, GivenRef] = {}


class CampaignStarted(CampaignFact): ...


class CampaignHeld(CampaignFact):
    reason: str


class CampaignResumed(CampaignFact):
    note: str | None = None


class CampaignClosed(CampaignFact):
    ended_by: UUID
    note: str | None = None


class CampaignAbandoned(CampaignFact):
    ended_by: UUID
    reason: str


class CampaignDescriptionUpdated(CampaignFact):
    description: str | None
    tags: frozenset[str]


class CampaignReassigned(CampaignFact):
    lead_actor_id: UUID
    reason: str


class CampaignRunAdded(CampaignFact):
    run_id: UUID


class CampaignRunRemoved(CampaignFact):
    run_id: UUID
    reason: str


class CampaignExternalRefAssigned(CampaignFact):
    scheme: str
    value: str
    authority: str | None = None


type CampaignEvent = (
    CampaignRegistered
    | CampaignStarted
    | CampaignHeld
    | CampaignResumed
    | CampaignClosed
    | CampaignAbandoned
    | CampaignDescriptionUpdated
    | CampaignReassigned
    | CampaignRunAdded
    | CampaignRunRemoved
    | CampaignExternalRefAssigned
)
type CampaignMove = CampaignStarted | CampaignHeld | CampaignResumed | CampaignClosed | CampaignAbandoned

STATUS = StateMachine[CampaignStatus](
    {
        CampaignStarted: move({PLANNED}, ACTIVE, CampaignCannotStartError),
        CampaignHeld: move({ACTIVE}, HELD, CampaignCannotHoldError),
        CampaignResumed: move({HELD}, ACTIVE, CampaignCannotResumeError),
        CampaignClosed: move({ACTIVE, HELD}, CLOSED, CampaignCannotCloseError),
        CampaignAbandoned: move(OPEN, ABANDONED, CampaignCannotAbandonError),
    }
)


class Campaign(Value):
    id: UUID
    name: str
    intent: CampaignIntent
    lead_actor_id: UUID
    facility_code: str
    visit_id: UUID | None
    subject_id: UUID | None
    description: str | None
    tags: frozenset[str]
    external_refs: dict[str, ExternalRef]
    run_ids: frozenset[UUID] = frozenset()
    status: CampaignStatus = PLANNED
    status_reason: text.Reason | None = None
    started_at: Time | None = None
    held_at: Time | None = None
    ended_at: Time | None = None
    ended_by: UUID | None = None

    @property
    def words(self) -> str:
        """What a search finds it by."""
        return " ".join((self.name, self.description or "", *sorted(self.tags)))


def evolve(campaign: Campaign | None, event: CampaignEvent) -> Campaign:
    match event:
        case CampaignRegistered():
            return _registered(event)
        case _ if campaign is None:
            raise ValueError(event)
        case CampaignStarted() | CampaignHeld() | CampaignResumed() | CampaignClosed() | CampaignAbandoned():
            return _moved(campaign, event)
        case CampaignDescriptionUpdated():
            return replace(campaign, description=event.description, tags=event.tags)
        case CampaignReassigned():
            return replace(campaign, lead_actor_id=event.lead_actor_id)
        case CampaignRunAdded():
            return replace(campaign, run_ids=campaign.run_ids | {event.run_id})
        case CampaignRunRemoved():
            return replace(campaign, run_ids=campaign.run_ids - {event.run_id})
        case CampaignExternalRefAssigned():
            ref = assigned(GivenRef(value=event.value, authority=event.authority), event.occurred_at)
            return replace(campaign, external_refs=campaign.external_refs | {event.scheme: ref})
        case _:
            assert_never(event)


def _registered(event: CampaignRegistered) -> Campaign:
    return Campaign(
        id=event.campaign_id,
        name=event.name,
        intent=event.intent,
        lead_actor_id=event.lead_actor_id,
        facility_code=event.facility_code,
        visit_id=event.visit_id,
        subject_id=event.subject_id,
        description=event.description,
        tags=event.tags,
        external_refs={
            scheme: assigned(ref, event.occurred_at) for scheme, ref in event.external_refs.items()
        },
    )


def _moved(campaign: Campaign, event: CampaignMove) -> Campaign:
    campaign = replace(campaign, status=STATUS.after(event))
    match event:
        case CampaignStarted():
            return replace(campaign, started_at=event.occurred_at)
        case CampaignHeld():
            return replace(campaign, status_reason=event.reason, held_at=event.occurred_at)
        case CampaignResumed():
            return replace(campaign, status_reason=None, held_at=None)
        case CampaignClosed():
            return replace(campaign, ended_at=event.occurred_at, ended_by=event.ended_by)
        case CampaignAbandoned():
            return replace(
                campaign,
                status_reason=event.reason,
                ended_at=event.occurred_at,
                ended_by=event.ended_by,
            )
        case _:
            assert_never(event)


campaigns = Aggregate[Campaign, CampaignEvent](
    "Campaign",
    events=CampaignEvent,
    evolve=evolve,
    missing=CampaignNotFoundError,
    belongs=lambda campaign: Belonging(
        facility_code=campaign.facility_code,
        visit_ids=frozenset() if campaign.visit_id is None else frozenset({campaign.visit_id}),
        owner_id=campaign.lead_actor_id,
    ),
)


def check_open(campaign: Campaign, refusal: type[CannotTransitionError]) -> None:
    """Gate: an ended campaign stays as it is."""
    if campaign.status not in OPEN:
        raise refusal.of(campaign.id, campaign.status, OPEN)


def checked_tags(tags: Collection[str]) -> frozenset[str]:
    if len(tags) > MOST_TAGS:
        raise InvalidCampaignTagError(
            f"A campaign has at most {MOST_TAGS} tags, not {len(tags)}.", most=MOST_TAGS
        )
    return frozenset(text.trimmed(tag, 50, InvalidCampaignTagError, "tag") for tag in tags)


class CampaignCommand(Command[Campaign]):
    """A command that sees its campaign and nothing else."""

    campaign_id: UUID

    async def gather(self, world: World) -> Campaign:
        return await world.load(campaigns, self.campaign_id)


@campaigns.operation("POST /campaigns/{campaign_id}/start")
class StartCampaign(CampaignCommand):
    """Start a planned campaign."""

    def decide(self, campaign: Campaign, occasion: Occasion) -> CampaignStarted:
        STATUS.check(CampaignStarted, campaign.status, campaign.id)
        return CampaignStarted(campaign_id=campaign.id, occurred_at=occasion.now)


@campaigns.operation("POST /campaigns/{campaign_id}/hold")
class HoldCampaign(CampaignCommand):
    """Hold an active campaign: no run starts in it; its runs go on."""

    reason: text.Reason

    def decide(self, campaign: Campaign, occasion: Occasion) -> CampaignHeld:
        reason = text.reason(self.reason, InvalidCampaignHoldReasonError)
        STATUS.check(CampaignHeld, campaign.status, campaign.id)
        return CampaignHeld(campaign_id=campaign.id, occurred_at=occasion.now, reason=reason)


@campaigns.operation("POST /campaigns/{campaign_id}/resume")
class ResumeCampaign(CampaignCommand):
    """Let runs start again in a held campaign."""

    note: text.ShortNote | None = None

    def decide(self, campaign: Campaign, occasion: Occasion) -> CampaignResumed:
        note = text.short_note(self.note, InvalidCampaignNoteError)
        STATUS.check(CampaignResumed, campaign.status, campaign.id)
        return CampaignResumed(campaign_id=campaign.id, occurred_at=occasion.now, note=note)


@campaigns.operation("POST /campaigns/{campaign_id}/close")
class CloseCampaign(CampaignCommand):
    """Close a campaign for good; its runs stay as they are, running ones included."""

    note: text.ShortNote | None = None

    def decide(self, campaign: Campaign, occasion: Occasion) -> CampaignClosed:
        note = text.short_note(self.note, InvalidCampaignNoteError)
        STATUS.check(CampaignClosed, campaign.status, campaign.id)
        return CampaignClosed(
            campaign_id=campaign.id, occurred_at=occasion.now, ended_by=occasion.principal_id, note=note
        )


@campaigns.operation("POST /campaigns/{campaign_id}/abandon")
class AbandonCampaign(CampaignCommand):
    """Give a campaign up for good; its runs stay as they are, running ones included."""

    reason: text.Reason

    def decide(self, campaign: Campaign, occasion: Occasion) -> CampaignAbandoned:
        reason = text.reason(self.reason, InvalidCampaignAbandonReasonError)
        STATUS.check(CampaignAbandoned, campaign.status, campaign.id)
        return CampaignAbandoned(
            campaign_id=campaign.id, occurred_at=occasion.now, ended_by=occasion.principal_id, reason=reason
        )


@campaigns.operation("POST /campaigns/{campaign_id}/update-description")
class UpdateCampaignDescription(CampaignCommand):
    """Change a campaign's description or tags; what is absent stays, null clears the description."""

    description: text.Description | UnsetType | None = UNSET
    tags: frozenset[CampaignTag] | UnsetType = UNSET

    def decide(self, campaign: Campaign, occasion: Occasion) -> list[CampaignDescriptionUpdated]:
        description = text.description(
            patched(self.description, campaign.description), InvalidCampaignDescriptionError
        )
        tags = checked_tags(patched(self.tags, campaign.tags))
        check_open(campaign, CampaignCannotUpdateDescriptionError)
        if (description, tags) == (campaign.description, campaign.tags):
            return []
        return [
            CampaignDescriptionUpdated(
                campaign_id=campaign.id, occurred_at=occasion.now, description=description, tags=tags
            )
        ]


@campaigns.operation("POST /campaigns/{campaign_id}/external-refs/assign")
class AssignCampaignExternalRef(CampaignCommand):
    """Record what a campaign is called in another system, also after its end."""

    scheme: Scheme
    value: text.Name
    authority: text.Name | None = None

    def decide(self, campaign: Campaign, occasion: Occasion) -> list[CampaignExternalRefAssigned]:
        refusal = InvalidCampaignExternalRefsError
        scheme, ref = checked_ref(self.scheme, self.value, self.authority, refusal)
        present = campaign.external_refs.get(scheme)
        if present is None and len(campaign.external_refs) == MOST:
            raise refusal(f"At most {MOST} external references are kept.", most=MOST)
        if present is not None and (present.value, present.authority) == (ref.value, ref.authority or ""):
            return []
        if present is not None:
            raise CampaignExternalRefAlreadyAssignedError(
                f"The campaign is {present.value} in {scheme} already; that stays.",
                campaign_id=str(campaign.id),
                scheme=scheme,
                value=present.value,
            )
        return [
            CampaignExternalRefAssigned(
                campaign_id=campaign.id,
                occurred_at=occasion.now,
                scheme=scheme,
                value=ref.value,
                authority=ref.authority,
            )
        ]
