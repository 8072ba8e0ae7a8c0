"""The logbook of a run: narrative with an author on every entry, whose words can be erased."""

import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.decision.decision import decisions
from beamwright.kernel import text
from beamwright.kernel.aggregate import Cursor, Limit
from beamwright.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from beamwright.kernel.download import Download
from beamwright.kernel.erasable import REDACTED, ErasedText, WrittenText, erasable
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.operation import Command, Occasion, Query, World
from beamwright.kernel.value import Time, Value

from .logbook_entry import LogbookEntry, LogbookEntryKind, LogbookFormat, LogbookReference
from .run import Run, RunLogbookEntryAppended, RunLogbookEntryRedacted, runs
from .run_moves import RunCommand

MOST_TAGS = 16
MOST_REFERENCES = 32
MARKDOWN = "text/markdown"
ENTRIES_AT_ONCE = 200

type LogbookTag = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 50})]
type NumberedEntry = tuple[UUID, LogbookEntry]


class InvalidRunLogbookTextError(InvalidError):
    """The text of the entry is blank or too long."""


class InvalidRunLogbookTagError(InvalidError):
    """A tag is blank or too long, or there are too many."""


class InvalidRunLogbookReferencesError(InvalidError):
    """An entry refers to too many objects."""


class InvalidRunLogbookReasonError(InvalidError):
    """The reason of the redaction is blank or too long."""


class RunLogbookDebriefRequiresDecisionError(ConflictError):
    """A debrief stands beside the decision that it explains."""


class RunLogbookEntryUnknownError(ConflictError):
    """The entry that is to be corrected is not in this logbook."""


class RunLogbookCannotRedactError(ConflictError):
    """The entry is not in this logbook, or is redacted already."""


class NewLogbookEntry(Value):
    """What a receipt tells of an entry."""

    entry_id: UUID


@runs.operation("POST /runs/{run_id}/logbook/append")
class AppendRunLogbookEntry(Command[Run]):
    """Write an entry into a run's logbook, also after the run's end."""

    run_id: UUID
    text: text.Note
    kind: LogbookEntryKind = LogbookEntryKind.NOTE
    format: LogbookFormat = LogbookFormat.PLAIN
    tags: frozenset[LogbookTag] = frozenset()
    references: tuple[LogbookReference, ...] = ()
    corrects_entry_id: UUID | None = None
    decision_id: UUID | None = None

    async def gather(self, world: World) -> Run:
        run = await world.load(runs, self.run_id)
        if self.decision_id is not None:
            await world.load(decisions, self.decision_id)
        check_references(self.references)
        for reference in self.references:
            await world.belonging(reference.kind, reference.id)
        return run

    def decide(self, run: Run, occasion: Occasion) -> tuple[RunLogbookEntryAppended, WrittenText]:
        words = text.trimmed(self.text, 5000, InvalidRunLogbookTextError, "text", prose=True)
        tags = checked_tags(self.tags)
        check_references(self.references)
        self._check_decided(run)
        self._check_corrected(run)
        kept, written = erasable(occasion.fresh_id(0), words)
        appended = RunLogbookEntryAppended(
            run_id=run.id,
            occurred_at=occasion.now,
            entry_id=occasion.new_id,
            author_id=occasion.principal_id,
            kind=self.kind,
            text=kept,
            format=self.format,
            tags=tags,
            references=self.references,
            corrects_entry_id=self.corrects_entry_id,
            decision_id=self.decision_id,
        )
        return appended, written

    def told(self, run: Run) -> NewLogbookEntry:
        return NewLogbookEntry(entry_id=next(reversed(run.logbook)))

    def _check_decided(self, run: Run) -> None:
        if self.kind is LogbookEntryKind.DEBRIEF and self.decision_id is None:
            raise RunLogbookDebriefRequiresDecisionError(
                "Name the decision_id of the debrief, or write a Note.", run_id=str(run.id)
            )

    def _check_corrected(self, run: Run) -> None:
        if self.corrects_entry_id is not None and self.corrects_entry_id not in run.logbook:
            raise RunLogbookEntryUnknownError(
                "Correct an entry of this run's own logbook.",
                run_id=str(run.id),
                entry_id=str(self.corrects_entry_id),
            )


@runs.operation("POST /runs/{run_id}/logbook/redact")
class RedactRunLogbookEntry(RunCommand):
    """Erase the words of an entry for good; that there was one, of whom and when, stays."""

    entry_id: UUID
    reason: text.Reason

    def decide(self, run: Run, occasion: Occasion) -> tuple[RunLogbookEntryRedacted, ErasedText]:
        reason = text.reason(self.reason, InvalidRunLogbookReasonError)
        entry = run.logbook.get(self.entry_id)
        if entry is None or entry.redacted:
            raise RunLogbookCannotRedactError(
                "There is no such entry here, or its words are gone already.",
                run_id=str(run.id),
                entry_id=str(self.entry_id),
            )
        redacted = RunLogbookEntryRedacted(
            run_id=run.id,
            occurred_at=occasion.now,
            entry_id=self.entry_id,
            reason=reason,
            redacted_by=occasion.principal_id,
        )
        return redacted, ErasedText(text_id=entry.text.text_id)


def checked_tags(tags: Collection[str]) -> frozenset[str]:
    if len(tags) > MOST_TAGS:
        raise InvalidRunLogbookTagError(
            f"An entry has at most {MOST_TAGS} tags, not {len(tags)}.", most=MOST_TAGS
        )
    return frozenset(text.trimmed(tag, 50, InvalidRunLogbookTagError, "tag") for tag in tags)


def check_references(references: Sequence[LogbookReference]) -> None:
    if len(references) > MOST_REFERENCES:
        raise InvalidRunLogbookReferencesError(
            f"An entry refers to at most {MOST_REFERENCES} objects, not {len(references)}.",
            most=MOST_REFERENCES,
        )


class LogbookEntryView(Value):
    """An entry with its words and its author's name, as far as they are still known."""

    entry_id: UUID
    author_id: UUID
    author_name: str
    kind: LogbookEntryKind
    text: text.Note
    format: LogbookFormat
    tags: frozenset[str]
    references: tuple[LogbookReference, ...]
    corrects_entry_id: UUID | None
    decision_id: UUID | None
    written_at: Time
    redacted: bool


class RunLogbookPage(Value):
    """One page of a logbook."""

    items: list[LogbookEntryView]
    next_cursor: str | None


@runs.operation("GET /runs/{run_id}/logbook")
class ListRunLogbook(Query[RunLogbookPage]):
    """List the entries of a run's logbook with their words and authors."""

    run_id: UUID
    kind: LogbookEntryKind | None = None
    author_id: UUID | None = None
    tag: LogbookTag | None = None
    sort: Literal["written_at", "-written_at"] = "written_at"
    limit: Limit = 50
    cursor: Cursor | None = None

    async def answer(self, world: World) -> RunLogbookPage:
        run = await world.load(runs, self.run_id)
        found = [each for each in in_order(run) if self._wanted(each[1])]
        if self.sort.startswith("-"):
            found.reverse()
        found = found[self._beginning(found) :]
        shown = found[: self.limit]
        more = len(found) > self.limit
        return RunLogbookPage(
            items=await viewed(world, shown),
            next_cursor=encode_cursor([str(shown[-1][0])]) if more else None,
        )

    def _wanted(self, entry: LogbookEntry) -> bool:
        return (
            self.kind in (None, entry.kind)
            and self.author_id in (None, entry.author_id)
            and (self.tag is None or self.tag in entry.tags)
        )

    def _beginning(self, entries: Sequence[NumberedEntry]) -> int:
        """The place after the entry that the cursor names: entries stay, so it is found again."""
        if self.cursor is None:
            return 0
        [last] = decode_cursor(self.cursor, 1)
        for place, (entry_id, _) in enumerate(entries, 1):
            if str(entry_id) == last:
                return place
        raise InvalidCursorError("Use the next_cursor of a page of the same list, unchanged, or none.")


@runs.operation("GET /runs/{run_id}/logbook/export", media_types=(MARKDOWN,))
class GetRunLogbookExport(Query[Download]):
    """Export a run's whole logbook as Markdown, oldest entry first."""

    run_id: UUID

    async def answer(self, world: World) -> Download:
        run = await world.load(runs, self.run_id)
        return Download(
            media_type=MARKDOWN, filename=f"{run.id}-logbook.md", content=exported(world, run, world.now)
        )


def in_order(run: Run) -> list[NumberedEntry]:
    """The entries, oldest first."""
    return sorted(run.logbook.items(), key=lambda each: (each[1].written_at, each[0]))


async def viewed(world: World, entries: Sequence[NumberedEntry]) -> list[LogbookEntryView]:
    names = await world.profiles.names({entry.author_id for _, entry in entries})
    words = await world.texts([entry.text.text_id for _, entry in entries])
    return [view(entry_id, entry, names, words) for entry_id, entry in entries]


def view(
    entry_id: UUID, entry: LogbookEntry, names: Mapping[UUID, str], words: Mapping[UUID, str]
) -> LogbookEntryView:
    return LogbookEntryView(
        entry_id=entry_id,
        author_id=entry.author_id,
        author_name=names[entry.author_id],
        kind=entry.kind,
        text=words.get(entry.text.text_id, REDACTED),
        format=entry.format,
        tags=entry.tags,
        references=entry.references,
        corrects_entry_id=entry.corrects_entry_id,
        decision_id=entry.decision_id,
        written_at=entry.written_at,
        redacted=entry.redacted,
    )


async def exported(world: World, run: Run, now: datetime) -> AsyncIterator[bytes]:
    entries = in_order(run)
    yield f"# Logbook of {run.name}\n\nRun {run.id}, {run.status}; exported {now.isoformat()}.\n".encode()
    for place in range(0, len(entries), ENTRIES_AT_ONCE):
        some = await viewed(world, entries[place : place + ENTRIES_AT_ONCE])
        yield "".join(map(as_markdown, some)).encode()


def as_markdown(entry: LogbookEntryView) -> str:
    facts = [f"{entry.kind} {entry.entry_id}"]
    if entry.tags:
        facts.append(f"tags {', '.join(sorted(entry.tags))}")
    if entry.references:
        facts.append("about " + ", ".join(f"{each.kind} {each.id}" for each in entry.references))
    if entry.corrects_entry_id is not None:
        facts.append(f"corrects {entry.corrects_entry_id}")
    if entry.decision_id is not None:
        facts.append(f"decision {entry.decision_id}")
    written = entry.format is LogbookFormat.MARKDOWN and not entry.redacted
    words = entry.text if written else fenced(entry.text)
    heading = f"## {entry.written_at.isoformat()}, {entry.author_name}"
    return f"\n{heading}\n\n{'; '.join(facts)}\n\n{words}\n"


def fenced(words: str) -> str:
    """Plain text that Markdown shows as it is."""
    longest = max((len(ticks) for ticks in re.findall("`+", words)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{words}\n{fence}"
