"""Registering a campaign, and handing it to another lead."""

from uuid import UUID

from beamwright.contexts.access.actor import Actor, actors
from beamwright.contexts.federation.coverage import load_facility
from beamwright.contexts.federation.facility import FacilityCode
from beamwright.contexts.subject.subject import subjects
from beamwright.contexts.trust.visit import visits
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.external_refs import GivenRef, Scheme, checked_refs
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .campaign import (
    Campaign,
    CampaignCannotReassignError,
    CampaignIntent,
    CampaignReassigned,
    CampaignRegistered,
    CampaignTag,
    InvalidCampaignDescriptionError,
    InvalidCampaignExternalRefsError,
    campaigns,
    check_open,
    checked_tags,
)


class InvalidCampaignNameError(InvalidError):
    """The campaign's name is blank or too long."""


class InvalidCampaignReassignReasonError(InvalidError):
    """The reason for the new lead is blank or too long."""


class CampaignLeadInactiveError(ConflictError):
    """The actor is inactive and cannot lead a campaign."""


class CampaignOrigin(Value):
    """Who is to lead a new campaign, and the code of its facility."""

    lead: Actor
    facility_code: str


@campaigns.operation("POST /campaigns", creates=True)
class RegisterCampaign(Command[CampaignOrigin]):
    """Register a campaign of runs, led by the caller unless somebody else is named."""

    name: text.Name
    intent: CampaignIntent
    lead_actor_id: UUID | None = None
    facility_code: FacilityCode | None = None
    visit_id: UUID | None = None
    subject_id: UUID | None = None
    description: text.Description | None = None
    tags: frozenset[CampaignTag] = frozenset()
    external_refs: dict[Scheme, GivenRef] = {}

    async def gather(self, world: World) -> CampaignOrigin:
        lead = await world.load(actors, self.lead_actor_id or world.caller.principal_id)
        facility = await load_facility(world, self.facility_code or world.installation.self_facility_code)
        if self.visit_id is not None:
            await world.load(visits, self.visit_id)
        if self.subject_id is not None:
            await world.load(subjects, self.subject_id)
        return CampaignOrigin(lead=lead, facility_code=facility.code)

    def decide(self, origin: CampaignOrigin, occasion: Occasion) -> CampaignRegistered:
        registered = CampaignRegistered(
            campaign_id=occasion.new_id,
            occurred_at=occasion.now,
            name=text.name(self.name, InvalidCampaignNameError),
            intent=self.intent,
            lead_actor_id=origin.lead.id,
            facility_code=origin.facility_code,
            visit_id=self.visit_id,
            subject_id=self.subject_id,
            description=text.description(self.description, InvalidCampaignDescriptionError),
            tags=checked_tags(self.tags),
            external_refs=checked_refs(self.external_refs, InvalidCampaignExternalRefsError),
        )
        check_lead(origin.lead)
        return registered


class Reassignment(Value):
    """A campaign and who is to lead it."""

    campaign: Campaign
    lead: Actor


@campaigns.operation("POST /campaigns/{campaign_id}/reassign")
class ReassignCampaign(Command[Reassignment]):
    """Give a campaign another lead."""

    campaign_id: UUID
    lead_actor_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Reassignment:
        campaign = await world.load(campaigns, self.campaign_id)
        return Reassignment(campaign=campaign, lead=await world.load(actors, self.lead_actor_id))

    def decide(self, seen: Reassignment, occasion: Occasion) -> list[CampaignReassigned]:
        reason = text.reason(self.reason, InvalidCampaignReassignReasonError)
        check_open(seen.campaign, CampaignCannotReassignError)
        check_lead(seen.lead)
        if seen.lead.id == seen.campaign.lead_actor_id:
            return []
        return [
            CampaignReassigned(
                campaign_id=seen.campaign.id,
                occurred_at=occasion.now,
                lead_actor_id=seen.lead.id,
                reason=reason,
            )
        ]


def check_lead(lead: Actor) -> None:
    """Gate: whoever leads a campaign is active."""
    if not lead.active:
        raise CampaignLeadInactiveError(
            "This actor is inactive; name another, or reactivate it first.", actor_id=str(lead.id)
        )
