"""The statement that an artifact is: what its issuer signs, and what its receiver reads."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from beamwright.kernel import signing
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.signing import Envelope, Opened
from beamwright.kernel.value import Time, Value

from .artifact import ArtifactTerms
from .facility import CODE
from .permit import PURPOSE, ArtifactKind, ArtifactTier

NAME = "artifact"
MOST_CONTENT_OCTETS = 512 * 1024

type Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
# Sixteen octets leave four bits to the last of 22 letters, so it is one of four.
type Nonce = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{21}[AQgw]$")]


class InvalidArtifactEnvelopeError(InvalidError):
    """The envelope is not that of one well-formed artifact statement with one signature."""


class ArtifactStatement(Value, forbid_unknown_fields=True):
    """What is signed; `artifact_id` is the issuer's own."""

    artifact_id: Annotated[str, Meta(min_length=1, max_length=200)]
    artifact_kind: ArtifactKind
    facility_code: Annotated[str, Meta(pattern=CODE)]
    recipient_facility_code: Annotated[str, Meta(pattern=CODE)]
    audience: Annotated[str, Meta(min_length=1, max_length=200)]
    purpose: Annotated[str, Meta(pattern=PURPOSE)]
    tier: ArtifactTier
    terms: ArtifactTerms
    ledger_number: Annotated[int, Meta(ge=1, le=2**53)]
    content_hash: Hash
    content: dict[str, Any] | None
    issued_at: Time
    expires_at: Time | None
    nonce: Nonce

    @property
    def payload(self) -> dict[str, Any]:
        return msgspec.to_builtins(self, order="deterministic")


def read(envelope: Envelope) -> tuple[ArtifactStatement, Opened]:
    """What an envelope states, unverified, and the octets that were signed."""
    opened = signing.opened(envelope, NAME, 1, InvalidArtifactEnvelopeError)
    try:
        statement = msgspec.convert(opened.payload, ArtifactStatement)
    except msgspec.ValidationError as error:
        raise InvalidArtifactEnvelopeError(f"The payload is no artifact statement: {error}.") from None
    if statement.content is not None and content_size(statement.content) > MOST_CONTENT_OCTETS:
        raise InvalidArtifactEnvelopeError(
            f"The content is larger than {MOST_CONTENT_OCTETS} octets.", most=MOST_CONTENT_OCTETS
        )
    return statement, opened


def content_size(content: dict[str, Any]) -> int:
    return len(signing.canonical(content))


def content_hash(content: dict[str, Any]) -> str:
    """The hash that stands in for content that is not sent."""
    return signing.hashed(signing.canonical(content))
