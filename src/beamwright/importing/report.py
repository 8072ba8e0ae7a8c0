"""What a plan says to whoever asked for it."""

from collections.abc import Iterator

from .plan import Plan

_WORDS = {"facility": "facilities", "family": "families", "supply": "supplies"}


def diff(plan: Plan) -> Iterator[tuple[str, str]]:
    """Lines in the order of the file: `+` is created, `~` changed, `!` left alone though it differs."""
    width = max((len(change.subject.kind) for change in plan.changes), default=0)
    for change in sorted(plan.changes, key=lambda change: change.subject.line):
        yield change.sign, f"{change.sign} {change.subject.kind:<{width}}  {change.subject.path}"
        for detail in change.details:
            yield change.sign, f"    {detail}"
    same = sum(plan.same.values())
    if same:
        parts = [counted(number, kind) for kind, number in sorted(plan.same.items()) if number]
        yield "=", f"= {', '.join(parts)} unchanged"


def summary(plan: Plan) -> str:
    """The plan in a sentence."""
    parts = [
        f"{plan.count('+')} to create",
        f"{plan.count('~')} to change",
        f"{sum(plan.same.values())} unchanged",
    ]
    if plan.conflicts:
        parts.append(f"{len(plan.conflicts)} in conflict and left alone")
    told = f"{', '.join(parts)}: {counted(len(plan.steps), 'command')}."
    if plan.others:
        told += f" {counted(plan.others, 'asset')} of the facility that the file does not name, left alone."
    return told


def counted(number: int, kind: str) -> str:
    return f"{number:,} {kind if number == 1 else _WORDS.get(kind, f'{kind}s')}"
