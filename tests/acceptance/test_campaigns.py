"""Campaigns of a served installation: membership told on both streams, and what their reads show."""

from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from tests.acceptance.stage import Stage, at_once, done, facility, grant, refusal
from tests.live import LiveServer
from tests.running import start_run

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def run_id(server: LiveServer) -> str:
    return run(server)


def run(server: LiveServer, **fields: Any) -> str:
    return str(server.run(lambda app: start_run(app, START, **fields)))


def campaign(stage: Stage, *moves: str, **fields: Any) -> str:
    made = done(stage.admin.post("/campaigns", **{"name": uuid4().hex, "intent": "Series"} | fields))
    for move in moves:
        done(stage.admin.post(f"/campaigns/{made['campaign_id']}/{move}"))
    return made["campaign_id"]


def add(stage: Stage, campaign_id: str, run_id: str) -> Any:
    return stage.admin.post(f"/campaigns/{campaign_id}/runs/add", run_id=run_id)


def listed(stage: Stage, path: str, as_of: str, **query: Any) -> list[str]:
    return [item["id"] for item in done(stage.admin.get(path, consistent_with=as_of, **query))["items"]]


def test_adding_a_run_is_one_append_of_two_streams(stage: Stage, run_id: str) -> None:
    own = campaign(stage)
    done(add(stage, own, run_id))
    rows = stage.rows(
        "SELECT event_type, transaction_id FROM events WHERE stream_id IN ($1, $2) AND event_type LIKE '%Add%'",
        own,
        run_id,
    )
    assert {row["event_type"] for row in rows} == {"CampaignRunAdded", "RunAddedToCampaign"}
    assert len({row["transaction_id"] for row in rows}) == 1
    assert done(stage.admin.get(f"/runs/{run_id}"))["campaign_id"] == own


def test_a_run_of_another_campaign_is_refused_by_its_name(stage: Stage, run_id: str) -> None:
    own, other = campaign(stage), campaign(stage)
    done(add(stage, own, run_id))
    assert refusal(add(stage, own, run_id)) == (409, "CampaignRunAlreadyMemberError")
    assert refusal(add(stage, other, run_id)) == (409, "RunAlreadyAssignedToCampaignError")
    assert add(stage, other, run_id).json()["context"]["campaign_id"] == own


def test_of_two_campaigns_that_add_a_run_at_once_one_gets_it(stage: Stage, server: LiveServer) -> None:
    for _ in range(10):
        wanted, rivals = run(server), [campaign(stage), campaign(stage)]
        answers = at_once(*(partial(add, stage, own, wanted) for own in rivals))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        [loser] = [answer for answer in answers if answer.status_code == 409]
        assert loser.json()["code"] == "RunAlreadyAssignedToCampaignError"
        holder = done(stage.admin.get(f"/runs/{wanted}"))["campaign_id"]
        holding = [own for own in rivals if done(stage.admin.get(f"/campaigns/{own}"))["run_ids"]]
        assert holding == [holder]


def test_the_same_key_adds_a_run_once(stage: Stage, run_id: str) -> None:
    own, key = campaign(stage), {"idempotency-key": uuid4().hex}
    path, body = f"/campaigns/{own}/runs/add", {"run_id": run_id}
    first, again = (stage.admin.client.post(path, json=body, headers=key) for _ in range(2))
    assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
    assert stage.event_types(own) == ["CampaignRegistered", "CampaignRunAdded"]
    assert stage.event_types(run_id) == ["RunStarted", "RunAddedToCampaign"]


def test_a_campaign_that_is_closed_while_it_is_joined_keeps_both_streams_agreed(
    stage: Stage, server: LiveServer
) -> None:
    for _ in range(10):
        own, wanted = campaign(stage, "start"), run(server)
        at_once(
            lambda own=own, wanted=wanted: add(stage, own, wanted),
            lambda own=own: stage.admin.post(f"/campaigns/{own}/close"),
        )
        members = done(stage.admin.get(f"/campaigns/{own}"))["run_ids"]
        joined = done(stage.admin.get(f"/runs/{wanted}"))["campaign_id"]
        assert (members, joined) in (([], None), ([wanted], own))


def test_an_ended_campaign_keeps_its_runs_and_they_go_on(stage: Stage, run_id: str) -> None:
    own = campaign(stage, "start")
    done(add(stage, own, run_id))
    done(stage.admin.post(f"/campaigns/{own}/abandon", reason="no sample"))
    removed = stage.admin.post(f"/campaigns/{own}/runs/remove", run_id=run_id, reason="why")
    assert refusal(removed) == (409, "CampaignCannotRemoveRunError")
    shown = done(stage.admin.get(f"/runs/{run_id}"))
    assert (shown["status"], shown["campaign_id"]) == ("Running", own)


@pytest.mark.parametrize("reason", ["", " \n "])
def test_a_campaign_is_held_for_a_reason(stage: Stage, reason: str) -> None:
    own = campaign(stage, "start")
    held = stage.admin.post(f"/campaigns/{own}/hold", reason=reason)
    assert refusal(held) == (400, "InvalidCampaignHoldReasonError")
    assert stage.event_types(own) == ["CampaignRegistered", "CampaignStarted"]


def test_the_reason_of_a_hold_is_shown_everywhere(stage: Stage) -> None:
    own = campaign(stage, "start")
    held = done(stage.admin.post(f"/campaigns/{own}/hold", reason="beam away"))
    found = done(stage.admin.get("/campaigns", consistent_with=held["as_of"]))["items"]
    [shown] = [item for item in found if item["id"] == own]
    assert shown["status_reason"] == "beam away"
    assert done(stage.admin.get(f"/campaigns/{own}"))["status_reason"] == "beam away"
    done(stage.admin.post(f"/campaigns/{own}/resume"))
    history = done(stage.admin.get(f"/campaigns/{own}/events"))["items"]
    assert history[2]["payload"]["reason"] == "beam away"


def test_the_list_leaves_out_what_has_ended_unless_asked(stage: Stage) -> None:
    tag = uuid4().hex
    open_ones = [campaign(stage, tags=[tag]), campaign(stage, "start", tags=[tag])]
    closed = campaign(stage, "start", tags=[tag])
    as_of = done(stage.admin.post(f"/campaigns/{closed}/close"))["as_of"]
    assert set(listed(stage, "/campaigns", as_of, tag=tag)) == set(open_ones)
    assert set(listed(stage, "/campaigns", as_of, tag=tag, status="all")) == {*open_ones, closed}
    assert listed(stage, "/campaigns", as_of, tag=tag, status=["Closed", "Active"]) == [closed, open_ones[1]]
    mixed = stage.admin.get("/campaigns", status=["all", "Closed"])
    assert refusal(mixed) == (422, "ShapeError")


def test_pages_by_start_go_on_past_what_has_not_started(stage: Stage) -> None:
    tag = uuid4().hex
    made = [campaign(stage, *moves, tags=[tag]) for moves in ((), ("start",), (), ("start",))]
    as_of = done(stage.admin.post(f"/campaigns/{made[0]}/update-description", description="x"))["as_of"]
    found: list[str] = []
    query: dict[str, Any] = {"tag": tag, "sort": "started_at", "limit": 1, "consistent_with": as_of}
    while True:
        page = done(stage.admin.get("/campaigns", **query))
        found += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert found[:2] == [made[1], made[3]]
    assert set(found[2:]) == {made[0], made[2]}


def test_progress_sums_up_the_runs(stage: Stage, server: LiveServer) -> None:
    own = campaign(stage, "start")
    ended, held, running = (run(server) for _ in range(3))
    for each in (ended, held, running):
        done(add(stage, own, each))
    done(stage.admin.post(f"/runs/{ended}/abort", reason="wrong sample"))
    as_of = done(stage.admin.post(f"/runs/{held}/hold", reason="beam away"))["as_of"]
    progress = done(stage.admin.get(f"/campaigns/{own}/progress", consistent_with=as_of))
    assert progress["counts_by_status"] | {"Completed": 0, "Stopped": 0, "Truncated": 0} == {
        "Running": 1,
        "Held": 1,
        "Aborted": 1,
        "Completed": 0,
        "Stopped": 0,
        "Truncated": 0,
    }
    assert progress["counts_by_outcome"]["Failed"] == 1
    assert [(each["run_id"], each["status_reason"]) for each in progress["held"]] == [(held, "beam away")]
    assert progress["latest_ended"]["run_id"] == ended
    assert progress["total_duration"] > 0
    assert done(stage.admin.get(f"/campaigns/{own}"))["run_counts"]["Held"] == 1


def test_the_runs_of_a_campaign_are_listed_as_runs_are(stage: Stage, server: LiveServer) -> None:
    own, member, other = campaign(stage), run(server), run(server)
    done(add(stage, campaign(stage), other))
    as_of = done(add(stage, own, member))["as_of"]
    path = f"/campaigns/{own}/runs"
    assert listed(stage, path, as_of) == [member]
    assert listed(stage, path, as_of, status="Held") == []
    assert refusal(stage.admin.get(f"/campaigns/{uuid4()}/runs")) == (404, "CampaignNotFoundError")


def test_a_stranger_does_not_see_a_campaign(stage: Stage) -> None:
    own, stranger = campaign(stage), stage.person()
    stage.policy(grant("get_campaign", "list_campaigns", scope=facility(stage.site())), to=stranger)
    assert refusal(stranger.get(f"/campaigns/{own}")) == (404, "CampaignNotFoundError")
    assert done(stranger.get("/campaigns"))["items"] == []


def test_an_inactive_actor_cannot_lead(stage: Stage) -> None:
    person = stage.person()
    done(stage.admin.post(f"/actors/{person.id}/deactivate", reason="Departed"))
    made = stage.admin.post("/campaigns", name="x", intent="Block", lead_actor_id=person.id)
    assert refusal(made) == (409, "CampaignLeadInactiveError")
