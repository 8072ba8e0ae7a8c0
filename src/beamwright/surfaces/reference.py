"""The reference in docs/reference: Markdown and OpenAPI, read off the registry, the errors and the settings."""

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Annotated, Any, TypeAliasType, cast, get_args, get_type_hints

import msgspec

import beamwright.contexts
from beamwright.kernel.aggregate import Aggregate, HistoryRequest, ListRequest
from beamwright.kernel.errors import DomainError
from beamwright.kernel.event import Event, event_type
from beamwright.kernel.machine import StateMachine
from beamwright.kernel.operation import Operation
from beamwright.kernel.registry import Registry, discover
from beamwright.kernel.value import encode
from beamwright.settings import Settings

from .openapi import openapi
from .type_text import Types, cell, code, default_text, own_sentence, table

NOTICE = "<!-- Written by `make reference` from the source. Do not edit. -->"
LAYERS = ("kernel", "contexts", "runtime", "surfaces")

type Machine = tuple[Aggregate[Any, Any], str, StateMachine[Any]]


def write(directory: Path) -> None:
    """Write every file of the reference into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in rendered().items():
        (directory / name).write_text(text)


def rendered() -> dict[str, str]:
    """The text of each file, by its name."""
    registry = discover(beamwright.contexts)
    pages = {
        "operations.md": operations_page(registry),
        "events.md": events_page(registry),
        "errors.md": errors_page(),
        "state-machines.md": machines_page(registry),
        "settings.md": settings_page(),
    }
    description = msgspec.json.format(encode(openapi(registry)), indent=2).decode() + "\n"
    return {name: f"{NOTICE}\n\n{text.rstrip()}\n" for name, text in pages.items()} | {
        "openapi.json": description
    }


def operations_page(registry: Registry) -> str:
    types = Types()
    operations = sorted(registry.operations.values(), key=lambda op: op.name)
    parts = [
        "# Operations",
        "Every operation is a REST route, an MCP tool of the same name and a `beamwright call`. On REST the fields"
        " of a command that are not in its path are the JSON body; those of a read are the query string."
        " `Idempotency-Key` and `If-Match` are accepted on every command.",
    ]
    for context in registry.contexts:
        parts.append(f"## The {context} context")
        members = [each for each in operations if each.context == context]
        for aggregate in sorted({each.aggregate for each in members}):
            parts.append(f"### {context}: {aggregate}")
            parts += [_operation(each, registry, types) for each in members if each.aggregate == aggregate]
    return "\n\n".join([*parts, "## Types", *types.sections()])


def _operation(operation: Operation, registry: Registry, types: Types) -> str:
    parts = [f"#### {operation.name}", code(f"{operation.method} {operation.path}"), operation.summary]
    if operation.permission != operation.name:
        parts.append(f"Needs the grant of [{operation.permission}](#{operation.permission}).")
    fields = types.fields(operation.request)
    if fields:
        rows = [
            [code(name), _place(name, operation), *fields[name]]
            for name in sorted(fields, key=lambda name: _rank(name, operation))
        ]
        parts.append(table(["Field", "In", "Type", "Default"], rows))
    if not operation.reads:
        parts.append(f"Can record {appended(operation, registry)}.")
    if operation.bodies:
        others = ", ".join(f"{code(type)} (it is `{name}`)" for type, name in operation.bodies.items())
        parts.append(f"The body can also be {others}; the other fields are then the query string.")
    if operation.media_types:
        files = ", ".join(map(code, operation.media_types))
        parts.append(f"Answers 200 with a file: {files}; as a tool with {types.of(operation.response)}.")
        return "\n\n".join(parts)
    sooner = ", or 200 if it ended within `wait`," if operation.tracks else ""
    parts.append(f"Answers {operation.success}{sooner} with {types.of(operation.response)}.")
    return "\n\n".join(parts)


def _place(name: str, operation: Operation) -> str:
    if name in operation.path_fields:
        return "path"
    return "query" if operation.in_address else "body"


def _rank(name: str, operation: Operation) -> int:
    """What the path names comes first, what every list has last."""
    if name in operation.path_fields:
        return 0
    return 2 if name in (*ListRequest.__struct_fields__, *HistoryRequest.__struct_fields__) else 1


def appended(operation: Operation, registry: Registry) -> str:
    """The events that the rule declares to return, or whose they are when it declares none."""
    rule: Any = operation.request
    declared = get_type_hints(rule.decide)["return"]
    classes = [each for each in _members(declared, rule.decide.__code__.co_names) if each in registry.owner]
    if not classes:
        return f"[events of {operation.aggregate}](events.md#{operation.aggregate.lower()})"
    names = sorted({event_type(each).name for each in classes})
    return ", ".join(f"[{name}](events.md#{name.lower()})" for name in names)


def _members(hint: Any, used: Sequence[str]) -> Iterator[Any]:
    """The classes of an annotation; of an alias only those that the rule itself names, if it names some."""
    if isinstance(hint, TypeAliasType):
        members = list(_members(hint.__value__, used))
        yield from [each for each in members if each.__name__ in used] or members
    elif arguments := get_args(hint):
        for argument in arguments:
            yield from _members(argument, used)
    elif isinstance(hint, type):
        yield hint


def events_page(registry: Registry) -> str:
    types = Types()
    parts = [
        "# Events",
        "What the log holds. Each event also has its envelope: position, ids, stream and version, principal,"
        " operation, surface, correlation and times. Fields are only ever added, with a default; a breaking"
        " change is a new schema version with an upcaster.",
    ]
    for context, aggregates in by_context(registry):
        parts.append(f"## The {context} context")
        for aggregate in aggregates:
            parts.append(f"### {aggregate.name}")
            parts += [_event(each, types) for each in aggregate.event_classes]
    return "\n\n".join([*parts, "## Types", *types.sections()])


def _event(event: type[Event], types: Types) -> str:
    kind, meaning = event_type(event), own_sentence(event)
    rows = [[code(name), *rest] for name, rest in types.fields(event).items()]
    said = [meaning] if meaning else []
    fields = table(["Field", "Type", "Default"], rows)
    return "\n\n".join([f"#### {kind.name}", *said, f"Schema version {kind.schema_version}.", fields])


def by_context(registry: Registry) -> Iterator[tuple[str, list[Aggregate[Any, Any]]]]:
    """The aggregates of each context; an aggregate belongs where it is declared."""
    found: dict[str, list[Aggregate[Any, Any]]] = {}
    for _, aggregate in sorted(registry.aggregates.items()):
        found.setdefault(aggregate.evolve.__module__.split(".")[2], []).append(aggregate)
    yield from sorted(found.items())


def errors_page() -> str:
    errors = sorted(all_errors(), key=lambda each: each.__name__)
    families = [each for each in errors if each.__subclasses__()]
    exact = [each for each in errors if each not in families]
    parts = [
        "# Errors",
        "A refusal is a problem document (RFC 9457). Its `code` is one of these names, its `detail` says what to"
        " do, its `context` holds the ids and values that decided.",
        "## Families",
        "Every error belongs to a family, which gives the status. A family's own name is the code where nothing"
        " more exact is known.",
        table(["Code", "Status", "Condition"], [_error(each) for each in families]),
        "## everywhere",
        _errors(each for each in exact if _context(each) is None),
    ]
    for context in sorted({name for each in exact if (name := _context(each))}):
        parts += [f"## {context}", _errors(each for each in exact if _context(each) == context)]
    return "\n\n".join(parts)


def all_errors() -> set[type[DomainError]]:
    """Every refusal that some module declares."""
    for layer in LAYERS:
        package = import_module(f"beamwright.{layer}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    return {each for each in _descendants(DomainError) if each.__module__.startswith("beamwright.")}


def _descendants(base: type[DomainError]) -> Iterator[type[DomainError]]:
    for each in base.__subclasses__():
        yield each
        yield from _descendants(each)


def _context(error: type[DomainError]) -> str | None:
    _, layer, context, *_ = error.__module__.split(".")
    return context if layer == "contexts" else None


def _errors(errors: Iterable[type[DomainError]]) -> str:
    return table(["Code", "Status", "Condition", "Family"], [[*_error(e), _family(e)] for e in errors])


def _family(error: type[DomainError]) -> str:
    return "" if error.__base__ in (DomainError, None) else code(error.__base__.__name__)


def _error(error: type[DomainError]) -> list[str]:
    again = f" Retry after {error.retry_after} s." if error.retry_after is not None else ""
    return [code(error.__name__), str(error.status), cell(error.title()) + again]


def machines_page(registry: Registry) -> str:
    parts = [
        "# State machines",
        "Each axis of status, as the rules check it and the fold follows it. A move that is not drawn is refused"
        " with the error named below its diagram.",
    ]
    for aggregate, axis, machine in machines(registry):
        rows = [
            [code(event.__name__), ", ".join(sorted(each.start)), str(each.end), code(each.error.__name__)]
            for event, each in sorted(machine.moves.items(), key=lambda item: item[0].__name__)
        ]
        parts += [
            f"## {aggregate.name}: {axis}",
            "\n".join(["```mermaid", *diagram(aggregate, machine), "```"]),
            table(["Event", "From", "To", "Refused with"], rows),
        ]
    return "\n\n".join(parts)


def machines(registry: Registry) -> list[Machine]:
    """Every state machine, under the name that it has beside its events."""
    found: dict[tuple[str, str], Machine] = {}
    for event, aggregate in registry.owner.items():
        for name, value in vars(import_module(event.__module__)).items():
            if isinstance(value, StateMachine) and event in (machine := cast(StateMachine[Any], value)).moves:
                axis = name.lower().replace("_", " ")
                found[aggregate.name, axis] = (aggregate, axis, machine)
    return [found[key] for key in sorted(found)]


def diagram(aggregate: Aggregate[Any, Any], machine: StateMachine[Any]) -> list[str]:
    moves = [
        (str(start), str(move.end), event.__name__)
        for event, move in machine.moves.items()
        for start in move.start
    ]
    ends = {end for _, end, _ in moves} - {start for start, _, _ in moves}
    statuses: set[type[Any]] = {type(move.end) for move in machine.moves.values()}
    first = [
        str(field.default)
        for field in msgspec.structs.fields(aggregate.state)
        if type(field.default) in statuses
    ]
    return [
        "stateDiagram-v2",
        *(f"    [*] --> {each}" for each in first),
        *(f"    {start} --> {end}: {event}" for start, end, event in sorted(moves)),
        *(f"    {each} --> [*]" for each in sorted(ends)),
    ]


def settings_page() -> str:
    types, hints = Types(), get_type_hints(Settings, include_extras=True)
    rows = [
        [code(each.name.upper()), *_setting(hints[each.name], types), default_text(each)]
        for each in msgspec.structs.fields(Settings)
    ]
    return "\n\n".join(
        [
            "# Settings",
            "All settings are environment variables. `serve` takes `--data`, `--host`, `--port`, `--processes`"
            " and `--separate-worker` as options too; an option goes before the environment.",
            table(["Variable", "Meaning", "Type", "Default"], rows),
            "## Types",
            *types.sections(),
        ]
    )


def _setting(hint: Any, types: Types) -> tuple[str, str]:
    """What a setting means, and its type without its None: what is not set is None."""
    plain, *notes = get_args(hint)
    meta = next(each for each in notes if isinstance(each, msgspec.Meta))
    bounds = cast(Any, msgspec.Meta)(ge=meta.ge, le=meta.le, pattern=meta.pattern)
    optional = [each for each in get_args(plain) if each is not type(None)]
    kind = optional[0] if type(None) in get_args(plain) else plain
    return cell(meta.description or ""), "path" if kind is Path else types.of(Annotated[kind, bounds])
