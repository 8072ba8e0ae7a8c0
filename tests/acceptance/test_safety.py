"""Clearances of a served installation: who judges them, what they cover, and when they end."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from beamwright.kernel import wellknown
from tests.acceptance.stage import Person, Stage, done, grant, refusal
from tests.acceptance.things import Things
from tests.live import Cluster, serving


@pytest.fixture(scope="module")
def things(stage: Stage) -> Things:
    return Things(stage)


@pytest.fixture(scope="module")
def strict(cluster: Cluster) -> Iterator[Things]:
    """An installation where everything needs a clearance, and where nobody expires one."""
    with (
        serving(cluster, clearance_gate="required", clearance_expirer_enabled=False) as server,
        Stage(server) as stage,
    ):
        yield Things(stage)


def step(by: Person, clearance: str, role: str, decision: str) -> httpx.Response:
    return by.post(f"/clearances/{clearance}/review-steps/append", role=role, decision=decision)


def move(by: Person, clearance: str, verb: str, **body: Any) -> httpx.Response:
    return by.post(f"/clearances/{clearance}/{verb}", **body)


def start(things: Things, plan: str, **fields: Any) -> httpx.Response:
    return things.admin.post("/runs", **{"name": "Run", "plan_id": plan} | fields)


def relied_on(things: Things, answer: httpx.Response) -> list[str]:
    """The clearances that a start relied on."""
    run = done(things.admin.get(f"/runs/{done(answer)['run_id']}"))
    return [each["id"] for each in run["gate_evidence"]["clearances"]]


def asset(id: str) -> dict[str, str]:
    return {"kind": "Asset", "id": id}


def test_every_role_approves_and_no_author_does(stage: Stage, things: Things) -> None:
    radiation, chemistry = stage.administrator(), stage.administrator()
    template = things.template(reviewer_roles=["radiation", "chemistry"])
    done(stage.admin.post(f"/clearance-templates/{template}/activate"))
    clearance = things.clearance(template_id=template)
    done(move(stage.admin, clearance, "submit"))
    done(move(stage.admin, clearance, "start-review"))
    assert refusal(move(stage.admin, clearance, "approve")) == (409, "ClearanceApproverIsAuthorError")
    done(step(radiation, clearance, "radiation", "Approved"))
    done(step(chemistry, clearance, "chemistry", "RequestedChanges"))
    incomplete = move(radiation, clearance, "approve")
    assert refusal(incomplete) == (409, "ClearanceReviewIncompleteError")
    assert "chemistry" in incomplete.json()["detail"]
    done(step(chemistry, clearance, "chemistry", "Approved"))
    assert move(radiation, clearance, "approve").status_code == 200


def test_cover_for_the_unit_does_not_cover_the_subject(strict: Things) -> None:
    unit = strict.unit()
    camera, subject = strict.active(unit), strict.subject()
    done(strict.admin.post(f"/subjects/{subject}/mount", asset_id=camera, reason="next"))
    plan = strict.plan(camera)
    strict.cleared(asset(unit))
    answer = start(strict, plan, subject_id=subject)
    assert refusal(answer) == (409, "RunClearanceCoverageMismatchError")
    assert subject in answer.json()["detail"]
    strict.cleared({"kind": "Subject", "id": subject})
    assert start(strict, plan, subject_id=subject).status_code == 201


def test_where_clearances_are_required_their_absence_refuses(strict: Things) -> None:
    assert refusal(start(strict, strict.plan())) == (409, "RunRequiresActiveClearanceError")


def test_a_clearance_past_its_end_is_a_near_miss(strict: Things) -> None:
    clock = strict.stage.server.clock
    unit = strict.unit()
    plan = strict.plan(strict.active(unit))
    until = clock() + timedelta(seconds=60)
    clearance = strict.cleared(asset(unit), valid_until=until.isoformat())
    assert start(strict, plan).status_code == 201
    clock.ahead += timedelta(seconds=61)
    answer = start(strict, plan)
    assert refusal(answer) == (409, "RunClearanceCoverageMismatchError")
    coverage = done(strict.admin.get("/clearances/coverage", plan_id=plan))
    [needed] = coverage["needed"]
    assert not coverage["covered"] and clearance in answer.text
    assert [(each["clearance_id"], each["status"]) for each in needed["near"]] == [(clearance, "Active")]


def test_the_parent_covers_until_its_amendment_does(stage: Stage, things: Things) -> None:
    unit = things.unit()
    plan, parent = things.plan(things.active(unit)), things.cleared(asset(unit))
    child = done(move(stage.admin, parent, "amend", title="More work"))["clearance_id"]
    things.review(child)
    assert relied_on(things, start(things, plan)) == [parent]
    done(move(stage.admin, child, "approve"))
    done(move(stage.admin, child, "activate"))
    rows = stage.rows(
        "SELECT event_type, transaction_id FROM events WHERE stream_id = ANY($1) ORDER BY position DESC LIMIT 2",
        [parent, child],
    )
    assert {row[0] for row in rows} == {"ClearanceActivated", "ClearanceSuperseded"}
    assert len({row[1] for row in rows}) == 1
    assert relied_on(things, start(things, plan)) == [child]


def test_the_window_is_judged_as_it_will_stand(stage: Stage, things: Things) -> None:
    now = stage.server.clock()
    clearance = things.clearance(valid_until=(now + timedelta(days=1)).isoformat())
    things.review(clearance)
    later = move(stage.admin, clearance, "approve", valid_from=(now + timedelta(days=2)).isoformat())
    assert refusal(later) == (400, "InvalidClearanceValidityWindowError")
    vague = move(stage.admin, clearance, "approve", valid_from="2027-01-01T00:00:00")
    assert vague.status_code == 422


def test_a_verb_from_the_wrong_state_names_the_right_ones(stage: Stage, things: Things) -> None:
    clearance = things.clearance()
    done(move(stage.admin, clearance, "submit"))
    answer = move(stage.admin, clearance, "approve")
    assert refusal(answer) == (409, "ClearanceCannotApproveError")
    assert "Submitted" in answer.text and "UnderReview" in answer.text


def test_no_machine_clears_work_whatever_it_was_granted(stage: Stage, things: Things) -> None:
    machine = stage.person("service_account")
    stage.policy(grant("*:*"), to=machine)
    pending, active = things.clearance(), things.cleared()
    things.review(pending)
    assert refusal(move(machine, pending, "approve")) == (403, "ClearanceRequiresHumanError")
    assert refusal(move(machine, active, "expire", reason="tidy")) == (409, "ClearanceNotDueError")


def test_a_returned_clearance_is_judged_anew(stage: Stage, things: Things) -> None:
    clearance = things.clearance()
    things.review(clearance)
    done(move(stage.admin, clearance, "return", reason="name the gas"))
    done(move(stage.admin, clearance, "revise", title="Work with argon"))
    done(move(stage.admin, clearance, "submit"))
    done(move(stage.admin, clearance, "start-review"))
    shown = done(stage.admin.get(f"/clearances/{clearance}"))
    assert (shown["round"], [each["round"] for each in shown["review_steps"]]) == (2, [1])
    assert refusal(move(stage.admin, clearance, "approve")) == (409, "ClearanceReviewIncompleteError")


def test_a_code_is_free_again_when_its_form_is_withdrawn(own_stage: Stage) -> None:
    seeded = str(wellknown.GENERAL_CLEARANCE_TEMPLATE)
    again = {"code": "General", "title": "Our own"}
    taken = own_stage.admin.post("/clearance-templates", **again)
    assert refusal(taken) == (409, "ClearanceTemplateAlreadyExistsError")
    done(own_stage.admin.post(f"/clearance-templates/{seeded}/withdraw", reason="replaced"))
    made = own_stage.admin.post("/clearance-templates", **again)
    assert made.status_code == 201 and made.json()["template_id"] != seeded
