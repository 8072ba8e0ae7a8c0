"""Campaign: its status grid, and the rules that see nothing but the campaign."""

from uuid import UUID

import pytest

from beamwright.contexts.campaign.campaign import (
    AbandonCampaign,
    AssignCampaignExternalRef,
    CampaignAbandoned,
    CampaignCannotUpdateDescriptionError,
    CampaignClosed,
    CampaignDescriptionUpdated,
    CampaignExternalRefAlreadyAssignedError,
    CampaignExternalRefAssigned,
    CampaignHeld,
    CampaignIntent,
    CampaignRegistered,
    CampaignResumed,
    CampaignRunAdded,
    CampaignRunRemoved,
    CampaignStarted,
    CloseCampaign,
    HoldCampaign,
    InvalidCampaignAbandonReasonError,
    InvalidCampaignDescriptionError,
    InvalidCampaignExternalRefsError,
    InvalidCampaignHoldReasonError,
    InvalidCampaignNoteError,
    InvalidCampaignTagError,
    ResumeCampaign,
    StartCampaign,
    UpdateCampaignDescription,
    campaigns,
)
from beamwright.kernel.external_refs import GivenRef
from tests.grids import check_grid
from tests.rules import NOW, PRINCIPAL, given, outcome

CAMPAIGN, LEAD, RUN = UUID(int=2), UUID(int=3), UUID(int=4)
REGISTERED = CampaignRegistered(
    campaign_id=CAMPAIGN,
    occurred_at=NOW,
    name="Sweep",
    intent=CampaignIntent.SWEEP,
    lead_actor_id=LEAD,
    facility_code="home",
)
STARTED = CampaignStarted(campaign_id=CAMPAIGN, occurred_at=NOW)
HELD = CampaignHeld(campaign_id=CAMPAIGN, occurred_at=NOW, reason="beam away")
RESUMED = CampaignResumed(campaign_id=CAMPAIGN, occurred_at=NOW)
CLOSED = CampaignClosed(campaign_id=CAMPAIGN, occurred_at=NOW, ended_by=PRINCIPAL)
ABANDONED = CampaignAbandoned(campaign_id=CAMPAIGN, occurred_at=NOW, ended_by=PRINCIPAL, reason="no sample")
ADDED = CampaignRunAdded(campaign_id=CAMPAIGN, occurred_at=NOW, run_id=RUN)
REACH = {
    "Planned": [REGISTERED],
    "Active": [REGISTERED, STARTED],
    "Held": [REGISTERED, STARTED, HELD],
    "Closed": [REGISTERED, STARTED, CLOSED],
    "Abandoned": [REGISTERED, ABANDONED],
}

GRID = """
            start    hold   resume   close    abandon
Planned     Active   -      -        -        Abandoned
Active      -        Held   -        Closed   Abandoned
Held        -        -      Active   Closed   Abandoned
Closed      -        -      -        -        -
Abandoned   -        -      -        -        -
"""


def test_status_grid() -> None:
    check_grid(
        GRID,
        campaigns,
        status=lambda campaign: campaign.status,
        reach=REACH,
        verbs={
            "start": StartCampaign(campaign_id=CAMPAIGN),
            "hold": HoldCampaign(campaign_id=CAMPAIGN, reason="why"),
            "resume": ResumeCampaign(campaign_id=CAMPAIGN),
            "close": CloseCampaign(campaign_id=CAMPAIGN),
            "abandon": AbandonCampaign(campaign_id=CAMPAIGN, reason="why"),
        },
    )


@pytest.mark.parametrize("status", ["Planned", "Active", "Held"])
def test_an_open_campaign_can_be_described_anew(status: str) -> None:
    got = outcome(
        UpdateCampaignDescription(campaign_id=CAMPAIGN, tags=frozenset({" a "})),
        given(campaigns, *REACH[status]),
    )
    assert got == [
        CampaignDescriptionUpdated(
            campaign_id=CAMPAIGN, occurred_at=NOW, description=None, tags=frozenset({"a"})
        )
    ]


@pytest.mark.parametrize("status", ["Closed", "Abandoned"])
def test_an_ended_campaign_keeps_its_description(status: str) -> None:
    got = outcome(
        UpdateCampaignDescription(campaign_id=CAMPAIGN, description="new"), given(campaigns, *REACH[status])
    )
    assert got == CampaignCannotUpdateDescriptionError


def test_null_clears_the_description_and_absent_tags_stay() -> None:
    described = CampaignDescriptionUpdated(
        campaign_id=CAMPAIGN, occurred_at=NOW, description="old", tags=frozenset({"a"})
    )
    got = outcome(
        UpdateCampaignDescription(campaign_id=CAMPAIGN, description=None),
        given(campaigns, REGISTERED, described),
    )
    assert got == [
        CampaignDescriptionUpdated(
            campaign_id=CAMPAIGN, occurred_at=NOW, description=None, tags=frozenset({"a"})
        )
    ]


def test_a_description_that_changes_nothing_is_a_no_op() -> None:
    assert outcome(UpdateCampaignDescription(campaign_id=CAMPAIGN), given(campaigns, REGISTERED)) == []


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (HoldCampaign(campaign_id=CAMPAIGN, reason="  "), InvalidCampaignHoldReasonError),
        (HoldCampaign(campaign_id=CAMPAIGN, reason="x" * 501), InvalidCampaignHoldReasonError),
        (AbandonCampaign(campaign_id=CAMPAIGN, reason=""), InvalidCampaignAbandonReasonError),
        (CloseCampaign(campaign_id=CAMPAIGN, note=" "), InvalidCampaignNoteError),
        (ResumeCampaign(campaign_id=CAMPAIGN, note=" "), InvalidCampaignNoteError),
        (
            UpdateCampaignDescription(campaign_id=CAMPAIGN, description=""),
            InvalidCampaignDescriptionError,
        ),
        (UpdateCampaignDescription(campaign_id=CAMPAIGN, tags=frozenset({" "})), InvalidCampaignTagError),
        (
            UpdateCampaignDescription(campaign_id=CAMPAIGN, tags=frozenset(map(str, range(33)))),
            InvalidCampaignTagError,
        ),
        (
            AssignCampaignExternalRef(campaign_id=CAMPAIGN, scheme="DOI", value="x"),
            InvalidCampaignExternalRefsError,
        ),
        (
            AssignCampaignExternalRef(campaign_id=CAMPAIGN, scheme="doi", value="doi:10.1/x"),
            InvalidCampaignExternalRefsError,
        ),
    ],
)
def test_bad_text_is_refused_before_the_status_is_looked_at(command: HoldCampaign, refusal: type) -> None:
    assert outcome(command, given(campaigns, *REACH["Closed"])) == refusal


def test_the_reason_of_a_hold_is_shown_until_the_resume() -> None:
    assert given(campaigns, REGISTERED, STARTED, HELD).status_reason == "beam away"
    assert given(campaigns, REGISTERED, STARTED, HELD, RESUMED).status_reason is None


def test_the_reason_of_an_abandonment_stays() -> None:
    campaign = given(campaigns, REGISTERED, ABANDONED)
    assert (campaign.status_reason, campaign.ended_by, campaign.ended_at) == ("no sample", PRINCIPAL, NOW)


def test_runs_join_and_leave() -> None:
    removed = CampaignRunRemoved(campaign_id=CAMPAIGN, occurred_at=NOW, run_id=RUN, reason="wrong sample")
    assert given(campaigns, REGISTERED, ADDED).run_ids == {RUN}
    assert given(campaigns, REGISTERED, ADDED, removed).run_ids == set()


ASSIGN = AssignCampaignExternalRef(campaign_id=CAMPAIGN, scheme="proposal", value="2026-1")
ASSIGNED = CampaignExternalRefAssigned(
    campaign_id=CAMPAIGN, occurred_at=NOW, scheme="proposal", value="2026-1"
)


def test_an_external_reference_is_assigned_also_after_the_end() -> None:
    assert outcome(ASSIGN, given(campaigns, *REACH["Closed"])) == [ASSIGNED]


def test_the_same_external_reference_again_is_a_no_op() -> None:
    assert outcome(ASSIGN, given(campaigns, REGISTERED, ASSIGNED)) == []


def test_another_value_of_an_assigned_scheme_is_refused() -> None:
    other = AssignCampaignExternalRef(campaign_id=CAMPAIGN, scheme="proposal", value="2026-2")
    refusal = CampaignExternalRefAlreadyAssignedError
    assert outcome(other, given(campaigns, REGISTERED, ASSIGNED)) == refusal


def test_there_are_at_most_twenty_external_references() -> None:
    refs = {f"scheme{number}": GivenRef(value="x") for number in range(20)}
    full = CampaignRegistered(
        campaign_id=CAMPAIGN,
        occurred_at=NOW,
        name="Sweep",
        intent=CampaignIntent.SWEEP,
        lead_actor_id=LEAD,
        facility_code="home",
        external_refs=refs,
    )
    assert outcome(ASSIGN, given(campaigns, full)) == InvalidCampaignExternalRefsError


def test_a_campaign_belongs_to_its_facility_visit_and_lead() -> None:
    belonging = campaigns.belongs(given(campaigns, REGISTERED))
    assert (belonging.facility_code, belonging.visit_ids, belonging.owner_id) == ("home", frozenset(), LEAD)
