"""The enclosures of a start or resume: which of them are not Permitted-and-Active, and what helps."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from beamwright.kernel.observing import Contacts, fresh
from beamwright.kernel.value import Value

from .enclosure import Enclosure, EnclosureLifecycle, PermitStatus


class EnclosureFailure(Value):
    """An enclosure that refuses the start; without a name it does not exist."""

    enclosure_id: UUID
    name: str | None = None
    permit_status: PermitStatus | None = None
    lifecycle: EnclosureLifecycle | None = None
    fresh: bool = False


def failing_enclosures(
    ids: Collection[UUID],
    found: Mapping[UUID, Enclosure],
    contacts: Contacts,
    now: datetime,
    limit: timedelta,
) -> list[EnclosureFailure]:
    """Every one of `ids` that is missing, Decommissioned, not Permitted or not heard within `limit`."""
    judged = [
        _judged(id, found.get(id), heard=fresh(contacts.get(id), now, limit)) for id in sorted(set(ids))
    ]
    return [failure for failure in judged if not _passes(failure)]


def _judged(id: UUID, enclosure: Enclosure | None, *, heard: bool) -> EnclosureFailure:
    if enclosure is None:
        return EnclosureFailure(enclosure_id=id)
    return EnclosureFailure(
        enclosure_id=id,
        name=enclosure.name,
        permit_status=enclosure.permit_status,
        lifecycle=enclosure.lifecycle,
        fresh=heard,
    )


def _passes(judged: EnclosureFailure) -> bool:
    return (
        judged.lifecycle is EnclosureLifecycle.ACTIVE
        and judged.permit_status is PermitStatus.PERMITTED
        and judged.fresh
    )


def advice(failure: EnclosureFailure) -> str:
    """The way out of a failure, in a sentence."""
    if failure.name is None:
        return f"Enclosure {failure.enclosure_id} does not exist; place_asset what is located there."
    if failure.lifecycle is EnclosureLifecycle.DECOMMISSIONED:
        return f"{failure.name} is Decommissioned; place_asset what is located there elsewhere."
    if not failure.fresh:
        return f"{failure.name} is {failure.permit_status}, but its source is not heard; see its contact."
    if failure.permit_status is PermitStatus.NOT_PERMITTED:
        return f"{failure.name} is NotPermitted; the interlock system must give its permit."
    return f"{failure.name} is Unknown; its source reports neither of the permit's two values."
