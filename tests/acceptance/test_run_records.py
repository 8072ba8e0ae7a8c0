"""What is recorded beside a run in a served installation: samples, each kept once, and a logbook that can forget."""

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.stage import Person, Stage, done, grant, refusal
from tests.acceptance.things import Things

MILLISECOND = timedelta(milliseconds=1)


@pytest.fixture(scope="module")
def things(stage: Stage) -> Things:
    return Things(stage)


@pytest.fixture
def run_id(things: Things) -> str:
    return things.run()


def shown(stage: Stage, run_id: str) -> dict[str, Any]:
    return done(stage.admin.get(f"/runs/{run_id}"))


# Observations


def sample(sampled_at: datetime, value: float = 0) -> dict[str, Any]:
    return {
        "event_id": str(uuid4()),
        "channel_name": "temperature",
        "value": value,
        "sampling_procedure": "Monitor",
        "sampled_at": sampled_at.isoformat(),
    }


def deliver(stage: Stage, run_id: str, *entries: dict[str, Any]) -> httpx.Response:
    return stage.admin.post(f"/runs/{run_id}/observations/append", entries=entries)


def test_what_is_sent_twice_is_kept_once(stage: Stage, run_id: str) -> None:
    now = stage.server.clock()
    entries = [sample(now + number * MILLISECOND, number) for number in range(5000)]
    first, again = (done(deliver(stage, run_id, *entries)) for _ in range(2))
    assert first == {"received": 5000, "inserted": 5000, "duplicates": 0}
    assert again == {"received": 5000, "inserted": 0, "duplicates": 5000}
    assert shown(stage, run_id)["observation_count"] == 5000
    assert stage.event_types(run_id) == ["RunStarted"]


def test_a_sample_of_before_the_end_that_comes_after_it_is_late(stage: Stage, run_id: str) -> None:
    early, late = sample(stage.server.clock(), 1), sample(stage.server.clock(), 2)
    done(deliver(stage, run_id, early))
    done(stage.admin.post(f"/runs/{run_id}/complete"))
    done(deliver(stage, run_id, late))
    found = done(stage.admin.get(f"/runs/{run_id}/observations"))["items"]
    assert {each["event_id"]: each["late"] for each in found} == {
        early["event_id"]: False,
        late["event_id"]: True,
    }


def test_nothing_is_sampled_after_the_end(stage: Stage, run_id: str) -> None:
    before = sample(stage.server.clock())
    done(stage.admin.post(f"/runs/{run_id}/complete"))
    ended_at = datetime.fromisoformat(shown(stage, run_id)["ended_at"])
    refused = deliver(stage, run_id, before, sample(ended_at + MILLISECOND))
    assert refusal(refused) == (409, "RunObservationsClosedError")
    assert shown(stage, run_id)["observation_count"] == 0


# The logbook


def write(by: Person, run_id: str, text: str, **fields: Any) -> str:
    """The id of a new entry, which is the latest."""
    done(by.post(f"/runs/{run_id}/logbook/append", text=text, **fields))
    return done(by.get(f"/runs/{run_id}/logbook", sort="-written_at"))["items"][0]["entry_id"]


def logbook(stage: Stage, run_id: str, **query: Any) -> list[dict[str, Any]]:
    return done(stage.admin.get(f"/runs/{run_id}/logbook", **query))["items"]


def export(stage: Stage, run_id: str) -> str:
    answer = stage.admin.client.get(f"/runs/{run_id}/logbook/export")
    assert answer.status_code == 200
    return answer.text


def test_a_run_is_written_about_after_its_end(stage: Stage, things: Things, run_id: str) -> None:
    subject = things.subject()
    done(stage.admin.post(f"/runs/{run_id}/abort", reason="smoke"))
    write(stage.admin, run_id, "A fuse.", tags=["cause"], references=[{"kind": "Subject", "id": subject}])
    [entry] = logbook(stage, run_id, tag="cause")
    assert (entry["text"], entry["author_id"]) == ("A fuse.", stage.admin.id)
    assert entry["references"] == [{"kind": "Subject", "id": subject}]
    assert shown(stage, run_id)["logbook_entry_count"] == 1


def test_a_correction_leaves_what_it_corrects(stage: Stage, run_id: str) -> None:
    wrong = write(stage.admin, run_id, "25 keV")
    right = write(stage.admin, run_id, "20 keV", corrects_entry_id=wrong)
    assert [(each["entry_id"], each["corrects_entry_id"]) for each in logbook(stage, run_id)] == [
        (wrong, None),
        (right, wrong),
    ]
    path = f"/runs/{run_id}/logbook/append"
    elsewhere = stage.admin.post(path, text="?", corrects_entry_id=str(uuid4()))
    assert refusal(elsewhere) == (409, "RunLogbookEntryUnknownError")


def test_a_debrief_stands_beside_its_decision(stage: Stage, things: Things, run_id: str) -> None:
    path = f"/runs/{run_id}/logbook/append"
    alone = stage.admin.post(path, text="It went well.", kind="Debrief")
    assert refusal(alone) == (409, "RunLogbookDebriefRequiresDecisionError")
    unknown = stage.admin.post(path, text="It went well.", kind="Debrief", decision_id=str(uuid4()))
    assert refusal(unknown) == (404, "DecisionNotFoundError")
    decision = things.decision()
    write(stage.admin, run_id, "It went well.", kind="Debrief", decision_id=decision)
    assert [each["decision_id"] for each in logbook(stage, run_id, kind="Debrief")] == [decision]


def redact(stage: Stage, run_id: str, entry_id: str) -> httpx.Response:
    return stage.admin.post(f"/runs/{run_id}/logbook/redact", entry_id=entry_id, reason="names a person")


def test_no_read_shows_redacted_words(stage: Stage, run_id: str) -> None:
    words = f"Ada Quill {uuid4().hex} spilt the acid."
    entry = write(stage.admin, run_id, words)
    written = stage.server.clock().isoformat()
    assert words in export(stage, run_id)
    done(redact(stage, run_id, entry))
    assert [each["text"] for each in logbook(stage, run_id)] == ["<redacted>"]
    assert words not in export(stage, run_id) and "<redacted>" in export(stage, run_id)
    for path, query in (("", {"as_of_version": 2}), ("", {"as_of": written}), ("", {}), ("/events", {})):
        assert words not in str(done(stage.admin.get(f"/runs/{run_id}{path}", **query)))
    assert stage.rows("SELECT 1 FROM erasable_texts WHERE body = $1", words) == []


def test_redaction_leaves_the_history_whole(stage: Stage, run_id: str) -> None:
    entry, other = (write(stage.admin, run_id, text) for text in ("Ada Quill spilt the acid.", "Wiped up."))
    done(redact(stage, run_id, entry))
    assert [(each["entry_id"], each["redacted"]) for each in logbook(stage, run_id)] == [
        (entry, True),
        (other, False),
    ]
    appended = ["RunLogbookEntryAppended"] * 2
    assert stage.event_types(run_id) == ["RunStarted", *appended, "RunLogbookEntryRedacted"]
    assert refusal(redact(stage, run_id, entry)) == (409, "RunLogbookCannotRedactError")


def test_the_author_of_an_entry_can_be_forgotten(stage: Stage, run_id: str) -> None:
    name = f"Ada Quill {uuid4().hex}"
    author = stage.person(name=name)
    stage.policy(grant("append_run_logbook_entry", "list_run_logbook"), to=author)
    write(author, run_id, "The rock is cracked.")
    assert [each["author_name"] for each in logbook(stage, run_id)] == [name]
    done(stage.admin.post(f"/actors/{author.id}/forget"))
    [entry] = logbook(stage, run_id)
    assert (entry["author_id"], entry["text"]) == (author.id, "The rock is cracked.")
    assert name not in str(entry) and name not in export(stage, run_id)
