"""Patterns of operation names: what grants, token scopes and controlled operations are written in."""

import fnmatch
import re
from functools import cached_property, lru_cache

from .value import Value

READS = "@reads"
COMMANDS = "@commands"

_SHAPE = re.compile(r"(?:(?P<context>[a-z]{1,50}|\*):)?(?P<name>[a-z_*]{1,100}|@reads|@commands)")


class Pattern(Value, dict=True):
    """`[<context>:]<name>`: `*` stands for any run of characters, `@reads` and `@commands` for all of a kind.

    A pattern without a context, like one with the context `*`, means any context.
    """

    context: str | None
    name: str

    def matches(self, context: str, name: str, reads: bool) -> bool:
        """Whether the operation `name` of `context` is meant."""
        if self.context is not None and self.context != context:
            return False
        if self.name in (READS, COMMANDS):
            return self.name == _kind(reads)
        return self._regex.fullmatch(name) is not None

    def like(self) -> str:
        r"""The SQL LIKE pattern, with `\` as escape, that finds some of an operation's `texts`."""
        context = "%" if self.context is None else self.context
        if self.name in (READS, COMMANDS):
            return f"{context}{self.name}"
        return f"{context}:{self.name.replace('_', r'\_').replace('*', '%')}"

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        # fnmatch never backtracks over more than one star, so no pattern can be made slow.
        return re.compile(fnmatch.translate(self.name))


def texts(context: str, name: str, reads: bool) -> list[str]:
    """What to try stored LIKE patterns on: the full name, and its kind where no `*` can reach it."""
    return [f"{context}:{name}", f"{context}{_kind(reads)}"]


@lru_cache(maxsize=4096)
def parse_pattern(text: str) -> Pattern | None:
    """The pattern that `text` spells, or None when it is malformed."""
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        return None
    context = shape["context"]
    return Pattern(context=None if context == "*" else context, name=shape["name"])


def _kind(reads: bool) -> str:
    return READS if reads else COMMANDS
