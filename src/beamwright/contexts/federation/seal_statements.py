"""The statements of a seal: how its keys and pointers are written, read and checked."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta

from beamwright.kernel import signing
from beamwright.kernel.signing import Envelope, EnvelopeSignature
from beamwright.kernel.store import InvalidConsistencyTokenError, Mark
from beamwright.kernel.value import Time, Value

from .credential import Key
from .seal import (
    InvalidSealEnvelopeError,
    SealIssuerMismatchError,
    SealPointerFact,
    SealSignatureInvalidError,
)

type Number = Annotated[int, Meta(ge=0, le=2**53)]
type Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
type KeyName = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{43}$")]


class SealStatement(Value, forbid_unknown_fields=True):
    """What a facility says of its seal."""

    name: ClassVar[str]
    signatures: ClassVar[int] = 1

    facility_code: Annotated[str, Meta(pattern="^[a-z0-9-]{1,32}$")]


class SealKeyFields(SealStatement, forbid_unknown_fields=True):
    """A key that takes over from another."""

    key_id: KeyName
    public_key: KeyName
    previous_key_id: KeyName | None
    issued_at: Time


class SealKeyStatement(SealKeyFields, forbid_unknown_fields=True):
    """The offline root says with which key pointers are signed."""

    name = "seal-key"

    rotation_number: Number


class SealRootStatement(SealKeyFields, forbid_unknown_fields=True):
    """The old root and the new one say that the new one is the root."""

    name = "seal-root"
    signatures = 2

    root_number: Number


class SealPointerStatement(SealStatement, forbid_unknown_fields=True):
    """How far the ledger and the log go."""

    name = "seal-pointer"

    sequence_number: Annotated[int, Meta(ge=1, le=2**53)]
    head_hash: Hash
    ledger_length: Number
    log_position: Annotated[str, Meta(max_length=40)]
    log_digest: Hash
    signed_at: Time
    valid_until: Time
    previous_pointer_hash: Hash | None


STATEMENTS: Mapping[str, type[SealStatement]] = {
    signing.payload_type(each.name): each
    for each in (SealKeyStatement, SealRootStatement, SealPointerStatement)
}


class Stated[T: SealStatement](NamedTuple):
    """A statement with the envelope it came in and the octets that were signed; nothing is verified yet."""

    statement: T
    envelope: Envelope
    pae: bytes


def opened[T: SealStatement](envelope: Envelope, type: type[T]) -> Stated[T]:
    """The statement of this type in an envelope, or a refusal."""
    payload, pae = signing.opened(envelope, type.name, type.signatures, InvalidSealEnvelopeError)
    try:
        statement = msgspec.convert(payload, type)
    except msgspec.ValidationError as error:
        raise InvalidSealEnvelopeError(f"The {type.name} statement has another shape: {error}.") from None
    _check(statement)
    return Stated(statement, envelope, pae)


def opened_any(envelope: Envelope) -> Stated[Any]:
    """Whichever statement of a seal an envelope holds, or a refusal."""
    type = STATEMENTS.get(envelope.payloadType)
    if type is None:
        raise InvalidSealEnvelopeError(
            f"The envelope holds none of {', '.join(sorted(STATEMENTS))}.", known=sorted(STATEMENTS)
        )
    return opened(envelope, type)


def _check(statement: SealStatement) -> None:
    """What a statement must be in itself, whatever is known of the facility."""
    if isinstance(statement, SealKeyFields):
        signing.checked_public_key(statement.public_key, InvalidSealEnvelopeError)
        if signing.key_id(statement.public_key) != statement.key_id:
            raise InvalidSealEnvelopeError("The key id is not the thumbprint of the public key.")
        if statement.key_id == statement.previous_key_id:
            raise InvalidSealEnvelopeError("A key does not take over from itself.")
    elif isinstance(statement, SealPointerStatement):
        try:
            Mark.parse(statement.log_position)
        except InvalidConsistencyTokenError:
            raise InvalidSealEnvelopeError("The log position is not a mark of a log.") from None


def payload(statement: SealStatement) -> dict[str, Any]:
    """The statement as it is signed."""
    return msgspec.to_builtins(statement)


def octets(statement: SealStatement) -> bytes:
    """What a signature of the statement is made over."""
    return signing.statement(statement.name, payload(statement))


def enclosed(statement: SealStatement, *signatures: tuple[str, bytes]) -> Envelope:
    return signing.enclosed(statement.name, payload(statement), signatures)


def check_issuer(statement: SealStatement, facility_code: str) -> None:
    """Gate: a statement is about the facility that it is used for."""
    if statement.facility_code != facility_code:
        raise SealIssuerMismatchError(
            f"The statement speaks for {statement.facility_code}, not for {facility_code}.",
            facility_code=facility_code,
            stated=statement.facility_code,
        )


def check_signature(pae: bytes, signature: EnvelopeSignature, key: Key | None) -> None:
    """Gate: the signature was made with exactly this key."""
    made = (
        key is not None
        and key.public_key is not None
        and signature.keyid == key.key_id
        and signing.verifies(key.public_key, signature.octets, pae)
    )
    if not made:
        raise SealSignatureInvalidError(
            "The statement is not signed with the key that has to vouch for it. Have it signed anew.",
            key_id=signature.keyid,
            expected=key and key.key_id,
        )


def pointer_fields(
    statement: SealPointerStatement, envelope: Envelope, facility_id: UUID, now: datetime
) -> dict[str, Any]:
    """The fields of a pointer's event."""
    return _told(statement) | {
        "facility_id": facility_id,
        "occurred_at": now,
        "key_id": envelope.signatures[0].keyid,
        "envelope": envelope,
    }


def _told(statement: SealPointerStatement) -> dict[str, Any]:
    """The fields of a pointer beside its facility's code."""
    told = msgspec.structs.asdict(statement)
    del told["facility_code"]
    return told


def as_signed(event: SealPointerFact, public_keys: Mapping[str, str]) -> bool:
    """Whether a recorded pointer says what its envelope does, and one of these keys signed that."""
    try:
        statement, envelope, pae = opened(event.envelope, SealPointerStatement)
    except InvalidSealEnvelopeError:
        return False
    [signature] = envelope.signatures
    public_key = public_keys.get(signature.keyid)
    return (
        public_key is not None
        and event.key_id == signature.keyid
        and all(getattr(event, field) == value for field, value in _told(statement).items())
        and signing.verifies(public_key, signature.octets, pae)
    )
