"""Patterns: their shape, what they match, and the LIKE form that lists are filtered by."""

import re

import pytest

from beamwright.kernel.pattern import Pattern, parse_pattern, texts


def pattern(text: str) -> Pattern:
    parsed = parse_pattern(text)
    assert parsed is not None
    return parsed


def like(text: str, pattern: str) -> bool:
    """SQL's LIKE with a backslash as escape."""
    wild = {"%": ".*", "_": "."}
    parts = re.findall(r"\\.|.", pattern)
    return bool(re.fullmatch("".join(wild.get(part) or re.escape(part[-1]) for part in parts), text))


@pytest.mark.parametrize(
    "text",
    ["", "Run:start", "run:", ":start_run", "run:@all", "a:b:c", "run:start-run", "r*n:start_run", "x" * 101,
     "start_run\n", "run:start run", "run:%"],
)  # fmt: skip
def test_malformed_patterns_are_none(text: str) -> None:
    assert parse_pattern(text) is None


MATCHES = """
pattern           run:start_run  run:list_runs  trust:start_visit  trust:get_surface
*                 yes            yes            yes                yes
*:*               yes            yes            yes                yes
start_run         yes            -              -                  -
*:start_run       yes            -              -                  -
trust:start_run   -              -              -                  -
run:*             yes            yes            -                  -
start_*           yes            -              yes                -
*s                -              yes            -                  -
*_run*            yes            yes            -                  -
@reads            -              yes            -                  yes
run:@reads        -              yes            -                  -
*:@commands       yes            -              yes                -
run:st_rt_run     -              -              -                  -
"""


def cells() -> list[tuple[str, str, str, bool]]:
    (_, *operations), *rows = [line.split() for line in MATCHES.strip().splitlines()]
    return [
        (text, *operation.split(":"), answer == "yes")  # type: ignore[misc]
        for text, *answers in rows
        for operation, answer in zip(operations, answers, strict=True)
    ]


@pytest.mark.parametrize(("text", "context", "name", "expected"), cells())
def test_pattern_matches_its_operations(text: str, context: str, name: str, expected: bool) -> None:
    assert pattern(text).matches(context, name, name.startswith(("list_", "get_"))) is expected


@pytest.mark.parametrize(("text", "context", "name", "expected"), cells())
def test_like_form_says_the_same(text: str, context: str, name: str, expected: bool) -> None:
    tried = texts(context, name, name.startswith(("list_", "get_")))
    assert any(like(each, pattern(text).like()) for each in tried) is expected


def test_a_pattern_of_many_stars_is_not_slow() -> None:
    assert not pattern("*a" * 50).matches("run", "a" * 49, reads=False)
    assert not pattern("*a" * 49 + "b").matches("run", "a" * 100, reads=False)
