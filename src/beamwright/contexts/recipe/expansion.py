"""Expansion: a recipe's steps with the operator's bindings in place, one executable step per template."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from msgspec import UNSET

from beamwright.kernel.declared_schema import Schema, pointer
from beamwright.kernel.declared_values import check_values
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.value import Value

from .parameters_schema import undeclared
from .step_rules import bindings_of, form_faults
from .steps import (
    RESERVED,
    BindingRef,
    Sentinel,
    StepLists,
    bindings_hash,
    steps_hash,
    substituted,
)

# Kept with what is expanded: a change of the rules here is a new number.
EXPANDER_VERSION = 1


class RecipeBindingsStaleAgainstCurrentCapabilityError(ConflictError):
    """The recipe binds a parameter that the capability no longer declares."""


class InvalidRecipeBindingsError(InvalidError):
    """The bindings do not meet the capability's schema, or do not fit the steps."""


class UnboundRecipeBindingError(InvalidError):
    """A binding of the recipe has no value."""


class Expansion(Value):
    """Executable steps, at the indexes of their templates, with what they were made of."""

    lists: StepLists
    steps_hash: str
    bindings_hash: str


def expand(lists: StepLists, bindings: Mapping[str, Any], schema: Schema | None) -> Expansion:
    """The lists with every binding replaced by its value, or the first refusal; other references stay."""
    names = sorted({each.use.ref.name for each in bindings_of(lists)})
    check_names_current(names, schema)
    check_values(schema, bindings, InvalidRecipeBindingsError, declare_with="version_capability")
    check_nothing_reserved(bindings)
    check_none_missing(names, bindings)

    def bound(ref: Sentinel) -> Any:
        return bindings[ref.name] if isinstance(ref, BindingRef) else UNSET

    expanded = StepLists(
        steps=tuple(substituted(step, bound) for step in lists.steps),
        closing_steps=tuple(substituted(step, bound) for step in lists.closing_steps),
    )
    # The steps were right, so what is wrong now came with a value: a text where a number is needed, say.
    for fault in form_faults(expanded):
        raise fault.raised(InvalidRecipeBindingsError)
    return Expansion(lists=expanded, steps_hash=steps_hash(expanded), bindings_hash=bindings_hash(bindings))


def check_names_current(names: list[str], schema: Schema | None) -> None:
    """Gate: the capability still declares what the recipe binds."""
    gone = undeclared(schema, names)
    if gone:
        raise RecipeBindingsStaleAgainstCurrentCapabilityError(
            f"The capability does not declare {', '.join(gone)} any more: version the recipe first.",
            names=gone,
        )


def check_nothing_reserved(bindings: Mapping[str, Any]) -> None:
    """Gate: a value cannot smuggle a reference into the steps."""
    for path in _reserved_paths(bindings):
        raise InvalidRecipeBindingsError(
            f"{path}: keys that begin with {RESERVED} are reserved for the recipe's own references.",
            path=path,
        )


def check_none_missing(names: list[str], bindings: Mapping[str, Any]) -> None:
    """Gate: every binding has a value."""
    missing = [name for name in names if name not in bindings]
    if missing:
        raise UnboundRecipeBindingError(f"Give a value for {', '.join(missing)}.", names=missing)


def _reserved_paths(bindings: Mapping[str, Any]) -> Iterator[str]:
    pending: list[tuple[str, Any]] = [("", dict(bindings))]
    while pending:
        path, value = pending.pop()
        match value:
            case dict():
                members = cast(dict[str, Any], value)
                yield from (pointer(path, key) for key in members if key.startswith(RESERVED))
                pending += [(pointer(path, key), each) for key, each in members.items()]
            case list():
                pending += [(f"{path}/{n}", each) for n, each in enumerate(cast(list[Any], value))]
            case _:
                pass
