"""Reads of a seal beside its state: the ledger, and whether all that was signed still holds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import signing
from beamwright.kernel.aggregate import Limit
from beamwright.kernel.log_digest import SignedDigest
from beamwright.kernel.operation import Query, World
from beamwright.kernel.store import InvalidConsistencyTokenError, Mark
from beamwright.kernel.value import Value

from .credential import Credential, credentials
from .seal import (
    NOTHING,
    InvalidSealEnvelopeError,
    LedgerEntry,
    Seal,
    SealEvent,
    SealInitialized,
    SealLedgerExtended,
    SealOnlineKeyRotated,
    SealPointerFact,
    SealPointerSigned,
    next_head,
    pointer_hash,
    seals,
)
from .seal_statements import SealKeyStatement, as_signed, opened

# A longer log is for `beamwright verify`, which keeps nobody waiting.
MOST_EVENTS = 100_000


class SealLedgerLine(Value):
    """One entry of a ledger; each head fixes all before it."""

    ledger_number: int
    entry: LedgerEntry
    artifact_id: UUID
    content_hash: str
    ledger_head: str


class SealLedgerPage(Value):
    """Entries in ascending order; `next_after` is where the next page begins."""

    items: list[SealLedgerLine]
    next_after: int | None
    ledger_length: int
    ledger_head: str


@seals.operation("GET /federation/seals/{facility_id}/ledger")
class ListSealLedger(Query[SealLedgerPage]):
    """Read the ledger of what was published and withdrawn, oldest first."""

    facility_id: UUID
    after: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    limit: Limit = 50

    async def answer(self, world: World) -> SealLedgerPage:
        seal = await world.load(seals, self.facility_id)
        events = await world.events(seals, self.facility_id)
        lines = [line(event) for event in events if isinstance(event, SealLedgerExtended)]
        items = [each for each in lines if each.ledger_number > self.after][: self.limit]
        more = bool(items) and items[-1].ledger_number < seal.ledger_length
        return SealLedgerPage(
            items=items,
            next_after=items[-1].ledger_number if more else None,
            ledger_length=seal.ledger_length,
            ledger_head=seal.ledger_head,
        )


def line(event: SealLedgerExtended) -> SealLedgerLine:
    return SealLedgerLine(
        ledger_number=event.ledger_number,
        entry=event.entry,
        artifact_id=event.artifact_id,
        content_hash=event.content_hash,
        ledger_head=event.ledger_head,
    )


class SealCheckResult(StrEnum):
    """`Skipped`: there is nothing here to check it by."""

    PASSED = "Passed"
    FAILED = "Failed"
    SKIPPED = "Skipped"


class SealCheck(Value):
    """What a check found; the first bad number is that of a pointer, or of an entry of the ledger."""

    result: SealCheckResult
    first_bad_number: int | None = None


class SealVerification(Value):
    """What holds of a seal: its signatures, the chain of its pointers, its ledger, and the log that they cover."""

    signature: SealCheck
    chain: SealCheck
    ledger: SealCheck
    log: SealCheck


SKIPPED = SealCheck(result=SealCheckResult.SKIPPED)


@seals.operation("GET /federation/seals/{facility_id}/verification")
class VerifySeal(Query[SealVerification]):
    """Work out anew all that a seal's pointers say, from the beginning."""

    facility_id: UUID

    async def answer(self, world: World) -> SealVerification:
        seal = await world.load(seals, self.facility_id)
        events = await world.events(seals, self.facility_id)
        offline = await world.load(credentials, seal.offline_credential_id)
        pointers = [event for event in events if isinstance(event, SealPointerFact)]
        return SealVerification(
            signature=checked_signatures(pointers, online_keys(events, root_keys(offline))),
            chain=checked_chain(pointers, foreign=seal.foreign),
            ledger=SKIPPED if seal.foreign else checked_ledger(events),
            log=await self._log(world, seal, pointers),
        )

    async def _log(self, world: World, seal: Seal, pointers: Sequence[SealPointerFact]) -> SealCheck:
        if seal.foreign or not pointers:
            return SKIPPED
        signed, unreadable = signed_digests(pointers)
        if any(each.mark.position > MOST_EVENTS for each in signed):
            return SKIPPED
        wrong = [each.number for each in await world.disagreeing(signed)]
        return found([*unreadable, *wrong])


def root_keys(offline: Credential) -> Mapping[str, str]:
    """Every root that the facility ever had, by its id."""
    keys = (offline.current, *offline.retired)
    return {key.key_id: key.public_key for key in keys if key.key_id and key.public_key}


def online_keys(events: Iterable[SealEvent], roots: Mapping[str, str]) -> Mapping[str, str]:
    """The online keys that a root has vouched for, by their ids."""
    keys: dict[str, str] = {}
    for event in events:
        if isinstance(event, SealInitialized | SealOnlineKeyRotated):
            keys |= vouched(event, roots)
    return keys


def vouched(event: SealInitialized | SealOnlineKeyRotated, roots: Mapping[str, str]) -> Mapping[str, str]:
    """The key of a recorded statement, unless no root has signed it."""
    try:
        statement, envelope, pae = opened(event.envelope, SealKeyStatement)
    except InvalidSealEnvelopeError:
        return {}
    [signature] = envelope.signatures
    root = roots.get(signature.keyid)
    if root is None or not signing.verifies(root, signature.octets, pae):
        return {}
    return {statement.key_id: statement.public_key}


def checked_signatures(pointers: Sequence[SealPointerFact], keys: Mapping[str, str]) -> SealCheck:
    """Whether each pointer says what its envelope does, signed with a key that a root has vouched for."""
    return _checked(pointers, lambda event, _: as_signed(event, keys))


def checked_chain(pointers: Sequence[SealPointerFact], *, foreign: bool) -> SealCheck:
    """Whether the numbers rise and each pointer names the one before; of a Peer's some may be missing here."""

    def follows(event: SealPointerFact, before: SealPointerFact | None) -> bool:
        number, named = event.sequence_number, event.previous_pointer_hash
        last = before.sequence_number if before else 0
        linked = named == (before and pointer_hash(before.envelope))
        return number > last and (linked or (foreign and number > last + 1))

    return _checked(pointers, follows)


def _checked(
    pointers: Sequence[SealPointerFact], holds: Callable[[SealPointerFact, SealPointerFact | None], bool]
) -> SealCheck:
    """Each pointer with the one before it."""
    if not pointers:
        return SKIPPED
    pairs = zip(pointers, (None, *pointers), strict=False)
    return found(event.sequence_number for event, before in pairs if not holds(event, before))


def checked_ledger(events: Iterable[SealEvent]) -> SealCheck:
    """Whether each head follows from the one before, and each pointer has the head of its time."""
    heads, bad, length = [NOTHING], list[int](), 0
    for event in events:
        if isinstance(event, SealLedgerExtended):
            length += 1
            heads.append(_head(heads[-1], event))
            if (event.ledger_number, event.ledger_head) != (length, heads[-1]):
                bad.append(length)
        elif isinstance(event, SealPointerSigned) and (event.ledger_length, event.head_hash) != (
            length,
            heads[-1],
        ):
            bad.append(length)
    return found(bad)


def _head(before: str, event: SealLedgerExtended) -> str:
    try:
        return next_head(before, event.entry, event.content_hash)
    except ValueError:
        return ""


def signed_digests(pointers: Iterable[SealPointerFact]) -> tuple[list[SignedDigest], list[int]]:
    """What the pointers say of the log, and the numbers of those that name no place in it."""
    signed: list[SignedDigest] = []
    unreadable: list[int] = []
    for event in pointers:
        try:
            mark = Mark.parse(event.log_position)
        except InvalidConsistencyTokenError:
            unreadable.append(event.sequence_number)
        else:
            signed.append(SignedDigest(event.sequence_number, mark, event.log_digest))
    return signed, unreadable


def found(bad: Iterable[int]) -> SealCheck:
    first = min(bad, default=None)
    if first is None:
        return SealCheck(result=SealCheckResult.PASSED)
    return SealCheck(result=SealCheckResult.FAILED, first_bad_number=first)
