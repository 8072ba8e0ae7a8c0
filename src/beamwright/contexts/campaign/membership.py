"""Which runs a campaign holds: each change is told on both streams, in one append."""

from collections.abc import Sequence
from uuid import UUID

from beamwright.contexts.federation.coverage import covers, load_chain
from beamwright.contexts.federation.facility import Facility
from beamwright.contexts.run.run import (
    Run,
    RunAddedToCampaign,
    RunRemovedFromCampaign,
    runs,
)
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.event import Event
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .campaign import (
    Campaign,
    CampaignCannotAddRunError,
    CampaignCannotRemoveRunError,
    CampaignRunAdded,
    CampaignRunRemoved,
    campaigns,
    check_open,
)


class InvalidCampaignRunRemoveReasonError(InvalidError):
    """The reason for taking the run out is blank or too long."""


class CampaignRunAlreadyMemberError(ConflictError):
    """The run is in this campaign already."""


class CampaignRunNotMemberError(ConflictError):
    """The run is not in this campaign."""


class RunAlreadyAssignedToCampaignError(ConflictError):
    """The run is in another campaign, and can be in one only."""


class CampaignFacilityMismatchError(ConflictError):
    """The campaign's facility does not cover the run's."""


class Membership(Value):
    """A campaign, a run, and the run's facility with those that cover it where they matter."""

    campaign: Campaign
    run: Run
    run_chain: tuple[Facility, ...] = ()


@campaigns.operation("POST /campaigns/{campaign_id}/runs/add")
class AddRunToCampaign(Command[Membership]):
    """Add a run, of whatever status, to a campaign that has not ended."""

    campaign_id: UUID
    run_id: UUID

    async def gather(self, world: World) -> Membership:
        campaign = await world.load(campaigns, self.campaign_id)
        run = await world.load(runs, self.run_id)
        if run.facility_code == campaign.facility_code:
            return Membership(campaign=campaign, run=run)
        return Membership(campaign=campaign, run=run, run_chain=await load_chain(world, run.facility_code))

    def decide(self, seen: Membership, occasion: Occasion) -> list[Event]:
        campaign, run = seen.campaign, seen.run
        check_open(campaign, CampaignCannotAddRunError)
        check_unassigned(campaign, run)
        check_covered(campaign, run, seen.run_chain)
        return joined(campaign.id, run.id, occasion)


@campaigns.operation("POST /campaigns/{campaign_id}/runs/remove")
class RemoveRunFromCampaign(Command[Membership]):
    """Take a run out of a campaign that has not ended."""

    campaign_id: UUID
    run_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Membership:
        campaign = await world.load(campaigns, self.campaign_id)
        return Membership(campaign=campaign, run=await world.load(runs, self.run_id))

    def decide(self, seen: Membership, occasion: Occasion) -> list[Event]:
        campaign, run, now = seen.campaign, seen.run, occasion.now
        reason = text.reason(self.reason, InvalidCampaignRunRemoveReasonError)
        check_open(campaign, CampaignCannotRemoveRunError)
        if run.id not in campaign.run_ids:
            raise CampaignRunNotMemberError(
                f"{run.name} is not in {campaign.name}.", campaign_id=str(campaign.id), run_id=str(run.id)
            )
        return [
            CampaignRunRemoved(campaign_id=campaign.id, occurred_at=now, run_id=run.id, reason=reason),
            RunRemovedFromCampaign(run_id=run.id, occurred_at=now, campaign_id=campaign.id, reason=reason),
        ]


def joined(campaign_id: UUID, run_id: UUID, occasion: Occasion) -> list[Event]:
    """What both streams tell of a run that joins; neither is ever written alone."""
    return [
        CampaignRunAdded(campaign_id=campaign_id, occurred_at=occasion.now, run_id=run_id),
        RunAddedToCampaign(run_id=run_id, occurred_at=occasion.now, campaign_id=campaign_id),
    ]


def check_unassigned(campaign: Campaign, run: Run) -> None:
    """Gate: a run is in one campaign at most; its own stream says in which."""
    if run.campaign_id == campaign.id:
        raise CampaignRunAlreadyMemberError(
            f"{run.name} is in {campaign.name} already.", campaign_id=str(campaign.id), run_id=str(run.id)
        )
    if run.campaign_id is not None:
        raise RunAlreadyAssignedToCampaignError(
            f"{run.name} is in campaign {run.campaign_id}; remove it there first.",
            campaign_id=str(run.campaign_id),
            run_id=str(run.id),
        )


def check_covered(campaign: Campaign, run: Run, chain: Sequence[Facility]) -> None:
    """Gate: the run is at the campaign's facility, or at one that is part of it."""
    if run.facility_code != campaign.facility_code and not covers(campaign.facility_code, chain):
        raise CampaignFacilityMismatchError(
            f"{run.name} is at {run.facility_code}, which {campaign.facility_code} does not cover.",
            campaign_id=str(campaign.id),
            run_id=str(run.id),
            campaign_facility_code=campaign.facility_code,
            run_facility_code=run.facility_code,
        )
