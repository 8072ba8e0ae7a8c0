"""The supplies of a start or resume: which needed kinds no supply in scope serves, and what helps."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from uuid import UUID

from beamwright.kernel.observing import Contact, Contacts, fresh
from beamwright.kernel.value import Value

from .supply import Supply, SupplyStatus

WAYS_OUT = {
    SupplyStatus.UNKNOWN: "mark_supply_available",
    SupplyStatus.DEGRADED: "restore_supply",
    SupplyStatus.RECOVERING: "restore_supply",
    SupplyStatus.UNAVAILABLE: "mark_supply_recovering, then restore_supply",
}


class SupplyScope(Value):
    """Where a supply counts: the assets of the scope, and the facilities that are or cover theirs."""

    asset_ids: frozenset[UUID]
    facility_codes: frozenset[str]

    def holds(self, supply: Supply) -> bool:
        """A supply inside an asset beyond the scope never counts."""
        return (
            supply.status is not SupplyStatus.DECOMMISSIONED
            and supply.facility_code in self.facility_codes
            and (supply.containing_asset_id is None or supply.containing_asset_id in self.asset_ids)
        )


class SupplyMet(Value):
    """A supply in scope as it was met; `fresh` only where it is watched."""

    supply_id: UUID
    name: str
    status: SupplyStatus
    fresh: bool | None = None

    @property
    def serving(self) -> bool:
        return self.status is SupplyStatus.AVAILABLE and self.fresh is not False


class SupplyFailure(Value):
    """A needed kind that nothing serves; without supplies there is none in scope."""

    kind: str
    supplies: tuple[SupplyMet, ...]
    advice: str


def failing_supplies(
    kinds: Collection[str],
    found: Iterable[Supply],
    scope: SupplyScope,
    contacts: Contacts,
    now: datetime,
    limit: timedelta,
) -> list[SupplyFailure]:
    """The needed kinds, sorted, of which no supply in scope serves."""
    in_scope = sorted((supply for supply in found if scope.holds(supply)), key=lambda supply: supply.id)
    failures: list[SupplyFailure] = []
    for kind in sorted(set(kinds)):
        of_kind = [supply for supply in in_scope if supply.kind == kind]
        met = tuple(_met(supply, contacts.get(supply.id), now, limit) for supply in of_kind)
        if not any(each.serving for each in met):
            ways = [
                way_out(supply, each, contacts.get(supply.id))
                for supply, each in zip(of_kind, met, strict=True)
            ]
            failures.append(SupplyFailure(kind=kind, supplies=met, advice=" ".join(ways) or _none(kind)))
    return failures


def _met(supply: Supply, contact: Contact | None, now: datetime, limit: timedelta) -> SupplyMet:
    return SupplyMet(
        supply_id=supply.id,
        name=supply.name,
        status=supply.status,
        fresh=fresh(contact, now, limit) if supply.watched else None,
    )


def _none(kind: str) -> str:
    return (
        f"No supply of kind {kind} serves this scope; register_supply for its facility or one of its assets."
    )


def way_out(supply: Supply, met: SupplyMet, contact: Contact | None) -> str:
    """What makes a supply serve that does not, in a sentence or two."""
    sentences: list[str] = []
    if met.status in WAYS_OUT:
        sentences.append(f"{met.name} is {met.status}: {WAYS_OUT[met.status]}.")
    if supply.status_source is not None and not met.fresh:
        source, error = supply.status_source, contact.last_error if contact else None
        sentences.append(
            f"{met.name} is not heard at {source.source_kind} {source.source_id}: {error or 'nothing came of late'}."
        )
    return " ".join(sentences)
