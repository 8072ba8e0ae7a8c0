"""Enclosures and supplies: what is observed, what is declared, and by whom, as the catalogue's examples tell it."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.stage import Person, Stage, denial, done, grant, refusal
from tests.acceptance.things import Things

SOURCE = {"source_kind": "push", "source_id": "interlock/a"}


@pytest.fixture(scope="module")
def things(stage: Stage) -> Things:
    return Things(stage)


@pytest.fixture(scope="module")
def monitor(stage: Stage) -> Iterator[Person]:
    """An outside monitor that pushes."""
    account = stage.person("service_account")
    stage.policy(grant("observe_enclosure_status", "observe_supply_status", "get_enclosure"), to=account)
    yield account


def observe(by: Person, enclosure: str, status: str, at: datetime | None, **fields: Any) -> httpx.Response:
    given = {"observed_status": status, "monitor_ref": SOURCE, "reason": "as reported"} | fields
    return by.post(f"/enclosures/{enclosure}/observe", **given, observed_at=at and at.isoformat())


def test_a_name_is_taken_while_its_enclosure_is_active(stage: Stage, things: Things) -> None:
    name = f"Station {uuid4().hex}"
    first = things.enclosure(name=name)
    read = done(stage.admin.get(f"/enclosures/{first}"))
    again = {"name": f" {name.upper()} ", "facility_code": "home"}
    assert (read["lifecycle"], read["permit_status"], read["contact"]["fresh"]) == (
        "Active",
        "Unknown",
        False,
    )
    assert refusal(stage.admin.post("/enclosures", **again)) == (409, "EnclosureAlreadyExistsError")
    done(stage.admin.post(f"/enclosures/{first}/decommission", reason="Torn down"))
    assert stage.admin.post("/enclosures", **again).status_code == 201


def test_nobody_but_a_monitor_reports_a_permit(stage: Stage, things: Things, monitor: Person) -> None:
    enclosure, now = things.enclosure(), stage.server.clock()
    by_hand = observe(stage.admin, enclosure, "Permitted", now)
    assert by_hand.status_code == 403 and denial(by_hand)[1] == "DeniedByPolicy"
    receipt = done(observe(monitor, enclosure, "Permitted", now))
    [event] = done(stage.admin.get(f"/enclosures/{enclosure}/events", after_version=1))["items"]
    assert receipt["events"] == ["EnclosurePermitObserved"]
    assert (event["payload"]["from_status"], event["payload"]["to_status"], event["payload"]["trigger"]) == (
        "Unknown",
        "Permitted",
        "Monitor",
    )
    assert done(stage.admin.get(f"/enclosures/{enclosure}"))["contact"]["fresh"]


def test_source_times_do_not_run_backwards(stage: Stage, things: Things, monitor: Person) -> None:
    enclosure, now = things.enclosure(), stage.server.clock() - timedelta(minutes=10)
    done(observe(monitor, enclosure, "Permitted", now))
    contact = done(stage.admin.get(f"/enclosures/{enclosure}"))["contact"]
    assert done(observe(monitor, enclosure, "Permitted", now + timedelta(minutes=5)))["events"] == []
    renewed = done(stage.admin.get(f"/enclosures/{enclosure}"))["contact"]
    assert renewed["last_contact_at"] > contact["last_contact_at"]
    late = observe(monitor, enclosure, "NotPermitted", now + timedelta(minutes=3))
    assert refusal(late) == (409, "EnclosureObservationOutdatedError")
    newer = done(observe(monitor, enclosure, "NotPermitted", now + timedelta(minutes=6)))
    assert newer["events"] == ["EnclosurePermitObserved"]


def test_a_new_source_begins_with_unknown(stage: Stage, things: Things, monitor: Person) -> None:
    enclosure, now = things.enclosure(), stage.server.clock()
    done(observe(monitor, enclosure, "Permitted", now))
    other = SOURCE | {"source_id": "interlock/b"}
    assign = f"/enclosures/{enclosure}/assign-permit-source"
    done(stage.admin.post(assign, permit_source=other, reason="Rewired"))
    read = done(stage.admin.get(f"/enclosures/{enclosure}"))
    old = observe(monitor, enclosure, "Permitted", now + timedelta(seconds=1))
    assert (read["permit_status"], read["contact"]["last_contact_at"]) == ("Unknown", None)
    assert refusal(old) == (409, "EnclosureSourceMismatchError")


def test_a_supply_has_one_address(stage: Stage, things: Things) -> None:
    name = f"Storage ring {uuid4().hex}"
    supply = things.supply(kind="photon_beam", name=name)
    again = {"kind": "photon_beam", "name": name.lower(), "facility_code": "home"}
    assert done(stage.admin.get(f"/supplies/{supply}"))["status"] == "Unknown"
    assert refusal(stage.admin.post("/supplies", **again)) == (409, "SupplyAlreadyExistsError")


def test_a_monitor_takes_away_and_announces_but_never_gives(
    stage: Stage, things: Things, monitor: Person
) -> None:
    supply, now = things.supply(), stage.server.clock()
    done(stage.admin.post(f"/supplies/{supply}/mark-available", reason="Pumped"))

    def report(by: Person, status: str) -> httpx.Response:
        body = {"observed_status": status, "monitor_ref": SOURCE, "reason": "as reported"}
        return by.post(f"/supplies/{supply}/observe", **body, observed_at=now.isoformat())

    assert done(report(monitor, "Unavailable"))["events"] == ["SupplyMarkedUnavailable"]
    assert done(report(monitor, "Unavailable"))["events"] == []
    assert refusal(report(monitor, "Available")) == (409, "SupplyMonitorTargetNotPermittedError")
    assert report(stage.admin, "Unavailable").status_code == 403
    read = done(stage.admin.get(f"/supplies/{supply}"))
    assert (read["status"], read["last_trigger"]) == ("Unavailable", "Monitor")


def test_kinds_in_use_stand_beside_the_starter_vocabulary(stage: Stage, things: Things) -> None:
    kind = f"kind {uuid4().hex}"[:50]
    supply = things.supply(kind=kind)
    token = done(stage.admin.post(f"/supplies/{supply}/mark-available", reason="There"))["as_of"]
    done(stage.admin.get("/supplies", consistent_with=token))
    items = {item["kind"]: item for item in done(stage.admin.get("/supplies/kinds"))["items"]}
    assert items["photon_beam"]["starter"] and items[kind] == {
        "kind": kind,
        "starter": False,
        "count": 1,
        "available": 1,
    }
