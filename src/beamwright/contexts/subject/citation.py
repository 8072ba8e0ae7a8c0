"""How a record is cited: its creators, year and license, and how far its persistent identifier has come."""

import re
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.value import Time, Value, replace

MOST_CREATORS = 100
MOST_AFFILIATIONS = 5
FIRST_YEAR = 1900
MOST_YEARS_AHEAD = 5
ROR = r"^https://ror\.org/0[a-z0-9]{8}$"
LICENSE = r"^[A-Za-z0-9.+-]{1,100}$"

type AffiliationName = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 200, "x-may-contain-personal-data": True})
]
type PublicationYear = Annotated[int, Meta(ge=1, le=9999)]
type License = Annotated[str, Meta(description="SPDX license id", extra_json_schema={"pattern": LICENSE})]


class IdentifierStatus(StrEnum):
    """How far a record's persistent identifier has come."""

    NOT_REQUESTED = "NotRequested"
    REQUESTED = "Requested"
    ASSIGNED = "Assigned"
    FAILED = "Failed"
    TOMBSTONED = "Tombstoned"


class InvalidPublicationYearError(InvalidError):
    """The year of publication lies before 1900 or too far ahead."""


class InvalidLicenseError(InvalidError):
    """The license is not written as an SPDX id."""


class Affiliation(Value):
    """An organisation that a creator belongs to, with its address in the Research Organization Registry."""

    name: AffiliationName
    ror: Annotated[str, Meta(extra_json_schema={"pattern": ROR})] | None = None


class Creator(Value):
    """An actor to whom a record is credited; the name is joined from the profile store."""

    actor_id: UUID
    affiliations: tuple[Affiliation, ...] = ()


class Citation(Value):
    """What a record's identifier request says of how the record is cited."""

    creators: tuple[Creator, ...]
    publication_year: int
    license: str | None
    requested_at: Time


def checked_creators(creators: Sequence[Creator], refusal: type[InvalidError]) -> tuple[Creator, ...]:
    """The creators in publication order, each actor once."""
    if not 1 <= len(creators) <= MOST_CREATORS:
        raise refusal(f"Name 1 to {MOST_CREATORS} creators, not {len(creators)}.", most=MOST_CREATORS)
    ids = [creator.actor_id for creator in creators]
    if twice := sorted({str(id) for id in ids if ids.count(id) > 1}):
        raise refusal("Name each creator once.", actor_ids=twice)
    return tuple(
        replace(creator, affiliations=_checked_affiliations(creator, refusal)) for creator in creators
    )


def _checked_affiliations(creator: Creator, refusal: type[InvalidError]) -> tuple[Affiliation, ...]:
    if len(creator.affiliations) > MOST_AFFILIATIONS:
        raise refusal(
            f"A creator has at most {MOST_AFFILIATIONS} affiliations.", actor_id=str(creator.actor_id)
        )
    return tuple(
        Affiliation(
            name=text.name(each.name, refusal, "affiliation"),
            ror=None if each.ror is None else text.code(each.ror, ROR, refusal, "ROR"),
        )
        for each in creator.affiliations
    )


def checked_publication_year(year: int | None, now: datetime) -> int:
    """The year, this one unless given."""
    if year is None:
        return now.year
    last = now.year + MOST_YEARS_AHEAD
    if not FIRST_YEAR <= year <= last:
        raise InvalidPublicationYearError(
            f"A record is published between {FIRST_YEAR} and {last}.", first=FIRST_YEAR, last=last
        )
    return year


def checked_license(license: str | None, refusal: type[InvalidError] = InvalidLicenseError) -> str | None:
    if license is None:
        return None
    if not re.fullmatch(LICENSE, license.strip()):
        raise refusal("Give the license as its SPDX id, for example CC-BY-4.0.", pattern=LICENSE)
    return license.strip()
