"""References to things in other systems' vocabularies, given with a request or assigned later."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from . import text
from .errors import InvalidError
from .profiles import ExternalRef
from .value import Value

SCHEME = "^[a-z][a-z0-9_-]{0,49}$"
MOST = 20
_PREFIX = re.compile(r"^(https?|doi|hdl|urn|ark):", re.IGNORECASE)

type Scheme = Annotated[str, Meta(extra_json_schema={"pattern": SCHEME})]


class GivenRef(Value):
    """A reference as it is given; the value carries no scheme prefix."""

    value: text.Name
    authority: text.Name | None = None


def checked_ref(
    scheme: str, value: str, authority: str | None, refusal: type[InvalidError]
) -> tuple[str, GivenRef]:
    scheme = text.code(scheme, SCHEME, refusal, "scheme")
    value = text.trimmed(value, 200, refusal, "value")
    if _PREFIX.match(value) or value.lower().startswith(f"{scheme}:"):
        raise refusal("Give the bare value, without a scheme prefix.", scheme=scheme)
    named = None if authority is None else text.trimmed(authority, 200, refusal, "authority")
    return scheme, GivenRef(value=value, authority=named)


def checked_refs(given: Mapping[str, GivenRef], refusal: type[InvalidError]) -> dict[str, GivenRef]:
    if len(given) > MOST:
        raise refusal(f"At most {MOST} external references are kept.", most=MOST)
    checked = (checked_ref(scheme, ref.value, ref.authority, refusal) for scheme, ref in given.items())
    return dict(sorted(checked))


def assigned(ref: GivenRef, at: datetime) -> ExternalRef:
    """A reference as a state keeps it."""
    return ExternalRef(value=ref.value, authority=ref.authority or "", assigned_at=at)
