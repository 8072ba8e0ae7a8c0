"""How a method's parameters become an argument vector: never a shell."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta

from beamwright.kernel.content_hash import canonical
from beamwright.kernel.declared_schema import Schema, types
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.value import Value

from .parameters_schema import undeclared

MOST_TOKENS = 32
MOST_TOKEN = 255
MOST_ARGS = 64
MOST_URI = 2048
FLAG = r"^--?[A-Za-z][A-Za-z0-9-]*$"
SCHEMES = frozenset({"file", "s3", "https"})
_BOOLEAN = frozenset({"boolean"})

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

type LaunchToken = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MOST_TOKEN})]
type LaunchFlag = Annotated[str, Meta(extra_json_schema={"pattern": FLAG})]
type LaunchPosition = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": MOST_ARGS - 1})]


class LaunchArgStyle(StrEnum):
    """What a flag is followed by: the value, or nothing."""

    VALUE = "Value"
    FLAG_ONLY = "FlagOnly"


class InvalidLaunchSpecError(InvalidError):
    """The launch specification is malformed."""


class MissingLaunchParameterError(InvalidError):
    """A parameter that the launch requires has no value."""


class UnsafeLaunchUriError(InvalidError):
    """A URI has a control character, a scheme other than file, s3 and https, credentials or a query."""


class LaunchArg(Value):
    """One parameter on the command line: after its flag, or at its position."""

    name: str
    flag: LaunchFlag | None = None
    position: LaunchPosition | None = None
    required: bool = False
    style: LaunchArgStyle = LaunchArgStyle.VALUE


class LaunchSpec(Value):
    """The command, the parameters it takes, and the flags before its inputs and its output."""

    base_command: tuple[LaunchToken, ...]
    args: tuple[LaunchArg, ...] = ()
    input_arg: LaunchFlag | None = None
    output_arg: LaunchFlag | None = None


def checked_launch_spec(spec: LaunchSpec) -> LaunchSpec:
    """`spec`, or the first refusal."""
    for fault in _faults(spec):
        raise InvalidLaunchSpecError(fault)
    return spec


def _faults(spec: LaunchSpec) -> Iterator[str]:
    if not 1 <= len(spec.base_command) <= MOST_TOKENS:
        yield f"The base command has 1 to {MOST_TOKENS} tokens."
    if not all(1 <= len(token) <= MOST_TOKEN and not _CONTROL.search(token) for token in spec.base_command):
        yield f"Each token of the base command has 1 to {MOST_TOKEN} characters, none of them a control character."
    if len(spec.args) > MOST_ARGS:
        yield f"There are at most {MOST_ARGS} arguments."
    if len({arg.name for arg in spec.args}) < len(spec.args):
        yield "Each parameter is an argument once."
    for arg in spec.args:
        yield from _argument_faults(arg)
    positions = sorted(arg.position for arg in spec.args if arg.position is not None)
    if positions != list(range(len(positions))):
        yield "The positions count up from 0 without a gap."
    for flag in (spec.input_arg, spec.output_arg):
        yield from _flag_faults(flag)


def _argument_faults(arg: LaunchArg) -> Iterator[str]:
    if (arg.flag is None) == (arg.position is None):
        yield f"Give argument {arg.name} a flag or a position, and not both."
    if arg.style is LaunchArgStyle.FLAG_ONLY and arg.flag is None:
        yield f"Argument {arg.name} is FlagOnly, so it needs a flag."
    yield from _flag_faults(arg.flag)


def _flag_faults(flag: str | None) -> Iterator[str]:
    if flag is not None and not re.fullmatch(FLAG, flag):
        yield f"{flag} is no flag: it must match {FLAG}."


def unknown_parameters(spec: LaunchSpec, schema: Schema | None) -> list[str]:
    """The arguments that `schema` does not declare."""
    return undeclared(schema, (arg.name for arg in spec.args))


def not_boolean(spec: LaunchSpec, schema: Schema | None) -> list[str]:
    """The FlagOnly arguments that `schema` declares as something other than true or false."""
    known = (schema or {}).get("properties", {})
    flags = (arg.name for arg in spec.args if arg.style is LaunchArgStyle.FLAG_ONLY)
    return sorted(name for name in flags if name in known and types(known[name]) != _BOOLEAN)


def argument_vector(
    spec: LaunchSpec,
    parameters: Mapping[str, Any],
    input_uris: Sequence[str] = (),
    output_uri: str | None = None,
) -> tuple[str, ...]:
    """The command with its parameters, inputs and output, each one argument whatever it contains."""
    values = {name: value for name, value in parameters.items() if value is not None}
    given = [arg for arg in spec.args if arg.name in values]
    positional = sorted((arg for arg in given if arg.position is not None), key=lambda arg: arg.position or 0)
    _check_none_missing(spec, given)
    return (
        *spec.base_command,
        *(token for arg in given if arg.flag for token in _flagged(arg, arg.flag, values[arg.name])),
        *(_text(values[arg.name]) for arg in positional),
        *(token for uri in input_uris for token in _located(spec.input_arg, uri)),
        *(() if output_uri is None else _located(spec.output_arg, output_uri)),
    )


def _check_none_missing(spec: LaunchSpec, given: Sequence[LaunchArg]) -> None:
    # A gap would move the positions behind it.
    last = max((arg.position for arg in given if arg.position is not None), default=-1)
    missing = sorted(
        arg.name
        for arg in spec.args
        if arg not in given and (arg.required or (arg.position is not None and arg.position < last))
    )
    if missing:
        raise MissingLaunchParameterError(
            f"The launch requires a value for {', '.join(missing)}.", parameters=missing
        )


def _flagged(arg: LaunchArg, flag: str, value: Any) -> tuple[str, ...]:
    if arg.style is LaunchArgStyle.FLAG_ONLY:
        return (flag,) if value is True else ()
    return (flag, _text(value))


def _text(value: Any) -> str:
    match value:
        case str():
            return value
        case int() if not isinstance(value, bool):
            # In full: canonical JSON would round what no double holds.
            return str(value)
        case _:
            return canonical(value).decode()


def _located(flag: str | None, uri: str) -> tuple[str, ...]:
    check_uri(uri)
    return (uri,) if flag is None else (flag, uri)


def check_uri(uri: str) -> None:
    """Gate: a program is handed plain addresses; what grants access to them travels elsewhere."""
    scheme, separator, rest = uri.partition(":")
    if len(uri) > MOST_URI or has_control(uri) or not separator or scheme.lower() not in SCHEMES:
        raise UnsafeLaunchUriError(
            f"{uri[:200]!r} cannot be handed to a program: a URI has at most {MOST_URI} characters, no control"
            f" character, and scheme {', '.join(sorted(SCHEMES))}.",
            schemes=sorted(SCHEMES),
        )
    authority = rest.removeprefix("//").partition("/")[0] if rest.startswith("//") else ""
    if "@" in authority or "?" in rest or "#" in rest:
        # Not shown, because it may be a secret.
        raise UnsafeLaunchUriError(
            "A URI is recorded for ever, so it has no user name, password, query or fragment.",
            schemes=sorted(SCHEMES),
        )


def has_control(token: str) -> bool:
    """Whether a text holds what breaks logs and terminals."""
    return _CONTROL.search(token) is not None
