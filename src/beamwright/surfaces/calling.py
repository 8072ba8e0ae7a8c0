"""Calls of a running service from the command line: the request is built from the operation's own declaration."""

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlsplit

import httpx
import msgspec

import beamwright.contexts
from beamwright.kernel.operation import Operation
from beamwright.kernel.registry import Registry, discover
from beamwright.kernel.value import encode
from beamwright.settings import LOOPBACK

# Longer than the longest `wait` of a command.
TIMEOUT = httpx.Timeout(75, connect=5)


class UsageError(Exception):
    """The call cannot be built from what was typed; the message says how to."""


class UnreachableError(Exception):
    """No service answers at the address."""


class RefusedError(Exception):
    """The service refused; holds its problem document."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("code"))
        self.problem = problem


class Wanted(NamedTuple):
    """An HTTP request."""

    method: str
    path: str
    # A parameter that takes several values is repeated.
    query: Mapping[str, str | Sequence[str]] = {}
    body: bytes | None = None
    headers: Mapping[str, str] = {}


@cache
def registry() -> Registry:
    return discover(beamwright.contexts)


def operation(name: str) -> Operation:
    operations = registry().operations
    found = operations.get(name.replace("-", "_"))
    if found is None:
        near = get_close_matches(name.replace("-", "_"), operations, n=3)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise UsageError(f"There is no operation {name}. {hint}`beamwright call --list` shows all.")
    return found


@cache
def fields_of(operation: Operation) -> dict[str, msgspec.structs.FieldInfo]:
    """By the name they have on the wire."""
    return {field.encode_name: field for field in msgspec.structs.fields(operation.request)}


class Described(NamedTuple):
    """A field as a person reads it."""

    name: str
    kind: str
    note: str


def described_fields(operation: Operation) -> Iterator[Described]:
    [reference], components = msgspec.json.schema_components([operation.request], ref_template="{name}")
    shapes: dict[str, dict[str, Any]] = components[reference["$ref"]]["properties"]
    for name, field in fields_of(operation).items():
        notes = ["required"] if field.required else []
        if isinstance(field.default, str | int | float):
            notes.append(f"default {_text(field.default)}")
        notes.append(str(shapes[name].get("description", "")))
        yield Described(name, _kind(shapes[name], components), ", ".join(note for note in notes if note))


def _kind(shape: Mapping[str, Any], components: Mapping[str, Any]) -> str:
    """What a JSON Schema allows, in a few words."""
    if "$ref" in shape:
        return _kind(components[shape["$ref"]], components)
    if "enum" in shape:
        return " | ".join(str(each) for each in shape["enum"])
    if "anyOf" in shape:
        return " or ".join(_kind(each, components) for each in shape["anyOf"] if each != {"type": "null"})
    match shape.get("type"):
        case "array":
            return f"list of {_kind(shape['items'], components)}" if shape.get("items") else "list"
        case "object":
            fields = ", ".join(shape.get("properties", ()))
            return f"JSON object of {fields}" if fields else "JSON object"
        case "string":
            return shape.get("format", "text")
        case kind:
            return str(kind or "JSON")


def option(name: str) -> str:
    return "--" + name.replace("_", "-")


def typed_options(operation: Operation, arguments: Sequence[str]) -> dict[str, list[str]]:
    """The values of each field, from `--field value`, `--field=value`, or `--field` alone for true."""
    fields = fields_of(operation)
    values: dict[str, list[str]] = {}
    left = list(arguments)
    while left:
        argument = left.pop(0)
        if not argument.startswith("--"):
            raise UsageError(f"“{argument}” belongs to no field; write --field value.")
        text, equals, value = argument[2:].partition("=")
        name = _field(operation, fields, text)
        if not equals and left and not left[0].startswith("--"):
            value = left.pop(0)
        elif not equals:
            value = _switched_on(fields[name])
        values.setdefault(name, []).append(value)
    return values


def _switched_on(field: msgspec.structs.FieldInfo) -> str:
    try:
        msgspec.convert(True, field.type)
    except msgspec.ValidationError:
        raise UsageError(f"{option(field.encode_name)} needs a value.") from None
    return "true"


def _field(operation: Operation, fields: Mapping[str, Any], text: str) -> str:
    name = text.replace("-", "_")
    if name in fields:
        return name
    near = get_close_matches(name, fields, n=1)
    hint = f"Did you mean {option(near[0])}?" if near else f"See `beamwright call {operation.name} --help`."
    raise UsageError(f"{operation.name} has no field --{text}. {hint}")


def json_object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise UsageError(f"--json must be a JSON object: {error}.") from None


def wanted(operation: Operation, typed: Mapping[str, list[str]], given: Mapping[str, Any]) -> Wanted:
    """The HTTP request of the operation; what was typed goes before what `--json` gave."""
    fields = fields_of(operation)
    values: dict[str, Any] = {_field(operation, fields, name): value for name, value in given.items()}
    values |= {name: value_of(fields[name], texts) for name, texts in typed.items()}
    missing = [name for name, field in fields.items() if field.required and name not in values]
    if missing:
        raise UsageError(f"{operation.name} needs {', '.join(option(name) for name in missing)}.")
    path = re.sub(r"{(\w+)}", lambda place: quote(_text(values.pop(place[1])), safe=""), operation.path)
    if operation.in_address:
        query = {name: _parameter(value) for name, value in values.items() if value is not None}
        return Wanted(operation.method, path, query)
    return Wanted(operation.method, path, body=encode(values), headers={"content-type": "application/json"})


def value_of(field: msgspec.structs.FieldInfo, texts: Sequence[str]) -> Any:
    """What was typed, as the field's type: plain, as JSON, or as the members of a collection."""
    reasons: list[tuple[bool, str]] = []
    for reading, strict in _readings(field, texts):
        try:
            value = msgspec.convert(reading, field.type, strict=strict)
            return msgspec.to_builtins(value, str_keys=True, order="deterministic")
        except msgspec.ValidationError as error:
            reasons.append((strict, str(error)))
    raise UsageError(f"{option(field.encode_name)}: {_meant(reasons, texts[0])}.")


def _meant(reasons: Sequence[tuple[bool, str]], text: str) -> str:
    """Of something that looks like JSON, a JSON reading was meant: the one that fits the field the furthest."""
    told = [reason for json, reason in reasons if json] if text.startswith(("{", "[")) else []
    inside = [reason for reason in told if " - at `$" in reason]
    return [*inside, *told, reasons[0][1]][0]


def _readings(field: msgspec.structs.FieldInfo, texts: Sequence[str]) -> Iterator[tuple[Any, bool]]:
    """How `texts` can be read, and whether the reading says its types itself, as JSON does."""
    try:
        json = [msgspec.json.decode(text) for text in texts]
    except msgspec.DecodeError:
        json = []
    if len(texts) == 1:
        plain = [(texts[0], False)]
        whole = [(json[0], True)] if json else []
        yield from whole + plain if field.type is Any else plain + whole
    yield list(texts), False
    if json:
        yield json, True


def _parameter(value: Any) -> str | Sequence[str]:
    if isinstance(value, list):
        return [_text(each) for each in cast(list[Any], value)]
    return _text(value)


def _text(value: Any) -> str:
    """A value in a path or query string."""
    return value if isinstance(value, str) else encode(value).decode()


class Client:
    """Speaks to one service. The token is asked for at each request, so that it can be a fresh one."""

    def __init__(self, url: str, token: Callable[[], str | None]) -> None:
        self.url = url.rstrip("/")
        self._token = token
        try:
            # A proxy of the environment is for the world outside, and must not see a local token.
            self._http = httpx.Client(base_url=self.url, timeout=TIMEOUT, trust_env=not on_this_machine(url))
        except httpx.InvalidURL as error:
            raise UsageError(f"{url} is not an address: {error}.") from None

    def close(self) -> None:
        self._http.close()

    def send(self, wanted: Wanted) -> bytes:
        """The body of the answer, or the refusal."""
        try:
            answer = self._http.request(
                wanted.method,
                wanted.path,
                params=wanted.query,
                content=wanted.body,
                headers={**self._headers(), **wanted.headers},
            )
        except (httpx.TransportError, httpx.UnsupportedProtocol) as error:
            raise self._unreachable(error) from None
        if not answer.is_success:
            raise RefusedError(problem_of(answer.status_code, answer.content))
        return answer.content

    def report(self) -> dict[str, Any]:
        """The answer of /ready, which is a report whether it is ready or not."""
        try:
            answer = self._http.get("/ready")
            return msgspec.json.decode(answer.content, type=dict[str, Any])
        except httpx.TransportError as error:
            raise self._unreachable(error) from None
        except msgspec.DecodeError:
            raise UnreachableError(f"What answers at {self.url} is not Beamwright.") from None

    @contextmanager
    def stream(self, wanted: Wanted) -> Generator[Iterator[str]]:
        """The lines of an answer that goes on."""
        request = self._http.build_request(
            wanted.method, wanted.path, params=wanted.query, headers={**self._headers(), **wanted.headers}
        )
        try:
            answer = self._http.send(request, stream=True)
            try:
                if not answer.is_success:
                    raise RefusedError(problem_of(answer.status_code, answer.read()))
                yield answer.iter_lines()
            finally:
                answer.close()
        except httpx.TransportError as error:
            raise self._unreachable(error) from None

    def _headers(self) -> dict[str, str]:
        token = self._token()
        return {} if token is None else {"authorization": f"Bearer {token}"}

    def _unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(f"No service answers at {self.url}: {error or type(error).__name__}.")


def problem_of(status: int, body: bytes) -> dict[str, Any]:
    """The problem document; something between us and the service may have answered instead."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        return {"title": f"The address answered {status}.", "detail": "The answer is not a problem document."}


def on_this_machine(url: str) -> bool:
    return (urlsplit(url).hostname or "") in LOOPBACK
