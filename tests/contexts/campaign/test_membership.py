"""Which runs a campaign holds: both streams tell of each change."""

from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.campaign.campaign import (
    CampaignCannotAddRunError,
    CampaignCannotRemoveRunError,
    CampaignRunAdded,
    CampaignRunRemoved,
    campaigns,
)
from beamwright.contexts.campaign.membership import (
    AddRunToCampaign,
    CampaignFacilityMismatchError,
    CampaignRunAlreadyMemberError,
    CampaignRunNotMemberError,
    InvalidCampaignRunRemoveReasonError,
    Membership,
    RemoveRunFromCampaign,
    RunAlreadyAssignedToCampaignError,
)
from beamwright.contexts.federation.facility import Facility, FacilityKind
from beamwright.contexts.run.run import (
    RunAddedToCampaign,
    RunCompleted,
    RunRemovedFromCampaign,
    RunStarted,
    runs,
)
from beamwright.kernel.event import Event
from beamwright.kernel.value import replace
from tests.contexts.campaign.test_campaign import ADDED, CAMPAIGN, REACH, REGISTERED, RUN
from tests.rules import NOW, OCCASION, PRINCIPAL, given, outcome

OTHER = UUID(int=9)
ADD = AddRunToCampaign(campaign_id=CAMPAIGN, run_id=RUN)
REMOVE = RemoveRunFromCampaign(campaign_id=CAMPAIGN, run_id=RUN, reason="wrong sample")
RUN_STARTED = RunStarted(
    run_id=RUN,
    occurred_at=NOW,
    name="Run",
    plan_id=UUID(int=11),
    plan_stream_version=1,
    plan_content_hash="0" * 64,
    practice_id=UUID(int=12),
    method_id=UUID(int=13),
    method_stream_version=1,
    capability_id=UUID(int=14),
    facility_code="home",
    asset_ids=frozenset(),
    started_by=PRINCIPAL,
)
RUN_ADDED = RunAddedToCampaign(run_id=RUN, occurred_at=NOW, campaign_id=CAMPAIGN)
RUN_ELSEWHERE = RunAddedToCampaign(run_id=RUN, occurred_at=NOW, campaign_id=OTHER)
RUN_ENDED = RunCompleted(run_id=RUN, occurred_at=NOW, ended_by=PRINCIPAL)


def seen(campaign: list[Event], *run: Event, **fields: Any) -> Membership:
    return Membership(campaign=given(campaigns, *campaign), run=given(runs, RUN_STARTED, *run), **fields)


@pytest.mark.parametrize("status", ["Planned", "Active", "Held"])
@pytest.mark.parametrize("run", [[], [RUN_ENDED]], ids=["running", "ended"])
def test_adding_is_told_on_both_streams(status: str, run: list[Event]) -> None:
    assert outcome(ADD, seen(REACH[status], *run)) == [
        CampaignRunAdded(campaign_id=CAMPAIGN, occurred_at=NOW, run_id=RUN),
        RunAddedToCampaign(run_id=RUN, occurred_at=NOW, campaign_id=CAMPAIGN),
    ]


@pytest.mark.parametrize("status", ["Planned", "Active", "Held"])
@pytest.mark.parametrize("run", [[], [RUN_ENDED]], ids=["running", "ended"])
def test_removing_is_told_on_both_streams(status: str, run: list[Event]) -> None:
    assert outcome(REMOVE, seen([*REACH[status], ADDED], RUN_ADDED, *run)) == [
        CampaignRunRemoved(campaign_id=CAMPAIGN, occurred_at=NOW, run_id=RUN, reason="wrong sample"),
        RunRemovedFromCampaign(run_id=RUN, occurred_at=NOW, campaign_id=CAMPAIGN, reason="wrong sample"),
    ]


@pytest.mark.parametrize("status", ["Closed", "Abandoned"])
def test_an_ended_campaign_keeps_its_runs(status: str) -> None:
    assert outcome(ADD, seen(REACH[status])) == CampaignCannotAddRunError
    assert outcome(REMOVE, seen(REACH[status])) == CampaignCannotRemoveRunError


def test_a_run_is_added_once() -> None:
    assert outcome(ADD, seen([REGISTERED, ADDED], RUN_ADDED)) == CampaignRunAlreadyMemberError


def test_a_run_of_another_campaign_is_refused_by_name() -> None:
    with pytest.raises(RunAlreadyAssignedToCampaignError) as refused:
        ADD.decide(seen([REGISTERED], RUN_ELSEWHERE), OCCASION)
    assert refused.value.context["campaign_id"] == str(OTHER)


def test_a_run_that_left_a_campaign_joins_another() -> None:
    left = RunRemovedFromCampaign(run_id=RUN, occurred_at=NOW, campaign_id=OTHER, reason="moved")
    got = outcome(ADD, seen([REGISTERED], RUN_ELSEWHERE, left))
    assert not isinstance(got, type)


def test_what_is_not_in_the_campaign_cannot_be_removed() -> None:
    assert outcome(REMOVE, seen([REGISTERED])) == CampaignRunNotMemberError


def test_removing_without_a_reason_is_refused_first() -> None:
    blank = RemoveRunFromCampaign(campaign_id=CAMPAIGN, run_id=RUN, reason=" ")
    assert outcome(blank, seen(REACH["Closed"])) == InvalidCampaignRunRemoveReasonError


def facility(code: str) -> Facility:
    return Facility(
        id=UUID(int=20),
        code=code,
        display_name=code,
        kind=FacilityKind.SITE,
        parent_id=None,
        base_url=None,
        peer_actor_id=None,
    )


def run_at(code: str, *chain: str) -> Membership:
    run = given(runs, replace(RUN_STARTED, facility_code=code))
    return Membership(
        campaign=given(campaigns, REGISTERED), run=run, run_chain=tuple(facility(each) for each in chain)
    )


def test_a_run_of_a_part_of_the_campaigns_facility_is_added() -> None:
    assert not isinstance(outcome(ADD, run_at("hall", "hall", "home")), type)


def test_a_run_of_another_facility_is_refused() -> None:
    assert outcome(ADD, run_at("away", "away")) == CampaignFacilityMismatchError
