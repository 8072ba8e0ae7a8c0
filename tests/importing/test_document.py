"""Reading a file: plain values, the line of each, and a fault with its line for whatever cannot be read."""

import pytest

from beamwright.importing.document import FaultyFileError, line_of, parse, plain

UNREADABLE = {
    "bad indentation": ("a: 1\n b: 2\n", 2, "not YAML"),
    "an open bracket": ("a: 1\nb: [1, 2\n", 3, "not YAML"),
    "a key twice": ("a: 1\nb: 2\na: 3\n", 3, "“a” stands twice here, first in line 1"),
    "an alias": ("a: 1\nb: *a\n", 2, "*a is an alias"),
    "an anchor": ("a: &big [1]\nb: 2\n", 1, "&big is an anchor"),
    "a tag": ("a: 1\nb: !!python/object:os.system x\n", 2, "tag"),
    "a merge key": ("a: 1\n<<: {b: 2}\n", 2, "Merge keys"),
    "a mapping as key": ("? {a: 1}\n: 2\n", 1, "A key must be a word"),
    "a second document": ("a: 1\n---\nb: 2\n", 2, "second document"),
    "no number": ("a: 1\nb: .nan\n", 2, "not a finite number"),
    "a huge number": ("a: 1e999\n", 1, "not a finite number"),
    "a huge whole number": ("a: " + "9" * 5000, 1, "too large"),
    "a control character": ("a: 1\nb: \x07\n", 2, "cannot stand in YAML"),
    "nothing": ("", 1, "empty"),
    "deep nesting in one line": ("a: " + "[" * 10_000, 1, "Nested deeper"),
    "deep lists in one line": ("- " * 10_000, 1, "Nested deeper"),
    "deep nesting over lines": ("".join(f"{' ' * n}a:\n" for n in range(1_000)), 257, "Nested deeper"),
}


@pytest.mark.parametrize(("text", "line", "words"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_told_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(FaultyFileError) as refused:
        parse(text.encode())
    [fault] = refused.value.faults
    assert (fault.line, words in fault.message) == (line, True), fault


def test_bytes_that_are_no_text_are_told_with_their_line() -> None:
    with pytest.raises(FaultyFileError) as refused:
        parse(b"a: 1\nb: \xff\n")
    assert refused.value.faults[0].line == 2


def test_a_file_that_is_too_large_is_not_parsed() -> None:
    with pytest.raises(FaultyFileError, match="1 faults"):
        parse(b"#" * (10 * 1024 * 1024 + 1))


def test_aliases_cannot_make_a_small_file_large() -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9) if n else 'x'}]\n" for n in range(9))
    with pytest.raises(FaultyFileError):
        parse(levels.encode())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("0x1F", 31),
        ("2.5", 2.5),
        ("1e-3", 0.001),
        ("true", True),
        ("~", None),
        ("yes", "yes"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("004417", "004417"),
        ("'5'", "5"),
        ('"true"', "true"),
        ("3.4.1", "3.4.1"),
    ],
)
def test_scalars_follow_the_core_schema_but_keep_leading_zeros(text: str, value: object) -> None:
    assert plain(parse(f"a: {text}".encode())) == {"a": value}


def test_a_value_stands_in_the_line_of_its_key() -> None:
    root = parse(b"assets:\n  - name: A\n    children:\n      - name: B\n")
    assert line_of(root, ("assets", 0, "children")) == 3
    assert line_of(root, ("assets", 0, "children", 0, "name")) == 4


def test_what_is_not_there_is_told_by_what_leads_to_it() -> None:
    assert line_of(parse(b"a: 1\nb:\n  c: 2\n"), ("b", "missing", 3)) == 2
