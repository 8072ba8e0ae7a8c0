"""Version tags of catalogue entries: a label used once, remembered with the place in the stream it stands for."""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import wraps
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from .errors import ConflictError, InvalidError
from .event import Event
from .value import Value

# Names the content of the first event.
INITIAL = "initial"
_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._+-]{0,49}$"

type VersionTag = Annotated[str, Meta(extra_json_schema={"pattern": _PATTERN})]


class DeprecationReason(StrEnum):
    SUPERSEDED = "Superseded"
    DEFECTIVE = "Defective"
    OBSOLETE = "Obsolete"


class Deprecation(Value):
    """Why something is no longer to be used."""

    reason_kind: DeprecationReason
    reason: str


class TaggedVersion(Value):
    """A version tag and the stream version that it names."""

    version_tag: str
    stream_version: int


class Counted(Value):
    """A state that knows how many events it is folded from; its view shows that as `version`."""

    stream_version: int = 0


def counted[S: Counted, E: Event](evolve: Callable[[S | None, E], S]) -> Callable[[S | None, E], S]:
    """Count the events of a fold. Within `evolve`, the event at hand has the version `next_version(state)`."""

    @wraps(evolve)
    def evolve_and_count(state: S | None, event: E) -> S:
        return msgspec.structs.replace(evolve(state, event), stream_version=next_version(state))

    return evolve_and_count


def next_version(state: Counted | None) -> int:
    return 1 if state is None else state.stream_version + 1


def tagged(
    tags: Sequence[TaggedVersion], version_tag: str | None, state: Counted | None
) -> tuple[TaggedVersion, ...]:
    """`tags` and the tag that the event at hand carries, if any."""
    if version_tag is None:
        return tuple(tags)
    return (*tags, TaggedVersion(version_tag=version_tag, stream_version=next_version(state)))


def checked_tag(value: str, refusal: type[InvalidError]) -> str:
    """`value` without surrounding space, if it can be a version tag."""
    tag = value.strip()
    if not re.fullmatch(_PATTERN, tag) or tag == INITIAL:
        raise refusal(f"A version tag matches {_PATTERN} and is not “{INITIAL}”.", pattern=_PATTERN)
    return tag


def check_tag_unused(tags: Sequence[TaggedVersion], tag: str, id: UUID, refusal: type[ConflictError]) -> None:
    """Gate: a tag names one content for ever."""
    for used in tags:
        if used.version_tag == tag:
            raise refusal(
                f"Version tag “{tag}” already names version {used.stream_version}; choose another.",
                id=str(id),
                version_tag=tag,
                stream_version=used.stream_version,
            )
