"""The body of every refusal (RFC 9457): what is wrong, why, and what decided it."""

from typing import Any

from .errors import DomainError
from .value import Value


class Fault(Value):
    """One wrong place in a request."""

    path: str
    message: str


class Problem(Value, omit_defaults=True):
    """A refusal that an operator or a program can act on; `code` is the error's class name."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    correlation_id: str
    context: dict[str, Any] = {}
    faults: list[Fault] = []


def problem(error: DomainError, correlation_id: str) -> Problem:
    code = type(error).__name__
    faults = error.context.get("faults", [])
    return Problem(
        type=f"urn:beamwright:error:{code}",
        title=type(error).title(),
        status=error.status,
        detail=error.detail,
        code=code,
        context={name: value for name, value in error.context.items() if name != "faults"},
        faults=faults,
        correlation_id=correlation_id,
    )
