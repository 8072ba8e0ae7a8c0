"""The registry: every aggregate, event and operation, checked for consistency when it is built."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any, cast

import msgspec

from .aggregate import Aggregate
from .event import Event, event_type
from .operation import Command, Operation, Query
from .secret_store import Secrets, secrets_of
from .value import replace


class RegistryError(TypeError):
    """A declaration contradicts another; the service does not start."""


class Registry:
    """Built once, at start, from the list of aggregates."""

    def __init__(self, aggregates: Sequence[Aggregate[Any, Any]]) -> None:
        self.aggregates: Mapping[str, Aggregate[Any, Any]] = _unique((a.name, a) for a in aggregates)
        self.operations: Mapping[str, Operation] = _unique(
            (op.name, replace(op, target=_target(op, a, aggregates)))
            for a in aggregates
            for op in a.operations
        )
        self.by_request: Mapping[type[Command[Any]] | type[Query[Any]], Operation] = _unique(
            (op.request, op) for op in self.operations.values()
        )
        self.owner: Mapping[type[Event], Aggregate[Any, Any]] = _unique(
            (event, a) for a in aggregates for event in a.event_classes
        )
        # What is secret in the payload of each type of event, whatever its version.
        self.secrets: Mapping[str, Secrets] = _secrets_by_event(aggregates)
        self.contexts = sorted({op.context for op in self.operations.values()})
        self._check()

    def _check(self) -> None:
        _unique((f"{op.method} {op.path}", op) for op in self.operations.values())
        _unique((str(event.__struct_config__.tag), event) for event in self.owner)
        for event, aggregate in self.owner.items():
            if aggregate.id_field not in event.__struct_fields__:
                raise RegistryError(f"{event.__name__} does not carry {aggregate.id_field}")
        for operation in self.operations.values():
            if operation.permission not in self.operations:
                raise RegistryError(f"{operation.name} needs unknown permission {operation.permission}")
            for field in msgspec.structs.fields(operation.request):
                if field.type is int:
                    raise RegistryError(f"{operation.name}.{field.name} is an integer without bounds")


def discover(package: ModuleType) -> Registry:
    """Every aggregate and operation below `package`: a new module needs no second place to be named in."""
    found: dict[int, Aggregate[Any, Any]] = {}
    for module in sorted(info.name for info in walk_packages(package.__path__, f"{package.__name__}.")):
        for value in vars(import_module(module)).values():
            if isinstance(value, Aggregate):
                aggregate = cast(Aggregate[Any, Any], value)
                found[id(aggregate)] = aggregate
    return Registry(sorted(found.values(), key=lambda aggregate: aggregate.name))


def _target(
    operation: Operation, own: Aggregate[Any, Any], aggregates: Sequence[Aggregate[Any, Any]]
) -> str | None:
    """What the path names: a seal has the id of its facility, but only in its own operations is it meant by it."""
    if not operation.path_fields:
        return None
    named = [each for each in aggregates if each.id_field == operation.path_fields[0]]
    named.sort(key=lambda each: (each is not own, each.id_field != f"{each.snake}_id"))
    return named[0].name if named else None


def _secrets_by_event(aggregates: Sequence[Aggregate[Any, Any]]) -> dict[str, Secrets]:
    found: dict[str, Secrets] = {}
    for event in (each for a in aggregates for each in (*a.event_classes, *a.upcasters)):
        if secrets := secrets_of(event):
            name = event_type(event).name
            found[name] = {**found.get(name, {}), **secrets}
    return found


def _unique[K, V](pairs: Iterable[tuple[K, V]]) -> dict[K, V]:
    found: dict[K, V] = {}
    for key, value in pairs:
        if key in found:
            raise RegistryError(f"{key} is declared twice")
        found[key] = value
    return found
