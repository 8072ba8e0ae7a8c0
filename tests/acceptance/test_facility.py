"""Facilities: their codes, their tree and their end, as the federation catalogue tells it."""

from uuid import uuid4

import httpx
import pytest

from tests.acceptance.stage import Person, Stage, at_once, done, refusal
from tests.live import LiveServer

FACILITIES = "/federation/facilities"
LEVELS = 8
AT_ONCE = 20


def register(person: Person, **fields: object) -> httpx.Response:
    given = {"code": uuid4().hex, "display_name": "A place", "kind": "Site"} | fields
    return person.post(FACILITIES, **given)


def site(stage: Stage) -> str:
    return done(register(stage.admin))["facility_id"]


def area(stage: Stage, parent_id: str) -> str:
    return done(register(stage.admin, kind="Area", parent_id=parent_id))["facility_id"]


def decommission(stage: Stage, facility_id: str) -> httpx.Response:
    return stage.admin.post(f"{FACILITIES}/{facility_id}/decommission", reason="closed for good")


def test_one_of_twenty_concurrent_calls_gets_the_code(stage: Stage, elsewhere: LiveServer) -> None:
    code = uuid4().hex
    there = stage.caller(stage.admin.id, stage.admin.subject, through=elsewhere)
    callers = [stage.admin, there] * (AT_ONCE // 2)
    answers = at_once(*[lambda by=by: register(by, code=code) for by in callers])
    [won] = [answer.json()["facility_id"] for answer in answers if answer.is_success]
    lost = [refusal(answer) for answer in answers if not answer.is_success]
    assert lost == [(409, "FacilityCodeTakenError")] * (AT_ONCE - 1)
    found = done(stage.admin.get(FACILITIES, code=code, consistent_with=head(stage, won)))["items"]
    assert [item["id"] for item in found] == [won]


def head(stage: Stage, facility_id: str) -> str:
    return done(stage.admin.get(f"{FACILITIES}/{facility_id}/events"))["as_of"]


def test_a_code_is_never_free_again(stage: Stage) -> None:
    code = uuid4().hex
    made = done(register(stage.admin, code=code))["facility_id"]
    done(decommission(stage, made))
    assert refusal(register(stage.admin, code=code)) == (409, "FacilityCodeTakenError")


def test_the_tree_has_eight_levels(stage: Stage) -> None:
    lineage = [site(stage)]
    while len(lineage) < LEVELS:
        lineage.append(area(stage, lineage[-1]))
    refused = register(stage.admin, kind="Area", parent_id=lineage[-1])
    assert refusal(refused) == (409, "FacilityTreeTooDeepError")
    deepest = done(stage.admin.get(f"{FACILITIES}/{lineage[-1]}"))
    assert deepest["ancestor_ids"] == lineage[-2::-1]


def test_a_process_shows_the_parent_of_an_area_that_it_has_not_heard_of(
    stage: Stage, elsewhere: LiveServer
) -> None:
    there = stage.caller(stage.admin.id, stage.admin.subject, through=elsewhere)
    parent = site(stage)
    child = area(stage, parent)
    assert done(there.get(f"{FACILITIES}/{child}"))["ancestor_ids"] == [parent]


def test_the_own_site_stays(stage: Stage) -> None:
    [own] = done(stage.admin.get(FACILITIES, code="home"))["items"]
    assert refusal(decommission(stage, own["id"])) == (409, "FacilityIsOwnSiteError")


def test_a_facility_outlives_its_areas(stage: Stage) -> None:
    parent = site(stage)
    child = area(stage, parent)
    refused = decommission(stage, parent)
    assert refusal(refused) == (409, "FacilityHasActiveChildrenError")
    assert refused.json()["context"]["facility_ids"] == [child]
    done(decommission(stage, child))
    assert done(decommission(stage, parent))["events"] == ["FacilityDecommissioned"]


@pytest.mark.parametrize("_", range(5))
def test_no_area_begins_while_its_parent_ends(stage: Stage, elsewhere: LiveServer, _: int) -> None:
    parent = site(stage)
    there = stage.caller(stage.admin.id, stage.admin.subject, through=elsewhere)
    ended, begun = at_once(
        lambda: decommission(stage, parent), lambda: register(there, kind="Area", parent_id=parent)
    )
    assert [ended.is_success, begun.is_success] in ([True, False], [False, True])
    codes = {"FacilityParentNotActiveError", "FacilityHasActiveChildrenError"}
    assert {answer.json()["code"] for answer in (ended, begun) if not answer.is_success} <= codes


def test_facilities_end_side_by_side(stage: Stage) -> None:
    paths = [f"{FACILITIES}/{site(stage)}/decommission" for _ in range(10)]
    answers = stage.crowd(*((path, {"reason": "closed for good"}) for path in paths))
    assert {answer.status_code for answer in answers} == {200}
