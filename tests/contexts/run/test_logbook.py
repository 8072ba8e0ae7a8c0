"""The logbook of a run: what is kept of an entry, and what is erased."""

from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.run.logbook import (
    AppendRunLogbookEntry,
    InvalidRunLogbookReasonError,
    InvalidRunLogbookReferencesError,
    InvalidRunLogbookTagError,
    InvalidRunLogbookTextError,
    LogbookEntryView,
    RedactRunLogbookEntry,
    RunLogbookCannotRedactError,
    RunLogbookDebriefRequiresDecisionError,
    RunLogbookEntryUnknownError,
    as_markdown,
)
from beamwright.contexts.run.logbook_entry import LogbookEntryKind, LogbookFormat, LogbookReference
from beamwright.contexts.run.run import RunCompleted, RunLogbookEntryAppended, RunLogbookEntryRedacted, runs
from beamwright.kernel.erasable import ErasableText, ErasedText, WrittenText
from beamwright.kernel.value import replace
from tests.contexts.run.examples import DECISION, RUN, STARTED
from tests.rules import NEW_ID, NOW, OCCASION, PRINCIPAL, given, outcome

ENTRY, TEXT = UUID(int=601), UUID(int=602)
SUBJECT = LogbookReference(kind="Subject", id=UUID(int=603))
ENDED = RunCompleted(run_id=RUN, occurred_at=NOW, ended_by=PRINCIPAL)
APPENDED = RunLogbookEntryAppended(
    run_id=RUN,
    occurred_at=NOW,
    entry_id=ENTRY,
    author_id=PRINCIPAL,
    kind=LogbookEntryKind.NOTE,
    text=ErasableText(text_id=TEXT, sha256="0" * 64, length=5),
)
REDACTED = RunLogbookEntryRedacted(
    run_id=RUN, occurred_at=NOW, entry_id=ENTRY, reason="names a person", redacted_by=PRINCIPAL
)


def append(**fields: Any) -> AppendRunLogbookEntry:
    return AppendRunLogbookEntry(**{"run_id": RUN, "text": "Beam is back."} | fields)


@pytest.mark.parametrize("history", [[STARTED], [STARTED, ENDED]], ids=["running", "ended"])
def test_an_event_keeps_the_fingerprint_and_the_words_go_beside_it(history: list[Any]) -> None:
    words = "Beam is back."
    assert outcome(append(text=f" {words} ", tags=frozenset({" beam "})), given(runs, *history)) == [
        RunLogbookEntryAppended(
            run_id=RUN,
            occurred_at=NOW,
            entry_id=NEW_ID,
            author_id=PRINCIPAL,
            kind=LogbookEntryKind.NOTE,
            text=ErasableText(
                text_id=OCCASION.fresh_id(0), sha256=sha256(words.encode()).hexdigest(), length=len(words)
            ),
            tags=frozenset({"beam"}),
        ),
        WrittenText(text_id=OCCASION.fresh_id(0), body=words),
    ]


def test_the_receipt_names_the_new_entry_also_after_a_redaction() -> None:
    later = replace(APPENDED, entry_id=UUID(int=604))
    assert append().told(given(runs, STARTED, APPENDED, later)).entry_id == later.entry_id
    assert append().told(given(runs, STARTED, APPENDED, later, REDACTED)).entry_id == later.entry_id


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"text": " "}, InvalidRunLogbookTextError),
        ({"text": "x" * 5001}, InvalidRunLogbookTextError),
        ({"tags": frozenset({" "})}, InvalidRunLogbookTagError),
        ({"tags": frozenset({"x" * 51})}, InvalidRunLogbookTagError),
        ({"tags": frozenset(map(str, range(17)))}, InvalidRunLogbookTagError),
        ({"references": (SUBJECT,) * 33}, InvalidRunLogbookReferencesError),
        ({"kind": LogbookEntryKind.DEBRIEF}, RunLogbookDebriefRequiresDecisionError),
        ({"corrects_entry_id": UUID(int=9)}, RunLogbookEntryUnknownError),
        ({"text": "", "tags": frozenset({" "})}, InvalidRunLogbookTextError),
        (
            {"kind": LogbookEntryKind.DEBRIEF, "corrects_entry_id": UUID(int=9)},
            RunLogbookDebriefRequiresDecisionError,
        ),
    ],
)
def test_an_entry_is_refused_in_order(fields: dict[str, Any], refusal: type) -> None:
    assert outcome(append(**fields), given(runs, STARTED, APPENDED)) == refusal


def test_a_debrief_stands_beside_its_decision() -> None:
    debrief = append(kind=LogbookEntryKind.DEBRIEF, decision_id=DECISION, references=(SUBJECT,))
    [event, _] = outcome(debrief, given(runs, STARTED, ENDED))
    assert (event.kind, event.decision_id, event.references) == (
        LogbookEntryKind.DEBRIEF,
        DECISION,
        (SUBJECT,),
    )


def test_a_later_entry_corrects_an_earlier_one_and_both_stay() -> None:
    run = given(runs, STARTED, APPENDED)
    [event, _] = outcome(append(corrects_entry_id=ENTRY), run)
    assert set(given(runs, STARTED, APPENDED, event).logbook) == {ENTRY, NEW_ID}


REDACT = RedactRunLogbookEntry(run_id=RUN, entry_id=ENTRY, reason="names a person")


def test_redacting_erases_the_words() -> None:
    run = given(runs, STARTED, APPENDED)
    assert outcome(REDACT, run) == [REDACTED, ErasedText(text_id=TEXT)]
    assert given(runs, STARTED, APPENDED, REDACTED).logbook[ENTRY].redacted


@pytest.mark.parametrize(
    ("command", "history", "refusal"),
    [
        (replace(REDACT, reason=" "), [STARTED], InvalidRunLogbookReasonError),
        (REDACT, [STARTED], RunLogbookCannotRedactError),
        (REDACT, [STARTED, APPENDED, REDACTED], RunLogbookCannotRedactError),
    ],
)
def test_only_words_that_are_there_are_redacted(
    command: RedactRunLogbookEntry, history: list[Any], refusal: type
) -> None:
    assert outcome(command, given(runs, *history)) == refusal


VIEW = LogbookEntryView(
    entry_id=ENTRY,
    author_id=PRINCIPAL,
    author_name="Ada",
    kind=LogbookEntryKind.NOTE,
    text="# not a heading",
    format=LogbookFormat.PLAIN,
    tags=frozenset({"beam", "alignment"}),
    references=(SUBJECT,),
    corrects_entry_id=None,
    decision_id=None,
    written_at=NOW,
    redacted=False,
)


def test_plain_words_are_shown_as_they_are() -> None:
    assert as_markdown(VIEW) == (
        "\n## 2026-01-01T00:00:00+00:00, Ada\n\n"
        f"Note {ENTRY}; tags alignment, beam; about Subject {SUBJECT.id}\n\n"
        "```text\n# not a heading\n```\n"
    )


def test_words_cannot_end_their_own_fence() -> None:
    assert "\n````text\na ``` b\n````\n" in as_markdown(replace(VIEW, text="a ``` b"))


def test_markdown_is_exported_as_markdown() -> None:
    assert as_markdown(replace(VIEW, format=LogbookFormat.MARKDOWN)).endswith("\n\n# not a heading\n")
