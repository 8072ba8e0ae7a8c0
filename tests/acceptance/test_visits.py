"""Visits and the control of their surface, as the catalogue's examples tell it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.stage import Person, Stage, at_once, denial, done, grant, refusal
from tests.live import LiveServer

ROUNDS = 50


def control(stage: Stage, surface: str) -> Any:
    return done(stage.admin.get(f"/surfaces/{surface}/control"))


def holder(stage: Stage, surface: str) -> str | None:
    held = control(stage, surface)["holder"]
    return held and held["visit_id"]


class Rivals:
    """Two visits on one surface, each with a member who is present."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.surface = stage.surface()
        self.ann, self.ben = stage.person(), stage.person()
        self.first = stage.attended(self.ann, surface_id=self.surface)
        self.second = stage.attended(self.ben, surface_id=self.surface)

    def act(self, person: Person, verb: str, **body: Any) -> Any:
        visit = self.first if person is self.ann else self.second
        return person.post(f"/visits/{visit}/surface-control/{verb}", **body)


@pytest.fixture
def rivals(stage: Stage) -> Rivals:
    return Rivals(stage)


@pytest.fixture
def asked(rivals: Rivals) -> Rivals:
    """The first visit holds control, and the second has asked for it."""
    done(rivals.act(rivals.ann, "take"))
    done(rivals.act(rivals.ben, "request", timeout=30))
    return rivals


@pytest.fixture(autouse=True)
def clock(stage: Stage) -> Iterator[None]:
    """Each test begins at the same time as the others."""
    yield
    stage.server.clock.ahead = timedelta()


def later(stage: Stage, seconds: float) -> None:
    stage.server.clock.ahead += timedelta(seconds=seconds)


# Membership.


def test_a_member_works_in_its_own_visit_only(stage: Stage) -> None:
    ben = stage.person()
    own, other = stage.visit_in_progress({ben: "Member"}), stage.visit_in_progress()
    assert ben.post(f"/visits/{own}/presence/open", mode="Physical").is_success
    refused = ben.post(f"/visits/{other}/presence/open", mode="Physical")
    assert refusal(refused) == (404, "VisitNotFoundError")


def test_a_visit_on_hold_lets_its_members_wind_down_only(stage: Stage) -> None:
    ben, cora = stage.person(), stage.person()
    visit = stage.visit_in_progress({ben: "Member", cora: "Member"})
    done(ben.post(f"/visits/{visit}/presence/open", mode="Physical"))
    done(stage.admin.post(f"/visits/{visit}/hold", reason="beam lost"))
    assert denial(cora.post(f"/visits/{visit}/presence/open", mode="Physical")) == (403, "OutOfReach")
    assert ben.post(f"/visits/{visit}/presence/close").is_success


def test_a_removed_member_finds_the_visit_no_more(stage: Stage) -> None:
    ben = stage.person()
    visit = stage.visit_in_progress({ben: "Member"})
    assert ben.get(f"/visits/{visit}").is_success
    done(stage.admin.post(f"/visits/{visit}/members/remove", actor_id=ben.id, reason="mistaken"))
    assert denial(ben.get(f"/visits/{visit}")) == (403, "NoGrant")


def test_a_role_in_one_visit_is_no_role_in_another(stage: Stage) -> None:
    ben = stage.person()
    led, joined = stage.visit_in_progress({ben: "Lead"}), stage.visit_in_progress({ben: "Member"})
    assert ben.post(f"/visits/{led}/hold", reason="a break").is_success
    assert denial(ben.post(f"/visits/{joined}/hold", reason="a break")) == (403, "OutOfReach")


def test_a_visit_with_its_own_policy_is_ruled_by_that_alone(stage: Stage) -> None:
    ben = stage.person()
    roles = {"visit_roles": ["Member"]}
    policy = stage.policy(grant("get_visit", scope={"kind": "OwnVisits"}, principals=roles))
    ruled = stage.visit_in_progress({ben: "Member"}, policy_id=policy)
    assert ben.get(f"/visits/{ruled}").is_success
    assert denial(ben.post(f"/visits/{ruled}/presence/open", mode="Physical")) == (403, "OutOfReach")


# Taking control.


def test_of_two_visits_that_take_at_once_one_wins(
    stage: Stage, rivals: Rivals, elsewhere: LiveServer
) -> None:
    visits, people = (rivals.first, rivals.second), (rivals.ann, rivals.ben)
    there = stage.caller(rivals.ben.id, rivals.ben.subject, through=elsewhere)
    elsewhere.run(lambda app: app.authority.refresh())
    for _ in range(ROUNDS):
        answers = at_once(
            lambda: rivals.ann.post(f"/visits/{rivals.first}/surface-control/take"),
            lambda: there.post(f"/visits/{rivals.second}/surface-control/take"),
        )
        [winner] = [number for number, answer in enumerate(answers) if answer.is_success]
        lost = answers[1 - winner]
        assert refusal(lost) == (409, "VisitCannotTakeControlError") and denial(lost) == (409, "HeldByOther")
        assert holder(stage, rivals.surface) == visits[winner]
        done(people[winner].post(f"/visits/{visits[winner]}/surface-control/release"))


def test_a_request_is_worth_nothing_before_its_time(stage: Stage, asked: Rivals) -> None:
    later(stage, 29)
    assert denial(asked.act(asked.ben, "take")) == (409, "HeldByOther")


def test_a_lapsed_request_lets_take(stage: Stage, asked: Rivals) -> None:
    later(stage, 31)
    assert control(stage, asked.surface)["control_request"]["lapsed"] is True
    done(asked.act(asked.ben, "take"))
    last = done(stage.admin.get(f"/surfaces/{asked.surface}/events"))["items"][-1]
    assert (last["event_type"], last["payload"]["basis"]) == ("SurfaceControlTaken", "Lapsed")
    assert holder(stage, asked.surface) == asked.second


def test_a_lapsed_request_is_dropped_in_the_end(stage: Stage, asked: Rivals) -> None:
    later(stage, 331)
    assert denial(asked.act(asked.ben, "take")) == (409, "HeldByOther")


def test_a_refused_request_lapses_to_nothing(stage: Stage, asked: Rivals) -> None:
    later(stage, 10)
    done(asked.act(asked.ann, "refuse", reason="aligning the mirror"))
    later(stage, 21)
    assert denial(asked.act(asked.ben, "take")) == (409, "HeldByOther")


def test_control_that_is_given_is_held_at_once(stage: Stage, asked: Rivals) -> None:
    later(stage, 10)
    done(asked.act(asked.ann, "give"))
    assert holder(stage, asked.surface) == asked.second


# What control is good for.


def test_an_exclusive_surface_lets_only_its_holder_pass(stage: Stage) -> None:
    surface = stage.surface(
        exclusive=True, controlled_operations=["reschedule_visit"], audience="urn:test:exclusive"
    )
    ann, ben = stage.person(), stage.person()
    held = stage.attended(ann, surface_id=surface)
    other = stage.attended(ben, surface_id=surface)
    stage.policy(grant("reschedule_visit", "abort_visit"), to=ben)
    through_it = stage.caller(ben.id, ben.subject, "urn:test:exclusive")
    done(ann.post(f"/visits/{held}/surface-control/take"))

    period = {"planned_start_at": "2030-01-01T00:00:00Z", "planned_end_at": "2030-01-02T00:00:00Z"}
    refused = through_it.post(f"/visits/{other}/reschedule", **period, reason="later")
    assert denial(refused) == (403, "ControlNotHeld")
    assert refused.json()["context"]["holder"]["visit_id"] == held
    assert ben.post(f"/visits/{other}/reschedule", **period, reason="later").is_success
    assert through_it.post(f"/visits/{other}/abort", reason="leaving").is_success


def test_the_holder_passes_an_exclusive_surface_while_it_is_present(stage: Stage) -> None:
    surface = stage.surface(
        exclusive=True, controlled_operations=["reschedule_visit"], audience="urn:test:held"
    )
    ann = stage.person()
    visit = stage.attended(ann, surface_id=surface)
    stage.policy(grant("reschedule_visit"), to=ann)
    through_it = stage.caller(ann.id, ann.subject, "urn:test:held")
    period = {"planned_start_at": "2030-01-01T00:00:00Z", "planned_end_at": "2030-01-02T00:00:00Z"}
    done(ann.post(f"/visits/{visit}/surface-control/take"))
    assert through_it.post(f"/visits/{visit}/reschedule", **period, reason="later").is_success
    done(ann.post(f"/visits/{visit}/presence/close"))
    refused = through_it.post(f"/visits/{visit}/reschedule", **period, reason="later")
    assert denial(refused) == (403, "ControlNotHeld")


def test_a_visit_that_ends_lets_go_in_one_transaction(stage: Stage, rivals: Rivals) -> None:
    cora = stage.person()
    done(stage.admin.post(f"/visits/{rivals.first}/members/add", actor_id=cora.id, role="Member"))
    done(cora.post(f"/visits/{rivals.first}/presence/open", mode="Remote"))
    done(rivals.act(rivals.ann, "take"))
    done(stage.admin.post(f"/visits/{rivals.first}/complete"))

    ends = stage.rows(
        "SELECT count(DISTINCT transaction_id), array_agg(event_type::text ORDER BY position) FROM events "
        "WHERE event_type IN ('VisitCompleted', 'SurfaceControlReleased') AND stream_id = ANY ($1::uuid[])",
        [rivals.first, rivals.surface],
    )
    assert list(ends[0]) == [1, ["VisitCompleted", "SurfaceControlReleased"]]
    assert done(stage.admin.get("/presence", visit_id=rivals.first))["items"] == []
    assert rivals.act(rivals.ben, "take").is_success


def test_presence_expires_only_after_its_limit(stage: Stage) -> None:
    ann = stage.person()
    path = f"/visits/{stage.attended(ann)}/presence/expire"
    assert refusal(stage.admin.post(path, actor_id=ann.id)) == (409, "VisitCannotExpirePresenceError")
    later(stage, timedelta(days=1).total_seconds())
    again = stage.caller(stage.admin.id, stage.admin.subject)
    assert done(again.post(path, actor_id=ann.id))["events"] == ["VisitPresenceClosed"]
