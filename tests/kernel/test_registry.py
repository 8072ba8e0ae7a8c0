"""The registry's own consistency, and what every declaration in it must hold to."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, get_args, get_type_hints
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as given_any
from hypothesis import strategies as st

from beamwright.app import registry
from beamwright.kernel.aggregate import Aggregate, HistoryRequest, ListRequest
from beamwright.kernel.errors import DomainError, NotFoundError
from beamwright.kernel.event import Belonging, Event, event_type, payload
from beamwright.kernel.operation import Command, Operation, Query, snake
from beamwright.kernel.registry import Registry, RegistryError
from beamwright.kernel.value import Value, encode

OPERATIONS = list(registry().operations.values())
AGGREGATES = list(registry().aggregates.values())
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda op: op.name)
each_aggregate = pytest.mark.parametrize("aggregate", AGGREGATES, ids=lambda a: a.name)
each_event = pytest.mark.parametrize("event", list(registry().owner), ids=lambda e: e.__name__)


def leaves(base: type) -> set[type]:
    found = base.__subclasses__()
    return {base} if not found else set().union(*(leaves(sub) for sub in found))


@each_operation
def test_path_is_kebab_case_and_takes_get_or_post(operation: Operation) -> None:
    assert operation.method in (("GET", "POST") if operation.reads else ("POST",))
    for segment in operation.path.strip("/").split("/"):
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*|{[a-z_]+}", segment)


@each_operation
def test_summary_is_one_sentence(operation: Operation) -> None:
    assert re.fullmatch(r"[A-Z].*\.", operation.summary)


@each_operation
def test_collections_of_ids_and_booleans_are_named_as_agreed(operation: Operation) -> None:
    for field in operation.request.__struct_fields__:
        assert not re.match(r"(is|has|can)_", field)
        assert not re.search(r"_(mm|ms|kev|seconds|percent)$", field)


def test_every_command_and_query_is_registered() -> None:
    declared = {
        cls
        for cls in leaves(Command) | leaves(Query)
        if cls.__module__.startswith("beamwright.contexts") and cls.__doc__ and "Base of" not in cls.__doc__
    }
    assert declared <= {op.request for op in OPERATIONS} | {ListRequest, HistoryRequest}


def test_names_that_differ_from_their_class_are_the_specifications() -> None:
    renamed = {op.request.__name__: op.name for op in OPERATIONS if op.name != snake(op.request.__name__)}
    assert renamed == {
        "AddPolicyGrant": "add_grant",
        "RevokePolicyGrant": "revoke_grant",
        "AppendProcedureActivities": "append_activities",
        "AppendProcedureOutcomes": "append_outcomes",
        "StartProcedureIteration": "start_iteration",
        "EndProcedureIteration": "end_iteration",
    }


@each_aggregate
def test_every_aggregate_has_get_list_and_history(aggregate: Aggregate[Any, Any]) -> None:
    names = set(registry().operations)
    assert {f"get_{aggregate.snake}", f"list_{aggregate.plural}", f"get_{aggregate.snake}_history"} <= names


# What JSON can hold: schemas, settings and readings are of this.
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def dictionaries(hint: Any) -> st.SearchStrategy[dict[Any, Any]]:
    key, value = get_args(hint) or (str, Any)
    values = JSON if value is Any else st.from_type(value)
    return st.dictionaries(st.from_type(key), values, max_size=3)


def written_out(record: type[Value]) -> st.SearchStrategy[Any]:
    """A record with every field given: a default that a factory makes is nothing that could be stored."""
    hints = {name: hint for name, hint in get_type_hints(record).items() if name in record.__struct_fields__}
    return st.builds(record, **{name: st.from_type(hint) for name, hint in hints.items()})


def records(base: type[Value]) -> Iterator[type[Value]]:
    for each in base.__subclasses__():
        yield each
        yield from records(each)


for each in records(Value):
    if each.__module__.startswith("beamwright.") and each.__struct_fields__:
        st.register_type_strategy(each, written_out)
st.register_type_strategy(dict, dictionaries)
# Bounds that a field declares are kept by every number in here.
st.register_type_strategy(int, st.integers(1, 1000))
st.register_type_strategy(datetime, st.datetimes(timezones=st.just(UTC)))


@each_event
def test_event_survives_storage(event: type[Event]) -> None:
    aggregate = registry().owner[event]

    @settings(max_examples=10, suppress_health_check=list(HealthCheck), deadline=None, database=None)
    @given_any(written_out(event))
    def round_trip(fact: Event) -> None:
        kind = event_type(type(fact))
        stored = payload(fact)
        assert b"event_type" not in stored[:14]
        tagged = b'{"event_type":"' + kind.name.encode() + b'",' + stored[1:]
        assert aggregate.decoder.decode(tagged) == fact

    round_trip()


@each_event
def test_event_is_named_for_its_aggregate_and_carries_no_personal_field(event: type[Event]) -> None:
    owner = registry().owner[event]
    # The lease marker of a debrief is named in the specification.
    assert event.__name__.startswith(owner.name) or event.__name__ == "DecisionDebriefRequested"
    personal = {"email", "phone", "affiliation", "subject", "contact"}
    assert personal.isdisjoint(event.__struct_fields__)
    if owner.name == "Actor":
        assert "name" not in event.__struct_fields__


def errors() -> list[type[DomainError]]:
    found: list[type[DomainError]] = []
    waiting: list[type[DomainError]] = [DomainError]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if cls.__module__.startswith("beamwright."):
            found.append(cls)
    return found


def test_error_codes_are_unique_and_say_their_condition() -> None:
    codes = [cls.__name__ for cls in errors()]
    assert len(codes) == len(set(codes))
    for cls in errors():
        assert cls.__doc__ and cls.title().endswith("."), cls
        assert cls.__name__.endswith("Error")


class ThingNotFoundError(NotFoundError):
    """There is no such thing."""


class ThingMade(Event):
    thing_id: UUID
    size: int


class ThingMade2(Event, tag="ThingMade#2"):
    thing_id: UUID
    width: int
    height: int


class ThingStray(Event):
    nothing: int


class Thing(Value):
    id: UUID
    width: int
    height: int


def thing(state: Thing | None, event: ThingMade2) -> Thing:
    return Thing(id=event.thing_id, width=event.width, height=event.height)


type ThingEvent = ThingMade2
type StrayEvent = ThingStray


def things(**more: Any) -> Aggregate[Thing, Any]:
    return Aggregate(
        "Thing",
        missing=ThingNotFoundError,
        belongs=lambda t: Belonging.nowhere,
        **{"events": ThingEvent, "evolve": thing} | more,
    )


def test_old_events_fold_through_their_upcaster() -> None:
    def upcast(old: ThingMade) -> ThingMade2:
        return ThingMade2(occurred_at=old.occurred_at, thing_id=old.thing_id, width=old.size, height=old.size)

    aggregate = things(upcasters={ThingMade: upcast})
    id, when = UUID(int=5), '"occurred_at":"2026-01-01T00:00:00Z"'
    stored = f"""[{{"event_type":"ThingMade",{when},"thing_id":"{id}","size":3}},
        {{"event_type":"ThingMade#2",{when},"thing_id":"{id}","width":4,"height":5}}]"""
    events = aggregate.stream_decoder.decode(stored)
    assert aggregate.fold(events[:1]) == Thing(id=id, width=3, height=3)
    assert aggregate.fold(events) == Thing(id=id, width=4, height=5)
    assert (event_type(ThingMade2).name, event_type(ThingMade2).schema_version) == ("ThingMade", 2)


def test_an_event_without_its_aggregates_id_is_refused() -> None:
    with pytest.raises(RegistryError, match="thing_id"):
        Registry([things(events=StrayEvent)])


def test_an_aggregate_declared_twice_is_refused() -> None:
    with pytest.raises(RegistryError, match="twice"):
        Registry([things(), things()])


def test_an_integer_without_bounds_is_refused() -> None:
    aggregate = things()

    @aggregate.operation("GET /things")
    class ListThings(Query[int]):
        """List things."""

        size: int

        async def answer(self, world: Any) -> int:
            return self.size

    ListThings.__module__ = "beamwright.contexts.test"
    with pytest.raises(RegistryError, match="bounds"):
        Registry([aggregate])


def test_an_operation_without_rule_docstring_or_path_field_is_refused() -> None:
    aggregate = things()
    with pytest.raises(TypeError):

        @aggregate.operation("POST /things/{thing_id}/do")
        class DoThing(Command[None]):
            """Do it."""


def test_canonical_json_sorts_sets_and_keys() -> None:
    class Mixed(Value):
        ids: frozenset[str]
        by_id: dict[UUID, int]

    value = Mixed(ids=frozenset("cab"), by_id={UUID(int=2): 2, UUID(int=1): 1})
    assert msgspec.json.decode(encode(value), type=Mixed) == value
    assert encode(value).index(str(UUID(int=1)).encode()) < encode(value).index(str(UUID(int=2)).encode())


def test_an_id_that_two_aggregates_share_means_the_operations_own() -> None:
    operations = registry().operations
    assert operations["get_seal"].target == "Seal"
    assert operations["get_facility"].target == "Facility"
    assert operations["add_facility_trust_anchor"].target == "Facility"
