"""Registering a campaign, and handing it to another lead."""

from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.access.actor import Actor
from beamwright.contexts.campaign.campaign import (
    CampaignCannotReassignError,
    CampaignIntent,
    CampaignReassigned,
    CampaignRegistered,
    InvalidCampaignDescriptionError,
    InvalidCampaignExternalRefsError,
    InvalidCampaignTagError,
    campaigns,
)
from beamwright.contexts.campaign.campaign_registration import (
    CampaignLeadInactiveError,
    CampaignOrigin,
    InvalidCampaignNameError,
    InvalidCampaignReassignReasonError,
    ReassignCampaign,
    Reassignment,
    RegisterCampaign,
)
from beamwright.kernel.external_refs import GivenRef
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import replace
from tests.contexts.campaign.test_campaign import ABANDONED, CAMPAIGN, LEAD, REGISTERED
from tests.rules import NEW_ID, NOW, given, outcome

OTHER = UUID(int=5)
ACTOR = Actor(id=OTHER, kind=ActorKind.HUMAN)
INACTIVE = replace(ACTOR, active=False)
ORIGIN = CampaignOrigin(lead=ACTOR, facility_code="home")


def register(**fields: Any) -> RegisterCampaign:
    return RegisterCampaign(**{"name": "Sweep", "intent": CampaignIntent.SWEEP} | fields)


def reassign(**fields: Any) -> ReassignCampaign:
    return ReassignCampaign(
        **{"campaign_id": CAMPAIGN, "lead_actor_id": OTHER, "reason": "on holiday"} | fields
    )


def test_a_campaign_is_registered_with_all_it_says() -> None:
    refs = {"proposal": GivenRef(value="2026-1")}
    got = outcome(register(name=" Sweep ", tags=frozenset({" a"}), external_refs=refs), ORIGIN)
    assert got == [
        CampaignRegistered(
            campaign_id=NEW_ID,
            occurred_at=NOW,
            name="Sweep",
            intent=CampaignIntent.SWEEP,
            lead_actor_id=OTHER,
            facility_code="home",
            tags=frozenset({"a"}),
            external_refs=refs,
        )
    ]


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"name": " "}, InvalidCampaignNameError),
        ({"description": " "}, InvalidCampaignDescriptionError),
        ({"tags": frozenset({""})}, InvalidCampaignTagError),
        ({"external_refs": {"Bad": GivenRef(value="x")}}, InvalidCampaignExternalRefsError),
    ],
)
def test_values_are_refused_before_the_lead_is_judged(fields: dict[str, Any], refusal: type) -> None:
    assert outcome(register(**fields), replace(ORIGIN, lead=INACTIVE)) == refusal


def test_an_inactive_actor_cannot_lead() -> None:
    assert outcome(register(), replace(ORIGIN, lead=INACTIVE)) == CampaignLeadInactiveError


def test_a_campaign_is_handed_to_another_lead() -> None:
    seen = Reassignment(campaign=given(campaigns, REGISTERED), lead=ACTOR)
    assert outcome(reassign(), seen) == [
        CampaignReassigned(campaign_id=CAMPAIGN, occurred_at=NOW, lead_actor_id=OTHER, reason="on holiday")
    ]


def test_handing_it_to_its_own_lead_is_a_no_op() -> None:
    seen = Reassignment(campaign=given(campaigns, REGISTERED), lead=replace(ACTOR, id=LEAD))
    assert outcome(reassign(lead_actor_id=LEAD), seen) == []


@pytest.mark.parametrize(
    ("command", "history", "lead", "refusal"),
    [
        (reassign(reason=" "), [REGISTERED, ABANDONED], INACTIVE, InvalidCampaignReassignReasonError),
        (reassign(), [REGISTERED, ABANDONED], INACTIVE, CampaignCannotReassignError),
        (reassign(), [REGISTERED], INACTIVE, CampaignLeadInactiveError),
    ],
)
def test_reassigning_is_refused_in_order(
    command: ReassignCampaign, history: list[Any], lead: Actor, refusal: type
) -> None:
    assert outcome(command, Reassignment(campaign=given(campaigns, *history), lead=lead)) == refusal
