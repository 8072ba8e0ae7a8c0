"""A plan: what differs between a file and the service, and the commands that bring the service in line."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, cast

import msgspec

from beamwright.contexts.equipment.family import Family
from beamwright.kernel.text import folded
from beamwright.kernel.value import encode

from .calls import View
from .checking import FacilitySource
from .document import Fault, Place, line_of, near
from .live import Live, settings_family

MOST_SHOWN = 100


class Made(NamedTuple):
    """The id of what an earlier step makes."""

    step: int


type Ref = str | Made


class Phase(IntEnum):
    """Steps of a phase begin once those before it are done.

    Assets come into service after all are registered: whoever registers below an asset relies on its stream.
    """

    FACILITY = 0
    CATALOGUE = 1
    ASSETS = 2
    CHANGES = 3
    SERVICE = 4


class Subject(NamedTuple):
    """What a line of the report is about."""

    kind: str
    path: str
    line: int


class Step(NamedTuple):
    """One command. `standing` says what the object looked like, and so tells this intention from a later one."""

    number: int
    phase: Phase
    operation: str
    fields: Mapping[str, Any]
    standing: str
    subject: Subject
    after: tuple[int, ...]


class Change(NamedTuple):
    """An object that is created (`+`), changed (`~`) or cannot be brought in line (`!`), and how."""

    sign: str
    subject: Subject
    details: tuple[str, ...] = ()


class Wish(NamedTuple):
    """A command on an object that exists, and what it changes in a person's words."""

    operation: str
    fields: Mapping[str, Any]
    details: tuple[str, ...]


class Plan(NamedTuple):
    """Everything that would be done, and everything that would be left as it is."""

    steps: Sequence[Step]
    changes: Sequence[Change]
    same: Mapping[str, int]
    # Assets in use that the file does not name.
    others: int

    @property
    def conflicts(self) -> list[Change]:
        return [change for change in self.changes if change.sign == "!"]

    def count(self, sign: str) -> int:
        return sum(change.sign == sign for change in self.changes)


class Draft:
    """A plan in the making, with what its parts must know of each other."""

    def __init__(self, source: FacilitySource, live: Live, reason: str) -> None:
        self.source = source
        self.live = live
        self.reason = reason
        self.faults: list[Fault] = []
        self.steps: list[Step] = []
        self.changes: list[Change] = []
        self.same = Counter[str]()
        self.others = 0
        # By folded name or key: what the file itself defines, whether it exists or not.
        self.families: dict[str, Ref] = {}
        self.models: dict[str, Ref] = {}
        self.enclosures: dict[str, Ref] = {}
        self._family_objects: dict[Ref, Family] = {}

    def subject(self, kind: str, path: str, place: Place) -> Subject:
        return Subject(kind, path, line_of(self.source.root, place))

    def fault(self, place: Place, message: str) -> None:
        self.faults.append(self.source.fault(place, message))

    def step(
        self,
        phase: Phase,
        operation: str,
        fields: Mapping[str, Any],
        standing: str,
        subject: Subject,
        after: Iterable[int] = (),
    ) -> Made:
        number = len(self.steps)
        needed = {ref.step for ref in _made(fields)} | set(after)
        self.steps.append(Step(number, phase, operation, fields, standing, subject, tuple(sorted(needed))))
        return Made(number)

    def create(
        self, phase: Phase, operation: str, fields: Mapping[str, Any], subject: Subject, before: int = 0
    ) -> Made:
        """Something new; `before` counts those of the same identity that are gone."""
        self.changes.append(Change("+", subject))
        return self.step(phase, operation, fields, f"after {before}", subject)

    def change(self, phase: Phase, view: View, subject: Subject, wishes: Iterable[Wish]) -> Made | None:
        """What exists, brought in line by one command after the other; the last one, if there is any."""
        last: Made | None = None
        details: list[str] = []
        for wish in wishes:
            after = () if last is None else (last.step,)
            standing = f"version {view['version']}"
            last = self.step(phase, wish.operation, wish.fields, standing, subject, after)
            details += wish.details
        if last is None:
            self.same[subject.kind] += 1
        else:
            self.changes.append(Change("~", subject, tuple(details)))
        return last

    def conflict(self, subject: Subject, *sentences: str) -> None:
        self.changes.append(Change("!", subject, sentences))

    def family(self, name: str, place: Place, among: Iterable[str] = ()) -> Ref | None:
        """The family that a name means; an unknown one is a fault of the file."""
        found = self.families.get(folded(name))
        if found is None and (view := self.live.family_named(name, among)) is not None:
            found = cast(str, view["id"])
        if found is None:
            known = self.live.family_names_known()
            hint = near(name, known) or " Define it under `families:`."
            self.fault(place, f"There is no family “{name}”.{hint}")
        return found

    def family_object(self, ref: Ref) -> Family:
        """What the rules of settings look at."""
        if ref not in self._family_objects:
            assert isinstance(ref, str)
            self._family_objects[ref] = settings_family(self.live.families[ref])
        return self._family_objects[ref]

    def remember_family(self, ref: Ref, family: Family) -> None:
        self._family_objects[ref] = family

    def plan(self) -> Plan:
        return Plan(self.steps, self.changes, self.same, self.others)


def _made(value: Any) -> Iterator[Made]:
    match value:
        case Made():
            yield value
        case dict():
            for each in cast(dict[str, Any], value).values():
                yield from _made(each)
        case list():
            for each in cast(list[Any], value):
                yield from _made(each)
        case _:
            return


def resolved(value: Any, ids: Mapping[int, str]) -> Any:
    """`value` with the ids of what was made."""
    match value:
        case Made():
            return ids[value.step]
        case dict():
            return {key: resolved(each, ids) for key, each in cast(dict[str, Any], value).items()}
        case list():
            return [resolved(each, ids) for each in cast(list[Any], value)]
        case _:
            return value


def builtin(value: Any) -> Any:
    """A value of the file in the form in which the service answers it."""
    return msgspec.to_builtins(value, str_keys=True)


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; 5 and 5.0 are one number, true and 1 are not."""
    if isinstance(one, dict) and isinstance(other, dict):
        left, right = cast(dict[str, Any], one), cast(dict[str, Any], other)
        return left.keys() == right.keys() and all(alike(left[key], right[key]) for key in left)
    if isinstance(one, list) and isinstance(other, list):
        here, there = cast(list[Any], one), cast(list[Any], other)
        return len(here) == len(there) and all(map(alike, here, there))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def shown(value: Any) -> str:
    """A value in a line of the report."""
    if value is None:
        return "none"
    text = value if isinstance(value, str) else encode(value).decode()
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def was_now(what: str, was: Any, now: Any) -> str:
    return f"{what}: {shown(was)} -> {shown(now)}"
