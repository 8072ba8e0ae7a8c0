"""Runs of a served installation: what lets them start and resume, who holds them, and how they end."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.interleaving import Meanwhile
from tests.acceptance.stage import Person, Stage, at_once, done, facility, grant, refusal
from tests.acceptance.things import Things, number, schema
from tests.live import LiveServer


@pytest.fixture(scope="module")
def things(stage: Stage) -> Things:
    return Things(stage)


@pytest.fixture
def meanwhile(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return Meanwhile(server, monkeypatch)


def start(stage: Stage, plan: str, **fields: Any) -> httpx.Response:
    return stage.admin.post("/runs", **{"name": "Run", "plan_id": plan} | fields)


def placed(things: Things, *enclosures: str, practice_id: str | None = None) -> str:
    """A plan with one camera in each of these enclosures."""
    unit = things.unit()
    cameras = [things.active(unit, located_in_enclosure_id=enclosure) for enclosure in enclosures]
    return things.plan(*cameras, practice_id=practice_id)


def needing(things: Things, kind: str) -> str:
    """A practice that needs a supply of this kind."""
    return things.practice(things.method(needed_supplies=[kind]))


def available(things: Things, kind: str, **fields: Any) -> str:
    supply = things.supply(kind=kind, **fields)
    done(things.admin.post(f"/supplies/{supply}/mark-available", reason="there"))
    return supply


def failed(answer: httpx.Response) -> list[str]:
    """Every row of the gate that refused."""
    return [each["code"] for each in answer.json()["context"]["failures"]]


def runs_of(stage: Stage, plan: str) -> list[str]:
    """From the log itself."""
    rows = stage.rows(
        "SELECT stream_id FROM events WHERE event_type = 'RunStarted' AND payload->>'plan_id' = $1", plan
    )
    return [str(row[0]) for row in rows]


def colleague(stage: Stage, kind: str = "human") -> Person:
    """Somebody else who may hold and resume runs."""
    person = stage.person(kind)
    stage.policy(grant("hold_run", "resume_run", "get_run"), to=person)
    return person


# The gate


def test_a_permit_lost_before_the_append_refuses_the_start(
    stage: Stage, things: Things, meanwhile: Meanwhile
) -> None:
    hutch = things.permitted()
    plan = placed(things, hutch)
    lost = things.report("NotPermitted")
    meanwhile.within("start_run", things.monitor, f"/enclosures/{hutch}/observe", **lost)
    assert refusal(start(stage, plan)) == (409, "RunRequiresPermittedEnclosureError")
    assert [answer.status_code for answer in meanwhile.answers] == [200] and runs_of(stage, plan) == []


def test_of_a_start_and_a_lost_permit_at_once_the_log_tells_one_order(stage: Stage, things: Things) -> None:
    for _ in range(5):
        hutch = things.permitted()
        plan, lost = placed(things, hutch), things.report("NotPermitted")
        answer, observed = at_once(
            lambda plan=plan: start(stage, plan),
            lambda hutch=hutch, lost=lost: things.monitor.post(f"/enclosures/{hutch}/observe", **lost),
        )
        assert observed.status_code == 200
        if answer.is_error:
            assert refusal(answer) == (409, "RunRequiresPermittedEnclosureError")
            assert runs_of(stage, plan) == []
        else:
            evidence = done(stage.admin.get(f"/runs/{answer.json()['run_id']}"))["gate_evidence"]
            # Registered, then permitted: the loss is the third.
            assert evidence["enclosures"] == [{"id": hutch, "version": 2}]


def test_one_enclosure_without_a_permit_is_named(stage: Stage, things: Things) -> None:
    permitted, unknown = things.permitted(), things.enclosure()
    answer = start(stage, placed(things, permitted, unknown))
    assert refusal(answer) == (409, "RunEnclosureCoverageMismatchError")
    [failure] = answer.json()["context"]["failures"]
    assert unknown in str(failure) and "Unknown" in str(failure) and permitted not in str(failure)


def test_no_enclosure_with_a_permit_is_another_refusal(stage: Stage, things: Things) -> None:
    answer = start(stage, placed(things, things.enclosure(), things.enclosure()))
    assert refusal(answer) == (409, "RunRequiresPermittedEnclosureError")


def test_a_decommissioned_enclosure_permits_nothing(stage: Stage, things: Things) -> None:
    hutch = things.permitted()
    plan = placed(things, hutch)
    done(stage.admin.post(f"/enclosures/{hutch}/decommission", reason="torn down"))
    assert refusal(start(stage, plan)) == (409, "RunRequiresPermittedEnclosureError")


def test_without_an_enclosure_nothing_is_asked(stage: Stage, things: Things) -> None:
    assert start(stage, things.plan()).status_code == 201


def test_a_supply_elsewhere_is_none(stage: Stage, things: Things) -> None:
    kind = f"photon_beam {uuid4().hex}"[:50]
    available(things, kind, facility_code=stage.site())
    plan = things.plan(practice_id=needing(things, kind))
    assert refusal(start(stage, plan)) == (409, "RunRequiresAvailableSupplyError")


def test_a_degraded_supply_does_not_do(stage: Stage, things: Things) -> None:
    kind = f"beam {uuid4().hex}"
    done(stage.admin.post(f"/supplies/{available(things, kind)}/degrade", reason="unstable"))
    plan = things.plan(practice_id=needing(things, kind))
    assert refusal(start(stage, plan)) == (409, "RunSupplyCoverageMismatchError")


def test_every_failing_row_is_told_and_the_first_is_raised(stage: Stage, things: Things) -> None:
    missing, degraded = f"a {uuid4().hex}", f"b {uuid4().hex}"
    done(stage.admin.post(f"/supplies/{available(things, degraded)}/degrade", reason="unstable"))
    practice = things.practice(things.method(needed_supplies=[missing, degraded]))
    answer = start(stage, placed(things, things.enclosure(), practice_id=practice))
    assert refusal(answer) == (409, "RunRequiresAvailableSupplyError")
    assert failed(answer) == [
        "RunRequiresAvailableSupplyError",
        "RunSupplyCoverageMismatchError",
        "RunRequiresPermittedEnclosureError",
    ]


def test_a_clearance_that_has_just_lapsed_covers_nothing(own_stage: Stage) -> None:
    things, clock = Things(own_stage), own_stage.server.clock
    unit = things.unit()
    plan = things.plan(things.active(unit))
    until = (clock() + timedelta(seconds=60)).isoformat()
    clearance = things.cleared({"kind": "Asset", "id": unit}, valid_until=until)
    assert start(own_stage, plan).status_code == 201
    clock.ahead = timedelta(seconds=61)
    answer = start(own_stage, plan)
    assert refusal(answer) == (409, "RunClearanceCoverageMismatchError")
    assert clearance in answer.text and until[:19] in answer.text


# Parameters


def test_overrides_are_merged_into_the_defaults(stage: Stage, things: Things) -> None:
    parameters = schema(energy=number("keV"), exposure=number("s"))
    practice = things.practice(
        things.method(things.capability(parameters_schema=parameters), parameters_schema=parameters)
    )
    plan = things.plan(practice_id=practice, default_parameters={"energy": 20, "exposure": 0.1})
    run = things.run(plan, override_parameters={"energy": 25, "exposure": None})
    [started] = done(stage.admin.get(f"/runs/{run}/events"))["items"]
    assert done(stage.admin.get(f"/runs/{run}"))["effective_parameters"] == {"energy": 25}
    assert started["payload"]["override_parameters"] == {"energy": 25, "exposure": None}
    assert started["payload"]["effective_parameters"] == {"energy": 25}
    assert started["payload"]["parameters_schema_version"] == 1


def test_a_value_outside_its_range_is_refused_with_its_place(stage: Stage, things: Things) -> None:
    parameters = schema(energy=number("keV", minimum=5, maximum=40))
    method = things.method(things.capability(parameters_schema=parameters), parameters_schema=parameters)
    plan = things.plan(practice_id=things.practice(method))
    answer = start(stage, plan, override_parameters={"energy": 99})
    assert refusal(answer) == (400, "InvalidRunParametersError")
    assert answer.json()["context"]["violations"][0]["path"] == "/energy" and runs_of(stage, plan) == []


# Holding and resuming


def test_a_held_run_waits_for_its_permit_and_for_somebody(stage: Stage, things: Things) -> None:
    hutch = things.permitted()
    run = things.run(placed(things, hutch))
    done(stage.admin.post(f"/runs/{run}/hold", reason="look inside"))
    things.permit(hutch, "NotPermitted")
    resumed = stage.admin.post(f"/runs/{run}/resume")
    assert refusal(resumed) == (409, "RunRequiresPermittedEnclosureError")
    things.permit(hutch)
    assert done(stage.admin.get(f"/runs/{run}"))["status"] == "Held"
    done(stage.admin.post(f"/runs/{run}/resume"))
    assert stage.event_types(run) == ["RunStarted", "RunHeld", "RunResumed"]


def test_nobody_cancels_the_hold_of_another_operator(stage: Stage, things: Things) -> None:
    run, second, supervisor = things.run(), colleague(stage), colleague(stage, "service_account")
    done(stage.admin.post(f"/runs/{run}/hold", reason="I am inside"))
    done(supervisor.post(f"/runs/{run}/hold", reason="drifting"))
    receipt = done(second.post(f"/runs/{run}/resume"))
    shown = done(stage.admin.get(f"/runs/{run}"))
    assert receipt["events"] == ["RunHoldClaimReleased"]
    assert (shown["status"], [each["reason"] for each in shown["hold_reasons"]]) == ("Held", ["I am inside"])
    assert [each["held_by"] for each in shown["hold_reasons"]] == [stage.admin.id]
    done(stage.admin.post(f"/runs/{run}/resume"))
    assert done(stage.admin.get(f"/runs/{run}"))["status"] == "Running"


def test_of_two_that_resume_at_once_one_does(stage: Stage, things: Things) -> None:
    plan = things.plan()
    for _ in range(5):
        run = things.run(plan)
        done(stage.admin.post(f"/runs/{run}/hold", reason="a pause"))
        answers = at_once(*[lambda run=run: stage.admin.post(f"/runs/{run}/resume")] * 2)
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        [loser] = [answer for answer in answers if answer.is_error]
        assert loser.json()["code"] == "RunCannotResumeError"
        assert stage.event_types(run) == ["RunStarted", "RunHeld", "RunResumed"]


# Ends


def test_an_aborted_run_tells_why_in_one_call(stage: Stage, things: Things) -> None:
    plan = things.plan()
    run = things.run(plan)
    ended = done(stage.admin.post(f"/runs/{run}/abort", reason="smoke"))
    shown = done(stage.admin.get(f"/runs/{run}"))
    latest = done(stage.admin.get(f"/plans/{plan}/outcome", consistent_with=ended["as_of"]))["latest"]
    assert (shown["outcome"], shown["status_reason"], shown["ended_by"]) == (
        "Failed",
        "smoke",
        stage.admin.id,
    )
    assert (latest["run_id"], latest["outcome"], latest["status_reason"]) == (run, "Failed", "smoke")


def test_an_end_is_final(stage: Stage, things: Things) -> None:
    run = things.run()
    done(stage.admin.post(f"/runs/{run}/complete"))
    answer = stage.admin.post(f"/runs/{run}/abort", reason="too late")
    assert refusal(answer) == (409, "RunCannotAbortError")
    assert stage.event_types(run) == ["RunStarted", "RunCompleted"]


# Campaigns


def test_a_campaign_closed_before_the_append_refuses_the_start(
    stage: Stage, things: Things, meanwhile: Meanwhile
) -> None:
    campaign, plan = things.campaign(), things.plan()
    done(stage.admin.post(f"/campaigns/{campaign}/start"))
    meanwhile.within("start_run", stage.admin, f"/campaigns/{campaign}/close")
    assert refusal(start(stage, plan, campaign_id=campaign)) == (409, "RunCannotJoinCampaignError")
    assert runs_of(stage, plan) == []
    assert stage.event_types(campaign) == ["CampaignRegistered", "CampaignStarted", "CampaignClosed"]


def test_a_held_campaign_takes_runs_that_exist_and_starts_none(stage: Stage, things: Things) -> None:
    campaign, plan = things.campaign(), things.plan()
    done(stage.admin.post(f"/campaigns/{campaign}/start"))
    done(stage.admin.post(f"/campaigns/{campaign}/hold", reason="no beam"))
    done(stage.admin.post(f"/campaigns/{campaign}/runs/add", run_id=things.run(plan)))
    assert refusal(start(stage, plan, campaign_id=campaign)) == (409, "RunCannotJoinCampaignError")


def test_a_closed_campaign_keeps_its_runs(stage: Stage, things: Things) -> None:
    campaign = things.campaign()
    run = things.run(campaign_id=campaign)
    for move in ("start", "close"):
        done(stage.admin.post(f"/campaigns/{campaign}/{move}"))
    removed = stage.admin.post(f"/campaigns/{campaign}/runs/remove", run_id=run, reason="misplaced")
    assert refusal(removed) == (409, "CampaignCannotRemoveRunError")
    assert done(stage.admin.get(f"/runs/{run}"))["campaign_id"] == campaign


def test_a_run_started_in_a_campaign_is_one_append(stage: Stage, things: Things) -> None:
    campaign = things.campaign()
    run = things.run(campaign_id=campaign)
    rows = stage.rows(
        "SELECT event_type, transaction_id FROM events WHERE stream_id = ANY($1) AND event_type <> 'CampaignRegistered'",
        [campaign, run],
    )
    assert {row[0] for row in rows} == {"RunStarted", "RunAddedToCampaign", "CampaignRunAdded"}
    assert len({row[1] for row in rows}) == 1


def test_a_stranger_sees_no_run(stage: Stage, things: Things) -> None:
    run, stranger = things.run(), stage.person()
    stage.policy(grant("get_run", "hold_run", scope=facility(stage.site())), to=stranger)
    assert refusal(stranger.get(f"/runs/{run}")) == (404, "RunNotFoundError")
    assert refusal(stranger.post(f"/runs/{run}/hold", reason="x")) == (404, "RunNotFoundError")
