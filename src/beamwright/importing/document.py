"""The file as it was written: YAML read into plain values, each with the line that it stands on.

Built from the parser's events without recursion, so that size, nesting and aliases are bounded before they cost
anything. Scalars follow the core schema of YAML 1.2: `yes` is text and `1e-3` a number. A serial number such as
`0042` is text as well, so that it keeps its zeros.
"""

import math
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, cast

import yaml

MOST_BYTES = 10 * 1024 * 1024
MOST_NODES = 2_000_000
# 64 levels of assets take two containers each; settings may nest as deep as the service allows.
MOST_DEPTH = 256
# Larger whole numbers are not JSON that everybody reads.
MOST_WHOLE = 2**63 - 1

type Place = tuple[str | int, ...]
type Scalar = str | int | float | bool | None

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE, _FALSE = frozenset({"true", "True", "TRUE"}), frozenset({"false", "False", "FALSE"})
# Digits after a leading zero are a serial number, not a number.
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LIKE_NUMBER = re.compile(r"[-+.]*[0-9][-+._:0-9a-fA-FoxEX]*")
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class Fault(NamedTuple):
    """Something wrong in the file, and where."""

    line: int
    path: str
    message: str

    def sentence(self, file: str) -> str:
        where = f"{file}:{self.line}: {self.path}" if self.path else f"{file}:{self.line}"
        return f"{where}: {self.message}"


class FaultyFileError(Exception):
    """The file cannot be used; holds every fault that was found, in order of lines."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = sorted(faults)


class Node:
    """A value and the line where it, or the key that leads to it, stands."""

    __slots__ = ("line", "value")

    def __init__(self, line: int, value: "Scalar | dict[str, Node] | list[Node]") -> None:
        self.line = line
        self.value = value


class _Open:
    """A container whose end has not been met, and the key that waits for its value."""

    __slots__ = ("key", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.key: tuple[str, int] | None = None


def parse(content: bytes) -> Node:
    """The document, or the first fault that keeps it from being read."""
    if len(content) > MOST_BYTES:
        raise _faulty(1, f"The file has {len(content):,} bytes; at most {MOST_BYTES:,} are read.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _faulty(content[: error.start].count(b"\n") + 1, "This is not UTF-8 text.") from None
    try:
        return _built(_events(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "cannot be read"
        raise _faulty(mark.line + 1 if mark else 1, f"This is not YAML: {problem}.") from None
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise _faulty(line, "This character cannot stand in YAML.") from None


def plain(node: Node) -> Any:
    """The value without its lines; nesting is bounded, so this may recurse."""
    match node.value:
        case dict():
            return {key: plain(below) for key, below in node.value.items()}
        case list():
            return [plain(below) for below in node.value]
        case _:
            return node.value


def line_of(node: Node, place: Place) -> int:
    """The line of what stands at a place, or of the last thing on the way there."""
    line = node.line
    for step in place:
        container: Any = node.value
        try:
            node = container[step]
        except (KeyError, IndexError, TypeError):
            return line
        line = node.line
    return line


def path_text(place: Place) -> str:
    """A place as a person reads it, such as `assets[0].children[2].name`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".")


def fault(root: Node, place: Place, message: str) -> Fault:
    return Fault(line_of(root, place), path_text(place), message)


def is_plain_text(text: str) -> bool:
    """Whether every reader takes a text for text that stands without quotes."""
    return not (text in _NULL | _TRUE | _FALSE or _LIKE_NUMBER.fullmatch(text) or _NO_NUMBER.fullmatch(text))


def near(word: str, known: Sequence[str]) -> str:
    """A hint at what was meant, as a sentence of its own."""
    found = get_close_matches(word, known, n=1)
    return f" Did you mean {found[0]}?" if found else ""


def _faulty(line: int, message: str, path: str = "") -> FaultyFileError:
    return FaultyFileError([Fault(line, path, message)])


def _events(text: str) -> Iterator[Any]:
    loader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    return cast("Iterator[Any]", yaml.parse(text, Loader=loader))  # pyright: ignore[reportUnknownMemberType]


def _built(events: Iterator[Any]) -> Node:
    root: Node | None = None
    stack: list[_Open] = []
    for number, event in enumerate(events):
        line: int = event.start_mark.line + 1 if event.start_mark else 1
        if number > 2 * MOST_NODES:
            raise _faulty(line, f"The file holds more than {MOST_NODES:,} values.")
        match event:
            case yaml.DocumentStartEvent() if root is not None:
                raise _faulty(line, "The file holds a second document; write one file for each facility.")
            case yaml.ScalarEvent() | yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                _check_plain(event, line)
                node = _node(event, line)
                if stack and _takes_key(stack[-1]):
                    _take_key(stack[-1], event, line)
                    continue
                root = root or node
                _put(stack, node)
                if not isinstance(event, yaml.ScalarEvent):
                    _check_depth(stack, line)
                    stack.append(_Open(node))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                stack.pop()
            case yaml.AliasEvent():
                raise _faulty(line, f"*{event.anchor} is an alias; write the value out.")
            case _:
                pass
    if root is None:
        raise _faulty(1, "The file is empty.")
    return root


def _check_plain(event: Any, line: int) -> None:
    if event.anchor is not None:
        raise _faulty(line, f"&{event.anchor} is an anchor; anchors and aliases are not read.")
    if event.tag is not None and event.tag != "!":
        raise _faulty(line, f"{event.tag} is a tag; tags are not read.")


def _check_depth(stack: Sequence[_Open], line: int) -> None:
    if len(stack) >= MOST_DEPTH:
        raise _faulty(line, f"Nested deeper than {MOST_DEPTH} levels.")


def _node(event: Any, line: int) -> Node:
    match event:
        case yaml.ScalarEvent():
            return Node(line, _scalar(event, line))
        case yaml.MappingStartEvent():
            return Node(line, {})
        case _:
            return Node(line, [])


def _takes_key(here: _Open) -> bool:
    return isinstance(here.node.value, dict) and here.key is None


def _take_key(here: _Open, event: Any, line: int) -> None:
    known = cast(dict[str, Node], here.node.value)
    if not isinstance(event, yaml.ScalarEvent):
        raise _faulty(line, "A key must be a word, not a list or a mapping.")
    key = str(event.value)
    if key in known:
        raise _faulty(line, f"“{key}” stands twice here, first in line {known[key].line}.")
    if not key or key == "<<":
        raise _faulty(
            line, "A key is missing." if not key else "Merge keys are not read; write the values out."
        )
    here.key = (key, line)


def _put(stack: Sequence[_Open], node: Node) -> None:
    if not stack:
        return
    here = stack[-1]
    match here.node.value:
        case dict():
            assert here.key is not None
            key, node.line = here.key
            here.node.value[key] = node
            here.key = None
        case list():
            here.node.value.append(node)
        case _:
            raise TypeError(here.node.value)


def _scalar(event: Any, line: int) -> Scalar:
    text = str(event.value)
    if "\x00" in text:
        raise _faulty(line, "Text must not contain the NUL character.")
    if event.style or event.tag == "!":
        return text
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _NO_NUMBER.fullmatch(text):
        raise _faulty(line, f"{text} is not a finite number.")
    if _WHOLE.fullmatch(text):
        return _whole(text, line)
    return _finite(text, line) if _NUMBER.fullmatch(text) else text


def _whole(text: str, line: int) -> int:
    # Far more digits than any number that fits, and few enough to be worked out.
    number = int(text, 0) if len(text) < 100 else MOST_WHOLE + 1
    if abs(number) > MOST_WHOLE:
        raise _faulty(line, "This whole number is too large; quote it if it is text.")
    return number


def _finite(text: str, line: int) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _faulty(line, f"{text} is not a finite number.")
    return number
