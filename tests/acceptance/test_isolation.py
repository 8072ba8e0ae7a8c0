"""Isolation: what lists, feeds, the past and references show to whoever has no business with an object.

What each single call answers to each kind of caller is the table of tests/faults/test_matrix.py.
"""

from collections.abc import Iterator
from uuid import UUID

import pytest

from tests.acceptance.scene import LISTS, OPERATIONS, SOMEBODYS, Belongs, Scene, belongs
from tests.acceptance.stage import Stage, denial, done, refusal


@pytest.fixture(scope="module")
def scene(stage: Stage) -> Scene:
    return Scene(stage)


# Reads.


@pytest.mark.parametrize("name", LISTS)
def test_lists_leave_out_what_belongs_to_others(scene: Scene, name: str) -> None:
    read = OPERATIONS[name]
    page = done(scene.outsider.get(read.path, limit=200, consistent_with=scene.head))
    seen = {item["id"] for item in page["items"]}
    if belongs(read) is Belongs.TO_ALL:
        assert scene.objects[read.aggregate] in seen
    else:
        assert seen <= {scene.outsider.id} and page["next_cursor"] is None


def test_lists_show_a_facilitys_own_to_who_reaches_it(scene: Scene) -> None:
    page = done(scene.foreigner.get("/visits", consistent_with=scene.head))
    assert scene.visit_there in [item["id"] for item in page["items"]]
    assert {item["facility_code"] for item in page["items"]} == {scene.other_site}


def test_presence_elsewhere_is_not_listed(scene: Scene) -> None:
    here = [entry["visit_id"] for entry in done(scene.stage.admin.get("/presence"))["items"]]
    assert here == [scene.visit]
    assert done(scene.outsider.get("/presence"))["items"] == []
    assert done(scene.foreigner.get("/presence"))["items"] == []


@pytest.mark.parametrize("name", SOMEBODYS)
def test_the_feed_is_silent_about_what_belongs_to_others(scene: Scene, name: str) -> None:
    page = done(scene.outsider.get("/events", stream_type=name, limit=200))
    assert {item["streamid"] for item in page["items"]} <= {scene.outsider.id}


@pytest.mark.parametrize("parameter", ["as_of_version", "as_of"])
def test_the_past_is_as_far_as_the_present(scene: Scene, parameter: str) -> None:
    value = "1" if parameter == "as_of_version" else scene.stage.server.clock().isoformat()
    answer = scene.outsider.get(f"/visits/{scene.visit}", **{parameter: value})
    assert refusal(answer) == (404, "VisitNotFoundError")


def test_what_is_out_of_reach_looks_like_what_does_not_exist(scene: Scene) -> None:
    hidden = scene.outsider.get(f"/visits/{scene.visit}").json()
    absent_id = str(UUID(int=UUID(scene.visit).int + 1))
    absent = scene.outsider.get(f"/visits/{absent_id}").json()
    assert hidden["detail"].replace(scene.visit, "") == absent["detail"].replace(absent_id, "")
    assert set(hidden) == set(absent) and set(hidden["context"]) == set(absent["context"])


# Commands.


@pytest.fixture
def unchanged(scene: Scene) -> Iterator[None]:
    """Nothing is appended while the test runs."""
    before = scene.stage.event_count()
    yield
    assert scene.stage.event_count() == before


def test_nothing_is_made_where_nothing_is_reached(scene: Scene, unchanged: None) -> None:
    here = scene.new_visit(facility_code="home")
    assert denial(scene.foreigner.post("/visits", **here)) == (403, "OutOfReach")


def test_what_is_reached_can_be_made(scene: Scene) -> None:
    there = scene.new_visit(facility_code=scene.other_site)
    assert scene.foreigner.post("/visits", **there).status_code == 201


def test_a_member_out_of_reach_is_not_found(scene: Scene, unchanged: None) -> None:
    path = f"/visits/{scene.visit_there}/members/add"
    answer = scene.foreigner.post(path, actor_id=scene.owner.id, role="Member")
    assert refusal(answer) == (404, "ActorNotFoundError")


@pytest.mark.parametrize(
    ("field", "code"), [("members", "ActorNotFoundError"), ("parent_id", "VisitNotFoundError")]
)
def test_a_reference_out_of_reach_is_not_found(scene: Scene, unchanged: None, field: str, code: str) -> None:
    value = {scene.owner.id: "Member"} if field == "members" else scene.visit
    body = scene.new_visit(facility_code=scene.other_site, **{field: value})
    assert refusal(scene.foreigner.post("/visits", **body)) == (404, code)
