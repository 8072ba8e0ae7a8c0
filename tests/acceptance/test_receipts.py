"""Receipts of commands that add something within an object: they name what was added."""

from typing import Any
from uuid import uuid4

import pytest

from tests.acceptance.stage import Stage, done
from tests.acceptance.things import Things


@pytest.fixture(scope="module")
def things(stage: Stage) -> Things:
    return Things(stage)


def test_a_new_revision_is_named(stage: Stage, things: Things) -> None:
    calibration = things.calibration()
    made = [things.revision(calibration) for _ in range(2)]
    view = done(stage.admin.get(f"/calibrations/{calibration}"))
    assert [each["revision_id"] for each in view["revisions"]] == made


def test_a_new_entry_is_named_and_a_repeated_call_names_the_same(stage: Stage, things: Things) -> None:
    run = things.run()
    path, key = f"/runs/{run}/logbook/append", {"idempotency-key": uuid4().hex}
    first: dict[str, Any] = done(stage.admin.client.post(path, json={"text": "one"}, headers=key))
    again = done(stage.admin.client.post(path, json={"text": "one"}, headers=key))
    other = done(stage.admin.post(path, text="two"))
    entries = done(stage.admin.get(f"/runs/{run}/logbook"))["items"]
    assert [each["entry_id"] for each in entries] == [first["entry_id"], other["entry_id"]]
    assert again == first and first["events"] == ["RunLogbookEntryAppended"]
