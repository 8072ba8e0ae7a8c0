"""The digest of the log: a chain over its events in reading order, which signed pointers fix."""

import hashlib
import re
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

import msgspec

from .content_hash import canonical, canonical_json
from .store import Mark, Stored

_HASH = re.compile("[0-9a-f]{64}")


class LogDigest(NamedTuple):
    """The digest of every event up to a mark, in hex."""

    mark: Mark
    digest: str


class SignedDigest(NamedTuple):
    """What a pointer says of the log, and the pointer's number."""

    number: int
    mark: Mark
    digest: str


EMPTY = LogDigest(Mark(0, 0), "0" * 64)


def advanced(before: LogDigest, events: Iterable[Stored]) -> LogDigest:
    """The digest after these events, each the next in reading order."""
    mark, octets = before.mark, bytes.fromhex(before.digest)
    for stored in events:
        mark, octets = stored.mark, hashlib.sha256(octets + covered(stored)).digest()
    return LogDigest(mark, octets.hex())


class Covered(msgspec.Struct):
    """All of an event that cannot be changed unnoticed, its fields in the order of RFC 8785."""

    causation_id: UUID | None
    command_name: msgspec.Raw
    correlation_id: msgspec.Raw
    event_id: UUID
    event_type: msgspec.Raw
    occurred_at: datetime
    payload: msgspec.Raw
    principal_id: UUID
    schema_version: int
    stream_id: UUID
    stream_type: msgspec.Raw
    surface_id: UUID
    version: int


def covered(stored: Stored) -> bytes:
    """The canonical form of an event; where it lies is told by the order."""
    # The payload as it is stored: a tag within it is not the one that the reader puts in front.
    payload = "{" + stored.tagged.partition(",")[2]
    return _encode(
        Covered(
            causation_id=stored.causation_id,
            command_name=_raw(stored.command_name),
            correlation_id=_raw(stored.correlation_id),
            event_id=stored.event_id,
            event_type=_raw(stored.event_type),
            occurred_at=stored.occurred_at,
            payload=msgspec.Raw(canonical_json(payload)),
            principal_id=stored.principal_id,
            schema_version=stored.schema_version,
            stream_id=stored.stream_id,
            stream_type=_raw(stored.stream_type),
            surface_id=stored.surface_id,
            version=stored.version,
        )
    )


# Names are few, and the events of a call share their correlation.
@lru_cache(4096)
def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(canonical(text))


_encode = msgspec.json.Encoder().encode


class DigestComparison:
    """Holds the log against what was signed of it, event by event.

    After a disagreement it goes on from what was signed: every stretch between two pointers is judged by itself.
    """

    def __init__(self, signed: Iterable[SignedDigest]) -> None:
        self._waiting = deque(sorted(signed, key=lambda each: (each.mark, each.number)))
        self._reached = EMPTY
        self.wrong: list[SignedDigest] = []

    @property
    def done(self) -> bool:
        return not self._waiting

    def take(self, stored: Stored) -> None:
        while self._waiting and self._waiting[0].mark < stored.mark:
            self._settle()
        if self._waiting:
            self._reached = advanced(self._reached, (stored,))

    def finish(self) -> Sequence[SignedDigest]:
        """Those that the log does not bear out, in order."""
        while self._waiting:
            self._settle()
        return self.wrong

    def _settle(self) -> None:
        signed = self._waiting.popleft()
        if signed.digest != self._reached.digest:
            self.wrong.append(signed)
        if _HASH.fullmatch(signed.digest):
            self._reached = LogDigest(signed.mark, signed.digest)
