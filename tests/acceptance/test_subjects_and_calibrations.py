"""Subjects and calibrations of a served installation: where a subject is, and which constant holds when."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest

from tests.acceptance.stage import Stage, at_once, done, refusal
from tests.acceptance.things import Things, number, schema
from tests.live import LiveServer


@pytest.fixture(scope="module")
def things(stage: Stage) -> Things:
    return Things(stage)


@pytest.fixture
def place(things: Things) -> str:
    """An asset in service that can hold a subject."""
    return things.active(things.unit())


def mount(stage: Stage, subject: str, asset: str, **fields: Any) -> httpx.Response:
    return stage.admin.post(f"/subjects/{subject}/mount", **{"asset_id": asset, "reason": "next"} | fields)


def mounted(things: Things, asset: str) -> str:
    subject = things.subject()
    done(mount(things.stage, subject, asset))
    return subject


def read(stage: Stage, subject: str) -> dict[str, Any]:
    return done(stage.admin.get(f"/subjects/{subject}"))


def measured(stage: Stage, subject: str) -> dict[str, Any]:
    """The subject, once the reaction to the end of its run has come."""
    deadline = time.monotonic() + 10
    while (shown := read(stage, subject))["status"] != "Measured":
        assert time.monotonic() < deadline, shown
        time.sleep(0.05)
    return shown


# Subjects


def test_a_place_holds_one_subject(stage: Stage, things: Things, place: str) -> None:
    there = mounted(things, place)
    answer = mount(stage, things.subject(), place)
    assert refusal(answer) == (409, "SubjectMountTargetOccupiedError") and there in answer.text


def test_a_holder_with_places_holds_one_at_each(stage: Stage, things: Things, place: str) -> None:
    first, second, third = (things.subject() for _ in range(3))
    done(mount(stage, first, place, position="1"))
    assert mount(stage, second, place, position="2").status_code == 200
    assert refusal(mount(stage, third, place, position="2"))[1] == "SubjectMountTargetOccupiedError"


def test_of_two_that_take_a_place_at_once_one_gets_it(stage: Stage, things: Things, place: str) -> None:
    rivals = [things.subject(), things.subject()]
    answers = at_once(*(lambda rival=rival: mount(stage, rival, place) for rival in rivals))
    assert sorted(answer.status_code for answer in answers) == [200, 409]


def test_a_subject_in_an_open_run_stays_where_it_is(stage: Stage, things: Things, place: str) -> None:
    subject = mounted(things, place)
    run = things.run(things.plan(place), subject_id=subject)
    refused = stage.admin.post(f"/subjects/{subject}/dismount", reason="done")
    assert refusal(refused) == (409, "SubjectInOpenRunError") and run in refused.text
    done(stage.admin.post(f"/runs/{run}/stop", reason="enough"))
    measured(stage, subject)
    done(stage.admin.post(f"/subjects/{subject}/dismount", reason="done"))
    shown = read(stage, subject)
    assert (shown["status"], shown["measured_count"]) == ("Received", 1)
    done(mount(stage, subject, place))
    again = read(stage, subject)
    assert (again["status"], again["mount_count"], again["measured_count"]) == ("Mounted", 2, 1)


def test_a_run_that_the_lists_cannot_see_yet_is_not_overlooked(
    stage: Stage, things: Things, place: str, server: LiveServer
) -> None:
    subject, plan = mounted(things, place), things.plan(place)
    with elsewhere_under_way(server.dsn):
        things.run(plan, subject_id=subject)
        refused = stage.admin.post(f"/subjects/{subject}/dismount", reason="done")
        assert refusal(refused) == (503, "ReadModelBehindError")
    refused = stage.admin.post(f"/subjects/{subject}/dismount", reason="done")
    assert refusal(refused) == (409, "SubjectInOpenRunError")


@contextmanager
def elsewhere_under_way(dsn: str) -> Iterator[None]:
    """A transaction of somebody else that has written something, and so holds the log's readers back."""
    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(dsn))
    loop.run_until_complete(connection.execute("BEGIN; SELECT pg_current_xact_id()"))
    try:
        yield
    finally:
        loop.run_until_complete(connection.execute("ROLLBACK"))
        loop.run_until_complete(connection.close())
        loop.close()


def test_an_aborted_run_measures_nothing(stage: Stage, things: Things, place: str) -> None:
    subject = mounted(things, place)
    plan = things.plan(place)
    aborted = things.run(plan, subject_id=subject)
    done(stage.admin.post(f"/runs/{aborted}/abort", reason="dark"))
    completed = things.run(plan, subject_id=subject)
    done(stage.admin.post(f"/runs/{completed}/complete"))
    assert measured(stage, subject)["measured_run_ids"] == [completed]


def test_removing_a_mounted_subject_frees_its_place_in_one_append(
    stage: Stage, things: Things, place: str
) -> None:
    subject = mounted(things, place)
    receipt = done(stage.admin.post(f"/subjects/{subject}/remove", reason="leaves"))
    [dismounted] = stage.rows(
        "SELECT payload->>'from_asset_id' FROM events WHERE stream_id = $1 AND event_type = $2",
        subject,
        "SubjectDismounted",
    )
    assert (receipt["events"], dismounted[0]) == (["SubjectDismounted", "SubjectRemoved"], place)
    assert mount(stage, things.subject(), place).status_code == 200


def test_a_received_subject_is_removed_before_it_is_returned(stage: Stage, things: Things) -> None:
    answer = stage.admin.post(f"/subjects/{things.subject()}/return")
    assert refusal(answer) == (409, "SubjectCannotReturnError")
    assert "Removed" in answer.text and "Stored" in answer.text


def test_a_faulted_asset_takes_no_subject(stage: Stage, things: Things, place: str) -> None:
    done(stage.admin.post(f"/assets/{place}/degrade", reason="it drifts"))
    subject = mounted(things, place)
    done(stage.admin.post(f"/subjects/{subject}/dismount", reason="away"))
    done(stage.admin.post(f"/assets/{place}/fault", reason="it smokes"))
    assert refusal(mount(stage, subject, place)) == (409, "SubjectMountTargetFaultedError")


def test_a_stored_subject_comes_back_for_another_visit(stage: Stage, things: Things) -> None:
    first, second = stage.visit(), stage.visit()
    subject = things.subject(visit_id=first)
    done(stage.admin.post(f"/subjects/{subject}/remove", reason="leaves"))
    done(stage.admin.post(f"/subjects/{subject}/store", location="Cabinet 3"))
    done(stage.admin.post(f"/subjects/{subject}/receive", visit_id=second, location="Bench"))
    shown = read(stage, subject)
    custody = done(stage.admin.get(f"/subjects/{subject}/custody"))["items"]
    assert (shown["status"], shown["visit_id"]) == ("Received", second)
    assert [each["location"] for each in custody if each["location"]] == ["Cabinet 3", "Bench"]


def test_a_subject_needs_no_identifier(stage: Stage, things: Things, place: str) -> None:
    """Nobody issues identifiers here, and every subject goes its whole way."""
    subject = mounted(things, place)
    moves: list[tuple[str, dict[str, Any]]] = [
        ("measure", {}),
        ("remove", {"reason": "leaves"}),
        ("discard", {"reason": "used up"}),
    ]
    for move, body in moves:
        done(stage.admin.post(f"/subjects/{subject}/{move}", **body))
    shown = read(stage, subject)
    assert (shown["status"], shown["measured_count"], shown["external_refs"]) == ("Discarded", 1, {})


# Calibrations


def defined(stage: Stage, target: str, point: dict[str, Any]) -> httpx.Response:
    body = {"target_id": target, "quantity": "rotation_center", "operating_point": point}
    return stage.admin.post("/calibrations", **body)


def test_an_operating_point_is_one_however_it_is_written(stage: Stage, place: str) -> None:
    first = done(defined(stage, place, {"energy": 25, "optics_config": "10x"}))
    answer = defined(stage, place, {"optics_config": "10x", "energy": 25.0})
    assert refusal(answer) == (409, "CalibrationIdentityAlreadyExistsError")
    assert first["calibration_id"] in answer.text
    other = done(defined(stage, place, {"optics_config": "5x", "energy": 25.0}))
    found = done(stage.admin.get("/calibrations", target_id=place, consistent_with=other["as_of"]))["items"]
    assert {each["id"] for each in found} == {first["calibration_id"], other["calibration_id"]}


MONDAY, TUESDAY, WEDNESDAY, THURSDAY = (f"2026-01-0{day}T12:00:00+00:00" for day in range(5, 9))


def current(stage: Stage, target: str, at: str, as_of: datetime | None = None) -> list[str]:
    asked = {"target_id": target, "quantity": "encoder_offset", "at": at}
    if as_of is not None:
        asked["as_of"] = as_of.isoformat()
    found = done(stage.admin.get("/calibrations/current", **asked))["items"]
    return [each["revision"]["revision_id"] for each in found]


def test_what_holds_depends_on_when_and_on_what_was_known(stage: Stage, things: Things, place: str) -> None:
    calibration, second_person = things.calibration(place), stage.administrator()
    revisions = [things.revision(calibration, valid_from=day) for day in (MONDAY, WEDNESDAY)]
    for revision in revisions:
        done(second_person.post(f"/calibrations/{calibration}/revisions/{revision}/verify"))
    assert current(stage, place, TUESDAY) == [revisions[0]]
    assert current(stage, place, THURSDAY) == [revisions[1]]
    before = stage.server.clock()
    path = f"/calibrations/{calibration}/revisions/{revisions[1]}/withdraw"
    done(stage.admin.post(path, reason="the encoder slipped"))
    assert current(stage, place, THURSDAY) == [revisions[0]]
    assert current(stage, place, THURSDAY, as_of=before) == [revisions[1]]


def test_verifying_is_a_second_persons_act(stage: Stage, things: Things) -> None:
    calibration = things.calibration()
    path = f"/calibrations/{calibration}/revisions/{things.revision(calibration)}/verify"
    own = stage.admin.post(path)
    assert refusal(own) == (409, "CalibrationRevisionVerifierNotIndependentError")
    assert done(stage.administrator().post(path))["events"] == ["CalibrationRevisionVerified"]


def test_a_withdrawn_revision_cannot_be_pinned_and_stays_in_old_pins(stage: Stage, things: Things) -> None:
    calibration, plan = things.calibration(), things.plan()
    revision = things.revision(calibration)
    run = things.run(plan, pinned_calibration_ids=[revision])
    done(stage.admin.post(f"/calibrations/{calibration}/revisions/{revision}/withdraw", reason="wrong"))
    late = stage.admin.post("/runs", name="Run", plan_id=plan, pinned_calibration_ids=[revision])
    [pinned] = done(stage.admin.get(f"/runs/{run}"))["pinned_calibrations"]
    assert refusal(late) == (409, "RunPinnedCalibrationWithdrawnError")
    assert (pinned["revision_id"], pinned["status"]) == (revision, "Withdrawn")


def test_a_point_without_its_position_is_refused_with_its_place(
    stage: Stage, things: Things, place: str
) -> None:
    calibration = things.calibration(place, quantity="energy_position_curve")
    points = [{"energy": 10, "position": 1.5}, {"energy": 20}]
    path = f"/calibrations/{calibration}/revisions/append"
    answer = stage.admin.post(path, value={"points": points}, source={"kind": "Asserted"})
    assert refusal(answer) == (400, "InvalidCalibrationValueError")
    assert "/points/1/position" in json.dumps(answer.json()["context"])


def test_the_unit_of_a_quantity_does_not_change(stage: Stage) -> None:
    point = schema(axis={"type": "string"})
    body = {"operating_point_schema": point, "value_schema": schema(offset=number("mm"))}
    code = f"offset_{uuid4().hex[:20]}"
    made = done(stage.admin.post("/calibration-quantities", code=code, title="Offset", **body))
    body["value_schema"] = schema(offset=number("um"))
    answer = stage.admin.post(f"/calibration-quantities/{made['quantity_id']}/version", **body)
    assert refusal(answer) == (409, "CalibrationQuantityUnitChangedError")
